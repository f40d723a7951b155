//! Pins, undo, removal, and whether an archive is sound.

use std::collections::BTreeSet;

use longhand_archive::{NewSession, Owner, Page, SessionId, SessionInfo};
use longhand_core::{Role, Seq};
use serde::{Deserialize, Serialize};

use super::log::LoggedEdits;
use super::{Access, App, AppError, SessionSummary, Timestamp, check_new_name};
use crate::driver::searchable;
use crate::recall;

/// How many entries are read at a time.
const ENTRIES_AT_A_TIME: u64 = 1_000;

/// How many of the newest entries are looked through for the user's newest message.
const NEWEST_ENTRIES: u64 = 64;

/// An entry that was pinned or unpinned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PinReport {
    /// The id of the session.
    pub session: String,
    /// The entry.
    pub entry: u64,
    /// Whether it is pinned now.
    pub pinned: bool,
    /// All pinned entries of the session.
    pub pins: Vec<u64>,
}

/// The entries of a session that stay in every window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PinList {
    /// The id of the session.
    pub session: String,
    /// The entries, oldest first.
    pub items: Vec<Pin>,
}

/// A pinned entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Pin {
    /// The entry.
    pub entry: u64,
    /// Its round.
    pub round: u64,
    /// Who said it.
    pub role: String,
    /// When it was said.
    pub at: Timestamp,
    /// Its first words, on one line.
    pub text: String,
}

/// What was undone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct UndoReport {
    /// The id of the session.
    pub session: String,
    /// The edits that were undone; `None` if there were none.
    pub undone: Option<LoggedEdits>,
}

/// A session that was removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RemoveReport {
    /// The session as it was.
    pub session: SessionSummary,
}

/// A session that was renamed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RenameReport {
    /// The session with its new name.
    pub session: SessionSummary,
    /// What it was called before.
    pub before: String,
}

/// Whether an archive is sound.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Whether nothing is damaged.
    pub sound: bool,
    /// What is damaged.
    pub damage: Vec<DamageLine>,
    /// How many sessions were checked.
    pub sessions: u64,
    /// How many entries they have.
    pub entries: u64,
}

/// Something that is damaged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DamageLine {
    /// The id of its session; `None` if it concerns the archive as a whole.
    pub session: Option<String>,
    /// What is damaged, and how.
    pub what: String,
}

/// An archive that was tried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ArchiveHealth {
    /// How many sessions were looked at, the newest first.
    pub sessions: u64,
    /// How many rounds they have.
    pub rounds: u64,
    /// How many of them are damaged.
    pub damaged: u64,
    /// Whether there are more sessions.
    pub has_more: bool,
}

/// So many sessions are looked at to try out an archive; [`App::verify`] looks at all.
const TRIED_MAX: usize = 1_000;

impl App {
    /// Keeps an entry in every window of its session, or no longer.
    pub fn pin(&self, name: &str, entry: u64, pinned: bool) -> Result<PinReport, AppError> {
        let (info, _) = self.look_up(name, Access::Change)?;
        if entry >= info.entries {
            let (session, entries) = (name.to_owned(), info.entries);
            return Err(AppError::NoSuchEntry { session, entries });
        }
        self.archive.pin(info.id, Seq(entry), pinned)?;
        let head = self.archive.head(info.id)?.unwrap_or_default();
        let pins = head.pins.iter().map(|seq| seq.0).collect();
        Ok(PinReport { session: info.id.to_string(), entry, pinned, pins })
    }

    /// Undoes the newest edits of a session; what they left out is sent again if it fits.
    pub fn undo(&self, name: &str) -> Result<UndoReport, AppError> {
        let (info, _) = self.look_up(name, Access::Change)?;
        let undone = self.archive.undo(info.id, None)?;
        let undone = undone
            .map(|batch| LoggedEdits { undone: true, ..LoggedEdits::of(info.id, &batch, &[]) });
        Ok(UndoReport { session: info.id.to_string(), undone })
    }

    /// Undoes a batch of edits, which must be the newest that is live: whoever names one has seen what is undone.
    pub fn undo_batch(&self, name: &str, batch: u64) -> Result<UndoReport, AppError> {
        let (info, _) = self.look_up(name, Access::Change)?;
        let Some(logged) = self.archive.undo_newest(info.id, batch)? else {
            return Err(AppError::OtherBatch { batch, newest: self.undoable(&info)? });
        };
        let edits = LoggedEdits { undone: true, ..LoggedEdits::of(info.id, &logged, &[]) };
        Ok(UndoReport { session: info.id.to_string(), undone: Some(edits) })
    }

    /// Lists the pinned entries of a session, with their first words.
    pub fn pins(&self, name: &str) -> Result<PinList, AppError> {
        let (info, _) = self.look_up(name, Access::Read)?;
        let head = self.archive.head(info.id)?.unwrap_or_default();
        let mut items = Vec::new();
        for seq in head.pins {
            for entry in self.archive.entries(info.id, seq.0..seq.0 + 1)? {
                let text = searchable(&entry.form, &entry.raw);
                items.push(Pin {
                    entry: entry.seq.0,
                    round: entry.round,
                    role: recall::role(&entry).unwrap_or(Role::Tool).as_str().to_owned(),
                    at: Timestamp(entry.said_ms()),
                    text: longhand_archive::snippet(&text, &(0..0)),
                });
            }
        }
        Ok(PinList { session: info.id.to_string(), items })
    }

    /// Gives a session a name that no other session has. Its id stays.
    ///
    /// [`Session::open`](crate::Session::open) goes by the id that a name had first; [`App::open`] finds the session by the
    /// name that it has now.
    pub fn rename(&self, name: &str, new: &str) -> Result<RenameReport, AppError> {
        let (info, _) = self.look_up(name, Access::Change)?;
        check_new_name(new)?;
        let is_other = |found: &SessionInfo| found.id != info.id;
        if !self.sessions_called(new)?.iter().any(is_other) {
            self.archive.rename(info.id, new)?;
            let session = SessionSummary { name: new.to_owned(), ..SessionSummary::of(&info) };
            return Ok(RenameReport { session, before: info.name });
        }
        Err(AppError::NameTaken { name: new.to_owned(), can_append: false })
    }

    /// Removes a session for good.
    pub fn remove(&self, name: &str) -> Result<RemoveReport, AppError> {
        let (info, _) = self.look_up(name, Access::Change)?;
        self.archive.remove(info.id)?;
        Ok(RemoveReport { session: SessionSummary::of(&info) })
    }

    /// All that the user said in a session, each text once.
    pub fn said_by_user(&self, name: &str) -> Result<BTreeSet<String>, AppError> {
        let (info, _) = self.look_up(name, Access::Read)?;
        let mut texts = BTreeSet::new();
        let mut start = 0;
        while start < info.entries {
            let end = info.entries.min(start + ENTRIES_AT_A_TIME);
            for entry in self.archive.entries(info.id, start..end)? {
                if recall::role(&entry) == Some(Role::User) {
                    texts.insert(searchable(&entry.form, &entry.raw).trim().to_owned());
                }
            }
            start = end;
        }
        Ok(texts)
    }

    /// The number of the user's newest message in a session; `None` if there is none.
    pub fn newest_question(&self, name: &str) -> Result<Option<u64>, AppError> {
        let (info, _) = self.look_up(name, Access::Read)?;
        let newest = info.rounds.saturating_sub(1);
        let seqs = info.entries.saturating_sub(NEWEST_ENTRIES)..info.entries;
        let entries = self.archive.entries(info.id, seqs)?;
        Ok(entries.iter().find(|entry| entry.round == newest).map(|entry| entry.seq.0))
    }

    /// Checks everything in the archive, or one session.
    pub fn verify(&self, name: Option<&str>) -> Result<VerifyReport, AppError> {
        let only = name.map(|name| self.look_up(name, Access::Read)).transpose()?;
        let only = only.map(|(info, _)| info);
        let damage = self.archive.verify(only.as_ref().map(|info| info.id))?;
        // Of a damaged archive, there may be no list.
        let sessions = only.map_or_else(|| self.all_sessions(), |info| Ok(vec![info]));
        let sessions = if damage.is_empty() { sessions? } else { sessions.unwrap_or_default() };
        let is_seen = |id: SessionId| sessions.iter().any(|info| info.id == id);
        let damage: Vec<DamageLine> = damage
            .iter()
            .filter(|damage| self.sees_all() || damage.session.is_none_or(is_seen))
            .map(|damage| DamageLine {
                session: damage.session.map(|id| id.to_string()),
                what: damage.to_string(),
            })
            .collect();
        Ok(VerifyReport {
            sound: damage.is_empty(),
            damage,
            sessions: sessions.len() as u64,
            entries: sessions.iter().map(|info| info.entries).sum(),
        })
    }

    /// Tries out an archive: a session that begins under a name that nobody has is removed again.
    pub fn try_out(&self, name: &str, now_ms: i64) -> Result<ArchiveHealth, AppError> {
        let id = SessionId::named(Owner::LOCAL, name);
        let new = NewSession { name: name.to_owned(), begun_ms: now_ms, ..NewSession::default() };
        self.archive.begin(id, &new)?;
        self.archive.remove(id)?;
        let sessions = self.archive.sessions(self.owner, Page::first(TRIED_MAX))?;
        let is_damaged = |info: &&SessionInfo| info.is_damaged;
        Ok(ArchiveHealth {
            sessions: sessions.items.len() as u64,
            rounds: sessions.items.iter().map(|info| info.rounds).sum(),
            damaged: sessions.items.iter().filter(is_damaged).count() as u64,
            has_more: sessions.next.is_some(),
        })
    }
}
