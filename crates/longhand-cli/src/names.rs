//! What sessions are called where people read them.

pub(crate) use longhand::agent_files::shell_word as quoted;
use longhand::app::{AppError, FoundBy, FoundSession, SessionSummary, short_id};
use longhand::time;

use crate::output::{self, counted};

/// The most characters of a name that is shown; of a longer one, the id is.
const NAME_CHARS_MAX: usize = 64;

/// The most sessions that an error lists.
const CANDIDATES_MAX: usize = 8;

/// What a session is called wherever it is shown, as it can be given on the command line: its name, quoted for a shell
/// if need be, or its id if the name cannot be typed.
pub(crate) fn called(name: &str, id: &str) -> String {
    let is_typed = !name.trim().is_empty()
        && name.chars().count() <= NAME_CHARS_MAX
        && output::harmless_line(name) == *name;
    if is_typed { quoted(name) } else { short_id(id).to_owned() }
}

/// The same in a list, where sessions that share a name are told apart by their ids.
pub(crate) fn label(name: &str, id: &str, shared: &[String]) -> String {
    let (label, id) = (called(name, id), short_id(id));
    let is_shared = shared.iter().any(|shared| shared == name);
    if is_shared && label != id { format!("{id} {label}") } else { label }
}

/// Whether a session was given no name: then its name is a hash.
pub(crate) fn is_hash(name: &str) -> bool {
    name.len() == 16 && name.chars().all(|c| c.is_ascii_hexdigit())
}

/// A session in words: what it is called, its id if that is something else, how long it is and when it was last used.
pub(crate) fn described(session: &SessionSummary) -> String {
    let (name, id) = (called(&session.name, &session.id), short_id(&session.id));
    let has_id = name == id || is_hash(&session.name);
    let id = if has_id { String::new() } else { format!("{id}, ") };
    let rounds = counted(session.rounds as usize, "round");
    format!("{name} ({id}{rounds}, last used {})", time::format_local(session.last.0))
}

/// Says which session was taken, if it was not named in full.
pub(crate) fn say_taken(found: &FoundSession) {
    let session = described(&found.session);
    match found.by {
        FoundBy::Whole => {}
        FoundBy::Beginning => output::say(&format!("taking {session}")),
        FoundBy::Newest => output::say(&format!("taking {session}, the newest session")),
    }
}

/// What an error says, with the sessions that may have been meant.
pub(crate) fn error_text(error: &AppError) -> String {
    if let AppError::ForeignOwner { session } = error {
        return format!("{} belongs to a key of the proxy", described(session));
    }
    let candidates = error.candidates();
    if candidates.is_empty() {
        return error.to_string();
    }
    let mut lines: Vec<String> = candidates.iter().take(CANDIDATES_MAX).map(described).collect();
    if candidates.len() > CANDIDATES_MAX {
        lines.push(format!("and {} more", candidates.len() - CANDIDATES_MAX));
    }
    format!("{}:\n{}", error.summary(), lines.join("\n"))
}
