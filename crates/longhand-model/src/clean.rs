//! Removes what models put around a summary.

/// Takes out thinking in tags, and a code fence around the whole.
pub(crate) fn clean(answer: &str) -> String {
    let text = without_thinking(answer);
    without_fence(text.trim()).trim().to_owned()
}

const TAGS: &[(&str, &str)] = &[("<think>", "</think>"), ("<thinking>", "</thinking>")];

fn without_thinking(answer: &str) -> String {
    let mut text = answer.to_owned();
    for (open, close) in TAGS {
        // Some chat templates begin the thinking themselves, so that only its end is in the answer.
        if let Some(end) = text.find(close)
            && text.find(open).is_none_or(|start| start > end)
        {
            text.replace_range(..end + close.len(), "");
        }
        while let Some(start) = text.find(open) {
            let end = text[start..].find(close).map_or(text.len(), |at| start + at + close.len());
            text.replace_range(start..end, "");
        }
    }
    text
}

fn without_fence(text: &str) -> &str {
    let inner = || {
        let rest = text.strip_prefix("```")?.strip_suffix("```")?;
        let (info, inner) = rest.split_once('\n')?;
        let is_whole = !info.trim().contains(' ') && !inner.contains("```");
        is_whole.then_some(inner)
    };
    inner().unwrap_or(text)
}

/// Cuts the unfinished last line or sentence of an answer that ran out of room.
pub(crate) fn finished(text: &str) -> &str {
    let line = text.rfind('\n');
    let sentence = text.rfind(". ").map(|at| at + 1);
    match line.max(sentence) {
        Some(end) if end > text.len() / 2 => text[..end].trim_end(),
        _ => text,
    }
}

/// How refusals begin that come as ordinary answers.
const REFUSALS: &[&str] = &[
    "i can't",
    "i cannot",
    "i can not",
    "i'm sorry",
    "i am sorry",
    "sorry, ",
    "i'm unable",
    "i am unable",
    "i won't",
];

const REFUSAL_CHARS_MAX: usize = 300;

/// Whether an answer says nothing but no.
pub(crate) fn is_refusal(text: &str) -> bool {
    let start: String = text.trim_start().chars().take(20).collect();
    let start = start.to_lowercase().replace('’', "'");
    text.chars().count() <= REFUSAL_CHARS_MAX
        && REFUSALS.iter().any(|refusal| start.starts_with(refusal))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_summary_goes() {
        for (answer, expected) in [
            (" Goal: x\n", "Goal: x"),
            ("```\nGoal: x\n```", "Goal: x"),
            ("```markdown\nGoal: x\n```\n", "Goal: x"),
            ("Goal: `x`\n```\ncode\n```", "Goal: `x`\n```\ncode\n```"),
            ("```\na\n```\nand\n```\nb\n```", "```\na\n```\nand\n```\nb\n```"),
            ("<think>hm\n</think>\n\nGoal: x", "Goal: x"),
            ("hm\n</think>\nGoal: x", "Goal: x"),
            ("<think>hm</think>\n```text\nGoal: x\n```", "Goal: x"),
            ("<think>never ends", ""),
            ("Goal: x <thinking>a</thinking>y", "Goal: x y"),
            ("", ""),
        ] {
            assert_eq!(clean(answer), expected, "{answer}");
        }
    }

    #[test]
    fn an_unfinished_end_is_cut() {
        assert_eq!(finished("One is done. Two is do"), "One is done.");
        assert_eq!(finished("Goal: all of it\nDone: hal"), "Goal: all of it");
        assert_eq!(
            finished("a. then very much without an end"),
            "a. then very much without an end"
        );
    }

    #[test]
    fn a_refusal_is_short_and_says_no() {
        assert!(is_refusal("I’m sorry, but I can't help with that."));
        assert!(is_refusal(" I cannot assist."));
        assert!(!is_refusal("Goal: I cannot assist."));
        assert!(!is_refusal(&format!("I cannot find it. {}", "More. ".repeat(99))));
    }
}
