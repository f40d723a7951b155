//! `longhand compact`.

mod resume;

use std::io::IsTerminal;
use std::path::Path;

use anyhow::{Context, Result, bail};
use longhand::Owner;
use longhand::driver::{Admitted, WindowRequest};
use longhand_core::{Batch, Budget, HandleOpener, PlanSettings, Scale, Tokens};
use longhand_dialect::{BINDING_BETA, Conversation};

use self::resume::ResumedSession;
use crate::args::{CompactArgs, InputArgs, MapWhen};
use crate::report::{CompactReport, Summaries};
use crate::{CommandOutcome, hinted, input, map, output, redaction, store, weigh};

/// How the reader of a window opens a handle.
const OPENER: HandleOpener = HandleOpener::Command("longhand expand");

pub(crate) fn run(args: &CompactArgs) -> Result<CommandOutcome> {
    if args.budget == Some(0) {
        return Err(hinted(
            "a budget of 0 tokens holds nothing",
            "give the size of the model's window, such as --budget 32k",
        ));
    }
    if let Some(budget) = args.budget.filter(|budget| args.reserve >= *budget) {
        bail!("a reserve of {} leaves nothing of a budget of {budget}", args.reserve);
    }
    let to_stdout = |path: &Option<std::path::PathBuf>| {
        path.as_ref().is_some_and(|path| path.as_os_str() == "-")
    };
    if to_stdout(&args.report) && args.output.as_ref().is_none_or(|path| path.as_os_str() == "-") {
        bail!("the report and the window cannot both go to standard output; give -o FILE");
    }
    apart(args)?;
    let resumed = args.resume.as_deref().map(ResumedSession::find).transpose()?;
    let source = match &resumed {
        Some(session) => InputArgs { file: Some(session.path().to_owned()), ..args.input.clone() },
        None => args.input.clone(),
    };
    let name = input::name(&source);
    let conversation = input::read(&source)?;
    if resumed.is_none() {
        input::check_read(&conversation, &name)?;
    }
    let mut conversation = valid(conversation, args.repair, &name)?;
    // Thinking stays if the provider can be told to drop the blocks that an edit invalidates.
    let drops_thinking = conversation.keep_thinking();
    let opener = resumed.as_ref().map_or(OPENER, |session| session.opener(args.archive.as_deref()));
    conversation.opened_by(opener);
    let named = weigh::open(args.meter.meter.clone(), &conversation)?;
    let meter = &named.meter;
    let fixed = weigh::attributes(&conversation, &Scale::new(&**meter));
    let limit = match args.budget {
        Some(limit) => Tokens(limit),
        None => resume::default_budget(&conversation, fixed),
    };
    let (bytes_max, images_max) = conversation.size_limits();
    let budget = Budget {
        reserve: Tokens(args.reserve),
        target: args.target.map(Tokens),
        bytes_max,
        images_max,
        ..Budget::of(limit)
    };
    let settings = PlanSettings {
        policy: args.policy.into(),
        keep_tail: args.keep_tail,
        chars_min: args.min_chars,
        last_resort: args.last_resort,
        clip_new_percent: args.clip_new,
    };
    let mut digest = store::digest(&args.summariser, args.archive.as_deref(), meter)?;
    let mut admitted = match &args.archive {
        Some(path) => {
            digest = digest.keeping_state();
            let archive = store::open_at(path)?;
            let redactor = args.redact.then(|| redaction::redactor(path)).transpose()?;
            let twin = redactor.and_then(|redactor| redactor.twin(&conversation).transpose());
            let admit = |conversation| {
                Admitted::archived(archive, Owner::LOCAL, conversation, &name, store::now_ms())
            };
            match twin.transpose()? {
                Some(mut twin) => {
                    twin.keep_thinking();
                    twin.opened_by(opener);
                    admit(twin)?.with_original(conversation)
                }
                None => admit(conversation)?,
            }
        }
        None => Admitted::alone(conversation),
    };
    // A new batch is durable before anything relies on its handles.
    let fitted = admitted.window(&WindowRequest {
        budget,
        settings,
        meter: &**meter,
        digest: &digest,
        fixed,
        summary: &|| (digest.account(), digest.refused()),
        now_ms: store::now_ms(),
    })?;
    let plan = &fitted.plan;
    let conversation = admitted.conversation();
    if let Some(session) = resumed.as_ref().filter(|_| fitted.live.is_empty() && plan.fits()) {
        let tokens = named.figure(weigh::total(conversation, meter));
        output::say(&format!("longhand: {tokens} tokens fit {}; nothing is written", budget.limit));
        output::print_data(&session.command_of_old(conversation))?;
        return Ok(CommandOutcome::Done);
    }
    let new_session = match &resumed {
        Some(session) => {
            let before = weigh::total(conversation, meter);
            Some(session.new_session(conversation, &fitted.live, before, args.replace)?)
        }
        None => None,
    };
    let text = new_session.as_ref().map_or(&fitted.text, |session| &session.text);
    let (mut window, over) = verified(text, conversation)?;
    window.opens_like(conversation);
    let after = weigh::total(&window, meter);
    let report = (args.report.is_some() || !args.quiet).then(|| CompactReport {
        before: if plan.is_noop() && fitted.live.is_empty() {
            weigh::Counted::exactly(after)
        } else {
            weigh::estimated(conversation, meter)
        },
        conversation,
        window: &window,
        plan,
        live: &fitted.live,
        thinking_removed: fitted.thinking_removed,
        budget,
        meter: &named,
        after,
        summary: Summaries { account: digest.account(), refused: digest.refused() },
    });
    // The report goes first: if it cannot be written, the window is not replaced either.
    if let (Some(path), Some(report)) = (&args.report, &report) {
        if path.as_os_str() == "-" {
            output::print_json(&report.to_json())?;
        } else {
            output::write_file(path, &format!("{:#}\n", report.to_json()))?;
        }
    }
    let copy = match args.output.as_deref().filter(|path| is_input(path, args)) {
        Some(path) if text != admitted.conversation().bytes() => Some(output::keep_copy(path)?),
        _ => None,
    };
    match (&new_session, args.output.as_deref().filter(|path| path.as_os_str() != "-")) {
        (Some(session), _) => session.write(conversation)?,
        (None, Some(path)) => output::write_file(path, text)?,
        (None, None) => output::print_data(text)?,
    }
    if let Some(report) = report.filter(|_| !args.quiet) {
        output::say(&report.to_string());
        if drops_thinking && !fitted.live.is_empty() {
            output::say(&format!(
                "note: the edits invalidate some thinking; with the header anthropic-beta: {BINDING_BETA} the provider drops it"
            ));
        }
        for line in report_lines(
            args,
            source.file.as_deref(),
            &fitted.live,
            &report.summary,
            copy.as_deref(),
        ) {
            output::say(&line);
        }
        if !over.is_empty() {
            output::say(&format!("does not fit: {}", listed(&over).trim_start()));
            output::say("hint: a smaller --budget folds more of it");
        }
        let terminal = std::io::stderr().is_terminal();
        if matches!(args.map, MapWhen::Always) || (matches!(args.map, MapWhen::Auto) && terminal) {
            let colour = terminal && std::env::var_os("NO_COLOR").is_none();
            output::say_styled(map::draw(&window, &named, budget, colour).trim_end());
        }
    }
    if let Some(session) = &new_session {
        output::print_data(&session.command)?;
    }
    Ok(if plan.fits() && over.is_empty() { CommandOutcome::Done } else { CommandOutcome::TooBig })
}

/// Whether a path is the file that is read.
fn is_input(path: &Path, args: &CompactArgs) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).ok().filter(|path| path.is_file());
    let input = args.input.file.as_deref().filter(|path| path.as_os_str() != "-");
    input.is_some_and(|input| real(input).is_some_and(|input| Some(input) == real(path)))
}

/// Lines for people: which models were asked, and how to bring back what was left out.
fn report_lines(
    args: &CompactArgs,
    source: Option<&Path>,
    live: &[Batch],
    summaries: &Summaries,
    copy: Option<&Path>,
) -> Vec<String> {
    let mut lines = summaries.lines();
    if live.is_empty() {
        return lines;
    }
    if let Some(copy) = copy {
        lines.push(format!("the original is kept as {}", copy.display()));
    }
    let from = copy.or(source.filter(|path| path.as_os_str() != "-"));
    lines.push(match (&args.archive, from) {
        (Some(archive), _) => format!(
            "`longhand expand HANDLE --archive {}` brings back what was left out",
            archive.display()
        ),
        (None, Some(from)) => format!(
            "`longhand expand HANDLE --from {}` brings back what was left out",
            from.display()
        ),
        (None, None) => {
            "keep the input: `longhand expand HANDLE --from FILE` finds in it what was \
            left out"
                .to_owned()
        }
    });
    lines
}

/// Refuses to write two things into one file.
fn apart(args: &CompactArgs) -> Result<()> {
    let named =
        [("--output", &args.output), ("--report", &args.report), ("--archive", &args.archive)];
    let named: Vec<_> =
        named.iter().filter_map(|(name, path)| Some((*name, path.as_ref()?))).collect();
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    for (index, (one, path)) in named.iter().enumerate() {
        for (other, other_path) in &named[index + 1..] {
            let device = real(path).metadata().is_ok_and(|data| !data.is_file());
            if real(path) == real(other_path) && !device && path.as_os_str() != "-" {
                bail!("{one} and {other} are the same file, {}", path.display());
            }
        }
    }
    Ok(())
}

/// Refuses an invalid conversation, or repairs it; one that is only too large is accepted.
fn valid(conversation: Conversation, repair: bool, name: &str) -> Result<Conversation> {
    let wrong = |conversation: &Conversation| -> Vec<String> {
        conversation
            .check()
            .iter()
            .filter(|finding| finding.is_fault())
            .map(ToString::to_string)
            .collect()
    };
    let mut found = wrong(&conversation);
    if found.is_empty() {
        return Ok(conversation);
    }
    let mut conversation = conversation;
    if repair {
        conversation = conversation.repair().context("the conversation could not be repaired")?;
        found = wrong(&conversation);
        if found.is_empty() {
            return Ok(conversation);
        }
    }
    let hint = if repair {
        "--repair only answers calls without results and quotes results without calls"
    } else {
        "`longhand check` lists all of it; --repair answers calls without results and quotes results without calls"
    };
    Err(hinted(
        format!("{name} is not a valid {} conversation:{}", conversation.dialect, listed(&found)),
        hint,
    ))
}

/// The first few of what was found, a line each.
fn listed(found: &[String]) -> String {
    let shown = found.iter().take(5).map(|line| format!("\n  {line}")).collect::<String>();
    let more =
        if found.len() > 5 { format!("\n  and {} more", found.len() - 5) } else { String::new() };
    shown + &more
}

/// Reads the window back: what we write is checked like what we read. Answers also with the limits of
/// the provider that it is still over.
fn verified(text: &str, conversation: &Conversation) -> Result<(Conversation, Vec<String>)> {
    let window =
        longhand_dialect::read_as_loaded(text.as_bytes().to_vec(), Some(conversation.dialect))
            .context("the window could not be read back; this is a bug, and nothing was written")?;
    let (mut over, mut faults) = (Vec::new(), Vec::new());
    for finding in window.check().iter().filter(|finding| finding.grave) {
        if finding.size { &mut over } else { &mut faults }.push(finding.to_string());
    }
    if let Some(fault) = faults.first() {
        bail!("the window is not valid ({fault}); this is a bug, and nothing was written");
    }
    Ok((window, over))
}
