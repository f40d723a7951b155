//! The plot: what the developer asks for, and how each round begins and ends.

use super::author::Author;
use super::grammar::{Bindings, expand};
use super::phrases::{self, PhraseRecord};

const THEMES: usize = 6;
/// The theme that is blocked, to be taken up again after a later one.
const BLOCKED: usize = 2;
const LIFTED_AFTER: usize = 4;
const HUGE_LOG_ROUND: usize = 6;
const HUGE_LOG_BYTES: usize = 40_000;

/// Plays all rounds until the session has grown to `bytes`, and ends with a question.
pub(super) fn play(author: &mut Author, bytes: usize) {
    let themes = choose_themes(author);
    let blocker = choose_blocker(&themes[BLOCKED], author);
    let rounds = arrange(&themes);
    let bytes = bytes.saturating_sub(HUGE_LOG_BYTES);
    let mut logged = 0;
    for (round, number) in rounds.iter().zip(1..) {
        let share = bytes * number / rounds.len() + logged;
        open(round, &blocker, author);
        work(round, share, author);
        if number == HUGE_LOG_ROUND {
            author.verbose_test(HUGE_LOG_BYTES);
            logged = HUGE_LOG_BYTES;
        }
        author.all_tests();
        close(round, &blocker, author);
    }
    let endings = phrases::endings();
    let ending = *author.rng.choose(&endings);
    let ending = author.write(ending, &[]);
    author.transcript.text("user", &ending);
}

/// One user message and the work that it starts.
struct StoryRound<'a> {
    theme: &'a Theme,
    kind: StoryRoundKind,
}

#[derive(Clone, Copy, PartialEq)]
enum StoryRoundKind {
    Ask,
    Steer,
    Blocked,
    Lifted,
}

/// A theme with the values that its texts share.
struct Theme {
    record: PhraseRecord,
    shared: Bindings,
}

impl Theme {
    fn new(record: PhraseRecord, author: &mut Author) -> Self {
        let mut shared = author.world.clone();
        expand("$ticket $commit $big $gap $few", &mut author.rng, &mut shared);
        Self { record, shared }
    }

    fn text(&self, key: &str, author: &mut Author) -> String {
        expand(self.record.get(key), &mut author.rng, &mut self.shared.clone())
    }

    fn notes(&self, author: &mut Author) -> Vec<String> {
        let notes = self.record.all("note");
        notes.map(|note| expand(note, &mut author.rng, &mut self.shared.clone())).collect()
    }
}

/// The wheel always comes first, since the question at the end is about it.
fn choose_themes(author: &mut Author) -> Vec<Theme> {
    let mut records = phrases::themes();
    author.rng.shuffle(&mut records[1..]);
    records.truncate(THEMES);
    records.into_iter().map(|record| Theme::new(record, author)).collect()
}

fn choose_blocker(blocked: &Theme, author: &mut Author) -> Theme {
    let name = blocked.record.get("name");
    let mut fitting = phrases::blockers();
    fitting.retain(|blocker| blocker.get("fits").split(' ').any(|theme| theme == name));
    let chosen = author.rng.choose(&fitting).clone();
    Theme::new(chosen, author)
}

fn arrange(themes: &[Theme]) -> Vec<StoryRound<'_>> {
    let mut rounds = Vec::new();
    for (theme, place) in themes.iter().zip(0..) {
        rounds.push(StoryRound {
            theme,
            kind: if place == BLOCKED { StoryRoundKind::Blocked } else { StoryRoundKind::Ask },
        });
        if matches!(place, 0 | 1 | 3 | 5) {
            rounds.push(StoryRound { theme, kind: StoryRoundKind::Steer });
        }
        if place == LIFTED_AFTER {
            rounds.push(StoryRound { theme: &themes[BLOCKED], kind: StoryRoundKind::Lifted });
        }
    }
    rounds
}

fn open(round: &StoryRound, blocker: &Theme, author: &mut Author) {
    let said = match round.kind {
        StoryRoundKind::Ask | StoryRoundKind::Blocked => round.theme.text("ask", author),
        StoryRoundKind::Steer => round.theme.text("steer", author),
        StoryRoundKind::Lifted => blocker.text("lifted", author),
    };
    author.transcript.text("user", &said);
    match round.kind {
        StoryRoundKind::Ask | StoryRoundKind::Blocked => {}
        StoryRoundKind::Steer => {
            let reply = author.phrase("reply", &[]);
            author.think(reply);
        }
        StoryRoundKind::Lifted => {
            let unblocked = blocker.text("unblocked", author);
            author.think(format!("Unblocked: {unblocked}\n\n"));
        }
    }
}

/// Reads, changes and tests until the session has grown to `bytes`.
fn work(round: &StoryRound, bytes: usize, author: &mut Author) {
    let focus: Vec<&str> = round.theme.record.get("focus").split(' ').collect();
    let mut notes = round.theme.notes(author);
    if matches!(round.kind, StoryRoundKind::Steer | StoryRoundKind::Lifted) {
        notes.clear();
    }
    author.rng.shuffle(&mut notes);
    if matches!(round.kind, StoryRoundKind::Ask | StoryRoundKind::Blocked) {
        author.read(focus[0]);
        author.show_fault(&focus);
    }
    loop {
        for _ in 0..author.rng.range(1..3) {
            author.explore(&focus);
        }
        if let Some(note) = notes.pop() {
            author.think(note);
        }
        author.change(&focus);
        if author.transcript.bytes() >= bytes {
            break;
        }
    }
}

fn close(round: &StoryRound, blocker: &Theme, author: &mut Author) {
    let ticket = &round.theme.shared["ticket"];
    let wrap = author.phrase("wrap", &[("ticket", ticket)]);
    let changes = author.changes();
    let theme = round.theme;
    let text = match round.kind {
        StoryRoundKind::Ask => format!(
            "{wrap} {} {changes}\n\nDecision: {}\n\nOpen question: {}",
            theme.text("done", author),
            theme.text("decision", author),
            theme.text("question", author),
        ),
        StoryRoundKind::Steer => format!("{wrap} {} {changes}", theme.text("after", author)),
        StoryRoundKind::Blocked => format!(
            "The code is in, but I cannot call it done. {changes}\n\nBlocked: {}\n\nDecision: {}",
            blocker.text("blocked", author),
            theme.text("decision", author),
        ),
        StoryRoundKind::Lifted => format!(
            "{wrap} {} {changes}\n\nOpen question: {}",
            theme.text("done", author),
            theme.text("question", author),
        ),
    };
    author.answer(&text);
}
