//! What a call does, by the shape of its arguments and the names of well-known tools.

use longhand_core::ToolCall;
pub(super) use longhand_core::anchor::FileChange;
use longhand_core::anchor::is_check_tool;
use longhand_core::json::{JsonCursor, JsonKind, JsonNode, JsonValue};

use crate::quote;

/// An item of a task list: its mark (done, in progress or open) and its text.
pub(super) type Task = (char, String);

/// What a call does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Files are written.
    Edit(Vec<(FileChange, String)>),
    /// The file that is open is written.
    EditOpen,
    /// A file is opened.
    Open(String),
    /// A command runs.
    Run(String),
    /// The task list is written.
    Plan(Vec<Task>),
    /// A task is added to the list.
    AddTask(String),
    /// A task of the list is marked, by its id.
    MarkTask(String, char),
    /// A sub-agent works on something.
    Delegate(String),
    /// Something in the outside world is changed.
    Change(String),
    /// It only reads, or its effect is unknown.
    Look(String),
}

const PATHS: &[&str] = &[
    "file_path",
    "path",
    "filePath",
    "filename",
    "file",
    "target_file",
    "notebook_path",
    "TargetFile",
    "relative_path",
    "file_name",
];
const WHOLE_TEXTS: &[&str] = &["content", "contents", "file_text", "text_content"];
const NEW_TEXTS: &[&str] = &[
    "new_string",
    "new_str",
    "newText",
    "newString",
    "new_text",
    "edits",
    "old_string",
    "oldText",
    "oldString",
    "old_str",
    "code_edit",
    "new_source",
    "replacement",
    "insert_text",
    "insert_line",
    "diff",
    "search",
];
const COMMANDS: &[&str] = &["command", "cmd", "script", "input", "commands"];
const LISTS: &[&str] = &["todos", "plan", "tasks", "items"];
const TASK_TEXTS: &[&str] = &["content", "step", "text", "title", "description", "task"];

/// Tools that run commands, whatever their arguments are called.
const SHELLS: &[&str] = &[
    "bash",
    "shell",
    "sh",
    "exec",
    "exec_command",
    "run_command",
    "execute_command",
    "terminal",
    "run_shell_command",
    "execute_bash",
    "local_shell",
    "run_in_terminal",
    "run_terminal_cmd",
];

/// Tools that hand work to another agent.
const DELEGATES: &[&str] =
    &["task", "agent", "spawn_agent", "delegate", "subagent", "dispatch_agent", "new_task"];

/// Words in the name of a tool that changes something.
#[rustfmt::skip]
const VERBS: &[&str] = &[
    "add", "approve", "assign", "book", "cancel", "change", "charge", "close", "confirm", "create",
    "delete", "deploy", "exchange", "issue", "modify", "move", "open_ticket", "order", "pay", "place",
    "post", "publish", "refund", "register", "remove", "rename", "reply", "reserve", "resolve",
    "return", "save", "schedule", "send", "set", "submit", "transfer", "update", "upgrade", "write",
];

/// What a call does.
///
/// The arguments are handed in decoded, and read if they are JSON.
pub(super) fn action(call: &ToolCall, arguments: &str, node: Option<&JsonNode>) -> Action {
    let name = call.name.decode();
    match node.filter(|_| !call.freeform) {
        Some(node) => ArgumentFields { source: arguments, node }.action(&name),
        None => freeform(&name, arguments),
    }
}

/// The tool of a call and its arguments in short.
pub(super) fn in_short(call: &ToolCall, arguments: &str) -> String {
    let node = JsonCursor::new(arguments).node().ok();
    let values = match node.filter(|_| !call.freeform) {
        Some(node) => ArgumentFields { source: arguments, node: &node }.values(60),
        None => vec![quote::line_within(arguments, 60)],
    };
    described(&call.name.decode(), &values)
}

/// The action of a call whose arguments are no object.
fn freeform(name: &str, input: &str) -> Action {
    let patched = patched(input);
    if !patched.is_empty() {
        return Action::Edit(patched);
    }
    if is_one_of(name, SHELLS) {
        return Action::Run(input.to_owned());
    }
    Action::Look(described(name, &[quote::line_within(input, 60)]))
}

fn patched(patch: &str) -> Vec<(FileChange, String)> {
    let files = longhand_core::anchor::patched(patch).into_iter();
    files.map(|(change, path)| (change, path.to_owned())).collect()
}

struct ArgumentFields<'a> {
    source: &'a str,
    node: &'a JsonNode,
}

impl ArgumentFields<'_> {
    fn action(&self, name: &str) -> Action {
        if let Some(tasks) = LISTS.iter().find_map(|list| self.tasks(list)) {
            return Action::Plan(tasks);
        }
        if let Some(task) = self.one_task() {
            return task;
        }
        if let Some(command) = self.command(name) {
            return self.run(command);
        }
        let patch = ["patch", "input", "diff"].iter().find_map(|key| self.text(key));
        let patched = patch.map(|patch| patched(&patch)).unwrap_or_default();
        if !patched.is_empty() {
            return Action::Edit(patched);
        }
        let low = name.to_ascii_lowercase();
        if let Some(path) = PATHS.iter().find_map(|key| self.text(key)) {
            return self.on_file(&low, path.trim().to_owned());
        }
        if matches!(&*low, "edit" | "insert") {
            return Action::EditOpen;
        }
        if is_one_of(&low, DELEGATES) || self.has(&["subagent_type"]) {
            let about = ["description", "prompt", "message", "task"];
            let about = about.iter().find_map(|key| self.text(key)).unwrap_or_default();
            return Action::Delegate(quote::line_within(&about, 80));
        }
        if is_check_tool(name) {
            return Action::Run(described(name, &self.values(60)));
        }
        let mut words = low.split(|c: char| !c.is_ascii_alphanumeric());
        if words.any(|word| VERBS.contains(&word)) {
            return Action::Change(described(name, &self.values(160)));
        }
        Action::Look(described(name, &self.values(60)))
    }

    /// What is done with a file that is named.
    fn on_file(&self, tool: &str, path: String) -> Action {
        let command = self.text("command").unwrap_or_default();
        let removes = |word: &str| word.contains("delete") || word.contains("remove");
        if removes(tool) || removes(&command) {
            return Action::Edit(vec![(FileChange::Deleted, path)]);
        }
        let creates = ["write", "create"].iter().any(|word| tool.contains(word));
        if self.has(WHOLE_TEXTS) || command == "create" || (creates && !self.has(NEW_TEXTS)) {
            return Action::Edit(vec![(FileChange::Created, path)]);
        }
        // A search has a path and a text to look for, but nothing new.
        let searches = ["search", "grep", "find", "read", "view", "list", "glob"];
        let looks = searches.iter().any(|word| tool.contains(word)) || command == "view";
        if self.has(NEW_TEXTS) && !looks {
            return Action::Edit(vec![(FileChange::Changed, path)]);
        }
        Action::Open(path)
    }

    fn run(&self, command: String) -> Action {
        let path = PATHS.iter().find_map(|key| self.text(key));
        match (&*command, path) {
            // An editor tool names its operation in `command`.
            ("create" | "str_replace" | "insert" | "view" | "undo_edit" | "delete", Some(path)) => {
                match &*command {
                    "create" => Action::Edit(vec![(FileChange::Created, path)]),
                    "delete" => Action::Edit(vec![(FileChange::Deleted, path)]),
                    "view" => Action::Open(path),
                    _ => Action::Edit(vec![(FileChange::Changed, path)]),
                }
            }
            _ => Action::Run(command),
        }
    }

    fn command(&self, name: &str) -> Option<String> {
        let keys = if is_one_of(name, SHELLS) { COMMANDS } else { &COMMANDS[..2] };
        keys.iter().find_map(|key| {
            let value = self.node.get(self.source, key)?;
            match value.kind {
                JsonKind::Array => self.strings(&value).pop(),
                _ => value.str(self.source).map(std::borrow::Cow::into_owned),
            }
        })
    }

    /// The action of a tool that keeps a task list item by item.
    fn one_task(&self) -> Option<Action> {
        if let Some((id, status)) = self.text("taskId").zip(self.text("status")) {
            return Some(Action::MarkTask(quote::line_within(&id, 20), task_mark(&status)));
        }
        let subject = self.text("subject").filter(|_| self.has(&["activeForm"]))?;
        Some(Action::AddTask(quote::line_within(&subject, 300)))
    }

    /// The items of a task list.
    fn tasks(&self, key: &str) -> Option<Vec<Task>> {
        let list = self.node.get(self.source, key).filter(|list| list.kind == JsonKind::Array)?;
        let mut tasks = Vec::new();
        let mut cursor = JsonCursor::at(self.source, list.span().start);
        let read = cursor.elements(|cursor| {
            let node = cursor.node()?;
            let text = |key: &&str| node.get(self.source, key)?.str(self.source);
            if let Some(words) = TASK_TEXTS.iter().find_map(text) {
                let status =
                    node.get(self.source, "status").and_then(|value| value.str(self.source));
                let done = node.get(self.source, "done").map(|value| &self.source[value.span()]);
                let mark = if done == Some("true") {
                    'x'
                } else {
                    task_mark(status.as_deref().unwrap_or_default())
                };
                tasks.push((mark, quote::line_within(&words, 300)));
            }
            Ok(())
        });
        (read.is_ok() && !tasks.is_empty()).then_some(tasks)
    }

    fn strings(&self, list: &JsonValue) -> Vec<String> {
        let mut strings = Vec::new();
        let mut cursor = JsonCursor::at(self.source, list.span().start);
        let _ = cursor.elements(|cursor| {
            let value = cursor.value()?;
            strings.extend(value.str(self.source).map(std::borrow::Cow::into_owned));
            cursor.skip(&value);
            Ok(())
        });
        strings
    }

    fn text(&self, key: &str) -> Option<String> {
        let value = self.node.get(self.source, key)?.str(self.source)?;
        Some(value.into_owned()).filter(|value| !value.trim().is_empty())
    }

    fn has(&self, keys: &[&str]) -> bool {
        keys.iter().any(|key| self.node.get(self.source, key).is_some())
    }

    /// The arguments in short.
    fn values(&self, chars_max: usize) -> Vec<String> {
        let mut left = chars_max;
        let mut values = Vec::new();
        for (key, value) in &self.node.fields {
            let Some(key) = key.str(self.source) else { continue };
            let shown = match value.str(self.source) {
                Some(text) => text.into_owned(),
                None => self.source[value.span()].replace(['"', '{', '}', '[', ']'], ""),
            };
            if shown.trim().is_empty() {
                continue;
            }
            let shown = format!("{key}={}", quote::line_within(&shown, left.clamp(20, 120)));
            left = left.saturating_sub(shown.len());
            values.push(shown);
            if left == 0 {
                break;
            }
        }
        values
    }
}

/// The mark of a task's status.
fn task_mark(status: &str) -> char {
    match status {
        "completed" | "done" | "complete" => 'x',
        "in_progress" | "in-progress" | "active" => '>',
        "cancelled" | "canceled" | "deleted" => '-',
        _ => ' ',
    }
}

fn described(name: &str, values: &[String]) -> String {
    let name = quote::line_within(name, 60);
    if values.is_empty() { name } else { format!("{name} {}", values.join(" ")) }
}

fn is_one_of(name: &str, known: &[&str]) -> bool {
    known.iter().any(|other| name.eq_ignore_ascii_case(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    #[allow(clippy::needless_pass_by_value, reason = "cases read better without borrows")]
    fn check(name: &str, arguments: &str, expected: Action) {
        let call = ToolCall {
            id: "1".into(),
            name: name.into(),
            arguments: arguments.into(),
            freeform: !arguments.starts_with('{'),
        };
        let node = JsonCursor::new(arguments).node().ok();
        assert_eq!(action(&call, arguments, node.as_ref()), expected, "{name} {arguments}");
    }

    #[test]
    fn the_tools_of_well_known_agents_are_known() {
        let changed = |path: &str| Action::Edit(vec![(FileChange::Changed, path.to_owned())]);
        let created = |path: &str| Action::Edit(vec![(FileChange::Created, path.to_owned())]);
        let run = |command: &str| Action::Run(command.to_owned());
        check(
            "Edit",
            r#"{"replace_all":false,"file_path":"a.rs","old_string":"x","new_string":"y"}"#,
            changed("a.rs"),
        );
        check("MultiEdit", r#"{"file_path":"a.rs","edits":[]}"#, changed("a.rs"));
        check("Write", r#"{"file_path":"a.rs","content":"x"}"#, created("a.rs"));
        check("edit", r#"{"path":"a.ts","oldText":"x","newText":"y"}"#, changed("a.ts"));
        check("edit", r#"{"filePath":"a.go","oldString":"x","newString":"y"}"#, changed("a.go"));
        check("Read", r#"{"file_path":"a.rs"}"#, Action::Open("a.rs".to_owned()));
        check("Grep", r#"{"pattern":"x","path":"src"}"#, Action::Open("src".to_owned()));
        check("Bash", r#"{"command":"ls","description":"d"}"#, run("ls"));
        check("shell", r#"{"command":["bash","-lc","cargo test"]}"#, run("cargo test"));
        check("exec_command", r#"{"cmd":"ls"}"#, run("ls"));
        check(
            "str_replace_editor",
            r#"{"command":"create","path":"a.py","file_text":"x"}"#,
            created("a.py"),
        );
        check(
            "str_replace_based_edit_tool",
            r#"{"command":"str_replace","path":"a.py"}"#,
            changed("a.py"),
        );
        check("create", r#"{"filename":"a.py"}"#, created("a.py"));
        check("edit", r#"{"search":"x","replace":"y"}"#, Action::EditOpen);
        check(
            "apply_patch",
            "*** Begin Patch\n*** Update File: a.rs\n*** Add File: b.rs\n*** End Patch",
            Action::Edit(vec![
                (FileChange::Changed, "a.rs".to_owned()),
                (FileChange::Created, "b.rs".to_owned()),
            ]),
        );
        check(
            "apply_patch",
            r#"{"patch":"--- a/src/w.rs\n+++ b/src/w.rs\n@@ -1 +1 @@"}"#,
            changed("src/w.rs"),
        );
        check(
            "TodoWrite",
            r#"{"todos":[{"content":"one","status":"completed"},{"content":"two","status":"pending"}]}"#,
            Action::Plan(vec![('x', "one".to_owned()), (' ', "two".to_owned())]),
        );
        check(
            "update_plan",
            r#"{"plan":[{"step":"one","status":"in_progress"}]}"#,
            Action::Plan(vec![('>', "one".to_owned())]),
        );
        check(
            "TaskCreate",
            r#"{"subject":"one","description":"d","activeForm":"doing one"}"#,
            Action::AddTask("one".to_owned()),
        );
        check(
            "TaskUpdate",
            r#"{"taskId":"1","status":"in_progress"}"#,
            Action::MarkTask("1".to_owned(), '>'),
        );
        check(
            "Task",
            r#"{"description":"look","subagent_type":"x","prompt":"p"}"#,
            Action::Delegate("look".to_owned()),
        );
        check("run_tests", r#"{"filter":"wheel"}"#, run("run_tests filter=wheel"));
        check(
            "update_reservation",
            r#"{"id":"R-1","cabin":"economy","n":[1,2]}"#,
            Action::Change("update_reservation id=R-1 cabin=economy n=1,2".to_owned()),
        );
        check("get_user", r#"{"id":"u_1"}"#, Action::Look("get_user id=u_1".to_owned()));
        check("lookup", "not json", Action::Look("lookup not json".to_owned()));
    }
}
