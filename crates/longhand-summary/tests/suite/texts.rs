//! A work log of texts of every kind.

use longhand_core::{Message, Part, Role, Scale, Text, Tokens, ToolCall, ToolResult, json};
use longhand_meter::{Chars, CharsPerToken};
use longhand_summary::{Log, accept, user_words};
use longhand_testkit::texts::{Taker, call_all, seen};

#[test]
fn no_text_is_too_odd() {
    call_all(TAKERS);
}

const TAKERS: &[Taker] = &[
    ("accept", |text| seen(accept(text, Tokens(10), Tokens(5), &Scale::new(&meter())))),
    ("Log::carry", |text| {
        let mut log = Log::default();
        log.carry(text);
        pages(&log);
    }),
    ("Log::parse", |text| pages(&Log::parse(text))),
    ("Log::read", |text| {
        let mut log = Log::default();
        let messages = messages(text);
        log.read(&messages.iter().collect::<Vec<_>>());
        log.read_trace(text, text);
        pages(&log);
        assert_eq!(Log::parse(&log.write()).write(), log.write());
    }),
    ("Log::tell", |text| {
        let mut log = Log::default();
        log.tell(3, text);
        seen(log.story());
        pages(&log);
    }),
    ("user_words", |text| seen(user_words(text))),
];

fn meter() -> Chars {
    Chars::new("4".parse::<CharsPerToken>().unwrap())
}

fn pages(log: &Log) {
    let meter = meter();
    let scale = Scale::new(&meter);
    for limit in [0, 7, 60, 700, 9_000] {
        let text = log.page(&[], &[], Tokens(limit), &scale).text;
        assert!(scale.text(&text) <= Tokens(limit));
    }
}

/// A conversation that has a text wherever one can stand.
fn messages(text: &str) -> Vec<Message> {
    let prose = |role| Message::new(role, None, vec![Part::Text(text.into())], text.into());
    let mut messages = vec![prose(Role::System), prose(Role::User), prose(Role::Assistant)];
    for (tool, key) in
        [("Read", "file_path"), ("Bash", "command"), ("Edit", "new_string"), ("look", "query")]
    {
        let arguments = format!("{{\"path\":\"a.rs\",\"{key}\":{}}}", json::quote(text));
        for freeform in [false, true] {
            let arguments: Text = if freeform { text.into() } else { arguments.as_str().into() };
            let call = ToolCall { id: "1".into(), name: tool.into(), arguments, freeform };
            let result = ToolResult {
                call: "1".into(),
                content: vec![Part::Text(text.into())],
                raw: text.into(),
                error: freeform,
                fixed: false,
                loads_tools: false,
            };
            messages.push(Message::new(Role::Assistant, None, vec![Part::Call(call)], "".into()));
            messages.push(Message::new(Role::Tool, None, vec![Part::Result(result)], "".into()));
        }
    }
    messages.push(prose(Role::User));
    messages
}
