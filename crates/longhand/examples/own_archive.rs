//! An archive of your own, on top of another: this one copies every message to a file of JSON Lines.
//!
//! `cargo run -p longhand --example own_archive`

use std::fs::File;
use std::io::Write as _;
use std::sync::{Arc, Mutex};

use longhand::archive::{Answer, Layer, Storage, Version, Write};
use longhand::{ArchiveError, MemoryArchive, Round, Session};

/// Writes messages to a file once the archive beneath has them.
struct Copying {
    beneath: MemoryArchive,
    copy: Mutex<File>,
}

impl Layer for Copying {
    fn beneath(&self) -> &dyn Storage {
        &self.beneath
    }

    fn write(&self, writes: Vec<Write>) -> Answer<'_, Vec<Result<Version, ArchiveError>>> {
        Box::pin(async move {
            let outcomes = self.beneath.write(writes.clone()).await?;
            let written = writes.iter().zip(&outcomes).filter(|(_, outcome)| outcome.is_ok());
            for record in written.flat_map(|(write, _)| &write.entries) {
                // The message is safe; a copy that cannot be written is no reason to refuse it.
                let _ = writeln!(self.copy.lock().expect("no panic"), "{}", record.entry.raw);
            }
            Ok(outcomes)
        })
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::temp_dir().join(format!("longhand-copy-{}.jsonl", std::process::id()));
    let copy = Mutex::new(File::create(&path)?);
    let archive = Arc::new(Copying { beneath: MemoryArchive::new(), copy });
    let mut session = Session::open(archive, "demo")?;
    session.record(&Round::new("Where is the config?", "In etc/app.toml.", 0))?;

    let copied = std::fs::read_to_string(&path)?;
    std::fs::remove_file(&path)?;
    println!("{copied}");
    assert_eq!(copied.lines().count(), 2);
    assert!(copied.contains("etc/app.toml"));
    Ok(())
}

#[test]
fn it_runs() {
    main().expect("the example runs");
}
