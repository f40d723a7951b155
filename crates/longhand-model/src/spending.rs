//! A cap on what may be spent in an hour.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Keeps what was spent; several processes may share one.
pub trait SpendingBook: Debug + Send + Sync {
    /// Reserves money for a call if all calls of the last hour leave enough of the cap; returns a number for it.
    ///
    /// `at_ms` is the time in milliseconds since 1970, money is in millionths of a dollar.
    fn reserve(&self, at_ms: i64, micros: u64, cap_micros: u64) -> Result<u64, NoMoney>;

    /// Records the cost of the call. If that fails, the reserved amount counts.
    fn settle(&self, reservation: u64, micros: u64);
}

/// Why no money could be reserved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoMoney {
    /// The cap is reached; there is enough again at this time, or never.
    Full {
        /// The time in milliseconds since 1970.
        until_ms: Option<i64>,
    },
    /// The book cannot be written. Without it the spending is unknown, so nothing may be spent.
    Book(String),
}

/// A cap on what calls may cost in any hour.
///
/// The most that a call may cost is reserved before it is made, and settled after it. A call that was cut
/// off, timed out or outlived by its process counts for what was reserved.
#[derive(Clone, Debug)]
pub struct Spending {
    cap_micros: u64,
    book: Arc<dyn SpendingBook>,
}

impl Spending {
    /// At most `cap_micros` millionths of a dollar in an hour, as the book counts it.
    pub fn per_hour(cap_micros: u64, book: Arc<dyn SpendingBook>) -> Self {
        Self { cap_micros, book }
    }

    /// Reserves money for a call; a free call needs none. An error says why there is no money.
    pub(crate) fn reserve(&self, date: SystemTime, micros: u64) -> Result<Option<u64>, String> {
        if micros == 0 {
            return Ok(None);
        }
        let at_ms = millis(date);
        let cap = self.cap_micros;
        self.book.reserve(at_ms, micros, cap).map(Some).map_err(|reason| match reason {
            NoMoney::Full { until_ms: Some(until_ms) } => {
                let wait = Duration::from_millis(until_ms.abs_diff(at_ms));
                let minutes = wait.as_secs().div_ceil(60);
                format!(
                    "the cap on spending is reached; the next call is possible in {minutes} min"
                )
            }
            NoMoney::Full { until_ms: None } => format!(
                "the cap on spending is {} USD an hour, and this call alone may cost {} USD",
                dollars(cap),
                dollars(micros)
            ),
            NoMoney::Book(reason) => format!("what was spent cannot be written down: {reason}"),
        })
    }

    /// Records the cost of a call.
    pub(crate) fn settle(&self, reservation: Option<u64>, micros: u64) {
        if let Some(reservation) = reservation {
            self.book.settle(reservation, micros);
        }
    }
}

fn millis(date: SystemTime) -> i64 {
    let since = date.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

fn dollars(micros: u64) -> String {
    format!("{:.2}", micros as f64 / 1e6)
}
