//! Answers that come as streams.

use arbitrary::{Result, Unstructured};
use longhand_core::json::{JsonCursor, quote};
use longhand_dialect::{Dialect, Reply, ReplyError, ReplyReader, SseEvent, SseReader};

const DIALECTS: [Dialect; 3] = [Dialect::Chat, Dialect::Responses, Dialect::Anthropic];

/// What was read of a stream.
#[derive(Debug, PartialEq, Eq)]
struct Heard {
    events: Vec<SseEvent>,
    is_done: bool,
    outcome: std::result::Result<Reply, ReplyError>,
    /// What is kept if no more of it comes.
    partial: Option<Reply>,
}

/// Reads bytes as the stream of an answer, and as instructions for one.
///
/// The first byte chooses the format, the second how it is split and the next two where it is cut.
pub fn stream(bytes: &[u8]) {
    let [dialect, size, high, low, rest @ ..] = bytes else { return };
    let dialect = DIALECTS[usize::from(dialect % 3)];
    let size = usize::from(*size) % 64 + 1;
    let cut = usize::from(u16::from_be_bytes([*high, *low]));
    check(dialect, rest, size, cut);
    if let Ok(answer) = Answer::of(dialect, &mut Unstructured::new(rest)) {
        let heard = check(dialect, answer.stream().as_bytes(), size, cut);
        assert_eq!(heard.outcome.map(|reply| reply.text), Ok(answer.said(usize::MAX)));
        answer.keeps_what_came(dialect, cut);
    }
}

/// What holds for any stream: it may be split and cut anywhere, and what comes of it can be sent again.
fn check(dialect: Dialect, stream: &[u8], size: usize, cut: usize) -> Heard {
    let heard = hear(dialect, &[stream]);
    let pieces: Vec<&[u8]> = stream.chunks(size).collect();
    assert_eq!(hear(dialect, &pieces), heard, "it was split in pieces of {size} bytes");
    let cut = cut % (stream.len() + 1);
    let begun = hear(dialect, &[&stream[..cut]]);
    // The event at the end of what is cut may have more lines.
    let sure = begun.events.len().saturating_sub(1);
    assert_eq!(begun.events[..sure], heard.events[..sure], "it was cut at {cut}");
    for reply in
        [&heard, &begun].iter().flat_map(|heard| heard.outcome.iter().chain(&heard.partial))
    {
        let mut cursor = JsonCursor::new(&reply.message);
        let node = cursor.node().unwrap_or_else(|error| panic!("{error:?}: {}", reply.message));
        assert!(cursor.peek().is_none(), "{node:?}: {}", reply.message);
    }
    if heard.is_done && heard.outcome.is_ok() {
        assert_eq!(heard.outcome.as_ref().ok(), heard.partial.as_ref());
    }
    heard
}

fn hear(dialect: Dialect, pieces: &[&[u8]]) -> Heard {
    let mut sse = SseReader::default();
    let mut events: Vec<SseEvent> = Vec::new();
    for piece in pieces {
        events.extend(sse.push(piece).unwrap_or_else(|error| panic!("{error}")));
    }
    events.extend(sse.finish());
    let read = || {
        let mut reader = ReplyReader::new(dialect);
        // What follows an error is not read.
        let _ = events.iter().try_for_each(|event| reader.push(event).map(drop));
        reader
    };
    let (is_done, outcome, partial) = (read().is_done(), read().finish(), read().partial());
    Heard { events, is_done, outcome, partial }
}

/// A text without white space: a block that has nothing else would be refused, and is left out.
fn words(text: &str) -> String {
    text.split_whitespace().collect()
}

/// A valid answer: events, each with the text that it adds.
struct Answer(Vec<(String, String)>);

impl Answer {
    fn of(dialect: Dialect, u: &mut Unstructured) -> Result<Self> {
        let mut answer = Self(Vec::new());
        let mut blocks = 0;
        answer.begin(dialect);
        while blocks == 0 || (!u.is_empty() && blocks < 6) {
            if blocks > 0 && u.ratio(1, 3)? {
                answer.call(dialect, blocks, u)?;
            } else {
                answer.text(dialect, blocks, u)?;
            }
            blocks += 1;
        }
        answer.end(dialect);
        Ok(answer)
    }

    fn stream(&self) -> String {
        self.0.iter().map(|(event, _)| event.as_str()).collect()
    }

    /// The text of all events whose lines came before a cut.
    fn said(&self, cut: usize) -> String {
        let mut end = 0;
        let came = self.0.iter().take_while(|(event, _)| {
            end += event.len();
            // The blank line after it may be missing.
            end - 1 <= cut
        });
        came.map(|(_, text)| text.as_str()).collect()
    }

    fn keeps_what_came(&self, dialect: Dialect, cut: usize) {
        let stream = self.stream();
        let cut = cut % (stream.len() + 1);
        let kept = hear(dialect, &[&stream.as_bytes()[..cut]]).partial;
        let said = self.said(cut);
        if !said.trim().is_empty() {
            let kept = kept.map(|kept| words(&kept.text));
            assert_eq!(kept, Some(words(&said)), "cut at {cut}: {stream}");
        }
    }

    fn push(&mut self, name: &str, data: &str, text: &str) {
        let name = if name.is_empty() { String::new() } else { format!("event: {name}\n") };
        self.0.push((format!("{name}data: {data}\n\n"), text.to_owned()));
    }

    /// An event of Anthropic or Responses, which have their type for a name.
    fn named(&mut self, kind: &str, fields: &str, text: &str) {
        self.push(kind, &format!(r#"{{"type":"{kind}",{fields}}}"#), text);
    }

    fn delta(&mut self, delta: &str, finish: &str, text: &str) {
        let choice = format!(r#"{{"index":0,"delta":{delta},"finish_reason":{finish}}}"#);
        self.push("", &format!(r#"{{"id":"c","choices":[{choice}]}}"#), text);
    }

    fn begin(&mut self, dialect: Dialect) {
        match dialect {
            Dialect::Chat => self.delta(r#"{"role":"assistant","content":""}"#, "null", ""),
            Dialect::Responses => {
                self.named("response.created", r#""response":{"id":"r","output":[]}"#, "");
            }
            _ => self.named("message_start", r#""message":{"id":"m","content":[]}"#, ""),
        }
    }

    fn text(&mut self, dialect: Dialect, index: usize, u: &mut Unstructured) -> Result<()> {
        let mut said = String::new();
        if dialect == Dialect::Anthropic {
            let fields = format!(r#""index":{index},"content_block":{{"type":"text","text":""}}"#);
            self.named("content_block_start", &fields, "");
        }
        for _ in 0..u.int_in_range(1..=4)? {
            let piece: &str =
                u.choose(&["The wheel ", "turns.", "é🦀", "\n", " ", "\"\\", "data: x\r\n"])?;
            said.push_str(piece);
            let more = quote(piece);
            match dialect {
                Dialect::Chat => self.delta(&format!(r#"{{"content":{more}}}"#), "null", piece),
                Dialect::Responses => {
                    let fields = format!(r#""output_index":{index},"delta":{more}"#);
                    self.named("response.output_text.delta", &fields, piece);
                }
                _ => {
                    let delta = format!(r#"{{"type":"text_delta","text":{more}}}"#);
                    let fields = format!(r#""index":{index},"delta":{delta}"#);
                    self.named("content_block_delta", &fields, piece);
                }
            }
        }
        let content = format!(r#"[{{"type":"output_text","text":{}}}]"#, quote(&said));
        let item = format!(r#"{{"type":"message","role":"assistant","content":{content}}}"#);
        self.done(dialect, index, &item);
        Ok(())
    }

    fn call(&mut self, dialect: Dialect, index: usize, u: &mut Unstructured) -> Result<()> {
        let arguments = *u.choose(&["{}", r#"{"path":"a.rs"}"#, r#"{"text":"é \"q\""}"#])?;
        let (first, rest) = arguments.split_at(1);
        if dialect == Dialect::Anthropic {
            let block =
                format!(r#"{{"type":"tool_use","id":"t{index}","name":"read","input":{{}}}}"#);
            self.named(
                "content_block_start",
                &format!(r#""index":{index},"content_block":{block}"#),
                "",
            );
        }
        for (at, piece) in [first, rest].into_iter().enumerate() {
            let more = quote(piece);
            match dialect {
                Dialect::Chat => {
                    let id = if at == 0 { format!(r#""id":"t{index}","#) } else { String::new() };
                    let name = if at == 0 { r#""name":"read","# } else { "" };
                    let call = format!(
                        r#"{{"index":{index},{id}"type":"function","function":{{{name}"arguments":{more}}}}}"#
                    );
                    self.delta(&format!(r#"{{"tool_calls":[{call}]}}"#), "null", "");
                }
                Dialect::Responses => {
                    let fields = format!(r#""output_index":{index},"delta":{more}"#);
                    self.named("response.function_call_arguments.delta", &fields, "");
                }
                _ => {
                    let delta = format!(r#"{{"type":"input_json_delta","partial_json":{more}}}"#);
                    self.named(
                        "content_block_delta",
                        &format!(r#""index":{index},"delta":{delta}"#),
                        "",
                    );
                }
            }
        }
        let fields =
            format!(r#""call_id":"t{index}","name":"read","arguments":{}"#, quote(arguments));
        self.done(dialect, index, &format!(r#"{{"type":"function_call",{fields}}}"#));
        Ok(())
    }

    /// Ends a block or an item.
    fn done(&mut self, dialect: Dialect, index: usize, item: &str) {
        match dialect {
            Dialect::Chat => {}
            Dialect::Responses => {
                let fields = format!(r#""output_index":{index},"item":{item}"#);
                self.named("response.output_item.done", &fields, "");
            }
            _ => self.named("content_block_stop", &format!(r#""index":{index}"#), ""),
        }
    }

    fn end(&mut self, dialect: Dialect) {
        match dialect {
            Dialect::Chat => {
                self.delta("{}", r#""stop""#, "");
                self.push("", "[DONE]", "");
            }
            Dialect::Responses => {
                let response = r#""response":{"id":"r","status":"completed","output":[]}"#;
                self.named("response.completed", response, "");
            }
            _ => {
                self.named("message_delta", r#""delta":{"stop_reason":"end_turn"}"#, "");
                self.named("message_stop", r#""index":0"#, "");
            }
        }
    }
}
