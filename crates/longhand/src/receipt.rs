//! What is noted of a batch: why it was made, what it saves, and who wrote the text of its fold.

use longhand_core::{
    Batch, Budget, Edit, EditKind, Path, Plan, Seq, Tally, Tokens, folded_messages, reasons,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The receipt of a batch.
///
/// Every surface writes the same keys. Receipts of earlier versions lack some, and a few had other names; all of them
/// can be read ([`Receipt::read`]).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Receipt {
    /// What the batch was made for.
    pub why: Option<ReceiptCause>,
    /// When it was made, as `2026-11-15T19:29:00.000Z`.
    pub at: Option<String>,
    /// The policy that chose its edits.
    pub policy: Option<String>,
    /// The tokens that the window may have.
    pub budget: Option<u64>,
    /// The tokens of the window without the batch; estimated where they are many times the budget.
    pub tokens_before: Option<u64>,
    /// The tokens of the window with it.
    pub tokens_after: Option<u64>,
    /// The fewest tokens that the policy could reach.
    pub floor: Option<u64>,
    /// How many tokens the window is over its room.
    pub shortfall: Option<u64>,
    /// How many parts became stubs.
    #[serde(alias = "stubbed")]
    pub stubs: u64,
    /// How many parts were clipped.
    #[serde(alias = "clipped")]
    pub clips: u64,
    /// How many messages are folded.
    pub folded: u64,
    /// Why each edit was made.
    pub edits: Vec<EditReceipt>,
    /// How the text of its fold was made, if it has one.
    pub fold: Option<FoldReceipt>,
    /// Why summaries were refused, each with the name of its summariser.
    pub refused: Vec<String>,
}

/// What a batch is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ReceiptCause {
    /// The policy wanted a smaller window: it was full, or had more rounds than it may.
    Budget,
    /// The provider had dropped the prefix during a pause, so a batch that would have been due soon cost no break.
    Pause,
    /// New results refer to something that was left out.
    Reference,
    /// The model asked for something that was left out.
    Recall,
    /// The client asked for a summary of its conversation, and got this fold.
    Compaction,
    /// A later version wrote it.
    #[serde(other)]
    Unknown,
}

impl ReceiptCause {
    /// The word for it in receipts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Budget => "budget",
            Self::Pause => "pause",
            Self::Reference => "reference",
            Self::Recall => "recall",
            Self::Compaction => "compaction",
            Self::Unknown => "unknown",
        }
    }
}

/// One edit of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EditReceipt {
    /// `stub`, `clip`, `fold` or `insert`.
    pub edit: String,
    /// The entry and its part (`7.0`), or the entries of a fold (`3-8 11-12`).
    pub at: String,
    /// Why it was made.
    pub why: String,
}

/// How the text of a fold was made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct FoldReceipt {
    /// Who wrote what the fold says of the rounds that it adds.
    #[serde(flatten)]
    pub summary: SummaryReceipt,
    /// What became of names and statements.
    pub anchors: AnchorReceipt,
    /// The summary of earlier rounds, which a model wrote in the background.
    #[serde(alias = "earlier")]
    pub story: Option<SummaryReceipt>,
}

/// Who wrote a summary, and what it cost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct SummaryReceipt {
    /// The name of the summariser.
    pub summariser: String,
    /// The model, if one wrote it.
    pub model: Option<String>,
    /// The tokens that the model read.
    pub input_tokens: Option<u64>,
    /// The tokens that it wrote.
    pub output_tokens: Option<u64>,
    /// The cost in millionths of a dollar; `None` if no price is known.
    pub cost_micros: Option<u64>,
    /// How many summaries were written until one was used; tokens and cost are those of all.
    pub written: Option<u64>,
    /// Why summaries of other models were refused.
    pub refused: Vec<String>,
}

/// What became of names and statements that matter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct AnchorReceipt {
    /// How many the fold says.
    pub kept: u64,
    /// How many of those were put back after a summary had dropped them.
    pub restored: u64,
    /// How many had no room.
    pub dropped: u64,
    /// The first of those.
    pub dropped_names: Vec<String>,
}

impl ReceiptCause {
    /// What a plan is made for that changes a window of `shown` tokens.
    pub fn of_plan(budget: &Budget, shown: Tokens) -> Self {
        let is_cold = budget.economy.is_some_and(|economy| economy.is_cold());
        if is_cold && shown <= budget.room() { Self::Pause } else { Self::Budget }
    }
}

impl Receipt {
    /// The figures of a plan that makes a window fit.
    pub fn of_plan(path: &Path, plan: &Plan, budget: Tokens) -> Self {
        let Tally { stubs, clips, .. } = Tally::of(&plan.batch.edits);
        Self {
            tokens_after: Some(plan.tokens().0),
            floor: Some(plan.floor.0),
            shortfall: Some(plan.shortfall.0),
            stubs: stubs as u64,
            clips: clips as u64,
            folded: folded_messages(&plan.batch),
            edits: edit_receipts(path, &plan.batch),
            ..Self::of(ReceiptCause::Budget, Some(budget))
        }
    }

    /// A receipt that says why a batch was made, and what a window may have.
    pub fn of(why: ReceiptCause, budget: Option<Tokens>) -> Self {
        Self { why: Some(why), budget: budget.map(|budget| budget.0), ..Self::default() }
    }

    /// Reads a receipt of any version. What cannot be read is left out: a receipt is a note, and a batch holds without
    /// it.
    pub fn read(text: &str) -> Self {
        let Ok(Value::Object(mut fields)) = serde_json::from_str(text) else {
            return Self::default();
        };
        if let Ok(receipt) = serde_json::from_str(text) {
            return receipt;
        }
        fields.retain(|name, value| serde_json::from_value::<Self>(json!({name: value})).is_ok());
        serde_json::from_value(Value::Object(fields)).unwrap_or_default()
    }

    /// Writes it as an archive keeps it, with the time at which its batch was made.
    pub fn write(self, at_ms: i64) -> String {
        let at = Some(crate::time::format(at_ms));
        // Numbers and texts under fixed names can always be written.
        serde_json::to_string(&Self { at, ..self }).unwrap_or_default()
    }
}

impl FoldReceipt {
    /// The summary that a model wrote, if one did, here or in the background.
    pub fn by_model(&self) -> Option<&SummaryReceipt> {
        let written = self.story.as_ref().unwrap_or(&self.summary);
        written.model.is_some().then_some(written)
    }
}

impl EditReceipt {
    /// That a text was brought back after an entry.
    pub(crate) fn recalled(after: Seq) -> Self {
        let [edit, why] = ["insert", "recalled"].map(str::to_owned);
        Self { edit, at: after.0.to_string(), why }
    }
}

/// Why each edit of a batch was made: where, what and why.
fn edit_receipts(path: &Path, batch: &Batch) -> Vec<EditReceipt> {
    let edits = batch.edits.iter().zip(reasons(path, batch));
    let receipts = edits.map(|(edit, reason)| {
        let (kind, at) = kind_and_place(edit);
        EditReceipt { edit: kind.to_owned(), at, why: reason.as_str().to_owned() }
    });
    receipts.collect()
}

/// What an edit is, and where it stands, as receipts tell.
pub(crate) fn kind_and_place(edit: &Edit) -> (&'static str, String) {
    match edit.kind() {
        EditKind::Stub(place) => ("stub", format!("{}.{}", place.entry.0, place.part)),
        EditKind::Clip(place) => ("clip", format!("{}.{}", place.entry.0, place.part)),
        EditKind::Fold(spans) => {
            let spans = spans.iter().map(|span| format!("{}-{}", span.first.0, span.last.0));
            ("fold", spans.collect::<Vec<_>>().join(" "))
        }
        EditKind::Insert => ("insert", edit.first().0.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receipts_of_all_surfaces_and_versions_can_be_read() {
        // A session, before receipts had a type.
        let session = Receipt::read(
            r#"{"at":"2026-11-15T19:29:00.000Z","tokens_before":900,"tokens_after":300,"floor":200,
            "edits":[{"edit":"stub","at":"7.0","why":"superseded"}],"refused":["tiny: empty"],
            "fold":{"summariser":"slow","model":"tiny","input_tokens":10,"output_tokens":2,
            "cost_micros":null,"written":2,"anchors":{"kept":3,"restored":0,"dropped":1,
            "dropped_names":["a.rs"]},"story":{"summariser":"s","model":"m","refused":["x: late"]}}}"#,
        );
        assert_eq!(
            (session.why, session.tokens_before, session.floor),
            (None, Some(900), Some(200))
        );
        assert_eq!(session.edits[0].why, "superseded");
        let fold = session.fold.as_ref().unwrap();
        assert_eq!((fold.summary.model.as_deref(), fold.summary.cost_micros), (Some("tiny"), None));
        assert_eq!((fold.anchors.kept, fold.anchors.dropped_names.len()), (3, 1));
        assert_eq!(fold.by_model().unwrap().model.as_deref(), Some("m"));
        // The proxy.
        let proxy = Receipt::read(
            r#"{"why":"budget","budget":32000,"policy":"auto","tokens_before":null,"tokens_after":9,
            "shortfall":0,"stubbed":2,"clipped":1,"folded":5,"fold":{"summariser":"extractive",
            "cost_micros":0,"anchors":{"kept":1,"restored":0,"dropped":0,"dropped_names":[]},
            "earlier":{"summariser":"s","model":"old"}},"window":{"head":4}}"#,
        );
        assert_eq!((proxy.why, proxy.stubs, proxy.clips), (Some(ReceiptCause::Budget), 2, 1));
        let told = proxy.fold.as_ref().unwrap().by_model().unwrap();
        assert_eq!(told.model.as_deref(), Some("old"));
        // The first sessions, and batches that bring something back.
        let first = r#"{"at":"2026-11-15T19:29:00.000Z","entries":[1,2],"rounds":2,"rung":"fold",
            "tokens_before":5,"tokens_after":2,"refused":[],"fold":{"summariser":"extractive"}}"#;
        assert_eq!(Receipt::read(first).tokens_after, Some(2));
        let recalled = Receipt::read(r#"{"why":"recall","budget":100}"#);
        assert_eq!((recalled.why, recalled.budget), (Some(ReceiptCause::Recall), Some(100)));
        for receipt in [session, proxy, recalled] {
            let written = Receipt { at: Some(crate::time::format(7)), ..receipt.clone() };
            assert_eq!(
                Receipt::read(&receipt.write(7)),
                written,
                "it comes back as it was written"
            );
        }
    }

    #[test]
    fn what_cannot_be_read_does_not_hide_the_rest() {
        let receipt =
            r#"{"why":"weather","tokens_after":7,"floor":"low","refused":null,"edits":[1]}"#;
        let receipt = Receipt::read(receipt);
        assert_eq!((receipt.why, receipt.tokens_after), (Some(ReceiptCause::Unknown), Some(7)));
        assert_eq!((receipt.floor, receipt.refused.len(), receipt.edits.len()), (None, 0, 0));
        for other in ["", "receipt", "null", "[]", r#"{"after":1}"#] {
            assert_eq!(Receipt::read(other), Receipt::default(), "{other}");
        }
    }

    #[test]
    fn all_keys_are_always_there() {
        let keys = |receipt: Receipt| {
            let Value::Object(fields) = serde_json::from_str(&receipt.write(0)).unwrap() else {
                panic!("no object")
            };
            fields.keys().map(String::as_str).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            keys(Receipt::default()),
            "why at policy budget tokens_before tokens_after floor shortfall stubs clips folded edits fold refused"
        );
        assert_eq!(keys(Receipt::of(ReceiptCause::Recall, None)), keys(Receipt::default()));
    }
}
