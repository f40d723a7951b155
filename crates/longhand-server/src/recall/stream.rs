//! Joining the streams of several answers.

use std::collections::VecDeque;

use futures_util::{StreamExt, stream};
use longhand_dialect::ReplyFilter;

use super::follow::{RecallFailure, RecallRounds};
use super::{NAME, unpacked};
use crate::answer::{AnswerChunks, Chunk};
use crate::headers::is_events;
use crate::upstream::AnswerHead;

/// A stream that continues with the next answer after a call of the recall tool.
pub(super) struct JoinedStream {
    rounds: RecallRounds,
    chunks: AnswerChunks,
    filter: ReplyFilter,
    out: VecDeque<Chunk>,
    /// Whether this is not the first answer.
    goes_on: bool,
    ended: bool,
}

impl JoinedStream {
    pub(super) fn new(rounds: RecallRounds, chunks: AnswerChunks) -> Self {
        let filter = ReplyFilter::new(rounds.dialect(), NAME);
        Self { rounds, chunks, filter, out: VecDeque::new(), goes_on: false, ended: false }
    }

    /// What the client sees.
    pub(super) fn stream(self) -> AnswerChunks {
        let next = |mut joined: Self| async move { Some((joined.next().await?, joined)) };
        AnswerChunks::Stream(stream::unfold(self, next).boxed())
    }

    async fn next(&mut self) -> Option<Chunk> {
        loop {
            let is_over = !self.ended && self.filter.is_done();
            if is_over && self.goes_on && !self.filter.hides() {
                // A client may close the connection right after the last event.
                self.turn().await;
            }
            if let Some(chunk) = self.out.pop_front() {
                return Some(chunk);
            }
            if self.ended {
                return None;
            }
            if is_over && self.filter.hides() {
                self.turn().await;
                continue;
            }
            match self.chunks.next().await {
                Some(Ok(bytes)) => {
                    let seen = self.filter.push(&bytes);
                    self.show(seen);
                }
                Some(Err(error)) => {
                    self.close();
                    self.end();
                    self.out.push_back(Err(error));
                }
                None => {
                    self.close();
                    self.turn().await;
                }
            }
        }
    }

    fn show(&mut self, seen: Vec<u8>) {
        if !seen.is_empty() {
            self.out.push_back(Ok(seen.into()));
        }
    }

    /// Shows the last bytes, even if they are no complete event.
    fn close(&mut self) {
        let seen = self.filter.close();
        self.show(seen);
    }

    /// Ends with what was held back.
    fn end(&mut self) {
        self.ended = true;
        let seen = self.filter.end();
        self.show(seen);
    }

    /// Comes to the end of an answer: goes on with the next one, or ends.
    async fn turn(&mut self) {
        let reply = self.filter.reply();
        let next = match &reply {
            Some(reply) => self.rounds.follow(reply).await,
            None => None,
        };
        let (Some(reply), Some(next)) = (reply, next) else { return self.end() };
        match next.map(AnswerHead::split) {
            Ok((mut head, chunks)) if is_events(&head.headers) => {
                let Ok(chunks) = unpacked(&mut head, chunks, false).await else {
                    return self.fail(b"{}");
                };
                self.filter.go_on(&reply);
                self.goes_on = true;
                self.chunks = chunks;
            }
            Ok(_) => self.fail(b"{}"),
            Err(RecallFailure { body, .. }) => self.fail(&body),
        }
    }

    /// Ends with an error, as the format has it in a stream.
    fn fail(&mut self, body: &[u8]) {
        self.ended = true;
        let error = self.filter.error(&String::from_utf8_lossy(body));
        self.show(error);
    }
}
