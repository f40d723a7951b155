//! What `cargo test` would print.

use std::fmt::Write as _;

use super::build;
use super::grammar::{Bindings, expand};
use super::phrases;
use super::project::{Project, ProjectTest};
use crate::rng::Rng;

/// How much of a run is shown.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Detail {
    /// A dot for each test that passes.
    Dots,
    /// A line for each test.
    Lines,
}

/// Renders a run of the tests that match the filter, of which `failing` fail.
pub(super) fn report(
    project: &Project,
    filter: &str,
    failing: &[ProjectTest],
    detail: Detail,
    rng: &mut Rng,
) -> String {
    let mut out = build_lines(project, rng);
    for binary in ["src/", "tests/drift.rs", "tests/lease_expiry.rs", "tests/replay.rs"] {
        let all = project.tests(binary);
        let mut chosen = project.tests(filter);
        chosen.retain(|test| test.path.starts_with(binary));
        if chosen.is_empty() && binary != "src/" {
            continue;
        }
        chosen.sort_by(|a, b| a.name.cmp(&b.name));
        let failed: Vec<&ProjectTest> =
            chosen.iter().filter(|test| failing.contains(test)).collect();
        out.push_str(&head(binary, chosen.len(), rng));
        match detail {
            Detail::Dots => out.push_str(&dots(chosen.len())),
            Detail::Lines => out.push_str(&lines(&chosen, failing)),
        }
        out.push_str(&failures(project, &failed, rng));
        out.push_str(&verdict(chosen.len(), failed.len(), all.len() - chosen.len(), rng));
        if !failed.is_empty() {
            let _ = writeln!(out, "error: test failed, to rerun pass `{}`", target(binary));
            break;
        }
    }
    out
}

/// Renders one test with everything that it logs, about `bytes` long.
pub(super) fn verbose_report(
    project: &Project,
    test: &ProjectTest,
    bytes: usize,
    rng: &mut Rng,
) -> String {
    let mut out = build_lines(project, rng);
    out.push_str(&head(&test.path, 1, rng));
    let events = phrases::events();
    let mut micros = rng.range(0..900_000) as u64;
    micros += 1_000_000 * rng.range(30_000..60_000) as u64;
    while out.len() < bytes {
        micros += rng.log_normal(9_000.0, 1.4) as u64;
        let event = *rng.choose(&events);
        let event = expand(event, rng, &mut Bindings::new());
        let _ = writeln!(out, "2025-03-11T{}Z {event}", time_of_day(micros));
    }
    out.push_str(&lines(std::slice::from_ref(test), &[]));
    out.push_str(&verdict(1, 0, project.tests(&test.path).len() - 1, rng));
    out
}

/// Where a test fails: the line of one of its assertions.
pub(super) fn place_of(project: &Project, test: &ProjectTest) -> String {
    let line = ["assert", "unwrap", "should_panic", ";"]
        .iter()
        .find_map(|wanted| project.line_in(&test.path, &test.function, wanted));
    format!("{}:{}", test.path, line.unwrap_or(1))
}

fn build_lines(project: &Project, rng: &mut Rng) -> String {
    let (compiling, took) = (build::compiling(project), seconds(2..14, rng));
    format!(
        "{compiling}    Finished `test` profile [unoptimized + debuginfo] target(s) in {took}s\n"
    )
}

fn seconds(range: std::ops::Range<usize>, rng: &mut Rng) -> String {
    format!("{}.{:02}", rng.range(range), rng.range(0..100))
}

fn time_of_day(micros: u64) -> String {
    let seconds = micros / 1_000_000;
    let (hour, minute) = (seconds / 3600, seconds / 60 % 60);
    format!("{hour:02}:{minute:02}:{:02}.{:06}", seconds % 60, micros % 1_000_000)
}

fn head(binary: &str, count: usize, rng: &mut Rng) -> String {
    let (shown, stem) = match binary {
        "src/" => ("unittests src/lib.rs", "tidewheel"),
        suite => (suite, suite_name(suite)),
    };
    let mut hash = String::new();
    rng.push_letters(&mut hash, b"0123456789abcdef", 16);
    let plural = if count == 1 { "" } else { "s" };
    format!(
        "     Running {shown} (target/debug/deps/{stem}-{hash})\n\nrunning {count} test{plural}\n"
    )
}

fn suite_name(suite: &str) -> &str {
    suite.trim_start_matches("tests/").trim_end_matches(".rs")
}

fn target(binary: &str) -> String {
    match binary {
        "src/" => "--lib".to_owned(),
        suite => format!("--test {}", suite_name(suite)),
    }
}

fn dots(count: usize) -> String {
    ".".repeat(count) + "\n"
}

fn lines(tests: &[ProjectTest], failing: &[ProjectTest]) -> String {
    let outcome = |test| if failing.contains(test) { "FAILED" } else { "ok" };
    let mut out = String::new();
    for test in tests {
        let _ = writeln!(out, "test {} ... {}", test.name, outcome(test));
    }
    out
}

fn failures(project: &Project, failed: &[&ProjectTest], rng: &mut Rng) -> String {
    if failed.is_empty() {
        return String::new();
    }
    let mut out = "\nfailures:\n\n".to_owned();
    for test in failed {
        let (name, place) = (&test.name, place_of(project, test));
        let message = panic_message(project, &place, rng);
        let _ = write!(
            out,
            "---- {name} stdout ----\n\nthread '{name}' panicked at {place}:9:\n{message}\n\
             note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n\n",
        );
    }
    out.push_str("\nfailures:\n");
    out.extend(failed.iter().map(|test| format!("    {}\n", test.name)));
    out
}

fn verdict(run: usize, failed: usize, filtered: usize, rng: &mut Rng) -> String {
    let (verdict, took) = (if failed == 0 { "ok" } else { "FAILED" }, seconds(0..9, rng));
    format!(
        "\ntest result: {verdict}. {} passed; {failed} failed; 0 ignored; 0 measured; \
         {filtered} filtered out; finished in {took}s\n\n",
        run - failed,
    )
}

/// Derives the message from the line that fails.
fn panic_message(project: &Project, place: &str, rng: &mut Rng) -> String {
    let (path, number) = place.split_once(':').expect("a place is `path:line`");
    let text = project.text(path);
    let line = text.lines().nth(number.parse::<usize>().map_or(0, |n| n - 1)).unwrap_or_default();
    let template = match line.trim() {
        line if line.starts_with("assert_eq!") && line.contains("Tick(") => {
            "assertion `left == right` failed\n  left: Tick($big)\n right: Tick($big2)"
        }
        line if line.starts_with("assert_eq!") => {
            "assertion `left == right` failed\n  left: $few\n right: $few2"
        }
        line if line.starts_with("assert!(") => {
            let asserted = line.trim_start_matches("assert!(").trim_end_matches(");");
            return format!("assertion failed: {asserted}");
        }
        line if line.contains(".unwrap()") => {
            "called `Result::unwrap()` on an `Err` value: Late { id: $n, by: $few }"
        }
        _ => "index out of bounds: the len is $few but the index is $n",
    };
    expand(template, rng, &mut Bindings::new())
}
