//! The events of a stream, each with the bytes that it came in.

use hyper::body::Bytes;
use longhand_dialect::{SseEvent, SseReader};

/// An event as it came; what comes between events is a frame without one.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) raw: Bytes,
    pub(super) event: Option<SseEvent>,
}

/// Cuts a stream into frames, after every blank line.
#[derive(Debug, Default)]
pub(super) struct Frames {
    begun: Vec<u8>,
    /// Something stands on the line so far.
    in_line: bool,
    /// A line feed now would belong to the carriage return before it.
    after_return: bool,
}

/// The largest event that is looked into.
const FRAME_BYTES_MAX: usize = 16 << 20;

impl Frames {
    /// Takes the next bytes and gives the frames that they complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<Frame> {
        let mut frames = Vec::new();
        for &byte in bytes {
            self.begun.push(byte);
            let ends_pair = std::mem::replace(&mut self.after_return, byte == b'\r');
            match byte {
                b'\n' if ends_pair => {}
                b'\n' | b'\r' => {
                    if !std::mem::replace(&mut self.in_line, false) {
                        frames.push(Frame::new(std::mem::take(&mut self.begun)));
                    }
                }
                _ => self.in_line = true,
            }
        }
        if self.begun.len() > FRAME_BYTES_MAX {
            frames.push(Frame { raw: std::mem::take(&mut self.begun).into(), event: None });
        }
        frames
    }

    /// What has come of a frame that was not completed.
    pub(super) fn rest(&mut self) -> Option<Frame> {
        let rest = std::mem::take(&mut self.begun);
        (!rest.is_empty()).then(|| Frame::new(rest))
    }
}

impl Frame {
    fn new(raw: Vec<u8>) -> Self {
        let mut reader = SseReader::new(FRAME_BYTES_MAX);
        let mut events = reader.push(&raw).unwrap_or_default();
        let event = events.pop().or_else(|| reader.finish());
        Self { raw: raw.into(), event }
    }

    /// The JSON that it brings, if it brings any.
    pub(super) fn data(&self) -> &str {
        self.event.as_ref().map_or("", |event| event.data.trim())
    }

    /// Whether a name stands in it.
    pub(super) fn names(&self, name: &str) -> bool {
        self.raw.windows(name.len()).any(|piece| piece == name.as_bytes())
    }

    /// The same event with other data.
    pub(super) fn with(&self, data: &str) -> Bytes {
        let name = self.event.as_ref().map_or("", |event| event.name.as_str());
        write(name, data)
    }
}

/// Writes an event.
pub(super) fn write(name: &str, data: &str) -> Bytes {
    let name = if name.is_empty() { String::new() } else { format!("event: {name}\n") };
    let data: String = data.lines().map(|line| format!("data: {line}\n")).collect();
    format!("{name}{data}\n").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_events_and_nothing_is_lost() {
        for end in ["\n", "\r\n", "\r"] {
            let stream =
                [": hi", "", "event: x", "data: a", "data: b", "", "data: c", "", "data: d"]
                    .join(end);
            for size in [1, 2, 3, 100] {
                let (mut frames, mut raw, mut data) = (Frames::default(), Vec::new(), Vec::new());
                let pieces = stream.as_bytes().chunks(size);
                let mut all: Vec<Frame> = pieces.flat_map(|piece| frames.push(piece)).collect();
                all.extend(frames.rest());
                for frame in &all {
                    raw.extend_from_slice(&frame.raw);
                    data.extend(frame.event.iter().map(|event| event.data.clone()));
                }
                assert_eq!(raw, stream.as_bytes());
                assert_eq!(data, ["a\nb", "c"], "{end:?} {size}");
            }
        }
    }
}
