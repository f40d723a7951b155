//! Session files of agents on their way into an archive: each is a session of its own, and what is new in a file that has
//! grown is added to it.
//!
//! A session is found again by the name of its file, and its messages by their chain. So an import that was ended on its
//! way is completed by the next one, and nothing is there twice.

use std::fs;
use std::sync::Arc;

use longhand_archive::{
    After, NewEntry, NewSession, Origin, Owner, Page, SessionFilter, SessionId, SessionInfo, Write,
    wait,
};
use longhand_core::{Seq, cut};
use longhand_dialect::{Conversation, Transcript, read_growing};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{App, AppError, ImportRequest};
use crate::agent_files::{Agent, AgentContent, AgentFile};
use crate::driver::{Rejoining, entry_of, group_of, keep_logs, new_entry, opening_of, origin_of};
use crate::time;

/// How much of a file tells where it comes from.
const BEGINNING: usize = 64 << 10;
/// How many bytes of messages are appended in one transaction, but for one message that has more.
const BYTES_AT_A_TIME: usize = 4 << 20;
/// How many messages are appended in one transaction.
const MESSAGES_AT_A_TIME: usize = 256;
/// What the agent's own summaries are called.
const SUMMARY: &str = "compaction of the agent";

/// What became of a session file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FileImport {
    /// The file.
    pub file: String,
    /// Its size.
    pub bytes: u64,
    /// The id of its session in the archive.
    pub session: String,
    /// What was done, or would be.
    pub outcome: FileOutcome,
    /// How many entries are new.
    pub added: u64,
    /// The lines that could not be read, from 1, and are not in the archive. A last line that is still being written is none
    /// of them: it comes with the next import.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<u32>,
}

/// What an import does with a session file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum FileOutcome {
    /// The archive did not have it.
    New,
    /// It has changed since it was imported.
    Grown,
    /// It is as it was when it was imported; it is not even read.
    Same,
}

impl App {
    /// Says what an import would do with a session file, without reading it.
    pub fn weigh_agent_file(&self, file: &AgentFile) -> Result<FileImport, AppError> {
        let (id, bytes) = (self.id_of(file), bytes_of(file)?);
        let outcome = match self.session_of(id)? {
            None if self.added_to_recorded(file)? == Some(bytes) => FileOutcome::Same,
            None => FileOutcome::New,
            Some(info) if info.origin.offset == bytes => FileOutcome::Same,
            Some(_) => FileOutcome::Grown,
        };
        let (file, session) = (file.place(), id.to_string());
        Ok(FileImport { file, bytes, session, outcome, added: 0, unread: Vec::new() })
    }

    /// Whether the archive lacks a session file, or the end of it.
    pub(super) fn is_missing(&self, file: &AgentFile) -> Result<bool, AppError> {
        Ok(match self.session_of(self.id_of(file))? {
            Some(info) => info.origin.offset != file.bytes,
            None => self.added_to_recorded(file)? != Some(file.bytes),
        })
    }

    /// Imports a session file of an agent, or what is new in it.
    pub fn import_agent_file(
        &self,
        file: &AgentFile,
        request: &ImportRequest,
    ) -> Result<FileImport, AppError> {
        let mut import = self.weigh_agent_file(file)?;
        if import.outcome == FileOutcome::Same {
            return Ok(import);
        }
        // What is appended while it is read comes with the next import.
        let bytes_read = bytes_of(file)?;
        let content = file.content(request.bytes_max)?;
        let (conversation, told) = match content {
            AgentContent::Lines { text, .. } => {
                let is_cut = !text.ends_with('\n');
                let lines = text.lines().count();
                let conversation = read_lines(text, request)?;
                import.unread = conversation.unread().to_vec();
                import.unread.retain(|line| !is_cut || *line as usize != lines);
                (conversation, None)
            }
            AgentContent::Told(told) => {
                import.unread.clone_from(&told.unread);
                (read_lines(told.as_list(), request)?, Some(told))
            }
        };
        if told.is_none() && !conversation.dialect.is_session_file() {
            let what = format!("{} is no session file", conversation.dialect);
            return Err(longhand_dialect::DialectError::NotAConversation(what).into());
        }
        if import.outcome == FileOutcome::New
            && !file.is_of_sub_agent
            && let Some(recorded) = self.recorded(file)?
            && let Rejoining::Known(rejoined) = self.rejoined(
                conversation.bytes().to_owned(),
                read_growing(
                    Arc::new(conversation.bytes().to_owned()),
                    Some(conversation.dialect),
                )?,
                request,
            )?
        {
            (import.session, import.added) =
                (rejoined.session.id.to_string(), rejoined.added as u64);
            import.outcome =
                if rejoined.added > 0 { FileOutcome::Grown } else { FileOutcome::Same };
            self.archive.put_derived(recorded.id, &key_of(file), &bytes_read.to_string())?;
            return Ok(import);
        }
        let entries = match &told {
            None => entries_of(&conversation, request.now_ms),
            Some(told) => entries_told(&conversation, told, request),
        };
        if entries.is_empty() {
            return Err(AppError::NothingToImport);
        }
        let id = self.id_of(file);
        let owner = self.owner.unwrap_or(Owner::LOCAL);
        let new = new_session(owner, file, &conversation, told.as_ref(), &entries);
        self.archive.begin(id, &new)?;
        let mut after: Option<Seq> = None;
        let mut rest = entries.as_slice();
        while !rest.is_empty() {
            let (portion, others) = rest.split_at(portion(rest));
            let appended = self.archive.append(id, After::Entry(after), portion)?;
            import.added += appended.new;
            after = appended.seqs.last().copied();
            rest = others;
        }
        // Only now is the file known to be there up to its end.
        let write = Write { session: id, imported: Some(bytes_read), ..Write::default() };
        wait(self.archive.write(vec![write]))?
            .into_iter()
            .try_for_each(|written| written.map(drop))?;
        keep_logs(&self.archive, id)?;
        import.bytes = bytes_read;
        Ok(import)
    }

    /// A session in which a proxy has recorded the conversation of a file.
    fn recorded(&self, file: &AgentFile) -> Result<Option<SessionInfo>, AppError> {
        let Some(group) = file.id.as_deref().and_then(group_of) else { return Ok(None) };
        let found = wait(self.archive.list_sessions(SessionFilter::Group(group), Page::ALL))?;
        Ok(found.items.into_iter().find(|info| info.origin.file.is_empty()))
    }

    /// How much of a file was added to a session that a proxy has recorded.
    fn added_to_recorded(&self, file: &AgentFile) -> Result<Option<u64>, AppError> {
        let Some(recorded) = self.recorded(file)? else { return Ok(None) };
        let known = self.archive.derived(recorded.id, &key_of(file))?;
        Ok(known.and_then(|bytes| bytes.parse().ok()))
    }

    /// The session of a file. Names of files are unique but for those of sub-agents, which count with their folder.
    fn id_of(&self, file: &AgentFile) -> SessionId {
        let owner = self.owner.unwrap_or(Owner::LOCAL);
        if let Some(session) = &file.session {
            let agent = file.agent.as_str();
            return SessionId::named(owner, &format!("session {session} of {agent}"));
        }
        // Copilot's have one name, in folders of their own.
        let is_log = file.agent == Agent::Copilot;
        let pieces = if file.is_of_sub_agent {
            3
        } else if is_log {
            2
        } else {
            1
        };
        let path: Vec<_> = file.path.components().rev().take(pieces).collect();
        let name: Vec<String> = path
            .iter()
            .map(|piece| piece.as_os_str().to_string_lossy().trim_end_matches(".zst").to_owned())
            .collect();
        SessionId::named(owner, &format!("session file {}", name.join(" in ")))
    }
}

/// The size of a file, or what stands for it.
fn bytes_of(file: &AgentFile) -> Result<u64, AppError> {
    Ok(if file.session.is_some() { file.bytes } else { fs::metadata(&file.path)?.len() })
}

/// Where a session keeps how much of a file was added to it.
fn key_of(file: &AgentFile) -> String {
    format!("session file {}", file.name())
}

/// Reads what a file says, without its secrets if that is asked for.
fn read_lines(text: String, request: &ImportRequest) -> Result<Conversation, AppError> {
    let text = match &request.redactor {
        Some(redactor) => redactor.redact(&text).into_owned(),
        None => text,
    };
    Ok(read_growing(Arc::new(text), None)?)
}

/// The messages of a file, with the summaries of its agent in their places.
fn entries_of(conversation: &Conversation, now_ms: i64) -> Vec<NewEntry> {
    let lead = conversation.path().lead;
    let mut summaries = conversation.agent_summaries().into_iter().peekable();
    let mut entries: Vec<NewEntry> = Vec::with_capacity(conversation.messages.len());
    for at in lead..=conversation.messages.len() {
        while let Some(summary) = summaries.next_if(|summary| summary.before <= at) {
            let raw = json!({"name": SUMMARY, "summary": summary.text}).to_string();
            let entry = new_entry("trace", raw, false, now_ms);
            let said_ms = time_of(&summary.line);
            entries.extend(entry.map(|entry| NewEntry { source_ms: said_ms, ..entry }));
        }
        if let Some(message) = conversation.messages.get(at) {
            entries.push(entry_of(conversation.dialect, message, now_ms));
        }
    }
    dated(&mut entries);
    entries
}

/// The messages that were told of a session, with the summaries of its agent in their places.
fn entries_told(
    conversation: &Conversation,
    told: &Transcript,
    request: &ImportRequest,
) -> Vec<NewEntry> {
    let ms = |time: &Option<String>| time.as_deref().and_then(time::parse);
    let mut notes = told.notes.iter().peekable();
    let mut entries: Vec<NewEntry> = Vec::with_capacity(conversation.messages.len());
    for at in 0..=conversation.messages.len() {
        while let Some(note) = notes.next_if(|note| note.before <= at) {
            let text = match &request.redactor {
                Some(redactor) => redactor.redact(&note.text).into_owned(),
                None => note.text.clone(),
            };
            let raw = json!({"name": SUMMARY, "summary": text}).to_string();
            let entry = new_entry("trace", raw, false, request.now_ms);
            entries.extend(entry.map(|entry| NewEntry { source_ms: ms(&note.time), ..entry }));
        }
        if let Some(message) = conversation.messages.get(at) {
            let entry = entry_of(conversation.dialect, message, request.now_ms);
            let said = told.messages.get(at).and_then(|message| ms(&message.time));
            entries.push(NewEntry { source_ms: said, ..entry });
        }
    }
    dated(&mut entries);
    entries
}

/// Lists show when something was said, and not when it was imported.
fn dated(entries: &mut [NewEntry]) {
    let mut last_ms = None;
    for entry in entries {
        last_ms = entry.source_ms.or(last_ms);
        entry.at_ms = last_ms.unwrap_or(entry.at_ms);
    }
}

fn time_of(line: &str) -> Option<i64> {
    let line: Value = serde_json::from_str(line).ok()?;
    time::parse(line["timestamp"].as_str()?)
}

/// How many entries are appended at once.
fn portion(entries: &[NewEntry]) -> usize {
    let mut bytes = 0;
    let fits = |entry: &&NewEntry| {
        bytes += entry.raw.len();
        bytes <= BYTES_AT_A_TIME
    };
    entries.iter().take(MESSAGES_AT_A_TIME).take_while(fits).count().max(1)
}

fn new_session(
    owner: Owner,
    file: &AgentFile,
    conversation: &Conversation,
    told: Option<&Transcript>,
    entries: &[NewEntry],
) -> NewSession {
    let dialect = conversation.dialect;
    let path = file.place();
    let beginning = cut::head(conversation.bytes(), BEGINNING);
    let mut origin = Origin { offset: 0, ..origin_of(dialect, beginning, &path) };
    if let Some(told) = told {
        origin.agent.clone_from(&told.agent);
        origin.project = told.folder.clone().unwrap_or_default();
    }
    let opening = entries.iter().find_map(|entry| opening_of(&entry.form, &entry.raw));
    let stem = file.path.file_name().unwrap_or_default().to_string_lossy();
    let stem = stem.split_once(".jsonl").map_or(&*stem, |(stem, _)| stem);
    // Sub-agents of Claude Code name the session that they belong to.
    let lines = beginning.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut named = lines.filter_map(|line| Some(line["sessionId"].as_str()?.to_owned()));
    let conversation_id = match file.agent {
        Agent::Claude => named.next().or_else(|| file.id.clone()),
        Agent::Codex => parent_thread(beginning).or_else(|| file.id.clone()),
        Agent::Opencode => file.main_session().or_else(|| file.id.clone()),
        _ => file.id.clone(),
    };
    NewSession {
        owner,
        dialect: dialect.as_str().to_owned(),
        name: file.id.clone().unwrap_or_else(|| stem.to_owned()),
        continues: None,
        group: conversation_id.as_deref().and_then(group_of),
        begun_ms: entries.first().map_or(0, |entry| entry.at_ms),
        origin,
        opening: opening.unwrap_or_default(),
    }
}

/// The session of Codex that started the one whose lines these are as a sub-agent.
fn parent_thread(beginning: &str) -> Option<String> {
    let line: Value = serde_json::from_str(beginning.lines().next()?).ok()?;
    let meta = &line["payload"];
    let spawned = &meta["source"]["subagent"]["thread_spawn"]["parent_thread_id"];
    [spawned, &meta["parent_thread_id"]].into_iter().find_map(|id| Some(id.as_str()?.to_owned()))
}
