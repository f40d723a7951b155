//! Compaction items of ours: for a client whose provider would compact its history.

use crate::render::input_message;
use crate::said::SaidText;
use crate::source::start_of;
use crate::splice::Splices;
use crate::view::View;

/// How the content of our items begins; no provider's does.
const SEALED: &str = "longhand-fold.";

/// A content that a client cannot read and hands back as it is.
pub fn sealed_content(reference: &str) -> String {
    format!("{SEALED}{reference}")
}

/// The references in the compaction items of a request that are ours, in their order.
///
/// ```
/// use longhand_dialect::{sealed_content, sealed_references};
///
/// let content = sealed_content("7f3a");
/// let request = format!(r#"{{"input":[{{"type":"compaction","encrypted_content":"{content}"}}]}}"#);
/// assert_eq!(sealed_references(&request), ["7f3a"]);
/// ```
pub fn sealed_references(request: &str) -> Vec<String> {
    if !request.contains(SEALED) {
        return Vec::new();
    }
    items(request).into_iter().map(|(_, reference)| reference).collect()
}

/// A request in which messages of the user take the place of these items: `texts` has one for each reference.
pub fn unsealed(request: &str, texts: &[String]) -> String {
    let mut splices = Splices::default();
    for ((span, _), text) in items(request).into_iter().zip(texts) {
        splices.replace(span, input_message(text));
    }
    splices.apply(&request[start_of(request)..])
}

/// Where our items stand, with their references.
fn items(request: &str) -> Vec<(std::ops::Range<usize>, String)> {
    let Some(view) = View::parse(&request[start_of(request)..]) else { return Vec::new() };
    let list = view.get("input").map(View::elements).unwrap_or_default();
    let ours = list.into_iter().filter_map(|item| {
        let content = item.string("encrypted_content").filter(|_| item.is("type", "compaction"))?;
        Some((item.span(), content.strip_prefix(SEALED)?.to_owned()))
    });
    ours.collect()
}

impl SaidText<'_> {
    /// The body of an answer of Responses whose text is the content of one compaction item, and its content type.
    pub fn compaction_body(&self, streams: bool) -> (&'static str, String) {
        let (id, content) = (self.id, longhand_core::json::quote(self.text));
        let item =
            format!(r#"{{"type":"compaction","id":"cmp_{id}","encrypted_content":{content}}}"#);
        if !streams {
            return ("application/json", self.response("completed", &item));
        }
        let body = crate::said::events(&[
            ("response.created", &format!(r#""response":{}"#, self.response("in_progress", ""))),
            ("response.output_item.added", &format!(r#""output_index":0,"item":{item}"#)),
            ("response.output_item.done", &format!(r#""output_index":0,"item":{item}"#)),
            ("response.completed", &format!(r#""response":{}"#, self.response("completed", &item))),
        ]);
        ("text/event-stream; charset=utf-8", body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_items_are_replaced() {
        let ours =
            format!(r#"{{"type":"compaction","encrypted_content":"{}"}}"#, sealed_content("a.1"));
        let foreign = r#"{"type":"compaction","encrypted_content":"gAAAA"}"#;
        let quoted = format!(r#"{{"role":"user","content":"{}"}}"#, sealed_content("b.2"));
        let request = format!(r#"{{"input":[ {ours},{foreign}, {quoted} ],"n":1.0}}"#);
        assert_eq!(sealed_references(&request), ["a.1"]);
        let text = unsealed(&request, &["It \"was\"".to_owned()]);
        assert!(text.contains(r#"It \"was\""#) && !text.contains("a.1"), "{text}");
        assert!(
            text.contains(foreign) && text.contains(&quoted) && text.ends_with(r#" ],"n":1.0}"#)
        );
    }
}
