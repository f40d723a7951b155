//! `longhand doctor`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use longhand::MemoryArchive;
use longhand::app::App;
use longhand_model::{Endpoint, ModelError};
use serde_json::{Value, json};

use crate::args::DoctorArgs;
use crate::config::{Config, FolderFile};
use crate::models::{ModelSetup, is_built_in};
use crate::output::counted;
use crate::{CommandOutcome, config, history, output, store, trust};

/// The result of one test.
struct Diagnosis {
    what: String,
    is_well: bool,
    told: String,
    /// What to do about it.
    hint: Option<String>,
}

pub(crate) fn run(args: &DoctorArgs) -> Result<CommandOutcome> {
    let config = Config::load()?;
    let mut findings = vec![archive(args)];
    findings.extend(config.folder().map(folder));
    findings.extend(models(&config)?);
    let is_well = findings.iter().all(|finding| finding.is_well);
    if args.json {
        output::print_json(&report(&config, &paths(args, &config), &findings))?;
    } else {
        output::print_wrapped(&text(&config, &paths(args, &config), &findings, output::columns()))?;
    }
    Ok(if is_well { CommandOutcome::Done } else { CommandOutcome::No })
}

/// Tests whether the settings of the folder have an effect.
fn folder(file: &FolderFile) -> Diagnosis {
    let path = file.path.display();
    let (is_well, told, hint) = match (file.is_trusted, file.held_back.is_empty()) {
        (true, _) => (true, format!("{path} is trusted until it changes"), None),
        (false, true) => (true, format!("{path} sets budgets and policies only"), None),
        (false, false) => {
            let hint = "if the file is yours, `longhand trust` makes all of it count".to_owned();
            let told = format!(
                "{path} is not trusted, so {} in it has no effect",
                file.held_back.join(", ")
            );
            (false, told, Some(hint))
        }
    };
    Diagnosis { what: "settings of the folder".to_owned(), is_well, told, hint }
}

fn archive(args: &DoctorArgs) -> Diagnosis {
    let finding = |is_well, told: String, hint: Option<&str>| Diagnosis {
        what: "archive".to_owned(),
        is_well,
        told,
        hint: hint.map(str::to_owned),
    };
    let path = match store::path(&args.archive) {
        Ok(path) => path,
        Err(error) => return finding(false, format!("{error:#}"), None),
    };
    let name = store::shown(&path);
    let is_on_server = store::server_address(&path).is_some();
    if !is_on_server && !path.exists() {
        return match try_folder(&path) {
            Ok(()) => finding(
                true,
                format!("{name} will be created with the first message; its folder can be written"),
                None,
            ),
            Err(error) => finding(
                false,
                format!("{name} cannot be created: {error}"),
                Some(
                    "--archive, LONGHAND_ARCHIVE or archive.path in longhand.toml names another file",
                ),
            ),
        };
    }
    let opened = match store::open_at(&path) {
        Ok(opened) => opened,
        Err(error) => {
            let hint = crate::hint(&error);
            let hint = hint.as_deref().unwrap_or("--archive names another one");
            return finding(false, crate::text(&error), Some(hint));
        }
    };
    let trial = format!("longhand doctor {}", std::process::id());
    let tried = App::new(opened).try_out(&trial, store::now_ms());
    match tried {
        Ok(health) if health.damaged > 0 => finding(
            false,
            format!("{name} has damaged sessions"),
            Some(&store::addressed(
                "`longhand verify` names what is damaged; `longhand export` saves the others",
            )),
        ),
        Ok(health) => {
            let sessions = counted(health.sessions as usize, "session");
            let rounds = counted(health.rounds as usize, "round");
            let what = if health.has_more {
                format!("the newest {sessions} are sound, `longhand verify` checks all")
            } else {
                format!("{sessions}, {rounds}")
            };
            finding(true, format!("{name} can be read and written: {what}"), None)
        }
        Err(error) => finding(false, error.to_string(), Some("--archive names another file")),
    }
}

/// Writes a file to the folder of an archive that is not there yet, or to the nearest folder above that is there.
fn try_folder(path: &Path) -> std::io::Result<()> {
    let absolute = std::path::absolute(path)?;
    let folder = absolute.ancestors().skip(1).find(|folder| folder.is_dir());
    let folder = folder.unwrap_or(Path::new("/"));
    tempfile::NamedTempFile::new_in(folder).map(drop).map_err(|error| {
        let what = format!("no file can be created in {}: {}", folder.display(), error.kind());
        std::io::Error::new(error.kind(), what)
    })
}

/// Every file that is read or written without being named: what it is, where it is, and whether it is there.
fn paths(args: &DoctorArgs, config: &Config) -> Vec<(&'static str, PathBuf)> {
    let settings = config::own_file().map(|path| ("settings", path));
    let folder = config.folder().map(|file| ("settings of the folder", file.path.clone()));
    let trusted = trust::list().map(|path| ("trusted files", path));
    let archive = store::path(&args.archive).ok().map(|path| {
        let is_on_server = store::server_address(&path).is_some();
        ("archive", if is_on_server { PathBuf::from(store::shown(&path)) } else { path })
    });
    let history = history::path().map(|path| ("prompts typed in chat", path));
    [settings, folder, trusted, archive, history].into_iter().flatten().collect()
}

/// Looks at every model that is configured, and at the endpoints of the file.
fn models(config: &Config) -> Result<Vec<Diagnosis>> {
    let models = ModelSetup::new(config, Arc::new(MemoryArchive::default()))?;
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
                findings.push(reached(&models, what, &model.endpoint, Some(&model.name)));
            }
            Err(error) => findings.push(Diagnosis {
                what,
                is_well: false,
                told: error.to_string(),
                hint: Some("a model is named provider/model, such as ollama/qwen3".to_owned()),
            }),
        }
    }
    for name in config.names("endpoints").into_iter().filter(|name| !seen.contains(name)) {
        if let Some(endpoint) = models.endpoints.get(&name) {
            findings.push(reached(&models, format!("endpoint {name}"), endpoint, None));
        }
    }
    Ok(findings)
}

/// Asks an endpoint for its models, which costs nothing, and looks for one of them.
fn reached(
    models: &ModelSetup,
    what: String,
    endpoint: &Endpoint,
    model: Option<&str>,
) -> Diagnosis {
    let key = match (&endpoint.key, &endpoint.key_variable) {
        (Some(_), _) => "with a key",
        (None, None) => "without a key",
        (None, Some(variable)) => &format!("without a key ({variable} is not set)"),
    };
    let (is_well, told, hint) = match models.runtime.block_on(models.client.models(endpoint)) {
        // Some servers take any name, so a model that is not listed is no failure.
        Ok(list) => match model.and_then(|model| unlisted(&list, model)) {
            Some((told, hint)) => (true, told, Some(hint)),
            None => (true, "it answers".to_owned(), None),
        },
        Err(error) => (false, error.to_string(), Some(hint(&error, endpoint))),
    };
    Diagnosis { what, is_well, told: format!("{} {key}: {told}", endpoint.base_url), hint }
}

/// How many names of models a hint has.
const NAMES_MAX: usize = 8;

/// What to say about a model that is missing in an endpoint's list. A date or a tag may follow its name: `qwen3:latest`.
fn unlisted(list: &str, model: &str) -> Option<(String, String)> {
    let list: Value = serde_json::from_str(list).ok()?;
    let names = list["data"].as_array()?.iter().map(|model| model["id"].as_str());
    let names: Vec<&str> = names.collect::<Option<_>>()?;
    let is_model = |name: &&str| name.ends_with(model) || name.starts_with(model);
    if names.is_empty() || names.iter().any(is_model) {
        return None;
    }
    let more = if names.len() > NAMES_MAX { ", …" } else { "" };
    let shown = names[..names.len().min(NAMES_MAX)].join(", ");
    let hint = format!("it lists {}{more}", output::harmless_line(&shown));
    Some((format!("it answers, but does not list {model}"), hint))
}

fn hint(error: &ModelError, endpoint: &Endpoint) -> String {
    match (error, &endpoint.key_variable) {
        (ModelError::Unauthorised { .. }, Some(variable)) => {
            format!("the key is read from {variable}")
        }
        (ModelError::Unauthorised { .. }, None) => {
            format!("endpoints.{}.key_env or key_file names a key", endpoint.name)
        }
        (ModelError::Transport { .. } | ModelError::Timeout { .. }, _) => {
            "is the server running, and is its address right?".to_owned()
        }
        _ => format!("endpoints.{}.url is its address, up to /v1", endpoint.name),
    }
}

/// How many columns a table of the settings needs.
const TABLE_COLUMNS: usize = 76;

fn text(
    config: &Config,
    paths: &[(&str, PathBuf)],
    findings: &[Diagnosis],
    columns: usize,
) -> String {
    let mut text = String::new();
    let is_narrow = columns < TABLE_COLUMNS;
    for (key, value, source) in config.all() {
        text.push_str(&if is_narrow {
            format!("{key} = {value} ({source})\n")
        } else {
            format!("{key:<30} {value:<34} {source}\n")
        });
    }
    text.push('\n');
    for (what, path) in paths {
        let path_text = path.display();
        let absent = if path.exists() { "" } else { " (not there)" };
        text.push_str(&if is_narrow {
            format!("{what}: {path_text}{absent}\n")
        } else {
            format!("{what:<30} {path_text}{absent}\n")
        });
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

fn report(config: &Config, paths: &[(&str, PathBuf)], findings: &[Diagnosis]) -> Value {
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
    let paths: Vec<Value> = paths
        .iter()
        .map(|(what, path)| json!({"what": what, "path": path.display().to_string(), "exists": path.exists()}))
        .collect();
    json!({"settings": settings, "paths": paths, "findings": findings})
}
