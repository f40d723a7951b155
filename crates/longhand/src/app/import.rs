//! Conversations on their way into an archive: exports, states of windows, requests and session files of agents.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use longhand_archive::{After, NewEntry, NewSession, Origin, Owner, SessionId, SessionInfo};
use longhand_core::{Meaning, Seq, cut};
use longhand_dialect::{Conversation, Transcript, read_growing, unpack};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{App, AppError, check_new_name};
use crate::agent_files::{Agent, AgentFile};
use crate::driver::{
    Rejoined, Rejoining, entry_with, group_of, keep_logs, new_entry, opening_of, origin_of, rejoin,
};
use crate::transfer::{self, Exported, ExportedMessage, ExportedSession, Imported, TransferError};
use crate::{Redactor, Round};

/// In how many lines of a session file its id is looked for.
const ID_LINES_MAX: usize = 20;
/// How much of a file is looked at to tell what it is.
const FIRST_LINE_MAX: u64 = 64 * 1024;
/// How many bytes of messages are appended in one transaction, but for one message that has more.
const BYTES_AT_A_TIME: usize = 4 << 20;
/// How many messages are appended in one transaction.
const MESSAGES_AT_A_TIME: usize = 256;

/// How something is imported.
#[derive(Clone, Default)]
pub struct ImportRequest {
    /// The name of the session; without one, the file's own name for it.
    pub name: Option<String>,
    /// The file that it comes from, for the session's record; empty if it is none.
    pub file: String,
    /// The name of a session that the file does not name.
    pub name_default: Option<String>,
    /// Whether messages are added to a session that is there.
    pub append: bool,
    /// Takes secrets out of the messages.
    pub redactor: Option<Arc<Redactor>>,
    /// The most bytes of a conversation, or of a line of an export.
    pub bytes_max: u64,
    /// The time, in milliseconds since 1970.
    pub now_ms: i64,
}

/// Something to import that can be read more than once.
pub trait ImportSource {
    /// Reads it from its beginning.
    fn open(&self) -> io::Result<Box<dyn BufRead + '_>>;
}

impl ImportSource for File {
    fn open(&self) -> io::Result<Box<dyn BufRead + '_>> {
        let mut file = self;
        file.seek(SeekFrom::Start(0))?;
        Ok(Box::new(BufReader::new(file)))
    }
}

impl ImportSource for Vec<u8> {
    fn open(&self) -> io::Result<Box<dyn BufRead + '_>> {
        Ok(Box::new(self.as_slice()))
    }
}

impl ImportSource for &[u8] {
    fn open(&self) -> io::Result<Box<dyn BufRead + '_>> {
        Ok(Box::new(*self))
    }
}

/// A file that was read and found good. Nothing of it is in the archive yet.
pub struct ImportFile<'s> {
    source: &'s dyn ImportSource,
    content: ImportContent,
}

enum ImportContent {
    /// All of an export, which is complete and unchanged.
    Sessions(Vec<ExportedSession>),
    /// The messages of an export with its forks, and nothing else of its session.
    Messages { name: Option<String>, form: String },
    /// The rounds of a window's state.
    State { name: Option<String>, entries: Vec<NewEntry> },
    /// A conversation in any format.
    Conversation { text: String, conversation: Box<Conversation> },
}

/// What was imported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ImportReport {
    /// The sessions, oldest first.
    pub sessions: Vec<ImportedSession>,
    /// How many leading system messages were not imported: every request brings its own.
    pub system_messages_left: u64,
    /// The lines of a session file that could not be read, from 1, and are not in the archive.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<u32>,
}

/// A session that was imported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ImportedSession {
    /// Its id in the archive.
    pub id: String,
    /// What it is called.
    pub name: String,
    /// What was done.
    pub outcome: ImportOutcome,
    /// How many rounds are new.
    pub rounds: u64,
    /// How many entries are new.
    pub added: u64,
}

/// What an import did to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ImportOutcome {
    /// The archive did not have it.
    New,
    /// Messages were added to the end of a session that was named.
    Appended,
    /// The archive had a beginning of the export, and the rest was added.
    Extended,
    /// The archive had the conversation, and what was new in it was added, if anything.
    Rejoined,
    /// The archive had all of it.
    Same,
    /// The archive has all of it and more.
    Older,
}

impl ImportRequest {
    /// Reads all of a file and checks it, before an archive is opened for it.
    pub fn check<'s>(&self, source: &'s dyn ImportSource) -> Result<ImportFile<'s>, AppError> {
        let content = if is_export(source)? {
            self.check_export(source)?
        } else {
            self.check_conversation(source)?
        };
        Ok(ImportFile { source, content })
    }

    fn check_export(&self, source: &dyn ImportSource) -> Result<ImportContent, AppError> {
        let exported = Exported::open(source.open()?, self.bytes_max)?;
        if !exported.has_messages_only() && !self.append && self.redactor.is_none() {
            return Ok(ImportContent::Sessions(transfer::check(exported)?));
        }
        let name = exported.name().map(str::to_owned);
        let mut first_form = None;
        exported.messages(|ExportedMessage { form, .. }| {
            first_form.get_or_insert(form);
            Ok(())
        })?;
        let form = first_form.ok_or(AppError::NothingToImport)?;
        Ok(ImportContent::Messages { name, form })
    }

    fn check_conversation(&self, source: &dyn ImportSource) -> Result<ImportContent, AppError> {
        let mut text = self.text(source)?;
        if let Some(redactor) = &self.redactor {
            text = redactor.redact(&text).into_owned();
        }
        if let Some(state) = state_of(&text) {
            let name = state["id"].as_str().map(str::to_owned);
            return Ok(ImportContent::State { name, entries: of_state(&state, self.now_ms)? });
        }
        let conversation = Box::new(read_growing(Arc::new(text.clone()), None)?);
        Ok(ImportContent::Conversation { text, conversation })
    }

    /// All of a file, unpacked if it is packed.
    fn text(&self, source: &dyn ImportSource) -> Result<String, AppError> {
        let mut bytes = Vec::new();
        source.open()?.take(self.bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > self.bytes_max {
            return Err(AppError::TooLarge { max: self.bytes_max });
        }
        let bytes = unpack(bytes, self.bytes_max)?;
        String::from_utf8(bytes).map_err(|_| AppError::NotText)
    }

    fn new_name(&self, own: Option<String>) -> Result<String, AppError> {
        let name = self.name.clone().or(own).or_else(|| self.name_default.clone());
        let name = name.ok_or(AppError::NoName)?;
        check_new_name(&name)?;
        Ok(name)
    }
}

impl ImportedSession {
    /// A session that had the conversation already.
    fn again(rejoined: Rejoined) -> Self {
        let Rejoined { session, added } = rejoined;
        Self {
            id: session.id.to_string(),
            name: session.name,
            outcome: ImportOutcome::Rejoined,
            rounds: 0,
            added: added as u64,
        }
    }
}

impl App {
    /// Imports what was checked with the same request.
    ///
    /// An export comes back with all that it has. A conversation that the archive has already, from the proxy or an
    /// earlier import, is found again unless the request names it; then only what is new is added.
    pub fn import(
        &self,
        file: ImportFile,
        request: &ImportRequest,
    ) -> Result<ImportReport, AppError> {
        let mut system_messages_left = 0;
        let mut unread = Vec::new();
        let sessions = match file.content {
            ImportContent::Sessions(sessions) => self.restore(file.source, sessions, request)?,
            ImportContent::Messages { name, form } => {
                vec![self.import_messages(file.source, name, &form, request)?]
            }
            ImportContent::State { name, entries } => {
                let mut appending = Appending::new(self, request, name, Origin::default());
                entries.into_iter().try_for_each(|entry| appending.add(entry))?;
                vec![appending.finish()?]
            }
            ImportContent::Conversation { text, conversation } => {
                unread = conversation.unread().to_vec();
                let origin = Origin {
                    offset: text.len() as u64,
                    ..origin_of(
                        conversation.dialect,
                        cut::head(&text, FIRST_LINE_MAX as usize),
                        &request.file,
                    )
                };
                let is_kept_by_agent =
                    conversation.dialect.is_session_file() || Transcript::of(&text).is_some();
                let is_agent_file = is_kept_by_agent
                    && request.name.is_none()
                    && !request.append
                    && Path::new(&request.file).is_file();
                match self.rejoined(text, *conversation, request)? {
                    Rejoining::Known(rejoined) => {
                        keep_logs(&self.archive, rejoined.session.id)?;
                        vec![ImportedSession::again(*rejoined)]
                    }
                    Rejoining::Unknown(..) if is_agent_file => {
                        vec![self.import_one_file(request)?]
                    }
                    Rejoining::Unknown(conversation, meanings) => {
                        let path = conversation.path();
                        system_messages_left = path.lead as u64;
                        let (dialect, now_ms) = (conversation.dialect, request.now_ms);
                        let mut appending = Appending::new(self, request, None, origin);
                        for (message, meaning) in path.messages[path.lead..].iter().zip(meanings) {
                            appending.add(entry_with(dialect, message, meaning, now_ms))?;
                        }
                        vec![appending.finish()?]
                    }
                }
            }
        };
        Ok(ImportReport { sessions, system_messages_left, unread })
    }

    /// Imports a session file so that it is known when it is imported again with others.
    fn import_one_file(&self, request: &ImportRequest) -> Result<ImportedSession, AppError> {
        let file = AgentFile::of(Agent::Claude, Path::new(&request.file));
        let import = self.import_agent_file(&file, request)?;
        let info = self.find_info(&import.session)?;
        let (name, rounds) = info.map(|info| (info.name, info.rounds)).unwrap_or_default();
        let (id, added) = (import.session, import.added);
        Ok(ImportedSession { id, name, outcome: ImportOutcome::New, rounds, added })
    }

    fn restore(
        &self,
        source: &dyn ImportSource,
        sessions: Vec<ExportedSession>,
        request: &ImportRequest,
    ) -> Result<Vec<ImportedSession>, AppError> {
        if self.owner.is_some_and(|owner| sessions.iter().any(|found| found.owner() != owner)) {
            return Err(AppError::ForeignExport);
        }
        let open = || Exported::open(source.open()?, request.bytes_max);
        let imported = transfer::import(&*self.archive, sessions, open, request.name.as_deref())?;
        let one = |session: transfer::ImportedSession| {
            let (outcome, added) = match session.imported {
                Imported::New => (ImportOutcome::New, session.entries),
                Imported::Extended(new) => (ImportOutcome::Extended, new),
                Imported::Same => (ImportOutcome::Same, 0),
                Imported::Older => (ImportOutcome::Older, 0),
            };
            let rounds = match outcome {
                ImportOutcome::New => self.session_of(session.id)?.map_or(0, |info| info.rounds),
                _ => 0,
            };
            let (id, name) = (session.id.to_string(), session.name);
            Ok(ImportedSession { id, name, outcome, rounds, added })
        };
        imported.into_iter().map(one).collect()
    }

    fn import_messages(
        &self,
        source: &dyn ImportSource,
        name: Option<String>,
        form: &str,
        request: &ImportRequest,
    ) -> Result<ImportedSession, AppError> {
        let target = ImportTarget::find(self, request, name)?;
        let (origin, opening) = (Origin::default(), String::new());
        let after = target.begin(self, form, origin, opening, request.now_ms)?;
        let entry = |message: ExportedMessage| {
            let ExportedMessage { seq, opens_round, form, raw, at_ms, source_ms, .. } = message;
            let redactor = request.redactor.as_ref();
            let raw = redactor.map(|redactor| redactor.redact(&raw).into_owned()).unwrap_or(raw);
            let entry = new_entry(&form, raw, opens_round, at_ms);
            let entry =
                entry.map(|entry| NewEntry { source_ms: source_ms.or(entry.source_ms), ..entry });
            entry.ok_or_else(|| TransferError::Line {
                line: seq + 2,
                what: format!("there is no form {form:?}"),
            })
        };
        let exported = Exported::open(source.open()?, request.bytes_max)?;
        let counts = transfer::messages(&*self.archive, target.session, after, exported, entry);
        let (added, rounds) = counts?;
        keep_logs(&self.archive, target.session)?;
        Ok(target.imported(rounds, added))
    }

    /// Adds a conversation to the session that the proxy, or an earlier import, began for it. If there is none, it comes
    /// back, with what its messages mean.
    pub(super) fn rejoined(
        &self,
        text: String,
        conversation: Conversation,
        request: &ImportRequest,
    ) -> Result<Rejoining, AppError> {
        if request.name.is_some() {
            let path = conversation.path();
            let meanings = path.messages[path.lead..].iter().map(Meaning::of).collect();
            return Ok(Rejoining::Unknown(Box::new(conversation), meanings));
        }
        let lines = text.lines().take(ID_LINES_MAX);
        let lines = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let ids = lines.flat_map(|line| {
            let places =
                [&line["sessionId"], &line["session_id"], &line["id"], &line["payload"]["id"]];
            places.map(|id| id.as_str().map(str::to_owned))
        });
        let ids = ids.flatten().chain(request.name_default.clone());
        let groups: Vec<u64> = ids.filter_map(|id| group_of(&id)).collect();
        drop(text);
        Ok(rejoin(&self.archive, self.owner, conversation, &groups, request.now_ms)?)
    }
}

fn is_export(source: &dyn ImportSource) -> Result<bool, AppError> {
    let mut first = Vec::new();
    source.open()?.take(FIRST_LINE_MAX).read_until(b'\n', &mut first)?;
    let first = str::from_utf8(&first).unwrap_or_default();
    Ok(transfer::header_version(first).is_some())
}

/// The state of a window, if the text is one. Others are not read twice.
fn state_of(text: &str) -> Option<Value> {
    if !text.trim_start().starts_with('{') || !text.contains("\"window\"") {
        return None;
    }
    let state: Value = serde_json::from_str(text).ok()?;
    state["window"].is_array().then_some(state)
}

fn of_state(state: &Value, now_ms: i64) -> Result<Vec<NewEntry>, AppError> {
    let mut entries = Vec::new();
    if let Some(summary) = state["summary"].as_str().filter(|summary| !summary.trim().is_empty()) {
        entries.extend(Round::new("(imported summary of earlier rounds)", summary, 0).entries());
    }
    for (index, round) in state["window"].as_array().into_iter().flatten().enumerate() {
        let round = Round::parse(&round.to_string(), now_ms)
            .map_err(|error| AppError::BadStateRound { index, error })?;
        entries.extend(round.entries());
    }
    Ok(entries)
}

/// The session that messages are imported into.
struct ImportTarget {
    session: SessionId,
    name: String,
    known: Option<SessionInfo>,
}

impl ImportTarget {
    fn find(app: &App, request: &ImportRequest, own: Option<String>) -> Result<Self, AppError> {
        let name = request.new_name(own)?;
        let known = app.find_info(&name)?.filter(|info| info.name == name);
        if known.is_some() && !request.append {
            return Err(AppError::NameTaken { name, can_append: true });
        }
        let session = match &known {
            Some(info) => info.id,
            None => app.free_id(&name)?,
        };
        Ok(Self { session, name, known })
    }

    /// Begins the session if it is not there; returns what new messages follow.
    fn begin(
        &self,
        app: &App,
        dialect: &str,
        origin: Origin,
        opening: String,
        now_ms: i64,
    ) -> Result<Option<Seq>, AppError> {
        if self.known.is_some() {
            return Ok(app.archive.head(self.session)?.and_then(|head| head.head));
        }
        let new = NewSession {
            owner: app.owner.unwrap_or(Owner::LOCAL),
            dialect: dialect.to_owned(),
            name: self.name.clone(),
            continues: None,
            group: None,
            begun_ms: now_ms,
            origin,
            opening,
        };
        app.archive.begin(self.session, &new)?;
        Ok(None)
    }

    fn imported(&self, rounds: u64, added: u64) -> ImportedSession {
        let is_known = self.known.is_some();
        ImportedSession {
            id: self.session.to_string(),
            name: self.name.clone(),
            outcome: if is_known { ImportOutcome::Appended } else { ImportOutcome::New },
            rounds,
            added,
        }
    }
}

/// Messages on their way to the end of a session, some at a time.
struct Appending<'a> {
    app: &'a App,
    request: &'a ImportRequest,
    name: Option<String>,
    /// Where a session that begins comes from.
    origin: Origin,
    /// There is none until the first message.
    target: Option<ImportTarget>,
    portion: Vec<NewEntry>,
    bytes: usize,
    rounds: u64,
    entries: u64,
}

impl<'a> Appending<'a> {
    fn new(app: &'a App, request: &'a ImportRequest, name: Option<String>, origin: Origin) -> Self {
        Self {
            app,
            request,
            name,
            origin,
            target: None,
            portion: Vec::new(),
            bytes: 0,
            rounds: 0,
            entries: 0,
        }
    }

    fn add(&mut self, entry: NewEntry) -> Result<(), AppError> {
        if self.target.is_none() {
            let target = ImportTarget::find(self.app, self.request, self.name.take())?;
            let opening = opening_of(&entry.form, &entry.raw).unwrap_or_default();
            let origin = std::mem::take(&mut self.origin);
            target.begin(self.app, &entry.form, origin, opening, self.request.now_ms)?;
            self.target = Some(target);
        }
        self.bytes += entry.raw.len();
        self.rounds += u64::from(entry.opens_round);
        self.entries += 1;
        self.portion.push(entry);
        if self.bytes >= BYTES_AT_A_TIME || self.portion.len() >= MESSAGES_AT_A_TIME {
            self.append()?;
        }
        Ok(())
    }

    fn append(&mut self) -> Result<(), AppError> {
        if let Some(target) = &self.target {
            let portion = std::mem::take(&mut self.portion);
            self.bytes = 0;
            self.app.archive.append(target.session, After::Newest, &portion)?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<ImportedSession, AppError> {
        self.append()?;
        let target = self.target.as_ref().ok_or(AppError::NothingToImport)?;
        keep_logs(&self.app.archive, target.session)?;
        Ok(target.imported(self.rounds, self.entries))
    }
}
