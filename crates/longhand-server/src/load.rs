//! How much memory requests may take, each and together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hyper::body::Bytes;
use longhand::driver::Keeper;
use memchr::{memchr, memchr_iter};

use crate::buffers::Buffers;

/// The approximate memory of a parsed message or part, besides its text.
const ELEMENT_BYTES: u64 = 1 << 10;

/// The approximate memory of a parsed field of an object.
const FIELD_BYTES: u64 = 64;

/// How deep the lists lie whose elements are messages or parts: `messages`, `content`, and that of a result.
const LIST_DEPTH_MAX: usize = 6;
const LEVELS_MAX: u64 = LIST_DEPTH_MAX as u64;

/// Requests that take less are not counted exactly.
pub(crate) const SMALL_BYTES_MAX: u64 = 1 << 20;

/// The memory that all requests have together.
#[derive(Debug)]
pub(crate) struct Load {
    held: AtomicU64,
    most: u64,
    pub(crate) buffers: Buffers,
}

/// The memory that one request has reserved; dropping it gives the memory back.
#[derive(Debug)]
pub(crate) struct MemoryShare {
    load: Arc<Load>,
    bytes: AtomicU64,
}

impl Load {
    pub(crate) fn new(most: u64) -> Arc<Self> {
        Arc::new(Self { held: AtomicU64::new(0), most, buffers: Buffers::default() })
    }

    pub(crate) fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// A share of nothing yet.
    pub(crate) fn share(self: &Arc<Self>) -> Arc<MemoryShare> {
        Arc::new(MemoryShare { load: Arc::clone(self), bytes: AtomicU64::new(0) })
    }
}

impl MemoryShare {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether it may reserve so many bytes more.
    ///
    /// A share has at most half of what is free, so that a few large requests never keep out all others.
    pub(crate) fn may_grow(&self, bytes: u64) -> bool {
        let held = self.bytes();
        let others = self.load.held().saturating_sub(held);
        held.saturating_add(bytes) <= self.load.most.saturating_sub(others) / 2
    }

    /// Reserves more bytes. Returns whether there is room for them.
    pub(crate) fn grow(&self, bytes: u64) -> bool {
        if !self.may_grow(bytes) {
            return false;
        }
        self.load.held.fetch_add(bytes, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        true
    }

    /// Gives some of it back.
    pub(crate) fn shrink(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.load.held.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// The same bytes; the share lives as long as they do.
    pub(crate) fn with(self: &Arc<Self>, bytes: Bytes) -> Bytes {
        Bytes::from_owner(ReservedBytes { bytes, _share: Arc::clone(self) })
    }
}

impl Keeper for MemoryShare {
    fn bytes(&self) -> u64 {
        self.bytes()
    }

    /// Keeps the buffer for the next request.
    fn take_back(&self, text: String) {
        self.load.buffers.give(text.into_bytes());
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.load.held.fetch_sub(self.bytes(), Ordering::Relaxed);
    }
}

/// Bytes, and the share that has the memory for them.
struct ReservedBytes {
    bytes: Bytes,
    _share: Arc<MemoryShare>,
}

impl AsRef<[u8]> for ReservedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The approximate memory for a request besides its text: a window, and what was parsed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Working {
    pub(crate) bytes: u64,
    /// The places from which the count of a later request can continue, in order.
    places: Vec<CountPlace>,
}

/// How far a text was counted.
#[derive(Clone, Copy, Debug, Default)]
struct CountPlace {
    at: usize,
    depth: usize,
    /// For each depth, whether it is in a list.
    lists: [bool; LIST_DEPTH_MAX + 1],
    bytes: u64,
    /// The first place of the same list.
    first: usize,
}

/// How many places before the end of a list are remembered: clients change its last elements.
const PLACES_OF_LIST: usize = 4;
const PLACES_MAX: usize = 32;

/// How deep the list of messages lies.
const MESSAGES_DEPTH: usize = 2;

impl Working {
    /// Counts what a request takes; `None` if that is more than its share may have.
    ///
    /// A message of twenty bytes takes a thousand in memory, so elements are counted before any is parsed. Counting
    /// commas is much faster and gives an upper bound: if that is small, it is good enough. The bytes that an earlier
    /// request has in `common` with this one are not counted again.
    pub(crate) fn of(
        text: &str,
        before: Option<(&Self, usize)>,
        share: &MemoryShare,
    ) -> Option<Self> {
        let known = before.map_or(&[][..], |(before, common)| before.within(common));
        let commas = || memchr_iter(b',', text.as_bytes()).count() as u64;
        let most =
            || text.len() as u64 + (commas() + 1) * (ELEMENT_BYTES + LEVELS_MAX * FIELD_BYTES);
        let small = known.is_empty().then(most).filter(|most| *most < SMALL_BYTES_MAX);
        let working = match small {
            Some(bytes) => Self { bytes, places: Vec::new() },
            None => Self::counted(text, known.to_vec()),
        };
        share.may_grow(working.bytes).then_some(working)
    }

    /// The places within so many bytes of the beginning.
    fn within(&self, bytes: usize) -> &[CountPlace] {
        &self.places[..self.places.partition_point(|place| place.at <= bytes)]
    }

    /// Counts from the last of the places on.
    fn counted(text: &str, mut places: Vec<CountPlace>) -> Self {
        let length = text.len() as u64;
        let text = text.as_bytes();
        let mut place = places.last().copied().unwrap_or_default();
        while let Some(byte) = text.get(place.at) {
            place.at += 1;
            match byte {
                b'"' => place.at = after_string(text, place.at),
                b'{' | b'[' => {
                    place.depth += 1;
                    if place.depth == MESSAGES_DEPTH {
                        place.first = places.len();
                    }
                    if let Some(list) = place.lists.get_mut(place.depth) {
                        *list = *byte == b'[';
                        place.bytes += FIELD_BYTES;
                    }
                }
                b'}' | b']' => place.depth = place.depth.saturating_sub(1),
                b',' => match place.lists.get(place.depth) {
                    Some(true) => {
                        place.bytes += ELEMENT_BYTES;
                        if place.depth == MESSAGES_DEPTH {
                            place.remember(&mut places);
                        }
                    }
                    Some(false) => place.bytes += FIELD_BYTES,
                    None => {}
                },
                _ => {}
            }
        }
        Self { bytes: length + place.bytes, places }
    }
}

impl CountPlace {
    fn remember(self, places: &mut Vec<CountPlace>) {
        if places.len() - self.first == PLACES_OF_LIST {
            places.remove(self.first);
        }
        if places.len() < PLACES_MAX {
            places.push(self);
        }
    }
}

/// The index after the end of a string that begins at `from`.
///
/// Quotes are rarer than backslashes, so backslashes are counted only before a quote.
fn after_string(text: &[u8], from: usize) -> usize {
    let mut at = from;
    while let Some(next) = text.get(at..).and_then(|rest| memchr(b'"', rest)) {
        let quote = at + next;
        let escapes = text[from..quote].iter().rev().take_while(|byte| **byte == b'\\').count();
        if escapes % 2 == 0 {
            return quote + 1;
        }
        at = quote + 1;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_requests_find_room_beside_large_ones() {
        let load = Load::new(256);
        let mut large = Vec::new();
        for (bytes, expected) in [(129, false), (60, true), (60, true), (60, true), (60, false)] {
            let share = load.share();
            assert_eq!(share.grow(bytes), expected, "{} of {}", load.held(), load.most);
            large.push(share);
        }
        let small = load.share();
        assert!(small.grow(10) && small.grow(10), "{load:?}");
        large.clear();
        assert_eq!(load.held(), 20);
        let bytes = small.with(Bytes::from_static(b"body"));
        drop(small);
        assert_eq!((&bytes[..], load.held()), (&b"body"[..], 20));
        drop(bytes);
        assert_eq!(load.held(), 0);
    }

    #[test]
    fn counting_goes_on_from_an_earlier_request() {
        let message = |at: usize| format!(r#"{{"role":"user","content":["a, \"[{at}"]}}"#);
        let request = |messages: std::ops::Range<usize>, last: &str| {
            let messages: Vec<String> = messages.map(message).collect();
            let tools = [r#"{"name":"t","with":[1,2]}"#; 9].join(",");
            format!(r#"{{"messages":[{}{last}],"tools":[{tools}],"n":1}}"#, messages.join(","))
        };
        let before = request(0..60, "");
        let counted = Working::counted(&before, Vec::new());
        for text in [request(0..70, ""), request(0..60, r#",{"cache":1}"#), request(0..58, "")] {
            let common = longhand_dialect::common(&before, &text);
            let known = counted.within(common);
            assert!(!known.is_empty() && text.len() - known[known.len() - 1].at < 1_200, "{text}");
            let resumed = Working::counted(&text, known.to_vec());
            assert_eq!(resumed.bytes, counted_bytes(&text), "{text}");
            // The next one goes on from there.
            let more = text.replacen("],\"tools\"", ",{}],\"tools\"", 1);
            let common = longhand_dialect::common(&text, &more);
            let again = Working::counted(&more, resumed.within(common).to_vec());
            assert_eq!(again.bytes, counted_bytes(&more), "{more}");
        }
        let other = request(30..60, "");
        assert!(counted.within(longhand_dialect::common(&before, &other)).is_empty());
    }

    fn counted_bytes(text: &str) -> u64 {
        Working::counted(text, Vec::new()).bytes
    }

    fn working_bytes(text: &str, share: &MemoryShare) -> Option<u64> {
        Working::of(text, None, share).map(|working| working.bytes)
    }

    #[test]
    fn what_has_many_elements_takes_more_than_its_text() {
        let body = |messages: &str| format!(r#"{{"model":"m","messages":[{messages}]}}"#);
        let tiny = body(&vec![r#"{"role":"user","content":"a"}"#; 10_000].join(","));
        assert!((10_000 << 10..12_000 << 10).contains(&counted_bytes(&tiny)));
        let numbers = body(&vec!["1"; 10_000].join(","));
        assert!(counted_bytes(&numbers) > 10_000 << 10);
        let blocks = vec![r#"{"type":"text","text":"a"}"#; 10_000].join(",");
        let result = format!(
            r#"{{"role":"user","content":[{{"type":"tool_result","content":[{blocks}]}}]}}"#
        );
        assert!(counted_bytes(&body(&result)) > 10_000 << 10);
        let text = r#"{\"a\":[1,2,3],"#.repeat(10_000);
        let long = body(&format!(r#"{{"role":"user","content":"{text}\\"}}"#));
        assert!(counted_bytes(&long) < 2 * long.len() as u64, "text is not looked into");
        let rows = vec![r#"{"x":[1,2,3]}"#; 10_000].join(",");
        let call = format!(
            r#"{{"role":"assistant","content":[{{"type":"tool_use","input":{{"rows":[{rows}]}}}}]}}"#
        );
        assert!(counted_bytes(&body(&call)) < 2 * body(&call).len() as u64 + 10_000);
        for odd in ["", "\"", "\"\\", "]]]]", "[[[[[[[[[[[["] {
            assert!(counted_bytes(odd) < 2_000, "{odd}");
        }
        let share = Load::new(64 << 20).share();
        for text in [&tiny, &numbers, &body(&result), &long, &body(&call)] {
            assert_eq!(working_bytes(text, &share), Some(counted_bytes(text)), "looked at closely");
        }
        for small in ["[[[[[[[[[[[[1", r#"{"a":{"b":[[[{}]]]},"c":[1,2]}"#, &body(r#""a","b""#)] {
            let most = working_bytes(small, &share).unwrap();
            assert!((counted_bytes(small)..SMALL_BYTES_MAX).contains(&most), "{small}");
        }
        assert_eq!(working_bytes(&tiny, &Load::new(1 << 20).share()), None);
    }
}
