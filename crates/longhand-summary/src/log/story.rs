//! How rounds went: lines that are made once and later only shortened or dropped.

use longhand_core::anchor::{SentenceForm, identifiers, sentences, statements};
use longhand_core::{Role, cut};

use super::finding::{begins_with_one_of, is_plan, worth};
use crate::quote;

/// The most characters of a line, and of one that has aged.
const LINE_CHARS_MAX: usize = 280;
pub(super) const AGED_CHARS_MAX: usize = 140;

/// The most bytes of all lines.
const STORY_BYTES_MAX: usize = 16_000;

/// How many steps are kept besides the ends of rounds.
const STEPS_MAX: usize = 80;

/// How many sentences at the start of a text count for more.
const LEADING_SENTENCES: usize = 3;

/// How many sentences of a text are looked at.
const SENTENCES_MAX: usize = 200;

/// What was said in a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoryLine {
    pub(super) round: u64,
    /// Whether it was the last text before control returned to the user.
    pub(super) is_end: bool,
    /// The message that it is from.
    pub(super) message: u64,
    /// How much it tells.
    pub(super) worth: u32,
    pub(super) text: String,
}

impl StoryLine {
    pub(super) fn of(round: u64, is_end: bool, message: u64, text: String) -> Self {
        let worth = sentences(&text).map(|sentence| worth(sentence.text)).max().unwrap_or(0);
        Self { round, is_end, message, worth, text }
    }
}

/// The story of a conversation.
#[derive(Clone, Debug, Default)]
pub(super) struct Story {
    pub(super) lines: Vec<StoryLine>,
    /// The text of a model about the first rounds, and how many rounds it covers.
    pub(super) told: Option<(u64, Vec<String>)>,
}

impl Story {
    /// Adds a text of the assistant. It counts as the end of the round until another one follows.
    pub(super) fn say(&mut self, round: u64, message: u64, text: &str) {
        let Gist { text, worth } = gist(text);
        if text.is_empty() {
            return;
        }
        if let Some(last) = self.lines.last_mut().filter(|last| last.round == round) {
            let tells = !is_filler(&last.text);
            if tells && is_filler(&text) {
                return;
            }
            last.is_end = false;
            if !tells {
                self.lines.pop();
            }
        }
        self.lines.push(StoryLine { round, is_end: true, message, worth, text });
        self.age();
    }

    /// Replaces the lines of the first rounds by a text that a model wrote.
    pub(super) fn tell(&mut self, rounds: u64, text: &str) {
        let lines = quote::lines(text);
        let lines = lines.lines().map(|line| line.trim_start_matches("- ").trim().to_owned());
        self.told = Some((rounds, lines.filter(|line| !line.is_empty()).collect()));
    }

    /// Whether a model has told what a line tells: it summarised the round, and left out no name and no figure.
    pub(super) fn is_told(&self, line: &StoryLine) -> bool {
        let Some((_, told)) = self.told.as_ref().filter(|_| line.round < self.first_own()) else {
            return false;
        };
        let has = |name: &str| told.iter().any(|text| text.contains(name));
        let figures = line.text.split(|c: char| !c.is_ascii_digit()).filter(|word| word.len() > 1);
        identifiers(&line.text).chain(figures).all(has)
    }

    /// The first round that no model has summarised.
    pub(super) fn first_own(&self) -> u64 {
        self.told.as_ref().map_or(0, |told| told.0 + 1)
    }

    /// Shortens the older half and drops the lines that tell least when there is too much.
    fn age(&mut self) {
        let steps = self.lines.iter().filter(|line| !line.is_end).count();
        if steps > STEPS_MAX
            && let Some(lightest) = self.lightest_step()
        {
            self.lines.remove(lightest);
        }
        let bytes =
            |lines: &[StoryLine]| lines.iter().map(|line| line.text.len() + 8).sum::<usize>();
        if bytes(&self.lines) <= STORY_BYTES_MAX {
            return;
        }
        let half = self.lines.len() / 2;
        for line in &mut self.lines[..half] {
            line.text = whole_sentences(&line.text, AGED_CHARS_MAX);
        }
        while bytes(&self.lines) > STORY_BYTES_MAX * 3 / 4 {
            let step = self.lightest_step();
            self.lines.remove(step.unwrap_or(0));
        }
    }

    /// The step that tells least, and the oldest of those.
    fn lightest_step(&self) -> Option<usize> {
        let steps = self.lines.iter().enumerate().filter(|(_, line)| !line.is_end);
        steps.min_by_key(|(at, line)| (line.worth, *at)).map(|(at, _)| at)
    }
}

/// What a text tells, on one line.
struct Gist {
    text: String,
    /// How much it tells, as [`StoryLine::of`] says.
    worth: u32,
}

/// A sentence that tells something.
struct ToldSentence {
    worth: u32,
    /// Whether it is one of the first: what comes first is what the writer finds most important.
    leads: bool,
    text: String,
}

/// The sentences of a text that tell most, in their order.
fn gist(text: &str) -> Gist {
    let mut told: Vec<ToldSentence> = Vec::new();
    for sentence in sentences(text).take(SENTENCES_MAX) {
        // A heading or a line of code says nothing alone; decisions and questions are listed elsewhere.
        if matches!(sentence.form, SentenceForm::Line | SentenceForm::Heading)
            || statements(sentence.text, Role::Assistant).next().is_some()
        {
            continue;
        }
        let mut line = quote::line(sentence.text);
        if line.contains("**") {
            line = line.replace("**", "");
        }
        let line = without_exclamation(&line);
        let worth = worth(line);
        if worth > 0 && !line.is_empty() && !is_courtesy(line) {
            let leads = told.len() < LEADING_SENTENCES;
            told.push(ToldSentence { worth, leads, text: line.to_owned() });
        }
    }
    let mut order: Vec<usize> = (0..told.len()).collect();
    order.sort_by_key(|at| {
        let ToldSentence { worth, leads, .. } = told[*at];
        (std::cmp::Reverse(worth + u32::from(leads)), *at)
    });
    let mut room = LINE_CHARS_MAX;
    let mut chosen: Vec<usize> = Vec::new();
    for at in order {
        let length = told[at].text.len();
        if chosen.is_empty() || length <= room {
            chosen.push(at);
            room = room.saturating_sub(length + 1);
        }
    }
    chosen.sort_unstable();
    for (place, at) in chosen.iter().enumerate() {
        if chosen.get(place + 1) != Some(&(at + 1)) {
            close(&mut told[*at].text);
        }
    }
    chosen.retain(|at| !told[*at].text.is_empty());
    let mut gist = String::new();
    for at in chosen {
        if !gist.is_empty() {
            // Items of a list have no full stop.
            let ends = gist.ends_with(['.', '!', '?', ':', ';', ',', '…']);
            gist.push_str(if ends { " " } else { "; " });
        }
        gist.push_str(&told[at].text);
    }
    let text = quote::line_within(&gist, LINE_CHARS_MAX);
    // Most sentences are still the same, so that they need not be judged again.
    let worth_of = |sentence: &str| {
        let known = told.iter().find(|told| told.text == sentence);
        known.map_or_else(|| worth(sentence), |told| told.worth)
    };
    let worth = sentences(&text).map(|sentence| worth_of(sentence.text)).max().unwrap_or(0);
    Gist { text, worth }
}

/// Ends a sentence whose colon announces what is left out. A short one says nothing without it.
fn close(sentence: &mut String) {
    const WORDS_MIN: usize = 6;
    if sentence.ends_with(':') {
        sentence.pop();
        if sentence.split_whitespace().count() < WORDS_MIN {
            sentence.clear();
        } else {
            sentence.push('…');
        }
    }
}

/// The first sentences of a line, in at most `chars_max` characters; a longer first sentence is cut.
pub(super) fn whole_sentences(line: &str, chars_max: usize) -> String {
    let most = line.char_indices().nth(chars_max).map_or(line.len(), |(end, _)| end);
    if most == line.len() {
        return line.to_owned();
    }
    let ends = line.match_indices(['.', '!', '?', ';']).map(|(at, _)| at + 1);
    let ends = ends.filter(|end| line[*end..].starts_with(' '));
    // A sentence that is a little too long is better kept whole, and a very short one says too little.
    let tells_enough = |end: &usize| (most / 2..=most + most / 4).contains(end);
    let (fitting, longer): (Vec<usize>, Vec<usize>) =
        ends.filter(tells_enough).partition(|end| *end <= most);
    match fitting.last().or(longer.first()) {
        Some(end) => line[..*end].trim_end_matches(';').to_owned(),
        None => quote::line_within(line, chars_max),
    }
}

/// A sentence without the word of joy or insight that it begins with: "Perfect!", "I see - ".
fn without_exclamation(sentence: &str) -> &str {
    const WORDS: &[&str] = &["excellent", "perfect", "great", "good", "done", "nice", "wonderful"];
    let rest = ["I see - ", "I see, "].iter().find_map(|opening| sentence.strip_prefix(opening));
    if let Some(rest) = rest {
        return rest;
    }
    match sentence.split_once('!') {
        Some((word, rest)) if WORDS.iter().any(|known| word.eq_ignore_ascii_case(known)) => {
            rest.trim_start()
        }
        _ => sentence,
    }
}

/// Whether a sentence is only polite and says nothing about the work.
fn is_courtesy(sentence: &str) -> bool {
    #[rustfmt::skip]
    const OPENINGS: &[&str] = &[
        "thank you", "thanks", "you're welcome", "of course", "certainly", "no worries", "no problem", "i can help",
        "i'd be happy", "i'll be happy", "i understand", "got it", "hello", "hi ", "hi!", "i'm sorry", "i apologize",
        "let me know", "please let me know", "please hold", "one moment", "just a moment", "feel free", "is there anything",
        "how can i", "how may i", "you're right", "you're absolutely right", "have a great", "have a nice", "sure, ", "sure!",
    ];
    const CHARS_MAX: usize = 100;
    sentence.len() <= CHARS_MAX && {
        let low = cut::head(sentence, 24).to_lowercase();
        begins_with_one_of(&low, OPENINGS)
    }
}

/// Whether a line says little by itself.
fn is_filler(line: &str) -> bool {
    line.len() < 30
        || line.get(..2).is_some_and(|head| head.eq_ignore_ascii_case("ok"))
        || is_plan(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_how_a_round_ended() {
        let mut story = Story::default();
        story.say(1, 1, "Let me look.");
        story.say(1, 2, "Done. The cascade runs first.\n\nDecision: keep it.\n\n```\ncode();\n```");
        assert_eq!(story.lines, [StoryLine::of(1, true, 2, "The cascade runs first.".to_owned())]);
    }

    #[test]
    fn what_was_found_counts_and_not_what_comes_next() {
        check_gist(
            "Excellent! All tests of the parser pass. Now let me commit these changes:",
            "All tests of the parser pass.",
        );
        check_gist(
            "I see - the exporter reads `traces_exporter`.",
            "the exporter reads `traces_exporter`.",
        );
        check_gist("Perfect! Now let me run the tests:", "");
    }

    #[test]
    fn politeness_tells_nothing() {
        check_gist(
            "Thank you for the clarification! The fee is $52. Please let me know if I can help with anything else.",
            "The fee is $52.",
        );
        check_gist("I can help you with that.", "");
    }

    #[test]
    fn items_of_a_list_are_told_apart() {
        check_gist("Both:\n- link is blue\n- text is grey\n", "Both: link is blue; text is grey");
    }

    #[test]
    fn a_colon_announces_nothing_that_is_left_out() {
        check_gist(
            "The wheel was too small.\n\nThe fix needs to:\n\n```\nturn();\n```",
            "The wheel was too small.",
        );
        check_gist(
            "The struct of the wheel does not have the fields:\n\n```\nslots\n```",
            "The struct of the wheel does not have the fields…",
        );
    }

    #[test]
    fn a_line_is_shortened_between_sentences() {
        let line =
            "The cascade runs first. Leases are checked by their generation. All 65 tests pass.";
        let short = |chars| whole_sentences(line, chars);
        assert_eq!(short(200), line);
        assert_eq!(short(70), "The cascade runs first. Leases are checked by their generation.");
        assert_eq!(short(30), "The cascade runs first.");
        assert_eq!(short(20), "The cascade runs first.");
        assert_eq!(short(12), "The cascade…");
    }

    #[track_caller]
    fn check_gist(text: &str, expected: &str) {
        assert_eq!(gist(text).text, expected);
    }

    #[test]
    fn the_story_ages_and_never_freezes() {
        let mut story = Story::default();
        for round in 0..4_000 {
            story.say(
                round,
                round,
                &format!("Round {round} is done, and {}.", "much was said ".repeat(12)),
            );
        }
        assert_eq!(story.lines.last().unwrap().round, 3_999);
        assert!(story.lines.iter().map(|line| line.text.len()).sum::<usize>() <= STORY_BYTES_MAX);
        assert!(story.lines[0].text.len() < story.lines.last().unwrap().text.len());
    }
}
