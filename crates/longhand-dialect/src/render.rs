//! A conversation with edits, as bytes.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use longhand_core::json;
use longhand_core::{Batch, Change, Message, Part, Projection, Role, Shown, project};

use crate::conversation::{Conversation, PartSlot};
use crate::session::{Links, leaf_line, marker_line, relink};
use crate::splice::Splices;
use crate::{Dialect, read_shared};

impl Conversation {
    /// Writes the conversation as the live batches show it.
    pub fn apply(&self, live: &[Batch]) -> String {
        self.render(&project(&self.path(), live, self.wire()))
    }

    /// Writes a window; every byte that it does not change stays as it was.
    pub fn render(&self, window: &Projection) -> String {
        if window.is_unchanged() {
            return self.source.to_string();
        }
        if self.loaded.as_ref().is_some_and(|loaded| loaded.has_own_order) {
            return self.with_continuation(window);
        }
        let mut splices = Splices::default();
        let mut gone = vec![false; self.elements.len()];
        self.write_changes(window, &mut splices, &mut gone);
        if self.loaded.is_some() {
            self.void_usages(window, &mut splices);
        }
        if let Some((at, switch)) = self.bound.switch() {
            splices.insert(at, switch);
        }
        let folded = self.folded_elements(window);
        gone.iter_mut().zip(&folded).for_each(|(gone, folded)| *gone |= folded);
        let block_at = window.block.as_ref().map(|block| self.element_of(block.before));
        let links = Links::of(self, &gone, window.block.is_some().then_some(&folded));
        if let Some(span) = self.string_input(window) {
            if let Some(block) = &window.block {
                splices.replace(span, json::quote(&block.text));
            }
            return splices.apply(&self.source);
        }
        let mut added: Vec<(usize, String)> = Vec::new();
        if let (Some(block), Some(first)) = (&window.block, block_at) {
            let mark = self.mark_of_fold(&folded, first);
            let text = match self.dialect {
                Dialect::Anthropic => marked_block("text", &json::quote(&block.text), &mark),
                dialect if dialect.is_session_file() => {
                    marker_line(self, block.handle, &block.text, first, links.as_ref())
                }
                _ => self.user_message(&block.text, &mark),
            };
            added.push((first, text));
            let leaf =
                links.as_ref().and_then(|links| leaf_line(links, block.handle, first, &gone));
            if let (Some(leaf), Some(last)) = (leaf, self.elements.last()) {
                splices.insert(last.end, format!("\n{leaf}"));
            }
        }
        if !self.dialect.is_session_file() {
            added.extend(window.inserts.iter().map(|(before, text)| {
                let text = match self.dialect {
                    Dialect::Anthropic => text_block(&json::quote(text)),
                    _ => self.user_message(text, ""),
                };
                (self.element_of(*before), text)
            }));
        }
        added.sort_by_key(|(at, _)| *at);
        if self.dialect == Dialect::Anthropic {
            added = self.join_turns(&mut splices, &mut gone, added);
        }
        self.write_elements(&mut splices, &gone, added);
        self.add_reasoning(&mut splices, &gone);
        if let Some(links) = links.filter(|_| gone.contains(&true)) {
            let fold = window.block.as_ref().zip(block_at);
            relink(&links, &mut splices, &gone, fold.map(|(block, at)| (block.handle, at)));
        }
        splices.apply(&self.source)
    }

    /// Takes back what the provider counted for answers after the first edit.
    fn void_usages(&self, window: &Projection, splices: &mut Splices) {
        let first = window.messages.iter().position(|shown| *shown != Shown::Unchanged);
        let after = self.layout.iter().skip(first.unwrap_or(self.layout.len()));
        after
            .flat_map(|layout| &layout.elements)
            .for_each(|element| self.void_usage(splices, *element));
    }

    /// A user message of this format.
    fn user_message(&self, text: &str, mark: &str) -> String {
        if self.dialect == Dialect::Responses {
            return marked_input_message(text, mark);
        }
        let mut content = json::quote(text);
        if !mark.is_empty() {
            content = format!("[{}]", marked_block("text", &content, mark));
        }
        format!(r#"{{"role":"user","content":{content}}}"#)
    }

    /// The first element of a message, or the number of elements behind the last.
    fn element_of(&self, message: usize) -> usize {
        let mut elements = self.layout.get(message..).unwrap_or_default().iter();
        let first = elements.find_map(|layout| layout.elements.iter().min());
        first.copied().unwrap_or(self.elements.len())
    }

    /// Takes elements out, and puts others before the elements of these numbers.
    fn write_elements(&self, splices: &mut Splices, gone: &[bool], added: Vec<(usize, String)>) {
        let separator = if self.dialect.is_session_file() { "\n" } else { "," };
        let mut instead: Vec<(usize, String)> = Vec::new();
        for (at, text) in added {
            match instead.last_mut() {
                Some((last, joined)) if *last == at => {
                    joined.push_str(separator);
                    joined.push_str(&text);
                }
                _ => instead.push((at, text)),
            }
        }
        instead.retain(|(at, text)| {
            if gone.get(*at).copied().unwrap_or(false) {
                return true;
            }
            match (self.elements.get(*at), self.elements.last()) {
                (Some(next), _) => splices.insert(next.start, format!("{text}{separator}")),
                (None, Some(last)) => splices.insert(last.end, format!("{separator}{text}")),
                (None, None) => {}
            }
            false
        });
        splices.remove(&self.elements, gone, &instead);
    }

    pub(crate) fn write_body(
        &self,
        splices: &mut Splices,
        message: usize,
        part: usize,
        text: &str,
    ) {
        match &self.layout[message].slots[part] {
            PartSlot::Text(span) | PartSlot::Quoted(span) => {
                splices.replace(span.clone(), json::quote(text));
            }
            PartSlot::Content(span) => {
                let mut content = json::quote(text);
                let mark = self.mark_within(span);
                if !mark.is_empty() {
                    let responses = self.dialect == Dialect::Responses;
                    let kind = if responses { "input_text" } else { "text" };
                    content = format!("[{}]", marked_block(kind, &content, &mark));
                }
                splices.replace(span.clone(), content);
            }
            PartSlot::Blocks(span) => {
                splices.replace(span.clone(), format!("[{}]", text_block(&json::quote(text))));
            }
            PartSlot::Object(span) => splices.replace(span.clone(), text.to_owned()),
            PartSlot::Fixed | PartSlot::Block { .. } => {
                debug_assert!(false, "{} part {part} cannot be edited", self.name_of(message));
            }
        }
    }

    /// Writes changed bodies, and takes out the blocks that are not shown and the elements that hold
    /// nothing else.
    pub(crate) fn write_changes(
        &self,
        window: &Projection,
        splices: &mut Splices,
        gone: &mut [bool],
    ) {
        let mut removed: BTreeMap<usize, (&[Range<usize>], Vec<bool>)> = BTreeMap::new();
        for (message, shown) in window.messages.iter().enumerate() {
            let Shown::Changed(changes) = shown else { continue };
            for (part, change) in changes {
                match change {
                    Change::Text(text) => self.write_body(splices, message, *part, text),
                    Change::Removed => {
                        if let Some((element, blocks, index)) = self.block_of(message, *part) {
                            let entry = removed.entry(element);
                            entry.or_insert_with(|| (blocks, vec![false; blocks.len()])).1[index] =
                                true;
                        }
                    }
                }
            }
        }
        for (element, (blocks, removed)) in removed {
            if removed.iter().all(|removed| *removed) {
                gone[element] = true;
            } else {
                splices.remove(blocks, &removed, &[]);
            }
        }
    }

    /// The block that a part is: the element it is in, all blocks there, and its index.
    fn block_of(&self, message: usize, part: usize) -> Option<(usize, &[Range<usize>], usize)> {
        let layout = &self.layout[message];
        if let PartSlot::Block { element, blocks, index } = &layout.slots[part] {
            return Some((*element, blocks, *index));
        }
        let blocks = layout.content.as_ref()?.blocks.as_deref()?;
        Some((*layout.elements.first()?, blocks, part)).filter(|(_, blocks, at)| *at < blocks.len())
    }

    /// Where a request has its one message as a string instead of a list, if that is folded.
    fn string_input(&self, window: &Projection) -> Option<Range<usize>> {
        let folded = window.messages.iter().position(|shown| *shown == Shown::Folded)?;
        let layout = &self.layout[folded];
        let content = layout.content.as_ref().filter(|_| layout.elements.is_empty())?;
        Some(content.span.clone())
    }

    /// Finds the elements of folded messages, and the lines between them that belong to nobody.
    fn folded_elements(&self, window: &Projection) -> Vec<bool> {
        let mut folded = vec![false; self.elements.len()];
        let mut owned = folded.clone();
        for layout in &self.layout {
            layout.elements.iter().for_each(|element| owned[*element] = true);
        }
        let is_folded = |message: &usize| window.messages[*message] == Shown::Folded;
        let mut start = 0;
        while let Some(first) = (start..self.layout.len()).find(is_folded) {
            let end = (first..self.layout.len()).find(|at| !is_folded(at));
            let end = end.unwrap_or(self.layout.len());
            let elements = || {
                self.layout[first..end].iter().flat_map(|layout| layout.elements.iter().copied())
            };
            elements().for_each(|element| folded[element] = true);
            if let (Some(low), Some(high)) = (elements().min(), elements().max()) {
                let is_off = |element: &usize| {
                    self.loaded.as_ref().is_some_and(|loaded| loaded.is_off(*element))
                };
                let unowned = (low..=high).filter(|element| !owned[*element] && !is_off(element));
                unowned.for_each(|element| folded[element] = true);
            }
            start = end;
        }
        folded
    }

    /// Puts added blocks where roles still alternate: user turns that have become neighbours are joined,
    /// block by block, with the added ones among them. Returns the messages that stand alone.
    fn join_turns(
        &self,
        splices: &mut Splices,
        gone: &mut [bool],
        added: Vec<(usize, String)>,
    ) -> Vec<(usize, String)> {
        let message_of: BTreeMap<usize, usize> = self
            .layout
            .iter()
            .enumerate()
            .filter_map(|(at, layout)| Some((*layout.elements.first()?, at)))
            .collect();
        // Only a turn with words or blocks can take others in.
        let is_open = |at: usize| match &self.layout[at].content {
            Some(content) => match &content.blocks {
                Some(blocks) => !blocks.is_empty(),
                None => self.source[content.span.clone()].starts_with('"'),
            },
            None => false,
        };
        let role_of = |element: usize| {
            let at = *message_of.get(&element)?;
            Some(self.messages[at].role).filter(|role| *role != Role::System && is_open(at))
        };
        // What stands in a row now: turns that were received, and blocks that are added.
        let mut row: Vec<(Option<Role>, RenderedTurn)> = Vec::new();
        let mut added = added.into_iter().peekable();
        for element in 0..=gone.len() {
            while let Some((at, block)) = added.next_if(|(at, _)| *at <= element) {
                row.push((Some(Role::User), RenderedTurn::Added(at, block)));
            }
            if gone.get(element) == Some(&false) {
                row.push((role_of(element), RenderedTurn::Received(element)));
            }
        }
        let mut alone = Vec::new();
        for run in row.chunk_by(|one, next| one.0.is_some() && one.0 == next.0) {
            let turns: Vec<&RenderedTurn> = run.iter().map(|(_, turn)| turn).collect();
            let is_new = |pair: &[&RenderedTurn]| match pair {
                [RenderedTurn::Received(one), RenderedTurn::Received(next)] => one + 1 < *next,
                _ => true,
            };
            let has_added = turns.iter().any(|turn| matches!(turn, RenderedTurn::Added(..)));
            if !has_added && !turns.windows(2).any(is_new) {
                continue;
            }
            let first = turns.iter().find_map(|turn| turn.added_at());
            let message = self.join(splices, gone, &message_of, &turns);
            alone.extend(first.zip(message));
        }
        alone
    }

    /// Joins turns in the first of them that was received; a message of their own if none was.
    fn join(
        &self,
        splices: &mut Splices,
        gone: &mut [bool],
        message_of: &BTreeMap<usize, usize>,
        turns: &[&RenderedTurn],
    ) -> Option<String> {
        let Some(host) = turns.iter().find_map(|turn| turn.element()) else {
            let blocks: Vec<&str> = turns.iter().filter_map(|turn| turn.block()).collect();
            return Some(format!(r#"{{"role":"user","content":[{}]}}"#, blocks.join(",")));
        };
        let (mut before, mut after) = (String::new(), String::new());
        let mut seen = false;
        for turn in turns {
            let blocks = match turn {
                RenderedTurn::Received(element) if *element == host => {
                    seen = true;
                    continue;
                }
                RenderedTurn::Received(element) => {
                    gone[*element] = true;
                    self.blocks_of(splices, message_of[element])
                }
                RenderedTurn::Added(_, block) => block.clone(),
            };
            if seen {
                after = format!("{after},{blocks}");
            } else {
                before = format!("{before}{blocks},");
            }
        }
        let message = message_of[&host];
        if let Some(content) = &self.layout[message].content {
            match content.blocks.as_deref() {
                Some(blocks @ [first, ..]) => {
                    // Results come before all other blocks.
                    let is_result = |part: &Part| matches!(part, Part::Result(_));
                    let results = self.messages[message].parts.iter().rposition(is_result);
                    match results.and_then(|last| blocks.get(last)) {
                        Some(last) if !before.is_empty() => {
                            let before = before.trim_end_matches(',');
                            splices.insert(last.end, format!(",{before}"));
                        }
                        _ => splices.insert(first.start, before),
                    }
                    splices.insert(blocks[blocks.len() - 1].end, after);
                }
                Some([]) => {}
                None => {
                    splices
                        .insert(content.span.start, format!(r#"[{before}{{"type":"text","text":"#));
                    splices.insert(content.span.end, format!("}}{after}]"));
                }
            }
        }
        None
    }

    /// A message's content as blocks, edits included.
    fn blocks_of(&self, splices: &Splices, message: usize) -> String {
        match &self.layout[message].content {
            None => String::new(),
            Some(content) => match content.blocks.as_deref() {
                None => text_block(&splices.apply_within(&self.source, content.span.clone())),
                Some(blocks) => {
                    let start = blocks.first().map_or(content.span.start, |block| block.start);
                    let end = blocks.last().map_or(start, |block| block.end);
                    splices.apply_within(&self.source, start..end)
                }
            },
        }
    }
}

/// A message by itself with some of its parts changed; `None` if nothing of it is left.
pub fn change_message(
    dialect: Dialect,
    message: &Message,
    changes: &[(usize, Change)],
) -> Option<Message> {
    let raw = message.raw.raw();
    let text = if dialect.is_session_file() { raw.to_owned() } else { format!("[{raw}]") };
    let conversation = read_shared(Arc::new(text), Some(dialect)).ok()?;
    let mut window = Projection::unchanged(conversation.messages.len());
    *window.messages.first_mut()? = Shown::Changed(changes.to_vec());
    let written = conversation.render(&window);
    let result = read_shared(Arc::new(written), Some(dialect)).ok()?;
    result.messages.into_iter().next()
}

enum RenderedTurn {
    Received(usize),
    /// A block that is added before the element of this number.
    Added(usize, String),
}

impl RenderedTurn {
    fn element(&self) -> Option<usize> {
        match self {
            RenderedTurn::Received(element) => Some(*element),
            RenderedTurn::Added(..) => None,
        }
    }

    fn block(&self) -> Option<&str> {
        match self {
            RenderedTurn::Received(_) => None,
            RenderedTurn::Added(_, block) => Some(block),
        }
    }

    fn added_at(&self) -> Option<usize> {
        match self {
            RenderedTurn::Received(_) => None,
            RenderedTurn::Added(at, _) => Some(*at),
        }
    }
}

/// A text block around a JSON string.
pub(crate) fn text_block(quoted: &str) -> String {
    marked_block("text", quoted, "")
}

/// A block of some kind around a JSON string, with a mark if there is one.
fn marked_block(kind: &str, quoted: &str, mark: &str) -> String {
    format!(r#"{{"type":"{kind}","text":{quoted}{mark}}}"#)
}

/// A user message as an item of Responses.
pub(crate) fn input_message(text: &str) -> String {
    marked_input_message(text, "")
}

/// The same around a JSON string.
pub(crate) fn input_message_of(quoted: &str) -> String {
    let block = marked_block("input_text", quoted, "");
    format!(r#"{{"type":"message","role":"user","content":[{block}]}}"#)
}

fn marked_input_message(text: &str, mark: &str) -> String {
    let block = marked_block("input_text", &json::quote(text), mark);
    format!(r#"{{"type":"message","role":"user","content":[{block}]}}"#)
}
