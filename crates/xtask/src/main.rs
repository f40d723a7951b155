//! The project's own chores: `cargo xtask help` lists them.

mod cache;
mod check;
mod clients;
mod deny;
mod example;
mod failure;
mod fuzz;
mod model;
mod run;
mod tidy;

use std::process::ExitCode;

use crate::failure::Failure;
use crate::run::{cargo, cargo_with};

const HELP: &str = "\
cargo xtask COMMAND

  check            everything that must hold before a commit: tidy, fmt, clippy, doc, test, deny
  tidy             the rules that no other tool checks
  deny             licences and sources of dependencies, by cargo-deny
  bench [ARGS]     all benchmarks; the arguments go to cargo bench
  laws [CASES]     the laws of every surface on 1,000 generated cases each, unless told otherwise
  fuzz [SECONDS]   every fuzz target in turn, each for 30 seconds unless told otherwise
  model            a small language model on loopback, for as long as this runs; Ctrl-C ends it
  test-model       the tests against that model; exit status 69 if it cannot be had here
  test-clients     the providers' clients for Python and Node through the proxy, with a script and with
                   that model; exit status 69 if they cannot be had here
  example          writes examples/long-session.json anew
  help             this text
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            failure.exit_code()
        }
    }
}

/// Runs the property tests on more cases than `cargo test` does.
fn laws(cases: &str) -> Result<(), Failure> {
    if cases.parse::<u32>().is_err() {
        return Err(Failure::usage(format!("`{cases}` is not a number of cases")));
    }
    let tests = ["laws", "growing", "rich", "turns", "digest", "drivers"];
    let mut arguments = vec!["test", "--release", "-p", "longhand-dialect", "-p", "longhand"];
    arguments.extend(tests.iter().flat_map(|test| ["--test", *test]));
    cargo_with(&[("LONGHAND_CASES", cases)], &arguments)
}

fn dispatch(arguments: &[String]) -> Result<(), Failure> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] | ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(())
        }
        ["check"] => check::check(),
        ["tidy"] => tidy::tidy(),
        ["deny"] => deny::deny(),
        ["bench", rest @ ..] => cargo(&[&["bench", "--workspace"], rest].concat()),
        ["laws"] => laws("1000"),
        ["laws", cases] => laws(cases),
        ["fuzz"] => fuzz::fuzz("30"),
        ["fuzz", seconds] => fuzz::fuzz(seconds),
        ["model"] => model::serve(),
        ["test-model"] => model::test(),
        ["test-clients"] => clients::test(),
        ["example"] => example::write(),
        [
            "check" | "tidy" | "deny" | "laws" | "fuzz" | "model" | "test-model" | "test-clients"
            | "example" | "help",
            ..,
        ] => Err(Failure::usage(format!("`{}` does not take these arguments", words[0]))),
        [unknown, ..] => Err(Failure::usage(format!("`{unknown}` is not a command"))),
    }
}
