//! The block that stands for messages that are no longer shown.

use std::ops::Range;

use crate::anchor::{ranked, telling_line};
use crate::auto::joined;
use crate::draft::{At, Draft};
use crate::edit::{Batch, Fold, Seq, Span};
use crate::handle::content_hash;
use crate::json::quoted_len;
use crate::opening::Opening;
use crate::plan::{HandleOpener, History, Wire, content};
use crate::project::Change;
use crate::protect::{Protection, Rank, Unit, Users};
use crate::stub::{clean, grouped};
use crate::{Handle, Message, Meter, Part, Path, Role, Scale, Size, Text, Tokens};

/// How much of the folded text is read for its index, newest first.
const READ_BYTES_MAX: usize = 128 * 1024;

/// What a block may need around it: a message or a line of a session file, a cache mark, and turns beside
/// it that become lists.
const BLOCK_WRAP_BYTES: u64 = 512;

/// By how much the tokens of two handles differ at the most: each has 14 characters.
const HANDLE_TOKENS_SPREAD: Tokens = Tokens(8);

const FOLD: &str = "[longhand fold ";
const BEFORE: &str = "before that: ";

/// Whether a part is the block of a fold that came back as input.
pub(crate) fn is_block(part: &Part) -> bool {
    matches!(part, Part::Text(text) if text.raw().starts_with(FOLD))
}

/// Whether a message is the block of an earlier fold and nothing else.
pub fn is_fold(message: &Message) -> bool {
    message.role == Role::User && matches!(message.parts.as_slice(), [part] if is_block(part))
}

/// What a block takes beside its text.
///
/// Where roles must alternate, it joins the user turns beside it, and they one another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    costs: Tokens,
    frees: Tokens,
}

impl Frame {
    /// The frame of a block before the message `at`, where some messages are gone.
    pub(crate) fn of(
        history: &History,
        at: usize,
        is_gone: impl Fn(usize) -> bool,
        scale: &Scale,
    ) -> Self {
        let message = scale.framing().message;
        let messages = history.path.messages;
        // A turn without content takes no others in.
        let is_user =
            |at: &usize| messages[*at].role == Role::User && !messages[*at].parts.is_empty();
        let joined = if history.wire.alternates {
            let before = (0..at).rev().find(|at| !is_gone(*at)).filter(is_user);
            let after = (at..messages.len()).filter(|at| !is_gone(*at)).take_while(is_user);
            usize::from(before.is_some()) + after.count()
        } else {
            0
        };
        match joined {
            0 => Self { costs: message, frees: Tokens::ZERO },
            turns => Self { costs: Tokens::ZERO, frees: Tokens(message.0 * (turns as u64 - 1)) },
        }
    }

    /// What the block and its frame add to a window at the most.
    pub(crate) fn with(&self, text: &str, scale: &Scale) -> Size {
        let bytes = quoted_len(text) as u64 + BLOCK_WRAP_BYTES;
        Size { tokens: scale.text(text) + self.costs, bytes, images: 0 }
    }

    /// The size of a window whose turns the block joins.
    pub(crate) fn joined(&self, size: Size) -> Size {
        Size { tokens: size.tokens.saturating_sub(self.frees), ..size }
    }
}

/// What the block of the live fold takes, if there is one.
pub(crate) fn live_block(draft: &Draft) -> Option<(Frame, Size)> {
    let block = draft.now.block.as_ref()?;
    let frame = Frame::of(draft.history, block.before, |at| draft.now.is_folded(at), &draft.scale);
    let size = frame.with(&block.text, &draft.scale);
    Some((frame, size))
}

/// A fold that is being planned: the entries of the live fold, and those that are added.
pub(crate) struct NewFold<'h> {
    history: &'h History<'h>,
    spans: Vec<Span>,
    blocks: Vec<At>,
    sum: u128,
    /// How many messages are folded in all.
    count: u64,
    /// What the digest left for this one.
    state: &'h str,
    gone: Vec<&'h Message>,
    /// Blocks that no earlier fold has taken up, in messages that go and in messages that stay.
    new_blocks: Vec<&'h Part>,
    entries: Vec<Seq>,
    pub(crate) frame: Frame,
    /// Whether no other fold is to follow.
    pub(crate) hands_over: bool,
}

impl<'h> NewFold<'h> {
    /// Folds messages besides those that are folded already, and takes up the blocks of earlier folds
    /// that came back as input.
    pub(crate) fn of(draft: &Draft<'h>, folded: &[Range<usize>], blocks: &[At]) -> Self {
        let history = draft.history;
        let messages = history.path.messages;
        let live = history.live.iter().rev().find(|batch| batch.fold().is_some());
        let (mut spans, mut all_blocks, mut sum) = (Vec::new(), Vec::new(), 0u128);
        let (mut count, mut state) = (0, "");
        if let Some(batch) = live
            && let Some(fold) = batch.fold()
        {
            spans.clone_from(&fold.spans);
            all_blocks.extend(fold.blocks.iter().filter_map(|place| history.path.find(*place)));
            sum = fold.sum;
            (count, state) = split_state(&batch.state);
        }
        let is_gone =
            |at: usize| draft.now.is_folded(at) || folded.iter().any(|range| range.contains(&at));
        let gone = folded.iter().cloned().flatten().filter(|at| !draft.now.is_folded(*at));
        let gone: Vec<usize> = gone.collect();
        let mut new_blocks: Vec<&Part> = Vec::new();
        for &at in &gone {
            sum = sum.wrapping_add(draft.hash(at));
            let message = &messages[at];
            let is_new = |part: usize, body: &Part| {
                message.role == Role::User
                    && is_block(body)
                    && draft.now.change(at, part) != Some(&Change::Removed)
            };
            let parts = message.parts.iter().enumerate();
            new_blocks
                .extend(parts.filter(|(part, body)| is_new(*part, body)).map(|(_, body)| body));
        }
        // The blocks of messages that are folded whole need no edit.
        for at in blocks.iter().filter(|at| !is_gone(at.0)) {
            let block = &messages[at.0].parts[at.1];
            sum = sum.wrapping_add(content_hash(content(block).as_str()));
            all_blocks.push(*at);
            new_blocks.push(block);
        }
        let gone: Vec<&Message> = gone.into_iter().map(|at| &messages[at]).collect();
        for range in folded {
            let seqs = history.path.seq(range.start).zip(history.path.seq(range.end - 1));
            spans.extend(seqs.map(|(first, last)| Span { first, last }));
        }
        count += gone.iter().filter(|message| !is_fold(message)).count() as u64;
        count += new_blocks.iter().filter_map(|block| told_count(block)).sum::<u64>();
        let spans = joined_spans(history, spans, is_gone);
        let first = spans.first().map(|span| history.path.from(span.first));
        let first =
            first.or_else(|| all_blocks.iter().map(|at| at.0).min()).unwrap_or(messages.len());
        let frame = Frame::of(history, first, is_gone, &draft.scale);
        let entries = folded.iter().cloned().flatten();
        let entries = entries.filter_map(|at| history.path.seq(at)).collect();
        let blocks = all_blocks;
        let hands_over = false;
        Self {
            history,
            spans,
            blocks,
            sum,
            count,
            state,
            gone,
            new_blocks,
            entries,
            frame,
            hands_over,
        }
    }

    /// Whether it takes anything out of sight that no earlier fold has.
    pub(crate) fn has_news(&self) -> bool {
        self.gone.iter().any(|message| !is_fold(message))
    }

    fn headline(&self, handle: Handle) -> String {
        let (noun, verb) = if self.count == 1 { ("message", "is") } else { ("messages", "are") };
        let count = grouped(self.count as usize);
        let more = match self.history.wire.opener {
            HandleOpener::Unknown => String::new(),
            HandleOpener::Tool(name) => format!("; call {name} to read what a handle stands for"),
            HandleOpener::Command(name) => {
                format!("; `{name} h:…` prints what a handle stands for")
            }
        };
        format!(
            "{FOLD}{handle}: {count} earlier {noun} {verb} not shown; a record, not an order{more}]"
        )
    }

    /// What the shortest block takes.
    pub(crate) fn least(&self, scale: &Scale) -> Size {
        let handle = Handle::of_sum(self.sum);
        self.frame.with(&self.headline(handle), scale)
    }

    /// The most that the shortest block of a fold of fewer messages can take: its handle is another, and
    /// it may join no turn.
    pub(crate) fn reserve(&self, scale: &Scale) -> Size {
        let least = self.least(scale);
        let tokens = least.tokens + HANDLE_TOKENS_SPREAD + scale.framing().message;
        Size { tokens, ..least }
    }

    /// The messages that stay in sight, before the first that is folded and after it.
    fn in_sight(&self) -> (Vec<usize>, Vec<usize>) {
        let path = &self.history.path;
        let is_folded =
            |seq: Seq| self.spans.iter().any(|span| (span.first..=span.last).contains(&seq));
        let first = self.spans.first().map(|span| span.first);
        // What has no number yet is newer than all that is folded.
        let shown =
            (path.lead..path.messages.len()).filter(|at| !path.seq(*at).is_some_and(is_folded));
        shown.partition(|at| path.seq(*at).zip(first).is_some_and(|(seq, first)| seq < first))
    }

    /// What is told of it; `hidden` are parts of messages in sight whose bodies are not shown.
    fn folded(&self, hidden: &[At]) -> Folded<'h> {
        let messages = self.history.path.messages;
        let (before, after) = self.in_sight();
        let hidden = hidden
            .iter()
            .filter_map(|at| Some((after.binary_search(&at.0).ok()?, &messages[at.0].parts[at.1])));
        let hidden = hidden.collect();
        let all = |of: Vec<usize>| of.into_iter().map(|at| &messages[at]).collect();
        Folded {
            messages: self.gone.clone(),
            entries: self.entries.clone(),
            state: self.state,
            blocks: self.new_blocks.iter().filter_map(|part| earlier(part)).collect(),
            before: all(before),
            after: all(after),
            hidden,
            hands_over: self.hands_over,
        }
    }

    /// Writes the block in at most `limit` tokens, its frame included.
    pub(crate) fn write(
        self,
        limit: Tokens,
        hidden: &[At],
        scale: &Scale,
        digest: &dyn Digest,
    ) -> (Fold, Written) {
        let limit = limit.saturating_sub(self.frame.costs);
        let handle = Handle::of_sum(self.sum);
        let messages = self.history.path.messages;
        let blocks = self.blocks.iter().map(|at| &messages[at.0].parts[at.1]);
        let mut lines = vec![self.headline(handle)];
        for handle in self.new_blocks.iter().copied().chain(blocks).filter_map(cited) {
            let line = format!("{BEFORE}{handle}");
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        while lines.len() > 1 && scale.text(&lines.join("\n")) > limit {
            lines.pop();
        }
        let head = lines.join("\n");
        let folded = self.folded(hidden);
        let told = told(&head, &folded, limit, scale, digest);
        let size = self.frame.with(&told.text, scale);
        let least = self.frame.with(&head, scale);
        let place = |at: &At| self.history.path.place(at.0, at.1);
        let blocks = self.blocks.iter().filter_map(place).collect();
        let fold = Fold { spans: self.spans, blocks, sum: self.sum, text: told.text };
        let state = format!("{}\n{}", self.count, told.state);
        (fold, Written { state, size, wanted: least.tokens + told.wanted })
    }
}

/// Folds all that a history shows but for what every window shows, without a text: a later fold goes on from it.
///
/// What a plan folds last or never stays, and so does the first message of the user. `tell` returns what the digest of the later
/// fold needs to know. `None` if nothing can be folded.
pub fn fold_ahead(
    history: &History,
    meter: &dyn Meter,
    tell: impl FnOnce(&Folded, &Scale) -> String,
) -> Option<Batch> {
    let opening = Opening::of(history, Scale::new(meter), usize::MAX, false);
    let protection = opening.protection(0, Users::None);
    let first = history.path.messages.iter().position(Message::is_user_turn);
    let stays = |unit: &Unit| {
        unit.rank > Rank::Old || first.is_some_and(|first| unit.messages.contains(&first))
    };
    let units = protection.units.iter().filter(|unit| !stays(unit));
    let folded = joined(units.map(|unit| unit.messages.clone()));
    if folded.is_empty() {
        return None;
    }
    let fold = NewFold::of(&opening.draft, &folded, &[]);
    let state = format!("{}\n{}", fold.count, tell(&fold.folded(&[]), &opening.draft.scale));
    let place = |at: &At| history.path.place(at.0, at.1);
    let blocks = fold.blocks.iter().filter_map(place).collect();
    let head = history.path.seqs.last().copied().unwrap_or_default();
    let fold = Fold { spans: fold.spans, blocks, sum: fold.sum, text: String::new() };
    Some(Batch::folding(head, fold, state))
}

/// What came of a block.
pub(crate) struct Written {
    /// What the digest leaves for the next one.
    pub(crate) state: String,
    /// What it takes.
    pub(crate) size: Size,
    /// What it would take with all that matters.
    pub(crate) wanted: Tokens,
}

/// A block's text, its head included, within the limit, and what the digest leaves for the next.
fn told(
    head: &str,
    folded: &Folded,
    limit: Tokens,
    scale: &Scale,
    digest: &dyn Digest,
) -> Digested {
    // The break between head and text, and what joining them may cost.
    let mut left = limit.saturating_sub(scale.text(head) + Tokens(3));
    let mut told = Digested::default();
    // Two texts may have more tokens when joined than on their own.
    for _ in 0..4 {
        told = digest.digest(folded, left, scale);
        if told.text.is_empty() {
            break;
        }
        let text = format!("{head}\n{}", told.text);
        let tokens = scale.text(&text);
        if tokens <= limit {
            return Digested { text, ..told };
        }
        left = left.saturating_sub(tokens - limit);
    }
    Digested { text: head.to_owned(), ..told }
}

/// How many messages a fold covers, and what its digest left.
fn split_state(state: &str) -> (u64, &str) {
    let (count, rest) = state.split_once('\n').unwrap_or((state, ""));
    (count.parse().unwrap_or(0), rest)
}

/// How many messages the fold of a batch covers.
pub fn folded_messages(batch: &Batch) -> u64 {
    split_state(&batch.state).0
}

/// Blocks of earlier folds, by message and part, and messages.
pub type FoldedPlaces = (Vec<(usize, usize)>, Vec<usize>);

/// Finds what a fold of a path took, by its handle: blocks of earlier folds in messages that stayed, and messages.
///
/// Every fold that a policy makes without pins takes the oldest steps but for what it protects, so each
/// end is tried.
pub fn find_fold(path: &Path, wire: Wire, handle: Handle) -> Option<FoldedPlaces> {
    let history = History { path: *path, live: &[], pins: &[], fixed: Size::ZERO, wire };
    let hashes: Vec<u128> =
        path.messages.iter().map(|message| content_hash(message.raw.raw())).collect();
    let mut blocks: Vec<(At, u128)> = Vec::new();
    for (at, message) in path.messages.iter().enumerate().skip(path.lead) {
        let parts = message.parts.iter().enumerate().filter(|(_, part)| is_block(part));
        blocks.extend(parts.map(|(part, body)| ((at, part), content_hash(content(body).as_str()))));
    }
    for users in [Users::FirstAndNewest, Users::Newest, Users::None] {
        let protection = Protection::of(&history, |_| false, 0, users);
        let (mut folded, mut sum) = (Vec::new(), 0u128);
        for unit in protection.units.iter().filter(|unit| unit.rank == Rank::Old) {
            for at in unit.messages.clone() {
                folded.push(at);
                sum = sum.wrapping_add(hashes[at]);
            }
            let is_kept = |block: &&(At, u128)| !folded.contains(&block.0.0);
            let kept: Vec<&(At, u128)> = blocks.iter().filter(is_kept).collect();
            let with_blocks = kept.iter().fold(sum, |sum, block| sum.wrapping_add(block.1));
            if Handle::of_sum(sum) == handle {
                return Some((Vec::new(), folded));
            }
            if Handle::of_sum(with_blocks) == handle {
                return Some((kept.into_iter().map(|block| block.0).collect(), folded));
            }
        }
    }
    None
}

/// Joins spans between which nothing is shown.
fn joined_spans(
    history: &History,
    mut spans: Vec<Span>,
    is_gone: impl Fn(usize) -> bool,
) -> Vec<Span> {
    spans.sort_by_key(|span| span.first);
    let mut out: Vec<Span> = Vec::with_capacity(spans.len());
    for span in spans {
        if let Some(last) = out.last_mut() {
            let mut between = history.path.after(last.last)..history.path.from(span.first);
            if between.all(&is_gone) {
                last.last = last.last.max(span.last);
                continue;
            }
        }
        out.push(span);
    }
    out
}

/// Parts that are blocks of earlier folds, in messages that stay.
pub(crate) fn blocks_in(draft: &Draft, messages: &[usize]) -> Vec<At> {
    let mut blocks = Vec::new();
    for &message in messages {
        let content = &draft.history.path.messages[message];
        if content.role != Role::User || draft.history.path.seq(message).is_none() {
            continue;
        }
        for (part, body) in content.parts.iter().enumerate() {
            let is_gone = draft.now.change(message, part) == Some(&Change::Removed);
            if content.parts.len() > 1 && is_block(body) && !is_gone {
                blocks.push((message, part));
            }
        }
    }
    blocks
}

/// What a fold takes out of sight, for whoever tells of it.
pub struct Folded<'f> {
    /// The messages that no earlier fold has taken, oldest first.
    pub messages: Vec<&'f Message>,
    /// Their entries.
    pub entries: Vec<Seq>,
    /// What the digest of the fold before left for this one.
    pub state: &'f str,
    /// The texts of earlier blocks that a client sent back as input.
    pub blocks: Vec<String>,
    /// The messages before the first of them that stay in sight.
    pub before: Vec<&'f Message>,
    /// The messages after the first of them that stay in sight.
    pub after: Vec<&'f Message>,
    /// Parts of `after` whose bodies are not shown: the index of the message there, and the part.
    pub hidden: Vec<(usize, &'f Part)>,
    /// Whether the window is made once, for somebody who takes over. In a session other folds follow, and the model
    /// that goes on needs the spelling of names more.
    pub hands_over: bool,
}

/// What a digest tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Digested {
    /// Lines for the block.
    pub text: String,
    /// What the next digest needs to know of this one; nobody else reads it.
    pub state: String,
    /// The room that all that matters would take, which may be more than there was.
    pub wanted: Tokens,
}

/// Tells what messages were about that a fold takes out of sight.
pub trait Digest {
    /// Lines of quoted text in at most `limit` tokens; nothing that was said may end or begin a block in
    /// them.
    fn digest(&self, folded: &Folded, limit: Tokens, scale: &Scale) -> Digested;
}

/// What the block of an earlier fold tells of what it folded; `None` if the part is no such block.
pub fn earlier(part: &Part) -> Option<String> {
    let block = match part {
        Part::Text(text) if text.raw().starts_with(FOLD) => text.decode(),
        _ => return None,
    };
    let told = block.lines().skip(1).filter(|line| !line.starts_with(BEFORE));
    Some(told.collect::<Vec<_>>().join("\n"))
}

/// Lists the users' words, what was noted, and names: no model, and hardly any time.
#[derive(Clone, Copy, Debug, Default)]
pub struct IndexDigest;

impl Digest for IndexDigest {
    fn digest(&self, folded: &Folded, limit: Tokens, scale: &Scale) -> Digested {
        let gone = &folded.messages;
        let mut lines: Vec<String> = Vec::new();
        let mut spent = Tokens::ZERO;
        let mut add = |line: String, share: u64| {
            let tokens = scale.text(&line) + Tokens(1);
            let fits = spent + tokens <= Tokens(limit.0 * share / 100);
            if fits {
                spent += tokens;
                lines.push(line);
            }
            fits
        };
        let speaks = |message: &&&Message| message.is_user_turn() || message.role == Role::System;
        for message in gone.iter().rev().filter(speaks) {
            let mut words = message.parts.iter().filter(|part| !is_block(part));
            let Some(said) = words.find_map(text_of) else { continue };
            if !add(format!("{} said: {}", message.role.as_str(), json_quoted(&said, 300)), 45) {
                break;
            }
        }
        for line in earlier_lines(folded) {
            // A long line leaves room for a short one.
            add(line.to_owned(), 60);
        }
        let texts = recent_texts(gone);
        for told in texts.iter().rev().filter_map(|text| telling_line(text)) {
            if !add(format!("noted: {}", json_quoted(told, 200)), 70) {
                break;
            }
        }
        for group in ranked(texts.iter().map(AsRef::as_ref)).chunks(8) {
            let names: Vec<_> = group.iter().map(|name| clean(name, 120)).collect();
            if !add(format!("names: {}", names.join(", ")), 95) {
                break;
            }
        }
        let mut text = lines.join("\n");
        while !lines.is_empty() && scale.text(&text) > limit {
            lines.pop();
            text = lines.join("\n");
        }
        Digested { state: text.clone(), text, wanted: Tokens::ZERO }
    }
}

/// The lines of earlier digests of this kind, with the noted facts first.
fn earlier_lines<'f>(folded: &'f Folded) -> Vec<&'f str> {
    let blocks = folded.blocks.iter().map(String::as_str);
    let lines = std::iter::once(folded.state).chain(blocks).flat_map(str::lines);
    let lines = lines.filter(|line| !line.starts_with("names: ") && !line.trim().is_empty());
    let (noted, others): (Vec<_>, Vec<_>) = lines.partition(|line| line.starts_with("noted: "));
    noted.into_iter().chain(others).collect()
}

/// The newest texts of the folded messages, oldest first, as many as are read.
fn recent_texts(gone: &[&Message]) -> Vec<String> {
    let mut texts = Vec::new();
    let mut bytes = 0;
    for part in gone.iter().rev().flat_map(|message| message.parts.iter().rev()) {
        let mut read = |text: &Text| {
            bytes += text.raw_len();
            texts.push(text.decode().into_owned());
        };
        match part {
            Part::Text(text) | Part::FixedText(text) => read(text),
            Part::Call(call) => read(&call.arguments),
            Part::Result(result) => result.content.iter().for_each(|part| {
                if let Some(text) = part.text() {
                    read(text);
                }
            }),
            _ => {}
        }
        if bytes > READ_BYTES_MAX {
            break;
        }
    }
    texts.reverse();
    texts
}

fn text_of(part: &Part) -> Option<String> {
    part.text().filter(|text| !text.is_blank()).map(|text| text.decode().into_owned())
}

/// The handle that a fold block cites.
fn cited(part: &Part) -> Option<Handle> {
    let Part::Text(text) = part else { return None };
    let rest = text.raw().strip_prefix(FOLD)?;
    Handle::parse(rest.get(..rest.find(": ")?)?)
}

/// How many messages a fold block says that it stands for.
fn told_count(part: &Part) -> Option<u64> {
    let Part::Text(text) = part else { return None };
    let (_, rest) = text.raw().strip_prefix(FOLD)?.split_once(": ")?;
    let (count, _) = rest.split_once(" earlier ")?;
    count.replace(',', "").parse().ok()
}

fn json_quoted(text: &str, chars_max: usize) -> String {
    crate::json::quote(&clean(text, chars_max))
}
