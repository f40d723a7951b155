//! The command that goes on with a session.

use std::path::Path;

use longhand_archive::SessionInfo;
use longhand_dialect::Dialect;
use serde::{Deserialize, Serialize};

use crate::agent_files::{Agent, AgentFile};

/// What goes on with a session, for a terminal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ResumeCommand {
    /// One line for a shell.
    pub command: String,
    /// What it does.
    pub what: String,
}

/// The command that goes on with a session; `None` if none is known.
pub(super) fn resume_command(info: &SessionInfo) -> Option<ResumeCommand> {
    let dialect = info.dialect.parse::<Dialect>().ok();
    let agent = match dialect {
        Some(Dialect::ClaudeCode) => Some(Agent::Claude),
        Some(Dialect::Codex) => Some(Agent::Codex),
        Some(Dialect::Pi) => Some(Agent::Pi),
        _ => None,
    };
    if let Some(agent) = agent.filter(|_| !info.origin.file.is_empty()) {
        let file = AgentFile::of(agent, Path::new(&info.origin.file));
        let command = match (agent, file.id) {
            (Agent::Pi, _) => format!("pi --session {}", quoted(&info.origin.file)),
            (Agent::Codex, Some(id)) => format!("codex resume {id}"),
            (Agent::Claude, Some(id)) => format!("claude --resume {id}"),
            _ => return None,
        };
        let what = format!("goes on in {}", agent.as_str());
        return Some(ResumeCommand { command: in_folder(&info.origin.project, command), what });
    }
    // A session of our own: the command that talks in it.
    let is_chat = info.usage.agent == "longhand chat";
    is_chat.then(|| ResumeCommand {
        command: format!("longhand chat {}", quoted(&info.name)),
        what: "goes on in the terminal".to_owned(),
    })
}

/// A command in the folder that its agent worked in.
fn in_folder(folder: &str, command: String) -> String {
    if folder.is_empty() { command } else { format!("cd {} && {command}", quoted(folder)) }
}

/// A word of a command line. What a session says is hostile: nothing in it is left to the shell.
pub(super) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_.@+:/".contains(c);
    if !word.is_empty() && !word.starts_with('-') && word.chars().all(is_plain) {
        return word.to_owned();
    }
    // A line break would end the command where it is pasted.
    let word: String = word.chars().filter(|c| !c.is_control()).collect();
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use longhand_archive::Origin;

    use super::*;

    #[test]
    fn each_agent_has_its_command() {
        let id = "0199aaaa-1111-7222-8333-444455556666";
        for (dialect, file, project, expected) in [
            (
                "claude-code",
                format!("/h/.claude/projects/x/{id}.jsonl"),
                "/src/my project",
                Some(format!("cd '/src/my project' && claude --resume {id}")),
            ),
            (
                "codex",
                format!("/h/.codex/sessions/rollout-x-{id}.jsonl"),
                "",
                Some(format!("codex resume {id}")),
            ),
            (
                "pi",
                "/h/it's.jsonl".to_owned(),
                "/src",
                Some(r"cd /src && pi --session '/h/it'\''s.jsonl'".to_owned()),
            ),
            ("claude-code", "/h/no-id.jsonl".to_owned(), "/src", None),
            ("chat", String::new(), "/src", None),
        ] {
            let origin = Origin { file, project: project.to_owned(), ..Origin::default() };
            let info =
                SessionInfo { dialect: dialect.to_owned(), origin, ..SessionInfo::default() };
            let command = resume_command(&info).map(|resume| resume.command);
            assert_eq!(command, expected, "{dialect}");
        }
    }

    #[test]
    fn what_is_pasted_into_a_shell_is_one_command() {
        assert_eq!(quoted("a\nrm -rf ~"), "'arm -rf ~'");
        assert_eq!(quoted("$(touch x)"), "'$(touch x)'");
        assert_eq!(quoted("-x"), "'-x'");
    }
}
