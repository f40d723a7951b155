//! Sessions on their way to other programs: as a request, as a session file of an agent, or for people to read.

mod markdown;

use std::io::Write;

use longhand_archive::{Entry, SessionInfo};
use longhand_core::{Message, Part, Role};
use longhand_dialect::{
    Dialect, SessionFileStart, Sourced, TimedMessage, WrittenSession, read, write, write_session,
};
use serde::{Deserialize, Serialize};

use super::{Access, App, AppError};
use crate::agent_files::{Agent, AgentCommand};
use crate::entry::{Form, trace};
use crate::{recall, time};

/// How many entries are read at a time.
const ENTRIES_AT_A_TIME: u64 = 1_000;

/// What a session is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ExportForm {
    /// A list of messages of Chat Completions.
    Chat,
    /// A request of Anthropic Messages.
    Anthropic,
    /// A list of items of Responses.
    Responses,
    /// A session file of Claude Code.
    ClaudeCode,
    /// A session file of Codex.
    Codex,
    /// A session file of pi.
    Pi,
    /// For people to read.
    Markdown,
}

/// How a session is exported.
#[derive(Clone, Debug)]
pub struct ExportAsRequest {
    /// What it is written as.
    pub form: ExportForm,
    /// The id of a new session of an agent: a UUID.
    pub id: String,
    /// The folder of a session whose own is not known.
    pub folder: String,
    /// The time, in milliseconds since 1970.
    pub now_ms: i64,
}

/// What was exported, and what was not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ExportedAs {
    /// The id of the session in the archive.
    pub session: String,
    /// Its name.
    pub name: String,
    /// What it was written as.
    pub form: ExportForm,
    /// How many messages were written.
    pub messages: u64,
    /// How many pictures, recordings and files a note stands for.
    pub attachments_left: u64,
    /// How many messages of a system or developer stay out of a session file.
    pub system_left: u64,
    /// What a file with it has to be called so that its agent finds it.
    pub file_name: Option<String>,
    /// What goes on in it once it is where its agent looks for sessions.
    pub command: Option<AgentCommand>,
}

/// An entry as it was said.
struct SaidEntry {
    entry: Entry,
    said: Option<(Dialect, Message)>,
}

impl ExportForm {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Chat,
        Self::Anthropic,
        Self::Responses,
        Self::ClaudeCode,
        Self::Codex,
        Self::Pi,
        Self::Markdown,
    ];

    /// The format of messages that it has; `None` for what people read.
    pub fn dialect(self) -> Option<Dialect> {
        Some(match self {
            Self::Chat => Dialect::Chat,
            Self::Anthropic => Dialect::Anthropic,
            Self::Responses => Dialect::Responses,
            Self::ClaudeCode => Dialect::ClaudeCode,
            Self::Codex => Dialect::Codex,
            Self::Pi => Dialect::Pi,
            Self::Markdown => return None,
        })
    }
}

impl App {
    /// Writes the newest path of a session in another form.
    ///
    /// The messages are those that were said, without what windows left out of them and without the system prompt, which
    /// every program brings itself.
    pub fn export_as(
        &self,
        name: &str,
        request: &ExportAsRequest,
        out: &mut dyn Write,
    ) -> Result<ExportedAs, AppError> {
        let (info, _) = self.look_up(name, Access::Read)?;
        let entries = self.said_on_path(&info)?;
        let messages: Vec<&(Dialect, Message)> =
            entries.iter().filter_map(|entry| entry.said.as_ref()).collect();
        let mut report = ExportedAs {
            session: info.id.to_string(),
            name: info.name.clone(),
            form: request.form,
            messages: messages.len() as u64,
            attachments_left: 0,
            system_left: 0,
            file_name: None,
            command: None,
        };
        let Some(dialect) = request.form.dialect() else {
            markdown::write(&info, &self.task(&info), &entries, out)?;
            return Ok(report);
        };
        let parts = messages.iter().flat_map(|(_, message)| &message.parts);
        report.attachments_left = parts.map(attachments).sum();
        if !dialect.is_session_file() {
            let sourced: Vec<Sourced> =
                messages.iter().map(|(dialect, message)| (*dialect, message)).collect();
            out.write_all(mended(&write(&sourced, dialect), dialect)?.as_bytes())?;
            out.write_all(b"\n")?;
            out.flush()?;
            return Ok(report);
        }
        let is_system = |(_, message): &&&(Dialect, Message)| message.role == Role::System;
        report.system_left = messages.iter().filter(is_system).count() as u64;
        report.messages -= report.system_left;
        let session = written_session(&info, &entries, request);
        let timed: Vec<TimedMessage> = entries.iter().filter_map(SaidEntry::timed).collect();
        out.write_all(write_session(&timed, dialect, &session)?.as_bytes())?;
        out.flush()?;
        report.set_place(dialect, &session);
        Ok(report)
    }

    fn said_on_path(&self, info: &SessionInfo) -> Result<Vec<SaidEntry>, AppError> {
        let mut all = Vec::new();
        let mut start = 0;
        while start < info.entries {
            let end = info.entries.min(start + ENTRIES_AT_A_TIME);
            let entries = self.archive.path(info.id, None, start..end)?;
            all.extend(
                entries.into_iter().map(|entry| SaidEntry { said: recall::said(&entry), entry }),
            );
            start = end;
        }
        Ok(all)
    }
}

impl SaidEntry {
    fn timed(&self) -> Option<TimedMessage<'_>> {
        let (dialect, message) = self.said.as_ref()?;
        let time = time::format(self.entry.said_ms());
        Some(TimedMessage { message: (*dialect, message), time })
    }

    /// What an agent or a program noted: a title and a text.
    fn note(&self) -> Option<(String, String)> {
        (Form::parse(&self.entry.form) == Some(Form::Trace)).then(|| trace(&self.entry.raw))?
    }
}

impl ExportedAs {
    fn set_place(&mut self, dialect: Dialect, session: &WrittenSession) {
        let id = &session.start.id;
        let seconds = session.start.time.split('.').next().unwrap_or_default().replace(':', "-");
        let name = match dialect {
            Dialect::Codex => format!("rollout-{seconds}-{id}.jsonl"),
            Dialect::Pi => format!("{}_{id}.jsonl", session.start.time.replace([':', '.'], "-")),
            _ => format!("{id}.jsonl"),
        };
        // pi is given a file, and where that will be is not known.
        let agent = Agent::of_dialect(dialect).filter(|agent| *agent != Agent::Pi);
        self.command = agent.map(|agent| {
            let path = std::path::Path::new(&name);
            AgentCommand::resume(agent, path, id, Some(session.folder.clone()))
        });
        self.file_name = Some(name);
    }
}

fn written_session(
    info: &SessionInfo,
    entries: &[SaidEntry],
    request: &ExportAsRequest,
) -> WrittenSession {
    let begun = entries.first().map_or(request.now_ms, |entry| entry.entry.said_ms());
    let known = Some(info.origin.project.clone()).filter(|folder| !folder.is_empty());
    WrittenSession {
        start: SessionFileStart {
            id: request.id.clone(),
            time: time::format(begun),
            parent: String::new(),
            tokens_before: 0,
        },
        folder: known.unwrap_or_else(|| request.folder.clone()),
        model: Some(info.usage.model.clone()).filter(|model| !model.is_empty()),
    }
}

/// A request that a provider takes: calls that have no result get one that says so.
fn mended(text: &str, dialect: Dialect) -> Result<String, AppError> {
    let conversation = read(text.as_bytes().to_vec(), Some(dialect))?;
    Ok(conversation.repair()?.bytes().to_owned())
}

/// How many things of a part only a note stands for.
fn attachments(part: &Part) -> u64 {
    match part {
        Part::Image(_) | Part::Media(_) | Part::File(_) => 1,
        Part::Result(result) => result.content.iter().map(attachments).sum(),
        _ => 0,
    }
}
