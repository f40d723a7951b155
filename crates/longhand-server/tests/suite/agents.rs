//! Requests as known agents write them, replayed. The shapes are theirs, the words are ours.
//!
//! `cargo xtask test-agents` runs the agents themselves; these tests hold what it found.
mod sdks;

use std::sync::Arc;

use crate::common::{Stage, faults, reply, sessions};
use longhand::Archive;
use longhand_testkit::filler;
use longhand_testkit::scripted::ScriptStep;
use serde_json::{Value, json};

const TURNS: usize = 24;
const BUDGET: u64 = 12_000;

/// How an agent writes its requests.
struct Habit {
    name: &'static str,
    path: &'static str,
    /// The request of a turn: all that was said until then.
    request: fn(usize) -> Value,
    /// What the model answers to it.
    answer: fn(usize) -> ScriptStep,
    /// A request beside the conversation.
    aside: Option<fn() -> Value>,
}

const HABITS: [Habit; 11] = [
    Habit {
        name: "Claude Code",
        path: "/v1/messages",
        request: claude,
        answer: claude_answer,
        aside: Some(claude_sub_agent),
    },
    Habit {
        name: "Codex",
        path: "/v1/responses",
        request: codex,
        answer: |turn| reply("/v1/responses", &codex_call(turn, false)),
        aside: None,
    },
    Habit {
        name: "opencode",
        path: "/v1/messages",
        request: opencode,
        answer: claude_answer,
        aside: None,
    },
    Habit {
        name: "aider",
        path: "/v1/chat/completions",
        request: aider,
        answer: aider_reply,
        aside: None,
    },
    one_tool("pi", "/v1/responses", sdks::pi),
    one_tool("mini-swe-agent", "/v1/chat/completions", sdks::mini_swe_agent),
    one_tool("llm", "/v1/chat/completions", sdks::llm),
    one_tool("OpenAI Agents", "/v1/responses", sdks::openai_agents),
    one_tool("LangChain", "/v1/chat/completions", sdks::langchain),
    one_tool("Pydantic AI", "/v1/responses", sdks::pydantic_ai),
    one_tool("Vercel ai", "/v1/responses", sdks::ai),
];

const fn one_tool(name: &'static str, path: &'static str, request: fn(usize) -> Value) -> Habit {
    Habit { name, path, request, answer: sdks::answer, aside: None }
}

fn output(turn: usize) -> String {
    let noise = filler::words(500, turn as u64);
    format!("INFO {noise}\nFATAL lease L{turn:03} was lost\nINFO {noise}")
}

fn id(turn: usize) -> String {
    format!("toolu_01Zx{turn:03}Tz8Vq2xKw")
}

/// A call as the model makes it, or as the client sends it back: with defaults, in another order.
fn claude_call(turn: usize, is_back: bool) -> Value {
    let input = match (turn % 3, is_back) {
        (0, false) => json!({"file_path": "/p/a.txt", "old_string": "x", "new_string": "y"}),
        (0, true) => {
            json!({"replace_all": false, "file_path": "/p/a.txt", "old_string": "x", "new_string": "y"})
        }
        _ => json!({"command": format!("sh check.sh {turn}")}),
    };
    let name = if turn.is_multiple_of(3) { "Edit" } else { "Bash" };
    json!({"type": "tool_use", "id": id(turn), "name": name, "input": input})
}

fn claude_answer(turn: usize) -> ScriptStep {
    reply("/v1/messages", &json!({"role": "assistant", "content": [claude_call(turn, false)]}))
}

const CLAUDE_SESSION: &str =
    r#"{"device_id":"d0","account_uuid":"","session_id":"5f0c1d2e-1111-4222-8333-444455556666"}"#;

fn claude_steps(turns: usize, messages: &mut Vec<Value>) {
    for turn in 0..turns {
        messages.push(json!({"role": "assistant", "content": [claude_call(turn, true)]}));
        let result = json!({"tool_use_id": id(turn), "type": "tool_result", "content": output(turn), "is_error": false});
        messages.push(json!({"role": "user", "content": [result]}));
    }
}

/// Puts a cache mark on the last block of a message.
fn mark(message: &mut Value) {
    if let Some(block) = message["content"].as_array_mut().and_then(|blocks| blocks.last_mut()) {
        block["cache_control"] = json!({"type": "ephemeral"});
    }
}

fn claude(turns: usize) -> Value {
    let text = |text: &str| json!({"type": "text", "text": text});
    let opening =
        ["<system-reminder>\nThe folder is /p.\n</system-reminder>", "Find the lost lease."];
    let mut messages = vec![json!({"role": "user", "content": opening.map(text)})];
    claude_steps(turns, &mut messages);
    messages.iter_mut().rev().take(1).for_each(mark);
    json!({
        "model": "claude-sonnet-4-5", "messages": messages, "max_tokens": 1000,
        "system": [text("You are an agent."), {"type": "text", "text": "Work well.", "cache_control": {"type": "ephemeral"}}],
        "tools": [tool("Bash"), tool("Edit"), tool("Agent")], "metadata": {"user_id": CLAUDE_SESSION},
    })
}

fn tool(name: &str) -> Value {
    json!({"name": name, "description": "Does it.", "input_schema": {"type": "object", "properties": {}}})
}

fn claude_sub_agent() -> Value {
    let mut body = claude(0);
    body["messages"] = json!([{"role": "user", "content": "Count the functions in a.txt."}]);
    body["system"] = json!([{"type": "text", "text": "You are a part of an agent."}]);
    body
}

fn opencode(turns: usize) -> Value {
    let mut messages = vec![
        json!({"role": "user", "content": [{"type": "text", "text": "Find the lost lease."}]}),
    ];
    claude_steps(turns, &mut messages);
    // The two newest messages are marked, so that marks move with every request.
    messages.iter_mut().rev().take(2).for_each(mark);
    json!({
        "model": "claude-sonnet-4-5", "max_tokens": 1000, "messages": messages,
        "system": [{"type": "text", "text": "You are an agent.", "cache_control": {"type": "ephemeral"}}],
        "tools": [tool("Bash"), tool("Edit")],
    })
}

fn codex_call(turn: usize, is_back: bool) -> Value {
    let mut call = json!({"type": "function_call", "id": format!("fc_{}", id(turn)), "call_id": id(turn),
        "name": "exec_command", "arguments": json!({"cmd": format!("sh check.sh {turn}")}).to_string(), "status": "completed"});
    if is_back {
        call["internal_chat_message_metadata_passthrough"] = json!({"turn_id": "01a1"});
    }
    call
}

fn codex(turns: usize) -> Value {
    let message = |role: &str, text: &str| json!({"type": "message", "role": role, "id": format!("msg_{role}"), "content": [{"type": "input_text", "text": text}]});
    let mut input = vec![
        message("developer", "You work in /p."),
        message("user", "<environment_context>\n  <cwd>/p</cwd>\n</environment_context>"),
        message("user", "Find the lost lease."),
    ];
    for turn in 0..turns {
        input.push(codex_call(turn, true));
        let text =
            format!("Chunk ID: {turn}\nProcess exited with code 0\nOutput:\n{}", output(turn));
        input.push(json!({"type": "function_call_output", "id": format!("fco_{turn}"), "call_id": id(turn), "output": text}));
    }
    json!({
        "model": "gpt-5.1", "instructions": "You are an agent.", "input": input, "store": false,
        "include": ["reasoning.encrypted_content"], "parallel_tool_calls": false,
        "tools": [{"type": "function", "name": "exec_command", "parameters": {"type": "object", "properties": {"cmd": {"type": "string"}}}}],
        "prompt_cache_key": "01a1e666-3de2-7f61-ab12-3f152586875e",
    })
}

fn aider_answer(turn: usize) -> String {
    format!(
        "Step {turn}: the lease of shard S-{turn} was renewed too late, and the clock of worker {turn} is wrong by some minutes."
    )
}

fn aider_reply(turn: usize) -> ScriptStep {
    reply("/v1/chat/completions", &json!({"role": "assistant", "content": aider_answer(turn)}))
}

fn aider(turns: usize) -> Value {
    let message = |role: &str, text: &str| json!({"role": role, "content": text});
    let mut messages = vec![message("system", "You edit files.")];
    for turn in 0..turns {
        let ran = format!(
            "I ran this command:\n\nsh check.sh {turn}\n\nAnd got this output:\n\n{}",
            output(turn)
        );
        messages.push(message("user", &ran));
        messages.push(message("assistant", "Ok."));
        messages.push(message("user", &format!("What does log {turn} say?")));
        messages.push(message("assistant", &aider_answer(turn)));
    }
    // The files as they are now come right before the question, and rules after it.
    messages.push(message(
        "user",
        &format!("These are the files:\n\na.txt\n```\nversion {turns}\n```"),
    ));
    messages.push(message("assistant", "Ok."));
    messages.push(message("user", &format!("What does log {turns} say?")));
    messages.push(message("system", "Write edits as blocks."));
    json!({"model": "gpt-4o", "messages": messages, "stream": false})
}

/// The messages of a request as a provider reads them, without marks that clients move.
fn unmarked(body: &str) -> Vec<String> {
    fn unmark(value: &mut Value) {
        match value {
            Value::Array(values) => values.iter_mut().for_each(unmark),
            Value::Object(fields) => {
                fields.remove("cache_control");
                fields.values_mut().for_each(unmark);
            }
            _ => {}
        }
    }
    let mut body: Value = serde_json::from_str(body).unwrap();
    unmark(&mut body);
    let list = body["messages"].as_array().or(body["input"].as_array()).unwrap();
    list.iter().map(Value::to_string).collect()
}

#[tokio::test]
async fn the_habits_of_known_agents_are_one_conversation_each() {
    for habit in HABITS {
        let Habit { name, path, request, answer, aside } = habit;
        let aside_at = 5;
        let steps = (0..TURNS).flat_map(|turn| {
            let other = (aside.is_some() && turn == aside_at).then(|| {
                reply(
                    path,
                    &json!({"role": "assistant", "content": [{"type": "text", "text": "Twelve."}]}),
                )
            });
            [Some(answer(turn)), other].into_iter().flatten()
        });
        let stage = Stage::new(Some(BUDGET), steps.collect::<Vec<_>>()).await;
        let mut main = Vec::new();
        for turn in 0..TURNS {
            let answer = stage.post(path, &request(turn).to_string()).await;
            assert_eq!(answer.status(), 200, "{name}");
            answer.text().await.unwrap();
            main.push(stage.sent().pop().unwrap());
            if let Some(aside) = aside.filter(|_| turn == aside_at) {
                stage.post(path, &aside().to_string()).await.text().await.unwrap();
            }
        }
        for body in stage.sent() {
            assert_eq!(faults(path, &body), [], "{name}");
        }
        let shown: Vec<Vec<String>> = main.iter().map(|body| unmarked(body)).collect();
        let is_broken = |pair: &&[Vec<String>]| !pair[1].starts_with(&pair[0]);
        let breaks = shown.windows(2).filter(is_broken).count() as u64;
        let batches = stage.proxy.counts().batches;
        let archive = Arc::clone(&stage.archive);
        stage.proxy.stop().await;
        let found = sessions(&*archive);
        assert_eq!(found.len(), 1 + usize::from(aside.is_some()), "{name}");
        if aside.is_some() {
            assert!(found[0].group.is_some() && found[0].group == found[1].group, "{name}");
        }
        assert!((1..=8).contains(&batches), "{name}: {batches} batches");
        // aider changes the end of every request by itself.
        assert!(name == "aider" || breaks <= batches, "{name}: {breaks} breaks, {batches} batches");
        let last = main.last().unwrap();
        // What an edit answers is no log.
        let edits = ["Claude Code", "opencode"].contains(&name);
        let is_log = |turn: &usize| !edits || !turn.is_multiple_of(3);
        let logs: Vec<usize> = (0..TURNS - 1).filter(is_log).collect();
        let told = logs.iter().filter(|turn| last.contains(&format!("L{turn:03}"))).count();
        assert!(told * 10 >= logs.len() * 8, "{name}: {told} of the telling lines");
        let requests = |id| archive.requests(id, longhand_archive::Page::ALL).unwrap().items;
        let requests: Vec<_> = found.iter().flat_map(|info| requests(info.id)).collect();
        let is_shortened =
            requests.iter().any(|line| line.limit == BUDGET && line.window < line.before);
        assert!(is_shortened, "{name}: {requests:?}");
    }
}

/// The files that aider has in the chat, in a version of theirs.
fn aider_files(version: usize) -> String {
    let text = filler::words(1_200, 7_000 + version as u64);
    format!(
        "I have *added these files to the chat*.\n\na.txt\n```\nversion {version}\n{text}\nend of {version}\n```"
    )
}

/// aider at work: every third answer edits a file. The files come after what was said until the last edit and before
/// what was said since, so that an edit moves them and all that follows.
fn aider_that_edits(turns: usize) -> Value {
    let message = |role: &str, text: &str| json!({"role": role, "content": text});
    let mut messages = vec![message("system", "You edit files.")];
    let edited = turns / 3 * 3;
    for turn in 0..=turns {
        if turn == edited {
            messages.push(message("user", &aider_files(edited)));
            messages.push(message("assistant", "Ok."));
        }
        let ran = format!("I ran this command:\n\nsh check.sh {turn}\n\nAnd got this output:\n\n");
        messages.push(message("user", &(ran + &output(turn))));
        messages.push(message("assistant", "Ok."));
        messages.push(message("user", &format!("What does log {turn} say?")));
        if turn < turns {
            messages.push(message("assistant", &aider_answer(turn)));
        }
    }
    messages.push(message("system", "Write edits as blocks."));
    json!({"model": "gpt-4o", "messages": messages, "stream": false})
}

#[tokio::test]
async fn the_files_that_aider_floats_are_in_every_window() {
    let path = "/v1/chat/completions";
    let stage = Stage::new(Some(BUDGET), (0..TURNS).map(aider_reply).collect::<Vec<_>>()).await;
    let mut shortened = 0;
    for turn in 0..TURNS {
        let asked = aider_that_edits(turn).to_string();
        stage.post(path, &asked).await.text().await.unwrap();
        let sent = stage.sent().pop().unwrap();
        assert_eq!(faults(path, &sent), [], "{turn}");
        let version = turn / 3 * 3;
        let files = json!(aider_files(version)).to_string();
        assert!(sent.contains(&files), "turn {turn}: the files are whole");
        let versions = sent.matches("I have *added these files").count();
        assert_eq!(versions, 1, "turn {turn}: no older version is left");
        shortened += usize::from(sent.len() < asked.len());
    }
    assert!(shortened > TURNS / 2, "{shortened} windows");
    assert_eq!(stage.archived().await.len(), 1);
}
