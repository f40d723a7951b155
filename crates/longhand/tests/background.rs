//! Summarisers that take their time.
#![allow(clippy::unwrap_used, clippy::cast_possible_wrap, reason = "these are tests")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhand::{
    Archive, Extractive, MemoryArchive, Prompt, Rolling, Round, Session, Settings, Summariser,
    Tokens,
};
use longhand_core::Scale;
use longhand_summary::{Input, Summary, SummaryError};
use longhand_testkit::filler;

/// Answers when it is told to, with what it is told.
struct Slow {
    asked: AtomicUsize,
    answers: Mutex<Receiver<Option<String>>>,
}

impl Slow {
    fn new() -> (Sender<Option<String>>, Arc<Self>) {
        let (tell, answers) = mpsc::channel();
        (tell, Arc::new(Self { asked: AtomicUsize::new(0), answers: Mutex::new(answers) }))
    }
}

impl Summariser for Slow {
    fn name(&self) -> &'static str {
        "slow"
    }

    fn summarise(&self, _: &Input, _: Tokens, _: &Scale) -> Result<Summary, SummaryError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let answer = self.answers.lock().unwrap().recv().expect("the test tells");
        let text = answer.ok_or(SummaryError::Empty { name: "slow".to_owned() })?;
        Ok(Summary { text, ..Summary::default() })
    }
}

const PATIENCE: Duration = Duration::from_secs(20);

fn open(archive: &Arc<dyn Archive>, summarisers: Vec<Arc<dyn Summariser>>) -> Session {
    let rolling = Rolling {
        rounds_max: 3,
        budget: Tokens(1_500),
        summary_max: Tokens(300),
        ..Rolling::default()
    };
    let settings = Settings { rolling, summarisers, ..Settings::new().unwrap() };
    Session::open_with(Arc::clone(archive), "x", settings).unwrap()
}

fn memory() -> Arc<dyn Archive> {
    Arc::new(MemoryArchive::default())
}

fn round(number: u64) -> Round {
    let user = format!("Question {number}: {}", filler::words(60, number));
    Round::new(&user, &filler::words(240, number + 1_000), 0)
}

fn short(number: u64) -> Round {
    Round::new(&format!("Question {number}"), &filler::words(90, number), 0)
}

#[test]
fn neither_record_nor_window_waits_and_the_window_fits_meanwhile() {
    let archive = memory();
    let (tell, slow) = Slow::new();
    let mut session = open(&archive, vec![slow.clone()]);
    for number in 0..12 {
        assert_eq!(session.record(&round(number)).unwrap().folded, 0);
        let window = session.window("next", &Prompt::default()).unwrap();
        assert_eq!(window.shortfall, Tokens::ZERO, "round {number}");
    }
    assert!(session.is_folding());
    assert!(slow.asked.load(Ordering::SeqCst) <= 1, "never more than one fold at a time");
    for _ in 0..20 {
        let _ = tell.send(Some("They talked about many things.".to_owned()));
    }
    let folded = session.fold(0, PATIENCE).unwrap();
    assert!(folded.rounds > 0 && session.summary().unwrap().contains("many things"));
    assert!(session.tokens() <= Tokens(1_500) && session.verbatim().count() <= 3);
}

#[test]
fn a_fold_that_comes_after_a_newer_one_or_an_undo_is_discarded() {
    let archive = memory();
    let (tell, slow) = Slow::new();
    let mut session = open(&archive, vec![slow]);
    (0..5).for_each(|number| _ = session.record(&short(number)).unwrap());
    assert!(session.is_folding());
    // Another process folds the same rounds meanwhile.
    let mut other = open(&archive, vec![Arc::new(Extractive)]);
    assert!(other.fold(0, Duration::ZERO).unwrap().rounds > 0);
    let theirs = other.summary().unwrap().to_owned();
    tell.send(Some("too late".to_owned())).unwrap();
    session.fold(0, PATIENCE).unwrap();
    assert_eq!(session.summary(), Some(theirs.as_str()));
    assert_eq!(archive.batches("x").unwrap().len(), 1);

    session.record(&short(5)).unwrap();
    assert!(session.is_folding());
    session.undo().unwrap();
    tell.send(Some("too late again".to_owned())).unwrap();
    session.fold(0, Duration::from_millis(50)).unwrap();
    assert_eq!(session.summary(), None);
}

#[test]
fn a_pending_fold_survives_a_restart() {
    let archive = memory();
    let (_never, slow) = Slow::new();
    let mut session = open(&archive, vec![slow]);
    (0..5).for_each(|number| _ = session.record(&round(number)).unwrap());
    assert!(session.is_folding());
    drop(session);
    let (tell, slow) = Slow::new();
    tell.send(Some("They talked.".to_owned())).unwrap();
    tell.send(Some("They talked more.".to_owned())).unwrap();
    let mut session = open(&archive, vec![slow]);
    assert!(session.fold(0, PATIENCE).unwrap().rounds > 0);
    assert_eq!(session.verbatim().end, 5);
}

#[test]
fn a_summariser_that_fails_or_panics_leaves_it_to_the_next() {
    let archive = memory();
    let (tell, slow) = Slow::new();
    drop(tell);
    let mut session = open(&archive, vec![slow, Arc::new(Extractive)]);
    (0..5).for_each(|number| _ = session.record(&round(number)).unwrap());
    session.fold(0, PATIENCE).unwrap();
    assert!(session.verbatim().count() <= 3);
    let receipt = archive.batches("x").unwrap()[0].receipt.clone();
    assert!(receipt.contains("unexpected end") && receipt.contains("\"rung\":1"), "{receipt}");
}

#[test]
fn rounds_that_an_undo_brought_back_stay_for_as_long_as_there_is_room() {
    let archive = memory();
    let mut session = open(&archive, vec![Arc::new(Extractive)]);
    (0..4).for_each(|number| _ = session.record(&short(number)).unwrap());
    assert_eq!(session.verbatim(), 1..4);
    session.undo().unwrap();
    session.record(&short(4)).unwrap();
    let mut session = open(&archive, vec![Arc::new(Extractive)]);
    session.record(&short(5)).unwrap();
    assert_eq!(session.verbatim(), 0..6, "there is room");
    (6..40).for_each(|number| _ = session.record(&short(number)).unwrap());
    assert!(session.verbatim().count() <= 3 && session.tokens() <= Tokens(1_500));
}

/// Forgets at first, and puts back what it is told.
struct Forgetful(AtomicUsize);

impl Summariser for Forgetful {
    fn name(&self) -> &'static str {
        "forgetful"
    }

    fn is_instant(&self) -> bool {
        true
    }

    fn summarise(&self, _: &Input, _: Tokens, _: &Scale) -> Result<Summary, SummaryError> {
        Ok(Summary { text: "They met.".to_owned(), cost_micros: Some(2), ..Summary::default() })
    }

    fn repair(
        &self,
        summary: &str,
        missing: &[&str],
        _: Tokens,
        _: &Scale,
    ) -> Option<Result<Summary, SummaryError>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        let text = format!("{summary} {}", missing.join(" "));
        Some(Ok(Summary { text, cost_micros: Some(3), ..Summary::default() }))
    }
}

#[test]
fn one_repair_is_asked_for_where_it_is_cheaper_than_to_carry_the_facts() {
    let archive = memory();
    let forgetful = Arc::new(Forgetful(AtomicUsize::new(0)));
    let mut session = open(&archive, vec![forgetful.clone()]);
    let user = "Goal g-7f3a: never push to main. Always run the linter.";
    session.record(&Round::new(user, &filler::words(200, 1), 0)).unwrap();
    (0..3).for_each(|number| _ = session.record(&short(number)).unwrap());
    assert_eq!(forgetful.0.load(Ordering::SeqCst), 1);
    let batch = archive.batches("x").unwrap().remove(0);
    assert!(batch.text.contains("They met.") && batch.text.contains("g-7f3a"), "{}", batch.text);
    assert!(batch.receipt.contains("\"cost_micros\":5"), "{}", batch.receipt);
}
