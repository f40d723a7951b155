//! Reads a log (`-wal`) without SQLite, to see which file it belongs to.
//!
//! The format is documented at <https://www.sqlite.org/fileformat2.html#the_write_ahead_log>.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use super::stamp::{self, Stamp};

const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;
/// The magic number without its last bit, which tells the byte order of the checksums.
const MAGIC: u32 = 0x377f_0682;
const PAGE_BYTES_MAX: usize = 65_536;

/// A log that has a header. Frames that earlier uses of the log left behind it do not count.
#[derive(Debug)]
pub(super) struct WriteAheadLog {
    file: File,
    header: [u8; HEADER_BYTES],
    page_bytes: usize,
}

impl WriteAheadLog {
    /// Opens a log; `None` if there is none, or nothing in it.
    pub(super) fn open(path: &Path) -> io::Result<Option<Self>> {
        let mut file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let mut header = [0; HEADER_BYTES];
        if !is_filled(&mut file, &mut header)? || number(&header, 0) & !1 != MAGIC {
            return Ok(None);
        }
        let page_bytes = number(&header, 8) as usize;
        let is_size = page_bytes.is_power_of_two() && page_bytes <= PAGE_BYTES_MAX;
        Ok(is_size.then_some(Self { file, header, page_bytes }))
    }

    /// Returns whether a transaction in the log left a stamp, or goes on from it.
    ///
    /// `page` is where the stamps are.
    pub(super) fn names(&mut self, page: u32, stamp: Stamp) -> io::Result<bool> {
        let mut content = vec![0; self.page_bytes];
        // Newest first: the last transaction copied into the file is usually at the end of the log.
        for index in (0..self.frames()?).rev() {
            let Some(frame) = self.frame(index)? else { continue };
            if number(&frame, 0) != page || !is_filled(&mut self.file, &mut content)? {
                continue;
            }
            let found = stamp::in_page(&content);
            if found.is_some_and(|found| found.iter().any(|found| found.agrees(stamp))) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The random numbers that the frames of the present use share.
    pub(super) fn salt(&self) -> [u8; 8] {
        let mut salt = [0; 8];
        salt.copy_from_slice(&self.header[16..24]);
        salt
    }

    /// Returns whether there are frames that an earlier use of the log left.
    pub(super) fn has_leftovers(&mut self) -> io::Result<bool> {
        let used = HEADER_BYTES as u64 + self.frames()? * self.frame_bytes();
        Ok(self.file.metadata()?.len() > used)
    }

    /// How many frames are of the present use of the log: they come before all that earlier uses left.
    fn frames(&mut self) -> io::Result<u64> {
        let bytes = self.file.metadata()?.len().saturating_sub(HEADER_BYTES as u64);
        let (mut ours, mut end) = (0, bytes.div_ceil(self.frame_bytes()));
        while ours < end {
            let middle = ours.midpoint(end);
            if self.frame(middle)?.is_some() { ours = middle + 1 } else { end = middle }
        }
        Ok(ours)
    }

    /// Reads the header of a frame; `None` if it is not there, or of an earlier use.
    fn frame(&mut self, index: u64) -> io::Result<Option<[u8; FRAME_HEADER_BYTES]>> {
        let mut frame = [0; FRAME_HEADER_BYTES];
        self.file.seek(SeekFrom::Start(HEADER_BYTES as u64 + index * self.frame_bytes()))?;
        let is_there = is_filled(&mut self.file, &mut frame)? && self.is_ours(&frame);
        Ok(is_there.then_some(frame))
    }

    fn frame_bytes(&self) -> u64 {
        (FRAME_HEADER_BYTES + self.page_bytes) as u64
    }

    /// Returns whether there is a transaction in the log that SQLite would apply.
    pub(super) fn has_transaction(&mut self) -> io::Result<bool> {
        let mut sum = self.sum([0; 2], &self.header[..24]);
        if sum != [number(&self.header, 24), number(&self.header, 28)] {
            return Ok(false);
        }
        self.file.seek(SeekFrom::Start(HEADER_BYTES as u64))?;
        let mut frame = vec![0; FRAME_HEADER_BYTES + self.page_bytes];
        while is_filled(&mut self.file, &mut frame)? {
            sum = self.sum(sum, &frame[..8]);
            sum = self.sum(sum, &frame[FRAME_HEADER_BYTES..]);
            if !self.is_ours(&frame) || sum != [number(&frame, 16), number(&frame, 20)] {
                break;
            }
            // The size of the file after a commit; 0 in the frames before it.
            if number(&frame, 4) != 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a frame is of the present use of the log: they share two random numbers.
    fn is_ours(&self, frame: &[u8]) -> bool {
        frame[8..16] == self.header[16..24]
    }

    fn sum(&self, [mut first, mut second]: [u32; 2], bytes: &[u8]) -> [u32; 2] {
        let is_big_endian = self.header[3] & 1 == 1;
        let word = |at: usize| {
            let word = number(bytes, at);
            if is_big_endian { word } else { word.swap_bytes() }
        };
        for at in (0..bytes.len()).step_by(8) {
            first = first.wrapping_add(word(at)).wrapping_add(second);
            second = second.wrapping_add(word(at + 4)).wrapping_add(first);
        }
        [first, second]
    }
}

fn number(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

/// Fills a buffer; returns whether there was enough to fill it.
fn is_filled(file: &mut File, buffer: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(buffer) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        read => read.map(|()| true),
    }
}
