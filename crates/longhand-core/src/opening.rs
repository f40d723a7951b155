//! Where every plan begins: what is shown now, and whether it fits as it is.

use crate::draft::{Draft, Stage, WRAP_BYTES};
use crate::fold::{Frame, live_block};
use crate::plan::History;
use crate::project::project;
use crate::protect::{Protection, Users};
use crate::{Scale, Size};

/// A draft in which nothing is changed yet, with what its window has beside the messages.
pub(crate) struct Opening<'h> {
    pub(crate) draft: Draft<'h>,
    /// Tools, the priming of the reply, inserts.
    pub(crate) base: Size,
    /// The block that stands now.
    block: Option<(Frame, Size)>,
}

impl<'h> Opening<'h> {
    /// Opens a draft; `arguments` says whether the arguments of calls may be replaced.
    pub(crate) fn of(
        history: &'h History<'h>,
        scale: Scale<'h>,
        chars_min: usize,
        arguments: bool,
    ) -> Self {
        let now = project(&history.path, history.live, history.wire);
        let draft = Draft::new(history, now, scale, chars_min, arguments);
        let base = base(&draft);
        let block = live_block(&draft);
        Self { draft, base, block }
    }

    /// Whether a block stands now.
    pub(crate) fn has_block(&self) -> bool {
        self.block.is_some()
    }

    /// What the block takes that stands now.
    pub(crate) fn standing(&self) -> Size {
        self.block.as_ref().map_or(Size::ZERO, |(_, size)| *size)
    }

    /// The size of a window with this block and messages that take so much.
    pub(crate) fn whole(&self, messages: Size) -> Size {
        let size = self.base + self.standing() + messages;
        self.block.as_ref().map_or(size, |(frame, _)| frame.joined(size))
    }

    /// The size of the window as it is shown now; `None` if it is over the limits.
    pub(crate) fn now_within(&mut self, limits: &Size) -> Option<Size> {
        let around = self.base + self.standing();
        let newest_first = (0..self.draft.history.path.messages.len()).rev();
        let left = limits.saturating_sub(around);
        let messages = self.draft.total(newest_first, Stage::Now, left)?;
        around.is_within(limits).then(|| self.whole(messages))
    }

    /// The protection of what is not folded yet.
    pub(crate) fn protection(&self, keep_tail: usize, users: Users) -> Protection {
        let is_folded = |at: usize| self.draft.now.is_folded(at);
        Protection::of(self.draft.history, is_folded, keep_tail, users)
    }
}

/// What a request takes beside its messages and the block.
fn base(draft: &Draft) -> Size {
    let framing = draft.scale.framing();
    let inserts = draft.now.inserts.iter();
    let inserts = inserts.map(|(_, text)| Size {
        tokens: draft.scale.text(text) + framing.message,
        bytes: text.len() as u64 * 2 + WRAP_BYTES,
        images: 0,
    });
    draft.history.fixed + Size::of(framing.reply) + inserts.sum()
}
