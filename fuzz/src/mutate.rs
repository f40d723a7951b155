//! Changes that leave JSON whole, so that most inputs get past the reader.

use std::ops::Range;

use longhand_core::json::{JsonCursor, JsonError, JsonKind, JsonValue};

/// Changes the JSON in `buffer[start..size]`; answers with the new size.
///
/// One time in four, and where there is no JSON or no room, that is left to whoever asks.
pub fn mutate(buffer: &mut [u8], start: usize, size: usize, seed: u32) -> Option<usize> {
    let source = str::from_utf8(buffer.get(start..size)?).ok()?;
    let changed = changed(source, seed / 4).filter(|_| !seed.is_multiple_of(4))?;
    let size = start + changed.len();
    buffer.get_mut(start..size)?.copy_from_slice(changed.as_bytes());
    Some(size)
}

/// Drops, doubles, moves, swaps or copies a value, or lets a string grow.
fn changed(source: &str, seed: u32) -> Option<String> {
    let spots = spots(source).ok()?;
    let mut dice = Dice(u64::from(seed));
    let one = &spots[dice.below(spots.len())?];
    let other = &spots[dice.below(spots.len())?];
    let text = |spot: &Spot| &source[spot.span.clone()];
    let end = one.span.end;
    Some(match dice.below(6)? {
        0 => with(source, one.removal(source)?, ""),
        1 => with(source, end..end, &format!("{}{}", one.separator?, text(one))),
        2 if one.span.end <= other.span.start => {
            let moved = format!("{}{}", other.separator?, text(one));
            let added = with(source, other.span.end..other.span.end, &moved);
            with(&added, one.removal(source)?, "")
        }
        3 if one.span.end <= other.span.start => {
            let changed = with(source, other.span.clone(), text(one));
            with(&changed, one.span.clone(), text(other))
        }
        4 if one.kind == JsonKind::String => {
            let filler = ["word ", "src/a.rs:7 ", "\\n", "é", "{}"][dice.below(5)?];
            with(source, end - 1..end - 1, &filler.repeat(1 << dice.below(8)?))
        }
        _ => with(source, one.span.clone(), text(other)),
    })
}

fn with(source: &str, range: Range<usize>, text: &str) -> String {
    format!("{}{text}{}", &source[..range.start], &source[range.end..])
}

/// A value, and what parts it from the next one if it stands in a list.
struct Spot {
    span: Range<usize>,
    kind: JsonKind,
    separator: Option<&'static str>,
}

impl Spot {
    fn new(value: JsonValue, separator: Option<&'static str>) -> Self {
        Self { span: value.span(), kind: value.kind, separator }
    }

    /// The value with the comma before or after it.
    fn removal(&self, source: &str) -> Option<Range<usize>> {
        if self.separator? == "\n" {
            return Some(self.span.clone());
        }
        let Range { start, end } = self.span;
        let before = source[..start].trim_end();
        let after = source[end..].trim_start();
        Some(if before.ends_with(',') {
            before.len() - 1..end
        } else if let Some(rest) = after.strip_prefix(',') {
            start..source.len() - rest.len()
        } else {
            start..end
        })
    }
}

/// Finds every value at any depth; the outermost ones are lines.
fn spots(source: &str) -> Result<Vec<Spot>, JsonError> {
    let mut found = Vec::new();
    let mut lines = JsonCursor::new(source);
    while lines.peek().is_some() {
        found.push(Spot::new(lines.value()?, Some("\n")));
    }
    let mut next = 0;
    while let Some(Spot { span, kind, .. }) = found.get(next) {
        let (kind, mut cursor) = (*kind, JsonCursor::at(source, span.start));
        match kind {
            JsonKind::Object => cursor.fields(|cursor, _| {
                found.push(Spot::new(cursor.value()?, None));
                Ok(())
            })?,
            JsonKind::Array => cursor.elements(|cursor| {
                found.push(Spot::new(cursor.value()?, Some(",")));
                Ok(())
            })?,
            _ => {}
        }
        next += 1;
    }
    Ok(found)
}

/// Numbers from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, count: usize) -> Option<usize> {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).ok()?.checked_rem(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_stays_json() {
        let mut source = "{\"a\":[1, {\"b\":\"é\"} ,[]]}\n{}".to_owned();
        for seed in 0..20_000 {
            if let Some(changed) = changed(&source, seed).filter(|changed| changed.len() < 4_096) {
                assert!(spots(&changed).is_ok(), "{source} became {changed}");
                source = changed;
            }
        }
    }
}
