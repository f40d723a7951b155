//! A page of a console: the sessions, a search and the window of one session as HTML.
//!
//! `cargo run -p longhand --example console -- archive.db 'retry storm'`

use std::sync::Arc;

use longhand::SqliteArchive;
use longhand::app::{App, AppError, ListRequest, SearchRequest, ViewSettings};

/// Names, tasks and messages were written by others.
fn escaped(text: &str) -> String {
    let escape = |c: char| match c {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '"' => "&quot;".to_owned(),
        '\'' => "&#39;".to_owned(),
        c => c.to_string(),
    };
    text.chars().map(escape).collect()
}

/// Draws the page; the newest session is the one that is shown.
pub(crate) fn page(app: &App, query: &str) -> Result<String, AppError> {
    let mut html = "<!doctype html><meta charset=utf-8><title>Longhand</title>\n<ul>\n".to_owned();
    let listed = app.sessions(&ListRequest { limit: Some(50), ..ListRequest::default() })?;
    for session in &listed.items {
        let (name, task) = (escaped(&session.name), escaped(&session.task));
        html += &format!("<li data-id=\"{}\">{name}: {task}</li>\n", session.id);
    }
    html += "</ul>\n<ol>\n";
    for found in app.search(&SearchRequest::of(query))? {
        let (session, snippet) = (escaped(&found.session), escaped(&found.snippet));
        html += &format!("<li>{session} {} {}: {snippet}</li>\n", found.entry, found.role);
    }
    html += "</ol>\n";
    if let Some(newest) = listed.items.first() {
        let map = app.map(&newest.id, &ViewSettings::default())?;
        let system = map.system.unwrap_or(0);
        html += &format!(
            "<meter max={} value={}></meter>\n<p>{system} system, {} folded, {} verbatim, {} free</p>\n",
            map.budget,
            map.budget - map.free,
            map.folded,
            map.verbatim,
            map.free,
        );
    }
    Ok(html)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let path = words.next().ok_or("the path of an archive is missing")?;
    let app = App::new(Arc::new(SqliteArchive::open(path)?));
    print!("{}", page(&app, &words.next().ok_or("a query is missing")?)?);
    Ok(())
}
