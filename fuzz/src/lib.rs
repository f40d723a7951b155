//! What every fuzz target does with its bytes.
//!
//! The targets hand in bytes; [`laws`] says what must hold, whatever they are. A broken law is a panic.
#![forbid(unsafe_code)]

pub mod laws;
mod meter;
mod mutate;
mod proxy;
mod recipe;
mod stream;

use longhand_core::{Budget, PlanSettings, Policy, Rolling, Tokens};
use longhand_dialect::{Conversation, Dialect, read};

pub use mutate::mutate;
pub use proxy::{body_start, proxy};
pub use recipe::Recipe;
pub use stream::stream;

/// Reads bytes as a request of Chat Completions.
pub fn chat(bytes: &[u8]) {
    request(bytes, Dialect::Chat);
}

/// Reads bytes as a request of Responses.
pub fn responses(bytes: &[u8]) {
    request(bytes, Dialect::Responses);
}

/// Reads bytes as a request of Anthropic Messages.
pub fn anthropic(bytes: &[u8]) {
    request(bytes, Dialect::Anthropic);
}

/// Reads bytes as a session file; the first byte chooses whose.
pub fn session(bytes: &[u8]) {
    const DIALECTS: [Dialect; 3] = [Dialect::ClaudeCode, Dialect::Codex, Dialect::Pi];
    if let Some((first, bytes)) = bytes.split_first() {
        conversation(bytes, DIALECTS[usize::from(first % 3)]);
    }
}

/// Makes a valid conversation of the bytes, with a budget and settings, and compacts it.
pub fn plan(bytes: &[u8]) {
    let Ok(recipe) = Recipe::from_bytes(bytes) else { return };
    let before = read(recipe.json.clone().into_bytes(), Some(Dialect::Chat))
        .unwrap_or_else(|error| panic!("the recipe is not JSON: {error}: {}", recipe.json));
    assert_eq!(laws::graves(&before), [""; 0], "the recipe is not valid: {}", recipe.json);
    let budget = recipe.budget(laws::count(&before));
    let compacted = laws::compact(&before, &budget, &recipe.settings);
    laws::results_follow_their_calls(&compacted.after);
    laws::kept_stays(&before, &compacted.plan, &recipe.settings);
}

/// A request is never compressed; only session files are unpacked first.
fn request(bytes: &[u8], dialect: Dialect) {
    if !bytes.starts_with(&laws::ZSTD_MAGIC) {
        conversation(bytes, dialect);
    }
}

fn conversation(bytes: &[u8], dialect: Dialect) {
    if let Ok(found) = read(bytes.to_vec(), None) {
        laws::gives_back(&found, bytes);
        let _ = found.check();
    }
    if let Ok(before) = read(bytes.to_vec(), Some(dialect)) {
        laws::gives_back(&before, bytes);
        laws::repairs(&before);
        compactions(&before);
    }
}

/// Compacts a conversation to a few shares of its size, by every policy.
fn compactions(before: &Conversation) {
    let total = laws::count(before).0;
    let of_total = |permille: u64| Tokens(total.saturating_mul(permille) / 1_000);
    let budgets = [
        Budget::of(of_total(900)),
        Budget { reserve: of_total(60), ..Budget::of(of_total(600)) },
        Budget { target: Some(of_total(400)), ..Budget::of(of_total(700)) },
        Budget::of(of_total(200)),
    ];
    let rolling = Rolling { rounds_max: 2, ..Rolling::default() };
    let tails = [None, Some(0), Some(1), None];
    for (budget, keep_tail) in budgets.iter().zip(tails) {
        for policy in [Policy::Auto, Policy::Elide, Policy::Trim, Policy::Rolling(rolling)] {
            laws::compact(
                before,
                budget,
                &PlanSettings { policy, keep_tail, chars_min: 40, ..PlanSettings::default() },
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn each_seed(target: &str, run: impl Fn(&[u8])) {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
        for entry in fs::read_dir(corpus).unwrap().map(Result::unwrap) {
            if entry.file_name().to_string_lossy().starts_with("seed-") {
                println!("{}", entry.path().display());
                run(&fs::read(entry.path()).unwrap());
            }
        }
    }

    #[test]
    fn the_seeds_are_valid() {
        let check = |bytes: &[u8], dialect: Option<Dialect>| {
            let conversation = read(bytes.to_vec(), None).unwrap();
            assert_eq!(laws::graves(&conversation), [""; 0]);
            assert!(conversation.messages.len() > 1);
            assert!(dialect.is_none_or(|dialect| dialect == conversation.dialect));
        };
        each_seed("chat", |bytes| check(bytes, Some(Dialect::Chat)));
        each_seed("responses", |bytes| check(bytes, Some(Dialect::Responses)));
        each_seed("anthropic", |bytes| check(bytes, Some(Dialect::Anthropic)));
        each_seed("session", |bytes| check(&bytes[1..], None));
    }

    #[test]
    fn the_seeds_keep_the_laws() {
        each_seed("chat", chat);
        each_seed("responses", responses);
        each_seed("anthropic", anthropic);
        each_seed("session", session);
        each_seed("plan", plan);
        each_seed("proxy", proxy);
        each_seed("stream", stream);
    }
}
