//! The tool as a request lists it.

use longhand_core::json::{Cursor, Kind};
use longhand_dialect::{Dialect, keep_thinking};

use super::{NAME, json};

/// A request with the tool in it.
pub(crate) struct Offer {
    pub(crate) request: String,
    /// Whether the provider is told to drop thinking that a hidden call voids.
    pub(crate) drops_thinking: bool,
}

const DESCRIPTION: &str = "Brings back parts of this conversation that are no longer shown. Marks that \
begin with [longhand and name a handle, h: and twelve letters and digits, stand for them: give that handle to read \
what it stands for, a query to search everything said before, or both to find the query in what the handle \
stands for.";

const PARAMETERS: &str = r#"{"type":"object","properties":{"handle":{"type":"string","description":"The handle of a mark"},"query":{"type":"string","description":"Words to search for"}}}"#;

/// Lists the tool after the client's own; `None` where that has such a tool itself or can have none.
pub(crate) fn offer(dialect: Dialect, request: &str) -> Option<Offer> {
    let node = Cursor::new(request).node().ok()?;
    // Functions do not go together with tools; nor can a provider's own conversation be gone on from twice.
    let has = |key| json::get(request, &[key]).is_some();
    if node.value.kind != Kind::Object || has("functions") || has("conversation") {
        return None;
    }
    let tool = tool(dialect)?;
    let request = match node.get(request, "tools") {
        None => json::with(request, &["tools"], &format!("[{tool}]")),
        Some(own) if own.kind == Kind::Null => {
            json::with(request, &["tools"], &format!("[{tool}]"))
        }
        Some(own) if own.kind == Kind::Array => {
            let span = own.span();
            let listed = json::elements(&request[span.clone()]);
            if listed.iter().any(|tool| is_ours(tool)) {
                return None;
            }
            let inside = request[..span.end - 1].trim_end().len();
            let comma = if listed.is_empty() { "" } else { "," };
            format!("{}{comma}{tool}{}", &request[..inside], &request[inside..])
        }
        Some(_) => return None,
    };
    let switched = (dialect == Dialect::Anthropic).then(|| keep_thinking(&request)).flatten();
    let drops_thinking = switched.is_some();
    Some(Offer { request: switched.unwrap_or(request), drops_thinking })
}

/// Whether a listed tool goes by our name.
pub(super) fn is_ours(tool: &str) -> bool {
    [&["name"][..], &["function", "name"], &["custom", "name"]]
        .iter()
        .any(|path| json::is(tool, path, NAME))
}

fn tool(dialect: Dialect) -> Option<String> {
    let about = format!(r#""name":"{NAME}","description":"{DESCRIPTION}""#);
    Some(match dialect {
        Dialect::Chat => {
            format!(r#"{{"type":"function","function":{{{about},"parameters":{PARAMETERS}}}}}"#)
        }
        Dialect::Responses => {
            format!(r#"{{"type":"function",{about},"parameters":{PARAMETERS},"strict":false}}"#)
        }
        Dialect::Anthropic => format!(r#"{{{about},"input_schema":{PARAMETERS}}}"#),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_last_and_the_rest_stays() {
        let tool = tool(Dialect::Anthropic).unwrap();
        for (request, expected) in [
            (r#"{"messages":[] , "x":1.0 }"#, Some(r#"{"messages":[] , "x":1.0,"tools":[TOOL] }"#)),
            (r#"{"tools": [ ],"messages":[]}"#, Some(r#"{"tools": [TOOL ],"messages":[]}"#)),
            (r#"{"tools":[ {"name":"a"} ]}"#, Some(r#"{"tools":[ {"name":"a"},TOOL ]}"#)),
            (r#"{"tools":null}"#, Some(r#"{"tools":[TOOL]}"#)),
            (r#"{"tools":[{"name":"longhand_recall"}]}"#, None),
            (r#"{"tools":[{"type":"function","function":{"name":"longhand_recall"}}]}"#, None),
            (r#"{"tools":1}"#, None),
            (r#"{"functions":[]}"#, None),
            (r#"{"conversation":"conv_1"}"#, None),
            ("[]", None),
        ] {
            let offered = offer(Dialect::Anthropic, request).map(|offer| offer.request);
            assert_eq!(offered, expected.map(|expected| expected.replace("TOOL", &tool)));
        }
    }

    #[test]
    fn it_is_json_in_every_format() {
        for dialect in [Dialect::Chat, Dialect::Responses, Dialect::Anthropic] {
            let tool: serde_json::Value = serde_json::from_str(&tool(dialect).unwrap()).unwrap();
            assert!(is_ours(&tool.to_string()));
        }
    }
}
