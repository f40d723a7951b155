//! Session files whose lines were cut, doubled, put in another order or linked in circles: they are read, and what is not
//! loaded is counted.

use std::sync::Arc;

use longhand_dialect::{Conversation, Dialect, mend, read_as_loaded, read_growing};
use proptest::prelude::*;
use serde_json::{Value, json};

/// What happens to the lines of a file.
#[derive(Clone, Debug)]
enum Damage {
    /// A line ends after so many of a hundred parts.
    Cut(usize, usize),
    Double(usize, usize),
    Move(usize, usize),
    Remove(usize),
    /// A line has another one for its parent.
    Link(usize, usize),
    /// A line has a parent that is not there.
    Lose(usize),
}

fn damage() -> impl Strategy<Value = Vec<Damage>> {
    let at = 0..40_usize;
    let one = prop_oneof![
        (at.clone(), 0..100_usize).prop_map(|(line, part)| Damage::Cut(line, part)),
        (at.clone(), at.clone()).prop_map(|(line, to)| Damage::Double(line, to)),
        (at.clone(), at.clone()).prop_map(|(line, to)| Damage::Move(line, to)),
        at.clone().prop_map(Damage::Remove),
        (at.clone(), at.clone()).prop_map(|(line, to)| Damage::Link(line, to)),
        at.prop_map(Damage::Lose),
    ];
    prop::collection::vec(one, 0..8)
}

/// The words of a line, which no other line has.
fn words(at: usize) -> String {
    format!("words-{at}-here")
}

fn lines(dialect: Dialect, count: usize) -> Vec<String> {
    let line = |at: usize| {
        let role = if at.is_multiple_of(2) { "user" } else { "assistant" };
        let parent = if at == 0 { Value::Null } else { json!(format!("id-{}", at - 1)) };
        let time = "2026-01-02T03:04:05.000Z";
        let text = json!([{"type": "text", "text": words(at)}]);
        match dialect {
            Dialect::ClaudeCode => json!({"parentUuid": parent, "uuid": format!("id-{at}"), "sessionId": "s",
                "type": role, "timestamp": time, "message": {"role": role, "content": text}}),
            Dialect::Codex => {
                let kind = if at.is_multiple_of(2) { "input_text" } else { "output_text" };
                json!({"timestamp": time, "type": "response_item", "payload": {"type": "message", "role": role,
                    "content": [{"type": kind, "text": words(at)}]}})
            }
            _ => json!({"type": "message", "id": format!("id-{at}"), "parentId": parent, "timestamp": time,
                "message": {"role": role, "content": text}}),
        }
        .to_string()
    };
    (0..count).map(line).collect()
}

fn damaged(mut lines: Vec<String>, damages: &[Damage]) -> Vec<String> {
    for damage in damages {
        let count = lines.len();
        if count < 3 {
            break;
        }
        match *damage {
            Damage::Cut(at, part) => {
                let line = &mut lines[at % count];
                let end = line.len() * part / 100;
                line.truncate(end);
            }
            Damage::Double(at, to) => {
                let line = lines[at % count].clone();
                lines.insert(to % count, line);
            }
            Damage::Move(at, to) => {
                let line = lines.remove(at % count);
                lines.insert(to % (count - 1), line);
            }
            Damage::Remove(at) => drop(lines.remove(at % count)),
            Damage::Link(at, to) => link(&mut lines[at % count], &format!("id-{}", to % count)),
            Damage::Lose(at) => link(&mut lines[at % count], "nowhere"),
        }
    }
    lines
}

fn link(line: &mut String, to: &str) {
    let Ok(mut node) = serde_json::from_str::<Value>(line) else { return };
    for key in ["parentUuid", "parentId"] {
        if node.get(key).is_some() {
            node[key] = json!(to);
        }
    }
    *line = node.to_string();
}

/// How many lines of a file say something.
fn saying(lines: &[String]) -> usize {
    lines.iter().filter(|line| serde_json::from_str::<Value>(line).is_ok()).count()
}

/// How many of these lines a conversation has.
fn said(conversation: &Conversation) -> usize {
    let texts = conversation.messages.iter().flat_map(|message| &message.parts);
    texts.filter_map(|part| part.text()).map(|text| text.decode().matches("words-").count()).sum()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn what_is_not_loaded_of_a_damaged_file_is_counted(
        which in 0..3_usize,
        count in 3..24_usize,
        damages in damage(),
    ) {
        let dialect = [Dialect::ClaudeCode, Dialect::Codex, Dialect::Pi][which];
        let lines = damaged(lines(dialect, count), &damages);
        let text = lines.iter().map(|line| format!("{line}\n")).collect::<String>();
        let cut = lines.iter().filter(|line| !line.is_empty()).count() - saying(&lines);
        let Ok(loaded) = read_as_loaded(text.clone().into(), Some(dialect)) else {
            // Nothing of it is a line.
            prop_assert!(saying(&lines) < lines.len());
            return Ok(());
        };
        let facts = loaded.loaded().unwrap();
        prop_assert_eq!(facts.unread.len(), cut);
        prop_assert_eq!(loaded.unread().len(), cut);
        prop_assert_eq!(said(&loaded) + facts.lines_off, saying(&lines), "{}", &text);
        let everything = read_growing(Arc::new(text.clone()), Some(dialect)).unwrap();
        prop_assert!(said(&everything) >= said(&loaded));
        // Nothing that says something is taken out but what is there twice.
        if dialect != Dialect::Codex && let Ok(mended) = mend(text.clone()) {
            for at in 0..count {
                let words = words(at);
                let has = |text: &str| {
                    text.lines().any(|line| line.contains(&words) && serde_json::from_str::<Value>(line).is_ok())
                };
                prop_assert_eq!(has(&mended.text), has(&text), "{} of {}", words, &text);
            }
            let again = mend(mended.text.clone()).unwrap();
            prop_assert!(again.faults.iter().all(|fault| !fault.kind.is_mended()), "{}", mended.text);
        }
    }
}
