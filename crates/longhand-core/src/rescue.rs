//! The last resort: clips protected messages, and folds them too if clips are not enough.

use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::auto::{StepLayout, finish, joined};
use crate::clip::{clip, clip_least};
use crate::draft::{At, Draft, Stage};
use crate::edit::Edit;
use crate::fold::{NewFold, is_block};
use crate::plan::{Plan, original_text};
use crate::protect::{Protection, Rank, Unit};
use crate::stub::is_ours;
use crate::{Digest, Handle, Part, Role, Scale, Size, Tokens};

/// The order in which protected parts are clipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ClipTier {
    Results,
    Texts,
    FirstUser,
}

const TIERS: [ClipTier; 3] = [ClipTier::Results, ClipTier::Texts, ClipTier::FirstUser];

/// A protected part that can be made smaller.
pub(crate) struct ClipCandidate {
    at: At,
    tier: ClipTier,
    how: How,
    full: u64,
    least: u64,
    /// What replacing it frees besides tokens.
    bytes: u64,
    images: u64,
}

enum How {
    /// Cut to head and tail.
    Clip { handle: Handle, body: String, around: u64 },
    /// Replaced as old parts are.
    Replace(Edit),
}

/// Finds what can be clipped among messages that are protected, but not for ever.
pub(crate) fn candidates(
    draft: &mut Draft,
    protection: &Protection,
    messages: &[usize],
    first_user: Option<usize>,
) -> Vec<ClipCandidate> {
    let mut found = Vec::new();
    for &message in messages {
        let content = &draft.history.path.messages[message];
        let stays = protection.rank(message) == Rank::Never || content.role == Role::System;
        if stays || draft.now.is_folded(message) {
            continue;
        }
        for (part, body) in content.parts.iter().enumerate() {
            let tier = match body {
                Part::Result(result) if !result.fixed => ClipTier::Results,
                _ if is_block(body) => continue,
                Part::Text(_) if Some(message) == first_user => ClipTier::FirstUser,
                Part::Text(_) | Part::Call(_) => ClipTier::Texts,
                _ => continue,
            };
            found.extend(candidate(draft, (message, part), tier));
        }
    }
    found
}

fn candidate(draft: &mut Draft, at: At, tier: ClipTier) -> Option<ClipCandidate> {
    let scale = draft.scale;
    let part = &draft.history.path.messages[at.0].parts[at.1];
    draft.place(at)?;
    let text = match part {
        Part::Text(text) => Some(text),
        Part::Result(result) => result.single_text(),
        _ => None,
    };
    let now = draft.now(at, u64::MAX);
    let (how, least) = if let Some(text) = text {
        let body = original_text(text).into_owned();
        let handle = Handle::of([body.as_str()]);
        let text = clip_least(handle, &body).filter(|_| !is_ours(&body))?;
        let least = draft.with_text(at, &text);
        let around = scale.replaced(part, "");
        (How::Clip { handle, body, around }, least)
    } else {
        let edit = draft.replace_anyway(at)?;
        let (Edit::Stub { text, .. } | Edit::Clip { text, .. }) = &edit else { return None };
        let least = draft.with_text(at, text);
        (How::Replace(edit), least)
    };
    (least.grains < now.grains).then(|| ClipCandidate {
        at,
        tier,
        how,
        full: now.grains,
        least: least.grains,
        bytes: now.bytes.saturating_sub(least.bytes),
        images: now.images,
    })
}

/// The size of messages with every candidate up to a tier at its smallest.
fn smallest(size: Size, clips: &[&ClipCandidate], tier: ClipTier, scale: &Scale) -> Size {
    let chosen = || clips.iter().filter(|clip| clip.tier <= tier);
    let saved = saved_tokens(chosen().map(|clip| (clip.at, clip.full - clip.least)), scale);
    let (bytes, images) =
        chosen().fold((0, 0), |(bytes, images), clip| (bytes + clip.bytes, images + clip.images));
    size.saturating_sub(Size { tokens: saved, bytes, images })
}

/// Clips until messages of that size are within `space`; `None` if they cannot be.
pub(crate) fn clip_down(
    draft: &Draft,
    clips: &[&ClipCandidate],
    size: Size,
    space: Size,
) -> Option<(Vec<Edit>, Size)> {
    let scale = &draft.scale;
    let tier =
        TIERS.into_iter().find(|tier| smallest(size, clips, *tier, scale).is_within(&space))?;
    let (of_tier, lower): (Vec<&ClipCandidate>, Vec<&ClipCandidate>) =
        clips.iter().copied().filter(|clip| clip.tier <= tier).partition(|clip| clip.tier == tier);
    let clipped_before: u64 = lower.iter().map(|clip| clip.full - clip.least).sum();
    // Each message may lose a fraction of a token to rounding.
    let lost = clips.len() as u64 * (scale.grains(Tokens(1)) - 1);
    let over = scale.grains(size.tokens.saturating_sub(space.tokens)) + lost;
    let level = water_level(&of_tier, over.saturating_sub(clipped_before));
    for level in [level, 0] {
        let (mut edits, mut saved) = (Vec::new(), Vec::new());
        let (mut bytes, mut images) = (0, 0);
        let levels =
            of_tier.iter().map(|clip| (*clip, level)).chain(lower.iter().map(|clip| (*clip, 0)));
        for (clip, level) in levels.filter(|(clip, level)| clip.full > *level) {
            let (edit, grains) = clip.shrink(draft, level)?;
            saved.push((clip.at, clip.full.saturating_sub(grains)));
            if grains <= clip.least {
                (bytes, images) = (bytes + clip.bytes, images + clip.images);
            }
            edits.push(edit);
        }
        let tokens = saved_tokens(saved, scale);
        let size = size.saturating_sub(Size { tokens, bytes, images });
        if size.is_within(&space) {
            return Some((edits, size));
        }
    }
    None
}

impl ClipCandidate {
    /// The message that it is in.
    pub(crate) fn message(&self) -> usize {
        self.at.0
    }

    /// The edit that brings it to a level, and what it weighs then.
    fn shrink(&self, draft: &Draft, level: u64) -> Option<(Edit, u64)> {
        let at = draft.place(self.at)?;
        match &self.how {
            How::Replace(edit) => Some((edit.clone(), self.least)),
            How::Clip { handle, body, around } => {
                let limit = level.max(self.least).saturating_sub(*around);
                let text = clip(*handle, body, &draft.scale, limit)?;
                let grains = draft.with_text(self.at, &text).grains;
                Some((Edit::Clip { at, handle: *handle, text }, grains))
            }
        }
    }
}

/// What savings come to in tokens at the least: a message is rounded as a whole.
fn saved_tokens(saved: impl IntoIterator<Item = (At, u64)>, scale: &Scale) -> Tokens {
    let mut by_message: FxHashMap<usize, u64> = FxHashMap::default();
    for (at, grains) in saved {
        *by_message.entry(at.0).or_default() += grains;
    }
    by_message.values().map(|grains| Tokens(grains / scale.grains(Tokens(1)))).sum()
}

/// The weight to clip every heavier part to, so that together they save at least `over`.
fn water_level(clips: &[&ClipCandidate], over: u64) -> u64 {
    let saved = |level: u64| -> u64 {
        clips.iter().map(|clip| clip.full.saturating_sub(level.max(clip.least))).sum()
    };
    let (mut low, mut high) = (0, clips.iter().map(|clip| clip.full).max().unwrap_or(0));
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if saved(middle) >= over { low = middle } else { high = middle - 1 }
    }
    low
}

/// The plan for a conversation whose protected messages alone do not fit.
pub(crate) struct Rescue<'h> {
    pub(crate) draft: Draft<'h>,
    pub(crate) layout: StepLayout,
    /// Blocks of earlier folds in messages that stay.
    pub(crate) blocks: Vec<At>,
    pub(crate) base: Size,
    pub(crate) headline: Size,
    pub(crate) limits: Size,
    /// The tokens that should stay free, so that the next request needs no batch.
    pub(crate) headroom: Tokens,
}

impl Rescue<'_> {
    /// Folds all old messages and clips the protected ones; folds those too if clips are not enough.
    ///
    /// The block gets `share`, if that leaves room for the rest.
    pub(crate) fn plan(mut self, share: Tokens, digest: &dyn Digest) -> (Plan, Size) {
        let kept = self.layout.kept();
        let size = self.draft.total(kept.iter().copied(), Stage::Edited, Size::MAX);
        let size = size.unwrap_or(Size::MAX);
        let first_user = StepLayout::first_user(&self.draft);
        let clips = candidates(&mut self.draft, self.layout.protection(), &kept, first_user);
        let refs: Vec<&ClipCandidate> = clips.iter().collect();
        let most = self.limits.saturating_sub(self.base);
        let share = share.max(self.headline.tokens);
        let block = if self.headline == Size::ZERO {
            Size::ZERO
        } else {
            Size { tokens: share, bytes: self.headline.bytes + share.0 * 8, images: 0 }
        };
        let has_room = self.base.is_within(&self.limits);
        // Messages that the model has not read yet are clipped less to keep tokens free.
        let newest = self.layout.units().last().map_or(0, |unit| unit.messages.start);
        let read: Vec<&ClipCandidate> = clips.iter().filter(|clip| clip.at.0 < newest).collect();
        let (headroom, less, none) = (self.headroom, Tokens(self.headroom.0 / 2), Tokens::ZERO);
        let tries = [
            (block, headroom, &read),
            (block, less, &refs),
            (block, none, &refs),
            (self.headline, none, &refs),
        ];
        for (block, headroom, clips) in tries {
            let space = most.saturating_sub(block).saturating_sub(Size::of(headroom));
            if !has_room || !block.is_within(&most) {
                continue;
            }
            if let Some((edits, size)) = clip_down(&self.draft, clips, size, space) {
                let ranges = self.layout.fold(self.layout.units().len());
                return self.finish(edits, &ranges, size, block.tokens, None, digest);
            }
        }
        self.fold_protected(&clips, most, share, digest)
    }

    /// Folds all but what never goes, and of the rest keeps the first user message and the newest steps
    /// for which there is room.
    fn fold_protected(
        mut self,
        clips: &[ClipCandidate],
        most: Size,
        share: Tokens,
        digest: &dyn Digest,
    ) -> (Plan, Size) {
        let units = self.layout.units().to_vec();
        let first_user = StepLayout::first_user(&self.draft);
        let smallest_of = |draft: &mut Draft, messages: Range<usize>| {
            let size = draft.total(messages.clone().rev(), Stage::Edited, Size::MAX);
            let clips = clips.iter().filter(|clip| messages.contains(&clip.at.0));
            let saved = clips.clone().map(|clip| (clip.at, clip.full - clip.least));
            let saved = Size {
                tokens: saved_tokens(saved, &draft.scale),
                bytes: clips.clone().map(|clip| clip.bytes).sum(),
                images: clips.map(|clip| clip.images).sum(),
            };
            size.unwrap_or(Size::MAX).saturating_sub(saved)
        };
        let mut total = Size::ZERO;
        for unit in units.iter().filter(|unit| unit.rank == Rank::Never) {
            total += smallest_of(&mut self.draft, unit.messages.clone());
        }
        let all = units.iter().filter(|unit| unit.rank < Rank::Never);
        let all = joined(all.map(|unit| unit.messages.clone()));
        let fold = NewFold::of(&self.draft, &all, &self.blocks);
        let folds = !all.is_empty() || self.headline != Size::ZERO;
        let least = if folds { fold.least(&self.draft.scale) } else { Size::ZERO };
        let reserve = if folds { fold.reserve(&self.draft.scale) } else { Size::ZERO };
        let floor = self.base.tokens + total.tokens + least.tokens;
        let mut kept = vec![false; units.len()];
        let space = most.saturating_sub(Size { tokens: share.max(reserve.tokens), ..reserve });
        for (at, unit) in units.iter().enumerate() {
            kept[at] = unit.rank == Rank::Never;
        }
        let is_last = |unit: &Unit| unit.rank == Rank::Last && !unit.is_block;
        let spared = || units.iter().enumerate().filter(|(_, unit)| is_last(unit));
        let is_first = |unit: &Unit| first_user.is_some_and(|first| unit.messages.contains(&first));
        let task = spared().filter(|(_, unit)| is_first(unit));
        for (at, unit) in task.chain(spared().filter(|(_, unit)| !is_first(unit)).rev()) {
            let size = total + smallest_of(&mut self.draft, unit.messages.clone());
            if size.is_within(&space) {
                (total, kept[at]) = (size, true);
            } else if !is_first(unit) {
                break;
            }
        }
        let gone = units.iter().zip(&kept).filter(|(_, kept)| !**kept);
        let ranges = joined(gone.map(|(unit, _)| unit.messages.clone()));
        let is_kept = |at: usize| !ranges.iter().any(|range| range.contains(&at));
        let clips: Vec<&ClipCandidate> = clips.iter().filter(|clip| is_kept(clip.at.0)).collect();
        let kept: Vec<usize> = units
            .iter()
            .zip(&kept)
            .filter(|(_, kept)| **kept)
            .flat_map(|(unit, _)| unit.messages.clone())
            .collect();
        let kept_size = self.draft.total(kept, Stage::Edited, Size::MAX).unwrap_or(Size::MAX);
        let smallest = |draft: &Draft| {
            let edits = clips.iter().filter_map(|clip| Some(clip.shrink(draft, 0)?.0));
            (edits.collect(), total)
        };
        let (edits, total) = clip_down(&self.draft, &clips, kept_size, space)
            .unwrap_or_else(|| smallest(&self.draft));
        let left =
            most.saturating_sub(total).tokens.min(share.max(reserve.tokens)).max(least.tokens);
        self.finish(edits, &ranges, total, left, Some(floor), digest)
    }

    fn finish(
        mut self,
        mut edits: Vec<Edit>,
        ranges: &[Range<usize>],
        kept: Size,
        block_max: Tokens,
        floor: Option<Tokens>,
        digest: &dyn Digest,
    ) -> (Plan, Size) {
        let scale = self.draft.scale;
        let mut size = self.base + kept;
        let mut state = String::new();
        let mut wanted = None;
        if !ranges.is_empty() || self.headline != Size::ZERO {
            let fold = NewFold::of(&self.draft, ranges, &self.blocks);
            let frame = fold.frame;
            let hidden = self.draft.hidden(&edits);
            let (fold, written) = fold.write(block_max, &hidden, &scale, digest);
            size = frame.joined(size + written.size);
            state = written.state;
            wanted = Some(written.wanted).filter(|wanted| *wanted > block_max);
            edits.push(Edit::Fold(fold));
        }
        let floor = floor.unwrap_or_else(|| self.floor(size.tokens));
        let (mut plan, thinking) = finish(&mut self.draft, edits, state, size, floor, self.limits);
        plan.block_wanted = wanted;
        (plan, thinking)
    }

    /// The fewest tokens that can be reached: all is folded but what never goes.
    fn floor(&mut self, reached: Tokens) -> Tokens {
        let never: Vec<usize> =
            self.layout.protection().newest_first(|unit| unit.rank == Rank::Never);
        let size =
            self.draft.total(never, Stage::Edited, Size::of(reached)).map(|size| size.tokens);
        let floor = self.base.tokens + size.unwrap_or(reached) + self.headline.tokens;
        floor.min(reached)
    }
}
