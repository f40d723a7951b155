//! What becomes of thinking when something before it is edited.

use longhand_core::ModelName;
use longhand_core::json::{JsonCursor, JsonKind, JsonValue};

use crate::conversation::Conversation;
use crate::source::start_of;

/// The beta that a request names in `anthropic-beta` if it says what becomes of voided thinking.
pub const BINDING_BETA: &str = "thinking-binding-controls-2026-08-01";

/// The field that tells the provider to drop thinking blocks that an edit invalidated.
const SWITCH: &str = r#""block_binding":{"prefix_mismatch_behavior":"drop_block"}"#;

/// What an edit does to the thinking blocks after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Binding {
    /// Nothing: they are not bound to earlier messages, or the request already tells the provider to drop
    /// invalid ones.
    Free,
    /// They become invalid and have to be removed.
    Removed,
    /// They become invalid, but the provider can be told to drop them.
    Switch,
}

/// The binding of a request, and where the switch goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub(crate) binding: Binding,
    at: usize,
    /// The switch is to be used.
    switched: bool,
}

impl Bound {
    pub(crate) fn new(binding: Binding) -> Self {
        Self { binding, at: 0, switched: false }
    }

    /// Reads the settings of a request to Anthropic.
    pub(crate) fn of(source: &str, model: Option<&str>, thinking: Option<JsonValue>) -> Self {
        let object = thinking.filter(|value| value.kind == JsonKind::Object);
        let node = |value: JsonValue| {
            JsonCursor::at(source, value.span().start).node().unwrap_or_default()
        };
        let settings = object.map(node).unwrap_or_default();
        if let Some(binding) = settings.get(source, "block_binding") {
            let behaviour = node(binding).get(source, "prefix_mismatch_behavior");
            let drops = behaviour.is_some_and(|value| value.is(source, "drop_block"));
            return Self::new(if drops { Binding::Free } else { Binding::Removed });
        }
        let adaptive = settings.get(source, "type").is_some_and(|kind| kind.is(source, "adaptive"));
        let last = settings.fields.last().filter(|_| adaptive);
        let binds = model.is_some_and(|model| ModelName::parse(model).binds_thinking());
        match last.filter(|_| binds) {
            Some((_, last)) => Self { at: last.span().end, ..Self::new(Binding::Switch) },
            None => Self::new(Binding::Removed),
        }
    }

    /// Whether an edit must take thinking out.
    pub(crate) fn removes(self) -> bool {
        self.binding != Binding::Free && !self.switched
    }

    /// The switch that an edited request needs and where it goes, if it needs one.
    pub(crate) fn switch(self) -> Option<(usize, String)> {
        self.switched.then(|| (self.at, format!(",{SWITCH}")))
    }
}

impl Conversation {
    /// What an edit does to thinking blocks.
    pub fn binding(&self) -> Binding {
        self.bound.binding
    }

    /// Keeps thinking blocks if the provider can be told to drop the ones an edit invalidates. Returns whether it can.
    ///
    /// From then on plans leave thinking alone, and [`apply`](Self::apply) puts the switch into a request
    /// that has any edits. The sender of that request has to name [`BINDING_BETA`].
    ///
    /// ```
    /// use longhand_dialect::{Binding, read};
    ///
    /// let json = r#"{"model":"claude-opus-5-5","thinking":{"type":"adaptive"},"system":"s","messages":[]}"#;
    /// let mut conversation = read(json.into(), None)?;
    /// assert_eq!(conversation.binding(), Binding::Switch);
    /// assert!(conversation.keep_thinking());
    /// # Ok::<(), longhand_dialect::DialectError>(())
    /// ```
    pub fn keep_thinking(&mut self) -> bool {
        self.bound.switched = self.bound.binding == Binding::Switch;
        self.bound.switched
    }
}

/// Puts the switch into a request to Anthropic that was edited elsewhere; `None` if it has no use for it.
pub fn keep_thinking(request: &str) -> Option<String> {
    let node = JsonCursor::at(request, start_of(request)).node().ok()?;
    let model = node.get(request, "model").and_then(|value| value.str(request));
    let mut bound = Bound::of(request, model.as_deref(), node.get(request, "thinking"));
    bound.switched = bound.binding == Binding::Switch;
    let (at, switch) = bound.switch()?;
    Some(format!("{}{switch}{}", &request[..at], &request[at..]))
}
