//! One fold of a whole conversation, for whoever goes on without its messages.

use crate::draft::Draft;
use crate::edit::{Batch, Edit};
use crate::fold::NewFold;
use crate::plan::{History, PlanSettings};
use crate::project::project;
use crate::{Digest, Meter, Scale, Tokens};

/// Folds all messages after the system messages into one block of at most `limit` tokens; `None` if there are none.
///
/// Nothing is protected, since nothing stays in sight.
pub fn handed_over(
    history: &History,
    limit: Tokens,
    meter: &dyn Meter,
    digest: &dyn Digest,
) -> Option<Batch> {
    let path = history.path;
    let all = path.lead..path.messages.len();
    let head = *path.seqs.last()?;
    let scale = Scale::new(meter);
    let now = project(&path, history.live, history.wire);
    let chars_min = PlanSettings::default().chars_min;
    let draft = Draft::new(history, now, scale, chars_min, true);
    let mut fold = NewFold::of(&draft, std::slice::from_ref(&all), &[]);
    fold.hands_over = true;
    let (fold, written) = fold.write(limit, &[], &scale, digest);
    let (edits, state) = (vec![Edit::Fold(fold)], written.state);
    Some(Batch { head, edits, state, variants: Vec::new() })
}
