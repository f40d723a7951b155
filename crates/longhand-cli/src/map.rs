//! A picture of a window: which part of it is what.

use std::fmt::Write;

use longhand::app::WindowMap;
use longhand_core::{Budget, Part, Role, Scale, Tokens, grouped, is_fold};
use longhand_dialect::Conversation;

use crate::output::{self, counted};
use crate::weigh::{self, NamedMeter};

/// The most cells of the bar.
const WIDTH_MAX: usize = 64;

/// The most cells of a session's bar.
const SESSION_WIDTH_MAX: usize = 48;

/// The columns around a bar: two spaces and two brackets.
const AROUND: usize = 4;

/// Kinds of content, in the order of the legend: name, letter for a bar without colour, colour.
const KINDS: [(&str, char, u8); 8] = [
    ("system", 'S', 35),
    ("tools", 'T', 95),
    ("folded", 'f', 90),
    ("stubbed", 's', 33),
    ("clipped", 'c', 93),
    ("user", 'U', 32),
    ("assistant", 'A', 34),
    ("results", 'R', 36),
];

/// Draws the window as a bar from its first token to its last, with a legend.
pub(crate) fn draw(
    window: &Conversation,
    meter: &NamedMeter,
    budget: Budget,
    colour: bool,
) -> String {
    let scale = Scale::new(&*meter.meter);
    let mut runs = vec![(1, weigh::attributes(window, &scale))];
    for message in &window.messages {
        let around = scale.tokens(scale.around(message));
        for (index, part) in message.parts.iter().enumerate() {
            let tokens = scale.tokens(scale.part(part, u64::MAX));
            let kind = if is_fold(message) { 2 } else { kind_of(part, message.role) };
            runs.push((kind, tokens + if index == 0 { around } else { Tokens::ZERO }));
        }
    }
    let mut sums = [Tokens::ZERO; KINDS.len()];
    for (kind, tokens) in &runs {
        sums[*kind] += *tokens;
    }
    let total: Tokens = sums.iter().copied().sum();
    let bar_tokens = total.max(budget.limit);

    let width = output::columns().saturating_sub(AROUND).clamp(8, WIDTH_MAX);
    let mut bar = String::new();
    let mut seen = Tokens::ZERO;
    let mut cells = 0;
    for (kind, tokens) in runs {
        seen += tokens;
        let upto = (seen.0 as usize * width).checked_div(bar_tokens.0 as usize).unwrap_or(0);
        push(&mut bar, kind, upto.saturating_sub(cells), colour);
        cells = cells.max(upto);
    }
    let free = width.saturating_sub(cells);
    let mut out = format!("\n  [{bar}{}]\n", "·".repeat(free));
    for (kind, (name, letter, code)) in
        KINDS.iter().enumerate().filter(|(kind, _)| sums[*kind] > Tokens::ZERO)
    {
        let mark = if colour { format!("\u{1b}[{code}m█\u{1b}[0m") } else { letter.to_string() };
        let percent = sums[kind].0 * 100 / bar_tokens.0.max(1);
        let _ = writeln!(
            out,
            "  {mark} {name:<10} {:>9} tokens {percent:>3}%",
            meter.figure(sums[kind])
        );
    }
    let left = budget.limit.saturating_sub(total);
    let _ = writeln!(
        out,
        "  · {:<10} {:>9} tokens {:>3}%",
        "free",
        meter.figure(left),
        left.0 * 100 / bar_tokens.0.max(1)
    );
    out
}

fn push(bar: &mut String, kind: usize, cells: usize, colour: bool) {
    let (_, letter, code) = KINDS[kind];
    if cells > 0 && colour {
        let _ = write!(bar, "\u{1b}[{code}m{}\u{1b}[0m", "█".repeat(cells));
    } else {
        bar.extend(std::iter::repeat_n(letter, cells));
    }
}

fn kind_of(part: &Part, role: Role) -> usize {
    let raw = match part {
        Part::Text(text) => text.raw(),
        Part::Call(call) => call.arguments.raw(),
        Part::Result(result) => result.single_text().map_or("", |text| text.raw()),
        _ => "",
    };
    if raw.starts_with("[longhand fold ") {
        return 2;
    }
    if raw.starts_with("[longhand stub ")
        || (matches!(part, Part::Call(_)) && raw.contains("[longhand stub "))
    {
        return 3;
    }
    if raw.contains("[longhand clip ") {
        return 4;
    }
    match (part, role) {
        (_, Role::System) => 0,
        (Part::Result(_), _) | (_, Role::Tool) => 7,
        (_, Role::User) => 5,
        (_, Role::Assistant) => 6,
    }
}

/// Draws what is sent for a session: system prompt and tools if their size is known, what is folded, what is verbatim,
/// and what is free.
pub(crate) fn of_session(map: &WindowMap) -> String {
    let width = output::columns().saturating_sub(AROUND).clamp(8, SESSION_WIDTH_MAX);
    let cells = |tokens: u64| {
        (tokens * width as u64).div_ceil(map.budget.max(1)).min(width as u64) as usize
    };
    let fixed = cells(map.system.unwrap_or(0));
    let folded = cells(map.folded).min(width - fixed);
    let shown = cells(map.verbatim).min(width - fixed - folded);
    let free = width - fixed - folded - shown;
    let tokens = |tokens: u64| grouped(tokens as usize);
    let prompt_line = match map.system {
        Some(prompt) => format!("S system   {:>9} tokens, prompt and tools", tokens(prompt)),
        None => {
            "S system   not known: no request with a system prompt or tools is archived".to_owned()
        }
    };
    let free_line = if map.over > 0 {
        let over = tokens(map.over);
        format!("· over     {over:>9} tokens; the next window leaves out what does not fit")
    } else {
        format!("· free     {:>9} tokens", tokens(map.free))
    };
    format!(
        "[{}{}{}{}]\n{prompt_line}\nf folded   {:>9} tokens, {}\nV verbatim {:>9} tokens, {}\n{free_line}",
        "S".repeat(fixed),
        "f".repeat(folded),
        "V".repeat(shown),
        "·".repeat(free),
        tokens(map.folded),
        counted(map.folded_rounds as usize, "round"),
        tokens(map.verbatim),
        counted(map.verbatim_rounds as usize, "round"),
    )
}
