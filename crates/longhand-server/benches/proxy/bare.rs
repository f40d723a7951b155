//! The least that a proxy can do: heads and bodies go on as they come.

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, Uri};
use hyper_util::client::legacy::{Client, Error, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;

use crate::process::{TARGET, runtime, stay};

type Upstream = Client<HttpConnector, Incoming>;

pub(crate) fn run() {
    let runtime = runtime();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let target = std::env::var(TARGET).unwrap();
    runtime.spawn(async move {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client: Upstream = Client::builder(TokioExecutor::new()).build(connector);
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            socket.set_nodelay(true).unwrap();
            let (client, target) = (client.clone(), target.clone());
            let service = service_fn(move |request| pass(client.clone(), target.clone(), request));
            let served = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(socket), service);
            tokio::spawn(served);
        }
    });
    stay(address);
}

async fn pass(
    client: Upstream,
    target: String,
    mut request: Request<Incoming>,
) -> Result<Response<Incoming>, Error> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    *request.uri_mut() = format!("http://{target}{path}").parse::<Uri>().unwrap();
    request.headers_mut().remove("host");
    client.request(request).await
}
