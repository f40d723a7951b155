//! Rules of Chat Completions: each with an example that breaks it and one that does not.

use longhand_testkit::WireFormat;

use crate::check;

#[rustfmt::skip]
const WORDS: &[(&str, &str)] = &[
    ("$user", r#"{"role":"user","content":"hi"}"#),
    ("$reply", r#"{"role":"assistant","content":"ok"}"#),
    ("$calls", r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"c2","type":"custom","custom":{"name":"f","input":"x"}}]}"#),
    ("$call1", r#"{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]}"#),
    ("$out1", r#"{"role":"tool","tool_call_id":"c1","content":"1"}"#),
    ("$out2", r#"{"role":"tool","tool_call_id":"c2","content":""}"#),
    ("$image", r#"{"type":"image_url","image_url":{"url":"https://x/y.png"}}"#),
    ("$name65", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
    ("$name64", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
];

#[test]
#[rustfmt::skip]
fn messages() {
    check(WireFormat::Chat, WORDS, &[
        ("an exchange", r#"{"messages":[$user,$reply,$user]}"#, &[]),
        ("a bare list", "[$user,$reply]", &[]),
        ("nothing yet", "[]", &[]),
        ("no JSON", "[", &["request: the JSON does not parse: EOF while parsing a list at line 1 column 1"]),
        ("no list", r#"{"messages":1}"#, &["messages: expected a list of messages"]),
        ("an unknown role", r#"[{"role":"bot","content":"a"}]"#, &[r#"messages[0]: unknown role "bot""#]),
        ("every role", r#"[{"role":"system","content":"s"},{"role":"developer","content":[{"type":"text","text":"d"}]},$user,{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}},{"role":"function","name":"f","content":null}]"#, &[]),
        ("empty text", r#"[{"role":"user","content":""}]"#, &["messages[0].content: the text is empty"]),
        ("a blank part", r#"[{"role":"user","content":[{"type":"text","text":" \n"}]}]"#, &["messages[0].content[0]: the text is empty"]),
        ("no parts", r#"[{"role":"user","content":[]}]"#, &["messages[0].content: the list of parts is empty"]),
        ("a user without content", r#"[{"role":"user","content":null}]"#, &["messages[0].content: the message has no content"]),
        ("content that is a number", r#"[{"role":"user","content":1}]"#, &["messages[0].content: expected a string or a list of parts"]),
        ("every part of the user", r#"[{"role":"user","content":[{"type":"text","text":"a"},$image,{"type":"input_audio","input_audio":{"data":"AA","format":"wav"}},{"type":"file","file":{"file_id":"f"}}]}]"#, &[]),
        ("parts without their data", r#"[{"role":"user","content":[{"type":"text"},{"type":"image_url","image_url":{}},{"type":"input_audio","input_audio":{"data":"AA"}},{"type":"file","file":{}}]}]"#, &["messages[0].content[0]: `text` is not a string", "messages[0].content[1]: the image has no address", "messages[0].content[2]: audio needs `data` and `format`", "messages[0].content[3]: a file needs `file_id` or `file_data`"]),
        ("an image of the system", r#"[{"role":"system","content":[$image]},$user]"#, &[r#"messages[0].content[0]: no part of type "image_url" here"#]),
        ("an image of a tool", r#"[$user,$call1,{"role":"tool","tool_call_id":"c1","content":[$image]}]"#, &[r#"messages[2].content[0]: no part of type "image_url" here"#]),
        ("one refusal", r#"[$user,{"role":"assistant","content":[{"type":"refusal","refusal":"no"}]}]"#, &[]),
        ("a refusal beside text", r#"[$user,{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"refusal","refusal":"no"}]}]"#, &["messages[1]: a refusal is the only part of its message"]),
        ("a reply with nothing", r#"[$user,{"role":"assistant","content":null}]"#, &["messages[1]: only a message with calls may lack content"]),
        ("an audio reply", r#"[$user,{"role":"assistant","audio":{"id":"a"}}]"#, &[]),
        ("a function without a name", r#"[$user,{"role":"function","content":"1"}]"#, &["messages[1]: a function message needs a `name`"]),
        ("a function with parts", r#"[$user,{"role":"function","name":"f","content":[]}]"#, &["messages[1]: the content of a function message is a string or null"]),
    ]);
}

#[test]
#[rustfmt::skip]
fn calls() {
    check(WireFormat::Chat, WORDS, &[
        ("two calls", "[$user,$calls,$out1,$out2,$reply]", &[]),
        ("results in another order", "[$user,$calls,$out2,$out1]", &[]),
        ("a call without a result", "[$user,$call1]", &[r#"messages[1].tool_calls[0]: the call "c1" has no result right after it"#]),
        ("one result of two", "[$user,$calls,$out1,$reply]", &[r#"messages[1].tool_calls[1]: the call "c2" has no result right after it"#]),
        ("a result without a call", "[$user,$out1]", &[r#"messages[1]: the result of "c1" does not follow its call"#]),
        ("a result twice", "[$user,$call1,$out1,$out1]", &[r#"messages[3]: the result of "c1" does not follow its call"#]),
        ("a user between", "[$user,$call1,$user,$out1]", &[r#"messages[1].tool_calls[0]: the call "c1" has no result right after it"#, r#"messages[3]: the result of "c1" does not follow its call"#]),
        ("a system message among results", r#"[$user,$calls,$out1,{"role":"system","content":"s"},$out2]"#, &[r#"messages[1].tool_calls[1]: the call "c2" has no result right after it"#, r#"messages[4]: the result of "c2" does not follow its call"#]),
        ("an id of an earlier message", "[$user,$call1,$out1,$call1,$out1]", &[]),
        ("an id twice in one message", r#"[$user,{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]},$out1]"#, &["messages[1].tool_calls[1]: two calls of one message have the same id"]),
        ("a result that names no call", r#"[$user,$call1,$out1,{"role":"tool","content":"1"}]"#, &["messages[3]: a tool message needs a `tool_call_id`"]),
        ("a result without content", r#"[$user,$call1,{"role":"tool","tool_call_id":"c1"}]"#, &["messages[2].content: the message has no content"]),
        ("no calls", r#"[$user,{"role":"assistant","content":"a","tool_calls":[]}]"#, &["messages[1].tool_calls: the list of calls is empty"]),
        ("calls that are no list", r#"[$user,{"role":"assistant","content":"a","tool_calls":1}]"#, &["messages[1].tool_calls: expected a list of calls"]),
        ("calls of the user", r#"[{"role":"user","content":"a","function_call":{}}]"#, &["messages[0]: only the assistant calls tools"]),
        ("a call without its fields", r#"[$user,{"role":"assistant","tool_calls":[{}]}]"#, &["messages[1].tool_calls[0]: the call has no id", "messages[1].tool_calls[0]: a call is of type `function` or `custom`"]),
        ("a function without its fields", r#"[$user,{"role":"assistant","tool_calls":[{"id":"c1","type":"function"}]},$out1]"#, &["messages[1].tool_calls[0]: the tool has no name", "messages[1].tool_calls[0]: `arguments` is not a string"]),
        ("arguments that are a list", r#"[$user,{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"[]"}}]},$out1]"#, &["messages[1].tool_calls[0]: `arguments` does not hold a JSON object"]),
        ("arguments that are cut off", r#"[$user,{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":"}}]},$out1]"#, &["messages[1].tool_calls[0]: `arguments` does not hold a JSON object"]),
        ("custom input that is an object", r#"[$user,{"role":"assistant","tool_calls":[{"id":"c1","type":"custom","custom":{"name":"f","input":{}}}]},$out1]"#, &["messages[1].tool_calls[0]: the input of a custom call is not a string"]),
        ("a long name", r#"[$user,{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"$name64","arguments":"{}"}}]},$out1]"#, &[]),
        ("too long a name", r#"[$user,{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"$name65","arguments":"{}"}}]},$out1]"#, &["messages[1].tool_calls[0]: a tool name has 1 to 64 letters, digits, `_` or `-`"]),
        ("a tool with a dot in its name", r#"{"tools":[{"type":"function","function":{"name":"a.b"}}],"messages":[$user]}"#, &["tools[0]: a tool name has 1 to 64 letters, digits, `_` or `-`"]),
    ]);
}

#[test]
#[rustfmt::skip]
fn models() {
    check(WireFormat::Chat, WORDS, &[
        ("effort with tools", r#"{"model":"gpt-5.4","reasoning_effort":"high","tools":[{"type":"function","function":{"name":"f"}}],"messages":[$user]}"#, &["reasoning_effort: this model takes no tools with a reasoning effort"]),
        ("effort without tools", r#"{"model":"gpt-5.4","reasoning_effort":"high","tools":[],"messages":[$user]}"#, &[]),
        ("effort with tools before 5.4", r#"{"model":"gpt-5.2","reasoning_effort":"high","tools":[{"type":"function","function":{"name":"f"}}],"messages":[$user]}"#, &[]),
        ("calls of DeepSeek without reasoning", r#"{"model":"deepseek-v4","messages":[$user,$call1,$out1]}"#, &["messages[1]: this model needs `reasoning_content` beside calls"]),
        ("calls of DeepSeek with reasoning", r#"{"model":"deepseek-v4","messages":[$user,{"role":"assistant","reasoning_content":"","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]},$out1]}"#, &[]),
        ("ids and turns of Mistral", r#"{"model":"mistral-large","messages":[$user,$call1,$out1,$user]}"#, &["messages[1]: Mistral wants call ids of nine letters and digits", "messages[3]: Mistral takes no user message after a tool's"]),
        ("an id that Mistral takes", r#"{"model":"mistral-large","messages":[$user,{"role":"assistant","tool_calls":[{"id":"abcDEF123","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"abcDEF123","content":"1"},$reply,$user]}"#, &[]),
    ]);
}
