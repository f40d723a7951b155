//! What a model's name says about the model.

/// Models that share a vocabulary, a price list or rules of conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ModelFamily {
    /// `gpt-…`, open weights included.
    Gpt,
    /// `o1`, `o3` and `o4-mini`.
    OSeries,
    /// `claude-…`.
    Claude,
    /// `gemini-…`.
    Gemini,
    /// `deepseek-…`.
    DeepSeek,
    /// `kimi-…`.
    Kimi,
    /// `grok-…`.
    Grok,
    /// `glm-…`.
    Glm,
    /// Any other, and names that are missing.
    Other,
}

/// The words that families are recognised by.
const FAMILIES: [(&str, ModelFamily); 7] = [
    ("claude", ModelFamily::Claude),
    ("gemini", ModelFamily::Gemini),
    ("deepseek", ModelFamily::DeepSeek),
    ("kimi", ModelFamily::Kimi),
    ("grok", ModelFamily::Grok),
    ("glm", ModelFamily::Glm),
    ("gpt", ModelFamily::Gpt),
];

/// The first versions of Claude that bind thinking to everything before it.
const BINDING: [(&str, (u32, u32)); 5] = [
    ("fable", (5, 1)),
    ("mythos", (5, 1)),
    ("opus", (5, 5)),
    ("sonnet", (5, 5)),
    ("haiku", (5, 5)),
];

/// A model's name, taken apart.
///
/// ```
/// use longhand_core::{ModelFamily, ModelName};
///
/// let name = ModelName::parse("us.anthropic.claude-opus-4-7-20260101-v1:0");
/// assert_eq!((name.family(), name.version()), (ModelFamily::Claude, Some((4, 7))));
/// assert_eq!(name.id(), "claude-opus-4.7");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelName {
    id: String,
    family: ModelFamily,
    version: Option<(u32, u32)>,
    is_variant: bool,
}

impl ModelName {
    /// Reads a name as providers, platforms and routers write it.
    pub fn parse(name: &str) -> Self {
        let name = name.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
        let (family, start) = family_of(&name);
        // `[1m]` asks for a long window, `:cloud` and `:free` for a host, `@` precedes a date.
        let base = name[start..].split([':', '[', '@']).next().unwrap_or_default();
        let id = dotted(undated(without_revision(base)));
        let version = version_in(&id, family);
        let after = &name[start + base.len()..];
        let is_hosted = after.strip_prefix(':').is_some_and(|rest| rest.parse::<u32>().is_err());
        Self { id, family, version, is_variant: is_hosted || name.starts_with("ft:") }
    }

    /// The name in lower case with a dotted version, without provider, date and revision.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The family.
    pub fn family(&self) -> ModelFamily {
        self.family
    }

    /// The version as major and minor number; a name with only one number has minor 0.
    pub fn version(&self) -> Option<(u32, u32)> {
        self.version
    }

    /// Whether it is fine-tuned or at a special host, and so has another price than its base.
    pub fn is_variant(&self) -> bool {
        self.is_variant
    }

    /// Whether the name belongs to a family and has at least this version.
    pub fn is_since(&self, family: ModelFamily, since: (u32, u32)) -> bool {
        self.family == family && self.version.is_some_and(|version| version >= since)
    }

    /// Whether the provider refuses thinking blocks after an edit of anything before them.
    pub fn binds_thinking(&self) -> bool {
        BINDING.iter().any(|(line, since)| {
            self.id.contains(line) && self.is_since(ModelFamily::Claude, *since)
        })
    }

    /// Whether the provider refuses tool calls without the reasoning that led to them. Empty
    /// reasoning is accepted.
    pub fn demands_reasoning(&self) -> bool {
        let starts = |prefix| self.id.starts_with(prefix);
        (starts("deepseek-v") && self.is_since(ModelFamily::DeepSeek, (4, 0)))
            || starts("deepseek-reasoner")
            || (starts("kimi-k") && self.is_since(ModelFamily::Kimi, (2, 5)))
            || starts("kimi-for-coding")
            || (starts("kimi") && self.id.contains("thinking"))
    }
}

/// Finds the family and where its word begins.
fn family_of(name: &str) -> (ModelFamily, usize) {
    let found = FAMILIES.iter().filter_map(|(word, family)| Some((*family, name.find(word)?)));
    if let Some(found) = found.min_by_key(|(_, start)| *start) {
        return found;
    }
    let start = if name.starts_with("ft:") { 3 } else { 0 };
    let mut bytes = name[start..].bytes();
    let is_o = bytes.next() == Some(b'o') && bytes.next().is_some_and(|byte| byte.is_ascii_digit());
    (if is_o { ModelFamily::OSeries } else { ModelFamily::Other }, start)
}

/// Removes the revision that Bedrock appends: `-v1`.
fn without_revision(name: &str) -> &str {
    match name.rsplit_once("-v") {
        Some((head, number)) if is_number(number) && name.matches('-').count() > 1 => head,
        _ => name,
    }
}

/// Removes a release date or `-latest` from the end of a name.
///
/// `gpt-4o-2024-08-06`, `claude-opus-4-20250514` and `gpt-4-0613` have dates; `gpt-5-mini` does not.
pub fn undated(name: &str) -> &str {
    if let Some(head) = name.strip_suffix("-latest") {
        return head;
    }
    let (name, _) = name.split_once('@').unwrap_or((name, ""));
    let last = |name: &str, digits: usize| {
        let (_, word) = name.rsplit_once('-')?;
        (word.len() == digits && is_number(word)).then(|| name.len() - digits - 1)
    };
    if let Some(end) = last(name, 8).or_else(|| last(name, 4)) {
        return &name[..end];
    }
    let day = last(name, 2);
    let month = day.and_then(|end| last(&name[..end], 2));
    month.and_then(|end| last(&name[..end], 4)).map_or(name, |end| &name[..end])
}

/// Writes `claude-opus-4-7` as `claude-opus-4.7`.
fn dotted(name: &str) -> String {
    let mut id = String::with_capacity(name.len());
    let mut after_number = false;
    for (at, word) in name.split('-').enumerate() {
        let number = is_number(word) && word.len() <= 2;
        if at > 0 {
            id.push(if number && after_number { '.' } else { '-' });
        }
        id.push_str(word);
        after_number = number && !after_number;
    }
    id
}

/// Finds the version in an id: the first word that is a number of at most two digits, perhaps with a
/// letter in front (`v4`, `k2`), and the number after it.
fn version_in(id: &str, family: ModelFamily) -> Option<(u32, u32)> {
    let rest = FAMILIES
        .iter()
        .find(|(_, known)| *known == family)
        .map_or(id, |(word, _)| id.strip_prefix(word).unwrap_or(id));
    let mut words = rest.split(|char: char| !char.is_ascii_alphanumeric());
    let (major, minor) = words.find_map(|word| {
        let word = word.trim_start_matches(|char: char| char.is_ascii_alphabetic());
        // GPT-4o has no minor version; Fireworks writes k2p6 for k2.6.
        let word = word.strip_suffix('o').unwrap_or(word);
        let (major, minor) = word.split_once('p').unwrap_or((word, ""));
        Some((short_number(major)?, short_number(minor)))
    })?;
    // Azure writes gpt-35 for 3.5.
    if family == ModelFamily::Gpt && major == 35 {
        return Some((3, 5));
    }
    let minor = minor.or_else(|| words.next().and_then(short_number));
    Some((major, minor.unwrap_or(0)))
}

/// Longer numbers are dates, and numbers with letters after them are sizes.
fn short_number(word: &str) -> Option<u32> {
    if word.len() <= 2 { word.parse().ok() } else { None }
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart() {
        use ModelFamily::{Claude, DeepSeek, Gemini, Gpt, Grok, Kimi, OSeries, Other};
        for (name, family, version, id) in [
            ("gpt-4o", Gpt, Some((4, 0)), "gpt-4o"),
            ("gpt-4.1-mini", Gpt, Some((4, 1)), "gpt-4.1-mini"),
            ("gpt-4-0613", Gpt, Some((4, 0)), "gpt-4"),
            ("gpt-4-32k", Gpt, Some((4, 0)), "gpt-4-32k"),
            ("gpt-35-turbo", Gpt, Some((3, 5)), "gpt-35-turbo"),
            ("gpt-5-2025-08-07", Gpt, Some((5, 0)), "gpt-5"),
            ("openai/GPT-5.5-Pro", Gpt, Some((5, 5)), "gpt-5.5-pro"),
            ("chatgpt-4o-latest", Gpt, Some((4, 0)), "gpt-4o"),
            ("ft:gpt-4o:acme::1", Gpt, Some((4, 0)), "gpt-4o"),
            ("gpt-oss-20b", Gpt, None, "gpt-oss-20b"),
            ("o3", OSeries, Some((3, 0)), "o3"),
            ("openai/o4-mini-2025-04-16", OSeries, Some((4, 0)), "o4-mini"),
            ("claude-3-5-sonnet-20241022", Claude, Some((3, 5)), "claude-3.5-sonnet"),
            ("claude-3-opus@20240229", Claude, Some((3, 0)), "claude-3-opus"),
            ("claude-opus-4-20250514", Claude, Some((4, 0)), "claude-opus-4"),
            ("us.anthropic.claude-opus-4-7-20260101-v1:0", Claude, Some((4, 7)), "claude-opus-4.7"),
            ("us.anthropic.claude-opus-5-v5:0", Claude, Some((5, 0)), "claude-opus-5"),
            ("claude-sonnet-4-6[1m]", Claude, Some((4, 6)), "claude-sonnet-4.6"),
            ("anthropic/claude-haiku-5.5", Claude, Some((5, 5)), "claude-haiku-5.5"),
            ("claude-fable", Claude, None, "claude-fable"),
            ("gemini-2.5-pro", Gemini, Some((2, 5)), "gemini-2.5-pro"),
            ("deepseek-ai/DeepSeek-V4.1-Pro", DeepSeek, Some((4, 1)), "deepseek-v4.1-pro"),
            ("deepseek-v4", DeepSeek, Some((4, 0)), "deepseek-v4"),
            ("accounts/fireworks/models/kimi-k2p6", Kimi, Some((2, 6)), "kimi-k2p6"),
            ("kimi-k2-0905-preview", Kimi, Some((2, 0)), "kimi-k2-0905-preview"),
            ("grok-4-0709", Grok, Some((4, 0)), "grok-4"),
            ("qwen3-vl", Other, Some((3, 0)), "qwen3-vl"),
            ("olmo", Other, None, "olmo"),
            ("", Other, None, ""),
            ("字/文[", Other, None, "文"),
        ] {
            let found = ModelName::parse(name);
            assert_eq!((found.family, found.version, found.id()), (family, version, id), "{name}");
        }
    }

    #[test]
    fn variants_are_not_their_base() {
        for (name, is_variant) in [
            ("ft:gpt-4o:acme::1", true),
            ("deepseek/deepseek-v4-flash:free", true),
            ("us.anthropic.claude-opus-5-v1:0", false),
            ("claude-sonnet-4-6[1m]", false),
        ] {
            assert_eq!(ModelName::parse(name).is_variant(), is_variant, "{name}");
        }
    }

    #[test]
    fn newer_claude_models_bind_thinking() {
        for (model, binds) in [
            ("claude-fable-5-1", true),
            ("claude-fable-5", false),
            ("claude-mythos-5-1-20260901", true),
            ("claude-opus-5-5", true),
            ("claude-opus-5-20260301", false),
            ("claude-sonnet-5", false),
            ("claude-sonnet-5-6@20261001", true),
            ("claude-haiku-6", true),
            ("us.anthropic.claude-opus-5-5-v1:0", true),
            ("us.anthropic.claude-opus-5-v5:0", false),
            ("anthropic/claude-opus-5.5", true),
            ("claude-opus-4-8", false),
            ("claude-3-5-sonnet-20241022", false),
            ("claude-3-opus@20240229", false),
            ("opus-9", false),
            ("claude", false),
            ("", false),
        ] {
            assert_eq!(ModelName::parse(model).binds_thinking(), binds, "{model}");
        }
    }

    #[test]
    fn some_models_demand_reasoning_with_every_call() {
        for (model, demands) in [
            ("deepseek-v4", true),
            ("deepseek/deepseek-v4-flash", true),
            ("deepseek-ai/DeepSeek-V4.1-Pro", true),
            ("deepseek-reasoner", true),
            ("deepseek-chat", false),
            ("deepseek-v3.2", false),
            ("kimi-k2-thinking-turbo", true),
            ("moonshotai/kimi-k2.5", true),
            ("accounts/fireworks/models/kimi-k2p6", true),
            ("kimi-k2.5:cloud", true),
            ("kimi-for-coding", true),
            ("kimi-k2-0905-preview", false),
            ("kimi-k2", false),
            ("gpt-5.5", false),
        ] {
            assert_eq!(ModelName::parse(model).demands_reasoning(), demands, "{model}");
        }
    }
}
