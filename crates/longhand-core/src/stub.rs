//! One-line markers in the place of bulky bodies.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::fmt::Write;

use rustc_hash::FxHashMap;

use crate::anchor::{
    Saying, Statement, check_of, identifiers, is_check_tool, patched, printed, statements,
    telling_line, verdict_line,
};
use crate::clip::clip_to;
use crate::cut;
use crate::draft::At;
use crate::edit::{Edit, Place};
use crate::json::{self, JsonCursor};
use crate::plan::original_text;
use crate::reference::is_reading;
use crate::touched::{ArgumentUse, touched};
use crate::worth::{Newer, Reason};
use crate::{Handle, Message, Part, Role, Text, ToolCall, ToolResult};

/// How every marker of ours begins, so that we know our own when we meet them again.
pub(crate) const MARK: &str = "[longhand ";

/// The most characters that a stub has.
pub const STUB_CHARS_MAX: usize = 800;

/// The fewest and the most characters of the names in a stub, and how many characters of a body allow one more.
const NAMES_CHARS_MIN: usize = 60;
const NAMES_CHARS_MAX: usize = 120;
const BODY_CHARS_PER_NAME_CHAR: usize = 40;

/// The most characters of the most telling line, and the most statements in a stub.
const TELLING_CHARS_MAX: usize = 162;
const STATED_MAX: usize = 3;

/// What a stub says of its body, and of a body that the model can read again.
const NOT_SHOWN: &str = "not shown";
const READ_AGAIN: &str = "not shown, read it again to see it";

/// How much of each end of a body is read for its names.
const SAMPLE_BYTES: usize = 16 * 1024;

/// Only the bodies of this many newest messages are read for names. The names of thousands of old results help
/// nobody, and finding them would take longer than the rest of a plan.
const READ_MESSAGES_MAX: usize = 500;

/// Whether a text is what an edit of ours left behind: a marker, perhaps between two short ends.
///
/// A longer text that only quotes a marker is a body like any other.
pub(crate) fn is_ours(text: &str) -> bool {
    text.len() <= 800 && text.contains(MARK)
}

/// How much an old observation keeps of itself.
const OBSERVATION_BYTES: usize = 600;

/// Writes the edits that replace bodies.
pub(crate) struct Stubber<'h> {
    messages: &'h [Message],
    newer: OnceCell<Newer>,
}

impl<'h> Stubber<'h> {
    pub(crate) fn new(messages: &'h [Message]) -> Self {
        Self { messages, newer: OnceCell::new() }
    }

    /// Which bodies newer ones replace.
    pub(crate) fn newer(&self) -> &Newer {
        self.newer.get_or_init(|| Newer::of(self.messages))
    }

    /// Replaces the result of a call.
    pub(crate) fn result(&self, at: Place, found: At, result: &ToolResult) -> Edit {
        let call = self.caller(found.0, &result.call.decode());
        let source = call.map_or_else(|| "a tool result".to_owned(), describe_call);
        let note = match self.newer().replaces(self.messages, found) {
            Some(Reason::Superseded) => ", superseded by a newer call",
            Some(Reason::Duplicate) => ", the same as a newer result",
            _ => "",
        };
        let source = format!("{}{note}", clean(&source, 90));
        let told: Telling = if self.is_far_back(found.0) {
            Telling::Nothing
        } else if call.is_some_and(checks) {
            Telling::Lines(verdict)
        } else {
            Telling::Lines(telling)
        };
        let reads = call.is_some_and(|call| is_reading(&call.name.decode()));
        let absent = if reads { READ_AGAIN } else { NOT_SHOWN };
        let (handle, text) = if let Some(body) = result.single_text() {
            let body = original_text(body);
            let handle = Handle::of([body.as_ref()]);
            (handle, stub_saying(handle, &body, &source, absent, told))
        } else {
            let handle = Handle::of([result.raw.raw()]);
            (handle, stub_blocks(handle, result, &source, told))
        };
        Edit::Stub { at, handle, text }
    }

    /// Replaces the bulky arguments of a call, if any of them can be.
    pub(crate) fn call(at: Place, call: &ToolCall, chars_min: usize) -> Option<Edit> {
        let body = original_text(&call.arguments);
        let handle = Handle::of([body.as_ref()]);
        let text = if call.freeform {
            let source = format!("the input of {}{}", call.name.decode(), files_of(&body));
            stub(handle, &body, &source, Telling::Lines(telling))
        } else {
            stub_arguments(handle, &body, chars_min)?
        };
        Some(Edit::Stub { at, handle, text })
    }

    /// Replaces the assistant's words.
    pub(crate) fn prose(&self, at: Place, found: At, text: &Text) -> Edit {
        let body = original_text(text);
        let handle = Handle::of([body.as_ref()]);
        let told =
            if self.is_far_back(found.0) { Telling::Nothing } else { Telling::Lines(stated) };
        let text = stub(handle, &body, "assistant text", told);
        Edit::Stub { at, handle, text }
    }

    /// Cuts an observation in a user turn, if it is long enough.
    pub(crate) fn observation(at: Place, text: &Text) -> Option<Edit> {
        let handle = Handle::of([original_text(text).as_ref()]);
        let text = clip_to(handle, &text.decode(), OBSERVATION_BYTES)?;
        Some(Edit::Clip { at, handle, text })
    }

    fn is_far_back(&self, message: usize) -> bool {
        self.messages.len() - message > READ_MESSAGES_MAX
    }

    /// The call that a result answers: it is rarely more than a few messages back.
    fn caller(&self, result: usize, id: &str) -> Option<&'h ToolCall> {
        self.messages[..=result]
            .iter()
            .rev()
            .take(64)
            .flat_map(Message::calls)
            .find(|call| call.id.decode() == id)
    }
}

/// Describes a removed result of several blocks: the words in it, and what else there was.
fn stub_blocks(handle: Handle, result: &ToolResult, source: &str, told: Telling) -> String {
    let (mut words, mut images, mut others) = (String::new(), 0, 0);
    for part in &result.content {
        match part {
            Part::Text(text) => words.push_str(&text.decode()),
            Part::Image(_) => images += 1,
            _ => others += 1,
        }
    }
    let mut with = String::new();
    for (count, noun) in [(images, "image"), (others, "attachment")] {
        match count {
            0 => {}
            1 => with.push_str(&format!(" with 1 {noun}")),
            _ => with.push_str(&format!(" with {count} {noun}s")),
        }
    }
    stub(handle, &words, &format!("{}{with}", clean(source, 70)), told)
}

/// What a stub says of the inside of its body.
#[derive(Clone, Copy)]
enum Telling {
    /// Nothing: the body is not read.
    Nothing,
    /// The names that it has most, and the lines that tell most.
    Lines(fn(&str) -> Vec<&str>),
}

fn verdict(body: &str) -> Vec<&str> {
    verdict_line(body).into_iter().collect()
}

fn telling(body: &str) -> Vec<&str> {
    telling_line(body).into_iter().collect()
}

/// The decisions, blockers and open questions in a text of the model, or else its most telling line.
fn stated(body: &str) -> Vec<&str> {
    let said = statements(body, Role::Assistant);
    let stands = |said: &Statement| {
        matches!(said.saying, Saying::Decides | Saying::Blocks | Saying::LeavesOpen)
    };
    let stated: Vec<&str> = said.filter(stands).map(|said| said.text).take(STATED_MAX).collect();
    if stated.is_empty() { telling(body) } else { stated }
}

/// Describes a removed body: its handle, size and source, what it names, and the line that tells most.
fn stub(handle: Handle, body: &str, source: &str, told: Telling) -> String {
    stub_saying(handle, body, source, NOT_SHOWN, told)
}

/// The same with other words for the body's absence.
fn stub_saying(handle: Handle, body: &str, source: &str, absent: &str, told: Telling) -> String {
    let mut line = format!(
        "{MARK}stub {handle}: {} chars of {}, {absent}",
        grouped(body.chars().count()),
        clean(source, 125)
    );
    let Telling::Lines(told) = told else {
        line.push(']');
        return line;
    };
    let body = printed(body);
    let names = names_of(&body, &line);
    if !names.is_empty() {
        let _ = write!(line, "; {}", names.join(", "));
    }
    for telling in told(&body) {
        let room = STUB_CHARS_MAX.saturating_sub(line.chars().count() + 3).min(TELLING_CHARS_MAX);
        let telling = clean(telling, room);
        if room > 20 && !line.contains(&telling) {
            let _ = write!(line, "; {telling}");
        }
    }
    line.push(']');
    line
}

/// The names that a body has most, but for those that a line has already.
fn names_of(body: &str, line: &str) -> Vec<String> {
    let (head, tail) = ends(body, SAMPLE_BYTES);
    let mut uses: FxHashMap<&str, (u32, usize)> = FxHashMap::default();
    // An option is part of a command, and says nothing of what a body holds.
    let found = identifiers(head).chain(identifiers(tail)).filter(|name| !name.starts_with("--"));
    for (name, at) in found.zip(0..) {
        uses.entry(name).or_insert((0, at)).0 += 1;
    }
    let mut ranked: Vec<(&str, (u32, usize))> = uses.into_iter().collect();
    ranked.sort_unstable_by_key(|(_, (count, at))| (std::cmp::Reverse(*count), *at));
    let mut room = (body.len() / BODY_CHARS_PER_NAME_CHAR).clamp(NAMES_CHARS_MIN, NAMES_CHARS_MAX);
    let mut names = Vec::new();
    let folder = common_folder(ranked.iter().map(|(name, _)| *name));
    for (name, _) in ranked {
        if room < 8 {
            break;
        }
        let name = name.strip_prefix(folder).unwrap_or(name);
        if name.is_empty() {
            continue;
        }
        if name.len() + 2 <= room && !line.contains(name) {
            room -= name.len() + 2;
            names.push(clean(name, 130));
        }
    }
    names
}

/// The folder, with its slash, in which all absolute paths are, if it is long: a listing names it in every line.
fn common_folder<'t>(names: impl Iterator<Item = &'t str>) -> &'t str {
    let folder = |path: &'t str| &path[..path.rfind('/').map_or(0, |at| at + 1)];
    let shared = |one: &'t str, two: &'t str| {
        let same = one.bytes().zip(two.bytes()).take_while(|(one, two)| one == two).count();
        folder(cut::head(one, same))
    };
    let paths = names.filter(|name| name.starts_with('/'));
    // A short one may stay.
    paths.map(folder).reduce(shared).filter(|folder| folder.len() > 16).unwrap_or_default()
}

/// Whether a call runs a check.
fn checks(call: &ToolCall) -> bool {
    let arguments = call.arguments.decode();
    is_check_tool(&call.name.decode())
        || key_arguments(&arguments).iter().any(|(_, value)| check_of(value).is_some())
}

/// The files of a patch, to be named after something else.
fn files_of(body: &str) -> String {
    let files = patched(body);
    let files: Vec<String> = files.iter().take(8).map(|(_, path)| clean(path, 80)).collect();
    if files.is_empty() { String::new() } else { format!(" for {}", files.join(" ")) }
}

/// Names a call by its tool and its most telling arguments.
pub(crate) fn describe_call(call: &ToolCall) -> String {
    let mut line = call.name.decode().into_owned();
    let arguments = call.arguments.decode();
    for (key, value) in key_arguments(&arguments) {
        let _ = write!(line, " {key}={}", clean(&short_path(&value, 60), 60));
    }
    line
}

/// Drops the first folders of a path until it has at most `bytes_max` bytes; the file's name stays.
fn short_path(path: &str, bytes_max: usize) -> Cow<'_, str> {
    if path.len() <= bytes_max || path.contains(char::is_whitespace) {
        return Cow::Borrowed(path);
    }
    let end = cut::tail(path, bytes_max - '…'.len_utf8());
    match end.find('/') {
        Some(folder) => Cow::Owned(format!("…{}", &end[folder..])),
        None => Cow::Borrowed(path),
    }
}

/// Picks the arguments that say what a call was about: at most two short ones.
fn key_arguments(arguments: &str) -> Vec<(String, String)> {
    const TELLING: &[&str] = &[
        "path",
        "file_path",
        "file",
        "filename",
        "command",
        "cmd",
        "query",
        "pattern",
        "url",
        "name",
        "id",
    ];
    let Ok(node) = JsonCursor::new(arguments).node() else { return Vec::new() };
    let mut short: Vec<(usize, String, String)> = Vec::new();
    for (key, value) in &node.fields {
        let (Some(key), Some(value)) = (key.str(arguments), value.str(arguments)) else { continue };
        if !value.trim().is_empty() && value.len() <= 300 {
            let rank = TELLING.iter().position(|known| *known == key).unwrap_or(TELLING.len());
            short.push((rank, key.into_owned(), value.into_owned()));
        }
    }
    short.sort_by_key(|(rank, _, _)| *rank);
    short.into_iter().take(2).map(|(_, key, value)| (clean(&key, 20), value)).collect()
}

/// Rewrites a call's arguments with every bulky string replaced by a marker, the shape unchanged.
///
/// A text that takes the place of another is told by what is new in it. Answers with `None` if nothing is bulky,
/// or if they are not a JSON object.
pub(crate) fn stub_arguments(handle: Handle, arguments: &str, chars_min: usize) -> Option<String> {
    let strings = json::strings_of_object(arguments)?;
    let mut out = String::new();
    let mut from = 0;
    let mut old: Option<Cow<str>> = None;
    for value in strings {
        let span = value.span();
        let key = key_before(&arguments[..span.start]);
        let used = ArgumentUse::of(key, old.as_deref());
        let is_old = matches!(used, ArgumentUse::Old);
        if span.len() < chars_min {
            old = if is_old { value.str(arguments) } else { old };
            continue;
        }
        let text = value.str(arguments)?;
        let count = grouped(text.chars().count());
        let told = touched(&text, &used);
        let marker = format!("{MARK}stub {handle}: {count} chars not shown{told}]");
        old = if is_old { Some(text.clone()) } else { old };
        if text.chars().count() < chars_min.max(marker.len() + 1) || text.starts_with(MARK) {
            continue;
        }
        out.push_str(&arguments[from..span.start]);
        out.push_str(&json::quote(&marker));
        from = span.end;
    }
    (from > 0).then(|| out + &arguments[from..])
}

/// The key of the value that follows, as it is written; empty for an element of a list.
fn key_before(source: &str) -> &str {
    let key = source.trim_end().strip_suffix(':').map(str::trim_end);
    let key = key.and_then(|key| key.strip_suffix('"'));
    key.and_then(|key| key.rsplit('"').next()).unwrap_or_default()
}

/// Whether a text is worth a stub: at least `chars_min` characters, and no marker of ours.
pub(crate) fn is_bulky(text: &Text, chars_min: usize) -> bool {
    // An escaped character takes at most twelve bytes.
    let size = text.raw_len();
    if size < chars_min || size == 0 || is_ours(text.raw()) {
        return false;
    }
    // Without code points that are written out it is four, as in UTF-8.
    let is_plain = || size / 4 >= chars_min && !text.raw().contains("\\u");
    size / 12 >= chars_min
        || is_plain()
        || text.decode().chars().nth(chars_min.saturating_sub(1)).is_some()
}

/// Puts a text on one line, without brackets or controls, in at most `chars_max` characters.
pub(crate) fn clean(text: &str, chars_max: usize) -> String {
    let mut out = String::new();
    let (mut spaced, mut written) = (true, 0);
    for (count, c) in text.trim().chars().enumerate() {
        if count >= chars_max * 2 || written + 1 >= chars_max {
            out.push('…');
            break;
        }
        let c = match c {
            '[' => '(',
            ']' => ')',
            c if c.is_whitespace() || c.is_control() => ' ',
            c => c,
        };
        if c != ' ' || !spaced {
            out.push(c);
            written += 1;
        }
        spaced = c == ' ';
    }
    out.trim_end().to_owned()
}

/// The first and the last bytes of a text, without overlap.
fn ends(text: &str, bytes: usize) -> (&str, &str) {
    if text.len() <= bytes * 2 {
        return (text, "");
    }
    (cut::head(text, bytes), cut::tail(text, bytes))
}

/// Writes `12840` as `12,840`.
pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stub_tells_size_source_and_anchors_on_one_short_line() {
        let body = "reading src/wheel.rs\nerror[E0308]: mismatched types ] in g-7\n".repeat(40);
        let call = ToolCall {
            id: "1".into(),
            name: "read_file".into(),
            arguments: r#"{"limit":3,"note":"x","path":"src/wheel.rs"}"#.into(),
            freeform: false,
        };
        let line = stub(Handle::of(["x"]), &body, &describe_call(&call), Telling::Lines(telling));
        assert_eq!(
            line,
            "[longhand stub h:bht03g7c4bqe: 2,440 chars of read_file path=src/wheel.rs note=x, not shown; \
             E0308, g-7; \
             error(E0308): mismatched types ) in g-7]"
        );
        let hostile = stub(
            Handle::of(["x"]),
            &"error: ] x\u{7}".repeat(900),
            &"[y]\n".repeat(90),
            Telling::Lines(telling),
        );
        assert!(hostile.chars().count() <= STUB_CHARS_MAX, "{}", hostile.len());
        assert_eq!(hostile.matches([']', '\n', '\u{7}']).count(), 1);
    }

    #[test]
    fn a_listing_is_told_by_what_differs_and_a_file_by_its_end() {
        let root = "/home/somebody/projects/with-a-long-name/and-another-one";
        let body = format!("{root}/mix.exs\n{root}/lib/spotter.ex\n").repeat(20);
        let path = format!(r#"{{"path":"{root}/lib/spotter.ex"}}"#);
        let call = |arguments: &str| ToolCall {
            id: "1".into(),
            name: "ls".into(),
            arguments: arguments.into(),
            freeform: false,
        };
        let line =
            stub(Handle::of(["x"]), &body, &describe_call(&call(&path)), Telling::Lines(telling));
        assert_eq!(
            line,
            "[longhand stub h:bht03g7c4bqe: 2,740 chars of ls \
             path=…/projects/with-a-long-name/and-another-one/lib/spotter.ex, not shown; mix.exs]"
        );
    }

    #[test]
    fn what_lies_far_back_is_told_by_its_size_and_source_alone() {
        let result = |call: &str| {
            let text = "error: src/wheel.rs is broken\n".repeat(20);
            let content = vec![Part::Text(text.as_str().into())];
            ToolResult {
                call: call.into(),
                content,
                raw: text.into(),
                error: false,
                fixed: false,
                loads_tools: false,
            }
        };
        let message = |at: usize| {
            let parts = vec![Part::Result(result(&at.to_string()))];
            Message::new(Role::Tool, None, parts, "".into())
        };
        let messages: Vec<Message> = (0..=READ_MESSAGES_MAX).map(message).collect();
        let stubber = Stubber::new(&messages);
        let told = |at: usize| {
            let place = Place { entry: crate::Seq(at as u64), part: 0 };
            let Edit::Stub { text, .. } = stubber.result(place, (at, 0), &result("x")) else {
                panic!("a result becomes a stub")
            };
            text
        };
        assert!(told(1).ends_with("src/wheel.rs; error: src/wheel.rs is broken]"), "{}", told(1));
        assert!(
            told(0).ends_with("600 chars of a tool result, the same as a newer result, not shown]"),
            "{}",
            told(0)
        );
    }

    #[test]
    fn arguments_keep_their_shape() {
        let long = "x".repeat(300);
        let arguments = format!(r#"{{ "path":"a.rs", "n":1.0,"edits":[{{"new":"{long}\n"}}] }}"#);
        let handle = Handle::of(["x"]);
        let stubbed = stub_arguments(handle, &arguments, 256).unwrap();
        assert_eq!(
            stubbed,
            format!(
                r#"{{ "path":"a.rs", "n":1.0,"edits":[{{"new":"[longhand stub {handle}: 301 chars not shown]"}}] }}"#
            )
        );
        assert_eq!(stub_arguments(handle, &stubbed, 0), None);
        let edit = format!(
            r#"{{"old_string":"fn a() {{","new_string":"fn a() {{\n  turn_the_wheel(3);\n{long}"}}"#
        );
        let stubbed = stub_arguments(handle, &edit, 256).unwrap();
        assert!(
            stubbed.ends_with(r#" chars not shown; in fn a() {; + turn_the_wheel(3);]"}"#),
            "{stubbed}"
        );
        assert_eq!(stub_arguments(handle, "not json", 0), None);
    }
}
