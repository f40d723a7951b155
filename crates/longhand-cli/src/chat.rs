//! `longhand chat`: an endless conversation in the terminal.

mod command;
mod cost;
mod editor;
mod markdown;
mod piped;
mod screen;
mod table;
mod typing;
mod wrap;

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use longhand::app::{
    App, AppError, ConversationCost, ExpandRequest, FoundEntry, SearchRequest, WindowMap,
};
use longhand::{
    ArchiveError, CachePrices, Folding, ModelCall, Prompt, Redactor, Round, Session, SessionError,
    Tokens, Window,
};
use longhand_core::{Scale, grouped};
use longhand_dialect::Usage;
use longhand_model::{Model, ModelError, ModelRequest, Reply};
use serde_json::json;

use self::command::ChatCommand;
use self::editor::{LineEditor, Typed};
use self::screen::Screen;
use self::typing::TypingHeld;
use crate::args::ChatArgs;
use crate::config::Config;
use crate::models::ModelSetup;
use crate::output::counted;
use crate::{CommandOutcome, hinted, map, names, progress, store};

/// The session of `longhand chat` without a name.
const DEFAULT_SESSION: &str = "chat";

/// How often a window is made smaller when a model says that it is too long.
const SHRINKS_MAX: usize = 2;

/// How long `/compact` waits for a model.
const COMPACT_WAIT: Duration = Duration::from_mins(2);

/// How many messages `/search` lists.
const FOUND_MAX: usize = 10;

/// How often a wait looks whether Ctrl-C was pressed.
const INTERRUPT_POLL: Duration = Duration::from_millis(100);

/// How long a round waits for an archive that another process has locked. Every attempt waits for seconds.
const BUSY_ATTEMPTS: usize = 24;

/// How long `/quit` waits for a summary that is being written; one that is late is written again next time.
const LEAVE_WAIT: Duration = Duration::from_secs(2);

pub(crate) fn run(args: &ChatArgs) -> Result<CommandOutcome> {
    let config = Config::load()?;
    let name = args.model.as_deref().or(config.text("models.chat")).ok_or_else(|| {
        hinted(
            "no model is configured",
            "`longhand chat --model ollama/qwen3` names one, and so does models.chat in longhand.toml",
        )
    })?;
    let app = store::app(&args.archive)?;
    let models = ModelSetup::new(&config, Arc::clone(app.archive()))?;
    let model = models.model(name)?;
    let mut session = store::session(&app, &args.id, &args.session)?;
    session.set_recall(store::recall(args.brought_back)?);
    let system = args.system.as_deref().or(config.text("chat.system")).unwrap_or_default();
    let redactor = store::redactor_if(args.redact, &args.archive)?;
    session.set_redactor(redactor.clone());
    let mut chat = Chat {
        summarisers: store::summariser_names(&config, &args.session.summariser),
        system: system.to_owned(),
        screen: Screen::new(args.plain),
        models,
        model,
        app,
        session,
        redactor,
        asked: None,
        has_failed: false,
        unrecorded: Vec::new(),
    };
    chat.count_as_the_model_does()?;
    if !std::io::stdin().is_terminal() {
        return chat.answer_once();
    }
    chat.greet();
    chat.converse()
}

/// A conversation and what is needed to continue it.
struct Chat {
    models: ModelSetup,
    model: Model,
    app: App,
    session: Session,
    summarisers: Vec<String>,
    system: String,
    screen: Screen,
    redactor: Option<Arc<Redactor>>,
    /// The newest message as it was typed.
    asked: Option<String>,
    /// Whether it has no complete answer yet.
    has_failed: bool,
    /// Rounds that the archive could not take, oldest first.
    unrecorded: Vec<Round>,
}

/// How an answer ended.
enum ChatAnswer {
    Whole(Reply),
    /// The text before it was interrupted, and why it was.
    Partial(String, String),
}

/// Why an answer ended that the user stopped.
const STOPPED: &str = "stopped by the user";

/// Why an answer ended when the terminal was closed.
const ENDED: &str = "the program was terminated";

impl Chat {
    fn greet(&self) {
        let rounds = self.session.verbatim().end;
        let what = if rounds == 0 {
            "a new conversation".to_owned()
        } else {
            format!("{} so far", counted(rounds as usize, "round"))
        };
        self.screen.notice(&format!(
            "{} with {}: {what}; /help lists the commands",
            self.session.name(),
            self.model
        ));
    }

    /// Reads and answers until the user leaves.
    fn converse(&mut self) -> Result<CommandOutcome> {
        let mut editor = LineEditor::new(&self.screen)?;
        let _typing = TypingHeld::new();
        // From here on Ctrl-C ends an answer or a wait, never the program.
        self.is_interrupted(Duration::ZERO);
        loop {
            self.session.settle(Duration::ZERO)?;
            let prompt = self.prompt()?;
            let offered = self.asked.as_deref().filter(|_| self.has_failed);
            let line = match editor.read(&prompt, offered)? {
                Typed::Line(line) => line,
                Typed::Interrupted => {
                    self.screen.notice("Ctrl-D or /quit leaves");
                    continue;
                }
                Typed::End => break,
            };
            let line = line.trim();
            if line.is_empty() {
                if self.has_failed {
                    self.retry()?;
                }
                continue;
            }
            editor.remember(self.redacted(line));
            match ChatCommand::parse(line) {
                // Typed once more, it is the same message.
                None if self.has_failed && self.asked.as_deref() == Some(line) => self.retry()?,
                // Two slashes begin a message that begins with one.
                None => self.turn(if line.starts_with("//") { &line[1..] } else { line })?,
                Some(Ok(ChatCommand::Retry)) => self.retry()?,
                Some(Ok(ChatCommand::Quit)) => break,
                Some(Ok(command)) => {
                    if let Err(error) = self.obey(command) {
                        self.screen.problem(&error);
                    }
                }
                Some(Err(told)) => self.screen.notice(&told),
            }
        }
        self.record_waiting();
        if !self.unrecorded.is_empty() {
            bail!("{} could not be recorded", counted(self.unrecorded.len(), "round"));
        }
        self.session.settle(LEAVE_WAIT)?;
        let resume = format!("resume with `{}`", resume(self.session.name()));
        self.screen.notice(&store::addressed(&resume));
        Ok(CommandOutcome::Done)
    }

    /// The prompt with a gauge of the window.
    fn prompt(&mut self) -> Result<String> {
        Ok(screen::gauge(self.session.tokens()?, self.session.budget()))
    }

    /// Asks the newest message again.
    fn retry(&mut self) -> Result<()> {
        self.record_waiting();
        let Some(recorded) = self.session.retry()? else {
            self.screen.notice("there are no messages yet");
            return Ok(());
        };
        // What was typed may be more than what is recorded.
        let message = self.asked.take().unwrap_or(recorded);
        self.turn(&message)
    }

    /// Sends one message and shows the answer. Errors are shown and do not end the chat; the message is kept with the
    /// part of the answer that arrived.
    fn turn(&mut self, message: &str) -> Result<()> {
        self.asked = Some(message.to_owned());
        self.record_waiting();
        let (answer, window) = match self.ask(message) {
            Ok((answer, window)) => (answer, Some(window)),
            Err(error) => {
                self.screen.problem(&error);
                (ChatAnswer::Partial(String::new(), format!("{error:#}")), None)
            }
        };
        self.has_failed = false;
        let round = self.round(message, &answer);
        self.unrecorded.push(round);
        self.record_waiting();
        if let ChatAnswer::Partial(said, why) = &answer {
            self.has_failed = true;
            let (kept, again) = if said.is_empty() {
                ("your message is kept", "Enter sends it again, → edits it")
            } else {
                ("the part that arrived is kept", "Enter sends your message again, → edits it")
            };
            if std::io::stdin().is_terminal() {
                self.screen.notice(&format!("{kept}; {again}"));
            } else {
                self.screen.notice(kept);
            }
            if why == ENDED {
                bail!("{ENDED}; {kept}");
            }
        }
        if let Some(window) = window
            && let Err(error) = self.log(&answer, &window)
        {
            self.screen.problem(&error);
        }
        Ok(())
    }

    /// Logs the tokens and the cost of an answer.
    fn log(&self, answer: &ChatAnswer, window: &Window) -> Result<()> {
        if let Some(call) = self.call(answer, window)? {
            let system = self.redacted(&self.system);
            self.session.log_request(&call, window, &system, store::now_ms())?;
        }
        Ok(())
    }

    /// Records the rounds that are not recorded yet, in their order. It waits for a busy archive; a round that cannot be
    /// recorded is kept in memory and tried again.
    fn record_waiting(&mut self) {
        while let Some(round) = self.unrecorded.first() {
            let mut recorded = self.session.record(round);
            for attempt in 1..BUSY_ATTEMPTS {
                if !matches!(recorded, Err(SessionError::Archive(ArchiveError::Busy { .. }))) {
                    break;
                }
                if attempt == 1 {
                    self.screen.notice("another program has locked the archive; waiting for it");
                }
                recorded = self.session.record(round);
            }
            match recorded {
                Ok(recorded) => {
                    self.unrecorded.remove(0);
                    if let Some(problem) = recorded.problem {
                        self.screen.problem(&problem.into());
                    }
                    let folded = Folding { rounds: recorded.folded, over: recorded.over };
                    self.tell_folded(folded, recorded.tokens);
                }
                Err(error) => {
                    self.screen.problem(&error.into());
                    self.screen
                        .notice("this round is not in the archive yet; it will be tried again");
                    return;
                }
            }
        }
    }

    fn redacted(&self, line: &str) -> String {
        self.redactor
            .as_ref()
            .map_or(line.to_owned(), |redactor| redactor.redact(line).into_owned())
    }

    /// Asks the model, with a smaller window if it says that this one is too long.
    fn ask(&mut self, message: &str) -> Result<(ChatAnswer, Window)> {
        let dialect = self.model.endpoint.api.dialect();
        let mut prompt = Prompt { base: self.system.clone(), dialect, ..Prompt::default() };
        for shrinks in 0.. {
            let before = self.session.verbatim().start;
            let window = self.session.window(message, &prompt, store::now_ms())?;
            let rounds = self.session.verbatim().start.saturating_sub(before);
            let tokens = self.session.tokens()?;
            self.tell_folded(Folding { rounds, over: None }, tokens);
            if window.shortfall > Tokens::ZERO {
                self.screen.notice(&format!(
                    "the window is {} tokens over its budget, and nothing more can be left out",
                    window.shortfall
                ));
            }
            let request = ModelRequest {
                stream: true,
                cache: true,
                ..ModelRequest::read(&window.json, dialect)?
            };
            match self.stream(&request) {
                Err(ModelError::TooLong { overflow, .. }) if shrinks < SHRINKS_MAX => {
                    let least = Tokens(window.tokens.0 * 7 / 10);
                    let limit = overflow.limit.map_or(least, |limit| Tokens(limit * 8 / 10));
                    prompt.budget = Some(limit.min(least));
                    self.screen.notice("too long for the model; retrying with a smaller request");
                }
                Ok(answer) => return Ok((answer, window)),
                Err(error) => {
                    self.screen.problem(&explained(&error));
                    return Ok((ChatAnswer::Partial(String::new(), error.to_string()), window));
                }
            }
        }
        unreachable!("the last attempt returns")
    }

    /// Shows the answer as it comes; Ctrl-C stops it.
    fn stream(&self, request: &ModelRequest) -> Result<ChatAnswer, ModelError> {
        let mut said = String::new();
        let mut shown = self.screen.answer();
        progress::start(&format!("waiting for {}", self.model));
        let outcome = self.models.runtime.block_on(async {
            let mut on_delta = |text: &str| {
                progress::end();
                said.push_str(text);
                shown.push(text);
            };
            tokio::select! {
                reply = self.models.patient.complete(&self.model, request, &mut on_delta) => Ok(reply),
                _ = tokio::signal::ctrl_c() => Err(STOPPED),
                () = told_to_end() => Err(ENDED),
            }
        });
        progress::end();
        shown.end();
        match outcome {
            Ok(Ok(reply)) => Ok(ChatAnswer::Whole(reply)),
            Ok(Err(error)) if said.is_empty() => Err(error),
            Ok(Err(error)) => {
                self.screen.problem(&anyhow::Error::msg(error.to_string()));
                Ok(ChatAnswer::Partial(said, error.to_string()))
            }
            Err(why) => Ok(ChatAnswer::Partial(said, why.to_owned())),
        }
    }

    /// The round that an answer makes.
    fn round(&self, message: &str, answer: &ChatAnswer) -> Round {
        let dialect = self.model.endpoint.api.dialect();
        let now = store::now_ms();
        let reply = match answer {
            ChatAnswer::Whole(reply) => reply,
            ChatAnswer::Partial(said, why) if why == STOPPED => {
                return Round::new(message, format!("{said} [{STOPPED}]").trim_start(), now);
            }
            ChatAnswer::Partial(said, why) if said.is_empty() => {
                return Round::new(message, &format!("[no answer: {why}]"), now);
            }
            ChatAnswer::Partial(said, why) => {
                return Round::new(message, &format!("{said} [cut off: {why}]"), now);
            }
        };
        let user = json!({"role": "user", "content": message}).to_string();
        let items = reply.message.trim();
        let items =
            items.strip_prefix('[').and_then(|list| list.strip_suffix(']')).unwrap_or(items);
        let messages = format!("[{user},{items}]");
        // An answer that is not valid in a conversation, such as one with thinking only, is kept as plain text.
        Round::from_conversation(messages.into_bytes(), Some(dialect), now)
            .unwrap_or_else(|_| Round::new(message, &reply.text, now))
    }

    /// The tokens and cost of an answer: as the provider reports them, or as counted here if it was stopped or cut off.
    fn call(&self, answer: &ChatAnswer, window: &Window) -> Result<Option<ModelCall>> {
        let usage = match answer {
            ChatAnswer::Whole(reply) => reply.usage,
            ChatAnswer::Partial(said, _) if said.is_empty() => None,
            ChatAnswer::Partial(said, _) => {
                let dialect = self.model.endpoint.api.dialect();
                let meter = longhand::meter_for(dialect, Some(&self.model.name))?;
                let output = Scale::new(&*meter).text(said).0;
                Some(Usage { input: window.tokens.0, output, ..Usage::default() })
            }
        };
        let Some(usage) = usage else { return Ok(None) };
        Ok(Some(ModelCall {
            model: self.model.to_string(),
            input: usage.input,
            cached_input: usage.cached_input,
            output: usage.output,
            cost_micros: self.models.prices.cost_micros(&self.model, &usage),
        }))
    }

    /// Says what was folded, and how many tokens the window has now.
    fn tell_folded(&self, folded: Folding, tokens: Tokens) {
        if folded.rounds > 0 {
            let rounds = counted(folded.rounds as usize, "round");
            let tokens = grouped(tokens.0 as usize);
            self.screen.notice(&format!("folded {rounds}; {tokens} tokens now"));
        }
        if let Some(over) = folded.over {
            self.screen
                .notice(&format!("{over} tokens over budget, and nothing more can be folded"));
        }
    }

    fn obey(&mut self, command: ChatCommand) -> Result<()> {
        match command {
            ChatCommand::Context => {
                let meter =
                    longhand::meter_for(self.model.endpoint.api.dialect(), Some(&self.model.name))?;
                let prompt = Scale::new(&*meter).text(&self.system);
                screen::show(&map::of_session(&WindowMap::of(&mut self.session, Some(prompt))?));
            }
            ChatCommand::Compact(instructions) => self.compact(&instructions)?,
            ChatCommand::Undo => match self.session.undo()? {
                Some(batch) => self.screen.notice(&format!(
                    "undid batch {}; what it left out is sent again if it fits",
                    batch.number
                )),
                None => self.screen.notice("there is nothing to undo"),
            },
            ChatCommand::Pin(words) => self.pin(&words)?,
            ChatCommand::Expand(handle) => self.expand(&handle)?,
            ChatCommand::Search(words) => {
                let found = self.search(&words, FOUND_MAX, false)?;
                for hit in &found {
                    let line = format!("{} {}: {}", hit.handle, hit.role, hit.snippet);
                    self.screen.found(&line, &words);
                }
                if found.is_empty() {
                    self.screen.notice("nothing found");
                }
            }
            ChatCommand::Model(None) => self.screen.notice(&format!("the model is {}", self.model)),
            ChatCommand::Model(Some(name)) => {
                self.model = self.models.model(&name)?;
                self.count_as_the_model_does()?;
                self.screen.notice(&format!("now with {}", self.model));
            }
            ChatCommand::Cost => screen::show(&self.cost()?),
            ChatCommand::Help => screen::show_help(),
            ChatCommand::Quit | ChatCommand::Retry => {}
        }
        Ok(())
    }

    fn count_as_the_model_does(&mut self) -> Result<()> {
        let dialect = self.model.endpoint.api.dialect();
        self.session.set_meter(longhand::meter_for(dialect, Some(&self.model.name))?);
        let price = self.models.prices.of(&self.model);
        self.session.set_prices(price.map(|price| CachePrices {
            cached: price.cached_input,
            uncached: price.cache_write.max(price.input),
        }));
        Ok(())
    }

    fn compact(&mut self, instructions: &str) -> Result<()> {
        let instructions = Some(instructions).filter(|text| !text.is_empty());
        if instructions.is_some() && !self.summarisers.iter().any(|name| name.contains('/')) {
            self.screen
                .notice("only a model follows instructions; the built-in summariser ignores them");
        }
        let before = self.session.tokens()?;
        self.session.set_summarisers(self.models.summarisers(&self.summarisers, instructions)?);
        let folded = self.session.compact(store::now_ms())?;
        self.await_summary()?;
        self.session.set_summarisers(self.models.summarisers(&self.summarisers, None)?);
        if folded.rounds == 0 {
            self.screen.notice("nothing to fold: it would free no tokens");
        } else {
            let (before, after) =
                (grouped(before.0 as usize), grouped(self.session.tokens()?.0 as usize));
            let rounds = counted(folded.rounds as usize, "round");
            self.screen.notice(&format!("folded {rounds}: {before} -> {after} tokens"));
        }
        Ok(())
    }

    /// Waits for the model that summarises what was folded; Ctrl-C ends the wait.
    fn await_summary(&mut self) -> Result<()> {
        let end = Instant::now() + COMPACT_WAIT;
        progress::start("summarising");
        while !self.session.settle(Duration::ZERO)? {
            if Instant::now() >= end || self.is_interrupted(INTERRUPT_POLL) {
                progress::end();
                self.screen.notice("no longer waiting; the summary comes with the next fold");
                return Ok(());
            }
        }
        progress::end();
        Ok(())
    }

    /// Waits for `wait`, and returns whether Ctrl-C was pressed in that time.
    fn is_interrupted(&self, wait: Duration) -> bool {
        self.models
            .runtime
            .block_on(async { tokio::time::timeout(wait, tokio::signal::ctrl_c()).await })
            .is_ok_and(|pressed| pressed.is_ok())
    }

    /// Pins the newest entry that has these words; without words, the user's newest message.
    fn pin(&mut self, words: &str) -> Result<()> {
        if self.session.verbatim().end == 0 {
            bail!("there are no messages yet");
        }
        let entry = if words.is_empty() {
            self.app.newest_question(&self.session.id().to_string())?
        } else {
            self.search(words, 1, true)?.first().map(|hit| hit.entry)
        };
        match entry {
            Some(entry) => {
                self.session.pin(entry, true)?;
                self.screen.notice(&format!("pinned entry {entry}"));
            }
            None => self.screen.notice("nothing found to pin"),
        }
        Ok(())
    }

    fn cost(&self) -> Result<String> {
        if self.session.verbatim().end == 0 {
            return Ok(cost::written(&ConversationCost::default()));
        }
        Ok(cost::written(&self.app.cost(&self.session.id().to_string())?))
    }

    fn expand(&self, handle: &str) -> Result<()> {
        let session = (self.session.verbatim().end > 0).then(|| self.session.id().to_string());
        match self.app.expand(&ExpandRequest { session, ..ExpandRequest::of(handle) }) {
            Ok(expanded) => screen::show(&expanded.content),
            Err(AppError::UnknownHandle(_)) => {
                self.screen.notice("the archive has nothing with this handle");
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Finds messages of this session; one that is not recorded yet has none.
    fn search(&self, words: &str, limit: usize, newest: bool) -> Result<Vec<FoundEntry>> {
        if self.session.verbatim().end == 0 {
            return Ok(Vec::new());
        }
        let session = Some(self.session.id().to_string());
        let request = SearchRequest { session, limit, newest, ..SearchRequest::of(words) };
        Ok(self.app.search(&request)?)
    }
}

/// Waits until the terminal is closed or SIGTERM arrives.
async fn told_to_end() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let (Ok(mut hangup), Ok(mut terminate)) =
            (signal(SignalKind::hangup()), signal(SignalKind::terminate()))
        {
            tokio::select! {
                _ = hangup.recv() => {}
                _ = terminate.recv() => {}
            }
            return;
        }
    }
    std::future::pending::<()>().await;
}

/// An error of a model, with what to do about a server that cannot be reached.
fn explained(error: &ModelError) -> anyhow::Error {
    match error {
        ModelError::Transport { .. } | ModelError::Unauthorised { .. } => {
            hinted(error.to_string(), "`longhand doctor` tests the server and its key")
        }
        error => anyhow::Error::msg(error.to_string()),
    }
}

/// The command that resumes a session.
fn resume(name: &str) -> String {
    match name {
        DEFAULT_SESSION => "longhand chat".to_owned(),
        name => format!("longhand chat {}", names::quoted(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::resume;

    #[test]
    fn the_command_that_resumes_can_be_typed() {
        assert_eq!(resume("chat"), "longhand chat");
        assert_eq!(resume("work-1"), "longhand chat work-1");
        assert_eq!(resume("it's two"), "longhand chat 'it'\\''s two'");
    }
}
