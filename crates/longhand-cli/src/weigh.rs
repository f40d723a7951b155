//! Counts the tokens of a conversation.

use std::sync::Arc;

pub(crate) use longhand::SharedMeter;
pub(crate) use longhand::driver::tokens_outside_messages as attributes;
use longhand_core::{Message, Scale, Tokens, grouped};
use longhand_dialect::Conversation;
use longhand_meter::MeterSpec;

/// A meter with the name that reports give it.
pub(crate) struct NamedMeter {
    pub(crate) name: String,
    pub(crate) is_exact: bool,
    pub(crate) meter: SharedMeter,
}

impl NamedMeter {
    /// Writes a figure of this meter, with `≈` if it is an estimate.
    pub(crate) fn figure(&self, tokens: Tokens) -> String {
        let mark = if self.is_exact { "" } else { "≈" };
        format!("{mark}{}", grouped(tokens.0 as usize))
    }
}

/// Opens the meter that was asked for, or the one that suits the conversation's model.
pub(crate) fn open(
    spec: Option<MeterSpec>,
    conversation: &Conversation,
) -> anyhow::Result<NamedMeter> {
    let model = conversation.model.as_deref();
    let of_model = model.map(MeterSpec::for_model);
    let spec = spec.or_else(|| of_model.clone()).unwrap_or_else(|| MeterSpec::for_model(""));
    // A vocabulary counts exactly only for the models that use it.
    let suits =
        matches!(spec, MeterSpec::TokenizerJson(_)) || of_model.is_none_or(|known| known == spec);
    let (name, is_exact) = (spec.to_string(), spec.is_exact() && suits);
    let meter = Arc::from(spec.open(longhand::driver::image_rule(conversation.dialect, model))?);
    Ok(NamedMeter { name, is_exact, meter })
}

/// What a message and each of its parts weigh, in grains.
#[derive(Default)]
pub(crate) struct MessageWeights {
    pub(crate) around: u64,
    pub(crate) parts: Vec<u64>,
}

impl MessageWeights {
    /// The tokens of the message.
    pub(crate) fn tokens(&self, scale: &Scale) -> Tokens {
        scale.tokens(self.parts.iter().fold(self.around, |sum, part| sum.saturating_add(*part)))
    }
}

/// Weighs every message, on as many threads as there are cores if it is much.
pub(crate) fn messages(messages: &[Message], meter: &SharedMeter) -> Vec<MessageWeights> {
    let bytes: usize = messages.iter().map(|message| message.raw.raw_len()).sum();
    let threads = if bytes < 1 << 20 {
        1
    } else {
        std::thread::available_parallelism().map_or(1, usize::from)
    };
    let share = messages.len().div_ceil(threads).max(1);
    let weigh = |messages: &[Message]| -> Vec<MessageWeights> {
        let scale = Scale::new(&**meter);
        let parts = |message: &Message| {
            message.parts.iter().map(|part| scale.part(part, u64::MAX)).collect()
        };
        let weights =
            |message| MessageWeights { around: scale.around(message), parts: parts(message) };
        messages.iter().map(weights).collect()
    };
    std::thread::scope(|scope| {
        let parts: Vec<_> =
            messages.chunks(share).map(|part| scope.spawn(|| weigh(part))).collect();
        parts.into_iter().flat_map(|part| part.join().unwrap_or_default()).collect()
    })
}

/// Counts the whole request.
pub(crate) fn total(conversation: &Conversation, meter: &SharedMeter) -> Tokens {
    let scale = Scale::new(&**meter);
    let weights = messages(&conversation.messages, meter);
    let of_messages: Tokens = weights.iter().map(|weights| weights.tokens(&scale)).sum();
    of_messages + attributes(conversation, &scale) + scale.framing().reply
}

/// A number of tokens, and whether it was counted or estimated.
#[derive(Clone, Copy)]
pub(crate) struct Counted {
    pub(crate) tokens: Tokens,
    pub(crate) is_estimate: bool,
}

impl Counted {
    pub(crate) fn exactly(tokens: Tokens) -> Self {
        Self { tokens, is_estimate: false }
    }
}

/// The most bytes of messages that are counted for a figure that only a report shows.
const COUNTED_BYTES_MAX: usize = 1 << 20;

/// Counts a request. Of a very long one it counts every nth message and estimates the rest by its bytes.
pub(crate) fn estimated(conversation: &Conversation, meter: &SharedMeter) -> Counted {
    let bytes: usize = conversation.messages.iter().map(|message| message.raw.raw_len()).sum();
    // Lines of a session file have much that nobody sends, so their bytes tell little.
    if bytes <= COUNTED_BYTES_MAX || conversation.loaded().is_some() {
        return Counted::exactly(total(conversation, meter));
    }
    let scale = Scale::new(&**meter);
    let step = bytes.div_ceil(COUNTED_BYTES_MAX);
    let sample = conversation.messages.iter().step_by(step);
    let (mut counted, mut tokens) = (0, Tokens::ZERO);
    for message in sample {
        counted += message.raw.raw_len();
        tokens += scale.message(message, Tokens::MAX);
    }
    let share = u128::from(tokens.0) * bytes as u128 / counted.max(1) as u128;
    let fixed = attributes(conversation, &scale) + scale.framing().reply;
    Counted { tokens: Tokens(share as u64) + fixed, is_estimate: true }
}
