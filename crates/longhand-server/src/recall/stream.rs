//! Streams of answers, joined to one.

use std::collections::VecDeque;

use futures_util::{StreamExt, stream};
use hyper::body::Bytes;
use longhand_core::json::quote;
use longhand_dialect::{Dialect, ReplyReader};

use super::follow::{Failure, Recall};
use super::frames::{Frame, Frames, write};
use super::sieve::{Sieve, sieve};
use super::{NAME, json};
use crate::answer::{Chunk, Chunks};
use crate::passage::{is_events, split};

/// A stream that goes on where a call of ours was answered.
pub(super) struct Joined {
    recall: Recall,
    chunks: Chunks,
    frames: Frames,
    sieve: Box<dyn Sieve>,
    reader: Option<ReplyReader>,
    out: VecDeque<Chunk>,
    /// Whether this is not the first answer.
    goes_on: bool,
    ended: bool,
}

impl Joined {
    pub(super) fn new(recall: Recall, chunks: Chunks) -> Self {
        let dialect = recall.dialect();
        Self {
            recall,
            chunks,
            frames: Frames::default(),
            sieve: sieve(dialect),
            reader: Some(ReplyReader::new(dialect)),
            out: VecDeque::new(),
            goes_on: false,
            ended: false,
        }
    }

    /// What the client sees.
    pub(super) fn stream(self) -> Chunks {
        let next = |mut own: Self| async move { Some((own.next().await?, own)) };
        Chunks::Stream(stream::unfold(self, next).boxed())
    }

    async fn next(&mut self) -> Option<Chunk> {
        loop {
            if self.is_done() && self.goes_on && !self.sieve.hides() {
                // Who has the last event may leave at once.
                self.turn().await;
            }
            if let Some(chunk) = self.out.pop_front() {
                return Some(chunk);
            }
            if self.ended {
                return None;
            }
            if self.is_done() && self.sieve.hides() {
                self.turn().await;
                continue;
            }
            match self.chunks.next().await {
                Some(Ok(bytes)) => {
                    for frame in self.frames.push(&bytes) {
                        self.take(frame);
                    }
                }
                Some(Err(error)) => {
                    self.ended = true;
                    self.out.push_back(Err(error));
                }
                None => {
                    // A piece of an event may be one of ours.
                    let rest = self.frames.rest();
                    if let Some(rest) =
                        rest.filter(|rest| rest.event.is_some() || !rest.names(NAME))
                    {
                        self.take(rest);
                    }
                    self.turn().await;
                }
            }
        }
    }

    fn take(&mut self, frame: Frame) {
        if let (Some(event), Some(reader)) = (&frame.event, &mut self.reader)
            && reader.push(event).is_err()
        {
            self.reader = None;
        }
        let told = self.sieve.take(frame);
        self.out.extend(told.into_iter().map(Ok));
    }

    fn is_done(&self) -> bool {
        self.reader.as_ref().is_some_and(ReplyReader::is_done)
    }

    /// Comes to the end of an answer: goes on with the next one, or ends.
    async fn turn(&mut self) {
        let reply = self.reader.take().and_then(|reader| reader.finish().ok());
        let next = match &reply {
            Some(reply) => self.recall.follow(reply).await,
            None => None,
        };
        let (Some(reply), Some(next)) = (reply, next) else {
            self.out.extend(self.sieve.end().into_iter().map(Ok));
            self.ended = true;
            return;
        };
        match next.map(split) {
            Ok((head, chunks)) if is_events(&head.headers) => {
                self.sieve.go_on(&reply);
                self.goes_on = true;
                self.chunks = chunks;
                self.frames = Frames::default();
                self.reader = Some(ReplyReader::new(self.recall.dialect()));
            }
            Ok(_) => self.fail(b"{}"),
            Err(Failure { body, .. }) => self.fail(&body),
        }
    }

    /// Ends with an error, as the format has it in a stream.
    fn fail(&mut self, body: &[u8]) {
        self.ended = true;
        self.out.push_back(Ok(error(self.recall.dialect(), &String::from_utf8_lossy(body))));
    }
}

/// An error of an upstream as an event.
fn error(dialect: Dialect, body: &str) -> Bytes {
    let other =
        r#"{"type":"api_error","message":"the upstream failed in the middle of an answer"}"#;
    let error = json::get(body, &["error"]).filter(|error| error.starts_with('{')).unwrap_or(other);
    match dialect {
        Dialect::Chat => write("", &format!(r#"{{"error":{error}}}"#)),
        Dialect::Anthropic => write("error", &format!(r#"{{"type":"error","error":{error}}}"#)),
        _ => {
            let message = quote(&json::string(error, &["message"]).unwrap_or_default());
            let code = quote(&json::string(error, &["code"]).unwrap_or("server_error".to_owned()));
            let event =
                format!(r#"{{"type":"error","code":{code},"message":{message},"param":null}}"#);
            write("error", &event)
        }
    }
}
