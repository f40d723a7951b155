//! Rules of Anthropic Messages: each with an example that breaks it and one that does not.

use longhand_testkit::{WireFormat, validate};

use crate::check;

#[rustfmt::skip]
const WORDS: &[(&str, &str)] = &[
    ("$user", r#"{"role":"user","content":"hi"}"#),
    ("$reply", r#"{"role":"assistant","content":"ok"}"#),
    ("$system", r#"{"role":"system","content":"mind the gap"}"#),
    ("$text", r#"{"type":"text","text":"a"}"#),
    ("$marked", r#"{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}"#),
    ("$hour", r#"{"type":"text","text":"a","cache_control":{"type":"ephemeral","ttl":"1h"}}"#),
    ("$image", r#"{"type":"image","source":{"type":"url","url":"u"}}"#),
    ("$use1", r#"{"type":"tool_use","id":"t1","name":"f","input":{}}"#),
    ("$use2", r#"{"type":"tool_use","id":"t2","name":"f","input":{}}"#),
    ("$result1", r#"{"type":"tool_result","tool_use_id":"t1"}"#),
    ("$result2", r#"{"type":"tool_result","tool_use_id":"t2","content":""}"#),
    ("$call1", r#"{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":{}}]}"#),
    ("$out1", r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"1"}]}"#),
    ("$think", r#"{"type":"thinking","thinking":"","signature":"s"}"#),
    ("$search", r#"{"type":"server_tool_use","id":"s1","name":"web_search","input":{}}"#),
    ("$found", r#"{"type":"web_search_tool_result","tool_use_id":"s1","content":[]}"#),
    ("$mcp", r#"{"type":"mcp_tool_use","id":"m1","name":"f","server_name":"s","input":{}}"#),
    ("$mresult", r#"{"type":"mcp_tool_result","tool_use_id":"m1","content":[]}"#),
];

#[test]
#[rustfmt::skip]
fn roles() {
    check(WireFormat::Anthropic, WORDS, &[
        ("an exchange", r#"{"system":"s","messages":[$user,$reply,$user]}"#, &[]),
        ("a bare list", "[$user,$reply]", &[]),
        ("no list", r#"{"messages":{}}"#, &["messages: expected a list of messages"]),
        ("the assistant first", "[$reply,$user]", &["messages[0]: the first message is not the user's"]),
        ("a compaction first", r#"[{"role":"assistant","content":[{"type":"compaction","content":"c"}]},$user]"#, &[]),
        ("the user twice", "[$user,$user]", &["messages[1]: two messages of the user in a row"]),
        ("the assistant twice", "[$user,$reply,$reply,$user]", &["messages[2]: two messages of the assistant in a row"]),
        ("an unknown role", r#"[$user,{"role":"tool","content":"a"}]"#, &[r#"messages[1]: unknown role "tool""#]),
        ("a system message at the end", "[$user,$system]", &[]),
        ("a system message before the assistant", "[$user,$system,$reply]", &[]),
        ("a system message first", "[$system,$user]", &["messages[0]: a system message comes after a user's", "messages[0]: a system message is the last or before an assistant's"]),
        ("a system message after the assistant", "[$user,$reply,$system]", &["messages[2]: a system message comes after a user's"]),
        ("a system message before the user", "[$user,$system,$user]", &["messages[1]: a system message is the last or before an assistant's"]),
        ("an image in a system message", r#"[$user,{"role":"system","content":[$image]}]"#, &[r#"messages[1].content[0]: no block of type "image" in a message of the system"#]),
        ("a system message for an old model", r#"{"model":"claude-sonnet-4-5","messages":[$user,$system]}"#, &["messages[1]: this model takes no system messages"]),
        ("a system message for a new model", r#"{"model":"claude-opus-4-8","messages":[$user,$system]}"#, &[]),
        ("a prefill", r#"{"model":"claude-sonnet-4-5","messages":[$user,$reply]}"#, &[]),
        ("a prefill for a new model", r#"{"model":"claude-opus-4-6","messages":[$user,$reply]}"#, &["messages[1]: this model takes no assistant message at the end"]),
        ("a prefill that ends in a space", r#"[$user,{"role":"assistant","content":[$text,{"type":"text","text":"so "}]}]"#, &["messages[1]: the last message of the assistant ends in white space"]),
        ("a reply that ends in a space", r#"[$user,{"role":"assistant","content":"so "},$user]"#, &[]),
    ]);
}

#[test]
#[rustfmt::skip]
fn blocks() {
    check(WireFormat::Anthropic, WORDS, &[
        ("empty content", r#"[{"role":"user","content":" "},{"role":"assistant","content":[]},{"role":"user"}]"#, &["messages[0].content: the text is empty", "messages[1].content: the list of blocks is empty", "messages[2].content: expected a string or a list of blocks"]),
        ("a blank text", r#"[{"role":"user","content":[{"type":"text","text":"\n"}]}]"#, &["messages[0].content[0]: the text is empty"]),
        ("a block without a type", r#"[{"role":"user","content":[{}]}]"#, &["messages[0].content[0]: the block has no type"]),
        ("an image and a document", r#"[{"role":"user","content":[$image,{"type":"document","source":{"type":"text","media_type":"text/plain","data":"d"},"citations":{"enabled":true}}]}]"#, &[]),
        ("an image of the assistant", r#"[$user,{"role":"assistant","content":[$image]}]"#, &[r#"messages[1].content[0]: no block of type "image" in a message of the assistant"#]),
        ("images without their data", r#"[{"role":"user","content":[{"type":"image"},{"type":"image","source":{"type":"base64","data":"AA"}}]}]"#, &["messages[0].content[0]: the source is of no known type", "messages[0].content[1]: the source needs `media_type` and `data`"]),
        ("citations", r#"[$user,{"role":"assistant","content":[{"type":"text","text":"a","citations":[{}]},{"type":"text","text":"a","citations":1}]}]"#, &["messages[1].content[1]: the citations are not a list"]),
        ("thinking", r#"[$user,{"role":"assistant","content":[$think,{"type":"redacted_thinking","data":"d"},$text,$use1]},$out1]"#, &[]),
        ("thinking alone", r#"[$user,{"role":"assistant","content":[$think,$think]},$user]"#, &[]),
        ("thinking between tools of the provider", r#"[$user,{"role":"assistant","content":[$think,$search,$found,$think,$text]}]"#, &[]),
        ("thinking at the end", r#"[$user,{"role":"assistant","content":[$text,$think]}]"#, &["messages[1].content[1]: thinking comes before what it led to"]),
        ("thinking after a call", r#"[$user,{"role":"assistant","content":[$use1,$think,$use2]},{"role":"user","content":[$result1,$result2]}]"#, &["messages[1].content[1]: thinking comes before what it led to"]),
        ("thinking of the user", r#"[{"role":"user","content":[$think,$text]}]"#, &[r#"messages[0].content[0]: no block of type "thinking" in a message of the user"#]),
        ("thinking without its fields", r#"[$user,{"role":"assistant","content":[{"type":"thinking","signature":""},{"type":"redacted_thinking"},$text]}]"#, &["messages[1].content[0]: `thinking` is not a string", "messages[1].content[0]: thinking needs its signature", "messages[1].content[1]: redacted thinking needs its data"]),
    ]);
}

#[test]
#[rustfmt::skip]
fn calls() {
    check(WireFormat::Anthropic, WORDS, &[
        ("two calls", r#"[$user,{"role":"assistant","content":[$text,$use1,$use2]},{"role":"user","content":[$result2,$result1,$text]},$reply]"#, &[]),
        ("a call at the end", "[$user,$call1]", &[r#"messages[1]: the call "t1" has no result in the next message"#]),
        ("a call before words", "[$user,$call1,$user]", &[r#"messages[1]: the call "t1" has no result in the next message"#]),
        ("one of two results", r#"[$user,{"role":"assistant","content":[$use1,$use2]},$out1]"#, &[r#"messages[1]: the call "t2" has no result in the next message"#]),
        ("a result without a call", "[$out1]", &[r#"messages[0].content[0]: the message before has no open call "t1""#]),
        ("a result twice", r#"[$user,$call1,{"role":"user","content":[$result1,$result1]}]"#, &[r#"messages[2].content[1]: the message before has no open call "t1""#]),
        ("a result that comes late", "[$user,$call1,$user,$reply,$out1]", &[r#"messages[1]: the call "t1" has no result in the next message"#, r#"messages[4].content[0]: the message before has no open call "t1""#]),
        ("a system message between", "[$user,$call1,$system,$out1]", &["messages[2]: a system message comes after a user's", "messages[2]: a system message is the last or before an assistant's", r#"messages[1]: the call "t1" has no result in the next message"#, r#"messages[3].content[0]: the message before has no open call "t1""#]),
        ("words before a result", r#"[$user,$call1,{"role":"user","content":[$text,$result1]}]"#, &["messages[2].content[1]: results come before all other blocks"]),
        ("an id twice", "[$user,$call1,$out1,$call1,$out1]", &["messages[3].content[0]: an earlier call has the same id"]),
        ("a call without its fields", r#"[$user,{"role":"assistant","content":[{"type":"tool_use","id":"a.b","input":"{}"}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a.b","content":1}]}]"#, &["messages[1].content[0]: an id has only letters, digits, `_` and `-`", "messages[1].content[0]: the tool has no name", "messages[1].content[0]: `input` is not an object", "messages[2].content[0]: an id has only letters, digits, `_` and `-`", "messages[2].content[0]: the content is not a string or a list of blocks"]),
        ("a result with an image", r#"[$user,$call1,{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[$text,$image]}]}]"#, &[]),
        ("a result with a blank text and a call", r#"[$user,$call1,{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":""},$use2]}]}]"#, &["messages[2].content[0].content[0]: the text is empty", "messages[2].content[0].content[1]: a result holds no calls, results or thinking"]),
        ("a call of the user", r#"[{"role":"user","content":[$search,$found]}]"#, &[r#"messages[0].content[0]: no block of type "server_tool_use" in a message of the user"#, r#"messages[0].content[1]: no block of type "web_search_tool_result" in a message of the user"#]),
        ("tools of the provider", r#"[$user,{"role":"assistant","content":[$search,$found,$mcp,$mresult,$text]}]"#, &[]),
        ("a search without its result", r#"[$user,{"role":"assistant","content":[$search,$text]}]"#, &[r#"messages[1].content[0]: the call "s1" has no result in its message"#]),
        ("a found page without its search", r#"[$user,{"role":"assistant","content":[$found,$text]}]"#, &["messages[1].content[0]: the message has no call for this result"]),
        ("a search whose result comes later", r#"[$user,{"role":"assistant","content":[$search,$text]},$user,{"role":"assistant","content":[$found,$text]}]"#, &[r#"messages[1].content[0]: the call "s1" has no result in its message"#, "messages[3].content[0]: the message has no call for this result"]),
        ("an MCP result without its call", r#"[$user,{"role":"assistant","content":[$mresult,$text]}]"#, &["messages[1].content[0]: the message has no call for this result"]),
    ]);
}

#[test]
#[rustfmt::skip]
fn requests() {
    check(WireFormat::Anthropic, WORDS, &[
        ("a system prompt in blocks", r#"{"system":[$text],"messages":[$user]}"#, &[]),
        ("a blank system prompt", r#"{"system":" ","messages":[$user]}"#, &["system: the text is empty"]),
        ("an image in the system prompt", r#"{"system":[$image],"messages":[$user]}"#, &["system[0]: a system prompt holds only text", "system[0]: `text` is not a string"]),
        ("tools", r#"{"tools":[{"name":"f"},{"name":"a b"},{"name":"f"}],"messages":[$user]}"#, &["tools[1]: a tool name has 1 to 64 letters, digits, `_` or `-`", "tools[2]: another tool has the same name"]),
        ("four cache marks", r#"{"system":[$hour],"messages":[{"role":"user","content":[$hour,$marked,$marked]}]}"#, &[]),
        ("five cache marks", r#"{"system":[$marked],"messages":[{"role":"user","content":[$marked,$marked,$marked,$marked]}]}"#, &["request: there are 5 cache marks, and four is the most"]),
        ("a mark in a result", r#"{"cache_control":{"type":"ephemeral"},"messages":[$user,$call1,{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[$marked,$marked,$marked,$marked]}]}]}"#, &["request: there are 5 cache marks, and four is the most"]),
        ("an hour after five minutes", r#"[{"role":"user","content":[$marked,$hour]}]"#, &["messages[0].content[1]: a cache mark for an hour comes after one for five minutes"]),
        ("wrong marks", r#"[{"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"x","ttl":"2h"}}]}]"#, &["messages[0].content[0]: a cache mark is of type `ephemeral`", "messages[0].content[0]: a cache mark lasts `5m` or `1h`"]),
        ("a mark on thinking", r#"[$user,{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s","cache_control":{"type":"ephemeral"}},$text]}]"#, &["messages[1].content[0]: thinking cannot be marked for the cache"]),
        ("a thinking budget", r#"{"model":"claude-sonnet-4-5","max_tokens":4096,"temperature":1,"thinking":{"type":"enabled","budget_tokens":1024},"messages":[$user]}"#, &[]),
        ("too small a budget", r#"{"model":"claude-sonnet-4-5","max_tokens":4096,"thinking":{"type":"enabled","budget_tokens":1023},"messages":[$user]}"#, &["thinking: the budget is below 1024 tokens"]),
        ("too large a budget", r#"{"model":"claude-sonnet-4-5","max_tokens":4096,"thinking":{"type":"enabled","budget_tokens":4096},"messages":[$user]}"#, &["thinking: the budget is not below `max_tokens`"]),
        ("a budget for a new model", r#"{"model":"claude-opus-4-7","max_tokens":4096,"top_p":1,"thinking":{"type":"enabled","budget_tokens":1024},"messages":[$user]}"#, &["thinking: this model takes only adaptive thinking", "top_p: this model takes no sampling parameters"]),
        ("a model that always thinks", r#"{"model":"claude-opus-5-5","thinking":{"type":"disabled"},"tool_choice":{"type":"any"},"messages":[$user]}"#, &["thinking: this model cannot stop thinking", "tool_choice: this model cannot be made to call a tool"]),
        ("adaptive thinking", r#"{"model":"claude-opus-5-5","thinking":{"type":"adaptive"},"tool_choice":{"type":"auto"},"messages":[$user]}"#, &[]),
        ("an unknown kind of thinking", r#"{"thinking":{"type":"deep"},"messages":[$user]}"#, &["thinking: the type is not `adaptive`, `enabled` or `disabled`"]),
    ]);
}

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// A PNG header as base64: its size in pixels is all that it tells.
fn png(width: u8, height: u8) -> String {
    // Both sides are multiples of 256, so that they change one byte each.
    let bytes = [
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".as_slice(),
        &[0, 0, width, 0],
        &[0, 0, height, 0, 8],
        &[6, 0, 0],
    ];
    let mut base64 = String::new();
    for group in bytes.concat().chunks_exact(3) {
        let word = group.iter().fold(0_usize, |word, byte| word << 8 | usize::from(*byte));
        base64.extend([18, 12, 6, 0].map(|shift| char::from(LETTERS[word >> shift & 63])));
    }
    base64
}

#[test]
fn images() {
    let check = |model: &str, count: usize, side: u8, expected: Option<&str>| {
        let source =
            format!(r#"{{"type":"base64","media_type":"image/png","data":"{}"}}"#, png(4, side));
        let image = format!(r#"{{"type":"image","source":{source}}}"#);
        let images = vec![image; count].join(",");
        let json =
            format!(r#"{{"model":"{model}","messages":[{{"role":"user","content":[{images}]}}]}}"#);
        let found = validate(WireFormat::Anthropic, &json);
        assert_eq!(found.first().map(String::as_str), expected, "{count} of {side}");
    };
    check("claude-sonnet-4-5", 100, 4, None);
    check("claude-sonnet-4-5", 101, 4, Some("messages: there are more than 100 images"));
    check("claude-opus-5-5", 600, 4, None);
    check("claude-opus-5-5", 601, 4, Some("messages: there are more than 600 images"));
    check("claude-opus-5-5", 20, 31, None);
    check(
        "claude-opus-5-5",
        1,
        32,
        Some("messages[0]: an image of 1024x8192 pixels is larger than 8000x8000"),
    );
    check(
        "claude-opus-5-5",
        21,
        8,
        Some("messages[0]: an image of 1024x2048 pixels is larger than 2000x2000"),
    );
}

#[test]
fn large_bodies() {
    for (bytes, taken) in [(33_554_432, true), (33_554_433, false)] {
        let frame = r#"[{"role":"user","content":""}]"#.len();
        let json = format!(r#"[{{"role":"user","content":"{}"}}]"#, "a".repeat(bytes - frame));
        assert_eq!(validate(WireFormat::Anthropic, &json).is_empty(), taken);
    }
}
