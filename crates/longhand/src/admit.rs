//! A conversation from a file or a request, made to fit.

use std::sync::Arc;

use longhand_archive::{After, Archive, LoggedBatch, NewBatch, NewSession, Owner, SessionId};
use longhand_core::{
    Arguments, Batch, Budget, Digest, Link, Message, Meter, Part, Plan, Projection, Seq, Shown,
    Tokens, project,
};
use longhand_dialect::Conversation;

use crate::SessionError;
use crate::entry::entry_with;
use crate::fit::{Fitting, reasons_json};
use crate::ledger::{Chain, Ledger, Trail};
use crate::recall;
use crate::redact::hidden_tokens;

/// A conversation whose messages are entries of a ledger, in an archive or in memory.
pub struct Admitted {
    conversation: Conversation,
    /// The original conversation that the window is written from, if the other one is its redacted copy.
    original: Option<Conversation>,
    archived: Option<Archived>,
    live: Vec<LoggedBatch>,
    pins: Vec<Seq>,
}

struct Archived {
    archive: Arc<dyn Archive>,
    session: SessionId,
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
        Self { conversation, original: None, archived: None, live: Vec::new(), pins: Vec::new() }
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
        let mut trail = Trail::default();
        if found.is_some() {
            let ledger = Ledger::of(archive.tree(session)?);
            let has_same_calls = |seq, message: &Message| {
                let archived = recall::arguments(&*archive, session, seq);
                archived.is_none_or(|archived| archived.agree(&Arguments::of(message)))
            };
            trail = ledger.follow_told(&mut chain, messages, 0, has_same_calls);
        } else {
            let new = NewSession {
                owner,
                dialect: conversation.dialect.as_str().to_owned(),
                name: name.to_owned(),
                continues: None,
                group: None,
                begun_ms: now_ms,
            };
            archive.begin(session, &new)?;
        }
        let known = trail.seqs.len();
        let new = messages.iter().zip(chain.meanings()).skip(known);
        let new: Vec<_> = new
            .map(|(message, meaning)| entry_with(conversation.dialect, message, *meaning, now_ms))
            .collect();
        let last = trail.path.last().copied();
        let appended = archive.append(session, After::Entry(last), &new)?;
        let mut seqs = trail.seqs;
        seqs.extend(appended.seqs);
        let head = seqs.last().copied();
        conversation.number(seqs);
        let live = archive.live(session, head)?;
        let pins = archive.head(session)?.map(|head| head.pins).unwrap_or_default();
        let archived = Some(Archived { archive, session, known });
        Ok(Self { conversation, original: None, archived, live, pins })
    }

    /// The conversation.
    pub fn conversation(&self) -> &Conversation {
        self.original.as_ref().unwrap_or(&self.conversation)
    }

    /// The session it is in, and how many of its messages were there before.
    pub fn session(&self) -> Option<(SessionId, usize)> {
        self.archived.as_ref().map(|archived| (archived.session, archived.known))
    }

    /// Makes the window. A new batch is durable before it is returned.
    pub fn window(&mut self, request: &WindowRequest) -> Result<Fitted, SessionError> {
        // The plan is made from the redacted copy; the window is written from the original, which may be longer.
        let hidden = self.original.as_ref().map_or(Tokens::ZERO, |original| {
            hidden_tokens(original, &self.conversation, request.meter)
        });
        loop {
            let mut live: Vec<Batch> =
                self.live.iter().map(|logged| logged.batch.clone()).collect();
            let fitting = Fitting {
                conversation: &self.conversation,
                live: &live,
                pins: &self.pins,
                fixed: request.fixed + hidden,
                meter: request.meter,
            };
            let mut plan = fitting.plan(&request.budget, &request.settings, request.digest);
            if let Some(Archived { archive, session, .. }) = &self.archived {
                plan.batch = fitting.with_variants(&plan.batch, &**archive, *session, |_, _| None);
            }
            if !plan.is_noop() {
                if !self.commit(&plan, request)? {
                    continue;
                }
                live.push(plan.batch.clone());
            }
            let conversation = self.conversation();
            let window = project(&conversation.path(), &live, conversation.wire());
            let text = conversation.render(&window);
            let thinking_removed = thinking_removed(conversation, &window);
            return Ok(Fitted { text, plan, live, thinking_removed });
        }
    }

    /// Stores a batch. Returns false if another process stored one first.
    fn commit(&mut self, plan: &Plan, request: &WindowRequest) -> Result<bool, SessionError> {
        let Some(Archived { archive, session, .. }) = &self.archived else { return Ok(true) };
        let mut receipt = (request.receipt)();
        receipt["at"] = crate::time::format(request.now_ms).into();
        receipt["tokens_after"] = plan.tokens().0.into();
        receipt["budget"] = request.budget.limit.0.into();
        receipt["edits"] = reasons_json(&self.conversation.path(), &plan.batch);
        let batch = NewBatch {
            after: self.live.last().map_or(0, |batch| batch.number),
            at_ms: request.now_ms,
            batch: plan.batch.clone(),
            receipt: receipt.to_string(),
        };
        match archive.commit(*session, &batch) {
            Ok(_) => Ok(true),
            Err(longhand_archive::ArchiveError::Conflict { .. }) => {
                let head = self.conversation.path().seqs.last().copied();
                self.live = archive.live(*session, head)?;
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
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
