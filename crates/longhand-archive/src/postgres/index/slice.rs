//! The index of some entries, made in memory, and how it is stored.

use std::collections::BTreeMap;

use longhand_core::Role;
use longhand_recall::{TextPosting, Texts};

use crate::number::{push_number, take_number};
use crate::{Owner, pack, role};

/// What the index knows of an entry besides its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Doc {
    pub(super) id: i64,
    /// The number of its session.
    pub(super) session: i64,
    pub(super) owner: Owner,
    /// How many words it has.
    pub(super) length: u64,
    pub(super) said_ms: i64,
    /// The roles that it may have, a bit each.
    pub(super) roles: u64,
}

/// Where an entry of a slice has a term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Posting {
    /// The number of the entry in the slice.
    pub(super) doc: usize,
    pub(super) count: u64,
    /// The first places.
    pub(super) places: Vec<u32>,
}

/// A slice, ready to be written.
#[derive(Clone, Debug, Default)]
pub(super) struct BuiltSlice {
    pub(super) last: i64,
    pub(super) words: i64,
    pub(super) oldest_ms: i64,
    pub(super) newest_ms: i64,
    pub(super) docs: Vec<u8>,
    /// Terms in order, with how many entries have them, and where.
    pub(super) postings: Vec<(Vec<u8>, i64, Vec<u8>)>,
}

/// The roles that a message may have.
pub(super) fn roles(form: &str, raw: &str) -> u64 {
    let may_have = role::ROLES.map(|asked| role::may_have(form, raw, asked));
    may_have.iter().rev().fold(0, |bits, may_have| bits << 1 | u64::from(*may_have))
}

impl Doc {
    /// Whether it may have a role.
    pub(super) fn may_have(&self, asked: Role) -> bool {
        let at = role::ROLES.iter().position(|role| *role == asked);
        at.is_some_and(|at| self.roles >> at & 1 != 0)
    }
}

/// The terms that all entries of a session, of an owner have. No word begins as they do.
pub(super) fn session_mark(session: i64) -> Vec<u8> {
    [&[0], &session.to_be_bytes()[..]].concat()
}

pub(super) fn owner_mark(owner: Owner) -> Vec<u8> {
    [&[1], &owner.to_bytes()[..]].concat()
}

impl BuiltSlice {
    /// Makes the index of entries, which are in the order of their ids.
    pub(super) fn of(entries: &[(i64, Doc, String)]) -> Self {
        let mut texts = Texts::default();
        let mut marks: BTreeMap<Vec<u8>, i64> = BTreeMap::new();
        for (_, doc, text) in entries {
            texts.add(text);
            for mark in [session_mark(doc.session), owner_mark(doc.owner)] {
                *marks.entry(mark).or_default() += 1;
            }
        }
        let docs: Vec<Doc> = entries
            .iter()
            .zip(texts.lengths())
            .map(|((_, doc, _), length)| Doc { length: *length, ..doc.clone() })
            .collect();
        let of_term = |(term, texts): (&str, Vec<TextPosting>)| {
            let count = (texts.len() as u64).cast_signed();
            (term.as_bytes().to_vec(), count, encode_postings(&texts))
        };
        let mut postings: Vec<(Vec<u8>, i64, Vec<u8>)> = texts.postings().map(of_term).collect();
        postings.extend(marks.into_iter().map(|(mark, count)| (mark, count, Vec::new())));
        postings.sort_unstable();
        let times = || docs.iter().map(|doc| doc.said_ms);
        Self {
            last: docs.last().map_or(0, |doc| doc.id),
            words: docs.iter().map(|doc| doc.length).sum::<u64>().cast_signed(),
            oldest_ms: times().min().unwrap_or(0),
            newest_ms: times().max().unwrap_or(0),
            docs: encode_docs(&docs),
            postings,
        }
    }
}

fn encode_docs(docs: &[Doc]) -> Vec<u8> {
    let mut owners: Vec<Owner> = docs.iter().map(|doc| doc.owner).collect();
    owners.sort_unstable();
    owners.dedup();
    let mut bytes = Vec::new();
    push_number(&mut bytes, owners.len() as u64);
    for owner in &owners {
        bytes.extend_from_slice(&owner.to_bytes());
    }
    let mut id_before = 0;
    for doc in docs {
        let owner = owners.binary_search(&doc.owner).unwrap_or(0) as u64;
        push_number(&mut bytes, doc.id.wrapping_sub(id_before).cast_unsigned());
        push_number(&mut bytes, doc.session.cast_unsigned());
        push_number(&mut bytes, owner);
        push_number(&mut bytes, doc.length);
        bytes.extend_from_slice(&doc.said_ms.to_le_bytes());
        push_number(&mut bytes, doc.roles);
        id_before = doc.id;
    }
    pack::pack(&bytes)
}

/// Reads what a slice knows of its entries; `None` if it is illegible.
pub(super) fn docs(stored: &[u8]) -> Option<Vec<Doc>> {
    let bytes = pack::unpack(stored)?;
    let mut bytes = bytes.as_slice();
    let mut owners = Vec::new();
    for _ in 0..take_number(&mut bytes)? {
        let (owner, rest) = bytes.split_first_chunk()?;
        bytes = rest;
        owners.push(Owner::from_bytes(*owner));
    }
    let mut docs = Vec::new();
    let mut id = 0_i64;
    while !bytes.is_empty() {
        id = id.wrapping_add(take_number(&mut bytes)?.cast_signed());
        let session = take_number(&mut bytes)?.cast_signed();
        let owner = *owners.get(usize::try_from(take_number(&mut bytes)?).ok()?)?;
        let length = take_number(&mut bytes)?;
        let (said_ms, rest) = bytes.split_first_chunk()?;
        bytes = rest;
        let roles = take_number(&mut bytes)?;
        docs.push(Doc { id, session, owner, length, said_ms: i64::from_le_bytes(*said_ms), roles });
    }
    Some(docs)
}

fn encode_postings(texts: &[TextPosting]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut doc_before = 0;
    for (doc, count, places) in texts {
        push_number(&mut bytes, (doc - doc_before) as u64);
        push_number(&mut bytes, *count);
        push_number(&mut bytes, places.len() as u64);
        let mut place_before = 0;
        for place in places {
            push_number(&mut bytes, u64::from(place - place_before));
            place_before = *place;
        }
        doc_before = *doc;
    }
    bytes
}

/// Reads where the entries of a slice have a term; `None` if it is illegible.
pub(super) fn postings(mut bytes: &[u8]) -> Option<Vec<Posting>> {
    let mut postings = Vec::new();
    let mut doc = 0_usize;
    while !bytes.is_empty() {
        doc = doc.checked_add(usize::try_from(take_number(&mut bytes)?).ok()?)?;
        let count = take_number(&mut bytes)?;
        let mut places = Vec::new();
        let mut place = 0_u32;
        for _ in 0..take_number(&mut bytes)? {
            place = place.checked_add(u32::try_from(take_number(&mut bytes)?).ok()?)?;
            places.push(place);
        }
        postings.push(Posting { doc, count, places });
    }
    Some(postings)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_slice_tells_of_its_entries_what_a_text_has(
            said in prop::collection::vec(("[a-c ]{0,30}", any::<i64>(), 1_i64..4, 0_u128..3), 1..9),
        ) {
            let entries: Vec<(i64, Doc, String)> = said.iter().zip(1_i64..).map(|((text, at_ms, session, owner), id)| {
                let doc = Doc { id, session: *session, owner: Owner(*owner), length: 0, said_ms: *at_ms, roles: 5 };
                (id, doc, text.clone())
            }).collect();
            let built = BuiltSlice::of(&entries);
            let back = docs(&built.docs).unwrap();
            let mut texts = Texts::default();
            for (_, _, text) in &entries {
                texts.add(text);
            }
            for ((_, doc, _), (back, length)) in entries.iter().zip(back.iter().zip(texts.lengths())) {
                prop_assert_eq!(back, &Doc { length: *length, ..doc.clone() });
            }
            for (term, of_texts) in texts.postings() {
                let found = built.postings.iter().find(|(other, ..)| *other == term.as_bytes());
                let (_, count, data) = found.unwrap();
                prop_assert_eq!(count.cast_unsigned(), of_texts.len() as u64);
                let back: Vec<Posting> = postings(data).unwrap();
                let expected: Vec<Posting> = of_texts
                    .iter()
                    .map(|(doc, count, places)| Posting { doc: *doc, count: *count, places: places.clone() })
                    .collect();
                prop_assert_eq!(back, expected);
            }
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = docs(&bytes);
            let _ = postings(&bytes);
        }
    }
}
