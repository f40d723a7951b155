//! The seam to token counting.

use crate::{Image, MediaKind, Message, Part, Text, Tokens};

/// Counts tokens for one model.
///
/// Text is weighed in *grains*, a fraction of a token, because an estimate such as "characters over
/// 3.5" is only rounded once a message. An exact meter has one grain to the token.
pub trait Meter: Send + Sync {
    /// Weighs `text`; may stop, with any figure above `limit`, once it is over `limit`.
    fn weigh(&self, text: &str, limit: u64) -> u64;

    /// How many grains make a token.
    fn grains_per_token(&self) -> u64 {
        1
    }

    /// The tokens of a picture.
    fn image(&self, image: &Image) -> Tokens;

    /// What is counted besides text.
    fn framing(&self) -> Framing;
}

/// What a request costs besides its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    /// Tokens around each message, its role included.
    pub message: Tokens,
    /// Tokens for a name beside the name's own.
    pub name: Tokens,
    /// Tokens that prime the reply, once a request.
    pub reply: Tokens,
    /// Whether call ids are counted.
    pub ids: bool,
}

/// Counts whole messages with a [`Meter`].
#[derive(Clone, Copy)]
pub struct Scale<'m> {
    meter: &'m dyn Meter,
    framing: Framing,
    grains: u64,
}

impl<'m> Scale<'m> {
    /// Reads the meter's constants once.
    pub fn new(meter: &'m dyn Meter) -> Self {
        Self { meter, framing: meter.framing(), grains: meter.grains_per_token() }
    }

    /// The meter behind it.
    pub fn meter(&self) -> &'m dyn Meter {
        self.meter
    }

    /// The constants of the meter.
    pub fn framing(&self) -> Framing {
        self.framing
    }

    /// Rounds grains up to tokens.
    pub fn tokens(&self, grains: u64) -> Tokens {
        Tokens(grains.div_ceil(self.grains))
    }

    /// Turns tokens into grains.
    pub fn grains(&self, tokens: Tokens) -> u64 {
        tokens.0.saturating_mul(self.grains)
    }

    /// Counts a text by itself.
    pub fn text(&self, text: &str) -> Tokens {
        self.tokens(self.meter.weigh(text, u64::MAX))
    }

    /// Weighs a text; anything above `limit` means "too much" and no more.
    pub fn weigh(&self, text: &Text, limit: u64) -> u64 {
        if text.is_empty() { 0 } else { self.meter.weigh(&text.decode(), limit) }
    }

    /// Counts a message; anything above `limit` means "too much" and no more.
    pub fn message(&self, message: &Message, limit: Tokens) -> Tokens {
        let limit_grains = self.grains(limit);
        let mut grains = self.around(message);
        for part in &message.parts {
            if grains > limit_grains {
                break;
            }
            grains = grains.saturating_add(self.part(part, limit_grains - grains));
        }
        self.tokens(grains)
    }

    /// Weighs what is around a message's parts.
    pub fn around(&self, message: &Message) -> u64 {
        let mut grains = self.grains(self.framing.message);
        if let Some(name) = &message.name {
            grains += self.grains(self.framing.name) + self.weigh(name, u64::MAX);
        }
        grains
    }

    /// Weighs a part; anything above `limit` means "too much" and no more.
    pub fn part(&self, part: &Part, limit: u64) -> u64 {
        match part {
            Part::Text(text) | Part::FixedText(text) => self.weigh(text, limit),
            // A seal is opaque: base64, billed by a tokenizer we cannot see.
            Part::Thinking(thinking) => {
                let seal = thinking.seal.as_ref().map_or(0, Text::raw_len) as u64;
                self.weigh(&thinking.text, limit) + self.grains(Tokens(seal.div_ceil(8)))
            }
            Part::Image(image) => self.grains(self.meter.image(image)),
            // OpenAI documents a token for 100 ms of sound; Gemini 300 for a second of video. Where no
            // header tells how long a recording plays, 64 kbit/s of sound and 1 Mbit/s of video are
            // assumed, which is 8 and 125 bytes per ms; one that is held elsewhere counts for 30 s.
            Part::Media(media) => {
                let bytes_per_ms = if media.kind == MediaKind::Audio { 8 } else { 125 };
                let estimate =
                    if media.bytes == 0 { 30_000 } else { media.bytes as u64 / bytes_per_ms };
                let ms = media.duration_ms.unwrap_or(estimate);
                self.grains(Tokens(match media.kind {
                    MediaKind::Audio => ms.div_ceil(100),
                    MediaKind::Video => ms.saturating_mul(3).div_ceil(10),
                }))
            }
            Part::File(file) => match &file.text {
                Some(text) => self.weigh(text, limit),
                None => self.grains(Tokens((file.bytes as u64).div_ceil(8))),
            },
            Part::Call(call) => {
                self.id(&call.id)
                    + self.weigh(&call.name, u64::MAX)
                    + self.weigh(&call.arguments, limit)
            }
            Part::Result(result) => {
                let mut grains = self.id(&result.call);
                for part in &result.content {
                    if grains > limit {
                        break;
                    }
                    grains = grains.saturating_add(self.part(part, limit - grains));
                }
                grains
            }
            Part::Other(other) => self.weigh(&other.raw, limit),
        }
    }

    /// Weighs a part with another text for its body.
    pub fn replaced(&self, part: &Part, text: &str) -> u64 {
        let around = match part {
            Part::Call(call) => self.id(&call.id) + self.weigh(&call.name, u64::MAX),
            Part::Result(result) => self.id(&result.call),
            _ => 0,
        };
        around + self.meter.weigh(text, u64::MAX)
    }

    /// Weighs a call id where ids count.
    pub fn id(&self, id: &Text) -> u64 {
        if self.framing.ids { self.weigh(id, u64::MAX) } else { 0 }
    }
}
