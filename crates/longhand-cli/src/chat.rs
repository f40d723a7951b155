//! `longhand chat`: a conversation without an end, in the terminal.

mod command;
mod screen;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use longhand::{Archive, Call, Folding, Prompt, Round, Session, Tokens, Window, recall};
use longhand_archive::{Page, Request as LoggedRequest, Scope};
use longhand_core::{Handle, Seq, grouped};
use longhand_model::{Model, ModelError, Reply, Request};
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;
use serde_json::json;

use self::command::Command;
use self::screen::Screen;
use crate::args::ChatArgs;
use crate::config::Config;
use crate::models::Models;
use crate::output::counted;
use crate::{Outcome, hinted, map, store, weigh};

/// How often a window is made smaller when a model says that it is too long.
const SHRINKS_MAX: usize = 2;

/// How long `/compact` waits for a model.
const COMPACT_WAIT: Duration = Duration::from_mins(2);

/// How long leaving waits for a fold that is under way; one that is not done is done next time.
const LEAVE_WAIT: Duration = Duration::from_secs(2);

pub(crate) fn run(args: &ChatArgs) -> Result<Outcome> {
    let config = Config::load()?;
    let models = Models::new(&config)?;
    let name = args.model.as_deref().or(config.text("models.chat")).ok_or_else(|| {
        hinted(
            "no model is named",
            "longhand chat --model ollama/qwen3, or models.chat in longhand.toml",
        )
    })?;
    let model = models.model(name)?;
    let archive = store::open(&args.archive)?;
    let session = store::session(&archive, &args.id, &args.session)?;
    let system = args.system.as_deref().or(config.text("chat.system")).unwrap_or_default();
    let mut chat = Chat {
        summarisers: store::summariser_names(&config, &args.session.summariser),
        system: system.to_owned(),
        screen: Screen::new(),
        models,
        model,
        archive,
        session,
    };
    chat.count_as_the_model_does()?;
    chat.greet();
    chat.converse()
}

/// A conversation and what is needed to go on with it.
struct Chat {
    models: Models,
    model: Model,
    archive: Arc<dyn Archive>,
    session: Session,
    summarisers: Vec<String>,
    system: String,
    screen: Screen,
}

/// How an answer ended.
enum Answer {
    Whole(Reply),
    /// The user has seen enough.
    Stopped(String),
}

impl Chat {
    fn greet(&self) {
        let rounds = self.session.verbatim().end;
        let what = if rounds == 0 {
            "a new conversation".to_owned()
        } else {
            format!("{} so far", counted(rounds as usize, "round"))
        };
        self.screen.notice(&format!(
            "{} with {}: {what}; /help helps",
            self.session.name(),
            self.model
        ));
    }

    /// Reads and answers until the user leaves.
    fn converse(&mut self) -> Result<Outcome> {
        let mut editor = DefaultEditor::new().context("this is no terminal to talk in")?;
        let history = history_path();
        if let Some(path) = &history {
            let _ = editor.load_history(path);
        }
        loop {
            self.session.settle(Duration::ZERO)?;
            let line = match editor.readline(&self.prompt()) {
                Ok(line) => line,
                Err(ReadlineError::Interrupted) => {
                    self.screen.notice("Ctrl-D or /quit leaves");
                    continue;
                }
                Err(ReadlineError::Eof) => break,
                Err(error) => return Err(error).context("cannot read the terminal"),
            };
            let line = line.trim();
            if line.is_empty() {
                continue;
            }
            let _ = editor.add_history_entry(line);
            match Command::parse(line) {
                None => self.turn(line)?,
                Some(Ok(Command::Quit)) => break,
                Some(Ok(command)) => {
                    if let Err(error) = self.obey(command) {
                        self.screen.problem(&error);
                    }
                }
                Some(Err(told)) => self.screen.notice(&told),
            }
        }
        if let Some(path) = &history {
            let _ = editor.save_history(path);
        }
        self.session.settle(LEAVE_WAIT)?;
        self.screen.notice(&format!("`longhand chat {}` goes on from here", self.session.name()));
        Ok(Outcome::Done)
    }

    /// The prompt with a gauge of the window.
    fn prompt(&self) -> String {
        screen::gauge(self.session.tokens(), self.session.budget())
    }

    /// One message and its answer. What goes wrong is told, and the conversation goes on.
    fn turn(&mut self, message: &str) -> Result<()> {
        match self.ask(message) {
            Ok((answer, window)) => {
                let recorded = self.session.record(&self.round(message, &answer))?;
                if let Some(problem) = recorded.problem {
                    self.screen.problem(&problem.into());
                }
                if let Some(call) = self.call(&answer) {
                    self.session.log_request(&call, &window, store::now_ms())?;
                }
                self.tell_folded(Folding { rounds: recorded.folded, over: recorded.over });
            }
            Err(error) => self.screen.problem(&error),
        }
        Ok(())
    }

    /// Asks the model, with a smaller window if it says that this one is too long.
    fn ask(&mut self, message: &str) -> Result<(Answer, Window)> {
        let dialect = self.model.endpoint.api.dialect();
        let mut prompt = Prompt { base: self.system.clone(), dialect, ..Prompt::default() };
        for shrinks in 0.. {
            let before = self.session.verbatim().start;
            let window = self.session.window(message, &prompt, store::now_ms())?;
            let rounds = self.session.verbatim().start.saturating_sub(before);
            self.tell_folded(Folding { rounds, over: None });
            if window.shortfall > Tokens::ZERO {
                self.screen.notice(&format!(
                    "the window is {} tokens over its budget, and nothing more can be left out",
                    window.shortfall
                ));
            }
            let request =
                Request { stream: true, cache: true, ..Request::read(&window.json, dialect)? };
            match self.stream(&request) {
                Err(ModelError::TooLong { overflow, .. }) if shrinks < SHRINKS_MAX => {
                    let least = Tokens(window.tokens.0 * 7 / 10);
                    let limit = overflow.limit.map_or(least, |limit| Tokens(limit * 8 / 10));
                    prompt.budget = Some(limit.min(least));
                    self.screen.notice("that was too long for the model; sending less");
                }
                outcome => return Ok((outcome?, window)),
            }
        }
        unreachable!("the last attempt returns")
    }

    /// Shows the answer as it comes; Ctrl-C stops it.
    fn stream(&self, request: &Request) -> Result<Answer, ModelError> {
        let mut said = String::new();
        let outcome = self.models.runtime.block_on(async {
            let mut on_delta = |text: &str| {
                said.push_str(text);
                screen::answer(text);
            };
            tokio::select! {
                reply = self.models.client.complete(&self.model, request, &mut on_delta) => Some(reply),
                _ = tokio::signal::ctrl_c() => None,
            }
        });
        screen::end_answer();
        match outcome {
            Some(reply) => Ok(Answer::Whole(reply?)),
            None => Ok(Answer::Stopped(said)),
        }
    }

    /// The round that an answer makes.
    fn round(&self, message: &str, answer: &Answer) -> Round {
        let dialect = self.model.endpoint.api.dialect();
        let now = store::now_ms();
        let reply = match answer {
            Answer::Whole(reply) => reply,
            Answer::Stopped(said) => {
                return Round::new(message, &format!("{said} [stopped by the user]"), now);
            }
        };
        let user = json!({"role": "user", "content": message}).to_string();
        let items = reply.message.trim();
        let items =
            items.strip_prefix('[').and_then(|list| list.strip_suffix(']')).unwrap_or(items);
        let messages = format!("[{user},{items}]");
        // An answer that cannot stand in a conversation as it is, such as one that only thinks, is kept
        // by its words.
        Round::from_conversation(messages.into_bytes(), Some(dialect), now)
            .unwrap_or_else(|_| Round::new(message, &reply.text, now))
    }

    /// What an answer took, where the provider says so.
    fn call(&self, answer: &Answer) -> Option<Call> {
        let Answer::Whole(reply) = answer else { return None };
        let usage = reply.usage?;
        Some(Call {
            model: self.model.to_string(),
            input: usage.input,
            cached_input: usage.cached_input,
            output: usage.output,
            cost_micros: self.models.prices.cost_micros(&self.model, &usage),
        })
    }

    fn tell_folded(&self, folded: Folding) {
        if folded.rounds > 0 {
            let (rounds, tokens) =
                (counted(folded.rounds as usize, "round"), self.session.tokens().0);
            let tokens = grouped(tokens as usize);
            self.screen.notice(&format!("folded {rounds}; {tokens} tokens now"));
        }
        if let Some(over) = folded.over {
            self.screen
                .notice(&format!("{over} tokens over budget, and nothing more can be folded"));
        }
    }

    fn obey(&mut self, command: Command) -> Result<()> {
        match command {
            Command::Context => screen::show(&map::of_session(&self.session)),
            Command::Compact(instructions) => self.compact(&instructions)?,
            Command::Undo => match self.session.undo()? {
                Some(batch) => self.screen.notice(&format!(
                    "took back batch {}; what it left out stays for as long as there is room",
                    batch.number
                )),
                None => self.screen.notice("there is nothing to undo"),
            },
            Command::Pin(words) => self.pin(&words)?,
            Command::Expand(handle) => {
                let handle = Handle::parse(&handle)
                    .context("a handle is `h:` and twelve letters and digits")?;
                let scope = Scope::Session(self.session.id());
                match recall::open(&*self.archive, &scope, handle)? {
                    Some(recalled) => screen::show(recalled.original.as_str()),
                    None => self.screen.notice("the archive has nothing under it"),
                }
            }
            Command::Search(words) => {
                let scope = Scope::Session(self.session.id());
                let hits = self.archive.search(&scope, &words, 10)?;
                for hit in &hits {
                    screen::show(&format!(
                        "round {} entry {}: {}",
                        hit.round, hit.seq.0, hit.snippet
                    ));
                }
                if hits.is_empty() {
                    self.screen.notice("nothing found");
                }
            }
            Command::Model(None) => self.screen.notice(&format!("this is {}", self.model)),
            Command::Model(Some(name)) => {
                self.model = self.models.model(&name)?;
                self.count_as_the_model_does()?;
                self.screen.notice(&format!("now with {}", self.model));
            }
            Command::Cost => screen::show(&self.cost()?),
            Command::Help => screen::show(command::HELP),
            Command::Quit => {}
        }
        Ok(())
    }

    fn count_as_the_model_does(&mut self) -> Result<()> {
        let dialect = self.model.endpoint.api.dialect();
        self.session.set_meter(weigh::of_model(dialect, &self.model.name)?);
        Ok(())
    }

    fn compact(&mut self, instructions: &str) -> Result<()> {
        let instructions = Some(instructions).filter(|text| !text.is_empty());
        if instructions.is_some() && !self.summarisers.iter().any(|name| name.contains('/')) {
            self.screen
                .notice("only a model follows instructions; the built-in summariser does not");
        }
        let before = self.session.tokens();
        self.session.set_summarisers(self.models.summarisers(&self.summarisers, instructions)?);
        let folded = self.session.compact(store::now_ms())?;
        self.session.settle(COMPACT_WAIT)?;
        self.session.set_summarisers(self.models.summarisers(&self.summarisers, None)?);
        if folded.rounds == 0 {
            self.screen.notice("there is nothing to fold that would free anything");
        } else {
            let (before, after) =
                (grouped(before.0 as usize), grouped(self.session.tokens().0 as usize));
            let rounds = counted(folded.rounds as usize, "round");
            self.screen.notice(&format!("folded {rounds}: {before} -> {after} tokens"));
        }
        Ok(())
    }

    /// Pins the newest entry with these words; without words, the user's newest message.
    fn pin(&mut self, words: &str) -> Result<()> {
        let entry = if words.is_empty() {
            let head = self.archive.head(self.session.id())?.context("nothing was said yet")?;
            let newest = head.rounds.saturating_sub(1);
            let entries = self
                .archive
                .entries(self.session.id(), head.entries.saturating_sub(64)..head.entries)?;
            entries.iter().find(|entry| entry.round == newest).map(|entry| entry.seq)
        } else {
            let scope = Scope::Session(self.session.id());
            self.archive.search(&scope, words, 1)?.first().map(|hit| hit.seq)
        };
        match entry {
            Some(Seq(seq)) => {
                self.session.pin(seq, true)?;
                self.screen.notice(&format!("pinned entry {seq}"));
            }
            None => self.screen.notice("nothing found to pin"),
        }
        Ok(())
    }

    /// What the conversation has cost: its answers, and the summaries of its folds.
    fn cost(&self) -> Result<String> {
        let id = self.session.id();
        let calls = self.archive.requests(id, Page::ALL)?.items;
        let sum =
            |of: fn(&LoggedRequest) -> u64| grouped(calls.iter().map(of).sum::<u64>() as usize);
        let answers: u64 = calls.iter().filter_map(|call| call.cost_micros).sum();
        let mut folds = 0;
        for logged in self.archive.batches(id, Page::ALL)?.items {
            let receipt: serde_json::Value =
                serde_json::from_str(&logged.receipt).unwrap_or_default();
            folds += receipt
                .pointer("/fold/cost_micros")
                .and_then(serde_json::Value::as_u64)
                .unwrap_or(0);
        }
        let unknown = calls.iter().filter(|call| call.cost_micros.is_none()).count();
        let usd = |micros: u64| format!("${}.{:04}", micros / 1_000_000, micros % 1_000_000 / 100);
        let mut text = format!(
            "answers   {} in {} calls: {} tokens read, {} of them from a cache, {} written\nsummaries {}",
            usd(answers),
            calls.len(),
            sum(|call| call.sent),
            sum(|call| call.cached),
            sum(|call| call.output),
            usd(folds)
        );
        if unknown > 0 {
            text.push_str(&format!(
                "\nthe price of {unknown} calls is not known; [prices] in longhand.toml sets it"
            ));
        }
        Ok(text)
    }
}

/// Where what was typed is remembered: beside the archive.
fn history_path() -> Option<PathBuf> {
    let folder = store::default_path().ok()?.parent()?.to_owned();
    std::fs::create_dir_all(&folder).ok()?;
    Some(folder.join("history"))
}
