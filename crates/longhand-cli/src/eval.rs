//! `longhand eval`.

use anyhow::{Context, Result};
use longhand::Tokens;
use longhand::eval::{QuestionFile, RecallEval, recall};
use longhand_meter::{ImageRule, MeterSpec};

use crate::args::{EvalArgs, EvalCommand, EvalRecallArgs};
use crate::output::counted;
use crate::{CommandOutcome, embeddings, output, progress};

pub(crate) fn run(args: &EvalArgs) -> Result<CommandOutcome> {
    match &args.command {
        EvalCommand::Recall(args) => of_recall(args),
    }
}

fn of_recall(args: &EvalRecallArgs) -> Result<CommandOutcome> {
    let name = args.file.display();
    let text =
        std::fs::read_to_string(&args.file).with_context(|| format!("{name} cannot be read"))?;
    let file: QuestionFile = serde_json::from_str(&text)
        .with_context(|| format!("{name} has no conversations with questions"))?;
    let meter = args.meter.meter.clone().unwrap_or(MeterSpec::O200k);
    let meter = meter.open(ImageRule::OpenAiDearer)?;
    let mut asked = |done: usize, all: usize| {
        progress::rename(&format!("asking question {done} of {all}"));
    };
    let embedder = args.embeddings.as_deref().map(embeddings::of_folder).transpose()?;
    let figures = recall(&file, &*meter, Tokens(args.budget), embedder, &mut asked)?;
    if args.json {
        output::print_json(&figures)?;
    } else {
        output::print(&written(&figures))?;
    }
    Ok(CommandOutcome::Done)
}

fn written(figures: &RecallEval) -> String {
    let mut text = format!(
        "{}: all evidence came back for {:.1}%, some for {:.1}%, {:.1}% of it on average\n",
        counted(figures.questions as usize, "question"),
        figures.evidence_all,
        figures.evidence_any,
        figures.evidence_share
    );
    for (category, all) in &figures.by_category {
        text.push_str(&format!("  {:<16} {all:>5.1}%\n", output::harmless_line(category)));
    }
    text.push_str(&format!("{:.0} tokens on average\n", figures.tokens_mean));
    text
}
