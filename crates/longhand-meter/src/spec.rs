//! The names that meters go by.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use longhand_core::Meter;

use crate::{Cached, Chars, CharsPerToken, ImageRule, MeterError, ModelFacts, Scaled, Vocabulary};

/// Which meter to count with: `o200k`, `cl100k`, `chars:3.5` or a path to a tokenizer.json.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MeterSpec {
    /// The vocabulary of GPT-4o and later.
    O200k,
    /// The vocabulary of GPT-4 and GPT-3.5.
    Cl100k,
    /// The vocabulary of GPT-4o times a factor, for models whose own vocabulary is not public or not
    /// built in: `≈o200k`, `≈o200k×1.20`.
    Approximate {
        /// The factor in hundredths.
        percent: u32,
    },
    /// An estimate by characters.
    Chars(CharsPerToken),
    /// A model's own tokenizer.json.
    TokenizerJson(PathBuf),
}

impl MeterSpec {
    /// Chooses the meter of a model; an approximation if its vocabulary is not built in.
    ///
    /// ```
    /// use longhand_meter::MeterSpec;
    ///
    /// assert!(MeterSpec::for_model("gpt-4o").is_exact());
    /// let claude = MeterSpec::for_model("claude-opus-4-6");
    /// assert_eq!((claude.is_exact(), claude.to_string().as_str()), (false, "≈o200k×1.20"));
    /// ```
    pub fn for_model(model: &str) -> Self {
        ModelFacts::of(model).meter
    }

    /// Whether it counts with a vocabulary and not by an estimate.
    pub fn is_exact(&self) -> bool {
        match self {
            Self::O200k | Self::Cl100k | Self::TokenizerJson(_) => true,
            Self::Approximate { .. } | Self::Chars(_) => false,
        }
    }

    /// Readies the meter; `images` prices pictures, which an estimate has a flat price for.
    pub fn open(self, images: ImageRule) -> Result<Box<dyn Meter>, MeterError> {
        Ok(match self {
            Self::O200k => Box::new(Cached::new(Vocabulary::o200k(images))),
            Self::Cl100k => Box::new(Cached::new(Vocabulary::cl100k(images))),
            Self::Approximate { percent } => {
                Box::new(Scaled::new(Cached::new(Vocabulary::o200k(images)), percent))
            }
            Self::Chars(per_token) => Box::new(Chars::new(per_token)),
            #[cfg(feature = "tokenizer-json")]
            Self::TokenizerJson(path) => {
                Box::new(Cached::new(crate::TokenizerJson::load(&path, images)?))
            }
            #[cfg(not(feature = "tokenizer-json"))]
            Self::TokenizerJson(path) => return Err(MeterError::FeatureMissing { path }),
        })
    }
}

impl FromStr for MeterSpec {
    type Err = MeterError;

    fn from_str(spec: &str) -> Result<Self, MeterError> {
        match spec {
            "o200k" => Ok(Self::O200k),
            "cl100k" => Ok(Self::Cl100k),
            "≈o200k" => Ok(Self::Approximate { percent: 100 }),
            _ if spec.starts_with("≈o200k×") => percent_of(spec)
                .map(|percent| Self::Approximate { percent })
                .ok_or_else(|| MeterError::Unknown { spec: spec.to_owned() }),
            _ => match spec.strip_prefix("chars:") {
                Some(number) => Ok(Self::Chars(number.parse()?)),
                None if !is_path(spec) => Err(MeterError::Unknown { spec: spec.to_owned() }),
                None if cfg!(feature = "tokenizer-json") => Ok(Self::TokenizerJson(spec.into())),
                None => Err(MeterError::FeatureMissing { path: spec.into() }),
            },
        }
    }
}

/// Reads the factor of `≈o200k×1.20`: two decimals, and at least 1.
fn percent_of(spec: &str) -> Option<u32> {
    let (whole, hundredths) = spec.split_once('×')?.1.split_once('.')?;
    let is_decimal = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    let legal = whole.len() <= 2 && hundredths.len() == 2 && is_decimal(whole);
    let percent = whole.parse::<u32>().ok()? * 100 + hundredths.parse::<u32>().ok()?;
    (legal && is_decimal(hundredths) && percent > 100).then_some(percent)
}

/// A misspelt name should not be taken for a missing file.
fn is_path(spec: &str) -> bool {
    spec.contains(['/', '\\']) || spec.to_ascii_lowercase().ends_with(".json")
}

impl fmt::Display for MeterSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::O200k => f.write_str("o200k"),
            Self::Cl100k => f.write_str("cl100k"),
            Self::Approximate { percent: 100 } => f.write_str("≈o200k"),
            Self::Approximate { percent } => {
                write!(f, "≈o200k×{}.{:02}", percent / 100, percent % 100)
            }
            Self::Chars(per_token) => write!(f, "chars:{per_token}"),
            Self::TokenizerJson(path) => write!(f, "{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_given_back() {
        for spec in [
            "o200k",
            "cl100k",
            "chars:3.5",
            "chars:4",
            "chars:0.25",
            "chars:4.0",
            "≈o200k",
            "≈o200k×1.20",
            "≈o200k×12.05",
        ] {
            assert_eq!(spec.parse::<MeterSpec>().unwrap().to_string(), spec);
        }
    }

    #[test]
    fn errors_say_what_is_legal() {
        for spec in [
            "",
            "o200",
            "gpt-4o",
            "chars",
            "O200K",
            "≈o200k×",
            "≈o200k×0.50",
            "≈o200k×99999999999.00",
        ] {
            let error = spec.parse::<MeterSpec>().unwrap_err().to_string();
            for legal in ["o200k", "cl100k", "chars:3.5", spec] {
                assert!(error.contains(legal), "{error}");
            }
            let reads_files = cfg!(feature = "tokenizer-json");
            assert_eq!(error.contains("tokenizer.json"), reads_files, "{error}");
        }
        for number in ["", "0", "0.0", "-3", "3.", ".5", "1e3", "3,5", "NaN", "1234567890"] {
            let error = format!("chars:{number}").parse::<MeterSpec>().unwrap_err().to_string();
            assert!(error.contains(&format!("`chars:{number}`")), "{error}");
        }
    }

    #[test]
    #[cfg(not(feature = "tokenizer-json"))]
    fn a_path_needs_the_feature() {
        let parsed = "models/qwen/tokenizer.json".parse::<MeterSpec>().unwrap_err();
        let opened = MeterSpec::TokenizerJson("models/qwen/tokenizer.json".into())
            .open(ImageRule::OPENAI_TILES)
            .err()
            .unwrap();
        for error in [parsed.to_string(), opened.to_string()] {
            assert!(error.contains("models/qwen/tokenizer.json"), "{error}");
            assert!(error.contains("feature `tokenizer-json`"), "{error}");
        }
    }

    #[test]
    fn models_have_their_vocabulary_or_an_approximation() {
        let o200k = "gpt-4o gpt-4o-mini-2024-07-18 chatgpt-4o-latest ft:gpt-4o:acme::1 gpt-4.1 \
                     gpt-4.1-nano gpt-4.5-preview gpt-5 gpt-5.5-pro o1 o3-mini openai/o4-mini \
                     gpt-oss-20b";
        let cl100k = "gpt-4 gpt-4-0613 gpt-4-32k gpt-4-turbo-2024-04-09 gpt-3.5-turbo gpt-35-turbo \
                      openai/GPT-4";
        let unknown = "openai/gpt-6-mini llama llama-3.3-70b gemini-2.5-pro mistral-large deepseek-v4 \
                       qwen3-coder scripted gpt-2";
        let claude = "claude-3-5-sonnet-20241022 claude-haiku-4-5 claude-opus-4-6";
        let claude_from_4_7 = "claude-opus-4-7 us.anthropic.claude-opus-5-v1:0 claude-fable claude";
        for (models, meter) in [
            (o200k, "o200k"),
            (cl100k, "cl100k"),
            (unknown, "≈o200k"),
            (claude, "≈o200k×1.20"),
            (claude_from_4_7, "≈o200k×1.56"),
        ] {
            for model in models.split_whitespace() {
                let spec = MeterSpec::for_model(model);
                assert_eq!(spec.to_string(), meter, "{model}");
                assert_eq!(spec.is_exact(), !meter.starts_with('≈'), "{model}");
            }
        }
        assert_eq!(MeterSpec::for_model(""), MeterSpec::Approximate { percent: 100 });
    }
}
