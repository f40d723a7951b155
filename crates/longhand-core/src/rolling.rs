//! The policy that keeps the newest rounds and one summary of the rest.

use crate::auto::auto;
use crate::plan::{History, Plan, PlanSettings, Rolling};
use crate::trim::{Keep, keep_newest};
use crate::{Budget, Digest, Scale};

/// Keeps the newest rounds and a summary. If not even the newest round fits, it is shortened by stubs and clips.
pub(crate) fn rolling(
    history: &History,
    budget: &Budget,
    settings: &PlanSettings,
    rolling: Rolling,
    scale: Scale,
    digest: &dyn Digest,
) -> Plan {
    // The summary leaves most of the room to the rounds.
    let keep = Keep {
        note_max: rolling.summary_max.min(crate::Tokens(budget.room().0 / 4)),
        count_max: rolling.rounds_max,
        by_round: true,
        newest_user: true,
        note_for_few_tokens: false,
    };
    let plan = keep_newest(history, budget, settings, scale, digest, keep);
    if plan.fits() {
        return plan;
    }
    let fitting = auto(history, budget, settings, scale, digest);
    if fitting.fits() || fitting.tokens() < plan.tokens() { fitting } else { plan }
}
