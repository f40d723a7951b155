//! What of a request is sent.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Bytes;
use longhand::{Archive, Tokens};
use longhand_core::{Budget, Edit, Meter, Original, Plan, Scale, plan};
use longhand_dialect::{Conversation, Dialect, DialectError, Overflow, Reply, read};
use longhand_meter::{ImageRule, MeterError, MeterSpec, Provider};

use crate::archivist::Archivist;
use crate::counters::{Counters, add};
use crate::lineage::{Lineage, Root, Thread};
use crate::route::{Caller, Fields, Route};
use crate::sticky::Sticky;
use crate::{Settings, model};

/// How many of the newest messages are to stay whole if that is possible.
const NEWEST: usize = 4;

type SharedMeter = Arc<dyn Meter + Send + Sync>;

/// Makes windows, and knows what was sent before.
pub(crate) struct Windows {
    budget: Option<Tokens>,
    low_water_percent: u64,
    archive: Arc<dyn Archive>,
    archivist: Arc<Archivist>,
    counters: Arc<Counters>,
    lineage: Mutex<Lineage>,
    meters: Mutex<HashMap<String, SharedMeter>>,
    /// The most tokens by our count that a model was found to take.
    learned: Mutex<HashMap<String, Tokens>>,
}

/// A request that was understood.
pub(crate) struct Asked {
    /// Where it belongs; nowhere if it is only counted.
    pub(crate) session: Option<String>,
    conversation: Conversation,
    root: Root,
    thread: Thread,
    aside: bool,
    meter: SharedMeter,
    fixed: Tokens,
}

/// What is sent for a request.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// The bytes; those of the request if there are none.
    pub(crate) body: Option<Bytes>,
    /// The size of the request, where it was counted.
    pub(crate) before: Option<Tokens>,
    /// The size of the window, where it was counted.
    pub(crate) after: Option<Tokens>,
    /// How many edits it has.
    pub(crate) edits: usize,
    /// How far it is over its limit.
    pub(crate) shortfall: Tokens,
}

/// Why a request goes on as it is.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    #[error(transparent)]
    Dialect(#[from] DialectError),
    #[error(transparent)]
    Meter(#[from] MeterError),
    #[error("the request has no messages")]
    Empty,
}

impl Windows {
    pub(crate) fn new(
        settings: &Settings,
        archivist: Arc<Archivist>,
        counters: Arc<Counters>,
    ) -> Self {
        Self {
            budget: settings.budget,
            low_water_percent: settings.low_water_percent,
            archive: Arc::clone(&settings.archive),
            archivist,
            counters,
            lineage: Mutex::default(),
            meters: Mutex::default(),
            learned: Mutex::default(),
        }
    }

    /// Reads a request, finds its session, has what is new archived, and makes the window.
    pub(crate) fn prepare(
        &self,
        route: Route,
        body: &Bytes,
        caller: &Caller,
    ) -> Result<(Asked, Window), Trouble> {
        let conversation = read(body.to_vec(), Some(route.dialect))?;
        let fields = Fields::of(conversation.bytes());
        let root = caller.root(&fields);
        let thread = Thread::of(root.start, &conversation.messages);
        if thread.links.is_empty() {
            return Err(Trouble::Empty);
        }
        self.remember(&root, &thread);
        let placed = if route.counts { None } else { self.place(&root, &thread, &conversation) };
        let (session, aside) = placed.unzip();
        let aside = aside.unwrap_or_default();
        let meter = self.meter(&conversation)?;
        let scale = Scale::new(&*meter);
        let fixed = conversation.attributes.iter().map(|text| scale.text(&text.decode())).sum();
        let asked = Asked { session, conversation, root, thread, aside, meter, fixed };
        let limit = self.limit(&asked, &fields);
        let window = limit.map(|limit| self.within(&asked, limit)).transpose()?;
        Ok((asked, window.unwrap_or_else(Window::untouched)))
    }

    /// Puts a request into its session; gives the session and whether the request is a side call.
    fn place(
        &self,
        root: &Root,
        thread: &Thread,
        conversation: &Conversation,
    ) -> Option<(String, bool)> {
        let mut lineage = lock(&self.lineage);
        let is_old = lineage.known(&thread.links) == thread.links.len();
        let aside = is_old && lineage.is_aside(thread);
        let placed = lineage.place(root, thread, false)?;
        // Queued under the lock, so that entries are in the order of their links.
        if placed.known < thread.links.len() {
            let new = &conversation.messages[thread.after(placed.known)..];
            self.archivist.append(&placed.session, conversation.dialect, new);
        }
        Some((placed.session, aside))
    }

    /// Reads from the archive what an earlier run knew of a chain.
    fn remember(&self, root: &Root, thread: &Thread) {
        if self.remember_links(root, thread) {
            self.remember_window(thread);
        }
    }

    /// Finds the newest window of a chain in the archive.
    fn remember_window(&self, thread: &Thread) {
        let expand = |link, generation| {
            let original = self.archive.expand(Sticky::handle(link, generation)).ok()??;
            Sticky::parse(&self.archive.text_of(&original).ok()?)
        };
        let known = lock(&self.lineage).known(&thread.links);
        for link in thread.links[..known].iter().rev() {
            let mut generation = 0;
            while let Some(sticky) = expand(*link, generation) {
                lock(&self.lineage).keep(&thread.links, sticky);
                generation += 1;
            }
            if generation > 0 {
                return;
            }
        }
    }

    /// Reads the sessions of a chain; says whether there were any.
    fn remember_links(&self, root: &Root, thread: &Thread) -> bool {
        let mut found = false;
        loop {
            let (id, before) = {
                let lineage = lock(&self.lineage);
                let Some(id) = lineage.candidate(root, &thread.links) else { return found };
                let known = lineage.known(&thread.links);
                (id, known.checked_sub(1).map_or(root.start, |last| thread.links[last]))
            };
            let Ok(Some(head)) = self.archive.head(&id) else { return found };
            let Ok(entries) = self.archive.entries(&id, 0..head.entries) else { return found };
            let messages: Vec<_> = entries
                .iter()
                .filter_map(|entry| {
                    let dialect = entry.form.parse::<Dialect>().ok()?;
                    let body = format!("[{}]", entry.raw);
                    Some(read(body.into_bytes(), Some(dialect)).ok()?.messages)
                })
                .flatten()
                .collect();
            lock(&self.lineage).restore(&id, before, &messages);
            found = true;
        }
    }

    /// Has an answer archived after the request that it answers.
    pub(crate) fn answered(&self, asked: &Asked, reply: &Reply) {
        let dialect = asked.conversation.dialect;
        let is_list = reply.message.trim_start().starts_with('[');
        let list = if is_list { reply.message.clone() } else { format!("[{}]", reply.message) };
        let Ok(answer) = read(list.into_bytes(), Some(dialect)) else { return };
        let first = asked.conversation.messages.len();
        let mut thread = asked.thread.clone();
        thread.append(asked.root.start, &answer.messages, first);
        let mut lineage = lock(&self.lineage);
        let Some(placed) = lineage.place(&asked.root, &thread, asked.aside) else { return };
        if placed.known < thread.links.len() {
            let new = thread.after(placed.known).saturating_sub(first);
            self.archivist.append(&placed.session, dialect, &answer.messages[new..]);
        }
    }

    /// The most that a request may have, if there is a most.
    fn limit(&self, asked: &Asked, fields: &Fields) -> Option<Tokens> {
        let model = asked.conversation.model.as_deref().unwrap_or_default();
        let reply = Tokens(fields.reply_max.unwrap_or(0));
        let known = || model::window(model).map(|window| window.saturating_sub(reply));
        let own = self.budget.or_else(known);
        let learned = lock(&self.learned).get(model).copied();
        own.into_iter().chain(learned).min()
    }

    /// The window within a limit: with the edits of the last one as long as that fits, then with a new
    /// batch of them.
    fn within(&self, asked: &Asked, limit: Tokens) -> Result<Window, Trouble> {
        let conversation = &asked.conversation;
        let sticky = lock(&self.lineage).window(&asked.thread.links);
        let kept = sticky.and_then(|own| own.edits(&asked.thread, &conversation.messages));
        let mut last = None;
        if let Some(edits) = kept {
            let text = conversation.apply(&edits);
            let shown = read(text.into_bytes(), Some(conversation.dialect))?;
            let whole = Budget::of(Tokens::MAX);
            let tokens = asked.plan(&shown, &whole).tokens;
            let window = asked.window(&edits, shown.bytes(), tokens, limit);
            if tokens <= limit {
                return Ok(window);
            }
            last = Some(window);
        }
        let plan = self.batch(asked, limit);
        match last {
            // Where nothing fits, a break of the prefix must be worth it.
            Some(last) if !plan.fits() && last.is_nearly(plan.tokens) => Ok(last),
            _ if plan.is_noop() => Ok(Window {
                after: Some(plan.tokens),
                shortfall: plan.shortfall,
                ..Window::untouched()
            }),
            _ => {
                let text = conversation.apply(&plan.edits);
                self.keep(asked, &plan.edits);
                Ok(asked.window(&plan.edits, &text, plan.tokens, limit))
            }
        }
    }

    /// Plans down to the low-water mark, or not as far if that would cost what is newest.
    fn batch(&self, asked: &Asked, limit: Tokens) -> Plan {
        let low = self.low_water_percent.min(100);
        let newest = asked.conversation.messages.len().saturating_sub(NEWEST);
        let is_newest = |edit: &Edit| matches!(edit, Edit::Clip { at, .. } if at.message >= newest);
        let plan = |percent: u64| {
            let target = Some(Tokens((u128::from(limit.0) * u128::from(percent) / 100) as u64));
            let budget = Budget { limit, reserve: Tokens::ZERO, target };
            asked.plan(&asked.conversation, &budget)
        };
        [low, low.midpoint(100)]
            .into_iter()
            .map(plan)
            .find(|plan| !plan.edits.iter().any(is_newest))
            .unwrap_or_else(|| plan(100))
    }

    fn keep(&self, asked: &Asked, edits: &[Edit]) {
        let Some(session) = &asked.session else { return };
        let messages = &asked.conversation.messages;
        let mut originals: Vec<_> =
            edits.iter().filter_map(|edit| edit.original(messages)).collect();
        if let Some(sticky) = Sticky::new(edits, &asked.thread, messages) {
            let json = sticky.json();
            let kept = lock(&self.lineage).keep(&asked.thread.links, sticky);
            // So that another run goes on with the same window.
            if let Some((link, generation)) = kept {
                originals.push((Sticky::handle(link, generation), Original::Json(json)));
            }
        }
        self.archivist.keep(session, originals);
        add(&self.counters.batches, 1);
    }

    /// A smaller window after an upstream has found one too long; `None` if there is no smaller one.
    ///
    /// What the upstream says of its limit and its count is remembered for the model.
    pub(crate) fn harder(
        &self,
        asked: &Asked,
        sent: &Window,
        overflow: Overflow,
    ) -> Option<Window> {
        let own = sent.after.unwrap_or_else(|| asked.total());
        let limit = match (overflow.limit, overflow.asked) {
            (Some(limit), Some(counted)) if counted > limit && !overflow.bytes => {
                // By our count, and a little less: what is asked for may be cut or rounded.
                Tokens(
                    (u128::from(own.0) * u128::from(limit) / u128::from(counted) * 19 / 20) as u64,
                )
            }
            (Some(limit), None) if limit < own.0 && !overflow.bytes => Tokens(limit * 9 / 10),
            _ => Tokens(own.0 * 6 / 10),
        };
        if !overflow.bytes && overflow.limit.is_some() {
            let model = asked.conversation.model.clone().unwrap_or_default();
            lock(&self.learned).insert(model, limit);
        }
        let window = self.within(asked, limit).ok()?;
        let smaller = window.body.is_some() && window.after.is_some_and(|after| after < own);
        smaller.then_some(window)
    }

    fn meter(&self, conversation: &Conversation) -> Result<SharedMeter, MeterError> {
        let model = conversation.model.as_deref();
        let provider = match conversation.dialect {
            Dialect::Anthropic => Provider::Anthropic,
            _ => Provider::OpenAi,
        };
        let spec = MeterSpec::for_model(model.unwrap_or_default());
        let images = ImageRule::for_model(provider, model);
        let name = format!("{spec} {images:?}");
        let mut meters = lock(&self.meters);
        if let Some(meter) = meters.get(&name) {
            return Ok(Arc::clone(meter));
        }
        let meter: SharedMeter = Arc::from(spec.open(images)?);
        meters.insert(name, Arc::clone(&meter));
        Ok(meter)
    }
}

impl Asked {
    pub(crate) fn dialect(&self) -> Dialect {
        self.conversation.dialect
    }

    fn total(&self) -> Tokens {
        let scale = Scale::new(&*self.meter);
        let messages = self.conversation.messages.iter();
        let own: Tokens = messages.map(|message| scale.message(message, Tokens::MAX)).sum();
        own + self.fixed + scale.framing().reply
    }

    fn plan(&self, conversation: &Conversation, budget: &Budget) -> Plan {
        let settings = longhand_core::Settings::default();
        plan(&conversation.history(self.fixed), budget, &settings, &*self.meter)
    }

    fn window(&self, edits: &[Edit], text: &str, after: Tokens, limit: Tokens) -> Window {
        Window {
            shortfall: after.saturating_sub(limit),
            body: Some(Bytes::copy_from_slice(text.as_bytes())),
            before: Some(self.total()),
            after: Some(after),
            edits: edits.len(),
        }
    }
}

impl Window {
    /// The request as it is.
    pub(crate) fn untouched() -> Self {
        Self { body: None, before: None, after: None, edits: 0, shortfall: Tokens::ZERO }
    }

    /// Whether another size saves less than a tenth.
    fn is_nearly(&self, tokens: Tokens) -> bool {
        self.after.is_some_and(|after| tokens.0.saturating_mul(10) >= after.0.saturating_mul(9))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
