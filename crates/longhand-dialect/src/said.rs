//! Answers of our own, as a provider would write them.

use longhand_core::json::quote;

use crate::Dialect;

/// One text, as the answer of a model.
#[derive(Clone, Copy, Debug)]
pub struct SaidText<'t> {
    /// An id that no other answer has, without the prefix of a format.
    pub id: &'t str,
    /// The model that was asked.
    pub model: &'t str,
    /// When it was said, in seconds since 1970.
    pub at: i64,
    /// The text.
    pub text: &'t str,
    /// The tokens of the text. Nothing was read by a model, so there are no others.
    pub tokens: u64,
}

impl SaidText<'_> {
    /// The body of an answer, and its content type.
    pub fn body(&self, dialect: Dialect, streams: bool) -> (&'static str, String) {
        let body = match (dialect, streams) {
            (Dialect::Anthropic | Dialect::ClaudeCode, false) => self.anthropic(),
            (Dialect::Anthropic | Dialect::ClaudeCode, true) => self.anthropic_events(),
            (Dialect::Responses | Dialect::Codex, false) => {
                self.response("completed", &self.item())
            }
            (Dialect::Responses | Dialect::Codex, true) => self.responses_events(),
            (Dialect::Chat | Dialect::Pi, false) => self.chat(),
            (Dialect::Chat | Dialect::Pi, true) => self.chat_events(),
        };
        (if streams { "text/event-stream; charset=utf-8" } else { "application/json" }, body)
    }

    fn anthropic(&self) -> String {
        let Self { id, tokens, .. } = self;
        let (model, text) = (quote(self.model), quote(self.text));
        format!(
            r#"{{"id":"msg_{id}","type":"message","role":"assistant","model":{model},"content":[{{"type":"text","text":{text}}}],"stop_reason":"end_turn","stop_sequence":null,"usage":{{"input_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":{tokens}}}}}"#
        )
    }

    fn anthropic_events(&self) -> String {
        let Self { id, tokens, .. } = self;
        let (model, text) = (quote(self.model), quote(self.text));
        events(&[
            (
                "message_start",
                &format!(
                    r#""message":{{"id":"msg_{id}","type":"message","role":"assistant","model":{model},"content":[],"stop_reason":null,"stop_sequence":null,"usage":{{"input_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0}}}}"#
                ),
            ),
            ("content_block_start", r#""index":0,"content_block":{"type":"text","text":""}"#),
            (
                "content_block_delta",
                &format!(r#""index":0,"delta":{{"type":"text_delta","text":{text}}}"#),
            ),
            ("content_block_stop", r#""index":0"#),
            (
                "message_delta",
                &format!(
                    r#""delta":{{"stop_reason":"end_turn","stop_sequence":null}},"usage":{{"output_tokens":{tokens}}}"#
                ),
            ),
            ("message_stop", ""),
        ])
    }

    fn item(&self) -> String {
        let (id, text) = (self.id, quote(self.text));
        format!(
            r#"{{"type":"message","id":"msg_{id}","role":"assistant","status":"completed","content":[{{"type":"output_text","text":{text},"annotations":[]}}]}}"#
        )
    }

    pub(crate) fn response(&self, status: &str, items: &str) -> String {
        let Self { id, at, tokens, .. } = self;
        let model = quote(self.model);
        format!(
            r#"{{"id":"resp_{id}","object":"response","created_at":{at},"status":"{status}","model":{model},"output":[{items}],"usage":{{"input_tokens":0,"input_tokens_details":{{"cached_tokens":0}},"output_tokens":{tokens},"output_tokens_details":{{"reasoning_tokens":0}},"total_tokens":{tokens}}}}}"#
        )
    }

    fn responses_events(&self) -> String {
        let (id, item, text) = (self.id, self.item(), quote(self.text));
        let begun = format!(r#""response":{}"#, self.response("in_progress", ""));
        let place = format!(r#""item_id":"msg_{id}","output_index":0,"content_index":0"#);
        let empty = format!(
            r#"{{"type":"message","id":"msg_{id}","role":"assistant","status":"in_progress","content":[]}}"#
        );
        let part =
            |text: &str| format!(r#"{{"type":"output_text","text":{text},"annotations":[]}}"#);
        events(&[
            ("response.created", &begun),
            ("response.in_progress", &begun),
            ("response.output_item.added", &format!(r#""output_index":0,"item":{empty}"#)),
            ("response.content_part.added", &format!(r#"{place},"part":{}"#, part("\"\""))),
            ("response.output_text.delta", &format!(r#"{place},"delta":{text}"#)),
            ("response.output_text.done", &format!(r#"{place},"text":{text}"#)),
            ("response.content_part.done", &format!(r#"{place},"part":{}"#, part(&text))),
            ("response.output_item.done", &format!(r#""output_index":0,"item":{item}"#)),
            ("response.completed", &format!(r#""response":{}"#, self.response("completed", &item))),
        ])
    }

    fn chat_head(&self, object: &str) -> String {
        let Self { id, at, .. } = self;
        let model = quote(self.model);
        format!(r#""id":"chatcmpl-{id}","object":"{object}","created":{at},"model":{model}"#)
    }

    fn chat_usage(&self) -> String {
        let tokens = self.tokens;
        format!(
            r#""usage":{{"prompt_tokens":0,"completion_tokens":{tokens},"total_tokens":{tokens}}}"#
        )
    }

    fn chat(&self) -> String {
        let (head, usage) = (self.chat_head("chat.completion"), self.chat_usage());
        let text = quote(self.text);
        format!(
            r#"{{{head},"choices":[{{"index":0,"message":{{"role":"assistant","content":{text}}},"finish_reason":"stop"}}],{usage}}}"#
        )
    }

    fn chat_events(&self) -> String {
        let (head, usage) = (self.chat_head("chat.completion.chunk"), self.chat_usage());
        let text = quote(self.text);
        let chunk = |rest: &str| format!("data: {{{head},{rest}}}\n\n");
        [
            chunk(&format!(
                r#""choices":[{{"index":0,"delta":{{"role":"assistant","content":{text}}},"finish_reason":null}}]"#
            )),
            chunk(r#""choices":[{"index":0,"delta":{},"finish_reason":"stop"}]"#),
            chunk(&format!(r#""choices":[],{usage}"#)),
            "data: [DONE]\n\n".to_owned(),
        ]
        .concat()
    }
}

/// Events with their names, each with the fields after its type.
pub(crate) fn events(events: &[(&str, &str)]) -> String {
    let lines = events.iter().enumerate().map(|(number, (name, fields))| {
        let comma = if fields.is_empty() { "" } else { "," };
        let sequence = if name.starts_with("response.") {
            format!(r#","sequence_number":{number}"#)
        } else {
            String::new()
        };
        format!("event: {name}\ndata: {{\"type\":\"{name}\"{sequence}{comma}{fields}}}\n\n")
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AnswerReader, Stop};

    #[test]
    fn every_answer_is_read_as_what_it_says() {
        let text = "One \"line\"\nand <two>.";
        let said = SaidText { id: "7", model: "a\"b", at: 9, text, tokens: 12 };
        for dialect in [Dialect::Chat, Dialect::Responses, Dialect::Anthropic] {
            for streams in [false, true] {
                let (kind, body) = said.body(dialect, streams);
                assert_eq!(kind.starts_with("text/event-stream"), streams);
                let mut reader = AnswerReader::new(dialect, streams);
                reader.push(body.as_bytes());
                let read = reader.finish();
                assert!(read.unread.is_none() && !read.failed, "{dialect:?} {streams}: {body}");
                let reply = read.reply.unwrap();
                assert_eq!((reply.text.as_str(), reply.stop), (text, Stop::End), "{body}");
                let usage = reply.usage.unwrap();
                assert_eq!((usage.input, usage.output), (0, 12), "{body}");
                assert_eq!(reply.model.as_deref(), Some("a\"b"));
            }
        }
    }
}
