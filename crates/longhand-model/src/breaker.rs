//! A rest for an endpoint that fails.

use std::time::Duration;

/// Counts failures in a row and says when to leave an endpoint alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Breaker {
    failures_max: u32,
    rest: Duration,
    failures: u32,
    state: BreakerState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BreakerState {
    Closed,
    Open {
        until: Duration,
    },
    /// One request is out to see whether the endpoint is well again.
    Probing,
}

impl Breaker {
    pub(crate) fn new(failures_max: u32, rest: Duration) -> Self {
        Self { failures_max, rest, failures: 0, state: BreakerState::Closed }
    }

    /// Lets a request pass, or says how long the rest still lasts.
    pub(crate) fn admit(&mut self, now: Duration) -> Result<(), Duration> {
        match self.state {
            BreakerState::Closed => Ok(()),
            BreakerState::Open { until } if now < until => Err(until.saturating_sub(now)),
            BreakerState::Open { .. } => {
                self.state = BreakerState::Probing;
                Ok(())
            }
            BreakerState::Probing => Err(self.rest),
        }
    }

    pub(crate) fn succeed(&mut self) {
        self.failures = 0;
        self.state = BreakerState::Closed;
    }

    pub(crate) fn fail(&mut self, now: Duration) {
        self.failures = self.failures.saturating_add(1);
        if self.failures >= self.failures_max {
            self.state = BreakerState::Open { until: now + self.rest };
        }
    }

    /// A request was given up without a result; if it was the probe, another may follow.
    pub(crate) fn abandon(&mut self, now: Duration) {
        if self.state == BreakerState::Probing {
            self.state = BreakerState::Open { until: now };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: Duration = Duration::from_secs(30);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn open() -> Breaker {
        let mut breaker = Breaker::new(3, REST);
        (0..3).for_each(|second| breaker.fail(at(second)));
        breaker
    }

    #[test]
    fn it_opens_after_three_failures_in_a_row() {
        let mut breaker = Breaker::new(3, REST);
        for _ in 0..5 {
            breaker.fail(at(0));
            breaker.fail(at(1));
            assert_eq!(breaker.admit(at(1)), Ok(()));
            breaker.succeed();
        }
        assert_eq!(open().admit(at(12)), Err(at(20)));
    }

    #[test]
    fn after_a_rest_one_request_tries() {
        let mut breaker = open();
        assert_eq!(breaker.admit(at(32)), Ok(()));
        assert!(breaker.admit(at(32)).is_err(), "only one");
        breaker.succeed();
        assert_eq!(breaker.admit(at(32)), Ok(()));
        breaker.fail(at(33));
        assert_eq!(breaker.admit(at(33)), Ok(()), "the count began anew");
    }

    #[test]
    fn a_trial_that_fails_begins_the_rest_again() {
        let mut breaker = open();
        assert_eq!(breaker.admit(at(40)), Ok(()));
        breaker.fail(at(41));
        assert_eq!(breaker.admit(at(42)), Err(at(29)));
        assert_eq!(breaker.admit(at(71)), Ok(()));
    }

    #[test]
    fn a_trial_that_is_given_up_does_not_block_the_next() {
        let mut breaker = open();
        assert_eq!(breaker.admit(at(40)), Ok(()));
        breaker.abandon(at(41));
        assert_eq!(breaker.admit(at(41)), Ok(()));
    }
}
