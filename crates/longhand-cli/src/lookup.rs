//! Which session a name on the command line means.
//!
//! Where something is written or removed, a name is exact: a misspelt one must not reach another conversation. Where
//! something is only read, a beginning is enough if one session alone has it.

use std::sync::Arc;

use anyhow::Result;
use longhand::{Archive, SessionId, time};
use longhand_archive::{Page, SessionInfo};

use crate::output::counted;
use crate::{conversation, hinted, output};

/// Stands for the newest conversation where something is read.
pub(crate) const LAST: &str = "@last";

/// The least digits of an id that say which one is meant.
const ID_DIGITS_MIN: usize = 4;

/// The most sessions that an error lists.
const CANDIDATES_MAX: usize = 8;

const HINT: &str = "`longhand ls` lists the sessions";
const HINT_LAST: &str =
    "@last is for reading; to change or remove a session, give its name: `longhand ls` lists them";

/// How much of a name must be given.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// All of it: something will be written or removed.
    Exact,
    /// A beginning: something will be read.
    Prefix,
}

/// Finds a session to write to, by its whole name or id.
pub(crate) fn exact(archive: &Arc<dyn Archive>, name: &str) -> Result<Option<SessionInfo>> {
    look_up(archive, name, Mode::Exact)
}

/// Finds a session to change or remove, which must be there.
pub(crate) fn writable(archive: &Arc<dyn Archive>, name: &str) -> Result<SessionInfo> {
    writable_or(archive, name, HINT)
}

/// The same, with what to do if no session is called anything like it.
pub(crate) fn writable_or(
    archive: &Arc<dyn Archive>,
    name: &str,
    hint: &str,
) -> Result<SessionInfo> {
    exact(archive, name)?.map_or_else(|| Err(unknown(archive, name, hint)?), Ok)
}

/// Whether a new session may have this name.
pub(crate) fn check_new(name: &str) -> Result<()> {
    if name.trim().is_empty() || name == LAST {
        return Err(hinted(
            format!("a session cannot be called {name:?}"),
            "a name is exact where something is written; `longhand ls` lists the sessions",
        ));
    }
    Ok(())
}

/// Finds a session to read, which must be there; a beginning of its name or id is enough, and so is `@last`.
pub(crate) fn readable(archive: &Arc<dyn Archive>, name: &str) -> Result<SessionInfo> {
    look_up(archive, name, Mode::Prefix)?.map_or_else(|| Err(unknown(archive, name, HINT)?), Ok)
}

/// The one place that decides which session a name means.
fn look_up(archive: &Arc<dyn Archive>, name: &str, mode: Mode) -> Result<Option<SessionInfo>> {
    // A whole id is never ambiguous, whatever sessions are called.
    if let Ok(id) = name.parse::<SessionId>()
        && let Some(info) = archive.session(id)?
    {
        return Ok(Some(info));
    }
    let sessions = archive.sessions(None, Page::ALL)?.items;
    let is_called = |info: &&SessionInfo| info.name == name || conversation::digits(info) == name;
    let called: Vec<&SessionInfo> = sessions.iter().filter(is_called).collect();
    match called.as_slice() {
        [] if mode == Mode::Exact => Ok(None),
        [] if name == LAST => {
            let newest = conversation::newest_since(archive, i64::MIN)?;
            if let Some(info) = &newest {
                output::say(&format!("taking {}, the newest session", described(info)));
            }
            Ok(newest)
        }
        [] => {
            let begin = beginning_with(&sessions, name);
            if let [info] = begin.as_slice() {
                output::say(&format!("taking {}", described(info)));
            }
            one_of(
                &begin,
                &format!("begin with {name:?}"),
                "give the whole name, or the id beside it",
            )
        }
        called => {
            one_of(called, &format!("are called {name:?}"), "give the id of the one that is meant")
        }
    }
}

/// The only candidate; an error names them if there are more.
fn one_of(candidates: &[&SessionInfo], how: &str, hint: &str) -> Result<Option<SessionInfo>> {
    match candidates {
        [] => Ok(None),
        [info] => Ok(Some((*info).clone())),
        several => {
            Err(hinted(format!("{} sessions {how}:\n{}", several.len(), listed(several)), hint))
        }
    }
}

fn unknown(archive: &Arc<dyn Archive>, name: &str, hint: &str) -> Result<anyhow::Error> {
    let sessions = archive.sessions(None, Page::ALL)?.items;
    let begin = beginning_with(&sessions, name);
    let what = format!("there is no session {name:?}");
    if begin.is_empty() {
        let is_last = name == LAST && !sessions.is_empty();
        return Ok(hinted(what, if is_last { HINT_LAST } else { hint }));
    }
    let what = format!("{what}; a name is exact here, and these begin so:\n{}", listed(&begin));
    Ok(hinted(what, "give the whole name, or the id beside it"))
}

/// The sessions whose name or id begins with `name`, without empty ones, which are listed nowhere.
fn beginning_with<'a>(sessions: &'a [SessionInfo], name: &str) -> Vec<&'a SessionInfo> {
    let begins = |info: &&SessionInfo| {
        let has_id = name.len() >= ID_DIGITS_MIN && info.id.to_string().starts_with(name);
        !name.is_empty() && info.entries > 0 && (info.name.starts_with(name) || has_id)
    };
    sessions.iter().filter(begins).collect()
}

/// A session in words: what it is called, its id if that is something else, how long it is and when it was last used.
pub(crate) fn described(info: &SessionInfo) -> String {
    let (name, digits) = (conversation::short_id(info), conversation::digits(info));
    let has_id = name == digits || conversation::has_no_name(info);
    let id = if has_id { String::new() } else { format!("{digits}, ") };
    let rounds = counted(info.rounds as usize, "round");
    format!("{name} ({id}{rounds}, last used {})", time::format_local(info.last_ms))
}

fn listed(sessions: &[&SessionInfo]) -> String {
    let mut lines: Vec<String> =
        sessions.iter().take(CANDIDATES_MAX).map(|info| described(info)).collect();
    if sessions.len() > CANDIDATES_MAX {
        lines.push(format!("and {} more", sessions.len() - CANDIDATES_MAX));
    }
    lines.join("\n")
}
