use std::time::{Duration, Instant};

use longhand_core::Tokens;
use longhand_model::{Api, ModelRequest, Stop};

use crate::common::{APIS, client, complete, model, name, server};

#[test]
fn every_api_answers_streaming_and_not() {
    let Some(url) = server() else { return };
    let client = client(Duration::from_mins(1));
    for api in APIS {
        for stream in [true, false] {
            let request = ModelRequest {
                max_output: Some(Tokens(24)),
                temperature: Some(0.0),
                stream,
                ..ModelRequest::new("You are brief.", "What is the capital of France? Grüße!")
            };
            let start = Instant::now();
            let (reply, deltas) = complete(&client, &model(api, &url), &request);
            let reply = reply.unwrap();
            println!(
                "{}, {}: {:.1} s, {:?}, {:?}",
                name(api),
                if stream { "streaming" } else { "whole" },
                start.elapsed().as_secs_f64(),
                reply.stop,
                reply.text,
            );
            assert!(!reply.text.trim().is_empty());
            assert_eq!(deltas.concat(), reply.text);
            assert!(if stream { deltas.len() > 1 } else { deltas.len() == 1 }, "{deltas:?}");
            let usage = reply.usage.expect("llama.cpp reports usage");
            assert!(
                (20..80).contains(&usage.input) && (1..=24).contains(&usage.output),
                "{usage:?}"
            );
            // It ends Responses as complete whatever happened.
            if usage.output == 24 && api != Api::Responses {
                assert_eq!(reply.stop, Stop::Length);
            }
        }
    }
}
