//! A JSON value that can be walked into.

use std::borrow::Cow;
use std::ops::Range;

use longhand_core::json::{JsonCursor, JsonKind, JsonNode, JsonValue};

/// A value with the text that it stands in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'s> {
    source: &'s str,
    value: JsonValue,
}

impl<'s> View<'s> {
    /// Reads a text that is one JSON value.
    pub(crate) fn parse(source: &'s str) -> Option<Self> {
        let source = source.strip_prefix('\u{feff}').unwrap_or(source);
        let mut cursor = JsonCursor::new(source);
        let value = cursor.value().ok()?;
        cursor.end().ok()?;
        Some(Self { source, value })
    }

    /// Reads the JSON value that a text begins with; gives what follows it as well.
    pub(crate) fn parse_first(source: &'s str) -> Option<(Self, &'s str)> {
        let source = source.strip_prefix('\u{feff}').unwrap_or(source);
        let value = JsonCursor::new(source).value().ok()?;
        Some((Self { source, value }, &source[value.span().end..]))
    }

    /// Reads an object or an array, and nothing simpler.
    pub(crate) fn parse_nested(source: &'s str) -> Option<Self> {
        Self::parse(source).filter(|view| matches!(view.kind(), JsonKind::Object | JsonKind::Array))
    }

    pub(crate) fn kind(self) -> JsonKind {
        self.value.kind
    }

    /// A field that is there and not null.
    pub(crate) fn get(self, key: &str) -> Option<Self> {
        if self.kind() != JsonKind::Object {
            return None;
        }
        let Self { source, .. } = self;
        let mut found = None;
        let mut cursor = JsonCursor::at(source, self.value.span().start);
        let read = cursor.fields(|cursor, name| {
            let value = cursor.value()?;
            if name.is(source, key) {
                // The last one counts where a key is doubled.
                found = Some(Self { source, value });
            }
            Ok(())
        });
        found.filter(|view| read.is_ok() && view.kind() != JsonKind::Null)
    }

    /// All fields, to look up several of them; none if it is no object.
    pub(crate) fn object(self) -> Object<'s> {
        Object { source: self.source, fields: self.node().unwrap_or_default().fields }
    }

    /// A field of a field.
    pub(crate) fn path(self, keys: &[&str]) -> Option<Self> {
        keys.iter().try_fold(self, |view, key| view.get(key))
    }

    /// The fields in their order, nulls included.
    pub(crate) fn fields(self) -> Vec<(Cow<'s, str>, Self)> {
        let source = self.source;
        let Some(node) = self.node() else { return Vec::new() };
        let named =
            |(key, value): (JsonValue, JsonValue)| Some((key.str(source)?, Self { source, value }));
        node.fields.into_iter().filter_map(named).collect()
    }

    /// Where the fields stand, names included.
    pub(crate) fn field_spans(self) -> Vec<(Cow<'s, str>, Range<usize>)> {
        let fields = self.node().unwrap_or_default().fields.into_iter();
        let spanned = |(key, value): (JsonValue, JsonValue)| {
            Some((key.str(self.source)?, key.span().start..value.span().end))
        };
        fields.filter_map(spanned).collect()
    }

    fn node(self) -> Option<JsonNode> {
        let is_object = self.kind() == JsonKind::Object;
        is_object
            .then(|| JsonCursor::at(self.source, self.value.span().start).node().ok())
            .flatten()
    }

    /// The elements of an array.
    pub(crate) fn elements(self) -> Vec<Self> {
        let mut views = Vec::new();
        if self.kind() == JsonKind::Array {
            let source = self.source;
            // It was checked when it was first passed over.
            let _ = JsonCursor::at(source, self.value.span().start).elements(|cursor| {
                views.push(Self { source, value: cursor.value()? });
                Ok(())
            });
        }
        views
    }

    pub(crate) fn str(self) -> Option<Cow<'s, str>> {
        self.value.str(self.source)
    }

    pub(crate) fn string(self, key: &str) -> Option<String> {
        self.get(key)?.str().map(Cow::into_owned)
    }

    pub(crate) fn is(self, key: &str, text: &str) -> bool {
        self.get(key).is_some_and(|value| value.value.is(self.source, text))
    }

    pub(crate) fn number(self, key: &str) -> Option<u64> {
        self.get(key)?.whole()
    }

    /// A whole number, which may be written as 12.0.
    fn whole(self) -> Option<u64> {
        self.raw().parse().ok().or_else(|| {
            let float = self.raw().parse::<f64>().ok()?;
            (0.0..1e15).contains(&float).then_some(float as u64)
        })
    }

    /// The text that it stands in.
    pub(crate) fn source(self) -> &'s str {
        self.source
    }

    /// Where it stands there.
    pub(crate) fn span(self) -> Range<usize> {
        self.value.span()
    }

    /// The bytes as they stand.
    pub(crate) fn raw(self) -> &'s str {
        &self.source[self.value.span()]
    }
}

/// The fields of an object, read once.
pub(crate) struct Object<'s> {
    source: &'s str,
    fields: Vec<(JsonValue, JsonValue)>,
}

impl<'s> Object<'s> {
    /// A field that is there and not null; the last one counts where a key is doubled.
    pub(crate) fn get(&self, key: &str) -> Option<View<'s>> {
        let source = self.source;
        let (_, value) = self.fields.iter().rev().find(|(name, _)| name.is(source, key))?;
        Some(View { source, value: *value }).filter(|view| view.kind() != JsonKind::Null)
    }

    pub(crate) fn string(&self, key: &str) -> Option<String> {
        self.get(key)?.str().map(Cow::into_owned)
    }

    pub(crate) fn number(&self, key: &str) -> Option<u64> {
        self.get(key)?.whole()
    }
}
