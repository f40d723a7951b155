//! How a format is told, and how each kind of message and part is read.

use longhand_core::{Message, Part, Role};
use longhand_dialect::{Conversation, Dialect, DialectError, read};

fn parse(source: &str) -> Conversation {
    read(source.as_bytes().to_vec(), None).unwrap_or_else(|error| panic!("{error}: {source}"))
}

#[test]
#[rustfmt::skip]
fn a_format_is_told_by_what_only_it_has() {
    let cases: &[(Dialect, &str)] = &[
        // What all three have in common is taken for Chat.
        (Dialect::Chat, "[]"),
        (Dialect::Chat, r#"{"messages":[]}"#),
        (Dialect::Chat, r#"[{"role":"user","content":"hi"},{"role":"assistant","content":"ok"}]"#),
        (Dialect::Chat, r#"[{"role":"user","content":[{"type":"text","text":"hi"}]}]"#),
        (Dialect::Chat, r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#),
        (Dialect::Chat, r#"[{"role":"system","content":"s"},{"role":"user","content":"hi"}]"#),
        (Dialect::Chat, r#"[{"role":"developer","content":"s"}]"#),
        (Dialect::Chat, r#"[{"role":"user","content":"hi"},{"role":"tool","tool_call_id":"c","content":"1"}]"#),
        (Dialect::Chat, r#"[{"role":"function","name":"f","content":"1"}]"#),
        (Dialect::Chat, r#"[{"role":"assistant","tool_calls":[]}]"#),
        (Dialect::Chat, r#"[{"role":"user","content":[{"type":"text","text":"hi"},{"type":"image_url","image_url":{"url":"u"}}]}]"#),
        (Dialect::Chat, r#"{"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"f"}}]}"#),
        (Dialect::Anthropic, r#"{"system":"s","messages":[{"role":"user","content":"hi"}]}"#),
        (Dialect::Anthropic, r#"{"anthropic_version":"bedrock-2023-05-31","messages":[]}"#),
        (Dialect::Anthropic, r#"{"messages":[{"role":"user","content":"hi"}],"tools":[{"name":"f","input_schema":{}}]}"#),
        (Dialect::Anthropic, r#"[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"tool_use","id":"t","name":"f","input":{}}]}]"#),
        (Dialect::Anthropic, r#"[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t"}]}]"#),
        (Dialect::Anthropic, r#"[{"role":"user","content":[{"type":"image","source":{}}]}]"#),
        (Dialect::Anthropic, r#"[{"role":"user","content":[{"type":"document","source":{}}]}]"#),
        (Dialect::Anthropic, r#"[{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"}]}]"#),
        (Dialect::Anthropic, r#"[{"role":"assistant","content":[{"type":"redacted_thinking","data":"d"}]}]"#),
        (Dialect::Anthropic, r#"[{"role":"assistant","content":[{"type":"server_tool_use","id":"s"}]}]"#),
        (Dialect::Responses, r#"{"input":"hi"}"#),
        (Dialect::Responses, r#"{"input":[]}"#),
        (Dialect::Responses, r#"{"model":"m","input":[{"role":"user","content":"hi"}]}"#),
        (Dialect::Responses, r#"[{"type":"message","role":"user","content":"hi"}]"#),
        (Dialect::Responses, r#"[{"role":"user","content":"hi"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}]"#),
        (Dialect::Responses, r#"[{"role":"user","content":[{"type":"input_text","text":"hi"}]}]"#),
        (Dialect::Responses, r#"[{"role":"assistant","content":[{"type":"output_text","text":"hi"}]}]"#),
        (Dialect::ClaudeCode, r#"{"type":"user","message":{"role":"user","content":"hi"},"uuid":"1"}"#),
        (Dialect::ClaudeCode, "{\"type\":\"summary\",\"leafUuid\":\"1\"}\n{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"hi\"}}"),
        (Dialect::ClaudeCode, r#"{"type":"progress","parentUuid":null,"uuid":"1"}"#),
        (Dialect::ClaudeCode, r#"{"type":"mode","sessionId":"s"}"#),
        (Dialect::Codex, r#"{"timestamp":"t","type":"session_meta","payload":{"id":"s"}}"#),
        (Dialect::Codex, r#"{"timestamp":"t","type":"response_item","payload":{"type":"message","role":"user","content":[]}}"#),
        (Dialect::Pi, r#"{"type":"session","id":"s"}"#),
        (Dialect::Pi, r#"{"type":"message","message":{"role":"user","content":"hi"}}"#),
    ];
    for (dialect, source) in cases {
        assert_eq!(parse(source).dialect, *dialect, "{source}");
    }
}

#[test]
fn a_format_can_be_given() {
    let source = r#"[{"role":"user","content":"hi"}]"#;
    for dialect in [Dialect::Chat, Dialect::Responses, Dialect::Anthropic] {
        let conversation = read(source.into(), Some(dialect)).unwrap();
        assert_eq!((conversation.dialect, conversation.messages.len()), (dialect, 1));
        assert_eq!(conversation.check(), []);
    }
    for dialect in Dialect::ALL {
        assert_eq!(dialect.to_string().parse(), Ok(dialect));
    }
    assert!("auto".parse::<Dialect>().unwrap_err().contains("chat, responses, anthropic"));
}

#[test]
fn layout_does_not_matter() {
    let pretty = "\n{\n  \"messages\" : [\n    {\n      \"role\" : \"user\",\n      \"content\" : \"hi\"\n    }\n  ]\n}\n";
    let lines = "\r\n{\"type\":\"session\",\"id\":\"s\"}\r\n\r\n{\"type\":\"message\",\"message\":{\"role\":\"user\",\"content\":\"hi\"}}\r\n \t\r\n";
    let joined = lines.replace("\r\n", " ");
    for (source, dialect) in [(pretty, Dialect::Chat), (lines, Dialect::Pi), (&joined, Dialect::Pi)]
    {
        let conversation = parse(source);
        assert_eq!((conversation.dialect, conversation.messages.len()), (dialect, 1), "{source}");
        assert_eq!(conversation.apply(&[]), source);
    }
}

#[test]
fn a_byte_order_mark_is_kept_or_named() {
    for source in [
        r#"[{"role":"user","content":"hi"}]"#,
        r#"{"messages":[{"role":"user","content":"hi"}]}"#,
        r#"{"type":"message","message":{"role":"user","content":"hi"}}"#,
    ] {
        let marked = format!("\u{feff}{source}");
        match read(marked.clone().into_bytes(), None) {
            Ok(conversation) => {
                assert_eq!(conversation.messages.len(), 1);
                assert_eq!(conversation.apply(&[]), marked);
            }
            Err(error) => assert_eq!(error.to_string(), "line 1, column 1: expected `{` or `[`"),
        }
    }
}

#[test]
fn what_cannot_be_read_is_placed() {
    let error = |bytes: &[u8]| read(bytes.to_vec(), None).err().unwrap().to_string();
    for (source, expected) in [
        ("", "the input is empty"),
        (" \n\t", "the input is empty"),
        ("hello", "line 1, column 1: expected `{` or `[`"),
        ("[1,\n{\"a\":é}]", "line 2, column 6 (in [1]): this is not a JSON value"),
        ("{\"messages\":[{},{\"a\" 1}]}", "line 1, column 22 (in messages[1]): expected `:`"),
        ("[] []", "line 1, column 4 (in [0]): there is more after the end of the JSON value"),
        (
            "{\"type\":\"session\"}\n{\"type\":",
            "line 2, column 9 (in line 2): the text ends where a value should be",
        ),
    ] {
        assert_eq!(error(source.as_bytes()), expected, "{source}");
    }
    assert_eq!(error(b"[\"\xff\"]"), "byte 2: the input is not UTF-8");
    assert!(error(b"\x28\xb5\x2f\xfd").starts_with("the input is not a sound zstd file"));
    for source in
        ["{}", r#"{"messages":"hi"}"#, r#"{"role":"user","content":"hi"}"#, "{\"a\":1}\n{\"b\":2}"]
    {
        let error = read(source.into(), None).err().unwrap();
        assert!(matches!(error, DialectError::NotAConversation(_)), "{source}: {error}");
    }
}

#[test]
fn depth_and_breadth_are_no_danger() {
    let nested = |open: &str, inner: &str, close: &str, depth: usize| {
        format!("{}{inner}{}", open.repeat(depth), close.repeat(depth))
    };
    let deep = nested("[", "", "]", 100_000);
    let result = r#"{"type":"tool_result","tool_use_id":"t","content":["#;
    let results = nested(result, r#"{"type":"text","text":"x"}"#, "]}", 20_000);
    let marks = format!(
        r#"{{"role":"user","content":[{}]}}"#,
        nested(r#"{"cache_control":{},"content":["#, "", "]}", 20_000)
    );
    for source in [
        format!(r#"[{{"role":"user","content":"hi","x":{deep}}}]"#),
        format!(r#"[{{"role":"user","content":{deep}}}]"#),
        format!(r#"[{{"role":"user","content":[{results}]}}]"#),
        format!("[{marks}]"),
        format!("[{}]", vec![r#"{"role":"user","content":[]}"#; 50_000].join(",")),
    ] {
        for dialect in [Dialect::Chat, Dialect::Responses, Dialect::Anthropic] {
            let conversation = read(source.clone().into_bytes(), Some(dialect)).unwrap();
            assert_eq!(conversation.apply(&[]), source);
            conversation.check();
            conversation.repair().unwrap();
        }
    }
}

/// The parts of a message, as debugging shows them.
fn parts(message: &Message) -> Vec<String> {
    message.parts.iter().map(|part| format!("{part:?}")).collect()
}

/// Reads one message and compares its parts.
fn check(dialect: Dialect, message: &str, role: Role, expected: &[&str]) {
    let conversation = read(format!("[{message}]").into_bytes(), Some(dialect));
    let conversation = conversation.unwrap_or_else(|error| panic!("{error}: {message}"));
    let read = &conversation.messages[0];
    assert_eq!(
        (read.role, parts(read)),
        (role, expected.iter().map(|part| (*part).to_owned()).collect())
    );
    assert_eq!(read.raw.raw(), message);
}

const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAIAAAADCAIAAAA2iEnWAAAAEklEQVR4nGP4z8DAwMDAAAEMABn/Af8=";
const GIF: &str = "R0lGODlhAQACAIAAAAAAAP///ywAAAAAAQACAAACAkQKADs=";
const JPEG: &str = "/9j/4AAQSkZJRgABAQAAAQABAAD/wAARCAAQACADASIAAhEBAxEB";
const WEBP: [(&str, (u32, u32)); 3] = [
    // VP8X 800×600, VP8 550×368, VP8L 75×74.
    ("UklGRgAAAABXRUJQVlA4WAoAAAAAAAAAHwMAVwIA", (800, 600)),
    ("UklGRgAAAABXRUJQVlA4IAAAAAAAAACdASomAnAB", (550, 368)),
    ("UklGRgAAAABXRUJQVlA4TAAAAAAvSoASAAA=", (75, 75)),
];

#[test]
fn pictures_have_their_size() {
    let pictures = [(PNG, (2, 3)), (GIF, (1, 2)), (JPEG, (32, 16))].into_iter().chain(WEBP);
    for (data, pixels) in pictures {
        let pixels = Some(pixels);
        let url = format!("data:image/x;base64,{data}");
        for (dialect, part) in [
            (Dialect::Chat, format!(r#"{{"type":"image_url","image_url":{{"url":"{url}"}}}}"#)),
            (Dialect::Responses, format!(r#"{{"type":"input_image","image_url":"{url}"}}"#)),
            (
                Dialect::Anthropic,
                format!(
                    r#"{{"type":"image","source":{{"type":"base64","media_type":"image/x","data":"{data}"}}}}"#
                ),
            ),
        ] {
            let source = format!(r#"[{{"role":"user","content":[{part}]}}]"#);
            let conversation = read(source.into_bytes(), Some(dialect)).unwrap();
            let [Part::Image(image)] = conversation.messages[0].parts.as_slice() else { panic!() };
            assert_eq!(image.pixels, pixels, "{dialect} {data}");
            let bytes = if dialect == Dialect::Anthropic { data.len() } else { url.len() };
            assert_eq!((image.bytes, image.low_detail), (bytes, false));
        }
        let entry = format!(
            r#"{{"type":"message","message":{{"role":"user","content":[{{"type":"image","data":"{data}"}}]}}}}"#
        );
        let session = read(entry.into_bytes(), Some(Dialect::Pi)).unwrap();
        let [Part::Image(image)] = session.messages[0].parts.as_slice() else { panic!() };
        assert_eq!((image.pixels, image.bytes), (pixels, data.len()));
    }
}

#[test]
#[rustfmt::skip]
fn chat_parts() {
    let check = |message, role, expected: &[&str]| check(Dialect::Chat, message, role, expected);
    check(r#"{"role":"system","content":"a\nb"}"#, Role::System, &[r#"Text("a\nb")"#]);
    check(r#"{"role":"developer","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}"#, Role::System, &[r#"Text("a")"#, r#"Text("b")"#]);
    check(
        r#"{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x","detail":"low"}},{"type":"file","file":{}},{"type":"input_audio","input_audio":{}},{"type":"video"}]}"#,
        Role::User,
        &[
            "Image(Image { pixels: None, low_detail: true, bytes: 9 })",
            "File(File { name: None, text: None, bytes: 25 })",
            "Media(Media { kind: Audio, bytes: 0, duration_ms: None, transcript: None })",
            r#"Other(Other { raw: "{\"type\":\"video\"}", link: None })"#,
        ],
    );
    check(
        r#"{"role":"assistant","reasoning_content":"hm","content":"ok","refusal":"no","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1.0}"}},{"id":"c2","type":"custom","custom":{"name":"g","input":"x"}}]}"#,
        Role::Assistant,
        &[
            r#"Thinking(Thinking { text: "hm", seal: None })"#,
            r#"Text("ok")"#,
            r#"FixedText("no")"#,
            r#"Call(ToolCall { id: "c1", name: "f", arguments: "{\"a\":1.0}", freeform: false })"#,
            r#"Call(ToolCall { id: "c2", name: "g", arguments: "x", freeform: true })"#,
        ],
    );
    check(
        r#"{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}}"#,
        Role::Assistant,
        &[r#"Call(ToolCall { id: "f", name: "f", arguments: "{}", freeform: false })"#],
    );
    check(r#"{"role":"tool","tool_call_id":"c1","content":"a\tb"}"#, Role::Tool, &[
        r#"Result(ToolResult { call: "c1", content: [Text("a\tb")], raw: "\"a\\tb\"", error: false, fixed: false, loads_tools: false })"#,
    ]);
    check(r#"{"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"a"}]}"#, Role::Tool, &[
        r#"Result(ToolResult { call: "c1", content: [Text("a")], raw: "[{\"type\":\"text\",\"text\":\"a\"}]", error: false, fixed: false, loads_tools: false })"#,
    ]);
    check(r#"{"role":"function","name":"f","content":null}"#, Role::Tool, &[
        r#"Result(ToolResult { call: "f", content: [], raw: "", error: false, fixed: false, loads_tools: false })"#,
    ]);
    let named = parse(r#"{"model":"m","tools":[{"type":"function","function":{}}],"messages":[{"role":"user","name":"ann","content":"hi"}]}"#);
    assert_eq!(named.messages[0].name.as_ref().map(|name| name.decode().into_owned()), Some("ann".to_owned()));
    assert_eq!(named.model.as_deref(), Some("m"));
    assert_eq!(format!("{:?}", named.attributes), r#"["[{\"type\":\"function\",\"function\":{}}]"]"#);
}

#[test]
#[rustfmt::skip]
fn anthropic_parts() {
    let check = |message, role, expected: &[&str]| check(Dialect::Anthropic, message, role, expected);
    check(r#"{"role":"user","content":"a"}"#, Role::User, &[r#"Text("a")"#]);
    check(r#"{"role":"system","content":"a"}"#, Role::System, &[r#"Text("a")"#]);
    check(
        r#"{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"redacted_thinking","data":"d"},{"type":"text","text":"a"},{"type":"tool_use","id":"t1","name":"f","input":{ "a":1.0 }},{"type":"server_tool_use","id":"s"}]}"#,
        Role::Assistant,
        &[
            r#"Thinking(Thinking { text: "hm", seal: Some("s") })"#,
            r#"Thinking(Thinking { text: "", seal: Some("d") })"#,
            r#"Text("a")"#,
            r#"Call(ToolCall { id: "t1", name: "f", arguments: "{ \"a\":1.0 }", freeform: false })"#,
            r#"Other(Other { raw: "{\"type\":\"server_tool_use\",\"id\":\"s\"}", link: Call("s") })"#,
        ],
    );
    check(
        r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"a","is_error":true},{"type":"tool_result","tool_use_id":"t2","content":[{"type":"text","text":"a"},{"type":"image","source":{"type":"url","url":"u"}},{"type":"tool_reference"}]},{"type":"tool_result","tool_use_id":"t3"}]}"#,
        Role::User,
        &[
            r#"Result(ToolResult { call: "t1", content: [Text("a")], raw: "\"a\"", error: true, fixed: false, loads_tools: false })"#,
            r#"Result(ToolResult { call: "t2", content: [Text("a"), Image(Image { pixels: None, low_detail: false, bytes: 24 }), Other(Other { raw: "{\"type\":\"tool_reference\"}", link: None })], raw: "[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"image\",\"source\":{\"type\":\"url\",\"url\":\"u\"}},{\"type\":\"tool_reference\"}]", error: false, fixed: true, loads_tools: true })"#,
            r#"Result(ToolResult { call: "t3", content: [], raw: "", error: false, fixed: false, loads_tools: false })"#,
        ],
    );
    check(
        r#"{"role":"user","content":[{"type":"document","title":"notes","source":{"type":"text","data":"a"}},{"type":"document","source":{"type":"base64","data":"AA"}}]}"#,
        Role::User,
        &[
            r#"File(File { name: Some("notes"), text: Some("a"), bytes: 71 })"#,
            "File(File { name: None, text: None, bytes: 58 })",
        ],
    );
    let system = parse(r#"{"system":[{"type":"text","text":"s"}],"messages":[]}"#);
    assert_eq!((system.name_of(0), parts(&system.messages[0])), ("system".to_owned(), vec![r#"Text("s")"#.to_owned()]));
}

#[test]
#[rustfmt::skip]
fn responses_parts() {
    let check = |message, role, expected: &[&str]| check(Dialect::Responses, message, role, expected);
    check(r#"{"role":"user","content":"a"}"#, Role::User, &[r#"Text("a")"#]);
    check(
        r#"{"type":"message","role":"developer","content":[{"type":"input_text","text":"a"},{"type":"input_image","image_url":"u","detail":"low"},{"type":"input_file","file_id":"f"},{"type":"input_smell"}]}"#,
        Role::System,
        &[
            r#"Text("a")"#,
            "Image(Image { pixels: None, low_detail: true, bytes: 1 })",
            "File(File { name: None, text: None, bytes: 35 })",
            r#"Other(Other { raw: "{\"type\":\"input_smell\"}", link: None })"#,
        ],
    );
    // Annotations point into their text, so it is not to be edited.
    check(
        r#"{"role":"assistant","content":[{"type":"output_text","text":"a","annotations":[]},{"type":"output_text","text":"b","annotations":[1]},{"type":"refusal","refusal":"c"}]}"#,
        Role::Assistant,
        &[r#"Text("a")"#, r#"FixedText("b")"#, r#"FixedText("c")"#],
    );
    check(
        r#"{"type":"reasoning","summary":[{"type":"summary_text","text":"a"}],"content":[{"type":"reasoning_text","text":"b"}],"encrypted_content":"e"}"#,
        Role::Assistant,
        &[r#"Thinking(Thinking { text: "a\nb", seal: Some("e") })"#],
    );
    check(r#"{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}"#, Role::Assistant, &[
        r#"Call(ToolCall { id: "c", name: "f", arguments: "{}", freeform: false })"#,
    ]);
    check(r#"{"type":"custom_tool_call","call_id":"c","name":"f","input":"x"}"#, Role::Assistant, &[
        r#"Call(ToolCall { id: "c", name: "f", arguments: "x", freeform: true })"#,
    ]);
    check(r#"{"type":"function_call_output","call_id":"c","output":"a"}"#, Role::Tool, &[
        r#"Result(ToolResult { call: "c", content: [Text("a")], raw: "\"a\"", error: false, fixed: false, loads_tools: false })"#,
    ]);
    check(r#"{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"a"},{"type":"input_image","image_url":"u"}]}"#, Role::Tool, &[
        r#"Result(ToolResult { call: "c", content: [Text("a"), Image(Image { pixels: None, low_detail: false, bytes: 1 })], raw: "[{\"type\":\"input_text\",\"text\":\"a\"},{\"type\":\"input_image\",\"image_url\":\"u\"}]", error: false, fixed: false, loads_tools: false })"#,
    ]);
    check(r#"{"type":"computer_call_output","call_id":"c","output":{}}"#, Role::Tool, &[
        r#"Result(ToolResult { call: "c", content: [], raw: "", error: false, fixed: true, loads_tools: false })"#,
        r#"Other(Other { raw: "{\"type\":\"computer_call_output\",\"call_id\":\"c\",\"output\":{}}", link: None })"#,
    ]);
    check(r#"{"type":"local_shell_call_output","id":"c","output":"a"}"#, Role::Tool, &[
        r#"Result(ToolResult { call: "c", content: [Text("a")], raw: "\"a\"", error: false, fixed: false, loads_tools: false })"#,
    ]);
    check(r#"{"type":"shell_call","call_id":"c"}"#, Role::Assistant, &[
        r#"Call(ToolCall { id: "c", name: "shell", arguments: "", freeform: false })"#,
        r#"Other(Other { raw: "{\"type\":\"shell_call\",\"call_id\":\"c\"}", link: None })"#,
    ]);
    check(r#"{"type":"compaction","encrypted_content":"e"}"#, Role::System, &[r#"Other(Other { raw: "{\"type\":\"compaction\",\"encrypted_content\":\"e\"}", link: None })"#]);
    check(r#"{"type":"hologram"}"#, Role::Assistant, &[r#"Other(Other { raw: "{\"type\":\"hologram\"}", link: None })"#]);
    check(r#"{"type":"item_reference","id":"i"}"#, Role::Assistant, &[r#"Other(Other { raw: "{\"type\":\"item_reference\",\"id\":\"i\"}", link: Reference("i") })"#]);
    let strings = parse(r#"{"instructions":"s","input":"hi","model":"m","tools":[]}"#);
    let shown: Vec<_> = strings.messages.iter().map(|message| (message.role, parts(message))).collect();
    assert_eq!(shown, [(Role::System, vec![r#"Text("s")"#.to_owned()]), (Role::User, vec![r#"Text("hi")"#.to_owned()])]);
    assert_eq!((strings.name_of(0), strings.name_of(1)), ("instructions".to_owned(), "input".to_owned()));
}
