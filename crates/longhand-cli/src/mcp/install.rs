//! `longhand mcp install` and `uninstall`: our entry in the settings of an agent.

use std::fs;
use std::io::{ErrorKind, IsTerminal};
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::agent::{AgentSettings, is_ours, program};
use crate::args::{McpEditArgs, McpInstallArgs, McpServeArgs, McpUninstallArgs};
use crate::{CommandOutcome, hinted, output};

/// The largest settings file that is changed.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// How many lines are shown around a change.
const AROUND: usize = 2;

/// Said when the file is not what was shown any more.
const CHANGED_MEANWHILE: &str = "was changed meanwhile by another program; nothing was written";

pub(crate) fn install(args: &McpInstallArgs) -> Result<CommandOutcome> {
    let agent = AgentSettings::of(args.edit.agent)?;
    let entry = agent.entry(&program()?, &arguments(&args.serve)?);
    if !args.edit.print && !agent.is_there() {
        return Err(agent.missing());
    }
    let file = SettingsFile::read(&agent)?;
    let keys = agent.keys(&file.says);
    match entry_of(&file.says, &keys) {
        Some(known) if *known == entry => {
            output::say(&format!("{} has it already in {}", agent.name, agent.file.display()));
            return Ok(CommandOutcome::Done);
        }
        Some(known) if !is_ours(known) => return Err(foreign(&agent)),
        _ => {}
    }
    let new = file.changed(agent.with_entry(&file.text, &keys, &entry))?;
    let mut expected = file.says.clone();
    set(&mut expected, &keys, Some(entry))?;
    let question = format!("Add this to the settings of {}?", agent.name);
    file.write(&agent, &new, &expected, &args.edit, &question)?;
    Ok(CommandOutcome::Done)
}

pub(crate) fn uninstall(args: &McpUninstallArgs) -> Result<CommandOutcome> {
    let agent = AgentSettings::of(args.edit.agent)?;
    let file = SettingsFile::read(&agent)?;
    let keys = agent.keys(&file.says);
    match entry_of(&file.says, &keys) {
        None => {
            output::say(&format!("{} has no such entry in {}", agent.name, agent.file.display()));
            return Ok(CommandOutcome::Done);
        }
        Some(known) if !is_ours(known) => return Err(foreign(&agent)),
        Some(_) => {}
    }
    let new = file.changed(agent.without_entry(&file.text, &keys))?;
    let mut expected = file.says.clone();
    set(&mut expected, &keys, None)?;
    let question = format!("Take this out of the settings of {}?", agent.name);
    file.write(&agent, &new, &expected, &args.edit, &question)?;
    Ok(CommandOutcome::Done)
}

fn foreign(agent: &AgentSettings) -> anyhow::Error {
    hinted(
        format!("{} has another server called longhand in {}", agent.name, agent.file.display()),
        "nothing was written; rename that entry, or remove it yourself",
    )
}

/// The entry under some keys.
fn entry_of<'v>(says: &'v Value, keys: &[&str]) -> Option<&'v Value> {
    keys.iter().try_fold(says, |value, key| value.get(key))
}

/// What a file must say afterwards.
fn set(says: &mut Value, keys: &[&str], entry: Option<Value>) -> Result<()> {
    let Some((last, parents)) = keys.split_last() else { return Ok(()) };
    let mut value = says;
    for key in parents {
        let Some(object) = value.as_object_mut() else { bail!("it has no object of servers") };
        value = object.entry(*key).or_insert_with(|| Value::Object(serde_json::Map::new()));
    }
    let Some(object) = value.as_object_mut() else { bail!("it has no object of servers") };
    match entry {
        Some(entry) => {
            object.insert((*last).to_owned(), entry);
        }
        None => {
            object.shift_remove(*last);
        }
    }
    Ok(())
}

/// The same without objects of servers that have none.
fn without_empty(mut says: Value) -> Value {
    if let Some(object) = says.as_object_mut() {
        object.retain(|_, value| value.as_object().is_none_or(|inner| !inner.is_empty()));
    }
    says
}

/// The arguments with which an agent starts the server.
fn arguments(args: &McpServeArgs) -> Result<Vec<String>> {
    let mut words = vec!["mcp".to_owned()];
    let mut option = |name: &str, value: String| words.extend([format!("--{name}"), value]);
    let path = |path: &Path| -> Result<String> {
        let path = std::path::absolute(path).context("the folder is not known")?;
        let text = path.to_str().map(str::to_owned);
        text.with_context(|| format!("{} is no text", path.display()))
    };
    if let Some(scope) = args.scope_name() {
        option("scope", scope);
    }
    if let Some(project) = &args.project {
        option("project", path(project)?);
    }
    if let Some(session) = &args.session {
        option("session", session.clone());
    }
    if let Some(archive) = &args.archive.archive {
        option("archive", path(archive)?);
    }
    if args.write {
        words.push("--write".to_owned());
    }
    Ok(words)
}

/// A settings file as it was read.
struct SettingsFile<'a> {
    agent: &'a AgentSettings,
    text: String,
    is_there: bool,
    says: Value,
}

impl<'a> SettingsFile<'a> {
    /// Reads the file of an agent; one that is not there says nothing.
    fn read(agent: &'a AgentSettings) -> Result<Self> {
        let path = agent.file.as_path();
        let failed = || format!("cannot read {}", path.display());
        let found = match fs::metadata(path) {
            Ok(found) => Some(found),
            // A link that leads nowhere is no missing file.
            Err(error) if error.kind() == ErrorKind::NotFound && !path.is_symlink() => None,
            Err(error) => return Err(error).with_context(failed),
        };
        let Some(found) = found else {
            let says = Value::Object(serde_json::Map::new());
            return Ok(Self { agent, text: String::new(), is_there: false, says });
        };
        if !found.is_file() || found.len() > FILE_BYTES_MAX {
            return Err(unusual(path, "it is no file, or far too large"));
        }
        let bytes = fs::read(path).with_context(failed)?;
        let text = String::from_utf8(bytes).map_err(|_| unusual(path, "it is no UTF-8"))?;
        let says = agent.read(&text).map_err(|error| unusual(path, &format!("{error:#}")))?;
        if !says.is_object() {
            return Err(unusual(path, "it is no object of settings"));
        }
        Ok(Self { agent, text, is_there: true, says })
    }

    /// The changed text, if it could be made.
    fn changed(&self, new: Result<String>) -> Result<String> {
        new.map_err(|error| unusual(&self.agent.file, &format!("{error:#}")))
    }

    /// Shows the change, asks, keeps a copy and writes.
    fn write(
        &self,
        agent: &AgentSettings,
        new: &str,
        expected: &Value,
        args: &McpEditArgs,
        question: &str,
    ) -> Result<()> {
        let path = agent.file.as_path();
        let says = agent.read(new).map_err(|error| unusual(path, &format!("{error:#}")))?;
        // A table of TOML goes with the last one inside of it.
        if without_empty(says) != without_empty(expected.clone()) {
            return Err(unusual(path, "the change would touch other settings"));
        }
        output::print(&format!("{}\n{}", path.display(), difference(&self.text, new)))?;
        if args.print {
            return Ok(());
        }
        if self.is_there && fs::metadata(path)?.permissions().readonly() {
            return Err(hinted(
                format!("{} is read-only; nothing was written", path.display()),
                "make it writable, or put the entry above where you keep your settings",
            ));
        }
        if !args.yes && !agrees(question)? {
            output::say("nothing was written");
            return Ok(());
        }
        if self.is_there {
            if fs::read(path).ok().as_deref() != Some(self.text.as_bytes()) {
                bail!("{} {CHANGED_MEANWHILE}", path.display());
            }
            let copy = output::keep_copy(path)?;
            output::say(&format!("what was there is in {}", copy.display()));
        } else if path.exists() {
            bail!("{} {CHANGED_MEANWHILE}", path.display());
        } else if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)
                .with_context(|| format!("cannot make {}", folder.display()))?;
        }
        output::write_file(path, new)?;
        output::say(&format!("written; {} reads it when it starts", agent.name));
        Ok(())
    }
}

fn unusual(path: &Path, why: &str) -> anyhow::Error {
    hinted(
        format!("{} cannot be changed safely: {why}; nothing was written", path.display()),
        "docs/MCP.md says where the entry belongs; it can be put there by hand",
    )
}

/// Asks a person; without one, nothing is written.
fn agrees(question: &str) -> Result<bool> {
    if !std::io::stdin().is_terminal() {
        return Err(hinted(
            "nobody is there to be asked; nothing was written",
            "--yes writes it without a question",
        ));
    }
    output::say(&format!("{question} [y/N]"));
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).context("cannot read the answer")?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// The lines that change, with those around them.
fn difference(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let head = old.iter().zip(&new).take_while(|(one, other)| one == other).count();
    let (old_rest, new_rest) = (&old[head..], &new[head..]);
    let tail = old_rest.iter().rev().zip(new_rest.iter().rev());
    let tail = tail.take_while(|(one, other)| one == other).count();
    let lines = |sign: char, lines: &[&str]| -> String {
        lines.iter().map(|line| format!("{sign} {line}\n")).collect()
    };
    let after = &old[old.len() - tail..];
    [
        lines(' ', &old[head.saturating_sub(AROUND)..head]),
        lines('-', &old_rest[..old_rest.len() - tail]),
        lines('+', &new_rest[..new_rest.len() - tail]),
        lines(' ', &after[..after.len().min(AROUND)]),
    ]
    .concat()
}
