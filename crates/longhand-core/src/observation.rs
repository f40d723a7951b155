//! Text-action agents put what their tools say into user turns.

use crate::{Message, Part, Role, Text};

/// Finds what tools said in user turns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observations<'m> {
    messages: &'m [Message],
    /// Whether nobody calls tools the way that providers offer.
    acts_in_text: bool,
}

impl<'m> Observations<'m> {
    pub(crate) fn of(messages: &'m [Message]) -> Self {
        let acts_in_text = messages.iter().all(|message| message.calls().next().is_none());
        Self { messages, acts_in_text }
    }

    /// The text of a user turn that is recognisably the output of the command that the assistant's turn
    /// before it ended with.
    pub(crate) fn at(&self, message: usize) -> Option<&'m Text> {
        let before = &self.messages[message.checked_sub(1)?];
        let message = &self.messages[message];
        let [Part::Text(text)] = message.parts.as_slice() else { return None };
        if !self.acts_in_text || message.role != Role::User || !acts_in_text(before) {
            return None;
        }
        reads_like_output(&text.decode()).then_some(text)
    }
}

/// Whether an assistant message ends with an action written as text.
pub fn acts_in_text(message: &Message) -> bool {
    if message.role != Role::Assistant {
        return false;
    }
    let [.., Part::Text(text)] = message.parts.as_slice() else { return false };
    let text = text.decode();
    let text = text.trim_end();
    text.ends_with("```")
        || text.ends_with('>')
        || text.lines().rev().take(6).any(|line| {
            let line = line.trim_start();
            ["Action:", "Action Input:", "ACTION:", "<function", "<tool", "<execute", "$ "]
                .iter()
                .any(|mark| line.starts_with(mark))
        })
}

/// Whether a text has the marks of a program's output rather than a person's words.
pub fn reads_like_output(text: &str) -> bool {
    let start = text.trim_start();
    let opens = [
        "Observation",
        "OBSERVATION",
        "[File:",
        "Output",
        "OUTPUT",
        "<output",
        "<returncode",
        "<observation",
        "<tool_result",
        "<result",
        "<function_results",
        "Exit code",
        "Traceback",
        "Tool ",
        "Execution",
        "EXECUTION",
        "STDOUT",
        "stdout",
        "$ ",
    ];
    if opens.iter().any(|mark| start.starts_with(mark)) {
        return true;
    }
    let end = text.trim_end();
    if end.ends_with('$')
        || end.ends_with("</output>")
        || end.ends_with('#')
        || end.contains("(Current directory:")
    {
        return true;
    }
    // Lines that look printed: numbered, indented, or with a path and a colon.
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).take(200).collect();
    let printed = lines.iter().filter(|line| is_printed(line)).count();
    lines.len() >= 6 && printed * 2 > lines.len()
}

fn is_printed(line: &str) -> bool {
    let numbered = line
        .trim_start()
        .split([':', ' ', '|', '\t'])
        .next()
        .is_some_and(|word| !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit()));
    let path = line.split(':').next().is_some_and(|word| word.contains('/') && !word.contains(' '));
    numbered
        || path
        || line.starts_with("    ")
        || line.starts_with('\t')
        || line.starts_with(['+', '-', '/', '<', '{', '}'])
}
