//! The text of a fold block: a summary, the facts that it left out, and the users' words.

use std::sync::{Arc, Mutex, PoisonError};

use longhand_core::anchor::Miner;
use longhand_core::{Digest, Digested, Folded, Index, Meter, Scale, Seq, Tokens};
use longhand_summary::Summariser;
use serde_json::{Value, json};

use crate::fold::Folding;
use crate::said::Said;
use crate::story::{Story, Storyteller};

/// Tells of folded messages by a summary, the facts that it left out, and the users' words.
///
/// Summarisers are tried in order; if none has anything to say, an index does.
pub struct Summarised {
    summarisers: Vec<Arc<dyn Summariser>>,
    meter: Arc<dyn Meter + Send + Sync>,
    miner: Miner,
    /// Accounts of tools that are no messages, by their entries.
    traces: Vec<(Seq, (String, String))>,
    /// What a model wrote of the rounds that are folded, in the place of what is kept of them.
    story: Option<Story>,
    keeps_state: bool,
    newest: Mutex<Newest>,
}

/// What came of the newest digest.
#[derive(Default)]
struct Newest {
    /// What it was made of, and what it told.
    told: Option<(Key, Digested)>,
    account: Option<Value>,
    is_lossy: bool,
    refused: Vec<String>,
    folding: Option<(Folding, u64)>,
}

/// What a digest is made of: a plan may ask for the same one again, in a little less room.
#[derive(Clone, PartialEq, Eq)]
struct Key {
    messages: Vec<(usize, usize)>,
    state: String,
}

impl Key {
    fn of(folded: &Folded) -> Self {
        let raws = folded.messages.iter().map(|message| message.raw.raw());
        let messages = raws.map(|raw| (raw.as_ptr().addr(), raw.len())).collect();
        Self { messages, state: folded.state.to_owned() }
    }
}

/// What a digest leaves for the next one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// How many rounds are folded.
    pub(crate) rounds: u64,
    /// What is kept of them, in the form of a block.
    pub(crate) text: String,
    /// What a model took to write it, if one did.
    pub(crate) account: Option<Value>,
}

impl State {
    pub(crate) fn parse(state: &str) -> Self {
        let mut value: Value = serde_json::from_str(state).unwrap_or_default();
        let text = value["text"].as_str().unwrap_or_default().to_owned();
        let account = Some(value["account"].take()).filter(|account| !account.is_null());
        Self { rounds: value["rounds"].as_u64().unwrap_or(0), text, account }
    }

    pub(crate) fn write(&self) -> String {
        let mut state = json!({"rounds": self.rounds, "text": self.text});
        if let Some(account) = &self.account {
            state["account"] = account.clone();
        }
        state.to_string()
    }
}

impl Summarised {
    /// Counts with `meter`, which must be the plan's own.
    pub fn new(
        summarisers: Vec<Arc<dyn Summariser>>,
        meter: Arc<dyn Meter + Send + Sync>,
        miner: Miner,
    ) -> Self {
        let newest = Mutex::default();
        let (traces, story, keeps_state) = (Vec::new(), None, false);
        Self { summarisers, meter, miner, traces, story, keeps_state, newest }
    }

    /// Leaves more for the next block than this one shows.
    #[must_use]
    pub fn keeping_state(mut self) -> Self {
        self.keeps_state = true;
        self
    }

    pub(crate) fn with_traces(mut self, traces: Vec<(Seq, (String, String))>) -> Self {
        self.traces = traces;
        self
    }

    /// Tells with what a model has told of the rounds that are folded already.
    #[must_use]
    pub fn with_story(mut self, teller: &Storyteller) -> Self {
        self.story = teller.story();
        self
    }

    /// What the newest digest took: summariser, model, tokens, cost, anchors.
    pub fn account(&self) -> Option<Value> {
        self.newest().account.clone()
    }

    /// Whether the newest digest had no room for something that matters.
    pub(crate) fn is_lossy(&self) -> bool {
        self.newest().is_lossy
    }

    /// Why summaries were refused for the newest digest.
    pub fn refused(&self) -> Vec<String> {
        self.newest().refused.clone()
    }

    /// What the newest digest was made from, so that a model can do it over: the rounds that no fold had
    /// before, and how many are folded with them.
    pub(crate) fn folding(&self) -> Option<(Folding, u64)> {
        self.newest().folding.clone()
    }

    fn newest(&self) -> std::sync::MutexGuard<'_, Newest> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Splits messages into rounds; each begins with what the user says.
    fn rounds(&self, folded: &Folded, first: u64) -> Vec<Said> {
        let mut start = 0;
        let mut rounds = Vec::new();
        for (messages, number) in
            folded.messages.chunk_by(|_, next| !next.is_user_turn()).zip(first..)
        {
            let end = start + messages.len();
            let mut said = Said::of(number, messages);
            if let Some(from) = folded.entries.get(start) {
                let to = folded.entries.get(end);
                let is_here = |seq: &Seq| *seq >= *from && to.is_none_or(|to| seq < to);
                let traces = self.traces.iter().filter(|(seq, _)| is_here(seq));
                said.tools.splice(..0, traces.map(|(_, trace)| trace.clone()));
            }
            rounds.push(said);
            start = end;
        }
        rounds
    }
}

/// How many rounds blocks tell of that came back as input: one more than the highest number.
fn rounds_told(blocks: &[String]) -> u64 {
    let lines = blocks.iter().flat_map(|block| block.lines());
    let numbers = lines.filter_map(|line| {
        let rest = &line[line.to_ascii_lowercase().find("round ")? + "round ".len()..];
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..digits].parse::<u64>().ok().filter(|_| rest[digits..].starts_with(':'))
    });
    numbers.max().map_or(0, |newest| newest + 1)
}

impl Digest for Summarised {
    fn digest(&self, folded: &Folded, limit: Tokens, scale: &Scale) -> Digested {
        let key = Key::of(folded);
        if let Some((known, told)) = &self.newest().told
            && *known == key
            && scale.text(&told.text) <= limit
        {
            return told.clone();
        }
        let mut before = State::parse(folded.state);
        let story = self.story.as_ref().filter(|story| story.covers(before.rounds));
        if let Some(story) = story {
            before.text.clone_from(&story.state.text);
        }
        if before.rounds == 0 {
            before.rounds = rounds_told(&folded.blocks);
        }
        let mut earlier = folded.blocks.clone();
        earlier.extend(Some(before.text.clone()).filter(|text| !text.is_empty()));
        let new = self.rounds(folded, before.rounds);
        let count = before.rounds + new.len() as u64;
        let since = story.map(|story| story.since.clone()).unwrap_or_default();
        let folding = Folding {
            earlier: (!earlier.is_empty()).then(|| earlier.join("\n")),
            is_told: story.is_some(),
            rounds: since.into_iter().chain(new.iter().cloned()).collect(),
            replaced: Tokens::MAX,
            limit,
            miner: self.miner.clone(),
            meter: Arc::clone(&self.meter),
        };
        let mut refused = Vec::new();
        for summariser in &self.summarisers {
            match folding.run(&**summariser) {
                Ok(block) => {
                    let state = State { rounds: count, text: block.kept, account: None };
                    let state = if self.keeps_state { state.write() } else { String::new() };
                    let told = Digested { text: block.text, state };
                    let mut account = block.account;
                    if let Some(story) = story.and_then(|story| story.state.account.clone()) {
                        account["story"] = story;
                    }
                    *self.newest() = Newest {
                        told: Some((key, told.clone())),
                        account: Some(account),
                        is_lossy: block.is_lossy,
                        refused,
                        folding: Some((Folding { rounds: new, ..folding }, count)),
                    };
                    return told;
                }
                Err(why) => refused.push(why.to_string()),
            }
        }
        *self.newest() = Newest { refused, ..Newest::default() };
        Index.digest(folded, limit, scale)
    }
}
