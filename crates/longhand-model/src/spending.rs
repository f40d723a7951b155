//! A cap on what may be spent in an hour.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

const HOUR: Duration = Duration::from_hours(1);

/// Adds up what was spent in the last hour.
///
/// What a call costs is known after it, so the last one may go over the cap. A call without a known
/// price counts for nothing.
#[derive(Debug)]
pub struct Spending {
    cap_micros: u64,
    spent: Mutex<VecDeque<(Duration, u64)>>,
}

impl Spending {
    /// At most so many millionths of a dollar in an hour.
    pub fn per_hour(cap_micros: u64) -> Self {
        Self { cap_micros, spent: Mutex::default() }
    }

    /// Allows a call, or says how long to wait for the next.
    pub fn allow(&self, now: Duration) -> Result<(), Duration> {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        while spent.front().is_some_and(|(at, _)| *at + HOUR <= now) {
            spent.pop_front();
        }
        let mut left: u64 = spent.iter().map(|(_, micros)| micros).sum();
        if left < self.cap_micros || left == 0 {
            return Ok(());
        }
        for (at, micros) in spent.iter() {
            left -= micros;
            if left < self.cap_micros || left == 0 {
                return Err((*at + HOUR).saturating_sub(now));
            }
        }
        Err(HOUR)
    }

    /// Notes what a call cost.
    pub fn add(&self, now: Duration, micros: u64) {
        if micros > 0 {
            let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
            spent.push_back((now, micros));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cap_holds_for_any_hour() {
        let at = |minutes: u64| Duration::from_mins(minutes);
        let spending = Spending::per_hour(100);
        assert_eq!(spending.allow(at(0)), Ok(()));
        spending.add(at(0), 60);
        spending.add(at(10), 0);
        assert_eq!(spending.allow(at(20)), Ok(()));
        spending.add(at(20), 60);
        assert_eq!(spending.allow(at(30)), Err(at(30)), "until the first is an hour old");
        assert_eq!(spending.allow(at(60)), Ok(()));
        spending.add(at(60), 500);
        assert_eq!(spending.allow(at(79)), Err(at(41)));
        assert_eq!(spending.allow(at(120)), Ok(()));
    }

    #[test]
    fn without_a_cap_worth_the_name_only_what_is_free_goes_on() {
        let spending = Spending::per_hour(0);
        assert_eq!(spending.allow(Duration::ZERO), Ok(()), "nothing is known to cost anything yet");
        spending.add(Duration::ZERO, 1);
        assert_eq!(spending.allow(Duration::ZERO), Err(HOUR));
    }
}
