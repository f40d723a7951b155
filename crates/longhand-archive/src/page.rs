//! Long lists, a page at a time.

use std::fmt;
use std::str::FromStr;

use crate::ParseIdError;

/// Which part of a list is wanted. Lists begin with what is newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// The `next` of the page before; `None` for the first page.
    pub after: Option<Cursor>,
    /// How many items it has at most.
    pub limit: usize,
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing<T> {
    /// The items, newest first.
    pub items: Vec<T>,
    /// Where the next page begins; `None` if there is nothing after this one.
    pub next: Option<Cursor>,
}

/// A place in a list. It stays valid while the list grows: no later page repeats an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    pub(crate) major: u64,
    pub(crate) minor: u64,
}

impl Page {
    /// The whole list at once.
    pub const ALL: Self = Self { after: None, limit: usize::MAX };

    /// The first items of a list.
    pub fn first(limit: usize) -> Self {
        Self { after: None, limit }
    }

    /// The lines below a number in a list that is numbered from 1, such as the request log of a session or its batches.
    pub fn below(number: u64, limit: usize) -> Self {
        Self { after: Some(Cursor::number(number)), limit }
    }

    /// Whether an item lies after the place where the page begins.
    pub(crate) fn includes(&self, place: Cursor) -> bool {
        self.after.is_none_or(|after| place < after)
    }

    /// Takes the page from a list in order; `place` tells where an item stands, which falls from item to item.
    pub(crate) fn take<T>(
        &self,
        list: impl IntoIterator<Item = T>,
        place: impl Fn(&T) -> Cursor,
    ) -> Listing<T> {
        let mut rest = list.into_iter().filter(|item| self.includes(place(item)));
        let items: Vec<T> = rest.by_ref().take(self.limit).collect();
        let next = items.last().map(&place);
        Listing { next: rest.next().and(next), items }
    }
}

impl<T> Listing<T> {
    pub(crate) fn empty() -> Self {
        Self { items: Vec::new(), next: None }
    }
}

impl Cursor {
    /// The place of a session with entries in lists of sessions: what comes after it was spoken in before.
    pub fn after_activity(activity: u64) -> Self {
        // No two sessions with entries have the same.
        Self { major: activity, minor: 0 }
    }

    /// A place in a list that is numbered.
    pub(crate) fn number(number: u64) -> Self {
        Self { major: number, minor: 0 }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{:016x}", self.major, self.minor)
    }
}

impl FromStr for Cursor {
    type Err = ParseIdError;

    fn from_str(digits: &str) -> Result<Self, ParseIdError> {
        let crate::SessionId(number) = digits.parse()?;
        Ok(Self { major: (number >> 64) as u64, minor: number as u64 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_make_up_the_list() {
        let list: Vec<u64> = (0..10).rev().collect();
        let mut page = Page::first(3);
        let mut seen = Vec::new();
        loop {
            let listing = page.take(list.iter().copied(), |number| Cursor::number(*number));
            seen.extend(listing.items);
            let Some(next) = listing.next else { break };
            page.after = Some(next.to_string().parse().unwrap());
        }
        assert_eq!(seen, list);
    }
}
