//! What a model had to fetch back because an edit had taken it out of its sight.
//!
//! All of this is read from the ledger and its batches, so that everybody who has these sees the same regrets. A call is a
//! regret only if what it brought back is what an edit hid: nothing wrote to its file in between, every line of the shorter
//! of the two texts is in the longer one, and no newer copy was in sight. In doubt, nothing is regretted.

use std::borrow::Cow;

use memchr::memmem::Finder;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::arguments::asked;
use crate::edit::{Batch, Edit, Place, Seq};
use crate::json::JsonCursor;
use crate::reference::is_refusal;
use crate::subject::{CallSubject, FileUse, whole_text};
use crate::{Handle, Part, Path, Scale, Text, Tokens, ToolCall, ToolResult, cut};

/// Something that an edit hid, and that was fetched back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Regret {
    /// Which of the live batches hid it, by its index.
    pub batch: usize,
    /// The handle of the edit.
    pub handle: Handle,
    /// How it was noticed.
    pub how: Regretted,
    /// The entry that has the hidden text; the newest of a fold, if it was fetched back as a whole.
    pub hidden: Seq,
    /// The entry that brought it back.
    pub by: Seq,
    /// What that cost.
    pub tokens: Tokens,
    /// Whether the same edit was regretted before.
    pub again: bool,
}

/// How it was noticed that an edit had taken away what the model still needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Regretted {
    /// The model read the same file, or made the same call, again.
    ReadAgain,
    /// The model asked a person again.
    AskedAgain,
    /// The model opened the handle.
    Recalled,
}

impl Regretted {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::ReadAgain, Self::AskedAgain, Self::Recalled];

    /// What reports and exports say.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadAgain => "read again",
            Self::AskedAgain => "asked again",
            Self::Recalled => "recalled",
        }
    }
}

/// How many of the newest messages are looked at; what is older was folded long ago.
const MESSAGES_MAX: usize = 2_000;

/// How much of a text is compared.
const COMPARED_BYTES_MAX: usize = 128 * 1024;

/// Short answers are alike by chance.
const ALIKE_BYTES_MIN: usize = 64;

/// How many entries a range of them may name.
const RANGE_MAX: u64 = 64;

/// What an insert begins with that nobody asked for.
pub const UNASKED: &str =
    "[longhand recall: earlier messages of this conversation that may matter now";

/// Shorter words are everywhere.
const WORD_BYTES_MIN: usize = 3;

/// How many earlier calls about the same are compared with a new one.
const EARLIER_MAX: usize = 16;

/// What was fetched back by the messages from an index on, oldest first.
///
/// Regrets of older messages are looked for only to tell which edits had been regretted before.
pub fn regrets(path: &Path, live: &[Batch], first: usize, scale: &Scale) -> Vec<Regret> {
    let Some(ledger) = Ledger::of(path, live) else { return Vec::new() };
    let messages = path.messages.len();
    let mut found = ledger.fetched(first.max(ledger.oldest)..messages, scale);
    if !found.is_empty() && first > ledger.oldest {
        let mut known = ledger.fetched(ledger.oldest..first.min(messages), scale);
        known.append(&mut found);
        found = known;
    }
    let mut edits = FxHashSet::default();
    for regret in &mut found {
        regret.again = !edits.insert((regret.batch, regret.handle));
    }
    found.retain(|regret| path.message(regret.by) >= Some(first));
    found
}

/// The messages that brought something back and should stay in sight a while longer, the newest first, of those that are in
/// sight.
///
/// What was needed again after some time may well be needed once more after that time: until then it is kept.
pub(crate) fn fetched_back(
    path: &Path,
    live: &[Batch],
    is_folded: impl Fn(usize) -> bool,
    scale: &Scale,
) -> Vec<usize> {
    let (Some(ledger), Some(newest)) = (Ledger::of(path, live), path.seqs.last()) else {
        return Vec::new();
    };
    let is_recent = |regret: &Regret| {
        let gap = regret.by.0.saturating_sub(regret.hidden.0);
        newest.0 - regret.by.0 <= gap
    };
    let shown = (ledger.oldest..path.messages.len()).filter(|at| !is_folded(*at));
    let regrets = ledger.fetched(shown, scale).into_iter().filter(is_recent);
    let mut kept: Vec<usize> = regrets.filter_map(|regret| path.message(regret.by)).collect();
    kept.dedup();
    kept.reverse();
    kept
}

/// A path with the batches that hold for it.
struct Ledger<'l> {
    path: &'l Path<'l>,
    live: &'l [Batch],
    /// The first message that is looked at.
    oldest: usize,
}

/// A call, and where it is.
#[derive(Clone, Copy)]
struct PlacedCall<'l> {
    message: usize,
    part: usize,
    call: &'l ToolCall,
}

/// A result, and where it is.
#[derive(Clone, Copy)]
struct PlacedResult<'l> {
    message: usize,
    part: usize,
    result: &'l ToolResult,
}

/// The calls of a path, oldest first. Only those that may be about the same are looked into.
struct Calls<'l> {
    in_order: Vec<PlacedCall<'l>>,
    by_id: FxHashMap<Cow<'l, str>, PlacedCall<'l>>,
    results: FxHashMap<Cow<'l, str>, PlacedResult<'l>>,
}

/// An edit that hides something: the index of its batch, and its handle.
type HidingEdit = (usize, Handle);

impl<'l> Ledger<'l> {
    /// `None` if nothing is hidden.
    fn of(path: &'l Path<'l>, live: &'l [Batch]) -> Option<Self> {
        let hides = |batch: &Batch| batch.edits.iter().any(|edit| edit.handle().is_some());
        let oldest = path.messages.len().saturating_sub(MESSAGES_MAX).max(path.lead);
        live.iter().any(hides).then_some(Self { path, live, oldest })
    }

    fn fetched(&self, messages: impl IntoIterator<Item = usize>, scale: &Scale) -> Vec<Regret> {
        let mut found = Vec::new();
        let is_result = |part: &Part| matches!(part, Part::Result(_));
        let mut calls = None;
        for at in messages {
            let message = &self.path.messages[at];
            found.extend(self.inserted(at, scale));
            if !message.parts.iter().any(is_result) {
                continue;
            }
            let calls = calls.get_or_insert_with(|| Calls::of(self));
            for (part, content) in message.parts.iter().enumerate() {
                let Part::Result(result) = content else { continue };
                if result.error {
                    continue;
                }
                let tokens = || scale.tokens(scale.part(content, u64::MAX));
                let placed = PlacedResult { message: at, part, result };
                found.extend(self.by_result(calls, placed, tokens));
            }
        }
        found
    }

    /// What a result brought back.
    fn by_result(
        &self,
        calls: &Calls<'l>,
        new: PlacedResult<'l>,
        tokens: impl Fn() -> Tokens,
    ) -> Vec<Regret> {
        let Some(by) = self.path.seq(new.message) else { return Vec::new() };
        let Some(call) = calls.by_id.get(&*new.result.call.decode()) else { return Vec::new() };
        let Some(asked) = self.path.seq(call.message).filter(|asked| *asked <= by) else {
            return Vec::new();
        };
        // Batches that were made later did not hide anything from the model that made this call.
        let standing = self.live.iter().take_while(|batch| batch.head < asked).count();
        let of = |((batch, handle), hidden): (HidingEdit, Seq), how| Regret {
            batch,
            handle,
            how,
            hidden,
            by,
            tokens: tokens(),
            again: false,
        };
        let mut found = Vec::new();
        if standing == 0 {
            return found;
        }
        for (edit, hidden) in self.named(standing, call.call, new.result) {
            let regret = of((edit, hidden), Regretted::Recalled);
            if found.iter().all(|known: &Regret| known.handle != regret.handle) {
                found.push(regret);
            }
        }
        if found.is_empty() {
            let again = self.made_again(calls, standing, *call, new);
            found.extend(again.map(|(edit, hidden, how)| of((edit, hidden), how)));
        }
        found
    }

    /// The hidden text that an earlier call about the same had brought.
    fn made_again(
        &self,
        calls: &Calls<'l>,
        standing: usize,
        call: PlacedCall<'l>,
        new: PlacedResult<'l>,
    ) -> Option<(HidingEdit, Seq, Regretted)> {
        let subject = CallSubject::of(call.call);
        if subject.writes() {
            return None;
        }
        let how = if subject.asks { Regretted::AskedAgain } else { Regretted::ReadAgain };
        let said = lines_of(new.result);
        for (earlier, file_use) in calls.about(&subject, call).take(EARLIER_MAX) {
            let (place, has_same) = match file_use {
                Some(FileUse::Changes) => return None,
                Some(FileUse::WritesAll) => {
                    let text = whole_text(earlier.call)?;
                    ((earlier.message, earlier.part), is_alike(&said, &Lines::of(&text)))
                }
                Some(FileUse::Reads) | None => {
                    let id = earlier.call.id.decode();
                    let Some(result) = calls.results.get(&*id) else { continue };
                    if result.message >= call.message || result.result.error {
                        continue;
                    }
                    let has_same = subject.asks
                        || is_refusal(new.result)
                        || is_alike(&said, &lines_of(result.result));
                    ((result.message, result.part), has_same)
                }
            };
            if has_same {
                // If the newest copy is in sight, the call was no need.
                let place = self.path.place(place.0, place.1)?;
                return Some((self.hiding(standing, place)?, place.entry, how));
            }
            if file_use == Some(FileUse::WritesAll) {
                return None;
            }
        }
        None
    }

    /// The edits whose handles a call names, and those that hide an entry that it names and its result quotes.
    fn named(
        &self,
        standing: usize,
        call: &ToolCall,
        result: &ToolResult,
    ) -> Vec<(HidingEdit, Seq)> {
        if call.arguments.raw_len() > COMPARED_BYTES_MAX || !call.arguments.raw().contains(':') {
            return Vec::new();
        }
        let arguments = call.arguments.decode();
        let mut found: Vec<(HidingEdit, Seq)> =
            handles(&arguments).filter_map(|handle| self.of_handle(standing, handle)).collect();
        let mut said = None;
        for entry in entries(&arguments) {
            let Some(at) = self.path.message(entry) else { continue };
            let hidden = self.hiding_of(standing, at);
            let said = said.get_or_insert_with(|| lines_of(result));
            if let Some(hidden) = hidden.filter(|(_, text)| is_alike(said, text)) {
                found.push((hidden.0, entry));
            }
        }
        found
    }

    /// What the recall tool brought back after a message, by the names at the head of each quote.
    fn inserted(&self, at: usize, scale: &Scale) -> Vec<Regret> {
        let mut found = Vec::new();
        let Some(by) = self.path.seq(at) else { return found };
        for (index, batch) in self.live.iter().enumerate().filter(|(_, batch)| batch.head >= by) {
            for edit in &batch.edits {
                let Edit::Insert { after, text } = edit else { continue };
                // What came back unasked was missed by nobody.
                if *after != by || text.starts_with(UNASKED) {
                    continue;
                }
                // Whatever has a quote mark was said by somebody.
                let heads = text.lines().filter(|line| !line.contains('>'));
                for line in heads {
                    let named = handles(line).filter_map(|handle| self.of_handle(index, handle));
                    let hidden = entries(line).filter_map(|entry| {
                        let hidden = self.hiding_of(index, self.path.message(entry)?)?;
                        Some((hidden.0, entry))
                    });
                    for ((batch, handle), hidden) in named.chain(hidden) {
                        let how = Regretted::Recalled;
                        let tokens = scale.text(text);
                        found.push(Regret { batch, handle, how, hidden, by, tokens, again: false });
                    }
                }
            }
        }
        found
    }

    /// The edit that a handle names among the first batches.
    fn of_handle(&self, standing: usize, handle: Handle) -> Option<(HidingEdit, Seq)> {
        let batches = self.live[..standing].iter().enumerate();
        let mut edits =
            batches.flat_map(|(at, batch)| batch.edits.iter().map(move |edit| (at, edit)));
        edits.find_map(|(at, edit)| {
            let hidden = match edit {
                Edit::Stub { at, .. } | Edit::Clip { at, .. } => at.entry,
                Edit::Fold(fold) => fold.spans.last()?.last,
                Edit::Insert { .. } => return None,
            };
            (edit.handle() == Some(handle)).then_some(((at, handle), hidden))
        })
    }

    /// The edit among the first batches that took a part out of sight first.
    fn hiding(&self, standing: usize, place: Place) -> Option<HidingEdit> {
        self.live[..standing].iter().enumerate().find_map(|(at, batch)| {
            let hides = |edit: &&Edit| match edit {
                Edit::Stub { at, .. } | Edit::Clip { at, .. } => *at == place,
                Edit::Fold(fold) => fold.contains(place.entry),
                Edit::Insert { .. } => false,
            };
            let edit = batch.edits.iter().find(hides)?;
            Some((at, edit.handle()?))
        })
    }

    /// The edit that hides a part of a message, with the lines of that part.
    fn hiding_of(&self, standing: usize, message: usize) -> Option<(HidingEdit, Lines)> {
        let parts = &self.path.messages[message].parts;
        parts.iter().enumerate().find_map(|(part, content)| {
            let edit = self.hiding(standing, self.path.place(message, part)?)?;
            Some((edit, lines_of_part(content)?))
        })
    }
}

impl<'l> Calls<'l> {
    fn of(ledger: &Ledger<'l>) -> Self {
        let mut calls = Self {
            in_order: Vec::new(),
            by_id: FxHashMap::default(),
            results: FxHashMap::default(),
        };
        let messages = ledger.path.messages.iter().enumerate();
        for (message, content) in messages.skip(ledger.oldest) {
            for (part, content) in content.parts.iter().enumerate() {
                match content {
                    Part::Call(call) => {
                        let placed = PlacedCall { message, part, call };
                        calls.by_id.insert(call.id.decode(), placed);
                        calls.in_order.push(placed);
                    }
                    Part::Result(result) => {
                        let placed = PlacedResult { message, part, result };
                        calls.results.insert(result.call.decode(), placed);
                    }
                    _ => {}
                }
            }
        }
        calls
    }

    /// The calls about the same before a call, the newest first, and what they do with its file, if it has one.
    fn about(
        &self,
        subject: &CallSubject,
        call: PlacedCall<'l>,
    ) -> Box<dyn Iterator<Item = (PlacedCall<'l>, Option<FileUse>)> + '_> {
        let before = self.in_order.partition_point(|earlier| earlier.message < call.message);
        let mention = mention(&call.call.arguments.decode());
        let may_be = move |other: &&PlacedCall<'l>| {
            mention
                .as_ref()
                .is_none_or(|finder| finder.find(other.call.arguments.raw().as_bytes()).is_some())
        };
        let earlier = self.in_order[..before].iter().rev();
        if let Some(file) = subject.file {
            return Box::new(earlier.filter(may_be).filter_map(move |earlier| {
                let other = CallSubject::of(earlier.call);
                if other.file == Some(file) {
                    return Some((*earlier, Some(other.file_use)));
                }
                other.patched.contains(&file).then_some((*earlier, Some(FileUse::Changes)))
            }));
        }
        let (name, asked_now, asks) = (call.call.name.raw(), asked(call.call), subject.asks);
        let same = earlier.filter(move |earlier| earlier.call.name.raw() == name).filter(may_be);
        let same = same.filter(move |earlier| asked(earlier.call) == asked_now);
        // What a command prints may be another thing after any file was written.
        let is_written = move |since: usize| {
            let between = self.in_order[..before].iter().rev();
            let mut between = between.take_while(|between| between.message > since);
            between.any(|between| CallSubject::of(between.call).writes())
        };
        let same = same.take_while(move |earlier| asks || !is_written(earlier.message));
        Box::new(same.map(|earlier| (*earlier, None)))
    }
}

/// Looks for what calls about the same as one must have in their arguments: its longest word, if that is long enough.
fn mention(arguments: &str) -> Option<Finder<'static>> {
    let node = JsonCursor::new(arguments).node().ok()?;
    let values = node.strings(arguments);
    let values = values.iter().filter_map(|value| value.str(arguments));
    let words = values.filter_map(|value| {
        let words = value.split(|c: char| !c.is_ascii_alphanumeric());
        words.max_by_key(|word| word.len()).map(str::to_owned)
    });
    let word = words.max_by_key(String::len).filter(|word| word.len() >= WORD_BYTES_MIN)?;
    Some(Finder::new(word.as_bytes()).into_owned())
}

/// The lines of a text that say something, by their hashes.
#[derive(Default)]
struct Lines {
    hashes: FxHashSet<u64>,
    bytes: usize,
}

impl Lines {
    fn of(text: &str) -> Self {
        let mut lines = Self::default();
        lines.read(text);
        lines
    }

    fn read(&mut self, text: &str) {
        for line in cut::head(text, COMPARED_BYTES_MAX).lines() {
            let line = unnumbered(line);
            if !line.is_empty() && self.hashes.insert(hash(line)) {
                self.bytes += line.len();
            }
        }
    }
}

/// Whether two texts are the same, or one is a part of the other.
fn is_alike(one: &Lines, other: &Lines) -> bool {
    let (less, more) = if one.bytes <= other.bytes { (one, other) } else { (other, one) };
    less.bytes >= ALIKE_BYTES_MIN && less.hashes.is_subset(&more.hashes)
}

/// A line without what tools put before it: its number, the mark of a quote.
fn unnumbered(line: &str) -> &str {
    let line = line.strip_prefix("> ").unwrap_or(line).trim();
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let text = rest.strip_prefix(['\t', '→', '|', ':']).filter(|_| rest.len() < line.len());
    text.unwrap_or(line).trim()
}

fn hash(line: &str) -> u64 {
    crate::content_hash(line) as u64
}

fn lines_of(result: &ToolResult) -> Lines {
    let mut lines = Lines::default();
    for text in result.content.iter().filter_map(Part::text) {
        lines.read(&start(text));
    }
    lines
}

fn lines_of_part(part: &Part) -> Option<Lines> {
    Some(match part {
        Part::Result(result) => lines_of(result),
        Part::Call(call) => Lines::of(&start(&call.arguments)),
        part => Lines::of(&start(part.text()?)),
    })
}

/// The decoded beginning of a text.
fn start(text: &Text) -> String {
    crate::unescape(cut::head(text.raw(), COMPARED_BYTES_MAX))
}

/// The handles in a text, such as `h:3kq9w2m1x7ab`.
fn handles(text: &str) -> impl Iterator<Item = Handle> {
    const BYTES: usize = "h:3kq9w2m1x7ab".len();
    text.match_indices("h:").filter_map(|(at, _)| Handle::parse(text.get(at..at + BYTES)?))
}

/// The entries that a text names, such as `e:12`, `7f3a9c02b1d4:12` or `7f3a9c02b1d4:12-15`.
fn entries(text: &str) -> impl Iterator<Item = Seq> {
    let words = text.split(|c: char| c.is_whitespace() || "\"'`,;()[]{}<>".contains(c));
    let named = words.filter_map(|word| {
        let (of, numbers) = word.split_once(':')?;
        let is_id =
            of.len() >= 8 && of.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
        let numbers = numbers.trim_end_matches(['.', ':']);
        let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
        let (first, last) = (first.parse::<u64>().ok()?, last.parse::<u64>().ok()?);
        (of == "e" || is_id).then(|| first..=last.min(first.saturating_add(RANGE_MAX)))
    });
    named.flatten().map(Seq)
}
