//! `longhand record` and `longhand context`.

use std::io::BufRead;

use anyhow::{Context, Result};
use longhand::app::{AppError, LAST, RecordReport, WindowReport};
use longhand::{Placement, Prompt, Round, Session, SessionError};
use longhand_core::grouped;

use crate::args::{ContextArgs, PlacementName, RecordArgs};
use crate::output::counted;
use crate::{CommandOutcome, hinted, input, names, output, store};

const ROUND_EXAMPLE: &str =
    r#"each line is a round: {"user": "Where is the log?", "assistant": "In var/app.log."}"#;

pub(crate) fn record(args: &RecordArgs) -> Result<CommandOutcome> {
    let app = store::app(&args.archive)?;
    let mut session = store::session(&app, &args.id, &args.session)?;
    session.set_redactor(store::redactor_if(args.redact, &args.archive)?);
    let is_new = session.verbatim().end == 0;
    let (mut rounds, mut folded, mut over) = (0, 0, None);
    for (index, line) in lines(args)?.enumerate() {
        let line = line.context("cannot read the rounds")?;
        if line.trim().is_empty() {
            continue;
        }
        let round = Round::parse(&line, store::now_ms())
            .map_err(|error| hinted(not_recorded(index + 1, rounds, &error), ROUND_EXAMPLE))?;
        let recorded = session.record(&round)?;
        rounds += 1;
        folded += recorded.folded;
        over = recorded.over;
        // Each round is reported once it is durable, so that a caller who sends many knows where to continue.
        if args.json {
            output::print_json_line(&RecordReport::of(&session, &recorded))?;
        }
        if let Some(problem) = recorded.problem {
            output::say(&format!("warning: round {} is recorded, but {problem}", recorded.round));
        }
    }
    store::wait_for_summary(&mut session, args.quiet)?;
    if rounds == 0 {
        return Err(hinted("there was no round to record", ROUND_EXAMPLE));
    }
    if !args.json && !args.quiet {
        let mut line = format!("recorded {}", counted(rounds, "round"));
        if is_new {
            line.push_str(&format!(" in the new session {:?}", session.name()));
        }
        if folded > 0 {
            line.push_str(&format!(", folded {}", counted(folded as usize, "round")));
        }
        line.push_str(&format!(
            "; the window has {} tokens",
            grouped(session.tokens()?.0 as usize)
        ));
        if let Some(over) = over {
            line.push_str(&format!(
                ", {} over budget, and nothing more can be folded",
                grouped(over.0 as usize)
            ));
        }
        output::print(&line)?;
    }
    Ok(CommandOutcome::Done)
}

/// Names the line that is no round, and says what became of those before it.
fn not_recorded(line: usize, rounds: usize, error: &SessionError) -> String {
    let before = match rounds {
        0 => String::new(),
        1 => "; the round before it was".to_owned(),
        rounds => format!("; the {rounds} rounds before it were"),
    };
    format!("line {line} was not recorded{before}: {error}")
}

fn lines(args: &RecordArgs) -> Result<Box<dyn Iterator<Item = std::io::Result<String>>>> {
    Ok(match args.file.as_deref().filter(|path| path.as_os_str() != "-") {
        Some(path) => {
            let file = std::fs::File::open(path)
                .with_context(|| format!("cannot open {}", path.display()))?;
            Box::new(std::io::BufReader::new(file).lines())
        }
        None => Box::new(input::standard_input().lines()),
    })
}

/// The session whose messages are sent. A new one has a first window if there is a message to send.
fn session_to_send(args: &ContextArgs) -> Result<Session> {
    if args.message.is_none() {
        let app = store::app_existing(&args.archive)?;
        // The window is kept with what it leaves out, so this writes.
        return store::existing_session(&app, &args.id, &args.session).map_err(|error| match error
            .downcast_ref()
        {
            Some(AppError::UnknownSession { near, .. }) if near.is_empty() && args.id != LAST => {
                hinted(error.to_string(), begin_hint(&args.id))
            }
            _ => error,
        });
    }
    let app = store::app(&args.archive)?;
    if let Some(known) = app.find_exact(&args.id)? {
        return store::existing_session(&app, &known.id, &args.session);
    }
    output::say(&format!(
        "session {:?} is new: nothing is recorded in it yet; {} begins it",
        args.id,
        store::command(&format!("record {}", names::quoted(&args.id))),
    ));
    store::session(&app, &args.id, &args.session)
}

fn begin_hint(name: &str) -> String {
    let name = names::quoted(name);
    format!(
        "`longhand ls` lists the sessions; `longhand record {name}` begins this one, and with --message TEXT it has \
         its first window"
    )
}

pub(crate) fn context(args: &ContextArgs) -> Result<CommandOutcome> {
    let mut session = session_to_send(args)?;
    session.set_recall(store::recall(args.brought_back)?);
    let placement = match args.placement {
        Some(PlacementName::System) => Placement::System,
        None if session.is_rolling() => Placement::System,
        Some(PlacementName::User) | None => Placement::User,
    };
    let prompt = Prompt {
        base: args.system.clone().unwrap_or_default(),
        recall: args.recall.clone().unwrap_or_default(),
        placement,
        dialect: args.dialect.0.unwrap_or(longhand_dialect::Dialect::Chat),
        budget: None,
    };
    let message = args.message.as_deref().unwrap_or_default();
    let window = session.window(message, &prompt, store::now_ms())?;
    store::wait_for_summary(&mut session, true)?;
    if args.json {
        output::print_json(&WindowReport::of(&session, &window)?)?;
    } else {
        output::print_data(&format!("{}\n", window.json))?;
    }
    Ok(if window.shortfall.0 == 0 { CommandOutcome::Done } else { CommandOutcome::TooBig })
}
