//! How long to wait before another attempt.

use std::time::{Duration, SystemTime};

/// A random part of a time that doubles with each attempt, so that many clients do not come back at once.
pub(crate) fn backoff(attempt: u32, first: Duration, max: Duration) -> Duration {
    let bound = first.saturating_mul(1 << attempt.min(20)).min(max);
    bound.mul_f64(fastrand::f64())
}

/// Reads the header `Retry-After`: seconds, or a date.
pub(crate) fn retry_after(header: &str, now: SystemTime) -> Option<Duration> {
    let header = header.trim();
    if let Ok(seconds) = header.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = httpdate::parse_http_date(header).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_anywhere_below_a_bound_that_doubles() {
        let (first, max) = (Duration::from_millis(500), Duration::from_secs(8));
        for (attempt, bound) in [(0, 500), (1, 1_000), (3, 4_000), (4, 8_000), (60, 8_000)] {
            let waits: Vec<u128> =
                (0..200).map(|_| backoff(attempt, first, max).as_millis()).collect();
            assert!(waits.iter().all(|wait| *wait <= bound), "{attempt}");
            assert!(waits.iter().any(|wait| *wait < bound / 4), "full jitter");
            assert!(waits.iter().any(|wait| *wait > bound / 2), "full jitter");
        }
    }

    #[test]
    fn a_wish_is_read_in_both_forms() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        for (header, seconds) in [
            ("7", Some(7)),
            (" 0 ", Some(0)),
            ("Sun, 06 Nov 1994 08:49:47 GMT", Some(10)),
            ("Sun, 06 Nov 1994 08:49:17 GMT", Some(0)),
            ("soon", None),
            ("-3", None),
            ("nan", None),
        ] {
            assert_eq!(retry_after(header, now), seconds.map(Duration::from_secs), "{header}");
        }
    }
}
