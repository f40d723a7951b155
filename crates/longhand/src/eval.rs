//! How much of what a question needs a recall brings back, on conversations whose answers are known.

use std::collections::BTreeMap;
use std::sync::Arc;

use longhand_archive::{After, Archive, MemoryArchive, NewSession, SessionId, wait};
use longhand_core::{Meter, Scale, Seq, Tokens};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::driver::new_entry;
use crate::embeddings::{Embedder, Embeddings};
use crate::memory::{Cue, Recollection, quoted};
use crate::{SessionError, time};

/// Conversations with questions, as a file has them.
#[derive(Clone, Debug, Deserialize)]
pub struct QuestionFile {
    /// The conversations.
    pub conversations: Vec<QuestionedConversation>,
}

/// A conversation with questions about it.
#[derive(Clone, Debug, Deserialize)]
pub struct QuestionedConversation {
    /// What was said, oldest first.
    pub turns: Vec<EvidenceTurn>,
    /// The questions.
    pub questions: Vec<EvidenceQuestion>,
}

/// Something that was said.
#[derive(Clone, Debug, Deserialize)]
pub struct EvidenceTurn {
    /// What questions call it.
    pub id: String,
    /// Who said it: `user`, `assistant`, or the name of a person.
    pub speaker: String,
    /// What was said.
    pub text: String,
    /// When: `2023-05-08T13:56:00Z`, or as people write it, `1:56 pm on 8 May, 2023`.
    #[serde(default)]
    pub timestamp: Option<String>,
    /// What a picture that came with it shows.
    #[serde(default)]
    pub image_caption: Option<String>,
}

/// A question, with the turns that answer it.
#[derive(Clone, Debug, Deserialize)]
pub struct EvidenceQuestion {
    /// The question.
    pub question: String,
    /// The turns by id. A question without any is passed over.
    #[serde(default)]
    pub evidence: Vec<String>,
    /// What kind of question it is.
    #[serde(default)]
    pub category: Option<String>,
}

/// How much of the evidence came back; shares are percentages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecallEval {
    /// How many questions were asked.
    pub questions: u64,
    /// For how many all evidence came back,
    pub evidence_all: f64,
    /// and for how many some of it did.
    pub evidence_any: f64,
    /// How much of the evidence of a question came back, on average.
    pub evidence_share: f64,
    /// For how many all of it did, by the kind of question.
    pub by_category: BTreeMap<String, f64>,
    /// The tokens of what came back, on average.
    pub tokens_mean: f64,
}

/// What is counted of some questions.
#[derive(Default)]
struct Tally {
    questions: u64,
    all: u64,
    any: u64,
    share: f64,
    tokens: u64,
    by_category: BTreeMap<String, (u64, u64)>,
}

/// Asks every question of a file, and looks for its evidence in what is brought back within so many tokens.
///
/// Each conversation is a session in memory; a question is the next message of it, and nothing else is in view. `asked`
/// is told after each question how many of how many were asked. With a model, what messages mean counts, too.
pub fn recall(
    file: &QuestionFile,
    meter: &dyn Meter,
    limit: Tokens,
    embedder: Option<Arc<dyn Embedder>>,
    asked: &mut dyn FnMut(usize, usize),
) -> Result<RecallEval, SessionError> {
    let mut tally = Tally::default();
    let (mut done, all) = (0, file.conversations.iter().map(|of| of.questions.len()).sum());
    for conversation in &file.conversations {
        let (archive, id) = recorded(conversation)?;
        let embeddings = match &embedder {
            Some(embedder) => {
                let embedder = Arc::clone(embedder);
                Some(Embeddings::of_session(
                    Arc::clone(&archive) as Arc<dyn Archive>,
                    embedder,
                    id,
                )?)
            }
            None => None,
        };
        let scale = Scale::new(meter);
        for question in &conversation.questions {
            // The room is filled: what counts is what comes first.
            let cue = Cue { message: &question.question, before: &[], worth_min: 0.0 };
            let evidence = places(conversation, &question.evidence);
            done += 1;
            asked(done, all);
            if evidence.is_empty() {
                continue;
            }
            let path = (id, None);
            let likeness = match &embeddings {
                Some(embeddings) => embeddings.likeness_now(id, cue.message)?,
                None => None,
            };
            let (likeness, share, view) = (likeness.as_ref(), limit, None);
            let recollection =
                Recollection { path, cue, scale: &scale, limit, share, view, likeness };
            let turns = wait(recollection.turns(&*archive))?;
            let found = |seq: &&Seq| turns.iter().any(|turn| turn.seq == **seq);
            let found = evidence.iter().filter(found).count();
            let tokens = scale.text(&quoted(id, &turns));
            tally.add(question, found, evidence.len(), tokens);
        }
    }
    Ok(tally.figures())
}

impl Tally {
    fn add(&mut self, question: &EvidenceQuestion, found: usize, of: usize, tokens: Tokens) {
        let has_all = u64::from(found == of);
        self.questions += 1;
        self.all += has_all;
        self.any += u64::from(found > 0);
        self.share += found as f64 / of as f64;
        self.tokens += tokens.0;
        let category = question.category.clone().unwrap_or_else(|| "other".to_owned());
        let (all, questions) = self.by_category.entry(category).or_default();
        *all += has_all;
        *questions += 1;
    }

    fn figures(self) -> RecallEval {
        let percent = |part: f64, of: u64| (part * 1000.0 / (of as f64).max(1.0)).round() / 10.0;
        let of_category = |(category, (all, of))| (category, percent(all as f64, of));
        RecallEval {
            questions: self.questions,
            evidence_all: percent(self.all as f64, self.questions),
            evidence_any: percent(self.any as f64, self.questions),
            evidence_share: percent(self.share, self.questions),
            by_category: self.by_category.into_iter().map(of_category).collect(),
            tokens_mean: percent(self.tokens as f64 / 100.0, self.questions),
        }
    }
}

/// A conversation as a session in memory; its turns are entries in their order.
fn recorded(
    conversation: &QuestionedConversation,
) -> Result<(Arc<MemoryArchive>, SessionId), SessionError> {
    let archive = Arc::new(MemoryArchive::new());
    let id = SessionId::default();
    archive.begin(id, &NewSession::default())?;
    let mut entries = Vec::new();
    for turn in &conversation.turns {
        let at_ms = turn.timestamp.as_deref().and_then(time::parse_any).unwrap_or(0);
        let caption = turn.image_caption.iter().map(|caption| format!("\n(a picture: {caption})"));
        let text = format!("{}{}", turn.text, caption.collect::<String>());
        let message = match turn.speaker.as_str() {
            role @ ("user" | "assistant" | "system") => json!({"role": role, "content": text}),
            name => json!({"role": "user", "name": name, "content": text}),
        };
        entries.extend(new_entry("chat", message.to_string(), true, at_ms));
    }
    archive.append(id, After::Newest, &entries)?;
    Ok((archive, id))
}

/// The entries of turns.
fn places(conversation: &QuestionedConversation, evidence: &[String]) -> Vec<Seq> {
    let place = |id: &String| conversation.turns.iter().position(|turn| turn.id == *id);
    evidence.iter().filter_map(place).map(|at| Seq(at as u64)).collect()
}
