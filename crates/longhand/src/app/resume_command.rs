//! The command that goes on with a session.

use std::path::Path;

use longhand_archive::SessionInfo;
use serde::{Deserialize, Serialize};

use crate::agent_files::{Agent, AgentCommand, AgentFile};

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
    let agent = info.dialect.parse().ok().and_then(Agent::of_dialect);
    if let Some(agent) = agent.filter(|_| !info.origin.file.is_empty()) {
        let path = Path::new(&info.origin.file);
        let id = AgentFile::of(agent, path).id?;
        let folder = Some(info.origin.project.clone()).filter(|folder| !folder.is_empty());
        let command = AgentCommand::resume(agent, path, &id, folder).line;
        let what = format!("goes on in {}", agent.as_str());
        return Some(ResumeCommand { command, what });
    }
    // A session of our own: the command that talks in it.
    let is_chat = info.usage.agent == "longhand chat";
    is_chat.then(|| ResumeCommand {
        command: AgentCommand::new(None, &["longhand", "chat", &info.name]).line,
        what: "goes on in the terminal".to_owned(),
    })
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
                format!("/h/it's/{id}.jsonl"),
                "/src",
                Some(format!(r"cd /src && pi --session '/h/it'\''s/{id}.jsonl'")),
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
}
