use std::time::Duration;

use longhand_model::{Api, ClientLimits, Model, ModelClient, ModelError, ModelRequest, Reply};
use longhand_testkit::scripted::{ScriptStep, ScriptedServer};

use crate::common::{client, limits, model_at};

async fn ask(client: &ModelClient, model: &Model) -> Result<Reply, ModelError> {
    client.complete(model, &ModelRequest::new("", "Hi"), &mut |_| {}).await
}

fn once() -> ClientLimits {
    ClientLimits { attempts: 1, ..limits() }
}

#[tokio::test]
async fn an_endpoint_that_fails_gets_a_rest() {
    let mut steps = vec![ScriptStep::Status(500); 3];
    steps.extend([ScriptStep::Status(500), ScriptStep::Answer("Well again.".into())]);
    steps.push(ScriptStep::Answer("And again.".into()));
    let server = ScriptedServer::start(steps);
    let well = ScriptedServer::start([ScriptStep::Answer("Always well.".into())]);
    let (client, clock) = client(once());
    let model = model_at(Api::Chat, &server);
    for _ in 0..3 {
        assert!(matches!(ask(&client, &model).await, Err(ModelError::Server { .. })));
    }
    let Err(ModelError::Resting { rest, .. }) = ask(&client, &model).await else {
        panic!("it rests");
    };
    assert_eq!(rest, Duration::from_secs(30));
    assert_eq!(server.requests().len(), 3, "nothing is sent meanwhile");
    assert!(ask(&client, &model_at(Api::Chat, &well)).await.is_ok(), "another is not concerned");
    clock.advance(Duration::from_secs(30));
    assert!(matches!(ask(&client, &model).await, Err(ModelError::Server { .. })));
    assert!(matches!(ask(&client, &model).await, Err(ModelError::Resting { .. })));
    clock.advance(Duration::from_secs(30));
    assert_eq!(ask(&client, &model).await.unwrap().text, "Well again.");
    assert_eq!(ask(&client, &model).await.unwrap().text, "And again.");
    assert_eq!(server.requests().len(), 6);
}

#[tokio::test]
async fn a_rest_that_begins_between_attempts_tells_what_went_wrong() {
    let server = ScriptedServer::start(vec![ScriptStep::Status(503); 9]);
    let (client, _) = client(ClientLimits { attempts: 5, ..limits() });
    let model = model_at(Api::Chat, &server);
    assert!(matches!(ask(&client, &model).await, Err(ModelError::Server { status: 503, .. })));
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn a_wait_longer_than_the_call_may_take_is_not_begun() {
    let server = ScriptedServer::start([ScriptStep::Limited(Some("59".into()))]);
    let (client, clock) = client(ClientLimits { total: Duration::from_secs(20), ..limits() });
    let result = ask(&client, &model_at(Api::Chat, &server)).await;
    assert!(matches!(result, Err(ModelError::RateLimited { .. })), "{result:?}");
    assert!(clock.slept().is_empty());
}

#[tokio::test]
async fn a_refused_request_does_not_speak_against_the_endpoint() {
    let mut steps = vec![ScriptStep::Status(400); 4];
    steps.extend(vec![ScriptStep::Limited(None); 4]);
    steps.push(ScriptStep::Answer("Fine.".into()));
    let server = ScriptedServer::start(steps);
    let (client, _) = client(once());
    let model = model_at(Api::Anthropic, &server);
    for _ in 0..8 {
        let error = ask(&client, &model).await.unwrap_err();
        assert!(!matches!(error, ModelError::Resting { .. }), "{error}");
    }
    assert!(ask(&client, &model).await.is_ok());
}

#[tokio::test]
async fn a_call_that_is_dropped_is_cancelled_and_blocks_nobody() {
    let mut steps = vec![ScriptStep::Status(500); 3];
    steps.extend([ScriptStep::Hang, ScriptStep::Answer("Fine.".into())]);
    let server = ScriptedServer::start(steps);
    let (client, clock) = client(ClientLimits { first_byte: Duration::from_secs(9), ..once() });
    let model = model_at(Api::Responses, &server);
    for _ in 0..3 {
        assert!(ask(&client, &model).await.is_err());
    }
    clock.advance(Duration::from_secs(30));
    let dropped = tokio::time::timeout(Duration::from_millis(200), ask(&client, &model)).await;
    assert!(dropped.is_err(), "it hangs");
    assert_eq!(ask(&client, &model).await.unwrap().text, "Fine.");
    assert_eq!(server.requests().len(), 5);
}
