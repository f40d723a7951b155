//! What users, models and tools of a growing request write.

use super::PieceSize;
use crate::arbitrary::text::{AWKWARD, FACTS, WORDS};
use crate::json::quote;
use crate::picture::{Picture, base64};
use crate::rng::Rng;

/// A short text, neither beginning nor ending with white space.
pub(super) fn prose(rng: &mut Rng) -> String {
    let mut text = rng.choose(WORDS).to_string();
    for _ in 0..rng.range(1..30) {
        match rng.range(0..10) {
            0 => text.push_str(rng.choose::<&str>(AWKWARD)),
            1 | 2 => text.push_str(rng.choose::<&str>(FACTS)),
            3 => text.push_str(&format!("{}-{}", rng.choose(WORDS), rng.range(0..100_000))),
            _ => text.push_str(rng.choose::<&str>(WORDS)),
        }
        text.push(' ');
    }
    text.trim().to_owned()
}

/// What a user sends: mostly a few words, sometimes what a client wraps around them, the output of
/// a command, or a long paste.
pub(super) fn user_text(rng: &mut Rng, weight: PieceSize) -> String {
    let paste = if weight == PieceSize::Heavy { 0.15 } else { 0.02 };
    if rng.chance(paste) {
        let length = rng.range(9_000..if weight == PieceSize::Heavy { 60_000 } else { 12_000 });
        return format!("{}\n{}", prose(rng), lines(rng, length));
    }
    match rng.range(0..20) {
        0..=2 => wrapped(rng),
        3 => observation(rng),
        _ => prose(rng),
    }
}

/// A text in the wrapper that a client puts around it.
pub(super) fn wrapped(rng: &mut Rng) -> String {
    let text = prose(rng);
    let wrapper = rng.choose(WRAPPERS);
    wrapper.replace("{}", &text)
}

#[rustfmt::skip]
const WRAPPERS: &[&str] = &[
    "<system-reminder>\n{}\n</system-reminder>",
    "<environment_context>\n  <cwd>/repo</cwd>\n  <shell>bash</shell>\n</environment_context>\n{}",
    "<user_instructions>\n\n{}\n\n</user_instructions>",
    "<user_query>\n{}\n</user_query>",
    "<task>\n{}\n</task>\n\n<environment_details>\n# Current Mode\nACT MODE\n</environment_details>",
    "<command-name>/review</command-name>\n<command-args>{}</command-args>",
    "<local-command-stdout>{}</local-command-stdout>",
    "# Context from my IDE setup:\n\n## Open tabs:\n- fold.rs: src/fold.rs\n\n## My request for Codex:\n{}",
];

/// What a shell printed, as agents without tools send it.
fn observation(rng: &mut Rng) -> String {
    let length = rng.range(400..3_000);
    format!("OBSERVATION:\n{}\n(Current directory: /repo)\nbash-$", lines(rng, length))
}

/// Lines of at least `length` bytes, no two alike.
pub(super) fn lines(rng: &mut Rng, length: usize) -> String {
    let mut text = String::with_capacity(length + 100);
    let mut number = 0;
    while text.len() < length {
        number += 1;
        let (first, second) = (*rng.choose(WORDS), *rng.choose(WORDS));
        let fact = *rng.choose(FACTS);
        text.push_str(&format!(
            "src/file_{}.rs:{number}: {first} {second} {fact}\n",
            rng.range(0..9)
        ));
    }
    text.trim_end().to_owned()
}

/// What a tool printed: never empty.
pub(super) fn output(rng: &mut Rng, weight: PieceSize) -> String {
    match rng.range(0..6) {
        0..=2 => prose(rng),
        3 => format!("{}\n", prose(rng)),
        _ => {
            let length = rng.range(200..if weight == PieceSize::Heavy { 40_000 } else { 3_000 });
            lines(rng, length)
        }
    }
}

/// The text of a JSON object.
pub(super) fn arguments(rng: &mut Rng) -> String {
    let path = quote(&format!("src/{}.rs", rng.choose(WORDS)));
    match rng.range(0..6) {
        0 => "{}".to_owned(),
        1 => format!("{{\"path\": {path}, \"from\": 1.0, \"to\": 1e3}}"),
        2 => format!(
            "{{\"query\":{},\"options\":{{\"case\":null,\"paths\":[{path}]}}}}",
            quote(&prose(rng))
        ),
        3 => {
            let length = rng.range(300..2_500);
            format!("{{\"path\":{path},\"content\":{}}}", quote(&lines(rng, length)))
        }
        _ => format!("{{\"path\":{path}}}"),
    }
}

/// The input of a custom tool, which is no JSON.
pub(super) fn patch(rng: &mut Rng) -> String {
    let name = rng.choose(WORDS);
    format!(
        "*** Begin Patch\n*** Update File: src/{name}.rs\n@@\n-{}\n+{}\n*** End Patch",
        prose(rng),
        prose(rng)
    )
}

/// Opaque data such as signatures and encrypted reasoning.
pub(super) fn opaque(rng: &mut Rng, bytes: usize) -> String {
    let bytes: Vec<u8> = (0..bytes).map(|_| rng.next_u64() as u8).collect();
    base64(&bytes)
}

/// A picture of 600 bytes to 3 KB, or of 300 KB as base64 where requests are heavy.
pub(super) fn picture(rng: &mut Rng, weight: PieceSize) -> Picture {
    let (width, height) =
        *rng.choose(&[(1, 1), (64, 48), (800, 600), (1280, 720), (1568, 1568), (1920, 1080)]);
    let bytes = if weight == PieceSize::Heavy { 225_000 } else { rng.range(600..3_000) };
    if rng.chance(0.5) {
        Picture::png(u32::from(width), u32::from(height), bytes, rng)
    } else {
        Picture::jpeg(width, height, bytes, rng)
    }
}
