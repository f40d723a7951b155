//! The session that `longhand demo` plays: what the user asks, what the agent does, and what its tools answer.

use serde_json::{Value, json};

/// One turn of the model, with what its tool answers.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    /// What the user says before it; empty where the agent goes on by itself.
    pub(crate) user: &'static str,
    /// What the model says.
    pub(crate) text: &'static str,
    /// The tool that it calls.
    pub(crate) call: Option<Call>,
}

/// A call of a tool.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) tool: &'static str,
    pub(crate) arguments: Value,
    pub(crate) result: String,
}

/// What the agent was told to be.
pub(crate) const SYSTEM: &str = "You are a coding agent. Work in /home/demo/quayside with the tools you have. Read before \
you write, run the tests after every change, and tell the user in a few words what you found.";

/// What the side call is for: agents ask a model for a title, too.
pub(crate) const TITLE_SYSTEM: &str = "Give this conversation a title of five words at most.";

/// The title.
pub(crate) const TITLE: &str = "Sailings an hour late";

/// The tools that the agent offers: its own, and those of an MCP server that this session has no use for.
pub(crate) fn tools() -> Value {
    let tool = |name: &str, description: &str, arguments: &[(&str, &str)]| {
        let properties: serde_json::Map<String, Value> = arguments
            .iter()
            .map(|(name, what)| {
                ((*name).to_owned(), json!({"type": "string", "description": what}))
            })
            .collect();
        let required: Vec<&str> = arguments.iter().map(|(name, _)| *name).collect();
        let parameters = json!({"type": "object", "properties": properties, "required": required});
        json!({"type": "function", "function": {"name": name, "description": description, "parameters": parameters}})
    };
    let mut tools = vec![
        tool(
            "read_file",
            "Reads a file of the project, with the numbers of its lines.",
            &[("path", "The file")],
        ),
        tool("run_tests", "Runs the tests whose names contain a text.", &[("filter", "The text")]),
        tool("grep", "Finds the lines that contain a text.", &[("text", "The text")]),
        tool("edit_file", "Replaces lines of a file.", &[("diff", "A unified diff")]),
    ];
    for (name, description) in UNUSED_TOOLS {
        let place = (
            "station",
            "The number of the station, as the list of stations has it, or the name of the harbour",
        );
        let time = (
            "time",
            "A moment in local time, as 2026-10-25T02:30, or a range of two moments with a slash between them",
        );
        let unit = (
            "unit",
            "What heights are measured in: metres above chart datum, or feet; metres if it is not said",
        );
        tools.push(tool(&format!("mcp__tides__{name}"), description, &[place, time, unit]));
    }
    Value::Array(tools)
}

const UNUSED_TOOLS: [(&str, &str); 6] = [
    (
        "height",
        "Gives the height of the tide at a station at a moment, with the state of rising or falling water.",
    ),
    (
        "next_high",
        "Gives the time and the height of the next high water at a station after a moment.",
    ),
    (
        "next_low",
        "Gives the time and the height of the next low water at a station after a moment.",
    ),
    ("curve", "Gives the heights of the tide at a station every ten minutes between two moments."),
    ("warnings", "Lists the warnings of storm surges that are in force for a station at a moment."),
    (
        "stations",
        "Lists the stations around a harbour with their numbers, distances and the years they measure.",
    ),
];

/// What a tool answers with.
enum Answer {
    /// A file of so many lines.
    File(&'static str, usize),
    /// A test run with this many failures.
    Tests(&'static str, usize),
    /// Lines that contain a text.
    Grep(&'static str, usize),
    /// A change to a file, from one line to another.
    Edit(&'static str, &'static str, &'static str),
}

use Answer::{Edit, File, Grep, Tests};

/// What the user says, and then what the agent says with each call; the last line of a round has none.
type RoundScript = (&'static str, &'static [(&'static str, Answer)], &'static str);

const ROUNDS: &[RoundScript] = &[
    (
        "Since the clocks changed, the harbour board shows all sailings an hour late. Find out why and fix it. Do not change the public API of `Timetable`: the ticket machines are built on it.",
        &[
            ("I look at the timetable first.", File("src/timetable.rs", 130)),
            ("And at the clock that it asks.", File("src/clock.rs", 110)),
            ("Do the tests see it?", Tests("sailing", 2)),
            ("Who uses the offset?", Grep("utc_offset", 24)),
            ("The zone is read here.", File("src/zone.rs", 120)),
            (
                "The board renders what it gets; I check that it does not shift again.",
                File("src/board.rs", 140),
            ),
            (
                "The offset is read once at the start and kept: `Clock::new` stores it. I ask for it at each departure instead.",
                Edit("src/clock.rs", "        self.offset", "        self.zone.offset_at(instant)"),
            ),
            ("Now the tests.", Tests("sailing", 0)),
        ],
        "Found it: `Clock` kept the offset that held when the program was started, so after the change of clocks all was an hour off. `Clock::local` now asks the zone for each departure. The public API of `Timetable` is as it was; 41 tests pass.",
    ),
    (
        "Good. The ticket is HARBOUR-2231. One rule must hold: berth 4 closes at 21:40 on Sundays, also in the night when the clocks go back. Is there a test for it?",
        &[
            ("I search for the rule.", Grep("berth", 30)),
            ("The rules of berths are here.", File("src/berth.rs", 150)),
            ("And their tests here.", File("tests/berths.rs", 160)),
            (
                "No test is in that night. I write one.",
                Edit(
                    "tests/berths.rs",
                    "// The end of the season.",
                    "#[test] fn berth_4_closes_at_21_40_when_clocks_go_back()",
                ),
            ),
            ("Does it pass?", Tests("berth", 1)),
            (
                "It fails: the closing time is compared in UTC. I read how it is compared.",
                File("src/hours.rs", 125),
            ),
            (
                "The comparison must be in local time.",
                Edit("src/hours.rs", "closing.to_utc() <= now", "closing <= now.local(&zone)"),
            ),
            ("Again.", Tests("berth", 0)),
            ("And everything.", Tests("", 0)),
        ],
        "There was none. The new test `berth_4_closes_at_21_40_when_clocks_go_back` failed at first, since closing times were compared in UTC; now they are compared in local time. 58 tests pass. I noted HARBOUR-2231 in the test.",
    ),
    (
        "The board also shows cancelled sailings for ten minutes too long. Can you see why?",
        &[
            ("Cancellations come by the feed.", File("src/feed.rs", 170)),
            ("The cache may hold them.", File("src/cache.rs", 135)),
            ("Who sets its lifetime?", Grep("TTL", 18)),
            ("The settings.", File("src/settings.rs", 120)),
            ("The feed's own tests.", File("tests/feed.rs", 150)),
            (
                "A cancellation is kept like any entry: for 600 seconds. It must take effect at once.",
                Edit(
                    "src/cache.rs",
                    "self.entries.insert(key, entry)",
                    "if entry.is_cancelled() { self.entries.remove(&key) }",
                ),
            ),
            ("The tests.", Tests("feed", 1)),
            ("One test counted on the delay; I read it.", File("tests/feed.rs", 150)),
            (
                "It should expect the cancellation at once.",
                Edit("tests/feed.rs", "assert_shown_for(600)", "assert_gone_at_once()"),
            ),
            ("Again.", Tests("feed", 0)),
        ],
        "The cache kept a cancelled sailing for its lifetime of 600 seconds. Cancellations now remove the entry at once. One test had counted on the delay, and is changed.",
    ),
    (
        "Please go through the code once more: is there another place that keeps an offset, or compares in UTC what is meant in local time?",
        &[
            ("All uses of UTC.", Grep("to_utc", 36)),
            ("The log writer uses it.", File("src/journal.rs", 140)),
            ("The ticket machines' interface.", File("src/machines.rs", 165)),
            ("The printer.", File("src/printer.rs", 120)),
            ("The clock again, with my change in mind.", File("src/clock.rs", 110)),
            ("The season's calendar.", File("src/season.rs", 155)),
            ("Its tests.", File("tests/season.rs", 145)),
            (
                "The season ends at midnight UTC instead of local midnight. One line.",
                Edit("src/season.rs", "end.midnight_utc()", "end.midnight_in(&zone)"),
            ),
            ("The tests of the season.", Tests("season", 0)),
            ("And everything.", Tests("", 0)),
        ],
        "One more: the season ended at midnight UTC, one or two hours off. Fixed. The journal writes UTC on purpose, and says so. The machines' interface passes local times on and is right.",
    ),
    (
        "Write the note for the release, with the ticket's number and the rule about berth 4. What did you leave open?",
        &[
            ("I read the file of changes.", File("CHANGELOG.md", 90)),
            (
                "The note.",
                Edit(
                    "CHANGELOG.md",
                    "## Unreleased",
                    "- Sailings, closing times and the season's end follow local time (HARBOUR-2231); berth 4 closes at 21:40 on Sundays",
                ),
            ),
            ("A last run of everything.", Tests("", 0)),
        ],
        "The note is in CHANGELOG.md: HARBOUR-2231, local times, berth 4 at 21:40 on Sundays. Open: the printer rounds to five minutes, which nobody asked about. The API of `Timetable` did not change.",
    ),
];

/// All turns, in order.
pub(crate) fn turns() -> Vec<Turn> {
    let mut turns = Vec::new();
    for (user, steps, end) in ROUNDS {
        for (at, (text, answer)) in steps.iter().enumerate() {
            let call = Some(answer.call(turns.len()));
            turns.push(Turn { user: if at == 0 { user } else { "" }, text, call });
        }
        turns.push(Turn { user: "", text: end, call: None });
    }
    turns
}

impl Answer {
    fn call(&self, turn: usize) -> Call {
        let (tool, arguments, result) = match self {
            Self::File(path, lines) => {
                ("read_file", json!({"path": path}), file(path, *lines * 5 / 2))
            }
            Self::Tests(filter, failures) => {
                ("run_tests", json!({"filter": filter}), tests(filter, *failures, turn))
            }
            Self::Grep(text, count) => ("grep", json!({"text": text}), grep(text, *count)),
            Self::Edit(path, old, new) => {
                let diff = format!("--- {path}\n+++ {path}\n@@\n-{old}\n+{new}\n");
                (
                    "edit_file",
                    json!({"diff": diff}),
                    format!("changed {path}: 1 line out, 1 line in"),
                )
            }
        };
        Call { tool, arguments, result }
    }
}

const NOUNS: [&str; 12] = [
    "sailing",
    "berth",
    "departure",
    "zone",
    "offset",
    "season",
    "ramp",
    "tide",
    "route",
    "delay",
    "board",
    "call",
];
const VERBS: [&str; 8] = ["find", "merge", "shift", "read", "close", "order", "check", "next"];
const TYPES: [&str; 6] = ["Instant", "Minutes", "BerthId", "Route", "Departure", "Zone"];

/// Numbers that look random and are always the same.
struct Numbers(u64);

impl Numbers {
    fn of(text: &str) -> Self {
        Self(text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        }))
    }

    fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }

    fn pick(&mut self, words: &[&'static str]) -> &'static str {
        words[self.below(words.len())]
    }
}

/// A file that reads like one: functions with bodies, each line numbered.
fn file(path: &str, lines: usize) -> String {
    let mut numbers = Numbers::of(path);
    let mut text = Vec::new();
    while text.len() < lines {
        let (verb, noun, kind) = (numbers.pick(&VERBS), numbers.pick(&NOUNS), numbers.pick(&TYPES));
        let (other, place) = (numbers.pick(&NOUNS), numbers.below(60));
        text.push(format!(
            "/// Gives the {noun} of a {other}, as the harbour's rule {place} wants it."
        ));
        text.push(format!(
            "pub fn {verb}_{noun}_{place}(&self, {other}: &{kind}) -> Option<{kind}> {{"
        ));
        for _ in 0..2 + numbers.below(4) {
            let (one, two) = (numbers.pick(&NOUNS), numbers.pick(&VERBS));
            text.push(format!(
                "    let {one} = self.{two}_{other}({noun}, {})?;",
                numbers.below(900)
            ));
        }
        text.push(format!(
            "    (({noun}.minutes() + {}) < {other}.end).then_some({other})",
            numbers.below(90)
        ));
        text.push("}".to_owned());
        text.push(String::new());
    }
    let numbered =
        text.iter().take(lines).zip(1..).map(|(line, number)| format!("{number:>4}  {line}\n"));
    numbered.collect()
}

fn tests(filter: &str, failures: usize, turn: usize) -> String {
    let mut numbers = Numbers::of(filter);
    let count = if filter.is_empty() { 58 } else { 22 };
    let mut text = format!(
        "   Compiling quayside v0.9.{turn} (/home/demo/quayside)\n\nrunning {count} tests\n"
    );
    for at in 0..count {
        let (verb, noun) = (numbers.pick(&VERBS), numbers.pick(&NOUNS));
        let end = if at < failures { "FAILED" } else { "ok" };
        text.push_str(&format!("test {filter}::{verb}_{noun}_{} ... {end}\n", numbers.below(60)));
    }
    for at in 0..failures {
        let place = numbers.below(200);
        text.push_str(&format!(
            "\n---- failure {} ----\nthread panicked at tests/{filter}.rs:{place}: left: 21:40, right: 22:40\n",
            at + 1
        ));
    }
    let (result, passed) = (if failures == 0 { "ok" } else { "FAILED" }, count - failures);
    text.push_str(&format!(
        "\ntest result: {result}. {passed} passed; {failures} failed; 0 ignored\n"
    ));
    text
}

fn grep(text: &str, count: usize) -> String {
    let mut numbers = Numbers::of(text);
    let line = |_| {
        let (file, verb, noun) = (numbers.pick(&NOUNS), numbers.pick(&VERBS), numbers.pick(&NOUNS));
        format!(
            "src/{file}.rs:{}: let {noun} = {text}.{verb}_{noun}({});\n",
            numbers.below(300),
            numbers.below(90)
        )
    };
    (0..count).map(line).collect()
}
