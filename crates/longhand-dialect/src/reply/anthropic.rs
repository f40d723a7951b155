//! Answers of Anthropic Messages.

use std::collections::BTreeMap;

use longhand_core::json::{JsonKind, quote};

use super::filter::Before;
use super::{Pushed, Reply, ReplyCall, ReplyEvent, ReplyPart, Stop, Usage, object};
use crate::edits::Edits;
use crate::view::View;

pub(super) fn read(view: View) -> Option<Reply> {
    let content = view.get("content").filter(|content| content.kind() == JsonKind::Array)?;
    let mut about = About { stop: view.string("stop_reason"), ..About::default() };
    about.begin(view);
    Some(reply(content.raw(), content, about))
}

/// The attributes of a message besides its content.
#[derive(Clone, Debug, Default)]
struct About {
    id: Option<String>,
    model: Option<String>,
    counts: UsageCounts,
    stop: Option<String>,
}

impl About {
    fn begin(&mut self, message: View) {
        self.id = message.string("id");
        self.model = message.string("model");
        self.counts.take(message.get("usage"));
    }
}

/// A message as far as it has come.
#[derive(Clone, Debug, Default)]
pub(super) struct AnthropicStream {
    blocks: BTreeMap<u64, Block>,
    about: About,
    ended: bool,
}

/// A block as it began, with what was added to it.
#[derive(Clone, Debug, Default)]
struct Block {
    fields: Vec<(String, String)>,
    /// Text by the field that it belongs to.
    added: Vec<(String, String)>,
    input: String,
    citations: Vec<String>,
    ended: bool,
}

impl AnthropicStream {
    pub(super) fn push(&mut self, view: View) -> Pushed {
        let index = view.number("index").unwrap_or(0);
        let of_part = |begins| ReplyEvent::Part { index, begins };
        let (mut text, mut is_read) = (String::new(), true);
        let event = match view.string("type").as_deref() {
            Some("message_start") => {
                if let Some(message) = view.get("message") {
                    self.about.begin(message);
                }
                ReplyEvent::Start
            }
            Some("content_block_start") => {
                let begins = view.get("content_block").map(|block| {
                    text = self.begin(index, block);
                    part(block)
                });
                of_part(begins)
            }
            Some("content_block_delta") => {
                if let Some(delta) = view.get("delta") {
                    let block = self.blocks.entry(index).or_insert_with(|| Block::begun_by(delta));
                    (text, is_read) = block.add(delta);
                }
                of_part(None)
            }
            Some("content_block_stop") => {
                if let Some(block) = self.blocks.get_mut(&index) {
                    block.ended = true;
                }
                of_part(None)
            }
            Some("message_delta") => {
                let stop = view.get("delta").and_then(|delta| delta.string("stop_reason"));
                self.about.stop = stop.or(self.about.stop.take());
                self.about.counts.take(view.get("usage"));
                ReplyEvent::End
            }
            Some("message_stop") => {
                self.ended = true;
                ReplyEvent::End
            }
            Some("ping") => ReplyEvent::Other,
            _ => {
                is_read = false;
                ReplyEvent::Other
            }
        };
        Pushed { text, event, is_read }
    }

    /// About how many bytes it has.
    pub(super) fn bytes(&self) -> usize {
        self.blocks.values().map(Block::bytes).sum()
    }

    /// Begins a block and gives the text that it has from the start.
    fn begin(&mut self, index: u64, block: View) -> String {
        // A new block closes all earlier ones.
        self.blocks.values_mut().for_each(|block| block.ended = true);
        let fields = block.fields().into_iter();
        let fields = fields.map(|(key, value)| (key.into(), value.raw().to_owned()));
        self.blocks.insert(index, Block { fields: fields.collect(), ..Block::default() });
        if block.is("type", "text") {
            block.string("text").unwrap_or_default()
        } else {
            String::new()
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.ended
    }

    /// Whether the message came to its end.
    pub(super) fn is_whole(&self) -> bool {
        self.about.stop.is_some() || self.ended
    }

    /// The message, if it came to its end.
    pub(super) fn finish(self) -> Option<Reply> {
        self.is_whole().then(|| self.reply())?
    }

    /// The message as far as it has come: blocks that are complete, and text.
    pub(super) fn partial(mut self) -> Option<Reply> {
        let results = self.results();
        self.blocks.retain(|_, block| block.stands_alone(&results));
        self.reply()
    }

    /// The blocks that are incomplete, as far as they have come.
    pub(super) fn unfinished(&self) -> Vec<String> {
        let results = self.results();
        let blocks = self.blocks.values().filter(|block| !block.stands_alone(&results));
        let said = blocks.filter(|block| block.string("type").as_deref() != Some("text"));
        said.cloned().map(Block::json).collect()
    }

    /// The calls that have a result.
    fn results(&self) -> Vec<String> {
        let ended = self.blocks.values().filter(|block| block.ended);
        ended.filter_map(|block| block.string("tool_use_id")).collect()
    }

    fn reply(self) -> Option<Reply> {
        let known = self.blocks.into_values().filter(|block| !block.fields.is_empty());
        let blocks: Vec<String> = known.map(Block::json).collect();
        let content = format!("[{}]", blocks.join(","));
        Some(reply(&content, View::parse(&content)?, self.about))
    }
}

impl Block {
    /// A block whose start event never came; its type is guessed from its first delta.
    fn begun_by(delta: View) -> Self {
        let kind = ["text", "thinking"].into_iter().find(|kind| delta.get(kind).is_some());
        let fields = kind.map(|kind| ("type".to_owned(), quote(kind)));
        Self { fields: fields.into_iter().collect(), ..Self::default() }
    }

    /// Whether it can be a part of a message that breaks off after it.
    fn stands_alone(&self, results: &[String]) -> bool {
        match self.string("type").as_deref() {
            Some("text") => !self.text().trim().is_empty(),
            // The provider's own calls are refused without their results.
            Some("server_tool_use" | "mcp_tool_use") => {
                self.ended && self.string("id").is_some_and(|id| results.contains(&id))
            }
            _ => self.ended,
        }
    }

    fn bytes(&self) -> usize {
        let texts = self.fields.iter().chain(&self.added).map(|(_, text)| text);
        texts.chain(&self.citations).map(String::len).sum::<usize>() + self.input.len()
    }

    /// A field that it began with.
    fn string(&self, key: &str) -> Option<String> {
        let (_, raw) = self.fields.iter().find(|(name, _)| name == key)?;
        Some(View::parse(raw)?.str()?.into_owned())
    }

    fn text(&self) -> String {
        let added = self.added.iter().find(|(key, _)| key == "text");
        self.string("text").unwrap_or_default() + added.map_or("", |(_, text)| text)
    }

    /// Adds a delta; gives the text of it, and whether all of it was read. A delta names the field that it
    /// belongs to; only arguments and citations go by another name.
    fn add(&mut self, delta: View) -> (String, bool) {
        let (mut said, mut is_read) = (String::new(), true);
        for (key, value) in delta.fields() {
            match (key.as_ref(), value.str()) {
                ("type", _) => {}
                ("partial_json", Some(more)) => self.input.push_str(&more),
                ("citation", _) => self.citations.push(value.raw().to_owned()),
                (key, Some(more)) => {
                    if key == "text" {
                        said.push_str(&more);
                    }
                    match self.added.iter_mut().find(|(name, _)| name == key) {
                        Some((_, text)) => text.push_str(&more),
                        None => self.added.push((key.to_owned(), more.into_owned())),
                    }
                }
                _ => is_read &= value.kind() == JsonKind::Null,
            }
        }
        // A block of which only arguments came has no name, and is left out.
        (said, is_read && !self.fields.is_empty())
    }

    fn json(self) -> String {
        let mut fields = self.fields;
        let mut set = |key: &str, value: &dyn Fn(Option<View>) -> String| match fields
            .iter_mut()
            .find(|(name, _)| name == key)
        {
            Some((_, raw)) => *raw = value(View::parse(raw)),
            None => fields.push((key.to_owned(), value(None))),
        };
        for (key, more) in &self.added {
            set(key, &|before| {
                quote(&(before.and_then(View::str).unwrap_or_default() + more.as_str()))
            });
        }
        if !self.input.trim().is_empty() {
            let is_complete = View::parse_nested(&self.input).is_some();
            // A call that was cut short must not pass for one without arguments.
            let cut = || object([("truncated", quote(&self.input))]);
            set("input", &|_| if is_complete { self.input.clone() } else { cut() });
        }
        if !self.citations.is_empty() {
            set("citations", &|before| {
                let before = before.map(View::elements).unwrap_or_default();
                let before = before.into_iter().map(View::raw);
                let all: Vec<&str> =
                    before.chain(self.citations.iter().map(String::as_str)).collect();
                format!("[{}]", all.join(","))
            });
        }
        object(fields.iter().map(|(key, raw)| (key.as_str(), raw.clone())))
    }
}

/// The four token counts; in a stream they only grow.
#[derive(Clone, Debug, Default)]
struct UsageCounts {
    seen: bool,
    fresh: u64,
    read: u64,
    written: u64,
    output: u64,
}

impl UsageCounts {
    fn take(&mut self, usage: Option<View>) {
        let Some(usage) = usage else { return };
        self.seen = true;
        for (count, key) in [
            (&mut self.fresh, "input_tokens"),
            (&mut self.read, "cache_read_input_tokens"),
            (&mut self.written, "cache_creation_input_tokens"),
            (&mut self.output, "output_tokens"),
        ] {
            *count = (*count).max(usage.number(key).unwrap_or(0));
        }
    }

    fn usage(&self) -> Option<Usage> {
        self.seen.then_some(Usage {
            input: self.fresh.saturating_add(self.read).saturating_add(self.written),
            cached_input: self.read,
            cache_write: self.written,
            output: self.output,
        })
    }
}

/// What a block is.
pub(super) fn part(block: View) -> ReplyPart {
    if block.is("type", "tool_use") {
        ReplyPart::Call(block.string("name").unwrap_or_default())
    } else {
        ReplyPart::Other
    }
}

/// The calls of a message.
pub(super) fn calls(message: View) -> Vec<ReplyCall> {
    let blocks = message.get("content").map(View::elements).unwrap_or_default().into_iter();
    let call = |block: View| match part(block) {
        ReplyPart::Call(name) => {
            let arguments = block.get("input").map_or_else(String::new, |input| input.raw().into());
            Some(ReplyCall { name, arguments })
        }
        _ => None,
    };
    blocks.filter_map(call).collect()
}

/// Writes a whole message so that the blocks of earlier ones come first and none of a tool is left.
pub(super) fn join(message: View, edits: &mut Edits, before: &Before) {
    let content = message.get("content").map(View::elements).unwrap_or_default();
    let Some(joined) = before.joined(&content, part) else { return };
    let asks = |part: &ReplyPart| matches!(part, ReplyPart::Call(name) if name != before.tool);
    let asks_client = content.iter().any(|block| asks(&part(*block)));
    edits.set(message, "content", &joined);
    end(message, message.get("usage"), edits, before, asks_client);
}

/// Writes why a message ended, and its usage, for all answers that it is joined from.
pub(super) fn end(
    stopped: View,
    usage: Option<View>,
    edits: &mut Edits,
    before: &Before,
    asks_client: bool,
) {
    if !asks_client && stopped.is("stop_reason", "tool_use") {
        edits.set(stopped, "stop_reason", r#""end_turn""#);
    }
    if let Some(usage) = usage {
        let mut counts = UsageCounts::default();
        counts.take(Some(usage));
        before.write_usage(usage, edits, counts.usage().unwrap_or_default(), |all| {
            let fresh = all.input.saturating_sub(all.cached_input).saturating_sub(all.cache_write);
            vec![
                (&["input_tokens"], fresh),
                (&["cache_read_input_tokens"], all.cached_input),
                (&["cache_creation_input_tokens"], all.cache_write),
                (&["output_tokens"], all.output),
            ]
        });
    }
}

fn reply(raw: &str, content: View, about: About) -> Reply {
    let About { id, model, counts, stop } = about;
    let blocks = content.elements();
    let is_one_of = |block: &View, kinds: &[&str]| kinds.iter().any(|kind| block.is("type", kind));
    let text = blocks
        .iter()
        .filter(|block| is_one_of(block, &["text"]))
        .filter_map(|block| block.string("text"))
        .collect();
    let has_more =
        !blocks.iter().all(|block| is_one_of(block, &["text", "thinking", "redacted_thinking"]));
    let stop = match stop.as_deref() {
        Some("end_turn" | "stop_sequence") | None => Stop::End,
        Some("max_tokens") => Stop::Length,
        Some("tool_use") => Stop::Tools,
        Some("refusal") => Stop::Refused,
        Some("model_context_window_exceeded") => Stop::Window,
        Some(other) => Stop::Other(other.to_owned()),
    };
    let message = format!(r#"{{"role":"assistant","content":{raw}}}"#);
    Reply { id, text, message, usage: counts.usage(), stop, model, has_more }
}
