//! What a conversation is made of.

use std::sync::Arc;

use crate::Text;
use crate::fold::is_block;

/// One item from user, model, tool or system; never edited once received.
#[derive(Clone, Debug)]
pub struct Message {
    /// Who said it.
    pub role: Role,
    /// The speaker's name, where the wire has one.
    pub name: Option<Text>,
    /// Its pieces, in order.
    pub parts: Vec<Part>,
    /// The whole message as it was received.
    pub raw: Text,
    /// Which of its pieces are thinking, in order.
    thinking: Vec<usize>,
}

/// Who a message is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The operator: system or developer.
    System,
    /// The person, or the program that speaks for them; also the carrier of tool results where the
    /// wire has no role for tools.
    User,
    /// The model.
    Assistant,
    /// A tool.
    Tool,
}

impl Role {
    /// The word that people and providers use for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        }
    }
}

/// A piece of a message.
#[derive(Clone, Debug)]
pub enum Part {
    /// Words.
    Text(Text),
    /// Words that people read but that may not be edited: an answer with citations, or a refusal.
    FixedText(Text),
    /// The model's reasoning.
    Thinking(Thinking),
    /// A picture.
    Image(Image),
    /// A recording: sound or video.
    Media(Media),
    /// A document or other attachment.
    File(File),
    /// The model asks for a tool.
    Call(ToolCall),
    /// A tool answers.
    Result(ToolResult),
    /// Something that we do not know, as it came; it is carried through unharmed.
    Other(Other),
}

impl Part {
    /// Whether it is thinking.
    pub fn is_thinking(&self) -> bool {
        matches!(self, Part::Thinking(_))
    }

    /// Its text, whether it may be edited or not; for a recording, the transcript.
    pub fn text(&self) -> Option<&Text> {
        match self {
            Part::Text(text) | Part::FixedText(text) => Some(text),
            Part::Media(media) => media.transcript.as_ref(),
            _ => None,
        }
    }

    fn moved(&self, from: &Arc<String>, to: &Arc<String>) -> Self {
        let moved = |text: &Text| text.moved(from, to);
        match self {
            Part::Text(text) => Part::Text(moved(text)),
            Part::FixedText(text) => Part::FixedText(moved(text)),
            Part::Other(other) => {
                Part::Other(Other { raw: moved(&other.raw), link: other.link.map(moved) })
            }
            Part::Thinking(thinking) => Part::Thinking(Thinking {
                text: moved(&thinking.text),
                seal: thinking.seal.as_ref().map(moved),
            }),
            Part::File(file) => Part::File(File {
                name: file.name.as_ref().map(moved),
                text: file.text.as_ref().map(moved),
                ..*file
            }),
            Part::Call(call) => Part::Call(ToolCall {
                id: moved(&call.id),
                name: moved(&call.name),
                arguments: moved(&call.arguments),
                ..*call
            }),
            Part::Result(result) => Part::Result(ToolResult {
                call: moved(&result.call),
                content: result.content.iter().map(|part| part.moved(from, to)).collect(),
                raw: moved(&result.raw),
                ..*result
            }),
            Part::Media(media) => {
                Part::Media(Media { transcript: media.transcript.as_ref().map(moved), ..*media })
            }
            Part::Image(image) => Part::Image(image.clone()),
        }
    }
}

/// Something that we do not know.
#[derive(Clone, Debug, Default)]
pub struct Other {
    /// Its bytes as they came.
    pub raw: Text,
    /// What it belongs to.
    pub link: PartLink,
}

impl From<Text> for Other {
    fn from(raw: Text) -> Self {
        Self { raw, link: PartLink::None }
    }
}

/// How a part that we do not know belongs to others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PartLink {
    /// It stands alone.
    #[default]
    None,
    /// A request with this id that another part answers, such as a call of a tool that the provider runs.
    Call(Text),
    /// The answer to the request with this id.
    Result(Text),
    /// The id of an item that the provider holds; the item may be a call.
    Reference(Text),
}

impl PartLink {
    /// The same with another form of its id.
    fn map(&self, change: impl Fn(&Text) -> Text) -> Self {
        match self {
            PartLink::None => PartLink::None,
            PartLink::Call(id) => PartLink::Call(change(id)),
            PartLink::Result(id) => PartLink::Result(change(id)),
            PartLink::Reference(id) => PartLink::Reference(change(id)),
        }
    }
}

/// The model's reasoning, open or sealed.
#[derive(Clone, Debug)]
pub struct Thinking {
    /// What can be read of it.
    pub text: Text,
    /// The provider's signature or encrypted copy.
    pub seal: Option<Text>,
}

/// A picture, by what its price depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// Width and height in pixels, where the picture itself is in the message.
    pub pixels: Option<(u32, u32)>,
    /// Whether the client asked for the cheap, coarse reading.
    pub low_detail: bool,
    /// Its size in the request.
    pub bytes: usize,
}

/// A recording, by what its price depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Media {
    /// What it is a recording of.
    pub kind: MediaKind,
    /// The size of the recording itself; zero where only its name or address is in the message.
    pub bytes: usize,
    /// How long it plays, where its format tells.
    pub duration_ms: Option<u64>,
    /// The provider's transcript, if there is one.
    pub transcript: Option<Text>,
}

impl Media {
    /// A recording that is not in the message.
    pub fn elsewhere(kind: MediaKind) -> Self {
        Self { kind, bytes: 0, duration_ms: None, transcript: None }
    }
}

/// What a recording is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MediaKind {
    /// Sound.
    Audio,
    /// Moving pictures.
    Video,
}

/// An attachment.
#[derive(Clone, Debug)]
pub struct File {
    /// The name it goes by.
    pub name: Option<Text>,
    /// Its contents where they are plain text.
    pub text: Option<Text>,
    /// Its size in the request.
    pub bytes: usize,
}

/// A request for a tool.
#[derive(Clone, Debug)]
pub struct ToolCall {
    /// What its result will refer to.
    pub id: Text,
    /// The tool.
    pub name: Text,
    /// Its arguments.
    pub arguments: Text,
    /// Whether the arguments are free text instead of a JSON object.
    pub freeform: bool,
}

/// What a tool answered.
#[derive(Clone, Debug)]
pub struct ToolResult {
    /// The call it answers.
    pub call: Text,
    /// The pieces of the answer: text, images, files, others.
    pub content: Vec<Part>,
    /// The content as it was received: JSON, unless it is one string.
    pub raw: Text,
    /// Whether the tool failed.
    pub error: bool,
    /// Whether the provider refuses text in place of the content, as for a screenshot.
    pub fixed: bool,
    /// Whether it loads tools that the request defers: without it the model cannot call them any more.
    pub loads_tools: bool,
}

impl ToolResult {
    /// Whether there is something in it that is not text, so that it cannot be cut to head and tail.
    pub fn is_binary(&self) -> bool {
        let is_binary =
            |part: &Part| matches!(part, Part::Image(_) | Part::Media(_) | Part::File(_));
        self.content.iter().any(is_binary)
    }

    /// The answer's text where it is nothing but one text.
    pub fn single_text(&self) -> Option<&Text> {
        match self.content.as_slice() {
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }
}

impl Message {
    /// The same message in another source that has the same bytes in the same places.
    ///
    /// Otherwise the message would keep the whole old source in memory.
    #[must_use]
    pub fn moved(&self, from: &Arc<String>, to: &Arc<String>) -> Self {
        Self {
            role: self.role,
            name: self.name.as_ref().map(|name| name.moved(from, to)),
            parts: self.parts.iter().map(|part| part.moved(from, to)).collect(),
            raw: self.raw.moved(from, to),
            thinking: self.thinking.clone(),
        }
    }

    /// A message of these parts.
    pub fn new(role: Role, name: Option<Text>, parts: Vec<Part>, raw: Text) -> Self {
        let thinking = parts.iter().enumerate().filter(|(_, part)| part.is_thinking());
        let thinking = thinking.map(|(at, _)| at).collect();
        Self { role, name, parts, raw, thinking }
    }

    /// The index of the part that is the `said`th without thinking, which clients leave out.
    pub fn part_index(&self, said: usize) -> Option<usize> {
        let (mut before, mut end) = (0, self.thinking.len());
        while before < end {
            let middle = before.midpoint(end);
            if self.thinking[middle] - middle <= said { before = middle + 1 } else { end = middle }
        }
        let part = said.checked_add(before)?;
        (part < self.parts.len()).then_some(part)
    }

    /// How many parts before this one are not thinking; see [`Self::part_index`].
    pub fn said_before(&self, part: usize) -> usize {
        part - self.thinking.partition_point(|thinking| *thinking < part)
    }

    /// The calls it makes.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|part| match part {
            Part::Call(call) => Some(call),
            _ => None,
        })
    }

    /// The results it carries.
    pub fn results(&self) -> impl Iterator<Item = &ToolResult> {
        self.parts.iter().filter_map(|part| match part {
            Part::Result(result) => Some(result),
            _ => None,
        })
    }

    /// Whether it is nothing but a reference to an item that the provider holds.
    pub fn is_reference(&self) -> bool {
        matches!(self.parts.as_slice(), [Part::Other(Other { link: PartLink::Reference(_), .. })])
    }

    /// Whether a person speaks in it: a user message that is more than the carrier of results and of the
    /// block of a fold.
    pub fn is_user_turn(&self) -> bool {
        let is_speech = |part: &Part| !matches!(part, Part::Result(_)) && !is_block(part);
        self.role == Role::User && (self.parts.is_empty() || self.parts.iter().any(is_speech))
    }
}
