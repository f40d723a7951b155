//! The text of a round that a fold reads.

use longhand_core::{Message, Part, Role, earlier};

/// How much of a tool's answer, and of what it was asked, a fold reads.
const RESULT_CHARS_MAX: usize = 4_000;
const ARGUMENTS_CHARS_MAX: usize = 1_000;

/// What was said in a round.
#[derive(Clone, Debug, Default)]
pub(crate) struct Said {
    pub(crate) number: u64,
    pub(crate) user: String,
    pub(crate) assistant: String,
    /// Tools by name, with a short account of what they did.
    pub(crate) tools: Vec<(String, String)>,
}

impl Said {
    /// Reads the messages of a round.
    pub(crate) fn of(number: u64, messages: &[&Message]) -> Self {
        Self {
            number,
            user: words(messages, Role::User),
            assistant: words(messages, Role::Assistant),
            tools: tools(messages),
        }
    }
}

/// The words of the user or of the model; the text of an earlier fold belongs to neither.
fn words(messages: &[&Message], role: Role) -> String {
    let of_role = messages.iter().filter(|message| message.role == role);
    let parts = of_role.flat_map(|message| &message.parts).filter(|part| earlier(part).is_none());
    let texts = parts.filter_map(Part::text).map(|text| text.decode().into_owned());
    texts.collect::<Vec<_>>().join("\n")
}

/// Accounts of calls with what they answered, clipped.
fn tools(messages: &[&Message]) -> Vec<(String, String)> {
    let clipped = |text: &str, chars_max: usize| text.chars().take(chars_max).collect::<String>();
    let answer = |id: &str| {
        let mut results = messages.iter().flat_map(|message| message.results());
        let result = results.find(|result| result.call.decode() == id)?;
        let text = result.content.iter().find_map(Part::text)?;
        Some(clipped(&text.decode(), RESULT_CHARS_MAX))
    };
    let calls = messages.iter().flat_map(|message| message.calls());
    calls
        .map(|call| {
            let asked = clipped(&call.arguments.decode(), ARGUMENTS_CHARS_MAX);
            let answered = answer(&call.id.decode()).unwrap_or_default();
            (call.name.decode().into_owned(), format!("{asked} -> {answered}"))
        })
        .collect()
}
