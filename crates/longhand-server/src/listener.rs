//! Reading a copy of an answer for the archive while it is passed on.

use std::borrow::Cow;
use std::io::Read;
use std::sync::Arc;

use hyper::HeaderMap;
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderName};
use longhand::driver::Ticket;
use longhand::unread::{UnreadAnswer, UnreadContent};
use longhand_dialect::{AnswerReader, Dialect, ReadAnswer, Unread, decode, decoder};

use crate::answer::Chunk;
use crate::headers::is_events;
use crate::load::MemoryShare;
use crate::proxy::Shared;
use crate::request::prepare::PreparedRequest;

/// The limits for a packed answer: it is unpacked at its end.
const PACKED_BYTES_MAX: usize = 16 << 20;
const UNPACKED_BYTES_MAX: u64 = 128 << 20;
const UNPACK_BYTES: usize = 64 << 10;

/// Reads a copy of an answer.
pub(crate) struct Listener {
    copy: AnswerCopy,
    /// The memory that the copy takes.
    share: Arc<MemoryShare>,
    kind: AnswerKind,
    prepared: PreparedRequest,
    shared: Arc<Shared>,
}

/// Whether an answer is archived.
pub(crate) enum StoredAnswer {
    /// It is being written.
    Written(Ticket),
    /// There is nothing to be archived.
    Nothing,
    /// The archive cannot take it.
    Refused,
}

enum AnswerCopy {
    Plain(Box<AnswerReader>),
    /// The bytes as they came, and how many there were.
    Packed(Vec<u8>, u64),
    /// All of it was read before it is sent on.
    Read(Box<ReadAnswer>),
}

/// The format of an answer's body, as its head says.
#[derive(Clone, Debug)]
pub(crate) struct AnswerKind {
    content_type: String,
    /// Its content encoding; empty if it has none.
    coding: String,
    pub(crate) in_events: bool,
}

/// The part of an answer that could not be read.
pub(crate) struct UnreadPart {
    pub(crate) why: Unread,
    pub(crate) rest: Vec<u8>,
    pub(crate) bytes: u64,
    pub(crate) kind: AnswerKind,
    /// Whether the rest is still packed: no secret can be found in it.
    is_packed: bool,
}

impl AnswerKind {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let text = |name: &HeaderName| {
            let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
            values.collect::<Vec<_>>().join(",")
        };
        let coding = text(&CONTENT_ENCODING);
        let is_plain =
            coding.split(',').all(|name| matches!(name.trim(), "" | "identity" | "Identity"));
        Self {
            content_type: text(&CONTENT_TYPE),
            coding: if is_plain { String::new() } else { coding },
            in_events: is_events(headers),
        }
    }

    pub(crate) fn is_packed(&self) -> bool {
        !self.coding.is_empty()
    }

    /// Unpacks a body; `None` if that fails, or if it is too large.
    pub(crate) fn unpacked(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        decode(bytes, &self.coding, PACKED_BYTES_MAX as u64).ok()
    }

    /// The text of a body, as far as it is one.
    pub(crate) fn text<'b>(&self, bytes: &'b [u8]) -> Cow<'b, str> {
        match self.unpacked(bytes).filter(|_| self.is_packed()) {
            Some(unpacked) => Cow::Owned(String::from_utf8_lossy(&unpacked).into_owned()),
            None => String::from_utf8_lossy(bytes),
        }
    }

    fn can_be_unpacked(&self) -> bool {
        decoder(&[], &self.coding).is_ok()
    }

    /// Reads an answer that is complete.
    fn read(&self, dialect: Dialect, bytes: &[u8]) -> ReadAnswer {
        let mut reader = AnswerReader::new(dialect, self.in_events);
        if !self.is_packed() {
            reader.push(bytes);
            return reader.finish();
        }
        let is_sound = decoder(bytes, &self.coding).is_ok_and(|unpacked| {
            let mut unpacked = unpacked.take(UNPACKED_BYTES_MAX + 1);
            let (mut piece, mut left) = (vec![0; UNPACK_BYTES], UNPACKED_BYTES_MAX + 1);
            loop {
                match unpacked.read(&mut piece) {
                    Ok(0) => return left > 0,
                    Ok(read) => {
                        left -= read as u64;
                        reader.push(&piece[..read]);
                    }
                    Err(_) => return false,
                }
            }
        });
        let read = reader.finish();
        if is_sound {
            return read;
        }
        let rest = bytes[..bytes.len().min(PACKED_BYTES_MAX)].to_vec();
        ReadAnswer { unread: Some(Unread::Packing), rest, ..read }
    }
}

impl UnreadPart {
    /// A message that is not valid in its format.
    pub(crate) fn message(message: String) -> Self {
        let kind = AnswerKind::of(&HeaderMap::new());
        let bytes = message.len() as u64;
        Self { why: Unread::Format, rest: message.into_bytes(), bytes, kind, is_packed: false }
    }

    /// What is kept of it.
    pub(crate) fn kept(&self, at_ms: i64, redactor: Option<&longhand::Redactor>) -> UnreadAnswer {
        // A secret may stand in pieces in several events.
        let lines = self.rest.split(|byte| *byte == b'\n');
        let is_stream = lines.filter(|line| line.starts_with(b"data:")).count() > 1;
        let is_opaque = self.is_packed || is_stream;
        UnreadAnswer {
            at_ms,
            why: self.why.to_string(),
            kind: self.kind.content_type.clone(),
            coding: self.kind.coding.clone(),
            bytes: self.bytes,
            content: UnreadContent::of(&self.rest, redactor, is_opaque),
        }
    }
}

impl Listener {
    pub(crate) fn new(
        prepared: &PreparedRequest,
        shared: &Arc<Shared>,
        headers: &HeaderMap,
    ) -> Self {
        let kind = AnswerKind::of(headers);
        let copy = if kind.is_packed() {
            AnswerCopy::Packed(Vec::new(), 0)
        } else {
            let reader = AnswerReader::new(prepared.source.dialect(), kind.in_events);
            AnswerCopy::Plain(Box::new(reader))
        };
        let (share, shared) = (shared.load.share(), Arc::clone(shared));
        Self { copy, share, kind, prepared: prepared.clone(), shared }
    }

    /// Says why an answer cannot be read, where that is known before it is sent on.
    ///
    /// If `held` is all of it, it is read here, and not again as it is sent on.
    pub(crate) fn foresee(&mut self, held: &[Chunk], length: Option<u64>) -> Option<Unread> {
        if !self.kind.can_be_unpacked() {
            return Some(Unread::Packing);
        }
        let bytes: Option<u64> =
            held.iter().map(|chunk| Some(chunk.as_ref().ok()?.len() as u64)).sum();
        if bytes.is_none() || bytes != length {
            return None;
        }
        for chunk in held.iter().flatten() {
            self.read(chunk);
        }
        let read = self.finish();
        let unread = read.unread;
        self.copy = AnswerCopy::Read(Box::new(read));
        unread
    }

    /// Reads the next piece of an answer.
    pub(crate) fn read(&mut self, chunk: &[u8]) {
        match &mut self.copy {
            AnswerCopy::Plain(reader) => {
                reader.push(chunk);
                let more = (reader.held() as u64).saturating_sub(self.share.bytes());
                if more > 0 && !self.share.grow(more) {
                    reader.stop();
                }
            }
            AnswerCopy::Packed(bytes, count) => {
                let has_room = *count == bytes.len() as u64
                    && bytes.len() + chunk.len() <= PACKED_BYTES_MAX
                    && self.share.grow(chunk.len() as u64);
                *count += chunk.len() as u64;
                if has_room {
                    bytes.extend_from_slice(chunk);
                }
            }
            AnswerCopy::Read(_) => {}
        }
    }

    /// Whether the last event was read; `None` for an answer that is no stream, or packed, or was read before.
    pub(crate) fn is_at_end(&self) -> Option<bool> {
        match &self.copy {
            AnswerCopy::Plain(reader) => reader.is_done(),
            AnswerCopy::Packed(..) | AnswerCopy::Read(_) => None,
        }
    }

    /// The answer as far as it came. Nothing more is read after that.
    fn finish(&mut self) -> ReadAnswer {
        let dialect = self.prepared.source.dialect();
        match std::mem::replace(&mut self.copy, AnswerCopy::Packed(Vec::new(), 0)) {
            AnswerCopy::Plain(reader) => reader.finish(),
            AnswerCopy::Packed(bytes, count) => {
                let is_all = count == bytes.len() as u64;
                let read = self.kind.read(dialect, &bytes);
                let unread = if is_all { read.unread } else { Some(Unread::Size) };
                ReadAnswer { bytes: count, unread, ..read }
            }
            AnswerCopy::Read(read) => *read,
        }
    }

    /// Has the answer archived as far as it came: the client may go on from it. Returns what a user should know as
    /// well.
    pub(crate) fn end(mut self, is_cut: bool) -> (StoredAnswer, Option<String>) {
        let has_all = matches!(self.copy, AnswerCopy::Read(_));
        let read = self.finish();
        let Self { kind, prepared, shared, share: _share, .. } = self;
        shared.metrics.foreign_events.inc_by(read.foreign_events);
        let ReadAnswer { reply, unread, rest, bytes, .. } = read;
        let is_packed = kind.is_packed() && matches!(unread, Some(Unread::Packing | Unread::Size));
        let why = unread.map(|why| match why {
            Unread::Format | Unread::Packing if is_cut && !has_all => Unread::Cut,
            why => why,
        });
        let part = why.map(|why| UnreadPart { why, rest, bytes, kind, is_packed });
        if reply.is_none() && part.is_none() {
            return (StoredAnswer::Nothing, None);
        }
        let is_read = reply.is_some();
        let (ticket, notice) = shared.recorder.record(&prepared, reply, part);
        if let Some(notice) = &notice {
            let session = prepared.source.session_name().unwrap_or_default();
            shared.warnings.once(&format!("session {session}: {notice}"));
        }
        let stored = match ticket {
            Some(ticket) => StoredAnswer::Written(ticket),
            None if is_read => StoredAnswer::Refused,
            None => StoredAnswer::Nothing,
        };
        (stored, notice)
    }
}
