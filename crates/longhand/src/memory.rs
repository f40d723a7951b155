//! What a conversation remembers for a new message: earlier messages that the window does not show.

use std::fmt::Write as _;

use longhand_archive::{Archive, ArchiveError, EntryRecord, SearchFilter, SessionId, ask};
use longhand_core::anchor::{Saying, statements};
use longhand_core::{Role, Scale, Seq, Tokens};
use longhand_dialect::Dialect;
use longhand_recall::memory::{Turn, worth};
use longhand_recall::{Day, Question, Ranker, excerpt};
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
/// The share of the room that rules of the user may take: one in so many.
const RULES_SHARE: u64 = 8;
/// What users write when they give a rule.
const RULE_WORDS: &str = "always never prefer please must only remember don't immer nie bitte";
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

/// Finds the earlier messages of a path that are worth their tokens for a new one, in the order they were said in.
///
/// Only what is `hidden` comes back. Rules that the user gave come always, as far as an eighth of the room goes; the rest
/// is chosen by what the message is about. [`quoted`] of them takes at most `limit` tokens.
pub async fn recollect(
    archive: &dyn Archive,
    (session, head): (SessionId, Option<Seq>),
    cue: Cue<'_>,
    scale: &Scale<'_>,
    limit: Tokens,
    hidden: &(dyn Fn(Seq) -> bool + Sync),
) -> Result<Vec<RecalledTurn>, ArchiveError> {
    let mut question = Question::parse(cue.message);
    if question.is_thin() {
        cue.before.iter().for_each(|before| question.add_context(Question::parse(before)));
    }
    let entries_max = (limit.0 / TOKENS_OF_ENTRY) as usize;
    let entries_max = entries_max.clamp(ENTRIES_MIN, ENTRIES_MAX);
    let path = (session, head);
    let found = ask::near(archive, path, question, SearchFilter::default(), entries_max).await?;
    let Some(found) = found else { return Ok(Vec::new()) };
    let candidates: Vec<Candidate> = found.entries.iter().filter_map(Candidate::of).collect();
    let mut room =
        Room { scale, left: limit.saturating_sub(scale.text(&header(session))), days: Vec::new() };
    let mut chosen: Vec<RecalledTurn> = Vec::new();
    if candidates.iter().any(|candidate| candidate.role == Role::Assistant) {
        let rules_limit = Tokens(limit.0 / RULES_SHARE);
        let mut rules = Room { scale, left: rules_limit.min(room.left), days: Vec::new() };
        chosen = self::rules(archive, path, &mut rules, hidden).await?;
        let used = rules_limit.min(room.left).saturating_sub(rules.left);
        room.left = room.left.saturating_sub(used);
        room.days = rules.days;
    }
    for at in by_worth(&found.ranker, cue, &candidates) {
        let candidate = &candidates[at];
        let is_chosen = |seq: Seq| chosen.iter().any(|turn| turn.seq == seq);
        if candidate.worth_nothing() || !hidden(candidate.seq) || is_chosen(candidate.seq) {
            continue;
        }
        let turn = candidate.quoted(&found.ranker);
        if room.takes(&turn) {
            chosen.push(turn);
        }
    }
    chosen.sort_by_key(|turn| turn.seq);
    Ok(chosen)
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
    format!(
        "[longhand recall: earlier messages of this conversation that may matter now, oldest first, quoted; {short}:N is the handle of message N]"
    )
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
fn by_worth(ranker: &Ranker, cue: Cue<'_>, candidates: &[Candidate<'_>]) -> Vec<usize> {
    let turns: Vec<Turn<'_>> = candidates
        .iter()
        .map(|candidate| Turn {
            text: candidate.text,
            place: candidate.seq.0,
            speaker: Some(candidate.role),
            name: candidate.name.as_deref(),
            day: time::day(candidate.at_ms),
        })
        .collect();
    let worth = worth(ranker, cue.message, &turns);
    let least = cue.worth_min * worth.iter().copied().fold(0.0, f32::max);
    let mut order: Vec<usize> = (0..turns.len()).filter(|at| worth[*at] >= least).collect();
    order.sort_by(|one, other| worth[*other].total_cmp(&worth[*one]).then(other.cmp(one)));
    order
}

/// The sentences in which the user gave rules that hold on, newest first.
async fn rules(
    archive: &dyn Archive,
    path: (SessionId, Option<Seq>),
    room: &mut Room<'_>,
    hidden: &(dyn Fn(Seq) -> bool + Sync),
) -> Result<Vec<RecalledTurn>, ArchiveError> {
    let filter = SearchFilter { role: Some(Role::User), ..SearchFilter::default() };
    let question = Question::parse(RULE_WORDS);
    let found = ask::near(archive, path, question, filter, RULES_MAX).await?;
    let mut chosen = Vec::new();
    for record in found.iter().flat_map(|found| &found.entries).rev() {
        let Some(candidate) = Candidate::of(record) else { continue };
        if candidate.role != Role::User || !hidden(candidate.seq) {
            continue;
        }
        let said = statements(candidate.text, Role::User);
        let said = said.filter(|statement| statement.saying == Saying::Rules);
        let said: Vec<String> = said.map(|statement| quoted_line(statement.text)).collect();
        if said.is_empty() {
            continue;
        }
        let turn = RecalledTurn { text: said.join(" "), ..candidate.empty() };
        if room.takes(&turn) {
            chosen.push(turn);
        }
    }
    Ok(chosen)
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
    text: &'e str,
}

impl<'e> Candidate<'e> {
    fn of(record: &'e EntryRecord) -> Option<Self> {
        let entry = &record.entry;
        let (_, message): (Dialect, _) = said(entry)?;
        let role = if message.results().next().is_some() { Role::Tool } else { message.role };
        Some(Self {
            seq: entry.seq,
            at_ms: entry.source_ms.unwrap_or(entry.at_ms),
            role,
            name: message.name.as_ref().map(|name| name.decode().into_owned()),
            text: &record.text,
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
            0..=EXCERPT_BYTES => self.text.to_owned(),
            _ => excerpt(self.text, &ranker.passage_in(self.text), EXCERPT_BYTES),
        };
        RecalledTurn { text: quoted_line(&text), ..self.empty() }
    }
}
