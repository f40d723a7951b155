//! Reasoning that some models want beside every call.

use longhand_core::json::{JsonCursor, JsonKind};
use longhand_core::{ModelName, Role};

use crate::Dialect;
use crate::conversation::Conversation;
use crate::splice::Splices;

/// The names that reasoning goes by.
const KEYS: [&str; 3] = ["reasoning_content", "reasoning", "reasoning_details"];

impl Conversation {
    /// Gives calls without reasoning an empty one where the model demands it.
    pub(crate) fn add_reasoning(&self, splices: &mut Splices, gone: &[bool]) {
        let model = self.model.as_deref();
        let demands = model.is_some_and(|model| ModelName::parse(model).demands_reasoning());
        if self.dialect != Dialect::Chat || !demands {
            return;
        }
        let source = self.bytes();
        for (message, layout) in self.messages.iter().zip(&self.layout) {
            let Some(&element) = layout.elements.first().filter(|element| !gone[**element]) else {
                continue;
            };
            if message.role != Role::Assistant || message.calls().next().is_none() {
                continue;
            }
            let start = self.elements[element].start;
            let node = JsonCursor::at(source, start).node().unwrap_or_default();
            let get = |key: &str| node.get(source, key);
            if KEYS.iter().any(|key| get(key).is_some_and(|value| value.kind != JsonKind::Null)) {
                continue;
            }
            match (get(KEYS[0]), node.fields.last()) {
                (Some(null), _) => splices.replace(null.span(), "\"\"".to_owned()),
                (None, Some((_, last))) => {
                    splices.insert(last.span().end, format!(r#","{}":"""#, KEYS[0]));
                }
                (None, None) => {}
            }
        }
    }
}
