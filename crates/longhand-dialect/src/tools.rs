//! Tools that a request lists.

use longhand_core::json::{JsonKind, quote};

use crate::Dialect;
use crate::edits::Edits;
use crate::view::View;

/// The tool that opens handles, which a proxy offers and answers.
pub const RECALL_TOOL: &str = "longhand_recall";

/// A tool as every format has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolOffer<'t> {
    /// What it goes by.
    pub name: &'t str,
    /// What it is for.
    pub description: &'t str,
    /// The JSON schema of its arguments.
    pub parameters: &'t str,
}

/// Lists a tool after the client's own; `None` where the client has a tool of that name or can have none.
///
/// ```
/// use longhand_dialect::{Dialect, ToolOffer, with_tool};
///
/// let tool = ToolOffer { name: "look", description: "Looks.", parameters: "{}" };
/// assert_eq!(
///     with_tool(Dialect::Anthropic, r#"{"messages":[]}"#, &tool).unwrap(),
///     r#"{"messages":[],"tools":[{"name":"look","description":"Looks.","input_schema":{}}]}"#
/// );
/// ```
pub fn with_tool(dialect: Dialect, request: &str, tool: &ToolOffer) -> Option<String> {
    let view = View::parse(request).filter(|view| view.kind() == JsonKind::Object)?;
    // Functions do not go together with tools; nor can a provider's own conversation be gone on from twice.
    if view.get("functions").is_some() || view.get("conversation").is_some() {
        return None;
    }
    if view.get("tool_choice").is_some_and(|choice| !is_free(choice)) {
        return None;
    }
    let json = tool.write(dialect)?;
    let mut edits = Edits::of(view);
    match view.get("tools") {
        None => edits.set(view, "tools", &format!("[{json}]")),
        Some(list) if list.kind() == JsonKind::Array => {
            let tools = list.elements();
            if tools.iter().any(|known| goes_by(*known, tool.name)) {
                return None;
            }
            match tools.last() {
                Some(newest) => edits.insert(newest.span().end, format!(",{json}")),
                None => edits.insert(list.span().start + 1, json),
            }
        }
        Some(_) => return None,
    }
    edits.finish()
}

/// Whether a request lists tools.
pub fn has_tools(request: &str) -> bool {
    let tools = View::parse(request).and_then(|view| view.get("tools"));
    tools.is_some_and(|tools| tools.kind() == JsonKind::Array && !tools.elements().is_empty())
}

/// Whether a model may call any tool that is listed: none is forced, and the others are not forbidden.
fn is_free(choice: View) -> bool {
    let kind = choice.get("type").unwrap_or(choice).str();
    choice.kind() == JsonKind::Null
        || kind.is_some_and(|kind| ["auto", "any", "required"].contains(&&*kind))
}

/// Whether a listed tool has that name.
pub(crate) fn goes_by(tool: View, name: &str) -> bool {
    let inner = ["function", "custom"].iter().filter_map(|kind| tool.get(kind));
    tool.is("name", name) || inner.into_iter().any(|inner| inner.is("name", name))
}

impl ToolOffer<'_> {
    /// The tool as a request in that format lists it; `None` for session files, which list none.
    pub fn write(&self, dialect: Dialect) -> Option<String> {
        let Self { parameters, .. } = self;
        let (name, description) = (quote(self.name), quote(self.description));
        let about = format!(r#""name":{name},"description":{description}"#);
        Some(match dialect {
            Dialect::Chat => {
                format!(r#"{{"type":"function","function":{{{about},"parameters":{parameters}}}}}"#)
            }
            Dialect::Responses => {
                format!(r#"{{"type":"function",{about},"parameters":{parameters},"strict":false}}"#)
            }
            Dialect::Anthropic => format!(r#"{{{about},"input_schema":{parameters}}}"#),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOL: ToolOffer = ToolOffer { name: "look", description: "Looks.", parameters: "{}" };

    #[test]
    fn it_comes_last_and_the_rest_stays() {
        let tool = TOOL.write(Dialect::Anthropic).unwrap();
        for (request, expected) in [
            (r#"{"messages":[] , "x":1.0 }"#, Some(r#"{"messages":[] , "x":1.0,"tools":[TOOL] }"#)),
            (r#"{"tools": [ ],"messages":[]}"#, Some(r#"{"tools": [TOOL ],"messages":[]}"#)),
            (r#"{"tools":[ {"name":"a"} ]}"#, Some(r#"{"tools":[ {"name":"a"},TOOL ]}"#)),
            (r#"{"tools":null}"#, Some(r#"{"tools":[TOOL]}"#)),
            (r#"{"tools":[{"name":"look"}]}"#, None),
            (r#"{"tools":[{"type":"function","function":{"name":"look"}}]}"#, None),
            (r#"{"tools":1}"#, None),
            (r#"{"functions":[]}"#, None),
            (r#"{"conversation":"conv_1"}"#, None),
            (r#"{"tool_choice":"none"}"#, None),
            (r#"{"tool_choice":{"type":"none"}}"#, None),
            (r#"{"tool_choice":{"type":"tool","name":"a"}}"#, None),
            (r#"{"tool_choice":{"type":"function","function":{"name":"a"}}}"#, None),
            (r#"{"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[]}}"#, None),
            (r#"{"tool_choice":"auto"}"#, Some(r#"{"tool_choice":"auto","tools":[TOOL]}"#)),
            (
                r#"{"tool_choice":{"type":"any"}}"#,
                Some(r#"{"tool_choice":{"type":"any"},"tools":[TOOL]}"#),
            ),
            ("[]", None),
        ] {
            let offered = with_tool(Dialect::Anthropic, request, &TOOL);
            assert_eq!(offered, expected.map(|expected| expected.replace("TOOL", &tool)));
        }
    }

    #[test]
    fn it_is_known_again_in_every_format() {
        for dialect in [Dialect::Chat, Dialect::Responses, Dialect::Anthropic] {
            let tool = TOOL.write(dialect).unwrap();
            assert!(goes_by(View::parse(&tool).unwrap(), "look"), "{tool}");
        }
    }
}
