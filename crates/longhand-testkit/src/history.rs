//! Very long conversations for benchmarks, written straight into JSON text.

use std::fmt::Write as _;

use crate::rng::Rng;

/// Makes a Chat Completions array of exactly `messages` messages, about 3 KB each.
///
/// Rounds of a user message, some steps with one or two calls and a closing answer. Results are
/// log-normal with a median of 2 KB; three of a hundred have 50 KB.
pub fn history(seed: u64, messages: usize) -> String {
    let mut writer = HistoryWriter {
        rng: Rng::new(seed),
        json: String::with_capacity(messages * 3_300 + 1_000),
        left: messages,
        calls: 0,
    };
    writer.json.push('[');
    while writer.left > 0 {
        writer.round();
    }
    writer.json.push(']');
    writer.json
}

struct HistoryWriter {
    rng: Rng,
    json: String,
    left: usize,
    calls: usize,
}

impl HistoryWriter {
    fn round(&mut self) {
        self.open_message("user");
        let length = self.length(200.0, 0.5, 1_000);
        self.prose(length);
        self.json.push_str("\"}");
        for _ in 0..self.rng.range(2..7) {
            let calls = if self.rng.chance(0.35) { 2 } else { 1 };
            if self.left > calls {
                self.step(calls);
            }
        }
        if self.left > 0 {
            self.open_message("assistant");
            let length = self.length(600.0, 0.5, 3_000);
            self.prose(length);
            self.json.push_str("\"}");
        }
    }

    /// An assistant message with calls and one result for each.
    fn step(&mut self, calls: usize) {
        self.open_message("assistant");
        let length = self.length(550.0, 0.5, 3_000);
        self.prose(length);
        self.json.push_str("\",\"tool_calls\":[");
        let first = self.calls;
        self.calls += calls;
        for call in first..self.calls {
            if call > first {
                self.json.push(',');
            }
            self.call(call);
        }
        self.json.push_str("]}");
        for call in first..self.calls {
            self.open_message("tool");
            let length =
                if self.rng.chance(0.03) { 50_000 } else { self.length(2_048.0, 1.1, 30_000) };
            self.output(length);
            let _ = write!(self.json, "\",\"tool_call_id\":\"call_{call:09x}\"}}");
        }
    }

    /// Writes a message up to the first character of its content.
    fn open_message(&mut self, role: &str) {
        self.left -= 1;
        if !self.json.ends_with('[') {
            self.json.push(',');
        }
        let _ = write!(self.json, "{{\"role\":\"{role}\",\"content\":\"");
    }

    /// Arguments are JSON inside a JSON string, so their quotes and newlines are escaped twice.
    fn call(&mut self, call: usize) {
        let _ = write!(
            self.json,
            "{{\"id\":\"call_{call:09x}\",\"type\":\"function\",\"function\":{{\"name\":\""
        );
        if self.rng.chance(0.09) {
            self.json.push_str("apply_patch\",\"arguments\":\"{\\\"patch\\\":\\\"");
            let end = self.json.len() + self.length(3_000.0, 0.4, 9_000);
            while self.json.len() < end {
                let sign = *self.rng.choose(&["+", "-", " ", " "]);
                self.json.push_str(sign);
                self.code_line("\\\\\\\"");
                self.json.push_str("\\\\n");
            }
            self.json.push_str("\\\"}\"}}");
            return;
        }
        let name = *self.rng.choose(&["read_file", "run_tests", "search", "list_dir"]);
        let _ = write!(self.json, "{name}\",\"arguments\":\"{{\\\"path\\\":\\\"src/");
        self.word();
        self.json.push_str(".rs\\\",\\\"reason\\\":\\\"");
        let length = self.rng.range(60..300);
        self.prose(length);
        let _ = write!(self.json, "\\\",\\\"from\\\":{}}}\"}}}}", self.rng.range(1..900));
    }

    fn length(&mut self, median: f64, sigma: f64, max: usize) -> usize {
        (self.rng.log_normal(median, sigma) as usize).clamp(20, max)
    }

    fn prose(&mut self, length: usize) {
        let end = self.json.len() + length;
        while self.json.len() < end {
            for _ in 0..self.rng.range(4..12) {
                self.word();
                self.json.push(' ');
            }
            if self.rng.chance(0.3) {
                let _ = write!(self.json, "`{}", self.rng.range(10..9_000));
                self.json.push_str("` ");
            }
            self.word();
            self.json.push_str(". ");
        }
        self.json.pop();
    }

    /// Lines of code or of a log, never both in one output.
    fn output(&mut self, length: usize) {
        let end = self.json.len() + length;
        let code = self.rng.chance(0.5);
        let mut number = self.rng.range(1..400);
        while self.json.len() < end {
            if code {
                let _ = write!(self.json, "{number:>5}\\t");
                number += 1;
                self.code_line("\\\"");
            } else {
                self.log_line();
            }
            self.json.push_str("\\n");
        }
    }

    fn code_line(&mut self, quote: &str) {
        for _ in 0..self.rng.range(0..4) {
            self.json.push_str("    ");
        }
        match self.rng.range(0..6) {
            0 => {
                self.json.push_str("let ");
                self.word();
                self.json.push_str(" = self.");
                self.identifier();
                self.json.push_str("(&");
                self.word();
                self.json.push_str(")?;");
            }
            1 => {
                self.json.push_str("if ");
                self.identifier();
                let _ = write!(self.json, ".len() > {} {{", self.rng.range(1..5_000));
            }
            2 => {
                self.json.push_str("return Err(");
                self.json.push_str(quote);
                self.word();
                self.json.push(' ');
                self.word();
                self.json.push_str(quote);
                self.json.push_str(".into());");
            }
            3 => {
                self.json.push_str("pub fn ");
                self.identifier();
                self.json.push_str("(&mut self, ");
                self.word();
                self.json.push_str(": u64) -> Option<usize> {");
            }
            4 => {
                self.json.push_str("// ");
                for _ in 0..self.rng.range(2..7) {
                    self.word();
                    self.json.push(' ');
                }
                self.word();
            }
            _ => self.json.push('}'),
        }
    }

    fn log_line(&mut self) {
        let (hour, minute, second) =
            (self.rng.range(0..24), self.rng.range(0..60), self.rng.range(0..60));
        let level = *self.rng.choose(&["DEBUG", "INFO", "INFO", "WARN", "TRACE"]);
        let _ = write!(self.json, "{hour:02}:{minute:02}:{second:02} {level} ");
        self.identifier();
        self.json.push_str(": ");
        for _ in 0..self.rng.range(1..5) {
            self.word();
            let _ = write!(self.json, "={} ", self.rng.range(0..100_000));
        }
        self.json.push_str("path=\\\"src/");
        self.word();
        self.json.push_str(".rs\\\"");
    }

    fn identifier(&mut self) {
        self.word();
        self.json.push('_');
        self.word();
    }

    fn word(&mut self) {
        let word = *self.rng.choose(WORDS);
        self.json.push_str(word);
    }
}

#[rustfmt::skip]
const WORDS: &[&str] = &[
    "account", "advance", "answer", "append", "archive", "backoff", "balance", "batch", "border", "branch",
    "bucket", "budget", "buffer", "cache", "cancel", "capacity", "change", "channel", "checksum", "client",
    "clock", "column", "commit", "config", "cursor", "deadline", "decode", "default", "delay", "depth",
    "digest", "drain", "driver", "effect", "elapsed", "encode", "entry", "epoch", "event", "expire",
    "failure", "fence", "filter", "flush", "fold", "frame", "gauge", "grace", "handle", "handler",
    "header", "heartbeat", "height", "horizon", "index", "insert", "interval", "item", "jitter", "journal",
    "latency", "leader", "lease", "ledger", "length", "level", "limit", "listener", "locale", "manifest",
    "margin", "message", "metric", "mirror", "module", "mutex", "neighbour", "number", "offset", "order",
    "origin", "overflow", "owner", "packet", "page", "parser", "partition", "patch", "pending", "planner",
    "pointer", "policy", "prefix", "priority", "process", "prune", "queue", "quota", "reader", "ready",
    "record", "refuse", "release", "render", "replay", "report", "request", "reserve", "resume", "retry",
    "round", "route", "sample", "schedule", "schema", "segment", "sequence", "session", "settle", "shard",
    "signal", "slot", "snapshot", "socket", "source", "split", "stage", "state", "status", "stream",
    "summary", "sweep", "symbol", "table", "target", "thread", "ticket", "timeout", "token", "total",
    "trace", "transfer", "truncate", "update", "value", "vector", "verify", "version", "wheel", "window",
    "worker", "writer", "yield", "zone", "about", "after", "again", "because", "before", "between",
    "both", "does", "each", "first", "from", "have", "into", "just", "later", "means",
    "must", "never", "next", "only", "other", "same", "should", "since", "still", "than",
    "that", "the", "then", "there", "this", "until", "what", "when", "where", "with",
];

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn every_length_is_valid() {
        for count in [0, 1, 2, 3, 4, 5, 50, 400] {
            let messages: Vec<Value> = serde_json::from_str(&history(7, count)).unwrap();
            assert_eq!(messages.len(), count);
            let mut open = Vec::new();
            for message in &messages {
                match message["role"].as_str().unwrap() {
                    "tool" => assert_eq!(message["tool_call_id"], open.remove(0)),
                    _ => assert!(open.is_empty()),
                }
                for call in message["tool_calls"].as_array().into_iter().flatten() {
                    let arguments = call["function"]["arguments"].as_str().unwrap();
                    assert!(serde_json::from_str::<Value>(arguments).unwrap().is_object());
                    open.push(call["id"].clone());
                }
            }
            assert!(open.is_empty());
        }
    }

    #[test]
    fn ten_thousand_messages_are_about_thirty_megabytes() {
        let bytes = history(1, 10_000).len();
        assert!((27_000_000..33_000_000).contains(&bytes), "{bytes}");
    }
}
