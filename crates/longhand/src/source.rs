//! What agents' session files say besides messages: when each was said, and where.

use longhand_archive::Origin;
use longhand_core::json::JsonCursor;
use longhand_dialect::Dialect;
use serde_json::Value;

use crate::time;

/// In how many lines of a session file its folder is looked for.
const LINES_MAX: usize = 20;

/// When a line of a session file was written, in milliseconds since 1970; `None` if it does not say so, or if it is
/// another kind of message.
pub(crate) fn source_ms(dialect: Dialect, raw: &str) -> Option<i64> {
    if !dialect.is_session_file() {
        return None;
    }
    let line = JsonCursor::new(raw).node().ok()?;
    time::parse(&line.get(raw, "timestamp")?.str(raw)?)
}

/// Where a conversation in a file comes from, as far as the beginning of the file says so.
///
/// ```
/// let line = r#"{"type":"session","id":"1","timestamp":"2026-11-20T23:33:50Z","cwd":"/home/me/work"}"#;
/// let origin = longhand::driver::origin_of(longhand::Dialect::Pi, line, "session.jsonl");
/// assert_eq!((origin.project.as_str(), origin.agent.as_str()), ("/home/me/work", "pi"));
/// ```
pub fn origin_of(dialect: Dialect, beginning: &str, file: &str) -> Origin {
    let file = file.to_owned();
    if !dialect.is_session_file() {
        return Origin { file, ..Origin::default() };
    }
    let lines = beginning.lines().take(LINES_MAX);
    let project =
        lines.filter_map(|line| serde_json::from_str::<Value>(line).ok()).find_map(|line| {
            let places = [&line["cwd"], &line["payload"]["cwd"]];
            places.into_iter().find_map(|folder| folder.as_str().map(str::to_owned))
        });
    let agent = dialect.as_str().to_owned();
    Origin { project: project.unwrap_or_default(), agent, file, offset: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_that_of_the_line_and_not_of_what_is_in_it() {
        let line = r#"{"message":{"timestamp":"2001-01-01T00:00:00Z"},"timestamp":"1970-01-01T00:00:02.500Z"}"#;
        assert_eq!(source_ms(Dialect::ClaudeCode, line), Some(2_500));
        assert_eq!(source_ms(Dialect::Chat, line), None);
        for line in
            ["", "{}", "[1]", r#"{"timestamp":5}"#, r#"{"timestamp":"soon"}"#, "{\"timestamp"]
        {
            assert_eq!(source_ms(Dialect::Pi, line), None, "{line}");
        }
    }

    #[test]
    fn the_folder_is_where_each_agent_writes_it() {
        let codex = r#"{"type":"session_meta","payload":{"cwd":"/tmp/repo"}}"#;
        let claude =
            "{\"type\":\"summary\"}\nno json\n{\"cwd\":\"/home/me\"}\n{\"cwd\":\"/other\"}";
        for (dialect, text, project) in [
            (Dialect::Codex, codex, "/tmp/repo"),
            (Dialect::ClaudeCode, claude, "/home/me"),
            (Dialect::Chat, codex, ""),
            (Dialect::Pi, "", ""),
        ] {
            let origin = origin_of(dialect, text, "a.jsonl");
            assert_eq!((origin.project.as_str(), origin.file.as_str()), (project, "a.jsonl"));
        }
    }
}
