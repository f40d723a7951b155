//! The part of a log that a block shows: as much as fits, the most important first.

use std::borrow::Cow;

use longhand_core::anchor::identifiers;
use longhand_core::json::{JsonCursor, strings_of_object};
use longhand_core::{Message, Part, Scale, Tokens, ToolCall};
use rustc_hash::{FxHashMap, FxHashSet};

use super::action::Action;
use super::answer::Answer;
use super::call::ReadCall;
use super::choice::Choice;
use super::contents::Contents;
use super::excerpts::Excerpts;
use super::files::common_root;
use super::name_index::NameIndex;
use super::names::{NameSource, Names};
use super::sheet::Sheet;
use super::{Log, answer_of, bounded, source_of};

/// The most room that is reserved for lines and names, in percent.
const OTHERS_PERCENT_MAX: u64 = 60;

/// The most room of names in percent: for a model that goes on, and for somebody who takes over.
const NAMES_PERCENT_MAX: u64 = 40;
const HAND_OVER_NAMES_PERCENT_MAX: u64 = 15;

/// How large a page for somebody who takes over would be, in percent of its limit.
const HAND_OVER_LIMIT_PERCENT: u64 = 150;

/// Lines that add less than this for each of their tokens are not worth the room that they take from messages in
/// sight: for a model that goes on, and for somebody who takes over.
const GAIN_MIN: f64 = 0.06;
const HAND_OVER_GAIN_MIN: f64 = 0.01;

/// The part of a log that fits into a block.
#[derive(Clone, Debug, Default)]
pub struct LogPage {
    /// The lines.
    pub text: String,
    /// How many things it tells.
    pub told: usize,
    /// The lines that did not fit.
    pub left_out: Vec<String>,
    /// Whether something had no room that a conversation cannot do without: a user's rule, a decision,
    /// a blocker, an open question.
    pub is_lossy: bool,
    /// The room that all that matters would take, with a share for names and the story.
    pub wanted: Tokens,
}

impl Log {
    /// Shows what is known in at most `limit` tokens.
    ///
    /// The messages that stay in sight after the folded ones may have answered, lifted or repaired
    /// something; and what they name need not be named again.
    pub fn page(
        &self,
        after: &[&Message],
        hidden: &[(usize, &Part)],
        limit: Tokens,
        scale: &Scale,
    ) -> LogPage {
        let now = self.seen_from(after);
        let unseen: Vec<u64> =
            hidden.iter().map(|(at, _)| self.messages + *at as u64 + 1).collect();
        let folder = self.folder();
        let contents = Contents { log: self, now: &now, unseen: &unseen, folder: &folder };
        let mut sheet = Sheet { tiers: contents.tiers(), scale, limit, spent: Tokens::ZERO };
        let wanted = sheet.wanted();
        sheet.shorten_words(limit);
        sheet.fill(limit.saturating_sub(self.others_room(limit, wanted)));
        let in_sight = in_sight(after, hidden);
        let seen: FxHashSet<&str> = identifiers(&in_sight).collect();
        let excerpts = self.excerpts_with(after, hidden);
        let (text, _) = sheet.text();
        let choice = Choice {
            excerpts: &excerpts,
            steps: &contents.steps(),
            names: &self.names,
            now: self.messages + after.len() as u64,
            folder: &folder,
            page: &text,
            in_sight: &in_sight,
            seen: &seen,
            gain_min: if self.hands_over { HAND_OVER_GAIN_MIN } else { GAIN_MIN },
        };
        let told = scale.text(&text);
        let left = limit.saturating_sub(told);
        let names = Tokens(limit.0 * self.names_percent_max() / 100);
        let room = left.saturating_sub(names.min(Tokens(left.0 / 2)));
        let wanted = wanted.max(self.hand_over_room(told, &excerpts, limit));
        sheet.add_shown(choice.units(room, scale));
        let (mut text, names_from) = sheet.text();
        let room = limit.saturating_sub(scale.text(&text) + Tokens(1)).min(names);
        let (names, has_all) = self.names_lines(&text, after, hidden, &seen, room, scale, &folder);
        text.insert_str(names_from, &names);
        text.truncate(text.trim_end().len());
        while scale.text(&text) > limit {
            // Lines may have more tokens when joined than on their own.
            if !sheet.drop_last() {
                text.clear();
                break;
            }
            text = sheet.text().0;
        }
        let page = sheet.page(text);
        LogPage { is_lossy: page.is_lossy || !has_all, wanted, ..page }
    }

    /// The open statements and the state of the work after some more messages, without their words, names or story.
    fn seen_from(&self, after: &[&Message]) -> Log {
        let mut now = Log {
            rounds: self.rounds,
            messages: self.messages,
            standing: self.standing.clone(),
            work: self.work.clone(),
            calls_tools: self.calls_tools,
            acting: self.acting.clone(),
            ..Log::default()
        };
        now.read(after);
        now
    }

    /// The room for lines and names: what the important lines leave, up to a share.
    ///
    /// Ids that must be kept always get some room.
    fn others_room(&self, limit: Tokens, wanted: Tokens) -> Tokens {
        let share = |percent: u64| Tokens(limit.0 * percent / 100);
        let least =
            if self.names.has_own() { share(HAND_OVER_NAMES_PERCENT_MAX) } else { Tokens::ZERO };
        limit.saturating_sub(wanted).min(share(OTHERS_PERCENT_MAX)).max(least)
    }

    /// The room that somebody who takes over would need, up to half more than there is.
    fn hand_over_room(&self, told: Tokens, excerpts: &Excerpts, limit: Tokens) -> Tokens {
        if !self.hands_over {
            return Tokens::ZERO;
        }
        (told + excerpts.tokens()).min(Tokens(limit.0 * HAND_OVER_LIMIT_PERCENT / 100))
    }

    fn names_percent_max(&self) -> u64 {
        if self.hands_over { HAND_OVER_NAMES_PERCENT_MAX } else { NAMES_PERCENT_MAX }
    }

    /// The lines that are known and still true, with those of bodies in sight that are not shown.
    fn excerpts_with(&self, after: &[&Message], hidden: &[(usize, &Part)]) -> Cow<'_, Excerpts> {
        let mut excerpts = Cow::Borrowed(&self.excerpts);
        let is_hidden = |part: &Part| hidden.iter().any(|(_, known)| std::ptr::eq(*known, part));
        let mut calls: FxHashMap<Cow<str>, (ReadCall, bool)> = FxHashMap::default();
        for (at, message) in after.iter().enumerate() {
            for part in &message.parts {
                match part {
                    Part::Call(call) => {
                        let read = call_in_sight(call);
                        calls.insert(call.id.decode(), (read, is_hidden(part)));
                    }
                    Part::Result(result) => {
                        let Some((call, is_bare)) = calls.remove(&result.call.decode()) else {
                            continue;
                        };
                        let edits = matches!(call.action, Action::Edit(_));
                        let answer = answer_of(result);
                        let answer = Answer::of(&call.action, &answer, result.error);
                        if if edits { is_bare } else { is_hidden(part) } {
                            let number = self.messages + at as u64 + 1;
                            excerpts.to_mut().take(&call, &self.pointers, &answer, number);
                        } else {
                            excerpts.to_mut().replace_by(&call, &answer);
                        }
                    }
                    _ => {}
                }
            }
        }
        excerpts
    }

    /// The file or the command of each call in sight, by its id.
    fn labels_in_sight(after: &[&Message]) -> FxHashMap<String, String> {
        let calls = after.iter().flat_map(|message| message.calls());
        let label = |call: &ToolCall| source_of(&call_in_sight(call).action).into_owned();
        calls.map(|call| (call.id.decode().into_owned(), label(call))).collect()
    }

    /// The folder that most files share.
    fn folder(&self) -> String {
        let changed = self.work.files.iter().map(|file| file.path.as_str());
        common_root(changed.chain(self.names.labels()))
    }

    /// Names that no message in sight has, and whether all ids that must be kept are among them.
    #[allow(clippy::too_many_arguments, reason = "they are the parts of one page")]
    fn names_lines(
        &self,
        text: &str,
        after: &[&Message],
        hidden: &[(usize, &Part)],
        seen: &FxHashSet<&str>,
        room: Tokens,
        scale: &Scale,
        folder: &str,
    ) -> (String, bool) {
        let mut names = Cow::Borrowed(&self.names);
        let labels = Self::labels_in_sight(after);
        for (at, part) in hidden {
            let label = match part {
                Part::Call(call) => labels.get(&*call.id.decode()),
                Part::Result(result) => labels.get(&*result.call.decode()),
                _ => None,
            };
            let source = names.to_mut().source(label.map_or("", String::as_str));
            read_hidden(names.to_mut(), part, self.messages + *at as u64 + 1, source);
        }
        let now = self.messages + after.len() as u64;
        let unseen = names.ranked(now, folder).filter(|name| !seen.contains(name));
        let mut index = NameIndex::new(&names, text, folder, room, scale);
        for name in unseen {
            if !index.add(name) {
                break;
            }
        }
        (index.lines(), index.has_all)
    }
}

/// The text of the messages that stay.
fn in_sight(after: &[&Message], hidden: &[(usize, &Part)]) -> String {
    let is_hidden =
        |part: &Part| hidden.iter().any(|(_, hidden_part)| std::ptr::eq(*hidden_part, part));
    let mut seen = String::new();
    for part in after.iter().flat_map(|message| &message.parts).filter(|part| !is_hidden(part)) {
        texts_of(part, |text| {
            seen.push_str(text);
            seen.push('\n');
        });
    }
    seen
}

/// Counts the names of a body that is not shown.
fn read_hidden(names: &mut Names, part: &Part, message: u64, source: NameSource) {
    texts_of(part, |text| names.read(bounded(text), message, 1, source));
}

fn texts_of(part: &Part, mut read: impl FnMut(&str)) {
    match part {
        Part::Text(text) => read(&text.decode()),
        Part::Call(call) => {
            let arguments = call.arguments.decode();
            match strings_of_object(&arguments) {
                Some(values) => {
                    for value in values.iter().filter_map(|value| value.str(&arguments)) {
                        read(&value);
                    }
                }
                None => read(&arguments),
            }
        }
        Part::Result(result) => {
            result.content.iter().filter_map(Part::text).for_each(|text| read(&text.decode()));
        }
        _ => {}
    }
}

fn call_in_sight(call: &ToolCall) -> ReadCall<'_> {
    let arguments = call.arguments.decode();
    let node = JsonCursor::new(&arguments).node().ok();
    ReadCall::of(call, arguments, node.as_ref())
}
