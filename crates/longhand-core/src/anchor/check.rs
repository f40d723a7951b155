//! Commands that check the work, and what they found.

/// Programs that check by themselves.
#[rustfmt::skip]
const PROGRAMS: &[&str] = &[
    "ava", "biome", "black", "clippy-driver", "credo", "ctest", "cypress", "dialyzer", "eslint",
    "flake8", "golangci-lint", "jest", "mocha", "mypy", "nox", "oxlint", "phpstan", "phpunit",
    "playwright", "prettier", "py.test", "pylint", "pyright", "pytest", "rspec", "rubocop", "ruff",
    "shellcheck", "staticcheck", "tox", "tsc", "tsgo", "unittest", "vitest",
];

/// Programs that run a task of a project.
#[rustfmt::skip]
const RUNNERS: &[&str] = &[
    "bazel", "bun", "cargo", "cmake", "composer", "deno", "dotnet", "go", "gradle", "gradlew",
    "just", "make", "mix", "mvn", "mvnw", "ninja", "npm", "pnpm", "rake", "swift", "yarn", "zig",
];

/// Words that run the program that follows them.
#[rustfmt::skip]
const PREFIXES: &[&str] = &[
    "-m", "bundle", "bunx", "command", "dlx", "env", "exec", "nice", "npx", "pipenv", "pnpx",
    "poetry", "python", "python3", "run", "sudo", "time", "timeout", "uv", "uvx",
];

/// Words in the name of a task or tool that say that it checks.
#[rustfmt::skip]
const TASKS: &[&str] = &[
    "build", "check", "checks", "ci", "clippy", "compile", "credo", "dialyzer", "fmt", "format",
    "lint", "linter", "nextest", "precommit", "test", "tests", "typecheck", "types", "verify", "vet",
];

/// The checks that a command line runs, without what is done with their output; `None` if there are
/// none.
///
/// ```
/// use longhand_core::anchor::check_of;
///
/// assert_eq!(check_of("cd a && cargo test -p b 2>&1 | tail").as_deref(), Some("cargo test -p b"));
/// assert_eq!(check_of("cat test.log"), None);
/// ```
pub fn check_of(command: &str) -> Option<String> {
    let commands = command.split(['\n', ';', '|', '&']).map(str::trim);
    let checks: Vec<String> = commands.filter(|one| is_check(one)).map(bare).collect();
    (!checks.is_empty()).then(|| checks.join(" && "))
}

/// Whether a tool checks, by the words of its name.
pub fn is_check_tool(name: &str) -> bool {
    has_task(&name.to_ascii_lowercase())
}

/// The last line that counts or names passes, failures, errors or warnings.
///
/// After its count a runner may only say that something failed, or how to run it again; then the last line that counts
/// failures tells more. It is returned as it stands, up to what was not run and how long the run took.
pub fn verdict_line(output: &str) -> Option<&str> {
    let mut verdicts = output.lines().rev().filter(|line| is_verdict(line));
    let last = verdicts.next()?;
    let mut counted = None;
    if outcomes(last).next().is_none() {
        counted = verdicts.find(|line| outcomes(line).any(|outcome| outcome.is_failure()));
    }
    Some(without_trifles(counted.unwrap_or(last).trim()))
}

/// A number of passes or failures.
struct ResultCount<'l> {
    count: &'l str,
    word: &'l str,
}

impl ResultCount<'_> {
    fn is_failure(&self) -> bool {
        starts_with(self.word, "fail") && self.count.bytes().any(|digit| digit != b'0')
    }
}

/// What a line counts, such as `3 passed` and `1 failed`.
fn outcomes(line: &str) -> impl Iterator<Item = ResultCount<'_>> {
    let words = || line.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let pairs = words().zip(words().skip(1)).map(|(count, word)| ResultCount { count, word });
    pairs.filter(|ResultCount { count, word }| {
        (starts_with(word, "pass") || starts_with(word, "fail"))
            && count.bytes().all(|byte| byte.is_ascii_digit())
    })
}

fn starts_with(word: &str, start: &str) -> bool {
    word.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start))
}

/// Cuts the last clauses of a verdict if they say what was not run or how long the run took.
fn without_trifles(verdict: &str) -> &str {
    let is_trifle = |clause: &str| {
        clause == "0 ignored"
            || clause.starts_with("finished in ")
            || clause.ends_with(" measured")
            || clause.ends_with(" filtered out")
    };
    let mut rest = verdict;
    while let Some((before, _)) = rest.rsplit_once("; ").filter(|(_, last)| is_trifle(last)) {
        rest = before;
    }
    rest
}

fn is_check(command: &str) -> bool {
    let is_prefix = |word: &&str| {
        PREFIXES.contains(word)
            || (word.contains('=') && !word.starts_with('-'))
            || word.starts_with(|c: char| c.is_ascii_digit())
    };
    let mut words = command.split_whitespace().skip_while(is_prefix);
    let Some(program) = words.next() else { return false };
    let program = program.rsplit('/').next().unwrap_or(program).trim_end_matches(".exe");
    if PROGRAMS.contains(&program) {
        return true;
    }
    // These run the project's program, not one of its tasks.
    let runs_program = matches!(program, "cargo" | "go" | "dotnet" | "swift" | "zig");
    let is_task =
        |word: &&str| !word.starts_with(['-', '+']) && (runs_program || !PREFIXES.contains(word));
    RUNNERS.contains(&program) && words.find(is_task).is_some_and(has_task)
}

fn has_task(name: &str) -> bool {
    name.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| TASKS.contains(&word))
}

/// A command without redirections.
fn bare(command: &str) -> String {
    let words = command.split_whitespace().take_while(|word| !word.contains(['<', '>']));
    words.collect::<Vec<_>>().join(" ")
}

fn is_verdict(line: &str) -> bool {
    const WORDS: &[&str] = &["pass", "passes", "passed", "passing", "warn"];
    const SIGNS: &[&str] = &["fail", "error", "warning"];
    line.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() >= 4).any(|word| {
        let has = |sign: &&str| {
            word.as_bytes().windows(sign.len()).any(|at| at.eq_ignore_ascii_case(sign.as_bytes()))
        };
        WORDS.iter().any(|known| word.eq_ignore_ascii_case(known)) || SIGNS.iter().any(has)
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
                "cd /src && RUST_LOG=1 cargo +nightly clippy 2>&1",
                Some("RUST_LOG=1 cargo +nightly clippy"),
            ),
            ("npm run build; npm test", Some("npm run build && npm test")),
            ("npx tsc --noEmit", Some("npx tsc --noEmit")),
            ("python -m pytest tests/a.py", Some("python -m pytest tests/a.py")),
            ("timeout 60 mix test", Some("timeout 60 mix test")),
            ("./gradlew :app:check", Some("./gradlew :app:check")),
            ("git commit -m 'cargo test'", None),
            ("npm install", None),
            ("cargo run -- test", None),
        ] {
            assert_eq!(check_of(command).as_deref(), expected, "{command}");
        }
        assert!(is_check_tool("run_tests") && !is_check_tool("latest"));
    }

    #[test]
    fn the_last_line_that_counts_is_the_verdict() {
        for (output, expected) in [
            (
                "test a ... FAILED\n\ntest result: 3 passed; 0 failed \nDone in 3s",
                Some("test result: 3 passed; 0 failed"),
            ),
            ("src/a.ts(3,1): error TS2304: no x", Some("src/a.ts(3,1): error TS2304: no x")),
            ("TypeError: x\n  at a.js:3", Some("TypeError: x")),
            (
                "test result: FAILED. 4 passed; 1 failed; 0 ignored; 0 measured; 53 filtered out; finished in 0.94s\n\n\
                 error: test failed, to rerun pass `--lib`",
                Some("test result: FAILED. 4 passed; 1 failed"),
            ),
            ("4 passed; 2 ignored; 0 measured", Some("4 passed; 2 ignored")),
            (
                "warning: `a` generated 1 warning\nerror: linking failed",
                Some("error: linking failed"),
            ),
            ("297 tests, 0 failures\nerror: exit 2", Some("error: exit 2")),
            ("1 failed\n(again)\n3 passed; 0 failed", Some("3 passed; 0 failed")),
            ("the password is set", None),
        ] {
            assert_eq!(verdict_line(output), expected, "{output}");
        }
    }
}
