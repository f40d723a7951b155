//! What `cargo test` would print when the code does not build.

use super::project::Project;
use crate::rng::Rng;

/// A build that fails: its output, the error code and the place.
pub(super) struct BuildFailure {
    pub(super) output: String,
    pub(super) code: &'static str,
    pub(super) place: String,
}

/// Renders a compile error at a line of the function.
pub(super) fn failure(
    project: &Project,
    path: &str,
    function: &str,
    rng: &mut Rng,
) -> BuildFailure {
    let wanted = ["self.", "let ", "assert", ";", "}"];
    let number = wanted.iter().find_map(|wanted| project.line_in(path, function, wanted));
    let number = number.unwrap_or(1);
    let text = project.text(path);
    let line = text.lines().nth(number - 1).unwrap_or_default();
    let (column, width) = last_identifier(line);
    let identifier = &line[column..column + width];
    let kinds = [
        ("E0308", "mismatched types".to_owned(), "expected `u64`, found `usize`".to_owned()),
        (
            "E0502",
            "cannot borrow `*self` as mutable because it is also borrowed as immutable".to_owned(),
            "mutable borrow occurs here".to_owned(),
        ),
        (
            "E0425",
            format!("cannot find value `{identifier}` in this scope"),
            "not found in this scope".to_owned(),
        ),
        (
            "E0599",
            format!("no method named `{identifier}` found for reference `&Self`"),
            "method not found in `&Self`".to_owned(),
        ),
        (
            "E0382",
            format!("use of moved value: `{identifier}`"),
            "value used here after move".to_owned(),
        ),
    ];
    let (code, title, label) = rng.choose(&kinds);
    let gutter = number.to_string().len();
    let output = format!(
        "{}error[{code}]: {title}\n\
         {:gutter$}--> {path}:{number}:{}\n\
         {:gutter$} |\n{number} | {line}\n{:gutter$} | {:column$}{} {label}\n\n\
         For more information about this error, try `rustc --explain {code}`.\n\
         error: could not compile `tidewheel` (lib test) due to 1 previous error\n",
        compiling(project),
        "",
        column + 1,
        "",
        "",
        "",
        "^".repeat(width.max(1)),
    );
    BuildFailure { output, code, place: format!("{path}:{number}") }
}

/// The line that every build begins with.
pub(super) fn compiling(project: &Project) -> String {
    format!("   Compiling tidewheel v{} (/src/tidewheel)\n", project.version)
}

/// Finds where the last identifier of a line begins and how long it is.
fn last_identifier(line: &str) -> (usize, usize) {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut end = line.len();
    while let Some(last) = line[..end].rfind(is_part) {
        let start = line[..last].trim_end_matches(is_part).len();
        let name = &line[start..=last];
        if name.starts_with(|c: char| c.is_ascii_lowercase()) && !RESERVED.contains(&name) {
            return (start, name.len());
        }
        end = start;
    }
    (0, 0)
}

const RESERVED: &[&str] =
    &["as", "else", "fn", "if", "in", "let", "match", "mut", "self", "u32", "u64", "usize"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_no_identifiers() {
        let line = "    let due = self.last_seen.0 as usize;";
        let (start, length) = last_identifier(line);
        assert_eq!(&line[start..start + length], "last_seen");
        assert_eq!(last_identifier("}"), (0, 0));
    }
}
