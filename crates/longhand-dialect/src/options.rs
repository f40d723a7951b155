//! What a client asks its provider to do about long conversations.

use longhand_core::json::JsonCursor;
use longhand_core::{Clear, Tokens, Trigger};

use crate::Dialect;
use crate::source::{mentions, start_of};
use crate::splice::Splices;
use crate::view::View;

/// What a request asks its provider to do; malformed fields count as absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The size beyond which the provider is to summarise.
    pub compact_at: Option<Tokens>,
    /// Which tool uses the provider is to clear.
    pub clear: Option<Clear>,
    /// How much thinking is to be left where the provider clears it.
    pub thinking: Option<ThinkingKept>,
    /// Whether the provider may drop what does not fit.
    pub truncates: bool,
}

/// How much thinking is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThinkingKept {
    /// All of it.
    All,
    /// The thinking of this many newest turns.
    Turns(usize),
}

/// The size from which Anthropic summarises by default.
const COMPACT_AT: Tokens = Tokens(150_000);

impl Options {
    /// Reads the options of a request.
    ///
    /// ```
    /// use longhand_core::Tokens;
    /// use longhand_dialect::{Dialect, Options};
    ///
    /// let body = r#"{"context_management":[{"type":"compaction","compact_threshold":9000}],"input":"hi"}"#;
    /// assert_eq!(Options::of(Dialect::Responses, body).compact_at, Some(Tokens(9_000)));
    /// ```
    pub fn of(dialect: Dialect, request: &str) -> Self {
        let mut options = Self::default();
        let Some(view) = may_have(dialect, request).then(|| View::parse(request)).flatten() else {
            return options;
        };
        let managed = view.get("context_management");
        match dialect {
            Dialect::Anthropic => {
                let edits = managed.and_then(|managed| managed.get("edits"));
                for edit in edits.map(View::elements).unwrap_or_default() {
                    options.edit(edit);
                }
            }
            Dialect::Responses => {
                let list = managed.map(View::elements).unwrap_or_default();
                let compaction = list.into_iter().find(|edit| edit.is("type", "compaction"));
                let threshold = compaction.and_then(|edit| edit.number("compact_threshold"));
                options.compact_at = threshold.map(Tokens);
                options.truncates = view.is("truncation", "auto");
            }
            _ => {}
        }
        options
    }

    /// Whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Takes one of Anthropic's edits; the first of a kind counts.
    fn edit(&mut self, edit: View) {
        match edit.string("type").as_deref() {
            Some("clear_tool_uses_20250919") => {
                self.clear.get_or_insert_with(|| clear(edit));
            }
            Some("clear_thinking_20251015") => {
                let keep = edit.get("keep");
                let turns = keep.and_then(|keep| value(keep, "thinking_turns")).unwrap_or(1);
                let is_all =
                    edit.is("keep", "all") || keep.is_some_and(|keep| keep.is("type", "all"));
                let kept = if is_all { ThinkingKept::All } else { ThinkingKept::Turns(turns) };
                self.thinking.get_or_insert(kept);
            }
            Some("compact_20260112") => {
                let trigger =
                    edit.get("trigger").and_then(|trigger| value(trigger, "input_tokens"));
                let at = trigger.map_or(COMPACT_AT, |tokens| Tokens(tokens as u64));
                self.compact_at.get_or_insert(at);
            }
            _ => {}
        }
    }
}

fn clear(edit: View) -> Clear {
    let default = Clear::default();
    let of = |key: &str, kind: &str| edit.get(key).and_then(|field| value(field, kind));
    let tokens = |count: usize| Tokens(count as u64);
    let names = edit.get("exclude_tools").map(View::elements).unwrap_or_default();
    Clear {
        trigger: of("trigger", "input_tokens")
            .map(|count| Trigger::Tokens(tokens(count)))
            .or_else(|| of("trigger", "tool_uses").map(Trigger::Uses))
            .unwrap_or(default.trigger),
        keep: of("keep", "tool_uses").unwrap_or(default.keep),
        at_least: of("clear_at_least", "input_tokens").map_or(default.at_least, tokens),
        exclude: names.into_iter().filter_map(|name| Some(name.str()?.into_owned())).collect(),
        // It may also name tools; then all arguments stay.
        inputs: edit.get("clear_tool_inputs").is_some_and(|flag| flag.raw() == "true"),
    }
}

/// The number of `{"type": kind, "value": number}`.
fn value(view: View, kind: &str) -> Option<usize> {
    let number = view.is("type", kind).then(|| view.number("value"))??;
    usize::try_from(number).ok()
}

/// The fields that options stand in.
fn fields(dialect: Dialect) -> &'static [&'static str] {
    match dialect {
        Dialect::Anthropic => &["context_management"],
        Dialect::Responses => &["context_management", "truncation"],
        _ => &[],
    }
}

/// Whether one of the fields may stand in a request.
fn may_have(dialect: Dialect, request: &str) -> bool {
    let fields = fields(dialect);
    !fields.is_empty() && mentions(request, fields)
}

/// Takes the options out of a request, for a server that does not know them; `None` if there are none.
pub fn without_options(dialect: Dialect, request: &str) -> Option<String> {
    if !may_have(dialect, request) {
        return None;
    }
    let node = JsonCursor::at(request, start_of(request)).node().ok()?;
    let (mut spans, mut gone) = (Vec::new(), Vec::new());
    for (key, value) in &node.fields {
        spans.push(key.span().start..value.span().end);
        gone.push(fields(dialect).iter().any(|field| key.is(request, field)));
    }
    if !gone.contains(&true) {
        return None;
    }
    let mut splices = Splices::default();
    splices.remove(&spans, &gone, &[]);
    Some(splices.apply(request))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anthropic(edits: &str) -> Options {
        let body = format!(r#"{{"context_management":{{"edits":[{edits}]}},"messages":[]}}"#);
        Options::of(Dialect::Anthropic, &body)
    }

    #[test]
    fn every_field_of_a_clearing_is_read() {
        let check = |fields: &str, expected: Clear| {
            let edit = format!(r#"{{"type":"clear_tool_uses_20250919"{fields}}}"#);
            assert_eq!(anthropic(&edit).clear, Some(expected), "{fields}");
        };
        let default = Clear::default;
        assert_eq!(default().trigger, Trigger::Tokens(Tokens(100_000)));
        assert_eq!((default().keep, default().inputs), (3, false));
        check("", default());
        let tokens = Trigger::Tokens(Tokens(30_000));
        check(
            r#","trigger":{"type":"input_tokens","value":30000}"#,
            Clear { trigger: tokens, ..default() },
        );
        check(
            r#","trigger":{"value":7,"type":"tool_uses"}"#,
            Clear { trigger: Trigger::Uses(7), ..default() },
        );
        check(r#","keep":{"type":"tool_uses","value":0}"#, Clear { keep: 0, ..default() });
        check(
            r#","clear_at_least":{"type":"input_tokens","value":5000}"#,
            Clear { at_least: Tokens(5_000), ..default() },
        );
        check(
            r#","exclude_tools":["web_search",7,"caf\u00e9"]"#,
            Clear { exclude: vec!["web_search".into(), "café".into()], ..default() },
        );
        check(r#","clear_tool_inputs":true"#, Clear { inputs: true, ..default() });
        for malformed in [
            r#","trigger":5,"keep":"many","clear_at_least":[],"exclude_tools":{},"clear_tool_inputs":1"#,
            r#","trigger":{"type":"moons","value":3},"keep":{"type":"tool_uses","value":-1}"#,
            r#","trigger":{"type":"input_tokens"},"keep":{"value":9},"clear_at_least":null"#,
        ] {
            check(malformed, default());
        }
    }

    #[test]
    fn the_other_options_are_read() {
        let compact = |fields: &str| {
            anthropic(&format!(r#"{{"type":"compact_20260112"{fields}}}"#)).compact_at
        };
        assert_eq!(compact(""), Some(Tokens(150_000)));
        let trigger = r#","trigger":{"type":"input_tokens","value":60000}"#;
        assert_eq!(compact(trigger), Some(Tokens(60_000)));
        let thinking = |fields: &str| {
            anthropic(&format!(r#"{{"type":"clear_thinking_20251015"{fields}}}"#)).thinking
        };
        assert_eq!(thinking(""), Some(ThinkingKept::Turns(1)));
        assert_eq!(thinking(r#","keep":"all""#), Some(ThinkingKept::All));
        let turns = r#","keep":{"type":"thinking_turns","value":4}"#;
        assert_eq!(thinking(turns), Some(ThinkingKept::Turns(4)));

        let responses = |body: &str| Options::of(Dialect::Responses, body);
        let both = responses(
            r#"{"context_management":[{"type":"x"},{"type":"compaction","compact_threshold":200000.0}],"truncation":"auto"}"#,
        );
        assert_eq!((both.compact_at, both.truncates), (Some(Tokens(200_000)), true));
        for nothing in [
            "",
            "{",
            "[]",
            "{}",
            r#"{"truncation":"disabled","context_management":null}"#,
            r#"{"truncation":["auto"],"context_management":{"type":"compaction"}}"#,
            r#"{"input":"\u0061\u005f"}"#,
            r#"{"context_management":[{"type":"compaction"},7,{"type":"compaction","compact_threshold":1}]}"#,
            r#"{"input":[{"truncation":"auto"}]}"#,
        ] {
            assert!(responses(nothing).is_empty(), "{nothing}");
        }
        for nothing in ["", r#"{"type":"unknown"}"#, "7,null,[]"] {
            assert!(anthropic(nothing).is_empty(), "{nothing}");
        }
        let body = r#"{"context_management":{"edits":[{"type":"compact_20260112"}]}}"#;
        assert!(Options::of(Dialect::Chat, body).is_empty());
    }

    #[test]
    fn options_are_taken_out_and_nothing_else() {
        let managed = r#""context_management" : {"edits":[ ]}"#;
        let check = |dialect, before: &str, after: Option<&str>| {
            assert_eq!(without_options(dialect, before).as_deref(), after, "{before}");
        };
        let anthropic = |before: &str, after: &str| {
            check(Dialect::Anthropic, &before.replace('$', managed), Some(after));
        };
        anthropic(r#"{ $ , "n":1.0 }"#, r#"{ "n":1.0 }"#);
        anthropic(r#"{"n":1e5 , $ ,"m":[ 2 ]}"#, r#"{"n":1e5 ,"m":[ 2 ]}"#);
        anthropic(r#"{"n":1.0, $ }"#, r#"{"n":1.0 }"#);
        anthropic("{ $ }", "{  }");
        anthropic(
            "\u{feff}{$,\"a\":\"context_management\"}\n",
            "\u{feff}{\"a\":\"context_management\"}\n",
        );
        anthropic(r#"{$,"a":1,$,$,"b":2,"context_m\u0061nagement":3}"#, r#"{"a":1,"b":2}"#);
        check(
            Dialect::Responses,
            r#"{"trunc\u0061tion":"auto","input":"a"}"#,
            Some(r#"{"input":"a"}"#),
        );
        check(
            Dialect::Responses,
            r#"{"truncation":"auto","input":"a","context_management":null,"b":2}"#,
            Some(r#"{"input":"a","b":2}"#),
        );
        check(Dialect::Anthropic, r#"{"truncation":"auto"}"#, None);
        check(Dialect::Anthropic, r#"{"messages":[{"context_management":1}]}"#, None);
        check(Dialect::Chat, r#"{"context_management":1}"#, None);
        check(Dialect::Anthropic, r#"{"context_management":1"#, None);
    }
}
