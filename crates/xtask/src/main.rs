//! The project's own chores: `cargo xtask help` lists them.

mod agents;
mod browser;
mod cache;
mod check;
mod clients;
mod console;
mod data;
mod deny;
mod dist;
mod embeddings;
mod example;
mod failure;
mod fuzz;
mod model;
mod postgres;
mod run;
mod scale;
mod scoreboard;
mod tidy;
mod torture;

use std::process::ExitCode;

use crate::failure::Failure;
use crate::run::{cargo, cargo_with};

const HELP: &str = "\
cargo xtask COMMAND

  check            everything that must hold before a commit: lint, then `cargo test --workspace`
  lint             tidy, fmt, clippy, doc, deny
  tidy             the rules that no other tool checks
  deny             licences and sources of dependencies, by cargo-deny
  bench [ARGS]     all benchmarks; the arguments go to cargo bench
  laws [TIMES [SEED]]  the laws of every surface on 16 times as many cases as in `cargo test`, unless told
                   otherwise; new cases, or those of a seed
  data [binary=PATH]  all commands over the sessions in LONGHAND_DATA, or else ../shared/data, and over generated
                   ones with texts of every kind: no panic, no time-out
  fuzz [SECONDS]   every fuzz target in turn, each for 30 seconds unless told otherwise
  torture [MINUTES [SEED]]  tries to break the promises: power cuts, kills, failing disks, broken streams,
                   hostile requests; 10 minutes unless told otherwise, and a table of what was reached
  model            a small language model on loopback, for as long as this runs; Ctrl-C ends it
  test-model       the tests against that model; exit status 69 if it cannot be had here
  test-embeddings  what messages mean, with the weights of all-MiniLM-L6-v2: lints and tests what a plain build leaves
                   out; exit status 69 if they cannot be had here
  test-postgres    archives on PostgreSQL, directly and through PgBouncer; installs Debian's packages of both if
                   they are missing; exit status 69 if they cannot be had here
  cluster [SECONDS [SEED]]  three proxies on one PostgreSQL database behind PgBouncer, while proxies are killed and the
                   database is restarted: 3 minutes unless told otherwise, and what was reached
  bench-postgres   records per second with 16 and 64 writers beside pgbench, and what a record costs in a long session
  test-clients     the providers' clients for Python and Node through the proxy, with a script and with
                   that model; exit status 69 if they cannot be had here
  test-console     schemathesis against the API of a console with a filled archive; exit status 69 if it cannot be
                   had here
  test-agents [NAME…]
                   real agents through `longhand run`, with a scripted model, on loopback alone where the
                   machine allows it; exit status 69 if none can be had here
  test-browser [binary=PATH] [large] [NAME]
                   the console in headless Chromium: every view, what it can change, hostile text; `large` adds
                   archives of 10,000 sessions and 100,000 rounds; of a new build, or of a binary that is there; exit status 69 if the browser cannot be had here
  screenshots [binary=PATH]
                   makes the pictures in docs/pictures anew, of the real thing
  dist [profile=NAME] [target=TRIPLE] [binary=PATH]
                   the packages, into target/packages: binary archive, Debian package, wheel, npm package;
                   of a new build, or of a binary such as target/release/longhand that is there
  test-dist        installs each of them into a clean place and runs the first command of the README
  package          `cargo package` for every crate that is published
  tour             writes the outputs in docs/TOUR.md and README.md anew
  scale [--sessions N] [--rounds N] [--only WORDS] [--json] [--strict] [--keep] [--binary PATH]
                   what commands cost with 2,000 sessions and with a session of 100,000 rounds, and how that
                   grows; --rounds 0 leaves the long session out, --strict fails if a goal is missed
  scoreboard [PART…]  other libraries on the same work as Longhand: fit, record, proxy, replay, or all; installs
                   them and writes docs/BENCHMARKS.md. `render` only writes it
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
fn laws(times: &str, seed: Option<&str>) -> Result<(), Failure> {
    if times.parse::<u32>().is_err() {
        return Err(Failure::usage(format!("`{times}` does not say how many times")));
    }
    if let Some(seed) = seed.filter(|seed| seed.parse::<u64>().is_err()) {
        return Err(Failure::usage(format!("`{seed}` is not a seed: it must be a number")));
    }
    let mut arguments = vec!["test", "--workspace", "--test", "suite", "--", "laws::", "growing::"];
    arguments.extend(["rich::", "turns::", "digest::", "drivers::"]);
    arguments.extend(["marks::", "clear::", "repair::", "texts::", "any_text::"]);
    let mut variables = vec![("LONGHAND_TIMES", times)];
    variables.extend(seed.map(|seed| ("LONGHAND_SEED_FIRST", seed)));
    cargo_with(&variables, &arguments)
}

/// Packs and builds every crate that is published, as a registry would.
fn package() -> Result<(), Failure> {
    let mut arguments = vec!["package", "--workspace", "--allow-dirty"];
    arguments.extend(["--exclude", "longhand-testkit", "--exclude", "xtask"]);
    cargo(&arguments)
}

/// Runs the commands in the documents and writes what they print.
fn tour() -> Result<(), Failure> {
    let arguments = ["test", "-p", "longhand-cli", "--test", "cli", "documents::the_"];
    cargo_with(&[("LONGHAND_BLESS", "1")], &arguments)
}

fn dispatch(arguments: &[String]) -> Result<(), Failure> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] | ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(())
        }
        ["check"] => check::check(),
        ["lint"] => check::lint(),
        ["tidy"] => tidy::tidy(),
        ["deny"] => deny::deny(),
        ["bench", rest @ ..] => cargo(&[&["bench", "--workspace"], rest].concat()),
        ["laws"] => laws("16", None),
        ["laws", times] => laws(times, None),
        ["laws", times, seed] => laws(times, Some(seed)),
        ["data", rest @ ..] => data::data(rest),
        ["fuzz"] => fuzz::fuzz("30"),
        ["fuzz", seconds] => fuzz::fuzz(seconds),
        ["torture"] => torture::torture("10", None),
        ["torture", minutes] => torture::torture(minutes, None),
        ["torture", minutes, seed] => torture::torture(minutes, Some(seed)),
        ["model"] => model::serve(),
        ["test-model"] => model::test(),
        ["test-embeddings"] => embeddings::test(),
        ["test-postgres"] => postgres::test(),
        ["bench-postgres"] => postgres::bench(),
        ["cluster"] => postgres::cluster("180", None),
        ["cluster", seconds] => postgres::cluster(seconds, None),
        ["cluster", seconds, seed] => postgres::cluster(seconds, Some(seed)),
        ["test-clients"] => clients::test(),
        ["test-console"] => console::test(),
        ["test-agents", names @ ..] => agents::test(names),
        ["test-browser", rest @ ..] => browser::test(rest),
        ["screenshots", rest @ ..] => browser::pictures(rest),
        ["dist", rest @ ..] => dist::dist(rest),
        ["test-dist"] => dist::test(),
        ["package"] => package(),
        ["tour"] => tour(),
        ["scale", rest @ ..] => scale::scale(rest),
        ["scoreboard", parts @ ..] => scoreboard::scoreboard(parts),
        ["example"] => example::write(),
        [
            "check" | "lint" | "tidy" | "deny" | "laws" | "fuzz" | "torture" | "model"
            | "test-model" | "test-embeddings" | "test-postgres" | "test-clients" | "test-console"
            | "test-dist" | "package" | "tour" | "example" | "cluster" | "bench-postgres" | "help",
            ..,
        ] => Err(Failure::usage(format!("`{}` does not take these arguments", words[0]))),
        [unknown, ..] => Err(Failure::usage(format!("`{unknown}` is not a command"))),
    }
}
