//! Every function that takes text, called with texts of every kind.

use longhand_testkit::texts::{Taker, call_all, seen};

use crate::anchor::{
    Miner, Pattern, check_of, failure_line, identifiers, is_check_tool, patched, printed, ranked,
    runs, sentences, statements, telling_line, verdict_line,
};
use crate::clip::{clip_least, clip_to};
use crate::json::{JsonCursor, quote, quoted_len, strings_of_object};
use crate::stub::{clean, describe_call, is_bulky, is_ours, stub_arguments};
use crate::{
    Arguments, Handle, Meaning, Message, ModelName, Part, Role, Text, ToolCall, ToolResult,
    acts_in_text, cut, is_fold, reads_like_output, undated, unescape,
};

#[test]
fn no_text_is_too_odd() {
    call_all(TAKERS);
}

const TAKERS: &[Taker] = &[
    ("check_of", |text| seen(check_of(text))),
    ("clean", |text| assert!((0..90).all(|chars| clean(text, chars).chars().count() <= chars + 1))),
    ("clip_least", |text| seen(clip_least(Handle::of([text]), text))),
    ("clip_to", |text| {
        for bytes in (0..200).chain([1_000, 4_000]) {
            clip_to(Handle::of([text]), text, bytes);
        }
    }),
    ("cut", |text| {
        for bytes in (0..100).chain([8_000, usize::MAX]) {
            assert!(text.starts_with(cut::head(text, bytes)));
            assert!(text.ends_with(cut::tail(text, bytes)));
        }
    }),
    ("failure_line", |text| seen(failure_line(text))),
    ("Handle::parse", |text| seen(Handle::parse(text))),
    ("identifiers", |text| seen(identifiers(text).count())),
    ("is_check_tool", |text| seen(is_check_tool(text))),
    ("json", |text| {
        seen(JsonCursor::new(text).node());
        seen(strings_of_object(text));
        let quoted = quote(text);
        assert_eq!(quoted.len(), quoted_len(text));
        let value = JsonCursor::new(&quoted).value().unwrap();
        assert_eq!(value.str(&quoted).unwrap(), text);
    }),
    ("messages", |text| {
        for message in messages(text) {
            acts_in_text(&message);
            is_fold(&message);
            Meaning::with_arguments(&message);
            Arguments::of(&message);
            for call in message.calls() {
                describe_call(call);
            }
        }
    }),
    ("Miner", |text| {
        let miner = Miner::new(vec!["g-@".parse().unwrap()]);
        miner.ids(text).count();
    }),
    ("ModelName::parse", |text| seen(ModelName::parse(text))),
    ("patched", |text| seen(patched(text))),
    ("Pattern", |text| {
        let pattern = cut::head(text, 60).parse::<Pattern>();
        seen(pattern.map(|pattern| pattern.matches(text)));
    }),
    ("printed", |text| seen(printed(text))),
    ("ranked", |text| seen(ranked([text]))),
    ("reads_like_output", |text| seen(reads_like_output(text))),
    ("runs", |text| seen(runs(text).filter_map(|run| run.name()).count())),
    ("sentences", |text| seen(sentences(text).count())),
    ("statements", |text| {
        for role in [Role::User, Role::Assistant, Role::Tool, Role::System] {
            statements(text, role).count();
        }
    }),
    ("stub_arguments", |text| {
        let arguments = format!("{{\"content\":{},\"path\":{}}}", quote(text), quote(text));
        for shown in [text, arguments.as_str()] {
            stub_arguments(Handle::of([text]), shown, 20);
        }
    }),
    ("telling_line", |text| seen(telling_line(text))),
    ("Text", |text| {
        let source = std::sync::Arc::new(text.to_owned());
        let text = Text::escaped(&source, 0, source.len());
        assert!(text.decode().len() <= source.len());
        let _ = (text.is_exact(), text.is_blank(), is_bulky(&text, 100));
    }),
    ("undated", |text| seen(undated(text))),
    ("unescape", |text| seen((unescape(text), is_ours(text)))),
    ("verdict_line", |text| assert!(verdict_line(text).is_none_or(|line| text.contains(line)))),
];

/// Messages that have a text wherever one can stand.
fn messages(text: &str) -> Vec<Message> {
    let call = ToolCall {
        id: text.into(),
        name: text.into(),
        arguments: format!("{{\"path\":{}}}", quote(text)).into(),
        freeform: false,
    };
    let result = ToolResult {
        call: text.into(),
        content: vec![Part::Text(text.into())],
        raw: text.into(),
        error: false,
        fixed: false,
        loads_tools: false,
    };
    vec![
        Message::new(Role::User, Some(text.into()), vec![Part::Text(text.into())], text.into()),
        Message::new(Role::Assistant, None, vec![Part::Call(call)], text.into()),
        Message::new(Role::Tool, None, vec![Part::Result(result)], text.into()),
    ]
}
