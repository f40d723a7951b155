//! Joining segments, a part at a time.
//!
//! The new segment grows term by term; whoever goes on after a kill reads from its row where. Those that it is made
//! from stay until it is complete, and are then deleted a part at a time.

use std::time::Instant;

use rusqlite::Connection;

use super::block::{BlockWriter, TOTAL, kind, mark};
use super::chunk::{self, Chunk, Kind};
use super::segment::{self, Blocks, OwnedItem, Segment, State, Stream, damaged};
use super::slice::add_total;
use super::vocabulary::VocabularyWriter;
use crate::sqlite::fault::Fault;

/// How many segments of a level are joined to one of the next.
const WIDTH: usize = 8;
/// With so many entries, a segment has the next level.
const LEVELS: [i64; LEVEL_MAX as usize] = [2_048, 16_384, 131_072];
/// Segments of this level are joined no more: so no join writes much.
const LEVEL_MAX: i64 = 3;
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

/// Whether there is something to join or to delete.
pub(in crate::sqlite) fn is_due(db: &Connection) -> Result<bool, Fault> {
    Ok(next_task(db)?.is_some())
}

/// How many segments there are that searches have to look into.
pub(in crate::sqlite) fn segments(db: &Connection) -> Result<usize, Fault> {
    Ok(segment::live(db)?.len())
}

/// What was replaced goes first, so that its room is used again.
fn next_task(db: &Connection) -> Result<Option<Task>, Fault> {
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
    for level in 0..LEVEL_MAX {
        let is_small = |segment: &Segment| segment.level <= level;
        let run = live.windows(WIDTH).find(|run| run.iter().all(is_small));
        if let Some(run) = run {
            return Ok(Some(Task::Begin(run.to_vec())));
        }
    }
    Ok(None)
}

/// Does some of what there is to do, at least a little; returns whether that was all.
pub(in crate::sqlite) fn go_on(db: &Connection, deadline: Instant) -> Result<bool, Fault> {
    loop {
        match next_task(db)? {
            None => return Ok(true),
            Some(Task::Begin(inputs)) => begin(db, &inputs)?,
            Some(Task::GoOn(output, inputs)) => join(db, &output, inputs, deadline)?,
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
        level: LEVELS.iter().take_while(|least| **least <= entries).count() as i64,
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
    inputs: Vec<Segment>,
    deadline: Instant,
) -> Result<(), Fault> {
    let mut blocks = Blocks::new(db);
    let after = output.joined.clone().unwrap_or_default();
    let mut streams = Vec::new();
    for input in &inputs {
        streams.push((input, Stream::new(&mut blocks, input.clone(), &after, false)?));
    }
    let mut writer = BlockWriter::default();
    let mut vocabulary = VocabularyWriter::default();
    let mut joined = after;
    let mut is_done = false;
    while !is_done {
        let mut next: Option<Vec<u8>> = None;
        for (_, stream) in &mut streams {
            if let Some(item) = stream.peek(&mut blocks)?
                && next.as_ref().is_none_or(|next| item.term < *next)
            {
                next = Some(item.term.clone());
            }
        }
        let Some(term) = next else {
            is_done = true;
            continue;
        };
        let mut list = JoinedTerm {
            writer: &mut writer,
            term: &term,
            pending: Chunk::default(),
            chunks: 0,
            count: 0,
        };
        for (input, stream) in &mut streams {
            let offset = (input.first - output.first) as u32;
            while stream.peek(&mut blocks)?.is_some_and(|item| item.term == term) {
                let Some(item) = stream.next(&mut blocks)? else { break };
                if item.first != TOTAL {
                    let end = input.is_cut.then(|| input.end());
                    list.add(&item, offset, end)?;
                }
            }
        }
        let count = list.finish();
        if count > 0 && term.first().is_some_and(|first| *first >= mark::WORDS) {
            vocabulary.add(&term);
        }
        joined = term;
        if writer.full.len() >= BLOCKS_AT_A_TIME && Instant::now() >= deadline {
            break;
        }
        // What is done must not wait in memory for ever.
        if writer.full.len() >= BLOCKS_AT_A_TIME * 16 {
            break;
        }
    }
    writer.finish_block();
    vocabulary.finish_block();
    segment::append(db, output, &writer.full, &vocabulary.full)?;
    db.prepare_cached("UPDATE index_segment SET joined = ?2 WHERE id = ?1")?
        .execute((output.id, joined))?;
    if is_done {
        segment::set_state(db, output.id, State::Live)?;
        for input in &inputs {
            segment::set_state(db, input.id, State::Dead)?;
        }
    }
    Ok(())
}

/// The chunks of a term on their way into the new segment.
struct JoinedTerm<'w> {
    writer: &'w mut BlockWriter,
    term: &'w [u8],
    pending: Chunk,
    chunks: usize,
    count: u64,
}

impl JoinedTerm<'_> {
    fn add(&mut self, item: &OwnedItem, offset: u32, end: Option<u32>) -> Result<(), Fault> {
        let is_large = item.bytes.len() >= BYTES_KEPT || chunk::count(&item.bytes) >= ENTRIES_KEPT;
        if is_large && end.is_none() {
            self.flush();
            self.writer.add(self.term, item.first + offset, &item.bytes);
            self.chunks += 1;
            self.count += chunk::count(&item.bytes);
            return Ok(());
        }
        let chunk = Chunk::decode(kind(self.term), item.first, &item.bytes).ok_or_else(damaged)?;
        for at in 0..chunk.docs.len() {
            if end.is_none_or(|end| chunk.docs[at] <= end) {
                self.pending.push(chunk.docs[at] + offset, chunk.values[at], chunk.places(at));
                self.count += 1;
                if self.pending.is_full() {
                    self.flush();
                }
            }
        }
        Ok(())
    }

    fn flush(&mut self) {
        let chunk = std::mem::take(&mut self.pending);
        if !chunk.is_empty() {
            self.writer.add(self.term, chunk.docs[0], &chunk.encode(kind(self.term)));
            self.chunks += 1;
        }
    }

    /// Returns how many entries have the term.
    fn finish(mut self) -> u64 {
        self.flush();
        if self.chunks > 1 && kind(self.term) == Kind::Places {
            add_total(self.writer, self.term, self.count);
        }
        self.count
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
