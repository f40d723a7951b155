//! Joining segments, a part at a time.
//!
//! The new segment grows term by term; whoever goes on after a kill reads from its row where. Those that it is made
//! from stay until it is complete, and are then deleted a part at a time.

use std::time::Instant;

use rusqlite::Connection;

use super::block::{BlockWriter, TOTAL, kind, mark};
use super::chunk::{self, Chunk, Kind};
use super::segment::{self, Blocks, Segment, State, Stream, StreamItem, damaged};
use super::slice::add_total;
use super::vocabulary::VocabularyWriter;
use crate::sqlite::fault::Fault;

/// How many segments of a level are joined to one of the next.
const WIDTH: usize = 16;
/// With so many entries, a segment has the next level.
const LEVELS: [i64; LEVEL_MAX as usize] = [8_192, 131_072];
/// Segments of this level are joined no more: so no join writes much.
const LEVEL_MAX: i64 = 2;
/// How many blocks are written before the time is looked at.
const BLOCKS_AT_A_TIME: usize = 32;
/// How many blocks are deleted at a time.
const DELETED_AT_A_TIME: i64 = 64;
/// A chunk of so many bytes, or of so many entries, stays as it is.
const BYTES_KEPT: usize = 400;
const ENTRIES_KEPT: u64 = 48;

/// What there is to do.
#[derive(Debug)]
enum Task {
    GoOn(Segment, Vec<Segment>),
    Begin(Vec<Segment>),
    Delete(Segment),
}

/// Which joins are begun; those that are begun are gone on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sqlite) enum Joins {
    /// Of what was added as it came.
    Small,
    /// Of what was joined before, too.
    All,
}

/// Whether there is something to join or to delete.
pub(in crate::sqlite) fn is_due(db: &Connection, joins: Joins) -> Result<bool, Fault> {
    Ok(next_task(db, joins)?.is_some())
}

/// How many segments there are that searches have to look into.
pub(in crate::sqlite) fn segments(db: &Connection) -> Result<usize, Fault> {
    Ok(segment::live(db)?.len())
}

/// What was replaced goes first, so that its room is used again.
fn next_task(db: &Connection, joins: Joins) -> Result<Option<Task>, Fault> {
    let mut segments = segment::all(db)?;
    segments.reverse();
    let (live, others): (Vec<Segment>, Vec<Segment>) =
        segments.into_iter().partition(|segment| segment.state == State::Live);
    let (dead, growing): (Vec<Segment>, Vec<Segment>) =
        others.into_iter().partition(|segment| segment.state == State::Dead);
    if let Some(dead) = dead.into_iter().next() {
        return Ok(Some(Task::Delete(dead)));
    }
    if let Some(growing) = growing.into_iter().next() {
        let is_part =
            |segment: &&Segment| segment.first >= growing.first && segment.last <= growing.last;
        let inputs = live.iter().filter(is_part).cloned().collect();
        return Ok(Some(Task::GoOn(growing, inputs)));
    }
    let levels = match joins {
        Joins::Small => 1,
        Joins::All => LEVEL_MAX,
    };
    for level in 0..levels {
        // Small ones between others go with them, but a large one is not written again for a few small ones.
        let is_run = |run: &&[Segment]| {
            let of_level = run.iter().filter(|segment| segment.level == level).count();
            run.iter().all(|segment| segment.level <= level) && of_level >= WIDTH / 2
        };
        let run = live.windows(WIDTH).find(is_run);
        if let Some(run) = run {
            return Ok(Some(Task::Begin(run.to_vec())));
        }
    }
    Ok(None)
}

/// Does some of what there is to do, at least a little; returns whether that was all.
pub(in crate::sqlite) fn go_on(
    db: &Connection,
    joins: Joins,
    deadline: Instant,
) -> Result<bool, Fault> {
    loop {
        match next_task(db, joins)? {
            None => return Ok(true),
            Some(Task::Begin(inputs)) => begin(db, &inputs)?,
            Some(Task::GoOn(output, inputs)) => join(db, &output, &inputs, deadline)?,
            Some(Task::Delete(dead)) => delete(db, &dead)?,
        }
        if Instant::now() >= deadline {
            return Ok(false);
        }
    }
}

fn begin(db: &Connection, inputs: &[Segment]) -> Result<(), Fault> {
    let (Some(first), Some(last)) = (inputs.first(), inputs.last()) else { return Ok(()) };
    let sum = |of: fn(&Segment) -> i64| inputs.iter().map(of).sum::<i64>();
    let entries = sum(|segment| segment.entries);
    let output = Segment {
        state: State::Growing,
        level: LEVELS.iter().map(|least| i64::from(*least <= entries)).sum(),
        last: last.last,
        is_cut: false,
        entries,
        words: sum(|segment| segment.words),
        oldest_ms: inputs.iter().map(|segment| segment.oldest_ms).min().unwrap_or(0),
        newest_ms: inputs.iter().map(|segment| segment.newest_ms).max().unwrap_or(0),
        ..first.clone()
    };
    segment::insert(db, &output)?;
    Ok(())
}

fn join(
    db: &Connection,
    output: &Segment,
    inputs: &[Segment],
    deadline: Instant,
) -> Result<(), Fault> {
    let mut blocks = Blocks::new(db);
    let after = output.joined.clone().unwrap_or_default();
    let mut streams = Vec::new();
    for input in inputs {
        streams.push((input, Stream::new(&mut blocks, input.clone(), &after, false)?));
    }
    let mut writer = BlockWriter::default();
    let mut vocabulary = VocabularyWriter::default();
    let mut list = JoinedTerm::default();
    let mut term = after;
    let mut is_done = false;
    loop {
        let mut has_next = false;
        for (_, stream) in &mut streams {
            if let Some(item) = stream.peek(&mut blocks)?
                && !(has_next && *item.term >= *term)
            {
                has_next = true;
                term.clear();
                term.extend_from_slice(item.term);
            }
        }
        if !has_next {
            is_done = true;
            break;
        }
        for (input, stream) in &mut streams {
            let offset = (input.first - output.first) as u32;
            let end = input.is_cut.then(|| input.end());
            while let Some(item) = stream.peek(&mut blocks)?
                && item.term == term
            {
                if item.first != TOTAL {
                    list.add(&mut writer, &item, offset, end)?;
                }
                stream.advance();
            }
        }
        let count = list.finish(&mut writer, &term);
        if count > 0 && term.first().is_some_and(|first| *first >= mark::WORDS) {
            vocabulary.add(&term);
        }
        // What is done must not wait in memory for ever.
        let is_long = writer.full.len() >= BLOCKS_AT_A_TIME;
        let is_much = writer.full.len() >= BLOCKS_AT_A_TIME * 16;
        if is_much || (is_long && Instant::now() >= deadline) {
            break;
        }
    }
    writer.finish_block();
    vocabulary.finish_block();
    segment::append(db, output, &writer.full, &vocabulary.full)?;
    db.prepare_cached("UPDATE index_segment SET joined = ?2 WHERE id = ?1")?
        .execute((output.id, term))?;
    if is_done {
        segment::set_state(db, output.id, State::Live)?;
        for input in inputs {
            segment::set_state(db, input.id, State::Dead)?;
        }
    }
    Ok(())
}

/// The chunks of a term on their way into the new segment.
#[derive(Default)]
struct JoinedTerm {
    /// A chunk that is to be written as it is if no other follows: most terms have only one.
    held: Vec<u8>,
    held_first: Option<u32>,
    pending: Chunk,
    read: Chunk,
    encoded: Vec<u8>,
    chunks: usize,
    count: u64,
}

impl JoinedTerm {
    fn add(
        &mut self,
        writer: &mut BlockWriter,
        item: &StreamItem<'_>,
        offset: u32,
        end: Option<u32>,
    ) -> Result<(), Fault> {
        let first = item.first + offset;
        let is_whole = end.is_none();
        let count = chunk::count(kind(item.term), item.bytes);
        if is_whole && (item.bytes.len() >= BYTES_KEPT || count >= ENTRIES_KEPT) {
            self.release(item.term)?;
            self.flush(writer, item.term);
            writer.add(item.term, first, item.bytes);
            self.chunks += 1;
            self.count += count;
        } else if is_whole && self.pending.is_empty() && self.held_first.is_none() {
            self.held_first = Some(first);
            self.held.clear();
            self.held.extend_from_slice(item.bytes);
            self.count += count;
        } else {
            self.release(item.term)?;
            let end = end.map_or(u32::MAX, |end| end + offset);
            self.count += self.read_in(item.term, first, item.bytes, end)?;
        }
        if self.pending.is_full() {
            self.flush(writer, item.term);
        }
        Ok(())
    }

    /// Adds what is held to what is pending.
    fn release(&mut self, term: &[u8]) -> Result<(), Fault> {
        if let Some(first) = self.held_first.take() {
            let held = std::mem::take(&mut self.held);
            self.read_in(term, first, &held, u32::MAX)?;
            self.held = held;
        }
        Ok(())
    }

    /// Adds the entries of a chunk up to one to what is pending; returns how many these are.
    fn read_in(&mut self, term: &[u8], first: u32, bytes: &[u8], end: u32) -> Result<u64, Fault> {
        self.read.decode_into(kind(term), first, bytes).ok_or_else(damaged)?;
        let count = self.read.docs.partition_point(|doc| *doc <= end);
        for at in 0..count {
            self.pending.push_from(&self.read, at);
        }
        Ok(count as u64)
    }

    fn flush(&mut self, writer: &mut BlockWriter, term: &[u8]) {
        if !self.pending.is_empty() {
            self.pending.encode_into(kind(term), &mut self.encoded);
            writer.add(term, self.pending.docs[0], &self.encoded);
            self.pending.clear();
            self.chunks += 1;
        }
    }

    /// Writes what is left of a term; returns how many entries have it.
    fn finish(&mut self, writer: &mut BlockWriter, term: &[u8]) -> u64 {
        if let Some(first) = self.held_first.take() {
            writer.add(term, first, &self.held);
            self.chunks += 1;
        }
        self.flush(writer, term);
        if self.chunks > 1 && kind(term) == Kind::Places {
            add_total(writer, term, self.count);
        }
        self.chunks = 0;
        std::mem::take(&mut self.count)
    }
}

fn delete(db: &Connection, dead: &Segment) -> Result<(), Fault> {
    let ids = dead.block_ids();
    let deleted = db
        .prepare_cached(
            "DELETE FROM index_block WHERE id IN \
             (SELECT id FROM index_block WHERE id >= ?1 AND id < ?2 LIMIT ?3)",
        )?
        .execute((ids.start, ids.end, DELETED_AT_A_TIME))?;
    if deleted == 0 {
        db.prepare_cached("DELETE FROM index_segment WHERE id = ?1")?.execute([dead.id])?;
    }
    Ok(())
}
