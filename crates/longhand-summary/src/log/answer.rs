//! The answer to a call, and what is found in it once for all who read it.

use longhand_core::anchor::{check_of, failure_line};

use super::action::{Action, FileChange};
use super::shell;
use super::work::{command_line, exit_code};

/// The answer to a call.
pub(super) struct Answer<'t> {
    pub(super) text: &'t str,
    pub(super) is_error: bool,
    /// How a command ended, if the call ran one.
    pub(super) run: Option<CommandRun<'t>>,
}

impl<'t> Answer<'t> {
    pub(super) fn of(action: &Action, text: &'t str, is_error: bool) -> Self {
        let run = match action {
            Action::Run(command) => Some(CommandRun::of(command, text, is_error)),
            _ => None,
        };
        Self { text, is_error, run }
    }
}

/// What a command did, by its words and by what it printed.
pub(super) struct CommandRun<'t> {
    /// The command without a leading `cd` and without redirections.
    pub(super) line: String,
    /// The checks in it.
    pub(super) check: Option<String>,
    /// The files that it writes or removes.
    pub(super) written: Vec<(FileChange, String)>,
    /// Whether it only reads.
    pub(super) only_looks: bool,
    /// Whether the agent or its exit code says that it failed.
    pub(super) ended_badly: bool,
    /// The line that reports a failure, and whether it is grave.
    pub(super) failure: Option<(&'t str, bool)>,
}

impl<'t> CommandRun<'t> {
    fn of(command: &str, output: &'t str, is_error: bool) -> Self {
        Self {
            line: command_line(command),
            check: check_of(command),
            written: shell::written(command),
            only_looks: shell::only_looks(command) || is_diff(output),
            ended_badly: is_error || exit_code(output).is_some_and(|code| code != 0),
            failure: failure_line(output),
        }
    }

    /// The files and folders that it removes.
    pub(super) fn removed(&self) -> impl Iterator<Item = &str> {
        let removed = self.written.iter().filter(|(change, _)| *change == FileChange::Deleted);
        removed.map(|(_, path)| path.as_str())
    }

    /// Whether its output is told elsewhere: how a check ended with the checks, and a failure until it is repaired.
    pub(super) fn is_told(&self) -> bool {
        let has_failed = !self.only_looks && self.failure.is_some();
        self.check.is_some() || self.ended_badly || has_failed
    }
}

/// Whether an output shows changes of files: an error in their lines is text, and nothing that failed.
fn is_diff(output: &str) -> bool {
    const LOOKED_AT: usize = 5;
    let mut first = output.lines().take(LOOKED_AT);
    first.any(|line| line.starts_with("diff --git ") || line.starts_with("@@ -"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_in_a_diff_is_no_failure() {
        let action = Action::Run("gh pr diff 7".to_owned());
        let error = "+    t.Errorf(\"error: the wheel failed\")\n";
        let diff = format!("diff --git a/w.go b/w.go\n@@ -1,2 +1,3 @@\n{error}");
        assert!(Answer::of(&action, &diff, false).run.unwrap().only_looks);
        assert!(!Answer::of(&action, error, false).run.unwrap().only_looks);
    }

    #[test]
    fn the_end_of_a_long_output_says_how_a_command_ended() {
        let output = format!("{}Exit code 1", "all is well so far\n".repeat(10_000));
        let action = Action::Run("sh deploy.sh".to_owned());
        let is_told = |text: &str| Answer::of(&action, text, false).run.unwrap().is_told();
        assert!(is_told(&output));
        assert!(!is_told(output.trim_end_matches("Exit code 1")));
    }
}
