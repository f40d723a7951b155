//! `longhand resume`.
//!
//! Standard output has the command and nothing else, so that a shell can run it; everything else goes to standard error.

use anyhow::{Context, Result, bail};
use longhand::agent_files::{self, AgentCommand};
use longhand::app::{App, ResumableSession, ResumeReport, ResumeRequest};
use longhand::{MemoryArchive, time};

use crate::args::ResumeArgs;
use crate::output::harmless_line;
use crate::search::highlighted;
use crate::{CommandOutcome, hinted, names, output, store};

/// The most characters of a session's first words.
const TASK_CHARS_MAX: usize = 80;

pub(crate) fn run(args: &ResumeArgs) -> Result<CommandOutcome> {
    let query = args.query.join(" ");
    let app = if store::exists(&args.archive)? {
        store::app(&args.archive)?
    } else {
        App::new(std::sync::Arc::new(MemoryArchive::default()))
    };
    let files = match session_of_agent(&query)? {
        Some(file) => vec![file],
        None => agent_files::all(|name| std::env::var(name).ok())?,
    };
    let request = ResumeRequest {
        // Where one file is named, what is left is to say how to go on in it.
        query: if files.len() == 1 && query.contains('@') {
            files[0].name()
        } else {
            query.clone()
        },
        project: args.project.clone(),
        limit: args.limit,
        bytes_max: args.max_input,
        now_ms: store::now_ms(),
    };
    let report = app.resumable(&request, &files)?;
    if args.json {
        output::print_json(&report)?;
    } else if report.is_partial {
        output::say(
            "not every message was looked at; `longhand import` makes all of them searchable",
        );
    }
    match report.sessions.first() {
        None => Err(nothing_found(&query, files.len())),
        Some(session) if report.is_clear => resumed(args, session, &query),
        Some(_) => {
            if !args.json {
                output::say_styled(&listed(&report, &query));
            }
            Ok(CommandOutcome::No)
        }
    }
}

/// The session that `claude@last` and the like mean.
fn session_of_agent(query: &str) -> Result<Option<agent_files::AgentFile>> {
    if query.contains(char::is_whitespace) || !query.ends_with("@last") {
        return Ok(None);
    }
    Ok(Some(agent_files::find(query, |name| std::env::var(name).ok())?))
}

fn nothing_found(query: &str, files: usize) -> anyhow::Error {
    if query.trim().is_empty() {
        let hint = "sessions of Claude Code, Codex and pi are looked for, and those of an archive";
        return hinted("there is no session to go on with", hint);
    }
    let files = output::counted(files, "session file");
    hinted(
        format!("nothing fits {query:?}; the archive and {files} of agents were searched"),
        "fewer or other words may fit; without words, the newest sessions are listed",
    )
}

/// One session that is meant: prints the command that goes on in it, or runs it.
fn resumed(args: &ResumeArgs, session: &ResumableSession, query: &str) -> Result<CommandOutcome> {
    let Some(command) = command_of(session) else {
        let what = session.obstacle.as_deref().unwrap_or("nothing is known that goes on in it");
        let name = names::quoted(&session.name);
        return Err(hinted(
            format!("cannot go on in {name}: {what}"),
            format!(
                "`longhand export {name} --as claude-code` writes it as a session of Claude Code"
            ),
        ));
    };
    if !args.json {
        output::say_styled(described(session, query).trim_end());
    }
    if args.go {
        return go(&command);
    }
    if !args.json {
        output::print_data(&format!("{}\n", command.line))?;
    }
    Ok(CommandOutcome::Done)
}

/// The command, which names the archive where it is ours.
fn command_of(session: &ResumableSession) -> Option<AgentCommand> {
    let command = session.command.clone()?;
    if session.agent != "longhand" {
        return Some(command);
    }
    let line = store::addressed(&format!("`{}`", command.line));
    let words: Vec<&str> = command.words.iter().map(String::as_str).collect();
    let archive = store::named().map(store::shown);
    let named = archive.iter().flat_map(|archive| ["--archive", archive.as_str()]);
    let words: Vec<&str> = words.into_iter().chain(named).collect();
    let mut command = AgentCommand::new(command.folder, &words);
    line.trim_matches('`').clone_into(&mut command.line);
    Some(command)
}

/// Becomes the agent.
fn go(command: &AgentCommand) -> Result<CommandOutcome> {
    let [program, arguments @ ..] = command.words.as_slice() else {
        bail!("there is no command to run");
    };
    let mut agent = std::process::Command::new(program);
    agent.args(arguments);
    if let Some(folder) = &command.folder {
        if !std::path::Path::new(folder).is_dir() {
            return Err(hinted(
                format!("the folder of this session is gone: {folder}"),
                "the agent finds the session only from there; create the folder, or put it back",
            ));
        }
        agent.current_dir(folder);
    }
    #[cfg(unix)]
    {
        use std::os::unix::process::CommandExt;
        let error = agent.exec();
        Err(error).with_context(|| format!("cannot run {program}"))
    }
    #[cfg(not(unix))]
    {
        let status = agent.status().with_context(|| format!("cannot run {program}"))?;
        let status = status.code().and_then(|code| u8::try_from(code).ok());
        Ok(CommandOutcome::Status(status.unwrap_or(1)))
    }
}

/// Several sessions that could be meant, each with what chooses it.
fn listed(report: &ResumeReport, query: &str) -> String {
    let mut text: String = report
        .sessions
        .iter()
        .map(|session| {
            let choice = if let (None, Some(obstacle)) = (&session.command, &session.obstacle) {
                format!("  {}\n", harmless_line(obstacle))
            } else {
                // A name that could control the terminal is not one to be typed; its id is.
                let is_harmless = harmless_line(&session.name) == session.name;
                let id = session.session.as_ref().filter(|_| !is_harmless);
                let name = names::quoted(&harmless_line(id.unwrap_or(&session.name)));
                let choice = store::addressed(&format!("`longhand resume {name}`"));
                format!("  {}\n", choice.trim_matches('`'))
            };
            format!("{}{choice}", described(session, query))
        })
        .collect();
    if !query.trim().is_empty() {
        text.push_str("several sessions fit; choose one by its id, or say more words\n");
    }
    text.trim_end().to_owned()
}

/// A session in a line or two.
fn described(session: &ResumableSession, query: &str) -> String {
    let agent = if session.agent.is_empty() { "?" } else { &session.agent };
    let date = time::format_local(session.last.0);
    let task: String = session.task.chars().take(TASK_CHARS_MAX).collect();
    let line = format!("{agent}  {date}  {}  {task}", session.project);
    let mut text = format!("{}\n", output::wrapped(harmless_line(&line).trim_end(), ""));
    if !session.snippet.is_empty() {
        let words = output::wrapped(&harmless_line(&session.snippet), "  ");
        text.push_str(&format!("{}\n", highlighted(&words, query)));
    }
    text
}
