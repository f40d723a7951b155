//! What is known of a session without asking the archive.

use std::sync::Arc;

use longhand_archive::{NewBatch, Opened, Owner, PreambleId};
use longhand_core::session::{Chain, CommitError, Node, SessionState, Trail, Version};
use longhand_core::{Link, Message, Seq};
use longhand_dialect::Conversation;
use rustc_hash::{FxHashMap, FxHashSet};

use super::live_batch::LiveBatch;
use super::live_session::LiveSession;
use super::placed::{PlacedRequest, UnplacedRequest};
use super::regret::RegretKey;
use super::twin::Twin;
use crate::known_calls::{KnownCalls, Unread};
use crate::story::Storyteller;

/// The state of a session, and what was read of its entries and batches.
pub struct SessionMemory {
    /// Its state.
    pub state: SessionState,
    /// Counts how often the state was put back to what the archive has: numbers of an earlier edition are invalid.
    pub(super) edition: u64,
    pub(super) calls: KnownCalls,
    /// The batches that were made here or read, by number.
    pub(super) batches: FxHashMap<u64, Arc<LiveBatch>>,
    /// Batches that were made here and lost their numbers before they were written.
    orphans: Vec<Arc<LiveBatch>>,
    /// The version that the archive has once the write that is under way is made.
    pub(super) under_way: Option<Version>,
    /// The system prompt of the first request that said something new.
    system: Option<Link>,
    /// What the newest request had besides messages.
    pub(super) preamble: Option<PreambleId>,
    pub(super) teller: Option<Storyteller>,
    /// When something of it was sent or said last, in milliseconds since 1970.
    used_ms: Option<i64>,
    /// The regrets that were noted in this edition.
    pub(super) regrets: FxHashSet<RegretKey>,
}

/// What to do about what is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// It is asked for.
    Ask,
    /// It cannot be read: what is known counts.
    Guess,
}

/// A request that was just given its place.
pub(super) struct FreshPlace {
    pub(super) placed: Arc<PlacedRequest>,
    pub(super) twin: Twin<Arc<Conversation>>,
    /// How many of its messages were known.
    pub(super) known: usize,
    /// The entries of the others, if they are to be written.
    pub(super) nodes: Vec<Node>,
    pub(super) is_first: bool,
    pub(super) is_aside: bool,
}

impl SessionMemory {
    pub(crate) fn new(owner: Owner) -> Self {
        Self {
            state: SessionState::new(owner.root()),
            edition: 0,
            calls: KnownCalls::default(),
            batches: FxHashMap::default(),
            orphans: Vec::new(),
            under_way: None,
            system: None,
            preamble: None,
            teller: None,
            used_ms: None,
            regrets: FxHashSet::default(),
        }
    }

    /// Takes note that something of the session was sent or said.
    pub(super) fn used(&mut self, at_ms: i64) {
        self.used_ms = self.used_ms.max(Some(at_ms));
    }

    /// How long nothing of the session was sent or said, in milliseconds.
    pub(crate) fn idle_ms(&self, now_ms: i64) -> Option<u64> {
        self.used_ms.map(|used_ms| u64::try_from(now_ms.saturating_sub(used_ms)).unwrap_or(0))
    }

    /// Puts the state to what the archive has; `None` if it does not have the session. Says whether that was sound.
    pub(super) fn begin_edition(&mut self, opened: Option<Opened>) -> bool {
        self.edition += 1;
        let written = self.state.written();
        let unwritten = (written.batches + 1..=self.state.log().len())
            .filter(|number| self.state.log().is_live(*number));
        let orphans: Vec<Arc<LiveBatch>> =
            unwritten.filter_map(|number| self.batches.get(&number).cloned()).collect();
        self.orphans.extend(orphans);
        self.preamble = None;
        self.under_way = None;
        self.regrets.clear();
        self.state.rewind();
        let has_entries = opened.as_ref().filter(|opened| opened.session.entries > 0);
        if let Some(opened) = has_entries {
            self.used(opened.session.last_ms);
        }
        let birth = opened.as_ref().map_or(0, |opened| opened.news.version.birth);
        if birth != written.birth {
            // Another session of that id, or none.
            self.state = SessionState::new(self.state.root());
        }
        let entries = self.state.tree().len();
        self.calls.forget_from(Seq(entries));
        let batches = self.state.log().len();
        self.batches.retain(|number, _| *number <= batches);
        let is_sound = opened.is_none_or(|opened| self.state.apply(opened.news).is_ok());
        // One whose number is taken was written after all, or another batch was.
        let batches = self.state.log().len();
        self.orphans.retain(|orphan| orphan.number > batches);
        is_sound
    }

    /// Whether nothing was written by others since a request got its place.
    pub(crate) fn is_current(&self, placed: &PlacedRequest) -> bool {
        self.edition == placed.edition
    }

    /// Whether the messages of a request still have the numbers with which it was admitted.
    pub(super) fn has_in_place(&self, placed: &PlacedRequest) -> bool {
        let mut entries = placed.trail.seqs.iter().zip(placed.chain.links());
        self.edition == placed.edition
            || entries.all(|(seq, link)| self.state.link(*seq) == Some(*link))
    }

    /// Gives a request its place. Nothing has changed if something must be read first.
    ///
    /// The new messages of a request that is not recorded get numbers that only this request uses.
    pub(super) fn place(
        &mut self,
        session: &Arc<LiveSession>,
        request: &mut Option<UnplacedRequest>,
        is_recorded: bool,
        patience: Patience,
    ) -> Result<FreshPlace, Unread> {
        let Some(mut unplaced) = request.take() else { return Err(Unread::Calls(Vec::new())) };
        let is_first = self.state.written() == Version::default();
        let (trail, nodes, known) = match self.found(&mut unplaced, is_recorded, patience) {
            Ok(found) => found,
            Err(unread) => {
                *request = Some(unplaced);
                return Err(unread);
            }
        };
        let is_known = known == unplaced.chained.chain.links().len();
        let is_aside = self.is_aside(is_known, unplaced.chained.system);
        unplaced.twin.change(|conversation| conversation.number(trail.seqs.clone()));
        let (placed, twin) = PlacedRequest::new(unplaced, session, trail, self.edition);
        Ok(FreshPlace { placed, twin, known, nodes, is_first, is_aside })
    }

    /// Where the messages of a request are, the entries of those that are new, and how many are not.
    fn found(
        &mut self,
        unplaced: &mut UnplacedRequest,
        is_recorded: bool,
        patience: Patience,
    ) -> Result<(Trail, Vec<Node>, usize), Unread> {
        let path = unplaced.twin.stored().path();
        let messages = &path.messages[path.lead..];
        let chain = &mut unplaced.chained.chain;
        let mut trail = self.follow(messages, chain, unplaced.compared, patience)?;
        let (known, links) = (trail.seqs.len(), chain.links());
        if is_recorded {
            let nodes = self.extend(&mut trail, messages[known..].iter(), &links[known..])?;
            return Ok((trail, nodes, known));
        }
        let next = self.state.tree().len();
        trail.seqs.extend((next..).take(links.len() - known).map(Seq));
        Ok((trail, Vec::new(), known))
    }

    /// Finds the messages of a request; those whose calls were changed are new.
    fn follow(
        &mut self,
        messages: &[Message],
        chain: &mut Chain,
        compared: usize,
        patience: Patience,
    ) -> Result<Trail, Unread> {
        match self.calls.follow(&self.state, chain, messages, compared) {
            Err(_) if patience == Patience::Guess => Ok(Trail::default()),
            followed => followed,
        }
    }

    /// Appends messages with their links. Returns the new entries.
    pub(crate) fn extend<'m>(
        &mut self,
        trail: &mut Trail,
        messages: impl Iterator<Item = &'m Message>,
        links: &[Link],
    ) -> Result<Vec<Node>, Unread> {
        let messages: Vec<&Message> = messages.take(links.len()).collect();
        let new = links.iter().zip(&messages);
        let new = new.map(|(link, message)| (*link, message.is_user_turn()));
        let nodes = self.state.extend(trail, new).map_err(Unread::Nodes)?;
        for (node, message) in nodes.iter().zip(messages) {
            self.calls.remember(node.seq, message);
        }
        Ok(nodes)
    }

    /// Commits a batch. One that is `aside` is undone at once: it is there so that its handles open.
    pub(crate) fn commit(
        &mut self,
        new: NewBatch,
        aside: bool,
    ) -> Result<Arc<LiveBatch>, CommitError> {
        let checked = self.state.check_commit(&new.batch, new.after)?;
        let number = self.state.commit(checked);
        if aside {
            self.state.undo(number);
        }
        let committed = Arc::new(LiveBatch::new(number, new, &self.state));
        self.batches.insert(number, Arc::clone(&committed));
        Ok(committed)
    }

    /// The live batches of the path to a head, oldest first, of a session that was read from nowhere.
    pub(crate) fn live(&self, head: Option<Seq>) -> Vec<Arc<LiveBatch>> {
        let live = self.state.live(head);
        live.iter().filter_map(|number| self.batches.get(number).cloned()).collect()
    }

    /// A batch that the log does not have.
    pub(super) fn uncommitted(&self, new: NewBatch) -> Arc<LiveBatch> {
        Arc::new(LiveBatch::new(self.state.log().len() + 1, new, &self.state))
    }

    /// Commits the batches again that lost their numbers, now that there are entries again. Those whose entries have
    /// other numbers are given up.
    pub(super) fn adopted(&mut self) -> Vec<Arc<LiveBatch>> {
        let mut adopted = Vec::new();
        for orphan in std::mem::take(&mut self.orphans) {
            let stays = |(seq, link): &(Seq, Option<Link>)| self.state.link(*seq) == *link;
            let head = orphan.new.batch.head;
            if !orphan.edited.iter().all(stays) || !self.state.tree().contains(head) {
                continue;
            }
            let after = self.state.live(Some(head)).last().copied().unwrap_or(0);
            let new = NewBatch { after, ..orphan.new.clone() };
            adopted.extend(self.commit(new, false));
        }
        adopted
    }

    /// Whether a request is a side call: nothing of it is new, and its system prompt is another one.
    fn is_aside(&mut self, is_known: bool, system: Link) -> bool {
        let first = *self.system.get_or_insert(system);
        is_known && first != system
    }
}
