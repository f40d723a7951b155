//! Stands between a client and the server: late, cut after a message, or away.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// A wire to a port of this machine.
pub(crate) struct Wire {
    pub(crate) port: u16,
    state: Arc<WireState>,
}

#[derive(Default)]
struct WireState {
    /// How late what the server says arrives, in milliseconds.
    late_ms: AtomicU64,
    /// How many more messages go through, in either direction, before everything is cut; negative for no end.
    messages_left: AtomicI64,
    cuts: AtomicUsize,
    connections: AtomicUsize,
}

impl Wire {
    pub(crate) fn to(port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let own_port = listener.local_addr().unwrap().port();
        let state =
            Arc::new(WireState { messages_left: AtomicI64::new(-1), ..WireState::default() });
        let accepting = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else { continue };
                connect(client, server, &accepting);
            }
        });
        Self { port: own_port, state }
    }

    pub(crate) fn set_late(&self, late: Duration) {
        self.state.late_ms.store(late.as_millis() as u64, Ordering::SeqCst);
    }

    /// Cuts the connection that carries the message after so many.
    pub(crate) fn cut_after(&self, messages: i64) {
        self.state.messages_left.store(messages, Ordering::SeqCst);
    }

    /// How often something was cut.
    pub(crate) fn cuts(&self) -> usize {
        self.state.cuts.load(Ordering::SeqCst)
    }

    /// How many connections there are now.
    pub(crate) fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }
}

fn connect(client: TcpStream, server: TcpStream, state: &Arc<WireState>) {
    state.connections.fetch_add(1, Ordering::SeqCst);
    let _ = client.set_nodelay(true);
    let _ = server.set_nodelay(true);
    let is_open = Arc::new(AtomicBool::new(true));
    let pairs =
        [(client.try_clone().unwrap(), server.try_clone().unwrap(), true), (server, client, false)];
    for (from, to, is_from_client) in pairs {
        let (state, is_open) = (Arc::clone(state), Arc::clone(&is_open));
        thread::spawn(move || {
            let _ = carry(&from, &to, is_from_client, &state);
            let _ = from.shutdown(Shutdown::Both);
            let _ = to.shutdown(Shutdown::Both);
            if is_open.swap(false, Ordering::SeqCst) {
                state.connections.fetch_sub(1, Ordering::SeqCst);
            }
        });
    }
}

/// Carries bytes until one end is closed or everything is cut.
fn carry(
    from: &TcpStream,
    to: &TcpStream,
    is_from_client: bool,
    state: &Arc<WireState>,
) -> std::io::Result<()> {
    let (send, sent) = mpsc::channel::<(Instant, Vec<u8>)>();
    let mut to = to.try_clone()?;
    let writer = thread::spawn(move || {
        for (due, bytes) in sent {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                return;
            }
        }
    });
    let mut messages = Messages { has_begun: !is_from_client, pending: Vec::new() };
    let mut from = from.try_clone()?;
    let mut buffer = vec![0; 64 << 10];
    let outcome = loop {
        let count = match from.read(&mut buffer) {
            Ok(0) | Err(_) => break Ok(()),
            Ok(count) => count,
        };
        let late = if is_from_client { 0 } else { state.late_ms.load(Ordering::SeqCst) };
        let due = Instant::now() + Duration::from_millis(late);
        if state.messages_left.load(Ordering::SeqCst) < 0 {
            messages.skip(&buffer[..count]);
            if send.send((due, buffer[..count].to_vec())).is_err() {
                break Ok(());
            }
            continue;
        }
        let (through, is_cut) = messages.through(&buffer[..count], state);
        let _ = send.send((due, through));
        if is_cut {
            state.cuts.fetch_add(1, Ordering::SeqCst);
            break Ok(());
        }
    };
    drop(send);
    let _ = writer.join();
    outcome
}

/// The messages of one direction: a byte for the kind and a length; the first one of a client has no kind.
struct Messages {
    has_begun: bool,
    pending: Vec<u8>,
}

impl Messages {
    /// Where the first message ends, if it is all there.
    fn end(&self, bytes: &[u8]) -> Option<usize> {
        let at = usize::from(self.has_begun);
        let length = bytes.get(at..at + 4)?;
        let end = at + u32::from_be_bytes(length.try_into().unwrap()) as usize;
        (bytes.len() >= end).then_some(end)
    }

    /// Takes note of bytes that nobody counts.
    fn skip(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
        while let Some(end) = self.end(&self.pending) {
            self.pending.drain(..end);
            self.has_begun = true;
        }
    }

    /// The bytes that go through, and whether it is cut after them.
    fn through(&mut self, bytes: &[u8], state: &WireState) -> (Vec<u8>, bool) {
        let known = self.pending.len();
        self.pending.extend_from_slice(bytes);
        let (mut passed, mut is_cut) = (0, false);
        while let Some(end) = self.end(&self.pending[passed..]) {
            let take = |left: i64| if left < 0 { None } else { Some(left - 1) };
            match state.messages_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take) {
                // The counter stays below zero, so that the next connection is whole.
                Ok(0) => {
                    is_cut = true;
                    break;
                }
                _ => passed += end,
            }
            self.has_begun = true;
        }
        let upto = if is_cut { passed } else { self.pending.len() };
        let through = self.pending[known.min(upto)..upto].to_vec();
        self.pending.drain(..passed);
        (through, is_cut)
    }
}
