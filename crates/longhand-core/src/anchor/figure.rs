//! Numbers that mean something: those with a unit.

use super::word::is_break;

/// Units that follow their number, attached or after a space.
#[rustfmt::skip]
const UNITS: &[&str] = &[
    "%", "B", "EUR", "GB", "GB/s", "GHz", "GW", "Gbps", "GiB", "Hz", "KB", "KB/s", "KiB", "MB",
    "MB/s", "MHz", "MW", "Mbps", "MiB", "TB", "TiB", "USD", "bit", "bits", "bps", "byte", "bytes",
    "cents", "cm", "day", "days", "dollars", "euros", "h", "hour", "hours", "hrs", "kB", "kHz",
    "kW", "kWh", "kbps", "kg", "km", "min", "mins", "minute", "minutes", "mm", "month", "months",
    "ms", "ns", "percent", "ppm", "qps", "req/s", "rps", "s", "sec", "second", "seconds", "secs",
    "tok/s", "token", "tokens", "tokens/s", "us", "week", "weeks", "year", "years", "°C", "°F",
    "µs", "μs",
];

/// Units that must touch their number, since alone they are words.
const ATTACHED: &[&str] = &["d", "m"];

const CURRENCIES: &[&str] = &["$", "€", "£", "¥"];

const UNIT_BYTES_MAX: usize = 8;

/// Finds the figure that begins in a word with a digit, as a span; its unit may be the next word.
pub(super) fn figure(text: &str, word_start: usize, word: &str) -> Option<(usize, usize)> {
    let bytes = text.as_bytes();
    let digit = word_start + word.bytes().position(|byte| byte.is_ascii_digit())?;
    let number = number_len(&bytes[digit..]);
    let mut end = digit + number;
    let before = digit.checked_sub(1).map_or(b' ', |before| bytes[before]);
    let after = bytes.get(end).copied().unwrap_or_default();
    let clear = match before {
        b'-' => digit == word_start + 1,
        b'=' | b'~' | b'+' | b':' | b'$' | 0x80.. => true,
        byte => is_break(byte),
    };
    let priced = before == b'$' || before >= 0x80;
    let measured = matches!(after, b' ' | b'%' | b'A'..=b'Z' | b'a'..=b'z' | 0x80..);
    // Most numbers mean nothing by themselves; those before an `m` may colour a terminal.
    let colours = matches!(before, b'[' | b';') && after == b'm';
    if !clear || colours || !(priced || measured) {
        return None;
    }
    let multiple = matches!(after, b'k' | b'K' | b'M') && !continues(text, end + 1);
    let currency = CURRENCIES.iter().find(|currency| text[word_start..digit].ends_with(**currency));
    if let Some(currency) = currency {
        end += usize::from(multiple);
        // `$1` is an argument of a script.
        let sum = (number > 1 || multiple) && !continues(text, end);
        return sum.then_some((digit - currency.len(), end));
    }
    end += usize::from(multiple);
    end += unit_len(&text[end..])?;
    Some((digit, end))
}

/// The length of `1,000.5` at the start of a text.
fn number_len(bytes: &[u8]) -> usize {
    let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let mut end = digits(0);
    while bytes.get(end) == Some(&b',') && digits(end + 1) == 3 {
        end += 4;
    }
    if bytes.get(end) == Some(&b'.') && digits(end + 1) > 0 {
        end += 1 + digits(end + 1);
    }
    end
}

/// The length of a unit at the start of a text, with the space before it.
fn unit_len(text: &str) -> Option<usize> {
    let apart = usize::from(text.starts_with(' '));
    let rest = &text[apart..];
    let window = &rest[..rest.floor_char_boundary(UNIT_BYTES_MAX + 1)];
    if window.starts_with('%') {
        return (apart == 0 && !continues(rest, 1)).then_some(1);
    }
    let letters =
        window.find(|c: char| !(c.is_alphabetic() || c == '°' || c == '/')).unwrap_or(window.len());
    let unit = window[..letters].trim_end_matches('/');
    let known = UNITS.binary_search(&unit).is_ok() || (apart == 0 && ATTACHED.contains(&unit));
    (known && !continues(rest, unit.len())).then_some(apart + unit.len())
}

/// Whether a word goes on at a place.
fn continues(text: &str, at: usize) -> bool {
    text[at..].chars().next().is_some_and(|c| c.is_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anchor::word::Words;

    #[test]
    fn units_are_sorted() {
        assert!(UNITS.is_sorted());
    }

    #[test]
    fn only_real_units_make_a_figure() {
        for (text, expected) in [
            ("in 30 ms.", "30 ms"),
            ("timeout=30ms", "30ms"),
            ("24k tokens", "24k tokens"),
            ("a 4.5 GB file", "4.5 GB"),
            ("(12%)", "12%"),
            ("for $19.99", "$19.99"),
            ("1,000 ms", "1,000 ms"),
            ("≥50 MB/s", "50 MB/s"),
            ("€5M", "€5M"),
            ("30µs", "30µs"),
            ("20 °C", "20 °C"),
            ("-5%", "5%"),
            ("2 days", "2 days"),
            ("5m", "5m"),
            ("\u{1b}[1;32mok", ""),
            ("512 slots", ""),
            ("5 m", ""),
            ("$1", ""),
            ("5%d", ""),
            ("a5ms", ""),
            ("3.5", ""),
            ("1.5.2s", ""),
            ("5ms_max", ""),
            ("7", ""),
        ] {
            let found = Words::new(text).find_map(|word| figure(text, word.start(), word.whole()));
            assert_eq!(found.map_or("", |(start, end)| &text[start..end]), expected, "{text}");
        }
    }
}
