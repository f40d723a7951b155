//! What a provider that holds history has of an answer and the client has not.

use longhand_core::json::quote;
use serde_json::{Value, json};

use super::json as raw;

/// What a provider has of an answer and the client has not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Behind {
    /// What the provider calls the answer, if the client knows it by another name.
    pub(crate) id: Option<String>,
    /// Calls of ours that were never answered.
    pub(crate) calls: Vec<String>,
}

impl Behind {
    /// The same as JSON, if there is anything.
    pub(crate) fn json(&self) -> Option<Value> {
        (*self != Self::default()).then(|| json!({"id": self.id, "calls": self.calls}))
    }

    pub(crate) fn parse(own: &Value) -> Self {
        let calls = own["calls"].as_array().into_iter().flatten();
        let calls = calls.filter_map(|id| Some(id.as_str()?.to_owned())).collect();
        Self { id: own["id"].as_str().map(str::to_owned), calls }
    }

    /// A request that goes on from the answer as the provider has to get it; `None` if it can stay.
    pub(crate) fn request(&self, request: &str) -> Option<String> {
        let mut own = request.to_owned();
        if let Some(id) = &self.id {
            own = raw::with(&own, &["previous_response_id"], &quote(id));
        }
        let input = raw::get(request, &["input"])?;
        if !self.calls.is_empty() {
            let results = self.calls.iter().map(|id| {
                let (id, text) = (quote(id), quote(LATER));
                format!(r#"{{"type":"function_call_output","call_id":{id},"output":{text}}}"#)
            });
            let user = format!(r#"{{"role":"user","content":{input}}}"#);
            let is_text = input.starts_with('"');
            let items = if is_text { vec![user.as_str()] } else { raw::elements(input) };
            let items: Vec<String> = results.chain(items.into_iter().map(str::to_owned)).collect();
            own = raw::with(&own, &["input"], &raw::list(&items));
        }
        (own != request).then_some(own)
    }
}

const LATER: &str = "It was not brought back; ask again if it is needed.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_gets_what_it_waits_for() {
        let behind = Behind { id: Some("r2".into()), calls: vec!["a".into()] };
        assert_eq!(Behind::parse(&behind.json().unwrap()), behind);
        let request = behind.request(r#"{"input":"hi","previous_response_id":"r1"}"#).unwrap();
        let request: Value = serde_json::from_str(&request).unwrap();
        assert_eq!(request["previous_response_id"], "r2");
        assert_eq!(request["input"][0]["call_id"], "a");
        assert_eq!(request["input"][1], json!({"role": "user", "content": "hi"}));
        assert_eq!(Behind::default().request(r#"{"input":"hi"}"#), None);
        assert_eq!(Behind::default().json(), None);
    }
}
