//! What takes up the context: kinds of content, tools and the largest parts.

use std::collections::HashMap;

use longhand::context::{McpServer, RepeatedResults, mcp_servers, repeated_results};
use longhand_core::{Handle, Message, Part, Role, Scale, Tokens, content, is_fold};
use serde_json::{Value, json};

use super::{CountedFile, gist, gist_of_part};
use crate::output::{self, counted};

/// How many tools and parts are listed for people.
const LISTED_MAX: usize = 8;

/// The most cells of a bar.
const BAR_MAX: usize = 30;

/// The columns of names: at least those of the longest kind.
const NAME_MIN: usize = 16;
const NAME_MAX: usize = 28;

/// The columns of a line after its name and before its bar.
const COLUMNS_BEFORE_BAR: usize = 16;

/// Kinds of content, in the order in which a request has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ContentKind {
    System,
    Tools,
    Folded,
    User,
    Assistant,
    Thinking,
    Calls,
    Results,
}

impl ContentKind {
    const ALL: [ContentKind; 8] = [
        ContentKind::System,
        ContentKind::Tools,
        ContentKind::Folded,
        ContentKind::User,
        ContentKind::Assistant,
        ContentKind::Thinking,
        ContentKind::Calls,
        ContentKind::Results,
    ];

    fn name(self) -> &'static str {
        match self {
            ContentKind::System => "system prompt",
            ContentKind::Tools => "tool definitions",
            ContentKind::Folded => "folded",
            ContentKind::User => "user",
            ContentKind::Assistant => "assistant",
            ContentKind::Thinking => "thinking",
            ContentKind::Calls => "tool calls",
            ContentKind::Results => "tool results",
        }
    }

    /// The key in JSON.
    fn key(self) -> &'static str {
        match self {
            ContentKind::System => "system",
            ContentKind::Tools => "tools",
            ContentKind::Calls => "calls",
            ContentKind::Results => "results",
            other => other.name(),
        }
    }

    fn of(message: &Message, part: &Part) -> Self {
        match (part, message.role) {
            _ if is_fold(message) => ContentKind::Folded,
            (_, Role::System) => ContentKind::System,
            (Part::Thinking(_), _) => ContentKind::Thinking,
            (Part::Call(_), _) => ContentKind::Calls,
            (Part::Result(_), _) | (_, Role::Tool) => ContentKind::Results,
            (_, Role::User) => ContentKind::User,
            (_, Role::Assistant) => ContentKind::Assistant,
        }
    }
}

/// The calls of a tool and their results.
struct Tool {
    name: String,
    calls: usize,
    tokens: Tokens,
}

/// One part of one message.
struct LargePart {
    /// The number of its message.
    message: usize,
    /// What it is, such as `result of read_file`.
    what: String,
    words: String,
    tokens: Tokens,
    /// What `longhand expand --from` opens it by.
    handle: Handle,
}

/// What takes up the context of a conversation.
pub(super) struct ContextContent {
    kinds: Vec<(ContentKind, Tokens)>,
    /// The most expensive first.
    tools: Vec<Tool>,
    /// Those that take most first.
    servers: Vec<McpServer>,
    repeated: RepeatedResults,
    /// The largest first.
    largest: Vec<LargePart>,
}

impl ContextContent {
    pub(super) fn of(file: &CountedFile) -> Self {
        let scale = Scale::new(&*file.meter.meter);
        let messages = &file.conversation.messages;
        let names: HashMap<&str, String> = messages
            .iter()
            .flat_map(Message::calls)
            .map(|call| (call.id.raw(), output::harmless_line(&call.name.decode())))
            .collect();
        let mut grains = [0; ContentKind::ALL.len()];
        let mut tools: Vec<Tool> = Vec::new();
        let mut parts = Vec::new();
        for (at, (message, weights)) in messages.iter().zip(&file.messages).enumerate() {
            let first = message
                .parts
                .first()
                .map_or(ContentKind::User, |part| ContentKind::of(message, part));
            grains[first as usize] += weights.around;
            for (part, weight) in message.parts.iter().zip(&weights.parts) {
                let kind = ContentKind::of(message, part);
                grains[kind as usize] += *weight;
                let tokens = scale.tokens(*weight);
                let tool = match part {
                    Part::Call(call) => names.get(call.id.raw()),
                    Part::Result(result) => names.get(result.call.raw()),
                    _ => None,
                };
                if let Some(tool) = tool {
                    add_to(&mut tools, tool, tokens, matches!(part, Part::Call(_)));
                }
                parts.push((tokens, at, part, kind, tool));
            }
        }
        grains[ContentKind::Tools as usize] += scale.grains(file.attributes);
        let kinds = ContentKind::ALL.map(|kind| (kind, scale.tokens(grains[kind as usize])));
        let kinds = kinds.into_iter().filter(|(_, tokens)| *tokens > Tokens::ZERO).collect();
        tools.sort_by_key(|tool| std::cmp::Reverse(tool.tokens));
        parts.sort_by_key(|(tokens, ..)| std::cmp::Reverse(*tokens));
        let largest = parts.into_iter().take(LISTED_MAX);
        let largest = largest.map(|(tokens, message, part, kind, tool)| {
            let what = match (kind, tool) {
                (ContentKind::Calls, Some(tool)) => format!("call of {tool}"),
                (ContentKind::Results, Some(tool)) => format!("result of {tool}"),
                (ContentKind::Calls, None) => "call".to_owned(),
                (ContentKind::Results, None) => "result".to_owned(),
                (kind, _) => kind.name().to_owned(),
            };
            let words = match part {
                Part::Call(call) => call.arguments.decode().into_owned(),
                part => gist_of_part(part),
            };
            let handle = Handle::of([content(part).as_str()]);
            LargePart { message, what, words, tokens, handle }
        });
        let servers = mcp_servers(&file.conversation, &scale);
        let repeated = repeated_results(messages, &scale);
        Self { kinds, tools, servers, repeated, largest: largest.collect() }
    }

    pub(super) fn json(&self, file: &CountedFile) -> [(&'static str, Value); 5] {
        let kinds: serde_json::Map<String, Value> = self
            .kinds
            .iter()
            .map(|(kind, tokens)| (kind.key().to_owned(), tokens.0.into()))
            .collect();
        let tools = self
            .tools
            .iter()
            .map(|tool| json!({"name": tool.name, "calls": tool.calls, "tokens": tool.tokens.0}));
        let largest = self.largest.iter().map(|part| {
            let place = file.conversation.name_of(part.message);
            let handle = part.handle.to_string();
            json!({"at": place, "what": part.what, "tokens": part.tokens.0, "handle": handle})
        });
        [
            ("kinds", kinds.into()),
            ("tools", tools.collect::<Vec<_>>().into()),
            ("servers", json!(self.servers)),
            ("repeated", json!(self.repeated)),
            ("largest", largest.collect::<Vec<_>>().into()),
        ]
    }

    /// Writes it for people.
    pub(super) fn lines(&self, file: &CountedFile) -> String {
        let total = file.total();
        let figure = |tokens: Tokens| file.meter.figure(tokens);
        let longest = self.tools.iter().take(LISTED_MAX).map(|tool| tool.name.chars().count());
        let width = longest.max().unwrap_or(0).clamp(NAME_MIN, NAME_MAX);
        let line = |name: &str, tokens: Tokens, rest: &str| {
            let percent = match tokens.0 * 100 / total.0.max(1) {
                0 => "<1".to_owned(),
                percent => percent.to_string(),
            };
            let name = gist(name, width);
            output::cut(&format!("{name:<width$} {:>9} {percent:>3}%  {rest}", figure(tokens)))
        };
        let mut lines = Vec::new();
        let bar_max = output::columns().saturating_sub(width + COLUMNS_BEFORE_BAR);
        for (kind, tokens) in &self.kinds {
            let cells = tokens.0 * bar_max.clamp(4, BAR_MAX) as u64;
            let bar = "█".repeat(cells.div_ceil(total.0.max(1)) as usize);
            lines.push(line(kind.name(), *tokens, &bar));
        }
        if !self.tools.is_empty() {
            lines.extend([String::new(), "tools, with their calls and results".to_owned()]);
        }
        for tool in self.tools.iter().take(LISTED_MAX) {
            lines.push(line(&tool.name, tool.tokens, &counted(tool.calls, "call")));
        }
        if let Some(more @ 1..) = self.tools.len().checked_sub(LISTED_MAX) {
            lines.push(format!("and {}", counted(more, "more tool")));
        }
        if !self.servers.is_empty() {
            lines.extend([String::new(), "servers of MCP, with their tools".to_owned()]);
        }
        for server in self.servers.iter().take(LISTED_MAX) {
            let name = output::harmless_line(&server.name);
            let calls = counted(server.calls as usize, "call");
            let tools = match server.tools {
                0 => String::new(),
                tools => format!(", {} offered", counted(tools as usize, "tool")),
            };
            let tokens = Tokens(server.definitions + server.tokens);
            lines.push(line(&name, tokens, &format!("{calls}{tools}")));
        }
        if self.repeated.results > 0 {
            let results = counted(self.repeated.results as usize, "result");
            let what = format!("{results} that an earlier one says word for word");
            lines.extend([String::new(), line("repeated", Tokens(self.repeated.tokens), &what)]);
        }
        if !self.largest.is_empty() {
            lines.extend([
                String::new(),
                "largest, with what `longhand expand --from` opens".to_owned(),
            ]);
        }
        for part in &self.largest {
            let what = format!("{} {}: {}", part.handle, part.what, gist(&part.words, 40));
            lines.push(line(&format!("message {}", part.message), part.tokens, &what));
        }
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.iter().map(|line| format!("{line}\n")).collect()
    }
}

fn add_to(tools: &mut Vec<Tool>, name: &str, tokens: Tokens, is_call: bool) {
    let at = tools.iter().position(|tool| tool.name == name).unwrap_or_else(|| {
        tools.push(Tool { name: name.to_owned(), calls: 0, tokens: Tokens::ZERO });
        tools.len() - 1
    });
    tools[at].tokens += tokens;
    tools[at].calls += usize::from(is_call);
}
