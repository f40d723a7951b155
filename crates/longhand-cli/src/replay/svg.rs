//! The prompt size of every request as an SVG, one chart below the other.

use std::fmt::Write;

use longhand::replay::ReplayRun;
use longhand_core::Tokens;

use super::table::short;
use super::{Contender, ReplayedTrace};
use crate::output::counted;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 240.0;
/// The room around a chart: for its title and for its scale.
const TOP: f64 = 34.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 14.0;
const BOTTOM: f64 = 30.0;

/// Colours of the policies, which people with any colour vision can tell apart.
const COLOURS: [&str; 4] = ["#0072b2", "#999999", "#d55e00", "#009e73"];

/// Draws a chart for every conversation.
pub(super) fn draw(traces: &[ReplayedTrace], contenders: &[Contender]) -> String {
    let height = HEIGHT * traces.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    for (at, replayed) in traces.iter().enumerate() {
        let _ = writeln!(svg, "<g transform=\"translate(0 {})\">", HEIGHT * at as f64);
        chart(&mut svg, replayed, contenders);
        svg.push_str("</g>\n");
    }
    svg.push_str("</svg>\n");
    svg
}

fn chart(svg: &mut String, replayed: &ReplayedTrace, contenders: &[Contender]) {
    let Some(first) = replayed.runs.first() else { return };
    let whole = first.requests.iter().map(|sent| sent.whole).max().unwrap_or_default();
    let tokens = replayed.runs.iter().flat_map(|run| &run.requests).map(|sent| sent.tokens).max();
    let top = whole.max(first.budget).max(tokens.unwrap_or_default());
    let (wide, high) = (WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
    let last = first.requests.len().saturating_sub(1).max(1) as f64;
    let x = |request: usize| LEFT + wide * request as f64 / last;
    let y = |tokens: Tokens| TOP + high * (1.0 - tokens.0 as f64 / top.0.max(1) as f64);
    let line = |values: &mut dyn Iterator<Item = Tokens>| -> String {
        let points =
            values.enumerate().map(|(at, tokens)| format!("{:.1},{:.1}", x(at), y(tokens)));
        points.collect::<Vec<_>>().join(" ")
    };
    let _ = writeln!(
        svg,
        "<text x=\"{LEFT}\" y=\"14\" font-weight=\"bold\">{}</text>",
        escaped(&replayed.name)
    );
    legend(svg, contenders);
    for tokens in [Tokens::ZERO, first.budget, top] {
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 6.0,
            y(tokens) + 4.0,
            short(tokens)
        );
    }
    let without = line(&mut first.requests.iter().map(|sent| sent.whole));
    let _ = writeln!(
        svg,
        "<polyline points=\"{without}\" fill=\"none\" stroke=\"#bbb\" stroke-dasharray=\"2 3\"/>"
    );
    let budget = y(first.budget);
    let _ = writeln!(
        svg,
        "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{budget:.1}\" y2=\"{budget:.1}\" stroke=\"#c00\" stroke-dasharray=\"6 3\"/>",
        WIDTH - RIGHT
    );
    for (run, colour) in replayed.runs.iter().zip(COLOURS).rev() {
        let points = line(&mut run.requests.iter().map(|sent| sent.tokens));
        let _ = writeln!(
            svg,
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.3\"/>"
        );
    }
    marks(svg, first, x);
    let requests = counted(first.requests.len(), "request");
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{requests}; ▲ batch, × cache break</text>",
        WIDTH - RIGHT,
        HEIGHT - 6.0
    );
}

/// Names the policies and the lines.
fn legend(svg: &mut String, contenders: &[Contender]) {
    let mut at = LEFT;
    let names = contenders.iter().zip(COLOURS).map(|(by, colour)| (by.name, colour));
    for (name, colour) in names.chain([("without", "#bbb"), ("budget", "#c00")]) {
        let _ = writeln!(svg, "<text x=\"{at}\" y=\"28\" fill=\"{colour}\">{name}</text>");
        at += 12.0 + 6.5 * name.len() as f64;
    }
}

/// Batches and breaks of the first policy, below the chart.
fn marks(svg: &mut String, run: &ReplayRun, x: impl Fn(usize) -> f64) {
    for (at, sent) in run.requests.iter().enumerate() {
        let (sign, is_there) = if sent.is_break { ("×", true) } else { ("▲", sent.is_batch) };
        if is_there {
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\" font-size=\"9\">{sign}</text>",
                x(at),
                HEIGHT - BOTTOM + 10.0
            );
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
