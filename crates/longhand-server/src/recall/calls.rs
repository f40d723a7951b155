//! Calls in an answer.

use longhand_dialect::Dialect;

use super::{NAME, json};

/// What an answer calls.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// The arguments of calls of ours: JSON objects, if the model got them right.
    pub(super) ours: Vec<String>,
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
            if is_ours(own) {
                calls.ours.push(arguments.unwrap_or_default());
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

#[cfg(test)]
mod tests {
    use super::*;

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
            assert!(calls.ours.iter().all(|arguments| arguments == "{}"));
        }
    }
}
