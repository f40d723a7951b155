//! The model behind the proxy: it plays its task, and looks hard at every request.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use longhand_testkit::scripted::{
    RecordedRequest, ScriptStep, ScriptedReply, ScriptedServer, ScriptedUsage,
};
use longhand_testkit::{WireFormat, validate};
use serde_json::Value;

use crate::kit::Kit;
use crate::request::{TokenCounter, messages, opening, read_order, shared, wire};
use crate::task::{MARK, SUB_MARK, TaskAction, parts, said, source_text};

/// What mini-swe-agent wants to read at the end of a task.
const SUBMIT: &str = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT";

/// The most requests of a run.
const REQUESTS_MAX: usize = 400;

/// What was noticed.
#[derive(Clone, Debug, Default)]
pub(crate) struct SeenRequests {
    /// Requests that broke a rule, with the rules.
    pub(crate) invalid: Vec<String>,
    /// Requests over the window, with their tokens.
    pub(crate) over: Vec<u64>,
    /// Bytes of requests of the main conversation, and how many of them were cached.
    pub(crate) bytes: usize,
    pub(crate) cached: usize,
    /// How often something that was sent before was changed.
    pub(crate) breaks: usize,
    /// The most tokens of a request.
    pub(crate) most: u64,
    /// Requests of the main conversation, of sub-agents, and others.
    pub(crate) main: usize,
    pub(crate) sub: usize,
    pub(crate) side: usize,
    /// The newest request of the main conversation.
    pub(crate) last: String,
    /// Steps that the agent has no tool for.
    pub(crate) skipped: Vec<String>,
    /// Which part has ended.
    pub(crate) ended: usize,
}

/// A model that plays the task.
pub(crate) struct TaskModel {
    server: ScriptedServer,
    seen: Arc<Mutex<SeenRequests>>,
    again: Arc<AtomicBool>,
}

/// Whether an agent calls tools, or writes what is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ActingStyle {
    Tools,
    /// It has no tools: what it was asked for is said in words, and files are shown by the client.
    Words,
}

/// What the model must know of an agent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nature {
    pub(crate) style: ActingStyle,
    /// Whether it can go on after its end.
    pub(crate) resumes: bool,
    /// Whether it sends only the beginning and the end of a long output.
    pub(crate) cuts_outputs: bool,
    /// Whether it changes what it has sent before, so that its own cached share is low.
    pub(crate) rewrites: bool,
}

impl TaskModel {
    /// Starts it for an agent that works in a folder; a request over `window` tokens is refused.
    ///
    /// An agent that cannot go on after its end gets all parts as one.
    pub(crate) fn start(folder: &Path, window: Option<u64>, nature: Nature) -> Self {
        let mut script: Vec<Vec<TaskAction>> =
            parts().into_iter().map(|part| part.actions).collect();
        if !nature.resumes {
            let is_end = |action: &TaskAction| matches!(action, TaskAction::Say(_));
            let last = script.last().and_then(|part| part.last().cloned());
            let mut all: Vec<TaskAction> = script.concat();
            all.retain(|action| !is_end(action));
            script = vec![all.into_iter().chain(last).collect()];
        }
        let seen = Arc::new(Mutex::new(SeenRequests::default()));
        let again = Arc::new(AtomicBool::new(false));
        let mut play = TaskPlay {
            folder: folder.to_string_lossy().into_owned(),
            window,
            nature,
            counter: TokenCounter::new(),
            script,
            part: 0,
            step: 0,
            made: Vec::new(),
            number: 0,
            before: Vec::new(),
            seen: Arc::clone(&seen),
            again: Arc::clone(&again),
        };
        let server =
            ScriptedServer::playing(REQUESTS_MAX, move |request| Some(play.answer(request)));
        Self { server, seen, again }
    }

    pub(crate) fn url(&self) -> String {
        self.server.url().trim_end_matches("/v1").to_owned()
    }

    pub(crate) fn seen(&self) -> SeenRequests {
        self.seen.lock().unwrap().clone()
    }

    /// Goes on from the newest step that the client still knows: whoever was killed has not kept it all, perhaps.
    pub(crate) fn repeat(&self) {
        self.again.store(true, Ordering::SeqCst);
    }

    /// What every request said, for those who want to look.
    pub(crate) fn requests(&self) -> Vec<RecordedRequest> {
        self.server.requests()
    }
}

struct TaskPlay {
    folder: String,
    window: Option<u64>,
    nature: Nature,
    counter: TokenCounter,
    script: Vec<Vec<TaskAction>>,
    part: usize,
    step: usize,
    /// The steps of this part that were calls, with their ids.
    made: Vec<(usize, String)>,
    number: usize,
    before: Vec<String>,
    seen: Arc<Mutex<SeenRequests>>,
    again: Arc<AtomicBool>,
}

impl TaskPlay {
    fn answer(&mut self, request: &RecordedRequest) -> ScriptStep {
        let wire = wire(&request.path).filter(|_| request.method == "POST");
        let Some(wire) = wire else {
            let body = r#"{"object":"list","data":[]}"#.to_owned();
            let status = if request.path.contains("/models") { 200 } else { 404 };
            return ScriptStep::Raw(
                status,
                vec![("content-type", "application/json".into())],
                body,
            );
        };
        let body: Value = serde_json::from_str(&request.body).unwrap_or_default();
        let seen = Arc::clone(&self.seen);
        let mut seen = seen.lock().unwrap();
        let faults = validate(wire, &request.body);
        if !faults.is_empty() {
            seen.invalid.push(faults.join("; "));
        }
        let tokens = self.counter.count(&body);
        seen.most = seen.most.max(tokens);
        if let Some(limit) = self.window.filter(|limit| tokens > *limit) {
            seen.over.push(tokens);
            return ScriptStep::TooLong { limit, asked: tokens };
        }
        self.number += 1;
        let opening = opening(wire, &body);
        let kit = Kit::of(wire, &body, self.nature.cuts_outputs);
        let is_task =
            kit.is_empty() == (self.nature.style == ActingStyle::Words) && opening.contains(MARK);
        let mut used = ScriptedUsage { input: tokens, cached: 0, output: 50 };
        let (text, calls) = if opening.contains(SUB_MARK) && !opening.contains(MARK) {
            seen.sub += 1;
            ("Subtask QX-4472: there are 12 functions.".to_owned(), Vec::new())
        } else if is_task {
            seen.main += 1;
            used.cached = self.account(wire, &body, tokens, &mut seen);
            seen.last.clone_from(&request.body);
            self.act(&kit, wire, &body, &mut seen)
        } else {
            seen.side += 1;
            ("Lost leases".to_owned(), Vec::new())
        };
        let id = format!("reply_{:04}", self.number);
        ScriptStep::Reply(ScriptedReply { id, text, calls, used })
    }

    /// Adds up what a cache of the provider would have had.
    fn account(
        &mut self,
        wire: WireFormat,
        body: &Value,
        tokens: u64,
        seen: &mut SeenRequests,
    ) -> u64 {
        let now = read_order(wire, body);
        let (cached, is_broken) = shared(&self.before, &now);
        let bytes: usize = now.iter().map(String::len).sum();
        // After a kill a client may go on from an earlier point; it does without Longhand, too.
        if !self.before.is_empty() && !self.again.load(Ordering::SeqCst) {
            seen.bytes += bytes;
            seen.cached += cached;
            seen.breaks += usize::from(is_broken);
        }
        self.before = now;
        tokens * cached as u64 / bytes.max(1) as u64
    }

    fn act(
        &mut self,
        kit: &Kit,
        wire: WireFormat,
        body: &Value,
        seen: &mut SeenRequests,
    ) -> (String, Vec<longhand_testkit::scripted::ScriptedCall>) {
        // A new part begins with the user's next prompt.
        let messages = messages(wire, body);
        let newest = messages.iter().rev().filter(|message| message["role"] == "user").take(3);
        let asked: String = newest.map(Value::to_string).collect();
        for part in 1..self.script.len() {
            if self.part < part && asked.contains(&format!("{MARK}, part {}", part + 1)) {
                (self.part, self.step) = (part, 0);
                self.made.clear();
            }
        }
        if self.again.swap(false, Ordering::SeqCst) {
            let text = body.to_string();
            let known = self.made.iter().rev().find(|(_, id)| text.contains(id.as_str()));
            // It may know the call without what it answered.
            self.step = known.map_or(0, |(step, _)| *step);
        }
        if self.nature.style == ActingStyle::Words {
            seen.ended = seen.ended.max(self.part + 1);
            return (self.words(), Vec::new());
        }
        loop {
            let action = self.script[self.part].get(self.step).cloned();
            self.step += 1;
            let id = format!("call_{:04}_QX4471aTz8Vq2x", self.number);
            match action {
                None => return (said(self.part + 1), Vec::new()),
                Some(TaskAction::Say(text)) => {
                    seen.ended = seen.ended.max(self.part + 1);
                    // This is how mini-swe-agent is told that a task is done.
                    let submits =
                        body.to_string().contains(SUBMIT).then(|| kit.submit(SUBMIT, &id));
                    return (text, submits.flatten().into_iter().collect());
                }
                Some(action) => match kit.call(&action, &self.folder, &id) {
                    Some(call) => {
                        self.made.push((self.step - 1, id));
                        return (format!("Step {}.", self.number), vec![call]);
                    }
                    None => seen.skipped.push(format!("{action:?}").chars().take(8).collect()),
                },
            }
        }
    }

    /// Words for a client that looks for edits in them.
    fn words(&mut self) -> String {
        self.step += 1;
        let said = format!("Step {}: {}", self.number, said(self.part + 1));
        let line = source_text(0).lines().nth(self.number % 100).map(str::to_owned);
        match line.filter(|_| self.step.is_multiple_of(3)) {
            Some(line) => format!(
                "{said}\n\nsrc/lease_0.txt\n```\n<<<<<<< SEARCH\n{line}\n=======\n{line}, mended\n>>>>>>> REPLACE\n```\n"
            ),
            None => said,
        }
    }
}
