//! Other forms of a word, in English and German: a light stemmer that strips suffixes.
//!
//! Stems are compared with each other and shown nowhere, so a stem need not be a word.

/// A shorter stem says too little.
const STEM_BYTES_MIN: usize = 3;

/// Suffixes that make another word of the same family, and what stands in their place. The first that fits counts.
const DERIVING: &[(&str, &str)] = &[
    ("ification", "ifi"),
    ("olution", "olv"),
    ("ability", ""),
    ("ibility", ""),
    ("ational", ""),
    ("ation", ""),
    ("ition", ""),
    ("ment", ""),
    ("ness", ""),
    ("keit", ""),
    ("heit", ""),
    ("lich", ""),
    ("able", ""),
    ("ible", ""),
    ("abl", ""),
    ("ibl", ""),
    ("ance", ""),
    ("ence", ""),
    ("ion", ""),
    ("ity", ""),
    ("iti", ""),
    ("ive", ""),
    ("iv", ""),
    ("ung", ""),
    ("ful", ""),
    ("ly", ""),
    ("li", ""),
    ("al", ""),
    ("at", ""),
    ("er", ""),
    ("or", ""),
];

/// Verbs whose forms have no stem in common; the other forms of each are regular.
const IRREGULAR: &[&[&str]] = &[
    &["become", "became"],
    &["begin", "began", "begun"],
    &["break", "broke", "broken"],
    &["bring", "brought"],
    &["build", "built"],
    &["buy", "bought"],
    &["catch", "caught"],
    &["choose", "chose", "chosen"],
    &["come", "came"],
    &["do", "did", "done"],
    &["draw", "drew", "drawn"],
    &["drive", "drove", "driven"],
    &["fall", "fell", "fallen"],
    &["feel", "felt"],
    &["find", "found"],
    &["forget", "forgot", "forgotten"],
    &["freeze", "froze", "frozen"],
    &["get", "got", "gotten"],
    &["give", "gave", "given"],
    &["go", "went", "gone"],
    &["grow", "grew", "grown"],
    &["hide", "hid", "hidden"],
    &["hold", "held"],
    &["keep", "kept"],
    &["know", "knew", "known"],
    &["lead", "led"],
    &["leave", "left"],
    &["lose", "lost"],
    &["make", "made"],
    &["mean", "meant"],
    &["meet", "met"],
    &["pay", "paid"],
    &["rise", "rose", "risen"],
    &["run", "ran"],
    &["say", "said"],
    &["see", "saw", "seen"],
    &["sell", "sold"],
    &["send", "sent"],
    &["show", "shown"],
    &["speak", "spoke", "spoken"],
    &["spend", "spent"],
    &["stand", "stood"],
    &["steal", "stole", "stolen"],
    &["stick", "stuck"],
    &["take", "took", "taken"],
    &["teach", "taught"],
    &["tell", "told"],
    &["think", "thought"],
    &["throw", "threw", "thrown"],
    &["understand", "understood"],
    &["win", "won"],
    &["write", "wrote", "written"],
];

/// How closely two words are related.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kinship {
    /// `corruption` and `corrupted`.
    Family,
    /// `traces` and `tracing`.
    Form,
}

/// A word with its stems, to be compared with others.
#[derive(Clone, Debug)]
pub(crate) struct Stem {
    inflected: String,
    derived: String,
}

impl Stem {
    /// `None` if it is no word that has other forms: too short, with digits, or of another script.
    pub(crate) fn of(word: &str) -> Option<Self> {
        let is_word =
            word.len() >= STEM_BYTES_MIN && word.bytes().all(|byte| byte.is_ascii_lowercase());
        is_word.then(|| {
            let inflected = inflected(word);
            let derived = derived(&inflected);
            Self { inflected, derived }
        })
    }

    pub(crate) fn kinship(&self, other: &Self) -> Option<Kinship> {
        if self.inflected == other.inflected {
            Some(Kinship::Form)
        } else {
            (self.derived == other.derived).then_some(Kinship::Family)
        }
    }

    /// What all words of the family begin with.
    pub(crate) fn beginning(&self) -> &str {
        let last = self.derived.len() - 1;
        &self.derived[..last.max(STEM_BYTES_MIN - 1).min(self.derived.len())]
    }
}

/// The irregular forms of a word's verb, without itself.
pub(crate) fn irregular(word: &str) -> impl Iterator<Item = &'static str> {
    let family = IRREGULAR.iter().find(|family| family.contains(&word));
    family.into_iter().flat_map(|family| family.iter().copied()).filter(move |form| *form != word)
}

/// The word without the endings of plural, tense and case.
fn inflected(word: &str) -> String {
    let mut stem = word.to_owned();
    if stem.ends_with('s') && !["ss", "us", "is"].iter().any(|end| stem.ends_with(end)) {
        stem.pop();
    }
    let endings = [("ied", 2), ("ing", 3), ("ed", 2), ("en", 2), ("e", 1)];
    let ending = endings
        .iter()
        .find(|(ending, count)| stem.ends_with(ending) && stem.len() >= count + STEM_BYTES_MIN);
    if let Some((_, count)) = ending {
        stem.truncate(stem.len() - count);
    }
    single(&mut stem);
    stem
}

/// The stem without suffixes that make other words.
fn derived(inflected: &str) -> String {
    let mut stem = inflected.to_owned();
    for _ in 0..2 {
        let suffix = DERIVING.iter().find(|(suffix, _)| {
            // A short suffix of a short word is most likely a part of it.
            let rest = if suffix.len() > 3 { 3 } else { 5 };
            stem.len() >= suffix.len() + rest && stem.ends_with(suffix)
        });
        let Some((suffix, instead)) = suffix else { break };
        stem.truncate(stem.len() - suffix.len());
        stem.push_str(instead);
        single(&mut stem);
    }
    stem
}

/// Of a doubled letter at the end, one counts; `y` counts as `i`.
fn single(stem: &mut String) {
    let bytes = stem.as_bytes();
    if let [.., before, last] = bytes
        && before == last
        && bytes.len() > STEM_BYTES_MIN
    {
        stem.pop();
    }
    if stem.ends_with('y') && stem.len() > STEM_BYTES_MIN {
        stem.pop();
        stem.push('i');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinship(one: &str, other: &str) -> Option<Kinship> {
        Stem::of(one)?.kinship(&Stem::of(other)?)
    }

    #[test]
    fn forms_of_a_word_have_one_stem() {
        for (one, other) in [
            ("trace", "tracing"),
            ("traces", "traced"),
            ("formatting", "formatted"),
            ("format", "formats"),
            ("classes", "class"),
            ("retries", "retry"),
            ("simplified", "simplify"),
            ("tokens", "token"),
            ("canceled", "cancelling"),
            ("rechnungen", "rechnung"),
            ("adressen", "adresse"),
            ("written", "write"),
        ] {
            assert_eq!(kinship(one, other), Some(Kinship::Form), "{one} {other}");
        }
    }

    #[test]
    fn words_of_a_family_are_related() {
        for (one, other) in [
            ("corruption", "corrupted"),
            ("cancellations", "canceled"),
            ("resolutions", "resolved"),
            ("enrichment", "enrich"),
            ("validator", "validation"),
            ("propagate", "propagation"),
            ("serializer", "serialize"),
            ("aufbauen", "aufbau"),
        ] {
            assert!(kinship(one, other).is_some(), "{one} {other}");
        }
    }

    #[test]
    fn other_words_are_not() {
        for (one, other) in [
            ("format", "form"),
            ("test", "text"),
            ("commit", "comment"),
            ("session", "sense"),
            ("process", "processor2"),
            ("user", "use"),
        ] {
            assert_eq!(kinship(one, other), None, "{one} {other}");
        }
    }

    #[test]
    fn a_family_shares_its_beginning() {
        for (one, other) in
            [("resolution", "resolved"), ("simplify", "simplification"), ("cancel", "cancellation")]
        {
            assert!(other.starts_with(Stem::of(one).unwrap().beginning()), "{one} {other}");
        }
    }
}
