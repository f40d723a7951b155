//! What the name of a model says about the requests that it accepts.

/// The family and version of a Claude model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Claude {
    family: Family,
    version: (u32, u32),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Family {
    Opus,
    Sonnet,
    Haiku,
    Fable,
    Mythos,
}

const FAMILIES: [(&str, Family); 5] = [
    ("opus", Family::Opus),
    ("sonnet", Family::Sonnet),
    ("haiku", Family::Haiku),
    ("fable", Family::Fable),
    ("mythos", Family::Mythos),
];

impl Claude {
    /// Reads names such as `claude-opus-5-5`; older forms such as `claude-3-5-sonnet` count as 3.5.
    pub(super) fn parse(model: &str) -> Option<Self> {
        let name = model.split_once("claude-")?.1;
        let words: Vec<&str> = name.split(['-', '.', '@', ':']).collect();
        let family_at =
            words.iter().position(|word| FAMILIES.iter().any(|(name, _)| name == word))?;
        let family = FAMILIES.iter().find(|(name, _)| *name == words[family_at])?.1;
        let around = if family_at == 0 { &words[1..] } else { &words[..family_at] };
        let mut numbers =
            around.iter().map_while(|word| word.parse::<u32>().ok().filter(|number| *number < 100));
        let version = (numbers.next()?, numbers.next().unwrap_or(0));
        Some(Self { family, version })
    }

    /// Whether messages of the role `system` may stand among the others.
    pub(super) fn takes_system_messages(self) -> bool {
        self.version >= (4, 8)
    }

    /// Whether the last message may be the assistant's.
    pub(super) fn takes_prefill(self) -> bool {
        self.version < (4, 6)
    }

    /// Whether a thinking budget and sampling parameters are refused.
    pub(super) fn is_adaptive_only(self) -> bool {
        self.version >= (4, 7)
    }

    /// Whether thinking cannot be switched off.
    pub(super) fn always_thinks(self) -> bool {
        match self.family {
            Family::Opus => self.version >= (5, 5),
            Family::Fable => self.version >= (5, 1),
            Family::Sonnet | Family::Haiku | Family::Mythos => false,
        }
    }

    pub(super) fn images_max(self) -> usize {
        if self.version < (4, 6) { 100 } else { 600 }
    }
}

/// Whether function tools exclude a reasoning effort.
pub(super) fn refuses_tools_with_effort(model: &str) -> bool {
    let version = model.strip_prefix("gpt-").unwrap_or_default();
    let version = version.split('-').next().unwrap_or_default();
    let (major, minor) = version.split_once('.').unwrap_or((version, "0"));
    let number = |text: &str| text.parse::<u32>().ok();
    number(major).zip(number(minor)).is_some_and(|version| version >= (5, 4))
}

/// Whether the rules of Mistral for ids and turns apply.
pub(super) fn is_mistral(model: &str) -> bool {
    ["mistral", "codestral", "magistral", "devstral"].iter().any(|name| model.contains(name))
}

/// Whether every message with calls must carry `reasoning_content`.
pub(super) fn demands_reasoning(model: &str) -> bool {
    ["deepseek-v4", "kimi-k2-thinking"].iter().any(|name| model.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claude_names_are_read() {
        let version = |model| Claude::parse(model).map(|claude| claude.version);
        assert_eq!(version("claude-opus-5-5"), Some((5, 5)));
        assert_eq!(version("claude-opus-5-20260301"), Some((5, 0)));
        assert_eq!(version("us.anthropic.claude-sonnet-4-5-20250929-v1:0"), Some((4, 5)));
        assert_eq!(version("claude-3-5-sonnet-20241022"), Some((3, 5)));
        assert_eq!(version("gpt-5"), None);
    }

    #[test]
    fn effort_is_refused_since_5_4() {
        let refused = ["gpt-5.4", "gpt-5.4-mini", "gpt-6", "gpt-6.1"];
        assert!(refused.iter().all(|model| refuses_tools_with_effort(model)));
        let taken = ["gpt-5", "gpt-5.2", "gpt-4o", "o3", "claude-opus-5-5"];
        assert!(!taken.iter().any(|model| refuses_tools_with_effort(model)));
    }
}
