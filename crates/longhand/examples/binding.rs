//! A binding for another language: a line of JSON in, a line of JSON out.
//!
//! `echo '{"call":"list"}' | cargo run -p longhand --example binding -- archive.db`

use std::io::BufRead;
use std::sync::Arc;

use longhand::SqliteArchive;
use longhand::app::{App, AppError, ListRequest, SearchRequest, ViewSettings};
use serde_json::{Value, json};

/// Answers a call with what the application layer returns.
pub(crate) fn answer(app: &App, call: &str) -> Value {
    answered(app, call).unwrap_or_else(|error| {
        error.downcast_ref().map_or_else(
            || json!({"error": "bad_call", "message": error.to_string()}),
            |error: &AppError| json!(error.report()),
        )
    })
}

fn answered(app: &App, call: &str) -> Result<Value, Box<dyn std::error::Error>> {
    let call: Value = serde_json::from_str(call)?;
    let session = call["session"].as_str().unwrap_or_default();
    Ok(match call["call"].as_str().unwrap_or_default() {
        "list" => {
            let request: ListRequest = serde_json::from_value(call.clone())?;
            json!(app.sessions(&request)?)
        }
        "search" => {
            let request: SearchRequest = serde_json::from_value(call.clone())?;
            json!(app.search(&request)?)
        }
        "show" => json!(app.show(session, &ViewSettings::default())?),
        "log" => json!(app.log(session)?),
        "pin" => {
            let entry = call["entry"].as_u64().ok_or("which entry?")?;
            json!(app.pin(session, entry, call["pinned"] != json!(false))?)
        }
        "undo" => json!(app.undo(session)?),
        "export" => {
            let mut lines = Vec::new();
            let report = app.export(session, &mut lines)?;
            json!({"report": report, "lines": String::from_utf8(lines)?})
        }
        other => return Err(format!("there is no call {other:?}").into()),
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("the path of an archive is missing")?;
    let app = App::new(Arc::new(SqliteArchive::open(path)?));
    for line in std::io::stdin().lock().lines() {
        println!("{}", answer(&app, &line?));
    }
    Ok(())
}
