//! Agents that act by text: a command in the reply, its output in the next user message.

use std::fmt::Write as _;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::text::{WORDS, text};
use crate::json::{Json, JsonLayout, object};

pub(super) fn conversation() -> impl Strategy<Value = String> {
    let turns = vec((text(), select(COMMANDS), observation()), 0..14);
    let ending = option::of(text());
    (option::of(text()), text(), turns, ending, any::<bool>()).prop_map(
        |(system, task, turns, ending, pretty)| {
            let mut messages: Vec<Json> =
                system.iter().map(|system| message("system", system)).collect();
            messages.push(message("user", &task));
            for (thought, command, observation) in turns {
                let reply = format!("{thought}\n\n```bash\n{command}\n```");
                messages.push(message("assistant", &reply));
                messages.push(message("user", &observation));
            }
            messages.extend(ending.iter().map(|ending| message("assistant", ending)));
            Json::Array(messages).to_text(JsonLayout { pretty, escaped: false })
        },
    )
}

fn message(role: &'static str, text: &str) -> Json {
    object([("role", role.into()), ("content", text.into())])
}

/// Shell output of 1 to 6 KB with the prompt at its end.
fn observation() -> impl Strategy<Value = String> {
    let line = vec(select(WORDS), 3..9).prop_map(|words| words.join(" "));
    (vec(line, 3..9), 1_000..6_000_usize, select(DIRECTORIES)).prop_map(
        |(lines, length, directory)| {
            let mut shown = String::with_capacity(length + 200);
            for (line, number) in lines.iter().cycle().zip(1..) {
                let file = number % 7;
                let _ = writeln!(shown, "{directory}/file_{file}.py:{number}:    {line}");
                if shown.len() >= length {
                    break;
                }
            }
            format!("{shown}(Open file: n/a)\n(Current directory: {directory})\nbash-$")
        },
    )
}

const DIRECTORIES: &[&str] = &["/repo", "/repo/src", "/repo/tests/unit"];

const COMMANDS: &[&str] = &[
    "ls -la",
    "grep -rn \"def parse\" src | head -40",
    "cat src/fields.py",
    "python -m pytest tests/unit -q",
    "edit 12:18\n    return round(value, 2)\nend_of_edit",
    "git diff --stat",
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use crate::arbitrary::text_action_json;

    proptest! {
        #[test]
        fn commands_and_observations_alternate(text in text_action_json()) {
            let messages: Vec<Value> = serde_json::from_str(&text).unwrap();
            let said: Vec<&Value> = messages.iter().filter(|m| m["role"] != "system").collect();
            for (place, message) in said.iter().enumerate() {
                let role = if place % 2 == 0 { "user" } else { "assistant" };
                prop_assert_eq!(&message["role"], role);
                if place % 2 == 0 && place > 0 {
                    let length = message["content"].as_str().unwrap().len();
                    prop_assert!((1_000..6_500).contains(&length), "{}", length);
                }
            }
        }
    }
}
