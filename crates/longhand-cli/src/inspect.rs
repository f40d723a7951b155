//! `longhand ls`, `show`, `log` and `search`.

use anyhow::Result;
use longhand_core::grouped;
use serde_json::{Value, json};

use crate::args::{LogArgs, LsArgs, SearchArgs, ShowArgs};
use crate::output::harmless_line;
use crate::{Outcome, map, output, store};

pub(crate) fn ls(args: &LsArgs) -> Result<Outcome> {
    let has_archive = store::exists(&args.archive)?;
    let sessions = if has_archive { store::open(&args.archive)?.sessions()? } else { Vec::new() };
    if args.json {
        let list: Vec<Value> = sessions
            .iter()
            .map(|info| {
                json!({
                    "id": info.id, "rounds": info.rounds, "entries": info.entries, "batches": info.batches,
                    "bytes": info.bytes, "last": longhand::time::format(info.last_ms), "damaged": info.damaged,
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
            harmless_line(&info.id),
            grouped(info.rounds as usize),
            grouped(info.bytes as usize),
            longhand::time::format(info.last_ms),
            if info.damaged { "  damaged" } else { "" }
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
    let head = store::known(&archive, &args.id)?;
    let session = store::session(&archive, &args.id, &args.rolling)?;
    let verbatim = session.verbatim();
    let summary = session.summary().unwrap_or_default();
    let total = session.tokens();
    let summary_tokens = session.summary_tokens();
    if args.json {
        let report = json!({
            "id": args.id, "entries": head.entries, "rounds": head.rounds, "pins": head.pins,
            "verbatim": [verbatim.start, verbatim.end], "tokens": total.0, "summary_tokens": summary_tokens.0,
            "summary": session.summary(),
        });
        output::print(&format!("{report:#}"))?;
        return Ok(Outcome::Done);
    }
    let mut text = format!(
        "{}: {} rounds, {} entries\n",
        harmless_line(&args.id),
        grouped(head.rounds as usize),
        grouped(head.entries as usize)
    );
    text.push_str(&map::of_session(&session));
    text.push('\n');
    if !head.pins.is_empty() {
        text.push_str(&format!(
            "  pinned: {}\n",
            head.pins.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
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
    store::known(&archive, &args.id)?;
    let batches = archive.batches(&args.id)?;
    let receipt = |text: &str| serde_json::from_str::<Value>(text).unwrap_or(Value::Null);
    if args.json {
        let list: Vec<Value> = batches
            .iter()
            .map(|batch| json!({"number": batch.number, "undone": batch.undone, "receipt": receipt(&batch.receipt)}))
            .collect();
        output::print(&format!("{:#}", Value::Array(list)))?;
        return Ok(Outcome::Done);
    }
    let mut text = String::new();
    for batch in batches.iter().rev() {
        let receipt = receipt(&batch.receipt);
        let undone = if batch.undone { "  (undone)" } else { "" };
        let number = |path: &str| receipt.pointer(path).and_then(Value::as_u64).unwrap_or(0);
        let word =
            |path: &str| receipt.pointer(path).and_then(Value::as_str).unwrap_or("-").to_owned();
        let what = if receipt["window"].is_null() {
            format!("{} rounds", number("/rounds"))
        } else {
            let (stubs, clips) = (number("/stubbed"), number("/clipped"));
            format!("{stubs} stubs, {clips} clips, {} messages folded", number("/folded"))
        };
        text.push_str(&format!(
            "{:>5}  {}  {what}  {} -> {} tokens  {}  anchors {} kept, {} restored, {} dropped{undone}\n",
            batch.number,
            longhand::time::format(batch.at_ms),
            grouped(number("/tokens_before") as usize),
            grouped(number("/tokens_after") as usize),
            word("/fold/summariser"),
            number("/fold/anchors/kept"),
            number("/fold/anchors/restored"),
            number("/fold/anchors/dropped"),
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
    let hits = archive.search(args.session.as_deref(), &args.query, args.limit)?;
    if args.json {
        let list: Vec<Value> = hits
            .iter()
            .map(|hit| json!({"session": hit.session, "entry": hit.seq, "round": hit.round, "snippet": hit.snippet}))
            .collect();
        output::print(&format!("{:#}", Value::Array(list)))?;
    } else {
        let mut text = String::new();
        for hit in &hits {
            text.push_str(&format!(
                "{} round {} entry {}: {}\n",
                harmless_line(&hit.session),
                hit.round,
                hit.seq,
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
