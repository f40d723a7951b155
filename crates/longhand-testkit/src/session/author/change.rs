//! Patches and test runs, with the stumbles that they have.

use serde_json::json;

use super::{Author, stem};
use crate::session::build;
use crate::session::patch::{Patch, PatchSize};
use crate::session::project::ProjectTest;
use crate::session::testrun::{self, Detail};
use crate::session::transcript::TranscriptCall;

impl Author {
    /// Shows the fault of the report by a test that fails.
    pub(in crate::session) fn show_fault(&mut self, focus: &[&str]) {
        let suite = focus.iter().find(|path| path.starts_with("tests/"));
        let patch = self.project.add_test(suite.unwrap_or(&focus[0]), &mut self.rng);
        let intent = self.phrase("test_first", &[]);
        self.apply(&intent, &[&patch]);
        let tests = self.project.tests(&patch.symbol);
        let Some(test) = tests.into_iter().find(|test| test.path == patch.path) else { return };
        self.run_tests("test_some", stem(&patch.path), std::slice::from_ref(&test));
        let place = testrun::place_of(&self.project, &test);
        let thought = self.phrase("shown", &[("test", &test.name), ("place", &place)]);
        self.think(thought);
    }

    /// Changes a file, with the stumbles that this has, until the narrow tests pass.
    pub(in crate::session) fn change(&mut self, focus: &[&str]) {
        let elsewhere = self.changed.contains_key(focus[0]) && self.rng.chance(0.6);
        let target = if elsewhere { *self.rng.choose(focus) } else { focus[0] };
        let stale = self.rng.chance(0.07);
        let unchanged = stale.then(|| self.reading(target));
        let patch = self.made_change(target);
        let occasion = if target.starts_with("tests/") { "patch_tests" } else { "patch" };
        let intent = self.phrase(occasion, &[("path", target), ("symbol", &patch.symbol)]);
        let other = focus.iter().find(|path| **path != target);
        match (unchanged, other) {
            (Some(unchanged), _) => self.apply_on_second_try(&intent, unchanged, &patch),
            (None, Some(other)) if self.rng.chance(0.2) => {
                let second = self.made_change(other);
                self.apply(&intent, &[&patch, &second]);
            }
            _ => self.apply(&intent, &[&patch]),
        }
        if self.rng.chance(0.22) {
            self.fix_build(&patch);
        }
        self.narrow_tests(target);
    }

    fn made_change(&mut self, path: &str) -> Patch {
        let suite = path.starts_with("tests/");
        let methods = if self.rng.chance(0.2) { 5..8 } else { 0..3 };
        let methods = self.rng.range(methods);
        let change = PatchSize {
            methods: if suite { 0 } else { methods },
            helpers: if suite { 0 } else { self.rng.range(0..2) },
            tests: self.rng.range(if suite { 1..4 } else { 0..3 }),
            varied: self.rng.range(1..4),
        };
        let remark = self.phrase("fix_comment", &[]);
        self.project.change(path, change, &remark, &mut self.rng)
    }

    fn apply(&mut self, intent: &str, patches: &[&Patch]) {
        let mut calls = Vec::new();
        for patch in patches {
            let (added, removed) = patch.size();
            let total = self.changed.entry(patch.path.clone()).or_default();
            *total = (total.0 + added, total.1 + removed);
            let result = patch.applied();
            calls.push(TranscriptCall {
                tool: "apply_patch",
                arguments: json!({ "patch": patch.text }),
                result,
            });
        }
        self.act(intent, calls);
    }

    /// A patch against lines that have moved is refused; the file is read and the patch made anew.
    fn apply_on_second_try(&mut self, intent: &str, unchanged: TranscriptCall, patch: &Patch) {
        let (hunk, line) = (self.rng.range(1..3), self.rng.range(20..160));
        let stale = patch.moved_up(self.rng.range(2..30));
        let result = format!(
            "Refused: hunk {hunk} does not match {} at line {line}. Nothing was changed.",
            patch.path,
        );
        self.act(
            intent,
            vec![TranscriptCall {
                tool: "apply_patch",
                arguments: json!({ "patch": stale }),
                result,
            }],
        );
        let intent = self.phrase("patch_failed", &[("path", &patch.path)]);
        self.act(&intent, vec![unchanged]);
        let intent = self.phrase("patch_again", &[]);
        self.apply(&intent, &[patch]);
    }

    fn fix_build(&mut self, patch: &Patch) {
        let failure = build::failure(&self.project, &patch.path, &patch.symbol, &mut self.rng);
        let filter = stem(&patch.path);
        let intent = self.phrase("test_some", &[("filter", filter)]);
        let arguments = json!({ "filter": filter });
        self.act(
            &intent,
            vec![TranscriptCall { tool: "run_tests", arguments, result: failure.output }],
        );
        let words = [("place", failure.place.as_str())];
        let thought = self.phrase(failure.code, &words);
        self.think(thought);
        self.repair(&patch.path, &patch.symbol);
    }

    fn repair(&mut self, path: &str, symbol: &str) {
        let remark = self.phrase("fix_comment", &[]);
        let repair = self.project.repair(path, symbol, &remark, &mut self.rng);
        if !repair.text.is_empty() {
            let occasion = if path.starts_with("tests/") { "patch_tests" } else { "patch" };
            let intent = self.phrase(occasion, &[("path", path), ("symbol", symbol)]);
            self.apply(&intent, &[&repair]);
        }
    }

    fn narrow_tests(&mut self, path: &str) {
        let filter = stem(path).to_owned();
        let tests = self.project.tests(&filter);
        if self.rng.chance(0.4) {
            let test = self.rng.choose(&tests).clone();
            self.run_tests("test_some", &filter, std::slice::from_ref(&test));
            let place = testrun::place_of(&self.project, &test);
            let thought = self.phrase("failed", &[("test", &test.name), ("place", &place)]);
            self.think(thought);
            if self.rng.chance(0.4) {
                self.read(&test.path);
            }
            let symbol = self.project.some_symbol(path, &mut self.rng);
            self.repair(path, &symbol);
        }
        self.run_tests("test_some", &filter, &[]);
        if self.rng.chance(0.6) {
            let thought = self.phrase("passed", &[("filter", &filter)]);
            self.think(thought);
        }
    }

    fn run_tests(&mut self, occasion: &'static str, filter: &str, failing: &[ProjectTest]) {
        let path = self.changed.keys().next().cloned().unwrap_or_default();
        let intent = self.phrase(occasion, &[("filter", filter), ("path", &path)]);
        let quiet = filter.is_empty() && self.rng.chance(0.75);
        let detail = if quiet { Detail::Dots } else { Detail::Lines };
        let result = testrun::report(&self.project, filter, failing, detail, &mut self.rng);
        let arguments = if filter.is_empty() { json!({}) } else { json!({ "filter": filter }) };
        self.act(&intent, vec![TranscriptCall { tool: "run_tests", arguments, result }]);
    }

    pub(in crate::session) fn all_tests(&mut self) {
        self.run_tests("test_all", "", &[]);
    }

    /// Runs one test with its whole log.
    pub(in crate::session) fn verbose_test(&mut self, bytes: usize) {
        let tests = self.project.tests("tests/drift.rs");
        let test = self.rng.choose(&tests).clone();
        let result = testrun::verbose_report(&self.project, &test, bytes, &mut self.rng);
        let arguments = json!({ "filter": test.name, "verbose": true });
        let intent = "I need to see the ticks themselves, so this one run is with the full log.";
        self.act(intent, vec![TranscriptCall { tool: "run_tests", arguments, result }]);
        let thought = self.phrase("huge_log", &[]);
        self.think(thought);
    }
}
