//! Words that say little about what is looked for, and words that say something about who said it or why.

use crate::fold;
use crate::question::{AskedWord, Intent, WordKind};

/// Words of English and German that most sentences have, in order.
const FILLERS: &[&str] = &[
    "a", "aber", "about", "after", "all", "als", "also", "am", "an", "and", "any", "are", "as",
    "at", "auch", "auf", "aus", "be", "because", "been", "before", "bei", "being", "bin", "but",
    "by", "can", "could", "couldn", "d", "das", "dass", "dem", "den", "der", "des", "did", "didn",
    "die", "do", "does", "doesn", "don", "done", "du", "durch", "ein", "eine", "einem", "einen",
    "einer", "end", "er", "es", "for", "from", "fur", "gab", "get", "gibt", "got", "had", "haben",
    "hat", "hatte", "has", "have", "he", "her", "his", "how", "i", "ich", "if", "im", "in", "into",
    "is", "isn", "ist", "it", "its", "just", "kann", "let", "ll", "many", "me", "mit", "much",
    "my", "nach", "nicht", "no", "not", "of", "on", "or", "our", "out", "re", "s", "she", "should",
    "sich", "sie", "sind", "so", "some", "t", "than", "that", "the", "their", "them", "then",
    "there", "these", "they", "this", "to", "too", "uber", "um", "und", "us", "ve", "vom", "von",
    "war", "warum", "was", "wasn", "we", "were", "what", "when", "where", "which", "who", "whom",
    "whose", "why", "wie", "wieso", "will", "wir", "wird", "with", "wo", "would", "wurde", "yet",
    "you", "your", "zu", "zum", "zur",
];

/// What asks or joins in scripts without spaces.
const CHARACTER_FILLERS: &[&str] = &[
    "为什么",
    "為什麼",
    "什么",
    "怎么",
    "如何",
    "哪个",
    "吗",
    "的",
    "了",
    "是",
    "なぜ",
    "どうして",
    "どう",
    "ですか",
    "です",
    "ます",
    "した",
    "する",
    "ている",
    "の",
    "が",
    "を",
    "は",
    "に",
    "で",
    "と",
    "ทำไม",
    "อย่างไร",
    "ไหม",
    "왜",
    "어떻게",
];

/// Who is meant by somebody who wrote in a conversation with an agent.
const USERS: &[&str] =
    &["user", "users", "customer", "client", "i", "my", "me", "benutzer", "nutzer", "kunde", "ich"];
/// What is said of somebody who said something.
const SAYING: &[&str] = &[
    "ask",
    "asked",
    "asks",
    "choose",
    "chose",
    "complained",
    "confirmed",
    "decided",
    "denied",
    "insisted",
    "mentioned",
    "picked",
    "prefer",
    "preferred",
    "prefers",
    "reported",
    "request",
    "requested",
    "said",
    "say",
    "says",
    "selected",
    "suggested",
    "tell",
    "told",
    "want",
    "wanted",
    "wants",
    "wish",
    "wrote",
    "gesagt",
    "gewollt",
    "sagte",
    "will",
    "wollte",
];
const USER_CHARACTERS: &[&str] = &["用户", "ユーザー", "ผู้ใช้"];

const REASONS: &[&str] = &[
    "why", "reason", "cause", "because", "decided", "decision", "warum", "wieso", "grund",
    "ursache",
];
const REASON_CHARACTERS: &[&str] = &["为什么", "原因", "なぜ", "理由", "どうして", "ทำไม", "왜"];

/// What stands in a text that gives a reason or a decision, as folded words.
const GIVEN_REASONS: &[&str] = &[
    "because",
    "cause",
    "caused",
    "causes",
    "reason",
    "root",
    "therefore",
    "since",
    "decided",
    "decision",
    "instead",
    "due",
    "issue",
    "problem",
    "weil",
    "grund",
    "ursache",
    "deshalb",
    "daher",
    "sondern",
    "entschieden",
];

pub(crate) fn is_filler(word: &str) -> bool {
    FILLERS.contains(&word)
}

/// Whether a word of a text tells of a reason or a decision.
pub(crate) fn gives_reason(word: &str) -> bool {
    GIVEN_REASONS.contains(&word)
}

/// Finds fillers among the characters of scripts without spaces.
pub(crate) fn mark_characters(words: &mut [AskedWord]) {
    let is_same = |word: &AskedWord, letter: char| word.text.chars().eq([letter]);
    for filler in CHARACTER_FILLERS {
        let filler = fold(filler);
        let length = filler.chars().count();
        for start in 0..(words.len() + 1).saturating_sub(length) {
            let run = &mut words[start..start + length];
            if run.iter().zip(filler.chars()).all(|(word, letter)| is_same(word, letter)) {
                for word in run {
                    word.kind = WordKind::Filler;
                }
            }
        }
    }
}

/// What a query tells besides its words. Those that say who said it say nothing about what was said.
pub(crate) fn intent(words: &mut [AskedWord], query: &str) -> Intent {
    let has = |list: &[&str]| words.iter().any(|word| list.contains(&word.text.as_str()));
    let says = |list: &[&str]| list.iter().any(|part| query.contains(&*fold(part)));
    let wants_user = (has(USERS) && has(SAYING)) || says(USER_CHARACTERS);
    let wants_reason = has(REASONS) || says(REASON_CHARACTERS);
    for word in words.iter_mut().filter(|_| wants_user) {
        if USERS.contains(&word.text.as_str()) || SAYING.contains(&word.text.as_str()) {
            word.kind = WordKind::Filler;
        }
    }
    for word in words.iter_mut().filter(|word| REASONS.contains(&word.text.as_str())) {
        word.kind = WordKind::Filler;
    }
    Intent { wants_user, wants_reason }
}
