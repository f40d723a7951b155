//! Byte-pair merging: how many tokens a piece of text has.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::layout::{NO_RANK, TOKEN_BYTES_MAX};
use super::table::Table;

/// Pieces up to this length are merged by scanning for the lowest rank; a heap is slower on them.
const SCAN_BYTES_MAX: usize = 64;

/// The longest piece that is merged at once, so that its tables stay in the processor's cache. Longer
/// ones, such as a page of one letter, are cut.
///
/// A multiple of 3, 4 and 128: the lengths of characters and of the longest tokens for blanks.
const MERGE_BYTES_MAX: usize = 3 << 12;

/// Counts the tokens of a piece that a pattern cut out.
///
/// A piece of more than [`MERGE_BYTES_MAX`] bytes is counted in parts. Each cut is charged a token, so
/// that the sum errs on the safe side; but none in a run of one character, whose tokens are alike.
pub(crate) fn count(table: &'static Table, piece: &[u8]) -> u64 {
    if piece.len() == 1 || table.rank(piece).is_some() {
        return 1;
    }
    if piece.len() <= MergeSlot::KEY_BYTES {
        return cached_count(table, piece);
    }
    count_long(table, piece)
}

/// Counts a piece of any length.
fn count_long(table: &Table, piece: &[u8]) -> u64 {
    let charge = u64::from(!is_one_character(piece));
    let (mut rest, mut sum) = (piece, 0);
    while rest.len() > MERGE_BYTES_MAX {
        // The cut spoils the tokens near it, so the next part begins where one ends before those.
        let part = heap_merge(table, &rest[..MERGE_BYTES_MAX]);
        let (mut start, mut tokens) = (0, 0);
        while start < MERGE_BYTES_MAX - 4 * TOKEN_BYTES_MAX {
            start = part.next[start] as usize;
            tokens += 1;
        }
        sum += tokens + charge;
        rest = &rest[start..];
    }
    sum + heap_merge(table, rest).count
}

fn is_one_character(piece: &[u8]) -> bool {
    // A character has at most four bytes.
    (1..=4).any(|bytes| piece.get(bytes..).is_some_and(|rest| piece.starts_with(rest)))
}

/// A piece that was merged before.
#[derive(Clone, Copy)]
struct MergeSlot {
    key: [u8; Self::KEY_BYTES],
    length: u8,
    count: u8,
}

impl MergeSlot {
    const KEY_BYTES: usize = SCAN_BYTES_MAX - 2;
    const EMPTY: Self = Self { key: [0; Self::KEY_BYTES], length: 0, count: 0 };
}

/// Remembers merged pieces of one thread; a new piece takes the slot of the old one with the same hash.
struct MergeCache {
    slots: Vec<MergeSlot>,
    /// The vocabulary that the counts are of.
    table: Option<&'static Table>,
}

impl MergeCache {
    const BITS: u32 = 12;
}

thread_local! {
    static CACHE: RefCell<MergeCache> = const { RefCell::new(MergeCache { slots: Vec::new(), table: None }) };
}

fn cached_count(table: &'static Table, piece: &[u8]) -> u64 {
    CACHE.with_borrow_mut(|cache| {
        if !cache.table.is_some_and(|known| std::ptr::eq(known, table)) {
            cache.table = Some(table);
            cache.slots.clear();
            cache.slots.resize(1 << MergeCache::BITS, MergeSlot::EMPTY);
        }
        let hash = super::layout::hash(piece);
        let slot = &mut cache.slots[(hash >> (64 - MergeCache::BITS)) as usize];
        if usize::from(slot.length) != piece.len() || &slot.key[..piece.len()] != piece {
            let count = scan_merge(table, piece);
            slot.key[..piece.len()].copy_from_slice(piece);
            (slot.length, slot.count) = (piece.len() as u8, count as u8);
        }
        u64::from(slot.count)
    })
}

/// Merges the pair of lowest rank, the leftmost first, until no pair is a token.
fn scan_merge(table: &Table, piece: &[u8]) -> usize {
    // Where the parts begin, and the rank of each part joined with the next.
    let mut starts = [0_u8; SCAN_BYTES_MAX + 1];
    let mut ranks = [NO_RANK; SCAN_BYTES_MAX + 1];
    for (at, start) in starts.iter_mut().enumerate().take(piece.len() + 1) {
        *start = at as u8;
    }
    for (rank, pair) in ranks.iter_mut().zip(piece.windows(2)) {
        *rank = table.pair_rank(pair[0], pair[1]);
    }
    let mut parts = piece.len();
    while parts > 1 {
        let mut lowest = (NO_RANK, 0);
        for (at, &rank) in ranks[..parts - 1].iter().enumerate() {
            if rank < lowest.0 {
                lowest = (rank, at);
            }
        }
        let (rank, at) = lowest;
        if rank == NO_RANK {
            break;
        }
        starts.copy_within(at + 2..=parts, at + 1);
        ranks.copy_within(at + 2..parts, at + 1);
        parts -= 1;
        let joined = |at: usize| match starts.get(at + 2) {
            Some(&end) if at + 2 <= parts => {
                table.rank_or_none(&piece[usize::from(starts[at])..usize::from(end)])
            }
            _ => NO_RANK,
        };
        ranks[at] = joined(at);
        if at > 0 {
            ranks[at - 1] = joined(at - 1);
        }
    }
    parts
}

/// The tokens of a piece.
struct Merged {
    count: u64,
    /// By where a token begins, where the next one does.
    next: Vec<u32>,
}

/// The same with a heap of pairs, in O(n log n).
fn heap_merge(table: &Table, piece: &[u8]) -> Merged {
    let length = piece.len();
    // Parts by where they begin: where the next and the previous one begin, and the rank with the next.
    let mut next: Vec<u32> = (1..=length as u32).collect();
    let mut previous: Vec<u32> = (0..length as u32).map(|at| at.saturating_sub(1)).collect();
    let mut ranks: Vec<u32> =
        piece.windows(2).map(|pair| table.pair_rank(pair[0], pair[1])).collect();
    ranks.push(NO_RANK);
    let pairs = ranks.iter().enumerate().filter(|(_, rank)| **rank != NO_RANK);
    let mut heap: BinaryHeap<Reverse<(u32, u32)>> =
        pairs.map(|(at, rank)| Reverse((*rank, at as u32))).collect();
    let mut parts = length as u64;
    while let Some(Reverse((rank, at))) = heap.pop() {
        let start = at as usize;
        // Merges leave pairs in the heap that are no longer there.
        if ranks[start] != rank {
            continue;
        }
        let gone = next[start] as usize;
        let end = next[gone] as usize;
        next[start] = end as u32;
        if end < length {
            previous[end] = at;
        }
        ranks[gone] = NO_RANK;
        parts -= 1;
        let after = if end < length { next[end] as usize } else { end };
        let before = (start > 0).then(|| (previous[start] as usize, end));
        for (start, end) in [(start, after)].into_iter().chain(before) {
            ranks[start] = NO_RANK;
            // A part at the end of the piece has no next one.
            if end > next[start] as usize {
                ranks[start] = table.rank_or_none(&piece[start..end]);
            }
            if ranks[start] != NO_RANK {
                heap.push(Reverse((ranks[start], start as u32)));
            }
        }
    }
    Merged { count: parts, next }
}
