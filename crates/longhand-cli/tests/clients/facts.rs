//! What was said, whatever way it is written.

use longhand_core::{Part, Scale, Tokens};
use longhand_dialect::{Conversation, Dialect, Finding, read};
use longhand_meter::{ImageRule, MeterSpec};
use serde_json::Value;

/// Everything that some messages say, call and give back, in their order.
pub(crate) fn facts(dialect: Dialect, messages: &Value) -> Vec<String> {
    let conversation = parse(dialect, &messages.to_string());
    let mut facts = Vec::new();
    for message in &conversation.messages {
        let role = message.role.as_str();
        facts.extend(message.parts.iter().map(|part| match part {
            Part::Text(text) => format!("{role}: {}", text.decode().trim()),
            Part::Call(call) => {
                let arguments: Value = serde_json::from_str(&call.arguments.decode()).unwrap();
                format!("call {} {} {arguments}", call.id.decode(), call.name.decode())
            }
            Part::Result(result) => {
                let texts = result.content.iter().map(|part| match part {
                    Part::Text(text) => text.decode().into_owned(),
                    other => panic!("{other:?}"),
                });
                format!("result {} {}", result.call.decode(), texts.collect::<String>().trim())
            }
            other => panic!("no client says {other:?}"),
        }));
    }
    facts
}

/// The tokens of a request, as the proxy counts them.
pub(crate) fn tokens(dialect: Dialect, request: &str) -> Tokens {
    let conversation = parse(dialect, request);
    let meter = MeterSpec::for_model("scripted").open(ImageRule::OpenAiDearer).unwrap();
    let scale = Scale::new(&*meter);
    let messages = conversation.messages.iter();
    let of_messages: Tokens = messages.map(|message| scale.message(message, Tokens::MAX)).sum();
    let fixed: Tokens = conversation.attributes.iter().map(|text| scale.text(&text.decode())).sum();
    of_messages + fixed + scale.framing().reply
}

/// Makes sure that a provider would take a request.
pub(crate) fn assert_valid(dialect: Dialect, request: &str) {
    let faults: Vec<_> =
        parse(dialect, request).check().into_iter().filter(Finding::is_fault).collect();
    assert!(faults.is_empty(), "{faults:?} in {request}");
}

fn parse(dialect: Dialect, json: &str) -> Conversation {
    read(json.as_bytes().to_vec(), Some(dialect)).unwrap()
}
