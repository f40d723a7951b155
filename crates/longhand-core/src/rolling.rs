//! The policy that keeps the newest rounds and one summary of the rest.

use std::ops::Range;

use crate::auto::auto;
use crate::fold::is_fold;
use crate::plan::{Edit, History, Plan, Settings};
use crate::step::steps;
use crate::stub::is_ours;
use crate::trim::keep_newest;
use crate::{Budget, Digest, Message, Part, Role, Rolling, Scale, Tokens};

/// Keeps at most `rounds_max` rounds; where not even the newest fits whole, stubs do what folds cannot.
pub(crate) fn rolling(
    history: &History,
    budget: &Budget,
    rounds_max: usize,
    scale: Scale,
    digest: &dyn Digest,
) -> Plan {
    // The first user message may stand alone before what is left of the newest round.
    let rounds_max = rounds_max.max(2);
    let units = rounds(history.messages);
    let count = units.iter().filter(|round| is_round(&history.messages[round.start])).count();
    // What stubs once did for a round that no fold could help is not undone for the sake of a number.
    if count <= rounds_max || history.messages.iter().any(has_stub) {
        let plan = auto(history, budget, &Settings::default(), scale, digest);
        if plan.is_noop() {
            return plan;
        }
    }
    let room = budget.room();
    let summary_max = Rolling::default().summary_max.min(Tokens(room.0 / 6));
    let own = Budget { limit: room, reserve: summary_max, target: budget.target };
    let plan = keep_newest(history, &own, scale, digest, &units, rounds_max);
    let newest = units.last().map_or(0, |round| round.start);
    let takes_newest = plan.edits.iter().any(|edit| {
        matches!(edit, Edit::Fold { messages, .. } if messages.iter().any(|range| range.end > newest))
    });
    if plan.fits() && !takes_newest {
        return plan;
    }
    auto(history, budget, &Settings::default(), scale, digest)
}

/// Groups messages into rounds; the block of an earlier fold stands by itself.
fn rounds(messages: &[Message]) -> Vec<Range<usize>> {
    let mut rounds: Vec<Range<usize>> = Vec::new();
    for step in steps(messages) {
        let first = &messages[step.start];
        let opens = first.is_user_turn()
            || first.role == Role::System
            || rounds.last().is_none_or(|round| {
                let before = &messages[round.start];
                is_fold(before) || before.role == Role::System
            });
        match rounds.last_mut() {
            Some(round) if !opens => round.end = step.end,
            _ => rounds.push(step),
        }
    }
    rounds
}

fn is_round(first: &Message) -> bool {
    !is_fold(first) && first.role != Role::System
}

fn has_stub(message: &Message) -> bool {
    message.parts.iter().any(|part| match part {
        Part::Text(text) => !is_fold(message) && is_ours(&text.decode()),
        Part::Call(call) => is_ours(&call.arguments.decode()),
        Part::Result(result) => result.single_text().is_some_and(|text| is_ours(&text.decode())),
        _ => false,
    })
}
