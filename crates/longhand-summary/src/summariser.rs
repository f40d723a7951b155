//! The trait of summarisers.

use std::error::Error;

use longhand_core::{Scale, Tokens};

use crate::{Input, Refusal};

/// Writes summaries.
pub trait Summariser: Send + Sync {
    /// Its name in receipts.
    fn name(&self) -> &str;

    /// Whether it answers at once; one that does not is asked in the background.
    fn is_instant(&self) -> bool {
        false
    }

    /// Whether it writes at all; the built-in one leaves the story to the log.
    fn writes(&self) -> bool {
        true
    }

    /// Summarises the rounds together with the earlier summary in at most `limit` tokens.
    fn summarise(
        &self,
        input: &Input,
        limit: Tokens,
        scale: &Scale,
    ) -> Result<Summary, SummaryError>;
}

/// A summary and what it cost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The summary.
    pub text: String,
    /// The model that wrote it, if one did.
    pub model: Option<String>,
    /// The tokens that were read for it.
    pub input_tokens: Tokens,
    /// The tokens that were written.
    pub output_tokens: Tokens,
    /// Its price in millionths of a dollar, where it is known.
    pub cost_micros: Option<u64>,
}

impl Summary {
    /// This summary instead of an earlier one, with the cost of both.
    #[must_use]
    pub fn after(self, earlier: &Summary) -> Self {
        let cost_micros = match (self.cost_micros, earlier.cost_micros) {
            (None, None) => None,
            (one, two) => Some(one.unwrap_or(0) + two.unwrap_or(0)),
        };
        Self {
            input_tokens: self.input_tokens + earlier.input_tokens,
            output_tokens: self.output_tokens + earlier.output_tokens,
            cost_micros,
            ..self
        }
    }
}

/// Why there is no summary.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SummaryError {
    /// The summariser cannot be asked: no key, no network, no model.
    #[error("summariser {name} is not available: {reason}")]
    Unavailable {
        /// The summariser.
        name: String,
        /// What is missing.
        reason: String,
    },
    /// It was asked and failed.
    #[error("summariser {name} failed")]
    Failed {
        /// The summariser.
        name: String,
        /// How it failed.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// It found nothing to say, or nothing that fits.
    #[error("summariser {name} answered with nothing")]
    Empty {
        /// The summariser.
        name: String,
    },
    /// Its summary was not accepted.
    #[error("summariser {name} was refused")]
    Refused {
        /// The summariser.
        name: String,
        /// Why.
        #[source]
        refusal: Refusal,
    },
}

/// No model: the story has the lines of the log itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extractive;

impl Summariser for Extractive {
    fn name(&self) -> &'static str {
        "extractive"
    }

    fn is_instant(&self) -> bool {
        true
    }

    fn writes(&self) -> bool {
        false
    }

    fn summarise(&self, _: &Input, _: Tokens, _: &Scale) -> Result<Summary, SummaryError> {
        Err(SummaryError::Empty { name: self.name().to_owned() })
    }
}
