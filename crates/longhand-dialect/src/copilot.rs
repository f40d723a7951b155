//! The event log of Copilot CLI, told in messages of Chat Completions.
//!
//! Its lines are events, of which few are messages: what the user said, what the model answered with the calls it made, and
//! how these ended. Nobody writes such a log but its agent, so it is only read.

use longhand_core::json::{JsonCursor, JsonKind, JsonNode, JsonValue, quote};

use crate::Transcript;
use crate::source::{BadLines, RequestShape, RequestSource};
use crate::transcript::TranscriptNote;

/// The events that only this agent writes, one of which begins every log.
const KINDS: [&str; 3] = ["session.start", "user.message", "assistant.message"];

/// Among so many lines one of them is to be found.
const LINES_MAX: usize = 64;

/// Reads an event log; `None` if the text is none.
pub(crate) fn transcript(text: &str) -> Option<Transcript> {
    let source =
        RequestSource::read_with(std::sync::Arc::new(text.to_owned()), &[], BadLines::PassedOver)
            .ok()?;
    (source.shape == RequestShape::Lines && is_log(&source)).then(|| {
        let mut transcript = Transcript::new("copilot");
        transcript.unread.clone_from(&source.unread);
        // The last line may be on its way.
        let (is_cut, lines) = (!text.ends_with('\n'), text.lines().count());
        transcript.unread.retain(|line| !is_cut || *line as usize != lines);
        source.elements.iter().for_each(|line| read_event(&source.text, line, &mut transcript));
        transcript
    })
}

/// Whether lines are events of this agent.
pub(crate) fn is_log(source: &RequestSource) -> bool {
    source.elements.iter().take(LINES_MAX).any(|line| {
        let kind = line.get(&source.text, "type").and_then(|kind| kind.str(&source.text));
        kind.is_some_and(|kind| KINDS.contains(&&*kind))
            && line.get(&source.text, "data").is_some_and(|data| data.kind == JsonKind::Object)
    })
}

fn read_event(text: &str, line: &JsonNode, transcript: &mut Transcript) {
    let string = |node: &JsonNode, key: &str| {
        node.get(text, key).and_then(|value| value.str(text)).map(std::borrow::Cow::into_owned)
    };
    let Some(data) = line.get(text, "data").and_then(|data| object(text, data)) else { return };
    let time = string(line, "timestamp");
    match string(line, "type").as_deref() {
        Some("session.start") => {
            let context = data.get(text, "context").and_then(|context| object(text, context));
            transcript.folder = context.and_then(|context| string(&context, "cwd"));
            transcript.id = string(&data, "sessionId");
        }
        Some("user.message") => {
            if let Some(words) = string(&data, "content") {
                transcript.add(format!(r#"{{"role":"user","content":{}}}"#, quote(&words)), time);
            }
        }
        Some("assistant.message") => {
            let words = string(&data, "content").unwrap_or_default();
            let calls = calls(text, &data);
            if words.is_empty() && calls.is_empty() {
                return;
            }
            let calls = if calls.is_empty() {
                String::new()
            } else {
                format!(r#","tool_calls":[{}]"#, calls.join(","))
            };
            let words = quote(&words);
            transcript.add(format!(r#"{{"role":"assistant","content":{words}{calls}}}"#), time);
        }
        Some("tool.execution_complete") => {
            let result = data.get(text, "result").and_then(|result| object(text, result));
            let failure = data.get(text, "error").and_then(|error| object(text, error));
            let words = result.and_then(|result| string(&result, "content"));
            let words = words.or_else(|| failure.and_then(|error| string(&error, "message")));
            if let Some(call) = string(&data, "toolCallId") {
                transcript.answer(&call, &words.unwrap_or_default(), time);
            }
        }
        Some("session.compaction_complete") => {
            if let Some(summary) = string(&data, "summaryContent") {
                let before = transcript.messages.len();
                transcript.notes.push(TranscriptNote { before, text: summary, time });
            }
        }
        _ => {}
    }
}

/// The calls of an answer.
fn calls(text: &str, data: &JsonNode) -> Vec<String> {
    let mut calls = Vec::new();
    let Some(list) = data.get(text, "toolRequests").filter(|list| list.kind == JsonKind::Array)
    else {
        return calls;
    };
    let _ = JsonCursor::at(text, list.span().start).elements(|cursor| {
        let call = cursor.node()?;
        let string = |key: &str| call.get(text, key).and_then(|value| value.str(text));
        let (id, name) = (string("toolCallId"), string("name"));
        let arguments = match call.get(text, "arguments") {
            Some(arguments) => match arguments.str(text) {
                Some(words) => quote(&words),
                None => quote(&text[arguments.span()]),
            },
            None => quote("{}"),
        };
        let (id, name) = (quote(&id.unwrap_or_default()), quote(&name.unwrap_or_default()));
        calls.push(format!(
            r#"{{"id":{id},"type":"function","function":{{"name":{name},"arguments":{arguments}}}}}"#
        ));
        Ok(())
    });
    calls
}

fn object(text: &str, value: JsonValue) -> Option<JsonNode> {
    let is_object = value.kind == JsonKind::Object;
    is_object.then(|| JsonCursor::at(text, value.span().start).node().ok())?
}
