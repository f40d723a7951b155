//! Every generated conversation is valid.

use longhand_testkit::arbitrary::{
    GrowingRequest, PieceSize, anthropic_json, cases, chat_json, responses_json, rich,
    rich_anthropic, rich_chat, rich_responses, text_action_json, turns,
};
use longhand_testkit::rng::Rng;
use longhand_testkit::{WireFormat, validate, validate_edit};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

fn check(dialect: WireFormat, json: &str) -> Result<(), TestCaseError> {
    prop_assert_eq!(validate(dialect, json), Vec::<String>::new());
    prop_assert_eq!(validate_edit(dialect, json, json, true), Vec::<String>::new());
    Ok(())
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn chat(json in chat_json()) {
        check(WireFormat::Chat, &json)?;
    }

    #[test]
    fn anthropic(json in anthropic_json()) {
        check(WireFormat::Anthropic, &json)?;
    }

    #[test]
    fn responses(json in responses_json()) {
        check(WireFormat::Responses, &json)?;
    }

    #[test]
    fn text_action(json in text_action_json()) {
        check(WireFormat::Chat, &json)?;
    }

    #[test]
    fn rich_chat_is_valid(json in rich_chat()) {
        check(WireFormat::Chat, &json)?;
    }

    #[test]
    fn rich_anthropic_is_valid(json in rich_anthropic()) {
        check(WireFormat::Anthropic, &json)?;
    }

    #[test]
    fn rich_responses_are_valid(json in rich_responses()) {
        check(WireFormat::Responses, &json)?;
    }
}

proptest! {
    #![proptest_config(cases(12))]

    #[test]
    fn heavy_requests_are_valid(chat in rich(WireFormat::Chat, PieceSize::Heavy), responses in rich(WireFormat::Responses, PieceSize::Heavy), anthropic in rich(WireFormat::Anthropic, PieceSize::Heavy)) {
        check(WireFormat::Chat, &chat)?;
        check(WireFormat::Responses, &responses)?;
        check(WireFormat::Anthropic, &anthropic)?;
    }

    #[test]
    fn growing_requests_are_valid_after_each_turn(chat in turns(WireFormat::Chat), responses in turns(WireFormat::Responses), anthropic in turns(WireFormat::Anthropic), seed in any::<u64>()) {
        for (dialect, mut request) in [(WireFormat::Chat, chat), (WireFormat::Responses, responses), (WireFormat::Anthropic, anthropic)] {
            let mut rng = Rng::new(seed);
            for turn in 0..100 {
                let before = request.len();
                request.append(&mut rng);
                prop_assert!(request.len() > before);
                prop_assert_eq!(validate(dialect, &request.json()), Vec::<String>::new(), "turn {}", turn);
            }
        }
    }
}

#[test]
fn a_seed_always_gives_the_same_request() {
    for dialect in WireFormat::ALL {
        let grown = |seed: u64| {
            let mut request = GrowingRequest::new(dialect, PieceSize::Light, seed);
            let mut rng = Rng::new(seed);
            (0..20).for_each(|_| request.append(&mut rng));
            request.json()
        };
        assert_eq!(grown(5), grown(5));
        assert_ne!(grown(5), grown(6));
    }
}

/// Generates many conversations and returns which of the words occur in none of them.
fn missing<'w>(conversations: impl Strategy<Value = String>, words: &[&'w str]) -> Vec<&'w str> {
    let mut runner = TestRunner::deterministic();
    let mut missing = words.to_vec();
    for _ in 0..300 {
        let json = conversations.new_tree(&mut runner).unwrap().current();
        missing.retain(|word| !json.contains(word));
    }
    missing
}

#[test]
fn rich_conversations_hold_everything() {
    let none = Vec::<&str>::new();
    let everywhere =
        ["system-reminder", "OBSERVATION", "image/png", "image/jpeg", "\\ud83d", "\n  "];
    for dialect in WireFormat::ALL {
        assert_eq!(missing(rich(dialect, PieceSize::Light), &everywhere), none);
    }
    let words = [
        "custom",
        "input_audio",
        "file_data",
        "refusal",
        "url_citation",
        "function_call",
        "developer",
        "reasoning_content",
        "mistral",
        "audio_",
    ];
    assert_eq!(missing(rich_chat(), &words), none);
    let words = [
        "server_tool_use",
        "web_search_tool_result",
        "mcp_tool_result",
        "citations",
        "document",
        "redacted_thinking",
        "\"system\",\"content\"",
        "claude-opus-5-5",
        "drop_block",
        "cache_control",
        "is_error",
    ];
    assert_eq!(missing(rich_anthropic(), &words), none);
    let words = [
        "web_search_call",
        "file_search_call",
        "code_interpreter_call",
        "image_generation_call",
        "mcp_call",
        "mcp_approval_response",
        "computer_screenshot",
        "custom_tool_call_output",
        "shell_call_output",
        "local_shell_call",
        "apply_patch_call",
        "item_reference",
        "compaction",
        "annotations",
        "refusal",
        "input_file",
        "commentary",
        "final_answer",
    ];
    assert_eq!(missing(rich_responses(), &words), none);
}
