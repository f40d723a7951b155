//! Changes to a JSON text; whatever none of them names stays byte for byte.

use std::ops::Range;

use longhand_core::json::{JsonKind, quote};

use crate::splice::Splices;
use crate::view::View;

/// The changes to one text, in any order.
pub(crate) struct Edits<'s> {
    source: &'s str,
    splices: Splices,
}

impl<'s> Edits<'s> {
    /// Changes to the text that a value stands in.
    pub(crate) fn of(view: View<'s>) -> Self {
        Self { source: view.source(), splices: Splices::default() }
    }

    pub(crate) fn replace(&mut self, view: View, with: impl Into<String>) {
        self.splices.replace(view.span(), with.into());
    }

    pub(crate) fn insert(&mut self, at: usize, text: impl Into<String>) {
        self.splices.insert(at, text.into());
    }

    /// Sets a field of an object, which is added if it is not there.
    pub(crate) fn set(&mut self, object: View, key: &str, value: &str) {
        if object.kind() != JsonKind::Object {
            return;
        }
        let fields = object.fields();
        if let Some((_, field)) = fields.iter().rev().find(|(name, _)| name == key) {
            return self.replace(*field, value);
        }
        let (at, comma) = match fields.last() {
            Some((_, last)) => (last.span().end, ","),
            None => (object.span().start + 1, ""),
        };
        self.insert(at, format!("{comma}{}:{value}", quote(key)));
    }

    /// Puts another field in the place of one.
    pub(crate) fn replace_field(&mut self, object: View, old: &str, key: &str, value: &str) {
        for (_, span) in object.field_spans().into_iter().filter(|(name, _)| name == old) {
            self.splices.replace(span, format!("{}:{value}", quote(key)));
        }
    }

    /// Takes elements out of their list.
    pub(crate) fn remove(&mut self, elements: &[View], gone: &[bool]) {
        let spans: Vec<Range<usize>> = elements.iter().map(|element| element.span()).collect();
        self.splices.remove(&spans, gone, &[]);
    }

    /// Takes fields out of an object.
    pub(crate) fn remove_fields(&mut self, object: View, is_gone: impl Fn(&str) -> bool) {
        let (spans, gone): (Vec<_>, Vec<_>) =
            object.field_spans().into_iter().map(|(key, span)| (span, is_gone(&key))).unzip();
        self.splices.remove(&spans, &gone, &[]);
    }

    /// The text with all changes; `None` if it is the same.
    pub(crate) fn finish(self) -> Option<String> {
        let changed = self.splices.apply(self.source);
        (changed != self.source).then_some(changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(raw: &str, change: impl Fn(View, &mut Edits), expected: Option<&str>) {
        let view = View::parse(raw).unwrap();
        let mut edits = Edits::of(view);
        change(view, &mut edits);
        assert_eq!(edits.finish().as_deref(), expected, "{raw}");
    }

    #[test]
    fn only_the_place_that_is_named_changes() {
        let raw = r#" {"a": 1.0, "b":{"c" : [1, 2]} } "#;
        check(
            raw,
            |view, edits| edits.set(view, "a", "2"),
            Some(r#" {"a": 2, "b":{"c" : [1, 2]} } "#),
        );
        check(
            raw,
            |view, edits| edits.set(view.get("b").unwrap(), "d", "0"),
            Some(r#" {"a": 1.0, "b":{"c" : [1, 2],"d":0} } "#),
        );
        check(raw, |view, edits| edits.set(view.get("a").unwrap(), "d", "0"), None);
        check(raw, |view, edits| edits.set(view, "a", "1.0"), None);
        check(
            raw,
            |view, edits| edits.remove_fields(view, |key| key == "a"),
            Some(r#" {"b":{"c" : [1, 2]} } "#),
        );
        let list = |view: View, edits: &mut Edits| {
            let elements = view.path(&["b", "c"]).unwrap().elements();
            edits.remove(&elements, &[true, false]);
        };
        check(raw, list, Some(r#" {"a": 1.0, "b":{"c" : [2]} } "#));
        check("{}", |view, edits| edits.set(view, "a", "1"), Some(r#"{"a":1}"#));
        check(r#"{"a":null}"#, |view, edits| edits.set(view, "a", "1"), Some(r#"{"a":1}"#));
    }
}
