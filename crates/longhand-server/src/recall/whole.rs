//! What a client sees of answers that came whole and are one to it.

use longhand_dialect::{Dialect, Reply};

use super::tally::Tally;
use super::{anthropic, calls, chat, json, responses};

/// What earlier answers have shown.
pub(super) struct Whole {
    dialect: Dialect,
    said: String,
    shown: Vec<String>,
    tally: Tally,
    goes_on: bool,
}

impl Whole {
    pub(super) fn new(dialect: Dialect) -> Self {
        let (said, shown, tally) = (String::new(), Vec::new(), Tally::default());
        Self { dialect, said, shown, tally, goes_on: false }
    }

    /// Lets another answer follow.
    pub(super) fn go_on(&mut self, body: &str, reply: &Reply) {
        self.goes_on = true;
        self.tally.saw(json::get(body, &["usage"]));
        self.tally.add(reply.usage.unwrap_or_default().output);
        match self.dialect {
            Dialect::Chat => {
                self.said =
                    chat::whole::join(&self.said, &chat::whole::said(body).unwrap_or_default());
            }
            Dialect::Anthropic => self.shown.extend(owned(anthropic::shown(body))),
            _ => self.shown.extend(owned(responses::shown(&reply.message))),
        }
    }

    /// The last answer; it stays as it is where there is nothing to change.
    pub(super) fn end(&self, body: &str) -> String {
        let changes = self.goes_on || self.hides(body);
        match self.dialect {
            Dialect::Responses if !changes => responses::without_tool(body),
            _ if !changes => body.to_owned(),
            Dialect::Chat => chat::whole::whole(body, &self.said, &self.tally),
            Dialect::Anthropic => anthropic::whole(body, &self.shown, &self.tally),
            _ => responses::whole(body, &self.shown, &self.tally),
        }
    }

    fn hides(&self, body: &str) -> bool {
        let list = match self.dialect {
            Dialect::Chat => return chat::whole::hides(body),
            Dialect::Anthropic => json::get(body, &["content"]),
            _ => json::get(body, &["output"]),
        };
        json::elements(list.unwrap_or_default()).into_iter().any(calls::is_ours)
    }
}

fn owned(pieces: Vec<&str>) -> Vec<String> {
    pieces.into_iter().map(str::to_owned).collect()
}
