//! A conversation with edits, as bytes.

use std::collections::BTreeMap;
use std::ops::Range;

use longhand_core::json;
use longhand_core::{Edit, Place, Role};

use crate::Dialect;
use crate::conversation::{Conversation, Slot};
use crate::session::{Links, leaf_line, marker_line, relink};
use crate::splice::Splices;

impl Conversation {
    /// Writes the conversation with `edits`; every byte that no edit names stays as it was.
    pub fn apply(&self, edits: &[Edit]) -> String {
        if edits.is_empty() {
            return self.source.to_string();
        }
        let mut splices = Splices::default();
        let mut gone = vec![false; self.elements.len()];
        self.unthink(edits, &mut splices, &mut gone);
        if let Some((at, switch)) = self.bound.switch() {
            splices.insert(at, switch);
        }
        let mut instead = None;
        let (mut fold, mut links) = (None, None);
        for edit in edits {
            match edit {
                Edit::Stub { at, text, .. } | Edit::Clip { at, text, .. } => {
                    self.write_body(&mut splices, *at, text);
                }
                Edit::Unthink { .. } => {}
                Edit::Fold { messages, handle: own, text } => {
                    if let Some(span) = self.string_input(messages) {
                        splices.replace(span, json::quote(text));
                        continue;
                    }
                    let (first, folded) = self.drop_messages(messages);
                    gone.iter_mut().zip(&folded).for_each(|(gone, folded)| *gone |= folded);
                    fold = Some((*own, first));
                    links = Links::of(self, &gone, Some(&folded));
                    let mark = self.mark_of_fold(&folded, first);
                    if self.dialect == Dialect::Anthropic {
                        instead = Some((first, marked_block("text", &json::quote(text), &mark)));
                        continue;
                    }
                    let marker = match self.dialect {
                        Dialect::Chat => {
                            let mut content = json::quote(text);
                            if !mark.is_empty() {
                                content = format!("[{}]", marked_block("text", &content, &mark));
                            }
                            format!(r#"{{"role":"user","content":{content}}}"#)
                        }
                        Dialect::Responses => marked_input_message(text, &mark),
                        _ => marker_line(self, *own, text, first, links.as_ref()),
                    };
                    let leaf = links.as_ref().and_then(|it| leaf_line(it, *own, first, &gone));
                    if let (Some(leaf), Some(last)) = (leaf, self.elements.last()) {
                        splices.insert(last.end, format!("\n{leaf}"));
                    }
                    splices.remove(&self.elements, &gone, Some((first, &marker)));
                }
            }
        }
        match (&fold, instead) {
            (None, _) => splices.remove(&self.elements, &gone, None),
            (Some(_), Some((first, block))) => {
                self.join_turns(&mut splices, &mut gone, first, &block);
            }
            (Some(_), None) => {}
        }
        self.add_reasoning(&mut splices, &gone);
        if fold.is_none() && gone.contains(&true) {
            links = Links::of(self, &gone, None);
        }
        if let Some(links) = &links {
            relink(links, &mut splices, &gone, fold);
        }
        splices.apply(&self.source)
    }

    fn write_body(&self, splices: &mut Splices, at: Place, text: &str) {
        match &self.layout[at.message].slots[at.part] {
            Slot::Text(span) | Slot::Quoted(span) => {
                splices.replace(span.clone(), json::quote(text));
            }
            Slot::Content(span) => {
                let mut content = json::quote(text);
                let mark = self.mark_within(span);
                if !mark.is_empty() {
                    let responses = self.dialect == Dialect::Responses;
                    let kind = if responses { "input_text" } else { "text" };
                    content = format!("[{}]", marked_block(kind, &content, &mark));
                }
                splices.replace(span.clone(), content);
            }
            Slot::Blocks(span) => {
                splices.replace(span.clone(), format!("[{}]", text_block(&json::quote(text))));
            }
            Slot::Object(span) => splices.replace(span.clone(), text.to_owned()),
            Slot::Fixed | Slot::Block { .. } => {
                debug_assert!(
                    false,
                    "{} part {} cannot be edited",
                    self.name_of(at.message),
                    at.part
                );
            }
        }
    }

    /// Takes reasoning blocks out, and the lines that hold nothing else.
    fn unthink(&self, edits: &[Edit], splices: &mut Splices, gone: &mut [bool]) {
        let mut taken: BTreeMap<usize, (&[Range<usize>], Vec<bool>)> = BTreeMap::new();
        for edit in edits {
            if let Edit::Unthink { at } = edit
                && let Slot::Block { element, blocks, index } =
                    &self.layout[at.message].slots[at.part]
            {
                taken.entry(*element).or_insert_with(|| (blocks, vec![false; blocks.len()])).1
                    [*index] = true;
            }
        }
        for (element, (blocks, taken)) in taken {
            if taken.iter().all(|taken| *taken) {
                gone[element] = true;
            } else {
                splices.remove(blocks, &taken, None);
            }
        }
    }

    /// Where a request has its one message as a string instead of a list.
    fn string_input(&self, folded: &[Range<usize>]) -> Option<Range<usize>> {
        let layout = &self.layout[folded.first()?.start];
        layout
            .elements
            .is_empty()
            .then(|| layout.content.as_ref().map(|content| content.span.clone()))?
    }

    /// Finds the elements of folded messages, and lines between them that belong to nobody.
    fn drop_messages(&self, folded: &[Range<usize>]) -> (usize, Vec<bool>) {
        let mut gone = vec![false; self.elements.len()];
        let mut owned = gone.clone();
        for layout in &self.layout {
            layout.elements.iter().for_each(|element| owned[*element] = true);
        }
        let mut first = gone.len();
        for range in folded {
            let elements = || {
                self.layout[range.clone()].iter().flat_map(|layout| layout.elements.iter().copied())
            };
            elements().for_each(|element| gone[element] = true);
            let (Some(low), Some(high)) = (elements().min(), elements().max()) else { continue };
            (low..=high)
                .filter(|element| !owned[*element])
                .for_each(|element| gone[element] = true);
            first = first.min(low);
        }
        (first, gone)
    }

    /// Puts the fold block where roles still alternate: user turns that have become neighbours are
    /// joined, block by block, with the fold block among them.
    fn join_turns(&self, splices: &mut Splices, gone: &mut [bool], first: usize, fold: &str) {
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
        let is_user = |element: usize| {
            message_of
                .get(&element)
                .is_some_and(|at| self.messages[*at].role == Role::User && is_open(*at))
        };
        // The turn before the fold, and what stands next to it now.
        let mut turns: Vec<Turn> = Vec::new();
        if let Some(before) =
            (0..first).rev().find(|element| !gone[*element]).filter(|element| is_user(*element))
        {
            turns.push(Turn::Own(before));
        }
        turns.push(Turn::Fold);
        for element in (first..gone.len()).filter(|element| !gone[*element]) {
            if !is_user(element) {
                break;
            }
            turns.push(Turn::Own(element));
        }
        let Some(host) = turns.iter().find_map(Turn::element) else {
            let marker = format!(r#"{{"role":"user","content":[{fold}]}}"#);
            return splices.remove(&self.elements, gone, Some((first, &marker)));
        };
        let (mut before, mut after) = (String::new(), String::new());
        let mut seen = false;
        for turn in &turns {
            let blocks = match turn {
                Turn::Own(element) if *element == host => {
                    seen = true;
                    continue;
                }
                Turn::Own(element) => {
                    gone[*element] = true;
                    self.blocks_of(splices, message_of[element])
                }
                Turn::Fold => fold.to_owned(),
            };
            if seen {
                after = format!("{after},{blocks}");
            } else {
                before = format!("{before}{blocks},");
            }
        }
        if let Some(content) = &self.layout[message_of[&host]].content {
            match content.blocks.as_deref() {
                Some([first, .., last]) => {
                    splices.insert(first.start, before);
                    splices.insert(last.end, after);
                }
                Some([only]) => {
                    splices.insert(only.start, before);
                    splices.insert(only.end, after);
                }
                Some([]) => {}
                None => {
                    splices
                        .insert(content.span.start, format!(r#"[{before}{{"type":"text","text":"#));
                    splices.insert(content.span.end, format!("}}{after}]"));
                }
            }
        }
        splices.remove(&self.elements, gone, None);
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

enum Turn {
    Own(usize),
    Fold,
}

impl Turn {
    fn element(&self) -> Option<usize> {
        match self {
            Turn::Own(element) => Some(*element),
            Turn::Fold => None,
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

fn marked_input_message(text: &str, mark: &str) -> String {
    let block = marked_block("input_text", &json::quote(text), mark);
    format!(r#"{{"type":"message","role":"user","content":[{block}]}}"#)
}
