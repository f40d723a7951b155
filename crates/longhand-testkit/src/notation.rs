//! The transcript notation of the tests: a conversation in one line.

use serde_json::{Value, json};

use crate::filler;

/// Turns `"u fix it | a call:read#1 | t #1 900tk | a done"` into a Chat Completions array.
///
/// Turns are separated by a bar between spaces:
///
/// - `s TEXT`, `u TEXT`, `a TEXT`: a message of system, user or assistant
/// - `a TEXT call:NAME#ID call:NAME#ID{"some": "arguments"}`: an assistant message with calls; the
///   text may be missing, arguments are `{}` unless given
/// - `t #ID TEXT`: the result of a call, whose id on the wire is `call_ID`
///
/// In a text, the word `900tk` stands for 900 words of one token each, and `300ch` for 300
/// characters. The conversation may be invalid: a test may want it so.
///
/// # Panics
///
/// If the notation cannot be read.
///
/// ```
/// let chat = longhand_testkit::notation::chat("u hi | a call:ls#1 | t #1 a.txt");
/// assert!(chat.starts_with(r#"[{"role":"user","content":"hi"},{"role":"assistant","content":null"#));
/// ```
pub fn chat(notation: &str) -> String {
    let turns = notation.trim();
    if turns.is_empty() {
        return "[]".to_owned();
    }
    let mut writer = NotationWriter { fillers: 0 };
    Value::Array(split_turns(turns).into_iter().map(|turn| writer.message(turn)).collect())
        .to_string()
}

/// Cuts at bars that have white space on both sides.
fn split_turns(notation: &str) -> Vec<&str> {
    let mut turns = Vec::new();
    let mut start = 0;
    for (bar, _) in notation.match_indices('|') {
        let (before, after) = (&notation[..bar], &notation[bar + 1..]);
        if before.ends_with(char::is_whitespace) && after.starts_with(char::is_whitespace) {
            turns.push(notation[start..bar].trim());
            start = bar + 1;
        }
    }
    turns.push(notation[start..].trim());
    turns
}

struct NotationWriter {
    /// Numbers the fillers, so that no two of them are alike.
    fillers: u64,
}

impl NotationWriter {
    fn message(&mut self, turn: &str) -> Value {
        let (letter, rest) = turn.split_once(char::is_whitespace).unwrap_or((turn, ""));
        let rest = rest.trim();
        match letter {
            "s" => json!({ "role": "system", "content": self.required_text(rest, turn) }),
            "u" => json!({ "role": "user", "content": self.required_text(rest, turn) }),
            "a" => self.assistant(rest, turn),
            "t" => self.tool(rest, turn),
            _ => panic!("notation: a turn begins with s, u, a or t, but this one is {turn:?}"),
        }
    }

    fn assistant(&mut self, rest: &str, turn: &str) -> Value {
        let Some(first_call) = find_word(rest, "call:") else {
            return json!({ "role": "assistant", "content": self.required_text(rest, turn) });
        };
        let (text, calls) = rest.split_at(first_call);
        let content = match text.trim() {
            "" => Value::Null,
            text => Value::String(self.fill(text)),
        };
        json!({ "role": "assistant", "content": content, "tool_calls": read_calls(calls, turn) })
    }

    fn tool(&mut self, rest: &str, turn: &str) -> Value {
        let (id, text) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let Some(id) = id.strip_prefix('#').filter(|id| !id.is_empty()) else {
            panic!("notation: a tool result is `t #ID TEXT`, but this one is {turn:?}");
        };
        json!({
            "role": "tool",
            "tool_call_id": format!("call_{id}"),
            "content": self.fill(text.trim()),
        })
    }

    fn required_text(&mut self, text: &str, turn: &str) -> String {
        assert!(!text.is_empty(), "notation: this turn has no text: {turn:?}");
        self.fill(text)
    }

    /// Replaces the words that stand for a filler.
    fn fill(&mut self, text: &str) -> String {
        text.split(' ').map(|word| self.filler(word)).collect::<Vec<_>>().join(" ")
    }

    fn filler(&mut self, word: &str) -> String {
        let size = |unit| word.strip_suffix(unit).and_then(|digits| digits.parse().ok());
        self.fillers += 1;
        if let Some(count) = size("tk") {
            filler::words(count, self.fillers)
        } else if let Some(count) = size("ch") {
            filler::characters(count, self.fillers)
        } else {
            word.to_owned()
        }
    }
}

/// Finds where a word begins with the given letters.
fn find_word(text: &str, start: &str) -> Option<usize> {
    let mut places = text.match_indices(start).map(|(at, _)| at);
    places.find(|&at| at == 0 || text[..at].ends_with(char::is_whitespace))
}

fn read_calls(mut rest: &str, turn: &str) -> Vec<Value> {
    let mut calls = Vec::new();
    while !rest.is_empty() {
        let (call, after) = read_call(rest, turn);
        calls.push(call);
        rest = after.trim_start();
    }
    calls
}

fn read_call<'a>(text: &'a str, turn: &str) -> (Value, &'a str) {
    let parts = text.strip_prefix("call:").and_then(|call| call.split_once('#'));
    let Some((name, rest)) = parts else {
        panic!("notation: after a call come only calls, `call:NAME#ID`, but not in {turn:?}");
    };
    let end = rest.find(|c: char| !is_id(c)).unwrap_or(rest.len());
    let (id, rest) = rest.split_at(end);
    assert!(
        !name.is_empty() && name.chars().all(is_id) && !id.is_empty(),
        "notation: a call is `call:NAME#ID`, but not in {turn:?}",
    );
    let (arguments, rest) =
        if rest.starts_with('{') { split_object(rest, turn) } else { ("{}", rest) };
    let function = json!({ "name": name, "arguments": arguments });
    (json!({ "id": format!("call_{id}"), "type": "function", "function": function }), rest)
}

fn is_id(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// Cuts after the JSON object that the text begins with.
fn split_object<'a>(text: &'a str, turn: &str) -> (&'a str, &'a str) {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    match values.next() {
        Some(Ok(Value::Object(_))) => text.split_at(values.byte_offset()),
        _ => panic!("notation: the arguments are not a JSON object in {turn:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(notation: &str, expected: &Value) {
        let read: Value = serde_json::from_str(&chat(notation)).unwrap();
        assert_eq!(read, *expected, "{notation}");
    }

    fn call(id: &str, name: &str, arguments: &str) -> Value {
        json!({
            "id": id,
            "type": "function",
            "function": { "name": name, "arguments": arguments },
        })
    }

    #[test]
    fn plain_turns() {
        check("", &json!([]));
        check(
            "s be brief | u a|b, or a || b? |\n a both",
            &json!([
                { "role": "system", "content": "be brief" },
                { "role": "user", "content": "a|b, or a || b?" },
                { "role": "assistant", "content": "both" },
            ]),
        );
    }

    #[test]
    fn calls_with_and_without_text_and_arguments() {
        check(
            r#"a call:read#1 | t #1 ok | a two at once call:ls#a-2{"path": "x y", "n": 1.0} call:ls#3 | t #3"#,
            &json!([
                { "role": "assistant", "content": null, "tool_calls": [call("call_1", "read", "{}")] },
                { "role": "tool", "tool_call_id": "call_1", "content": "ok" },
                {
                    "role": "assistant",
                    "content": "two at once",
                    "tool_calls": [
                        call("call_a-2", "ls", r#"{"path": "x y", "n": 1.0}"#),
                        call("call_3", "ls", "{}"),
                    ],
                },
                { "role": "tool", "tool_call_id": "call_3", "content": "" },
            ]),
        );
    }

    #[test]
    fn users_may_talk_about_calls() {
        check(
            "u what is call:x#1 ?",
            &json!([{ "role": "user", "content": "what is call:x#1 ?" }]),
        );
    }

    #[test]
    fn fillers_have_their_size_and_differ() {
        let read: Value = serde_json::from_str(&chat("u see 900tk | a 300ch | u 300ch")).unwrap();
        let text = |n: usize| read[n]["content"].as_str().unwrap();
        assert_eq!(text(0).split(' ').count(), 901);
        assert!(text(0).starts_with("see "));
        assert_eq!(text(1).len(), 300);
        assert_ne!(text(1), text(2));
    }

    #[test]
    fn bad_notation_is_named() {
        for (notation, message) in [
            ("x hello", "begins with s, u, a or t"),
            ("u fine | u", "has no text"),
            ("a", "has no text"),
            ("t 1 ok", "`t #ID TEXT`"),
            ("a call:read", "`call:NAME#ID`"),
            ("a call:read# x", "`call:NAME#ID`"),
            ("a call:read#1 and more", "only calls"),
            ("a call:read#1{nonsense}", "not a JSON object"),
        ] {
            let panic = std::panic::catch_unwind(|| chat(notation)).unwrap_err();
            let said = panic
                .downcast_ref::<String>()
                .cloned()
                .unwrap_or_else(|| (*panic.downcast_ref::<&str>().unwrap()).to_owned());
            assert!(said.contains(message), "{notation:?} gave {said:?}");
        }
    }
}
