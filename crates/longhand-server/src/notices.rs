//! What the user of a session is told in the header of an answer.

use std::collections::HashSet;
use std::sync::Mutex;

use longhand::unread::{UnreadAnswer, UnreadContent};
use longhand::{SessionId, Tokens};
use longhand_dialect::Unread;
use rustc_hash::FxHashMap;

use crate::lock::lock;
use crate::request::source::RequestSource;
use crate::request::window::RequestWindow;

/// How many sessions are remembered.
const SESSIONS_MAX: usize = 10_000;

/// Notices to users.
#[derive(Default)]
pub(crate) struct Notices {
    /// The sessions whose users were told that their budget is too small.
    short_budgets: Mutex<HashSet<SessionId>>,
    /// What the users of sessions are still to be told of an answer that could not be read.
    unread: Mutex<FxHashMap<SessionId, String>>,
}

impl Notices {
    /// What to tell a user with an answer: that the one before could not be read, or that no window fits.
    pub(crate) fn next(
        &self,
        source: &RequestSource,
        window: &RequestWindow,
        limit: impl FnOnce() -> Option<Tokens>,
    ) -> Option<String> {
        let unread = lock(&self.unread).remove(&source.admitted.session().id);
        unread.or_else(|| self.short_budget(source, window, limit))
    }

    /// Says once a session that system prompt and tools alone are over the budget.
    fn short_budget(
        &self,
        source: &RequestSource,
        window: &RequestWindow,
        limit: impl FnOnce() -> Option<Tokens>,
    ) -> Option<String> {
        let after = window.after.filter(|_| window.shortfall > Tokens::ZERO)?;
        let (limit, overhead) = (limit()?, source.window.overhead());
        if overhead <= limit || !source.is_recorded() {
            return None;
        }
        let mut noticed = lock(&self.short_budgets);
        if noticed.len() >= SESSIONS_MAX {
            noticed.clear();
        }
        noticed.insert(source.admitted.session().id).then(|| {
            format!(
                "system prompt and tools take {overhead} tokens of {limit}; a budget of {after} would do"
            )
        })
    }

    /// Keeps what to tell a user with the next answer: this one could not be read. Returns the notice for the log.
    pub(crate) fn unread(
        &self,
        source: &RequestSource,
        why: Unread,
        kept: &UnreadAnswer,
    ) -> Option<String> {
        let notice = unread_notice(why, kept, source.admitted.store.forgets)?;
        let mut notices = lock(&self.unread);
        if notices.len() >= SESSIONS_MAX {
            notices.clear();
        }
        notices.insert(source.admitted.session().id, notice.clone());
        Some(notice)
    }
}

fn unread_notice(why: Unread, kept: &UnreadAnswer, forgets: bool) -> Option<String> {
    let notice = |what: &str| format!("an answer could not be read, {what}: {why}");
    Some(match (why, &kept.content) {
        (_, UnreadContent::Withheld) => notice(
            "and is not kept either, since secrets are to be taken out and cannot be found in it",
        ),
        // The client saw it break off, and the request log has it.
        (Unread::Cut, _) => return None,
        (Unread::Encoding, _) => {
            format!("an answer was read with signs in the place of what is no text: {why}")
        }
        _ if forgets => notice("and is not archived"),
        _ => notice(&format!(
            "all of it, and is kept as it came (`longhand expand {}`)",
            kept.handle()
        )),
    })
}
