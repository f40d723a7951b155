//! The database in which opencode keeps its sessions.
//!
//! It is opened to read only. A message is a row with its facts, and its parts are rows of their own: texts, calls with their
//! results, files. A compaction is an answer that is marked as a summary.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use longhand_core::json::quote;
use longhand_dialect::{Transcript, TranscriptNote};
use rusqlite::{Connection, OpenFlags, Row};
use serde_json::Value;

use super::{Agent, AgentFile, FindFileError};
use crate::time;

/// The name of the database.
pub(super) const FILE: &str = "opencode.db";
/// What every database of `SQLite` begins with.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// How long to wait for the agent while it writes.
const WAIT: Duration = Duration::from_secs(5);

/// What a session says of itself.
pub(super) struct SessionFacts {
    pub(super) folder: String,
    pub(super) title: String,
}

/// A message with its parts.
struct StoredMessage {
    facts: Value,
    at_ms: i64,
    parts: Vec<Value>,
}

/// Whether a file is a database of `SQLite`.
pub(super) fn is_database(file: &Path) -> bool {
    let mut head = [0; MAGIC.len()];
    let read = File::open(file).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && head == *MAGIC
}

/// The sessions of a database; none if it is not there.
pub(super) fn sessions(file: &Path) -> Result<Vec<AgentFile>, FindFileError> {
    if !file.is_file() {
        return Ok(Vec::new());
    }
    let read = || -> rusqlite::Result<Vec<AgentFile>> {
        let database = open(file)?;
        let mut statement = database.prepare(
            "SELECT id, parent_id, max(time_updated, \
               coalesce((SELECT max(time_updated) FROM message WHERE session_id = session.id), 0), \
               coalesce((SELECT max(time_updated) FROM part WHERE session_id = session.id), 0)) \
             FROM session",
        )?;
        let session = |row: &Row| {
            let (id, parent, ms): (String, Option<String>, i64) =
                (row.get(0)?, row.get(1)?, row.get(2)?);
            let ms = u64::try_from(ms).unwrap_or(0);
            Ok(AgentFile {
                session: Some(id.clone()),
                id: Some(id),
                is_of_sub_agent: parent.is_some(),
                modified: UNIX_EPOCH.checked_add(Duration::from_millis(ms)),
                bytes: ms,
                ..AgentFile::of(Agent::Opencode, file)
            })
        };
        statement.query_map([], session)?.collect()
    };
    read().map_err(|error| failure(file, &error))
}

pub(super) fn facts(session: &AgentFile) -> Option<SessionFacts> {
    let query = "SELECT directory, title FROM session WHERE id = ?1";
    let facts = |row: &Row| Ok(SessionFacts { folder: row.get(0)?, title: row.get(1)? });
    open(&session.path).ok()?.query_row(query, [session.session.as_ref()?], facts).ok()
}

/// The session that a sub-agent belongs to, or the session itself.
pub(super) fn main_session(session: &AgentFile) -> Option<String> {
    let query = "WITH RECURSIVE up(id, parent) AS (SELECT id, parent_id FROM session WHERE id = ?1 \
                 UNION SELECT session.id, session.parent_id FROM session JOIN up ON session.id = up.parent) \
                 SELECT id FROM up WHERE parent IS NULL";
    let id = session.session.as_ref()?;
    open(&session.path).ok()?.query_row(query, [id], |row| row.get(0)).ok()
}

/// Reads a session.
pub(super) fn transcript(session: &AgentFile) -> Result<Transcript, FindFileError> {
    let failed = |error: rusqlite::Error| failure(&session.path, &error);
    let id = session.session.as_deref().unwrap_or_default();
    let messages = messages(&session.path, id).map_err(failed)?;
    let mut transcript = Transcript::new(Agent::Opencode.as_str());
    transcript.id = Some(id.to_owned());
    transcript.folder = facts(session).map(|facts| facts.folder);
    let newest = messages.len().saturating_sub(1);
    for (at, message) in messages.iter().enumerate() {
        // The answer that is being written comes when it is there.
        let is_open = message.facts["role"] == "assistant"
            && message.facts["time"]["completed"].is_null()
            && message.facts["error"].is_null();
        if at < newest || !is_open {
            message.tell(&mut transcript);
        }
    }
    Ok(transcript)
}

fn messages(file: &Path, session: &str) -> rusqlite::Result<Vec<StoredMessage>> {
    let database = open(file)?;
    let mut statement = database.prepare(
        "SELECT message.id, message.data, message.time_created, part.data FROM message \
         LEFT JOIN part ON part.message_id = message.id WHERE message.session_id = ?1 \
         ORDER BY message.time_created, message.id, part.id",
    )?;
    let mut rows = statement.query([session])?;
    let mut found: Vec<(String, StoredMessage)> = Vec::new();
    while let Some(row) = rows.next()? {
        let id: String = row.get(0)?;
        let json = |text: String| serde_json::from_str::<Value>(&text).unwrap_or_default();
        if found.last().is_none_or(|(known, _)| *known != id) {
            let message =
                StoredMessage { facts: json(row.get(1)?), at_ms: row.get(2)?, parts: Vec::new() };
            found.push((id, message));
        }
        if let (Some((_, message)), Some(part)) =
            (found.last_mut(), row.get::<_, Option<String>>(3)?)
        {
            message.parts.push(json(part));
        }
    }
    Ok(found.into_iter().map(|(_, message)| message).collect())
}

impl StoredMessage {
    fn tell(&self, transcript: &mut Transcript) {
        let when = Some(time::format(self.at_ms));
        let words = self.words();
        if self.facts["summary"] == Value::Bool(true) {
            let before = transcript.messages.len();
            transcript.notes.push(TranscriptNote { before, text: words, time: when });
            return;
        }
        let calls: Vec<&Value> = self.parts.iter().filter(|part| part["type"] == "tool").collect();
        if words.is_empty() && calls.is_empty() {
            return;
        }
        let role = if self.facts["role"] == "assistant" { "assistant" } else { "user" };
        let made: Vec<String> = calls.iter().map(|call| call_of(call)).collect();
        let made = if made.is_empty() {
            String::new()
        } else {
            format!(r#","tool_calls":[{}]"#, made.join(","))
        };
        let words = quote(&words);
        transcript.add(format!(r#"{{"role":"{role}","content":{words}{made}}}"#), when.clone());
        for call in calls {
            let state = &call["state"];
            let output = state["output"].as_str().or_else(|| state["error"].as_str());
            if let Some(output) = output {
                let ended = state["time"]["end"].as_i64().map(time::format);
                let id = call["callID"].as_str().unwrap_or_default();
                transcript.answer(id, output, ended.or_else(|| when.clone()));
            }
        }
    }

    /// Its texts, with a note for each file.
    fn words(&self) -> String {
        let words = self.parts.iter().filter_map(|part| match part["type"].as_str()? {
            "text" if part["ignored"] != Value::Bool(true) => {
                part["text"].as_str().map(str::to_owned)
            }
            "file" => Some(format!("[file {}]", part["filename"].as_str().unwrap_or_default())),
            _ => None,
        });
        words.filter(|words| !words.is_empty()).collect::<Vec<_>>().join("\n\n")
    }
}

fn call_of(part: &Value) -> String {
    let id = quote(part["callID"].as_str().unwrap_or_default());
    let name = quote(part["tool"].as_str().unwrap_or_default());
    let arguments = quote(&part["state"]["input"].to_string());
    format!(
        r#"{{"id":{id},"type":"function","function":{{"name":{name},"arguments":{arguments}}}}}"#
    )
}

fn open(file: &Path) -> rusqlite::Result<Connection> {
    let database = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    database.busy_timeout(WAIT)?;
    Ok(database)
}

/// What is wrong with a database, and what it has instead of what was expected.
fn failure(file: &Path, error: &rusqlite::Error) -> FindFileError {
    let tables = || -> rusqlite::Result<String> {
        let database = open(file)?;
        let mut statement =
            database.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' LIMIT 12")?;
        let names: rusqlite::Result<Vec<String>> =
            statement.query_map([], |row| row.get(0))?.collect();
        Ok(names?.join(", "))
    };
    let tables = tables().map(|tables| format!("; it has the tables {tables}")).unwrap_or_default();
    FindFileError::Database { file: file.to_owned(), what: format!("{error}{tables}") }
}
