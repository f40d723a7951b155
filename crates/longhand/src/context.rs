//! What fills a context without need: results that are there twice, tools of servers, and what a compaction of an agent has cost.

use std::collections::{HashMap, HashSet};

use longhand_core::{Message, Part, Scale, Tokens, content, content_hash};
use longhand_dialect::Conversation;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What the names of tools begin with that a server of MCP offers.
const SERVER_PREFIX: &str = "mcp__";

/// The tools of a server of MCP.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct McpServer {
    /// Its name.
    pub name: String,
    /// How many of its tools the request offers; session files do not tell.
    pub tools: u64,
    /// The tokens of their definitions.
    pub definitions: u64,
    /// How many calls there are of them.
    pub calls: u64,
    /// The tokens of these calls and of their results.
    pub tokens: u64,
}

/// Results that say just what an earlier one says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RepeatedResults {
    /// How many there are.
    pub results: u64,
    /// Their tokens.
    pub tokens: u64,
}

/// What a compaction of an agent has cost, and what came back after it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AgentCompaction {
    /// How many messages had been said before it, in the whole file.
    pub messages_before: u64,
    /// The tokens of those since the compaction before, which it took away.
    pub tokens_before: u64,
    /// The tokens of the summary.
    pub summary_tokens: u64,
    /// The words of the summary.
    pub summary_words: u64,
    /// How many calls were made again after it, with the same arguments, until the next one.
    pub calls_again: u64,
    /// The tokens of these calls and of their results.
    pub tokens_again: u64,
}

/// Finds the servers whose tools are offered or called, those that take most first.
pub fn mcp_servers(conversation: &Conversation, scale: &Scale) -> Vec<McpServer> {
    let mut servers: HashMap<String, McpServer> = HashMap::new();
    let mut add = |tool: &str, add: &dyn Fn(&mut McpServer)| {
        let Some(name) = server_of(tool) else { return };
        let new = || McpServer { name: name.to_owned(), ..McpServer::default() };
        add(servers.entry(name.to_owned()).or_insert_with(new));
    };
    for attribute in &conversation.attributes {
        let Ok(Value::Array(tools)) = serde_json::from_str(attribute.raw()) else { continue };
        for tool in &tools {
            let name = tool["name"].as_str().or_else(|| tool["function"]["name"].as_str());
            let tokens = scale.text(&tool.to_string()).0;
            add(name.unwrap_or_default(), &|server| {
                server.tools += 1;
                server.definitions += tokens;
            });
        }
    }
    let mut names: HashMap<String, String> = HashMap::new();
    for part in conversation.messages.iter().flat_map(|message| &message.parts) {
        let tokens = || scale.tokens(scale.part(part, u64::MAX)).0;
        match part {
            Part::Call(call) => {
                let name = call.name.decode().into_owned();
                add(&name, &|server| {
                    server.calls += 1;
                    server.tokens += tokens();
                });
                names.insert(call.id.decode().into_owned(), name);
            }
            Part::Result(result) => {
                if let Some(name) = names.get(result.call.decode().as_ref()) {
                    add(name, &|server| server.tokens += tokens());
                }
            }
            _ => {}
        }
    }
    let mut servers: Vec<McpServer> = servers.into_values().collect();
    servers.sort_by(|one, other| {
        let taken = |server: &McpServer| server.definitions + server.tokens;
        (taken(other), &one.name).cmp(&(taken(one), &other.name))
    });
    servers
}

fn server_of(tool: &str) -> Option<&str> {
    let (server, _) = tool.strip_prefix(SERVER_PREFIX)?.split_once("__")?;
    (!server.is_empty()).then_some(server)
}

/// Counts the results that say just what an earlier one says; short ones repeat by chance.
pub fn repeated_results(messages: &[Message], scale: &Scale) -> RepeatedResults {
    const CHARS_MIN: usize = 200;
    let mut seen = HashSet::new();
    let mut repeated = RepeatedResults::default();
    for part in messages.iter().flat_map(|message| &message.parts) {
        if !matches!(part, Part::Result(_)) {
            continue;
        }
        let text = content(part);
        if text.as_str().len() >= CHARS_MIN && !seen.insert(content_hash(text.as_str())) {
            repeated.results += 1;
            repeated.tokens += scale.tokens(scale.part(part, u64::MAX)).0;
        }
    }
    repeated
}

/// What the compactions of its agent have cost a session, oldest first. Takes all of the file, as
/// [`longhand_dialect::read_growing`] reads it.
pub fn agent_compactions(everything: &Conversation, scale: &Scale) -> Vec<AgentCompaction> {
    let summaries = everything.agent_summaries();
    let messages = &everything.messages;
    let tokens = |messages: &[Message]| -> Tokens {
        messages.iter().map(|message| scale.message(message, Tokens::MAX)).sum()
    };
    let mut before = 0;
    let mut compactions = Vec::with_capacity(summaries.len());
    for (at, summary) in summaries.iter().enumerate() {
        let next = summaries.get(at + 1).map_or(messages.len(), |next| next.before);
        let (calls_again, tokens_again) =
            made_again(&messages[..summary.before], &messages[summary.before..next], scale);
        compactions.push(AgentCompaction {
            messages_before: summary.before as u64,
            tokens_before: tokens(&messages[before..summary.before]).0,
            summary_tokens: scale.text(&summary.text).0,
            summary_words: summary.text.split_whitespace().count() as u64,
            calls_again,
            tokens_again,
        });
        before = summary.before;
    }
    compactions
}

/// The calls that were made before and are made again, with their results.
fn made_again(before: &[Message], after: &[Message], scale: &Scale) -> (u64, u64) {
    let says = |call: &longhand_core::ToolCall| {
        format!("{}\n{}", call.name.decode(), call.arguments.decode())
    };
    let made: HashSet<String> = before.iter().flat_map(Message::calls).map(says).collect();
    let mut again = HashSet::new();
    let mut tokens = 0;
    for part in after.iter().flat_map(|message| &message.parts) {
        let is_again = match part {
            Part::Call(call) => {
                let is_again = made.contains(&says(call));
                if is_again {
                    again.insert(call.id.decode().into_owned());
                }
                is_again
            }
            Part::Result(result) => again.contains(result.call.decode().as_ref()),
            _ => false,
        };
        if is_again {
            tokens += scale.tokens(scale.part(part, u64::MAX)).0;
        }
    }
    (again.len() as u64, tokens)
}
