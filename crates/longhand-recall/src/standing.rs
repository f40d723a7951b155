//! What a user said once and means for good: orders and preferences.

use longhand_core::Role;
use longhand_core::anchor::{Saying, sentences, statements};

/// Words that such sentences have, to look for them.
pub const STANDING_WORDS: &str = "always never prefer must whenever avoid remember from now on don't rather stop forward \
future answers please hate love like usually favourite favorite allergic vegetarian vegan diet call immer nie lieber \
allergisch 总是 永远 以后 记住 喜欢 过敏 常に 必ず 今後 アレルギー 好き";

/// How sentences begin that tell a preference, a habit or what to do each time, or what they have in the middle.
const PHRASES: &[&str] = &[
    "i really prefer",
    "i really don't like",
    "i can't stand",
    "i hate",
    "i dislike",
    "i'm not a fan of",
    "i am not a fan of",
    "i love",
    "i really like",
    "i enjoy",
    "i usually",
    "i always",
    "i never",
    "i don't eat",
    "i do not eat",
    "i don't drink",
    "i can't eat",
    "allergic to",
    "my favourite",
    "my favorite",
    "going forward",
    "in future",
    "please stop",
    "stop using",
    "stop adding",
    "call me",
    "whenever you",
    "when you answer",
    "in your answers",
    "every answer",
    "each answer",
    "all answers",
    "your answers should",
    "i prefer",
    "i'd prefer",
    "i would prefer",
    "my preference",
    "i'd rather",
    "i would rather",
    "i like it when",
    "i don't like",
    "i do not like",
    "i'd like you to",
    "i want you to",
    "whenever i",
    "when i ask",
    "if i ask",
    "every time",
    "each time i",
    "in the future",
    "remember that",
    "remember to",
    "keep in mind",
    "please avoid",
    "avoid using",
    "immer wenn",
    "ab jetzt",
    "ich bevorzuge",
    "mir ist lieber",
    "总是",
    "永远",
    "以后",
    "从现在起",
    "请记住",
    "我喜欢",
    "我更喜欢",
    "不要再",
    "常に",
    "必ず",
    "今後",
    "これから",
    "覚えておいて",
    "の方が好き",
];
/// What people say they are, where it holds on: a diet or a condition, not a mood.
const BEING: &[&str] = &["i'm ", "i am ", "i'm a ", "i am a ", "ich bin "];
const LASTING: &[&str] = &[
    "vegetarian",
    "vegan",
    "pescatarian",
    "allergic",
    "diabetic",
    "lactose",
    "gluten",
    "coeliac",
    "celiac",
    "colour-blind",
    "color-blind",
    "colorblind",
    "left-handed",
    "deaf",
    "blind",
    "dyslexic",
    "pregnant",
    "retired",
    "vegetarier",
    "veganer",
    "allergisch",
];
/// A longer sentence is a text that was pasted.
const BYTES_MAX: usize = 400;
/// Of a long message, so much is looked through: orders stand at its start.
const LOOKED_AT_BYTES: usize = 8 << 10;

/// The sentences of a user's message that hold on, in order.
pub fn standing(text: &str) -> Vec<&str> {
    let text = longhand_core::cut::head(text, LOOKED_AT_BYTES);
    let ruled = statements(text, Role::User);
    let ruled: Vec<&str> = ruled
        .filter(|statement| statement.saying == Saying::Rules)
        .map(|statement| statement.text)
        .collect();
    let said = sentences(text).map(|sentence| sentence.text);
    said.filter(|text| text.len() <= BYTES_MAX)
        .filter(|text| ruled.iter().any(|rule| rule.contains(text)) || is_preference(text))
        .collect()
}

fn is_preference(sentence: &str) -> bool {
    let low = sentence.to_lowercase().replace('’', "'");
    let is_asked = low.trim_end().ends_with(['?', '？']);
    let begins = |at: usize| low[..at].chars().next_back().is_none_or(|c| !is_latin(c));
    let has = |phrase: &&str| low.match_indices(*phrase).any(|(at, _)| begins(at));
    let compares =
        || low.contains("better than") || low.contains("more than") || low.contains("over ");
    let is_lasting = || BEING.iter().any(has) && LASTING.iter().any(has);
    !is_asked && (PHRASES.iter().any(has) || is_lasting() || (has(&"i like") && compares()))
}

/// Whether words of a character's script have spaces between them.
fn is_latin(c: char) -> bool {
    c.is_ascii_alphanumeric()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_and_preferences_hold_on() {
        for (text, expected) in [
            (
                "Thanks. Always give dates as 2026-11-18. What is next?",
                vec!["Always give dates as 2026-11-18."],
            ),
            ("I prefer tea. It was never so late.", vec!["I prefer tea."]),
            ("I’d rather have short answers", vec!["I’d rather have short answers"]),
            ("Whenever I ask for code, add a test.", vec!["Whenever I ask for code, add a test."]),
            ("Do I prefer tea?", vec![]),
            ("I am vegan. I am late.", vec!["I am vegan."]),
            ("I like maps better than lists. I like it.", vec!["I like maps better than lists."]),
            ("Keep it short going forward.", vec!["Keep it short going forward."]),
            ("请记住，我对花生过敏。明天见。", vec!["请记住，我对花生过敏。"]),
            ("今後は敬語でお願いします。", vec!["今後は敬語でお願いします。"]),
            ("The build is red.", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(standing(text), expected, "{text}");
        }
    }
}
