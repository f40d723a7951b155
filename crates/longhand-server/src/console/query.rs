//! The parameters of a question, as its address has them.

use hyper::Uri;
use longhand::app::Timestamp;
use longhand::time;

use super::response::Refusal;
use crate::credentials::parameters;
use crate::route::unescaped;

/// The longest value of a parameter.
const VALUE_BYTES_MAX: usize = 4_000;

/// The parameters of an address. Each is taken out, so that what is left is not known.
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn of(uri: &Uri) -> Result<Self, Refusal> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for pair in parameters(uri).filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decoded(name)?, decoded(value)?);
            if value.len() > VALUE_BYTES_MAX {
                return Err(Refusal::bad(&format!("`{name}` is too long")));
            }
            if pairs.iter().any(|(known, _)| *known == name) {
                return Err(Refusal::bad(&format!("`{name}` is given twice")));
            }
            pairs.push((name, value));
        }
        Ok(Self(pairs))
    }

    pub(super) fn text(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.swap_remove(at).1)
    }

    /// A text that is not empty.
    pub(super) fn words(&mut self, name: &str) -> Option<String> {
        self.text(name).filter(|text| !text.trim().is_empty())
    }

    pub(super) fn number(&mut self, name: &str) -> Result<Option<u64>, Refusal> {
        let Some(text) = self.text(name) else { return Ok(None) };
        // What is beyond what JSON can say exactly is no number of anything here.
        let number = text.parse::<u64>().ok().filter(|number| *number <= 1 << 53);
        number.map(Some).ok_or_else(|| Refusal::bad(&format!("`{name}` is no number")))
    }

    /// How many are wanted: one at least, and no more than so many.
    pub(super) fn limit(&mut self, usual: usize, max: usize) -> Result<usize, Refusal> {
        match self.number("limit")? {
            None => Ok(usual),
            Some(limit) if (1..=max as u64).contains(&limit) => Ok(limit as usize),
            Some(_) => Err(Refusal::bad(&format!("`limit` is 1 to {max}"))),
        }
    }

    pub(super) fn flag(&mut self, name: &str) -> Result<bool, Refusal> {
        match self.text(name).as_deref() {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(Refusal::bad(&format!("`{name}` is true or false"))),
        }
    }

    pub(super) fn time(&mut self, name: &str) -> Result<Option<Timestamp>, Refusal> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let parsed = time::parse(&text).map(Timestamp);
        let refused = || Refusal::bad(&format!("`{name}` is a time such as 2026-11-15T19:29:00Z"));
        parsed.map(Some).ok_or_else(refused)
    }

    /// Whether nothing is left: what is not known would be ignored, and mean something to whoever asks.
    pub(super) fn end(self) -> Result<(), Refusal> {
        match self.0.first() {
            None => Ok(()),
            Some((name, _)) => Err(Refusal::bad(&format!("there is no parameter `{name}`"))),
        }
    }
}

/// A name or a value of a parameter, in which spaces may be written as `+`.
fn decoded(text: &str) -> Result<String, Refusal> {
    segment(&text.replace('+', " "))
}

/// A piece of a path as text.
pub(super) fn segment(text: &str) -> Result<String, Refusal> {
    String::from_utf8(unescaped(text)).map_err(|_| Refusal::bad("the address is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> Result<Query, Refusal> {
        Query::of(&format!("/x?{text}").parse().unwrap())
    }

    #[test]
    fn parameters_are_read_and_nothing_is_guessed() {
        let mut found =
            query("q=two+words%21&limit=7&kin=true&since=2026-11-15T19:29:00Z").unwrap();
        assert_eq!(found.text("q").as_deref(), Some("two words!"));
        assert_eq!(found.limit(50, 100).unwrap(), 7);
        assert!(found.flag("kin").unwrap() && !found.flag("other").unwrap());
        assert!(found.time("since").unwrap().is_some());
        found.end().unwrap();
        for bad in ["a=1&a=2", "a=%ff"] {
            assert!(query(bad).is_err(), "{bad}");
        }
        assert!(query("unknown=1").unwrap().end().is_err());
        for bad in ["limit=0", "limit=101", "limit=x", "limit=-1", "limit=99999999999999999999"] {
            assert!(query(bad).unwrap().limit(50, 100).is_err(), "{bad}");
        }
        assert!(query("kin=yes").unwrap().flag("kin").is_err());
        assert!(query("since=soon").unwrap().time("since").is_err());
    }
}
