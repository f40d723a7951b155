//! The screen of `top`, for any width.

use longhand::app::{CacheBreak, ContextMap, ListedSession, MapKind, RequestLine, UsageRow};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row, Table, TableState, Wrap};

use super::Top;
use super::ask::ChosenSession;
use crate::output::{harmless_line, short_number};

/// From so many columns on, the session is beside the list.
const WIDE: u16 = 110;

/// The rows that the map of a window takes, with its border and legend.
const MAP_ROWS: u16 = 8;

/// Names of sessions are cut after this many characters, before the terminal cuts them.
const NAME_CHARS: usize = 300;

pub(super) fn screen(frame: &mut Frame, top: &Top) {
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)])
            .areas(frame.area());
    frame.render_widget(Paragraph::new(summary(top, head.width)), head);
    frame.render_widget(Paragraph::new(footer(top, foot.width)), foot);
    let Some(session) = &top.snapshot.session else {
        let text = if top.snapshot.is_there {
            "No sessions yet.\n\n`longhand run -- claude` starts an agent behind Longhand, and `longhand demo` plays a \
             session to you."
        } else {
            "Opening the archive …"
        };
        frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), body);
        return;
    };
    let [list, session_area] = match (top.is_alone, body.width >= WIDE) {
        (true, _) => [Rect::ZERO, body],
        (_, true) => {
            Layout::horizontal([Constraint::Percentage(50), Constraint::Percentage(50)]).areas(body)
        }
        _ => Layout::vertical([Constraint::Percentage(40), Constraint::Percentage(60)]).areas(body),
    };
    if !top.is_alone {
        sessions(frame, list, top);
    }
    let [map, requests] = Layout::vertical([
        Constraint::Length(MAP_ROWS.min(session_area.height)),
        Constraint::Min(0),
    ])
    .areas(session_area);
    window(frame, map, top, session);
    request_list(frame, requests, session);
}

fn bold(text: impl Into<String>) -> Span<'static> {
    Span::styled(text.into(), Style::new().add_modifier(Modifier::BOLD))
}

fn dim(text: impl Into<String>) -> Span<'static> {
    Span::styled(text.into(), Style::new().fg(Color::DarkGray))
}

fn percent(part: u64, all: u64) -> String {
    let percent = part.saturating_mul(100).checked_div(all);
    percent.map_or_else(|| "–".to_owned(), |percent| format!("{percent}%"))
}

fn summary(top: &Top, columns: u16) -> Line<'static> {
    let mut spans = vec![bold("longhand")];
    let count = top.snapshot.sessions.len();
    let more = if top.snapshot.has_more { "+" } else { "" };
    spans.push(Span::raw(format!("  {count}{more} sessions")));
    if let Some(total) = &top.snapshot.total {
        spans.extend(saved(total, columns));
    }
    Line::from(spans)
}

/// One number with its denominator; what there is room for beside it.
fn saved(total: &UsageRow, columns: u16) -> Vec<Span<'static>> {
    let all = total.sent + total.saved;
    let mut spans = vec![
        Span::raw("  not sent "),
        Span::styled(
            short_number(total.saved),
            Style::new().fg(Color::Green).add_modifier(Modifier::BOLD),
        ),
        Span::raw(format!(" ({})", percent(total.saved, all))),
    ];
    if columns >= 80 {
        let cached = if total.cached_reported {
            percent(total.cached, total.sent)
        } else {
            "not reported".to_owned()
        };
        spans.push(Span::raw(format!("  of {}  cached {cached}", short_number(all))));
        spans.push(Span::raw(format!("  cost ${:.2}", total.cost)));
    }
    if columns >= 110 {
        spans.push(Span::raw(format!(" of ${:.2}", total.cost_without)));
        spans.push(Span::raw(format!("  {} requests", short_number(total.requests))));
    }
    if total.fail_opens > 0 {
        spans.push(Span::styled(
            format!("  {} fail-opens", total.fail_opens),
            Style::new().fg(Color::Yellow),
        ));
    }
    spans
}

fn footer(top: &Top, columns: u16) -> Line<'static> {
    if let Some(trouble) = &top.trouble {
        return Line::styled(harmless_line(trouble), Style::new().fg(Color::Red));
    }
    let keys = if columns >= 60 {
        "↑↓ choose  Enter shows it alone  q ends"
    } else {
        "↑↓ choose  Enter  q ends"
    };
    Line::from(dim(keys))
}

fn framed(title: String) -> Block<'static> {
    Block::new()
        .borders(Borders::TOP)
        .border_style(Style::new().fg(Color::DarkGray))
        .title(bold(title))
}

fn sessions(frame: &mut Frame, area: Rect, top: &Top) {
    let is_wide = area.width >= 70;
    let rows = top.snapshot.sessions.iter().map(|session| session_row(session, is_wide));
    let mut widths = vec![Constraint::Min(12), Constraint::Length(7), Constraint::Length(7)];
    let mut names = vec!["session", "window", "saved"];
    if is_wide {
        widths.extend([Constraint::Length(7), Constraint::Length(14)]);
        names.extend(["rounds", "agent"]);
    }
    let heading =
        Row::new(names.into_iter().map(Cell::new)).style(Style::new().fg(Color::DarkGray));
    let table = Table::new(rows, widths)
        .header(heading)
        .block(framed(" Sessions ".to_owned()))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut state = TableState::new().with_selected(Some(top.place()));
    frame.render_stateful_widget(table, area, &mut state);
}

fn session_row(session: &ListedSession, is_wide: bool) -> Row<'static> {
    let number = |count: u64| if count == 0 { "–".to_owned() } else { short_number(count) };
    let mut cells = vec![
        Cell::new(name(session)),
        Cell::new(Line::from(number(session.tokens)).right_aligned()),
        Cell::new(Line::from(number(session.saved)).right_aligned())
            .style(Style::new().fg(Color::Green)),
    ];
    if is_wide {
        cells.push(Cell::new(Line::from(short_number(session.rounds)).right_aligned()));
        cells.push(Cell::new(harmless_line(&session.agent)));
    }
    Row::new(cells)
}

fn name(session: &ListedSession) -> String {
    let text = if session.task.is_empty() { &session.name } else { &session.task };
    harmless_line(&text.chars().take(NAME_CHARS).collect::<String>())
}

/// The colour of a part, and the letter that stands for it where there is no colour.
fn look(kind: MapKind) -> (Color, char) {
    match kind {
        MapKind::System => (Color::Gray, 'S'),
        MapKind::Tools => (Color::DarkGray, 'T'),
        MapKind::Mcp => (Color::Cyan, 'M'),
        MapKind::Fold => (Color::Magenta, 'f'),
        MapKind::Recalled => (Color::LightCyan, 'r'),
        MapKind::Stubbed => (Color::Yellow, 's'),
        MapKind::Clipped => (Color::LightRed, 'c'),
        MapKind::Verbatim => (Color::Blue, 'V'),
    }
}

fn window(frame: &mut Frame, area: Rect, top: &Top, session: &ChosenSession) {
    let map = &session.map;
    let listed = top.snapshot.sessions.iter().find(|listed| listed.id == session.id);
    let title = listed.map(name).unwrap_or_default();
    let size = if map.budget > 0 {
        format!(
            "{} of {} tokens, {} free",
            short_number(map.tokens),
            short_number(map.budget),
            short_number(map.free)
        )
    } else {
        format!("{} tokens", short_number(map.tokens))
    };
    let mut lines = vec![Line::from(size), bar(map, area.width as usize)];
    lines.push(legend(map));
    if let Some(newest) = session.requests.first().filter(|newest| newest.before > newest.window) {
        let left_out = newest.before - newest.window;
        let of = percent(left_out, newest.before);
        lines.push(Line::from(format!(
            "left out of the newest request: {} ({of})",
            short_number(left_out)
        )));
    }
    let text = Paragraph::new(lines).wrap(Wrap { trim: true }).block(framed(format!(" {title} ")));
    frame.render_widget(text, area);
}

/// The window as one line: each part as long as it is large.
fn bar(map: &ContextMap, columns: usize) -> Line<'static> {
    let all = map.budget.max(map.tokens).max(1);
    let mut spans = Vec::new();
    let (mut seen, mut drawn) = (0, 0);
    for part in &map.parts {
        seen += part.tokens;
        let until = (seen as usize * columns) / all as usize;
        let (colour, letter) = look(part.kind);
        let cells = letter.to_string().repeat(until.saturating_sub(drawn));
        spans.push(Span::styled(cells, Style::new().fg(Color::Black).bg(colour)));
        drawn = drawn.max(until);
    }
    spans.push(dim("·".repeat(columns.saturating_sub(drawn))));
    Line::from(spans)
}

fn legend(map: &ContextMap) -> Line<'static> {
    let all = map.budget.max(map.tokens);
    let mut spans = Vec::new();
    for part in map.parts.iter().filter(|part| part.tokens > 0) {
        let (colour, letter) = look(part.kind);
        spans.push(Span::styled(letter.to_string(), Style::new().fg(Color::Black).bg(colour)));
        let name = harmless_line(&part.name);
        spans.push(Span::raw(format!(
            " {name} {} {}  ",
            short_number(part.tokens),
            percent(part.tokens, all)
        )));
    }
    Line::from(spans)
}

fn request_list(frame: &mut Frame, area: Rect, session: &ChosenSession) {
    let is_wide = area.width >= 70;
    let rows = session.requests.iter().map(|request| request_row(request, is_wide));
    let mut widths = vec![
        Constraint::Length(7),
        Constraint::Length(7),
        Constraint::Length(8),
        Constraint::Length(7),
    ];
    let mut names = vec!["request", "sent", "left out", "cached"];
    if is_wide {
        widths.extend([Constraint::Length(8), Constraint::Length(9)]);
        names.extend(["cost", "at"]);
    }
    widths.push(Constraint::Min(8));
    names.push("");
    let heading =
        Row::new(names.into_iter().map(Cell::new)).style(Style::new().fg(Color::DarkGray));
    frame.render_widget(
        Table::new(rows, widths).header(heading).block(framed(" Requests ".to_owned())),
        area,
    );
}

fn request_row(request: &RequestLine, is_wide: bool) -> Row<'static> {
    let left_out = request.before.saturating_sub(request.window);
    let right = |text: String| Cell::new(Line::from(text).right_aligned());
    let mut cells = vec![
        right(request.number.to_string()),
        right(short_number(request.window)),
        right(if left_out == 0 { "–".to_owned() } else { short_number(left_out) })
            .style(Style::new().fg(Color::Green)),
        right(
            request.cached.map_or_else(|| "?".to_owned(), |cached| percent(cached, request.sent)),
        ),
    ];
    if is_wide {
        cells
            .push(right(request.cost.map_or_else(|| "?".to_owned(), |cost| format!("${cost:.4}"))));
        let at = longhand::time::format(request.at.0);
        cells.push(Cell::new(at.get(11..19).unwrap_or_default().to_owned()));
    }
    let (note, colour) = match request.cache_break {
        _ if request.bypassed => ("fail-open", Color::Red),
        _ if request.cut => ("broke off", Color::Yellow),
        Some(CacheBreak::Batch) => ("new batch", Color::Magenta),
        Some(CacheBreak::Client) => ("client broke the cache", Color::Yellow),
        Some(CacheBreak::Expired) => ("cache expired", Color::Yellow),
        None if request.aside => ("side call", Color::DarkGray),
        None => ("", Color::Reset),
    };
    cells.push(Cell::new(note).style(Style::new().fg(colour)));
    Row::new(cells)
}
