//! What holds for any input.

use std::collections::BTreeSet;

use longhand_core::json::JsonCursor;
use longhand_core::{
    Budget, Change, Edit, Handle, Message, Part, Plan, PlanSettings, Policy, Role, Scale, Shown,
    Tokens, content_hash, is_fold, original, plan, project,
};
use longhand_dialect::{Conversation, Dialect, read};

use crate::meter::Quarter;

/// How a compressed session file begins.
pub const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// What a provider would refuse.
pub fn graves(conversation: &Conversation) -> Vec<String> {
    conversation.check().iter().filter(|finding| finding.grave).map(ToString::to_string).collect()
}

/// Counts a whole request.
pub fn count(conversation: &Conversation) -> Tokens {
    let scale = Scale::new(&Quarter);
    let messages = conversation.messages.iter();
    let own: Tokens = messages.map(|message| scale.message(message, Tokens::MAX)).sum();
    own + fixed(conversation) + scale.framing().reply
}

fn fixed(conversation: &Conversation) -> Tokens {
    let scale = Scale::new(&Quarter);
    conversation.attributes.iter().map(|text| scale.text(&text.decode())).sum()
}

/// Without edits, a conversation is the bytes that it was read from.
pub fn gives_back(conversation: &Conversation, bytes: &[u8]) {
    let written = conversation.apply(&[]);
    assert_eq!(written, conversation.bytes());
    if !bytes.starts_with(&ZSTD_MAGIC) {
        assert_eq!(written.as_bytes(), bytes);
    }
}

/// What was mended can be read again, and what was valid stays so.
pub fn repairs(before: &Conversation) {
    let Ok(mended) = before.repair() else { return };
    let after = again(before, &mended.apply(&[]));
    if graves(before).is_empty() {
        assert_eq!(graves(&after), [""; 0], "repair broke it: {}", after.bytes());
    }
}

fn again(before: &Conversation, text: &str) -> Conversation {
    read(text.as_bytes().to_vec(), Some(before.dialect))
        .unwrap_or_else(|error| panic!("cannot be read again: {error}: {text}"))
}

/// A compaction that kept the laws.
pub struct Compacted {
    /// What was planned.
    pub plan: Plan,
    /// What came of it.
    pub after: Conversation,
}

/// Plans and applies; checks that the outcome is valid, counted right, and otherwise unchanged.
pub fn compact(before: &Conversation, budget: &Budget, settings: &PlanSettings) -> Compacted {
    let plan = plan(&before.history(fixed(before)), budget, settings, &Quarter);
    let text = before.apply(std::slice::from_ref(&plan.batch));
    let after = again(before, &text);
    let told = || format!("{settings:?}, {budget:?}, {plan:?} made {text}");

    if plan.is_noop() {
        assert_eq!(text, before.bytes(), "a plan without edits edits nothing: {}", told());
    }
    if graves(before).is_empty() {
        assert_eq!(graves(&after), [""; 0], "the valid stays valid: {}", told());
    }
    for edit in &plan.batch.edits {
        original_is_under_its_handle(edit, before);
    }
    // Where two lines of a pi session share a name, its path is anyone's guess, and it is refused.
    if before.dialect == Dialect::Pi && !graves(before).is_empty() {
        return Compacted { plan, after };
    }
    let room = budget.room();
    let tokens = count(&after);
    assert!(tokens <= plan.tokens(), "it is {tokens}, not as planned: {}", told());
    let bytes = text.len() as u64;
    // A line between messages counts to the one before it, and may stay when that is folded.
    let is_counted = bytes <= plan.size.bytes || before.dialect.is_session_file();
    assert!(is_counted, "it has {bytes} bytes, not as planned: {}", told());
    assert_eq!(plan.fits(), plan.tokens() <= room, "it fits or says so: {}", told());
    assert!(plan.fits() || plan.floor > room, "a reachable room is reached: {}", told());
    untouched_is_identical(before, &plan, &after);
    let lost = lost_links(&after).difference(&lost_links(before)).next().cloned();
    assert_eq!(lost, None, "a line that is linked to is gone: {}", told());
    Compacted { plan, after }
}

fn original_is_under_its_handle(edit: &Edit, before: &Conversation) {
    let path = before.path();
    let Some(kept) = original(&path, edit) else { panic!("{edit:?} forgets") };
    match edit {
        Edit::Stub { handle, .. } | Edit::Clip { handle, .. } => {
            assert_eq!(Handle::of([kept.as_str()]), *handle, "{edit:?} hides {kept:?}");
        }
        Edit::Fold(fold) => {
            let entries = path.messages[path.lead..].iter().zip(path.seqs);
            let folded = entries.filter(|(_, seq)| fold.contains(**seq));
            let hashes = folded.map(|(message, _)| content_hash(message.raw.raw()));
            let blocks = fold.blocks.iter().filter_map(|place| path.find(*place));
            let blocks = blocks.map(|(message, part)| {
                content_hash(longhand_core::content(&path.messages[message].parts[part]).as_str())
            });
            assert_eq!(hashes.chain(blocks).fold(0, u128::wrapping_add), fold.sum, "{edit:?}");
        }
        Edit::Insert { .. } => panic!("no plan inserts"),
    }
}

/// The names that lines of a session file point at and no line has.
fn lost_links(conversation: &Conversation) -> BTreeSet<String> {
    let (id, parents): (_, &[&str]) = match conversation.dialect {
        Dialect::ClaudeCode => ("uuid", &["parentUuid", "logicalParentUuid"]),
        Dialect::Pi => ("id", &["parentId"]),
        _ => return BTreeSet::new(),
    };
    let source = conversation.bytes();
    let (mut names, mut links) = (BTreeSet::new(), BTreeSet::new());
    let mut cursor = JsonCursor::new(source);
    while cursor.peek().is_some() {
        let Ok(line) = cursor.node() else { break };
        let string = |key: &str| Some(line.get(source, key)?.str(source)?.into_owned());
        names.extend(string(id));
        links.extend(parents.iter().filter_map(|key| string(key)));
    }
    links.difference(&names).cloned().collect()
}

/// What a plan does to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Untouched,
    Clipped,
    Edited,
    Folded,
}

fn fates(plan: &Plan, before: &Conversation) -> Vec<Fate> {
    let path = before.path();
    let window = project(&path, std::slice::from_ref(&plan.batch), before.wire());
    let stubbed = plan.batch.edits.iter().filter_map(|edit| match edit {
        Edit::Stub { at, .. } => path.message(at.entry),
        _ => None,
    });
    let stubbed: BTreeSet<usize> = stubbed.collect();
    let fate = |(at, shown): (usize, &Shown)| match shown {
        Shown::Unchanged => Fate::Untouched,
        Shown::Folded => Fate::Folded,
        Shown::Changed(changes) => {
            let is_text = |(_, change): &(usize, Change)| matches!(change, Change::Text(_));
            let is_clipped = changes.iter().all(is_text) && !stubbed.contains(&at);
            if is_clipped { Fate::Clipped } else { Fate::Edited }
        }
    };
    window.messages.iter().enumerate().map(fate).collect()
}

/// A message that no edit names comes out as it went in.
fn untouched_is_identical(before: &Conversation, plan: &Plan, after: &Conversation) {
    let fates = fates(plan, before);
    // Anthropic joins turns of the user that a fold makes neighbours; a message of Claude Code begins
    // where its first line is, and that may be taken out.
    if !matches!(before.dialect, Dialect::Anthropic | Dialect::ClaudeCode) {
        let window = project(&before.path(), std::slice::from_ref(&plan.batch), before.wire());
        return lines_up(before, &fates, window.block.map(|block| block.before), after);
    }
    let untouched = before.messages.iter().zip(&fates);
    for (message, _) in untouched.filter(|(_, fate)| **fate == Fate::Untouched) {
        for raw in raws(message) {
            assert!(after.bytes().contains(raw), "{raw} is gone: {}", after.bytes());
        }
    }
}

/// Message by message: the same ones in the same order, and one block for all that are folded.
fn lines_up(before: &Conversation, fates: &[Fate], block_at: Option<usize>, after: &Conversation) {
    let mut shown = after.messages.iter();
    let mut next = || shown.next().unwrap_or_else(|| panic!("one is missing: {}", after.bytes()));
    // Lines with links change with what they link to; lines that are no messages count to the one
    // before them, and that may be folded.
    let is_session = before.dialect.is_session_file();
    for (at, (message, fate)) in before.messages.iter().zip(fates).enumerate() {
        if Some(at) == block_at {
            let block = next();
            assert!(is_fold(block), "{block:?} is no fold: {}", after.bytes());
        }
        match fate {
            Fate::Untouched if is_session => assert_eq!(raws(next()), raws(message)),
            Fate::Untouched => assert_eq!(next().raw.raw(), message.raw.raw()),
            Fate::Clipped | Fate::Edited => assert_eq!(next().role, message.role),
            Fate::Folded => {}
        }
    }
    assert!(shown.next().is_none(), "one too many: {}", after.bytes());
}

/// The bytes of a message's parts.
fn raws(message: &Message) -> Vec<&str> {
    message.parts.iter().map(raw).collect()
}

fn raw(part: &Part) -> &str {
    match part {
        Part::Text(text) | Part::FixedText(text) => text.raw(),
        Part::Other(other) => other.raw.raw(),
        Part::Call(call) => call.arguments.raw(),
        Part::Result(result) => result.raw.raw(),
        Part::Thinking(thinking) => thinking.text.raw(),
        Part::Image(_) | Part::File(_) | Part::Media(_) => "",
    }
}

/// Chat: the results of a message's calls come right after it, and every call has one.
pub fn results_follow_their_calls(conversation: &Conversation) {
    let mut open: Vec<String> = Vec::new();
    for message in &conversation.messages {
        let text = conversation.bytes();
        if message.role == Role::Tool {
            for result in message.results() {
                let found = open.iter().position(|id| *id == result.call.decode());
                open.remove(found.unwrap_or_else(|| panic!("{result:?} has no call: {text}")));
            }
        } else {
            assert!(open.is_empty(), "{open:?} have no results: {text}");
            open.extend(message.calls().map(|call| call.id.decode().into_owned()));
        }
    }
    assert!(open.is_empty(), "{open:?} have no results: {}", conversation.bytes());
}

/// What a policy promises to leave alone, it does: the prompts, the question, and the tail of `elide`.
pub fn kept_stays(before: &Conversation, plan: &Plan, settings: &PlanSettings) {
    let messages = &before.messages;
    let fates = fates(plan, before);
    // What follows a command is its output.
    let asks = |at: &usize| {
        let follows_command = *at > 0 && messages[at - 1].raw.raw().contains("```");
        messages[*at].role == Role::User && !follows_command
    };
    let newest = (0..messages.len()).rev().find(asks);
    let tail = messages.len().saturating_sub(settings.keep_tail.unwrap_or(4));
    for (at, message) in messages.iter().enumerate() {
        let fate = fates[at];
        let is_untouched = fate == Fate::Untouched;
        let is_kept = match settings.policy {
            _ if message.role == Role::System => is_untouched,
            Policy::Elide if message.role == Role::User || at >= tail => {
                is_untouched || settings.last_resort
            }
            Policy::Auto if newest == Some(at) => is_untouched,
            _ => true,
        };
        assert!(is_kept, "{} is {fate:?}: {settings:?}, {plan:?}", before.name_of(at));
    }
}
