//! An oversized text cut to its head and tail.

use crate::anchor::failure_line;
use crate::cut;
use crate::stub::{MARK, clean, grouped};
use crate::{Handle, Scale};

/// The least of a text's two ends that a clip keeps.
const KEPT_BYTES_MIN: usize = 240;

/// The most characters of the line that tells most.
const TELLING_CHARS_MAX: usize = 240;

/// Cuts `text` to the longest head and tail that weigh at most `limit`, and keeps the line of the gravest failure.
///
/// Answers with the smallest clip if that is still too heavy, and with `None` if a clip would not be
/// shorter than the text.
pub(crate) fn clip(handle: Handle, text: &str, scale: &Scale, limit: u64) -> Option<String> {
    clip_telling(handle, text, gravest(text), scale, limit)
}

/// Like [`clip`], and keeps the most telling line if the cut would drop it.
pub(crate) fn clip_telling(
    handle: Handle,
    text: &str,
    telling: Option<&str>,
    scale: &Scale,
    limit: u64,
) -> Option<String> {
    let weight = |clip: &String| scale.meter().weigh(clip, limit);
    let clip_to = |bytes: usize| clip_around(handle, text, bytes, telling);
    let mut best = clip_to(KEPT_BYTES_MIN)?;
    if weight(&best) >= limit {
        return Some(best);
    }
    let (mut low, mut high) = (KEPT_BYTES_MIN, text.len());
    // A dozen halvings bring the size within a fraction of a percent; each weighs at most the limit.
    for _ in 0..14 {
        let middle = usize::midpoint(low, high);
        if middle == low {
            break;
        }
        match clip_to(middle).filter(|clip| weight(clip) <= limit) {
            Some(clip) => (low, best) = (middle, clip),
            None => high = middle,
        }
    }
    Some(best)
}

/// The smallest clip of a text, if that is shorter than the text.
pub(crate) fn clip_least(handle: Handle, text: &str) -> Option<String> {
    clip_around(handle, text, KEPT_BYTES_MIN, gravest(text))
}

fn gravest(text: &str) -> Option<&str> {
    failure_line(text).map(|(line, _)| line)
}

/// Keeps about `bytes` of a text, two thirds of them from its head, whole lines where there are any.
pub(crate) fn clip_to(handle: Handle, text: &str, bytes: usize) -> Option<String> {
    clip_around(handle, text, bytes, None)
}

fn clip_around(handle: Handle, text: &str, bytes: usize, telling: Option<&str>) -> Option<String> {
    if text.len() <= bytes {
        return None;
    }
    let head = head_of(text, bytes - bytes / 3);
    let rest = &text[head.len()..];
    let tail = tail_of(rest, bytes / 3);
    let gone = &rest[..rest.len() - tail.len()];
    let first = head.matches('\n').count() + 1;
    let last = first + gone.trim_end_matches('\n').matches('\n').count();
    let lines = first + rest.trim_end_matches('\n').matches('\n').count();
    let glue = if head.is_empty() || head.ends_with('\n') { "" } else { "\n" };
    let telling = telling.filter(|line| !head.contains(line) && !tail.contains(line));
    let told = telling.map(|line| format!("; {}", clean(line, TELLING_CHARS_MAX)));
    let clip = format!(
        "{head}{glue}{MARK}clip {handle}: {} chars left out, lines {first}-{last} of {lines}{}]\n{tail}",
        grouped(gone.chars().count()),
        told.unwrap_or_default()
    );
    (clip.len() < text.len()).then_some(clip)
}

/// Takes at most `bytes` from the start: up to a line's end if that keeps at least half of them.
fn head_of(text: &str, bytes: usize) -> &str {
    let head = cut::head(text, bytes);
    match head.rfind('\n') {
        Some(line) if line + 1 >= bytes / 2 => &head[..=line],
        _ => head,
    }
}

/// Takes at most `bytes` from the end: from a line's start if that keeps at least half of them.
fn tail_of(text: &str, bytes: usize) -> &str {
    let tail = cut::tail(text, bytes);
    match tail.find('\n') {
        Some(line) if tail.len() - line > bytes / 2 => &tail[line + 1..],
        _ => tail,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clip_keeps_whole_lines_and_names_the_missing_ones() {
        let text: String = (1..=100).map(|line| format!("line {line}\n")).collect();
        let clip = clip_to(Handle::of(["x"]), &text, 60).unwrap();
        assert_eq!(
            clip,
            "line 1\nline 2\nline 3\nline 4\nline 5\n\
             [longhand clip h:bht03g7c4bqe: 740 chars left out, lines 6-98 of 100]\n\
             line 99\nline 100\n"
        );
        assert_eq!(clip_to(Handle::of(["x"]), "short", 60), None);
    }

    #[test]
    fn a_clip_keeps_the_line_of_a_failure() {
        let lines = "INFO web-1 all is well\n".repeat(60);
        let text = format!("{lines}FATAL web-1 disk is full\n{lines}");
        let clip = clip_least(Handle::of(["x"]), &text).unwrap();
        assert!(clip.contains("of 121; FATAL web-1 disk is full]"), "{clip}");
    }

    #[test]
    fn a_text_of_one_line_is_cut_between_characters() {
        let text = "é".repeat(1_000);
        let clip = clip_to(Handle::of(["x"]), &text, 101).unwrap();
        assert!(clip.starts_with(&"é".repeat(34)) && clip.ends_with(&"é".repeat(16)), "{clip}");
    }
}
