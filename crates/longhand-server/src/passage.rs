//! One request on its way through the proxy; each step has a file in [`request`](crate::request).

use std::sync::Arc;

use hyper::body::{Bytes, Incoming};
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};
use longhand_model::http;

use crate::answer::ResponseBody;
use crate::client::ClientProgram;
use crate::load::MemoryShare;
use crate::log_line::LogLine;
use crate::metrics::Bypass;
use crate::proxy::Shared;
use crate::request::send::AnsweredRequest;
use crate::request::{Recording, RequestContext};
use crate::route::{Caller, Route};
use crate::upstream::{Provider, Upstream};
use crate::{envelope, headers};

/// Why a request is refused that would have to wait for too long.
const TOO_MUCH_TO_ARCHIVE: &str = "Longhand has more to archive than it may hold";

/// One request on its way.
pub(crate) struct Passage<'s> {
    pub(crate) shared: &'s Arc<Shared>,
    pub(crate) provider: Provider,
    pub(crate) upstream: &'s Upstream,
    pub(crate) parts: Parts,
    pub(crate) caller: Caller,
    /// The memory that it takes.
    pub(crate) share: Arc<MemoryShare>,
    pub(crate) log_line: LogLine,
}

/// Why a request does not go through all steps.
pub(crate) enum Exit {
    /// We refuse it.
    Refused(StatusCode, &'static str),
    /// It goes on as it came.
    PassedOn {
        why: Bypass,
        /// Whether its messages are lost for the archive.
        is_lost: bool,
        /// What was read of its body.
        begun: Bytes,
        /// Whether more of its body is to come.
        has_more: bool,
    },
    /// We answer in the place of the upstream: it did not, or was not asked.
    Answered(Box<Response<ResponseBody>>),
}

impl Passage<'_> {
    /// Takes a request to a conversation through all steps.
    pub(crate) async fn converse(
        mut self,
        route: Route,
        mut body: Incoming,
    ) -> Response<ResponseBody> {
        match self.ask(route, &mut body).await {
            Ok(answered) => self.respond(answered),
            Err(exit) => self.leave(exit, body).await,
        }
    }

    async fn ask(&mut self, route: Route, body: &mut Incoming) -> Result<AnsweredRequest, Exit> {
        let context = self.context(route).await?;
        let mut body = self.collect(&context, body).await?;
        self.open_sealed(&context, &mut body).await;
        if let Some(answer) = self.compaction(&context, &body).await {
            return Err(Exit::Answered(Box::new(answer)));
        }
        let prepared = self.prepare(&context, &body).await?;
        self.send(&context, &body, prepared).await
    }

    /// What is known of a request by its head, once the archive has room for what it brings.
    async fn context(&self, route: Route) -> Result<RequestContext, Exit> {
        let settings = &self.shared.settings;
        let has = |name| self.parts.headers.contains_key(name);
        let forgets = settings.no_archive || has(headers::NO_ARCHIVE);
        let has_room = route.counts
            || forgets
            || self.shared.stores.archived.room(settings.archive_wait).await;
        if !has_room && (settings.require_archive || self.archive_works()) {
            return Err(Exit::Refused(StatusCode::SERVICE_UNAVAILABLE, TOO_MUCH_TO_ARCHIVE));
        }
        let recording = match (route.counts, has_room) {
            (true, _) => Recording::Counted,
            (false, true) => Recording::Archived,
            (false, false) => Recording::Untaken,
        };
        Ok(RequestContext {
            dialect: route.dialect,
            recording,
            as_is: has(headers::BYPASS),
            forgets,
            caller: self.caller.clone(),
            client: ClientProgram::of(&self.parts.headers, settings),
            share: Arc::clone(&self.share),
            upstream_knows_options: self.upstream.knows_options,
        })
    }

    /// Whether the archive takes what it is given.
    pub(crate) fn archive_works(&self) -> bool {
        self.shared.stores.archived.outage().is_none()
    }

    /// Answers a request that does not go through all steps.
    async fn leave(mut self, exit: Exit, rest: Incoming) -> Response<ResponseBody> {
        let (why, is_lost, begun, has_more) = match exit {
            Exit::Refused(status, message) => return self.refuse(status, message),
            Exit::Answered(response) => return *response,
            Exit::PassedOn { why, is_lost, begun, has_more } => (why, is_lost, begun, has_more),
        };
        self.note_bypass(why, is_lost);
        let mut response = if has_more {
            self.pass_stream(Some(begun), rest).await
        } else {
            self.log_line.added();
            self.pass(http::full(begun)).await
        };
        headers::tell_bypassed(response.headers_mut());
        response
    }

    /// Logs that a request is passed on as it is, and whether its messages are lost for the archive.
    fn note_bypass(&mut self, why: Bypass, is_lost: bool) {
        self.log_line.bypassed(why);
        self.shared.warnings.once(&format!(
            "a request was passed on as it was: {}",
            match why {
                Bypass::TooLarge => "it is larger than what is looked into",
                Bypass::Unreadable => "it could not be read as a conversation",
                Bypass::Late => "our part took too long",
                Bypass::Panicked => "our part failed",
                Bypass::NotTheOwner => "its session belongs to another key",
            }
        ));
        if is_lost {
            let client = ClientProgram::of(&self.parts.headers, &self.shared.settings);
            self.shared.stores.archived.bypassed(self.caller.owner(), client);
        }
    }

    /// Answers in the place of the upstream.
    pub(crate) fn refuse(mut self, status: StatusCode, message: &str) -> Response<ResponseBody> {
        self.log_line.refused(message);
        self.log_line.status(status);
        envelope::error(self.provider, status, message)
    }
}
