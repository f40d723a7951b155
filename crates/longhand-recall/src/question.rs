//! What a query asks for: its words, how they belong together, and what else it tells.

use rustc_hash::FxHashMap;

use crate::filler;
use crate::vocabulary::INSIDE_BYTES_MIN;
use crate::words::{Folded, is_alone};

/// How many words of a query count.
const WORDS_MAX: usize = 32;
/// How many bytes of a query are read.
const BYTES_MAX: usize = 4_096;

/// A query as ranking sees it. Any string is one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Question {
    pub(crate) words: Vec<AskedWord>,
    pub(crate) links: Vec<Link>,
    /// Words in double quotes, by their numbers in order.
    pub(crate) phrases: Vec<Vec<usize>>,
    pub(crate) intent: Intent,
}

/// A distinct word of a query.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AskedWord {
    pub(crate) text: String,
    pub(crate) kind: WordKind,
    /// Whether it may go on: `conf*`.
    pub(crate) is_prefix: bool,
    /// Whether it stands in quotes, where no other form is meant.
    pub(crate) is_quoted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WordKind {
    /// What the query is about.
    Content,
    /// A word that most sentences have.
    Filler,
    /// A character of a script that puts no space between words: it says little by itself.
    Character,
    /// A name whose parts are words of the query, too.
    Name,
}

/// Two words that stand side by side in the query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Link {
    pub(crate) first: usize,
    pub(crate) second: usize,
    pub(crate) strength: f32,
}

/// What a query tells about the entry it looks for, besides its words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Intent {
    /// It asks what the user said.
    pub(crate) wants_user: bool,
    /// It asks for a reason.
    pub(crate) wants_reason: bool,
}

/// Between words of a name or a path, in quotes, and in a script without spaces.
const JOINED: f32 = 1.0;
/// Between words with a space.
const SPACED: f32 = 0.4;

impl Question {
    /// Reads a query.
    pub fn parse(query: &str) -> Self {
        let folded = Folded::of(longhand_core::cut::head(query, BYTES_MAX));
        let mut reader = Reader::default();
        let mut is_quoted = false;
        let mut start = 0;
        for part in folded.text.split('"') {
            reader.begin(is_quoted);
            let mut at = start;
            for token in part.split_inclusive(char::is_whitespace) {
                reader.token(&folded, at, token);
                at += token.len();
            }
            reader.end();
            start += part.len() + 1;
            is_quoted = !is_quoted;
        }
        reader.finish(&folded.text)
    }

    /// Whether what has none of its words cannot have it inside of others either.
    pub fn is_looked_for_inside(&self) -> bool {
        let may_be_id = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        !self.words.is_empty()
            && self.words.iter().all(|word| {
                word.kind == WordKind::Content
                    && !word.is_quoted
                    && word.text.len() >= INSIDE_BYTES_MIN
                    && !word.text.bytes().all(may_be_id)
            })
    }

    /// Whether it has no word at all.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }
}

#[derive(Default)]
struct Reader {
    question: Question,
    known: FxHashMap<String, usize>,
    /// The word before, and whether it belongs to the same token.
    before: Option<usize>,
    is_joined: bool,
    /// Whether the token is a name, a path or the like.
    is_name: bool,
    is_quoted: bool,
    phrase: Vec<usize>,
}

impl Reader {
    fn begin(&mut self, is_quoted: bool) {
        self.is_quoted = is_quoted;
        self.before = None;
        self.phrase.clear();
    }

    fn token(&mut self, folded: &Folded<'_>, start: usize, token: &str) {
        let trimmed = token.trim_end();
        let is_prefix = trimmed.ends_with('*');
        self.is_joined = false;
        let words = || folded.words_of(start..start + token.len());
        let parts: usize = words().map(|word| word.parts().count().max(1)).sum();
        self.is_name = parts > 1 && !token.contains(['\'', '’']);
        let mut last = None;
        for word in words() {
            let parts: Vec<&str> = word.parts().map(|(_, part)| part).collect();
            if parts.is_empty() {
                last = self.word(word.text, None);
            } else {
                self.word(word.text, Some(WordKind::Name));
                for part in parts {
                    last = self.word(part, None);
                }
            }
            self.is_joined = true;
        }
        if let Some(last) = last.filter(|_| is_prefix) {
            self.question.words[last].is_prefix = true;
        }
    }

    /// Adds a word and its link to the word before.
    fn word(&mut self, text: &str, kind: Option<WordKind>) -> Option<usize> {
        let kind = match kind.unwrap_or_else(|| kind_of(text)) {
            WordKind::Filler if self.is_quoted || self.is_name => WordKind::Content,
            kind => kind,
        };
        let words = &mut self.question.words;
        let at = match self.known.get(text) {
            Some(at) => *at,
            None if words.len() >= WORDS_MAX => return None,
            None => {
                let is_quoted = self.is_quoted;
                words.push(AskedWord { text: text.to_owned(), kind, is_prefix: false, is_quoted });
                self.known.insert(text.to_owned(), words.len() - 1);
                words.len() - 1
            }
        };
        if kind == WordKind::Name {
            return Some(at);
        }
        if let Some(first) = self.before.filter(|before| *before != at) {
            let strength = if self.is_joined || self.is_quoted { JOINED } else { SPACED };
            self.question.links.push(Link { first, second: at, strength });
        }
        self.before = Some(at);
        self.is_joined = true;
        self.phrase.push(at);
        Some(at)
    }

    fn end(&mut self) {
        if self.is_quoted && self.phrase.len() > 1 {
            self.question.phrases.push(std::mem::take(&mut self.phrase));
        }
    }

    fn finish(mut self, query: &str) -> Question {
        let words = &mut self.question.words;
        filler::mark_characters(words);
        self.question.intent = filler::intent(words, query);
        // Words that most sentences have are all there is.
        if !words.iter().any(|word| word.kind != WordKind::Filler) {
            for word in words.iter_mut() {
                word.kind = WordKind::Content;
            }
        }
        self.question
    }
}

fn kind_of(word: &str) -> WordKind {
    if word.chars().next().is_some_and(is_alone) {
        WordKind::Character
    } else if filler::is_filler(word) {
        WordKind::Filler
    } else {
        WordKind::Content
    }
}
