//! Reading an export line by line, and checking it.

use std::collections::HashMap;
use std::io::{BufRead, Read};

use longhand_archive::{Entry, Record};
use serde_json::Value;

use super::line::{self, ExportLine};
use super::{HEADER, TransferError, VERSION};
use crate::time;

/// The versions that had messages only.
const MESSAGES_ONLY: std::ops::RangeInclusive<u64> = 0..=2;

/// The first version that has the user's first words.
const OPENINGS_SINCE: u64 = 4;

/// The version of an export that begins with this line; `None` if it is not one.
pub fn header_version(first_line: &str) -> Option<u64> {
    let header: Value = serde_json::from_str(first_line).ok()?;
    (header[HEADER] == "session").then(|| header["version"].as_u64().unwrap_or(0))
}

/// An export that is being read; no more than a line of it is in memory.
#[derive(Debug)]
pub struct Exported<R> {
    lines: Lines<R>,
    header: Value,
    hasher: blake3::Hasher,
    entries: u64,
    place: ReadProgress,
    has_ended: bool,
}

/// How far the session that is being read is.
#[derive(Debug, Default)]
struct ReadProgress {
    rank: u8,
    entries: u64,
    batches: u64,
}

/// A message of an export, without the fields of its session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedMessage {
    /// Its number among all messages of the export.
    pub seq: u64,
    /// The message that it follows.
    pub parent: Option<u64>,
    /// Whether a round begins with it.
    pub opens_round: bool,
    /// What `raw` is.
    pub form: String,
    /// The message as received.
    pub raw: String,
    /// When it was recorded, in milliseconds since 1970.
    pub at_ms: i64,
    /// When it was said, if its source tells.
    pub source_ms: Option<i64>,
}

impl<R: BufRead> Exported<R> {
    /// Begins to read an export whose lines have at most `line_max` bytes.
    pub fn open(reader: R, line_max: u64) -> Result<Self, TransferError> {
        let mut lines = Lines { reader, line: String::new(), number: 0, max: line_max };
        let mut hasher = blake3::Hasher::new();
        let first = lines.next()?.unwrap_or_default();
        hasher.update(first.as_bytes());
        let found = header_version(first)
            .ok_or_else(|| lines.wrong("it is not the first line of an export".to_owned()))?;
        if found > VERSION {
            return Err(TransferError::OtherVersion { found });
        }
        let header = serde_json::from_str(&lines.line).unwrap_or_default();
        Ok(Self {
            lines,
            header,
            hasher,
            entries: 0,
            place: ReadProgress::default(),
            has_ended: false,
        })
    }

    /// What the conversation is called.
    pub fn name(&self) -> Option<&str> {
        self.header["id"].as_str()
    }

    /// Whether it has messages only, as earlier releases wrote it.
    pub fn has_messages_only(&self) -> bool {
        MESSAGES_ONLY.contains(&self.header["version"].as_u64().unwrap_or(0))
    }

    /// Whether its sessions have the user's first words.
    pub(super) fn has_openings(&self) -> bool {
        self.header["version"].as_u64().is_some_and(|version| version >= OPENINGS_SINCE)
    }

    /// Reads the next session or record; `None` after the last one, if counts and checksum are right.
    pub(super) fn next(&mut self) -> Result<Option<ExportLine>, TransferError> {
        let Some(text) = self.lines.next()? else {
            let lines = self.lines.number;
            return if self.has_ended {
                Ok(None)
            } else {
                Err(TransferError::Cut { lines, expected: None })
            };
        };
        if self.has_ended {
            return Err(self.lines.wrong("something follows the last line".to_owned()));
        }
        let line = line::read(text).map_err(|what| self.lines.wrong(what))?;
        if let ExportLine::End { lines, entries, checksum } = line {
            self.check_end(lines, entries, &checksum)?;
            self.has_ended = true;
            return self.next();
        }
        self.hasher.update(self.lines.line.as_bytes());
        self.lines.release();
        self.place.check(&line).map_err(|what| self.lines.wrong(what))?;
        self.entries += u64::from(matches!(line, ExportLine::Record(Record::Entry { .. })));
        Ok(Some(line))
    }

    fn check_end(&self, lines: u64, entries: u64, checksum: &str) -> Result<(), TransferError> {
        let found = self.lines.number - 1;
        if (lines, entries) != (found, self.entries) {
            return Err(TransferError::Changed(format!(
                "it has {found} lines with {} entries before the last one, not {lines} with {entries}",
                self.entries
            )));
        }
        if self.hasher.finalize().to_hex().as_str() != checksum {
            return Err(TransferError::Changed("its checksum is wrong".to_owned()));
        }
        Ok(())
    }

    /// Reads all messages, in order.
    ///
    /// What one session continues in another is one conversation: a root of the second follows the last message of the
    /// first.
    pub fn messages(
        mut self,
        mut take: impl FnMut(ExportedMessage) -> Result<(), TransferError>,
    ) -> Result<(), TransferError> {
        if self.has_messages_only() {
            return self.old_messages(take);
        }
        let (mut first, mut next) = (0, 0);
        let mut rounds = HashMap::new();
        while let Some(line) = self.next()? {
            match line {
                ExportLine::Session(..) => {
                    first = next;
                    rounds.clear();
                }
                ExportLine::Record(Record::Entry { entry, .. }) => {
                    let Entry { seq, parent, round, form, raw, at_ms, source_ms, .. } = entry;
                    let before = parent.and_then(|parent| rounds.get(&parent.0).copied());
                    rounds.insert(seq.0, round);
                    next = first + seq.0 + 1;
                    let root = first.checked_sub(1);
                    take(ExportedMessage {
                        seq: first + seq.0,
                        parent: parent.map(|parent| first + parent.0).or(root),
                        opens_round: before != Some(round),
                        form,
                        raw,
                        at_ms,
                        source_ms,
                    })?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn old_messages(
        mut self,
        mut take: impl FnMut(ExportedMessage) -> Result<(), TransferError>,
    ) -> Result<(), TransferError> {
        let expected = self.header["entries"].as_u64();
        let mut rounds: HashMap<u64, u64> = HashMap::new();
        // Where the sessions begin that a conversation had after its first one: their rounds go on from those
        // before, while the round of any other root is the first one.
        let mut roots: HashMap<u64, Option<u64>> = HashMap::from([(0, None)]);
        let mut count = 0;
        while let Some(text) = self.lines.next()? {
            if text.trim().is_empty() {
                continue;
            }
            let value: Value =
                serde_json::from_str(text).map_err(|error| self.lines.wrong(error.to_string()))?;
            let message = old_message(count, &value, &rounds, &mut roots);
            let (message, round) = message.map_err(|what| self.lines.wrong(what))?;
            rounds.insert(count, round);
            count += 1;
            take(message)?;
        }
        if expected.is_some_and(|expected| expected != count) {
            return Err(TransferError::Cut { lines: self.lines.number, expected });
        }
        Ok(())
    }
}

/// Reads a message of an earlier release, with its round.
fn old_message(
    seq: u64,
    value: &Value,
    rounds: &HashMap<u64, u64>,
    roots: &mut HashMap<u64, Option<u64>>,
) -> Result<(ExportedMessage, u64), String> {
    let text = |key: &str| value[key].as_str().ok_or_else(|| format!("`{key}` must be a text"));
    let form = text("form")?;
    if !crate::driver::is_form(form) {
        return Err(format!("there is no form {form:?}"));
    }
    let at_ms = time::parse(text("at")?).ok_or("`at` is not a time")?;
    let round = value["round"].as_u64().ok_or("`round` must be a number")?;
    if value["seq"].as_u64().is_some_and(|found| found != seq) {
        return Err(format!("it should be entry {seq}"));
    }
    let before = seq.checked_sub(1);
    let parent = match &value["parent"] {
        Value::Null if value.get("parent").is_none() => before,
        Value::Null => *roots.entry(round).or_insert(before),
        parent => {
            let parent = parent.as_u64().filter(|parent| *parent < seq);
            Some(parent.ok_or("`parent` must be an entry before it")?)
        }
    };
    let opens_round = parent.and_then(|parent| rounds.get(&parent).copied()) != Some(round);
    let raw = text("raw")?.to_owned();
    let form = form.to_owned();
    let source_ms = None;
    Ok((ExportedMessage { seq, parent, opens_round, form, raw, at_ms, source_ms }, round))
}

impl ReadProgress {
    /// Checks that a line may follow those before it.
    fn check(&mut self, line: &ExportLine) -> Result<(), String> {
        let rank = match line {
            ExportLine::Session(..) => {
                *self = Self { rank: 1, ..Self::default() };
                return Ok(());
            }
            ExportLine::Record(record) => rank(record),
            ExportLine::End { .. } => return Ok(()),
        };
        if self.rank == 0 {
            return Err("no session has begun".to_owned());
        }
        if rank < self.rank {
            return Err("it comes too late in its session".to_owned());
        }
        self.rank = rank;
        match line {
            ExportLine::Record(Record::Entry { entry, .. }) => {
                if entry.seq.0 != self.entries || entry.parent.is_some_and(|up| up >= entry.seq) {
                    return Err(format!("entry {} cannot follow here", entry.seq.0));
                }
                self.entries += 1;
            }
            ExportLine::Record(Record::Batch { number, .. }) => {
                self.batches += 1;
                if *number != self.batches {
                    return Err(format!("batch {number} cannot follow here"));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// The place of a record in the order of records.
pub(super) fn rank(record: &Record) -> u8 {
    match record {
        Record::Session(_) => 1,
        Record::Entry { .. } => 2,
        Record::Batch { .. } => 3,
        Record::Undo(_) => 4,
        Record::Pins(_) => 5,
        Record::Preamble(_) => 6,
        Record::Request(_) => 7,
        Record::Derived { .. } => 8,
        Record::Note(_) => 9,
    }
}

/// Lines of bounded length.
#[derive(Debug)]
struct Lines<R> {
    reader: R,
    /// The line, with its end.
    line: String,
    /// Its number, from 1.
    number: u64,
    max: u64,
}

impl<R: BufRead> Lines<R> {
    fn next(&mut self) -> Result<Option<&str>, TransferError> {
        self.line.clear();
        let mut bytes = std::mem::take(&mut self.line).into_bytes();
        let count = (&mut self.reader).take(self.max + 1).read_until(b'\n', &mut bytes)?;
        if count == 0 {
            return Ok(None);
        }
        self.number += 1;
        if count as u64 > self.max {
            return Err(TransferError::LongLine { line: self.number, max: self.max });
        }
        let text = String::from_utf8(bytes);
        self.line = text.map_err(|_| self.wrong("it is not UTF-8".to_owned()))?;
        Ok(Some(&self.line))
    }

    /// Gives the memory of a long line back: what was read from it is as long.
    fn release(&mut self) {
        if self.line.capacity() > 1 << 20 {
            self.line = String::new();
        }
    }

    fn wrong(&self, what: String) -> TransferError {
        TransferError::Line { line: self.number.max(1), what }
    }
}
