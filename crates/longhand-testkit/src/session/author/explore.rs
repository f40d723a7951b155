//! Reading, searching and listing.

use std::fmt::Write as _;

use serde_json::json;

use super::Author;
use crate::session::transcript::TranscriptCall;

impl Author {
    /// Looks around in one of several ways, near the files that the round is about.
    pub(in crate::session) fn explore(&mut self, focus: &[&str]) {
        match self.rng.range(0..12) {
            0..=5 => {
                let path = self.unread(focus);
                self.read(&path);
            }
            6..=7 => self.read_together(focus),
            8..=10 => self.search(focus),
            _ => self.list(),
        }
        if self.rng.chance(0.45) {
            let path = (*self.rng.choose(focus)).to_owned();
            let symbol = self.project.some_symbol(&path, &mut self.rng);
            let thought = self.phrase("seen", &[("symbol", &symbol)]);
            self.think(thought);
        }
    }

    /// Chooses a file of the focus that has news, or else any other file.
    fn unread(&mut self, focus: &[&str]) -> String {
        let news: Vec<&str> = focus
            .iter()
            .copied()
            .filter(|path| self.read.get(*path) != Some(&self.project.text(path)))
            .collect();
        if news.is_empty() {
            return self.project.some_source(&mut self.rng);
        }
        (*self.rng.choose(&news)).to_owned()
    }

    pub(in crate::session) fn read(&mut self, path: &str) {
        let symbol = if path.starts_with("docs/") {
            "lease".to_owned()
        } else {
            self.project.some_symbol(path, &mut self.rng)
        };
        let intent = self.phrase("read", &[("path", path), ("symbol", &symbol)]);
        let call = self.reading(path);
        self.act(&intent, vec![call]);
    }

    fn read_together(&mut self, focus: &[&str]) {
        let intent = self.phrase("read_many", &[]);
        let first = self.unread(focus);
        let rest: Vec<&str> = focus.iter().copied().filter(|path| *path != first).collect();
        let second = self.unread(&rest);
        let mut calls = vec![self.reading(&first), self.reading(&second)];
        if self.rng.chance(0.3) {
            let document = self.project.some_document(&mut self.rng);
            calls.push(self.reading(&document));
        } else if self.rng.chance(0.4) {
            let symbol = self.project.some_symbol(&first, &mut self.rng);
            calls.push(self.searching(&symbol));
        }
        self.act(&intent, calls);
    }

    pub(super) fn reading(&mut self, path: &str) -> TranscriptCall {
        let text = self.project.text(path);
        let length = text.lines().count();
        self.read.insert(path.to_owned(), text.clone());
        let (from, to) = if length > 120 || self.rng.chance(0.4) {
            let from = self.rng.range(1..length.saturating_sub(60).max(2));
            (from, (from + self.rng.range(45..120)).min(length))
        } else {
            (1, length)
        };
        let mut arguments = json!({ "path": path });
        if (from, to) != (1, length) {
            arguments = json!({ "path": path, "from": from, "to": to });
        }
        let mut result = String::new();
        for (line, number) in text.lines().zip(1..).skip(from - 1).take(to + 1 - from) {
            let _ = writeln!(result, "{number:>5}\t{line}");
        }
        TranscriptCall { tool: "read_file", arguments, result }
    }

    fn search(&mut self, focus: &[&str]) {
        let sources: Vec<&str> =
            focus.iter().copied().filter(|path| path.starts_with("src/")).collect();
        let path = *self.rng.choose(&sources);
        let symbol = self.project.some_symbol(path, &mut self.rng);
        let intent = self.phrase("search", &[("symbol", &symbol)]);
        let call = self.searching(&symbol);
        self.act(&intent, vec![call]);
    }

    fn searching(&mut self, symbol: &str) -> TranscriptCall {
        let hits = self.project.search(symbol);
        let result = if hits.is_empty() { "no hits".to_owned() } else { hits };
        let arguments = if self.rng.chance(0.3) {
            json!({ "query": symbol, "under": "." })
        } else {
            json!({ "query": symbol })
        };
        TranscriptCall { tool: "search", arguments, result }
    }

    fn list(&mut self) {
        let directory =
            *self.rng.choose(&[".", "src", "src/journal", "src/admin", "tests", "docs"]);
        let intent = self.phrase("list", &[]);
        let result = self.project.list(directory);
        let arguments = json!({ "path": directory });
        self.act(&intent, vec![TranscriptCall { tool: "list_dir", arguments, result }]);
    }
}
