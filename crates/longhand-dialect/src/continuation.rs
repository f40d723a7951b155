//! A window of a session file, written as its agent's own compaction is: a new beginning behind all other lines,
//! or a session of its own.

use std::collections::HashMap;

use longhand_core::json::{self, JsonCursor, JsonKind, JsonNode, JsonValue};
use longhand_core::{Handle, Projection, Shown};

use crate::Dialect;
use crate::conversation::Conversation;
use crate::loaded::{CLEARED, is_cleared};
use crate::render::{input_message, text_block};
use crate::session::{name, node};
use crate::splice::Splices;

/// What a new line of Claude Code has in common with the one before it.
const COPIED: [&str; 6] = ["isSidechain", "userType", "entrypoint", "cwd", "version", "gitBranch"];

/// What a new session file says of itself.
#[derive(Clone, Debug)]
pub struct SessionFileStart {
    /// Its id, a UUID.
    pub id: String,
    /// When it begins, as in RFC 3339.
    pub time: String,
    /// The file that it goes on from.
    pub parent: String,
    /// What the window before counted for.
    pub tokens_before: u64,
}

impl Conversation {
    /// Writes a window as a session of its own, which the agent can go on in; `None` if this is no session file that
    /// was read as its agent loads it.
    pub fn as_new_session(&self, window: &Projection, file: &SessionFileStart) -> Option<String> {
        self.loaded.as_ref()?;
        let lines = Continuation::of(self, Some(file)).lines(window);
        Some(format!("{}\n", lines.join("\n")))
    }

    /// Takes back what the provider counted for an answer: it was for other messages. An agent takes the size of its
    /// context from there, and would compact the shorter one at once.
    pub(crate) fn void_usage(&self, splices: &mut Splices, element: usize) {
        let source = self.bytes();
        let object = |node: &JsonNode, key: &str| {
            let value = node.get(source, key).filter(|value| value.kind == JsonKind::Object)?;
            JsonCursor::at(source, value.span().start).node().ok()
        };
        let message = object(&node(self, element), "message");
        let Some(usage) = message.and_then(|message| object(&message, "usage")) else { return };
        for (_, value) in usage.fields.iter().filter(|(_, value)| value.kind == JsonKind::Number) {
            splices.replace(value.span(), "0".to_owned());
        }
    }

    /// Adds a window behind all lines of the file, where its agent finds it instead of them.
    pub(crate) fn with_continuation(&self, window: &Projection) -> String {
        let lines = Continuation::of(self, None).lines(window);
        // Half a line at the end stays one.
        let end = if self.source.ends_with('\n') { "" } else { "\n" };
        format!("{}{end}{}\n", self.source, lines.join("\n"))
    }
}

/// The lines of a window on their way to the end of a file.
struct Continuation<'c> {
    conversation: &'c Conversation,
    source: &'c str,
    file: Option<&'c SessionFileStart>,
    /// The id of the line before, quoted.
    parent: String,
    /// The new ids of lines, by their old ones.
    renamed: HashMap<String, String>,
}

impl<'c> Continuation<'c> {
    fn of(conversation: &'c Conversation, file: Option<&'c SessionFileStart>) -> Self {
        let (source, parent) = (conversation.bytes(), "null".to_owned());
        Self { conversation, source, file, parent, renamed: HashMap::new() }
    }

    fn lines(mut self, window: &Projection) -> Vec<String> {
        let mut splices = Splices::default();
        let mut gone = vec![false; self.conversation.elements.len()];
        self.conversation.write_changes(window, &mut splices, &mut gone);
        match self.conversation.dialect {
            Dialect::Codex => self.codex(window, &splices, &gone),
            _ => self.chained(window, splices, &gone),
        }
    }

    /// A name for a line that follows from its old one; the same line has another one in another file.
    fn new_name(&self, old: &str) -> String {
        let length = self.source.len().to_string();
        let of_file = self.file.map_or(&*length, |file| &file.id);
        name(Handle::of([of_file, "\n", old]))
    }

    /// Lines that are chained by their parents: those of Claude Code and pi.
    fn chained(&mut self, window: &Projection, mut splices: Splices, gone: &[bool]) -> Vec<String> {
        let conversation = self.conversation;
        let mut lines = self.header(window);
        let mut written: Vec<Result<String, usize>> = Vec::new();
        let blocks = |at: usize| window.block.as_ref().filter(|block| block.before == at);
        for at in 0..=conversation.messages.len() {
            if let Some(block) = blocks(at) {
                written.push(Ok(self.summary(block.handle, &block.text)));
            }
            if window.messages.get(at).is_none_or(|shown| *shown == Shown::Folded) {
                continue;
            }
            for (part, _) in conversation.messages[at]
                .parts
                .iter()
                .enumerate()
                .filter(|(_, part)| is_cleared(part))
            {
                conversation.write_body(&mut splices, at, part, CLEARED);
            }
            for element in conversation.layout[at].elements.iter().copied() {
                if !gone[element] {
                    self.patch(&mut splices, element);
                    written.push(Err(element));
                }
            }
        }
        lines.extend(written.into_iter().map(|line| {
            line.unwrap_or_else(|element| {
                splices.apply_within(self.source, conversation.elements[element].clone())
            })
        }));
        lines
    }

    /// What stands before the messages.
    fn header(&mut self, window: &Projection) -> Vec<String> {
        let conversation = self.conversation;
        if conversation.dialect == Dialect::Pi {
            let Some(file) = self.file else { return Vec::new() };
            let old = conversation.elements.first().map(|_| node(conversation, 0));
            let cwd = old.and_then(|old| Some(&self.source[old.get(self.source, "cwd")?.span()]));
            let (id, time) = (json::quote(&file.id), json::quote(&file.time));
            let parent = json::quote(&file.parent);
            return vec![format!(
                r#"{{"type":"session","version":3,"id":{id},"timestamp":{time},"cwd":{},"parentSession":{parent}}}"#,
                cwd.unwrap_or("\"\"")
            )];
        }
        if window.block.is_none() {
            return Vec::new();
        }
        let (last, head) = self.head();
        let old = last.and_then(|line| Some(&self.source[line.get(self.source, "uuid")?.span()]));
        let uuid = json::quote(&self.new_name("boundary"));
        let line = format!(
            r#"{{"parentUuid":null,"logicalParentUuid":{},{head}"type":"system","subtype":"compact_boundary","content":"Conversation compacted","isMeta":false,"uuid":{uuid},"level":"info","compactMetadata":{{"trigger":"manual","preTokens":{}}}}}"#,
            old.unwrap_or("null"),
            self.file.map_or(0, |file| file.tokens_before)
        );
        self.parent = uuid;
        vec![line]
    }

    /// The newest line that is loaded, and the fields that a new line takes from it.
    fn head(&self) -> (Option<JsonNode>, String) {
        let conversation = self.conversation;
        let newest = conversation.layout.iter().flat_map(|layout| &layout.elements).max();
        let Some(line) = newest.map(|newest| node(conversation, *newest)) else {
            return (None, String::new());
        };
        let mut head: String = COPIED
            .iter()
            .filter_map(|key| {
                let value = line.get(self.source, key)?;
                Some(format!("\"{key}\":{},", &self.source[value.span()]))
            })
            .collect();
        let field = |key: &str| line.get(self.source, key).map(|value| &self.source[value.span()]);
        let id = self.file.map(|file| json::quote(&file.id));
        if let Some(id) = id.as_deref().or_else(|| field("sessionId")) {
            head.push_str(&format!("\"sessionId\":{id},"));
        }
        if let Some(time) = field("timestamp") {
            head.push_str(&format!("\"timestamp\":{time},"));
        }
        (Some(line), head)
    }

    /// The line that stands for what is folded.
    fn summary(&mut self, handle: Handle, text: &str) -> String {
        let quoted = json::quote(text);
        let id = json::quote(&self.new_name(&handle.to_string()));
        let parent = std::mem::replace(&mut self.parent, id.clone());
        if self.conversation.dialect == Dialect::Pi {
            let time = self.head().0.and_then(|line| {
                Some(format!(
                    "\"timestamp\":{},",
                    &self.source[line.get(self.source, "timestamp")?.span()]
                ))
            });
            return format!(
                r#"{{"type":"message","id":{id},"parentId":{parent},{}"message":{{"role":"user","content":[{}]}}}}"#,
                time.unwrap_or_default(),
                text_block(&quoted)
            );
        }
        let head = self.head().1;
        format!(
            r#"{{"parentUuid":{parent},{head}"type":"user","message":{{"role":"user","content":{quoted}}},"isVisibleInTranscriptOnly":true,"isCompactSummary":true,"uuid":{id}}}"#
        )
    }

    /// Gives a line its new place in the chain.
    fn patch(&mut self, splices: &mut Splices, element: usize) {
        let line = node(self.conversation, element);
        let (id_key, parent_key) = match self.conversation.dialect {
            Dialect::Pi => ("id", "parentId"),
            _ => ("uuid", "parentUuid"),
        };
        let get = |key: &str| line.get(self.source, key);
        let old =
            get(id_key).and_then(|value| value.str(self.source)).map(std::borrow::Cow::into_owned);
        // Two lines of a damaged file may have one name.
        let id = format!("{} {element}", old.as_deref().unwrap_or_default());
        let id = json::quote(&self.new_name(&id));
        let parent = std::mem::replace(&mut self.parent, id.clone());
        let mut added = String::new();
        for (key, value) in [(id_key, &id), (parent_key, &parent)] {
            match get(key) {
                Some(place) => splices.replace(place.span(), value.clone()),
                None => added.push_str(&format!("\"{key}\":{value},")),
            }
        }
        if !added.is_empty() {
            splices.insert(line.value.span().start + 1, added);
        }
        if let Some(old) = old {
            self.renamed.insert(old, id);
        }
        self.conversation.void_usage(splices, element);
        if self.conversation.dialect == Dialect::Pi {
            return;
        }
        if let (Some(place), Some(file)) = (get("sessionId"), self.file) {
            splices.replace(place.span(), json::quote(&file.id));
        }
        for key in ["sourceToolAssistantUUID", "logicalParentUuid"] {
            let Some(place) = get(key) else { continue };
            let name = place.str(self.source).and_then(|old| self.renamed.get(&*old));
            if let Some(name) = name {
                splices.replace(place.span(), name.clone());
            }
        }
        if let Some(message) = get("message").filter(|value| value.kind == JsonKind::Object) {
            self.patch_message(splices, message);
        }
    }

    /// An agent gathers the lines of an answer by its id.
    fn patch_message(&self, splices: &mut Splices, message: JsonValue) {
        let message = self.object(message);
        if let (Some(id), None) = (message.get(self.source, "id"), self.file)
            && let Some(old) = id.str(self.source)
        {
            splices.replace(id.span(), json::quote(&format!("msg_{}", self.new_name(&old))));
        }
    }

    fn object(&self, value: JsonValue) -> JsonNode {
        JsonCursor::at(self.source, value.span().start).node().unwrap_or_default()
    }

    /// A history that takes the place of the one before.
    fn codex(&self, window: &Projection, splices: &Splices, gone: &[bool]) -> Vec<String> {
        let conversation = self.conversation;
        let mut items: Vec<String> = Vec::new();
        let mut summary = String::new();
        for at in 0..=conversation.messages.len() {
            if let Some(block) = window.block.as_ref().filter(|block| block.before == at) {
                items.push(input_message(&block.text));
                summary.clone_from(&block.text);
            }
            if window.messages.get(at).is_none_or(|shown| *shown == Shown::Folded) {
                continue;
            }
            let layout = &conversation.layout[at];
            let Some(element) = layout.elements.first().filter(|element| !gone[**element]) else {
                continue;
            };
            match layout.item.clone().or_else(|| self.payload(*element)) {
                Some(span) => items.push(splices.apply_within(self.source, span)),
                // A summary without a history.
                None => items.extend(self.quoted_summary(*element)),
            }
        }
        let newest = conversation.elements.len().checked_sub(1);
        let time = newest.and_then(|at| self.copied(at, "timestamp"));
        let time = self.file.map(|file| json::quote(&file.time)).or(time);
        let mut head = time.map_or_else(String::new, |time| format!("\"timestamp\":{time},"));
        let mut lines = self.file.map_or_else(Vec::new, |file| self.codex_header(file));
        if let Some(newest) = newest.and_then(|at| self.copied(at, "ordinal")?.parse::<u64>().ok())
        {
            let next = if self.file.is_some() { lines.len() as u64 } else { newest + 1 };
            head.push_str(&format!("\"ordinal\":{next},"));
        }
        let compacted = format!(
            r#"{{{head}"type":"compacted","payload":{{"message":{},"replacement_history":[{}]}}}}"#,
            json::quote(&summary),
            items.join(",")
        );
        lines.push(compacted);
        lines
    }

    fn copied(&self, element: usize, key: &str) -> Option<String> {
        let value = node(self.conversation, element).get(self.source, key)?;
        Some(self.source[value.span()].to_owned())
    }

    /// The item of a line.
    fn payload(&self, element: usize) -> Option<std::ops::Range<usize>> {
        let line = node(self.conversation, element);
        let is_item = line.get(self.source, "type")?.is(self.source, "response_item");
        line.get(self.source, "payload").filter(|_| is_item).map(|payload| payload.span())
    }

    fn quoted_summary(&self, element: usize) -> Option<String> {
        let payload = self.object(node(self.conversation, element).get(self.source, "payload")?);
        Some(input_message(&payload.get(self.source, "message")?.str(self.source)?))
    }

    /// What the first line says, with the new id, and the newest settings of a turn.
    fn codex_header(&self, file: &SessionFileStart) -> Vec<String> {
        let conversation = self.conversation;
        let nodes = (0..conversation.elements.len()).map(|at| node(conversation, at));
        let (mut meta, mut context) = (None, None);
        for line in nodes {
            let Some(kind) = line.get(self.source, "type") else { continue };
            if kind.is(self.source, "session_meta") && meta.is_none() {
                meta = Some(line);
            } else if kind.is(self.source, "turn_context") {
                context = Some(line);
            }
        }
        let mut splices = Splices::default();
        if let Some(meta) = &meta {
            let payload = meta.get(self.source, "payload").map(|payload| self.object(payload));
            let (id, time) = (json::quote(&file.id), json::quote(&file.time));
            for (key, value) in [("id", &id), ("session_id", &id), ("timestamp", &time)] {
                let place = payload.as_ref().and_then(|payload| payload.get(self.source, key));
                if let Some(place) = place {
                    splices.replace(place.span(), value.clone());
                }
            }
            if let Some(place) = meta.get(self.source, "timestamp") {
                splices.replace(place.span(), time);
            }
        }
        let lines: Vec<JsonNode> = [meta, context].into_iter().flatten().collect();
        // Newer versions count the lines.
        for (at, line) in lines.iter().enumerate() {
            if let Some(place) = line.get(self.source, "ordinal") {
                splices.replace(place.span(), at.to_string());
            }
        }
        let lines = lines.into_iter();
        lines.map(|line| splices.apply_within(self.source, line.value.span())).collect()
    }
}
