//! A conversation from a file or a request, made to fit.

use std::sync::Arc;

use longhand_archive::{After, Archive, NewBatch, NewSession, Owner, SessionId};
use longhand_core::session::Chain;
use longhand_core::{
    Batch, Budget, Digest, Link, Message, Meter, Part, Plan, Projection, Seq, Shown, Tokens,
    project,
};
use longhand_dialect::Conversation;

use crate::SessionError;
use crate::driver::Driver;
use crate::entry::{entry_with, opening};
use crate::fit::{Fitting, reasons_json};
use crate::recall;
use crate::redact::hidden_tokens;

/// A conversation whose messages are entries of a ledger, in an archive or in memory.
pub struct Admitted {
    conversation: Conversation,
    /// The original conversation that the window is written from, if the other one is its redacted copy.
    original: Option<Conversation>,
    archived: Option<Archived>,
}

struct Archived {
    driver: Driver,
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
    /// What a receipt says besides the figures of the plan, as JSON fields.
    pub receipt: &'r dyn Fn() -> serde_json::Value,
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
        Self { conversation, original: None, archived: None }
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
        mut conversation: Conversation,
        name: &str,
        now_ms: i64,
    ) -> Result<Self, SessionError> {
        let path = conversation.path();
        let messages = &path.messages[path.lead..];
        let mut chain = Chain::new(owner.root());
        chain.extend(messages);
        let links: Vec<Link> = chain.said().collect();
        let Some(first) = links.first() else { return Ok(Self::alone(conversation)) };
        let found = archive.find_path(owner, &links)?;
        let session = found.map_or_else(
            || SessionId::named(owner, &format!("{:032x}", first.0)),
            |found| found.session,
        );
        if found.is_none() {
            let new = NewSession {
                owner,
                dialect: conversation.dialect.as_str().to_owned(),
                name: name.to_owned(),
                continues: None,
                group: None,
                begun_ms: now_ms,
                opening: opening(messages),
                ..NewSession::default()
            };
            archive.begin(session, &new)?;
        }
        let mut driver = Driver::open(archive, session)?;
        let trail = driver.follow(&mut chain, messages)?;
        let known = trail.seqs.len();
        let new = messages.iter().zip(chain.meanings()).skip(known);
        let new: Vec<_> = new
            .map(|(message, meaning)| entry_with(conversation.dialect, message, *meaning, now_ms))
            .collect();
        let appended = driver.archive().append(session, After::Entry(trail.head()), &new)?;
        let mut seqs = trail.seqs;
        seqs.extend(appended.seqs);
        conversation.number(seqs);
        driver.refresh()?;
        Ok(Self { conversation, original: None, archived: Some(Archived { driver, known }) })
    }

    /// The conversation.
    pub fn conversation(&self) -> &Conversation {
        self.original.as_ref().unwrap_or(&self.conversation)
    }

    /// The session it is in, and how many of its messages were there before.
    pub fn session(&self) -> Option<(SessionId, usize)> {
        self.archived.as_ref().map(|archived| (archived.driver.id(), archived.known))
    }

    /// Makes the window. A new batch is durable before it is returned.
    pub fn window(&mut self, request: &WindowRequest) -> Result<Fitted, SessionError> {
        // Planned by its twin, the window is written from the original, which may be longer.
        let hidden = self.original.as_ref().map_or(Tokens::ZERO, |original| {
            hidden_tokens(original, &self.conversation, request.meter)
        });
        let conversation = &self.conversation;
        let head = conversation.path().seqs.last().copied();
        let plan = |live: &[Batch], pins: &[Seq]| {
            let fixed = request.fixed + hidden;
            let fitting = Fitting::of(conversation, live, pins, fixed, request.meter);
            fitting.plan(&request.budget, &request.settings, request.digest)
        };
        let (mut live, plan) = match &mut self.archived {
            None => (Vec::new(), plan(&[], &[])),
            Some(Archived { driver, .. }) => driver.planned(head, |driver, live, pins| {
                let mut plan = plan(live, pins);
                let fitting = Fitting::of(conversation, live, pins, Tokens::ZERO, request.meter);
                let unsure = fitting.unsure(&plan.batch, |_, _| None);
                let archived = recall::messages_of(driver.archive(), driver.id(), &unsure);
                let archived = archived.unwrap_or_default();
                plan.batch = fitting.with_variants(&plan.batch, &unsure, &archived);
                let batch = (!plan.is_noop()).then(|| new_batch(conversation, &plan, request));
                Ok((batch, plan))
            })?,
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

/// A plan's batch as it is committed.
fn new_batch(conversation: &Conversation, plan: &Plan, request: &WindowRequest) -> NewBatch {
    let mut receipt = (request.receipt)();
    receipt["at"] = crate::time::format(request.now_ms).into();
    receipt["tokens_after"] = plan.tokens().0.into();
    receipt["budget"] = request.budget.limit.0.into();
    receipt["edits"] = reasons_json(&conversation.path(), &plan.batch);
    NewBatch {
        // The driver knows what it builds on.
        after: 0,
        at_ms: request.now_ms,
        batch: plan.batch.clone(),
        receipt: receipt.to_string(),
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
