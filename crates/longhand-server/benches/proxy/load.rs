//! A client that asks over connections that it keeps.

use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::process::Server;

pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    host: String,
}

impl Connection {
    pub(crate) async fn open(server: &Server) -> Self {
        let host = server.address.clone();
        let socket = TcpStream::connect(&host).await.unwrap();
        socket.set_nodelay(true).unwrap();
        let (sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(socket)).await.unwrap();
        tokio::spawn(connection);
        Self { sender, host }
    }

    /// Posts a request and waits for the last byte of its answer; gives the time and the bytes.
    pub(crate) async fn post(
        &mut self,
        body: Bytes,
        streamed: bool,
    ) -> Result<(Duration, usize), String> {
        let mut request = Request::post("/v1/chat/completions")
            .header("host", &self.host)
            .header("authorization", "Bearer sk-bench")
            .header("content-type", "application/json");
        if streamed {
            request = request.header("x-stream", "1");
        }
        let start = Instant::now();
        self.sender.ready().await.map_err(|error| error.to_string())?;
        let request = request.body(Full::new(body)).unwrap();
        let answer = self.sender.send_request(request).await.map_err(|error| error.to_string())?;
        let status = answer.status();
        let mut body = answer.into_body();
        let mut bytes = 0;
        while let Some(frame) = body.frame().await {
            bytes += frame.map_err(|error| error.to_string())?.data_ref().map_or(0, Bytes::len);
        }
        if status == 200 { Ok((start.elapsed(), bytes)) } else { Err(status.to_string()) }
    }
}

/// The middle one.
pub(crate) fn median<T: PartialOrd + Copy>(mut values: Vec<T>) -> T {
    values.sort_by(|one, other| one.partial_cmp(other).unwrap());
    values[values.len() / 2]
}
