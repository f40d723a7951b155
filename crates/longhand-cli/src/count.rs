//! `longhand count`.

use anyhow::Result;
use longhand_core::{Message, Part, Scale, Tokens, grouped};
use serde_json::json;

use crate::args::CountArgs;
use crate::{Outcome, input, output, weigh};

pub(crate) fn run(args: &CountArgs) -> Result<Outcome> {
    let conversation = input::read(&args.input)?;
    let named = weigh::open(args.meter.meter.clone(), &conversation)?;
    let meter = &named.meter;
    let scale = Scale::new(&**meter);
    let own = weigh::messages(&conversation.messages, meter);
    let attributes = weigh::attributes(&conversation, &scale);
    let reply = scale.framing().reply;
    let total = own.iter().copied().sum::<Tokens>() + attributes + reply;
    if args.json {
        let messages: Vec<_> = conversation
            .messages
            .iter()
            .zip(&own)
            .enumerate()
            .map(|(at, (message, tokens))| {
                json!({"at": conversation.name_of(at), "role": message.role.as_str(), "tokens": tokens.0})
            })
            .collect();
        let report = json!({
            "dialect": conversation.dialect.as_str(),
            "meter": named.name,
            "exact": named.is_exact,
            "tokens": total.0,
            "attributes": attributes.0,
            "reply": reply.0,
            "bytes": conversation.bytes().len(),
            "messages": messages,
        });
        output::print(&format!("{report:#}"))?;
        return Ok(Outcome::Done);
    }
    if args.quiet {
        output::print(&total.to_string())?;
        return Ok(Outcome::Done);
    }
    let mut text = String::new();
    for (at, (message, tokens)) in conversation.messages.iter().zip(&own).enumerate() {
        let line = format!(
            "{:>5}  {:<9} {:>9}  {}\n",
            at,
            message.role.as_str(),
            named.figure(*tokens),
            gist(message)
        );
        text.push_str(&line);
    }
    if attributes > Tokens::ZERO {
        text.push_str(&format!("{:>5}  {:<9} {:>9}\n", "", "tools", named.figure(attributes)));
    }
    let messages = grouped(own.len());
    text.push_str(&format!(
        "{} tokens in {messages} messages ({}, {})\n",
        named.figure(total),
        conversation.dialect,
        named.name
    ));
    output::print(&text)?;
    Ok(Outcome::Done)
}

/// The first words of a message, on one line and with nothing that a terminal would obey.
fn gist(message: &Message) -> String {
    let text = match message.parts.first() {
        Some(Part::Text(text) | Part::FixedText(text)) => text.decode().into_owned(),
        Some(Part::Other(other)) => other.raw.decode().into_owned(),
        Some(Part::Call(call)) => format!("{}({})", call.name.decode(), call.arguments.decode()),
        Some(Part::Result(result)) => match result.content.first() {
            Some(Part::Text(text) | Part::FixedText(text)) => text.decode().into_owned(),
            Some(_) => "(not text)".to_owned(),
            None => String::new(),
        },
        Some(Part::Thinking(_)) => "(thinking)".to_owned(),
        Some(Part::Image(_)) => "(image)".to_owned(),
        Some(Part::Media(_)) => "(recording)".to_owned(),
        Some(Part::File(_)) => "(file)".to_owned(),
        None => String::new(),
    };
    let words: Vec<_> = text.split_whitespace().take(12).collect();
    words.join(" ").chars().filter(|c| !c.is_control()).take(60).collect()
}
