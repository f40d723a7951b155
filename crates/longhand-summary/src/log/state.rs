//! The written form of a log: a state that only the next fold reads, and blocks that came back as
//! input.

use super::action::FileChange;
use super::excerpts::{ExcerptSource, SourceKind};
use super::heading::{
    BACKGROUND, CHANGED, CHECKED, DOCUMENTS, EXCERPTS, FAILED, FOUND, HEADINGS, Heading, REPLIED,
    REPORTED, SEEN, STORY, TASKS, WORDS,
};
use super::lines::LineKind;
use super::standing::StatementKind;
use super::story::StoryLine;
use super::work::{FileChanges, Noted, note};
use super::{Log, SOURCE_CHARS_MAX, Words};
use crate::quote;

/// The first field of a state.
const VERSION: &str = "log1";

impl Log {
    /// Writes the log, one line for each fact; fields are separated by tabs, which no text has.
    pub fn write(&self) -> String {
        let mut out = String::with_capacity(16 * 1024);
        let mut line = |fields: &[&str]| {
            out.push_str(&fields.join("\t"));
            out.push('\n');
        };
        let flag = |is_set: bool| if is_set { "1" } else { "0" };
        let (rounds, messages) = (self.rounds.to_string(), self.messages.to_string());
        line(&[VERSION, &rounds, &messages, flag(self.calls_tools), flag(self.expands)]);
        if let Some(command) = &self.acting {
            line(&["acting", &quote::line_within(command, 200)]);
        }
        for words in &self.words {
            line(&["w", &words.round.to_string(), flag(words.lasts), &words.text]);
        }
        for (at, item) in self.standing.items.iter().enumerate() {
            let (round, message) = (item.round.to_string(), item.message.to_string());
            let flags = [item.by_user, item.settled, self.standing.is_asked(at)].map(flag).concat();
            line(&["s", item.kind.letter(), &flags, &round, &message, &item.text]);
        }
        for file in &self.work.files {
            let (count, message) = (file.count.to_string(), file.message.to_string());
            line(&["f", letter(file.change), &count, &message, &file.path]);
        }
        for (kind, noted) in self.work.noted() {
            for note in noted {
                line(&[kind, &note.message.to_string(), &note.about, &note.line]);
            }
        }
        for (mark, text) in &self.work.tasks {
            line(&["t", &mark.to_string(), text]);
        }
        line(&["b", &self.work.branch, &quote::line(&self.work.open_file)]);
        for told in &self.story.lines {
            let (round, message) = (told.round.to_string(), told.message.to_string());
            line(&["l", &round, flag(told.is_end), &told.text, &message]);
        }
        if let Some((rounds, lines)) = &self.story.told {
            line(&["told", &rounds.to_string()]);
            for text in lines {
                line(&["m", text]);
            }
        }
        for pointer in &self.pointers.names {
            line(&["u", pointer]);
        }
        for source in &self.excerpts.sources {
            line(&["o", source.kind.letter(), &source.label]);
        }
        for excerpt in &self.excerpts.lines {
            let (source, message) = (excerpt.source.to_string(), excerpt.message.to_string());
            line(&["e", excerpt.kind.letter(), &source, &message, &excerpt.heading, &excerpt.text]);
        }
        // Names refer to their sources by number.
        let kept: Vec<_> = self.names.kept(self.messages).collect();
        let mut sources: Vec<&str> = kept.iter().filter_map(|name| name.source).collect();
        sources.sort_unstable();
        sources.dedup();
        for source in &sources {
            line(&["p", source]);
        }
        for name in &kept {
            let number = name.source.and_then(|source| sources.binary_search(&source).ok());
            let number = number.map(|number| number.to_string()).unwrap_or_default();
            line(&["n", &name.count.to_string(), &name.last.to_string(), &name.written, &number]);
        }
        out
    }

    /// Reads the text of [`Log::write`]; any other text gives an empty log.
    pub fn parse(state: &str) -> Self {
        let mut log = Self::default();
        if !state.starts_with(VERSION) {
            return log;
        }
        for line in state.lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            log.parse_line(&fields);
        }
        log
    }

    fn parse_line(&mut self, fields: &[&str]) {
        let number = |text: &str| text.parse::<u64>().unwrap_or(0);
        match *fields {
            [VERSION, rounds, messages, calls, expands] => {
                (self.rounds, self.messages) = (number(rounds), number(messages));
                (self.calls_tools, self.expands) = (calls == "1", expands == "1");
            }
            ["acting", command] => self.acting = Some(command.to_owned()),
            ["w", round, lasts, text] => {
                let (round, lasts) = (number(round), lasts == "1");
                self.words.push(Words { round, lasts, text: text.to_owned() });
            }
            ["s", kind, flags, round, message, text] => {
                let Some(kind) =
                    StatementKind::ALL.into_iter().find(|known| known.letter() == kind)
                else {
                    return;
                };
                let by_user = flags.starts_with('1');
                let at = self.standing.add(kind, by_user, number(round), number(message), text);
                self.standing.items[at].settled = flags.get(1..2) == Some("1");
                if flags.ends_with('1') {
                    self.standing.ask(at);
                }
            }
            ["f", change, count, message, path] => {
                let change = change_of(change);
                let count = u32::try_from(number(count)).unwrap_or(u32::MAX);
                let (path, message) = (path.to_owned(), number(message));
                self.work.files.push(FileChanges { path, change, count, message });
            }
            ["t", mark, text] => {
                self.work.tasks.push((mark.chars().next().unwrap_or(' '), text.to_owned()));
            }
            ["b", branch, open_file] => {
                (self.work.branch, self.work.open_file) = (branch.to_owned(), open_file.to_owned());
            }
            // Earlier versions wrote no message.
            ["l", round, is_end, text] => self.parse_story(round, is_end, text, "0"),
            ["l", round, is_end, text, message] => self.parse_story(round, is_end, text, message),
            ["u", pointer] => self.pointers.names.push(pointer.to_owned()),
            ["o", kind, label] => {
                let kinds = SourceKind::ALL.into_iter();
                if let Some(kind) = kinds.into_iter().find(|known| known.letter() == kind) {
                    let label = label.to_owned();
                    self.excerpts.sources.push(ExcerptSource { kind, label });
                }
            }
            ["e", kind, source, message, heading, text] => {
                let kind = LineKind::ALL.into_iter().find(|known| known.letter() == kind);
                let source = number(source) as usize;
                if let Some(kind) = kind.filter(|_| source < self.excerpts.sources.len()) {
                    self.excerpts.add(source, kind, heading, text, number(message));
                }
            }
            ["told", rounds] => self.story.told = Some((number(rounds), Vec::new())),
            ["m", text] => {
                if let Some((_, lines)) = &mut self.story.told {
                    lines.push(text.to_owned());
                }
            }
            ["p", source] => {
                self.names.source(source);
            }
            // Earlier versions wrote no source.
            ["n", count, last, name] => self.parse_name(count, last, name, ""),
            ["n", count, last, name, source] => self.parse_name(count, last, name, source),
            [kind, message, about, line] => {
                let (about, line) = (about.to_owned(), line.to_owned());
                let noted = Noted { about, line, message: number(message) };
                if let Some(lines) = self.work.noted_mut(kind) {
                    lines.push(noted);
                }
            }
            _ => {}
        }
    }

    fn parse_story(&mut self, round: &str, is_end: &str, text: &str, message: &str) {
        let number = |text: &str| text.parse::<u64>().unwrap_or(0);
        let (round, is_end, message) = (number(round), is_end == "1", number(message));
        self.story.lines.push(StoryLine::of(round, is_end, message, text.to_owned()));
    }

    fn parse_name(&mut self, count: &str, last: &str, name: &str, source: &str) {
        let count = count.parse().unwrap_or(u32::MAX);
        let source = self.names.numbered(source.parse().ok());
        self.names.add(name, count, last.parse().unwrap_or(0), source);
    }

    /// Adds the block of an earlier fold that a client sent back as input.
    ///
    /// The text may be forged. So it settles nothing, and its facts count as the oldest.
    pub fn carry(&mut self, block: &str) {
        let mut heading: Option<Heading> = None;
        let (mut source, mut under) = (None, "");
        for line in block.lines() {
            // Earlier versions had this title.
            let line = if line == "Names by file:" { SEEN } else { line };
            let lines_of = heading.map(|heading| heading.title);
            let lines_of = lines_of.filter(|title| matches!(*title, DOCUMENTS | EXCERPTS));
            if let (Some(text), Some(source)) = (line.strip_prefix("  "), source) {
                match text.strip_prefix("# ") {
                    Some(heading) => under = heading,
                    None => self.carry_excerpt(source, under, text),
                }
            } else if let (Some(label), Some(title)) = (line.strip_prefix("- "), lines_of) {
                let kind = match title {
                    DOCUMENTS => SourceKind::Document,
                    _ if label.contains(' ') => SourceKind::Command,
                    _ => SourceKind::File,
                };
                (source, under) = (Some(self.excerpts.source(kind, label)), "");
            } else if let Some(found) =
                HEADINGS.iter().find(|heading| line.starts_with(heading.title))
            {
                (heading, source) = (Some(*found), None);
                self.carry_list(*found, &line[found.title.len()..]);
            } else if let Some(item) = line.strip_prefix("- ") {
                self.carry_item(heading, item);
            } else if let Some(names) = line.strip_prefix("names: ") {
                self.carry_names(names, "");
            } else if !line.trim().is_empty() {
                self.story_line(0, line);
            }
        }
    }

    /// Adds a line below its source.
    fn carry_excerpt(&mut self, source: usize, heading: &str, text: &str) {
        let (kind, text) = match (text.strip_prefix("+ "), self.excerpts.sources[source].kind) {
            (Some(new), _) => (LineKind::New, new),
            (None, SourceKind::File) => (LineKind::Definition, text),
            (None, SourceKind::Command) => (LineKind::Output, text),
            (None, _) => (LineKind::Rule, text),
        };
        self.excerpts.add(source, kind, heading, text, 0);
    }

    /// Adds the items that follow a title on its line.
    fn carry_list(&mut self, heading: Heading, rest: &str) {
        match heading.title {
            "Files changed: " => {
                for file in rest.split(", ") {
                    let mut words = file.split(' ');
                    let Some(path) = words.next().filter(|path| !path.is_empty()) else { continue };
                    let mut file = FileChanges {
                        path: quote::line_within(path, 200),
                        change: FileChange::Changed,
                        count: 1,
                        message: 0,
                    };
                    for word in words {
                        match word {
                            "new" => file.change = FileChange::Created,
                            "deleted" => file.change = FileChange::Deleted,
                            word => {
                                let count =
                                    word.strip_prefix('×').and_then(|count| count.parse().ok());
                                file.count = count.unwrap_or(file.count);
                            }
                        }
                    }
                    if self.work.files.iter().all(|known| known.path != file.path) {
                        self.work.files.push(file);
                    }
                }
            }
            "Commits: " => {
                for commit in rest.split("; ") {
                    let (hash, subject) = commit.split_once(' ').unwrap_or((commit, ""));
                    note(&mut self.work.commits, hash, &quote::line_within(subject, 100), 0, 80);
                }
            }
            "Branch: " => self.work.branch = quote::line_within(rest, 100),
            "Folder: " | "Names: " => self.carry_names(rest, ""),
            _ => {}
        }
    }

    fn carry_names(&mut self, names: &str, source: &str) {
        let source = self.names.source(&quote::line_within(source, SOURCE_CHARS_MAX));
        for name in names.split(", ").filter(|name| (3..=120).contains(&name.len())).take(500) {
            self.names.add(&quote::line(name), 2, self.messages, source);
        }
    }

    fn carry_item(&mut self, heading: Option<Heading>, item: &str) {
        let Some(heading) = heading else { return self.story_line(0, item) };
        if let Some(kind) = heading.kind {
            let (round, text) = numbered(item.strip_prefix('(').unwrap_or(item), ") ");
            self.rounds = self.rounds.max(round);
            self.standing.add(kind, false, round, 0, &quote::line_within(text, 400));
            return;
        }
        let (about, line) = item.split_once(": ").unwrap_or((item, ""));
        let (about, line) = (about.trim_matches('`'), quote::line_within(line, 400));
        match heading.title {
            WORDS => {
                let (round, text) = numbered(item, ": ");
                let text = quote::line_within(text.trim_matches('"'), 1_000);
                self.rounds = self.rounds.max(round);
                if self.words.iter().all(|words| words.text != text) {
                    self.words.push(Words { round, lasts: false, text });
                }
            }
            SEEN => {
                let (source, names) = item.split_once(": ").unwrap_or(("", item));
                self.carry_names(names, source);
            }
            CHECKED => note(&mut self.work.checks, about, &line, 0, 40),
            FAILED => note(&mut self.work.failures, about, &line, 0, 40),
            REPORTED => note(&mut self.work.reports, about, &line, 0, 20),
            REPLIED => note(&mut self.work.replies, about, &line, 0, 20),
            BACKGROUND => note(&mut self.work.background, about, &line, 0, 20),
            CHANGED => note(&mut self.work.changes, about, &line, 0, 60),
            FOUND => note(&mut self.work.lookups, about, &line, 0, 40),
            TASKS => {
                let mut chars = item.chars();
                if let (Some('['), Some(mark), Some("] ")) =
                    (chars.next(), chars.next(), chars.as_str().get(..2))
                {
                    self.work.tasks.push((mark, quote::line_within(&chars.as_str()[2..], 300)));
                }
            }
            STORY => {
                let (round, text) = numbered(item, ": ");
                self.rounds = self.rounds.max(round);
                self.story_line(round, text);
            }
            _ => {}
        }
    }

    fn story_line(&mut self, round: u64, text: &str) {
        let text = quote::line_within(text, 300);
        self.story.lines.push(StoryLine::of(round, true, 0, text));
    }
}

/// Splits `12: text` into its number and the rest.
fn numbered<'t>(item: &'t str, mark: &str) -> (u64, &'t str) {
    let split = item.split_once(mark).and_then(|(number, text)| Some((number.parse().ok()?, text)));
    split.unwrap_or((0, item))
}

fn letter(change: FileChange) -> &'static str {
    match change {
        FileChange::Created => "c",
        FileChange::Changed => "m",
        FileChange::Deleted => "d",
    }
}

fn change_of(letter: &str) -> FileChange {
    match letter {
        "c" => FileChange::Created,
        "d" => FileChange::Deleted,
        _ => FileChange::Changed,
    }
}
