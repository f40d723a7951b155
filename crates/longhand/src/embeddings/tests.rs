use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use longhand_archive::{After, MemoryArchive, NewEntry, NewSession, Owner, wait};

use super::*;
use crate::driver::new_entry;

/// Knows three subjects by their words in two languages, and counts how many texts it has read.
#[derive(Default)]
struct Subjects {
    read: AtomicUsize,
    fails: AtomicBool,
}

impl Embedder for Subjects {
    fn version(&self) -> Result<String, EmbedError> {
        Ok("subjects".to_owned())
    }

    fn vectors(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        if self.fails.load(Ordering::Relaxed) {
            return Err(EmbedError::Model("it is asleep".to_owned()));
        }
        self.read.fetch_add(texts.len(), Ordering::Relaxed);
        let subjects = [["dog", "Hund"], ["ship", "Schiff"], ["bread", "Brot"]];
        let about = |text: &str| {
            let has = |words: [&str; 2]| words.iter().any(|word| text.contains(word));
            subjects.map(|words| if has(words) { 1.0 } else { 0.1 }).to_vec()
        };
        Ok(texts.iter().map(|text| about(text)).collect())
    }
}

fn said(role: &str, text: &str) -> NewEntry {
    new_entry("chat", format!(r#"{{"role":"{role}","content":"{text}"}}"#), true, 0).unwrap()
}

fn archive(texts: &[&str]) -> (Arc<MemoryArchive>, SessionId) {
    let archive = Arc::new(MemoryArchive::default());
    let id = SessionId::named(Owner::LOCAL, "s");
    begin(&archive, id, texts);
    (archive, id)
}

fn begin(archive: &MemoryArchive, id: SessionId, texts: &[&str]) {
    archive.begin(id, &NewSession { name: "s".to_owned(), ..NewSession::default() }).unwrap();
    let entries: Vec<NewEntry> = texts.iter().map(|text| said("user", text)).collect();
    archive.append(id, After::Newest, &entries).unwrap();
}

fn embeddings(archive: &Arc<MemoryArchive>, embedder: &Arc<Subjects>) -> Embeddings {
    let tell: Tell = Box::new(|error| panic!("{error}"));
    Embeddings::new(archive.clone(), embedder.clone(), tell).unwrap()
}

#[test]
fn vectors_are_computed_once_and_kept_with_their_session() {
    let texts: Vec<String> = (0..40).map(|at| format!("about the weather of day {at}")).collect();
    let mut texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    texts[7] = "Der Hund bellt";
    let (archive, id) = archive(&texts);
    let embedder = Arc::new(Subjects::default());
    let first = embeddings(&archive, &embedder);
    assert!(wait(first.likeness(id, "my dog")).is_none(), "nothing is known yet");
    first.complete(id).unwrap();
    let likeness = wait(first.likeness(id, "my dog")).unwrap();
    assert_eq!(likeness.nearest(1), [7]);
    drop(first);
    let read = embedder.read.load(Ordering::Relaxed);
    assert_eq!(read, 40 + 1);
    let second = embeddings(&archive, &embedder);
    second.complete(id).unwrap();
    assert_eq!(wait(second.likeness(id, "my dog")).unwrap().nearest(1), [7]);
    assert_eq!(embedder.read.load(Ordering::Relaxed), read + 1, "only the question is read");
    // What is new is computed, and what was removed is gone.
    archive.append(id, After::Newest, &[said("user", "a ship"), said("tool", "ships")]).unwrap();
    second.complete(id).unwrap();
    assert_eq!(wait(second.likeness(id, "das Schiff")).unwrap().nearest(1), [40]);
    archive.remove(id).unwrap();
    assert_eq!(archive.derived_keys(id, "vectors").unwrap(), Vec::<String>::new());
    begin(&archive, id, &["some bread"]);
    second.complete(id).unwrap();
    assert_eq!(wait(second.likeness(id, "das Brot")).unwrap().nearest(9), [0]);
}

#[test]
fn a_model_that_fails_is_told_of_and_nothing_waits_for_it() {
    let (archive, id) = archive(&["a dog"]);
    let embedder = Arc::new(Subjects::default());
    embedder.fails.store(true, Ordering::Relaxed);
    let told = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&told);
    let tell: Tell = Box::new(move |_| _ = count.fetch_add(1, Ordering::Relaxed));
    let embeddings = Embeddings::new(archive.clone(), embedder.clone(), tell).unwrap();
    assert!(embeddings.complete(id).is_err());
    assert!(wait(embeddings.likeness(id, "my dog")).is_none());
    assert!(wait(embeddings.likeness(SessionId::default(), "my dog")).is_none());
    // The thread that computes what is missing tells of it in its own time.
    let begun = Instant::now();
    while told.load(Ordering::Relaxed) == 0 && begun.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(embeddings);
    assert!(told.load(Ordering::Relaxed) > 0);
    assert_eq!(archive.derived_keys(id, "vectors").unwrap(), Vec::<String>::new());
}
