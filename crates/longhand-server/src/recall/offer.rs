//! The tool as a request lists it.

use longhand::recall::TOOL;
use longhand_dialect::{Dialect, keep_thinking, with_tool};

/// A request with the tool in it.
pub(crate) struct RecallOffer {
    pub(crate) request: String,
    /// Whether the provider is told to drop thinking that a hidden call voids.
    pub(crate) drops_thinking: bool,
}

/// Adds the tool to those of the client; `None` if the client has such a tool itself, or the request can have none.
pub(crate) fn offer(dialect: Dialect, request: &str) -> Option<RecallOffer> {
    let request = with_tool(dialect, request, &TOOL)?;
    let switched = (dialect == Dialect::Anthropic).then(|| keep_thinking(&request)).flatten();
    let drops_thinking = switched.is_some();
    Some(RecallOffer { request: switched.unwrap_or(request), drops_thinking })
}

#[cfg(test)]
mod tests {
    use longhand_meter::{ImageProvider, ImageRule, MeterSpec};

    use super::*;

    #[test]
    fn the_tool_takes_few_tokens() {
        let images = ImageRule::for_model(ImageProvider::OpenAi, None);
        let meter = MeterSpec::for_model("gpt-4o").open(images).unwrap();
        let request = offer(Dialect::Chat, "{}").unwrap().request;
        assert!(longhand_core::Scale::new(&*meter).text(&request).0 < 200, "{request}");
    }
}
