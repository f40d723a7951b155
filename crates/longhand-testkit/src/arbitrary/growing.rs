//! Requests that grow turn by turn and are valid after each.

mod anthropic;
mod chat;
mod content;
mod responses;

use serde_json::Value;

use self::content::prose;
use crate::json::{Json, JsonLayout};
use crate::rng::Rng;
use crate::validator::WireFormat;

/// How large the pieces of a generated request are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PieceSize {
    /// Pieces of a few kilobytes at most, beside seldom a paste of 9 to 12 KB.
    #[default]
    Light,
    /// Pictures of 300 KB, outputs of up to 40 KB, pastes of up to 60 KB.
    Heavy,
}

/// A request to which turns can be appended; after each one it is valid.
///
/// ```
/// use longhand_testkit::arbitrary::{GrowingRequest, PieceSize};
/// use longhand_testkit::rng::Rng;
/// use longhand_testkit::{WireFormat, validate};
///
/// let mut request = GrowingRequest::new(WireFormat::Anthropic, PieceSize::Light, 7);
/// let mut rng = Rng::new(1);
/// for _ in 0..10 {
///     request.append(&mut rng);
///     assert!(validate(WireFormat::Anthropic, &request.json()).is_empty());
/// }
/// ```
#[derive(Clone, Debug)]
pub struct GrowingRequest {
    messages: Vec<Json>,
    /// Who wrote the newest message.
    newest: NewestTurn,
    style: GrowingStyle,
    numbers: GrowingCounters,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum NewestTurn {
    Nothing,
    User,
    Results,
    Reply,
}

/// What stays the same through a whole request.
#[derive(Clone, Debug)]
struct GrowingStyle {
    wire: WireFormat,
    weight: PieceSize,
    layout: JsonLayout,
    system: Option<String>,
    /// A bare list has none.
    model: Option<&'static str>,
    /// The setting of a request for thinking, as JSON.
    thinking: Option<&'static str>,
    /// The newest turn is marked for the cache, as some clients do.
    marked: bool,
    /// The provider keeps what it wrote, so that it can be referred to.
    stored: bool,
}

/// Counts what must not occur twice, or too often.
#[derive(Clone, Debug, Default)]
struct GrowingCounters {
    ids: u32,
    images: usize,
}

/// One of the kinds of turn that a request is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
enum GrowingTurn {
    User,
    /// A reply with calls, and their results.
    Step,
    /// A reply without calls.
    Reply,
}

const IMAGES_MAX: usize = 60;

impl GrowingRequest {
    /// Starts a request without messages; the seed decides about its model, settings and layout.
    pub fn new(dialect: WireFormat, weight: PieceSize, seed: u64) -> Self {
        let style = GrowingStyle::new(dialect, weight, &mut Rng::new(seed));
        let mut request = Self {
            messages: Vec::new(),
            newest: NewestTurn::Nothing,
            style,
            numbers: GrowingCounters::default(),
        };
        match dialect {
            WireFormat::Chat => chat::open(&mut request),
            WireFormat::Responses => responses::open(&mut request, &mut Rng::new(!seed)),
            WireFormat::Anthropic => {}
        }
        request
    }

    /// Appends a user message, a reply with calls and their results, or a reply without.
    ///
    /// Where a request must not end in a reply, the next user message comes along with it.
    pub fn append(&mut self, rng: &mut Rng) {
        let turn = self.next_turn(rng);
        self.append_turn(turn, rng);
        if self.newest == NewestTurn::Reply && !self.may_end_in_reply() {
            self.append_turn(GrowingTurn::User, rng);
        }
        if rng.chance(0.05) {
            self.append_system_message(rng);
        }
    }

    /// Writes the request as it stands.
    pub fn json(&self) -> String {
        let messages = Json::Array(self.messages.clone());
        let document = match self.style.wire {
            WireFormat::Chat => chat::document(&self.style, messages),
            WireFormat::Responses => responses::document(&self.style, messages),
            WireFormat::Anthropic => anthropic::document(&self.style, self.messages.clone()),
        };
        document.to_text(self.style.layout)
    }

    /// Goes on from an edited form of this request, as a client does that keeps what it sent.
    ///
    /// The edit must have kept the newest message. Cache marks are taken out, because
    /// [`json`](Self::json) sets its own.
    pub fn adopt(&mut self, edited_json: &str) {
        let document: Value =
            serde_json::from_str(edited_json).expect("the edited request is JSON");
        let field = self.style.wire.list_field();
        let messages = document.as_array().or_else(|| document[field].as_array());
        let messages = messages.expect("the edited request has messages").iter().cloned();
        self.messages = messages.map(|message| Json::Raw(unmarked(message).to_string())).collect();
    }

    /// The model that the request names, if it is not a bare list.
    pub fn model(&self) -> Option<&str> {
        self.style.model
    }

    /// The number of messages or items so far.
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Whether there are no messages yet.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    fn next_turn(&self, rng: &mut Rng) -> GrowingTurn {
        match self.newest {
            NewestTurn::Nothing | NewestTurn::Reply => GrowingTurn::User,
            NewestTurn::Results if self.may_interrupt() && rng.chance(0.1) => GrowingTurn::User,
            NewestTurn::User | NewestTurn::Results => {
                if rng.chance(0.65) {
                    GrowingTurn::Step
                } else {
                    GrowingTurn::Reply
                }
            }
        }
    }

    fn append_turn(&mut self, turn: GrowingTurn, rng: &mut Rng) {
        match self.style.wire {
            WireFormat::Chat => chat::append(self, turn, rng),
            WireFormat::Responses => responses::append(self, turn, rng),
            WireFormat::Anthropic => anthropic::append(self, turn, rng),
        }
    }

    fn append_system_message(&mut self, rng: &mut Rng) {
        let role = match self.style.wire {
            WireFormat::Anthropic
                if self.newest == NewestTurn::Reply || !self.takes_system_messages() =>
            {
                return;
            }
            WireFormat::Anthropic => "system",
            WireFormat::Chat | WireFormat::Responses => rng.choose(&["system", "developer"]),
        };
        let message = Json::Object(vec![("role", role.into()), ("content", prose(rng).into())]);
        self.messages.push(message);
    }

    /// Claude has taken no prefill since 4.6.
    fn may_end_in_reply(&self) -> bool {
        !self.style.model.is_some_and(|model| model.starts_with("claude-opus"))
    }

    fn takes_system_messages(&self) -> bool {
        self.style.model.is_none_or(|model| model.starts_with("claude-opus"))
    }

    /// Whether a user message may follow results, as a message of its own.
    fn may_interrupt(&self) -> bool {
        self.style.wire != WireFormat::Anthropic && !self.is_mistral()
    }

    fn is_mistral(&self) -> bool {
        self.style.model.is_some_and(|model| model.starts_with("mistral"))
    }

    /// Makes an id that no other call of this request has.
    fn id(&mut self, prefix: &str) -> String {
        self.numbers.ids += 1;
        let number = self.numbers.ids.wrapping_mul(0x9e_3779) & 0xfff_ffff;
        // Mistral takes ids of nine letters and digits only.
        if self.is_mistral() { format!("mc{number:07x}") } else { format!("{prefix}{number:07x}") }
    }

    /// Decides whether another picture is shown; providers limit their number.
    fn shows_picture(&mut self, probability: f64, rng: &mut Rng) -> bool {
        let shows = rng.chance(probability) && self.numbers.images < IMAGES_MAX;
        self.numbers.images += usize::from(shows);
        shows
    }
}

/// Takes the cache marks from the blocks of a message, and from those within results.
fn unmarked(mut message: Value) -> Value {
    if let Some(blocks) = message.get_mut("content").and_then(Value::as_array_mut) {
        for block in blocks {
            if let Some(fields) = block.as_object_mut() {
                fields.shift_remove("cache_control");
            }
            *block = unmarked(block.take());
        }
    }
    message
}

impl GrowingStyle {
    fn new(wire: WireFormat, weight: PieceSize, rng: &mut Rng) -> Self {
        let (model, thinking) = match wire {
            WireFormat::Chat => {
                (*rng.choose(&["gpt-4o", "gpt-5.2", "deepseek-v4", "mistral-large-latest"]), None)
            }
            WireFormat::Responses => (*rng.choose(&["gpt-5", "gpt-5.5"]), None),
            WireFormat::Anthropic => *rng.choose(CLAUDE),
        };
        let bare = rng.chance(0.15);
        Self {
            wire,
            weight,
            layout: JsonLayout { pretty: rng.chance(0.2), escaped: rng.chance(0.15) },
            system: rng.chance(0.7).then(|| prose(rng)),
            model: Some(model).filter(|_| !bare),
            thinking,
            marked: rng.chance(0.5),
            stored: rng.chance(0.5),
        }
    }
}

/// Models of Anthropic with the setting for thinking; those of 5.5 bind it to what came before.
const CLAUDE: &[(&str, Option<&str>)] = &[
    ("claude-sonnet-4-5", None),
    ("claude-sonnet-4-5", Some(r#"{"type":"enabled","budget_tokens":2048}"#)),
    ("claude-opus-4-8", Some(r#"{"type":"adaptive"}"#)),
    ("claude-opus-5-5", None),
    ("claude-opus-5-5", Some(r#"{"type":"adaptive"}"#)),
    (
        "claude-opus-5-5",
        Some(r#"{"type":"adaptive","block_binding":{"prefix_mismatch_behavior":"drop_block"}}"#),
    ),
];
