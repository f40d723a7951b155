//! The hash chain that says which conversation a message belongs to.

use blake3::Hasher;

use crate::handle::content_hash;
use crate::json::{JsonCursor, JsonError, JsonValue};
use crate::{Arguments, Message, Part, Role, Text};

/// What a message says, as a hash: role, name, words, calls by id and name, results.
///
/// Two forms of one message mean the same: clients reorder keys, add white space at the ends, move cache
/// marks, drop thinking, and add defaulted keys to the arguments of a call.
///
/// A message that only thinks is *silent*: clients send it back or do not, so it is no link of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Meaning(pub u128);

/// The meaning of a message and of all messages before it that say anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Link(pub u128);

impl Link {
    /// The link that all chains of an owner begin with. Chains of two owners have no link in common.
    pub fn root(owner: &[u8]) -> Self {
        let mut hasher = Hasher::new();
        field(&mut hasher, b'r', owner);
        Self(marked(half(&hasher), false))
    }

    /// The link of the next message. After a silent message, the chain continues from the link before it.
    #[must_use]
    pub fn next(self, meaning: Meaning) -> Self {
        let mut hasher = Hasher::new();
        hasher.update(&self.0.to_le_bytes());
        hasher.update(&meaning.0.to_le_bytes());
        Self(marked(half(&hasher), meaning.is_silent()))
    }

    /// Whether it is the link of a silent message.
    pub fn is_silent(self) -> bool {
        self.0 & SILENT != 0
    }
}

/// The bit that marks the links and meanings of silent messages.
const SILENT: u128 = 1;

fn marked(hash: u128, is_silent: bool) -> u128 {
    (hash & !SILENT) | u128::from(is_silent)
}

impl Meaning {
    /// The meaning of something that is no message, by its content.
    pub fn of_content(content: &str) -> Self {
        Self(marked(content_hash(content), false))
    }

    /// Whether the message says nothing: thinking alone, or a recording that a client may send back as no
    /// more than its id.
    pub fn is_silent(self) -> bool {
        self.0 & SILENT != 0
    }

    /// Hashes what a message says.
    pub fn of(message: &Message) -> Self {
        let mut hasher = Hasher::new();
        field(&mut hasher, b'm', message.role.as_str().as_bytes());
        if let Some(name) = &message.name {
            field(&mut hasher, b'N', name.decode().as_bytes());
        }
        field(&mut hasher, b't', words(&message.parts).trim().as_bytes());
        let mut has_media = false;
        for part in &message.parts {
            match part {
                Part::Text(_) | Part::FixedText(_) | Part::Thinking(_) => {}
                Part::Call(call) => {
                    field(&mut hasher, b'c', call.id.decode().trim().as_bytes());
                    field(&mut hasher, b'n', call.name.decode().as_bytes());
                    if call.id.is_blank() {
                        field(&mut hasher, b'a', call.arguments.decode().trim().as_bytes());
                    }
                }
                Part::Result(result) => {
                    field(&mut hasher, b'o', result.call.decode().trim().as_bytes());
                    field(&mut hasher, b't', words(&result.content).trim().as_bytes());
                    if !result.content.iter().all(|part| part.text().is_some()) {
                        json(&mut hasher, &result.raw);
                    }
                }
                Part::Other(other) => json(&mut hasher, &other.raw),
                // A client sends a recording of the model's back as no more than its id.
                Part::Media(_) if message.role == Role::Assistant => {}
                Part::Image(_) | Part::Media(_) | Part::File(_) => has_media = true,
            }
        }
        if has_media {
            json(&mut hasher, &message.raw);
        }
        Self(marked(half(&hasher), is_silent(message)))
    }

    /// The meaning of a message whose calls have other arguments than an entry with the same [`Meaning::of`].
    pub fn with_arguments(message: &Message) -> Self {
        let Self(meaning) = Self::of(message);
        let mut hasher = Hasher::new();
        hasher.update(&meaning.to_le_bytes());
        Arguments::of(message).hash(&mut hasher);
        Self(marked(half(&hasher), false))
    }
}

fn is_silent(message: &Message) -> bool {
    let is_said = |part: &Part| match part {
        Part::Text(text) | Part::FixedText(text) => !text.is_blank(),
        Part::Thinking(_) | Part::Media(_) => false,
        _ => true,
    };
    message.role == Role::Assistant && !message.parts.iter().any(is_said)
}

/// All words in one: a client may cut them into parts differently.
fn words(parts: &[Part]) -> String {
    parts.iter().filter_map(Part::text).map(Text::decode).collect()
}

/// A mark that clients move from message to message to say where a cache entry ends.
const CACHE_MARK: &str = "cache_control";

/// How deep JSON is looked into; what lies deeper counts as it was written.
pub(crate) const DEPTH_MAX: usize = 64;

/// Hashes JSON by its values, whatever its layout, and any other text byte for byte.
fn json(hasher: &mut Hasher, raw: &Text) {
    let source = raw.raw();
    match value(&mut JsonCursor::new(source), source, 0) {
        Ok(hash) => field(hasher, b'j', &hash.to_le_bytes()),
        Err(_) => field(hasher, b'x', source.trim().as_bytes()),
    }
}

/// The hash of a value: the order of its keys, the form of its numbers and cache marks do not count.
fn value(cursor: &mut JsonCursor, source: &str, depth: usize) -> Result<u128, JsonError> {
    let mut hasher = Hasher::new();
    match cursor.peek() {
        Some(b'{') if depth < DEPTH_MAX => {
            let mut fields = Vec::new();
            cursor.fields(|cursor, key| {
                let hash = value(cursor, source, depth + 1)?;
                if let Some(key) = key.str(source).filter(|key| key != CACHE_MARK) {
                    fields.push((key, hash));
                }
                Ok(())
            })?;
            fields.sort_unstable();
            hasher.update(b"{");
            for (key, hash) in fields {
                field(&mut hasher, b'k', key.as_bytes());
                hasher.update(&hash.to_le_bytes());
            }
        }
        Some(b'[') if depth < DEPTH_MAX => {
            hasher.update(b"[");
            cursor.elements(|cursor| {
                hasher.update(&value(cursor, source, depth + 1)?.to_le_bytes());
                Ok(())
            })?;
        }
        _ => {
            scalar(&mut hasher, &cursor.value()?, source);
        }
    }
    Ok(half(&hasher))
}

/// Hashes a string, number, bool or null; `1` and `1.0` have the same hash.
pub(crate) fn scalar(hasher: &mut Hasher, value: &JsonValue, source: &str) {
    let written = &source[value.span()];
    match (value.str(source), written.parse::<f64>()) {
        (Some(text), _) => field(hasher, b's', text.as_bytes()),
        (None, Ok(number)) if number.fract() == 0.0 && number.abs() < 1e15 => {
            field(hasher, b'i', &(number as i64).to_le_bytes());
        }
        _ => field(hasher, b'v', written.as_bytes()),
    }
}

/// Hashes a piece so that no two lists of pieces are the same bytes.
pub(crate) fn field(hasher: &mut Hasher, kind: u8, bytes: &[u8]) {
    hasher.update(&[kind]);
    hasher.update(&(bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
}

pub(crate) fn half(hasher: &Hasher) -> u128 {
    let mut half = [0; 16];
    hasher.finalize_xof().fill(&mut half);
    u128::from_le_bytes(half)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Image, Media, MediaKind, Other, Thinking, ToolCall};

    fn hash(json_text: &str) -> u128 {
        let mut hasher = Hasher::new();
        json(&mut hasher, &Text::from(json_text.to_owned()));
        half(&hasher)
    }

    #[test]
    fn json_counts_by_what_it_says() {
        let same = [
            r#"{"a":1,"b":["x",null]}"#,
            r#"{ "b": ["\u0078", null], "a": 1.0 }"#,
            r#"{"a":1,"b":["x",null],"cache_control":{"type":"ephemeral"}}"#,
        ];
        assert!(same.iter().all(|json| hash(json) == hash(same[0])));
        let others = [
            r#"{"a":2,"b":["x",null]}"#,
            r#"{"a":1,"b":[null,"x"]}"#,
            r#"{"a":"1","b":["x",null]}"#,
            r#"{"a":1,"b":["x"]}"#,
            r#"{"a":1,"b":["x",null]"#,
        ];
        assert!(others.iter().all(|json| hash(json) != hash(same[0])));
        assert_ne!(hash("9007199254740993"), hash("9007199254740992"));
    }

    fn message(role: Role, parts: Vec<Part>) -> Message {
        Message::new(role, None, parts, Text::from("{}".to_owned()))
    }

    fn words_of(text: &str) -> Part {
        Part::Text(Text::from(text.to_owned()))
    }

    fn thought(text: &str) -> Part {
        Part::Thinking(Thinking { text: Text::from(text.to_owned()), seal: None })
    }

    fn recording() -> Part {
        Part::Media(Media::elsewhere(MediaKind::Audio))
    }

    #[test]
    fn a_message_that_only_thinks_is_silent() {
        let is_silent = |role, parts| Meaning::of(&message(role, parts)).is_silent();
        for parts in [
            vec![],
            vec![thought("hm")],
            vec![thought("hm"), thought("well")],
            vec![thought("hm"), words_of(" \n")],
            vec![words_of("")],
            vec![recording()],
        ] {
            assert!(is_silent(Role::Assistant, parts.clone()), "{parts:?}");
            // Whatever others send is sent again, even if it is empty.
            for role in [Role::System, Role::User, Role::Tool] {
                assert!(!is_silent(role, parts.clone()), "{role:?} {parts:?}");
            }
        }
        let call = ToolCall {
            id: Text::from("1".to_owned()),
            name: Text::from("read".to_owned()),
            arguments: Text::from("{}".to_owned()),
            freeform: false,
        };
        for parts in [
            vec![words_of("yes")],
            vec![thought("hm"), words_of("yes")],
            vec![thought("hm"), Part::Call(call)],
            vec![Part::FixedText(Text::from("no".to_owned()))],
            vec![Part::Image(Image::default())],
            vec![Part::Other(Other::from(Text::from("{}".to_owned())))],
        ] {
            assert!(!is_silent(Role::Assistant, parts.clone()), "{parts:?}");
        }
        for content in ["", "a", "b", "c", "d", "e"] {
            assert!(!Meaning::of_content(content).is_silent(), "{content}");
        }
    }

    #[test]
    fn what_follows_a_silent_message_has_the_link_it_has_without_it() {
        let meaning = |role, parts| Meaning::of(&message(role, parts));
        let asked = meaning(Role::User, vec![words_of("why?")]);
        let empty = meaning(Role::User, vec![]);
        let thought_of = |text| meaning(Role::Assistant, vec![thought(text)]);
        let answered = meaning(Role::Assistant, vec![thought("hm"), words_of("because")]);
        let without_thinking = meaning(Role::Assistant, vec![words_of("because")]);
        assert_eq!(answered, without_thinking);

        let root = Link::root(b"owner");
        let first = root.next(asked);
        let silent = first.next(thought_of("hm"));
        let second = first.next(answered);
        assert!(silent.is_silent());
        for said in [first, second, second.next(empty)] {
            assert!(!said.is_silent(), "{said:?}");
        }
        assert_ne!(silent, second);
        assert_eq!(chain(root, &[asked, answered, empty]), [first, second, second.next(empty)]);
        assert_eq!(
            chain(root, &[asked, thought_of("hm"), thought_of("hm"), answered, empty]),
            [first, silent, silent, second, second.next(empty)],
        );
    }

    /// The links of messages in a row.
    fn chain(root: Link, meanings: &[Meaning]) -> Vec<Link> {
        let mut last = root;
        let links = meanings.iter().map(|meaning| {
            let link = last.next(*meaning);
            if !link.is_silent() {
                last = link;
            }
            link
        });
        links.collect()
    }

    #[test]
    fn deep_json_is_no_danger() {
        let deep = "[".repeat(200_000) + &"]".repeat(200_000);
        assert_eq!(hash(&deep), hash(&deep));
    }
}
