//! `longhand doctor`.

use anyhow::Result;
use longhand::{Archive, SqliteArchive};
use longhand_archive::Page;
use longhand_core::grouped;
use longhand_model::{Endpoint, ModelError};
use serde_json::{Value, json};

use crate::args::DoctorArgs;
use crate::config::Config;
use crate::models::{Models, is_built_in};
use crate::{Outcome, output, store};

/// Something that was looked at.
struct Finding {
    what: String,
    is_well: bool,
    told: String,
    /// What to do about it.
    hint: Option<String>,
}

pub(crate) fn run(args: &DoctorArgs) -> Result<Outcome> {
    let config = Config::load()?;
    let mut findings = vec![archive(args)];
    findings.extend(models(&config)?);
    let is_well = findings.iter().all(|finding| finding.is_well);
    if args.json {
        output::print(&format!("{:#}", report(&config, &findings)))?;
    } else {
        output::print(&text(&config, &findings))?;
    }
    Ok(if is_well { Outcome::Done } else { Outcome::No })
}

fn archive(args: &DoctorArgs) -> Finding {
    let what = "archive".to_owned();
    let finding = |is_well, told: String, hint: Option<&str>| Finding {
        what: what.clone(),
        is_well,
        told,
        hint: hint.map(str::to_owned),
    };
    let path = match store::path(&args.archive) {
        Ok(path) => path,
        Err(error) => return finding(false, format!("{error:#}"), None),
    };
    let name = path.display();
    if !path.exists() {
        return finding(true, format!("{name} is not there yet; the first round makes it"), None);
    }
    let opened = SqliteArchive::open(&path)
        .and_then(|archive| archive.sessions(None, Page::ALL))
        .map(|listing| listing.items);
    match opened {
        Ok(sessions) if sessions.iter().any(|info| info.is_damaged) => finding(
            false,
            format!("{name} has damaged sessions"),
            Some("`longhand verify` names what is damaged; `longhand export` saves the others"),
        ),
        Ok(sessions) => {
            let rounds: u64 = sessions.iter().map(|info| info.rounds).sum();
            let (sessions, rounds) = (grouped(sessions.len()), grouped(rounds as usize));
            finding(true, format!("{name}: {sessions} sessions, {rounds} rounds"), None)
        }
        Err(error) => finding(false, error.to_string(), Some("--archive names another file")),
    }
}

/// Looks at every model that is configured, and at the endpoints of the file.
fn models(config: &Config) -> Result<Vec<Finding>> {
    let models = Models::new(config)?;
    let chat = config.text("models.chat").map(str::to_owned).into_iter();
    let summary = config.texts("models.summary").unwrap_or_default().into_iter();
    let tiers = chat.map(|name| ("chat", name)).chain(summary.map(|name| ("summary", name)));
    let mut findings = Vec::new();
    let mut seen = Vec::new();
    for (tier, name) in tiers.filter(|(_, name)| !is_built_in(name)) {
        let what = format!("{tier} model {name}");
        match models.endpoints.model(&name) {
            Ok(model) => {
                seen.push(model.endpoint.name.clone());
                findings.push(reached(&models, what, &model.endpoint));
            }
            Err(error) => findings.push(Finding {
                what,
                is_well: false,
                told: error.to_string(),
                hint: Some("a model is named provider/model, such as ollama/qwen3".to_owned()),
            }),
        }
    }
    for name in config.names("endpoints").into_iter().filter(|name| !seen.contains(name)) {
        if let Some(endpoint) = models.endpoints.get(&name) {
            findings.push(reached(&models, format!("endpoint {name}"), endpoint));
        }
    }
    Ok(findings)
}

/// Asks an endpoint for its models, which costs nothing.
fn reached(models: &Models, what: String, endpoint: &Endpoint) -> Finding {
    let key = match (&endpoint.key, &endpoint.key_variable) {
        (Some(_), _) => "with a key",
        (None, None) => "without a key",
        (None, Some(_)) => "with no key set",
    };
    let (is_well, told, hint) = match models.runtime.block_on(models.client.probe(endpoint)) {
        Ok(()) => (true, "reached".to_owned(), None),
        Err(error) => (false, error.to_string(), Some(hint(&error, endpoint))),
    };
    Finding { what, is_well, told: format!("{} {key}: {told}", endpoint.base_url), hint }
}

fn hint(error: &ModelError, endpoint: &Endpoint) -> String {
    match (error, &endpoint.key_variable) {
        (ModelError::Unauthorised { .. }, Some(variable)) => format!("{variable} holds the key"),
        (ModelError::Unauthorised { .. }, None) => {
            format!("endpoints.{}.key_env or key_file names a key", endpoint.name)
        }
        (ModelError::Transport { .. } | ModelError::Timeout { .. }, _) => {
            "is the server running, and is its address right?".to_owned()
        }
        _ => format!("endpoints.{}.url is its address, up to /v1", endpoint.name),
    }
}

fn text(config: &Config, findings: &[Finding]) -> String {
    let mut text = String::new();
    for (key, value, source) in config.all() {
        text.push_str(&format!("{key:<30} {value:<34} {source}\n"));
    }
    text.push('\n');
    for finding in findings {
        let mark = if finding.is_well { "ok  " } else { "FAIL" };
        text.push_str(&format!("{mark} {}: {}\n", finding.what, finding.told));
        if let Some(hint) = &finding.hint {
            text.push_str(&format!("     hint: {hint}\n"));
        }
    }
    text
}

fn report(config: &Config, findings: &[Finding]) -> Value {
    let settings: Vec<Value> = config
        .all()
        .iter()
        .map(|(key, value, source)| json!({"key": key, "value": value, "from": source}))
        .collect();
    let findings: Vec<Value> = findings
        .iter()
        .map(|finding| {
            json!({"what": finding.what, "ok": finding.is_well, "told": finding.told, "hint": finding.hint})
        })
        .collect();
    json!({"settings": settings, "findings": findings})
}
