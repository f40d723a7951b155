//! JSON texts that are changed in places; the rest stays byte for byte.

use longhand_core::json::{Cursor, Kind, Node, Value, quote};

/// A field, perhaps of a field; `None` if it is absent or null.
pub(super) fn get<'s>(raw: &'s str, path: &[&str]) -> Option<&'s str> {
    path.iter().try_fold(raw, |raw, key| {
        let value = node(raw)?.get(raw, key)?;
        (value.kind != Kind::Null).then(|| &raw[value.span()])
    })
}

/// A field that is a string, decoded.
pub(super) fn string(raw: &str, path: &[&str]) -> Option<String> {
    let own = get(raw, path)?;
    Some(Cursor::new(own).value().ok()?.str(own)?.into_owned())
}

pub(super) fn number(raw: &str, path: &[&str]) -> Option<u64> {
    get(raw, path)?.parse().ok()
}

/// Whether a field is that string.
pub(super) fn is(raw: &str, path: &[&str], text: &str) -> bool {
    string(raw, path).is_some_and(|own| own == text)
}

/// The fields of an object as they stand, by their names.
pub(super) fn fields(raw: &str) -> Vec<(String, &str)> {
    let own = node(raw).unwrap_or_default().fields;
    let named =
        |(key, value): (Value, Value)| Some((key.str(raw)?.into_owned(), &raw[value.span()]));
    own.into_iter().filter_map(named).collect()
}

/// The elements of an array as they stand.
pub(super) fn elements(raw: &str) -> Vec<&str> {
    let mut own = Vec::new();
    let start = Cursor::new(raw).value().ok().filter(|value| value.kind == Kind::Array);
    if let Some(list) = start {
        let _ = Cursor::at(raw, list.span().start).elements(|cursor| {
            own.push(&raw[cursor.value()?.span()]);
            Ok(())
        });
    }
    own
}

/// An array of texts that are JSON.
pub(super) fn list<T: AsRef<str>>(elements: &[T]) -> String {
    let elements: Vec<&str> = elements.iter().map(AsRef::as_ref).collect();
    format!("[{}]", elements.join(","))
}

/// The text with a field set to a value, which is added if it is not there.
pub(super) fn with(raw: &str, path: &[&str], value: &str) -> String {
    let [key, rest @ ..] = path else { return value.to_owned() };
    let Some(own) = node(raw) else { return raw.to_owned() };
    if let Some(field) = own.get(raw, key) {
        let span = field.span();
        let new = with(&raw[span.clone()], rest, value);
        return format!("{}{new}{}", &raw[..span.start], &raw[span.end..]);
    }
    if !rest.is_empty() {
        return raw.to_owned();
    }
    let (at, comma) = match own.fields.last() {
        Some((_, last)) => (last.span().end, ","),
        None => (own.value.span().start + 1, ""),
    };
    format!("{}{comma}{}:{value}{}", &raw[..at], quote(key), &raw[at..])
}

/// An object without a field.
pub(super) fn without(raw: &str, key: &str) -> String {
    let kept = fields(raw).into_iter().filter(|(own, _)| own != key);
    let kept = kept.map(|(own, value)| format!("{}:{value}", quote(&own)));
    format!("{{{}}}", kept.collect::<Vec<_>>().join(","))
}

fn node(raw: &str) -> Option<Node> {
    let node = Cursor::new(raw).node().ok()?;
    (node.value.kind == Kind::Object).then_some(node)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_place_that_is_named_changes() {
        let raw = r#" {"a": 1.0, "b":{"c" : [1, 2]} } "#;
        for (path, value, expected) in [
            (&["a"][..], "2", r#" {"a": 2, "b":{"c" : [1, 2]} } "#),
            (&["b", "c"], "[]", r#" {"a": 1.0, "b":{"c" : []} } "#),
            (&["b", "d"], "0", r#" {"a": 1.0, "b":{"c" : [1, 2],"d":0} } "#),
            (&["x", "d"], "0", raw),
        ] {
            assert_eq!(with(raw, path, value), expected);
        }
        assert_eq!(with("{}", &["a"], "1"), r#"{"a":1}"#);
        assert_eq!(get(raw, &["b", "c"]), Some("[1, 2]"));
        assert_eq!(elements("[1, 2]"), ["1", "2"]);
        assert_eq!(without(raw, "a"), r#"{"b":{"c" : [1, 2]}}"#);
    }
}
