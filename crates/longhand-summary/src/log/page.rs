//! The part of a log that a block shows: as much as fits, the most important first.

use std::borrow::Cow;

use longhand_core::anchor::identifiers;
use longhand_core::json::strings_of_object;
use longhand_core::{Message, Part, Scale, Tokens};
use rustc_hash::FxHashSet;

use super::contents::Contents;
use super::files::common_root;
use super::name_index::NameIndex;
use super::names::{NameSource, Names};
use super::sheet::Sheet;
use super::{Log, bounded};

/// The most room that is reserved for names, in percent, and the room that ids always get.
const NAMES_PERCENT_MAX: u64 = 30;
const NAMES_PERCENT_MIN: u64 = 15;

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
        let tiers = Contents { log: self, now: &now, unseen: &unseen, folder: &folder }.tiers();
        let mut sheet = Sheet { tiers, scale, limit, spent: Tokens::ZERO };
        let wanted = sheet.wanted();
        sheet.shorten_words(limit);
        let names = names_room(limit, wanted, self.names.has_own());
        sheet.fill(limit.saturating_sub(names));
        let (mut text, names_from) = sheet.text();
        let room = limit.saturating_sub(scale.text(&text) + Tokens(1));
        let (names, has_all) = self.names_lines(&text, after, hidden, room, scale, &folder);
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

    /// The folder that most files share.
    fn folder(&self) -> String {
        let changed = self.work.files.iter().map(|file| file.path.as_str());
        common_root(changed.chain(self.names.labels()))
    }

    /// Names that no message in sight has, and whether all ids that must be kept are among them.
    fn names_lines(
        &self,
        text: &str,
        after: &[&Message],
        hidden: &[(usize, &Part)],
        room: Tokens,
        scale: &Scale,
        folder: &str,
    ) -> (String, bool) {
        let mut names = Cow::Borrowed(&self.names);
        for (at, part) in hidden {
            read_hidden(names.to_mut(), part, self.messages + *at as u64 + 1);
        }
        let seen = in_sight(after, hidden);
        let seen: FxHashSet<&str> = identifiers(&seen).collect();
        let now = self.messages + after.len() as u64;
        let unseen = names.ranked(now, folder).into_iter().filter(|name| !seen.contains(name));
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
fn read_hidden(names: &mut Names, part: &Part, message: u64) {
    texts_of(part, |text| names.read(bounded(text), message, 1, NameSource::default()));
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

/// The room for names: what the important lines leave, up to a share.
///
/// Ids that must be kept always get some room.
fn names_room(limit: Tokens, wanted: Tokens, has_own: bool) -> Tokens {
    let least = if has_own { limit.0 * NAMES_PERCENT_MIN / 100 } else { 0 };
    let room = limit.saturating_sub(wanted).min(Tokens(limit.0 * NAMES_PERCENT_MAX / 100));
    room.max(Tokens(least))
}
