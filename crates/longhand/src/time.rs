//! Times as people write them.

/// Reads `2026-11-15T19:29:00Z`, with or without fractions, or with an offset, as milliseconds since 1970.
pub fn parse(text: &str) -> Option<i64> {
    let (date, rest) = text.trim().split_once(['T', ' '])?;
    let mut fields = date.splitn(3, '-').map(str::parse::<i64>);
    let (year, month, day) = (fields.next()?.ok()?, fields.next()?.ok()?, fields.next()?.ok()?);
    let zone = rest.find(['Z', 'z', '+', '-']).unwrap_or(rest.len());
    let (clock, zone) = rest.split_at(zone);
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, ""));
    let mut fields = clock.splitn(3, ':').map(str::parse::<i64>);
    let (hour, minute) = (fields.next()?.ok()?, fields.next()?.ok()?);
    let second = fields.next().map_or(Some(0), Result::ok)?;
    if !(1..=12).contains(&month)
        || !(1..=31).contains(&day)
        || !(0..24).contains(&hour)
        || !(0..60).contains(&minute)
    {
        return None;
    }
    let millis: i64 = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
    let offset = match zone.as_bytes().first() {
        Some(sign @ (b'+' | b'-')) => {
            let digits: String = zone[1..].chars().filter(char::is_ascii_digit).collect();
            let minutes = digits.get(..2)?.parse::<i64>().ok()? * 60
                + digits.get(2..4).map_or(Some(0), |m| m.parse().ok())?;
            if *sign == b'+' { minutes } else { -minutes }
        }
        _ => 0,
    };
    let seconds = days(year, month, day) * 86_400 + hour * 3_600 + (minute - offset) * 60 + second;
    Some(seconds * 1_000 + millis)
}

/// Writes milliseconds since 1970 as `2026-11-15T19:29:00.000Z`.
pub fn format(at_ms: i64) -> String {
    let (day, milli) = (at_ms.div_euclid(86_400_000), at_ms.rem_euclid(86_400_000));
    let (year, month, date) = civil(day);
    let second = milli / 1_000;
    format!(
        "{year:04}-{month:02}-{date:02}T{:02}:{:02}:{:02}.{:03}Z",
        second / 3_600,
        second / 60 % 60,
        second % 60,
        milli % 1_000
    )
}

/// Days since 1970 of a date: years begin in March, so that the leap day is the last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The date of a day since 1970.
fn civil(day: i64) -> (i64, i64, i64) {
    let day = day + 719_468;
    let era = day.div_euclid(146_097);
    let of_era = day.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let date = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + i64::from(month <= 2), month, date)
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
        for bad in ["", "yesterday", "2026-13-01T00:00:00Z", "2026-01-01", "2026-01-01T25:00:00Z"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
