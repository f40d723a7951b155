//! What an agent must know of its own work: derived from a trace without the code that makes windows.

use longhand_core::{Message, Role};
use rustc_hash::FxHashMap;
use serde_json::Value;

use super::checks::{check, is_check_tool, verdict};
use super::figures::Measure;
use super::readable::{answer, arguments, lines, opening, plain};

/// How many characters of a user message or a task count.
const WORDS_CHARS: usize = 160;

/// Keys under which tools take the file that they write.
const PATH_KEYS: &[&str] = &[
    "file_path",
    "path",
    "filename",
    "file",
    "filePath",
    "file_name",
    "target_file",
    "notebook_path",
];

/// Keys under which they take what they write.
const TEXT_KEYS: &[&str] = &[
    "content",
    "contents",
    "new_string",
    "newString",
    "newText",
    "new_text",
    "new_str",
    "file_text",
    "insert_text",
    "edits",
    "new_source",
    "replacement",
    "code_edit",
    "patch",
    "diff",
];

/// Keys under which tools take a command line.
const COMMAND_KEYS: &[&str] = &["command", "cmd", "script"];

/// What clients put around words of theirs in user messages.
const WRAPPERS: &[&str] = &[
    "system-reminder",
    "local-command-caveat",
    "local-command-stdout",
    "local-command-stderr",
    "command-name",
    "command-message",
    "command-args",
    "command-contents",
    "task-notification",
    "bash-input",
    "bash-stdout",
    "bash-stderr",
    "environment_context",
    "user_instructions",
    "ide_opened_file",
    "ide_selection",
    "user-prompt-submit-hook",
];

/// How messages begin that clients write in the user's place.
const INSERTED: &[&str] = &[
    "Caveat: The messages below were generated",
    "[Request interrupted by user",
    "This session is being continued from a previous conversation",
    "Base directory for this skill:",
    "[longhand ",
];

/// What an agent must know of its own work, so far.
#[derive(Default)]
pub(super) struct AgentWork {
    changed: Vec<String>,
    /// The newest verdict of each check, by its command.
    outcomes: Vec<(String, String)>,
    commits: Vec<String>,
    tasks: Vec<String>,
    user: Vec<String>,
    /// The commands whose results are still to come, by the ids of their calls.
    running: FxHashMap<String, Running>,
    /// Whether the newest assistant message ends with an action that is written as text.
    acts_in_text: bool,
}

struct Running {
    check: Option<String>,
    commits: bool,
}

impl AgentWork {
    /// Reads the next message.
    pub(super) fn read(&mut self, message: &Message) {
        for call in message.calls() {
            let name = call.name.decode();
            let arguments = arguments(call).unwrap_or_else(|| call.arguments.decode().into());
            self.call(&call.id.decode(), &name, &arguments);
        }
        for result in message.results() {
            if let Some(running) = self.running.remove(result.call.decode().as_ref()) {
                self.result(&running, &answer(result));
            }
        }
        let text = lines(message);
        if message.is_user_turn() && !(self.acts_in_text && is_output(&text)) {
            let words = plain(&user_words(&text));
            if !words.is_empty() {
                add(&mut self.user, opening(&words, WORDS_CHARS));
            }
        }
        if message.role == Role::Assistant {
            let end = text.trim_end();
            self.acts_in_text =
                message.calls().next().is_none() && (end.ends_with("```") || end.ends_with('>'));
        }
    }

    /// All that is to be known, by what it is.
    pub(super) fn facts(&self) -> impl Iterator<Item = (Measure, &str)> {
        let of = |measure: Measure, texts| Iterator::map(texts, move |text| (measure, text));
        let outcomes = self.outcomes.iter().map(|(_, line)| (Measure::Outcome, line.as_str()));
        of(Measure::Changed, strs(&self.changed))
            .chain(outcomes)
            .chain(of(Measure::Commit, strs(&self.commits)))
            .chain(of(Measure::Task, strs(&self.tasks)))
            .chain(of(Measure::User, strs(&self.user)))
    }

    fn call(&mut self, id: &str, name: &str, arguments: &Value) {
        for path in changed_files(name, arguments) {
            add(&mut self.changed, path.rsplit(['/', '\\']).next().unwrap_or(&path));
        }
        if let Some(tasks) = task_list(arguments) {
            self.tasks = tasks;
        }
        let command = command_line(arguments);
        let check = match &command {
            Some(command) => check(command),
            None => is_check_tool(name).then(|| format!("{name} {arguments}")),
        };
        let commits = command.is_some_and(|command| command.contains("git commit"));
        if check.is_some() || commits {
            self.running.insert(id.to_owned(), Running { check, commits });
        }
    }

    fn result(&mut self, running: &Running, output: &str) {
        if let (Some(command), Some(line)) = (&running.check, verdict(output)) {
            self.outcomes.retain(|(other, _)| other != command);
            self.outcomes.push((command.clone(), line));
        }
        if running.commits {
            for hash in output.lines().filter_map(commit) {
                add(&mut self.commits, hash);
            }
        }
    }
}

fn strs(texts: &[String]) -> impl Iterator<Item = &str> {
    texts.iter().map(String::as_str)
}

fn add(texts: &mut Vec<String>, text: &str) {
    if !text.is_empty() && !texts.iter().any(|other| other == text) {
        texts.push(text.to_owned());
    }
}

/// The files that a call writes: it has a path and a new text, or a patch names them.
fn changed_files(name: &str, arguments: &Value) -> Vec<String> {
    let field = |keys: &[&str]| keys.iter().find_map(|key| arguments.get(key));
    let file = field(PATH_KEYS).and_then(Value::as_str);
    if let Some(file) = file.filter(|_| field(TEXT_KEYS).is_some() || name == "create") {
        return vec![file.to_owned()];
    }
    let patch = match arguments {
        Value::String(text) => Some(text.as_str()),
        _ => ["input", "patch", "command"].iter().find_map(|key| arguments.get(key)?.as_str()),
    };
    patch.map(patched_files).unwrap_or_default()
}

/// The files that a patch names, as `*** Update File: a.rs` or as `+++ b/a.rs`.
fn patched_files(patch: &str) -> Vec<String> {
    let verbs = ["Update File: ", "Add File: ", "Delete File: ", "Move to: "];
    let (mut files, mut before) = (Vec::new(), "");
    for line in patch.lines() {
        let verb = |rest| verbs.iter().find_map(|verb| str::strip_prefix(rest, verb));
        let named = if let Some(file) = line.strip_prefix("*** ").and_then(verb) {
            file
        } else if let Some(file) = line.strip_prefix("+++ ") {
            // A file that was deleted has a name only in the line before.
            let file = if file.starts_with("/dev/null") { before } else { file };
            file.split('\t').next().unwrap_or(file)
        } else {
            before = line.strip_prefix("--- ").unwrap_or_default();
            continue;
        };
        files.push(named.trim().to_owned());
    }
    files
}

/// The items of a task list that a call writes.
fn task_list(arguments: &Value) -> Option<Vec<String>> {
    let list = ["todos", "plan", "tasks", "items"]
        .iter()
        .find_map(|key| arguments.get(key)?.as_array())?;
    let item = |item: &Value| -> Option<String> {
        // A task has a state; other lists do not.
        item.get("status")?;
        let text = ["content", "step", "title", "task", "text"]
            .iter()
            .find_map(|key| item.get(key)?.as_str())?;
        Some(opening(&plain(text), WORDS_CHARS).to_owned())
    };
    list.iter().map(item).collect()
}

fn command_line(arguments: &Value) -> Option<String> {
    let value = COMMAND_KEYS.iter().find_map(|key| arguments.get(key))?;
    match value {
        Value::String(line) => Some(line.clone()),
        // `["bash", "-lc", "cargo test"]`
        Value::Array(words) => Some(words.last()?.as_str()?.to_owned()),
        _ => None,
    }
}

/// The hash in a line such as `[main 1a2b3c4] Fix it`.
fn commit(line: &str) -> Option<&str> {
    let (head, _) = line.trim_start().strip_prefix('[')?.split_once(']')?;
    let hash = head.split_whitespace().next_back()?;
    let is_hash = (7..=40).contains(&hash.len()) && hash.bytes().all(|b| b.is_ascii_hexdigit());
    is_hash.then_some(hash)
}

/// What of a user message the user said.
fn user_words(text: &str) -> String {
    let mut words = text.to_owned();
    for tag in WRAPPERS {
        let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
        while let Some(start) = words.find(&open) {
            let end =
                words[start..].find(&close).map_or(words.len(), |end| start + end + close.len());
            words.replace_range(start..end, " ");
        }
    }
    let is_inserted = INSERTED.iter().any(|opening| words.trim_start().starts_with(opening));
    if is_inserted { String::new() } else { words }
}

/// Whether a user turn after an action in text is what a program printed.
fn is_output(text: &str) -> bool {
    let (start, end) = (text.trim_start(), text.trim_end());
    let opens = [
        "Observation",
        "OBSERVATION",
        "[File:",
        "<output",
        "<observation",
        "<returncode",
        "Traceback",
    ];
    opens.iter().any(|mark| start.starts_with(mark))
        || end.ends_with('$')
        || end.contains("(Current directory:")
}

#[cfg(test)]
mod tests {
    use longhand_dialect::read;
    use longhand_testkit::notation;

    use super::*;

    fn work(chat: String) -> AgentWork {
        let mut work = AgentWork::default();
        read(chat.into_bytes(), None)
            .unwrap()
            .messages
            .iter()
            .for_each(|message| work.read(message));
        work
    }

    fn check(notation: &str, expected: &[(Measure, &str)]) {
        let work = work(notation::chat(notation));
        assert_eq!(work.facts().collect::<Vec<_>>(), expected, "{notation}");
    }

    #[test]
    fn files_are_changed_by_calls_with_a_path_and_a_text() {
        let calls = r#"a call:edit#1{"path":"/src/lib.rs","newText":"b"} call:read#2{"path":"/src/main.rs"} call:edit#3{"path":"/src/lib.rs","newText":"c"}"#;
        check(calls, &[(Measure::Changed, "lib.rs")]);
        check(r#"a call:create#1{"filename":"a.py"}"#, &[(Measure::Changed, "a.py")]);
        let patch = r#"a call:apply_patch#1{"input":"*** Begin Patch\n*** Update File: src/a.rs\n@@\n*** Add File: b.rs\n+x"}"#;
        check(patch, &[(Measure::Changed, "a.rs"), (Measure::Changed, "b.rs")]);
        let diff = r#"a call:apply_patch#1{"patch":"--- a/src/a.rs\n+++ b/src/a.rs\n@@ -1 +1 @@\n-x\n+y\n--- a/old.rs\n+++ /dev/null\n"}"#;
        check(diff, &[(Measure::Changed, "a.rs"), (Measure::Changed, "old.rs")]);
    }

    #[test]
    fn the_newest_verdict_of_a_check_counts() {
        check(
            r#"a call:bash#1{"command":"cargo test 2>&1|tail -3"} | t #1 2 failed | a call:bash#2{"command":"cargo test"} call:bash#3{"command":"cargo build"} | t #2 3 passed | t #3 1 warning | a call:bash#4{"command":"cargo test"} | t #4 interrupted"#,
            &[(Measure::Outcome, "3 passed"), (Measure::Outcome, "1 warning")],
        );
        check(
            r#"a call:run_tests#1{"filter":"a"} call:run_tests#2{} | t #1 ok, 1 passed | t #2 ok, 9 passed"#,
            &[(Measure::Outcome, "ok, 1 passed"), (Measure::Outcome, "ok, 9 passed")],
        );
    }

    #[test]
    fn commits_are_those_that_git_reports() {
        check(
            r#"a call:bash#1{"command":"git add . && git commit -m 'x'"} | t #1 [main (root-commit) 1a2b3c4] x | a call:bash#2{"command":"git log"} | t #2 [main 9999999] y"#,
            &[(Measure::Commit, "1a2b3c4")],
        );
    }

    #[test]
    fn the_task_list_is_the_one_last_written() {
        check(
            r#"a call:TodoWrite#1{"todos":[{"content":"one","status":"pending"}]} | t #1 ok | a call:TodoWrite#2{"todos":[{"content":"two","status":"done"},{"content":"three","status":"pending"}]}"#,
            &[(Measure::Task, "two"), (Measure::Task, "three")],
        );
        check(r#"a call:x#1{"items":[{"content":"no task"}]}"#, &[]);
    }

    #[test]
    fn user_words_are_without_what_clients_insert() {
        let chat =
            |content: &str| format!(r#"[{{"role":"user","content":{}}}]"#, Value::from(content));
        let said = |content: &str| work(chat(content)).user.first().cloned();
        assert_eq!(
            said("<system-reminder>be\nkind</system-reminder>\nDo  it.").as_deref(),
            Some("Do it.")
        );
        assert_eq!(said("<command-name>/compact</command-name>"), None);
        assert_eq!(said("[Request interrupted by user]"), None);
        assert_eq!(said(&"x".repeat(200)), Some("x".repeat(160)));
    }

    #[test]
    fn what_a_program_printed_is_no_user_word() {
        let turns = [
            ("user", "Fix it.\nbash-$"),
            ("assistant", "ok\n```\nls\n```"),
            ("user", "a.txt\nbash-$"),
            ("assistant", "done"),
            ("user", "thanks"),
        ];
        let list: Vec<Value> = turns
            .iter()
            .map(|(role, content)| serde_json::json!({"role": role, "content": content}))
            .collect();
        assert_eq!(work(Value::from(list).to_string()).user, ["Fix it. bash-$", "thanks"]);
    }
}
