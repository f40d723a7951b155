//! What can be said to `longhand replay`.

use std::path::PathBuf;

use clap::Args;
use longhand::Tokens;
use longhand::replay::BudgetShare;

use super::{DialectChoice, MapWhen, MeterArgs, PolicyName, amount, dialect};

#[derive(Args)]
#[command(after_help = "Example:
  longhand replay ~/.claude/projects/*/*.jsonl --budget 50% --min-tokens 3000 --compare
  longhand replay session.json --budget 32k --svg session.svg

Every message of the assistant counts as one request. No model is asked. docs/REPLAY.md defines every figure.")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct ReplayArgs {
    /// Recorded conversations: requests, lists of messages or session files
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// The most tokens to send, or a share of each conversation's full size (50%)
    #[arg(long, value_name = "N|N%", default_value = "50%", value_parser = budget)]
    pub(crate) budget: BudgetShare,
    /// How a window is shortened
    #[arg(long, value_enum, default_value_t = PolicyName::Auto)]
    pub(crate) policy: PolicyName,
    /// Compare with no compaction, with dropping the oldest messages and with stateless elision
    #[arg(long)]
    pub(crate) compare: bool,
    /// How far a full window is shortened, in percent of the budget
    #[arg(long, value_name = "PERCENT", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(crate) low_water: u64,
    /// Clip a new tool result to its beginning and end as it comes in, if it takes more than this share of the
    /// budget, in percent [default: never]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(crate) clip_new: Option<u64>,
    /// Count the recall tool in every request, as a proxy that offers it sends it; `none` is without it
    #[arg(long)]
    pub(crate) recall_tool: bool,
    /// Leave out conversations of fewer tokens
    #[arg(long, value_name = "N", default_value = "0", value_parser = amount)]
    pub(crate) min_tokens: u64,
    /// The price of a token that the provider has cached
    #[arg(long, value_name = "PRICE", default_value_t = 0.1, value_parser = price)]
    pub(crate) cached_price: f64,
    /// The price of any other token
    #[arg(long, value_name = "PRICE", default_value_t = 1.0, value_parser = price)]
    pub(crate) uncached_price: f64,
    /// How many minutes a prefix that nobody asks for stays in the cache; 0 for ever [default: what the provider of a
    /// session file keeps; files without times have no pauses]
    #[arg(long, value_name = "N")]
    pub(crate) cache_minutes: Option<u64>,
    /// Show the figures of every file
    #[arg(long)]
    pub(crate) each: bool,
    /// List what is missing from windows most often, N of each measure
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "12")]
    pub(crate) missing: Option<usize>,
    /// Draw the prompt size of every request: auto (if standard output is a terminal), always or never
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) plot: MapWhen,
    /// Draw it into an SVG file, one chart per conversation
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// The format: auto, chat, responses, anthropic, claude-code, codex or pi
    #[arg(long, value_name = "NAME", default_value = "auto", value_parser = dialect)]
    pub(crate) dialect: DialectChoice,
    /// Refuse files of more bytes than this (suffixes k, m and g)
    #[arg(long, value_name = "BYTES", default_value = "256m", value_parser = amount)]
    pub(crate) max_input: u64,
    #[command(flatten)]
    pub(crate) meter: MeterArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print only errors on standard error
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// Reads `8000`, `32k` or `50%`.
fn budget(text: &str) -> Result<BudgetShare, String> {
    let Some(percent) = text.strip_suffix('%') else {
        let tokens = amount(text).map_err(|_| {
            format!("expected tokens such as 32k or a share such as 50%, found `{text}`")
        })?;
        return if tokens > 0 {
            Ok(BudgetShare::Tokens(Tokens(tokens)))
        } else {
            Err("a budget of 0 tokens holds nothing".to_owned())
        };
    };
    match percent.trim().parse() {
        Ok(percent @ 1..=1000) => Ok(BudgetShare::Percent(percent)),
        _ => Err(format!("expected a whole share from 1% to 1000%, found `{text}`")),
    }
}

/// Reads a price, which is not negative.
fn price(text: &str) -> Result<f64, String> {
    let price = text.parse().ok().filter(|price: &f64| price.is_finite() && *price >= 0.0);
    price.ok_or_else(|| format!("expected a price such as 0.1, found `{text}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_tokens_or_shares() {
        assert_eq!(budget("32k"), Ok(BudgetShare::Tokens(Tokens(32_000))));
        assert_eq!(budget("50%"), Ok(BudgetShare::Percent(50)));
        for bad in ["", "0", "%", "0%", "-5%", "12.5%", "half"] {
            assert!(budget(bad).is_err(), "{bad}");
        }
        for bad in ["-1", "nan", "inf", "x"] {
            assert!(price(bad).is_err(), "{bad}");
        }
    }
}
