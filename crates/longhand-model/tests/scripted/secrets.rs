use std::error::Error;

use longhand_model::{Api, Endpoint, Endpoints, ModelError, ModelRequest, Secret};
use longhand_testkit::scripted::{ScriptStep, ScriptedServer};

use crate::common::{APIS, KEY, client, limits, model, model_at};

/// Everything that an error can print, its causes included.
fn print(error: &ModelError) -> String {
    let mut text = format!("{error} {error:?} {error:#?}");
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(&format!("{inner} {inner:?}"));
        cause = inner.source();
    }
    text
}

#[tokio::test]
async fn a_key_that_is_echoed_is_taken_out() {
    let echo = format!("bad key {KEY} in 'Authorization: Bearer {KEY}'");
    let json = |status: u16| {
        let body = format!(r#"{{"error":{{"message":"{echo}","code":"{KEY}"}}}}"#);
        ScriptStep::Raw(status, vec![("content-type", "application/json".into())], body)
    };
    let plain =
        |status: u16| ScriptStep::Raw(status, vec![("content-type", KEY.into())], echo.clone());
    let event = format!("event: error\ndata: {{\"error\":{{\"message\":\"{echo}\"}}}}\n\n");
    let steps = [
        json(200),
        json(400),
        json(401),
        json(403),
        json(404),
        json(413),
        json(500),
        plain(200),
        plain(302),
        plain(400),
        plain(401),
        plain(503),
        ScriptStep::Raw(429, vec![("retry-after", KEY.into())], echo.clone()),
        ScriptStep::Raw(200, vec![("content-type", "text/event-stream".into())], event),
        ScriptStep::Drop,
    ];
    for api in APIS {
        for step in &steps {
            let server = ScriptedServer::start(vec![step.clone(); 3]);
            let (client, _) = client(limits());
            let error = client
                .complete(&model_at(api, &server), &ModelRequest::new("", "Hi"), &mut |_| {})
                .await
                .unwrap_err();
            let printed = print(&error);
            assert!(!printed.contains(KEY) && !printed.contains("secret"), "{step:?}: {printed}");
            assert!(!format!("{client:?}").contains("secret"));
        }
    }
}

#[tokio::test]
async fn a_key_is_not_part_of_what_describes_an_endpoint() {
    let endpoints = Endpoints::known(|_| Some(KEY.to_owned()));
    let model = endpoints.model("openai/gpt-4o").unwrap();
    assert!(!format!("{endpoints:?} {model:?} {model}").contains("secret"));
    let endpoint = Endpoint { key: Secret::new(KEY), ..Endpoint::new("x", Api::Chat, "http://x") };
    assert!(!format!("{endpoint:#?}").contains("secret"));
}

#[tokio::test]
async fn an_address_that_cannot_be_used_is_refused_without_showing_it() {
    let (client, _) = client(limits());
    for url in ["", "nonsense", "ftp://x/v1", "http://me:secret@127.0.0.1:9/v1", "file:///secret"] {
        let result = client
            .complete(&model(Api::Chat, url), &ModelRequest::new("", "Hi"), &mut |_| {})
            .await;
        let error = result.unwrap_err();
        assert!(matches!(error, ModelError::Endpoint { .. }), "{url}: {error:?}");
        assert!(!print(&error).contains("secret"));
    }
    let mut odd = model(Api::Chat, "http://127.0.0.1:9/v1");
    odd.endpoint = std::sync::Arc::new(Endpoint {
        key: Secret::new("secret\nwith a line"),
        ..(*odd.endpoint).clone()
    });
    let error = client.complete(&odd, &ModelRequest::new("", "Hi"), &mut |_| {}).await.unwrap_err();
    assert!(matches!(error, ModelError::Endpoint { .. }) && !print(&error).contains("secret"));
}
