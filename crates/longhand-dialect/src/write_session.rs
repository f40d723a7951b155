//! A conversation of any origin as a new session file of an agent.

use longhand_core::json::quote;
use longhand_core::{Handle, Message, Part, Role, ToolCall};

use crate::continuation::SessionFileStart;
use crate::render::text_block;
use crate::session::name;
use crate::write::{Sourced, write};
use crate::{Conversation, Dialect, DialectError, read};

/// The version of Claude Code whose lines these are.
const CLAUDE_VERSION: &str = "2.1.39";
/// The model of answers whose model is not known.
const MODEL: &str = "unknown";

/// Where a new session is to go on.
#[derive(Clone, Debug)]
pub struct WrittenSession {
    /// Its id and when it begins.
    pub start: SessionFileStart,
    /// The folder that the agent is started in.
    pub folder: String,
    /// The model that gave the answers, if that is known.
    pub model: Option<String>,
}

/// A message with its format and the time it was said, as in RFC 3339.
#[derive(Clone, Debug)]
pub struct TimedMessage<'m> {
    /// The message.
    pub message: Sourced<'m>,
    /// The time.
    pub time: String,
}

/// Writes messages as a session file, which its agent can go on in. Calls without a result are answered, and results
/// without a call quoted, as [`Conversation::repair`] does; system messages and pictures stay out.
pub fn write_session(
    messages: &[TimedMessage],
    dialect: Dialect,
    session: &WrittenSession,
) -> Result<String, DialectError> {
    let said = messages.iter().filter(|said| said.message.1.role != Role::System);
    let sourced: Vec<Sourced> = said.clone().map(|said| said.message).collect();
    let times: Vec<&str> = said.map(|said| said.time.as_str()).collect();
    let wire = if dialect == Dialect::Codex { Dialect::Responses } else { Dialect::Anthropic };
    let text = write(&sourced, wire);
    let conversation = read(text.into_bytes(), Some(wire))?.repair()?;
    let writer = SessionWriter { session, times: &times, conversation: &conversation };
    let lines = match dialect {
        Dialect::Codex => writer.codex(),
        Dialect::Pi => writer.pi(),
        _ => writer.claude(),
    };
    Ok(lines.into_iter().fold(String::new(), |text, line| text + &line + "\n"))
}

struct SessionWriter<'w> {
    session: &'w WrittenSession,
    times: &'w [&'w str],
    conversation: &'w Conversation,
}

impl SessionWriter<'_> {
    /// About when a message was said: messages that were put together have changed the numbers.
    fn time(&self, at: usize) -> String {
        let all = self.conversation.messages.len().max(1);
        let place = at * self.times.len() / all;
        quote(self.times.get(place).copied().unwrap_or(&self.session.start.time))
    }

    fn id(&self, at: usize) -> String {
        name(Handle::of([self.session.start.id.as_str(), "\n", &at.to_string()]))
    }

    fn model(&self) -> String {
        quote(self.session.model.as_deref().unwrap_or(MODEL))
    }

    fn claude(&self) -> Vec<String> {
        let (id, folder) = (quote(&self.session.start.id), quote(&self.session.folder));
        let mut parent = "null".to_owned();
        let mut lines = Vec::new();
        for (at, message) in self.conversation.messages.iter().enumerate() {
            let uuid = quote(&self.id(at));
            let (kind, said) = if message.role == Role::Assistant {
                let answer = quote(&format!("msg_{}", self.id(at)));
                let content = content_of(message);
                let model = self.model();
                let said = format!(
                    r#"{{"id":{answer},"type":"message","role":"assistant","model":{model},"content":{content},"stop_reason":null,"stop_sequence":null,"usage":{{"input_tokens":0,"output_tokens":0}}}}"#
                );
                ("assistant", said)
            } else {
                let content = content_of(message);
                ("user", format!(r#"{{"role":"user","content":{content}}}"#))
            };
            lines.push(format!(
                r#"{{"parentUuid":{parent},"isSidechain":false,"userType":"external","cwd":{folder},"sessionId":{id},"version":"{CLAUDE_VERSION}","type":"{kind}","message":{said},"uuid":{uuid},"timestamp":{}}}"#,
                self.time(at)
            ));
            parent = uuid;
        }
        lines
    }

    fn codex(&self) -> Vec<String> {
        let (id, folder) = (quote(&self.session.start.id), quote(&self.session.folder));
        let begun = quote(&self.session.start.time);
        let mut lines = vec![format!(
            r#"{{"timestamp":{begun},"type":"session_meta","payload":{{"id":{id},"timestamp":{begun},"cwd":{folder},"originator":"codex_cli_rs","cli_version":"0.0.0","source":"cli","model_provider":"openai"}}}}"#
        )];
        for (at, message) in self.conversation.messages.iter().enumerate() {
            let (time, item) = (self.time(at), message.raw.raw());
            lines
                .push(format!(r#"{{"timestamp":{time},"type":"response_item","payload":{item}}}"#));
        }
        lines
    }

    fn pi(&self) -> Vec<String> {
        let (id, folder) = (quote(&self.session.start.id), quote(&self.session.folder));
        let begun = quote(&self.session.start.time);
        let mut lines = vec![format!(
            r#"{{"type":"session","version":3,"id":{id},"timestamp":{begun},"cwd":{folder}}}"#
        )];
        let mut parent = "null".to_owned();
        let mut add = |at: usize, said: String| {
            let (id, time) = (quote(&self.id(lines.len())), self.time(at));
            lines.push(format!(
                r#"{{"type":"message","id":{id},"parentId":{parent},"timestamp":{time},"message":{said}}}"#
            ));
            parent = id;
        };
        for (at, message) in self.conversation.messages.iter().enumerate() {
            for result in message.results() {
                let (call, tool) =
                    (quote(&result.call.decode()), quote(&self.tool_of(&result.call.decode())));
                let text = text_block(&quote(&words_of(&result.content)));
                let failed = result.error;
                add(
                    at,
                    format!(
                        r#"{{"role":"toolResult","toolCallId":{call},"toolName":{tool},"content":[{text}],"isError":{failed},"timestamp":0}}"#
                    ),
                );
            }
            let mut blocks: Vec<String> = message
                .parts
                .iter()
                .filter_map(Part::text)
                .map(|text| text_block(&quote(&text.decode())))
                .collect();
            blocks.extend(message.calls().map(|call| {
                let (id, name) = (quote(&call.id.decode()), quote(&call.name.decode()));
                let arguments = call.arguments.raw();
                format!(r#"{{"type":"toolCall","id":{id},"name":{name},"arguments":{arguments}}}"#)
            }));
            if blocks.is_empty() {
                continue;
            }
            let content = blocks.join(",");
            add(
                at,
                if message.role == Role::Assistant {
                    let model = self.model();
                    format!(
                        r#"{{"role":"assistant","content":[{content}],"api":"anthropic-messages","provider":"anthropic","model":{model},"usage":{{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"totalTokens":0,"cost":{{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}}}},"stopReason":"stop","timestamp":0}}"#
                    )
                } else {
                    format!(r#"{{"role":"user","content":[{content}],"timestamp":0}}"#)
                },
            );
        }
        lines
    }

    /// The tool that a call named.
    fn tool_of(&self, id: &str) -> String {
        let is_it = |call: &&ToolCall| call.id.decode() == id;
        let mut calls = self.conversation.messages.iter().flat_map(Message::calls);
        calls.find(is_it).map_or_else(String::new, |call| call.name.decode().into_owned())
    }
}

/// The blocks of a message of Anthropic's format, as they stand there.
fn content_of(message: &Message) -> String {
    let raw = message.raw.raw();
    let node = longhand_core::json::JsonCursor::new(raw).node().unwrap_or_default();
    let content = node.get(raw, "content");
    content.map_or_else(|| "[]".to_owned(), |content| raw[content.span()].to_owned())
}

fn words_of(parts: &[Part]) -> String {
    let texts = parts.iter().filter_map(Part::text).map(|text| text.decode().into_owned());
    texts.collect::<Vec<_>>().join("\n\n")
}
