//! Tools that a request defers stay loaded, however small the window.

use crate::common::{graves, o200k, parse};
use longhand_core::{Budget, PlanSettings, Policy, Tokens, plan};
use longhand_dialect::Dialect;
use serde_json::{Value, json};

const STEPS: usize = 16;

/// A tool loop in which the second step searched for tools.
fn anthropic() -> String {
    let tools = json!([
        {"type": "tool_search_tool_regex_20251119", "name": "find"},
        {"name": "read", "input_schema": {"type": "object"}},
        {"name": "fetch", "defer_loading": true, "input_schema": {"type": "object"}},
    ]);
    let mut messages = vec![json!({"role": "user", "content": "Read all logs."})];
    for step in 0..STEPS {
        let (name, content) = if step == 1 {
            let found = |_| json!({"type": "tool_reference", "tool_name": "fetch"});
            ("find", (0..9).map(found).collect::<Value>())
        } else {
            ("read", format!("line {step} of a long log, nothing else\n").repeat(60).into())
        };
        let id = format!("toolu_{step}");
        let call = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
        let result = json!({"type": "tool_result", "tool_use_id": id, "content": content});
        messages.push(json!({"role": "assistant", "content": [call]}));
        messages.push(json!({"role": "user", "content": [result]}));
    }
    json!({"model": "claude-sonnet-4-5", "max_tokens": 9, "tools": tools, "messages": messages})
        .to_string()
}

fn responses() -> String {
    let mut items = vec![json!({"role": "user", "content": "Read all logs."})];
    for step in 0..STEPS {
        let id = format!("call_{step}");
        if step == 1 {
            let tools = json!([{"type": "function", "name": "fetch", "parameters": {}}]);
            items.push(
                json!({"type": "tool_search_call", "call_id": id, "arguments": {"query": "fetch"}}),
            );
            items.push(json!({"type": "tool_search_output", "call_id": id, "tools": tools}));
            continue;
        }
        let output = format!("line {step} of a long log, nothing else\n").repeat(60);
        items.push(
            json!({"type": "function_call", "call_id": id, "name": "read", "arguments": "{}"}),
        );
        items.push(json!({"type": "function_call_output", "call_id": id, "output": output}));
    }
    json!({"model": "gpt-5.4", "input": items}).to_string()
}

#[test]
fn what_loads_a_tool_is_neither_stubbed_nor_folded_while_there_is_room() {
    for (dialect, request, mark, count) in [
        (Dialect::Anthropic, anthropic(), r#""type":"tool_reference""#, 9),
        (Dialect::Responses, responses(), r#""type":"tool_search_output""#, 1),
    ] {
        let conversation = parse(&request, Some(dialect));
        for policy in [Policy::Auto, Policy::Elide] {
            let settings = PlanSettings { policy, ..PlanSettings::default() };
            let budget = Budget::of(Tokens(4_000)).with_low_water(60, Tokens::ZERO);
            let plan = plan(&conversation.history(Tokens::ZERO), &budget, &settings, o200k());
            assert!(plan.fits() && !plan.is_noop(), "{dialect:?} {policy:?}");
            let window = conversation.apply(&[plan.batch]);
            assert_eq!(
                window.matches(mark).count(),
                count,
                "{dialect:?} {policy:?}: {window:.2000}"
            );
            assert_eq!(graves(&parse(&window, Some(dialect))), graves(&conversation));
        }
    }
}
