//! Answers of Responses.

use std::collections::BTreeMap;

use longhand_core::json::quote;

use super::{Reply, Stop, Usage};
use crate::view::View;

pub(super) fn read(view: View) -> Option<Reply> {
    let output = view.get("output")?;
    Some(reply(output.raw(), output, &Attributes::of(view)))
}

/// An answer as far as it has come.
#[derive(Debug, Default)]
pub(super) struct Stream {
    items: BTreeMap<u64, String>,
    /// The text of items, by their place.
    said: BTreeMap<u64, String>,
    begun: Attributes,
    ended: Option<(Attributes, String)>,
}

#[derive(Debug, Default)]
struct Attributes {
    id: Option<String>,
    usage: Option<Usage>,
    model: Option<String>,
    status: Option<String>,
    reason: Option<String>,
}

impl Attributes {
    fn of(response: View) -> Self {
        let reason = response.get("incomplete_details");
        Self {
            id: response.string("id"),
            usage: response.get("usage").map(usage),
            model: response.string("model"),
            status: response.string("status"),
            reason: reason.and_then(|reason| reason.string("reason")),
        }
    }
}

impl Stream {
    pub(super) fn push(&mut self, view: View) -> String {
        let index = view.number("output_index").unwrap_or(self.items.len() as u64);
        match view.string("type").as_deref() {
            Some("response.output_text.delta" | "response.refusal.delta") => {
                let delta = view.string("delta").unwrap_or_default();
                self.said.entry(index).or_default().push_str(&delta);
                return delta;
            }
            Some("response.output_item.done") => {
                if let Some(item) = view.get("item") {
                    self.items.insert(index, item.raw().to_owned());
                }
            }
            Some("response.created") => {
                self.begun = view.get("response").map(Attributes::of).unwrap_or_default();
            }
            Some("response.completed" | "response.incomplete" | "response.done") => {
                if let Some(response) = view.get("response") {
                    let output = response.get("output").map_or("[]", View::raw).to_owned();
                    self.ended = Some((Attributes::of(response), output));
                }
            }
            _ => {}
        }
        String::new()
    }

    pub(super) fn is_done(&self) -> bool {
        self.ended.is_some()
    }

    /// The items, if they came to their end.
    ///
    /// Items that came one by one are complete; the list at the end may lack what is encrypted.
    pub(super) fn finish(self) -> Option<Reply> {
        let (mut attributes, output) = self.ended?;
        attributes.id = attributes.id.or(self.begun.id);
        let own = self.items.into_values().collect::<Vec<_>>().join(",");
        let output = match (own.is_empty(), output == "[]") {
            (false, _) => format!("[{own}]"),
            (true, false) => output,
            (true, true) if self.said.is_empty() => output,
            (true, true) => {
                let said: String = self.said.into_values().collect();
                format!("[{}]", output_message(&said))
            }
        };
        let view = View::parse(&output)?;
        Some(reply(&output, view, &attributes))
    }

    /// The items as far as they have come: those that are complete, and the text of others.
    pub(super) fn partial(mut self) -> Option<Reply> {
        for (index, text) in self.said {
            if !text.trim().is_empty() {
                self.items.entry(index).or_insert_with(|| output_message(&text));
            }
        }
        let mut items: Vec<String> = self.items.into_values().collect();
        // Reasoning is refused without what it led to.
        let is_reasoning =
            |item: &String| View::parse(item).is_some_and(|view| view.is("type", "reasoning"));
        while items.last().is_some_and(is_reasoning) {
            items.pop();
        }
        let output = format!("[{}]", items.join(","));
        Some(reply(&output, View::parse(&output)?, &self.begun))
    }
}

/// An item that says something.
fn output_message(text: &str) -> String {
    let text = quote(text);
    format!(
        r#"{{"type":"message","role":"assistant","content":[{{"type":"output_text","text":{text}}}]}}"#
    )
}

fn reply(raw: &str, output: View, attributes: &Attributes) -> Reply {
    let items = output.elements();
    let parts = || items.iter().filter_map(|item| item.get("content")).flat_map(View::elements);
    let words = |kind: &str, key: &str| -> String {
        parts().filter(|part| part.is("type", kind)).filter_map(|part| part.string(key)).collect()
    };
    let refusal = words("refusal", "refusal");
    let has_more =
        items.iter().any(|item| !item.is("type", "message") && !item.is("type", "reasoning"));
    let calls = ["function_call", "custom_tool_call"];
    let stop = match (attributes.status.as_deref(), attributes.reason.as_deref()) {
        _ if !refusal.is_empty() => Stop::Refused,
        (_, Some("max_output_tokens")) => Stop::Length,
        (_, Some("content_filter")) => Stop::Refused,
        (_, Some(other)) => Stop::Other(other.to_owned()),
        (Some("completed") | None, _)
            if items.iter().any(|item| calls.iter().any(|call| item.is("type", call))) =>
        {
            Stop::Tools
        }
        (Some("completed") | None, _) => Stop::End,
        (Some(other), _) => Stop::Other(other.to_owned()),
    };
    Reply {
        id: attributes.id.clone(),
        text: words("output_text", "text") + &refusal,
        message: raw.to_owned(),
        usage: attributes.usage,
        stop,
        model: attributes.model.clone(),
        has_more,
    }
}

fn usage(view: View) -> Usage {
    let details = view.get("input_tokens_details");
    let detail = |key: &str| details.and_then(|details| details.number(key)).unwrap_or(0);
    Usage {
        input: view.number("input_tokens").unwrap_or(0),
        cached_input: detail("cached_tokens"),
        cache_write: detail("cache_write_tokens"),
        output: view.number("output_tokens").unwrap_or(0),
    }
}
