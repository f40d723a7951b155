//! The rules that no other tool checks.

mod files;
mod homes;

use std::path::Path;

use self::files::TextFile;
use crate::example;
use crate::failure::Failure;
use crate::run::root;
use crate::scoreboard;

const SOURCE_LINES_MAX: usize = 700;

/// In pieces, or this file would break its own rule.
const LEFTOVERS: &[&str] = &[concat!("todo", "!("), concat!("dbg", "!(")];

/// Names every place that breaks a rule.
pub(crate) fn tidy() -> Result<(), Failure> {
    let files = files::text_files(&root())?;
    let mut complaints: Vec<String> = files.iter().flat_map(complaints_about).collect();
    complaints.extend(example::complaint());
    complaints.extend(scoreboard::complaints());
    if complaints.is_empty() {
        return Ok(());
    }
    for complaint in &complaints {
        println!("{complaint}");
    }
    Err(Failure::new(format!("{} untidy places", complaints.len())))
}

fn complaints_about(file: &TextFile) -> Vec<String> {
    let mut complaints = Vec::new();
    let path = file.path.display();
    for (line, number) in file.text.lines().zip(1..) {
        if line.ends_with([' ', '\t', '\r']) {
            complaints.push(format!("{path}:{number}: white space at the end of the line"));
        }
        if is_rust(&file.path)
            && let Some(leftover) = LEFTOVERS.iter().find(|leftover| line.contains(**leftover))
        {
            complaints.push(format!("{path}:{number}: `{leftover}` is left over"));
        }
    }
    if is_rust(&file.path) && is_in_sources(&file.path) {
        let lines = file.text.lines().zip(1..);
        let complaint = |line| mechanism(&file.path, line).or_else(|| printing(&file.path, line));
        complaints.extend(homes::complaints(&file.path, &file.text));
        let found = lines.filter_map(|(line, number)| Some((number, complaint(line)?)));
        complaints.extend(found.map(|(number, what)| format!("{path}:{number}: {what}")));
        let found = file.text.lines().zip(1..).filter_map(|(line, number)| {
            Some(format!("{path}:{number}: {}", cut_by_bytes(&file.path, line)?))
        });
        complaints.extend(found);
    }
    let lines = file.text.lines().count();
    if is_rust(&file.path) && is_in_sources(&file.path) && lines > SOURCE_LINES_MAX {
        complaints.push(format!("{path}: {lines} lines, split it below {SOURCE_LINES_MAX}"));
    }
    if is_crate_manifest(&file.path) && !file.text.contains("[lints]\nworkspace = true") {
        complaints.push(format!("{path}: add `[lints]` with `workspace = true`"));
    }
    complaints
}

/// Where edits may be told apart: the planner and projections, the renderer, the codecs of archives and exports.
const EDITS: &[&str] = &[
    "crates/longhand-core/src/",
    "crates/longhand-dialect/src/render.rs",
    "crates/longhand-archive/src/codec.rs",
    "crates/longhand/src/transfer/line.rs",
    // Tests make edits of every kind.
    "crates/longhand-testkit/src/",
];

/// What surfaces must leave to `longhand`: planning, projecting and committing.
const SURFACES: &[&str] = &["crates/longhand-cli/src/", "crates/longhand-server/src/"];

/// In pieces, or this file would break its own rule.
const EDIT_FORMS: &[&str] = &[
    concat!("Edit", "::Stub"),
    concat!("Edit", "::Clip"),
    concat!("Edit", "::Fold"),
    concat!("Edit", "::Insert"),
];

const PLANNING: &[&str] = &[concat!("plan", "_with("), concat!("proj", "ect(")];

/// A line that cuts a text by its bytes and may do so inside a character.
fn cut_by_bytes(path: &Path, line: &str) -> Option<&'static str> {
    // In pieces, or this file would break its own rule.
    let rounds = [concat!("floor_char_", "boundary("), concat!("ceil_char_", "boundary(")];
    if rounds.iter().any(|name| line.contains(name)) && !path.ends_with("longhand-core/src/cut.rs")
    {
        return Some("cut texts with `longhand_core::cut`");
    }
    // What such a search finds may have several bytes.
    let searches = [concat!("find(", "|"), concat!("find(", "char::"), concat!("find(", "is_")];
    let steps = [concat!("at ", "+ 1)"), concat!("before ", "+ 1)"), concat!("end ", "+ 1)")];
    let has = |signs: &[&str]| signs.iter().any(|sign| line.contains(sign));
    (has(&searches) && has(&steps))
        .then_some("the character that was found may have several bytes: trim up to it instead")
}

/// How a line breaks the rule that there is one maker of windows, if it does.
fn mechanism(path: &Path, line: &str) -> Option<String> {
    let is_in = |places: &[&str]| places.iter().any(|place| path.starts_with(place));
    if path.ends_with("tests.rs") {
        return None;
    }
    let edit = EDIT_FORMS.iter().find(|form| line.contains(**form));
    if let Some(form) = edit.filter(|_| !is_in(EDITS)) {
        return Some(format!("`{form}` belongs into core, the renderer or a codec"));
    }
    let planning = PLANNING.iter().find(|call| line.contains(**call));
    let call = planning.filter(|_| is_in(SURFACES))?;
    Some(format!(
        "`{call}` belongs into `longhand`: a surface admits, asks for a window and hands in the answer"
    ))
}

/// Where the command may write to the terminal: what others wrote is cleaned there.
const PRINTERS: &[&str] = &[
    "crates/longhand-cli/src/output.rs",
    "crates/longhand-cli/src/progress.rs",
    "crates/longhand-cli/src/chat/screen.rs",
];

const PRINTING: &[&str] = &[
    concat!("print", "ln!("),
    concat!("e", "print!("),
    concat!("std", "out().lock()"),
    concat!("std", "err().lock()"),
];

/// How a line of the command prints past what cleans, if it does.
fn printing(path: &Path, line: &str) -> Option<String> {
    let is_command = path.starts_with("crates/longhand-cli/src/");
    let is_printer = PRINTERS.iter().any(|printer| path == Path::new(printer));
    let call = PRINTING.iter().find(|call| line.contains(**call));
    let call = call.filter(|_| is_command && !is_printer)?;
    Some(format!("`{call}` would print what others wrote as it is: `output` cleans it"))
}

fn is_rust(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "rs")
}

/// Says whether a path is of the form `crates/NAME/src/…`.
fn is_in_sources(path: &Path) -> bool {
    let mut parts = path.iter();
    parts.next().is_some_and(|part| part == "crates")
        && parts.nth(1).is_some_and(|part| part == "src")
}

fn is_crate_manifest(path: &Path) -> bool {
    path.starts_with("crates") && path.file_name().is_some_and(|name| name == "Cargo.toml")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, text: &str, expected: &[&str]) {
        let file = TextFile { path: path.into(), text: text.to_owned() };
        assert_eq!(complaints_about(&file), expected);
    }

    #[test]
    fn trailing_white_space_is_found_everywhere() {
        check("README.md", "a \nb\n", &["README.md:1: white space at the end of the line"]);
    }

    #[test]
    fn leftovers_are_found_in_rust_only() {
        let text = format!("    {}x);\n", LEFTOVERS[1]);
        check("notes.md", &text, &[]);
        let complaint = format!("crates/a/tests/b.rs:1: `{}` is left over", LEFTOVERS[1]);
        check("crates/a/tests/b.rs", &text, &[&complaint]);
    }

    #[test]
    fn long_files_are_found_in_sources_only() {
        let text = "x\n".repeat(701);
        check("crates/a/tests/b.rs", &text, &[]);
        check("crates/a/src/b.rs", &text, &["crates/a/src/b.rs: 701 lines, split it below 700"]);
    }

    #[test]
    fn texts_are_not_cut_inside_a_character() {
        let step =
            concat!("let start = line.rfind(", "|c| c != 'a').map_or(0, |at| at ", "+ 1);\n");
        let what = "crates/a/src/b.rs:1: the character that was found may have several bytes: trim up to it instead";
        check("crates/a/src/b.rs", step, &[what]);
        let cut = concat!("&text[..text.floor_char_", "boundary(9)]\n");
        check(
            "crates/a/src/b.rs",
            cut,
            &["crates/a/src/b.rs:1: cut texts with `longhand_core::cut`"],
        );
        check("crates/longhand-core/src/cut.rs", cut, &[]);
        check(
            "crates/a/src/b.rs",
            "let next = list.iter().find(|own| own.is_new()).map(|at| at);\n",
            &[],
        );
    }

    #[test]
    fn there_is_one_maker_of_windows() {
        let text = format!("    {} {{ .. }} => {{}}\n", EDIT_FORMS[0]);
        check("crates/longhand-core/src/plan.rs", &text, &[]);
        check("crates/longhand-archive/src/codec.rs", &text, &[]);
        let what = format!(
            "crates/longhand/src/x.rs:1: `{}` belongs into core, the renderer or a codec",
            EDIT_FORMS[0]
        );
        check("crates/longhand/src/x.rs", &text, &[&what]);
        let text = format!("let plan = {}&history);\n", PLANNING[0]);
        check("crates/longhand/src/x.rs", &text, &[]);
        let file = TextFile { path: "crates/longhand-cli/src/x.rs".into(), text };
        assert_eq!(complaints_about(&file).len(), 1);
    }

    #[test]
    fn the_command_prints_in_one_place() {
        for call in PRINTING {
            let text = format!("    {call}text);\n");
            check("crates/longhand-cli/src/output.rs", &text, &[]);
            check("crates/longhand-server/src/x.rs", &text, &[]);
            let file = TextFile { path: "crates/longhand-cli/src/ls.rs".into(), text };
            assert_eq!(complaints_about(&file).len(), 1, "{call}");
        }
    }

    #[test]
    fn crates_take_the_lints_of_the_workspace() {
        check("Cargo.toml", "[workspace]\n", &[]);
        check("crates/a/Cargo.toml", "[lints]\nworkspace = true\n", &[]);
        let complaint = "crates/a/Cargo.toml: add `[lints]` with `workspace = true`";
        check("crates/a/Cargo.toml", "[package]\n", &[complaint]);
    }
}
