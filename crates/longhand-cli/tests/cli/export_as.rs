//! Sessions as other programs and people read them.

use serde_json::{Value, json};

use crate::run::Folder;

const ID: &str = "11112222-3333-4444-8555-666677778888";
/// What would end a fence, a heading or a line of a terminal.
const HOSTILE: &str = "````\n## 9 · user · now\n<img src=http://evil/x>\n\u{1b}[2J\u{202e}";

/// A session with parallel calls, a failed result, and a call that was never answered.
fn session() -> String {
    let lines = [
        json!({"role": "user", "content": "Find the leak."}),
        json!({"role": "assistant", "content": "", "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "read", "arguments": "{\"path\":\"a.rs\"}"}},
            {"id": "b", "type": "function", "function": {"name": "grep", "arguments": "{\"for\":\"leak\"}"}}]}),
        json!({"role": "tool", "tool_call_id": "a", "content": HOSTILE}),
        json!({"role": "tool", "tool_call_id": "b", "content": "no match"}),
        json!({"role": "assistant", "content": "It is in a.rs."}),
        json!({"role": "user", "content": [{"type": "text", "text": "Mend it, as here:"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}),
        json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "edit", "arguments": "{\"path\":\"a.rs\"}"}}]}),
    ];
    Value::from(lines.to_vec()).to_string()
}

/// Who said what, without what formats differ in.
fn said(text: &str, folder: &Folder) -> Vec<String> {
    folder.write("read.json", text);
    let run = folder.run("count read.json --messages --json");
    assert_eq!(run.status, 0, "{run:?}");
    let conversation = longhand::dialect::read(text.as_bytes().to_vec(), None).unwrap();
    let mut said = Vec::new();
    for message in &conversation.messages {
        for result in message.results() {
            let words = result.content.iter().filter_map(|part| part.text());
            let words: String = words.map(|text| text.decode().into_owned()).collect();
            said.push(format!("result {} {words}", result.call.decode()));
        }
        for text in message.parts.iter().filter_map(|part| part.text()) {
            if !text.decode().trim().is_empty() {
                said.push(format!("{} {}", message.role.as_str(), text.decode()));
            }
        }
        for call in message.calls() {
            let arguments: Value = serde_json::from_str(&call.arguments.decode()).unwrap();
            said.push(format!("call {} {} {arguments}", call.id.decode(), call.name.decode()));
        }
    }
    said
}

#[test]
fn every_form_says_the_same_and_is_valid() {
    let folder = Folder::with("work.json", session());
    assert_eq!(folder.run("import work.json --id work").status, 0);
    let mut all = Vec::new();
    for form in ["chat", "anthropic", "responses", "claude-code", "codex", "pi"] {
        let run = folder.run(&format!("export work --as {form}"));
        assert_eq!(run.status, 0, "{run:?}");
        assert!(run.stderr.contains("1 attachment"), "{run:?}");
        folder.write("out", &run.stdout);
        folder.assert_valid("out", &format!("--dialect {form}"));
        let mut said = said(&run.stdout, &folder);
        // The call that was never answered has an answer that says so.
        let made = said.iter().position(|line| line.starts_with("result c ")).unwrap();
        assert!(said.remove(made).contains("no result was recorded"), "{form}");
        let image = said.iter_mut().find(|line| line.contains("Mend it")).unwrap();
        *image = image.replace("\n\n[image]", "");
        said.retain(|line| line != "user [image]" && line != "user \n\n");
        said.sort();
        all.push((form, said));
        // It can be imported again, and says the same again.
        let again = folder.run(&format!("import out --id again-{form}"));
        assert_eq!(again.status, 0, "{again:?}");
        let again = folder.run(&format!("export again-{form} --as {form}"));
        let mut lines = self::said(&again.stdout, &folder);
        let mut first = self::said(&run.stdout, &folder);
        lines.sort();
        first.sort();
        assert_eq!(lines, first, "{form}");
    }
    for (form, said) in &all[1..] {
        assert_eq!(*said, all[0].1, "{form}");
    }
}

#[test]
fn what_others_wrote_cannot_pose_as_anything_in_markdown() {
    let folder = Folder::with("work.json", session());
    assert_eq!(folder.run("import work.json --id work").status, 0);
    let run = folder.run("export work --as markdown -o work.md");
    assert_eq!(run.status, 0, "{run:?}");
    let text = folder.read("work.md");
    assert!(text.contains("`````text\n````\n## 9 · user · now\n"), "{text}");
    assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text}");
    // Outside of fences there are headings of ours alone.
    let mut fence: Option<String> = None;
    let mut headings = 0;
    for line in text.lines() {
        match &fence {
            Some(closing) if line == closing => fence = None,
            Some(_) => {}
            None if line.starts_with("```") => {
                fence = Some(line.trim_end_matches("text").to_owned());
            }
            None => headings += usize::from(line.starts_with("## ")),
        }
    }
    assert!(fence.is_none() && headings == 7, "{text}");
}

#[test]
fn a_file_is_exported_without_an_archive() {
    let line = json!({"type": "user", "uuid": "1", "parentUuid": null, "cwd": "/src", "sessionId": ID,
        "message": {"role": "user", "content": "Hello."}, "timestamp": "2026-01-02T03:04:05.000Z"});
    let folder = Folder::with(&format!(".claude/projects/-src/{ID}.jsonl"), format!("{line}\n"));
    let run = folder.run("export claude@last --as codex");
    assert!(run.status == 0 && run.stdout.contains("\"cwd\":\"/src\""), "{run:?}");
    assert!(run.stderr.contains("cd /src && codex resume "), "{run:?}");
    assert!(!folder.path("data").exists(), "nothing is written");
    folder.run("export nobody --as chat").assert_status_two();
    folder.run("export claude@last").assert_status_two();
}
