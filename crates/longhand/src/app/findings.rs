//! What is worth knowing about a session, in plain words, with what to do about it.

use std::collections::{BTreeMap, HashSet};

use longhand_archive::{Page, SessionInfo};
use longhand_core::anchor::identifiers;
use longhand_core::{Message, Part, Role, cut, grouped};
use serde::{Deserialize, Serialize};

use super::prompt_parts::{PromptKind, server_of};
use super::requests::{CacheBreak, RequestLine};
use super::seen_window::SeenWindow;
use super::window_page::Counter;
use super::{Access, App, AppError};
use crate::readable;

/// How many of the newest requests are looked at.
const REQUESTS: usize = 100;

/// With fewer requests, nothing is said of habits.
const REQUESTS_MIN: usize = 10;

/// Tools that take fewer tokens are not worth a word.
const TOOL_TOKENS_MIN: u64 = 500;

/// Results of fewer tokens are not worth a word, nor are those of a tool that has so few of them.
const RESULT_TOKENS_MIN: u64 = 1_000;
const UNUSED_TOKENS_MIN: u64 = 4_000;

/// So many messages may come before a result is referred to.
const MESSAGES_AFTER_MIN: usize = 8;

/// How much of a result is read for names.
const NAMES_BYTES_MAX: usize = 64 << 10;

/// How many names are given as examples.
const EXAMPLES_MAX: usize = 5;

/// Something worth knowing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Finding {
    /// What it is about.
    pub kind: FindingKind,
    /// How bad it is.
    pub weight: FindingWeight,
    /// One line.
    pub title: String,
    /// What was seen, with its figures.
    pub detail: String,
    /// What to do about it.
    pub advice: String,
    /// The id of the session.
    pub session: Option<String>,
    /// Its name.
    pub name: Option<String>,
    /// The tokens that the detail tells of.
    pub tokens: Option<u64>,
    /// Names of tools, or entries: some of them.
    pub examples: Vec<String>,
}

/// What a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FindingKind {
    /// Tools are offered with every request and never called.
    UnusedTools,
    /// Large results that nothing refers to.
    UnusedResults,
    /// The client changes what it sent before.
    ClientBreaksCache,
    /// The budget has little room beside what every request has.
    BudgetTooSmall,
    /// New edits are made all the time.
    Thrashing,
    /// Requests were passed on unchanged since our side failed.
    FailOpen,
    /// The archive is damaged.
    Damaged,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingWeight {
    /// It costs something.
    Warning,
    /// It could be better.
    Notice,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FindingList {
    /// The findings, the worst first.
    pub items: Vec<Finding>,
    /// How many sessions were looked at.
    pub sessions: u64,
    /// Whether there are sessions that were not looked at.
    pub more: bool,
}

impl App {
    /// What is worth knowing about a session.
    pub fn session_findings(&self, name: &str) -> Result<FindingList, AppError> {
        let (info, _) = self.look_up(name, Access::Read)?;
        let mut items = self.findings_of(&info)?;
        items.sort_by_key(|finding| finding.weight);
        Ok(FindingList { items, sessions: 1, more: false })
    }

    /// What is worth knowing about the newest conversations.
    pub fn findings(&self, sessions: usize) -> Result<FindingList, AppError> {
        let found = self.conversations(Page::first(sessions))?;
        let mut items = Vec::new();
        for chain in &found.items {
            items.extend(self.findings_of(chain.main())?);
        }
        items.sort_by_key(|finding| finding.weight);
        let (sessions, more) = (found.items.len() as u64, found.next.is_some());
        Ok(FindingList { items, sessions, more })
    }

    fn findings_of(&self, info: &SessionInfo) -> Result<Vec<Finding>, AppError> {
        if info.is_damaged {
            return Ok(vec![damaged().of(info)]);
        }
        let total = self.request_count(info)?;
        let lines = self.request_lines(info, total.saturating_add(1), REQUESTS)?;
        let mut items = Vec::new();
        items.extend(fail_opens(&lines));
        items.extend(client_breaks(&lines));
        items.extend(thrashing(&lines));
        if let Some(newest) = lines.iter().find(|line| !line.aside) {
            let seen = self.seen_window(info, Some(newest.number))?;
            items.extend(small_budget(&seen));
            items.extend(unused_tools(&seen, &lines));
            items.extend(unused_results(&seen));
        }
        Ok(items.into_iter().map(|finding| finding.of(info)).collect())
    }
}

impl Finding {
    fn new(kind: FindingKind, weight: FindingWeight, title: String) -> Self {
        Self {
            kind,
            weight,
            title,
            detail: String::new(),
            advice: String::new(),
            session: None,
            name: None,
            tokens: None,
            examples: Vec::new(),
        }
    }

    fn of(self, info: &SessionInfo) -> Self {
        Self { session: Some(info.id.to_string()), name: Some(info.name.clone()), ..self }
    }
}

fn number(count: u64) -> String {
    grouped(usize::try_from(count).unwrap_or(usize::MAX))
}

fn damaged() -> Finding {
    let title = "The record of this session is damaged".to_owned();
    Finding {
        detail: "Its checksum does not fit, so nothing in it is certain.".to_owned(),
        advice: "`longhand verify` names all that is damaged; other sessions stay readable."
            .to_owned(),
        ..Finding::new(FindingKind::Damaged, FindingWeight::Warning, title)
    }
}

fn fail_opens(lines: &[RequestLine]) -> Option<Finding> {
    let count = lines.iter().filter(|line| line.bypassed).count() as u64;
    let title = format!("{} requests were passed on unchanged", number(count));
    (count > 0).then(|| Finding {
        detail: format!(
            "Something failed here for {} of the last {} requests, so they went on as they came.",
            number(count),
            number(lines.len() as u64)
        ),
        advice: "The log of the proxy (`longhand serve --log FILE`) says why for each of them."
            .to_owned(),
        ..Finding::new(FindingKind::FailOpen, FindingWeight::Warning, title)
    })
}

fn client_breaks(lines: &[RequestLine]) -> Option<Finding> {
    let broken: Vec<&RequestLine> =
        lines.iter().filter(|line| line.cache_break == Some(CacheBreak::Client)).collect();
    if lines.len() < REQUESTS_MIN || broken.len() < 3 || broken.len() * 10 < lines.len() {
        return None;
    }
    let tokens: u64 =
        broken.iter().map(|line| line.sent.saturating_sub(line.cached.unwrap_or(0))).sum();
    let title = "The client breaks its own cache".to_owned();
    Some(Finding {
        detail: format!(
            "In {} of the last {} requests the provider found little of the request before in its cache, though no \
             edit was made and little time had passed. They sent {} tokens anew.",
            number(broken.len() as u64),
            number(lines.len() as u64),
            number(tokens)
        ),
        advice: "Look for something in the system prompt or in the first messages that changes with every request, such \
                 as the time, a list of files or the order of tools, and move it to the end or turn it off."
            .to_owned(),
        tokens: Some(tokens),
        examples: broken.iter().take(EXAMPLES_MAX).map(|line| format!("request {}", line.number)).collect(),
        ..Finding::new(FindingKind::ClientBreaksCache, FindingWeight::Warning, title)
    })
}

fn thrashing(lines: &[RequestLine]) -> Option<Finding> {
    let turns: Vec<&RequestLine> = lines.iter().filter(|line| !line.aside).take(40).collect();
    let batches: HashSet<u64> =
        turns.iter().map(|line| line.batch).filter(|batch| *batch > 0).collect();
    if turns.len() < REQUESTS_MIN || batches.len() * 4 < turns.len() {
        return None;
    }
    let title = "The window thrashes".to_owned();
    Some(Finding {
        detail: format!(
            "The last {} requests needed {} batches of edits. Each of them makes the provider read the window anew.",
            number(turns.len() as u64),
            number(batches.len() as u64)
        ),
        advice: "Give it a larger --budget, or a smaller --low-water, so that a batch leaves more room; single results \
                 that are nearly as large as the budget can be cut as they come (--clip-new)."
            .to_owned(),
        ..Finding::new(FindingKind::Thrashing, FindingWeight::Warning, title)
    })
}

fn small_budget(seen: &SeenWindow) -> Option<Finding> {
    let request = seen.told_by.as_ref()?;
    let mut counter = Counter::new(seen);
    let fixed: u64 = seen.prompt.iter().map(|part| counter.text(&part.text)).sum();
    let (budget, window) = (request.limit, request.window);
    if budget == 0 || (fixed * 2 < budget && window <= budget) {
        return None;
    }
    let is_over = window > budget;
    let title = if is_over {
        "The window does not fit into its budget".to_owned()
    } else {
        "The budget is small for what every request has".to_owned()
    };
    let weight = if is_over { FindingWeight::Warning } else { FindingWeight::Notice };
    Some(Finding {
        detail: format!(
            "System prompt and tools take {} of the {} tokens of the budget; the newest window has {}.",
            number(fixed),
            number(budget),
            number(window)
        ),
        advice: format!(
            "A budget of {} tokens would leave half of it to the conversation; or offer fewer tools.",
            number(fixed.saturating_mul(2).max(window))
        ),
        tokens: Some(fixed),
        ..Finding::new(FindingKind::BudgetTooSmall, weight, title)
    })
}

fn unused_tools(seen: &SeenWindow, lines: &[RequestLine]) -> Vec<Finding> {
    if lines.len() < REQUESTS_MIN {
        return Vec::new();
    }
    let called = called_tools(seen);
    let mut counter = Counter::new(seen);
    // The tools of each server, and of the client itself under no name.
    let mut unused: BTreeMap<Option<String>, (u64, Vec<String>)> = BTreeMap::new();
    for part in &seen.prompt {
        let server = match &part.kind {
            PromptKind::System | PromptKind::Setting => continue,
            PromptKind::Tool => None,
            PromptKind::OfServer(server) => Some(server.clone()),
        };
        let Some(name) = &part.name else { continue };
        if !called.contains(name) {
            let (tokens, names) = unused.entry(server).or_default();
            *tokens += counter.text(&part.text);
            names.push(name.clone());
        }
    }
    unused.retain(|_, (tokens, _)| *tokens >= TOOL_TOKENS_MIN);
    let finding = |(server, (tokens, names)): (Option<String>, (u64, Vec<String>))| {
        let whose = server.as_ref().map(|server| format!(" of {server}")).unwrap_or_default();
        let is_whole = server.as_ref().is_some_and(|server| {
            !called.iter().any(|name| server_of(name) == Some(server.as_str()))
        });
        let title = format!("{} tools{whose} were never called", number(names.len() as u64));
        let advice = match (&server, is_whole) {
            (Some(server), true) => {
                format!("Turn the MCP server {server} off where it is not needed.")
            }
            (Some(server), false) => {
                format!("Tell the client to offer only the tools of {server} that are used.")
            }
            (None, _) => "Tell the client not to offer them, where it can be told.".to_owned(),
        };
        Finding {
            detail: format!(
                "They take {} tokens of every request, and none of them was called in what the window shows of this \
                 session ({} requests).",
                number(tokens),
                number(lines.first().map_or(0, |line| line.number))
            ),
            advice,
            tokens: Some(tokens),
            examples: names.into_iter().take(EXAMPLES_MAX).collect(),
            ..Finding::new(FindingKind::UnusedTools, FindingWeight::Notice, title)
        }
    };
    unused.into_iter().map(finding).collect()
}

fn called_tools(seen: &SeenWindow) -> HashSet<String> {
    let calls = seen.messages.iter().flat_map(Message::calls);
    calls.map(|call| call.name.decode().into_owned()).collect()
}

/// Large results of which no name comes up again.
fn unused_results(seen: &SeenWindow) -> Vec<Finding> {
    let mut counter = Counter::new(seen);
    // What the model and the user say after each message; results are not asked.
    let mut said_later: HashSet<String> = HashSet::new();
    let mut unused: BTreeMap<String, (u64, Vec<String>)> = BTreeMap::new();
    let count = seen.messages.len();
    for (at, message) in seen.messages.iter().enumerate().rev() {
        for (part, content) in message.parts.iter().enumerate() {
            let Part::Result(_) = content else {
                let is_said = matches!(message.role, Role::Assistant | Role::User);
                if is_said && !content.is_thinking() {
                    let text = readable::content(content);
                    said_later.extend(names_in(&text));
                }
                continue;
            };
            if at + MESSAGES_AFTER_MIN >= count || seen.window.change(at, part).is_some() {
                continue;
            }
            let (tokens, _) = counter.part(message, part, None);
            if tokens < RESULT_TOKENS_MIN {
                continue;
            }
            let text = readable::content(content);
            let mut names = names_in(&text).peekable();
            if names.peek().is_none() || names.any(|name| said_later.contains(&name)) {
                continue;
            }
            let tool = seen.tool(content).unwrap_or_else(|| "a tool".to_owned());
            let (sum, entries) = unused.entry(tool).or_default();
            *sum += tokens;
            entries.push(format!("entry {}", seen.seqs[at].0));
        }
    }
    unused.retain(|_, (tokens, _)| *tokens >= UNUSED_TOKENS_MIN);
    let finding = |(tool, (tokens, entries)): (String, (u64, Vec<String>))| {
        let title =
            format!("{} results of {tool} were never referred to", number(entries.len() as u64));
        Finding {
            detail: format!(
                "They take {} tokens of the window, and no name that they have comes up in what was said after them.",
                number(tokens)
            ),
            advice: format!(
                "Have {tool} return less: a range of lines, a narrower search, or a limit to its output."
            ),
            tokens: Some(tokens),
            examples: entries.into_iter().take(EXAMPLES_MAX).collect(),
            ..Finding::new(FindingKind::UnusedResults, FindingWeight::Notice, title)
        }
    };
    unused.into_iter().map(finding).collect()
}

fn names_in(text: &str) -> impl Iterator<Item = String> {
    identifiers(cut::head(text, NAMES_BYTES_MAX)).map(str::to_owned)
}
