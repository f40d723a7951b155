use longhand::Round;
use longhand_testkit::rng::Rng;

pub(crate) const ROUNDS: usize = 40;

/// What is said once, by round, and must be told in the end.
pub(crate) const GOLDEN: &[Golden] = &[
    Golden {
        round: 1,
        user: "The goal is g-7f3a91: billing moves to the new ledger before the audit.",
        assistant: "",
        anchor: "g-7f3a91",
    },
    Golden {
        round: 2,
        user: "The session for this work is s-20c4.",
        assistant: "",
        anchor: "s-20c4",
    },
    Golden {
        round: 3,
        user: "Never write to the production database.",
        assistant: "",
        anchor: "Never write to the production database.",
    },
    Golden {
        round: 5,
        user: "Which queue do we take?",
        assistant: "Decision: we use Redis streams, because the team runs Redis already.",
        anchor: "we use Redis streams, because the team runs Redis already",
    },
    Golden {
        round: 8,
        user: "What about the certificate?",
        assistant: "Blocked: the certificate for LH-4711 has not been issued.",
        anchor: "the certificate for LH-4711 has not been issued",
    },
    Golden {
        round: 11,
        user: "Is anything unclear?",
        assistant: "Open question: who owns the nightly export?",
        anchor: "who owns the nightly export",
    },
    Golden {
        round: 14,
        user: "The settings are in deploy/billing/ledger.toml and nowhere else.",
        assistant: "",
        anchor: "deploy/billing/ledger.toml",
    },
];

/// The user's message of the first round, which is pinned.
pub(crate) const PINNED: &str = "The customer is Ottilie & Sons, account 0042.";

pub(crate) struct Golden {
    round: usize,
    user: &'static str,
    assistant: &'static str,
    pub(crate) anchor: &'static str,
}

/// The words of a round: 150 to 250 of them, and what is golden in it.
pub(crate) fn round(number: usize) -> Round {
    let mut rng = Rng::new(number as u64 + 1);
    let golden = GOLDEN.iter().find(|golden| golden.round == number);
    let user = match golden {
        _ if number == 0 => PINNED.to_owned(),
        Some(golden) => format!("{} {}", golden.user, rng.choose(ASKED)),
        None => format!("{} {}", rng.choose(ASKED), rng.choose(ASKED)),
    };
    let mut assistant = golden.map_or(String::new(), |golden| golden.assistant.to_owned());
    let words = rng.range(130..220);
    while assistant.split_whitespace().count() < words {
        assistant.push(' ');
        assistant.push_str(rng.choose::<&str>(TOLD));
    }
    Round::new(&user, assistant.trim(), number as i64)
}

const ASKED: &[&str] = &[
    "Please look at how the invoices are written and tell me what you see.",
    "Could you go on with the part about rounding, and keep the change small?",
    "I have read your last note and agree with most of it; the rest can stay as it is for now.",
    "Somebody reported that the totals were off by a cent yesterday. Can you find out why?",
    "How far are we, and what would you do next?",
];

const TOLD: &[&str] = &[
    "I read the module that writes the invoices and followed one of them from the order to the printed page.",
    "The rounding happens in two places, once for each line and once for the total, and the two do not agree.",
    "I changed the second one so that it adds what the first one rounded, and ran the tests of that module.",
    "All of them passed, although two took far longer than they did before, which I will look into.",
    "The report of the missing cent comes from an order with many small lines and a discount on the whole.",
    "A discount is spread over the lines by weight, and what is left over is now given to the largest line.",
    "I also wrote down how the amounts flow through the program, since I could not find it told anywhere.",
    "There is a cache before the price list that is not cleared when the list changes, which explains the old prices.",
    "I would leave the printing as it is, because nobody complained about it and it is used by other teams.",
    "After that I compared the totals of the last month with those of the old program and found no difference.",
    "The next step is to let both run side by side for a week and to compare what they write every night.",
    "It would help to have a few real orders with their names taken out, as the examples are too simple.",
];
