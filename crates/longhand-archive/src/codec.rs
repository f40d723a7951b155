//! Batches of edits and notes as bytes, and what they refer to: the one place here that knows the kinds of edits.

use longhand_core::Handle;
use longhand_core::{Batch, Edit, Fold, Original, Place, Seq, Span};

use crate::number::{push_number, take_number};
use crate::{NoteContent, RegretNote, Regretted};

const STUB: u8 = 0;
const CLIP: u8 = 1;
const FOLD: u8 = 2;
const INSERT: u8 = 3;

const TEXT: u8 = 0;
const JSON: u8 = 1;

/// Letters of a handle without `h:`.
const HANDLE_BYTES: usize = 12;

/// Encodes a batch without the state of its fold.
pub(crate) fn encode(batch: &Batch) -> Vec<u8> {
    let mut bytes = Vec::new();
    push(&mut bytes, batch.head.0);
    push(&mut bytes, batch.edits.len() as u64);
    for edit in &batch.edits {
        match edit {
            Edit::Stub { at, handle, text } => push_part(&mut bytes, STUB, *at, *handle, text),
            Edit::Clip { at, handle, text } => push_part(&mut bytes, CLIP, *at, *handle, text),
            Edit::Fold(fold) => push_fold(&mut bytes, fold),
            Edit::Insert { after, text } => {
                bytes.push(INSERT);
                push(&mut bytes, after.0);
                push_text(&mut bytes, text);
            }
        }
    }
    push(&mut bytes, batch.variants.len() as u64);
    for (handle, original) in &batch.variants {
        bytes.extend_from_slice(letters(*handle).as_bytes());
        bytes.push(if matches!(original, Original::Text(_)) { TEXT } else { JSON });
        push_text(&mut bytes, original.as_str());
    }
    bytes
}

/// Reads a batch, without the state of its fold; `None` if the bytes are not one.
pub(crate) fn decode(mut bytes: &[u8]) -> Option<Batch> {
    let head = Seq(take_number(&mut bytes)?);
    let (edits, variants) = take_edits(bytes)?;
    Some(Batch { head, edits, variants, state: String::new() })
}

/// Reads a batch as format 1 had it, with the state of its fold between the head and the edits.
pub(crate) fn decode_with_state(mut bytes: &[u8]) -> Option<Batch> {
    let head = Seq(take_number(&mut bytes)?);
    let state = take_text(&mut bytes)?;
    let (edits, variants) = take_edits(bytes)?;
    Some(Batch { head, edits, variants, state })
}

/// What a batch does, and the forms of contents that it takes out of sight.
type Edits = (Vec<Edit>, Vec<(Handle, Original)>);

/// Reads what a batch does, which takes all of the bytes.
fn take_edits(mut bytes: &[u8]) -> Option<Edits> {
    let bytes = &mut bytes;
    let mut edits = Vec::new();
    for _ in 0..take_number(bytes)? {
        edits.push(take_edit(bytes)?);
    }
    let mut variants = Vec::new();
    for _ in 0..take_number(bytes)? {
        let handle = take_handle(bytes)?;
        let [kind] = take_array(bytes)?;
        let text = take_text(bytes)?;
        let original = match kind {
            TEXT => Original::Text(text),
            JSON => Original::Json(text),
            _ => return None,
        };
        variants.push((handle, original));
    }
    bytes.is_empty().then_some((edits, variants))
}

/// The handles in a batch; one may come twice.
pub(crate) fn handles(batch: &Batch) -> impl Iterator<Item = Handle> {
    let variants = batch.variants.iter().map(|(handle, _)| *handle);
    batch.edits.iter().filter_map(handle).chain(variants)
}

fn handle(edit: &Edit) -> Option<Handle> {
    match edit {
        Edit::Stub { handle, .. } | Edit::Clip { handle, .. } => Some(*handle),
        Edit::Fold(fold) => Some(fold.handle()),
        Edit::Insert { .. } => None,
    }
}

/// What a handle stands for in a batch.
pub(crate) enum Target {
    Part(Place),
    Fold(Fold),
    Variant(Original),
}

/// Finds what a handle stands for in a batch.
pub(crate) fn target(batch: &Batch, wanted: Handle) -> Option<Target> {
    if let Some((_, original)) = batch.variants.iter().find(|(handle, _)| *handle == wanted) {
        return Some(Target::Variant(original.clone()));
    }
    let edit = batch.edits.iter().find(|edit| handle(edit) == Some(wanted))?;
    match edit {
        Edit::Stub { at, .. } | Edit::Clip { at, .. } => Some(Target::Part(*at)),
        Edit::Fold(fold) => Some(Target::Fold(fold.clone())),
        Edit::Insert { .. } => None,
    }
}

fn push_part(bytes: &mut Vec<u8>, kind: u8, at: Place, handle: Handle, text: &str) {
    bytes.push(kind);
    push_place(bytes, at);
    bytes.extend_from_slice(letters(handle).as_bytes());
    push_text(bytes, text);
}

fn push_fold(bytes: &mut Vec<u8>, fold: &Fold) {
    bytes.push(FOLD);
    push(bytes, fold.spans.len() as u64);
    for span in &fold.spans {
        push(bytes, span.first.0);
        push(bytes, span.last.0);
    }
    push(bytes, fold.blocks.len() as u64);
    for block in &fold.blocks {
        push_place(bytes, *block);
    }
    bytes.extend_from_slice(&fold.sum.to_le_bytes());
    push_text(bytes, &fold.text);
}

fn push_place(bytes: &mut Vec<u8>, place: Place) {
    push(bytes, place.entry.0);
    push(bytes, place.part as u64);
}

fn push_text(bytes: &mut Vec<u8>, text: &str) {
    push(bytes, text.len() as u64);
    bytes.extend_from_slice(text.as_bytes());
}

fn push(bytes: &mut Vec<u8>, number: u64) {
    push_number(bytes, number);
}

fn take_edit(bytes: &mut &[u8]) -> Option<Edit> {
    let [kind] = take_array(bytes)?;
    Some(match kind {
        STUB => {
            let (at, handle, text) = take_part(bytes)?;
            Edit::Stub { at, handle, text }
        }
        CLIP => {
            let (at, handle, text) = take_part(bytes)?;
            Edit::Clip { at, handle, text }
        }
        FOLD => Edit::Fold(take_fold(bytes)?),
        INSERT => Edit::Insert { after: Seq(take_number(bytes)?), text: take_text(bytes)? },
        _ => return None,
    })
}

fn take_part(bytes: &mut &[u8]) -> Option<(Place, Handle, String)> {
    let at = take_place(bytes)?;
    let handle = take_handle(bytes)?;
    Some((at, handle, take_text(bytes)?))
}

fn take_handle(bytes: &mut &[u8]) -> Option<Handle> {
    let letters: [u8; HANDLE_BYTES] = take_array(bytes)?;
    Handle::parse(str::from_utf8(&letters).ok()?)
}

fn take_fold(bytes: &mut &[u8]) -> Option<Fold> {
    let mut spans = Vec::new();
    for _ in 0..take_number(bytes)? {
        spans.push(Span { first: Seq(take_number(bytes)?), last: Seq(take_number(bytes)?) });
    }
    let mut blocks = Vec::new();
    for _ in 0..take_number(bytes)? {
        blocks.push(take_place(bytes)?);
    }
    let sum = u128::from_le_bytes(take_array(bytes)?);
    Some(Fold { spans, blocks, sum, text: take_text(bytes)? })
}

fn take_place(bytes: &mut &[u8]) -> Option<Place> {
    Some(Place { entry: Seq(take_number(bytes)?), part: take_length(bytes)? })
}

fn take_text(bytes: &mut &[u8]) -> Option<String> {
    let length = take_length(bytes)?;
    let (text, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(str::from_utf8(text).ok()?.to_owned())
}

fn take_length(bytes: &mut &[u8]) -> Option<usize> {
    usize::try_from(take_number(bytes)?).ok()
}

fn take_array<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (array, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*array)
}

const UNREAD: u8 = 0;
const REGRET: u8 = 1;

/// Encodes what a note says.
pub(crate) fn encode_note(content: &NoteContent) -> Vec<u8> {
    match content {
        NoteContent::Unread(text) => [&[UNREAD], text.as_bytes()].concat(),
        NoteContent::Regret(RegretNote { batch, how, by, tokens, again }) => {
            let how = match how {
                Regretted::ReadAgain => 0,
                Regretted::AskedAgain => 1,
                Regretted::Recalled => 2,
            };
            let mut bytes = vec![REGRET, how];
            push(&mut bytes, *batch);
            if let Some(by) = by {
                push(&mut bytes, by.0);
                push(&mut bytes, *tokens);
                bytes.push(u8::from(*again));
            }
            bytes
        }
    }
}

/// Reads what a note says; `None` if the bytes are not one.
pub(crate) fn decode_note(bytes: &[u8]) -> Option<NoteContent> {
    match bytes {
        [UNREAD, text @ ..] => Some(NoteContent::Unread(str::from_utf8(text).ok()?.to_owned())),
        [REGRET, how, batch @ ..] => {
            let how = match how {
                0 => Regretted::ReadAgain,
                1 => Regretted::AskedAgain,
                2 => Regretted::Recalled,
                _ => return None,
            };
            let mut rest = batch;
            let batch = take_number(&mut rest)?;
            let mut regret = RegretNote { batch, how, by: None, tokens: 0, again: false };
            if !rest.is_empty() {
                regret.by = Some(Seq(take_number(&mut rest)?));
                regret.tokens = take_number(&mut rest)?;
                regret.again = match rest {
                    [0] => false,
                    [1] => true,
                    _ => return None,
                };
            }
            Some(NoteContent::Regret(regret))
        }
        _ => None,
    }
}

/// A handle as it is stored, without `h:`.
pub(crate) fn letters(handle: Handle) -> String {
    handle.to_string().split_off(2)
}

/// A batch with a fold, its state, a stub and a variant, for tests.
#[cfg(test)]
pub(crate) fn sample(last: u64, sum: u64, state: &str) -> Batch {
    let spans = vec![Span { first: Seq(0), last: Seq(last) }];
    let fold = Fold { spans, blocks: vec![], sum: u128::from(sum), text: state.repeat(3) };
    let (at, handle) = (Place { entry: Seq(last + 1), part: 0 }, Handle::of([state, "stub"]));
    let stub = Edit::Stub { at, handle, text: "[…]".to_owned() };
    let variants = vec![(Handle::of([state]), Original::Text("as it was sent".to_owned()))];
    Batch { head: Seq(40), edits: vec![Edit::Fold(fold), stub], state: state.to_owned(), variants }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn place() -> impl Strategy<Value = Place> + Clone {
        (any::<u64>(), any::<usize>()).prop_map(|(entry, part)| Place { entry: Seq(entry), part })
    }

    fn edit() -> impl Strategy<Value = Edit> {
        let span = (any::<u64>(), any::<u64>())
            .prop_map(|(first, last)| Span { first: Seq(first), last: Seq(last) });
        let fold = (
            prop::collection::vec(span, 0..4),
            prop::collection::vec(place(), 0..3),
            any::<u128>(),
            any::<String>(),
        )
            .prop_map(|(spans, blocks, sum, text)| Fold { spans, blocks, sum, text });
        let part = (place(), any::<String>(), any::<String>())
            .prop_map(|(at, content, text)| (at, Handle::of([content.as_str()]), text));
        prop_oneof![
            part.clone().prop_map(|(at, handle, text)| Edit::Stub { at, handle, text }),
            part.prop_map(|(at, handle, text)| Edit::Clip { at, handle, text }),
            fold.prop_map(Edit::Fold),
            (any::<u64>(), any::<String>())
                .prop_map(|(after, text)| Edit::Insert { after: Seq(after), text }),
        ]
    }

    proptest! {
        #[test]
        fn any_batch_comes_back(
            head in any::<u64>(),
            edits in prop::collection::vec(edit(), 0..6),
            variants in prop::collection::vec((any::<String>(), any::<bool>()), 0..3),
        ) {
            let variants = variants.into_iter().map(|(text, is_json)| {
                let handle = Handle::of([text.as_str()]);
                (handle, if is_json { Original::Json(text) } else { Original::Text(text) })
            });
            let variants = variants.collect();
            let batch = Batch { head: Seq(head), edits, state: String::new(), variants };
            let bytes = encode(&batch);
            prop_assert_eq!(decode(&bytes), Some(batch));
            for length in 0..bytes.len() {
                prop_assert_eq!(decode(&bytes[..length]), None);
            }
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = decode(&bytes);
            let _ = decode_with_state(&bytes);
        }
    }

    #[test]
    fn notes_come_back() {
        let regret = |batch, how| {
            let by = (batch > 0).then_some(Seq(batch / 2));
            let (tokens, again) = if by.is_some() { (batch, batch > 300) } else { (0, false) };
            NoteContent::Regret(RegretNote { batch, how, by, tokens, again })
        };
        for note in [
            NoteContent::Unread(String::new()),
            NoteContent::Unread("Gr\u{fc}\u{df}e".to_owned()),
            regret(0, Regretted::ReadAgain),
            regret(u64::MAX, Regretted::AskedAgain),
            regret(300, Regretted::Recalled),
        ] {
            assert_eq!(decode_note(&encode_note(&note)), Some(note));
        }
        for bytes in [
            &[][..],
            &[REGRET],
            &[REGRET, 3, 1],
            &[REGRET, 0, 1, 1],
            &[REGRET, 0, 1, 1, 1, 2],
            &[UNREAD, 0xff],
            &[2],
        ] {
            assert_eq!(decode_note(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn handles_lead_to_what_they_stand_for() {
        let at = Place { entry: Seq(3), part: 1 };
        let fold = Fold {
            spans: vec![Span { first: Seq(1), last: Seq(2) }],
            blocks: vec![],
            sum: 7,
            text: "block".to_owned(),
        };
        let stub = Handle::of(["body"]);
        let batch = Batch {
            head: Seq(4),
            edits: vec![
                Edit::Fold(fold.clone()),
                Edit::Stub { at, handle: stub, text: "stub".to_owned() },
                Edit::Insert { after: Seq(4), text: "recalled".to_owned() },
            ],
            ..Batch::default()
        };
        assert_eq!(handles(&batch).collect::<Vec<_>>(), [fold.handle(), stub]);
        assert!(matches!(target(&batch, stub), Some(Target::Part(place)) if place == at));
        assert!(
            matches!(target(&batch, fold.handle()), Some(Target::Fold(found)) if found == fold)
        );
        assert!(target(&batch, Handle::of(["other"])).is_none());
        assert_eq!(batch.edited(), [Seq(4), Seq(3), Seq(2), Seq(1)]);
        let variants = vec![(stub, Original::Text("body".to_owned()))];
        let other = Batch { variants, ..batch };
        assert_eq!(handles(&other).collect::<Vec<_>>(), [fold.handle(), stub, stub]);
        assert!(
            matches!(target(&other, stub), Some(Target::Variant(original)) if original.as_str() == "body")
        );
    }
}
