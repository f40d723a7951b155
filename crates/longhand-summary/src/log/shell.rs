//! What command lines and patches do to files and to the history of a repository.

use longhand_core::anchor::FileChange;

/// The files that a command line writes or removes, as far as that can be seen.
pub(super) fn written(command: &str) -> Vec<(FileChange, String)> {
    let mut files = Vec::new();
    for line in without_documents(command) {
        for part in line.split(['|', ';', '&']) {
            let words: Vec<&str> = part.split_whitespace().map(unquoted).collect();
            for (at, word) in words.iter().enumerate() {
                let target = match word.trim_start_matches(|c: char| c.is_ascii_digit()) {
                    ">" | ">>" => words.get(at + 1).copied(),
                    word => word.strip_prefix(">>").or(word.strip_prefix('>')),
                };
                files.extend(target.filter(|path| is_file(path)).map(|path| {
                    let change =
                        if word.contains(">>") { FileChange::Changed } else { FileChange::Created };
                    (change, path.to_owned())
                }));
            }
            let operands =
                || words.iter().skip(1).filter(|word| !word.starts_with('-') && is_file(word));
            if matches!(words.as_slice(), ["rm", ..] | ["git", "rm", ..]) {
                let folders = words.iter().skip(1).filter(|word| is_folder(word));
                files.extend(folders.map(|path| (FileChange::Deleted, (*path).to_owned())));
            }
            let (change, from) = match words.as_slice() {
                ["rm", ..] | ["git", "rm", ..] => (FileChange::Deleted, 0),
                ["tee", ..] => (FileChange::Changed, 0),
                ["sed", flags @ ..] if flags.iter().any(|flag| flag.starts_with("-i")) => {
                    // The script comes before the files.
                    (FileChange::Changed, operands().count().saturating_sub(1))
                }
                ["mv", ..] | ["git", "mv", ..] => {
                    (FileChange::Created, operands().count().saturating_sub(1))
                }
                _ => continue,
            };
            if matches!(words.as_slice(), ["mv", ..] | ["git", "mv", ..]) {
                let moved = operands().take(from);
                files.extend(moved.map(|path| (FileChange::Deleted, (*path).to_owned())));
            }
            files.extend(operands().skip(from).map(|path| (change, (*path).to_owned())));
        }
    }
    files
}

/// The lines of a command without the documents in it.
fn without_documents(command: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut end: Option<&str> = None;
    for line in command.lines() {
        if let Some(word) = end {
            if line.trim() == word {
                end = None;
            }
            continue;
        }
        end = line.split("<<").nth(1).map(|rest| {
            let rest = rest.trim_start_matches(['-', ' ']);
            unquoted(rest.split_whitespace().next().unwrap_or_default())
        });
        end = end.filter(|word| !word.is_empty());
        lines.push(line);
    }
    lines
}

fn unquoted(word: &str) -> &str {
    word.trim_matches(['"', '\''])
}

fn is_file(path: &str) -> bool {
    let named = path.contains(['.', '/']) && path.chars().any(char::is_alphanumeric);
    named
        && !path.starts_with("/dev/")
        && !path.starts_with("/tmp/")
        && !path.starts_with('&')
        && !path.contains(['$', '*', '(', ')', '{', '\\', '"', '\'', '`', '^', '<', '>', '='])
        && path.len() < 200
}

/// Whether an operand of `rm` is the plain name of a folder.
fn is_folder(word: &str) -> bool {
    word != "rm"
        && word.starts_with(char::is_alphanumeric)
        && word.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-')
}

/// A commit that git reports: its hash and its subject.
pub(super) fn commits(output: &str) -> impl Iterator<Item = (&str, &str, &str)> {
    // "[main 1a2b3c4] subject", "[main (root-commit) 1a2b3c4] subject"
    output.lines().filter(|line| line.starts_with('[')).filter_map(|line| {
        let (head, subject) = line[1..].split_once("] ")?;
        let (branch, hash) = head.rsplit_once(' ')?;
        let is_hash = (7..=40).contains(&hash.len()) && hash.bytes().all(|b| b.is_ascii_hexdigit());
        let branch = branch.split(' ').next().unwrap_or(branch);
        is_hash.then_some((branch, hash, subject.trim()))
    })
}

/// The branch that git says it is on.
pub(super) fn branch(output: &str) -> Option<&str> {
    const SIGNS: &[&str] = &["Switched to a new branch '", "Switched to branch '", "On branch "];
    output.lines().take(20).find_map(|line| {
        let rest = SIGNS.iter().find_map(|sign| line.strip_prefix(sign))?;
        Some(rest.trim_end_matches('\'').trim()).filter(|name| !name.is_empty() && name.len() < 100)
    })
}

/// Whether a command only reads, so that an empty result or the word `error` in its output means no failure.
pub(super) fn only_looks(command: &str) -> bool {
    #[rustfmt::skip]
    const LOOKS: &[&str] = &[
        "ack", "ag", "awk", "cat", "cd", "diff", "du", "echo", "fd", "file", "find", "git", "grep", "head",
        "jq", "less", "ls", "more", "pwd", "rg", "sed", "sort", "stat", "tail", "test", "tree", "uniq",
        "wc", "which",
    ];
    let last = command.lines().next().unwrap_or_default();
    let mut parts = last.split(['|', ';', '&']).map(str::trim).filter(|part| !part.is_empty());
    parts.all(|part| {
        let program = part.split_whitespace().next().unwrap_or_default();
        let commits = part.starts_with("git ")
            && ["push", "commit", "merge", "rebase", "apply", "cherry-pick"]
                .iter()
                .any(|verb| part.split_whitespace().nth(1) == Some(verb));
        LOOKS.contains(&program) && !commits
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use FileChange::{Changed, Created, Deleted};

    #[test]
    fn commands_tell_what_they_write() {
        for (command, expected) in [
            (
                "cat > src/a.rs <<'EOF'\nrm b.rs > c.rs\nEOF\nrm -f old.rs",
                vec![(Created, "src/a.rs"), (Deleted, "old.rs")],
            ),
            ("echo x >> log.txt 2>/dev/null", vec![(Changed, "log.txt")]),
            ("sed -i 's/a/b/g' src/a.rs src/b.rs", vec![(Changed, "src/b.rs")]),
            ("rm -rf build out/a.txt", vec![(Deleted, "build"), (Deleted, "out/a.txt")]),
            ("cargo test 2>&1 | tee out.txt", vec![(Changed, "out.txt")]),
            ("git mv a.rs b.rs", vec![(Deleted, "a.rs"), (Created, "b.rs")]),
            ("grep -n 'a > b' src/a.rs; rm /tmp/x.txt", vec![]),
        ] {
            let files = written(command);
            let found: Vec<_> =
                files.iter().map(|(change, path)| (*change, path.as_str())).collect();
            assert_eq!(found, expected, "{command}");
        }
    }

    #[test]
    fn commits_and_branches_are_read_from_what_git_says() {
        let output =
            "[main (root-commit) 1a2b3c4] first: x\n 1 file\n[fix 99b497cdead] second\n[x] no";
        let found: Vec<_> = commits(output).collect();
        assert_eq!(found, [("main", "1a2b3c4", "first: x"), ("fix", "99b497cdead", "second")]);
        assert_eq!(branch("Switched to a new branch 'fix'\n"), Some("fix"));
    }

    #[test]
    fn looking_is_told_from_doing() {
        assert!(only_looks("cat a | grep x") && only_looks("cd a && git log"));
        assert!(!only_looks("cargo test") && !only_looks("git push"));
    }
}
