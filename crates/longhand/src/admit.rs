//! A conversation from a file or a request, made to fit.

use std::sync::Arc;

use longhand_archive::{Archive, Owner, SessionId, attempts, outrun, wait};
use longhand_core::{
    Batch, Budget, Digest, Link, Message, Meter, Part, Plan, Projection, Scale, Seq, Shown, Tokens,
    project,
};
use longhand_dialect::Conversation;

use crate::SessionError;
use crate::driver::{
    BatchCommit, ChainedRequest, Direct, LiveSession, PlacedRequest, RequestPlace, Twin,
    UnplacedRequest, first_new, regret_notes,
};
use crate::fit::Fitting;
use crate::recall;
use crate::receipt::{FoldReceipt, Receipt};
use crate::redact::hidden_tokens;

/// A conversation whose messages are entries of a ledger, in an archive or in memory.
pub struct Admitted {
    conversation: Arc<Conversation>,
    /// The original conversation that the window is written from, if the other one is its redacted copy.
    original: Option<Conversation>,
    archived: Option<Archived>,
}

struct Archived {
    placed: Arc<PlacedRequest>,
    sink: Direct,
    /// How many of the messages the archive had before.
    known: usize,
}

/// What a window is made with.
pub struct WindowRequest<'r> {
    /// The budget.
    pub budget: Budget,
    /// The policy, and what it leaves alone.
    pub settings: longhand_core::PlanSettings,
    /// Counts tokens.
    pub meter: &'r dyn Meter,
    /// Makes the text of folds.
    pub digest: &'r dyn Digest,
    /// The tokens of the request outside its messages.
    pub fixed: Tokens,
    /// How the text of a new fold was made, and why summaries were refused; the rest of a receipt is the plan's.
    pub summary: &'r dyn Fn() -> (Option<FoldReceipt>, Vec<String>),
    /// The time, in milliseconds since 1970.
    pub now_ms: i64,
}

/// A window, with the plan that led to it.
pub struct Fitted {
    /// The window in the format of the conversation.
    pub text: String,
    /// What was planned; its batch is the newest of [`Fitted::live`] unless it has no edits.
    pub plan: Plan,
    /// All batches that the window shows.
    pub live: Vec<Batch>,
    /// How many thinking blocks are taken out of messages that are shown.
    pub thinking_removed: usize,
}

impl Admitted {
    /// Admits a conversation that no archive keeps.
    pub fn alone(conversation: Conversation) -> Self {
        Self { conversation: Arc::new(conversation), original: None, archived: None }
    }

    /// Writes the window from `original`, of which this conversation is the redacted copy.
    #[must_use]
    pub fn with_original(mut self, mut original: Conversation) -> Self {
        original.number(self.conversation.path().seqs.to_vec());
        self.original = Some(original);
        self
    }

    /// Admits a conversation to an archive, where it continues the session with which it shares the longest beginning.
    ///
    /// All its messages are durable when this returns. `name` is what people call a session that is new.
    pub fn archived(
        archive: Arc<dyn Archive>,
        owner: Owner,
        conversation: Conversation,
        name: &str,
        now_ms: i64,
    ) -> Result<Self, SessionError> {
        let chained = ChainedRequest::new(&conversation, owner, None);
        let links: Vec<Link> = chained.chain.said().collect();
        let Some(first) = links.first() else { return Ok(Self::alone(conversation)) };
        let found = archive.find_path(owner, &links)?;
        let session = found.map_or_else(
            || SessionId::named(owner, &format!("{:032x}", first.0)),
            |found| found.session,
        );
        let session = Arc::new(LiveSession::new(session, owner, name.to_owned(), None, None));
        let sink = Direct::new(archive);
        sink.set_time(now_ms);
        let (mut conversation, mut first_known) = (conversation, None);
        for () in attempts() {
            let chained = ChainedRequest::new(&conversation, owner, None);
            let twin = Twin::same(conversation);
            let unplaced = UnplacedRequest { twin, chained, compared: 0, keeper: None };
            let place = wait(session.admit(&sink, unplaced, true))?;
            let place = place.ok_or_else(|| outrun(session.id))?;
            wait(sink.flush(&session))?;
            let known = *first_known.get_or_insert(place.known);
            if session.lock().is_current(&place.placed) {
                let conversation = Arc::clone(place.twin.stored());
                let archived = Archived { placed: place.placed, sink, known };
                return Ok(Self { conversation, original: None, archived: Some(archived) });
            }
            // Another process was first, and its messages have other numbers now.
            let RequestPlace { placed, twin, .. } = place;
            drop(placed);
            let stored = Arc::into_inner(twin.into_stored());
            conversation = stored.ok_or_else(|| outrun(session.id))?;
        }
        Err(outrun(session.id).into())
    }

    /// The conversation.
    pub fn conversation(&self) -> &Conversation {
        self.original.as_ref().unwrap_or(&self.conversation)
    }

    /// The session it is in, and how many of its messages were there before.
    pub fn session(&self) -> Option<(SessionId, usize)> {
        self.archived.as_ref().map(|archived| (archived.placed.session.id, archived.known))
    }

    /// Makes the window. A new batch is durable before it is returned.
    pub fn window(&mut self, request: &WindowRequest) -> Result<Fitted, SessionError> {
        // Planned by its twin, the window is written from the original, which may be longer.
        let hidden = self.original.as_ref().map_or(Tokens::ZERO, |original| {
            hidden_tokens(original, &self.conversation, request.meter)
        });
        let conversation = &self.conversation;
        let plan = |live: &[Batch], pins: &[Seq]| {
            let fixed = request.fixed + hidden;
            let fitting = Fitting::of(conversation, live, pins, fixed, request.meter);
            fitting.plan(&request.budget, &request.settings, request.digest)
        };
        let (mut live, plan) = match &self.archived {
            None => (Vec::new(), plan(&[], &[])),
            Some(archived) => archived.planned(conversation, request, plan)?,
        };
        if !plan.is_noop() {
            live.push(plan.batch.clone());
        }
        let conversation = self.conversation();
        let window = project(&conversation.path(), &live, conversation.wire());
        let text = conversation.render(&window);
        let thinking_removed = thinking_removed(conversation, &window);
        Ok(Fitted { text, plan, live, thinking_removed })
    }
}

impl Archived {
    /// Plans with the batches that hold, and commits the batch of the plan if there is one. If another writer is first,
    /// it plans anew from what that one did. Returns the batches that the plan was made with, too.
    fn planned(
        &self,
        conversation: &Conversation,
        request: &WindowRequest,
        plan: impl Fn(&[Batch], &[Seq]) -> Plan,
    ) -> Result<(Vec<Batch>, Plan), SessionError> {
        let Self { placed, sink, .. } = self;
        let (session, archive) = (&placed.session, &**sink.shared_archive());
        sink.set_time(request.now_ms);
        for () in attempts() {
            wait(session.refresh(archive))?;
            // What it takes to see that its messages have the numbers that they were archived with.
            wait(session.ready_for(archive, placed.chain.links()));
            let live = wait(session.live(archive, placed.trail.head()))?;
            let after = live.last().map_or(0, |live| live.number);
            let numbers: Vec<u64> = live.iter().map(|live| live.number).collect();
            let live: Vec<Batch> = live.iter().map(|live| live.batch().clone()).collect();
            let (path, scale) = (conversation.path(), Scale::new(request.meter));
            let (first, number) = (first_new(&path, self.known), |batch: usize| numbers[batch]);
            let regrets = regret_notes(&path, &live, number, first, &scale, request.now_ms);
            session.note(sink, placed, regrets);
            let pins = session.pins();
            let mut plan = plan(&live, &pins);
            let fitting = Fitting::of(conversation, &live, &pins, Tokens::ZERO, request.meter);
            let unsure = fitting.unsure(&plan.batch, |_, _| None);
            let known = recall::messages_of(archive, session.id, &unsure).unwrap_or_default();
            plan.batch = fitting.with_variants(&plan.batch, &unsure, &known);
            if plan.is_noop() {
                wait(sink.flush(session))?;
                return Ok((live, plan));
            }
            let receipt = receipt(conversation, &plan, request);
            let commit = BatchCommit { after, batch: plan.batch.clone(), receipt, aside: false };
            let (_, ticket) = session.commit(sink, Some(placed), commit);
            wait(sink.flush(session))?;
            if ticket.is_some_and(|mut ticket| ticket.try_recv() == Ok(true)) {
                return Ok((live, plan));
            }
        }
        Err(outrun(session.id).into())
    }
}

fn receipt(conversation: &Conversation, plan: &Plan, request: &WindowRequest) -> Receipt {
    let (fold, refused) = (request.summary)();
    Receipt {
        policy: Some(request.settings.policy.name().to_owned()),
        fold: fold.filter(|_| plan.batch.fold().is_some()),
        refused,
        ..Receipt::of_plan(&conversation.path(), plan, request.budget.limit)
    }
}

fn thinking_removed(conversation: &Conversation, window: &Projection) -> usize {
    let messages = conversation.messages.iter().zip(&window.messages);
    let removed = |(message, shown): (&Message, &Shown)| match shown {
        Shown::Changed(changes) => changes
            .iter()
            .filter(|(part, _)| matches!(message.parts[*part], Part::Thinking(_)))
            .count(),
        Shown::Unchanged | Shown::Folded => 0,
    };
    messages.map(removed).sum()
}
