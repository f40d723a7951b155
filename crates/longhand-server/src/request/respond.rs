//! Passing the answer of a request on, with what was done in its headers.

use hyper::header::{CONTENT_LENGTH, HeaderValue};
use hyper::{HeaderMap, Response};
use longhand::driver::Purpose;
use longhand::time;

use crate::answer::{RelayedBody, ResponseBody, UpstreamAnswer};
use crate::headers;
use crate::listener::Listener;
use crate::passage::Passage;
use crate::request::Recording;
use crate::request::prepare::PreparedRequest;
use crate::request::send::AnsweredRequest;
use crate::request::source::RequestSource;

impl Passage<'_> {
    /// The response to a client: the upstream's answer, and a listener that has it archived.
    pub(crate) fn respond(mut self, answered: AnsweredRequest) -> Response<ResponseBody> {
        let AnsweredRequest { prepared, answer, retries, recording } = answered;
        let UpstreamAnswer { head, begun, rest } = answer;
        self.log_line.add("retries", retries);
        self.log_line.window(&prepared.window);
        self.log_line.name("model", prepared.source.model());
        self.log_line.name("session", prepared.source.session_name().unwrap_or_default());
        self.log_line.upstream_status(head.status);
        let is_listened_to = head.status.is_success() && recording == Recording::Archived;
        let mut listener =
            is_listened_to.then(|| Listener::new(&prepared, self.shared, &head.headers));
        let length = headers::number(&head.headers, &CONTENT_LENGTH);
        let unread = listener.as_mut().and_then(|listener| listener.foresee(&begun, length));
        let unread =
            unread.map(|why| format!("this answer cannot be read, or not all of it: {why}"));
        let notice = self.notice(&prepared, unread);
        let waits = self.shared.settings.require_archive;
        let body = RelayedBody::new(begun, rest, self.log_line);
        let mut response = head.response(body.listened_to(listener, length, waits));
        tell_window(response.headers_mut(), &prepared);
        if let Some(notice) = notice {
            response.headers_mut().insert(headers::NOTICE, notice);
        }
        response
    }

    /// What to tell the user in the headers of an answer; what is wrong with the answer goes to the log as well.
    fn notice(
        &mut self,
        prepared: &PreparedRequest,
        unread: Option<String>,
    ) -> Option<HeaderValue> {
        let PreparedRequest { source, window, .. } = prepared;
        let limit = || self.shared.knowledge.limit_of(source);
        let notice = self.shared.notices.next(source, window, limit).or(unread);
        if let Some(notice) = &notice {
            self.log_line.warned(notice);
            let session = source.session_name().unwrap_or_default();
            self.shared.warnings.once(&format!("session {session}: {notice}"));
        }
        let notices = notice.into_iter().chain(self.archive_notice(source));
        let notice = notices.collect::<Vec<_>>().join("; ");
        HeaderValue::try_from(notice).ok().filter(|notice| !notice.is_empty())
    }

    /// What to tell a user of an archive that takes nothing.
    fn archive_notice(&self, source: &RequestSource) -> Option<String> {
        let outage = self.shared.look_after_archive();
        if source.window.purpose == Purpose::Untaken {
            return Some(
                "this request and its answer are not archived: the archive takes nothing"
                    .to_owned(),
            );
        }
        let since = time::format(outage.filter(|_| source.is_recorded())?.since_ms);
        Some(format!(
            "the archive takes nothing since {since}; what is said is kept in memory until it does"
        ))
    }
}

/// Says in the headers of an answer what was sent.
fn tell_window(headers: &mut HeaderMap, prepared: &PreparedRequest) {
    let PreparedRequest { source, window, .. } = prepared;
    let outcome = if window.is_compacted() { "compacted" } else { "passed" };
    headers.insert(headers::OUTCOME, HeaderValue::from_static(outcome));
    if let Some(Ok(session)) = source.session_name().map(HeaderValue::from_str) {
        headers.insert(headers::SESSION, session);
    }
    headers.insert(headers::EDITS, window.edits.into());
    let shortfall = Some(window.shortfall).filter(|shortfall| shortfall.0 > 0);
    for (name, tokens) in [
        (headers::BEFORE, window.before),
        (headers::AFTER, window.after),
        (headers::SHORTFALL, shortfall),
    ] {
        if let Some(tokens) = tokens {
            headers.insert(name, tokens.0.into());
        }
    }
}
