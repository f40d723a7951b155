//! Valid conversations that are broken on purpose, and that the validator notices it.

use longhand_testkit::arbitrary::{
    anthropic_json, chat_json, responses_json, rich_anthropic, rich_chat, rich_responses,
};
use longhand_testkit::rng::Rng;
use longhand_testkit::{WireFormat, validate};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

/// Breaks a list of messages at a random place; returns whether there was one.
type Mutation = fn(&mut Vec<Value>, &mut Rng) -> bool;

const CASES: usize = 64;

fn check(
    dialect: WireFormat,
    conversations: impl Strategy<Value = String>,
    mutations: &[(&str, Mutation)],
) {
    let mut runner = TestRunner::deterministic();
    let mut applied = vec![0; mutations.len()];
    for case in 0..CASES {
        let json = conversations.new_tree(&mut runner).unwrap().current();
        for ((name, mutation), applied) in mutations.iter().zip(&mut applied) {
            let mut document: Value = serde_json::from_str(&json).unwrap();
            let field = if dialect == WireFormat::Responses { "input" } else { "messages" };
            let list = match &mut document {
                Value::Array(list) => list,
                document => document[field].as_array_mut().unwrap(),
            };
            if mutation(list, &mut Rng::new(case as u64)) {
                *applied += 1;
                let broken = document.to_string();
                assert!(!validate(dialect, &broken).is_empty(), "{name} is not noticed: {broken}");
            }
        }
    }
    let unused = mutations.iter().zip(&applied).filter(|(_, applied)| **applied == 0);
    let unused: Vec<&str> = unused.map(|((name, _), _)| *name).collect();
    assert_eq!(unused, Vec::<&str>::new(), "mutations that no conversation could show");
}

/// Chooses an item that fits.
fn pick(list: &[Value], rng: &mut Rng, fits: impl Fn(&Value) -> bool) -> Option<usize> {
    let places: Vec<usize> = (0..list.len()).filter(|at| fits(&list[*at])).collect();
    (!places.is_empty()).then(|| *rng.choose(&places))
}

/// Changes an item that fits; returns whether there was one.
fn change(
    list: &mut [Value],
    rng: &mut Rng,
    fits: impl Fn(&Value) -> bool,
    change: impl Fn(&mut Value),
) -> bool {
    let place = pick(list, rng, fits);
    place.map(|at| change(&mut list[at])).is_some()
}

fn drop_one(list: &mut Vec<Value>, rng: &mut Rng, fits: impl Fn(&Value) -> bool) -> bool {
    let place = pick(list, rng, fits);
    place.map(|at| list.remove(at)).is_some()
}

fn double_one(list: &mut Vec<Value>, rng: &mut Rng, fits: impl Fn(&Value) -> bool) -> bool {
    let place = pick(list, rng, fits);
    place.map(|at| list.insert(at, list[at].clone())).is_some()
}

fn is_role(role: &'static str) -> impl Fn(&Value) -> bool {
    move |message| message["role"] == role
}

fn is_kind(kind: &'static str) -> impl Fn(&Value) -> bool {
    move |item| item["type"] == kind
}

fn has_kind(kind: &'static str) -> impl Fn(&Value) -> bool {
    move |message| parts(message).iter().any(|part| part["type"] == kind)
}

fn parts(message: &Value) -> &[Value] {
    message["content"].as_array().map_or(&[], Vec::as_slice)
}

fn part_of<'v>(message: &'v mut Value, kind: &str) -> &'v mut Value {
    let parts = message["content"].as_array_mut().unwrap();
    parts.iter_mut().find(|part| part["type"] == kind).unwrap()
}

fn remove_part(message: &mut Value, kind: &str) {
    let parts = message["content"].as_array_mut().unwrap();
    let at = parts.iter().position(|part| part["type"] == kind).unwrap();
    parts.remove(at);
}

/// Whether a message has a text that must not be empty; results may be.
fn is_written(message: &Value) -> bool {
    let is_result = message["role"] == "tool" || message["role"] == "function";
    message["content"].is_string() && !is_result && message["tool_calls"].is_null()
}

fn calls(message: &Value) -> usize {
    message["tool_calls"].as_array().map_or(0, Vec::len)
}

fn user() -> Value {
    json!({ "role": "user", "content": "wait" })
}

#[rustfmt::skip]
const CHAT: &[(&str, Mutation)] = &[
    ("a dropped result", |list, rng| drop_one(list, rng, is_role("tool"))),
    ("a dropped call message", |list, rng| drop_one(list, rng, |message| calls(message) > 0)),
    ("one dropped call of many", |list, rng| change(list, rng, |message| calls(message) > 1, |message| { message["tool_calls"].as_array_mut().unwrap().pop(); })),
    ("all calls dropped", |list, rng| change(list, rng, |message| calls(message) > 0, |message| { message["tool_calls"] = json!([]); })),
    ("a doubled result", |list, rng| double_one(list, rng, is_role("tool"))),
    ("a doubled call message", |list, rng| double_one(list, rng, |message| calls(message) > 0)),
    ("a result that is moved to the end", |list, rng| {
        let Some(at) = pick(list, rng, is_role("tool")) else { return false };
        let result = list.remove(at);
        list.push(user());
        list.push(result);
        true
    }),
    ("a result that is moved before its call", |list, rng| {
        let Some(at) = pick(list, rng, is_role("tool")) else { return false };
        let result = list.remove(at);
        list.insert(0, result);
        true
    }),
    ("a user between a call and its result", |list, rng| {
        let Some(at) = pick(list, rng, is_role("tool")) else { return false };
        list.insert(at, user());
        true
    }),
    ("a system message between a call and its result", |list, rng| {
        let Some(at) = pick(list, rng, is_role("tool")) else { return false };
        list.insert(at, json!({ "role": "system", "content": "wait" }));
        true
    }),
    ("two calls with one id", |list, rng| change(list, rng, |message| calls(message) > 1, |message| {
        message["tool_calls"][1]["id"] = message["tool_calls"][0]["id"].clone();
    })),
    ("another id of a call", |list, rng| change(list, rng, |message| calls(message) > 0, |message| message["tool_calls"][0]["id"] = json!("other"))),
    ("another id of a result", |list, rng| change(list, rng, is_role("tool"), |message| message["tool_call_id"] = json!("other"))),
    ("a result that names no call", |list, rng| change(list, rng, is_role("tool"), |message| message["tool_call_id"] = json!(null))),
    ("a result of the user", |list, rng| change(list, rng, is_role("tool"), |message| message["role"] = json!("user"))),
    ("a user who is a tool", |list, rng| change(list, rng, is_role("user"), |message| message["role"] = json!("tool"))),
    ("calls of the user", |list, rng| change(list, rng, |message| calls(message) > 0, |message| message["role"] = json!("user"))),
    ("an unknown role", |list, rng| change(list, rng, is_role("assistant"), |message| message["role"] = json!("model"))),
    ("empty text", |list, rng| change(list, rng, is_written, |message| message["content"] = json!(""))),
    ("a blank part", |list, rng| change(list, rng, has_kind("text"), |message| part_of(message, "text")["text"] = json!(" \n"))),
    ("no parts", |list, rng| change(list, rng, |message| !parts(message).is_empty(), |message| message["content"] = json!([]))),
    ("no content", |list, rng| change(list, rng, is_written, |message| message["content"] = json!(null))),
    ("an image of the assistant", |list, rng| change(list, rng, has_kind("image_url"), |message| message["role"] = json!("assistant"))),
    ("arguments that are cut off", |list, rng| change(list, rng, |message| !message["tool_calls"][0]["function"].is_null(), |message| message["tool_calls"][0]["function"]["arguments"] = json!("{\"path\":"))),
    ("arguments that are an object", |list, rng| change(list, rng, |message| !message["tool_calls"][0]["function"].is_null(), |message| message["tool_calls"][0]["function"]["arguments"] = json!({}))),
    ("a name with a space", |list, rng| change(list, rng, |message| !message["tool_calls"][0]["function"].is_null(), |message| message["tool_calls"][0]["function"]["name"] = json!("read file"))),
];

fn is_call(item: &Value) -> bool {
    let kinds = [
        "function_call",
        "custom_tool_call",
        "computer_call",
        "shell_call",
        "local_shell_call",
        "apply_patch_call",
    ];
    kinds.iter().any(|kind| item["type"] == *kind)
}

fn is_output(item: &Value) -> bool {
    item["type"].as_str().is_some_and(|kind| kind.ends_with("call_output"))
}

#[rustfmt::skip]
const RESPONSES: &[(&str, Mutation)] = &[
    ("a dropped output", |list, rng| drop_one(list, rng, is_output)),
    ("a dropped call", |list, rng| drop_one(list, rng, is_call)),
    ("a doubled output", |list, rng| double_one(list, rng, is_output)),
    ("a doubled call", |list, rng| double_one(list, rng, is_call)),
    ("a call that is moved to the end", |list, rng| {
        let Some(at) = pick(list, rng, is_call) else { return false };
        let call = list.remove(at);
        list.push(call);
        true
    }),
    ("an output that is moved to the start", |list, rng| {
        let Some(at) = pick(list, rng, is_output) else { return false };
        let output = list.remove(at);
        list.insert(0, output);
        true
    }),
    ("another id of a call", |list, rng| change(list, rng, is_call, |item| item["call_id"] = json!("other"))),
    ("another id of an output", |list, rng| change(list, rng, is_output, |item| { item["call_id"] = json!("other"); })),
    ("an id that is too long", |list, rng| change(list, rng, is_call, |item| item["call_id"] = json!("c".repeat(65)))),
    ("an output of another kind", |list, rng| change(list, rng, is_kind("function_call_output"), |item| item["type"] = json!("custom_tool_call_output"))),
    ("reasoning at the end", |list, rng| {
        let Some(at) = pick(list, rng, is_kind("reasoning")) else { return false };
        list.truncate(at + 1);
        true
    }),
    ("reasoning without its next item", |list, rng| {
        let Some(at) = pick(list, rng, is_kind("reasoning")) else { return false };
        list.insert(at + 1, user());
        true
    }),
    ("an item twice", |list, rng| double_one(list, rng, |item| item["id"].is_string())),
    ("empty text", |list, rng| change(list, rng, |item| item["content"].is_string(), |item| item["content"] = json!(""))),
    ("a blank part of the assistant", |list, rng| change(list, rng, has_kind("output_text"), |item| part_of(item, "output_text")["text"] = json!("\n"))),
    ("a blank part of the user", |list, rng| change(list, rng, has_kind("input_text"), |item| part_of(item, "input_text")["text"] = json!(" "))),
    ("no parts", |list, rng| change(list, rng, |item| !parts(item).is_empty(), |item| item["content"] = json!([]))),
    ("a user who is the assistant", |list, rng| change(list, rng, has_kind("input_text"), |item| item["role"] = json!("assistant"))),
    ("an assistant who is the user", |list, rng| change(list, rng, has_kind("output_text"), |item| item["role"] = json!("user"))),
    ("an unknown role", |list, rng| change(list, rng, |item| item["role"].is_string(), |item| item["role"] = json!("tool"))),
    ("arguments that are cut off", |list, rng| change(list, rng, is_kind("function_call"), |item| item["arguments"] = json!("{\"path\":"))),
    ("arguments that are an object", |list, rng| change(list, rng, is_kind("function_call"), |item| item["arguments"] = json!({}))),
    ("an output that is null", |list, rng| change(list, rng, is_kind("function_call_output"), |item| item["output"] = json!(null))),
    ("a trigger that is not the last", |list, _| {
        list.insert(0, json!({ "type": "compaction_trigger" }));
        list.len() > 1
    }),
];

#[rustfmt::skip]
const ANTHROPIC: &[(&str, Mutation)] = &[
    ("a dropped result", |list, rng| change(list, rng, has_kind("tool_result"), |message| remove_part(message, "tool_result"))),
    ("a dropped message with results", |list, rng| drop_one(list, rng, has_kind("tool_result"))),
    ("a dropped call", |list, rng| change(list, rng, has_kind("tool_use"), |message| remove_part(message, "tool_use"))),
    ("a dropped message with calls", |list, rng| drop_one(list, rng, has_kind("tool_use"))),
    ("a dropped message between others", |list, _| {
        let at = list.len() / 2;
        let between = at > 0 && at + 1 < list.len() && list[at]["role"] != "system";
        let between = between && list[at - 1]["role"] == list[at + 1]["role"];
        between && { list.remove(at); true }
    }),
    ("a doubled message", |list, rng| double_one(list, rng, |_| true)),
    ("a doubled result", |list, rng| change(list, rng, has_kind("tool_result"), |message| {
        let result = message["content"][0].clone();
        message["content"].as_array_mut().unwrap().insert(0, result);
    })),
    ("a result after words", |list, rng| change(list, rng, has_kind("tool_result"), |message| {
        message["content"].as_array_mut().unwrap().insert(0, json!({ "type": "text", "text": "so" }));
    })),
    ("a result that comes too late", |list, rng| {
        let Some(at) = pick(list, rng, has_kind("tool_result")) else { return false };
        let result = part_of(&mut list[at], "tool_result").clone();
        remove_part(&mut list[at], "tool_result");
        list.push(json!({ "role": "user", "content": [result] }));
        true
    }),
    ("two calls with one id", |list, _| {
        let id = list.iter().filter(|message| has_kind("tool_use")(message)).flat_map(parts).find(|part| part["type"] == "tool_use").map(|part| part["id"].clone());
        let Some(id) = id else { return false };
        let last = list.iter().rposition(|message| has_kind("tool_use")(message)).unwrap();
        let first = list.iter().position(|message| has_kind("tool_use")(message)).unwrap();
        first != last && { part_of(&mut list[last], "tool_use")["id"] = id; true }
    }),
    ("another id of a call", |list, rng| change(list, rng, has_kind("tool_use"), |message| part_of(message, "tool_use")["id"] = json!("other"))),
    ("another id of a result", |list, rng| change(list, rng, has_kind("tool_result"), |message| part_of(message, "tool_result")["tool_use_id"] = json!("other"))),
    ("an input that is a string", |list, rng| change(list, rng, has_kind("tool_use"), |message| part_of(message, "tool_use")["input"] = json!("{}"))),
    ("a name with a dot", |list, rng| change(list, rng, has_kind("tool_use"), |message| part_of(message, "tool_use")["name"] = json!("fs.read"))),
    ("swapped roles", |list, rng| change(list, rng, |message| message["role"] != "system", |message| {
        message["role"] = json!(if message["role"] == "user" { "assistant" } else { "user" });
    })),
    ("an unknown role", |list, rng| change(list, rng, is_role("user"), |message| message["role"] = json!("tool"))),
    ("a system message first", |list, _| { list.insert(0, json!({ "role": "system", "content": "s" })); true }),
    ("a system message after the assistant", |list, rng| {
        let Some(at) = pick(list, rng, is_role("assistant")) else { return false };
        list.insert(at + 1, json!({ "role": "system", "content": "s" }));
        true
    }),
    ("empty text", |list, rng| change(list, rng, |message| message["content"].is_string(), |message| message["content"] = json!(" "))),
    ("a blank block", |list, rng| change(list, rng, has_kind("text"), |message| part_of(message, "text")["text"] = json!("\n"))),
    ("no blocks", |list, rng| change(list, rng, |message| !parts(message).is_empty(), |message| message["content"] = json!([]))),
    ("thinking without a signature", |list, rng| change(list, rng, has_kind("thinking"), |message| { part_of(message, "thinking").as_object_mut().unwrap().remove("signature"); })),
    ("thinking after what it led to", |list, rng| change(list, rng, has_kind("thinking"), |message| {
        let thinking = part_of(message, "thinking").clone();
        remove_part(message, "thinking");
        message["content"].as_array_mut().unwrap().push(thinking);
    })),
    ("thinking of the user", |list, rng| change(list, rng, is_role("user"), |message| {
        message["content"] = json!([{ "type": "thinking", "thinking": "t", "signature": "s" }, { "type": "text", "text": "a" }]);
    })),
    ("five cache marks", |list, rng| change(list, rng, is_role("user"), |message| {
        let block = json!({ "type": "text", "text": "a", "cache_control": { "type": "ephemeral" } });
        message["content"] = vec![block; 5].into();
    })),
    ("a last reply that ends in a space", |list, _| {
        let ends_in_user = list.last().is_some_and(|last| last["role"] == "user");
        ends_in_user && { list.push(json!({ "role": "assistant", "content": "so " })); true }
    }),
    ("a search without its result", |list, rng| change(list, rng, is_role("assistant"), |message| {
        message["content"] = json!([{ "type": "server_tool_use", "id": "srvtoolu_x", "name": "web_search", "input": {} }, { "type": "text", "text": "a" }]);
    })),
];

#[test]
fn broken_chat_is_noticed() {
    check(WireFormat::Chat, chat_json(), CHAT);
    check(WireFormat::Chat, rich_chat(), CHAT);
}

#[test]
fn broken_responses_are_noticed() {
    check(WireFormat::Responses, responses_json(), RESPONSES);
    check(WireFormat::Responses, rich_responses(), RESPONSES);
}

#[test]
fn broken_anthropic_is_noticed() {
    check(WireFormat::Anthropic, anthropic_json(), ANTHROPIC);
    check(WireFormat::Anthropic, rich_anthropic(), ANTHROPIC);
}
