//! `longhand chat` in a terminal, with a model that plays a script.

use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use longhand_testkit::scripted::{ScriptStep, ScriptedServer};
use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use serde_json::Value;

use crate::run::{Folder, OWN_SETTINGS};

const PATIENCE: Duration = Duration::from_secs(30);

/// A terminal with `longhand chat` in it.
pub(crate) struct Terminal {
    screen: Arc<Mutex<vt100::Parser>>,
    master: Box<dyn MasterPty + Send>,
    keyboard: Box<dyn Write + Send>,
    child: Box<dyn Child + Send + Sync>,
}

impl Terminal {
    pub(crate) fn start(folder: &Folder, line: &str) -> Self {
        Self::start_as("xterm-256color", folder, line)
    }

    /// Starts with another kind of terminal, as TERM names it.
    pub(crate) fn start_as(term: &str, folder: &Folder, line: &str) -> Self {
        Self::start_sized(term, (30, 100), folder, line)
    }

    /// Starts with so many rows and columns.
    pub(crate) fn start_sized(
        term: &str,
        (rows, cols): (u16, u16),
        folder: &Folder,
        line: &str,
    ) -> Self {
        let size = PtySize { rows, cols, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_longhand"));
        command.args(line.split_whitespace());
        command.cwd(folder.path(""));
        command.env("TERM", term);
        command.env("HOME", folder.path(""));
        command.env("TMPDIR", folder.path(""));
        command.env("XDG_DATA_HOME", folder.path("data"));
        command.env("XDG_CONFIG_HOME", folder.path("config"));
        let child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let screen = Arc::new(Mutex::new(vt100::Parser::new(cells(rows), cells(cols), 500)));
        let mut output = pair.master.try_clone_reader().unwrap();
        let seen = Arc::clone(&screen);
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                seen.lock().unwrap().process(&bytes[..count]);
            }
        });
        let keyboard = pair.master.take_writer().unwrap();
        Self { screen, master: pair.master, keyboard, child }
    }

    pub(crate) fn contents(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    /// The lines that had no room in the terminal and go on in the next one.
    pub(crate) fn wrapped(&self) -> Vec<String> {
        let parser = self.screen.lock().unwrap();
        let (rows, columns) = parser.screen().size();
        let lines = parser.screen().rows(0, columns.get()).zip(0..rows.get());
        lines.filter(|(_, row)| parser.screen().row_wrapped(*row)).map(|(line, _)| line).collect()
    }

    /// Waits until the screen shows something.
    pub(crate) fn wait_for(&self, what: &str) {
        let start = Instant::now();
        while !self.contents().contains(what) {
            assert!(start.elapsed() < PATIENCE, "no {what:?} on the screen:\n{}", self.contents());
            thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
        self.keyboard.flush().unwrap();
    }

    /// Types a line once the prompt is there.
    pub(crate) fn type_line(&mut self, line: &str) {
        self.wait_for_prompt();
        let before = self.contents();
        self.press(&format!("{line}\r"));
        // Until it is read the old prompt would pass for the next one.
        self.wait_while(|contents| contents == before);
    }

    /// Waits until the cursor is at a prompt with nothing typed; a message may be offered after it.
    pub(crate) fn wait_for_prompt(&self) {
        let start = Instant::now();
        while !self.line_to_cursor().trim_end().ends_with('›') {
            assert!(start.elapsed() < PATIENCE, "no prompt:\n{}", self.contents());
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// The line that the cursor is in, up to the cursor.
    fn line_to_cursor(&self) -> String {
        let parser = self.screen.lock().unwrap();
        let (row, column) = parser.screen().cursor_position();
        parser.screen().rows(0, column).nth(usize::from(row)).unwrap_or_default()
    }

    /// Waits for a prompt that has this typed at it.
    pub(crate) fn wait_for_prompt_with(&self, typed: &str) {
        self.wait_while(|contents| !contents.trim_end().ends_with(&format!("› {typed}")));
    }

    pub(crate) fn wait_while(&self, is_so: impl Fn(&str) -> bool) {
        let start = Instant::now();
        while is_so(&self.contents()) {
            assert!(start.elapsed() < PATIENCE, "nothing happens:\n{}", self.contents());
            thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn resize(&self, rows: u16, cols: u16) {
        self.master.resize(PtySize { rows, cols, pixel_width: 0, pixel_height: 0 }).unwrap();
        self.screen.lock().unwrap().screen_mut().set_size(cells(rows), cells(cols));
    }

    pub(crate) fn end(mut self) -> u32 {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.exit_code();
            }
            assert!(start.elapsed() < PATIENCE, "it does not end:\n{}", self.contents());
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn cells(count: u16) -> NonZeroU16 {
    NonZeroU16::new(count).unwrap()
}

pub(crate) fn folder(server: &ScriptedServer, api: &str) -> Folder {
    let config = format!(
        "[models]\nchat = 'fake/tiny'\n[chat]\nsystem = 'Be brief.'\n[endpoints.fake]\nurl = '{}'\napi = '{api}'\n",
        server.url()
    );
    Folder::with(OWN_SETTINGS, config)
}

fn answer(text: &str) -> ScriptStep {
    ScriptStep::Answer(text.to_owned())
}

#[test]
fn a_conversation_is_typed_streamed_resumed_and_kept() {
    for api in ["chat", "responses", "anthropic"] {
        let server = ScriptedServer::start([
            answer("The log is in var/app.log."),
            answer("\u{1b}]0;owned\u{7}It is red."),
            answer("We spoke of the log."),
        ]);
        let folder = folder(&server, api);
        let mut terminal = Terminal::start(&folder, "chat demo");
        terminal.wait_for("demo with fake/tiny: a new conversation");
        terminal.type_line("Where is the log?");
        terminal.wait_for("The log is in var/app.log.");
        // Line editing: a letter is typed, and taken back.
        terminal.type_line("What colourz\u{7f} is it?");
        terminal.wait_for("It is red.");
        terminal.resize(20, 60);
        terminal.type_line("/context");
        terminal.wait_for("V verbatim");
        terminal.type_line("/search app.log");
        terminal.wait_for(":1 assistant: The log is in");
        terminal.type_line("/pin log");
        terminal.wait_for("pinned entry");
        terminal.type_line("/nonsense");
        terminal.wait_for("there is no /nonsense");
        terminal.type_line("/cost");
        terminal.wait_for("for 2 calls");
        terminal.type_line("/quit");
        terminal.wait_for("resume with `longhand chat demo`");
        assert_eq!(terminal.end(), 0);

        let mut terminal = Terminal::start(&folder, "chat demo");
        terminal.wait_for("2 rounds so far");
        // Up once is /quit, up six times more the first question: history is kept.
        terminal.wait_for_prompt();
        terminal.press("\u{1b}[A");
        terminal.wait_for("› /quit");
        terminal.press("\u{15}");
        terminal.type_line("What did we speak of?");
        terminal.wait_for("We spoke of the log.");
        terminal.wait_for_prompt();
        terminal.press("\u{4}");
        assert_eq!(terminal.end(), 0);

        let requests = server.requests();
        assert_eq!(requests.len(), 3, "{api}");
        let last: Value = serde_json::from_str(&requests[2].body).unwrap();
        let sent = last.to_string();
        for words in
            ["Be brief.", "Where is the log?", "What colour is it?", "It is red.", "speak of?"]
        {
            assert!(sent.contains(words), "{api}: no {words:?} in {sent}");
        }
        let export = folder.run("export demo").stdout;
        assert!(export.contains("What colour is it?"), "{export}");
        assert_eq!(folder.run("verify").status, 0);
    }
}

#[test]
fn ctrl_c_stops_the_answer_and_not_the_program() {
    let server = ScriptedServer::start([
        ScriptStep::Drip(
            "one two three four five six seven eight nine ten ".repeat(50),
            Duration::from_millis(500),
        ),
        answer("Here I am."),
    ]);
    let folder = folder(&server, "chat");
    let mut terminal = Terminal::start(&folder, "chat demo");
    terminal.type_line("Count.");
    terminal.wait_for("one");
    terminal.press("\u{3}");
    terminal.type_line("Are you there?");
    terminal.wait_for("Here I am.");
    // At the prompt it says how to leave.
    terminal.wait_for_prompt();
    terminal.press("\u{3}");
    terminal.wait_for("Ctrl-D or /quit leaves");
    terminal.type_line("/quit");
    assert_eq!(terminal.end(), 0);
    let export = folder.run("export demo").stdout;
    assert!(export.contains("[stopped by the user]"), "{export}");
}

#[test]
fn trouble_is_told_and_the_conversation_goes_on() {
    let server = ScriptedServer::start([
        ScriptStep::TooLong { limit: 4_000, asked: 9_000 },
        answer("Shorter is fine."),
        ScriptStep::Status(401),
        answer("All is well."),
    ]);
    let folder = folder(&server, "chat");
    let mut terminal = Terminal::start(&folder, "chat demo");
    terminal.type_line("A long story.");
    terminal.wait_for("too long for the model; retrying with a smaller request");
    terminal.wait_for("Shorter is fine.");
    terminal.type_line("And now?");
    terminal.wait_for("error: fake refused the key");
    terminal.type_line("And now?");
    terminal.wait_for("All is well.");
    terminal.type_line("/compact");
    terminal.wait_for("nothing to fold: it would free no tokens");
    terminal.type_line("/model nobody/x");
    terminal.wait_for("unknown provider");
    terminal.type_line("/quit");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn what_was_typed_or_shown_is_kept_and_asked_again() {
    let cut = "Half of what I know is here and the other half is cut away";
    let server = ScriptedServer::start([
        answer("Hello."),
        ScriptStep::Status(401),
        ScriptStep::Cut(cut.to_owned()),
        answer("Forty-two."),
        answer("Forty-three."),
        ScriptStep::Status(500),
        ScriptStep::Status(500),
        ScriptStep::Status(500),
        ScriptStep::Status(500),
        ScriptStep::Status(500),
        ScriptStep::Status(500),
        answer("At last."),
    ]);
    let folder = folder(&server, "chat");
    let mut terminal = Terminal::start(&folder, "chat demo");
    terminal.type_line("Hi.");
    terminal.wait_for("Hello.");
    terminal.type_line("What is the answer?");
    terminal.wait_for("your message is kept; Enter sends it again, → edits it");
    // The message is offered at the prompt.
    terminal.wait_for_prompt_with("What is the answer?");
    let export = folder.run("export demo").exported_entries();
    assert!(export.contains("What is the answer?") && export.contains("[no answer: "), "{export}");
    // Enter sends it again; half an answer is kept as half an answer.
    terminal.type_line("");
    terminal.wait_for("the part that arrived is kept; Enter sends your message again");
    terminal.type_line("/retry");
    terminal.wait_for("Forty-two.");
    // An empty line says nothing now, and /retry asks for another answer.
    terminal.type_line("/retry");
    terminal.wait_for("Forty-three.");
    terminal.wait_for_prompt();
    let export = folder.run("export demo").exported_entries();
    for kept in ["[no answer: ", "Half of what", "[cut off: ", "Forty-two.", "Forty-three."] {
        assert!(export.contains(kept), "no {kept:?} in {export}");
    }
    let asked = export.matches("What is the answer?").count();
    assert_eq!(asked, 1, "all answers follow one message: {export}");
    // No number of failures keeps a person from trying again.
    terminal.type_line("And now?");
    terminal.wait_for("your message is kept");
    terminal.type_line("/retry");
    terminal.wait_while(|contents| contents.matches("your message is kept").count() < 2);
    terminal.type_line("/retry");
    terminal.wait_for("At last.");
    terminal.type_line("/quit");
    assert_eq!(terminal.end(), 0);
    // What failed is not what the model sees later.
    let last = server.requests().pop().unwrap().body;
    assert!(last.contains("Forty-three.") && !last.contains("[no answer"), "{last}");
    assert!(!last.contains("[cut off") && !last.contains("Forty-two."), "{last}");
    assert_eq!(folder.run("verify").status, 0);
}

#[test]
fn a_message_that_failed_can_be_edited_or_left() {
    let server = ScriptedServer::start([
        ScriptStep::Status(401),
        answer("In var."),
        ScriptStep::Status(401),
        answer("Something else it is."),
    ]);
    let folder = folder(&server, "chat");
    let mut terminal = Terminal::start(&folder, "chat demo");
    terminal.type_line("Where is the log");
    terminal.wait_for_prompt_with("Where is the log");
    // The right arrow key takes it into the line.
    terminal.press("\u{1b}[C");
    terminal.wait_while(|_| !terminal.line_to_cursor().ends_with("› Where is the log"));
    terminal.press(" file?\r");
    terminal.wait_for("In var.");
    terminal.type_line("And the lock?");
    terminal.wait_for_prompt_with("And the lock?");
    // Whatever is typed instead takes its place.
    terminal.type_line("//etc is what I mean.");
    terminal.wait_for("Something else it is.");
    terminal.type_line("/quit");
    assert_eq!(terminal.end(), 0);
    let asked: Vec<String> = server.requests().into_iter().map(|request| request.body).collect();
    assert!(asked[1].contains("Where is the log file?"), "{asked:?}");
    assert!(asked[3].contains(r#""/etc is what I mean.""#), "{asked:?}");
}

#[test]
fn a_terminal_without_a_cursor_shows_what_is_typed() {
    let server = ScriptedServer::start([answer("In var."), answer("It is red.")]);
    let folder = folder(&server, "chat");
    let mut terminal = Terminal::start_as("dumb", &folder, "chat demo");
    for (question, shown) in [("Where is it?", "In var."), ("What colour?", "It is red.")] {
        terminal.type_line(question);
        terminal.wait_for(shown);
        terminal.wait_for(&format!("› {question}"));
    }
    terminal.type_line("/quit");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn every_line_that_is_typed_ahead_is_read() {
    let slow =
        ScriptStep::Drip("one two three four five six ".repeat(3), Duration::from_millis(60));
    let server = ScriptedServer::start([slow, answer("Second."), answer("Third.")]);
    let folder = folder(&server, "chat");
    let mut terminal = Terminal::start(&folder, "chat demo");
    terminal.type_line("Count.");
    terminal.wait_for("one");
    // Lines, commands, a key that takes a letter back, and the beginning of a line.
    terminal.press("And twoo\u{7f}?\r/cost\r/nonsense\rAnd three?\r/context\rhalf a line");
    terminal.wait_for_prompt_with("half a line");
    let contents = terminal.contents();
    let places: Vec<usize> = ["Second.", "answers ", "no /nonsense", "Third.", "V verbatim"]
        .iter()
        .map(|shown| contents.find(shown).unwrap_or_else(|| panic!("no {shown:?}:\n{contents}")))
        .collect();
    assert!(places.is_sorted(), "{contents}");
    assert_eq!(contents.matches("half a line").count(), 1, "{contents}");
    let asked: Vec<String> = server.requests().into_iter().map(|request| request.body).collect();
    assert!(asked.len() == 3 && asked[1].contains("And two?"), "{asked:?}");
}

#[test]
fn ctrl_c_ends_the_wait_for_a_summary() {
    let text = "The work goes on with the parser and its tests. ".repeat(40);
    let mut steps: Vec<ScriptStep> = (0..3).map(|_| answer(&text)).collect();
    steps.push(ScriptStep::Drip("slow ".repeat(400), Duration::from_secs(3)));
    let server = ScriptedServer::start(steps);
    let folder = folder(&server, "chat");
    let mut terminal = Terminal::start(&folder, "chat demo --summariser fake/tiny");
    for question in ["One?", "Two?", "Three?"] {
        terminal.type_line(question);
    }
    terminal.type_line("/compact");
    terminal.wait_for("summarising, ");
    terminal.press("\u{3}");
    terminal.wait_for("no longer waiting; the summary comes with the next fold");
    terminal.wait_for_prompt();
    assert!(!terminal.contents().contains("summarising"), "{}", terminal.contents());
    terminal.type_line("/quit");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn a_busy_archive_is_waited_for() {
    let server = ScriptedServer::start([answer("Hello."), answer("Still here.")]);
    let folder = folder(&server, "chat");
    let mut terminal = Terminal::start(&folder, "chat demo --archive a.db");
    terminal.type_line("Hi.");
    terminal.wait_for("Hello.");
    terminal.wait_for_prompt();
    let holder = rusqlite::Connection::open(folder.path("a.db")).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    terminal.type_line("Are you there?");
    terminal.wait_for("another program has locked the archive; waiting for it");
    holder.execute_batch("COMMIT").unwrap();
    terminal.wait_for_prompt();
    terminal.type_line("/quit");
    assert_eq!(terminal.end(), 0);
    let export = folder.run("export demo --archive a.db").stdout;
    assert!(export.contains("Are you there?") && export.contains("Still here."), "{export}");
}

#[test]
fn a_model_summarises_in_the_background() {
    let steps = (0..40).map(|number| answer(&format!("Answer {number}: {}", "work ".repeat(80))));
    let server = ScriptedServer::start(steps);
    let folder = folder(&server, "chat");
    let line = "chat demo --rounds 2 --summariser fake/tiny";
    let mut terminal = Terminal::start(&folder, line);
    // A summary is as long as an answer here, so that it takes several rounds to be worth it; and it
    // is told at the next prompt after it is done.
    for number in 0..15 {
        terminal.type_line(&format!("Question {number} about g-{number}7f3?"));
        terminal.wait_for(&format!("Question {number} "));
        terminal.wait_for_prompt();
        if terminal.contents().contains("folded") {
            break;
        }
    }
    terminal.wait_for("folded");
    terminal.type_line("/undo");
    terminal.wait_for("undid batch");
    terminal.type_line("/quit");
    assert_eq!(terminal.end(), 0);
    let log = folder.run("log demo").stdout;
    assert!(log.contains("fake/tiny") || log.contains("built-in summariser"), "{log}");
}

#[test]
fn without_a_model_there_is_a_hint() {
    let folder = Folder::new();
    folder.run("chat").assert_refused(&["no model is configured", "hint: `longhand chat --model"]);
    folder.run("chat --model gpt").assert_refused(&["names no provider", "hint: "]);
    folder.run("chat --model openai/gpt").assert_refused(&["OPENAI_API_KEY"]);
}
