use std::sync::Arc;

use longhand_model::{
    Api, EmbedderError, ModelEmbedder, ModelError, Price, Prices, Spending, SpendingBook,
};
use longhand_testkit::scripted::{ScriptStep, ScriptedServer};
use tokio::runtime::Runtime;

use crate::common::{KEY, client, limits, model_at};
use crate::summariser::Book;

fn json(status: u16, body: &str) -> ScriptStep {
    ScriptStep::Raw(status, vec![("content-type", "application/json".to_owned())], body.to_owned())
}

const ANSWER: &str = r#"{"object":"list","model":"m-1","usage":{"prompt_tokens":100,"total_tokens":100},
"data":[{"object":"embedding","index":1,"embedding":[0.0,1.0]},{"object":"embedding","index":0,"embedding":[1,0]}]}"#;

/// A dollar for a million tokens, within a cap.
fn embedder(
    server: &ScriptedServer,
    runtime: &Runtime,
    cap: u64,
    book: &Arc<Book>,
) -> ModelEmbedder {
    let (client, _) = client(limits());
    let price = Price { input: 1_000_000, cached_input: 0, cache_write: 0, output: 0 };
    let mut prices = Prices::default();
    prices.set("scripted/m-1", price);
    let book: Arc<dyn SpendingBook> = book.clone();
    ModelEmbedder::on(Arc::new(client), model_at(Api::Chat, server), runtime.handle().clone())
        .with_prices(Arc::new(prices))
        .with_spending(Arc::new(Spending::per_hour(cap, book)))
}

#[test]
fn vectors_come_in_the_order_of_their_texts_and_are_paid_for() {
    let runtime = Runtime::new().unwrap();
    let server = ScriptedServer::start(vec![json(200, ANSWER)]);
    let book = Arc::<Book>::default();
    let embedder = embedder(&server, &runtime, 1_000, &book);
    assert_eq!(embedder.vectors(&["one", "two"]).unwrap(), [[1.0, 0.0], [0.0, 1.0]]);
    assert_eq!(book.left(1_000), 900, "settled at what it cost");
    let sent = server.requests().remove(0);
    assert_eq!(sent.path, "/v1/embeddings");
    assert_eq!(sent.header("authorization"), Some(format!("Bearer {KEY}").as_str()));
    assert!(sent.body.contains(r#""model":"m-1","input":["one","two"]"#), "{}", sent.body);
}

#[test]
fn nothing_is_sent_without_money() {
    let runtime = Runtime::new().unwrap();
    let server = ScriptedServer::start(vec![json(200, ANSWER)]);
    let embedder = embedder(&server, &runtime, 100, &Arc::default());
    let long = "a long text ".repeat(100);
    let Err(EmbedderError::Unavailable(why)) = embedder.vectors(&[&long]) else {
        panic!("the cap holds")
    };
    assert!(why.contains("cap on spending"), "{why}");
    assert!(server.requests().is_empty());
}

#[test]
fn what_is_no_answer_is_an_error() {
    let runtime = Runtime::new().unwrap();
    let broken = [
        r#"{"data":[{"index":0,"embedding":[1,0]}]}"#,
        r#"{"data":[{"index":0,"embedding":[1,0]},{"index":1,"embedding":[1]}]}"#,
        r#"{"data":[{"index":0,"embedding":[]},{"index":1,"embedding":[]}]}"#,
        r#"{"error":{"message":"no such model"}}"#,
        "",
    ];
    for body in broken {
        let server = ScriptedServer::start(vec![json(200, body)]);
        let embedder = embedder(&server, &runtime, 1_000_000, &Arc::default());
        let outcome = embedder.vectors(&["one", "two"]);
        assert!(matches!(outcome, Err(EmbedderError::Unavailable(_))), "{body}: {outcome:?}");
    }
    let server = ScriptedServer::start(vec![json(401, r#"{"error":{"message":"wrong key"}}"#)]);
    let book = Arc::<Book>::default();
    let outcome = embedder(&server, &runtime, 1_000, &book).vectors(&["one"]);
    let Err(EmbedderError::Model(ModelError::Unauthorised { .. })) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(book.left(1_000), 1_000, "a refusal costs nothing");
}
