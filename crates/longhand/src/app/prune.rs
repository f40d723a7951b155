//! Removing conversations that nobody has used for long.
//!
//! A conversation goes as a whole, with its side calls and sub-agents, or not at all. So no session is removed that another
//! one continues. What somebody pinned or gave a name stays.

use std::path::Path;

use longhand_archive::{Page, SessionInfo};
use serde::{Deserialize, Serialize};

use super::kin::SessionChain;
use super::{App, AppError, SessionSummary, Timestamp};
use crate::agent_files::{Agent, AgentFile};

/// How many conversations are looked at together.
const AT_A_TIME: usize = 256;
/// How many digits the name of a session has that nobody named.
const HASH_DIGITS: usize = 16;

/// Which conversations are to be removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PruneRequest {
    /// Nothing was said in them since this time.
    pub idle_since: Timestamp,
    /// No more of them, the oldest first, than it takes for the messages of all sessions to have at most so many bytes;
    /// `None` to remove all.
    pub bytes_max: Option<u64>,
}

/// Which conversations would be removed, and why others would not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PrunePlan {
    /// The conversations, the one that is idle longest first.
    pub conversations: Vec<IdleConversation>,
    /// The bytes of their messages.
    pub bytes: u64,
    /// The bytes of the messages of all sessions.
    pub bytes_before: u64,
    /// How many idle conversations stay because a message in them is pinned.
    pub pinned: u64,
    /// How many stay because somebody gave them a name.
    pub named: u64,
    /// How many stay because the rest is small enough without them.
    pub spared: u64,
    /// How many stay because a record of them is damaged: `verify` tells more.
    pub damaged: u64,
}

/// A conversation that nobody has used for long.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct IdleConversation {
    /// Its main session.
    pub session: SessionSummary,
    /// The user's first words.
    pub task: String,
    /// All its sessions, by id; those that continue others come first.
    pub sessions: Vec<String>,
    /// The bytes of their messages.
    pub bytes: u64,
    /// When something was last said in any of them.
    pub last: Timestamp,
}

/// What became of a conversation that was to be removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PrunedConversation {
    /// Its main session, as it was.
    pub session: SessionSummary,
    /// Whether it was removed. If not, it was used meanwhile.
    pub removed: bool,
}

/// Why a conversation stays.
enum Kept {
    InUse,
    Pinned,
    Named,
    Damaged,
}

impl App {
    /// Finds what [`App::prune`] would remove. Changes nothing.
    pub fn prune_plan(&self, request: &PruneRequest) -> Result<PrunePlan, AppError> {
        let mut plan = PrunePlan::default();
        let mut after = None;
        loop {
            let page = self.conversations(Page { after, limit: AT_A_TIME })?;
            for chain in &page.items {
                plan.bytes_before += chain_sessions(chain).map(|info| info.bytes).sum::<u64>();
                match self.kept(chain, request)? {
                    None => plan.conversations.push(self.idle(chain)),
                    Some(Kept::Pinned) => plan.pinned += 1,
                    Some(Kept::Named) => plan.named += 1,
                    Some(Kept::Damaged) => plan.damaged += 1,
                    Some(Kept::InUse) => {}
                }
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        plan.conversations.sort_by(|one, other| {
            (one.last, &one.session.id).cmp(&(other.last, &other.session.id))
        });
        plan.spare(request.bytes_max);
        plan.bytes = plan.conversations.iter().map(|idle| idle.bytes).sum();
        Ok(plan)
    }

    /// Removes one conversation of a plan for good, session by session, unless it was used, pinned or named meanwhile.
    pub fn prune(
        &self,
        idle: &IdleConversation,
        request: &PruneRequest,
    ) -> Result<PrunedConversation, AppError> {
        let kept = |session: &SessionSummary| PrunedConversation {
            session: session.clone(),
            removed: false,
        };
        let Some(info) = self.find_info(&idle.session.id)? else { return Ok(kept(&idle.session)) };
        let Some(chain) = self.conversation_of(&info)? else { return Ok(kept(&idle.session)) };
        let mut sessions = ids_of(&chain);
        let mut planned = idle.sessions.clone();
        sessions.sort();
        planned.sort();
        if sessions != planned || self.kept(&chain, request)?.is_some() {
            return Ok(kept(&idle.session));
        }
        // What continues others goes first: if this ends on its way, nothing lacks its beginning.
        for id in &idle.sessions {
            self.remove(id)?;
        }
        Ok(PrunedConversation { session: idle.session.clone(), removed: true })
    }

    /// Why a conversation stays; `None` if it goes.
    fn kept(&self, chain: &SessionChain, request: &PruneRequest) -> Result<Option<Kept>, AppError> {
        if chain_sessions(chain).any(|info| info.last_ms >= request.idle_since.0) {
            return Ok(Some(Kept::InUse));
        }
        if chain_sessions(chain).any(|info| info.is_damaged) {
            return Ok(Some(Kept::Damaged));
        }
        if chain_sessions(chain).any(is_named) {
            return Ok(Some(Kept::Named));
        }
        for info in chain_sessions(chain) {
            if self.archive.head(info.id)?.is_some_and(|head| !head.pins.is_empty()) {
                return Ok(Some(Kept::Pinned));
            }
        }
        Ok(None)
    }

    fn idle(&self, chain: &SessionChain) -> IdleConversation {
        let main = chain.main();
        IdleConversation {
            session: SessionSummary::of(main),
            task: self.task(chain.sessions.first().unwrap_or(main)),
            sessions: ids_of(chain),
            bytes: chain_sessions(chain).map(|info| info.bytes).sum(),
            last: Timestamp(chain_sessions(chain).map(|info| info.last_ms).max().unwrap_or(0)),
        }
    }
}

impl PrunePlan {
    /// Leaves out the newest conversations that need not go.
    fn spare(&mut self, bytes_max: Option<u64>) {
        let Some(max) = bytes_max else { return };
        let mut left = self.bytes_before;
        let needed = self.conversations.iter().take_while(|idle| {
            let goes = left > max;
            left = left.saturating_sub(idle.bytes);
            goes
        });
        let needed = needed.count();
        self.spared = (self.conversations.len() - needed) as u64;
        self.conversations.truncate(needed);
    }
}

fn chain_sessions(chain: &SessionChain) -> impl Iterator<Item = &SessionInfo> {
    chain.sessions.iter().chain(&chain.aside)
}

/// The sessions of a conversation, in the order in which they can be removed.
fn ids_of(chain: &SessionChain) -> Vec<String> {
    let sessions = chain.aside.iter().chain(chain.sessions.iter().rev());
    sessions.map(|info| info.id.to_string()).collect()
}

/// Whether somebody gave a session its name: otherwise it is a hash, or what its agent calls it.
fn is_named(info: &SessionInfo) -> bool {
    let name = &info.name;
    let is_hash = name.len() == HASH_DIGITS && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    let of_file = AgentFile::of(Agent::Claude, Path::new(&info.origin.file));
    !is_hash && *name != of_file.name() && Some(name) != of_file.id.as_ref()
}
