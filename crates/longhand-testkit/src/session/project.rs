//! The invented project: files that are read, searched and patched as a session goes on.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::grammar::{Bindings, expand};
use super::patch::{Patch, PatchSize};
use super::phrases::{self, Snippet};
use super::source::{Section, SourceFile};
use crate::rng::Rng;

pub(super) struct Project {
    pub(super) version: String,
    files: Vec<SourceFile>,
    documents: Vec<(String, String)>,
    methods: Vec<Snippet>,
    helpers: Vec<Snippet>,
    tests: Vec<Snippet>,
}

/// A test by its full name, the file it is in and the function that holds it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ProjectTest {
    pub(super) path: String,
    pub(super) name: String,
    pub(super) function: String,
}

impl Project {
    pub(super) fn new(world: &Bindings, rng: &mut Rng) -> Self {
        let documents = phrases::documents().into_iter().map(|document| {
            let text = expand(document.body, rng, &mut world.clone());
            (document.names.to_owned(), text + "\n")
        });
        let mut project = Self {
            version: world["version"].clone(),
            documents: documents.collect(),
            files: Vec::new(),
            methods: phrases::methods(),
            helpers: phrases::helpers(),
            tests: phrases::tests(),
        };
        for module in phrases::modules() {
            let mut file = SourceFile::new(&module, world, rng);
            for code in phrases::own_code() {
                let (name, place) = code.names.split_once(" @").expect("own code names its file");
                if place.strip_prefix(file.path.as_str()) == Some(" methods") {
                    file.add(Section::Methods, code, name.to_owned(), rng);
                }
            }
            let suite = file.path.starts_with("tests/");
            for _ in 0..if suite { 0 } else { rng.range(2..5) } {
                file.grow(Section::Methods, &project.methods, rng);
            }
            for _ in 0..if suite { 0 } else { rng.range(0..3) } {
                file.grow(Section::Helpers, &project.helpers, rng);
            }
            for _ in 0..rng.range(2..5) {
                file.grow(Section::Tests, &project.tests, rng);
            }
            project.files.push(file);
        }
        project
    }

    /// Returns the text of a file, which must exist.
    pub(super) fn text(&self, path: &str) -> String {
        if let Some((_, text)) = self.documents.iter().find(|(name, _)| name == path) {
            return text.clone();
        }
        self.file(path).text()
    }

    fn file(&self, path: &str) -> &SourceFile {
        let found = self.files.iter().find(|file| file.path == path);
        found.unwrap_or_else(|| panic!("the project has no file {path}"))
    }

    /// Changes a file and returns the patch that does so.
    pub(super) fn change(
        &mut self,
        path: &str,
        change: PatchSize,
        remark: &str,
        rng: &mut Rng,
    ) -> Patch {
        let before = self.text(path);
        let at = self.files.iter().position(|file| file.path == path);
        let file = &mut self.files[at.expect("only source files are changed")];
        let varied: Vec<String> = file.rewritable(rng).into_iter().take(change.varied).collect();
        for name in &varied {
            file.vary(name, remark, rng);
        }
        for (section, snippets, count) in [
            (Section::Methods, &self.methods, change.methods),
            (Section::Helpers, &self.helpers, change.helpers),
            (Section::Tests, &self.tests, change.tests),
        ] {
            for _ in 0..count {
                file.grow(section, snippets, rng);
            }
        }
        let symbol = varied.into_iter().next().unwrap_or_default();
        Patch::new(path, symbol, &before, &self.text(path))
    }

    /// Adds a test that shows a fault: the file's own one if it is not there yet.
    pub(super) fn add_test(&mut self, path: &str, rng: &mut Rng) -> Patch {
        let before = self.text(path);
        let at = self.files.iter().position(|file| file.path == path);
        let file = &mut self.files[at.expect("only source files are changed")];
        let wanted = format!(" @{path} tests");
        let code = phrases::own_code().into_iter().find_map(|code| {
            let name = code.names.strip_suffix(&wanted)?;
            (!file.names(Section::Tests).contains(&name)).then(|| (code, name.to_owned()))
        });
        let symbol = match code {
            Some((code, name)) => {
                file.add(Section::Tests, code, name.clone(), rng);
                name
            }
            None => file.grow(Section::Tests, &self.tests, rng).unwrap_or_default(),
        };
        Patch::new(path, symbol, &before, &self.text(path))
    }

    /// Writes one item of a file anew and returns the patch that does so.
    pub(super) fn repair(
        &mut self,
        path: &str,
        symbol: &str,
        remark: &str,
        rng: &mut Rng,
    ) -> Patch {
        let before = self.text(path);
        if let Some(file) = self.files.iter_mut().find(|file| file.path == path) {
            file.vary(symbol, remark, rng);
        }
        Patch::new(path, symbol.to_owned(), &before, &self.text(path))
    }

    /// Names a function of a file, preferably not one of its tests.
    pub(super) fn some_symbol(&self, path: &str, rng: &mut Rng) -> String {
        let file = self.file(path);
        let methods = file.names(Section::Methods);
        let names = if methods.is_empty() { file.names(Section::Tests) } else { methods };
        (*rng.choose(&names)).to_owned()
    }

    pub(super) fn some_document(&self, rng: &mut Rng) -> String {
        rng.choose(&self.documents).0.clone()
    }

    pub(super) fn some_source(&self, rng: &mut Rng) -> String {
        rng.choose(&self.files).path.clone()
    }

    /// Lists the tests whose full name contains the filter.
    pub(super) fn tests(&self, filter: &str) -> Vec<ProjectTest> {
        let tests = self.files.iter().flat_map(|file| {
            let prefix = test_prefix(&file.path);
            file.names(Section::Tests).into_iter().map(move |function| ProjectTest {
                path: file.path.clone(),
                name: format!("{prefix}{function}"),
                function: function.to_owned(),
            })
        });
        tests.filter(|test| test.name.contains(filter) || test.path.contains(filter)).collect()
    }

    /// Lists `path:line: text` for every line with the query.
    pub(super) fn search(&self, query: &str) -> String {
        let mut hits = String::new();
        for file in &self.files {
            for (line, number) in file.text().lines().zip(1..) {
                if line.contains(query) {
                    let _ = writeln!(hits, "{}:{number}: {}", file.path, line.trim_start());
                }
            }
        }
        hits
    }

    /// Lists a directory: files with their sizes, directories with a slash.
    pub(super) fn list(&self, directory: &str) -> String {
        let prefix = if directory == "." { String::new() } else { format!("{directory}/") };
        let sources = self.files.iter().map(|file| (file.path.as_str(), file.text().len()));
        let documents = self.documents.iter().map(|(path, text)| (path.as_str(), text.len()));
        let entries: BTreeSet<String> = sources
            .chain(documents)
            .filter_map(|(path, size)| {
                let rest = path.strip_prefix(&prefix)?;
                Some(match rest.split_once('/') {
                    Some((inner, _)) => format!("{inner}/"),
                    None => format!("{rest}  {size} bytes"),
                })
            })
            .collect();
        entries.into_iter().collect::<Vec<_>>().join("\n")
    }

    /// Finds the line of a text in a function, counted from one.
    pub(super) fn line_in(&self, path: &str, function: &str, wanted: &str) -> Option<usize> {
        let text = self.text(path);
        let head = format!("fn {function}(");
        let start = text.lines().position(|line| line.contains(&head))?;
        let inside = text.lines().skip(start + 1).position(|line| line.contains(wanted))?;
        Some(start + inside + 2)
    }
}

/// The module path that the test runner prints; suites have none.
fn test_prefix(path: &str) -> String {
    let Some(module) = path.strip_prefix("src/") else { return String::new() };
    let module = module.trim_end_matches(".rs").trim_end_matches("/mod").replace('/', "::");
    format!("{module}::tests::")
}
