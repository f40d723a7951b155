//! A server that answers at once, or in events if it is asked to.

use std::convert::Infallible;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use crate::process::{runtime, stay};

pub(crate) const ANSWER: &str = "It is done, and all is well.";

/// How many events a stream has, and the pause before each.
const EVENTS: usize = 40;
const PAUSE: Duration = Duration::from_millis(100);

pub(crate) fn run() {
    let runtime = runtime();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    runtime.spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            socket.set_nodelay(true).unwrap();
            let served = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(socket), service_fn(answer));
            tokio::spawn(served);
        }
    });
    stay(address);
}

async fn answer(
    request: Request<Incoming>,
) -> Result<Response<BoxBody<Bytes, Infallible>>, hyper::Error> {
    let streamed = request.headers().contains_key("x-stream");
    let mut body = request.into_body();
    while let Some(frame) = body.frame().await {
        frame?;
    }
    let (kind, body) = if streamed {
        ("text/event-stream", BodyExt::boxed(StreamBody::new(events())))
    } else {
        let message = format!(r#"{{"role":"assistant","content":"{ANSWER}"}}"#);
        let whole = format!(
            r#"{{"id":"c1","object":"chat.completion","model":"bench","choices":[{{"index":0,"message":{message},"finish_reason":"stop"}}],"usage":{{"prompt_tokens":2000,"completion_tokens":8}}}}"#
        );
        ("application/json", Full::new(Bytes::from(whole)).boxed())
    };
    Ok(Response::builder().header("content-type", kind).body(body).unwrap())
}

fn events() -> impl stream::Stream<Item = Result<Frame<Bytes>, Infallible>> {
    let chunk = |delta: &str, reason: &str| {
        format!(
            "data: {{\"id\":\"c1\",\"model\":\"bench\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{reason}}}]}}\n\n"
        )
    };
    let words =
        (0..EVENTS).map(move |at| chunk(&format!("{{\"content\":\"word {at} \"}}"), "null"));
    let end = chunk("{}", "\"stop\"") + "data: [DONE]\n\n";
    stream::iter(words.chain([end])).then(|event| async move {
        tokio::time::sleep(PAUSE).await;
        Ok(Frame::data(Bytes::from(event)))
    })
}
