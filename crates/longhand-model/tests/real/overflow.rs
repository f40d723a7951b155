use std::sync::Arc;
use std::time::{Duration, Instant};

use longhand_core::{Scale, Tokens};
use longhand_meter::{ImageRule, MeterSpec};
use longhand_model::{Api, ModelError, ModelRequest, ModelSummariser};
use longhand_summary::{Input, Summariser, SummaryRound};
use longhand_testkit::filler;

use crate::common::{APIS, WINDOW, client, complete, model, name, server};
use crate::counter::RequestCounter;

#[test]
fn every_api_says_that_a_prompt_is_too_long_and_how_long_it_may_be() {
    let Some(url) = server() else { return };
    let client = client(Duration::from_mins(1));
    let long = filler::words(12_000, 1);
    for api in APIS {
        for stream in [true, false] {
            let request = ModelRequest {
                max_output: Some(Tokens(8)),
                stream,
                ..ModelRequest::new("You are brief.", &long)
            };
            match complete(&client, &model(api, &url), &request).0 {
                Err(ModelError::TooLong { overflow, message, .. }) => {
                    assert_eq!(overflow.limit, Some(WINDOW), "{message}");
                    assert!(overflow.asked.unwrap() > WINDOW && !overflow.bytes, "{message}");
                }
                other => panic!("{}: {other:?}", name(api)),
            }
        }
    }
}

#[test]
fn input_beyond_the_window_is_sent_in_pieces() {
    let Some(url) = server() else { return };
    let counter = RequestCounter::before(&url);
    let texts: Vec<String> = (0..11).map(|seed| filler::words(700, seed)).collect();
    let rounds: Vec<SummaryRound> =
        (0..).zip(&texts).map(|(number, text)| round(number, text)).collect();
    let patience = Duration::from_mins(4);
    let client = Arc::new(client(patience));
    let summariser = ModelSummariser::new(client, model(Api::Chat, &counter.url())).unwrap();
    let summariser = summariser.with_output_max(Tokens(80));
    let meter = MeterSpec::O200k.open(ImageRule::OpenAiDearer).unwrap();
    let scale = Scale::new(&*meter);
    let start = Instant::now();
    let input = Input { earlier: None, rounds: &rounds };
    let summary = match summariser.summarise(&input, Tokens(100), &scale) {
        Err(_) if start.elapsed() > patience => {
            return println!("the model is too slow here to read that much");
        }
        summary => summary.unwrap(),
    };
    println!(
        "beyond the window: {} requests, {} tokens read, {} written, {:.1} s",
        counter.requests(),
        summary.input_tokens,
        summary.output_tokens,
        start.elapsed().as_secs_f64(),
    );
    // One is refused and teaches the limit; two or three pieces hold it all.
    assert!((3..=4).contains(&counter.requests()), "{} requests", counter.requests());
    assert!((7_500..14_000).contains(&summary.input_tokens.0), "{}", summary.input_tokens);
    assert!(!summary.text.is_empty());
}

fn round(number: u64, text: &str) -> SummaryRound<'_> {
    SummaryRound { number, user: "Go on.", assistant: text, tools: Vec::new() }
}
