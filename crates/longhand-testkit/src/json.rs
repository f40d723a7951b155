//! JSON as text: numbers stay as they are written, and white space can vary.

use std::fmt::Write as _;

/// A JSON value that is written exactly as it was built.
#[derive(Clone, Debug)]
pub(crate) enum Json {
    /// JSON text that is copied as it is.
    Raw(String),
    Text(String),
    Array(Vec<Json>),
    Object(Vec<(&'static str, Json)>),
}

/// How a document is laid out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct JsonLayout {
    /// Line breaks and indentation.
    pub(crate) pretty: bool,
    /// Everything but ASCII is escaped, and slashes too.
    pub(crate) escaped: bool,
}

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Json {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// Makes an object of its fields.
pub(crate) fn object<const N: usize>(fields: [(&'static str, Json); N]) -> Json {
    Json::Object(fields.into())
}

/// Takes JSON text as it is.
pub(crate) fn raw(text: &str) -> Json {
    Json::Raw(text.to_owned())
}

impl Json {
    /// Adds a field to an object.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<Self>) -> Self {
        let Self::Object(fields) = &mut self else { panic!("only an object has fields") };
        fields.push((name, value.into()));
        self
    }

    pub(crate) fn to_text(&self, layout: JsonLayout) -> String {
        let mut out = String::new();
        self.write(layout, 0, &mut out);
        out
    }

    fn write(&self, layout: JsonLayout, depth: usize, out: &mut String) {
        match self {
            Self::Raw(text) => out.push_str(text),
            Self::Text(text) => write_text(text, layout, out),
            Self::Array(items) => {
                out.push('[');
                for (place, item) in items.iter().enumerate() {
                    separate(place, layout, depth, out);
                    item.write(layout, depth + 1, out);
                }
                close(']', items.is_empty(), layout, depth, out);
            }
            Self::Object(fields) => {
                out.push('{');
                for (place, (name, value)) in fields.iter().enumerate() {
                    separate(place, layout, depth, out);
                    let colon = if layout.pretty { ": " } else { ":" };
                    let _ = write!(out, "\"{name}\"{colon}");
                    value.write(layout, depth + 1, out);
                }
                close('}', fields.is_empty(), layout, depth, out);
            }
        }
    }
}

fn separate(place: usize, layout: JsonLayout, depth: usize, out: &mut String) {
    if place > 0 {
        out.push(',');
    }
    new_line(layout, depth + 1, out);
}

fn close(bracket: char, empty: bool, layout: JsonLayout, depth: usize, out: &mut String) {
    if !empty {
        new_line(layout, depth, out);
    }
    out.push(bracket);
}

fn new_line(layout: JsonLayout, depth: usize, out: &mut String) {
    if layout.pretty {
        let _ = write!(out, "\n{:width$}", "", width = depth * 2);
    }
}

fn write_text(text: &str, layout: JsonLayout, out: &mut String) {
    let quoted = quote(text);
    if !layout.escaped {
        return out.push_str(&quoted);
    }
    for c in quoted.chars() {
        match c {
            '/' => out.push_str("\\/"),
            c if c.is_ascii() => out.push(c),
            c => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
}

/// Writes a text as a JSON string.
pub(crate) fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Json {
        object([("a", raw("1.0")), ("b", Json::Array(vec!["é/\n😀".into(), raw("1e5")]))])
            .with("c", "")
            .with("d", object([]))
    }

    #[test]
    fn numbers_and_order_stay() {
        let text = sample().to_text(JsonLayout::default());
        assert_eq!(text, r#"{"a":1.0,"b":["é/\n😀",1e5],"c":"","d":{}}"#);
    }

    #[test]
    fn every_layout_means_the_same() {
        let plain: serde_json::Value =
            serde_json::from_str(&sample().to_text(JsonLayout::default())).unwrap();
        for (pretty, escaped) in [(true, false), (false, true), (true, true)] {
            let text = sample().to_text(JsonLayout { pretty, escaped });
            assert_eq!(text.contains('\n'), pretty);
            assert_eq!(text.is_ascii(), escaped);
            assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), plain);
        }
    }
}
