//! Money that calls of models cost, so that a cap holds for all processes that share an archive.

/// What counts for a cap: the last hour.
pub(crate) const HOUR_MS: i64 = 3_600_000;

/// Money that is wanted for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// When the call is made, in milliseconds since 1970.
    pub at_ms: i64,
    /// The most that it may cost, in millionths of a dollar.
    pub micros: u64,
    /// The most that all calls of any hour may cost.
    pub cap_micros: u64,
}

/// Whether there is money for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// It is reserved under this number until the call is settled. A call that never is, because its process
    /// ended, has cost what was reserved.
    Granted(u64),
    /// There will be enough at this time; never if the call alone may cost more than the cap.
    Full {
        /// The time in milliseconds since 1970.
        until_ms: Option<i64>,
    },
}

impl Wish {
    /// Where the hour begins that counts.
    pub(crate) fn since_ms(&self) -> i64 {
        self.at_ms.saturating_sub(HOUR_MS)
    }

    /// Whether the wish can be granted after calls of the hour, oldest first; if not, when it can be.
    pub(crate) fn fits(&self, spent: &[(i64, u64)]) -> Result<(), Option<i64>> {
        let mut total: u64 = spent
            .iter()
            .map(|(_, micros)| micros)
            .fold(0, |sum, micros| sum.saturating_add(*micros));
        let is_enough = |total: u64| total.saturating_add(self.micros) <= self.cap_micros;
        if is_enough(total) {
            return Ok(());
        }
        for (at_ms, micros) in spent {
            total = total.saturating_sub(*micros);
            if is_enough(total) {
                return Err(Some(at_ms.saturating_add(HOUR_MS)));
            }
        }
        Err(None)
    }
}
