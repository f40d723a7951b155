//! A page that is being filled: the units that it can show, and how many of them fit.

use longhand_core::{Scale, Tokens};

use super::heading::{COMMITS, HEADINGS};
use super::page::LogPage;

/// Names and the story get 1/N of the room of the important lines in addition.
const OTHERS_SHARE: u64 = 5;

/// The share of the room that the story always gets, in percent.
const OTHERS_PERCENT: u64 = 4;

/// The share of the room, in percent, beyond which the oldest plain words of users are shortened.
const WORDS_PERCENT: u64 = 60;

/// Less than any line takes.
const UNIT_TOKENS_MIN: Tokens = Tokens(3);

/// The least room that is shared out.
const SHARED_FROM: Tokens = Tokens(400);

/// A fact that a page can show, in a short and a full form.
pub(super) struct SheetUnit {
    /// Where it stands: the number of its heading, and its place below it.
    heading: usize,
    place: usize,
    pub(super) short: String,
    pub(super) full: String,
    /// Still shorter, for old words where there are many.
    pub(super) brief: Option<String>,
    /// Whether a conversation cannot do without it.
    is_essential: bool,
    shown: DetailLevel,
    /// The tokens of the short and the full form, once they were counted.
    weights: [Option<Tokens>; 2],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum DetailLevel {
    No,
    Short,
    Full,
}

impl SheetUnit {
    fn text(&self) -> &str {
        match self.shown {
            DetailLevel::No => "",
            DetailLevel::Short => &self.short,
            DetailLevel::Full => &self.full,
        }
    }
}

/// How often a sheet is gone through.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    Shares,
    Rest,
    /// Essential units are shown in full before the story gets any room.
    Essential,
    /// Units that are shown after all important ones.
    Others,
    Full,
    Minor,
}

impl Pass {
    fn takes(self, tier: &SheetTier) -> bool {
        let is_first = tier.matters || tier.is_capped;
        match self {
            Pass::Shares => is_first || tier.percent > 0,
            Pass::Rest | Pass::Essential => is_first,
            Pass::Others => !is_first && tier.percent > 0,
            Pass::Full => tier.percent > 0,
            Pass::Minor => tier.percent == 0,
        }
    }
}

/// Units of equal importance, the best first, and the share of the room that they get in the first pass.
/// A tier without a share is shown after all others.
pub(super) struct SheetTier {
    pub(super) percent: u64,
    /// Whether the share also holds if there is little room. A summary that a model was paid for then gets its share,
    /// and no more.
    pub(super) is_capped: bool,
    /// Whether a block is made larger for their sake.
    pub(super) matters: bool,
    pub(super) units: Vec<SheetUnit>,
}

/// Units on their way to a text.
pub(super) struct Sheet<'s, 'm> {
    pub(super) tiers: Vec<SheetTier>,
    pub(super) scale: &'s Scale<'m>,
    pub(super) limit: Tokens,
    pub(super) spent: Tokens,
}

impl Sheet<'_, '_> {
    /// Shows what fits: each tier up to its share, then the rest of the units, then their full forms, and last the
    /// tiers without a share.
    pub(super) fn fill(&mut self, room: Tokens) {
        let mut tiers = std::mem::take(&mut self.tiers);
        let mut titled = [false; HEADINGS.len()];
        let passes =
            [Pass::Shares, Pass::Rest, Pass::Essential, Pass::Others, Pass::Full, Pass::Minor];
        for pass in passes {
            for tier in tiers.iter_mut().filter(|tier| pass.takes(tier)) {
                // In little room worth alone counts.
                let has_share = pass == Pass::Shares && (room >= SHARED_FROM || tier.is_capped);
                let share = if has_share { tier.percent } else { 100 };
                let mut cap = Tokens(room.0 * share / 100);
                if has_share && !tier.matters && !tier.is_capped {
                    cap = cap.min(self.spent + Tokens(room.0 * OTHERS_PERCENT / 100));
                }
                for unit in &mut tier.units {
                    self.show(unit, pass, cap, &mut titled);
                }
            }
        }
        self.tiers = tiers;
    }

    /// Tells the oldest words of users more briefly where not all of them have room.
    pub(super) fn shorten_words(&mut self, limit: Tokens) {
        let cap = Tokens(limit.0 * WORDS_PERCENT / 100);
        let mut tiers = std::mem::take(&mut self.tiers);
        let is_brief = |unit: &&mut SheetUnit| unit.brief.is_some();
        let mut units: Vec<&mut SheetUnit> =
            tiers.iter_mut().flat_map(|tier| &mut tier.units).filter(is_brief).collect();
        let mut sum: Tokens = units.iter().map(|unit| self.weight(&unit.short)).sum();
        for unit in units.iter_mut().rev() {
            if sum <= cap {
                break;
            }
            let Some(brief) = unit.brief.take() else { continue };
            sum = sum.saturating_sub(self.weight(&unit.short)) + self.weight(&brief);
            unit.short = brief;
        }
        self.tiers = tiers;
    }

    /// The tokens that the important lines take in their short form, and some room for the others.
    pub(super) fn wanted(&self) -> Tokens {
        let mut titled = [false; HEADINGS.len()];
        let mut sum = Tokens::ZERO;
        for unit in self.tiers.iter().filter(|tier| tier.matters).flat_map(|tier| &tier.units) {
            if !std::mem::replace(&mut titled[unit.heading], true) {
                sum += self.weight(HEADINGS[unit.heading].title);
            }
            sum += self.weight(&unit.short);
        }
        Tokens(sum.0 + sum.0 / OTHERS_SHARE)
    }

    /// Shows the short form of a unit, or its full form if the short one is shown already, if it fits.
    fn show(&mut self, unit: &mut SheetUnit, pass: Pass, cap: Tokens, titled: &mut [bool]) {
        let (from, to) = match pass {
            Pass::Essential if !unit.is_essential => return,
            Pass::Essential | Pass::Full => (DetailLevel::Short, DetailLevel::Full),
            _ => (DetailLevel::No, DetailLevel::Short),
        };
        let is_full = from == DetailLevel::No && self.spent + UNIT_TOKENS_MIN > cap;
        if unit.shown != from || is_full {
            return;
        }
        let before = self.weight_of(unit);
        unit.shown = to;
        let title = HEADINGS[unit.heading].title;
        let title = if titled[unit.heading] { Tokens::ZERO } else { self.weight(title) };
        let added = self.weight_of(unit).saturating_sub(before) + title;
        if self.spent + added <= cap {
            self.spent += added;
            titled[unit.heading] = true;
        } else {
            unit.shown = from;
        }
    }

    /// The tokens of a unit in the form that is shown.
    fn weight_of(&self, unit: &mut SheetUnit) -> Tokens {
        let form = match unit.shown {
            DetailLevel::No => return Tokens::ZERO,
            DetailLevel::Short => 0,
            DetailLevel::Full => 1,
        };
        if let Some(weight) = unit.weights[form] {
            return weight;
        }
        let weight = self.weight(unit.text());
        unit.weights[form] = Some(weight);
        weight
    }

    fn weight(&self, text: &str) -> Tokens {
        self.scale.text(text) + Tokens(1)
    }

    /// The lines that are shown, and where the names belong.
    pub(super) fn text(&self) -> (String, usize) {
        let mut shown: Vec<&SheetUnit> =
            self.units().filter(|unit| unit.shown != DetailLevel::No).collect();
        shown.sort_by_key(|unit| (unit.heading, unit.place));
        let mut text = String::new();
        for group in shown.chunk_by(|one, two| one.heading == two.heading) {
            let title = HEADINGS[group[0].heading].title;
            text.push_str(title);
            let is_list = title.ends_with(' ');
            let separator = if title == COMMITS {
                "; "
            } else if is_list {
                ", "
            } else {
                "\n"
            };
            if !is_list {
                text.push('\n');
            }
            let items: Vec<&str> = group.iter().map(|unit| unit.text()).collect();
            text.push_str(&items.join(separator));
            text.push('\n');
        }
        let end = text.len();
        (text, end)
    }

    /// Adds units that are shown as they are.
    pub(super) fn add_shown(&mut self, mut units: Vec<SheetUnit>) {
        for unit in &mut units {
            unit.shown = DetailLevel::Short;
        }
        self.tiers.push(SheetTier { percent: 0, is_capped: false, matters: false, units });
    }

    fn units(&self) -> impl Iterator<Item = &SheetUnit> {
        self.tiers.iter().flat_map(|tier| &tier.units)
    }

    /// Takes the lightest line out again.
    pub(super) fn drop_last(&mut self) -> bool {
        let units = self.tiers.iter_mut().flat_map(|tier| &mut tier.units);
        let last = units.filter(|unit| unit.shown != DetailLevel::No).last();
        last.is_some_and(|unit| {
            unit.shown = DetailLevel::No;
            true
        })
    }

    pub(super) fn page(&self, text: String) -> LogPage {
        debug_assert!(self.scale.text(&text) <= self.limit);
        let told = self.units().filter(|unit| unit.shown != DetailLevel::No).count();
        let missing: Vec<&SheetUnit> =
            self.units().filter(|unit| unit.shown == DetailLevel::No).collect();
        LogPage {
            text,
            told,
            wanted: Tokens::ZERO,
            is_lossy: missing.iter().any(|unit| unit.is_essential),
            left_out: missing
                .iter()
                .map(|unit| unit.short.trim_start_matches("- ").to_owned())
                .collect(),
        }
    }
}

/// A unit below a title that is not shown yet.
pub(super) fn unit(
    title: &str,
    place: usize,
    short: String,
    full: String,
    is_essential: bool,
) -> SheetUnit {
    let heading = HEADINGS.iter().position(|heading| heading.title == title).unwrap_or(0);
    let brief = None;
    SheetUnit {
        heading,
        place,
        short,
        full,
        brief,
        is_essential,
        shown: DetailLevel::No,
        weights: [None; 2],
    }
}
