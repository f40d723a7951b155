use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Stands before the server and counts the requests.
pub(crate) struct RequestCounter {
    address: SocketAddr,
    requests: Arc<AtomicUsize>,
}

impl RequestCounter {
    pub(crate) fn before(url: &str) -> Self {
        let server = url.trim_start_matches("http://").split('/').next().unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&requests);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(&server) else { continue };
                let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let count = Arc::clone(&count);
                thread::spawn(move || {
                    pass(from, to, |bytes| {
                        count
                            .fetch_add(usize::from(bytes.starts_with(b"POST /")), Ordering::SeqCst);
                    });
                });
                thread::spawn(move || pass(server, client, |_| {}));
            }
        });
        Self { address, requests }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, see: impl Fn(&[u8])) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(length @ 1..) = from.read(&mut bytes) {
        see(&bytes[..length]);
        if to.write_all(&bytes[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
