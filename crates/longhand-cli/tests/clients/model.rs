//! Loops against a real model, until far over its window.

use std::time::{Duration, Instant};

use crate::client::{APIS, clients};
use crate::facts::{facts, tokens};
use crate::proxy::TestedProxy;

/// The window that `cargo xtask model` gives the model.
const WINDOW: u64 = 8_192;

/// Much less, as the model reads some hundred tokens in a second.
const BUDGET: u64 = 800;

const TURNS: usize = 3;

/// No further conversation begins after this, as some machines are slow.
const TIME_MAX: Duration = Duration::from_mins(2);

#[test]
fn a_real_model_answers_far_beyond_its_window() {
    let Some(url) = std::env::var("LONGHAND_MODEL_URL").ok().filter(|url| !url.is_empty()) else {
        println!("skipped: LONGHAND_MODEL_URL is not set; `cargo xtask test-clients` sets it");
        return;
    };
    let clients = clients();
    let begun = Instant::now();
    // The first three have both languages, all APIs, and both ways.
    for number in 0..if clients.is_empty() { 0 } else { 6 } {
        let (client, api) = (&clients[number % clients.len()], APIS[number % 3]);
        let stream = if number % 4 < 2 { "--stream" } else { "" };
        if number >= 3 && begun.elapsed() > TIME_MAX {
            println!("no time for {} {} {stream}", client.name(), api.name);
            continue;
        }
        let start = Instant::now();
        let proxy = TestedProxy::start(&url, BUDGET);
        // The model is too small to call a tool, so the client does.
        let options = "--own-calls --lines 230 --model smollm2-135m --max-tokens 16";
        let arguments = format!("{} {} {TURNS} {stream} {options}", proxy.url, api.name);
        let seen = client.run("agent", &arguments);
        let history = tokens(api.dialect, &seen["history"].to_string());
        println!(
            "{} {} {stream}: {history} tokens, {:.0} s",
            client.name(),
            api.name,
            start.elapsed().as_secs_f64()
        );
        assert!(history.0 > 2 * WINDOW, "{history}");
        assert_eq!(seen["answers"].as_array().unwrap().len(), TURNS);
        assert_eq!(proxy.archived(), [facts(api.dialect, &seen["history"])]);
    }
}
