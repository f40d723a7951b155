//! An endless conversation: every round is kept, and the window always fits.
//!
//! `cargo run -p longhand --example session`

use std::sync::Arc;

use longhand::archive::Scope;
use longhand::{Archive, MemoryArchive, Prompt, Round, Session, SessionSettings, Tokens};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // `SqliteArchive::open("conversations.db")?` keeps it in a file.
    let archive = Arc::new(MemoryArchive::new());
    let settings = SessionSettings { budget: Tokens(2_000), ..SessionSettings::new()? };
    let mut session = Session::open_with(archive.clone(), "demo", settings)?;

    for number in 0..100 {
        let question = format!("What is the port of server-{number}?");
        let answer = format!("server-{number} listens on port {}.", 4_000 + number);
        session.record(&Round::new(&question, &answer, 0))?;
    }
    let prompt = Prompt { base: "Be brief.".to_owned(), ..Prompt::default() };
    let window = session.window("And that of server-7?", &prompt, 0)?;
    println!("{} tokens for 101 questions:\n{}", window.tokens, window.json);
    assert!(window.tokens <= Tokens(2_000));

    // What the window left out is still there.
    let hits = archive.search(&Scope::Session(session.id()), "server-7 port", 1)?;
    println!("found: {}", hits[0].snippet);
    assert!(hits[0].snippet.contains("4007"));
    Ok(())
}

#[test]
fn it_runs() {
    main().expect("the example runs");
}
