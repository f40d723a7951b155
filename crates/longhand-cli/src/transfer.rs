//! `longhand export` and `longhand import`.

use std::io::Read;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use longhand::{Archive, Owner, Rejoined, Round, SessionId, rejoin, time};
use longhand_archive::{After, NewEntry, NewSession};
use longhand_dialect::read;
use longhand_server::group_of;
use serde_json::{Value, json};

use crate::args::{ExportArgs, ExportFormat, ImportArgs};
use crate::output::{counted, counted_as};
use crate::{Outcome, conversation, hinted, input, output, store};

/// In how many lines of a session file its id is looked for.
const ID_LINES_MAX: usize = 20;

/// The first line of an export.
const HEADER: &str = "longhand";

pub(crate) fn export(args: &ExportArgs) -> Result<Outcome> {
    let archive = store::open_existing(&args.archive)?;
    let info = store::known(&archive, &args.id)?;
    let text = match args.format {
        ExportFormat::Jsonl => {
            let sessions = conversation::of(&archive, &info)?;
            let entries: u64 = sessions.iter().map(|info| info.entries).sum();
            let mut text =
                json!({HEADER: "session", "version": 2, "id": info.name, "entries": entries})
                    .to_string();
            text.push('\n');
            // What a later session goes on from comes before it; numbers and rounds go on, too.
            let (mut first, mut round) = (0, 0);
            for info in &sessions {
                for entry in archive.entries(info.id, 0..info.entries)? {
                    let line = json!({
                        "seq": first + entry.seq.0, "parent": entry.parent.map(|parent| first + parent.0), "round": round + entry.round, "at": time::format(entry.at_ms), "form": entry.form, "raw": entry.raw,
                    });
                    text.push_str(&line.to_string());
                    text.push('\n');
                }
                first += info.entries;
                round += info.rounds;
            }
            text
        }
        ExportFormat::State => {
            let session = store::shown(&archive, &info, &args.session)?;
            let rounds: Vec<Value> = session
                .plain_rounds()
                .into_iter()
                .map(|round| {
                    let calls: Vec<Value> =
                        round.tools.iter().map(|(name, summary)| json!({"name": name, "summary": summary})).collect();
                    json!({"user": round.user, "assistant": round.assistant, "ts": time::format(round.at_ms), "tool_calls": calls})
                })
                .collect();
            let state = json!({
                "id": info.name,
                "summary": session.summary().unwrap_or_default(),
                "window": rounds,
                "total_rounds": info.rounds,
                "token_estimate": session.tokens().0,
            });
            format!("{state:#}\n")
        }
    };
    match args.output.as_deref().filter(|path| path.as_os_str() != "-") {
        Some(path) => output::write_file(path, &text)?,
        None => output::print(&text)?,
    }
    Ok(Outcome::Done)
}

pub(crate) fn import(args: &ImportArgs) -> Result<Outcome> {
    let text = text_of(args)?;
    let archive = store::open(&args.archive)?;
    let redactor = store::redactor_if(args.redact, &args.archive)?;
    let text = redactor.map_or(text.clone(), |redactor| redactor.redact(&text).into_owned());
    let name = args
        .file
        .as_deref()
        .and_then(|path| path.file_stem())
        .map(|stem| stem.to_string_lossy().into_owned());
    let first: Value =
        text.lines().next().and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default();
    let (id, entries) = if first[HEADER] == "session" {
        (args.id.clone().or_else(|| first["id"].as_str().map(str::to_owned)), exported(&text)?)
    } else if let Ok(state) = serde_json::from_str::<Value>(&text)
        && state["window"].is_array()
    {
        (args.id.clone().or_else(|| state["id"].as_str().map(str::to_owned)), of_state(&state)?)
    } else {
        if args.id.is_none()
            && let Some(rejoined) = rejoined(&archive, &text, name.as_deref())?
        {
            let session = conversation::short_id(&rejoined.session);
            output::print(&match rejoined.added {
                0 => format!("nothing to import: session {session} has all of its answers already"),
                added => format!(
                    "imported {} into {session}, which has the rest of it",
                    counted_as(added, "entry", "entries")
                ),
            })?;
            return Ok(Outcome::Done);
        }
        (args.id.clone(), Round::split_conversation(text.into_bytes(), store::now_ms())?)
    };
    let id = id.or(name).context("name the session with --id")?;
    let known = store::find(&archive, &id)?.filter(|info| info.name == id);
    if known.is_some() && !args.append {
        return Err(hinted(
            format!("session {id:?} exists already"),
            "--append adds to it; --id names another",
        ));
    }
    let rounds = entries.iter().filter(|entry| entry.opens_round).count();
    if entries.is_empty() {
        bail!("there is nothing in it to import");
    }
    let (session, owner) = known.map_or_else(
        || (SessionId::named(Owner::LOCAL, &id), Owner::LOCAL),
        |info| (info.id, info.owner),
    );
    let new = NewSession {
        owner,
        dialect: entries.first().map_or(String::new(), |entry| entry.form.clone()),
        name: id.clone(),
        continues: None,
        group: None,
        begun_ms: store::now_ms(),
    };
    archive.begin(session, &new)?;
    archive.append(session, After::Newest, &entries)?;
    output::print(&format!(
        "imported {}, {} into {id}",
        counted(rounds, "round"),
        counted_as(entries.len(), "entry", "entries")
    ))?;
    Ok(Outcome::Done)
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

/// Reads the file, unpacked if it is packed.
fn text_of(args: &ImportArgs) -> Result<String> {
    let file = args.file.as_deref().filter(|path| path.as_os_str() != "-");
    let name = file.map_or("standard input".to_owned(), |path| path.display().to_string());
    let bytes = file.map_or_else(standard_input, std::fs::read);
    let bytes = bytes.with_context(|| format!("cannot read {name}"))?;
    let bytes = longhand_dialect::unpack(bytes, longhand_dialect::BYTES_MAX)?;
    String::from_utf8(bytes).with_context(|| format!("{name} is not UTF-8"))
}

fn standard_input() -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    input::standard_input().read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn exported(text: &str) -> Result<Vec<NewEntry>> {
    let mut entries = Vec::new();
    let mut round = None;
    for (index, line) in
        text.lines().enumerate().skip(1).filter(|(_, line)| !line.trim().is_empty())
    {
        let at = || format!("line {}", index + 1);
        let value: Value = serde_json::from_str(line).with_context(at)?;
        let field = |key: &str| {
            value[key].as_str().with_context(|| format!("{}: `{key}` must be a string", at()))
        };
        let own = value["round"].as_u64();
        if !longhand::is_form(field("form")?) {
            bail!("{}: there is no form {:?}", at(), field("form")?);
        }
        let at_ms =
            time::parse(field("at")?).with_context(|| format!("{}: `at` is not a time", at()))?;
        let raw = field("raw")?.to_owned();
        entries.extend(longhand::new_entry(field("form")?, raw, own != round, at_ms));
        round = own;
    }
    Ok(entries)
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
