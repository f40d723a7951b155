//! What a proxy has done so far, for people and for Prometheus.

use std::fmt::{self, Write};
use std::sync::atomic::AtomicU64;

use longhand::recall::RecallAnswer;
use longhand_dialect::Unread;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry, Unit};

/// What was counted since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that came in.
    pub requests: u64,
    /// Requests that we refused to send.
    pub refused: u64,
    /// Requests that an upstream did not answer: it could not be reached, or did not answer in time.
    pub unanswered: u64,
    /// Requests that an upstream answered with an error.
    pub failed: u64,
    /// Requests that were shortened.
    pub compacted: u64,
    /// New batches of edits, each of which changes the prefix.
    pub batches: u64,
    /// Requests that went on as they were because our side failed.
    pub bypassed: u64,
    /// Requests that an upstream found too long and that were shortened again.
    pub recovered: u64,
    /// Messages that were archived.
    pub archived: u64,
    /// Answers of which something could not be read; it is kept as it came.
    pub unread: u64,
    /// Messages that the archive did not take at once; most are archived later.
    pub unarchived: u64,
    /// Windows that were sent before their new batch was durable, since that took too long.
    pub late: u64,
    /// Tokens that were left out.
    pub saved: u64,
    /// Tokens that models read, as their providers count them.
    pub billed: u64,
}

/// Why a request went on as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Bypass {
    /// It is larger than what is parsed, or would take too much memory.
    TooLarge,
    /// Its session belongs to somebody else.
    NotTheOwner,
    /// It is no conversation in its format.
    Unreadable,
    /// Our part took too long.
    Late,
    /// Our part panicked.
    Panicked,
}

/// What becomes of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RequestOutcome {
    /// It fits and went on byte for byte.
    Passed,
    /// It was shortened.
    Compacted,
    /// It went on as it was because our side failed.
    Bypassed,
    /// It was not sent.
    Refused,
    /// It ordered a summary, and got ours.
    Answered,
}

/// What tokens were counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum TokenFlow {
    /// They came in.
    In,
    /// They were sent.
    Sent,
    /// They were left out.
    Saved,
    /// The provider read them from its cache.
    Cached,
    /// The provider billed them as input, cached or not.
    Billed,
    /// The model wrote them.
    Output,
}

/// How content was left out of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Rung {
    Stub,
    Clip,
    /// A fold with an index or an extractive summary.
    Fold,
    /// A fold with what a model wrote.
    ModelFold,
}

/// A recall, by what was looked for and whether it was found.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct RecallLabel {
    kind: String,
    outcome: String,
}

/// Why an answer, or some of it, could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct UnreadLabel {
    why: String,
}

/// Names of variants as Prometheus has them: `TooLarge` is `too_large`.
macro_rules! label_values {
    ($($name:ty),*) => {$(
        impl EncodeLabelValue for $name {
            fn encode(&self, encoder: &mut LabelValueEncoder) -> fmt::Result {
                for (at, letter) in format!("{self:?}").char_indices() {
                    if at > 0 && letter.is_uppercase() {
                        encoder.write_char('_')?;
                    }
                    encoder.write_char(letter.to_ascii_lowercase())?;
                }
                Ok(())
            }
        }
    )*};
}

label_values!(Bypass, RequestOutcome, TokenFlow, Rung);

macro_rules! label {
    ($name:ident, $field:ident: $kind:ty) => {
        #[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
        pub(crate) struct $name {
            pub(crate) $field: $kind,
        }
    };
}

label!(BypassLabel, why: Bypass);
label!(OutcomeLabel, outcome: RequestOutcome);
label!(TokensLabel, kind: TokenFlow);
label!(RungLabel, rung: Rung);

/// All counters; they are updated without a lock.
pub(crate) struct Metrics {
    registry: Registry,
    pub(crate) requests: Counter,
    pub(crate) unanswered: Counter,
    pub(crate) failed: Counter,
    pub(crate) conversations: Family<OutcomeLabel, Counter>,
    pub(crate) bypasses: Family<BypassLabel, Counter>,
    pub(crate) batches: Counter,
    pub(crate) recovered: Counter,
    pub(crate) tokens: Family<TokensLabel, Counter>,
    pub(crate) cost: Counter<f64, AtomicU64>,
    pub(crate) folds: Family<RungLabel, Counter>,
    pub(crate) recalls: Family<RecallLabel, Counter>,
    pub(crate) unread: Family<UnreadLabel, Counter>,
    /// Their sum over all reasons.
    unread_all: Counter,
    pub(crate) foreign_events: Counter,
    pub(crate) archived: Counter,
    pub(crate) unarchived: Counter,
    pub(crate) lost: Counter,
    pub(crate) late: Counter,
    pub(crate) troubled: Gauge,
    pub(crate) archive_queued: Gauge,
    pub(crate) archive_lag: Histogram,
    pub(crate) added: Histogram,
    pub(crate) upstream: Histogram,
    pub(crate) open: Gauge,
    pub(crate) held_bytes: Gauge,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("longhand");
        let to = &mut registry;
        Self {
            requests: counted(to, "requests", "Requests that came in"),
            unanswered: counted(to, "unanswered", "Requests that an upstream did not answer"),
            failed: counted(to, "failed", "Requests that an upstream answered with an error"),
            conversations: counted(to, "conversations", "Conversations by what became of them"),
            bypasses: counted(
                to,
                "fail_opens",
                "Conversations that went on as they were because our side failed",
            ),
            batches: counted(to, "batches", "Batches of edits, each of which changes the prefix"),
            recovered: counted(
                to,
                "recovered",
                "Requests that an upstream found too long and that were shortened again",
            ),
            tokens: counted(
                to,
                "tokens",
                "Tokens: in, sent and saved by our count; billed, cached and output by the provider's",
            ),
            cost: counted(to, "cost_dollars", "What requests with a known price have cost"),
            folds: counted(to, "folds", "Edits by what was done"),
            recalls: counted(to, "recalls", "What models asked to have brought back"),
            unread: counted(
                to,
                "unread_answers",
                "Answers of which something could not be read; it is kept as it came",
            ),
            unread_all: Counter::default(),
            foreign_events: counted(
                to,
                "foreign_events",
                "Events of streams that are not of their format; they are passed on",
            ),
            archived: counted(to, "archived", "Entries that were archived"),
            unarchived: counted(
                to,
                "unarchived",
                "Entries that the archive did not take at once; they are tried again until it does",
            ),
            lost: counted(
                to,
                "lost",
                "Messages that the archive will not get unless a client sends them again",
            ),
            late: counted(
                to,
                "late_batches",
                "Windows that were sent before their new batch was durable",
            ),
            troubled: counted(
                to,
                "troubled_sessions",
                "Sessions of which the archive did not take what it was given last",
            ),
            archive_queued: counted(to, "archive_queue", "Work that the archive has still to do"),
            archive_lag: timed(to, "archive_lag", "From being given to being durable"),
            added: timed(to, "added", "What our part added before a conversation went on"),
            upstream: timed(
                to,
                "upstream",
                "From sending a conversation to the head of its answer",
            ),
            open: counted(to, "open_requests", "Requests under way"),
            held_bytes: counted(
                to,
                "request_memory_bytes",
                "About what requests under way take, what was read from them included",
            ),
            registry,
        }
    }

    /// All of it in the format of Prometheus.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        // Only writing can fail, and a string takes all.
        let _ = text::encode(&mut out, &self.registry);
        out
    }

    pub(crate) fn bypass(&self, why: Bypass) {
        self.bypasses.get_or_create(&BypassLabel { why }).inc();
        self.became(RequestOutcome::Bypassed);
    }

    pub(crate) fn became(&self, outcome: RequestOutcome) {
        self.conversations.get_or_create(&OutcomeLabel { outcome }).inc();
    }

    pub(crate) fn flow(&self, kind: TokenFlow, tokens: u64) {
        self.tokens.get_or_create(&TokensLabel { kind }).inc_by(tokens);
    }

    pub(crate) fn fold(&self, rung: Rung, count: u64) {
        if count > 0 {
            self.folds.get_or_create(&RungLabel { rung }).inc_by(count);
        }
    }

    pub(crate) fn recalled(&self, found: &RecallAnswer) {
        let name = |variant: &dyn fmt::Debug| format!("{variant:?}").to_lowercase();
        let recall = RecallLabel { kind: name(&found.sought), outcome: name(&found.outcome) };
        self.recalls.get_or_create(&recall).inc();
    }

    pub(crate) fn unread(&self, why: Unread) {
        let why = format!("{why:?}").to_lowercase();
        self.unread.get_or_create(&UnreadLabel { why }).inc();
        self.unread_all.inc();
    }

    pub(crate) fn counts(&self) -> Counts {
        let became = |outcome| self.conversations.get_or_create(&OutcomeLabel { outcome }).get();
        let flowed = |kind| self.tokens.get_or_create(&TokensLabel { kind }).get();
        Counts {
            requests: self.requests.get(),
            refused: became(RequestOutcome::Refused),
            unanswered: self.unanswered.get(),
            failed: self.failed.get(),
            compacted: became(RequestOutcome::Compacted),
            batches: self.batches.get(),
            bypassed: became(RequestOutcome::Bypassed),
            recovered: self.recovered.get(),
            archived: self.archived.get(),
            unread: self.unread_all.get(),
            unarchived: self.unarchived.get(),
            late: self.late.get(),
            saved: flowed(TokenFlow::Saved),
            billed: flowed(TokenFlow::Billed),
        }
    }
}

fn counted<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

fn timed(registry: &mut Registry, name: &str, help: &str) -> Histogram {
    let metric = Histogram::new(SECONDS);
    registry.register_with_unit(name, help, Unit::Seconds, metric.clone());
    metric
}

/// From a tenth of a millisecond to a minute.
const SECONDS: [f64; 15] = [
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0,
    20.0, 60.0,
];
