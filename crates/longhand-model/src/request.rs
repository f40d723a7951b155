//! What a model is asked.

use longhand_core::json::quote;
use longhand_core::{Message, Part, Role, Text, Tokens};
use longhand_dialect::{Dialect, DialectError, Sourced, write};

use crate::{Api, Model};

/// What a model is asked.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    /// The messages, the system prompt first, each with the format that its bytes are in.
    pub messages: Vec<(Dialect, Message)>,
    /// The most tokens that the answer may have.
    pub max_output: Option<Tokens>,
    /// The temperature; the model's own where there is none.
    pub temperature: Option<f64>,
    /// Whether the answer comes piece by piece.
    pub stream: bool,
    /// Whether the prefix is to be cached where a provider wants to be told so.
    pub cache: bool,
}

/// The most that an answer of Anthropic's may have where the request does not say, which it must.
const OUTPUT_TOKENS_DEFAULT: u64 = 8_192;

/// Options that a model was found to refuse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Quirks {
    pub(crate) no_temperature: bool,
    pub(crate) completion_tokens: bool,
    pub(crate) no_stream_options: bool,
}

impl Quirks {
    /// Learns from a refusal; answers whether there is something new to try.
    pub(crate) fn learn(&mut self, request: &ModelRequest, message: &str) -> bool {
        let before = *self;
        self.no_temperature |= request.temperature.is_some() && message.contains("temperature");
        self.completion_tokens |=
            request.max_output.is_some() && message.contains("max_completion_tokens");
        self.no_stream_options |= request.stream && message.contains("stream_options");
        *self != before
    }
}

impl ModelRequest {
    /// Asks one thing.
    pub fn new(system: &str, user: &str) -> Self {
        let message = |role: Role, text: &str| {
            let parts = vec![Part::Text(Text::from(text))];
            // No message of a request is in this format, so the words are written and not the bytes.
            (Dialect::ClaudeCode, Message::new(role, None, parts, Text::default()))
        };
        let system = (!system.is_empty()).then(|| message(Role::System, system));
        Self::of(system.into_iter().chain([message(Role::User, user)]).collect())
    }

    /// Continues a conversation in any wire format, such as a window.
    pub fn read(json: &str, dialect: Dialect) -> Result<Self, DialectError> {
        let conversation = longhand_dialect::read(json.as_bytes().to_vec(), Some(dialect))?;
        let messages = conversation.messages.into_iter();
        Ok(Self::of(messages.map(|message| (dialect, message)).collect()))
    }

    fn of(messages: Vec<(Dialect, Message)>) -> Self {
        Self { messages, max_output: None, temperature: None, stream: false, cache: false }
    }

    /// Writes the body of the HTTP request.
    pub(crate) fn body(&self, model: &Model, quirks: Quirks) -> String {
        let api = model.endpoint.api;
        let sourced: Vec<Sourced> =
            self.messages.iter().map(|(dialect, message)| (*dialect, message)).collect();
        let written = write(&sourced, api.dialect());
        let mut body = format!(r#"{{"model":{}"#, quote(&model.name));
        let mut field = |key: &str, value: &str| body.push_str(&format!(r#","{key}":{value}"#));
        let output = self.max_output.map(|tokens| tokens.0.to_string());
        match api {
            Api::Chat => {
                field("messages", &written);
                let wants_new_name = || model.endpoint.base_url.contains("//api.openai.com");
                if let Some(output) = &output {
                    let new = quirks.completion_tokens || wants_new_name();
                    field(if new { "max_completion_tokens" } else { "max_tokens" }, output);
                }
                if self.stream && !quirks.no_stream_options {
                    field("stream_options", r#"{"include_usage":true}"#);
                }
            }
            Api::Responses => {
                field("input", &written);
                field("store", "false");
                if let Some(output) = &output {
                    field("max_output_tokens", output);
                }
            }
            Api::Anthropic => {
                // `system` and `messages` are written as one object.
                body.push(',');
                body.push_str(&written[1..written.len() - 1]);
                let output = output.unwrap_or_else(|| OUTPUT_TOKENS_DEFAULT.to_string());
                body.push_str(&format!(r#","max_tokens":{output}"#));
                if self.cache {
                    body.push_str(r#","cache_control":{"type":"ephemeral"}"#);
                }
            }
        }
        if let Some(temperature) = self.temperature.filter(|_| !quirks.no_temperature) {
            body.push_str(&format!(r#","temperature":{temperature}"#));
        }
        body.push_str(if self.stream { r#","stream":true}"# } else { "}" });
        body
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Endpoint;

    fn check(api: Api, url: &str, request: &ModelRequest, quirks: Quirks, expected: &str) {
        let model = Model { endpoint: Arc::new(Endpoint::new("x", api, url)), name: "m".into() };
        assert_eq!(request.body(&model, quirks), expected);
    }

    #[test]
    fn every_api_has_its_own_names() {
        let local = "http://localhost/v1";
        let plain = ModelRequest::new("Be \"brief\".", "Hi");
        let full = ModelRequest {
            max_output: Some(Tokens(50)),
            temperature: Some(0.0),
            stream: true,
            cache: true,
            ..plain.clone()
        };
        let none = Quirks::default();
        let messages =
            r#"[{"role":"system","content":"Be \"brief\"."},{"role":"user","content":"Hi"}]"#;
        check(Api::Chat, local, &plain, none, &format!(r#"{{"model":"m","messages":{messages}}}"#));
        check(
            Api::Chat,
            local,
            &full,
            none,
            &format!(
                r#"{{"model":"m","messages":{messages},"max_tokens":50,"stream_options":{{"include_usage":true}},"temperature":0,"stream":true}}"#
            ),
        );
        check(
            Api::Chat,
            "https://api.openai.com/v1",
            &full,
            none,
            &format!(
                r#"{{"model":"m","messages":{messages},"max_completion_tokens":50,"stream_options":{{"include_usage":true}},"temperature":0,"stream":true}}"#
            ),
        );
        let quirks =
            Quirks { no_temperature: true, completion_tokens: true, no_stream_options: true };
        check(
            Api::Chat,
            local,
            &full,
            quirks,
            &format!(
                r#"{{"model":"m","messages":{messages},"max_completion_tokens":50,"stream":true}}"#
            ),
        );
        check(
            Api::Responses,
            local,
            &full,
            none,
            r#"{"model":"m","input":[{"role":"system","content":"Be \"brief\"."},{"type":"message","role":"user","content":[{"type":"input_text","text":"Hi"}]}],"store":false,"max_output_tokens":50,"temperature":0,"stream":true}"#,
        );
        check(
            Api::Anthropic,
            local,
            &plain,
            none,
            r#"{"model":"m","system":[{"type":"text","text":"Be \"brief\"."}],"messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]}],"max_tokens":8192}"#,
        );
        check(
            Api::Anthropic,
            local,
            &full,
            none,
            r#"{"model":"m","system":[{"type":"text","text":"Be \"brief\"."}],"messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]}],"max_tokens":50,"cache_control":{"type":"ephemeral"},"temperature":0,"stream":true}"#,
        );
    }

    #[test]
    fn a_window_of_any_format_can_be_sent_to_any_api() {
        let window = r#"[{"role":"system","content":"S"},{"role":"user","content":"1.0"}]"#;
        let request = ModelRequest::read(window, Dialect::Chat).unwrap();
        let local = "http://localhost/v1";
        let none = Quirks::default();
        check(Api::Chat, local, &request, none, &format!(r#"{{"model":"m","messages":{window}}}"#));
        check(
            Api::Anthropic,
            local,
            &request,
            none,
            r#"{"model":"m","system":[{"type":"text","text":"S"}],"messages":[{"role":"user","content":[{"type":"text","text":"1.0"}]}],"max_tokens":8192}"#,
        );
        let window = r#"{"system":"S","messages":[{"role":"user","content":"Hi"}]}"#;
        let request = ModelRequest::read(window, Dialect::Anthropic).unwrap();
        check(
            Api::Chat,
            local,
            &request,
            none,
            r#"{"model":"m","messages":[{"role":"system","content":"S"},{"role":"user","content":"Hi"}]}"#,
        );
        check(
            Api::Anthropic,
            local,
            &request,
            none,
            r#"{"model":"m","system":[{"type":"text","text":"S"}],"messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]}],"max_tokens":8192}"#,
        );
    }

    #[test]
    fn a_refusal_teaches_each_thing_once() {
        let request = ModelRequest { temperature: Some(0.0), ..ModelRequest::new("", "Hi") };
        let mut quirks = Quirks::default();
        assert!(quirks.learn(&request, "`temperature` is not supported"));
        assert!(!quirks.learn(&request, "`temperature` is not supported"));
        assert!(!quirks.learn(&request, "use max_completion_tokens"), "none was sent");
    }
}
