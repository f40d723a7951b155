//! Values that are changed in somebody's JSON, and put back.

use serde_json::{Map, Value, json};

/// A value that replaces another one during a run.
pub(super) struct ValueChange {
    pub(super) keys: Vec<String>,
    pub(super) value: String,
}

impl ValueChange {
    pub(super) fn new(keys: &[&str], value: &str) -> Self {
        Self { keys: keys.iter().map(|key| (*key).to_owned()).collect(), value: value.to_owned() }
    }
}

/// Sets a value in nested objects; a value on the way that is no object is replaced by one.
pub(super) fn set(value: &mut Value, change: &ValueChange) {
    put(value, &change.keys, json!(change.value));
}

fn put(value: &mut Value, keys: &[String], new: Value) {
    let Some((key, rest)) = keys.split_first() else {
        *value = new;
        return;
    };
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    if let Value::Object(fields) = value {
        put(fields.entry(key.as_str()).or_insert(Value::Null), rest, new);
    }
}

/// Puts the value that was there `before` back, unless somebody has changed ours since.
pub(super) fn restore(value: &mut Value, change: &ValueChange, before: &Value) {
    take(value, &change.keys, &json!(change.value), Some(before));
}

/// Returns whether nothing is left that anybody else has written.
fn take(value: &mut Value, keys: &[String], ours: &Value, before: Option<&Value>) -> bool {
    let Some((key, rest)) = keys.split_first() else {
        if value == ours
            && let Some(before) = before
        {
            *value = before.clone();
            return false;
        }
        return value == ours;
    };
    let Some(fields) = value.as_object_mut() else { return false };
    let before = before.and_then(|before| before.get(key));
    let is_ours = fields.get_mut(key).is_some_and(|field| take(field, rest, ours, before));
    if is_ours && before.is_none() {
        fields.shift_remove(key);
    }
    is_ours && before.is_none() && fields.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_comes_out_again_and_what_others_wrote_stays() {
        let change = ValueChange::new(&["providers", "openai", "baseUrl"], "ours");
        for (before, written, expected) in [
            (json!({}), json!({}), json!({})),
            (json!({"a": 1}), json!({"b": 2}), json!({"a": 1, "b": 2})),
            (
                json!({"providers": {"openai": {"baseUrl": "theirs"}}}),
                json!({"new": 1}),
                json!({"providers": {"openai": {"baseUrl": "theirs"}}, "new": 1}),
            ),
            (
                json!({"providers": {"openai": {"apiKey": "k"}}}),
                json!({}),
                json!({"providers": {"openai": {"apiKey": "k"}}}),
            ),
            (json!({"providers": {}}), json!({}), json!({"providers": {}})),
        ] {
            let mut value = before.clone();
            set(&mut value, &change);
            for (key, new) in written.as_object().unwrap() {
                value[key] = new.clone();
            }
            restore(&mut value, &change, &before);
            assert_eq!(value, expected, "{before}");
        }
        let mut changed = json!({"providers": {"openai": {"baseUrl": "changed by the agent"}}});
        restore(&mut changed, &change, &json!({}));
        assert_eq!(changed["providers"]["openai"]["baseUrl"], "changed by the agent");
    }
}
