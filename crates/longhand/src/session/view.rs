//! What can be seen of a session without changing it.

use std::ops::Range;

use longhand_archive::SessionId;
use longhand_core::{Batch, Scale, Tokens, project};

use super::request::SessionRequest;
use super::{PlainRound, Session, SessionError, ShownContent, ShownEntry};
use crate::prompt::Prompt;
use crate::said::Said;

/// So many tokens are counted; what comes after them is estimated.
pub(super) const COUNTED_MAX: Tokens = Tokens(2_000_000);

impl Session {
    /// Its id.
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The most tokens of a window.
    pub fn budget(&self) -> Tokens {
        self.settings.budget
    }

    /// Whether it keeps the newest rounds and one summary of the rest.
    pub fn is_rolling(&self) -> bool {
        self.settings.is_rolling()
    }

    /// The tokens of the window without a new message. After two million, the rest is estimated by its length.
    pub fn tokens(&mut self) -> Result<Tokens, SessionError> {
        self.read_unfolded()?;
        Ok(self.shown_tokens(COUNTED_MAX))
    }

    /// The tokens of the window of what was read. After so many, the rest is estimated by its length, and so is what was
    /// folded ahead.
    pub(super) fn shown_tokens(&self, counted_max: Tokens) -> Tokens {
        let request = SessionRequest::of(self, None, &Prompt::default());
        let window = project(&request.path(), &self.live, request.wire);
        let scale = Scale::new(&*self.settings.meter);
        let messages = request.shown_messages(&window);
        let (mut tokens, mut counted, mut rest) = (Tokens::ZERO, 0, self.ahead_bytes());
        for (_, message) in &messages {
            let bytes = message.raw.raw_len() as u64;
            if tokens < counted_max {
                tokens += scale.message(message, Tokens::MAX);
                counted += bytes;
            } else {
                rest += bytes;
            }
        }
        tokens + Tokens(rest.saturating_mul(tokens.0) / counted.max(1))
    }

    /// The tokens of the fold.
    pub fn summary_tokens(&self) -> Tokens {
        self.summary().map_or(Tokens::ZERO, |text| Scale::new(&*self.settings.meter).text(text))
    }

    /// The block of the fold, if anything is folded.
    pub fn summary(&self) -> Option<&str> {
        let fold = self.live.iter().rev().find_map(Batch::fold);
        fold.map(|fold| fold.text.as_str())
    }

    /// The rounds after the fold, which are shown verbatim except for stubs and clips.
    pub fn verbatim(&self) -> Range<u64> {
        let fold = self.live.iter().rev().find_map(Batch::fold);
        let last = fold.and_then(|fold| fold.spans.last()).map(|span| span.last);
        let after = self.shown.iter().find(|entry| last.is_none_or(|last| entry.seq > last));
        after.map_or(self.rounds, |entry| entry.round)..self.rounds
    }

    /// The verbatim rounds as plain words.
    pub fn plain_rounds(&mut self) -> Result<Vec<PlainRound>, SessionError> {
        self.read_unfolded()?;
        let verbatim = self.verbatim();
        let shown = self.shown.iter().filter(|entry| verbatim.contains(&entry.round));
        let shown: Vec<&ShownEntry> = shown.collect();
        let plain = |entries: &[&ShownEntry]| {
            let (mut messages, mut traces) = (Vec::new(), Vec::new());
            for entry in entries {
                match &entry.content {
                    ShownContent::Message(_, message) => messages.push(message),
                    ShownContent::Trace(name, summary) => {
                        traces.push((name.clone(), summary.clone()));
                    }
                    ShownContent::Aside => {}
                }
            }
            let mut said = Said::of(0, &messages);
            said.tools.splice(..0, traces);
            let Said { user, assistant, tools, .. } = said;
            PlainRound {
                user,
                assistant,
                tools,
                at_ms: entries.last().map_or(0, |entry| entry.at_ms),
            }
        };
        Ok(shown.chunk_by(|one, next| one.round == next.round).map(plain).collect())
    }

    /// Whether a summariser is at work in the background.
    pub fn is_folding(&self) -> bool {
        self.storyteller.is_busy()
    }
}
