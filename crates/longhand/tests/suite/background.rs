//! Summarisers that take their time.
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhand::{
    Archive, Extractive, MemoryArchive, Prompt, Rolling, Round, Session, SessionSettings,
    Summariser, Tokens,
};
use longhand_archive::{LoggedBatch, Page};
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
    let settings =
        SessionSettings { budget: Tokens(1_500), summarisers, ..SessionSettings::new().unwrap() };
    let settings = settings.rolling(Rolling { rounds_max: 3, summary_max: Tokens(300) });
    Session::open_with(Arc::clone(archive), "x", settings).unwrap()
}

fn batches(archive: &Arc<dyn Archive>, session: &Session) -> Vec<LoggedBatch> {
    archive.batches(session.id(), Page::ALL).unwrap().items
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
        session.record(&round(number)).unwrap();
        let window = session.window("next", &Prompt::default(), 0).unwrap();
        assert_eq!(window.shortfall, Tokens::ZERO, "round {number}");
    }
    assert!(session.is_folding());
    for _ in 0..20 {
        let _ = tell.send(Some("They talked about many things.".to_owned()));
    }
    assert!(session.settle(PATIENCE).unwrap());
    // What the model wrote comes with the next batch, so that it costs no break of its own.
    assert!(!session.summary().unwrap().contains("many things"));
    session.record(&round(12)).unwrap();
    assert!(session.summary().unwrap().contains("many things"), "{:?}", session.summary());
    let receipt = &batches(&archive, &session)[0].receipt;
    assert!(receipt.contains(r#""summariser":"slow""#), "{receipt}");
}

#[test]
fn a_summary_that_comes_after_an_undo_is_discarded() {
    let archive = memory();
    let (tell, slow) = Slow::new();
    let mut session = open(&archive, vec![slow]);
    (0..5).for_each(|number| _ = session.record(&short(number)).unwrap());
    assert!(session.is_folding());
    session.undo().unwrap();
    assert!(!session.is_folding());
    let _ = tell.send(Some("too late".to_owned()));
    session.record(&short(5)).unwrap();
    assert!(session.summary().is_none_or(|summary| !summary.contains("too late")));
}

#[test]
fn another_process_that_folds_first_is_followed() {
    let archive = memory();
    let mut session = open(&archive, vec![Arc::new(Extractive)]);
    (0..3).for_each(|number| _ = session.record(&round(number)).unwrap());
    let mut other = open(&archive, vec![Arc::new(Extractive)]);
    (3..8).for_each(|number| _ = other.record(&round(number)).unwrap());
    session.record(&round(8)).unwrap();
    let mut third = open(&archive, vec![Arc::new(Extractive)]);
    let window = |session: &mut Session| session.window("now", &Prompt::default(), 0).unwrap().json;
    assert_eq!(window(&mut session), window(&mut third));
    assert_eq!(session.verbatim().end, 9);
}

#[test]
fn a_summariser_that_fails_or_panics_changes_nothing() {
    let archive = memory();
    let (tell, slow) = Slow::new();
    drop(tell);
    let mut session = open(&archive, vec![slow, Arc::new(Extractive)]);
    (0..5).for_each(|number| _ = session.record(&round(number)).unwrap());
    assert!(session.settle(PATIENCE).unwrap());
    assert!(session.verbatim().count() <= 3);
    let window = session.window("next", &Prompt::default(), 0).unwrap();
    assert_eq!(window.shortfall, Tokens::ZERO);
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
    assert!(session.verbatim().count() <= 3 && session.tokens().unwrap() <= Tokens(1_500));
}
