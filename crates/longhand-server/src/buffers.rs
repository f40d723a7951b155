//! A pool of buffers for large bodies.
//!
//! The system hands out fresh memory page by page, as it is first written to: for a body of a megabyte
//! that takes as long as reading it does.

use std::sync::{Mutex, MutexGuard};

use crate::lock::lock;

/// Smaller buffers are allocated: the allocator has memory for them.
const LENGTH_MIN: usize = 128 << 10;

/// Capacities are multiples of this, so that the next request of a session fits, which is a little longer.
const STEP: usize = 256 << 10;

/// The largest buffer that is kept, and the limit for all of them together.
const CAPACITY_MAX: usize = 4 << 20;
const IDLE_BYTES_MAX: usize = 16 << 20;

/// Buffers that nobody uses.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    idle: Mutex<Vec<Vec<u8>>>,
}

impl Buffers {
    /// An empty buffer for so many bytes; its capacity is at most about twice that.
    pub(crate) fn take(&self, length: usize) -> Vec<u8> {
        if length < LENGTH_MIN {
            return Vec::with_capacity(length);
        }
        let capacity = length.next_multiple_of(STEP);
        let fits = |buffer: &Vec<u8>| (capacity..=2 * capacity).contains(&buffer.capacity());
        let mut idle = self.idle();
        // The one that was used last is the most likely to be in the processor's cache.
        let found = idle.iter().rposition(fits).map(|at| idle.remove(at));
        drop(idle);
        found.unwrap_or_else(|| Vec::with_capacity(capacity))
    }

    /// Keeps a buffer for the next request, unless there are enough.
    pub(crate) fn give(&self, mut buffer: Vec<u8>) {
        if !(LENGTH_MIN..=CAPACITY_MAX).contains(&buffer.capacity()) {
            return;
        }
        buffer.clear();
        let mut idle = self.idle();
        idle.push(buffer);
        let mut bytes: usize = idle.iter().map(Vec::capacity).sum();
        while bytes > IDLE_BYTES_MAX {
            bytes -= idle.remove(0).capacity();
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        lock(&self.idle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_serves_the_next_request_of_about_its_length() {
        let buffers = Buffers::default();
        let mut first = buffers.take(900 << 10);
        first.resize(900 << 10, 1);
        buffers.give(first);
        let small = buffers.take(200 << 10);
        assert_eq!(
            (small.capacity(), buffers.idle().len()),
            (256 << 10, 1),
            "it is much too large"
        );
        let next = buffers.take(901 << 10);
        assert_eq!((next.len(), next.capacity(), buffers.idle().len()), (0, 1 << 20, 0));
    }

    #[test]
    fn few_are_kept_and_no_small_or_very_large_ones() {
        let buffers = Buffers::default();
        for length in [1, LENGTH_MIN - 1, CAPACITY_MAX + 1] {
            buffers.give(Vec::with_capacity(length));
        }
        assert!(buffers.idle().is_empty());
        for _ in 0..100 {
            buffers.give(Vec::with_capacity(1 << 20));
        }
        assert_eq!(buffers.idle().len(), IDLE_BYTES_MAX >> 20);
    }
}
