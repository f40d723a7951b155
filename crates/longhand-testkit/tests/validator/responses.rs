//! Rules of Responses: each with an example that breaks it and one that does not.

use longhand_testkit::{WireFormat, validate};

use crate::check;

#[rustfmt::skip]
const WORDS: &[(&str, &str)] = &[
    ("$user", r#"{"role":"user","content":"hi"}"#),
    ("$reply", r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"ok"}]}"#),
    ("$call1", r#"{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"}"#),
    ("$out1", r#"{"type":"function_call_output","call_id":"c1","output":""}"#),
    ("$think", r#"{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"x"}"#),
    ("$id65", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
];

#[test]
#[rustfmt::skip]
fn messages() {
    check(WireFormat::Responses, WORDS, &[
        ("a string", r#"{"input":"hi"}"#, &[]),
        ("no list", r#"{"input":1}"#, &["input: expected a string or a list of items"]),
        ("an exchange", "[$user,$reply]", &[]),
        ("an unknown role", r#"[{"role":"tool","content":"a"}]"#, &[r#"input[0]: unknown role "tool""#]),
        ("every part of the user", r#"[{"role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_image","image_url":"u"},{"type":"input_file","file_id":"f"}]}]"#, &[]),
        ("output of the user", r#"[{"role":"user","content":[{"type":"output_text","text":"a"}]}]"#, &[r#"input[0].content[0]: no part of type "output_text" here"#]),
        ("input of the assistant", r#"[{"role":"assistant","content":[{"type":"input_text","text":"a"}]}]"#, &[r#"input[0].content[0]: no part of type "input_text" here"#]),
        ("parts without their data", r#"[{"role":"user","content":[{"type":"input_text"},{"type":"input_image"},{"type":"input_file"}]}]"#, &["input[0].content[0]: `text` is not a string", "input[0].content[1]: an image needs `image_url` or `file_id`", "input[0].content[2]: a file needs `file_data`, `file_id` or `file_url`"]),
        ("empty content", r#"[{"role":"user","content":""},{"role":"user","content":[]},{"role":"user"}]"#, &["input[0].content: the text is empty", "input[1].content: the list of parts is empty", "input[2].content: expected a string or a list of parts"]),
        ("a refusal", r#"[{"role":"assistant","content":[{"type":"refusal","refusal":"no"}]}]"#, &[]),
        ("phases", r#"[{"role":"assistant","phase":"commentary","content":"a"},{"role":"assistant","phase":"last","content":"a"},{"role":"user","phase":"commentary","content":"a"}]"#, &["input[1]: the phase is not one of the assistant's", "input[2]: the phase is not one of the assistant's"]),
        ("an item of tomorrow", r#"[{"type":"dream"}]"#, &[]),
        ("no item", "[1]", &["input[0]: expected an item"]),
        ("an empty object", "[{}]", &["input[0]: a reference needs an `id`"]),
    ]);
}

#[test]
#[rustfmt::skip]
fn calls() {
    check(WireFormat::Responses, WORDS, &[
        ("a call and its output", "[$user,$call1,$out1]", &[]),
        ("an output that comes later", "[$user,$call1,$user,$out1]", &[]),
        ("a call without an output", "[$user,$call1]", &[r#"input[1]: the call "c1" has no output after it"#]),
        ("an output without a call", "[$user,$out1]", &[r#"input[1]: there is no open call "c1" before this output"#]),
        ("an output before its call", "[$out1,$call1]", &[r#"input[0]: there is no open call "c1" before this output"#, r#"input[1]: the call "c1" has no output after it"#]),
        ("an output twice", "[$call1,$out1,$out1]", &[r#"input[2]: there is no open call "c1" before this output"#]),
        ("a call id twice", "[$call1,$out1,$call1,$out1]", &["input[2]: an earlier call has the same call id"]),
        ("an output for held calls", r#"{"previous_response_id":"r","input":[$out1]}"#, &[]),
        ("an output for a call behind a reference", r#"[{"type":"item_reference","id":"fc_1"},$out1]"#, &[]),
        ("a reference to a message", r#"[{"type":"item_reference","id":"msg_1"},$out1]"#, &[r#"input[1]: there is no open call "c1" before this output"#]),
        ("an output of another kind", r#"[$call1,{"type":"custom_tool_call_output","call_id":"c1","output":"a"}]"#, &[r#"input[1]: there is no open call "c1" before this output"#, r#"input[0]: the call "c1" has no output after it"#]),
        ("every kind of call", r#"[{"type":"custom_tool_call","call_id":"a","name":"f","input":"x"},{"type":"custom_tool_call_output","call_id":"a","output":[{"type":"input_text","text":"a"}]},{"type":"computer_call","call_id":"b","action":{}},{"type":"computer_call_output","call_id":"b","output":{"type":"computer_screenshot","image_url":"u"}},{"type":"shell_call","call_id":"c","action":{}},{"type":"shell_call_output","call_id":"c","output":[]},{"type":"local_shell_call","call_id":"d","action":{}},{"type":"local_shell_call_output","id":"d","output":""},{"type":"apply_patch_call","call_id":"e","operation":{}},{"type":"apply_patch_call_output","call_id":"e","status":"failed"},{"type":"tool_search_call","call_id":"f"},{"type":"tool_search_output","call_id":"f","tools":[]},{"type":"local_shell_call","call_id":"g","action":{}},{"type":"function_call_output","call_id":"g","output":"a"}]"#, &[]),
        ("every kind of call without its output", r#"[{"type":"custom_tool_call","call_id":"a","name":"f","input":"x"},{"type":"computer_call","call_id":"b","action":{}},{"type":"shell_call","call_id":"c","action":{}},{"type":"local_shell_call","call_id":"d","action":{}},{"type":"apply_patch_call","call_id":"e","operation":{}}]"#, &[r#"input[0]: the call "a" has no output after it"#, r#"input[1]: the call "b" has no output after it"#, r#"input[2]: the call "c" has no output after it"#, r#"input[3]: the call "d" has no output after it"#, r#"input[4]: the call "e" has no output after it"#]),
        ("every kind of output without its call", r#"[{"type":"custom_tool_call_output","call_id":"a","output":"x"},{"type":"computer_call_output","call_id":"b","output":{"type":"computer_screenshot","file_id":"u"}},{"type":"shell_call_output","call_id":"c","output":[]},{"type":"local_shell_call_output","id":"d","output":""},{"type":"apply_patch_call_output","call_id":"e","status":"completed"}]"#, &[r#"input[0]: there is no open call "a" before this output"#, r#"input[1]: there is no open call "b" before this output"#, r#"input[2]: there is no open call "c" before this output"#, r#"input[3]: there is no open call "d" before this output"#, r#"input[4]: there is no open call "e" before this output"#]),
        ("calls without their fields", r#"[{"type":"function_call"},{"type":"custom_tool_call","call_id":"b","name":"a.b","input":{}},{"type":"custom_tool_call_output","call_id":"b","output":null},{"type":"computer_call","call_id":"c"},{"type":"computer_call_output","call_id":"c","output":{}},{"type":"apply_patch_call","call_id":"d"},{"type":"apply_patch_call_output","call_id":"d"}]"#, &["input[0]: the tool has no name", "input[0]: `arguments` is not a string", "input[0]: the item has no `call_id`", "input[1]: a tool name has 1 to 64 letters, digits, `_` or `-`", "input[1]: the input of a custom call is not a string", "input[2].output: expected a string or a list of parts", "input[3]: the call has no action", "input[4]: the output is not a screenshot", "input[4]: an image needs `image_url` or `file_id`", "input[5]: the call has no operation", "input[6]: the status is neither `completed` nor `failed`"]),
        ("arguments that are no object", r#"[{"type":"function_call","call_id":"c1","name":"f","arguments":"null"},$out1]"#, &["input[0]: `arguments` does not hold a JSON object"]),
        ("too long a call id", r#"[{"type":"function_call","call_id":"$id65","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"$id65","output":""}]"#, &["input[0]: the `call_id` has more than 64 characters", "input[1]: the `call_id` has more than 64 characters"]),
        ("an approval", r#"[{"type":"mcp_approval_request","id":"m1","server_label":"s","name":"f","arguments":"{}"},{"type":"mcp_approval_response","approval_request_id":"m1","approve":true}]"#, &[]),
        ("an approval without its request", r#"[{"type":"mcp_approval_response","approval_request_id":"m1","approve":true}]"#, &[r#"input[0]: there is no open approval request "m1" before this response"#]),
        ("approvals without their fields", r#"[{"type":"mcp_approval_request","arguments":"{}"},{"type":"mcp_approval_response","approval_request_id":""}]"#, &["input[0]: a request needs an `id`", "input[1]: a response names its request", "input[1]: `approve` is not true or false", r#"input[1]: there is no open approval request "" before this response"#]),
    ]);
}

#[test]
#[rustfmt::skip]
fn reasoning_and_other_items() {
    check(WireFormat::Responses, WORDS, &[
        ("reasoning before a reply", "[$user,$think,$reply]", &[]),
        ("reasoning before a call", "[$user,$think,$call1,$out1]", &[]),
        ("reasoning before a search", r#"[$user,$think,{"type":"web_search_call","id":"ws_1"}]"#, &[]),
        ("reasoning at the end", "[$user,$think]", &["input[1]: reasoning without its following item"]),
        ("reasoning before the user", "[$think,$user]", &["input[0]: reasoning without its following item"]),
        ("reasoning before an output", "[$call1,$think,$out1]", &["input[1]: reasoning without its following item"]),
        ("reasoning without a summary", r#"[{"type":"reasoning"},$reply]"#, &["input[0]: reasoning needs a `summary`"]),
        ("an id twice", "[$think,$reply,$think,$reply]", &[r#"input[2]: an earlier item has the id "rs_1""#]),
        ("reasoning that is not stored", r#"{"store":false,"input":[{"type":"reasoning","id":"rs_1","summary":[]},$reply]}"#, &["input[0]: reasoning needs `encrypted_content` if nothing is stored"]),
        ("a reference", r#"{"store":true,"input":[{"type":"item_reference","id":"msg_1"},{"id":"msg_2"}]}"#, &[]),
        ("a reference where nothing is stored", r#"{"store":false,"input":[{"type":"item_reference","id":"msg_1"}]}"#, &["input[0]: a reference leads nowhere if nothing is stored"]),
        ("a compaction", r#"[{"type":"compaction","encrypted_content":"x"},$user]"#, &[]),
        ("an empty compaction", r#"[{"type":"compaction"},$user]"#, &["input[0]: a compaction needs `encrypted_content`"]),
        ("a trigger at the end", r#"[$user,{"type":"compaction_trigger"}]"#, &[]),
        ("a trigger before the end", r#"[{"type":"compaction_trigger"},$user]"#, &["input[0]: a compaction trigger is the last item"]),
    ]);
}

#[test]
#[rustfmt::skip]
fn requests() {
    check(WireFormat::Responses, WORDS, &[
        ("two histories", r#"{"previous_response_id":"r","conversation":"c","input":"hi"}"#, &["conversation: it excludes `previous_response_id`"]),
        ("settings", r#"{"truncation":"auto","prompt_cache_key":"k","instructions":"i","context_management":[{"type":"compaction","compact_threshold":1000}],"tools":[{"type":"web_search"},{"type":"function","name":"f"}],"input":"hi"}"#, &[]),
        ("wrong settings", r#"{"truncation":"on","prompt_cache_key":"$id65","instructions":1,"context_management":[{"type":"compaction","compact_threshold":999}],"tools":[{"type":"function","name":"a b"}],"input":"hi"}"#, &["instructions: expected a string", "prompt_cache_key: it has more than 64 characters", "truncation: expected `disabled` or `auto`", "context_management[0]: the threshold is below 1000", "tools[0]: a tool name has 1 to 64 letters, digits, `_` or `-`"]),
    ]);
}

#[test]
fn long_texts() {
    for (chars, taken) in [(10_485_760, true), (10_485_761, false)] {
        let text = "a".repeat(chars);
        let message = format!(r#"[{{"role":"user","content":"{text}"}}]"#);
        assert_eq!(validate(WireFormat::Responses, &message).is_empty(), taken);
        let image = format!(
            r#"[{{"role":"user","content":[{{"type":"input_image","image_url":"{text}{text}"}}]}}]"#
        );
        assert_eq!(validate(WireFormat::Responses, &image).is_empty(), taken);
    }
}
