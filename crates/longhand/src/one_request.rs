//! One request, made to fit.

use std::sync::Arc;

use longhand_core::anchor::Miner;
use longhand_core::{Budget, Handle, Meter, Scale, Tokens};
use longhand_dialect::{Conversation, Dialect, Finding, read};
use longhand_meter::{ImageProvider, ImageRule, MeterSpec};
use longhand_summary::{Extractive, Summariser};

use crate::SessionError;
use crate::admit::{Admitted, WindowRequest};
use crate::digest::Summarised;
use crate::prompt::Window;
use crate::recall;

/// A meter that threads can share.
pub type SharedMeter = Arc<dyn Meter>;

/// Makes a request fit into `budget` tokens, in the format it came in.
///
/// It may be a request or a list of messages for Chat Completions, Responses or Anthropic Messages, or a
/// session file of an agent. What is left out is marked with a handle, and [`expand`] brings it back.
/// [`Fit`] has more choices.
///
/// ```
/// use longhand::{Tokens, expand, fit};
///
/// let log = "line of a long log\n".repeat(500);
/// let request = format!(
///     r#"[{{"role":"user","content":"Why does it fail?"}},
///         {{"role":"assistant","content":null,"tool_calls":[{{"id":"a","type":"function","function":{{"name":"log","arguments":"{{}}"}}}}]}},
///         {{"role":"tool","tool_call_id":"a","content":{log:?}}},
///         {{"role":"assistant","content":"The disk is full."}},
///         {{"role":"user","content":"Since when?"}}]"#
/// );
/// let window = fit(&request, Tokens(600))?;
/// assert!(window.tokens <= Tokens(600));
///
/// let at = window.json.find("h:").unwrap();
/// assert_eq!(expand(&request, &window.json[at..at + 14])?, Some(log));
/// # Ok::<(), longhand::SessionError>(())
/// ```
pub fn fit(request: &str, budget: Tokens) -> Result<Window, SessionError> {
    Fit::within(budget).request(request)
}

/// Returns what a handle in a window stands for, from the request that the window was made from.
///
/// A handle is the hash of its content, so no archive is needed. `None` if the request has nothing with it.
pub fn expand(request: &str, handle: &str) -> Result<Option<String>, SessionError> {
    let Some(handle) = Handle::parse(handle) else { return Ok(None) };
    let conversation = read(request.as_bytes().to_vec(), None)?;
    let original = recall::open_from(&conversation, handle);
    Ok(original.map(|original| original.as_str().to_owned()))
}

/// How a request is made to fit.
///
/// ```
/// use longhand::{Fit, Policy, Tokens};
///
/// let mut fit = Fit { reserve: Tokens(1_000), ..Fit::within(Tokens(8_000)) };
/// fit.plan.policy = Policy::Trim;
/// let window = fit.request(r#"[{"role":"user","content":"Hello."}]"#)?;
/// assert_eq!(window.json, r#"[{"role":"user","content":"Hello."}]"#);
/// # Ok::<(), longhand::SessionError>(())
/// ```
#[derive(Clone)]
pub struct Fit {
    /// The most tokens of the request and its reply, tools and system prompt included.
    pub budget: Tokens,
    /// The tokens of the budget that are kept free for the reply.
    pub reserve: Tokens,
    /// The policy, and what it leaves alone.
    pub plan: longhand_core::PlanSettings,
    /// Who summarises folded messages, in the order they are tried; with none, a fold lists names.
    pub summarisers: Vec<Arc<dyn Summariser>>,
    /// Counts tokens; the meter of the model that the request names if this is `None`.
    pub meter: Option<SharedMeter>,
}

impl Fit {
    /// The defaults: the policy `auto` and the summariser that needs no model.
    pub fn within(budget: Tokens) -> Self {
        Self {
            budget,
            reserve: Tokens::ZERO,
            plan: longhand_core::PlanSettings::default(),
            summarisers: vec![Arc::new(Extractive)],
            meter: None,
        }
    }

    /// Makes a request fit.
    ///
    /// A request that cannot be made small enough gives the smallest window there is, with its
    /// [`Window::shortfall`]. One that a provider would refuse for another reason is an error.
    pub fn request(&self, request: &str) -> Result<Window, SessionError> {
        let mut conversation = read(request.as_bytes().to_vec(), None)?;
        if let Some(finding) = conversation.check().into_iter().find(Finding::is_fault) {
            return Err(SessionError::Invalid(finding.to_string()));
        }
        conversation.keep_thinking();
        let meter = match &self.meter {
            Some(meter) => Arc::clone(meter),
            None => meter_for(conversation.dialect, conversation.model.as_deref())?,
        };
        let fixed = tokens_outside_messages(&conversation, &Scale::new(&*meter));
        let (bytes_max, images_max) = conversation.size_limits();
        let digest =
            Summarised::new(self.summarisers.clone(), Arc::clone(&meter), Miner::default());
        let fitted = Admitted::alone(conversation).window(&WindowRequest {
            budget: Budget {
                reserve: self.reserve,
                bytes_max,
                images_max,
                ..Budget::of(self.budget)
            },
            settings: self.plan,
            meter: &*meter,
            digest: &digest,
            fixed,
            summary: &|| (None, Vec::new()),
            now_ms: 0,
        })?;
        let (tokens, shortfall) = (fitted.plan.tokens(), fitted.plan.shortfall);
        Ok(Window { json: fitted.text, tokens, shortfall })
    }
}

/// Opens the meter of a model: exact if its vocabulary is built in, an estimate if not.
pub fn meter_for(dialect: Dialect, model: Option<&str>) -> Result<SharedMeter, SessionError> {
    let spec = MeterSpec::for_model(model.unwrap_or_default());
    Ok(Arc::from(spec.open(image_rule(dialect, model))?))
}

/// What pictures cost with the provider that a format belongs to.
pub fn image_rule(dialect: Dialect, model: Option<&str>) -> ImageRule {
    let provider = match dialect {
        Dialect::Chat | Dialect::Responses | Dialect::Codex => ImageProvider::OpenAi,
        Dialect::Anthropic | Dialect::ClaudeCode | Dialect::Pi => ImageProvider::Anthropic,
    };
    ImageRule::for_model(provider, model)
}

/// Counts what a request has besides its messages, such as tools.
///
/// A session file has neither the agent's system prompt nor its tools: there it is what the provider counted for the
/// first answer, less the messages before that.
pub fn tokens_outside_messages(conversation: &Conversation, scale: &Scale) -> Tokens {
    let opening = conversation.loaded().and_then(|loaded| loaded.opening.as_ref());
    let unseen = opening.map_or(Tokens::ZERO, |opening| {
        let messages = opening.messages.iter();
        let seen: Tokens = messages.map(|message| scale.message(message, Tokens::MAX)).sum();
        Tokens(opening.input_tokens).saturating_sub(seen)
    });
    unseen + conversation.attributes.iter().map(|text| scale.text(&text.decode())).sum()
}
