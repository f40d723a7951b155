//! Bytes in, bytes out: a server and a client that know nothing of messages.
#![allow(dead_code, clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What a server got.
#[derive(Clone, Debug, Default)]
pub(crate) struct Got {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

/// Bytes that are sent, and the pause after them.
pub(crate) type Piece = (Vec<u8>, Duration);

/// A server that answers with bytes as they are.
pub(crate) struct RawServer {
    address: SocketAddr,
    got: Arc<Mutex<Vec<Got>>>,
    left: Arc<AtomicUsize>,
}

impl RawServer {
    /// Starts a server that answers each request with what `answer` gives.
    pub(crate) fn start<Pieces>(answer: impl Fn(&Got) -> Pieces + Send + Sync + 'static) -> Self
    where
        Pieces: IntoIterator<Item = Piece>,
    {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (got, left) = (Arc::<Mutex<Vec<Got>>>::default(), Arc::<AtomicUsize>::default());
        let answer = Arc::new(answer);
        let (all, gone) = (Arc::clone(&got), Arc::clone(&left));
        // It ends with the test.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (all, gone, answer) =
                    (Arc::clone(&all), Arc::clone(&gone), Arc::clone(&answer));
                thread::spawn(move || {
                    let Ok(request) = receive(&stream) else { return };
                    all.lock().unwrap().push(request.clone());
                    if send(stream, answer(&request)).is_err() {
                        gone.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        Self { address, got, left }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    pub(crate) fn got(&self) -> Vec<Got> {
        self.got.lock().unwrap().clone()
    }

    /// How many clients have left in the middle of an answer.
    pub(crate) fn left(&self) -> usize {
        self.left.load(Ordering::SeqCst)
    }
}

fn receive(stream: &TcpStream) -> std::io::Result<Got> {
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut reader = BufReader::new(stream);
    let mut got = Got::default();
    while !got.head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut got.head)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
    let head = got.head.to_lowercase();
    let length = head.split("content-length:").nth(1).and_then(|rest| rest.lines().next());
    if let Some(length) = length.and_then(|length| length.trim().parse().ok()) {
        got.body.resize(length, 0);
        reader.read_exact(&mut got.body)?;
    } else if head.contains("transfer-encoding: chunked") {
        loop {
            let mut size = String::new();
            reader.read_line(&mut size)?;
            let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
            let mut chunk = vec![0; size + 2];
            reader.read_exact(&mut chunk)?;
            if size == 0 {
                break;
            }
            got.body.extend_from_slice(&chunk[..size]);
        }
    }
    Ok(got)
}

fn send(mut stream: TcpStream, pieces: impl IntoIterator<Item = Piece>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    for (bytes, pause) in pieces {
        stream.write_all(&bytes)?;
        thread::sleep(pause);
    }
    Ok(())
}

/// An answer in chunks, which arrive as they were cut.
pub(crate) fn chunked(kind: &str, chunks: &[&[u8]]) -> Vec<Piece> {
    let mut bytes = format!(
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    .into_bytes();
    for chunk in chunks.iter().filter(|chunk| !chunk.is_empty()) {
        bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        bytes.extend_from_slice(chunk);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    vec![(bytes, Duration::ZERO)]
}

/// A whole answer.
pub(crate) fn whole(kind: &str, body: &str) -> Vec<Piece> {
    let head = format!(
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    vec![(head.into_bytes(), Duration::ZERO)]
}

/// Sends bytes and gives what comes back until the other side closes.
pub(crate) async fn exchange(address: SocketAddr, bytes: Vec<u8>) -> String {
    let talk = move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        // The other side may have heard enough.
        let _ = stream.write_all(&bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    };
    tokio::task::spawn_blocking(talk).await.unwrap()
}
