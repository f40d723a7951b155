//! `longhand ls`, `show`, `log` and `search`.

use anyhow::Result;
use longhand_archive::{Page, Scope};
use longhand_core::{Tally, grouped};
use serde_json::{Value, json};

use crate::args::{LogArgs, LsArgs, SearchArgs, ShowArgs};
use crate::output::{counted, harmless_line};
use crate::{Outcome, map, output, store};

pub(crate) fn ls(args: &LsArgs) -> Result<Outcome> {
    let has_archive = store::exists(&args.archive)?;
    let sessions = if has_archive {
        store::open(&args.archive)?.sessions(None, Page::ALL)?.items
    } else {
        Vec::new()
    };
    if args.json {
        let list: Vec<Value> = sessions
            .iter()
            .map(|info| {
                json!({
                    "id": info.id.to_string(), "name": info.name, "dialect": info.dialect, "rounds": info.rounds, "entries": info.entries, "batches": info.batches,
                    "bytes": info.bytes, "last": longhand::time::format(info.last_ms), "damaged": info.is_damaged,
                })
            })
            .collect();
        output::print(&format!("{:#}", Value::Array(list)))?;
        return Ok(Outcome::Done);
    }
    let mut text = String::new();
    for info in &sessions {
        text.push_str(&format!(
            "{:<32} {:>8} rounds {:>12} bytes  {}{}\n",
            harmless_line(&info.name),
            grouped(info.rounds as usize),
            grouped(info.bytes as usize),
            longhand::time::format(info.last_ms),
            if info.is_damaged { "  damaged" } else { "" }
        ));
    }
    if sessions.is_empty() {
        text.push_str("no sessions yet; `longhand record ID` makes one\n");
    }
    output::print(&text)?;
    Ok(Outcome::Done)
}

pub(crate) fn show(args: &ShowArgs) -> Result<Outcome> {
    let archive = store::open_existing(&args.archive)?;
    let info = store::known(&archive, &args.id)?;
    let head = archive.head(info.id)?.unwrap_or_default();
    let pins: Vec<u64> = head.pins.iter().map(|seq| seq.0).collect();
    let session = store::session(&archive, &args.id, &args.session)?;
    let verbatim = session.verbatim();
    let summary = session.summary().unwrap_or_default();
    let total = session.tokens();
    let summary_tokens = session.summary_tokens();
    if args.json {
        let report = json!({
            "id": info.id.to_string(), "name": info.name, "entries": head.entries, "rounds": head.rounds, "pins": pins,
            "verbatim": [verbatim.start, verbatim.end], "tokens": total.0, "summary_tokens": summary_tokens.0,
            "summary": session.summary(),
        });
        output::print(&format!("{report:#}"))?;
        return Ok(Outcome::Done);
    }
    let mut text = format!(
        "{}: {}, {} entries\n",
        harmless_line(&info.name),
        counted(head.rounds as usize, "round"),
        grouped(head.entries as usize)
    );
    text.push_str(&map::of_session(&session));
    text.push('\n');
    if !pins.is_empty() {
        text.push_str(&format!(
            "  pinned: {}\n",
            pins.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
        ));
    }
    if !summary.is_empty() {
        text.push_str(&format!(
            "\n{}\n",
            summary.lines().map(harmless_line).collect::<Vec<_>>().join("\n")
        ));
    }
    output::print(&text)?;
    Ok(Outcome::Done)
}

pub(crate) fn log(args: &LogArgs) -> Result<Outcome> {
    let archive = store::open_existing(&args.archive)?;
    let info = store::known(&archive, &args.id)?;
    let batches = archive.batches(info.id, Page::ALL)?.items;
    let receipt = |text: &str| serde_json::from_str::<Value>(text).unwrap_or(Value::Null);
    if args.json {
        let list: Vec<Value> = batches
            .iter()
            .rev()
            .map(|logged| {
                let tally = Tally::of(&logged.batch.edits);
                json!({
                    "number": logged.number, "undone": !logged.is_live, "stubs": tally.stubs,
                    "clips": tally.clips, "folded": tally.folded, "receipt": receipt(&logged.receipt),
                })
            })
            .collect();
        output::print(&format!("{:#}", Value::Array(list)))?;
        return Ok(Outcome::Done);
    }
    let mut text = String::new();
    for logged in &batches {
        let receipt = receipt(&logged.receipt);
        let undone = if logged.is_live { "" } else { "  (undone)" };
        let number = |path: &str| receipt.pointer(path).and_then(Value::as_u64).unwrap_or(0);
        let Tally { stubs, clips, folded, .. } = Tally::of(&logged.batch.edits);
        let mut what = format!("{stubs} stubs, {clips} clips, {folded} entries folded");
        if let Some(summariser) = receipt.pointer("/fold/summariser").and_then(Value::as_str) {
            what.push_str(&format!(
                " by {}; anchors {} kept, {} restored, {} dropped",
                harmless_line(summariser),
                number("/fold/anchors/kept"),
                number("/fold/anchors/restored"),
                number("/fold/anchors/dropped"),
            ));
        }
        text.push_str(&format!(
            "{:>5}  {}  {} -> {} tokens  {what}{undone}\n",
            logged.number,
            longhand::time::format(logged.at_ms),
            grouped(number("/tokens_before") as usize),
            grouped(number("/tokens_after") as usize),
        ));
    }
    if batches.is_empty() {
        text.push_str("nothing was folded yet\n");
    }
    output::print(&text)?;
    Ok(Outcome::Done)
}

pub(crate) fn search(args: &SearchArgs) -> Result<Outcome> {
    let archive = store::open_existing(&args.archive)?;
    let scope = match &args.session {
        Some(name) => Scope::Session(store::known(&archive, name)?.id),
        None => Scope::All,
    };
    let hits = archive.search(&scope, &args.query, args.limit)?;
    let mut names = std::collections::HashMap::new();
    for hit in &hits {
        if let std::collections::hash_map::Entry::Vacant(vacant) = names.entry(hit.session) {
            let info = archive.session(hit.session)?;
            vacant.insert(info.map_or_else(|| hit.session.to_string(), |info| info.name));
        }
    }
    if args.json {
        let list: Vec<Value> = hits
            .iter()
            .map(|hit| json!({"session": names[&hit.session], "entry": hit.seq.0, "round": hit.round, "snippet": hit.snippet}))
            .collect();
        output::print(&format!("{:#}", Value::Array(list)))?;
    } else {
        let mut text = String::new();
        for hit in &hits {
            text.push_str(&format!(
                "{} round {} entry {}: {}\n",
                harmless_line(&names[&hit.session]),
                hit.round,
                hit.seq.0,
                harmless_line(&hit.snippet)
            ));
        }
        if hits.is_empty() {
            text.push_str("nothing found\n");
        }
        output::print(&text)?;
    }
    Ok(if hits.is_empty() { Outcome::No } else { Outcome::Done })
}
