//! Session files of agents on their way into an archive: each is a session of its own, and what is new in a file that has
//! grown is added to it.
//!
//! A session is found again by the name of its file, and its messages by their chain. So an import that was ended on its
//! way is completed by the next one, and nothing is there twice.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use longhand_archive::{
    After, NewEntry, NewSession, Origin, Owner, Page, SessionFilter, SessionId, Write, wait,
};
use longhand_core::{Seq, cut};
use longhand_dialect::{Conversation, read_growing, unpack};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{App, AppError, ImportRequest};
use crate::agent_files::{Agent, AgentFile};
use crate::driver::{Rejoining, entry_of, group_of, new_entry, opening_of, origin_of};
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
        let (id, bytes) = (self.id_of(file), bytes_of(&file.path)?);
        let outcome = match self.session_of(id)? {
            None => FileOutcome::New,
            Some(info) if info.origin.offset == bytes => FileOutcome::Same,
            Some(_) => FileOutcome::Grown,
        };
        let (file, session) = (file.path.display().to_string(), id.to_string());
        Ok(FileImport { file, bytes, session, outcome, added: 0 })
    }

    /// Whether the archive lacks a session file, or the end of it.
    pub(super) fn is_missing(&self, file: &AgentFile) -> Result<bool, AppError> {
        let known = self.session_of(self.id_of(file))?;
        Ok(known.is_none_or(|info| info.origin.offset != file.bytes))
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
        let bytes = fs::read(&file.path)?;
        let bytes_read = bytes.len() as u64;
        if bytes_read > request.bytes_max {
            return Err(AppError::TooLarge { max: request.bytes_max });
        }
        let text = String::from_utf8(unpack(bytes, request.bytes_max)?);
        let mut text = text.map_err(|_| AppError::NotText)?;
        if let Some(redactor) = &request.redactor {
            text = redactor.redact(&text).into_owned();
        }
        let conversation = read_growing(Arc::new(text), None)?;
        if !conversation.dialect.is_session_file() {
            let what = format!("{} is no session file", conversation.dialect);
            return Err(longhand_dialect::DialectError::NotAConversation(what).into());
        }
        if import.outcome == FileOutcome::New
            && !file.is_of_sub_agent
            && self.is_recorded(file)?
            && let Rejoining::Known(rejoined) = self.rejoined(
                conversation.bytes().to_owned(),
                read_growing(Arc::new(conversation.bytes().to_owned()), None)?,
                request,
            )?
        {
            (import.session, import.added) =
                (rejoined.session.id.to_string(), rejoined.added as u64);
            import.outcome =
                if rejoined.added > 0 { FileOutcome::Grown } else { FileOutcome::Same };
            return Ok(import);
        }
        let entries = entries_of(&conversation, request.now_ms);
        if entries.is_empty() {
            return Err(AppError::NothingToImport);
        }
        let id = self.id_of(file);
        let owner = self.owner.unwrap_or(Owner::LOCAL);
        self.archive.begin(id, &new_session(owner, file, &conversation, &entries))?;
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
        import.bytes = bytes_read;
        Ok(import)
    }

    /// Whether a proxy has recorded the conversation of a file.
    fn is_recorded(&self, file: &AgentFile) -> Result<bool, AppError> {
        let Some(group) = file.id.as_deref().and_then(group_of) else { return Ok(false) };
        let found = wait(self.archive.list_sessions(SessionFilter::Group(group), Page::ALL))?;
        Ok(found.items.iter().any(|info| info.origin.file.is_empty()))
    }

    /// The session of a file. Names of files are unique but for those of sub-agents, which count with their folder.
    fn id_of(&self, file: &AgentFile) -> SessionId {
        let owner = self.owner.unwrap_or(Owner::LOCAL);
        let pieces = if file.is_of_sub_agent { 3 } else { 1 };
        let path: Vec<_> = file.path.components().rev().take(pieces).collect();
        let name: Vec<String> = path
            .iter()
            .map(|piece| piece.as_os_str().to_string_lossy().trim_end_matches(".zst").to_owned())
            .collect();
        SessionId::named(owner, &format!("session file {}", name.join(" in ")))
    }
}

fn bytes_of(path: &Path) -> Result<u64, AppError> {
    Ok(fs::metadata(path)?.len())
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
    // Lists show when something was said, and not when it was imported.
    let mut last_ms = None;
    for entry in &mut entries {
        last_ms = entry.source_ms.or(last_ms);
        entry.at_ms = last_ms.unwrap_or(entry.at_ms);
    }
    entries
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
    entries: &[NewEntry],
) -> NewSession {
    let dialect = conversation.dialect;
    let path = file.path.to_string_lossy();
    let beginning = cut::head(conversation.bytes(), BEGINNING);
    let origin = Origin { offset: 0, ..origin_of(dialect, beginning, &path) };
    let opening = entries.iter().find_map(|entry| opening_of(&entry.form, &entry.raw));
    let stem = file.path.file_name().unwrap_or_default().to_string_lossy();
    let stem = stem.split_once(".jsonl").map_or(&*stem, |(stem, _)| stem);
    // Sub-agents of Claude Code name the session that they belong to.
    let lines = beginning.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut named = lines.filter_map(|line| Some(line["sessionId"].as_str()?.to_owned()));
    let conversation_id = match file.agent {
        Agent::Claude => named.next().or_else(|| file.id.clone()),
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
