//! Where each rule about sessions has its home.
//!
//! Most of it holds by types: no method of a storage takes the head of a path or says what is live. What types cannot
//! say is looked for here.

use std::path::Path;

/// Something that only some files may do.
struct Home {
    /// Words of which a line has one if it does it; in pieces, or this file would break its own rule.
    words: &'static [&'static str],
    /// The files that the rule is about.
    within: &'static [&'static str],
    /// Those among them that may do it.
    allowed: &'static [&'static str],
    what: &'static str,
}

const COMMAND: &str = "crates/longhand-cli/src/";
const SERVER: &str = "crates/longhand-server/src/";
const ARCHIVIST: &str = "crates/longhand-server/src/archivist/";
const ARCHIVE: &str = "crates/longhand-archive/src/";

const HOMES: &[Home] = &[
    Home {
        words: &[
            concat!("blocking_", "recv("),
            concat!("block_", "on("),
            concat!("thread::", "sleep("),
            concat!(" wa", "it("),
            concat!("(wa", "it("),
            concat!("archive::", "wait"),
        ],
        within: &[SERVER],
        allowed: &[ARCHIVIST],
        what: "blocks a thread: only the archivist has one to wait on",
    },
    Home {
        words: &[
            concat!("archive.", "head("),
            concat!("archive.", "live("),
            concat!("archive.", "tree("),
            concat!("archive.", "path("),
            concat!("archive.", "entries("),
            concat!("archive.", "batches("),
            concat!("archive.", "session("),
            concat!("archive.", "sessions("),
            concat!("archive.", "undo("),
            concat!("archive.", "begin("),
            concat!("archive.", "append("),
            concat!("archive.", "derived("),
            concat!("archive.", "put_derived("),
            concat!("archive.", "find_path("),
            concat!("archive.", "answer("),
        ],
        within: &[SERVER],
        allowed: &[ARCHIVIST],
        what: "waits for the archive: a request awaits its storage",
    },
    Home {
        words: &[
            concat!("archive.", "begin("),
            concat!("archive().", "begin("),
            concat!("archive.", "append("),
            concat!("archive().", "append("),
            concat!("archive.", "commit("),
            concat!("archive().", "commit("),
            concat!("archive.", "undo("),
            concat!("archive().", "undo("),
            concat!("archive.", "live("),
            concat!("archive().", "live("),
            concat!("archive.", "head("),
            concat!("archive().", "head("),
            concat!("archive.", "session("),
            concat!("archive().", "session("),
            concat!("archive.", "sessions("),
            concat!("archive().", "sessions("),
            concat!("archive.", "find_path("),
            concat!("archive().", "find_path("),
            concat!("archive.", "path("),
            concat!("archive().", "path("),
            concat!("archive.", "entries("),
            concat!("archive().", "entries("),
            concat!("archive.", "tree("),
            concat!("archive().", "tree("),
            concat!("archive.", "batches("),
            concat!("archive().", "batches("),
            concat!("archive.", "search("),
            concat!("archive().", "search("),
            concat!("archive.", "pin("),
            concat!("archive().", "pin("),
            concat!("archive.", "reference("),
            concat!("archive().", "reference("),
            concat!("archive.", "preamble("),
            concat!("archive().", "preamble("),
            concat!("archive.", "requests("),
            concat!("archive().", "requests("),
            concat!("archive.", "derived("),
            concat!("archive().", "derived("),
            concat!("archive.", "derived_keys("),
            concat!("archive().", "derived_keys("),
            concat!("archive.", "export("),
            concat!("archive().", "export("),
            concat!("archive.", "restore("),
            concat!("archive().", "restore("),
            concat!("archive.", "verify("),
            concat!("archive().", "verify("),
            concat!("archive.", "remove("),
            concat!("archive().", "remove("),
            // Whoever holds one of these has asked an archive, under whatever name.
            concat!("Session", "Info"),
            concat!("Logged", "Batch"),
            concat!("Request", "Record"),
            concat!("Page", "::"),
            concat!("Scope", "::"),
            concat!("New", "Session"),
            concat!("rec", "all::"),
            concat!("unr", "ead::"),
        ],
        within: &[COMMAND],
        allowed: &[],
        what: "asks the archive: the command prints what `longhand::app` answers",
    },
    Home {
        words: &[concat!("ArchiveError::", "Conflict"), concat!("Conflict", "::")],
        within: &["crates/"],
        allowed: &[ARCHIVE, "crates/longhand/src/driver/", "crates/longhand-testkit/"],
        what: "handles another writer's change: that is tried again by the driver, and nowhere else",
    },
    Home {
        words: &[
            concat!("Session", "State"),
            concat!("Batch", "Log"),
            concat!("session::", "Tree"),
            concat!("newest_", "live"),
            concat!("check_", "commit("),
        ],
        within: &["crates/longhand-archive/src/sqlite", "crates/longhand-archive/src/memory"],
        allowed: &[],
        what: "decides about a session: a storage only stores",
    },
    Home {
        words: &[
            concat!("head: ", "Option<Seq>"),
            concat!("Logged", "Batch>"),
            concat!("Sqli", "te"),
        ],
        within: &["crates/longhand-archive/src/storage.rs"],
        allowed: &[],
        what: "does not belong into the seam: a storage knows no paths, and is not of one kind",
    },
];

/// The places of a file that break a rule. Its own tests may.
pub(super) fn complaints(path: &Path, text: &str) -> Vec<String> {
    let lines = text.lines().take_while(|line| *line != "#[cfg(test)]").zip(1..);
    let found = lines.filter_map(|(line, number)| Some((number, complaint(path, line)?)));
    found.map(|(number, what)| format!("{}:{number}: {what}", path.display())).collect()
}

/// How a line breaks a rule of its file, if it does.
fn complaint(path: &Path, line: &str) -> Option<String> {
    if line.trim_start().starts_with("//") || line.contains("fn wait(") {
        return None;
    }
    let is_in = |places: &[&str]| {
        let path = path.to_string_lossy();
        places.iter().any(|place| path.starts_with(place))
    };
    HOMES.iter().find_map(|home| {
        let word = home.words.iter().find(|word| line.contains(**word))?;
        let is_wrong = is_in(home.within) && !is_in(home.allowed);
        is_wrong.then(|| format!("`{}` {}", word.trim(), home.what))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_is_kept_where_it_applies_and_nowhere_else() {
        for home in HOMES {
            for word in home.words {
                let line = format!("    let done = x{word}y);");
                let found = |place: &str| complaint(Path::new(&format!("{place}x.rs")), &line);
                assert!(home.within.iter().all(|place| found(place).is_some()), "{word}");
                assert!(home.allowed.iter().all(|place| found(place).is_none()), "{word}");
                assert_eq!(
                    complaint(Path::new("crates/xtask/src/x.rs"), &format!("// {word}")),
                    None
                );
            }
        }
    }
}
