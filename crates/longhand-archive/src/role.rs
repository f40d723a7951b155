//! Which roles a message may have, as far as that can be told without reading it.
//!
//! What role it has is for those to say who know its format. Search leaves out what cannot have the role that is asked
//! for, so that few messages are read for the others.

use longhand_core::Role;
use memchr::memmem;

/// All roles.
pub(crate) const ROLES: [Role; 4] = [Role::System, Role::User, Role::Assistant, Role::Tool];

/// Says whether a message may have a role; if in doubt, it may.
pub(crate) fn may_have(form: &str, raw: &str, role: Role) -> bool {
    let has = |word: &str| memmem::find(raw.as_bytes(), word.as_bytes()).is_some();
    match form {
        "trace" | "call" | "note" => return role == Role::Tool,
        "chat" | "anthropic" => {}
        // Items without a role have one all the same, by their type.
        _ if !has("\"role\"") => return true,
        _ if role == Role::Tool && (has("output") || has("ool")) => return true,
        _ => {}
    }
    match role {
        Role::System => has("\"system\"") || has("\"developer\""),
        Role::Assistant => has("\"assistant\""),
        Role::Tool => has("\"tool\"") || has("\"function\"") || has("\"tool_result\""),
        // Where no role is given, it is the user's.
        Role::User => {
            has("\"user\"")
                || !ROLES[..1].iter().chain(&ROLES[2..]).any(|other| may_have(form, raw, *other))
        }
    }
}

/// The role that a message most likely has, for ranking.
pub(crate) fn likely(form: &str, raw: &str) -> Option<Role> {
    if matches!(form, "trace" | "call" | "note") {
        return Some(Role::Tool);
    }
    let has = |word: &str| memmem::find(raw.as_bytes(), word.as_bytes()).is_some();
    if ["\"tool_result\"", "\"tool_call_id\"", "\"function_call_output\""].into_iter().any(has) {
        return Some(Role::Tool);
    }
    let names = [
        ("\"user\"", Role::User),
        ("\"assistant\"", Role::Assistant),
        ("\"tool\"", Role::Tool),
        ("\"system\"", Role::System),
    ];
    // Inside of texts, quotes are escaped.
    let is_named = |name: &str| {
        ["\"role\":", "\"role\": "].into_iter().any(|key| has(&format!("{key}{name}")))
    };
    names.into_iter().find(|(name, _)| is_named(name)).map(|(_, role)| role)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(form: &str, raw: &str, expected: &str) {
        let roles = ROLES.into_iter().filter(|role| may_have(form, raw, *role));
        let roles: Vec<&str> = roles.map(Role::as_str).collect();
        assert_eq!(roles.join(" "), expected, "{raw}");
    }

    #[test]
    fn roles_are_told_by_the_words_for_them() {
        check("chat", r#"{"role": "user", "content": "the \"system\" is down"}"#, "user");
        check("chat", r#"{"role":"developer","content":"be brief"}"#, "system");
        check("chat", r#"{"role":"tool","tool_call_id":"1","content":"ok"}"#, "tool");
        check("anthropic", r#"{"role":"user","content":[{"type":"tool_result"}]}"#, "user tool");
        check("responses", r#"{"type":"function_call","name":"x"}"#, "system user assistant tool");
        check("responses", r#"{"type":"message","role":"assistant","content":[]}"#, "assistant");
        check("trace", "read: ok", "tool");
        check("chat", r#"{"content":"?"}"#, "user");
    }

    #[test]
    fn the_likely_role_is_the_one_that_is_named() {
        for (raw, expected) in [
            (r#"{"role":"user","content":"the \"role\":\"tool\" is"}"#, Some(Role::User)),
            (r#"{"role": "assistant", "content": "x"}"#, Some(Role::Assistant)),
            (r#"{"role":"user","content":[{"type":"tool_result"}]}"#, Some(Role::Tool)),
            (r#"{"content":"?"}"#, None),
        ] {
            assert_eq!(likely("chat", raw), expected, "{raw}");
        }
        assert_eq!(likely("trace", ""), Some(Role::Tool));
    }
}
