//! What there is to summarise.

/// The rounds that a fold takes away, and the summary of all before them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Input<'t> {
    /// The summary that the new one replaces, its block of facts included.
    pub earlier: Option<&'t str>,
    /// The rounds to fold, oldest first.
    pub rounds: &'t [SummaryRound<'t>],
}

/// A user message and all that was done until control returned to the user.
#[derive(Clone, Debug, Default)]
pub struct SummaryRound<'t> {
    /// Its place in the session, counted from one.
    pub number: u64,
    /// What the user said.
    pub user: &'t str,
    /// What the model answered.
    pub assistant: &'t str,
    /// The tools it called in the round, in order.
    pub tools: Vec<ToolTrace<'t>>,
}

/// One use of a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToolTrace<'t> {
    /// The tool.
    pub name: &'t str,
    /// The call and its result in short.
    pub summary: &'t str,
}
