//! What each provider takes and refuses, rule by rule.
//!
//! Every case is a name, a request and all that `check` finds in it: `!` before what the provider
//! refuses, `?` before what is only odd.

use longhand_dialect::{Dialect, read};

type Case = (&'static str, &'static str, &'static [&'static str]);

/// Checks a table; `words` stand for messages that many requests share.
fn check(dialect: Dialect, words: &[(&str, &str)], cases: &[Case]) {
    let mut wrong = String::new();
    for (name, request, expected) in cases {
        let found = findings(dialect, &spelled(request, words));
        if found != *expected {
            wrong.push_str(&format!("\n{name}\n  expected {expected:#?}\n  found {found:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

fn spelled(request: &str, words: &[(&str, &str)]) -> String {
    words.iter().fold(request.to_owned(), |text, (word, json)| text.replace(word, json))
}

fn findings(dialect: Dialect, request: &str) -> Vec<String> {
    let conversation = read(request.as_bytes().to_vec(), Some(dialect))
        .unwrap_or_else(|error| panic!("{error}: {request}"));
    let shown = |finding: &longhand_dialect::Finding| {
        format!("{} {finding}", if finding.grave { '!' } else { '?' })
    };
    conversation.check().iter().map(shown).collect()
}

#[rustfmt::skip]
const CHAT_WORDS: &[(&str, &str)] = &[
    ("$user", r#"{"role":"user","content":"hi"}"#),
    ("$reply", r#"{"role":"assistant","content":"ok"}"#),
    ("$calls", r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"c2","type":"function","function":{"name":"f","arguments":"{}"}}]}"#),
    ("$call1", r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]}"#),
    ("$call2", r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c2","type":"function","function":{"name":"f","arguments":"{}"}}]}"#),
    ("$out1", r#"{"role":"tool","tool_call_id":"c1","content":"1"}"#),
    ("$out2", r#"{"role":"tool","tool_call_id":"c2","content":"2"}"#),
    ("$function", r#"{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}}"#),
    ("$answer", r#"{"role":"function","name":"f","content":"1"}"#),
];

#[test]
#[rustfmt::skip]
fn chat_takes() {
    check(Dialect::Chat, CHAT_WORDS, &[
        ("an exchange", r#"{"messages":[$user,$reply,$user]}"#, &[]),
        ("a bare list", "[$user,$reply]", &[]),
        ("the operator", r#"[{"role":"system","content":"s"},{"role":"developer","content":[{"type":"text","text":"d"}]},$user]"#, &[]),
        ("every part of the user", r#"[{"role":"user","name":"ann","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"https://x/y.png","detail":"low"}},{"type":"input_audio","input_audio":{"data":"AA","format":"wav"}},{"type":"file","file":{"file_id":"f"}}]}]"#, &[]),
        ("texts of the assistant", r#"[$user,{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]"#, &[]),
        ("one refusal", r#"[$user,{"role":"assistant","content":[{"type":"refusal","refusal":"no"}]}]"#, &[]),
        ("a call without content", r#"[$user,{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"not json"}}]},$out1]"#, &[]),
        ("a call with content", r#"[$user,{"role":"assistant","content":"ok","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]},$out1]"#, &[]),
        ("calls that are null", r#"[$user,{"role":"assistant","content":"ok","tool_calls":null,"function_call":null}]"#, &[]),
        ("an audio reply", r#"[$user,{"role":"assistant","audio":{"id":"a"}}]"#, &[]),
        ("a custom tool", r#"[$user,{"role":"assistant","tool_calls":[{"id":"c1","type":"custom","custom":{"name":"f","input":"text"}}]},$out1]"#, &[]),
        ("parallel calls", "[$user,$calls,$out1,$out2,$reply]", &[]),
        ("parallel calls in another order", "[$user,$calls,$out2,$out1]", &[]),
        ("a result in parts", r#"[$user,$call1,{"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"1"}]}]"#, &[]),
        ("an empty result", r#"[$user,$call1,{"role":"tool","tool_call_id":"c1","content":""}]"#, &[]),
        ("results at the end", "[$user,$call1,$out1,$reply,$user,$call2,$out2]", &[]),
        ("a function", "[$user,$function,$answer,$reply]", &[]),
        ("a function twice", "[$user,$function,$answer,$function,$answer]", &[]),
        ("a function without an answer", "[$user,$function,$user]", &[]),
        ("an answer without its function", "[$user,$answer]", &[]),
        ("an answer that is null", r#"[$user,$function,{"role":"function","name":"f","content":null}]"#, &[]),
        ("parts and fields of tomorrow", r#"[{"role":"user","content":[{"type":"video","video":{}}],"mood":1.0},{"role":"assistant","content":"ok","reasoning_content":"r","phase":"x"}]"#, &[]),
        ("effort without tools", r#"{"model":"gpt-5.4","reasoning_effort":"high","tools":[],"messages":[$user]}"#, &[]),
        ("no effort with tools", r#"{"model":"gpt-5.4","reasoning_effort":"none","tools":[{}],"messages":[$user]}"#, &[]),
        ("effort with tools before 5.4", r#"{"model":"gpt-5.2-mini","reasoning_effort":"high","tools":[{}],"messages":[$user]}"#, &[]),
        ("an id that Mistral takes", r#"{"model":"mistral-large-latest","messages":[$user,{"role":"assistant","content":"","tool_calls":[{"id":"abcDEF123","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"abcDEF123","content":"1"},$reply,$user]}"#, &["? messages[1].content: the content is empty"]),
    ]);
}

#[test]
#[rustfmt::skip]
fn chat_refuses_messages() {
    check(Dialect::Chat, CHAT_WORDS, &[
        ("no messages", r#"{"messages":[]}"#, &["? messages: the list is empty"]),
        ("no message", r#"{"messages":[$user,1]}"#, &["! messages[1]: expected a message, found a number"]),
        ("no role", r#"{"messages":[{"content":"hi"}]}"#, &["! messages[0].role: a message needs a role"]),
        ("a role that is no string", r#"[{"role":1,"content":"hi"}]"#, &["! [0].role: a message needs a role"]),
        ("an unknown role", r#"{"messages":[{"role":"bot","content":"hi"}]}"#, &[r#"! messages[0].role: unknown role "bot""#]),
        ("a user without content", r#"[{"role":"user"}]"#, &["! [0].content: a message from the user needs content"]),
        ("a user with null", r#"[{"role":"user","content":null}]"#, &["! [0].content: a message from the user needs content"]),
        ("a system prompt with null", r#"[{"role":"system","content":null},$user]"#, &["! [0].content: a message from the system needs content"]),
        ("a reply with null", r#"[$user,{"role":"assistant","content":null}]"#, &["! [1].content: a message from the assistant needs content"]),
        ("a reply with nothing", r#"[$user,{"role":"assistant"}]"#, &["! [1].content: a message from the assistant needs content"]),
        ("a bare refusal", r#"[$user,{"role":"assistant","content":null,"refusal":"no"}]"#, &["? [1].content: only a message with calls may lack content"]),
        ("empty content", r#"[{"role":"user","content":""}]"#, &["? [0].content: the content is empty"]),
        ("content that is a number", r#"[{"role":"user","content":1}]"#, &["! [0].content: expected a string or a list of parts, found a number"]),
        ("no parts", r#"{"messages":[{"role":"user","content":[]}]}"#, &["! messages[0].content: the list of parts is empty"]),
        ("a part that is none", r#"[{"role":"user","content":["hi"]}]"#, &["! [0].content[0]: expected a part, found a string"]),
        ("a part without a type", r#"[{"role":"user","content":[{"text":"hi"}]}]"#, &["! [0].content[0].type: a part needs a type"]),
        ("a text without text", r#"[{"role":"user","content":[{"type":"text","text":1}]}]"#, &["! [0].content[0].text: expected a string"]),
        ("an image without an address", r#"[{"role":"user","content":[{"type":"image_url","image_url":{}}]}]"#, &["! [0].content[0].image_url.url: expected a string"]),
        ("a refusal of the user", r#"[{"role":"user","content":[{"type":"text","text":"a"},{"type":"refusal","refusal":"no"}]}]"#, &[r#"! [0].content[1]: a message from the user cannot hold a part of type "refusal""#]),
        ("an image of the system", r#"[{"role":"developer","content":[{"type":"image_url","image_url":{"url":"u"}}]},$user]"#, &[r#"! [0].content[0]: a message from the system cannot hold a part of type "image_url""#]),
        ("audio and a file of the assistant", r#"[$user,{"role":"assistant","content":[{"type":"input_audio","input_audio":{}},{"type":"file","file":{}}]}]"#, &[r#"! [1].content[0]: a message from the assistant cannot hold a part of type "input_audio""#, r#"! [1].content[1]: a message from the assistant cannot hold a part of type "file""#]),
        ("an image of a tool", r#"[$user,$call1,{"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"u"}}]}]"#, &[r#"! [2].content[1]: a message from the tool cannot hold a part of type "image_url""#]),
        ("a refusal among texts", r#"[$user,{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"refusal","refusal":"no"}]}]"#, &["! [1].content: a refusal stands alone"]),
        ("two refusals", r#"[$user,{"role":"assistant","content":[{"type":"refusal","refusal":"no"},{"type":"refusal","refusal":"no"}]}]"#, &["! [1].content: a refusal stands alone"]),
        ("a tool without content", r#"[$user,$call1,{"role":"tool","tool_call_id":"c1"}]"#, &["! [2].content: a tool result needs content"]),
        ("a tool with null", r#"[$user,$call1,{"role":"tool","tool_call_id":"c1","content":null}]"#, &["! [2].content: a tool result needs content"]),
        ("a tool with no parts", r#"[$user,$call1,{"role":"tool","tool_call_id":"c1","content":[]}]"#, &["! [2].content: the list of parts is empty"]),
        ("a function without a name", r#"[$user,{"role":"function","content":"1"}]"#, &["! [1].name: a tool result must name the call it answers"]),
        ("a function with parts", r#"[$user,{"role":"function","name":"f","content":[{"type":"text","text":"a"}]}]"#, &["! [1].content: expected a string or null"]),
    ]);
}

#[test]
#[rustfmt::skip]
fn chat_refuses_calls() {
    check(Dialect::Chat, CHAT_WORDS, &[
        ("no calls", r#"{"messages":[$user,{"role":"assistant","content":"ok","tool_calls":[]}]}"#, &["! messages[1].tool_calls: the list of calls is empty"]),
        ("calls that are no list", r#"[$user,{"role":"assistant","tool_calls":{}}]"#, &["! [1].tool_calls: expected a list of calls, found an object"]),
        ("a call of the user", r#"[{"role":"user","content":"hi","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]},$out1]"#, &["! [0].tool_calls: only the assistant can call tools"]),
        ("a call without an id", r#"[$user,{"role":"assistant","tool_calls":[{"type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"f","content":"1"}]"#, &["! [1].tool_calls[0].id: a call needs an id", r#"! [2].tool_call_id: the result of "f" does not follow its call"#, r#"! [1].tool_calls[0]: the call "" has no result right after it"#]),
        ("a call with an empty id", r#"[$user,{"role":"assistant","tool_calls":[{"id":"","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"","content":"1"}]"#, &["! [1].tool_calls[0].id: a call needs an id"]),
        ("a call without a function", r#"[$user,{"role":"assistant","tool_calls":[{"id":"c1","type":"function"}]}]"#, &["! [1].tool_calls[0].function: a call needs a function"]),
        ("a function without a name", r#"[$user,{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"arguments":"{}"}}]},$out1]"#, &["! [1].tool_calls[0].function.name: a call must name its function"]),
        ("arguments that are an object", r#"[$user,{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":{}}}]},$out1]"#, &["! [1].tool_calls[0].function.arguments: expected a string"]),
        ("arguments of a function that are missing", r#"[$user,{"role":"assistant","content":null,"function_call":{"name":"f"}}]"#, &["! [1].function_call.arguments: expected a string"]),
        ("a name with a dot", r#"[$user,{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"a.b","arguments":"{}"}}]},$out1]"#, &["? [1].tool_calls[0].function.name: a function's name has 1 to 64 letters, digits, `_` or `-`"]),
        ("a name of 65 letters", r#"[$user,{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","arguments":"{}"}}]},$out1]"#, &["? [1].tool_calls[0].function.name: a function's name has 1 to 64 letters, digits, `_` or `-`"]),
        ("a result that names no call", r#"[$user,$call1,{"role":"tool","content":"1"}]"#, &["! [2].tool_call_id: a tool result must name the call it answers", r#"! [2].tool_call_id: the result of "" does not follow its call"#, r#"! [1].tool_calls[0]: the call "c1" has no result right after it"#]),
        ("a call at the end", r#"{"messages":[$user,$call1]}"#, &[r#"! messages[1].tool_calls[0]: the call "c1" has no result right after it"#]),
        ("a call before the user", "[$user,$call1,$user]", &[r#"! [1].tool_calls[0]: the call "c1" has no result right after it"#]),
        ("a call before a call", "[$user,$call1,$call2,$out2]", &[r#"! [1].tool_calls[0]: the call "c1" has no result right after it"#]),
        ("one of two calls", "[$user,$calls,$out1,$reply]", &[r#"! [1].tool_calls[1]: the call "c2" has no result right after it"#]),
        ("both of two calls", "[$user,$calls]", &[r#"! [1].tool_calls[0]: the call "c1" has no result right after it"#, r#"! [1].tool_calls[1]: the call "c2" has no result right after it"#]),
        ("a result without a call", r#"{"messages":[$user,$out1]}"#, &[r#"! messages[1].tool_call_id: the result of "c1" does not follow its call"#]),
        ("a result at the start", "[$out1,$user]", &[r#"! [0].tool_call_id: the result of "c1" does not follow its call"#]),
        ("a result before its call", "[$user,$out1,$call1]", &[r#"! [1].tool_call_id: the result of "c1" does not follow its call"#, r#"! [2].tool_calls[0]: the call "c1" has no result right after it"#]),
        ("a user between", "[$user,$call1,$user,$out1]", &[r#"! [1].tool_calls[0]: the call "c1" has no result right after it"#, r#"! [3].tool_call_id: the result of "c1" does not follow its call"#]),
        ("a user among results", "[$user,$calls,$out1,$user,$out2]", &[r#"! [1].tool_calls[1]: the call "c2" has no result right after it"#, r#"! [4].tool_call_id: the result of "c2" does not follow its call"#]),
        ("a function among results", "[$user,$call1,$answer,$out1]", &[r#"! [1].tool_calls[0]: the call "c1" has no result right after it"#, r#"! [3].tool_call_id: the result of "c1" does not follow its call"#]),
        ("two results", "[$user,$call1,$out1,$out1]", &[r#"! [3].tool_call_id: the call "c1" has more than one result"#]),
        ("one id for two calls", r#"[$user,{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"c1","type":"function","function":{"name":"g","arguments":"{}"}}]},$out1]"#, &[r#"! [1].tool_calls[1]: the call id "c1" is used in [1] already"#]),
        ("an id again", "[$user,$call1,$out1,$call1,$out1]", &[r#"! [3].tool_calls[0]: the call id "c1" is used in [1] already"#]),
        ("effort with tools", r#"{"model":"openai/gpt-5.4-mini","reasoning_effort":"low","tools":[{}],"messages":[$user]}"#, &["? reasoning_effort: GPT-5.4 and later take no effort together with tools"]),
        ("Mistral", r#"{"model":"mistralai/mistral-small","messages":[$user,$call1,$out1,$user]}"#, &["? messages[1].tool_calls[0].id: Mistral wants 9 letters and digits", "? messages[3].role: Mistral wants the assistant between a tool and the user"]),
    ]);
}

#[rustfmt::skip]
const ANTHROPIC_WORDS: &[(&str, &str)] = &[
    ("$user", r#"{"role":"user","content":"hi"}"#),
    ("$reply", r#"{"role":"assistant","content":"ok"}"#),
    ("$system", r#"{"role":"system","content":"be brief"}"#),
    ("$calls", r#"{"role":"assistant","content":[{"type":"text","text":"both"},{"type":"tool_use","id":"t1","name":"f","input":{}},{"type":"tool_use","id":"t2","name":"f","input":{}}]}"#),
    ("$call1", r#"{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":{}}]}"#),
    ("$call2", r#"{"role":"assistant","content":[{"type":"tool_use","id":"t2","name":"f","input":{}}]}"#),
    ("$out1", r#"{"role":"user","content":[$block1]}"#),
    ("$out2", r#"{"role":"user","content":[$block2]}"#),
    ("$block1", r#"{"type":"tool_result","tool_use_id":"t1","content":"1"}"#),
    ("$block2", r#"{"type":"tool_result","tool_use_id":"t2","content":"2"}"#),
    ("$text", r#"{"type":"text","text":"words"}"#),
    ("$marked", r#"{"type":"text","text":"words","cache_control":{"type":"ephemeral"}}"#),
    ("$search", r#"{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}"#),
    ("$hits", r#"{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[]}"#),
    ("$mcp", r#"{"type":"mcp_tool_use","id":"mcptoolu_1","name":"m","server_name":"s","input":{}}"#),
    ("$got", r#"{"type":"mcp_tool_result","tool_use_id":"mcptoolu_1","is_error":false,"content":[]}"#),
];

#[test]
#[rustfmt::skip]
fn anthropic_takes() {
    check(Dialect::Anthropic, ANTHROPIC_WORDS, &[
        ("an exchange", r#"{"system":"s","messages":[$user,$reply,$user]}"#, &[]),
        ("a system prompt in blocks", r#"{"system":[$text,$marked],"messages":[$user]}"#, &[]),
        ("no system prompt", r#"{"system":null,"messages":[$user]}"#, &[]),
        ("a call", "[$user,$call1,$out1,$reply]", &[]),
        ("parallel calls", r#"[$user,$calls,{"role":"user","content":[$block1,$block2,$text]}]"#, &[]),
        ("parallel calls in another order", r#"[$user,$calls,{"role":"user","content":[$block2,$block1]}]"#, &[]),
        ("results of every shape", r#"[$user,$calls,{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1"},{"type":"tool_result","tool_use_id":"t2","is_error":true,"content":[$text,{"type":"image","source":{"type":"url","url":"u"}},{"type":"document","source":{"type":"text","data":"d"}},{"type":"search_result","source":"s"}]}]}]"#, &[]),
        ("a result that is blank", r#"[$user,$call1,{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":""}]}]"#, &[]),
        ("thinking", r#"[$user,{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"s"},{"type":"redacted_thinking","data":"d"},$text]}]"#, &[]),
        ("a compaction that leads", r#"[{"role":"assistant","content":[{"type":"compaction","content":"all of it"}]},$user]"#, &[]),
        ("a system message in the middle", r#"{"model":"claude-opus-4-8","messages":[$user,$system,$reply,$user,$system]}"#, &[]),
        ("a system message after results", "[$user,$call1,$out1,$system,$reply]", &[]),
        ("a server tool", r#"[$user,{"role":"assistant","content":[$search,$hits,$mcp,$got,$text]},$user]"#, &[]),
        ("a server tool that is at work", r#"{"model":"claude-opus-4-6","messages":[$user,{"role":"assistant","content":[$search]}]}"#, &[]),
        ("a server tool that waits for the client", r#"[$user,{"role":"assistant","content":[$search,{"type":"tool_use","id":"t1","name":"f","input":{}}]},$out1,{"role":"assistant","content":[$hits,$text]}]"#, &[]),
        ("a prefill", r#"{"model":"claude-sonnet-4-5","messages":[$user,{"role":"assistant","content":"{"}]}"#, &[]),
        ("four marks", r#"{"tools":[{"name":"f","input_schema":{"properties":{"cache_control":{}}},"cache_control":{"type":"ephemeral","ttl":"1h"}}],"system":[$marked],"messages":[{"role":"user","content":[$marked,$text,{"type":"text","text":"\"cache_control\"","cache_control":null}]},{"role":"assistant","content":[$marked]}]}"#, &[]),
        ("blocks of tomorrow", r#"[{"role":"user","content":[{"type":"hologram","x":1.0}]},{"role":"assistant","content":[{"type":"container_upload","file_id":"f"}]}]"#, &[]),
        ("settings", r#"{"model":"claude-opus-4-6","max_tokens":4096,"temperature":1.0,"thinking":{"type":"enabled","budget_tokens":1024},"tool_choice":{"type":"any"},"context_management":{"edits":[]},"messages":[$user]}"#, &[]),
        ("adaptive thinking", r#"{"model":"claude-fable-5-1","max_tokens":4096,"thinking":{"type":"adaptive"},"tool_choice":{"type":"auto"},"messages":[$user]}"#, &[]),
    ]);
}

#[test]
#[rustfmt::skip]
fn anthropic_refuses_messages() {
    check(Dialect::Anthropic, ANTHROPIC_WORDS, &[
        ("no messages", r#"{"messages":[]}"#, &["? messages: the list is empty"]),
        ("no message", r#"{"messages":["hi"]}"#, &["! messages[0]: expected a message, found a string", "! messages[0].role: a message needs a role", "! messages[0].content: a message needs content"]),
        ("no role", r#"[{"content":"hi"}]"#, &["! [0].role: a message needs a role"]),
        ("an unknown role", r#"{"messages":[{"role":"tool","content":"hi"}]}"#, &[r#"! messages[0].role: unknown role "tool""#]),
        ("no content", r#"[{"role":"user"}]"#, &["! [0].content: a message needs content"]),
        ("content that is null", r#"[{"role":"user","content":null}]"#, &["! [0].content: expected a string or a list of blocks, found null"]),
        ("no blocks", r#"[$user,{"role":"assistant","content":[]},$user]"#, &["! [1].content: the list of blocks is empty"]),
        ("a blank string", r#"[{"role":"user","content":" \n\u00a0"}]"#, &["! [0].content: text must hold more than white space"]),
        ("a blank block", r#"[{"role":"user","content":[$text,{"type":"text","text":""}]}]"#, &["! [0].content[1].text: text must hold more than white space"]),
        ("a block that is none", r#"[{"role":"user","content":["hi"]}]"#, &["! [0].content[0]: expected a block, found a string"]),
        ("a block without a type", r#"[{"role":"user","content":[{"text":"hi"}]}]"#, &["! [0].content[0].type: a block needs a type"]),
        ("a text without text", r#"[{"role":"user","content":[{"type":"text"}]}]"#, &["! [0].content[0].text: expected a string"]),
        ("an image without a source", r#"[{"role":"user","content":[{"type":"image"}]}]"#, &["! [0].content[0].source: an image needs a source"]),
        ("a blank system prompt", r#"{"system":" ","messages":[$user]}"#, &["! system: text must hold more than white space"]),
        ("an empty system prompt", r#"{"system":[],"messages":[$user]}"#, &["? system: the list of blocks is empty"]),
        ("a system prompt that is a number", r#"{"system":1,"messages":[$user]}"#, &["! system: expected a string or a list of blocks, found a number"]),
        ("an image in the system prompt", r#"{"system":[$text,{"type":"image","source":{"type":"url","url":"u"}}],"messages":[$user]}"#, &["! system[1]: a system prompt holds only text"]),
        ("the assistant first", r#"{"messages":[$reply,$user]}"#, &["! messages[0].role: the first message must be the user's"]),
        ("the user twice", "[$user,$user]", &["? [1].role: two messages of the user in a row"]),
        ("the assistant twice", "[$user,$reply,$reply,$user]", &["? [2].role: two messages of the assistant in a row"]),
        ("a system message first", "[$system,$user]", &["! [0].role: a system message stands after a user's and before an assistant's"]),
        ("a system message after the assistant", "[$user,$reply,$system]", &["! [2].role: a system message stands after a user's and before an assistant's"]),
        ("a system message before the user", "[$user,$system,$user]", &["! [1].role: a system message stands after a user's and before an assistant's"]),
        ("an image in a system message", r#"[$user,{"role":"system","content":[$text,{"type":"image","source":{"type":"url","url":"u"}}]},$reply]"#, &["! [1].content[1]: a system message holds only text"]),
        ("a system message for an old model", r#"{"model":"claude-sonnet-4-5-20250929","messages":[$user,$system]}"#, &["? messages[1].role: models before claude-opus-4-8 take no system message here"]),
        ("a prefill that ends in a space", r#"[$user,{"role":"assistant","content":[$text,{"type":"text","text":"so "}]}]"#, &["? [1].content[1]: a last message of the assistant must not end in white space"]),
        ("a prefill for a new model", r#"{"model":"claude-opus-4-6","messages":[$user,$reply]}"#, &["? messages[1].role: Claude 4.6 and later take no last message of the assistant"]),
        ("thinking without its fields", r#"[$user,{"role":"assistant","content":[{"type":"thinking","thinking":"t"},{"type":"thinking","signature":"s"},{"type":"redacted_thinking"},$text]}]"#, &["! [1].content[0].signature: expected a string", "! [1].content[1].thinking: expected a string", "! [1].content[2].data: expected a string"]),
        ("thinking and a call of the user", r#"[{"role":"user","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"redacted_thinking","data":"d"}]}]"#, &["! [0].content[0]: only the assistant calls tools and thinks", "! [0].content[1]: only the assistant calls tools and thinks"]),
    ]);
}

#[test]
#[rustfmt::skip]
fn anthropic_refuses_calls() {
    check(Dialect::Anthropic, ANTHROPIC_WORDS, &[
        ("a call without its fields", r#"[$user,{"role":"assistant","content":[{"type":"tool_use"}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":""}]}]"#, &["! [1].content[0].id: expected a string that is not empty", "! [1].content[0].name: expected a string that is not empty", "! [1].content[0].input: expected an object"]),
        ("an input that is a string", r#"[$user,{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":"{}"}]},$out1]"#, &["! [1].content[0].input: expected an object"]),
        ("an id with a dot", r#"[$user,{"role":"assistant","content":[{"type":"tool_use","id":"f.read:0","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"f.read:0"}]}]"#, &["! [1].content[0].id: an id has only letters, digits, `_` and `-`", "! [2].content[0].tool_use_id: an id has only letters, digits, `_` and `-`"]),
        ("a result that names no call", r#"[$user,$call1,{"role":"user","content":[{"type":"tool_result","content":"1"}]}]"#, &["! [2].content[0].tool_use_id: a tool result must name the call it answers", r#"! [1].content[0]: the call "t1" has no result in the next message"#, r#"! [2].content[0]: the result of "" has no call in the message before"#]),
        ("a result that is a number", r#"[$user,$call1,{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":1}]}]"#, &["! [2].content[0].content: expected a string or a list of blocks, found a number"]),
        ("a result that holds a call", r#"[$user,$call1,{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"tool_use","id":"t2","name":"f","input":{}},$block2,{"type":"text","text":" "}]}]}]"#, &["! [2].content[0].content[0]: a tool result holds no calls, results or thinking", "! [2].content[0].content[1]: a tool result holds no calls, results or thinking", "! [2].content[0].content[2].text: text must hold more than white space"]),
        ("a call at the end", r#"{"messages":[$user,$call1]}"#, &[r#"! messages[1].content[0]: the call "t1" has no result in the next message"#]),
        ("a call before words", "[$user,$call1,$user]", &[r#"! [1].content[0]: the call "t1" has no result in the next message"#]),
        ("one of two calls", "[$user,$calls,$out1]", &[r#"! [1].content[2]: the call "t2" has no result in the next message"#]),
        ("results in two messages", "[$user,$calls,$out1,$out2]", &[r#"! [1].content[2]: the call "t2" has no result in the next message"#, "? [3].role: two messages of the user in a row", r#"! [3].content[0]: the result of "t2" has no call in the message before"#]),
        ("a system message between", "[$user,$call1,$system,$out1]", &[r#"! [1].content[0]: the call "t1" has no result in the next message"#, "! [2].role: a system message stands after a user's and before an assistant's", r#"! [3].content[0]: the result of "t1" has no call in the message before"#]),
        ("a result without a call", r#"{"messages":[$out1]}"#, &[r#"! messages[0].content[0]: the result of "t1" has no call in the message before"#]),
        ("a result after the next call", "[$user,$call1,$out1,$call2,$out1]", &[r#"! [3].content[0]: the call "t2" has no result in the next message"#, r#"! [4].content[0]: the result of "t1" has no call in the message before"#]),
        ("two results", r#"[$user,$call1,{"role":"user","content":[$block1,$block1]}]"#, &[r#"! [2].content[1]: the call "t1" has more than one result"#]),
        ("words before a result", r#"[$user,$call1,{"role":"user","content":[$text,$block1]}]"#, &["! [2].content[1]: results come before everything else"]),
        ("a result of the assistant", r#"[$user,$call1,{"role":"assistant","content":[$block1]}]"#, &["? [2].role: two messages of the assistant in a row", "! [2].content[0]: only a user message carries results"]),
        ("a call of the user", r#"[{"role":"user","content":[{"type":"tool_use","id":"t1","name":"f","input":{}}]},{"role":"assistant","content":[$text]}]"#, &[r#"! [0].content[0]: the call "t1" has no result in the next message"#, "! [0].content[0]: only the assistant calls tools and thinks"]),
        ("an id again", "[$user,$call1,$out1,$call1,$out1]", &[r#"! [3].content[0]: the call id "t1" is used in [1] already"#]),
        ("a server tool without its result", r#"[$user,{"role":"assistant","content":[$search,$mcp,$text]},$user]"#, &[r#"! [1].content[0]: the call "srvtoolu_1" has no result in its message"#, r#"! [1].content[1]: the call "mcptoolu_1" has no result in its message"#]),
        ("a result without its server tool", r#"[$user,{"role":"assistant","content":[$got,$hits]}]"#, &[r#"! [1].content[0]: the result of "mcptoolu_1" has no call in its message"#, r#"! [1].content[1]: the result of "srvtoolu_1" has no call in its message"#]),
        ("a server tool in two messages", r#"[$user,{"role":"assistant","content":[$search]},$user,{"role":"assistant","content":[$hits]}]"#, &[r#"! [1].content[0]: the call "srvtoolu_1" has no result in its message"#]),
    ]);
}

#[test]
#[rustfmt::skip]
fn anthropic_refuses_settings() {
    check(Dialect::Anthropic, ANTHROPIC_WORDS, &[
        ("a mark in a tool and one in the system prompt too many", r#"{"tools":[{"name":"f","input_schema":{},"cache_control":{"type":"ephemeral"}}],"system":[$marked],"messages":[{"role":"user","content":[$marked,$marked]},{"role":"assistant","content":[$marked]}]}"#, &["! request: 5 cache_control marks; at most 4 are taken"]),
        ("marks in a result and on the request", r#"{"cache_control":{"type":"ephemeral"},"messages":[{"role":"user","content":[$marked,$marked]},$call1,{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","cache_control":{"type":"ephemeral"},"content":[$marked]}]}]}"#, &["! request: 5 cache_control marks; at most 4 are taken"]),
        ("an hour after five minutes", r#"{"messages":[{"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral","ttl":"1h"}}]}],"cache_control":{"type":"ephemeral","ttl":"1h"},"system":[$marked]}"#, &["! request: a cache_control mark for an hour stands after one for five minutes"]),
        ("a mark on thinking", r#"[{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s","cache_control":{"type":"ephemeral"}},$text]},{"role":"user","content":"q"}]"#, &["! [1].content[0].cache_control: thinking cannot be marked"]),
        ("a mark for a day", r#"[{"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral","ttl":"1d"}}]}]"#, &[r#"! [0].content[0].cache_control.ttl: expected "5m" or "1h""#]),
        ("little to think with", r#"{"thinking":{"type":"enabled","budget_tokens":1023},"messages":[$user]}"#, &["! thinking.budget_tokens: a budget for thinking has at least 1,024 tokens"]),
        ("more to think with than there is", r#"{"max_tokens":2048,"thinking":{"type":"enabled","budget_tokens":2048},"messages":[$user]}"#, &["? thinking.budget_tokens: a budget for thinking is smaller than max_tokens"]),
        ("a new model set like an old one", r#"{"model":"claude-opus-4-7","thinking":{"type":"enabled","budget_tokens":1024},"temperature":1.0,"top_p":1,"top_k":5,"messages":[$user]}"#, &["? thinking.type: Claude 4.7 and later think adaptively only", "? temperature: Claude 4.7 and later cannot be set like this", "? top_p: Claude 4.7 and later cannot be set like this", "? top_k: Claude 4.7 and later cannot be set like this"]),
        ("another model that always thinks", r#"{"model":"claude-fable-5-1","tool_choice":{"type":"any"},"messages":[$user]}"#, &["? tool_choice.type: this model cannot be made to call a tool"]),
        ("a model that always thinks", r#"{"model":"claude-opus-5-5","thinking":{"type":"disabled"},"tool_choice":{"type":"tool","name":"f"},"messages":[$user]}"#, &["? thinking.type: this model cannot be kept from thinking", "? tool_choice.type: this model cannot be made to call a tool"]),
        ("two ways to compact", r#"{"compaction":{"type":"summarize"},"context_management":{"edits":[]},"messages":[$user]}"#, &["! compaction: it does not go together with context_management"]),
    ]);
}

#[test]
fn anthropic_has_limits() {
    let user = r#"{"role":"user","content":"hi"}"#;
    let reply = r#"{"role":"assistant","content":"ok"}"#;
    let messages = |count: usize| {
        let turns: Vec<&str> = [user, reply].into_iter().cycle().take(count).collect();
        format!("[{}]", turns.join(","))
    };
    assert_eq!(findings(Dialect::Anthropic, &messages(100_000)), [""; 0]);
    assert_eq!(
        findings(Dialect::Anthropic, &messages(100_001)),
        ["! messages: 100,001 messages; at most 100,000 are taken"]
    );

    let long = |bytes: usize| {
        let frame = r#"[{"role":"user","content":""}]"#.len();
        format!(r#"[{{"role":"user","content":"{}"}}]"#, "x".repeat(bytes - frame))
    };
    assert_eq!(findings(Dialect::Anthropic, &long(32 << 20)), [""; 0]);
    assert_eq!(
        findings(Dialect::Anthropic, &long((32 << 20) + 1)),
        ["! request: 33,554,433 bytes; at most 33,554,432 are taken"]
    );

    let images = |count: usize, width: u16, height: u16| {
        let image = format!(
            r#"{{"type":"image","source":{{"type":"base64","media_type":"image/gif","data":"{}"}}}}"#,
            gif(width, height)
        );
        format!(r#"[{{"role":"user","content":[{}]}}]"#, vec![image; count].join(","))
    };
    assert_eq!(findings(Dialect::Anthropic, &images(100, 10, 10)), [""; 0]);
    assert_eq!(
        findings(Dialect::Anthropic, &images(101, 10, 10)),
        ["? messages: 101 images; at most 100 are taken"]
    );
    assert_eq!(
        findings(Dialect::Anthropic, &images(601, 10, 10)),
        ["! messages: 601 images; at most 600 are taken"]
    );
    assert_eq!(findings(Dialect::Anthropic, &images(20, 8_000, 8_000)), [""; 0]);
    assert_eq!(
        findings(Dialect::Anthropic, &images(1, 10, 8_001)),
        ["! [0].content[0]: an image has at most 8,000 pixels a side"]
    );
    let found = findings(Dialect::Anthropic, &images(21, 2_001, 10));
    assert_eq!(found.len(), 21);
    assert_eq!(
        found[20],
        "! [0].content[20]: an image has at most 2,000 pixels a side where there are more than 20"
    );
    let in_result = format!(
        r#"[{user},{{"role":"assistant","content":[{{"type":"tool_use","id":"t1","name":"f","input":{{}}}}]}},{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t1","content":[{{"type":"text","text":"a"}},{{"type":"image","source":{{"data":"{}"}}}}]}}]}}]"#,
        gif(9_000, 1)
    );
    assert_eq!(
        findings(Dialect::Anthropic, &in_result),
        ["! [2].content[0].content[1]: an image has at most 8,000 pixels a side"]
    );
}

/// The head of a GIF in base64.
fn gif(width: u16, height: u16) -> String {
    let [[a, b], [c, d]] = [width.to_le_bytes(), height.to_le_bytes()];
    let bytes = [b'G', b'I', b'F', b'8', b'9', b'a', a, b, c, d, 0, 0];
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let quads = bytes.chunks(3).flat_map(|three| {
        let bits = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        [18, 12, 6, 0].map(|shift| letters[(bits >> shift & 63) as usize] as char)
    });
    quads.collect()
}

#[rustfmt::skip]
const RESPONSES_WORDS: &[(&str, &str)] = &[
    ("$user", r#"{"role":"user","content":"hi"}"#),
    ("$reply", r#"{"type":"message","id":"msg_1","role":"assistant","status":"completed","phase":"final_answer","content":[{"type":"output_text","text":"ok","annotations":[]}]}"#),
    ("$call1", r#"{"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":"{}"}"#),
    ("$call2", r#"{"type":"function_call","call_id":"c2","name":"f","arguments":"{}"}"#),
    ("$out1", r#"{"type":"function_call_output","call_id":"c1","output":"1"}"#),
    ("$out2", r#"{"type":"function_call_output","call_id":"c2","output":"2"}"#),
    ("$custom", r#"{"type":"custom_tool_call","call_id":"c3","name":"f","input":"x"}"#),
    ("$made", r#"{"type":"custom_tool_call_output","call_id":"c3","output":"3"}"#),
    ("$reasoning", r#"{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"e"}"#),
    ("$compaction", r#"{"type":"compaction","encrypted_content":"e"}"#),
    ("$trigger", r#"{"type":"compaction_trigger"}"#),
];

#[test]
#[rustfmt::skip]
fn responses_take() {
    check(Dialect::Responses, RESPONSES_WORDS, &[
        ("a string", r#"{"input":"hi","instructions":"be brief"}"#, &[]),
        ("an exchange", r#"{"input":[$user,$reply,{"type":"message","role":"developer","content":[{"type":"input_text","text":"d"}]},{"role":"system","content":"s"},{"role":"assistant","content":"short"}]}"#, &[]),
        ("every part of the user", r#"[{"role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_image","image_url":"https://x/y.png","detail":"low"},{"type":"input_image","file_id":"f"},{"type":"input_file","file_data":"data:;base64,AA"}]}]"#, &[]),
        ("a refusal", r#"[$user,{"role":"assistant","content":[{"type":"refusal","refusal":"no"}]}]"#, &[]),
        ("a call", "[$user,$call1,$out1,$reply]", &[]),
        ("parallel calls in another order", "[$user,$call1,$call2,$out2,$out1]", &[]),
        ("a call that waits", "[$user,$call1,$call2,$out2,$user,$out1]", &[]),
        ("a custom call", "[$user,$custom,$made]", &[]),
        ("outputs of every shape", r#"[$user,$call1,{"type":"function_call_output","call_id":"c1","output":[{"type":"input_text","text":"a"},{"type":"input_image","image_url":"u"},{"type":"input_file","file_id":"f"}]},$call2,{"type":"function_call_output","call_id":"c2","output":""}]"#, &[]),
        ("reasoning and its call", "[$user,$reasoning,$call1,$out1,$reasoning,$reasoning,$reply]", &[]),
        ("reasoning and a search", r#"[$user,$reasoning,{"type":"web_search_call","id":"ws_1","status":"completed"},$reply]"#, &[]),
        ("calls of built-in tools", r#"[$user,{"type":"computer_call","call_id":"a","action":{}},{"type":"computer_call_output","call_id":"a","output":{"type":"computer_screenshot"}},{"type":"shell_call","call_id":"b","action":{}},{"type":"shell_call_output","call_id":"b","output":[{"stdout":"x"}]},{"type":"local_shell_call","call_id":"c","action":{}},{"type":"local_shell_call_output","id":"c","output":"y"},{"type":"apply_patch_call","call_id":"d","operation":{}},{"type":"apply_patch_call_output","call_id":"d","status":"completed"},{"type":"program","call_id":"e","code":"z"},{"type":"program_output","call_id":"e","result":"z"}]"#, &[]),
        ("items without a pair", r#"[$user,{"type":"file_search_call","id":"1"},{"type":"code_interpreter_call","id":"2"},{"type":"image_generation_call","id":"3","result":"AA"},{"type":"mcp_list_tools","id":"4"},{"type":"mcp_call","id":"5"},{"type":"mcp_approval_request","id":"6"},{"type":"mcp_approval_response","approval_request_id":"6","approve":true},{"type":"tool_search_call","call_id":null,"execution":"server"},{"type":"tool_search_output","call_id":null,"tools":[]},{"type":"additional_tools","tools":[]}]"#, &[]),
        ("items and parts of tomorrow", r#"[{"type":"hologram","x":1.0},{"role":"user","content":[{"type":"input_smell","x":1}]}]"#, &[]),
        ("a compaction", r#"{"input":[$compaction,$user,$reasoning,$compaction,$trigger]}"#, &[]),
        ("outputs of held calls", r#"{"previous_response_id":"resp_1","input":[$out1]}"#, &[]),
        ("outputs of a held conversation", r#"{"conversation":{"id":"conv_1"},"input":[$out1]}"#, &[]),
        ("outputs of calls by reference", r#"{"input":[$user,{"type":"item_reference","id":"fc_1"},{"id":"fc_2"},$out1,$out2]}"#, &[]),
        ("nothing to add", r#"{"previous_response_id":"resp_1","input":[]}"#, &[]),
        ("settings", r#"{"store":false,"truncation":"auto","prompt_cache_key":"k","context_management":[{"type":"compaction","compact_threshold":1000}],"input":[$reasoning,$reply]}"#, &[]),
    ]);
}

#[test]
#[rustfmt::skip]
fn responses_refuse() {
    check(Dialect::Responses, RESPONSES_WORDS, &[
        ("no input", r#"{"instructions":"be brief","input":[]}"#, &["? input: the list is empty"]),
        ("no item", r#"{"input":[$user,"hi"]}"#, &["! input[1]: expected an item, found a string", "! input[1].role: a message needs a role", "! input[1].content: a message needs content"]),
        ("no role", r#"{"input":[{"type":"message","content":"hi"}]}"#, &["! input[0].role: a message needs a role"]),
        ("an unknown role", r#"{"input":[{"role":"tool","content":"hi"}]}"#, &[r#"! input[0].role: unknown role "tool""#]),
        ("no content", r#"{"input":[{"role":"user"}]}"#, &["! input[0].content: a message needs content"]),
        ("content that is null", r#"{"input":[{"role":"user","content":null}]}"#, &["! input[0].content: expected a string or a list of parts, found null"]),
        ("a part without a type", r#"{"input":[{"role":"user","content":[{"text":"a"}]}]}"#, &["! input[0].content[0].type: a part needs a type"]),
        ("a text without text", r#"{"input":[{"role":"user","content":[{"type":"input_text"}]}]}"#, &["! input[0].content[0].text: expected a string"]),
        ("an answer of the user", r#"{"input":[{"role":"user","content":[{"type":"output_text","text":"a"},{"type":"refusal","refusal":"b"}]}]}"#, &["! input[0].content[0].type: expected one of input_text, input_image, input_file", "! input[0].content[1].type: expected one of input_text, input_image, input_file"]),
        ("a question of the assistant", r#"{"input":[$user,{"role":"assistant","content":[{"type":"input_text","text":"a"}]}]}"#, &["! input[1].content[0].type: expected one of output_text, refusal"]),
        ("a call without its fields", r#"{"input":[$user,{"type":"function_call"}]}"#, &["! input[1].call_id: expected a string", "! input[1].name: expected a string", "! input[1].arguments: expected a string", "? input[1].name: a function's name has 1 to 64 letters, digits, `_` or `-`", r#"! input[1].call_id: the call "" has no result"#]),
        ("arguments that are an object", r#"{"input":[$user,{"type":"function_call","call_id":"c1","name":"f","arguments":{}},$out1]}"#, &["! input[1].arguments: expected a string"]),
        ("a custom call without input", r#"{"input":[$user,{"type":"custom_tool_call","call_id":"c3","name":"f"},$made]}"#, &["! input[1].input: expected a string"]),
        ("an id of 65 letters", r#"{"input":[$user,{"type":"function_call","call_id":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","output":"1"}]}"#, &["! input[1].call_id: at most 64 characters are taken", "! input[2].call_id: at most 64 characters are taken"]),
        ("an output that names no call", r#"{"input":[$user,{"type":"function_call_output","output":"1"}]}"#, &["! input[1].call_id: a tool result must name the call it answers", r#"! input[1].call_id: the result of "" has no call before it"#]),
        ("no output", r#"{"input":[$user,$call1,{"type":"function_call_output","call_id":"c1"}]}"#, &["! input[2].output: a tool result needs an output"]),
        ("an output that is an object", r#"{"input":[$user,$call1,{"type":"function_call_output","call_id":"c1","output":{}}]}"#, &["! input[2].output: expected a string or a list of parts, found an object"]),
        ("an output that is an answer", r#"{"input":[$user,$call1,{"type":"function_call_output","call_id":"c1","output":[{"type":"output_text","text":"1"}]}]}"#, &["! input[2].output[0].type: expected one of input_text, input_image, input_file"]),
        ("a call at the end", r#"{"input":[$user,$call1]}"#, &[r#"! input[1].call_id: the call "c1" has no result"#]),
        ("one of two calls", r#"{"input":[$user,$call1,$call2,$out1,$reply]}"#, &[r#"! input[2].call_id: the call "c2" has no result"#]),
        ("a built-in call at the end", r#"{"input":[$user,{"type":"computer_call","call_id":"a"}]}"#, &[r#"! input[1].call_id: the call "a" has no result"#]),
        ("an output without a call", r#"{"input":[$user,$out1]}"#, &[r#"! input[1].call_id: the result of "c1" has no call before it"#]),
        ("an output before its call", r#"{"input":[$user,$out1,$call1]}"#, &[r#"! input[1].call_id: the result of "c1" has no call before it"#, r#"! input[2].call_id: the call "c1" has no result"#]),
        ("two outputs", r#"{"input":[$user,$call1,$out1,$out1]}"#, &[r#"! input[3].call_id: the call "c1" has more than one result"#]),
        ("an id again", r#"{"input":[$user,$call1,$out1,$call1,$out1]}"#, &[r#"! input[3].call_id: the call id "c1" is used in input[1] already"#]),
        ("a call of a kind we do not know", r#"{"input":[$user,{"type":"program","call_id":"p"},{"type":"other_output","call_id":"q"}]}"#, &[r#"? input[2].call_id: the result of "q" has no call before it"#, r#"? input[1].call_id: the call "p" has no result"#]),
        ("reasoning at the end", r#"{"input":[$user,$reasoning]}"#, &["! input[1]: reasoning must be followed by the item it led to"]),
        ("reasoning before the user", r#"{"input":[$user,$reasoning,$user]}"#, &["! input[1]: reasoning must be followed by the item it led to"]),
        ("reasoning before an output", r#"{"input":[$user,$call1,$reasoning,$out1]}"#, &["! input[2]: reasoning must be followed by the item it led to"]),
        ("a trigger in the middle", r#"{"input":[$trigger,$user]}"#, &["! input[0]: a compaction is triggered by the last item only"]),
        ("a compaction without its seal", r#"{"input":[{"type":"compaction"},$user]}"#, &["! input[0].encrypted_content: expected a string"]),
        ("two held histories", r#"{"previous_response_id":"r","conversation":"c","input":[$user]}"#, &["! conversation: it does not go together with previous_response_id"]),
        ("a way to truncate", r#"{"truncation":"middle","input":[$user]}"#, &[r#"! truncation: expected "auto" or "disabled""#]),
        ("a low threshold", r#"{"context_management":[{"type":"compaction","compact_threshold":999}],"input":[$user]}"#, &["! context_management[0].compact_threshold: a threshold has at least 1,000 tokens"]),
        ("a long cache key", r#"{"prompt_cache_key":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","input":[$user]}"#, &["! prompt_cache_key: at most 64 characters are taken"]),
        ("items that nobody kept", r#"{"store":false,"input":[$user,{"type":"item_reference","id":"msg_1"},{"type":"reasoning","id":"rs_1","summary":[]},$reply]}"#, &["? input[1].id: with store false nothing is kept under this id", "? input[2].encrypted_content: with store false nothing is kept under this id"]),
    ]);
}

#[test]
fn responses_have_limits() {
    let check = |max: usize, at: &str, request: &dyn Fn(&str) -> String| {
        // Characters count, not bytes.
        let fill = if max > 1_000_000 { "x" } else { "é" };
        assert_eq!(findings(Dialect::Responses, &request(&fill.repeat(max))), [""; 0], "{at}");
        let max_shown = longhand_core::grouped(max);
        assert_eq!(
            findings(Dialect::Responses, &request(&fill.repeat(max + 1))),
            [format!("! {at}: at most {max_shown} characters are taken")]
        );
    };
    let (text, sealed, file) = (10_485_760, 20_971_520, 73_400_320);
    check(64, "input[0].call_id", &|id| {
        format!(
            r#"{{"previous_response_id":"r","input":[{{"type":"function_call_output","call_id":"{id}","output":""}}]}}"#
        )
    });
    check(text, "input", &|text| format!(r#"{{"input":"{text}"}}"#));
    check(text, "input[0].content", &|text| {
        format!(r#"{{"input":[{{"role":"user","content":"{text}"}}]}}"#)
    });
    check(text, "input[0].content[0].text", &|text| {
        format!(
            r#"{{"input":[{{"role":"user","content":[{{"type":"input_text","text":"{text}"}}]}}]}}"#
        )
    });
    check(text, "input[0].output", &|text| {
        format!(
            r#"{{"previous_response_id":"r","input":[{{"type":"function_call_output","call_id":"c","output":"{text}"}}]}}"#
        )
    });
    check(sealed, "input[0].content[0].image_url", &|url| {
        format!(
            r#"{{"input":[{{"role":"user","content":[{{"type":"input_image","image_url":"{url}"}}]}}]}}"#
        )
    });
    check(sealed, "input[0].encrypted_content", &|seal| {
        format!(
            r#"{{"input":[{{"type":"compaction","encrypted_content":"{seal}"}},{{"role":"user","content":"hi"}}]}}"#
        )
    });
    check(file, "input[0].content[0].file_data", &|data| {
        format!(
            r#"{{"input":[{{"role":"user","content":[{{"type":"input_file","file_data":"{data}"}}]}}]}}"#
        )
    });
}
