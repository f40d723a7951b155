//! What clients have beside plain requests: helpers for streams, lists, counts, errors with a type.

use std::net::{Ipv4Addr, TcpListener};

use longhand_testkit::scripted::{ScriptStep, ScriptedReply, ScriptedServer};
use serde_json::json;

use crate::client::clients;
use crate::proxy::TestedProxy;

fn json_step(body: &serde_json::Value) -> ScriptStep {
    ScriptStep::Raw(200, vec![("content-type", "application/json".to_owned())], body.to_string())
}

fn script() -> Vec<ScriptStep> {
    let model = json!({"id": "scripted", "object": "model", "type": "model", "created": 1, "owned_by": "us",
        "display_name": "Scripted", "created_at": "2026-01-01T00:00:00Z"});
    let models = json!({"object": "list", "data": [model], "has_more": false, "first_id": "scripted", "last_id": "scripted"});
    let answer = |number: usize| {
        let text = format!("Answer {number}, “piece by piece”.");
        ScriptStep::Reply(ScriptedReply {
            id: format!("reply_{number}"),
            text,
            ..ScriptedReply::default()
        })
    };
    let mut steps =
        vec![json_step(&models), json_step(&models), json_step(&json!({"input_tokens": 7}))];
    steps.extend((0..3).map(answer));
    steps.extend((0..3).map(|_| ScriptStep::Status(400)));
    steps
}

#[test]
fn helpers_and_errors_are_those_of_the_provider() {
    for client in clients() {
        let server = ScriptedServer::start(script());
        let proxy = TestedProxy::start(&server.url(), 4_000);
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        let astray = TestedProxy::start(&format!("http://{free}"), 4_000);
        let seen = client.run("features", &format!("{} {}", proxy.url, astray.url));
        assert_eq!(seen["models"], json!([["scripted"], ["scripted"]]));
        assert_eq!(seen["tokens"], 7);
        let answers: Vec<String> =
            (0..3).map(|number| format!("Answer {number}, “piece by piece”.")).collect();
        assert_eq!(seen["streams"], json!(answers));
        for (key, error, status, message) in [
            ("refused", "BadRequestError", 400, "out of order"),
            ("unreachable", "InternalServerError", 502, "the upstream cannot be reached"),
        ] {
            for found in seen[key].as_array().unwrap() {
                assert_eq!((&found[0], &found[1]), (&json!(error), &json!(status)), "{seen}");
                assert!(found[2].as_str().unwrap().contains(message), "{seen}");
            }
            assert_eq!(seen[key].as_array().unwrap().len(), 3);
        }
    }
}
