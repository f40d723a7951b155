//! Servers on this machine that are late, gone, or not what they should be.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hyper_util::client::proxy::matcher::Matcher;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};
use tokio_rustls::TlsAcceptor;

use super::*;

const LONG: Duration = Duration::from_secs(20);
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi";

async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

/// Reads the head of a request.
async fn head(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap_or(b'\n'));
        assert!(head.len() < 4_096, "{}", String::from_utf8_lossy(&head));
    }
    String::from_utf8(head).unwrap()
}

fn client(proxies: Option<Arc<Matcher>>, tls: Option<Arc<ClientConfig>>) -> HttpClient {
    let mut connector = Connector::new(LONG);
    connector.proxies = proxies;
    connector.tls = tls;
    HttpClient::with(connector, LONG)
}

fn get(url: &str) -> Request<RequestBody> {
    Request::get(url).body(empty()).unwrap()
}

async fn text(client: &HttpClient, url: &str) -> Result<String, HttpError> {
    let answer = client.send(get(url), LONG).await?;
    Ok(String::from_utf8(answer.into_body().bytes().await?).unwrap())
}

#[tokio::test]
async fn a_silence_ends_an_answer_and_a_slow_one_goes_on() {
    let (listener, address) = listen().await;
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        head(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n").await.unwrap();
        for _ in 0..8 {
            sleep(Duration::from_millis(60)).await;
            stream.write_all(b".").await.unwrap();
        }
        sleep(LONG).await;
    });
    let silence = Duration::from_secs(2);
    let client = HttpClient::new(LONG, silence);
    let answer = client.send(get(&format!("http://{address}/")), LONG).await.unwrap();
    let mut body = answer.into_body();
    let mut last = Instant::now();
    for _ in 0..8 {
        assert_eq!(body.chunk().await.unwrap().unwrap(), ".");
        last = Instant::now();
    }
    assert_eq!(body.chunk().await, Some(Err(HttpError::Silent)));
    let waited = last.elapsed();
    assert!(waited >= silence * 9 / 10, "{waited:?}");
}

#[tokio::test]
async fn the_head_and_the_first_piece_have_their_own_time() {
    let (listener, address) = listen().await;
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let asked = head(&mut stream).await;
                if asked.contains("/slow") {
                    stream.write_all(&ANSWER[..ANSWER.len() - 2]).await.unwrap();
                    sleep(Duration::from_millis(300)).await;
                    stream.write_all(b"hi").await.unwrap();
                }
                sleep(LONG).await;
            });
        }
    });
    let client = HttpClient::new(LONG, Duration::from_millis(50));
    let url = format!("http://{address}");
    assert_eq!(text(&client, &format!("{url}/slow")).await.as_deref(), Ok("hi"));
    let sent = client.send(get(&format!("{url}/never")), Duration::from_millis(100)).await;
    assert_eq!(sent.unwrap_err(), HttpError::Silent);
}

#[tokio::test]
async fn connections_are_kept_and_closed_ones_are_replaced() {
    let (listener, address) = listen().await;
    let (connections, url) = (Arc::new(AtomicUsize::new(0)), format!("http://{address}/"));
    let count = Arc::clone(&connections);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            count.fetch_add(1, Ordering::SeqCst);
            // Two requests each, then it is closed without a word.
            for _ in 0..2 {
                head(&mut stream).await;
                stream.write_all(ANSWER).await.unwrap();
            }
        }
    });
    let client = HttpClient::new(LONG, LONG);
    for request in 1..=6 {
        assert_eq!(text(&client, &url).await.as_deref(), Ok("hi"), "{request}");
        assert_eq!(connections.load(Ordering::SeqCst), usize::div_ceil(request, 2));
    }
}

#[tokio::test]
async fn nobody_there_is_said_in_words() {
    let (listener, address) = listen().await;
    drop(listener);
    let client = HttpClient::new(LONG, LONG);
    let error = text(&client, &format!("http://{address}/secret")).await.unwrap_err();
    assert!(matches!(error, HttpError::Connect(_)) && !error.is_timeout(), "{error:?}");
    let said = error.to_string();
    assert!(said.starts_with("no connection: ") && !said.contains("secret"), "{said}");
}

#[tokio::test]
async fn a_server_that_is_busy_for_ever_is_late() {
    let (listener, address) = listen().await;
    // It accepts, but never says a word of TLS.
    let client = HttpClient::new(Duration::from_millis(100), LONG);
    let error = text(&client, &format!("https://{address}/")).await.unwrap_err();
    assert_eq!((error.clone(), error.is_timeout()), (HttpError::Late, true));
    drop(listener);
}

/// A server that speaks TLS under a name, and the client's side of its certificate.
async fn secure(name: &str) -> (TcpListener, String, TlsAcceptor, Arc<ClientConfig>) {
    let issued = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    let certificate = issued.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(issued.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key.into())
        .unwrap();
    server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let mut client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.alpn_protocols = vec![b"http/1.1".to_vec()];
    let (listener, address) = listen().await;
    let port = address.rsplit(':').next().unwrap();
    let url = format!("https://{name}:{port}/v1");
    (listener, url, TlsAcceptor::from(Arc::new(server)), Arc::new(client))
}

async fn answer_securely(stream: impl AsyncRead + AsyncWrite + Unpin, acceptor: &TlsAcceptor) {
    // A client that does not trust us goes away.
    let Ok(mut stream) = acceptor.accept(stream).await else { return };
    assert!(head(&mut stream).await.starts_with("GET /v1 HTTP/1.1\r\n"));
    stream.write_all(ANSWER).await.unwrap();
    stream.flush().await.unwrap();
    sleep(LONG).await;
}

#[tokio::test]
async fn tls_is_spoken_with_those_who_are_trusted() {
    let (listener, url, acceptor, config) = secure("localhost").await;
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let acceptor = acceptor.clone();
            tokio::spawn(async move { answer_securely(stream, &acceptor).await });
        }
    });
    let client = client(None, Some(config));
    assert_eq!(text(&client, &url).await.as_deref(), Ok("hi"));
    let error = text(&HttpClient::new(LONG, LONG), &url).await.unwrap_err();
    let said = error.to_string();
    assert!(matches!(error, HttpError::Connect(_)) && said.contains("certificate"), "{said}");
}

#[tokio::test]
async fn a_server_without_tls_is_no_secure_one() {
    let (listener, address) = listen().await;
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        sleep(LONG).await;
    });
    let error = text(&HttpClient::new(LONG, LONG), &format!("https://{address}/")).await;
    assert!(matches!(error, Err(HttpError::Connect(_))), "{error:?}");
}

#[tokio::test]
async fn plain_requests_are_handed_to_a_proxy() {
    let (listener, address) = listen().await;
    let asked = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let asked = head(&mut stream).await;
        stream.write_all(ANSWER).await.unwrap();
        asked
    });
    let proxies = Matcher::builder().http(format!("http://me:pass@{address}")).build();
    let client = client(Some(Arc::new(proxies)), None);
    assert_eq!(text(&client, "http://model.invalid/v1").await.as_deref(), Ok("hi"));
    let asked = asked.await.unwrap().to_ascii_lowercase();
    assert!(asked.starts_with("get http://model.invalid/v1 http/1.1\r\n"), "{asked}");
    assert!(asked.contains("\r\nproxy-authorization: basic "), "{asked}");
    // This machine needs none.
    let (listener, address) = listen().await;
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        assert!(head(&mut stream).await.starts_with("GET /v1 HTTP/1.1\r\n"));
        stream.write_all(ANSWER).await.unwrap();
    });
    assert_eq!(text(&client, &format!("http://{address}/v1")).await.as_deref(), Ok("hi"));
}

#[tokio::test]
async fn secure_requests_go_through_a_tunnel() {
    let (listener, _, acceptor, config) = secure("model.invalid").await;
    let proxy = format!("http://me:pass@{}", listener.local_addr().unwrap());
    let asked = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let asked = head(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        tokio::spawn(async move { answer_securely(stream, &acceptor).await });
        asked
    });
    let proxies = Some(Arc::new(Matcher::builder().https(proxy).build()));
    let client = client(proxies, Some(config));
    assert_eq!(text(&client, "https://model.invalid/v1").await.as_deref(), Ok("hi"));
    let asked = asked.await.unwrap().to_ascii_lowercase();
    assert!(asked.starts_with("connect model.invalid:443 http/1.1\r\n"), "{asked}");
    assert!(asked.contains("\r\nproxy-authorization: basic "), "{asked}");
}
