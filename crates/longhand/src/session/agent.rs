//! Requests of an agent in the middle of its work: each is made to fit, and its reply is handed back.

use std::borrow::Cow;
use std::sync::Arc;

use longhand_archive::{Hit, RequestRecord, Scope, SearchFilter, ask, attempts, outrun, wait};
use longhand_core::{Handle, Tokens};
use longhand_dialect::{AnswerReader, Dialect, Reply, Stop, common, read_on, read_shared};

use super::driver::SessionDriver;
use super::{Session, SessionError, SessionSettings};
use crate::driver::{
    ChainedRequest, Digests, Here, MadeWindow, PlacedRequest, Planner, Purpose, Twin,
    UnplacedRequest, WindowError, WindowLimits, WindowMaker, WindowSource, shared_messages,
};
use crate::prompt::Window;
use crate::recall;
use crate::redact::{Redactor, hidden_tokens};
use crate::unread::{UnreadAnswer, UnreadContent};

/// A request whose window was made.
pub(super) struct FittedRequest {
    placed: Arc<PlacedRequest>,
    window: MadeWindow,
    tokens: Tokens,
    limit: Tokens,
    is_aside: bool,
}

/// What became of a reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answered {
    /// What of it could not be read, and why. It is kept beside the session as it came.
    pub unread: Option<String>,
}

impl SessionDriver {
    /// Makes a window; if another process is first, what that one wrote is taken in, and it is made again.
    async fn fit(
        &mut self,
        request: &str,
        settings: &SessionSettings,
        now_ms: i64,
    ) -> Result<Window, SessionError> {
        self.sink.set_time(now_ms);
        let text = Arc::new(request.to_owned());
        for () in attempts() {
            if let Some(window) = self.try_fit(&text, settings).await? {
                return Ok(window);
            }
        }
        Err(outrun(self.live.id).into())
    }

    async fn try_fit(
        &mut self,
        text: &Arc<String>,
        settings: &SessionSettings,
    ) -> Result<Option<Window>, SessionError> {
        let maker = WindowMaker {
            planner: Arc::new(Planner {
                settings: settings.plan,
                low_water_percent: settings.low_water_percent,
            }),
            digests: Digests::new(&settings.summarisers, settings.miner.clone()),
            embeddings: settings.embeddings.clone(),
        };
        let unplaced = self.read(text, settings.redactor.as_deref())?;
        let life_of = |_| {
            let of_request = || unplaced.twin.sent().cache_life_ms();
            settings.cache_life_ms.unwrap_or_else(of_request)
        };
        let limits = WindowLimits {
            tokens: settings.budget,
            prices: settings.prices.unwrap_or_default(),
            cache_reach_percent: 100,
            cache_life_ms: settings.prices.map(life_of),
            recall: settings.recall(settings.budget),
        };
        if unplaced.chained.chain.said().next().is_none() {
            return Err(SessionError::Invalid("it has no messages".to_owned()));
        }
        let fits = maker.planner.fits_untouched(&unplaced.twin, Some(limits.tokens));
        let place = self.live.admit(&self.sink, unplaced, true).await?;
        let place = place.ok_or_else(|| outrun(self.live.id))?;
        let (placed, is_aside) = (Arc::clone(&place.placed), place.is_aside);
        let hidden = if place.twin.is_redacted() {
            hidden_tokens(place.twin.sent(), place.twin.stored(), &*settings.meter)
        } else {
            Tokens::ZERO
        };
        let purpose = if is_aside { Purpose::Aside } else { Purpose::Turn };
        let source =
            Arc::new(WindowSource::new(place, purpose, Arc::clone(&settings.meter), hidden));
        let made = maker.window(&self.sink, &Here, &source, limits, fits).await;
        self.sink.flush(&self.live).await?;
        let window = match made {
            Err(WindowError::Renumbered) => return Ok(None),
            made => made?,
        };
        if !source.is_durable().await {
            return Ok(None);
        }
        let tokens = window.after.unwrap_or_else(|| source.total());
        let json = window.text.clone().unwrap_or_else(|| text.as_str().to_owned());
        let shortfall = tokens.saturating_sub(limits.tokens);
        let limit = limits.tokens;
        self.newest = Some(FittedRequest { placed, window, tokens, limit, is_aside });
        Ok(Some(Window { json, tokens, shortfall }))
    }

    /// Reads a request; what it shares with the one before is not read again.
    fn read(
        &self,
        text: &Arc<String>,
        redactor: Option<&Redactor>,
    ) -> Result<UnplacedRequest, SessionError> {
        let stored = match redactor.map(|redactor| redactor.redact(text)) {
            Some(Cow::Owned(redacted)) => Some(Arc::new(redacted)),
            Some(Cow::Borrowed(_)) | None => None,
        };
        let texts = match stored {
            Some(stored) => Twin::redacted(Arc::clone(text), stored),
            None => Twin::same(Arc::clone(text)),
        };
        let earlier = self.newest.as_ref().map(|newest| {
            let common = common(newest.placed.conversation.bytes(), texts.stored());
            (&*newest.placed, common)
        });
        let mut known = earlier;
        let mut twin = texts.try_map(|text| match known.take() {
            Some((earlier, common)) if common > 0 => read_on(text, &earlier.conversation, common),
            _ => read_shared(text, None),
        })?;
        twin.change(|conversation| {
            conversation.keep_thinking();
        });
        if !matches!(twin.stored().dialect, Dialect::Chat | Dialect::Responses | Dialect::Anthropic)
        {
            return Err(SessionError::Invalid("it is a session file, and no request".to_owned()));
        }
        let earlier = earlier.map(|(earlier, common)| {
            (earlier, shared_messages(&earlier.conversation, twin.stored(), common))
        });
        let compared = earlier.map_or(0, |(_, shared)| shared);
        let chained = ChainedRequest::new(twin.stored(), self.live.owner, earlier);
        Ok(UnplacedRequest { twin, chained, compared, keeper: None })
    }

    /// Appends a reply after the newest request.
    async fn answered(
        &self,
        reply: &[u8],
        redactor: Option<&Redactor>,
        now_ms: i64,
    ) -> Result<Answered, SessionError> {
        let Some(newest) = &self.newest else {
            return Err(SessionError::Invalid("no request was made that this answers".to_owned()));
        };
        self.sink.set_time(now_ms);
        let mut reader = AnswerReader::new(newest.placed.dialect(), false);
        reader.push(reply);
        let read = reader.finish();
        if read.failed {
            return Err(SessionError::Reply("the provider reports an error".to_owned()));
        }
        let (why, bytes) = (read.unread.map(|why| why.to_string()), read.bytes);
        let message = read.reply.map(|reply| redacted(reply, redactor));
        let line = newest.line(message.as_ref(), now_ms);
        let answer = message.and_then(|message| newest.placed.answer(message));
        let why = why.or_else(|| answer.is_none().then(|| "it is no answer".to_owned()));
        let mut answer = answer.unwrap_or_else(|| newest.placed.no_answer());
        let rest = if answer.messages.is_empty() { reply } else { &read.rest };
        answer.unread = why.as_ref().map(|why| {
            let content = UnreadContent::of(rest, redactor, false);
            let (kind, coding) = (String::new(), String::new());
            UnreadAnswer { at_ms: now_ms, why: why.clone(), kind, coding, bytes, content }.note()
        });
        let is_read = !answer.messages.is_empty();
        self.live.answered(&self.sink, &newest.placed, answer, line);
        self.sink.flush(&self.live).await?;
        if is_read {
            return Ok(Answered { unread: why });
        }
        Err(SessionError::Reply(why.unwrap_or_default()))
    }
}

impl FittedRequest {
    /// Its line in the request log.
    fn line(&self, reply: Option<&Reply>, now_ms: i64) -> RequestRecord {
        let usage = reply.and_then(|reply| reply.usage).unwrap_or_default();
        let model = reply.and_then(|reply| reply.model.clone());
        let id = reply.and_then(|reply| reply.id.clone());
        RequestRecord {
            at_ms: now_ms,
            preamble: Some(self.placed.preamble),
            head: self.placed.trail.head(),
            batch: self.window.batch,
            model: model.unwrap_or_else(|| self.placed.model().to_owned()),
            agent: "longhand library".to_owned(),
            limit: self.limit.0,
            before: self.window.before.unwrap_or(self.tokens).0,
            window: self.tokens.0,
            sent: usage.input,
            cached: usage.cached_input,
            output: usage.output,
            edits: self.window.edits as u64,
            answer: id.filter(|_| self.placed.dialect() == Dialect::Responses),
            is_cut: reply.is_some_and(|reply| reply.stop == Stop::Other("cut".to_owned())),
            is_aside: self.is_aside,
            ..RequestRecord::default()
        }
    }
}

/// A reply without secrets.
fn redacted(reply: Reply, redactor: Option<&Redactor>) -> Reply {
    let Some(redactor) = redactor else { return reply };
    let clean = |text: String| redactor.redact(&text).into_owned();
    Reply {
        id: reply.id.map(clean),
        model: reply.model.map(clean),
        text: clean(reply.text),
        message: clean(reply.message),
        ..reply
    }
}

impl Session {
    /// Makes the next request of an agent fit, in the format it came in: Chat Completions, Responses or Anthropic
    /// Messages, as the agent would send it, with all messages so far.
    ///
    /// Its messages are durable when this returns, and so is what the window leaves out. As long as there is room, the
    /// window is the request, byte for byte. Hand the reply back with [`Session::answered`].
    ///
    /// ```
    /// use std::sync::Arc;
    /// use longhand::{MemoryArchive, Session};
    ///
    /// let mut session = Session::open(Arc::new(MemoryArchive::default()), "task")?;
    /// let request = r#"{"model":"m","messages":[{"role":"user","content":"Where is the log?"}]}"#;
    /// assert_eq!(session.fit(request, 0)?.json, request);
    /// session.answered(r#"{"choices":[{"message":{"role":"assistant","content":"In var."}}]}"#, 1)?;
    /// # Ok::<(), longhand::SessionError>(())
    /// ```
    pub fn fit(&mut self, request: &str, now_ms: i64) -> Result<Window, SessionError> {
        wait(self.driver.fit(request, &self.settings, now_ms))
    }

    /// [`Session::fit`] for whoever must not block a thread.
    pub async fn fit_async(&mut self, request: &str, now_ms: i64) -> Result<Window, SessionError> {
        self.driver.fit(request, &self.settings, now_ms).await
    }

    /// Takes the reply to the request that was made to fit last, as the provider sent it: a body, or the events of a
    /// stream. It is durable when this returns.
    ///
    /// A reply that cannot be read is kept beside the session as it came, and is an error.
    pub fn answered(&mut self, reply: &str, now_ms: i64) -> Result<Answered, SessionError> {
        wait(self.answered_async(reply, now_ms))
    }

    /// [`Session::answered`] for whoever must not block a thread.
    pub async fn answered_async(
        &mut self,
        reply: &str,
        now_ms: i64,
    ) -> Result<Answered, SessionError> {
        let redactor = self.settings.redactor.as_deref();
        self.driver.answered(reply.as_bytes(), redactor, now_ms).await
    }

    /// Finds what was said in this session, best first.
    pub fn search(&self, query: &str, limit: usize) -> Result<Vec<Hit>, SessionError> {
        wait(self.search_async(query, limit))
    }

    /// [`Session::search`] for whoever must not block a thread.
    pub async fn search_async(&self, query: &str, limit: usize) -> Result<Vec<Hit>, SessionError> {
        let scopes = [Scope::Session(self.id)];
        let filter = SearchFilter::default();
        let found =
            ask::ranked(&*self.archive, &scopes, query, filter, limit, &|_, _| true).await?;
        let hits = found.hits.into_iter().map(|hit| Hit {
            session: hit.session,
            seq: hit.entry.seq,
            round: hit.entry.round,
            snippet: hit.snippet,
        });
        Ok(hits.collect())
    }

    /// Opens a handle of a window; `None` if nothing of this owner has it.
    pub fn expand(&self, handle: &str) -> Result<Option<String>, SessionError> {
        wait(self.expand_async(handle))
    }

    /// [`Session::expand`] for whoever must not block a thread.
    pub async fn expand_async(&self, handle: &str) -> Result<Option<String>, SessionError> {
        let Some(handle) = Handle::parse(handle) else { return Ok(None) };
        let scope = Scope::Session(self.id);
        let recalled = recall::open_async(&*self.archive, &scope, handle).await?;
        Ok(recalled.map(|recalled| recalled.original.as_str().to_owned()))
    }
}
