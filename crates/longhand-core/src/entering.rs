//! New tool results that are clipped as they enter: no window has shown them yet, so no prefix breaks.

use crate::anchor::telling_line;
use crate::clip::clip_telling;
use crate::edit::{Batch, Edit};
use crate::json_word::json_carrier;
use crate::plan::{History, Plan, PlanSettings, original_text};
use crate::project::project;
use crate::stub::is_ours;
use crate::{Budget, Handle, Message, Part, Role, Scale, Text, Tokens, ToolResult};

/// How much of its share a clipped result keeps, in percent. It is well below 100, so that a result that is a
/// little too large is not clipped for a few tokens.
const KEPT_PERCENT: u64 = 50;

impl PlanSettings {
    /// The most tokens that a new result may take without being clipped; `None` if it may take all.
    pub fn new_result_max(&self, budget: &Budget) -> Option<Tokens> {
        self.clip_new_percent.map(|percent| share(budget.room(), percent))
    }

    /// Whether a new result may be so large that it is clipped, by its bytes alone: no token has less
    /// than one. What this rules out need not be counted.
    pub fn may_clip_new(&self, messages: &[Message], budget: &Budget) -> bool {
        self.new_result_max(budget).is_some_and(|most| {
            new_results(messages).any(|(_, _, result)| {
                result.single_text().is_some_and(|text| text.raw_len() as u64 > most.0)
            })
        })
    }
}

fn share(tokens: Tokens, percent: u64) -> Tokens {
    Tokens((u128::from(tokens.0) * u128::from(percent.min(100)) / 100) as u64)
}

/// A batch that clips the new results that take more than their share of the room; `None` if there are none.
///
/// A result is new as long as no reply of the model follows it.
pub fn clipped_on_entry(
    history: &History,
    budget: &Budget,
    settings: &PlanSettings,
    scale: &Scale,
) -> Option<Batch> {
    let most = settings.new_result_max(budget)?;
    let path = &history.path;
    if !settings.may_clip_new(path.messages, budget) {
        return None;
    }
    let now = project(path, history.live, history.wire);
    let limit = scale.grains(most);
    let mut edits = Vec::new();
    let needs_word = history.wire.needs_json_word;
    let carrier = needs_word.then(|| json_carrier(path, |at| now.is_folded(at))).flatten();
    for (message, part, result) in new_results(path.messages) {
        let Some(at) = path.place(message, part) else { continue };
        let stays = history.pins.contains(&at.entry)
            || carrier == Some(message)
            || now.is_folded(message)
            || now.change(message, part).is_some();
        let Some(text) = result.single_text().filter(|_| !stays) else { continue };
        let content = &path.messages[message].parts[part];
        if scale.part(content, limit) <= limit {
            continue;
        }
        let kept = scale.grains(share(most, KEPT_PERCENT));
        edits.extend(
            clip_of(text, kept.saturating_sub(scale.replaced(content, "")), scale)
                .map(|(handle, text)| Edit::Clip { at, handle, text }),
        );
    }
    let head = path.seqs.last().copied()?;
    (!edits.is_empty()).then(|| Batch { head, edits, ..Batch::default() })
}

fn clip_of(text: &Text, limit: u64, scale: &Scale) -> Option<(Handle, String)> {
    let body = original_text(text);
    let handle = Handle::of([body.as_ref()]);
    let clip = clip_telling(handle, &body, telling_line(&body), scale, limit);
    clip.filter(|_| !is_ours(&body)).map(|clip| (handle, clip))
}

/// The results that no reply of the model follows, with their message and part.
fn new_results(messages: &[Message]) -> impl Iterator<Item = (usize, usize, &ToolResult)> {
    let reply = messages.iter().rposition(|message| message.role == Role::Assistant);
    let first = reply.map_or(messages.len(), |reply| reply + 1);
    messages.iter().enumerate().skip(first).flat_map(|(at, message)| {
        message.parts.iter().enumerate().filter_map(move |(part, content)| match content {
            Part::Result(result) if !result.fixed => Some((at, part, result)),
            _ => None,
        })
    })
}

/// A plan on top of clips: one batch that has the edits of both.
pub(crate) fn planned_on(
    clips: Batch,
    history: &History,
    planned: impl FnOnce(&History) -> Plan,
) -> Plan {
    let mut live = history.live.to_vec();
    live.push(clips.clone());
    let mut plan = planned(&History { live: &live, ..*history });
    let Batch { head, edits, .. } = clips;
    let is_edited_again = |clip: &Edit| {
        plan.batch.edits.iter().any(|edit| match edit {
            Edit::Fold(fold) => fold.contains(clip.first()),
            edit => edit.kind().place().is_some() && edit.kind().place() == clip.kind().place(),
        })
    };
    let kept: Vec<Edit> = edits.into_iter().filter(|clip| !is_edited_again(clip)).collect();
    plan.batch.head = head;
    plan.batch.edits.extend(kept);
    plan.batch.edits.sort_by_key(|edit| (edit.first(), matches!(edit, Edit::Fold(_))));
    plan
}
