//! From the text of a request to its window.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use hyper::StatusCode;
use longhand::Tokens;
use longhand::driver::{Computing, Sink};
use longhand_archive::attempts;
use tokio::time::timeout;

use crate::memo;
use crate::metrics::Bypass;
use crate::passage::{Exit, Passage};
use crate::proxy::Shared;
use crate::request::admit::{admit, admit_at_once};
use crate::request::collect::CollectedBody;
use crate::request::commit::BatchDurability;
use crate::request::parse::{ParsedRequest, RequestDetails};
use crate::request::source::RequestSource;
use crate::request::window::RequestWindow;
use crate::request::{PrepareError, RequestContext};
use crate::turns::Workers;

/// Why a request is refused that must be archived.
pub(crate) const NOT_ARCHIVED: &str = "Longhand could not archive the request, and must";

/// Smaller requests are prepared at once; handing them to another thread would take longer.
const AT_ONCE_BYTES_MAX: usize = 64 << 10;

/// A request with the window that is sent for it.
#[derive(Clone)]
pub(crate) struct PreparedRequest {
    pub(crate) source: Arc<RequestSource>,
    pub(crate) window: RequestWindow,
    /// Whether the archive did not take its newest edits.
    pub(crate) is_refused: bool,
}

/// What comes of an attempt to prepare a request without waiting.
enum AtOnce {
    Prepared(Box<PreparedRequest>),
    /// The archive must be asked, or a window must be planned. A request that was admitted already is parsed again.
    NotYet(Option<Box<ParsedRequest>>),
}

impl Passage<'_> {
    /// Parses and admits a request, and makes a window of which every edit is written down.
    pub(crate) async fn prepare(
        &mut self,
        context: &RequestContext,
        body: &CollectedBody,
    ) -> Result<PreparedRequest, Exit> {
        let attempt = match &body.text {
            Ok(text) => self.prepare_durably(context, text).await,
            Err(why) => Err(*why),
        };
        let prepared = match attempt {
            Ok(prepared) if prepared.is_refused && self.shared.settings.require_archive => {
                return Err(Exit::Refused(StatusCode::SERVICE_UNAVAILABLE, NOT_ARCHIVED));
            }
            Ok(prepared) => prepared,
            Err(_) if self.shared.settings.require_archive => {
                return Err(Exit::Refused(StatusCode::SERVICE_UNAVAILABLE, NOT_ARCHIVED));
            }
            Err(why) => {
                return Err(Exit::PassedOn {
                    why,
                    is_lost: context.is_lost_unread(),
                    begun: self.share.with(body.bytes.clone()),
                    has_more: false,
                });
            }
        };
        if prepared.is_refused {
            self.shared.metrics.late.inc();
        }
        self.log_line.added();
        Ok(prepared)
    }

    /// Prepares a request in time. Where its edits must be archived, it waits for them however late they are, and
    /// prepares it anew if another process was first.
    async fn prepare_durably(
        &self,
        context: &RequestContext,
        text: &Arc<String>,
    ) -> Result<PreparedRequest, Bypass> {
        let mut refused = None;
        for () in attempts() {
            let prepared = self.prepare_in_time(context, text).await?;
            let must_archive = self.shared.settings.require_archive && !prepared.is_refused;
            if !must_archive || self.shared.windows.waiter.may_send(&prepared.source).await {
                return Ok(prepared);
            }
            refused = Some(PreparedRequest { is_refused: true, ..prepared });
            if self.shared.stores.archived.outage().is_some() {
                break;
            }
        }
        refused.ok_or(Bypass::Late)
    }

    /// Prepares a request here if that is quick, else in a task of its own, within the deadline.
    async fn prepare_in_time(
        &self,
        context: &RequestContext,
        text: &Arc<String>,
    ) -> Result<PreparedRequest, Bypass> {
        let opening = memo::key(&context.caller, text);
        let workers = Workers::new(&self.shared.turns, context.caller.owner(), opening);
        let mut parsed = None;
        if text.len() <= AT_ONCE_BYTES_MAX {
            match caught(|| self.shared.prepare_at_once(context, text, &workers))? {
                AtOnce::Prepared(prepared) => return Ok(*prepared),
                AtOnce::NotYet(request) => parsed = request,
            }
        }
        let (shared, context, text) = (Arc::clone(self.shared), context.clone(), Arc::clone(text));
        // What is late goes on: its words are to be archived.
        let work = tokio::spawn(shared.prepare_waiting(context, text, parsed, workers));
        match timeout(self.shared.settings.deadline, work).await {
            Ok(Ok(prepared)) => Ok(prepared?),
            Ok(Err(_)) => Err(Bypass::Panicked),
            Err(_) => Err(Bypass::Late),
        }
    }
}

impl Shared {
    /// Prepares a request that fits as it is, and whose session is in memory.
    fn prepare_at_once(
        &self,
        context: &RequestContext,
        text: &Arc<String>,
        workers: &Workers,
    ) -> Result<AtOnce, PrepareError> {
        let parsed = self.parser.parse(context, text, None)?;
        let store = self.stores.of(context.forgets);
        let ParsedRequest { unplaced, details } = &parsed;
        let is_known = details.fields.previous.is_none()
            && unplaced.chained.chain.said().next().is_some()
            && self.knowledge.is_loaded(details.caller.owner(), parsed.model());
        let at_hand = || {
            let limit = self.limit(context, &parsed);
            let fits = self.fits_untouched(&parsed, limit);
            fits.then(|| store.at_hand(&details.caller, &unplaced.chained.chain)).flatten()
        };
        let session = if is_known { at_hand() } else { None };
        let session = session.filter(|session| {
            let changes = &parsed.details.changes;
            !changes.may_recall || session.offers_recall.get() == Some(&changes.offers_recall)
        });
        let Some(session) = session else {
            return Ok(AtOnce::NotYet(Some(Box::new(parsed))));
        };
        let _planning = parsed.reserve(&self.load)?;
        let meter = self.knowledge.models.meter(parsed.conversation())?;
        let earlier = parsed.details.earlier.clone();
        let tools = (meter, workers.clone());
        let source = match admit_at_once(store, &session, parsed, context.recording, tools) {
            Ok(source) => source,
            Err(parsed) => return Ok(AtOnce::NotYet(parsed)),
        };
        self.parser.memos.keep(&source.admitted, earlier.as_ref());
        if !context.as_is && !source.admitted.session().is_unedited() {
            // Somebody has just edited it.
            return Ok(AtOnce::NotYet(None));
        }
        let window = RequestWindow::untouched(&source);
        let (source, is_refused) = (Arc::new(source), false);
        Ok(AtOnce::Prepared(Box::new(PreparedRequest { source, window, is_refused })))
    }

    /// Prepares a request; it may wait for the archive, but no thread does. It is prepared anew if another process was
    /// first: then its session was renumbered, or its batch was refused. So it is if its session has other tools.
    async fn prepare_waiting(
        self: Arc<Self>,
        context: RequestContext,
        text: Arc<String>,
        mut parsed: Option<Box<ParsedRequest>>,
        workers: Workers,
    ) -> Result<PreparedRequest, PrepareError> {
        let (started, mut refused, mut offers) = (Instant::now(), None, None);
        for () in attempts() {
            let tools = (Arc::clone(&text), workers.clone());
            let prepared = self.prepare_in_place(&context, parsed.take(), offers, tools).await;
            let prepared = match prepared {
                Err(PrepareError::Renumbered) => continue,
                Err(PrepareError::Tools { offers_recall }) => {
                    offers = Some(offers_recall);
                    continue;
                }
                prepared => prepared?,
            };
            if self.windows.waiter.durability(&prepared.source).await != BatchDurability::Refused {
                return Ok(prepared);
            }
            refused = Some(PreparedRequest { is_refused: true, ..prepared });
            let is_late = started.elapsed() > self.settings.deadline / 2;
            if is_late || self.stores.archived.outage().is_some() {
                break;
            }
        }
        refused.ok_or(PrepareError::Renumbered)
    }

    /// Prepares a request in the place that it has now.
    async fn prepare_in_place(
        self: &Arc<Self>,
        context: &RequestContext,
        parsed: Option<Box<ParsedRequest>>,
        offers_recall: Option<bool>,
        (text, workers): (Arc<String>, Workers),
    ) -> Result<PreparedRequest, PrepareError> {
        let parsed = if let Some(parsed) = parsed {
            *parsed
        } else {
            let (shared, context) = (Arc::clone(self), context.clone());
            let parse = move || shared.parser.parse(&context, &text, offers_recall);
            workers.compute(parse).await?
        };
        let store = self.stores.of(context.forgets);
        let parsed = parsed.with_history(context, store, &workers).await?;
        let (owner, model) = (parsed.details.caller.owner(), parsed.model());
        self.knowledge.load(store, owner, model).await;
        if store.checks_sessions() && self.knowledge.calibration.is_due(owner, model) {
            // What other nodes have learned is for the next requests; none waits for it.
            let (shared, model) = (Arc::clone(self), model.to_owned());
            tokio::spawn(async move {
                let archive = shared.stores.archived.archive();
                shared.knowledge.calibration.load(archive, owner, &model).await;
            });
        }
        let limit = self.limit(context, &parsed);
        let fits = self.fits_untouched(&parsed, limit);
        let _planning = parsed.reserve(&self.load)?;
        let source = Arc::new(self.admit(context, parsed, workers).await?);
        let window = if context.as_is {
            RequestWindow::untouched(&source)
        } else {
            self.windows.window(&source, limit.unwrap_or(Tokens::MAX), fits).await?
        };
        Ok(PreparedRequest { source, window, is_refused: false })
    }

    /// The most that a window may have, if there is a most.
    fn limit(&self, context: &RequestContext, parsed: &ParsedRequest) -> Option<Tokens> {
        let RequestDetails { caller, fields, changes, .. } = &parsed.details;
        let (owner, options) = (caller.owner(), &changes.options);
        let limit = self.knowledge.limit(owner, parsed.model(), fields, options);
        limit.filter(|_| !context.as_is)
    }

    /// Whether a request without live edits needs no window.
    fn fits_untouched(&self, parsed: &ParsedRequest, limit: Option<Tokens>) -> bool {
        parsed.details.changes.options.clear.is_none()
            && self.windows.planner().fits_untouched(&parsed.unplaced.twin, limit)
    }

    /// Admits a request, and remembers what was read of it for the next one.
    pub(super) async fn admit(
        &self,
        context: &RequestContext,
        parsed: ParsedRequest,
        workers: Workers,
    ) -> Result<RequestSource, PrepareError> {
        let store = self.stores.of(context.forgets);
        let meter = self.knowledge.models.meter(parsed.conversation())?;
        let earlier = parsed.details.earlier.clone();
        let source = admit(store, parsed, context.recording, meter, workers).await?;
        self.parser.memos.keep(&source.admitted, earlier.as_ref());
        Ok(source)
    }
}

/// Does something that may panic.
fn caught<T>(work: impl FnOnce() -> Result<T, PrepareError>) -> Result<T, Bypass> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => Ok(result?),
        Err(_) => Err(Bypass::Panicked),
    }
}
