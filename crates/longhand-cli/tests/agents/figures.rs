//! What is measured of an agent.

use serde_json::Value;

use crate::model::{ActingStyle, SeenRequests};
use crate::task::{LOGS, lines, newest_tasks, reread_line, telling};
use crate::workspace::Workspace;

/// What was measured of an agent.
#[derive(Debug)]
pub(crate) struct AgentFigures {
    pub(crate) agent: &'static str,
    pub(crate) budget: u64,
    /// The most tokens that a request had without Longhand.
    pub(crate) reached: u64,
    pub(crate) requests: usize,
    /// Conversations, and side calls and sub-agents below them.
    pub(crate) conversations: usize,
    pub(crate) aside: usize,
    pub(crate) invalid: usize,
    pub(crate) over: usize,
    pub(crate) errors: usize,
    pub(crate) batches: u64,
    pub(crate) breaks: usize,
    pub(crate) own_breaks: usize,
    pub(crate) cached: f64,
    pub(crate) own_cached: f64,
    /// Bytes of a request that were not cached, on average.
    pub(crate) read_anew: usize,
    pub(crate) own_read_anew: usize,
    /// The share of telling lines that the last window has.
    pub(crate) told: f64,
    /// Whether the newest task list is whole in the last window; `None` if the agent has none.
    pub(crate) has_tasks: Option<bool>,
    /// Whether the file that was read again is in the last window.
    pub(crate) has_file: bool,
    /// Lines of the script that `search` does not find.
    pub(crate) lost: Vec<String>,
    pub(crate) is_sound: bool,
}

impl AgentFigures {
    pub(crate) fn of(
        (agent, style): (&'static str, ActingStyle),
        budget: u64,
        workspace: &Workspace,
        (alone, seen): (&SeenRequests, &SeenRequests),
        errors: usize,
    ) -> Self {
        let listed: Value =
            serde_json::from_str(&workspace.longhand(&["ls", "--all", "--json"]).1).unwrap();
        let listed = listed.as_array().cloned().unwrap_or_default();
        // An agent that cannot resume plays all as one part, whose words are the last ones.
        let is_said = |line: &String| seen.ended > 1 || line != "QX-9013";
        let lost = lines().into_iter().filter(is_said).filter(|line| {
            let query = format!("\"{line}\"");
            !workspace.longhand(&["search", &query, "--limit", "1"]).0
        });
        let has = |text: &str| seen.last.contains(text);
        // aider forgets outputs when it restores its history; nobody else can have them then.
        let known: Vec<usize> =
            (0..=LOGS).filter(|log| alone.last.contains(&telling(*log))).collect();
        let told = known.iter().filter(|log| has(&telling(**log))).count();
        let has_list = style == ActingStyle::Tools
            && !seen.skipped.iter().any(|skipped| skipped.starts_with("Tasks"));
        Self {
            agent,
            budget,
            reached: alone.most,
            requests: seen.main + seen.sub + seen.side,
            conversations: listed.len(),
            aside: listed
                .iter()
                .map(|session| session["aside"].as_array().map_or(0, Vec::len))
                .sum(),
            invalid: seen.invalid.len(),
            over: seen.over.len(),
            errors,
            batches: listed.iter().filter_map(|session| session["batches"].as_u64()).sum(),
            breaks: seen.breaks,
            own_breaks: alone.breaks,
            cached: share(seen),
            own_cached: share(alone),
            read_anew: read_anew(seen),
            own_read_anew: read_anew(alone),
            told: told as f64 / known.len().max(1) as f64,
            has_tasks: has_list.then(|| newest_tasks().iter().all(|task| has(task))),
            has_file: has(&reread_line()),
            lost: lost.collect(),
            is_sound: workspace.longhand(&["verify"]).0,
        }
    }

    /// A row for the table in docs/RELIABILITY.md.
    pub(crate) fn row(&self) -> String {
        let percent = |share: f64| format!("{:.0}%", share * 100.0);
        let yes = |is: bool| if is { "yes" } else { "no" };
        format!(
            "| {} | {} of {} | {} | {} + {} | {} / {} / {} | {} ({} of its own) / {} | {} / {} | {} | {} | {} | {} |",
            self.agent,
            self.budget,
            self.reached,
            self.requests,
            self.conversations,
            self.aside,
            self.invalid,
            self.over,
            self.errors,
            self.breaks,
            self.own_breaks,
            self.batches,
            percent(self.cached),
            percent(self.own_cached),
            percent(self.told),
            self.has_tasks.map_or("none", yes),
            yes(self.has_file),
            self.lost.len(),
        )
    }
}

fn share(seen: &SeenRequests) -> f64 {
    seen.cached as f64 / seen.bytes.max(1) as f64
}

fn read_anew(seen: &SeenRequests) -> usize {
    (seen.bytes - seen.cached) / seen.main.max(1)
}
