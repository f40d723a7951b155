//! `longhand record` and `longhand context`.

use std::io::BufRead;

use anyhow::{Context, Result};
use longhand::{Placement, Prompt, Round};
use longhand_core::grouped;
use serde_json::json;

use crate::args::{ContextArgs, PlacementName, RecordArgs};
use crate::redact::redact;
use crate::{Outcome, hinted, output, store};

pub(crate) fn record(args: &RecordArgs) -> Result<Outcome> {
    let archive = store::open(&args.archive)?;
    let mut session = store::session(&archive, &args.id, &args.rolling)?;
    let (mut rounds, mut folded, mut over) = (0, 0, None);
    for (index, line) in lines(args)?.enumerate() {
        let line = line.context("cannot read the rounds")?;
        if line.trim().is_empty() {
            continue;
        }
        let line = if args.redact { redact(&line) } else { line };
        let round = Round::parse(&line, store::now_ms()).with_context(|| {
            format!("line {} was not recorded; the {rounds} rounds before it were", index + 1)
        })?;
        let recorded = session.record(&round)?;
        rounds += 1;
        folded += recorded.folded;
        over = recorded.over;
    }
    let more = store::finish_folding(&mut session, args.quiet)?;
    folded += more.rounds;
    over = more.over.or(over);
    if rounds == 0 {
        return Err(hinted(
            "there was no round to record",
            r#"give one as a line: {"user": "…", "assistant": "…"}"#,
        ));
    }
    if args.json {
        let report = json!({
            "session": args.id,
            "recorded": rounds,
            "folded": folded,
            "verbatim": [session.verbatim().start, session.verbatim().end],
            "tokens": session.tokens().0,
            "over": over.map(|over| over.0),
        });
        output::print(&report.to_string())?;
    } else if !args.quiet {
        let verbatim = session.verbatim();
        let mut line = format!(
            "recorded {} rounds, folded {}; {} verbatim, {} tokens",
            grouped(rounds),
            grouped(folded as usize),
            grouped((verbatim.end - verbatim.start) as usize),
            grouped(session.tokens().0 as usize)
        );
        if let Some(over) = over {
            line.push_str(&format!(
                "; {} over budget, and nothing more can be folded",
                grouped(over.0 as usize)
            ));
        }
        output::print(&line)?;
    }
    Ok(Outcome::Done)
}

fn lines(args: &RecordArgs) -> Result<Box<dyn Iterator<Item = std::io::Result<String>>>> {
    Ok(match args.file.as_deref().filter(|path| path.as_os_str() != "-") {
        Some(path) => {
            let file = std::fs::File::open(path)
                .with_context(|| format!("cannot open {}", path.display()))?;
            Box::new(std::io::BufReader::new(file).lines())
        }
        None => Box::new(std::io::stdin().lock().lines()),
    })
}

pub(crate) fn context(args: &ContextArgs) -> Result<Outcome> {
    let archive = store::open_existing(&args.archive)?;
    store::known(&archive, &args.id)?;
    let session = store::session(&archive, &args.id, &args.rolling)?;
    let prompt = Prompt {
        base: args.system.clone().unwrap_or_default(),
        recall: args.recall.clone().unwrap_or_default(),
        placement: match args.placement {
            PlacementName::System => Placement::System,
            PlacementName::User => Placement::User,
        },
        dialect: args.dialect.0.unwrap_or(longhand_dialect::Dialect::Chat),
        budget: None,
    };
    let window = session.window(args.message.as_deref().unwrap_or_default(), &prompt)?;
    if args.json {
        let messages: serde_json::Value =
            serde_json::from_str(&window.json).context("the window is not JSON; this is a bug")?;
        let verbatim = session.verbatim();
        let report = json!({
            "session": args.id,
            "tokens": window.tokens.0,
            "shortfall": window.shortfall.0,
            "rounds": verbatim.end,
            "verbatim": [verbatim.start, verbatim.end],
            "summary": session.summary(),
            "window": messages,
        });
        output::print(&format!("{report:#}"))?;
    } else {
        output::print(&window.json)?;
    }
    Ok(if window.shortfall.0 == 0 { Outcome::Done } else { Outcome::TooBig })
}
