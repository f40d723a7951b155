//! Server-sent events, read as they arrive.

use std::mem;

use crate::lean::LeanBuffer;
use crate::view::View;

/// One event of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// The value of `event:`; empty where the stream gives none.
    pub name: String,
    /// The lines of `data:`, joined.
    pub data: String,
}

/// An event is larger than the reader allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream has more than {max} bytes")]
pub struct SseTooLarge {
    /// The most bytes that an event may have.
    pub max: usize,
}

/// Takes the bytes of a stream, however they are cut, and gives its events.
///
/// ```
/// let mut reader = longhand_dialect::SseReader::default();
/// assert!(reader.push(b"data: {\"a\":")?.is_empty());
/// let events = reader.push(b"1}\r\n\r\n: a comment\n")?;
/// assert_eq!(events[0].data, "{\"a\":1}");
/// # Ok::<(), longhand_dialect::SseTooLarge>(())
/// ```
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent facts, not states")]
pub struct SseReader {
    event_bytes_max: usize,
    line: LeanBuffer,
    name: String,
    data: String,
    has_data: bool,
    begun: bool,
    /// The last line ended in a carriage return, so a line feed right after belongs to it.
    after_return: bool,
    /// The event that is read now is too large; the rest of it is passed over.
    is_too_large: bool,
    /// How many were.
    too_large: u64,
    /// Lines that are not part of the event stream, up to a limit.
    strays: Vec<String>,
    stray_bytes: usize,
    /// Whether some bytes were no UTF-8.
    is_lossy: bool,
}

/// The most that is kept of lines that are no part of a stream of events.
const STRAY_BYTES_MAX: usize = 1 << 20;

impl Default for SseReader {
    fn default() -> Self {
        Self::new(16 << 20)
    }
}

impl SseReader {
    /// Starts a stream whose events have at most `event_bytes_max` bytes.
    pub fn new(event_bytes_max: usize) -> Self {
        Self {
            event_bytes_max,
            line: LeanBuffer::default(),
            name: String::new(),
            data: String::new(),
            has_data: false,
            begun: false,
            after_return: false,
            is_too_large: false,
            too_large: 0,
            strays: Vec::new(),
            stray_bytes: 0,
            is_lossy: false,
        }
    }

    /// Starts a stream of which long lists of probabilities are left out.
    pub(crate) fn lean() -> Self {
        Self { line: LeanBuffer::lean(), ..Self::default() }
    }

    /// Takes the next bytes and gives the events that they complete.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<SseEvent>, SseTooLarge> {
        let events = self.push_past(bytes);
        if self.too_large > 0 || self.is_too_large {
            return Err(SseTooLarge { max: self.event_bytes_max });
        }
        Ok(events)
    }

    /// Takes the next bytes and gives the events that they complete, past those that are too large.
    pub(crate) fn push_past(&mut self, bytes: &[u8]) -> Vec<SseEvent> {
        let mut events = Vec::new();
        let mut rest = bytes;
        if !rest.is_empty() && mem::take(&mut self.after_return) {
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        while let Some(end) = memchr::memchr2(b'\n', b'\r', rest) {
            self.keep(&rest[..end]);
            let is_return = rest[end] == b'\r';
            rest = &rest[end + 1..];
            if is_return {
                self.after_return = rest.is_empty();
                rest = rest.strip_prefix(b"\n").unwrap_or(rest);
            }
            events.extend(self.end_line());
        }
        self.keep(rest);
        events
    }

    /// Ends the stream: an event of whole lines counts even if the blank line after it is missing.
    pub fn finish(mut self) -> Option<SseEvent> {
        self.dispatch()
    }

    /// How many events were too large to be read.
    pub(crate) fn too_large(&self) -> u64 {
        self.too_large + u64::from(self.is_too_large)
    }

    /// Whether some bytes were no UTF-8; signs stand in their place.
    pub(crate) fn is_lossy(&self) -> bool {
        self.is_lossy
    }

    /// The lines that were no part of any stream of events, since it was asked last.
    pub(crate) fn take_strays(&mut self) -> Vec<String> {
        mem::take(&mut self.strays)
    }

    /// What has come of a line that has not ended.
    pub(crate) fn begun_line(&self) -> &[u8] {
        self.line.as_slice()
    }

    /// The bytes that it holds.
    pub(crate) fn held(&self) -> usize {
        self.line.len() + self.data.len()
    }

    /// Whether nothing of an event has come.
    fn is_idle(&self) -> bool {
        self.is_too_large || (self.line.is_empty() && self.name.is_empty() && !self.has_data)
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.is_too_large {
            // Marks that the line is not blank.
            if !bytes.is_empty() {
                self.line.set(b":");
            }
            return;
        }
        self.line.push(bytes);
        if self.line.len() + self.data.len() > self.event_bytes_max {
            self.is_too_large = true;
            self.line.set(b":");
            self.data = String::new();
        }
    }

    fn end_line(&mut self) -> Option<SseEvent> {
        let bytes = self.line.take();
        let line = String::from_utf8_lossy(&bytes);
        self.is_lossy |= matches!(line, std::borrow::Cow::Owned(_));
        let begun = mem::replace(&mut self.begun, true);
        let line = line.strip_prefix('\u{feff}').filter(|_| !begun).unwrap_or(&line);
        if line.is_empty() {
            return self.dispatch();
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if mem::replace(&mut self.has_data, true) {
                    self.data.push('\n');
                }
                self.data.push_str(value);
            }
            "event" => value.clone_into(&mut self.name),
            "" | "id" | "retry" => {}
            _ => {
                if self.stray_bytes + line.len() <= STRAY_BYTES_MAX {
                    self.stray_bytes += line.len();
                    self.strays.push(line.to_owned());
                }
            }
        }
        None
    }

    fn dispatch(&mut self) -> Option<SseEvent> {
        if mem::take(&mut self.is_too_large) {
            self.too_large += 1;
            self.name = String::new();
            self.has_data = false;
            return None;
        }
        let event = SseEvent { name: mem::take(&mut self.name), data: mem::take(&mut self.data) };
        mem::take(&mut self.has_data).then_some(event)
    }
}

/// Bytes of a stream and the event in them; bytes between events have none.
#[derive(Debug, Default)]
pub(crate) struct SseFrame {
    pub(crate) raw: Vec<u8>,
    pub(crate) event: Option<SseEvent>,
}

impl SseFrame {
    /// The data of the event, or an empty text.
    pub(crate) fn data(&self) -> &str {
        self.event.as_ref().map_or("", |event| event.data.trim())
    }

    /// The same as JSON.
    pub(crate) fn view(&self) -> Option<View<'_>> {
        View::parse(self.data())
    }

    /// The bytes of the event with other data.
    pub(crate) fn with(&self, data: &str) -> Vec<u8> {
        write_event(self.event.as_ref().map_or("", |event| event.name.as_str()), data)
    }
}

/// Cuts a stream into frames, which together have all of its bytes.
#[derive(Debug, Default)]
pub(crate) struct SseFrames {
    reader: SseReader,
    raw: Vec<u8>,
}

impl SseFrames {
    /// Takes the next bytes and gives the frames that they complete.
    ///
    /// An event that is too large to be read passes as bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<SseFrame> {
        let mut frames = Vec::new();
        for line in bytes.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            self.raw.extend_from_slice(line);
            let event = self.reader.push_past(line).pop();
            // Nobody asks for them here.
            self.reader.take_strays();
            if event.is_some() || self.reader.is_idle() {
                frames.push(SseFrame { raw: mem::take(&mut self.raw), event });
            }
        }
        frames
    }

    /// What has come of a frame that was not completed.
    pub(crate) fn finish(&mut self) -> Option<SseFrame> {
        let event = mem::take(&mut self.reader).finish();
        let raw = mem::take(&mut self.raw);
        (!raw.is_empty()).then_some(SseFrame { raw, event })
    }
}

/// Writes an event.
pub(crate) fn write_event(name: &str, data: &str) -> Vec<u8> {
    let name = if name.is_empty() { String::new() } else { format!("event: {name}\n") };
    let data: String = data.lines().map(|line| format!("data: {line}\n")).collect();
    format!("{name}{data}\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(pieces: &[&[u8]]) -> Vec<(String, String)> {
        let mut reader = SseReader::default();
        let mut events: Vec<SseEvent> = Vec::new();
        for piece in pieces {
            events.extend(reader.push(piece).unwrap());
        }
        events.extend(reader.finish());
        events.into_iter().map(|event| (event.name, event.data)).collect()
    }

    fn check(stream: &str, expected: &[(&str, &str)]) {
        let expected: Vec<(String, String)> =
            expected.iter().map(|(name, data)| ((*name).into(), (*data).into())).collect();
        assert_eq!(read(&[stream.as_bytes()]), expected, "{stream:?}");
        let bytes: Vec<&[u8]> = stream.as_bytes().chunks(1).collect();
        assert_eq!(read(&bytes), expected, "byte by byte: {stream:?}");
    }

    #[test]
    fn every_line_ending_ends_a_line() {
        for end in ["\n", "\r\n", "\r"] {
            let stream = ["event: ping", "data: a", "", "data: b", "", ""].join(end);
            check(&stream, &[("ping", "a"), ("", "b")]);
        }
    }

    #[test]
    fn fields_are_read_as_the_standard_says() {
        check("data: a\ndata: b\n\n", &[("", "a\nb")]);
        check("data:a\n\ndata:  a\n\n", &[("", "a"), ("", " a")]);
        check(": hello\n\ndata: a\n: between\n\n", &[("", "a")]);
        check("data\n\n", &[("", "")]);
        check("event: lonely\n\ndata: a\n\n", &[("", "a")]);
        check("id: 7\nretry: 10\nwhat: ever\ndata: a\n\n", &[("", "a")]);
        check("\u{feff}data: a\n\n", &[("", "a")]);
        check("data: é🦀\n\n", &[("", "é🦀")]);
    }

    #[test]
    fn the_end_completes_whole_lines_only() {
        check("data: [DONE]\n", &[("", "[DONE]")]);
        check("data: {\"half\"", &[]);
        check("data: a\n\ndata: {\"half\"", &[("", "a")]);
    }

    #[test]
    fn an_event_without_end_is_refused() {
        let mut reader = SseReader::new(100);
        assert_eq!(reader.push(b"data: 12345\n\n").unwrap().len(), 1);
        for _ in 0..4 {
            assert!(reader.push(b"data: 1234567890\n").is_ok());
        }
        assert_eq!(reader.push(&[b'x'; 90]), Err(SseTooLarge { max: 100 }));
    }

    #[test]
    fn a_push_of_nothing_does_not_part_a_carriage_return_from_its_line_feed() {
        let pieces: [&[u8]; 3] = [b"data: a\r", b"", b"\ndata: b\r\n\r\n"];
        assert_eq!(read(&pieces), [(String::new(), "a\nb".to_owned())]);
    }

    #[test]
    fn frames_are_events_and_nothing_is_lost() {
        for end in ["\n", "\r\n", "\r"] {
            let lines = [
                ": hi", "", "event: x", "data: a", "data: b", "", "id: 1", "data: c", "", "data: d",
            ];
            let stream = lines.join(end);
            for size in [1, 2, 3, 100] {
                let mut frames = SseFrames::default();
                let pieces = stream.as_bytes().chunks(size);
                let mut all: Vec<SseFrame> = pieces.flat_map(|piece| frames.push(piece)).collect();
                all.extend(frames.finish());
                let raw: Vec<u8> = all.iter().flat_map(|frame| frame.raw.clone()).collect();
                assert_eq!(raw, stream.as_bytes());
                let data = all.iter().filter_map(|frame| Some(frame.event.as_ref()?.data.as_str()));
                assert_eq!(data.collect::<Vec<_>>(), ["a\nb", "c"], "{end:?} {size}");
            }
        }
    }

    #[test]
    fn an_event_that_is_too_large_passes_and_the_next_one_is_read() {
        let mut frames = SseFrames { reader: SseReader::new(50), raw: Vec::new() };
        let stream = format!("data: {}\n\ndata: a\n\n", "x".repeat(90));
        let all = frames.push(stream.as_bytes());
        assert_eq!(all.iter().map(|frame| frame.raw.len()).sum::<usize>(), stream.len());
        assert_eq!(all.last().unwrap().data(), "a");
    }

    proptest! {
        #[test]
        fn where_a_stream_is_cut_does_not_matter(
            stream in "(data: [a-c🦀é]{0,3}|event: x|: c|\r|\n|\r\n){0,20}",
            cuts in proptest::collection::vec(0usize..80, 0..6),
        ) {
            let bytes = stream.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|w| &bytes[w[0]..w[1]]).collect();
            prop_assert_eq!(read(&pieces), read(&[bytes]));
        }
    }
}
