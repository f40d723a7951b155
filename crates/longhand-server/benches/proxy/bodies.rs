//! Requests of sessions that grow.

use hyper::body::Bytes;
use serde_json::{Value, json};

use crate::upstream::ANSWER;

/// The requests of a chat one after the other: some 4 KB at first, 12 KB at last.
pub(crate) fn small(session: usize) -> Vec<Bytes> {
    const TURNS: usize = 17;
    let opening = format!("Session {session}: {}", "we \"talk\" about\nthe work. ".repeat(140));
    let mut messages = vec![json!({"role": "system", "content": "Be brief."})];
    messages.push(json!({"role": "user", "content": opening}));
    let mut bodies = Vec::new();
    for turn in 0..TURNS {
        bodies.push(body(&messages));
        messages.push(json!({"role": "assistant", "content": ANSWER}));
        let more = format!("Question {turn} of {session}: {}", "what is next?\n".repeat(25));
        messages.push(json!({"role": "user", "content": more}));
    }
    bodies
}

/// A tool loop of about a megabyte that grows by a step with each request.
pub(crate) struct Large {
    messages: Vec<Value>,
    steps: usize,
}

impl Large {
    pub(crate) fn new() -> Self {
        let mut messages =
            vec![json!({"role": "system", "content": "You are a careful engineer."})];
        messages.push(json!({"role": "user", "content": "Find out why the build fails."}));
        let mut large = Self { messages, steps: 0 };
        while large.steps < 380 {
            large.grow();
        }
        large
    }

    pub(crate) fn grow(&mut self) {
        let step = self.steps;
        self.steps += 1;
        let id = format!("call_{step}");
        let line =
            format!("    let value_{step} = \"a\\tb\"; // \"quoted\" in src/file_{step}.rs\n");
        let arguments = json!({"path": format!("src/file_{step}.rs"), "old": line.repeat(3), "new": line.repeat(4)});
        let function = json!({"name": "edit", "arguments": arguments.to_string()});
        let call = json!({"id": id, "type": "function", "function": function});
        let words = format!("I change file {step}.");
        self.messages.push(json!({"role": "assistant", "content": words, "tool_calls": [call]}));
        let output =
            format!("{step}: error[E0308]: mismatched types\n\t--> \"src/file_{step}.rs\"\n");
        self.messages
            .push(json!({"role": "tool", "tool_call_id": id, "content": output.repeat(22)}));
    }

    pub(crate) fn body(&self) -> Bytes {
        body(&self.messages)
    }
}

fn body(messages: &[Value]) -> Bytes {
    json!({"model": "bench", "max_tokens": 100, "messages": messages}).to_string().into()
}
