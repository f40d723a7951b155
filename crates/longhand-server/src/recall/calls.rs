//! Calls in an answer, and the request that answers them.

use longhand_core::json::quote;
use longhand_dialect::{Dialect, Reply};

use super::{NAME, json};

/// A call of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) id: String,
    /// A JSON object, if the model got it right.
    pub(super) arguments: String,
}

/// What an answer calls.
#[derive(Debug, Default)]
pub(super) struct Calls {
    pub(super) ours: Vec<Call>,
    /// Whether it waits for something of the client, too.
    pub(super) others: bool,
}

impl Calls {
    pub(super) fn of(dialect: Dialect, message: &str) -> Self {
        let mut calls = Self::default();
        for own in json::elements(list(dialect, message).unwrap_or_default()) {
            let arguments = match dialect {
                Dialect::Chat => json::string(own, &["function", "arguments"]),
                Dialect::Anthropic => json::get(own, &["input"]).map(str::to_owned),
                _ => json::string(own, &["arguments"]),
            };
            let id = if dialect == Dialect::Responses { "call_id" } else { "id" };
            if is_ours(own) {
                let id = json::string(own, &[id]).unwrap_or_default();
                calls.ours.push(Call { id, arguments: arguments.unwrap_or_default() });
            } else {
                calls.others |= match dialect {
                    Dialect::Chat => true,
                    Dialect::Anthropic => json::is(own, &["type"], "tool_use"),
                    _ => {
                        json::get(own, &["call_id"]).is_some()
                            || json::is(own, &["type"], "mcp_approval_request")
                    }
                };
            }
        }
        calls
    }
}

/// Whether a call, block or item is a call of ours.
pub(super) fn is_ours(call: &str) -> bool {
    match json::get(call, &["function"]) {
        Some(function) => json::is(function, &["name"], NAME),
        None => {
            json::is(call, &["name"], NAME)
                && ["tool_use", "function_call"].iter().any(|kind| json::is(call, &["type"], kind))
        }
    }
}

/// Where the calls of a message are.
fn list(dialect: Dialect, message: &str) -> Option<&str> {
    match dialect {
        Dialect::Chat => json::get(message, &["tool_calls"]),
        Dialect::Anthropic => json::get(message, &["content"]),
        _ => Some(message),
    }
}

/// What comes after a request: the answer with our calls, and what they brought back.
pub(super) fn exchange(
    dialect: Dialect,
    reply: &Reply,
    results: &[(&Call, String)],
) -> Vec<String> {
    let results = results.iter().map(|(call, text)| {
        let (id, text) = (quote(&call.id), quote(text));
        match dialect {
            Dialect::Chat => format!(r#"{{"role":"tool","tool_call_id":{id},"content":{text}}}"#),
            Dialect::Anthropic => {
                format!(r#"{{"type":"tool_result","tool_use_id":{id},"content":{text}}}"#)
            }
            _ => format!(r#"{{"type":"function_call_output","call_id":{id},"output":{text}}}"#),
        }
    });
    match dialect {
        Dialect::Chat => [reply.message.clone()].into_iter().chain(results).collect(),
        Dialect::Anthropic => {
            let content = json::get(&reply.message, &["content"]).unwrap_or("[]");
            let mut blocks = json::elements(content);
            // A block without words is refused.
            blocks.retain(|block| {
                !json::is(block, &["type"], "text")
                    || json::string(block, &["text"]).is_some_and(|text| !text.trim().is_empty())
            });
            let said = json::with(&reply.message, &["content"], &json::list(&blocks));
            let results = json::list(&results.collect::<Vec<_>>());
            vec![said, format!(r#"{{"role":"user","content":{results}}}"#)]
        }
        _ => {
            let items = json::elements(&reply.message).into_iter().map(str::to_owned);
            items.chain(results).collect()
        }
    }
}

/// The request with more at its end.
pub(super) fn follow_up(dialect: Dialect, request: &str, more: &[String]) -> Option<String> {
    let key = if dialect == Dialect::Responses { "input" } else { "messages" };
    let own = json::get(request, &[key])?;
    let before = if own.starts_with('"') {
        format!(r#"{{"role":"user","content":{own}}}"#)
    } else {
        own.strip_prefix('[')?.strip_suffix(']')?.trim_end().to_owned()
    };
    let comma = if before.trim().is_empty() { "" } else { "," };
    Some(json::with(request, &[key], &format!("[{before}{comma}{}]", more.join(","))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_of_a_request_stays() {
        for (dialect, request, expected) in [
            (Dialect::Chat, r#"{"messages":[ 1 ],"x":1.0}"#, r#"{"messages":[ 1,{}],"x":1.0}"#),
            (
                Dialect::Responses,
                r#"{ "input":"hi"}"#,
                r#"{ "input":[{"role":"user","content":"hi"},{}]}"#,
            ),
            (Dialect::Responses, r#"{"input":[]}"#, r#"{"input":[{}]}"#),
        ] {
            let more = ["{}".to_owned()];
            assert_eq!(follow_up(dialect, request, &more).as_deref(), Some(expected));
        }
    }

    #[test]
    fn ours_are_told_from_others() {
        for (dialect, message, ours, others) in [
            (
                Dialect::Chat,
                r#"{"tool_calls":[{"id":"a","function":{"name":"longhand_recall","arguments":"{}"}}]}"#,
                1,
                false,
            ),
            (
                Dialect::Anthropic,
                r#"{"content":[{"type":"text"},{"type":"tool_use","id":"a","name":"longhand_recall","input":{}},{"type":"tool_use","id":"b","name":"x"}]}"#,
                1,
                true,
            ),
            (
                Dialect::Responses,
                r#"[{"type":"reasoning"},{"type":"function_call","call_id":"a","name":"longhand_recall","arguments":"{}"},{"type":"web_search_call"}]"#,
                1,
                false,
            ),
            (Dialect::Responses, r#"[{"type":"local_shell_call","call_id":"b"}]"#, 0, true),
        ] {
            let calls = Calls::of(dialect, message);
            assert_eq!((calls.ours.len(), calls.others), (ours, others), "{message}");
            if let [call] = &calls.ours[..] {
                assert_eq!(*call, Call { id: "a".into(), arguments: "{}".into() });
            }
        }
    }
}
