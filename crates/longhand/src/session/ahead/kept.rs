//! The written form of kept logs: a list of them, and a value for each.

use longhand_core::{Batch, Fold, Link, Place, Seq, Span};

/// The first field of a list and of a log. What has another is made anew.
const VERSION: &str = "kept1";

/// How many logs of a session are kept: the newest ones.
const LOGS_MAX: usize = 8;

/// A log as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeptLog {
    /// The newest entry that was read for it, with its link.
    pub(super) last: Seq,
    pub(super) link: Link,
    /// The sum of the live fold that it goes on from; 0 if there was none.
    pub(super) base: u128,
    /// The fold without a text.
    pub(super) batch: Batch,
}

impl KeptLog {
    /// Writes it: its numbers on three lines, and then the state of the fold.
    pub(super) fn write(&self) -> String {
        let Self { last, link, base, batch } = self;
        let (spans, blocks, sum) = batch.fold().map_or_else(Default::default, |fold| {
            let spans = fold.spans.iter().map(|span| pair(span.first.0, span.last.0));
            let blocks = fold.blocks.iter().map(|at| pair(at.entry.0, at.part as u64));
            (list(spans), list(blocks), fold.sum)
        });
        let (last, link) = (last.0, link.0);
        format!("{VERSION} {last} {link:x} {base:x} {sum:x}\n{spans}\n{blocks}\n{}", batch.state)
    }

    /// Reads the text of [`KeptLog::write`]; `None` if it is none.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut lines = text.splitn(4, '\n');
        let mut fields = lines.next()?.split(' ');
        if fields.next()? != VERSION {
            return None;
        }
        let last = Seq(fields.next()?.parse().ok()?);
        let mut number = || u128::from_str_radix(fields.next()?, 16).ok();
        let (link, base, sum) = (Link(number()?), number()?, number()?);
        let spans =
            pairs(lines.next()?, |first, last| Span { first: Seq(first), last: Seq(last) })?;
        let place = |entry, part| Place { entry: Seq(entry), part: part as usize };
        let blocks = pairs(lines.next()?, place)?;
        let fold = Fold { spans, blocks, sum, text: String::new() };
        let state = lines.next()?.to_owned();
        Some(Self { last, link, base, batch: Batch::folding(last, fold, state) })
    }
}

fn pair(one: u64, other: u64) -> String {
    format!("{one}:{other}")
}

fn list(pairs: impl Iterator<Item = String>) -> String {
    pairs.collect::<Vec<_>>().join(" ")
}

fn pairs<T>(line: &str, pair: impl Fn(u64, u64) -> T) -> Option<Vec<T>> {
    let pairs = line.split(' ').filter(|pair| !pair.is_empty());
    let numbers = pairs.map(|text| {
        let (one, other) = text.split_once(':')?;
        Some(pair(one.parse().ok()?, other.parse().ok()?))
    });
    numbers.collect()
}

/// The logs that are kept of a session, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LogList {
    /// How many bytes the session had when it was looked at last.
    pub(super) bytes: u64,
    logs: Vec<ListedLog>,
}

/// A log in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ListedLog {
    /// Which of the values has it.
    place: usize,
    /// How many bytes the session had up to the entry that it ends with.
    until: u64,
}

impl LogList {
    /// Under which key it is kept.
    pub(super) const KEY: &str = "logs";

    /// Reads a list; one that is not there, or of another version, is empty.
    pub(super) fn parse(text: Option<&str>) -> Self {
        Self::parsed(text.unwrap_or_default()).unwrap_or_default()
    }

    fn parsed(text: &str) -> Option<Self> {
        let (head, logs) = text.split_once('\n')?;
        let (version, bytes) = head.split_once(' ')?;
        let log = |place, until| ListedLog { place: place as usize, until };
        let logs = pairs(logs, log)?;
        (version == VERSION).then_some(Self { bytes: bytes.parse().ok()?, logs })
    }

    pub(super) fn write(&self) -> String {
        let logs = self.logs.iter().map(|log| pair(log.place as u64, log.until));
        format!("{VERSION} {}\n{}", self.bytes, list(logs))
    }

    /// The keys of the logs, the newest first, and how many bytes the session had up to the end of each.
    pub(super) fn newest_first(&self) -> impl Iterator<Item = (String, u64)> {
        self.logs.iter().rev().map(|log| (Self::key(log.place), log.until))
    }

    /// Adds a log in the place of the oldest, and returns under which key it belongs.
    pub(super) fn add(&mut self, until: u64) -> String {
        let place = self.logs.last().map_or(0, |newest| (newest.place + 1) % LOGS_MAX);
        self.logs.retain(|log| log.place != place);
        self.logs.push(ListedLog { place, until });
        Self::key(place)
    }

    fn key(place: usize) -> String {
        format!("log {place}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_comes_back_as_it_was_written() {
        let span = |first, last| Span { first: Seq(first), last: Seq(last) };
        let fold = Fold {
            spans: vec![span(1, 7), span(9, 1_000)],
            blocks: vec![Place { entry: Seq(8), part: 2 }],
            sum: u128::MAX - 5,
            text: String::new(),
        };
        let state = "998\nlog1\t3\nw\t1\n".to_owned();
        let batch = Batch::folding(Seq(1_001), fold, state);
        let log = KeptLog { last: Seq(1_001), link: Link(77), base: 3, batch };
        assert_eq!(KeptLog::parse(&log.write()), Some(log.clone()));
        for other in ["", "kept1", "kept1 1 a b c\n1:2\n", "kept1 1 a b c\n1-2\n\n\n"] {
            assert_eq!(KeptLog::parse(other), None, "{other}");
        }
        assert_eq!(KeptLog::parse(&log.write().replacen("kept1", "kept0", 1)), None);
    }

    #[test]
    fn the_newest_logs_are_listed() {
        let mut list = LogList { bytes: 7, ..LogList::default() };
        let keys: Vec<String> = (0..11).map(|until| list.add(until)).collect();
        assert_eq!((&*keys[0], &*keys[7], &*keys[8]), ("log 0", "log 7", "log 0"));
        let read = LogList::parse(Some(&list.write()));
        assert_eq!(read, list);
        let listed: Vec<(String, u64)> = read.newest_first().collect();
        assert_eq!(listed.len(), LOGS_MAX);
        assert_eq!(listed[0], ("log 2".to_owned(), 10));
        assert_eq!(listed[7], ("log 3".to_owned(), 3));
        assert_eq!(LogList::parse(Some("kept0 9\n")), LogList::default());
        assert_eq!(LogList::parse(None), LogList::default());
    }
}
