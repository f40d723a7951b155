//! Times as people write them.

use std::env;
use std::fs;
use std::sync::LazyLock;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use longhand_recall::Day;

/// The time zone of this machine, read from its file: to find it by its name, all zones there are would be listed, which
/// takes longer than most commands.
static LOCAL: LazyLock<TimeZone> = LazyLock::new(|| {
    let read = || TimeZone::tzif("local", &fs::read("/etc/localtime").ok()?).ok();
    let named = env::var_os("TZ").filter(|name| !name.is_empty());
    if named.is_some() { None } else { read() }.unwrap_or_else(TimeZone::system)
});

/// Reads `2026-11-15T19:29:00Z`, with or without a fraction or an offset, as milliseconds since 1970.
///
/// A time without an offset is in UTC, and a date alone is its first moment.
pub fn parse(text: &str) -> Option<i64> {
    let text = text.trim();
    let timestamp = text.parse::<Timestamp>().ok().or_else(|| in_zone(text, TimeZone::UTC))?;
    Some(timestamp.as_millisecond())
}

/// Reads the same, but a time without an offset is in the time zone of this machine.
pub fn parse_local(text: &str) -> Option<i64> {
    let text = text.trim();
    let timestamp = text.parse::<Timestamp>().ok().or_else(|| in_zone(text, LOCAL.clone()))?;
    Some(timestamp.as_millisecond())
}

fn in_zone(text: &str, zone: TimeZone) -> Option<Timestamp> {
    let zoned: Zoned = text.parse::<DateTime>().ok()?.to_zoned(zone).ok()?;
    Some(zoned.timestamp())
}

/// Reads a time in any of some forms: as [`parse`] does, or `1:56 pm on 8 May, 2023`; in UTC.
pub(crate) fn parse_any(text: &str) -> Option<i64> {
    const FORMS: [&str; 3] = ["%I:%M %p on %d %B, %Y", "%d %B %Y", "%B %d, %Y"];
    let text = text.trim();
    parse(text).or_else(|| {
        let parsed = FORMS.iter().find_map(|form| jiff::fmt::strtime::parse(form, text).ok())?;
        let date = parsed.to_date().ok()?;
        let time = parsed.to_time().unwrap_or_default();
        Some(date.to_datetime(time).to_zoned(TimeZone::UTC).ok()?.timestamp().as_millisecond())
    })
}

/// Writes milliseconds since 1970 as `2026-11-15T19:29:00.000Z`.
pub fn format(at_ms: i64) -> String {
    timestamp(at_ms).strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// Writes milliseconds since 1970 as `2026-11-15 20:29`, in the time zone of this machine.
pub fn format_local(at_ms: i64) -> String {
    timestamp(at_ms).to_zoned(LOCAL.clone()).strftime("%Y-%m-%d %H:%M").to_string()
}

/// The day of a time, in UTC.
pub(crate) fn day(at_ms: i64) -> Day {
    let date = timestamp(at_ms).to_zoned(TimeZone::UTC).date();
    Day { year: date.year(), month: date.month(), day: date.day() }
}

/// The time, or the first or last one that has a date.
fn timestamp(at_ms: i64) -> Timestamp {
    let end = if at_ms < 0 { Timestamp::MIN } else { Timestamp::MAX };
    Timestamp::from_millisecond(at_ms).unwrap_or(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_go_there_and_back() {
        for text in [
            "1970-01-01T00:00:00.000Z",
            "2026-11-15T19:29:51.123Z",
            "2000-02-29T23:59:59.999Z",
            "1969-12-31T23:59:59.000Z",
        ] {
            assert_eq!(format(parse(text).unwrap()), text);
        }
        assert_eq!(parse("2026-11-15T20:29:00+01:00"), parse("2026-11-15 19:29:00Z"));
        assert_eq!(parse("2026-11-15T19:29:00"), parse("2026-11-15 19:29:00Z"));
        assert_eq!(parse("2026-01-01"), parse("2026-01-01T00:00:00Z"));
        for bad in ["", "yesterday", "2026-13-01T00:00:00Z", "2026-02-30", "2026-01-01T25:00:00Z"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn times_beyond_the_calendar_are_written_as_its_end() {
        assert_eq!(format(i64::MAX), format(i64::MAX - 1));
        assert!(format(i64::MAX).starts_with("9999-12-3"));
    }
}
