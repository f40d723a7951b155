//! Answers that could not be read, kept as they came beside the sessions that they belong to.
//!
//! An archive has each as a note of its session, with the time of the request and a handle, which opens it. The note is
//! JSON: `why`, `type` and `coding` as the answer's head has them, `bytes` (how many the answer had), and what is kept of
//! it as `text` or, if it is no text, as `base64`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use longhand_archive::{Archive, ArchiveError, Note, NoteContent, NoteFilter, SessionId, wait};
use longhand_core::Handle;
use serde_json::{Value, json};

use crate::Redactor;

/// How the keys began under which exports up to version 3 have such answers: then comes the time of the request, `/` and
/// the handle.
const DERIVED_PREFIX: &str = "unread-answer/";

/// An answer, or what is left of one, that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadAnswer {
    /// When its request was sent, in milliseconds since 1970.
    pub at_ms: i64,
    /// Why it could not be read.
    pub why: String,
    /// The `Content-Type` of the answer.
    pub kind: String,
    /// The `Content-Encoding` of the answer; empty if it has none.
    pub coding: String,
    /// How many bytes the answer had.
    pub bytes: u64,
    /// What is kept of it.
    pub content: UnreadContent,
}

/// What is kept of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnreadContent {
    /// A text as it came.
    Text(String),
    /// Other bytes, as base64.
    Base64(String),
    /// Nothing: secrets have to be removed, and they cannot be found in bytes that are not text.
    Withheld,
}

impl UnreadContent {
    /// The part of these bytes that is kept; with a redactor, only text in which it can look for secrets.
    pub fn of(bytes: &[u8], redactor: Option<&Redactor>, is_packed: bool) -> Self {
        let text = std::str::from_utf8(bytes);
        let Some(redactor) = redactor else {
            return match text {
                Ok(text) => Self::Text(text.to_owned()),
                // It may end in the middle of a character.
                Err(error) if error.error_len().is_none() && error.valid_up_to() > 0 => {
                    Self::Text(String::from_utf8_lossy(&bytes[..error.valid_up_to()]).into_owned())
                }
                Err(_) => Self::Base64(STANDARD.encode(bytes)),
            };
        };
        if is_packed || (text.is_err() && bytes.contains(&0)) {
            return Self::Withheld;
        }
        Self::Text(redactor.redact(&String::from_utf8_lossy(bytes)).into_owned())
    }

    fn as_str(&self) -> &str {
        match self {
            Self::Text(text) | Self::Base64(text) => text,
            Self::Withheld => "",
        }
    }
}

impl UnreadAnswer {
    /// The handle that opens it.
    pub fn handle(&self) -> Handle {
        Handle::of([self.content.as_str(), &self.at_ms.to_string()])
    }

    /// The note that an archive keeps of it.
    pub fn note(&self) -> Note {
        let mut value =
            json!({"why": self.why, "type": self.kind, "coding": self.coding, "bytes": self.bytes});
        match &self.content {
            UnreadContent::Text(text) => value["text"] = json!(text),
            UnreadContent::Base64(base64) => value["base64"] = json!(base64),
            UnreadContent::Withheld => {}
        }
        let content = NoteContent::Unread(value.to_string());
        Note { at_ms: self.at_ms, handle: self.handle(), content }
    }

    /// Reads a note; `None` if it is another one.
    pub fn read(note: &Note) -> Option<Self> {
        let NoteContent::Unread(value) = &note.content else { return None };
        let value: Value = serde_json::from_str(value).ok()?;
        let field = |name: &str| value[name].as_str().map(str::to_owned);
        let content = match (field("text"), field("base64")) {
            (Some(text), _) => UnreadContent::Text(text),
            (None, Some(base64)) => UnreadContent::Base64(base64),
            (None, None) => UnreadContent::Withheld,
        };
        Some(Self {
            at_ms: note.at_ms,
            why: field("why")?,
            kind: field("type").unwrap_or_default(),
            coding: field("coding").unwrap_or_default(),
            bytes: value["bytes"].as_u64().unwrap_or(0),
            content,
        })
    }
}

/// The answers of a session that could not be read, oldest first.
///
/// ```
/// use longhand::{Archive, MemoryArchive, SessionId};
///
/// let archive = MemoryArchive::default();
/// assert!(longhand::unread::answers(&archive, SessionId::default())?.is_empty());
/// # Ok::<(), longhand::ArchiveError>(())
/// ```
pub fn answers(archive: &dyn Archive, id: SessionId) -> Result<Vec<UnreadAnswer>, ArchiveError> {
    let notes = wait(archive.notes(NoteFilter::Session(id)))?;
    let notes: Vec<Note> = notes.into_iter().map(|(_, note)| note).collect();
    Ok(among(&notes))
}

/// The answers among notes that could not be read, oldest first.
pub(crate) fn among(notes: &[Note]) -> Vec<UnreadAnswer> {
    let mut answers: Vec<UnreadAnswer> = notes.iter().filter_map(UnreadAnswer::read).collect();
    answers.sort_by_key(|answer| answer.at_ms);
    answers
}

/// The answer that a handle opens, in whichever session it is.
pub fn open(archive: &dyn Archive, handle: Handle) -> Result<Option<UnreadAnswer>, ArchiveError> {
    open_among(archive, handle, |_| true)
}

/// The answer that a handle opens, if a session has it that may be looked into.
pub fn open_among(
    archive: &dyn Archive,
    handle: Handle,
    may_open: impl Fn(SessionId) -> bool,
) -> Result<Option<UnreadAnswer>, ArchiveError> {
    let notes = wait(archive.notes(NoteFilter::Handle(handle)))?;
    let mut notes = notes.iter().filter(|(session, _)| may_open(*session));
    Ok(notes.find_map(|(_, note)| UnreadAnswer::read(note)))
}

/// The note of an answer that an earlier release kept among what is derived; `None` if this is something else.
pub fn of_derived(key: &str, value: &str) -> Option<Note> {
    let (at_ms, handle) = key.strip_prefix(DERIVED_PREFIX)?.split_once('/')?;
    let content = NoteContent::Unread(value.to_owned());
    let note = Note { at_ms: at_ms.parse().ok()?, handle: Handle::parse(handle)?, content };
    UnreadAnswer::read(&note).is_some().then_some(note)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(content: UnreadContent) -> UnreadAnswer {
        let (why, kind) = ("it is packed".to_owned(), "text/plain".to_owned());
        UnreadAnswer { at_ms: 17, why, kind, coding: "br".to_owned(), bytes: 9, content }
    }

    #[test]
    fn what_is_kept_is_read_again() {
        for bytes in [&b"plain \"text\"\n"[..], b"\xff\x00\x01", b"", "Gr\u{fc}\u{df}e".as_bytes()]
        {
            let answer = answer(UnreadContent::of(bytes, None, false));
            let note = answer.note();
            assert_eq!((note.at_ms, note.handle), (17, answer.handle()));
            let NoteContent::Unread(value) = &note.content else { panic!("{note:?}") };
            let key = format!("unread-answer/17/{}", answer.handle());
            assert_eq!(of_derived(&key, value), Some(note.clone()), "{value}");
            assert_eq!(UnreadAnswer::read(&note), Some(answer), "{value}");
        }
        let base64 = UnreadContent::of(b"\xff\x00\x01", None, true);
        assert_eq!(base64, UnreadContent::Base64("/wAB".to_owned()));
        // A text that was cut in the middle of a character is a text.
        let cut = UnreadContent::of(&"Gr\u{fc}".as_bytes()[..3], None, false);
        assert_eq!(cut, UnreadContent::Text("Gr".to_owned()));
        assert_eq!(of_derived("story", "{}"), None);
        assert_eq!(of_derived("unread-answer/x/h", "{}"), None);
    }

    #[test]
    fn nothing_is_kept_in_which_no_secret_can_be_found() {
        let redactor = Redactor::new([7; 32]);
        let key = format!("sk-ant-api03-{}", "a1B2c3D4".repeat(10));
        let kept =
            UnreadContent::of(format!("key {key} \u{e9}").as_bytes(), Some(&redactor), false);
        let UnreadContent::Text(text) = &kept else { panic!("{kept:?}") };
        assert!(text.starts_with("key ") && !text.contains(&key), "{text}");
        let lossy = [key.as_bytes(), b" \xff"].concat();
        let kept = UnreadContent::of(&lossy, Some(&redactor), false);
        assert!(!kept.as_str().contains(&key) && kept.as_str().ends_with('\u{fffd}'), "{kept:?}");
        for (bytes, is_packed) in [(key.as_bytes(), true), (&b"\xff\x00s\x00k"[..], false)] {
            assert_eq!(
                UnreadContent::of(bytes, Some(&redactor), is_packed),
                UnreadContent::Withheld
            );
        }
    }
}
