use std::time::Duration;

use longhand_core::Tokens;
use longhand_model::{
    Api, ClientLimits, ModelError, ModelRequest, Overflow, Reply, Stop, Usage, Wait,
};
use longhand_testkit::scripted::{ScriptStep, ScriptedServer, USAGE_INPUT, USAGE_OUTPUT};

use crate::common::{APIS, KEY, client, limits, model, model_at, short};

const TEXT: &str = "Grüße an alle, und noch ein paar Worte mehr.";

fn answer() -> ScriptStep {
    ScriptStep::Answer(TEXT.to_owned())
}

struct CallOutcome {
    result: Result<Reply, ModelError>,
    said: String,
    slept: Vec<Duration>,
}

/// Plays a script against all three APIs, streaming and not: how many requests it takes and what comes
/// out of it.
async fn check(steps: &[ScriptStep], requests: usize, expect: impl Fn(&CallOutcome) -> bool) {
    check_within(&limits(), steps, requests, expect).await;
}

async fn check_within(
    limits: &ClientLimits,
    steps: &[ScriptStep],
    requests: usize,
    expect: impl Fn(&CallOutcome) -> bool,
) {
    for api in APIS {
        for stream in [false, true] {
            let server = ScriptedServer::start(steps.to_vec());
            let (client, clock) = client(limits.clone());
            let request = ModelRequest { stream, ..ModelRequest::new("Be brief.", "Hello?") };
            let mut said = String::new();
            let result = client
                .complete(&model_at(api, &server), &request, &mut |text| said.push_str(text))
                .await;
            let outcome = CallOutcome { result, said, slept: clock.slept() };
            let what = format!("{api:?}, stream {stream}, {steps:?}: {:?}", outcome.result);
            assert_eq!(server.requests().len(), requests, "{what}");
            assert!(expect(&outcome), "{what}, said {:?}, slept {:?}", outcome.said, outcome.slept);
            if let Err(error) = &outcome.result {
                assert!(!format!("{error} {error:?}").contains("secret"), "{what}");
            }
        }
    }
}

fn is_answer(outcome: &CallOutcome) -> bool {
    outcome.said == TEXT && outcome.result.as_ref().is_ok_and(|reply| reply.text == TEXT)
}

#[tokio::test]
async fn an_answer_is_given_as_it_comes_and_whole() {
    let usage = Usage { input: USAGE_INPUT, output: USAGE_OUTPUT, ..Usage::default() };
    check(&[answer()], 1, |outcome| {
        let reply = outcome.result.as_ref().unwrap();
        is_answer(outcome)
            && reply.usage == Some(usage)
            && reply.stop == Stop::End
            && reply.model.as_deref() == Some("scripted")
            && outcome.slept.is_empty()
    })
    .await;
}

#[tokio::test]
async fn every_api_gets_what_it_wants() {
    for (api, path, key) in [
        (Api::Chat, "/v1/chat/completions", ("authorization", format!("Bearer {KEY}"))),
        (Api::Responses, "/v1/responses", ("authorization", format!("Bearer {KEY}"))),
        (Api::Anthropic, "/v1/messages", ("x-api-key", KEY.to_owned())),
    ] {
        for base in ["", "/", "/v1", "/v1/"] {
            let server = ScriptedServer::start([answer()]);
            let url = server.url().replace("/v1", base);
            let (client, _) = client(limits());
            let request =
                ModelRequest { max_output: Some(Tokens(9)), ..ModelRequest::new("S", "U") };
            client.complete(&model(api, &url), &request, &mut |_| {}).await.unwrap();
            let sent = &server.requests()[0];
            assert_eq!(sent.path, path, "{url}");
            assert_eq!(sent.header(key.0), Some(key.1.as_str()));
            assert_eq!(sent.header("content-type"), Some("application/json"));
            assert_eq!(sent.header("anthropic-version").is_some(), api == Api::Anthropic);
            assert!(sent.body.contains(r#""model":"m-1""#) && sent.body.contains('S'));
            assert!(sent.header("user-agent").is_some_and(|agent| agent.starts_with("longhand/")));
        }
    }
}

#[tokio::test]
async fn a_rate_limit_is_waited_for() {
    let waits = |low: f64, high: f64| {
        move |outcome: &CallOutcome| {
            let slept: f64 = outcome.slept.iter().map(Duration::as_secs_f64).sum();
            is_answer(outcome) && (low..=high).contains(&slept)
        }
    };
    check(&[ScriptStep::Limited(Some("2".into())), answer()], 2, waits(2.0, 2.2)).await;
    let date = "Sun, 06 Nov 1994 08:49:47 GMT";
    check(&[ScriptStep::Limited(Some(date.into())), answer()], 2, waits(10.0, 11.0)).await;
    check(&[ScriptStep::Limited(None), ScriptStep::Limited(None), answer()], 3, waits(0.0, 1.5))
        .await;
}

#[tokio::test]
async fn a_rate_limit_that_stays_or_is_too_long_is_an_error() {
    let limited = |after: Option<Duration>| {
        move |outcome: &CallOutcome| {
            matches!(&outcome.result, Err(ModelError::RateLimited { retry_after, message, .. })
                if *retry_after == after && message == "slow down")
        }
    };
    check(&vec![ScriptStep::Limited(None); 9], 3, limited(None)).await;
    let hour = Some(Duration::from_hours(1));
    check(&[ScriptStep::Limited(Some("3600".into())), answer()], 1, |outcome| {
        limited(hour)(outcome) && outcome.slept.is_empty()
    })
    .await;
}

#[tokio::test]
async fn a_server_in_trouble_is_tried_again() {
    check(&[ScriptStep::Status(500), ScriptStep::Status(503), answer()], 3, is_answer).await;
    check(&[ScriptStep::Drop, answer()], 2, is_answer).await;
    for status in [500, 529] {
        check(&vec![ScriptStep::Status(status); 9], 3, |outcome| {
            matches!(&outcome.result, Err(error @ ModelError::Server { status: found, .. })
                if *found == status && error.is_retryable())
                && outcome.slept.len() == 2
        })
        .await;
    }
}

#[tokio::test]
async fn no_connection_is_an_error_after_all_attempts() {
    let server = ScriptedServer::start([]);
    let nobody = model_at(Api::Chat, &server);
    drop(server);
    let (client, clock) = client(limits());
    let error =
        client.complete(&nobody, &ModelRequest::new("", "Hi"), &mut |_| {}).await.unwrap_err();
    assert!(matches!(&error, ModelError::Transport { .. }) && error.is_retryable(), "{error:?}");
    assert_eq!(clock.slept().len(), 2);
}

#[tokio::test]
async fn what_hangs_is_left() {
    check_within(&short(), &[ScriptStep::Hang, answer()], 1, |outcome| {
        matches!(outcome.result, Err(ModelError::Timeout { wait: Wait::FirstByte, .. }))
    })
    .await;
    let slow = ScriptStep::Drip(TEXT.to_owned(), Duration::from_secs(2));
    let idle = ClientLimits { idle: Duration::from_millis(100), ..limits() };
    check_within(&idle, &[slow, answer()], 1, |outcome| {
        matches!(outcome.result, Err(ModelError::Timeout { wait: Wait::Idle, .. }))
    })
    .await;
}

#[tokio::test]
async fn a_slow_answer_is_an_answer() {
    check(&[ScriptStep::Drip(TEXT.to_owned(), Duration::from_millis(20))], 1, is_answer).await;
}

#[tokio::test]
async fn the_whole_call_has_its_time() {
    let server = ScriptedServer::start([ScriptStep::Drip(TEXT.into(), Duration::from_millis(150))]);
    let limits = ClientLimits { total: Duration::from_millis(400), ..limits() };
    let (client, _) = client(limits);
    let request = ModelRequest { stream: true, ..ModelRequest::new("", "Hi") };
    let result = client.complete(&model_at(Api::Chat, &server), &request, &mut |_| {}).await;
    assert!(matches!(result, Err(ModelError::Timeout { wait: Wait::Total, .. })), "{result:?}");
}

#[tokio::test]
async fn an_answer_that_is_cut_is_not_asked_for_again() {
    check(&[ScriptStep::Cut(TEXT.repeat(20)), answer()], 1, |outcome| {
        matches!(&outcome.result, Err(error @ ModelError::Cut { .. }) if error.is_retryable())
    })
    .await;
}

#[tokio::test]
async fn what_is_no_answer_has_its_own_error() {
    check(&[ScriptStep::Garbage, answer()], 1, |outcome| {
        matches!(outcome.result, Err(ModelError::Unreadable { .. }))
    })
    .await;
    check(&[ScriptStep::Empty, answer()], 1, |outcome| {
        matches!(outcome.result, Err(ModelError::Empty { .. }))
    })
    .await;
    check(&[ScriptStep::Answer(" ".into()), answer()], 1, |outcome| {
        matches!(outcome.result, Err(ModelError::Empty { .. }))
    })
    .await;
    check(&[ScriptStep::Page, answer()], 1, |outcome| {
        matches!(&outcome.result, Err(ModelError::ContentType { content_type, .. })
            if content_type == "text/html")
    })
    .await;
    check(&[ScriptStep::ErrorBody("no luck".into()), answer()], 1, |outcome| {
        matches!(&outcome.result, Err(error @ ModelError::Provider { message, .. })
            if message == "no luck" && error.is_retryable())
    })
    .await;
    check(&[ScriptStep::Status(404), answer()], 1, |outcome| {
        matches!(&outcome.result, Err(error @ ModelError::Rejected { status: 404, .. })
            if !error.is_retryable())
    })
    .await;
}

#[tokio::test]
async fn a_refusal_is_an_answer_that_says_so() {
    check(&[ScriptStep::Refuse("No.".into())], 1, |outcome| {
        outcome
            .result
            .as_ref()
            .is_ok_and(|reply| reply.stop == Stop::Refused && reply.text == "No.")
    })
    .await;
}

#[tokio::test]
async fn too_long_is_told_with_its_numbers() {
    check(&[ScriptStep::TooLong { limit: 8_192, asked: 9_000 }, answer()], 1, |outcome| {
        let overflow = Overflow { limit: Some(8_192), asked: Some(9_000), bytes: false };
        matches!(&outcome.result, Err(error @ ModelError::TooLong { overflow: found, .. })
            if *found == overflow && !error.is_retryable())
    })
    .await;
    let body = "prompt is too long: 300 tokens > 256 maximum";
    check(&[ScriptStep::ErrorBody(body.into()), answer()], 1, |outcome| {
        matches!(&outcome.result, Err(ModelError::TooLong { overflow, .. })
            if overflow.limit == Some(256))
    })
    .await;
}

#[tokio::test]
async fn a_redirect_is_never_followed() {
    let other = ScriptedServer::start([answer()]);
    check(
        &[ScriptStep::Redirect(format!("{}/chat/completions", other.url())), answer()],
        1,
        |outcome| matches!(outcome.result, Err(ModelError::Redirected { status: 307, .. })),
    )
    .await;
    assert_eq!(other.requests().len(), 0);
}

#[tokio::test]
async fn an_answer_without_end_is_not_read_to_it() {
    check(&[ScriptStep::Answer(format!("{} ", "x".repeat(500)).repeat(500))], 1, |outcome| {
        matches!(outcome.result, Err(ModelError::TooLarge { bytes_max: 200_000, .. }))
    })
    .await;
}

#[tokio::test]
async fn a_server_that_ignores_the_wish_to_stream_is_understood() {
    let body = r#"{"choices":[{"message":{"role":"assistant","content":"Whole."},"finish_reason":"stop"}]}"#;
    for kind in [Some("application/json; charset=utf-8"), None] {
        let headers = kind.map(|kind| ("content-type", kind.to_owned())).into_iter().collect();
        let server = ScriptedServer::start([ScriptStep::Raw(200, headers, body.into())]);
        let (client, _) = client(limits());
        // Without a type, what was asked for is expected.
        let request = ModelRequest { stream: kind.is_some(), ..ModelRequest::new("", "Hi") };
        let mut said = String::new();
        let reply = client
            .complete(&model_at(Api::Chat, &server), &request, &mut |text| said.push_str(text))
            .await
            .unwrap();
        assert_eq!((reply.text.as_str(), said.as_str()), ("Whole.", "Whole."));
    }
}

#[tokio::test]
async fn what_a_model_does_not_take_is_left_out_from_then_on() {
    let refuse = |message: &str| {
        let body =
            format!(r#"{{"error":{{"message":"{message}","type":"invalid_request_error"}}}}"#);
        ScriptStep::Raw(400, vec![("content-type", "application/json".into())], body)
    };
    let server = ScriptedServer::start([
        refuse("Unsupported value: 'temperature' does not support 0 with this model."),
        refuse("'max_tokens' is not supported. Use 'max_completion_tokens' instead."),
        answer(),
        answer(),
        refuse("'temperature' again"),
        answer(),
    ]);
    let (client, _) = client(limits());
    let model = model_at(Api::Chat, &server);
    let request = ModelRequest {
        temperature: Some(0.0),
        max_output: Some(Tokens(5)),
        ..ModelRequest::new("", "Hi")
    };
    for _ in 0..2 {
        assert!(client.complete(&model, &request, &mut |_| {}).await.is_ok());
    }
    let sent: Vec<(bool, bool)> = server
        .requests()
        .iter()
        .map(|sent| (sent.body.contains("temperature"), sent.body.contains("\"max_tokens\"")))
        .collect();
    assert_eq!(sent, [(true, true), (false, true), (false, false), (false, false)]);
    let result = client.complete(&model, &request, &mut |_| {}).await;
    assert!(matches!(result, Err(ModelError::Rejected { .. })), "never in a loop: {result:?}");
    assert_eq!(server.requests().len(), 5);
}

#[tokio::test]
async fn no_money_is_not_waited_for() {
    let body =
        r#"{"error":{"message":"You exceeded your current quota.","code":"insufficient_quota"}}"#;
    let step = ScriptStep::Raw(429, vec![("content-type", "application/json".into())], body.into());
    let server = ScriptedServer::start([step, answer()]);
    let (client, _) = client(limits());
    let result = client
        .complete(&model_at(Api::Chat, &server), &ModelRequest::new("", "Hi"), &mut |_| {})
        .await;
    assert!(matches!(result, Err(ModelError::Rejected { status: 429, .. })), "{result:?}");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn many_calls_at_once_all_arrive() {
    let server = ScriptedServer::start((0..40).map(|_| answer()));
    let client = std::sync::Arc::new(client(limits()).0);
    let calls: Vec<_> = (0..40)
        .map(|n| {
            let (client, model) = (client.clone(), model_at(APIS[n % 3], &server));
            tokio::spawn(async move {
                let request =
                    ModelRequest { stream: n % 2 == 0, ..ModelRequest::new("", &format!("n{n}.")) };
                client.complete(&model, &request, &mut |_| {}).await
            })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap().text, TEXT);
    }
    let requests = server.requests();
    assert_eq!(requests.len(), 40);
    for n in 0..40 {
        let name = format!("\"n{n}.\"");
        assert_eq!(requests.iter().filter(|sent| sent.body.contains(&name)).count(), 1);
    }
}
