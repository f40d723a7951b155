//! `longhand archive copy`: from one file into another.

use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::run::{FinishedRun, Folder};

fn done(run: FinishedRun) -> FinishedRun {
    assert_eq!((run.status, run.stderr.as_str()), (0, ""), "{run:?}");
    run
}

fn round(number: usize, words: &str) -> String {
    let round = json!({"user": format!("Question {number}"), "assistant": format!("Answer {number}. {words}")});
    format!("{round}\n")
}

#[test]
fn an_archive_is_copied_into_another_and_compared() {
    let folder = Folder::new();
    let rounds: String = (0..30).map(|number| round(number, &"word ".repeat(150))).collect();
    done(folder.run_fed("record demo --archive a.db --policy rolling", rounds.as_bytes()));
    done(folder.run_fed("record side --archive a.db", round(1, "數\u{0}").as_bytes()));
    done(folder.run("pin demo 3 --archive a.db"));
    done(folder.run("undo demo --archive a.db"));
    done(folder.run_fed("record theirs --archive b.db", round(2, "").as_bytes()));
    let report = done(folder.run("archive copy a.db b.db --json")).json();
    assert_eq!((&report["sessions"], &report["uncopied"]), (&json!(2), &json!([])));
    assert_eq!(report["entries"], report["new_entries"]);
    for name in ["demo", "side"] {
        let [one, other] = ["a.db", "b.db"]
            .map(|archive| done(folder.run(&format!("export {name} --archive {archive}"))).stdout);
        assert_eq!(one, other, "{name}");
    }
    done(folder.run("show theirs --archive b.db"));
    done(folder.run("verify --archive b.db"));
    // What came later is all that the next copy writes.
    done(folder.run_fed("record demo --archive a.db", round(99, "").as_bytes()));
    let again = done(folder.run("archive copy a.db b.db"));
    assert!(
        again.stdout.contains("2 sessions") && again.stdout.contains("; 2 entries were new"),
        "{again:?}"
    );
    // What cannot be brought together is named, and stays.
    done(folder.run_fed("record side --archive a.db", round(3, "here").as_bytes()));
    done(folder.run_fed("record side --archive b.db", round(3, "there").as_bytes()));
    let differs = folder.run("archive copy a.db b.db --quiet");
    assert_eq!((differs.status, differs.stdout.as_str()), (1, ""), "{differs:?}");
    assert!(differs.stderr.starts_with("not copied: side ("), "{differs:?}");
    assert!(done(folder.run("export side --archive b.db")).stdout.contains("there"));
}

#[test]
fn what_cannot_be_copied_is_refused_before_anything_is_written() {
    let folder = Folder::new();
    done(folder.run_fed("record demo --archive a.db", round(1, "").as_bytes()));
    for (line, said) in [
        ("archive copy none.db b.db", "there is no archive at none.db"),
        ("archive copy a.db ./a.db", "a.db cannot be copied into itself"),
        ("archive copy a.db", "<TO>"),
    ] {
        let refused = folder.run(line);
        assert!(refused.status == 2 && refused.stderr.contains(said), "{line}: {refused:?}");
    }
    assert!(!folder.path("b.db").exists() && !folder.path("none.db").exists());
}

#[test]
fn a_copy_that_was_killed_goes_on() {
    let folder = Folder::new();
    let words = "A sentence of some length about the work of that day. ".repeat(40);
    for session in 0..12 {
        let rounds: String = (0..60).map(|number| round(number * 100 + session, &words)).collect();
        done(folder.run_fed(&format!("record s{session} --archive a.db"), rounds.as_bytes()));
    }
    let mut copies = 0;
    loop {
        let mut child = folder.start("archive copy a.db b.db");
        let begun = Instant::now();
        copies += 1;
        // A little longer each time, so that it ends.
        let limit = Duration::from_millis(40 * copies);
        let status = loop {
            match child.try_wait().unwrap() {
                None if begun.elapsed() < limit => sleep(Duration::from_millis(5)),
                status => break status,
            }
        };
        if status.is_some() {
            break;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(copies < 200);
    }
    assert!(copies > 1, "it was never killed");
    done(folder.run("archive copy a.db b.db"));
    for session in 0..12 {
        let [one, other] = ["a.db", "b.db"].map(|archive| {
            done(folder.run(&format!("export s{session} --archive {archive}"))).stdout
        });
        assert!(one == other, "s{session}");
    }
    done(folder.run("verify --archive b.db"));
}
