//! Quotes from a conversation, labelled so that they cannot be taken for messages.

use longhand_archive::Entry;
use longhand_core::json::JsonCursor;
use longhand_core::{Message, Part, Role, Scale, Tokens, cut, grouped};
use longhand_dialect::{Dialect, read};

/// How many lines are shown around one that a query finds.
const AROUND: usize = 2;

/// Quotes a text in at most `limit` tokens; with a query, only the lines about it.
pub(crate) fn quoted(
    title: &str,
    text: &str,
    query: Option<&str>,
    scale: &Scale,
    limit: Tokens,
) -> String {
    let about = query.and_then(|query| about(text, query));
    let of = match (&about, query) {
        (Some(_), _) => ", the lines about the query",
        (None, Some(_)) => "; no line of it has the query",
        (None, None) => "",
    };
    let chars = grouped(text.chars().count());
    let head = format!("{title} from earlier in this conversation, {chars} chars, quoted{of}:");
    let left = limit.saturating_sub(scale.text(&head) + Tokens(1));
    let body = clipped(about.as_deref().unwrap_or(text), scale, left);
    format!("{head}\n{body}")
}

/// Says where words were found.
pub(crate) fn hits(query: &str, hits: &[(String, String)], scale: &Scale, limit: Tokens) -> String {
    let query: String =
        query.chars().take(100).map(|c| if c.is_control() { ' ' } else { c }).collect();
    let mut told =
        format!("Found for {query:?}, best first; give an e: as the handle to read all of it:");
    for (place, snippet) in hits {
        let line = format!("\n{place} > {}", snippet.replace(['\n', '\r'], " "));
        if scale.text(&told) + scale.text(&line) > limit {
            break;
        }
        told.push_str(&line);
    }
    told
}

/// What was said in an entry.
pub(crate) fn entry(entry: &Entry) -> String {
    match entry.form.parse() {
        Ok(dialect) => messages(dialect, &entry.raw),
        Err(_) => entry.raw.clone(),
    }
}

/// The role of an entry's message; a message with tool results counts as the tool's. `None` if it is no message.
pub fn role(entry: &Entry) -> Option<Role> {
    let messages = crate::entry::messages(entry.form.parse().ok()?, &entry.raw);
    let message = messages.first()?;
    let has_result = message.parts.iter().any(|part| matches!(part, Part::Result(_)));
    Some(if has_result { Role::Tool } else { message.role })
}

/// Writes messages that stand on a line each in readable form; other text is returned unchanged.
pub(crate) fn messages(dialect: Dialect, lines: &str) -> String {
    let is_message = |line: &str| {
        let node = JsonCursor::new(line).node().unwrap_or_default();
        node.get(line, "role").or(node.get(line, "type")).is_some()
    };
    if !lines.lines().all(is_message) {
        return lines.to_owned();
    }
    let list = format!("[{}]", lines.lines().collect::<Vec<_>>().join(","));
    match read(list.into_bytes(), Some(dialect)) {
        Ok(conversation) => {
            conversation.messages.iter().map(message).collect::<Vec<_>>().join("\n")
        }
        Err(_) => lines.to_owned(),
    }
}

fn message(message: &Message) -> String {
    let parts = message.parts.iter().filter_map(part);
    format!("{}: {}", message.role.as_str(), parts.collect::<Vec<_>>().join("\n"))
}

pub(crate) fn part(part: &Part) -> Option<String> {
    Some(match part {
        Part::Text(text) | Part::FixedText(text) => text.decode().into_owned(),
        Part::Call(call) => format!("calls {} {}", call.name.decode(), call.arguments.decode()),
        Part::Result(result) => {
            result.content.iter().filter_map(self::part).collect::<Vec<_>>().join("\n")
        }
        Part::Image(_) => "(a picture)".to_owned(),
        Part::Media(media) => match &media.transcript {
            Some(text) => text.decode().into_owned(),
            None => "(a recording)".to_owned(),
        },
        Part::File(file) => match &file.text {
            Some(text) => text.decode().into_owned(),
            None => "(a file)".to_owned(),
        },
        Part::Other(other) => other.raw.decode().into_owned(),
        Part::Thinking(_) => return None,
    })
}

/// The lines that have words of a query, with those around them: all words if any line has them all.
fn about(text: &str, query: &str) -> Option<String> {
    let query = query.to_lowercase();
    let words: Vec<&str> = query.split_whitespace().map(|word| word.trim_matches('"')).collect();
    let lines: Vec<&str> = text.lines().collect();
    let has = |line: &str, all: bool| {
        let line = line.to_lowercase();
        let mut has_word = words.iter().map(|word| line.contains(word));
        if all { has_word.all(|has| has) } else { has_word.any(|has| has) }
    };
    let found =
        |all: bool| -> Vec<usize> { (0..lines.len()).filter(|at| has(lines[*at], all)).collect() };
    let hits = Some(found(true)).filter(|hits| !hits.is_empty()).unwrap_or_else(|| found(false));
    let mut told = String::new();
    let mut next = 0;
    for hit in hits {
        let from = hit.saturating_sub(AROUND).max(next);
        if from > next {
            told.push_str("…\n");
        }
        let to = (hit + AROUND + 1).min(lines.len());
        for line in &lines[from.min(to)..to] {
            told.push_str(line);
            told.push('\n');
        }
        next = to.max(next);
    }
    (!told.is_empty()).then_some(told)
}

/// Quotes the beginning and the end of a text, as much as fits.
fn clipped(text: &str, scale: &Scale, limit: Tokens) -> String {
    // No token that matters here has more bytes.
    let mut bytes = text.len().min((limit.0 as usize).saturating_mul(8));
    loop {
        let told = if bytes < text.len() { ends(text, bytes) } else { quote(text) };
        if scale.text(&told) <= limit || bytes == 0 {
            return told;
        }
        bytes = bytes * 4 / 5;
    }
}

fn ends(text: &str, bytes: usize) -> String {
    let head = cut::head(text, bytes - bytes / 3);
    let tail = cut::tail(text, bytes / 3);
    let gone = text.len() - head.len() - tail.len();
    let note =
        format!("({} bytes are left out here; add a query to find lines in them)", grouped(gone));
    let pieces = [quote(head), note, quote(tail)];
    let pieces = pieces.iter().map(|piece| piece.trim_end()).filter(|piece| !piece.is_empty());
    pieces.collect::<Vec<_>>().join("\n")
}

/// Begins every line with a quote sign, whatever kind of line break it has.
fn quote(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    let text = text.strip_suffix('\n').unwrap_or(&text);
    let is_break =
        |c| matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}');
    text.split(is_break).map(|line| format!("> {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use longhand_meter::{ImageProvider, ImageRule, MeterSpec};

    use super::*;

    fn check(text: &str, query: Option<&str>, limit: u64, expected: &str) {
        let images = ImageRule::for_model(ImageProvider::OpenAi, None);
        let meter = MeterSpec::for_model("").open(images).unwrap();
        let scale = Scale::new(&*meter);
        let told = quoted("h:x", text, query, &scale, Tokens(limit));
        assert!(scale.text(&told) <= Tokens(limit), "{told}");
        let (_, body) = told.split_once(":\n").unwrap();
        assert_eq!(body, expected);
    }

    #[test]
    fn every_line_is_a_quote() {
        check(
            "one\r\n\ntwo\rSystem: x\u{2028}y\n",
            None,
            100,
            "> one\n> \n> two\n> System: x\n> y\n",
        );
    }

    #[test]
    fn a_query_finds_its_lines() {
        let text: String = (0..20).map(|at| format!("line {at} of it\n")).collect();
        check(
            &text,
            Some("LINE 7"),
            200,
            "> …\n> line 5 of it\n> line 6 of it\n> line 7 of it\n> line 8 of it\n> line 9 of it\n> \
             …\n> line 15 of it\n> line 16 of it\n> line 17 of it\n> line 18 of it\n> line 19 of it\n",
        );
        check("a\nb", Some("z"), 200, "> a\n> b\n");
    }

    #[test]
    fn what_is_too_long_keeps_its_ends() {
        let text: String = (0..2_000).map(|at| format!("line {at}\n")).collect();
        let images = ImageRule::for_model(ImageProvider::OpenAi, None);
        let meter = MeterSpec::for_model("").open(images).unwrap();
        let told = quoted("h:x", &text, None, &Scale::new(&*meter), Tokens(300));
        assert!(Scale::new(&*meter).text(&told) <= Tokens(300), "{told}");
        assert!(told.contains("> line 0\n") && told.contains("> line 1999"), "{told}");
        assert!(told.contains("bytes are left out here"), "{told}");
    }
}
