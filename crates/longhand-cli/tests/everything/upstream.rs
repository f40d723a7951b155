//! A model server that answers every question in its own way: most of them well, some oddly, some not at all.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

/// How a question is answered; its number decides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Manner {
    Plain,
    /// With an event in its stream that is no JSON.
    ForeignEvent,
    /// Packed, although nobody asked for it.
    Packed,
    /// With something after its end.
    Trailing,
    /// With a byte that is no UTF-8.
    BadByte,
    /// Late.
    Slow,
    /// Broken off; no client takes it for an answer.
    Cut,
    /// An error.
    Failed,
}

impl Manner {
    pub(crate) fn of(number: usize) -> Self {
        match number.wrapping_mul(2_654_435_761) >> 7 & 31 {
            0 | 1 => Self::ForeignEvent,
            2 => Self::Packed,
            3 => Self::Trailing,
            4 => Self::BadByte,
            5 => Self::Slow,
            6 => Self::Cut,
            7 => Self::Failed,
            _ => Self::Plain,
        }
    }
}

/// What question `number` is answered with.
pub(crate) fn answer(number: usize) -> String {
    format!("re-{number}- It is as you say, and there is more to it than that.")
}

/// The same as a client reads it.
pub(crate) fn answer_as_read(number: usize) -> String {
    let is_bad = Manner::of(number) == Manner::BadByte;
    if is_bad { answer(number).replacen("It", "I\u{fffd}", 1) } else { answer(number) }
}

/// Starts a server for as long as the test runs; returns its address.
pub(crate) fn start() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // Who is killed in the middle of it does not hear the rest.
            thread::spawn(move || drop(serve(stream)));
        }
    });
    address
}

fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_mins(1)))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut head, mut length) = (String::new(), 0);
    while !head.ends_with("\r\n\r\n") {
        let begin = head.len();
        if reader.read_line(&mut head)? == 0 {
            return Ok(());
        }
        let line = head[begin..].to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let body = String::from_utf8_lossy(&body);
    let Some(number) = newest(&body) else { return fail(&mut stream) };
    let manner = Manner::of(number);
    let is_stream = body.contains(r#""stream":true"#);
    match manner {
        Manner::Failed => return fail(&mut stream),
        Manner::Slow => thread::sleep(Duration::from_millis(80)),
        _ => {}
    }
    let mut said = if is_stream { events(&head, number) } else { whole(&head, number).to_string() };
    match manner {
        Manner::ForeignEvent if is_stream => {
            said = said.replacen("\n\n", "\n\ndata: [PING]\n\nevent: ping\ndata: not json\n\n", 1);
        }
        Manner::Trailing if !is_stream => said.push_str("\n<!-- served by a balancer -->"),
        _ => {}
    }
    let mut bytes = said.into_bytes();
    let mut headers = String::new();
    match manner {
        Manner::BadByte => {
            for at in 1..bytes.len() {
                if bytes[at - 1..].starts_with(b"It ") {
                    bytes[at] = 0xff;
                }
            }
        }
        Manner::Packed => {
            let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
            packed.write_all(&bytes)?;
            bytes = packed.finish()?;
            headers.push_str("content-encoding: gzip\r\n");
        }
        _ => {}
    }
    let kind = if is_stream { "text/event-stream" } else { "application/json" };
    let length = bytes.len();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n{headers}\r\n"
    )?;
    let end = if manner == Manner::Cut { length / 2 } else { length };
    stream.write_all(&bytes[..end])
}

fn fail(stream: &mut TcpStream) -> std::io::Result<()> {
    let body = r#"{"error":{"message":"out of order","type":"server_error"}}"#;
    write!(
        stream,
        "HTTP/1.1 500 Oh\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// The number of the newest question in a request.
fn newest(body: &str) -> Option<usize> {
    let (_, rest) = body.rsplit_once("ask-")?;
    rest.split('-').next()?.parse().ok()
}

fn whole(head: &str, number: usize) -> Value {
    let text = answer(number);
    if head.contains("/messages ") {
        json!({"id": "m", "type": "message", "role": "assistant", "model": "odd", "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn", "usage": {"input_tokens": 9, "output_tokens": 9}})
    } else if head.contains("/responses ") {
        json!({"id": "r", "object": "response", "status": "completed", "model": "odd", "output": [{"type": "message",
            "id": "i", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": text, "annotations": []}]}],
            "usage": {"input_tokens": 9, "output_tokens": 9, "total_tokens": 18}})
    } else {
        json!({"id": "c", "object": "chat.completion", "model": "odd", "choices": [{"index": 0, "finish_reason": "stop",
            "message": {"role": "assistant", "content": text}}], "usage": {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}})
    }
}

fn events(head: &str, number: usize) -> String {
    let text = answer(number);
    let (first, last) = text.split_at(text.len() / 2);
    let named = |events: &[Value]| {
        let one = |event: &Value| {
            format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap())
        };
        events.iter().map(one).collect::<String>()
    };
    if head.contains("/messages ") {
        let piece = |text| json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}});
        named(&[
            json!({"type": "message_start", "message": {"model": "odd", "role": "assistant", "content": [], "usage": {"input_tokens": 9, "output_tokens": 1}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            piece(first),
            piece(last),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}}),
            json!({"type": "message_stop"}),
        ])
    } else if head.contains("/responses ") {
        let response = whole(head, number);
        let piece =
            |text| json!({"type": "response.output_text.delta", "output_index": 0, "delta": text});
        named(&[
            json!({"type": "response.created", "response": {"status": "in_progress"}}),
            piece(first),
            piece(last),
            json!({"type": "response.output_item.done", "output_index": 0, "item": response["output"][0]}),
            json!({"type": "response.completed", "response": response}),
        ])
    } else {
        let chunk = |delta: Value, reason: Value| {
            let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
            format!("data: {}\n\n", json!({"model": "odd", "choices": [choice]}))
        };
        let pieces = [
            chunk(json!({"role": "assistant", "content": first}), json!(null)),
            chunk(json!({"content": last}), json!(null)),
            chunk(json!({}), json!("stop")),
        ];
        pieces.concat() + "data: [DONE]\n\n"
    }
}
