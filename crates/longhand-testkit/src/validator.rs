//! A second opinion on what providers accept, written from their documentation alone.
//!
//! It shares no code with `longhand-dialect`, so that a rule which is misread there is noticed here.
//! Three rules are stricter than the providers: no two Anthropic messages of one role in a row, no
//! empty text in any format, and arguments of functions always hold a JSON object.

mod anthropic;
mod anthropic_blocks;
mod anthropic_request;
mod chat;
mod edit;
mod model;
mod pixels;
mod responses;
mod responses_items;
mod rules;

use serde_json::Value;

pub use self::edit::validate_edit;
use self::rules::ViolationReport;

/// The wire format of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WireFormat {
    /// Chat Completions.
    Chat,
    /// The items of Responses.
    Responses,
    /// Anthropic Messages.
    Anthropic,
}

impl WireFormat {
    /// All formats.
    pub const ALL: [Self; 3] = [Self::Chat, Self::Responses, Self::Anthropic];

    /// The field of a request that holds the conversation.
    pub(crate) fn list_field(self) -> &'static str {
        match self {
            Self::Chat | Self::Anthropic => "messages",
            Self::Responses => "input",
        }
    }
}

/// Returns every rule that a request or a bare list of messages breaks, each as a sentence with its place.
///
/// An empty list of messages breaks none.
///
/// ```
/// use longhand_testkit::validator::{WireFormat, validate};
///
/// let json = r#"{"messages":[{"role":"user","content":""}]}"#;
/// assert_eq!(validate(WireFormat::Chat, json), ["messages[0].content: the text is empty"]);
/// ```
pub fn validate(dialect: WireFormat, json: &str) -> Vec<String> {
    let mut report = ViolationReport::default();
    let document: Value = match serde_json::from_str(json) {
        Ok(document) => document,
        Err(error) => {
            report.add("request", format!("the JSON does not parse: {error}"));
            return report.violations;
        }
    };
    match dialect {
        WireFormat::Chat => chat::validate(&document, &mut report),
        WireFormat::Responses => responses::validate(&document, &mut report),
        WireFormat::Anthropic => anthropic::validate(&document, json.len(), &mut report),
    }
    report.violations
}

/// Finds the messages of a request; a bare list is its own.
fn messages_of(dialect: WireFormat, document: &Value) -> Option<&Vec<Value>> {
    document.as_array().or_else(|| document.get(dialect.list_field())?.as_array())
}
