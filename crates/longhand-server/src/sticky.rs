//! Edits that are made once and kept.

use longhand_core::{Batch, Edit, Fold, Handle, Part, Path, Place, Seq, Span, Tokens};
use serde_json::{Value, json};

use crate::lineage::Thread;

/// All edits of a window, by links of the chain instead of messages of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sticky {
    /// Parts are counted without thinking, which comes and goes.
    batch: Batch,
    /// What the window counted for when it was made, without what is outside of messages.
    tokens: Tokens,
    /// The model whose meter counted.
    model: String,
}

impl Sticky {
    /// Keeps the edits of a plan, after which the messages count for so many tokens of a model; `None` if
    /// the path does not have what they edit.
    pub(crate) fn new(batch: &Batch, path: &Path, tokens: Tokens, model: &str) -> Option<Self> {
        // The proxy plans from whole conversations: no later batch asks what this one's digest left.
        let mut batch = Batch { state: String::new(), ..batch.clone() };
        move_parts(&mut batch, path, |parts, part| {
            let before = parts.get(..part)?;
            Some(before.iter().filter(|part| !is_thinking(part)).count())
        })?;
        for edit in &mut batch.edits {
            if let Edit::Fold(fold) = edit {
                for span in &mut fold.spans {
                    // Thinking alone is no link and goes with what it led to.
                    span.first = Thread::after_link_before(span.first);
                }
            }
        }
        Some(Self { batch, tokens, model: model.to_owned() })
    }

    /// How many links the chain had when the edits were made: to a shorter one they were never made.
    pub(crate) fn made(&self) -> usize {
        Thread::links_until(self.batch.head)
    }

    /// What the window counted for when it was made, if the model is the same.
    pub(crate) fn tokens(&self, model: &str) -> Option<Tokens> {
        (self.model == model).then_some(self.tokens)
    }

    /// The edits as JSON, from which [`Self::parse`] reads them.
    pub(crate) fn json(&self) -> Value {
        let edits: Vec<Value> = self.batch.edits.iter().map(edit_json).collect();
        json!({
            "edits": edits, "head": self.batch.head.0, "tokens": self.tokens.0, "model": self.model,
        })
    }

    /// Reads edits that were kept.
    pub(crate) fn parse(json: &Value) -> Option<Self> {
        let edits: Option<Vec<Edit>> = json["edits"].as_array()?.iter().map(parse_edit).collect();
        let head = Seq(json["head"].as_u64()?);
        Some(Self {
            batch: Batch { head, edits: edits?, state: String::new() },
            tokens: Tokens(json["tokens"].as_u64()?),
            model: json["model"].as_str()?.to_owned(),
        })
    }

    /// The same edits for another request of the chain; `None` if that has not all that they touch.
    pub(crate) fn batch(&self, path: &Path) -> Option<Batch> {
        let mut batch = self.batch.clone();
        move_parts(&mut batch, path, |parts, part| {
            let mut others = (0..parts.len()).filter(|at| !is_thinking(&parts[*at]));
            others.nth(part)
        })?;
        Some(batch)
    }
}

fn is_thinking(part: &Part) -> bool {
    matches!(part, Part::Thinking(_))
}

/// Gives every edited part another index in its message; `None` if there is no such message or part.
fn move_parts(
    batch: &mut Batch,
    path: &Path,
    index: impl Fn(&[Part], usize) -> Option<usize>,
) -> Option<()> {
    let part = |place: &Place| {
        let message = &path.messages[path.message(place.entry)?];
        index(&message.parts, place.part)
    };
    for edit in &mut batch.edits {
        match edit {
            Edit::Stub { at, .. } | Edit::Clip { at, .. } => at.part = part(at)?,
            Edit::Fold(fold) => {
                for place in &mut fold.blocks {
                    place.part = part(place)?;
                }
            }
            Edit::Insert { .. } => {}
        }
    }
    Some(())
}

fn edit_json(edit: &Edit) -> Value {
    let pair = |place: &Place| json!([place.entry.0, place.part]);
    match edit {
        Edit::Stub { at, handle, text } => {
            json!({"stub": pair(at), "handle": handle.to_string(), "text": text})
        }
        Edit::Clip { at, handle, text } => {
            json!({"clip": pair(at), "handle": handle.to_string(), "text": text})
        }
        Edit::Fold(fold) => {
            let spans: Vec<_> = fold.spans.iter().map(|span| [span.first.0, span.last.0]).collect();
            let blocks: Vec<_> = fold.blocks.iter().map(pair).collect();
            let sum = format!("{:032x}", fold.sum);
            json!({"fold": spans, "blocks": blocks, "sum": sum, "text": fold.text})
        }
        Edit::Insert { after, text } => json!({"insert": after.0, "text": text}),
    }
}

fn parse_edit(json: &Value) -> Option<Edit> {
    let pair = |value: &Value| Some((value.get(0)?.as_u64()?, value.get(1)?.as_u64()?));
    let place = |value: &Value| {
        let (entry, part) = pair(value)?;
        Some(Place { entry: Seq(entry), part: usize::try_from(part).ok()? })
    };
    let handle = || Handle::parse(json["handle"].as_str()?);
    let text = json["text"].as_str()?.to_owned();
    if let Some(at) = json.get("stub") {
        return Some(Edit::Stub { at: place(at)?, handle: handle()?, text });
    }
    if let Some(at) = json.get("clip") {
        return Some(Edit::Clip { at: place(at)?, handle: handle()?, text });
    }
    if let Some(after) = json.get("insert") {
        return Some(Edit::Insert { after: Seq(after.as_u64()?), text });
    }
    let span = |value: &Value| {
        let (first, last) = pair(value)?;
        Some(Span { first: Seq(first), last: Seq(last) })
    };
    let spans: Option<Vec<Span>> = json["fold"].as_array()?.iter().map(span).collect();
    let blocks: Option<Vec<Place>> = json["blocks"].as_array()?.iter().map(place).collect();
    let sum = u128::from_str_radix(json["sum"].as_str()?, 16).ok()?;
    Some(Edit::Fold(Fold { spans: spans?, blocks: blocks?, sum, text }))
}

#[cfg(test)]
mod tests {
    use longhand_dialect::{Conversation, Dialect, read};

    use super::*;
    use crate::lineage::Root;

    /// A conversation numbered by the links of its chain.
    fn numbered(messages: &str) -> Conversation {
        let body = format!(r#"{{"messages":[{messages}]}}"#).into_bytes();
        let mut conversation = read(body, Some(Dialect::Anthropic)).unwrap();
        let thread = Thread::of(Root::new("", None, None).start, &conversation.messages);
        conversation.number(thread.seqs());
        conversation
    }

    const ASKS: &str = r#"{"role":"user","content":"a"}"#;
    const THINKS: &str =
        r#"{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"}]}"#;
    const SAYS: &str = r#"{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"text","text":"b"}]}"#;
    const SAYS_ALONE: &str = r#"{"role":"assistant","content":[{"type":"text","text":"b"}]}"#;

    #[test]
    fn numbers_grow_and_those_of_links_stay() {
        let with = numbered(&[ASKS, THINKS, THINKS, SAYS, ASKS].join(","));
        let without = numbered(&[ASKS, SAYS_ALONE, ASKS].join(","));
        let (with, without) = (with.path(), without.path());
        assert!(with.seqs.is_sorted_by(|one, next| one < next), "{:?}", with.seqs);
        assert_eq!([with.seqs[0], with.seqs[3], with.seqs[4]], without.seqs);
        let links = with.seqs.iter().map(|seq| Thread::links_until(*seq));
        assert_eq!(links.collect::<Vec<_>>(), [1, 1, 1, 2, 3]);
    }

    #[test]
    fn edits_find_their_parts_with_and_without_thinking() {
        let with = numbered(&[ASKS, THINKS, SAYS, ASKS].join(","));
        let without = numbered(&[ASKS, SAYS_ALONE, ASKS].join(","));
        let entry = with.path().seqs[2];
        let (handle, text) = (Handle::of(["b"]), "stub".to_owned());
        let stub = Edit::Stub { at: Place { entry, part: 1 }, handle, text };
        let spans = vec![Span { first: entry, last: entry }];
        let fold = Fold { spans, blocks: Vec::new(), sum: u128::MAX, text: "block".to_owned() };
        let head = with.path().seqs[3];
        let edits = vec![stub, Edit::Fold(fold)];
        let batch = Batch { head, edits, state: "1\n".to_owned() };
        let sticky = Sticky::new(&batch, &with.path(), Tokens(7), "m").unwrap();
        assert_eq!(Sticky::parse(&sticky.json()).as_ref(), Some(&sticky));
        assert_eq!(sticky.made(), 3);
        for (conversation, expected) in [(&with, 1), (&without, 0)] {
            let batch = sticky.batch(&conversation.path()).unwrap();
            assert!(
                matches!(&batch.edits[0], Edit::Stub { at, .. } if at.part == expected),
                "{batch:?}"
            );
            let folded = |seq: &&Seq| batch.fold().unwrap().contains(**seq);
            let gone = conversation.path().seqs.iter().filter(folded).count();
            assert_eq!(gone, expected + 1, "thinking goes with what it led to");
        }
        assert_eq!(sticky.batch(&numbered(ASKS).path()), None);
    }
}
