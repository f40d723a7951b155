//! A made-up session of a coding agent, long enough to need compaction.

mod author;
mod build;
mod diff;
mod grammar;
mod patch;
mod phrases;
mod project;
mod source;
mod story;
mod talk;
mod testrun;
mod tools;
mod transcript;

use serde_json::{Value, json};

use self::author::Author;
use self::grammar::Bindings;
use crate::rng::Rng;

pub use talk::{chat_session, service_session};

/// The seed of `examples/long-session.json`.
pub const EXAMPLE_SEED: u64 = 3;

/// The tokens that `examples/long-session.json` has at least.
pub const EXAMPLE_TOKENS: usize = 60_000;

/// Measured over many seeds, and on the safe side.
const BYTES_PER_TOKEN: f64 = 3.4;

/// Returns the text of `examples/long-session.json`.
pub fn example_file() -> String {
    format!("{:#}\n", coding_session(EXAMPLE_SEED, EXAMPLE_TOKENS))
}

/// Makes the request body of a coding agent in mid-session, in the form of Chat Completions.
///
/// The same seed gives the same session on every platform. It has at least the given number of
/// o200k tokens, and some 60,000 in any case: the plot is played to its end.
pub fn coding_session(seed: u64, tokens_at_least: usize) -> Value {
    let mut rng = Rng::new(seed);
    let world = world(&mut rng);
    let mut author = Author::new(rng, world);
    let system = author.write(phrases::system(), &[]);
    author.transcript.text("system", &system);
    story::play(&mut author, (tokens_at_least as f64 * BYTES_PER_TOKEN) as usize);
    json!({
        "model": "gpt-4o",
        "messages": author.transcript.into_messages(),
        "tools": tools::schemas(),
    })
}

/// Chooses what stays true for the whole session.
fn world(rng: &mut Rng) -> Bindings {
    let mut world = Bindings::new();
    let (slots, tick) = (512, *rng.choose(&[5, 8, 10, 20]));
    let version = format!("0.{}.{}", rng.range(6..9), rng.range(1..6));
    for (word, value) in [
        ("slots", slots.to_string()),
        ("tick", tick.to_string()),
        ("turn", (slots * tick).to_string()),
        ("lease", rng.choose(&[15, 30, 45]).to_string()),
        ("version", version),
    ] {
        world.insert(word.to_owned(), value);
    }
    for (word, prefix, length) in [("goal", "g-", 5), ("session", "s-", 8)] {
        let mut id = prefix.to_owned();
        rng.push_letters(&mut id, b"0123456789abcdefghjkmnpqrstvwxyz", length);
        world.insert(word.to_owned(), id);
    }
    world
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn messages(session: &Value) -> &[Value] {
        session["messages"].as_array().unwrap()
    }

    fn calls(message: &Value) -> &[Value] {
        message["tool_calls"].as_array().map_or(&[], Vec::as_slice)
    }

    #[test]
    fn a_seed_always_gives_the_same_session() {
        assert_eq!(coding_session(5, 60_000), coding_session(5, 60_000));
        assert_ne!(coding_session(5, 60_000), coding_session(6, 60_000));
    }

    #[test]
    fn every_call_is_answered_directly() {
        for seed in 0..20 {
            let session = coding_session(seed, 60_000);
            let mut open = BTreeSet::new();
            let mut seen = BTreeSet::new();
            for message in messages(&session) {
                if message["role"] == "tool" {
                    assert!(open.remove(message["tool_call_id"].as_str().unwrap()));
                    continue;
                }
                assert!(open.is_empty(), "seed {seed}");
                assert!(message["content"].as_str().is_none_or(|text| !text.trim().is_empty()));
                assert!(!message["content"].is_null() || !calls(message).is_empty());
                for call in calls(message) {
                    let id = call["id"].as_str().unwrap();
                    assert!(seen.insert(id) && open.insert(id));
                }
            }
            assert!(open.is_empty(), "seed {seed}");
        }
    }

    #[test]
    fn sessions_have_what_makes_them_real() {
        for seed in 0..20 {
            let session = coding_session(seed, 60_000);
            let messages = messages(&session);
            let count =
                |role: &str| messages.iter().filter(|message| message["role"] == role).count();
            assert!((150..=260).contains(&messages.len()), "seed {seed}: {}", messages.len());
            assert!((8..=12).contains(&count("user")));
            assert!(messages.iter().any(|message| calls(message).len() > 1));
            let texts: Vec<&str> =
                messages.iter().filter_map(|message| message["content"].as_str()).collect();
            assert!(texts.iter().any(|text| text.len() > 40_000));
            let said = texts.join("\n");
            for wanted in [
                "Decision: keep the wheel at 512 slots, because",
                "\nBlocked: ",
                "Unblocked: ",
                "Open question: ",
                "Never edit files under vendor/",
                "... FAILED",
            ] {
                assert!(said.contains(wanted), "seed {seed} lacks {wanted:?}");
            }
        }
    }

    #[test]
    fn patches_are_of_all_sizes_and_leave_vendor_alone() {
        let session = coding_session(EXAMPLE_SEED, EXAMPLE_TOKENS);
        let arguments = messages(&session).iter().flat_map(calls).map(|call| &call["function"]);
        let patches: Vec<&str> = arguments
            .filter(|function| function["name"] == "apply_patch")
            .filter_map(|function| function["arguments"].as_str())
            .collect();
        assert!(patches.iter().any(|patch| patch.len() > 3_000));
        assert!(patches.iter().any(|patch| patch.len() < 1_000));
        assert!(patches.iter().all(|patch| !patch.contains("+++ b/vendor/")));
    }

    #[test]
    fn a_larger_session_is_larger() {
        let size = |tokens| coding_session(1, tokens).to_string().len();
        assert!(size(200_000) > 3 * size(60_000) / 2);
    }
}
