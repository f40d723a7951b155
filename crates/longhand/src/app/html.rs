//! A session as one HTML file that needs nothing else.
//!
//! What a session says is hostile: every text is escaped, the file has no script, and its policy forbids to run or load
//! any.

use std::borrow::Cow;
use std::io::Write;

use longhand_core::grouped;

use super::messages::{MessageRequest, PartState, SeenMessage, SeenPart};
use super::window_page::RowKind;
use super::{App, AppError, ExpandRequest, SessionView, ViewSettings};
use crate::Redactor;

/// How many messages are read at a time.
const MESSAGES_AT_A_TIME: u64 = 200;

/// Longer texts are closed until somebody opens them.
const OPEN_BYTES_MAX: usize = 1_200;

const HEAD: &str = r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>
:root { color-scheme: light dark; --line: #8886; --soft: #8882; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.3rem; overflow-wrap: anywhere; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { text-align: left; padding: .1rem 1rem .1rem 0; vertical-align: top; overflow-wrap: anywhere; }
article { border-left: 3px solid var(--line); padding: .2rem 0 .2rem .8rem; margin: 1rem 0; }
article.user { border-color: #2a7; }
article.assistant { border-color: #48c; }
article.folded { opacity: .75; }
header, .note { color: #888; font-size: .85rem; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: var(--soft); padding: .6rem; margin: .4rem 0; font-size: .85rem; }
p.said { white-space: pre-wrap; overflow-wrap: anywhere; margin: .3rem 0; }
summary { cursor: pointer; }
</style>
"#;

/// Writes escaped text, without secrets if that is wanted.
struct HtmlWriter<'w> {
    out: &'w mut dyn Write,
    redactor: Option<&'w Redactor>,
}

impl HtmlWriter<'_> {
    fn raw(&mut self, html: &str) -> Result<(), AppError> {
        Ok(self.out.write_all(html.as_bytes())?)
    }

    /// A text as it may stand anywhere, in attributes as well.
    fn text(&mut self, text: &str) -> Result<(), AppError> {
        let text = match self.redactor {
            Some(redactor) => redactor.redact(text),
            None => Cow::Borrowed(text),
        };
        self.raw(&escaped(&text))
    }
}

/// A text in which nothing is markup.
fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len() + text.len() / 16);
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            // They would hide or turn round what follows them.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => html.push('\u{fffd}'),
            '\n' | '\t' => html.push(c),
            c if c.is_control() => html.push('\u{fffd}'),
            c => html.push(c),
        }
    }
    html
}

impl App {
    /// Writes a session as one HTML file; with a redactor, without secrets.
    pub fn export_html(
        &self,
        name: &str,
        redactor: Option<&Redactor>,
        out: &mut dyn Write,
    ) -> Result<(), AppError> {
        let view = self.show(name, &ViewSettings::default())?;
        let mut html = HtmlWriter { out, redactor };
        write_head(&mut html, &view)?;
        let mut from = 0;
        loop {
            let limit = Some(MESSAGES_AT_A_TIME);
            let request = MessageRequest { from, limit, ..MessageRequest::default() };
            let page = self.message_page(&view.id, &request)?;
            for message in &page.items {
                self.write_message(&mut html, message)?;
            }
            match page.next {
                Some(next) => from = next,
                None => break,
            }
        }
        html.raw("</main>\n</body>\n</html>\n")?;
        Ok(html.out.flush()?)
    }

    fn write_message(&self, html: &mut HtmlWriter, message: &SeenMessage) -> Result<(), AppError> {
        let folded = if message.folded { " folded" } else { "" };
        html.raw(&format!(
            "<article class=\"{}{folded}\" id=\"e{}\">\n<header>",
            message.role, message.entry
        ))?;
        html.raw(&format!("{}, entry {}, round {}, ", message.role, message.entry, message.round))?;
        html.raw(&crate::time::format(message.at.0))?;
        html.raw(if message.folded { ", folded" } else { "" })?;
        html.raw(if message.pinned { ", pinned" } else { "" })?;
        html.raw("</header>\n")?;
        // What is longer than a page shows is read as a whole.
        if message.parts.iter().any(|part| part.more) {
            let expanded = self.expand(&ExpandRequest::of(&message.handle))?;
            write_text(html, "all of it", &expanded.content)?;
        } else {
            for part in &message.parts {
                write_part(html, part)?;
            }
        }
        html.raw("</article>\n")
    }
}

fn write_head(html: &mut HtmlWriter, view: &SessionView) -> Result<(), AppError> {
    html.raw(HEAD)?;
    html.raw("<title>")?;
    html.text(&view.name)?;
    html.raw("</title>\n</head>\n<body>\n<h1>")?;
    let title = if view.task.trim().is_empty() { &view.name } else { &view.task };
    html.text(title)?;
    html.raw("</h1>\n<table>\n")?;
    let facts = [
        ("session", view.name.clone()),
        ("id", view.id.clone()),
        ("agent", view.agent.clone()),
        ("model", view.model.clone()),
        ("folder", view.project.clone()),
        ("rounds", grouped(view.rounds as usize)),
        ("messages", grouped(view.entries as usize)),
        ("requests", grouped(view.requests as usize)),
        ("begun", crate::time::format(view.begun.0)),
        ("newest", crate::time::format(view.last.0)),
    ];
    for (name, fact) in facts.iter().filter(|(_, fact)| !fact.is_empty()) {
        html.raw(&format!("<tr><th>{name}</th><td>"))?;
        html.text(fact)?;
        html.raw("</td></tr>\n")?;
    }
    html.raw("</table>\n")?;
    if html.redactor.is_some() {
        html.raw("<p class=\"note\">What looks like a key or a password was taken out.</p>\n")?;
    }
    if let Some(summary) = &view.summary {
        html.raw("<details><summary>The fold: what the model sees of the oldest messages</summary>\n<pre>")?;
        html.text(summary)?;
        html.raw("</pre></details>\n")?;
    }
    html.raw("<main>\n")
}

fn write_part(html: &mut HtmlWriter, part: &SeenPart) -> Result<(), AppError> {
    let name = part.name.as_deref().unwrap_or("a tool");
    match part.kind {
        RowKind::Text => {
            html.raw("<p class=\"said\">")?;
            html.text(&part.text)?;
            html.raw("</p>\n")?;
        }
        RowKind::Call => write_text(html, &format!("calls {name}"), &part.text)?,
        RowKind::Result => write_text(html, &format!("result of {name}"), &part.text)?,
        RowKind::Thinking => write_text(html, "thinking", &part.text)?,
        RowKind::Image => html.raw("<p class=\"note\">(a picture)</p>\n")?,
        _ => write_text(html, name, &part.text)?,
    }
    if part.state != PartState::Kept
        && let Some(shown) = &part.shown
    {
        html.raw("<p class=\"note\">The model sees: ")?;
        html.text(shown)?;
        html.raw("</p>\n")?;
    }
    Ok(())
}

fn write_text(html: &mut HtmlWriter, title: &str, text: &str) -> Result<(), AppError> {
    let open = if text.len() <= OPEN_BYTES_MAX { " open" } else { "" };
    html.raw(&format!("<details{open}><summary>"))?;
    html.text(title)?;
    html.raw("</summary>\n<pre>")?;
    html.text(text)?;
    html.raw("</pre></details>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_was_said_is_markup() {
        let said = "<script>alert('x')</script> & \"quoted\"\n\u{202e}evil\u{7}";
        let html = escaped(said);
        assert_eq!(
            html,
            "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &amp; &quot;quoted&quot;\n\u{fffd}evil\u{fffd}"
        );
    }
}
