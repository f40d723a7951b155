//! Valid conversations of every shape, for property tests.

mod anthropic;
mod arguments;
mod chat;
mod conversation;
mod responses;
mod text;
mod text_action;

use proptest::strategy::Strategy;

use self::conversation::conversation;

/// Conversations in the form of Chat Completions: a bare array or a request body.
pub fn chat_json() -> impl Strategy<Value = String> {
    conversation().prop_map(|conversation| chat::render(&conversation))
}

/// Conversations in the form of Anthropic Messages: a bare array or a request body.
pub fn anthropic_json() -> impl Strategy<Value = String> {
    conversation().prop_map(|conversation| anthropic::render(&conversation))
}

/// Conversations in the form of Responses: a bare array of items or a request body.
pub fn responses_json() -> impl Strategy<Value = String> {
    conversation().prop_map(|conversation| responses::render(&conversation))
}

/// Chat conversations of an agent without tools: replies end in a fenced command, and the next
/// user message is what the shell printed.
pub fn text_action_json() -> impl Strategy<Value = String> {
    text_action::conversation()
}
