//! The task that the model plays: what it does in each part, and what must be remembered of it.

use longhand_testkit::filler;

/// What the prompts of the main conversation begin with.
pub(crate) const MARK: &str = "Task QX-4471";

/// What the prompt of a sub-agent begins with.
pub(crate) const SUB_MARK: &str = "Subtask QX-4472";

/// How many logs there are, and about how long each is.
pub(crate) const LOGS: usize = 14;
const LOG_LINES: usize = 210;

/// One step of the model.
#[derive(Clone, Debug)]
pub(crate) enum TaskAction {
    /// Reads a file.
    Read(String),
    /// Replaces a line of a file by another.
    Edit { path: String, old: String, new: String },
    /// Runs a check whose output is a long log.
    Check(usize),
    /// Writes the task list.
    Tasks(Vec<(String, &'static str)>),
    /// Has a sub-agent look.
    Delegate(String),
    /// Looks at a picture.
    Look(String),
    /// Ends the part with words.
    Say(String),
}

/// The steps of one part, which begins with a prompt and ends with words.
pub(crate) struct TaskPart {
    pub(crate) prompt: String,
    pub(crate) actions: Vec<TaskAction>,
}

/// All parts. The agent is ended after each and goes on in the next.
pub(crate) fn parts() -> Vec<TaskPart> {
    let mut first =
        vec![TaskAction::Tasks(tasks(0)), TaskAction::Read(source(0)), TaskAction::Read(source(1))];
    for log in 0..LOGS / 2 {
        first.push(TaskAction::Check(log));
        if log % 2 == 0 {
            first.push(edit(log / 2, log));
        }
        if log == 2 {
            first.push(TaskAction::Delegate(format!(
                "{SUB_MARK}: count the functions in {}.",
                source(1)
            )));
        }
    }
    first.push(TaskAction::Look("diagram.png".to_owned()));
    first.push(TaskAction::Tasks(tasks(1)));
    first.push(TaskAction::Say(said(1)));
    let mut second = vec![TaskAction::Read(source(2))];
    for log in LOGS / 2..LOGS {
        second.push(TaskAction::Check(log));
        if log % 3 == 0 {
            second.push(edit(2, log));
        }
    }
    second.push(TaskAction::Tasks(tasks(2)));
    // It did not change since it was read, and some clients refuse to show it again.
    second.push(TaskAction::Read(source(3)));
    second.push(TaskAction::Check(LOGS));
    second.push(TaskAction::Read(source(3)));
    second.push(TaskAction::Say(said(2)));
    second.insert(1, TaskAction::Read(source(3)));
    let prompt = |number: usize| {
        format!(
            "{MARK}, part {number}: find out why the workers lose their leases, and mend it. \
             Never touch the file LICENSE."
        )
    };
    vec![
        TaskPart { prompt: prompt(1), actions: first },
        TaskPart { prompt: prompt(2), actions: second },
    ]
}

fn edit(file: usize, number: usize) -> TaskAction {
    let old = format!("line {number:03} of {}", name(file));
    TaskAction::Edit { path: source(file), new: format!("{old}, mended"), old }
}

fn name(file: usize) -> String {
    format!("lease_{file}")
}

/// The path of a source file.
pub(crate) fn source(file: usize) -> String {
    format!("src/{}.txt", name(file))
}

/// The text of a source file; no line is in another file.
pub(crate) fn source_text(file: usize) -> String {
    let line = |at: usize| {
        format!("line {at:03} of {} {}\n", name(file), filler::words(9, (file * 1_000 + at) as u64))
    };
    (0..120).map(line).collect()
}

/// A line that is in the last file that was read, and nowhere else.
pub(crate) fn reread_line() -> String {
    source_text(3).lines().nth(60).unwrap().to_owned()
}

/// What a check says: a log with one line that matters.
pub(crate) fn log_text(log: usize) -> String {
    let line = |at: usize| {
        if at == LOG_LINES / 2 {
            return format!("2026-11-02T10:{:02}:07Z FATAL worker: {}\n", log % 60, telling(log));
        }
        let noise = filler::words(12, (log * 10_000 + at) as u64);
        format!("2026-11-02T10:{:02}:{:02}Z INFO worker {at}: {noise}\n", log % 60, at % 60)
    };
    (0..LOG_LINES).map(line).collect()
}

/// The words of a log that matter.
pub(crate) fn telling(log: usize) -> String {
    format!(
        "lease L{:04}-{log} of shard S-{} was lost after {} ms",
        3_100 + 37 * log,
        20 + log,
        811 + log
    )
}

/// The task list at a point of the work.
fn tasks(at: usize) -> Vec<(String, &'static str)> {
    let texts = [
        "Reproduce the lost lease on shard S-21",
        "Mend the renewal in lease_0",
        "Mend the clock skew in lease_1",
        "Add a test for the handover in lease_2",
        "Write down what was found",
    ];
    let state = |task: usize| match task.cmp(&(at * 2)) {
        std::cmp::Ordering::Less => "completed",
        std::cmp::Ordering::Equal => "in_progress",
        std::cmp::Ordering::Greater => "pending",
    };
    let list = texts.iter().enumerate();
    list.map(|(task, text)| (format!("{text} (v{at})"), state(task))).collect()
}

/// What the newest task list says.
pub(crate) fn newest_tasks() -> Vec<String> {
    tasks(2).into_iter().map(|(text, _)| text).collect()
}

/// The words that a part ends with.
pub(crate) fn said(part: usize) -> String {
    format!(
        "Part {part} is done: the lease was renewed too late, ticket QX-90{part}3 has the details."
    )
}

/// What `search` must find, whatever was left out of windows.
pub(crate) fn lines() -> Vec<String> {
    let logs = (0..=LOGS).map(|log| format!("L{:04}-{log}", 3_100 + 37 * log));
    let said = (1..=2).map(|part| format!("QX-90{part}3"));
    logs.chain(said).chain([reread_line()]).collect()
}
