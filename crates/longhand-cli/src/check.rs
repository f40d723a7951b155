//! `longhand check`.

use anyhow::Result;
use serde_json::json;

use crate::args::CheckArgs;
use crate::output::counted;
use crate::{CommandOutcome, input, output};

pub(crate) fn run(args: &CheckArgs) -> Result<CommandOutcome> {
    let conversation = input::read(&args.input)?;
    input::check_read(&conversation, &input::name(&args.input))?;
    let findings = conversation.check();
    let valid = !findings.iter().any(|finding| finding.grave);
    if args.json {
        let listed: Vec<_> = findings
            .iter()
            .map(|finding| {
                let severity = if finding.grave { "violation" } else { "warning" };
                json!({"severity": severity, "at": finding.at, "what": finding.what})
            })
            .collect();
        let report = json!({
            "dialect": conversation.dialect.as_str(),
            "messages": conversation.messages.len(),
            "valid": valid,
            "findings": listed,
        });
        output::print_json(&report)?;
    } else if !args.quiet {
        let mut text = String::new();
        for finding in &findings {
            let severity = if finding.grave { "violation" } else { "warning" };
            text.push_str(&format!(
                "{severity}: {}\n",
                output::harmless_line(&finding.to_string())
            ));
        }
        let verdict = if valid { "valid" } else { "not valid" };
        let count = counted(conversation.messages.len(), "message");
        text.push_str(&format!("{verdict}: {count} ({})\n", conversation.dialect));
        output::print(&text)?;
    }
    Ok(if valid { CommandOutcome::Done } else { CommandOutcome::No })
}
