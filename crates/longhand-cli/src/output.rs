//! Printing, and writing files so that they are complete or absent.

use std::fs::File;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use longhand_core::grouped;
use serde::Serialize;

pub(crate) use crate::clean::{line as harmless_line, text as harmless};
use crate::{clean, progress};

/// Writes a temporary file and renames it to its place; a link is followed, a device is written to.
pub(crate) fn write_file(path: &Path, text: &str) -> Result<()> {
    write_file_with(path, |out| Ok(out.write_all(text.as_bytes())?))
}

/// The same for what is not in memory as a whole.
pub(crate) fn write_file_with(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<()> {
    let failed = || format!("cannot write {}", path.display());
    // The name of the temporary file would only confuse.
    let bare = |error: std::io::Error| std::io::Error::from(error.kind());
    let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let old = std::fs::metadata(&target).ok();
    if old.as_ref().is_some_and(|old| !old.is_file() && !old.is_dir()) {
        let mut device = File::create(&target).with_context(failed)?;
        return write(&mut device).with_context(failed);
    }
    let folder =
        target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.exists() {
        bail!("cannot write {}: there is no folder {}", path.display(), folder.display());
    }
    let mut aside = aside(old.is_none()).tempfile_in(folder).map_err(bare).with_context(failed)?;
    write(&mut aside).with_context(failed)?;
    aside.as_file().sync_all().map_err(bare).with_context(failed)?;
    if let Some(old) = old {
        // A file that keeps its contents but not its mode is no reason to fail.
        let _ = aside.as_file().set_permissions(old.permissions());
    }
    aside.persist(&target).map_err(|error| bare(error.error)).with_context(failed)?;
    Ok(())
}

/// Keeps a copy of a file beside it, under a name that is free, and returns that.
pub(crate) fn keep_copy(path: &Path) -> Result<PathBuf> {
    let mut number = 1;
    loop {
        let mut name = path.as_os_str().to_owned();
        name.push(if number == 1 { ".orig".to_owned() } else { format!(".orig{number}") });
        let copy = PathBuf::from(name);
        match create_private(&copy, path) {
            Ok(mut file) => {
                File::open(path)
                    .and_then(|mut original| std::io::copy(&mut original, &mut file))
                    .and_then(|_| file.sync_all())
                    .with_context(|| format!("cannot keep a copy in {}", copy.display()))?;
                return Ok(copy);
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
            Err(error) => {
                return Err(error)
                    .with_context(|| format!("cannot keep a copy in {}", copy.display()));
            }
        }
    }
}

/// Creates a file that nobody reads who may not read the original: it may have keys in it.
fn create_private(copy: &Path, original: &Path) -> std::io::Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
        options.mode(std::fs::metadata(original)?.permissions().mode() & 0o777);
    }
    #[cfg(not(unix))]
    let _ = original;
    options.open(copy)
}

/// A temporary file with the mode that any new file would have; what replaces a file is private until it has its mode.
fn aside(is_new: bool) -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".longhand-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = if is_new { 0o666 } else { 0o600 };
        builder.permissions(std::fs::Permissions::from_mode(mode));
    }
    #[cfg(not(unix))]
    let _ = is_new;
    builder
}

/// Writes a report for people to standard output, cleaned.
pub(crate) fn print(text: &str) -> Result<()> {
    print_styled(&clean::text(text))
}

/// Writes a report for people, cleaned: on a terminal, lines are broken between words.
pub(crate) fn print_wrapped(text: &str) -> Result<()> {
    if !std::io::stdout().is_terminal() {
        return print(text);
    }
    let lines: Vec<String> = clean::text(text).lines().map(|line| wrapped(line, "")).collect();
    print(&lines.join("\n"))
}

/// Writes a report for people that has sequences for the terminal; what others wrote in it is clean already.
pub(crate) fn print_styled(text: &str) -> Result<()> {
    let end = if text.ends_with('\n') { "" } else { "\n" };
    write_out(&format!("{text}{end}"))
}

/// Writes JSON for programs, and for people who look at it: it means the same, and cannot control a terminal.
pub(crate) fn print_json(report: &(impl Serialize + ?Sized)) -> Result<()> {
    print_styled(&clean::json(&serde_json::to_string_pretty(report)?))
}

/// Writes one line of JSON.
pub(crate) fn print_json_line(report: &impl Serialize) -> Result<()> {
    print_styled(&clean::json(&serde_json::to_string(report)?))
}

/// Writes what was asked for to standard output: to a file or a pipe exactly these bytes, to a terminal cleaned
/// and with a line end.
pub(crate) fn print_data(text: &str) -> Result<()> {
    if std::io::stdout().is_terminal() { print(text) } else { write_out(text) }
}

/// Like [`print_data`], for text that is written piece by piece.
pub(crate) fn print_data_with(write: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    if std::io::stdout().is_terminal() {
        let mut bytes = Vec::new();
        write(&mut bytes)?;
        return print(&String::from_utf8_lossy(&bytes));
    }
    progress::clear();
    write(&mut std::io::stdout().lock())
}

fn write_out(text: &str) -> Result<()> {
    progress::clear();
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .context("cannot write to standard output")
}

/// Prints to standard error, cleaned. If that fails, the command goes on.
///
/// On a terminal, lines are broken between words.
pub(crate) fn say(text: &str) {
    say_styled(&clean::text(text));
}

/// Prints our own text with terminal sequences to standard error; it must not quote anybody.
pub(crate) fn say_styled(text: &str) {
    progress::clear();
    if std::io::stderr().is_terminal() {
        let lines: Vec<String> = text.lines().map(|line| wrapped(line, "")).collect();
        let _ = writeln!(std::io::stderr().lock(), "{}", lines.join("\n"));
        return;
    }
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// The columns of a file or a pipe, which have room for long lines.
const COLUMNS_DEFAULT: usize = 1_000;

/// How many columns there are to write in.
pub(crate) fn columns() -> usize {
    columns_known().unwrap_or(COLUMNS_DEFAULT)
}

/// How many columns the terminal has, or `COLUMNS` says.
pub(crate) fn columns_known() -> Option<usize> {
    let set = || std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let columns = terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    columns.or_else(set).filter(|columns| *columns > 0)
}

/// Breaks a line between words so that it fits the columns. Every line begins with `indent`, and those after the
/// first with the white space that the first begins with, too.
pub(crate) fn wrapped(line: &str, indent: &str) -> String {
    let columns = columns();
    let own_indent = &line[..line.len() - line.trim_start().len()];
    if line.contains('\u{1b}') || indent.len() + line.chars().count() <= columns {
        return format!("{indent}{line}");
    }
    let mut out = format!("{indent}{own_indent}");
    let mut used = out.chars().count();
    let begin = used;
    let room = columns.saturating_sub(begin).max(columns / 2).max(1);
    let mut gap = 0;
    for word in line.trim().split(' ') {
        for piece in pieces(word, room) {
            let length = piece.chars().count();
            if used > begin && used + gap + length > columns {
                out.push_str(&format!("\n{indent}{own_indent}"));
                (used, gap) = (begin, 0);
            }
            out.push_str(&" ".repeat(gap));
            out.push_str(piece);
            used += gap + length;
            gap = 0;
        }
        gap += 1;
    }
    out
}

/// A word in pieces of at most `chars_max` characters. A link stays whole: in pieces it cannot be opened.
fn pieces(word: &str, chars_max: usize) -> impl Iterator<Item = &str> {
    let chars_max = if word.contains("://") { usize::MAX } else { chars_max };
    let mut rest = word;
    std::iter::from_fn(move || {
        let end = rest.char_indices().nth(chars_max).map_or(rest.len(), |(end, _)| end);
        let (piece, after) = rest.split_at(end);
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Cuts a line to the columns of the terminal.
pub(crate) fn cut(line: &str) -> String {
    let columns = if std::io::stdout().is_terminal() { columns() } else { usize::MAX };
    if line.chars().count() <= columns {
        return line.to_owned();
    }
    line.chars().take(columns.saturating_sub(1)).chain(['…']).collect()
}

/// A number in few characters: `980`, `12k`, `1.2m`.
pub(crate) fn short_number(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        1_000..10_000 => format!("{:.1}k", number as f64 / 1e3),
        10_000..1_000_000 => format!("{}k", number / 1_000),
        1_000_000..10_000_000 => format!("{:.1}m", number as f64 / 1e6),
        _ => format!("{}m", number / 1_000_000),
    }
}

/// A number with its noun.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    counted_as(count, noun, &format!("{noun}s"))
}

/// A number with a noun whose plural is irregular.
pub(crate) fn counted_as(count: usize, one: &str, many: &str) -> String {
    format!("{} {}", grouped(count), if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let numbers = [0, 999, 1_000, 9_940, 31_999, 999_999, 1_240_000, 45_000_000];
        let shown = numbers.map(short_number).join(" ");
        assert_eq!(shown, "0 999 1.0k 9.9k 31k 999k 1.2m 45m");
    }
}
