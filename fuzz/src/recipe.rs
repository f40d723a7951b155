//! Bytes as a valid conversation, a budget and settings.

use arbitrary::{Result, Unstructured};
use longhand_core::json::quote;
use longhand_core::{Budget, PlanSettings, Policy, Rolling, Tokens};

/// How to make a case: a chat, and what to do with it.
#[derive(Debug)]
pub struct Recipe {
    /// The conversation.
    pub json: String,
    /// How to compact it.
    pub settings: PlanSettings,
    limit_permille: u64,
    reserve_permille: u64,
    target_permille: Option<u64>,
}

const ROLLING: Rolling = Rolling { rounds_max: 3, summary_max: Tokens(4_000) };
const MESSAGES_MAX: usize = 24;
/// About how long a text is at the most.
const BYTES_MAX: usize = 1_500;

impl Recipe {
    /// Follows the bytes; where they end, so does the conversation.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut u = Unstructured::new(bytes);
        let settings = PlanSettings {
            policy: *u.choose(&[
                Policy::Auto,
                Policy::Elide,
                Policy::Trim,
                Policy::Rolling(ROLLING),
            ])?,
            keep_tail: if u.arbitrary()? { Some(u.int_in_range(0..=12)?) } else { None },
            chars_min: *u.choose(&[256, 256, 0, 1, 40, 600])?,
            last_resort: u.arbitrary()?,
            clip_new_percent: None,
        };
        let limit_permille = u.int_in_range(0..=1_200)?;
        let reserve_permille = if u.arbitrary()? { u.int_in_range(0..=400)? } else { 0 };
        let target_permille = if u.arbitrary()? { Some(u.int_in_range(0..=1_000)?) } else { None };
        let json = conversation(&mut u)?;
        Ok(Self { json, settings, limit_permille, reserve_permille, target_permille })
    }

    /// The budget, as shares of the conversation's size.
    pub fn budget(&self, total: Tokens) -> Budget {
        let limit = total.0 * self.limit_permille / 1_000;
        let share = |permille: u64| Tokens(limit * permille / 1_000);
        Budget {
            reserve: share(self.reserve_permille),
            target: self.target_permille.map(share),
            ..Budget::of(Tokens(limit))
        }
    }
}

fn conversation(u: &mut Unstructured) -> Result<String> {
    let whole_request: bool = u.arbitrary()?;
    let mut messages = Vec::new();
    while !u.is_empty() && messages.len() < MESSAGES_MAX {
        match u.int_in_range(0..=9)? {
            0 => messages.push(said(u.choose(&["system", "developer"])?, u)?),
            1 | 2 => messages.push(said("user", u)?),
            3 => messages.push(picture(u)?),
            4 => messages.push(said("assistant", u)?),
            5 => text_action(u, &mut messages)?,
            _ => step(u, &mut messages)?,
        }
    }
    let list = format!("[{}]", messages.join(u.choose(&[",", ",\n  "])?));
    if !whole_request {
        return Ok(list);
    }
    let tool = r#"{"type":"function","function":{"name":"read","parameters":{}}}"#;
    Ok(format!(r#"{{"model":"m","tools":[{tool}],"messages":{list},"stream":false}}"#))
}

fn said(role: &str, u: &mut Unstructured) -> Result<String> {
    let text = text(u)?;
    Ok(if u.arbitrary()? {
        format!(r#"{{"role":"{role}","content":[{{"type":"text","text":{text}}}]}}"#)
    } else {
        format!(r#"{{"role":"{role}","content":{text}}}"#)
    })
}

fn picture(u: &mut Unstructured) -> Result<String> {
    let url = r#"{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}"#;
    let text = text(u)?;
    Ok(format!(r#"{{"role":"user","content":[{{"type":"text","text":{text}}},{url}]}}"#))
}

/// An agent without tools: a command in the reply, its output as a user message.
fn text_action(u: &mut Unstructured, messages: &mut Vec<String>) -> Result<()> {
    let output = format!("Observation: {}", words(u)?);
    messages.push(r#"{"role":"assistant","content":"Now:\n```\nls\n```"}"#.to_owned());
    messages.push(format!(r#"{{"role":"user","content":{}}}"#, quote(&output)));
    Ok(())
}

/// A reply with calls, and their results in any order.
fn step(u: &mut Unstructured, messages: &mut Vec<String>) -> Result<()> {
    let asker = messages.len();
    let content = if u.arbitrary()? { text(u)? } else { "null".to_owned() };
    let (mut calls, mut results) = (Vec::new(), Vec::new());
    for call in 0..u.int_in_range(1..=3)? {
        let id = format!("call_{asker}_{call}");
        let name = u.choose(&["read", "write", "shell"])?;
        let arguments = quote(&format!(r#"{{"path":"src/a.rs","text":{},"n":1}}"#, text(u)?));
        calls.push(format!(
            r#"{{"id":"{id}","type":"function","function":{{"name":"{name}","arguments":{arguments}}}}}"#
        ));
        let output = text(u)?;
        let output = if u.ratio(1, 4)? {
            format!(r#"[{{"type":"text","text":{output}}},{{"type":"text","text":"and"}}]"#)
        } else {
            output
        };
        let result = format!(r#"{{"role":"tool","tool_call_id":"{id}","content":{output}}}"#);
        results.insert(u.int_in_range(0..=results.len())?, result);
    }
    messages.push(format!(
        r#"{{"role":"assistant","content":{content},"tool_calls":[{}]}}"#,
        calls.join(",")
    ));
    messages.append(&mut results);
    Ok(())
}

fn text(u: &mut Unstructured) -> Result<String> {
    Ok(quote(&words(u)?))
}

/// A text of some kind and size; never one that begins like a fold.
fn words(u: &mut Unstructured) -> Result<String> {
    let seed = *u.choose(&[
        "the quick brown fox ",
        "x",
        "é🦀",
        "src/wheel.rs:41: error[E0308] in g-7\n",
        "\"q\" \\ \t{}[],:\u{1}",
        "\n",
        "    indented\n",
        "[longhand stub h:0123456789ab: 3 chars]",
    ])?;
    let bytes = match u.int_in_range(0..=3)? {
        0 | 1 => u.int_in_range(1..=40)?,
        2 => u.int_in_range(1..=400)?,
        _ => u.int_in_range(1..=BYTES_MAX)?,
    };
    Ok(seed.repeat(bytes.div_ceil(seed.len())))
}
