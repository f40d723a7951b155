//! Recall with the real weights of a small model: what was said in other words comes back.
//!
//! Without `LONGHAND_EMBEDDINGS`, the folder of the model, they say so and pass.

use std::path::PathBuf;
use std::sync::Arc;

use longhand::embeddings::{Embedder, Embeddings, ModelFolder};
use longhand::eval::{
    EvidenceQuestion, EvidenceTurn, QuestionFile, QuestionedConversation, recall,
};
use longhand::{
    Archive, Owner, Prompt, Round, Session, SessionId, SessionSettings, SqliteArchive, Tokens,
};

fn model() -> Option<Arc<dyn Embedder>> {
    let folder = std::env::var_os("LONGHAND_EMBEDDINGS").filter(|folder| !folder.is_empty());
    let Some(folder) = folder.map(PathBuf::from) else {
        println!("skipped: LONGHAND_EMBEDDINGS is not set; `cargo xtask test-embeddings` sets it");
        return None;
    };
    Some(Arc::new(ModelFolder::open(folder).unwrap()))
}

/// What is asked for, and what was said of it: no word is in both.
const FACTS: &[(&str, &str)] = &[
    ("Which pet ruined the furniture?", "Our puppy chewed through the sofa on Sunday."),
    ("How do I travel to the office?", "I bike to work unless the roads are icy."),
    ("What does my daughter study?", "Mia is reading chemistry at university now."),
    ("Do I have any allergies?", "Peanuts make my throat swell, so we never keep them at home."),
    ("Which country will we visit on holiday?", "We booked flights to Lisbon for August."),
    ("What instrument am I learning?", "Every evening I practise the cello for an hour."),
];

const SMALL_TALK: &[&str] = &[
    "The printer on the second floor is out of paper.",
    "They moved the meeting to the large room.",
    "Please send the invoice before noon.",
    "The new monitor has a better stand.",
    "Somebody left the window open in the corridor.",
    "We should water the plants beside the stairs.",
    "The coffee machine needs a new filter.",
    "A parcel for the third floor has arrived.",
];

fn said() -> Vec<String> {
    let mut said: Vec<String> = (0..160)
        .map(|at| format!("{} That was note {at}.", SMALL_TALK[at % SMALL_TALK.len()]))
        .collect();
    for (at, (_, fact)) in FACTS.iter().enumerate() {
        said.insert(10 + at * 20, (*fact).to_owned());
    }
    said
}

#[test]
fn what_was_said_in_other_words_is_found() {
    let Some(model) = model() else { return };
    let said = said();
    let turns = said.iter().enumerate().map(|(at, text)| EvidenceTurn {
        id: at.to_string(),
        speaker: "user".to_owned(),
        text: text.clone(),
        timestamp: None,
        image_caption: None,
    });
    let place = |fact: &str| said.iter().position(|text| text == fact).unwrap().to_string();
    let questions = FACTS.iter().map(|(question, fact)| EvidenceQuestion {
        question: (*question).to_owned(),
        evidence: vec![place(fact)],
        category: None,
    });
    let conversation =
        QuestionedConversation { turns: turns.collect(), questions: questions.collect() };
    let file = QuestionFile { conversations: vec![conversation] };
    let meter = SessionSettings::new().unwrap().meter;
    let evidence = |embedder: Option<Arc<dyn Embedder>>| {
        recall(&file, &*meter, Tokens(300), embedder, &mut |_, _| {}).unwrap().evidence_all
    };
    let (words, meanings) = (evidence(None), evidence(Some(model)));
    assert!(meanings >= 80.0 && words <= 40.0, "{words} by words, {meanings} by meaning");
}

#[test]
fn a_window_brings_back_what_was_said_in_other_words() {
    let Some(model) = model() else { return };
    let folder = tempfile::tempdir().unwrap();
    let archive: Arc<dyn Archive> =
        Arc::new(SqliteArchive::open(folder.path().join("a.db")).unwrap());
    let tell = Box::new(|error: &_| panic!("{error}"));
    let embeddings = Arc::new(Embeddings::new(Arc::clone(&archive), model, tell).unwrap());
    let settings = SessionSettings {
        budget: Tokens(2_500),
        recall_percent: 25,
        embeddings: Some(Arc::clone(&embeddings)),
        ..SessionSettings::new().unwrap()
    };
    let mut session = Session::open_with(Arc::clone(&archive), "s", settings).unwrap();
    for (at, text) in said().iter().enumerate() {
        session.record(&Round::new(text, "I see.", at as i64 * 60_000)).unwrap();
    }
    session.window("And now?", &Prompt::default(), 0).unwrap();
    embeddings.complete(SessionId::named(Owner::LOCAL, "s")).unwrap();
    let (question, fact) = FACTS[2];
    let window = session.preview(question, &Prompt::default()).unwrap();
    assert!(window.json.contains(fact), "{}", window.json);
}
