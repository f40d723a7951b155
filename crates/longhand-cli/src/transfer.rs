//! `longhand export` and `longhand import`.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use longhand::transfer::{self, Exported, Imported, ImportedSession, TransferError};
use longhand::{Archive, Owner, Rejoined, Round, SessionId, rejoin, time};
use longhand_archive::{After, NewEntry, NewSession, Origin, SessionInfo};
use longhand_core::{Seq, cut};
use longhand_dialect::read;
use longhand_server::group_of;
use serde_json::{Value, json};

use crate::args::{ExportArgs, ExportFormat, ImportArgs};
use crate::output::{counted, counted_as, harmless_line};
use crate::{CommandOutcome, conversation, hinted, input, lookup, output, store};

/// In how many lines of a session file its id is looked for.
const ID_LINES_MAX: usize = 20;
/// How much of a file is looked at to tell what it is.
const FIRST_LINE_MAX: u64 = 64 * 1024;
/// How many bytes of messages are appended in one transaction, but for one message that has more.
const BYTES_AT_A_TIME: usize = 4 << 20;
/// How many messages are appended in one transaction.
const MESSAGES_AT_A_TIME: usize = 256;

pub(crate) fn export(args: &ExportArgs) -> Result<CommandOutcome> {
    let archive = store::open_existing(&args.archive)?;
    let info = store::known(&archive, &args.id)?;
    let path = args.output.as_deref().filter(|path| path.as_os_str() != "-");
    match (args.format, path) {
        (ExportFormat::Jsonl, Some(path)) => {
            output::write_file_with(path, |out| write_sessions(&archive, &info, out))?;
        }
        (ExportFormat::Jsonl, None) => {
            output::print_data_with(|out| write_sessions(&archive, &info, out))?;
        }
        (ExportFormat::State, Some(path)) => {
            output::write_file(path, &state(args, &archive, &info)?)?;
        }
        (ExportFormat::State, None) => output::print_data(&state(args, &archive, &info)?)?,
    }
    Ok(CommandOutcome::Done)
}

/// Writes a conversation with all that the archive keeps of it.
fn write_sessions(
    archive: &Arc<dyn Archive>,
    info: &SessionInfo,
    out: &mut dyn Write,
) -> Result<()> {
    let sessions = conversation::of(archive, info)?;
    let ids: Vec<SessionId> = sessions.iter().map(|info| info.id).collect();
    let mut out = BufWriter::new(out);
    transfer::export(&**archive, &ids, &info.name, &mut out).map_err(explained).map(drop)
}

/// The window of a session as one JSON object.
fn state(args: &ExportArgs, archive: &Arc<dyn Archive>, info: &SessionInfo) -> Result<String> {
    let session = store::shown(archive, info, &args.session)?;
    let rounds = session.plain_rounds().into_iter().map(|round| {
        let calls = round.tools.iter();
        let calls = calls.map(|(name, summary)| json!({"name": name, "summary": summary}));
        json!({
            "user": round.user,
            "assistant": round.assistant,
            "ts": time::format(round.at_ms),
            "tool_calls": calls.collect::<Value>(),
        })
    });
    let state = json!({
        "id": info.name,
        "summary": session.summary().unwrap_or_default(),
        "window": rounds.collect::<Value>(),
        "total_rounds": info.rounds,
        "token_estimate": session.tokens().0,
    });
    Ok(format!("{state:#}\n"))
}

pub(crate) fn import(args: &ImportArgs) -> Result<CommandOutcome> {
    let source = ImportSource::open(args)?;
    if !source.is_export()? {
        return import_conversation(args, &source);
    }
    let exported = source.exported().map_err(explained)?;
    if exported.has_messages_only() || args.append || args.redact {
        return import_messages(args, &source);
    }
    let sessions = transfer::check(exported).map_err(explained)?;
    let archive = store::open(&args.archive)?;
    let open = || source.exported();
    let imported = transfer::import(&*archive, sessions, open, args.id.as_deref());
    for session in imported.map_err(explained)? {
        output::print(&told(&archive, &session)?)?;
    }
    Ok(CommandOutcome::Done)
}

/// What became of a session.
fn told(archive: &Arc<dyn Archive>, session: &ImportedSession) -> Result<String> {
    let name = harmless_line(&session.name);
    let entries = |count: u64| counted_as(count as usize, "entry", "entries");
    Ok(match session.imported {
        Imported::New => {
            let rounds = archive.session(session.id)?.map_or(0, |info| info.rounds);
            let rounds = counted(rounds as usize, "round");
            format!("imported {rounds}, {} into {name}", entries(session.entries))
        }
        Imported::Extended(new) => {
            format!("added {} to {name}; the archive had the rest", entries(new))
        }
        Imported::Same => format!("the archive has {name} already, just so; nothing was added"),
        Imported::Older => {
            format!("the archive has all of {name} and more; nothing was added")
        }
    })
}

/// Imports the messages of an export with its forks, but nothing else of its session.
fn import_messages(args: &ImportArgs, source: &ImportSource) -> Result<CommandOutcome> {
    let exported = source.exported().map_err(explained)?;
    let id = args.id.clone().or_else(|| exported.name().map(str::to_owned));
    let mut form = None;
    let check = |message: transfer::ExportedMessage| {
        form.get_or_insert(message.form);
        Ok(())
    };
    exported.messages(check).map_err(explained)?;
    let form = form.context("there is nothing in it to import")?;
    let target = ImportTarget::find(args, id)?;
    let redactor = store::redactor_if(args.redact, &args.archive)?;
    let after = target.begin(&form, Origin::default(), None)?;
    let entry = |message: transfer::ExportedMessage| {
        let transfer::ExportedMessage { seq, opens_round, form, raw, at_ms, source_ms, .. } =
            message;
        let raw =
            redactor.as_ref().map(|redactor| redactor.redact(&raw).into_owned()).unwrap_or(raw);
        let entry = longhand::new_entry(&form, raw, opens_round, at_ms);
        let entry =
            entry.map(|entry| NewEntry { source_ms: source_ms.or(entry.source_ms), ..entry });
        entry.ok_or_else(|| TransferError::Line {
            line: seq + 2,
            what: format!("there is no form {form:?}"),
        })
    };
    let exported = source.exported().map_err(explained)?;
    let counts = transfer::messages(&*target.archive, target.session, after, exported, entry);
    let (entries, rounds) = counts.map_err(explained)?;
    target.tell(rounds as usize, entries as usize)
}

/// Imports a conversation in another format, or a state.
fn import_conversation(args: &ImportArgs, source: &ImportSource) -> Result<CommandOutcome> {
    let mut text = source.text()?;
    if args.redact {
        // The key of the marks lies beside the archive.
        drop(store::open(&args.archive)?);
        if let Some(redactor) = store::redactor_if(true, &args.archive)? {
            text = redactor.redact(&text).into_owned();
        }
    }
    if let Some(state) = state_of(&text) {
        drop(text);
        let id = args.id.clone().or_else(|| state["id"].as_str().map(str::to_owned));
        let mut appending = Appending::new(args, id, SourceBeginning::default());
        of_state(&state)?.into_iter().try_for_each(|entry| appending.add(entry))?;
        return appending.finish();
    }
    if args.id.is_none() {
        let stem = args.file.as_deref().and_then(|path| path.file_stem());
        let stem = stem.map(|stem| stem.to_string_lossy().into_owned());
        let archive = store::open(&args.archive)?;
        if let Some(rejoined) = rejoined(&archive, &text, stem.as_deref())? {
            let session = conversation::short_id(&rejoined.session);
            output::print(&match rejoined.added {
                0 => format!("nothing to import: session {session} has all of it already"),
                added => format!(
                    "imported {} into {session}, which has the rest of it",
                    counted_as(added, "entry", "entries")
                ),
            })?;
            return Ok(CommandOutcome::Done);
        }
    }
    let mut appending = Appending::new(args, args.id.clone(), source.beginning(&text));
    let now_ms = store::now_ms();
    let left =
        Round::each_of_conversation(text.into_bytes(), now_ms, |entry| appending.add(entry))?;
    let outcome = appending.finish()?;
    if left > 0 {
        output::print_wrapped("the system prompt is not imported: every request brings its own")?;
    }
    Ok(outcome)
}

/// Adds a conversation to the session that the proxy, or an earlier import, began for it.
fn rejoined(
    archive: &Arc<dyn Archive>,
    text: &str,
    name: Option<&str>,
) -> Result<Option<Rejoined>> {
    let conversation = read(text.as_bytes().to_vec(), None)?;
    let lines = text.lines().take(ID_LINES_MAX);
    let lines = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let ids = lines.flat_map(|line| {
        let places = [&line["sessionId"], &line["session_id"], &line["id"], &line["payload"]["id"]];
        places.map(|id| id.as_str().map(str::to_owned))
    });
    let ids = ids.flatten().chain(name.map(str::to_owned));
    let groups: Vec<u64> = ids.filter_map(|id| group_of(&id)).collect();
    Ok(rejoin(archive, conversation, &groups, store::now_ms())?)
}

/// The state of a window, if the text is one. Others are not read twice.
fn state_of(text: &str) -> Option<Value> {
    if !text.trim_start().starts_with('{') || !text.contains("\"window\"") {
        return None;
    }
    let state: Value = serde_json::from_str(text).ok()?;
    state["window"].is_array().then_some(state)
}

fn of_state(state: &Value) -> Result<Vec<NewEntry>> {
    let mut entries = Vec::new();
    if let Some(summary) = state["summary"].as_str().filter(|summary| !summary.trim().is_empty()) {
        entries.extend(Round::new("(imported summary of earlier rounds)", summary, 0).entries());
    }
    for (index, round) in state["window"].as_array().into_iter().flatten().enumerate() {
        let round = Round::parse(&round.to_string(), store::now_ms())
            .with_context(|| format!("window[{index}]"))?;
        entries.extend(round.entries());
    }
    Ok(entries)
}

/// The session that messages are imported into.
struct ImportTarget {
    archive: Arc<dyn Archive>,
    session: SessionId,
    name: String,
    is_known: bool,
}

impl ImportTarget {
    /// Finds the session by its name: `id`, or else the name of the file.
    fn find(args: &ImportArgs, id: Option<String>) -> Result<Self> {
        let stem = args.file.as_deref().and_then(|path| path.file_stem());
        let id = id.or_else(|| stem.map(|stem| stem.to_string_lossy().into_owned()));
        let name = id.context("name the session with --id")?;
        lookup::check_new(&name)?;
        let archive = store::open(&args.archive)?;
        let known = store::find(&archive, &name)?.filter(|info| info.name == name);
        if known.is_some() && !args.append {
            return Err(hinted(
                format!("session {name:?} exists already"),
                "--append adds to it; --id names another",
            ));
        }
        let is_known = known.is_some();
        let session = known.map_or_else(|| SessionId::named(Owner::LOCAL, &name), |info| info.id);
        Ok(Self { archive, session, name, is_known })
    }

    /// Begins the session if it is not there; returns what new messages follow.
    fn begin(
        &self,
        dialect: &str,
        origin: Origin,
        first: Option<&NewEntry>,
    ) -> Result<Option<Seq>> {
        if self.is_known {
            return Ok(self.archive.head(self.session)?.and_then(|head| head.head));
        }
        let new = NewSession {
            owner: Owner::LOCAL,
            dialect: dialect.to_owned(),
            name: self.name.clone(),
            continues: None,
            group: None,
            begun_ms: store::now_ms(),
            origin,
            opening: first
                .and_then(|entry| longhand::opening_of(&entry.form, &entry.raw))
                .unwrap_or_default(),
        };
        self.archive.begin(self.session, &new)?;
        Ok(None)
    }

    fn tell(&self, rounds: usize, entries: usize) -> Result<CommandOutcome> {
        output::print(&format!(
            "imported {}, {} into {}",
            counted(rounds, "round"),
            counted_as(entries, "entry", "entries"),
            harmless_line(&self.name)
        ))?;
        Ok(CommandOutcome::Done)
    }
}

/// Messages on their way to the end of a session, some at a time.
struct Appending<'a> {
    args: &'a ImportArgs,
    id: Option<String>,
    source: SourceBeginning,
    /// There is none until the first message.
    target: Option<ImportTarget>,
    portion: Vec<NewEntry>,
    bytes: usize,
    rounds: usize,
    entries: usize,
}

impl<'a> Appending<'a> {
    fn new(args: &'a ImportArgs, id: Option<String>, source: SourceBeginning) -> Self {
        let portion = Vec::new();
        Self { args, id, source, target: None, portion, bytes: 0, rounds: 0, entries: 0 }
    }

    fn add(&mut self, entry: NewEntry) -> Result<()> {
        if self.target.is_none() {
            let target = ImportTarget::find(self.args, self.id.take())?;
            let origin = self.source.origin(&entry.form);
            target.begin(&entry.form, origin, Some(&entry))?;
            self.target = Some(target);
        }
        self.bytes += entry.raw.len();
        self.rounds += usize::from(entry.opens_round);
        self.entries += 1;
        self.portion.push(entry);
        if self.bytes >= BYTES_AT_A_TIME || self.portion.len() >= MESSAGES_AT_A_TIME {
            self.append()?;
        }
        Ok(())
    }

    fn append(&mut self) -> Result<()> {
        if let Some(target) = &self.target {
            let portion = std::mem::take(&mut self.portion);
            self.bytes = 0;
            target.archive.append(target.session, After::Newest, &portion)?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<CommandOutcome> {
        self.append()?;
        match &self.target {
            Some(target) => target.tell(self.rounds, self.entries),
            None => bail!("there is nothing in it to import"),
        }
    }
}

/// What the session remembers of the file that it is imported from.
#[derive(Default)]
struct SourceBeginning {
    file: String,
    bytes: u64,
    lines: String,
}

impl SourceBeginning {
    fn origin(&self, form: &str) -> Origin {
        match form.parse() {
            Ok(dialect) => {
                let origin = longhand::origin_of(dialect, &self.lines, &self.file);
                Origin { offset: self.bytes, ..origin }
            }
            Err(_) => Origin::default(),
        }
    }
}

/// The file to import, which can be read more than once.
struct ImportSource {
    name: String,
    file: File,
    max: u64,
}

impl ImportSource {
    fn open(args: &ImportArgs) -> Result<Self> {
        let path = args.file.as_deref().filter(|path| path.as_os_str() != "-");
        let name = path.map_or("standard input".to_owned(), |path| path.display().to_string());
        let file = match path {
            Some(path) => File::open(path),
            None => spooled(),
        };
        let file = file.with_context(|| format!("cannot read {name}"))?;
        Ok(Self { name, file, max: args.max_input })
    }

    fn beginning(&self, text: &str) -> SourceBeginning {
        let lines = cut::head(text, FIRST_LINE_MAX as usize).to_owned();
        SourceBeginning { file: self.name.clone(), bytes: text.len() as u64, lines }
    }

    /// Reads the file from its beginning.
    fn reader(&self) -> std::io::Result<BufReader<&File>> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(0))?;
        Ok(BufReader::new(file))
    }

    fn is_export(&self) -> Result<bool> {
        let mut first = Vec::new();
        let read =
            |reader: BufReader<&File>| reader.take(FIRST_LINE_MAX).read_until(b'\n', &mut first);
        self.reader().and_then(read).with_context(|| format!("cannot read {}", self.name))?;
        let first = str::from_utf8(&first).unwrap_or_default();
        Ok(transfer::header_version(first).is_some())
    }

    fn exported(&self) -> Result<Exported<BufReader<&File>>, TransferError> {
        Exported::open(self.reader()?, self.max)
    }

    /// All of it, unpacked if it is packed.
    fn text(&self) -> Result<String> {
        let size = self.file.metadata().map_or(0, |data| data.len());
        if size > self.max {
            return Err(input::too_large(&self.name, self.max));
        }
        let mut bytes = Vec::with_capacity(size as usize);
        let read = |reader: BufReader<&File>| reader.take(self.max + 1).read_to_end(&mut bytes);
        self.reader().and_then(read).with_context(|| format!("cannot read {}", self.name))?;
        if bytes.len() as u64 > self.max {
            return Err(input::too_large(&self.name, self.max));
        }
        let bytes = longhand_dialect::unpack(bytes, self.max)?;
        String::from_utf8(bytes).with_context(|| format!("{} is not UTF-8", self.name))
    }
}

/// Standard input in a file that has no name.
fn spooled() -> std::io::Result<File> {
    let mut file = tempfile::tempfile()?;
    std::io::copy(&mut input::standard_input(), &mut file)?;
    Ok(file)
}

/// An error of an export or an import, with a hint where one helps.
fn explained(error: TransferError) -> anyhow::Error {
    let hint = match &error {
        TransferError::Differs { .. } => {
            "--id names the copy otherwise; --append adds its messages to the end"
        }
        TransferError::Cut { .. } | TransferError::Changed(_) => {
            "nothing was imported; was the export broken off? write it again"
        }
        TransferError::OtherVersion { .. } => "a later release of longhand can read it",
        TransferError::LongLine { .. } => "--max-input 4g raises the limit",
        _ => {
            return match error {
                TransferError::Io(error) => error.into(),
                TransferError::Archive(error) => error.into(),
                error => error.into(),
            };
        }
    };
    hinted(error.to_string(), hint)
}
