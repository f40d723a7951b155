//! A summariser of your own: call your model in `summarise`.
//!
//! `cargo run -p longhand --example own_summariser`

use std::sync::Arc;

use longhand::driver::Scale;
use longhand::summary::Input;
use longhand::{
    Extractive, MemoryArchive, Prompt, Round, Session, SessionSettings, Summariser, Summary,
    SummaryError, Tokens,
};

/// Tells how many rounds there were, and how the newest ended.
struct LastWords;

impl Summariser for LastWords {
    fn name(&self) -> &'static str {
        "last-words"
    }

    // One that takes its time leaves this out, and is asked in the background.
    fn is_instant(&self) -> bool {
        true
    }

    fn summarise(&self, input: &Input, _: Tokens, _: &Scale) -> Result<Summary, SummaryError> {
        // The answer to the newest question may still be in sight, and is then not folded.
        let mut answers = input.rounds.iter().rev().map(|round| round.assistant);
        let last = answers.find(|answer| !answer.is_empty()).unwrap_or_default();
        let text = format!("{} rounds; the last one ended so: {last}", input.rounds.len());
        Ok(Summary { text, ..Summary::default() })
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // They are tried in order. What the work log holds (decisions, files, names) never depends on them.
    let settings = SessionSettings {
        budget: Tokens(6_000),
        summarisers: vec![Arc::new(LastWords), Arc::new(Extractive)],
        ..SessionSettings::new()?
    };
    let mut session = Session::open_with(Arc::new(MemoryArchive::new()), "demo", settings)?;
    for number in 0..400 {
        let question = format!("How is part {number} of the engine doing?");
        session.record(&Round::new(&question, &format!("Part {number} is done and tested."), 0))?;
    }
    let window = session.window("What is left?", &Prompt::default(), 0)?;
    println!("{}", window.json);
    assert!(window.json.contains("the last one ended so: Part"));
    Ok(())
}

#[test]
fn it_runs() {
    main().expect("the example runs");
}
