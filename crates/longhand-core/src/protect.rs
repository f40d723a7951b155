//! What a plan must leave alone, and what it may touch only as the last resort.

use std::ops::Range;

use rustc_hash::FxHashSet;

use crate::fold::is_fold;
use crate::json_word::json_carrier;
use crate::observation::Observations;
use crate::plan::History;
use crate::project::open_loop;
use crate::reference::referents;
use crate::step::steps;
use crate::{Message, Role};

/// How well a message is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// Not at all.
    Old,
    /// It is touched only if nothing else helps: the first user message, the tail and what the newest
    /// results refer back to.
    Last,
    /// It is never touched: system prompt, newest user message, open calls, pins, the word that a
    /// request for JSON needs.
    Never,
}

/// Which user messages are protected: the newest for ever, the others until nothing else helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Users {
    None,
    Newest,
    FirstAndNewest,
    All,
}

/// The protection of every message and step.
#[derive(Clone, Debug)]
pub(crate) struct Protection {
    ranks: Vec<Rank>,
    pub(crate) units: Vec<Unit>,
}

/// Messages that are folded together or not at all.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    pub(crate) messages: Range<usize>,
    /// The rank of its best protected message.
    pub(crate) rank: Rank,
    /// Whether it is the block of an earlier fold: the next fold takes it up, since there is only one.
    pub(crate) is_block: bool,
    /// Whether it is part of a round that can be folded. That holds for the newest step, too, though it stays.
    pub(crate) in_round: bool,
}

impl Protection {
    /// Protects the newest `keep_tail` messages and some of the users'.
    ///
    /// Messages that are folded already are in no unit.
    pub(crate) fn of(
        history: &History,
        is_folded: impl Fn(usize) -> bool,
        keep_tail: usize,
        users: Users,
    ) -> Self {
        let messages = history.path.messages;
        let is_user = |at: &usize| messages[*at].is_user_turn();
        // What a text-action agent puts into a user turn is the output of a tool.
        let observations = Observations::of(messages);
        let speaks = |at: &usize| is_user(at) && observations.at(*at).is_none();
        let first = (0..messages.len()).find(is_user);
        let newest = (0..messages.len()).rev().find(speaks).filter(|_| users != Users::None);
        let tail = messages.len().saturating_sub(keep_tail);
        let open = open_calls(messages);
        let referents = referents(messages);
        let carrier =
            history.wire.needs_json_word.then(|| json_carrier(&history.path, &is_folded)).flatten();
        let pinned = |at: usize| {
            history.path.seq(at).is_some_and(|seq| history.pins.binary_search(&seq).is_ok())
                || carrier == Some(at)
        };
        let rank = |at: usize| {
            let message = &messages[at];
            if message.role == Role::System
                || Some(at) == newest
                || pinned(at)
                || open.contains(&at)
            {
                return Rank::Never;
            }
            if is_fold(message) {
                return Rank::Old;
            }
            let is_last = at >= tail
                || referents.contains(&at)
                || message.results().any(|result| result.loads_tools)
                || match users {
                    Users::None | Users::Newest => false,
                    Users::FirstAndNewest => Some(at) == first,
                    Users::All => is_user(&at),
                };
            if is_last { Rank::Last } else { Rank::Old }
        };
        let mut ranks: Vec<Rank> = (0..messages.len()).map(rank).collect();
        let mut units: Vec<Unit> = units(history, &observations, steps(messages))
            .into_iter()
            .filter_map(|unit| {
                // A message that came later may have joined a step that is folded by now.
                let start = unit.clone().find(|at| !is_folded(*at))?;
                let end = unit.rev().find(|at| !is_folded(*at))? + 1;
                Some(start..end)
            })
            .map(|messages| {
                let rank = ranks[messages.clone()].iter().max().copied().unwrap_or(Rank::Old);
                let is_block = rank < Rank::Never
                    && history.path.messages[messages.clone()].iter().all(is_fold);
                Unit { messages, rank, is_block, in_round: rank < Rank::Never }
            })
            .collect();
        let keeps_some = units.iter().any(|unit| unit.rank == Rank::Never);
        if users != Users::None || history.wire.alternates && keeps_some {
            keep_newest_step(messages, &mut units, &mut ranks);
        }
        if history.wire.alternates {
            units = keep_replies_apart(messages, units);
        }
        Self { ranks, units }
    }

    /// How well a message is protected from edits.
    pub(crate) fn rank(&self, message: usize) -> Rank {
        self.ranks[message]
    }

    /// The messages of some units, newest first.
    pub(crate) fn newest_first(&self, which: impl Fn(&Unit) -> bool) -> Vec<usize> {
        let units = self.units.iter().rev().filter(|unit| which(unit));
        units.flat_map(|unit| unit.messages.clone().rev()).collect()
    }
}

/// Never folds the newest step; its parts may be clipped all the same.
///
/// The model has not read it yet, or goes on from it; and who speaks next depends on who spoke last.
fn keep_newest_step(messages: &[Message], units: &mut [Unit], ranks: &mut [Rank]) {
    let speaks = |at: usize| messages[at].role != Role::System;
    let newest = units.iter_mut().rev().find(|unit| unit.messages.clone().any(speaks));
    if let Some(unit) = newest.filter(|unit| !unit.is_block) {
        unit.rank = Rank::Never;
        for rank in &mut ranks[unit.messages.clone()] {
            *rank = (*rank).max(Rank::Last);
        }
    }
}

/// Keeps what follows a reply that is never folded: replies must not become neighbours.
fn keep_replies_apart(messages: &[Message], units: Vec<Unit>) -> Vec<Unit> {
    let mut apart: Vec<Unit> = Vec::with_capacity(units.len());
    for unit in units {
        match apart.last_mut() {
            Some(last)
                if last.rank == Rank::Never
                    && messages[last.messages.end - 1].role == Role::Assistant
                    && last.messages.end == unit.messages.start =>
            {
                last.messages.end = unit.messages.end;
            }
            _ => apart.push(unit),
        }
    }
    apart
}

/// Joins steps that have to be folded together.
///
/// Where roles alternate, a system message in the middle must follow the user and come before the
/// assistant. An observation is recognised by the reply before it, so the two stay together.
fn units(
    history: &History,
    observations: &Observations,
    steps: Vec<Range<usize>>,
) -> Vec<Range<usize>> {
    let messages = history.path.messages;
    let alternates = history.wire.alternates;
    let is_system =
        |at: usize| alternates && at >= history.path.lead && messages[at].role == Role::System;
    let mut units: Vec<Range<usize>> = Vec::with_capacity(steps.len());
    for step in steps {
        let (start, end) = (step.start, step.end);
        match units.last_mut() {
            Some(unit)
                if is_system(start)
                    || is_system(unit.end - 1)
                    || observations.at(start).is_some() =>
            {
                unit.end = end;
            }
            _ => units.push(step),
        }
    }
    units
}

/// The messages with calls that have no result yet, in the tool loop that is open.
fn open_calls(messages: &[Message]) -> FxHashSet<usize> {
    let open = open_loop(messages);
    let newest = &messages[open..];
    let answered: FxHashSet<String> = newest
        .iter()
        .flat_map(|message| message.results().map(|result| result.call.decode().into_owned()))
        .collect();
    let is_open = |message: &Message| {
        message.calls().any(|call| !answered.contains(call.id.decode().as_ref()))
    };
    (open..messages.len()).filter(|at| is_open(&messages[*at])).collect()
}
