//! Whole answers of Chat Completions.

use longhand_core::json::quote;

use crate::recall::tally::Tally;
use crate::recall::{calls, json};

/// The words of a whole answer, if they are a plain text.
pub(in crate::recall) fn said(body: &str) -> Option<String> {
    let choices = json::elements(json::get(body, &["choices"])?);
    json::string(choices.first()?, &["message", "content"])
}

/// Whether any choice of a whole answer has a call of ours.
pub(in crate::recall) fn hides(body: &str) -> bool {
    let choices = json::elements(json::get(body, &["choices"]).unwrap_or_default());
    choices.into_iter().any(|choice| {
        let own = json::get(choice, &["message", "tool_calls"]).unwrap_or_default();
        json::elements(own).into_iter().any(calls::is_ours)
    })
}

/// A whole answer after the words of earlier ones.
pub(in crate::recall) fn whole(body: &str, before: &str, tally: &Tally) -> String {
    let choices = json::elements(json::get(body, &["choices"]).unwrap_or_default());
    let told: Vec<String> = choices.iter().map(|choice| whole_choice(choice, before)).collect();
    let mut told = json::with(body, &["choices"], &json::list(&told));
    if let Some(usage) = json::get(body, &["usage"]) {
        told = json::with(&told, &["usage"], &tally.told(usage));
    }
    told
}

fn whole_choice(choice: &str, before: &str) -> String {
    let mut told = choice.to_owned();
    let Some(message) = json::get(choice, &["message"]) else { return told };
    let own = json::elements(json::get(message, &["tool_calls"]).unwrap_or_default());
    let kept: Vec<&str> = own.iter().copied().filter(|call| !calls::is_ours(call)).collect();
    let mut message = message.to_owned();
    if kept.is_empty() && !own.is_empty() {
        message = json::without(&message, "tool_calls");
        if json::is(choice, &["finish_reason"], "tool_calls") {
            told = json::with(&told, &["finish_reason"], r#""stop""#);
        }
    } else if kept.len() < own.len() {
        message = json::with(&message, &["tool_calls"], &json::list(&kept));
    }
    let content = json::get(&message, &["content"]);
    if !before.is_empty() && content.is_none_or(|content| content.starts_with('"')) {
        let words = json::string(&message, &["content"]).unwrap_or_default();
        message = json::with(&message, &["content"], &quote(&join(before, &words)));
    } else if content.is_none() && kept.is_empty() && !own.is_empty() {
        message = json::with(&message, &["content"], r#""""#);
    }
    json::with(&told, &["message"], &message)
}

/// Words after other words, on a line of their own.
pub(in crate::recall) fn join(before: &str, words: &str) -> String {
    let apart =
        if before.is_empty() || words.is_empty() || before.ends_with('\n') { "" } else { "\n\n" };
    format!("{before}{apart}{words}")
}
