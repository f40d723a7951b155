//! The lines of `serve -v`: one for each request, as it ends.

use std::sync::Arc;

use longhand_core::grouped;
use longhand_server::LogSink;
use serde_json::Value;

use crate::output;

/// Takes the lines of a log, and prints them as people read them.
pub(crate) fn sink() -> LogSink {
    Arc::new(|line: &str| {
        if let Some(line) = readable(line) {
            output::say(&output::harmless_line(&line));
        }
    })
}

/// Hands each line to both.
pub(crate) fn both(one: Option<LogSink>, other: Option<LogSink>) -> Option<LogSink> {
    match (one, other) {
        (Some(one), Some(other)) => Some(Arc::new(move |line: &str| {
            one(line);
            other(line);
        })),
        (one, other) => one.or(other),
    }
}

/// A line of the log for people; `None` if it is none.
fn readable(line: &str) -> Option<String> {
    let line: Value = serde_json::from_str(line).ok()?;
    let text = |key: &str| line[key].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let number = |key: &str| line[key].as_u64();
    let tokens = |count: u64| grouped(usize::try_from(count).unwrap_or(usize::MAX));
    // The time of day is enough while one looks on.
    let at = text("at").and_then(|at| at.get(11..19).map(str::to_owned)).unwrap_or_default();
    let what = match (number("tokens_before"), number("tokens_after")) {
        (Some(before), Some(after)) if after < before => {
            Some(format!("{} → {} tokens", tokens(before), tokens(after)))
        }
        (_, Some(after)) => Some(format!("{} tokens", tokens(after))),
        _ => None,
    };
    let status = number("status").map(|status| status.to_string());
    let ms = line["ms"].as_f64().map(|ms| {
        if ms < 1_000.0 { format!("{ms:.0} ms") } else { format!("{:.1} s", ms / 1_000.0) }
    });
    let notices = ["why", "cause", "error", "notice"].into_iter().filter_map(text);
    let pieces = [text("path"), text("model"), text("session"), text("outcome"), what, status, ms];
    let pieces: Vec<String> = pieces.into_iter().flatten().chain(notices).collect();
    Some(format!("{at}  {}", pieces.join("  ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_a_line() {
        let line = r#"{"at":"2026-11-15T19:29:01.250Z","level":"info","method":"POST","path":"/v1/messages",
            "outcome":"compacted","edits":9,"tokens_before":32400,"tokens_after":12800,"status":200,
            "model":"m","session":"fix-build","ms":1234.5}"#;
        assert_eq!(
            readable(line).unwrap(),
            "19:29:01  /v1/messages  m  fix-build  compacted  32,400 → 12,800 tokens  200  1.2 s"
        );
        let failed = r#"{"at":"2026-11-15T19:29:01.250Z","path":"/v1/x","outcome":"refused","why":"no key","status":401,"ms":0.4}"#;
        assert_eq!(readable(failed).unwrap(), "19:29:01  /v1/x  refused  401  0 ms  no key");
        assert_eq!(readable("no JSON"), None);
    }
}
