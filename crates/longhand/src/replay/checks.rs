//! Commands that check the work, and what they found. docs/REPLAY.md shows the tables.

use super::readable::{opening, plain};

/// Programs that check by themselves.
const PROGRAMS: &[&str] = &[
    "pytest",
    "py.test",
    "unittest",
    "tox",
    "nox",
    "jest",
    "vitest",
    "mocha",
    "ava",
    "playwright",
    "cypress",
    "rspec",
    "phpunit",
    "ctest",
    "tsc",
    "tsgo",
    "mypy",
    "pyright",
    "eslint",
    "biome",
    "oxlint",
    "ruff",
    "flake8",
    "pylint",
    "black",
    "prettier",
    "golangci-lint",
    "staticcheck",
    "shellcheck",
    "clippy-driver",
    "phpstan",
    "rubocop",
    "credo",
    "dialyzer",
];

/// Programs that run one of a project's tasks.
const RUNNERS: &[&str] = &[
    "cargo", "npm", "pnpm", "yarn", "bun", "deno", "go", "make", "just", "ninja", "cmake", "mvn",
    "mvnw", "gradle", "gradlew", "dotnet", "swift", "mix", "rake", "bazel", "zig", "composer",
];

/// Words that run the program which follows them.
const PREFIXES: &[&str] = &[
    "sudo", "time", "env", "npx", "bunx", "pnpx", "uvx", "uv", "poetry", "pipenv", "run", "exec",
    "dlx", "bundle", "python", "python3", "-m", "timeout", "nice", "command",
];

/// The words of a task, or of a tool's name, that say that it checks.
const TASKS: &[&str] = &[
    "test",
    "tests",
    "nextest",
    "lint",
    "linter",
    "clippy",
    "build",
    "check",
    "checks",
    "typecheck",
    "types",
    "compile",
    "verify",
    "vet",
    "fmt",
    "format",
    "precommit",
    "credo",
    "dialyzer",
    "ci",
];

/// How many characters of a verdict count.
const VERDICT_CHARS: usize = 160;

/// The checks of a command line, without what is done with their output; `None` if it has none.
pub(super) fn check(command: &str) -> Option<String> {
    let commands = commands(command).into_iter();
    let checks: Vec<String> = commands.filter(|one| is_check(one)).map(without_redirects).collect();
    (!checks.is_empty()).then(|| checks.join(" && "))
}

/// Whether a tool checks, by the words of its name.
pub(super) fn is_check_tool(name: &str) -> bool {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric());
    words.map(str::to_ascii_lowercase).any(|word| TASKS.contains(&word.as_str()))
}

/// The last line that counts or names passes, failures, errors or warnings, up to its last count: what is not run and
/// how long it took is no outcome. If it has no count, as a hint on how to run a test again, a line before it that counts
/// failures is the verdict.
pub(super) fn verdict(output: &str) -> Option<String> {
    let mut lines = output.lines().rev().map(plain).filter(|line| is_verdict(line));
    let last = lines.next()?;
    let counted = match counts(&last).next() {
        Some(_) => None,
        None => lines.find(|line| counts(line).any(|(_, is_failure)| is_failure)),
    };
    let line = counted.unwrap_or(last);
    let end = counts(&line).last().map_or(line.len(), |(end, _)| end);
    Some(opening(&line[..end], VERDICT_CHARS).to_owned())
}

/// Where the counts of a line end, such as `3 passed`, and whether each is of failures.
fn counts(line: &str) -> impl Iterator<Item = (usize, bool)> {
    let mut before: Option<u64> = None;
    let is_apart = |c: char| !c.is_alphanumeric();
    line.split(is_apart).filter(|word| !word.is_empty()).filter_map(move |word| {
        let count = before.take();
        before = word.parse().ok();
        let end = word.as_ptr().addr() - line.as_ptr().addr() + word.len();
        let low = word.to_lowercase();
        let is_failure = low.starts_with("fail");
        let count = count.filter(|_| is_failure || low.starts_with("pass"))?;
        Some((end, is_failure && count > 0))
    })
}

/// The commands of a line. What is quoted is no end of one.
fn commands(line: &str) -> Vec<&str> {
    let (mut commands, mut start, mut quote) = (Vec::new(), 0, None);
    for (at, c) in line.char_indices() {
        match (quote, c) {
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), _) if open == c => quote = None,
            (None, '\n' | ';' | '|' | '&') => {
                commands.push(line[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    commands.push(line[start..].trim());
    commands
}

fn is_check(command: &str) -> bool {
    let is_setting = |word: &str| word.contains('=') && !word.starts_with('-');
    let is_number = |word: &str| word.starts_with(|c: char| c.is_ascii_digit());
    let mut words = command
        .split_whitespace()
        .skip_while(|word| PREFIXES.contains(word) || is_setting(word) || is_number(word));
    let Some(program) = words.next().map(base) else { return false };
    let program = program.trim_end_matches(".exe");
    if PROGRAMS.contains(&program) {
        return true;
    }
    let is_task = |word: &str| {
        word.split(|c: char| !c.is_ascii_alphanumeric()).any(|part| TASKS.contains(&part))
    };
    // The task is the first word that is no option, or the one after `run` and the like.
    RUNNERS.contains(&program)
        && words
            .take_while(|word| *word != "--")
            .filter(|word| !word.starts_with(['-', '+']) && !PREFIXES.contains(word))
            .take(1)
            .any(is_task)
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn without_redirects(command: &str) -> String {
    let is_redirect = |word: &&str| word.contains('>') || word.contains('<');
    let words: Vec<&str> =
        command.split_whitespace().take_while(|word| !is_redirect(word)).collect();
    words.join(" ")
}

fn is_verdict(line: &str) -> bool {
    let words = line.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase);
    words.into_iter().any(|word| {
        matches!(word.as_str(), "pass" | "passes" | "passed" | "passing" | "warn" | "warnings")
            || ["fail", "error", "warning"].iter().any(|sign| word.contains(sign))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_found_in_command_lines() {
        for (command, expected) in [
            ("cargo test -p core", Some("cargo test -p core")),
            (
                "cd /src && RUST_LOG=1 cargo +nightly clippy --all 2>&1 | tail -5",
                Some("RUST_LOG=1 cargo +nightly clippy --all"),
            ),
            ("npm run build; npm test", Some("npm run build && npm test")),
            ("npx tsc --noEmit", Some("npx tsc --noEmit")),
            ("python -m pytest tests/a.py", Some("python -m pytest tests/a.py")),
            ("timeout 60 mix test", Some("timeout 60 mix test")),
            ("npm run test:unit", Some("npm run test:unit")),
            ("./gradlew :app:check", Some("./gradlew :app:check")),
            ("cat test.log", None),
            ("git commit -m 'fix; cargo test'", None),
            ("npm install", None),
            ("cargo run -- test", None),
            ("grep -rn build src", None),
        ] {
            assert_eq!(check(command).as_deref(), expected, "{command}");
        }
        assert!(is_check_tool("run_tests") && is_check_tool("lint"));
        assert!(!is_check_tool("read_file") && !is_check_tool("latest"));
    }

    #[test]
    fn the_verdict_is_the_last_line_that_counts_or_names() {
        for (output, expected) in [
            (
                "running 3 tests\ntest a ... FAILED\n\ntest result: ok. 3 passed; 0 failed\n\nDone in 3s",
                Some("test result: ok. 3 passed; 0 failed"),
            ),
            ("src/a.ts(3,1): error TS2304: no x", Some("src/a.ts(3,1): error TS2304: no x")),
            ("\u{1b}[32m  12   passing\u{1b}[0m (3s)\n", Some("12 passing")),
            (
                "test result: FAILED. 4 passed; 1 failed; 0 ignored\n\nerror: test failed, to rerun pass `--lib`",
                Some("test result: FAILED. 4 passed; 1 failed"),
            ),
            ("297 tests, 0 failures\nerror: exit 2", Some("error: exit 2")),
            ("TypeError: x is not a function\n  at a.js:3", Some("TypeError: x is not a function")),
            ("all good", None),
            ("the password is set", None),
        ] {
            assert_eq!(verdict(output).as_deref(), expected, "{output}");
        }
    }
}
