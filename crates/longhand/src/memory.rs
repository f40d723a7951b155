//! What a conversation remembers for a new message: earlier messages that the window does not show.

use std::borrow::Cow;
use std::fmt::Write as _;

use longhand_archive::{Archive, ArchiveError, EntryRecord, SearchFilter, SessionId, ask};
use longhand_core::{InView, Message, Role, Scale, Seq, Tokens, UNASKED, cut};
use longhand_dialect::Dialect;
use longhand_recall::memory::{Turn, fits, worth};
use longhand_recall::{Day, Likeness, Question, Ranker, STANDING_WORDS, excerpt, standing};
use longhand_summary::quoted_line;

use crate::app::search::short_id;
use crate::recall::said;
use crate::time;

/// Of so many tokens, one entry is looked at; a message has some thirty at the least.
const TOKENS_OF_ENTRY: u64 = 10;
const ENTRIES_MIN: usize = 64;
const ENTRIES_MAX: usize = 512;
/// A longer text is quoted in part.
const EXCERPT_BYTES: usize = 600;
/// So much of a long text tells what it is worth.
const LOOKED_AT_BYTES: usize = 32 << 10;
/// The share of the room that rules of the user may take: one in so many.
const RULES_SHARE: u64 = 8;
/// So many messages are looked through for rules.
const RULES_MAX: usize = 64;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Cue<'c> {
    /// The new message.
    pub message: &'c str,
    /// What was said just before it: it tells what a message of few words is about.
    pub before: &'c [&'c str],
    /// What is worth less than this share of the best stays where it is, from 0 to 1.
    pub worth_min: f32,
}

/// A message that is brought back, or a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecalledTurn {
    /// Its entry.
    pub seq: Seq,
    /// When it was said, in milliseconds since 1970.
    pub at_ms: i64,
    /// Who said it.
    pub speaker: String,
    /// What it says, on one line.
    pub text: String,
}

/// What to remember of a path for a new message, and how much of it.
#[derive(Clone, Copy)]
pub struct Recollection<'r> {
    /// The session, and the newest entry of the path in it; its newest one where none is said.
    pub path: (SessionId, Option<Seq>),
    /// What is asked for.
    pub cue: Cue<'r>,
    /// Counts what comes back.
    pub scale: &'r Scale<'r>,
    /// The most tokens of [`quoted`] of it.
    pub limit: Tokens,
    /// The room for all that comes back, now or later: as much as it takes to fill that is looked through.
    pub share: Tokens,
    /// What stays where it is, since it is in view; nothing is, where this is not said.
    pub view: Option<&'r InView<'r>>,
    /// How much earlier messages mean what the new one does, where that is known.
    pub likeness: Option<&'r Likeness>,
}

impl Recollection<'_> {
    /// Finds the earlier messages that are worth their tokens, in the order they were said in.
    ///
    /// Rules that the user gave come always, as far as an eighth of the room goes; the rest is chosen by what the message is
    /// about.
    pub async fn turns(&self, archive: &dyn Archive) -> Result<Vec<RecalledTurn>, ArchiveError> {
        let mut question = Question::parse(self.cue.message);
        if question.is_empty() {
            return Ok(Vec::new());
        }
        if question.is_thin() {
            let before = self.cue.before.iter();
            before.for_each(|before| question.add_context(Question::parse(before)));
        }
        let entries_max = (self.share.0 / TOKENS_OF_ENTRY) as usize;
        let entries_max = entries_max.clamp(ENTRIES_MIN, ENTRIES_MAX);
        let filter = SearchFilter::default();
        let alike = self.likeness.map(|likeness| likeness.nearest(entries_max / 2));
        let alike: Vec<Seq> = alike.into_iter().flatten().map(Seq).collect();
        let found = ask::near(archive, self.path, question, filter, entries_max, &alike).await?;
        let ranker = found.as_ref().map(|found| &*found.ranker);
        let left = self.limit.saturating_sub(self.scale.text(&header(self.path.0)));
        let most = Tokens(self.limit.0 / RULES_SHARE).min(left);
        let mut room = Room { scale: self.scale, left: most, days: Vec::new() };
        let mut chosen = Vec::new();
        if !self.has_quotes_here() {
            chosen = self.rules(archive, ranker, &mut room).await?;
        }
        let for_rules = if self.has_quotes_here() { most } else { most.saturating_sub(room.left) };
        room.left = left.saturating_sub(for_rules);
        let Some(found) = found else { return Ok(chosen) };
        let candidates: Vec<Candidate> = found.entries.iter().filter_map(Candidate::of).collect();
        let mut is_best = true;
        for at in by_worth(&found.ranker, self.cue, &candidates, self.likeness) {
            let candidate = &candidates[at];
            if candidate.worth_nothing() || !self.is_left_out(candidate) {
                continue;
            }
            // Where the best that has room stands in this place already, this message was asked about before.
            if is_best && self.is_quoted(candidate, true) {
                return Ok(Vec::new());
            }
            let is_chosen = chosen.iter().any(|turn| turn.seq == candidate.seq);
            if is_chosen || self.is_quoted(candidate, false) {
                continue;
            }
            let turn = candidate.quoted(&found.ranker);
            if !self.is_in_block(&turn.text) && room.takes(&turn) {
                chosen.push(turn);
                is_best = false;
            }
        }
        chosen.sort_by_key(|turn| turn.seq);
        Ok(chosen)
    }

    /// What the user said that holds on: what the question is about first, then the newest.
    async fn rules(
        &self,
        archive: &dyn Archive,
        ranker: Option<&Ranker>,
        room: &mut Room<'_>,
    ) -> Result<Vec<RecalledTurn>, ArchiveError> {
        let filter = SearchFilter { role: Some(Role::User), ..SearchFilter::default() };
        let question = Question::parse(STANDING_WORDS);
        let found = ask::near(archive, self.path, question, filter, RULES_MAX, &[]).await?;
        let mut rules = Vec::new();
        for record in found.iter().flat_map(|found| &found.entries).rev() {
            // Among people with names, nobody gives rules to the model.
            let candidate = Candidate::of(record).filter(|candidate| {
                candidate.role == Role::User
                    && candidate.name.is_none()
                    && self.is_left_out(candidate)
                    && !self.is_quoted(candidate, false)
            });
            let Some(candidate) = candidate else { continue };
            let said = standing(&candidate.text).into_iter().map(quoted_line);
            let said: Vec<String> = said.filter(|text| !self.is_in_block(text)).collect();
            if !said.is_empty() {
                rules.push(RecalledTurn { text: said.join(" "), ..candidate.empty() });
            }
        }
        let texts: Vec<&str> = rules.iter().map(|rule| rule.text.as_str()).collect();
        let worth = ranker.map(|ranker| fits(ranker, &texts));
        let worth = |at: usize| worth.as_ref().map_or(0.0, |worth| worth[at]);
        let mut order: Vec<usize> = (0..rules.len()).collect();
        order.sort_by(|one, other| worth(*other).total_cmp(&worth(*one)).then(one.cmp(other)));
        Ok(order
            .into_iter()
            .map(|at| &rules[at])
            .filter(|rule| room.takes(rule))
            .cloned()
            .collect())
    }

    /// Whether nothing of a message itself is in view.
    fn is_left_out(&self, candidate: &Candidate<'_>) -> bool {
        self.view.is_none_or(|view| view.hides(candidate.seq, &candidate.message))
    }

    /// Whether a message was brought back already, anywhere or `here`, after the newest entry.
    fn is_quoted(&self, candidate: &Candidate<'_>, here: bool) -> bool {
        let start = format!("\n{}", line_start(candidate.seq, &candidate.empty().speaker));
        let mut inserts = self.view.iter().flat_map(|view| view.inserts());
        inserts.any(|(after, text)| (!here || self.path.1 == Some(after)) && text.contains(&start))
    }

    fn has_quotes_here(&self) -> bool {
        let mut inserts = self.view.iter().flat_map(|view| view.inserts());
        inserts.any(|(after, _)| self.path.1 == Some(after))
    }

    /// Whether the fold says it already.
    fn is_in_block(&self, text: &str) -> bool {
        let block = self.view.and_then(InView::block);
        block.is_some_and(|block| block.contains(text))
    }
}

/// Writes what came back, as quotes with the numbers of their messages.
pub fn quoted(session: SessionId, turns: &[RecalledTurn]) -> String {
    let mut text = header(session);
    let mut day = None;
    for turn in turns {
        let said_on = time::day(turn.at_ms);
        if day.replace(said_on) != Some(said_on) {
            _ = write!(text, "\n{}", day_line(said_on));
        }
        _ = write!(text, "\n{}", line(turn));
    }
    text
}

fn header(session: SessionId) -> String {
    let id = session.to_string();
    let short = short_id(&id);
    format!("{UNASKED}, oldest first, quoted; {short}:N is the handle of message N]")
}

fn day_line(day: Day) -> String {
    format!("{:04}-{:02}-{:02}", day.year, day.month, day.day)
}

/// How a message is quoted, up to its text.
pub(crate) fn line_start(seq: Seq, speaker: &str) -> String {
    format!("{} {speaker}: ", seq.0)
}

fn line(turn: &RecalledTurn) -> String {
    format!("{}{}", line_start(turn.seq, &turn.speaker), turn.text)
}

/// The turns in the order of what they are worth.
fn by_worth(
    ranker: &Ranker,
    cue: Cue<'_>,
    candidates: &[Candidate<'_>],
    likeness: Option<&Likeness>,
) -> Vec<usize> {
    let turns: Vec<Turn<'_>> = candidates
        .iter()
        .map(|candidate| Turn {
            text: cut::head(&candidate.text, LOOKED_AT_BYTES),
            place: candidate.seq.0,
            speaker: Some(candidate.role),
            name: candidate.name.as_deref(),
            day: time::day(candidate.at_ms),
        })
        .collect();
    let worth = worth(ranker, cue.message, &turns, likeness);
    let least = cue.worth_min * worth.iter().copied().fold(0.0, f32::max);
    let is_worth = |at: &usize| worth[*at] > 0.0 && worth[*at] >= least;
    let mut order: Vec<usize> = (0..turns.len()).filter(is_worth).collect();
    order.sort_by(|one, other| worth[*other].total_cmp(&worth[*one]).then(other.cmp(one)));
    order
}

/// Tokens that are left, and the days that stand above quotes already.
struct Room<'s> {
    scale: &'s Scale<'s>,
    left: Tokens,
    days: Vec<Day>,
}

impl Room<'_> {
    fn takes(&mut self, turn: &RecalledTurn) -> bool {
        let day = time::day(turn.at_ms);
        let is_new = !self.days.contains(&day);
        let mut text = format!("\n{}", line(turn));
        if is_new {
            text.insert_str(0, &format!("\n{}", day_line(day)));
        }
        let tokens = self.scale.text(&text);
        let fits = tokens <= self.left;
        if fits {
            self.left = self.left.saturating_sub(tokens);
            self.days.extend(is_new.then_some(day));
        }
        fits
    }
}

/// A message that may come back.
struct Candidate<'e> {
    seq: Seq,
    at_ms: i64,
    role: Role,
    name: Option<String>,
    message: Message,
    text: Cow<'e, str>,
}

impl<'e> Candidate<'e> {
    fn of(record: &'e EntryRecord) -> Option<Self> {
        let entry = &record.entry;
        let (_, message): (Dialect, _) = said(entry)?;
        let role = if message.results().next().is_some() { Role::Tool } else { message.role };
        Some(Self {
            seq: entry.seq,
            at_ms: entry.said_ms(),
            role,
            name: message.name.as_ref().map(|name| name.decode().into_owned()),
            message,
            text: record.searched(),
        })
    }

    fn worth_nothing(&self) -> bool {
        self.role == Role::System || self.text.trim().is_empty()
    }

    fn empty(&self) -> RecalledTurn {
        let speaker = self.name.as_deref().map(quoted_line);
        RecalledTurn {
            seq: self.seq,
            at_ms: self.at_ms,
            speaker: speaker.unwrap_or_else(|| self.role.as_str().to_owned()),
            text: String::new(),
        }
    }

    /// All of it if it is short, otherwise what is around its best passage.
    fn quoted(&self, ranker: &Ranker) -> RecalledTurn {
        let text = match self.text.len() {
            0..=EXCERPT_BYTES => self.text.clone(),
            _ => excerpt(&self.text, &ranker.passage_in(&self.text), EXCERPT_BYTES).into(),
        };
        RecalledTurn { text: quoted_line(&text), ..self.empty() }
    }
}
