use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use longhand::{Archive, Extractive, MemoryArchive, Prompt, Rolling, Session, SessionSettings};
use longhand_archive::Page;
use longhand_core::{Scale, Tokens};
use longhand_dialect::read;
use longhand_model::{Api, ModelSummariser};
use longhand_summary::{Input, Summariser, Summary, SummaryError};

use crate::common::{client, model, name, server};
use crate::conversation::{GOLDEN, PINNED, ROUNDS, round};

/// How long the model folds for each API; after that, the summariser that needs no model does. Until its
/// first answer it has twice the time.
const TIME_MAX: Duration = Duration::from_mins(1);

/// The longest wait for one answer.
const ANSWER_MAX: Duration = Duration::from_secs(90);

/// The most of one answer: the model uses what it is given.
const OUTPUT_MAX: Tokens = Tokens(160);

/// How many rounds are recorded before a fold is waited for.
const ROUNDS_AT_ONCE: usize = 5;

/// Less than summary and rounds come to before a fold is there.
const BUDGET: Tokens = Tokens(2_200);

const LATE: &str = "its time is over";

/// A model for as long as there is time.
struct Timed {
    inner: ModelSummariser,
    start: Instant,
    asked: AtomicUsize,
    answered: AtomicUsize,
}

impl Summariser for Timed {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn summarise(
        &self,
        input: &Input,
        limit: Tokens,
        scale: &Scale,
    ) -> Result<Summary, SummaryError> {
        let has_answered = self.answered.load(Ordering::SeqCst) > 0;
        if self.start.elapsed() > if has_answered { TIME_MAX } else { 2 * TIME_MAX } {
            let (name, reason) = (self.name().to_owned(), LATE.to_owned());
            return Err(SummaryError::Unavailable { name, reason });
        }
        self.asked.fetch_add(1, Ordering::SeqCst);
        let summary = self.inner.summarise(input, limit, scale)?;
        self.answered.fetch_add(1, Ordering::SeqCst);
        Ok(summary)
    }
}

#[test]
fn a_long_conversation_keeps_what_matters_in_chat_streaming() {
    check(Api::Chat, true);
}

#[test]
fn a_long_conversation_keeps_what_matters_in_responses_not_streaming() {
    check(Api::Responses, false);
}

#[test]
fn a_long_conversation_keeps_what_matters_in_anthropic_streaming() {
    check(Api::Anthropic, true);
}

fn check(api: Api, stream: bool) {
    let Some(url) = server() else { return };
    let start = Instant::now();
    let client = Arc::new(client(ANSWER_MAX));
    let mut inner =
        ModelSummariser::new(client, model(api, &url)).unwrap().with_output_max(OUTPUT_MAX);
    if !stream {
        inner = inner.without_stream();
    }
    let timed =
        Arc::new(Timed { inner, start, asked: AtomicUsize::new(0), answered: AtomicUsize::new(0) });
    let settings = SessionSettings {
        budget: BUDGET,
        summarisers: vec![timed.clone(), Arc::new(Extractive)],
        ..SessionSettings::new().unwrap()
    };
    let settings = settings.rolling(Rolling { rounds_max: 4, summary_max: Tokens(500) });
    let archive = Arc::new(MemoryArchive::default());
    let mut session = Session::open_with(archive.clone(), "real", settings).unwrap();
    let prompt = Prompt { dialect: api.dialect(), ..Prompt::default() };
    let window = |session: &mut Session, number: usize| {
        let window = session.window("What is next?", &prompt, 0).unwrap();
        assert!(window.tokens <= BUDGET && window.shortfall == Tokens::ZERO, "round {number}");
        let read = read(window.json.clone().into_bytes(), Some(prompt.dialect)).unwrap();
        let grave: Vec<_> = read.check().into_iter().filter(|finding| finding.grave).collect();
        assert!(grave.is_empty(), "round {number}: {grave:?}");
        window
    };
    for number in 0..ROUNDS {
        session.record(&round(number)).unwrap();
        if number == 0 {
            session.pin(0, true).unwrap();
        }
        window(&mut session, number);
        if (number + 1).is_multiple_of(ROUNDS_AT_ONCE) {
            assert!(session.settle(2 * ANSWER_MAX + TIME_MAX).unwrap());
            assert!(session.verbatim().count() <= 4);
            window(&mut session, number);
        }
    }
    let told = window(&mut session, ROUNDS).json.replace("\\\"", "\"");
    for anchor in GOLDEN.iter().map(|golden| golden.anchor).chain([PINNED]) {
        assert!(told.contains(anchor), "{anchor} is forgotten: {told}");
    }
    let batches = archive.batches(session.id(), Page::ALL).unwrap().items;
    let told_by_model = |receipt: &str| receipt.contains(r#""story":{"#);
    let accepted = batches.iter().filter(|batch| told_by_model(&batch.receipt)).count();
    println!(
        "{}: {} batches, {accepted} with a summary by the model; it was asked {} times and answered {}; {:.1} s",
        name(api),
        batches.len(),
        timed.asked.load(Ordering::SeqCst),
        timed.answered.load(Ordering::SeqCst),
        start.elapsed().as_secs_f64(),
    );
    if timed.answered.load(Ordering::SeqCst) == 0 {
        println!("the model is too slow here to have its say");
        return;
    }
    assert!(accepted > 0, "no summary of the model's was good enough");
}
