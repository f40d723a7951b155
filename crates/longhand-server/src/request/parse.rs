//! Reading a request: only computing, nothing is asked of a session or the archive.

use std::borrow::Cow;
use std::sync::Arc;

use hyper::body::Bytes;
use longhand::Owner;
use longhand::driver::{ChainedRequest, Keeper, Twin, UnplacedRequest, shared_messages};
use longhand_dialect::{
    Conversation, Dialect, Options, has_tools, read_on, read_shared, without_options,
};

use crate::client::ClientProgram;
use crate::load::{Load, MemoryShare, SMALL_BYTES_MAX, Working};
use crate::memo::{EarlierRequest, MemoCache};
use crate::recall;
use crate::redaction::Redaction;
use crate::request::admit::AdmittedRequest;
use crate::request::history::ProviderHistory;
use crate::request::{PrepareError, Recording, RequestContext};
use crate::route::{Caller, RequestFields};
use crate::settings::RecallTool;

/// Reads requests.
pub(crate) struct Parser {
    /// Where models are offered the recall tool.
    recall_tool: RecallTool,
    redaction: Redaction,
    pub(crate) memos: MemoCache,
}

/// A request that was read.
pub(crate) struct ParsedRequest {
    pub(crate) unplaced: UnplacedRequest,
    pub(crate) details: RequestDetails,
}

/// What a request has besides its conversation.
pub(crate) struct RequestDetails {
    /// The request that it goes on from, if that is still in memory.
    pub(crate) earlier: Option<EarlierRequest>,
    pub(crate) fields: RequestFields,
    pub(crate) changes: ProviderChanges,
    /// The history before it that the provider holds, if the archive has it.
    pub(crate) history: Option<ProviderHistory>,
    pub(crate) caller: Caller,
    pub(crate) client: ClientProgram,
    /// The memory that it takes.
    pub(crate) share: Arc<MemoryShare>,
    /// How that was counted, for the next request that begins like it.
    pub(crate) working: Working,
    /// About what it takes in memory besides its text.
    pub(crate) working_bytes: u64,
}

/// What Longhand changes in a request before it makes a window of it.
#[derive(Default)]
pub(crate) struct ProviderChanges {
    /// What it asks of its provider and gets from us.
    pub(crate) options: Options,
    /// Whether it can offer the recall tool.
    pub(crate) may_recall: bool,
    /// Whether it offers it.
    pub(crate) offers_recall: bool,
    /// Whether the provider is told to drop thinking before any edit, since hidden calls may void it.
    pub(crate) drops_thinking: bool,
    /// The changed request; `None` if nothing was changed.
    pub(crate) body: Option<Bytes>,
}

/// The request of the cache that begins like a new one, and how many bytes both have in common.
type MemoMatch = (Arc<AdmittedRequest>, usize);

impl Parser {
    pub(crate) fn new(recall_tool: RecallTool, redaction: Redaction) -> Self {
        Self { recall_tool, redaction, memos: MemoCache::default() }
    }

    /// Reads a request: takes options out, offers the recall tool, takes secrets out of what is stored, and chains
    /// the messages. Whether its session has that tool is assumed, if it is not said.
    pub(crate) fn parse(
        &self,
        context: &RequestContext,
        text: &Arc<String>,
        offers_recall: Option<bool>,
    ) -> Result<ParsedRequest, PrepareError> {
        let memo = self.memos.find(&context.caller, context.dialect, text);
        let counted = memo.as_ref().map(|(earlier, common)| (&earlier.working, *common));
        let mut working =
            Working::of(text, counted, &context.share).ok_or(PrepareError::TooCostly)?;
        let working_bytes = working.bytes;
        let of_earlier = || {
            let (earlier, _) = memo.as_ref()?;
            earlier.session().offers_recall.get().copied()
        };
        let offers_recall = offers_recall.or_else(of_earlier).unwrap_or(true);
        let (adapted, changes) = self.change(context, text, offers_recall);
        let texts = self.redact(adapted);
        let is_as_it_came = Arc::ptr_eq(text, texts.stored());
        let memo = if is_as_it_came {
            memo
        } else {
            // The working memory was counted in another text.
            working = Working::default();
            self.memos.find(&context.caller, context.dialect, texts.stored())
        };
        let twin = read_twin(texts, memo.as_ref(), context.dialect)?;
        let fields = RequestFields::of(twin.sent()).redacted(&self.redaction);
        let caller = fields.caller(&context.caller);
        let earlier = earlier(memo, &caller, context.forgets, twin.stored());
        let unplaced = unplaced(twin, caller.owner(), earlier.as_ref(), &context.share);
        let client = context.client.clone().with(unplaced.twin.stored());
        let (share, history) = (Arc::clone(&context.share), None);
        let details = RequestDetails {
            earlier,
            fields,
            changes,
            history,
            caller,
            client,
            share,
            working,
            working_bytes,
        };
        Ok(ParsedRequest { unplaced, details })
    }

    /// Takes out what we do in the place of the provider, and offers the recall tool.
    fn change(
        &self,
        context: &RequestContext,
        text: &Arc<String>,
        offers_recall: bool,
    ) -> (Arc<String>, ProviderChanges) {
        let dialect = context.dialect;
        let mut options = Options::default();
        if !context.upstream_knows_options && !context.as_is {
            options = Options::of(dialect, text);
        }
        let without = if options.is_empty() { None } else { without_options(dialect, text) };
        let text = without.map_or_else(|| Arc::clone(text), Arc::new);
        // Where nothing is kept, nothing can be brought back.
        let is_wanted = match self.recall_tool {
            RecallTool::Never => false,
            RecallTool::BesideOthers => has_tools(&text),
            RecallTool::Always => true,
        };
        let may_recall = is_wanted
            && !context.as_is
            && !context.forgets
            && context.recording != Recording::Untaken;
        let offer = may_recall.then(|| recall::offer(dialect, &text)).flatten();
        let may_recall = offer.is_some();
        let offer = offer.filter(|_| offers_recall);
        let offers_recall = offer.is_some();
        let drops_thinking = offer.as_ref().is_some_and(|offer| offer.drops_thinking);
        let text = offer.map_or(text, |offer| Arc::new(offer.request));
        let is_changed = !options.is_empty() || offers_recall;
        let body = is_changed.then(|| Bytes::from(text.as_bytes().to_vec()));
        (text, ProviderChanges { options, may_recall, offers_recall, drops_thinking, body })
    }

    /// The text as it is sent, and as it is stored.
    fn redact(&self, text: Arc<String>) -> Twin<Arc<String>> {
        match self.redaction.text(&text) {
            Cow::Borrowed(_) => Twin::same(text),
            Cow::Owned(redacted) => Twin::redacted(text, Arc::new(redacted)),
        }
    }
}

/// Reads both forms of a request; the stored one is read on from what is known of an earlier request.
fn read_twin(
    texts: Twin<Arc<String>>,
    memo: Option<&MemoMatch>,
    dialect: Dialect,
) -> Result<Twin<Conversation>, PrepareError> {
    let mut memo = memo;
    let mut twin = texts.try_map(|text| match memo.take() {
        Some((earlier, common)) => read_on(text, &earlier.placed.conversation, *common),
        None => read_shared(text, Some(dialect)),
    })?;
    twin.change(|conversation| {
        conversation.keep_thinking();
    });
    Ok(twin)
}

/// The request that a new one goes on from, if both are of one caller and one store.
fn earlier(
    memo: Option<MemoMatch>,
    caller: &Caller,
    forgets: bool,
    conversation: &Conversation,
) -> Option<EarlierRequest> {
    let is_same =
        |(request, _): &MemoMatch| request.caller == *caller && request.store.forgets == forgets;
    let (request, common) = memo.filter(is_same)?;
    let shared_messages = shared_messages(&request.placed.conversation, conversation, common);
    Some(EarlierRequest { request, shared_messages })
}

/// A conversation with its chain.
pub(super) fn unplaced(
    twin: Twin<Conversation>,
    owner: Owner,
    earlier: Option<&EarlierRequest>,
    share: &Arc<MemoryShare>,
) -> UnplacedRequest {
    let compared = earlier.map_or(0, |earlier| earlier.shared_messages);
    let known = earlier.map(|earlier| (&*earlier.request.placed, compared));
    let chained = ChainedRequest::new(twin.stored(), owner, known);
    let keeper: Arc<dyn Keeper> = Arc::<MemoryShare>::clone(share);
    UnplacedRequest { twin, chained, compared, keeper: Some(keeper) }
}

impl ParsedRequest {
    pub(crate) fn conversation(&self) -> &Conversation {
        self.unplaced.twin.stored()
    }

    pub(crate) fn model(&self) -> &str {
        self.conversation().model.as_deref().unwrap_or_default()
    }

    /// Reserves the memory for what was read, and for a plan: the latter as long as its share is held.
    pub(crate) fn reserve(&self, load: &Arc<Load>) -> Result<Arc<MemoryShare>, PrepareError> {
        // Planning takes twice as much again, for a moment.
        let planning = load.share();
        let bytes = self.details.working_bytes;
        let is_small = bytes < SMALL_BYTES_MAX;
        if !self.details.share.grow(bytes) || !(is_small || planning.grow(2 * bytes)) {
            return Err(PrepareError::TooCostly);
        }
        Ok(planning)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::HeaderMap;
    use longhand::Redactor;

    const KEY: &str = "sk-ant-api03-Zk3Qm8Rt1Vx6Yb2Nc7Wd4Hf9Jg5Ls0Pq";

    fn context(dialect: Dialect) -> RequestContext {
        RequestContext {
            dialect,
            recording: Recording::Archived,
            as_is: false,
            forgets: false,
            caller: Caller::new(Owner::LOCAL, &HeaderMap::new()),
            client: ClientProgram::default(),
            share: Load::new(64 << 20).share(),
            upstream_knows_options: false,
        }
    }

    fn parsed(parser: &Parser, dialect: Dialect, text: &str) -> ParsedRequest {
        parser.parse(&context(dialect), &Arc::new(text.to_owned()), None).unwrap()
    }

    #[test]
    fn secrets_stay_in_what_is_sent_and_are_not_stored() {
        let redactor = Arc::new(Redactor::new([7; 32]));
        let parser = Parser::new(RecallTool::Never, Redaction::new(Some(&redactor)));
        let text = |key: &str| {
            format!(r#"{{"model":"m","messages":[{{"role":"user","content":"Use {key} now."}}]}}"#)
        };
        let request = parsed(&parser, Dialect::Chat, &text(KEY));
        assert!(request.unplaced.twin.is_redacted());
        assert_eq!(request.unplaced.twin.sent().bytes(), text(KEY), "not a byte is changed");
        assert!(!request.unplaced.twin.stored().bytes().contains(KEY));
        let request = parsed(&parser, Dialect::Chat, &text("it"));
        assert!(!request.unplaced.twin.is_redacted(), "there is no secret in it");
    }

    #[test]
    fn the_recall_tool_is_offered_where_something_can_be_brought_back() {
        let parser = Parser::new(RecallTool::Always, Redaction::default());
        let text = r#"{"model":"m","messages":[{"role":"user","content":"Hello."}]}"#;
        let request = parsed(&parser, Dialect::Chat, text);
        assert!(request.details.changes.offers_recall);
        let body = request.details.changes.body.unwrap();
        assert_eq!(
            *body,
            *request.unplaced.twin.stored().bytes().as_bytes(),
            "it is what was parsed"
        );
        for context in [
            RequestContext { as_is: true, ..context(Dialect::Chat) },
            RequestContext { forgets: true, ..context(Dialect::Chat) },
            RequestContext { recording: Recording::Untaken, ..context(Dialect::Chat) },
        ] {
            let request = parser.parse(&context, &Arc::new(text.to_owned()), None).unwrap();
            assert!(
                !request.details.changes.offers_recall && request.details.changes.body.is_none()
            );
        }
    }

    #[test]
    fn what_an_upstream_does_itself_goes_through_byte_for_byte() {
        let parser = Parser::new(RecallTool::Never, Redaction::default());
        let of_openai = r#"{ "model":"m","truncation" : "auto","context_management":[{"type":"compaction","compact_threshold":9000}],"input":[{"type":"compaction","encrypted_content":"gAAA"},{"role":"user","content":"Go on."}]}"#;
        let of_anthropic = r#"{"model":"m","max_tokens":9, "context_management":{"edits":[{"type":"clear_tool_uses_20250919"},{"type":"compact_20260112"}]},"messages":[{"role":"user","content":"Go on."}]}"#;
        for (dialect, text) in [(Dialect::Responses, of_openai), (Dialect::Anthropic, of_anthropic)]
        {
            let asked = |upstream_knows_options| {
                let context = RequestContext { upstream_knows_options, ..context(dialect) };
                parser.parse(&context, &Arc::new(text.to_owned()), None).unwrap()
            };
            let known = asked(true);
            assert!(known.details.changes.body.is_none());
            assert!(known.details.changes.options.is_empty(), "the provider has the threshold");
            assert_eq!(known.unplaced.twin.sent().bytes(), text);
            // Where the upstream knows nothing of it, it does not see it, and the threshold is ours.
            let unknown = asked(false).details.changes;
            assert!(unknown.options.compact_at.is_some());
            let body = String::from_utf8(unknown.body.unwrap().to_vec()).unwrap();
            assert!(!body.contains("context_management") && !body.contains("truncation"), "{body}");
        }
    }

    #[test]
    fn a_request_that_goes_on_from_an_unknown_answer_is_a_session_of_its_own() {
        let parser = Parser::new(RecallTool::Never, Redaction::default());
        let text = r#"{"model":"m","previous_response_id":"resp_1","input":"Go on."}"#;
        let request = parsed(&parser, Dialect::Responses, text);
        assert_eq!(request.details.fields.previous.as_deref(), Some("resp_1"));
        assert!(request.details.history.is_none(), "parsing asks nobody for the history");
        assert_eq!(request.details.caller.name(), Some("›resp_1"));
    }
}
