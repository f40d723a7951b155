//! Reasoning stays, goes or is made up for, as its provider wants it.

use crate::common::{POLICIES, compact, count, fixed, fold, graves, o200k, parse, render, replace};
use longhand_core::{Budget, Change, Part, Plan, PlanSettings, Shown, Tokens, plan, project};
use longhand_dialect::{Binding, Conversation, Dialect, keep_thinking};

const DROP: &str = r#""block_binding":{"prefix_mismatch_behavior":"drop_block"}"#;

/// A tool loop with thinking in each reply, and what the user said then.
fn looped(settings: &str) -> String {
    let turn = |id: usize| {
        let body = format!("line {id} of the log\n").repeat(60).replace('\n', "\\n");
        format!(
            r#",{{"role":"assistant","content":[{{"type":"thinking","thinking":"hm {id}","signature":"c2ln"}},{{"type":"tool_use","id":"t{id}","name":"f","input":{{}}}}]}},{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t{id}","content":"{body}"}}]}}"#
        )
    };
    let turns: String = (0..8).map(turn).collect();
    let rest = r#",{"role":"assistant","content":"done"},{"role":"user","content":"on"}"#;
    format!(r#"{{{settings},"messages":[{{"role":"user","content":"go"}}{turns}{rest}]}}"#)
}

fn planned(conversation: &Conversation) -> Plan {
    let budget = Budget::of(Tokens(count(conversation, o200k()).0 * 6 / 10));
    let history = conversation.history(fixed(conversation, o200k()));
    plan(&history, &budget, &PlanSettings::default(), o200k())
}

/// How many blocks of thinking a window leaves out of messages that it shows.
fn unthinks(conversation: &Conversation, plan: &Plan) -> usize {
    let window =
        project(&conversation.path(), std::slice::from_ref(&plan.batch), conversation.wire());
    let removed = window.messages.iter().map(|shown| match shown {
        Shown::Changed(changes) => {
            changes.iter().filter(|(_, change)| *change == Change::Removed).count()
        }
        Shown::Unchanged | Shown::Folded => 0,
    });
    removed.sum()
}

#[test]
fn what_a_request_says_of_thinking_is_known() {
    let check = |settings: &str, binding: Binding| {
        let json = looped(settings);
        assert_eq!(parse(&json, Some(Dialect::Anthropic)).binding(), binding, "{settings}");
        assert_eq!(keep_thinking(&json).is_some(), binding == Binding::Switch, "{settings}");
    };
    check(r#""model":"claude-opus-5-5","thinking":{"type":"adaptive"}"#, Binding::Switch);
    check(r#""thinking":{ "type" : "adaptive" },"model":"claude-fable-5-1""#, Binding::Switch);
    check(r#""model":"claude-opus-5","thinking":{"type":"adaptive"}"#, Binding::Removed);
    check(
        r#""model":"claude-opus-5-5","thinking":{"type":"enabled","budget_tokens":2000}"#,
        Binding::Removed,
    );
    check(r#""model":"claude-opus-5-5""#, Binding::Removed);
    check(r#""model":"claude-opus-5-5","thinking":null"#, Binding::Removed);
    check(r#""model":"claude-opus-5-5","thinking":[{"type":"adaptive"}]"#, Binding::Removed);
    check(&format!(r#""model":"claude-x","thinking":{{"type":"adaptive",{DROP}}}"#), Binding::Free);
    // Who asks for an error gets none from us.
    check(
        r#""model":"claude-opus-5-5","thinking":{"type":"adaptive","block_binding":{"prefix_mismatch_behavior":"error"}}"#,
        Binding::Removed,
    );
    let chat = parse(r#"[{"role":"user","content":"hi"}]"#, Some(Dialect::Chat));
    assert_eq!(chat.binding(), Binding::Free);
}

#[test]
fn thinking_that_is_bound_is_taken_out_unless_the_provider_drops_it() {
    let adaptive = r#""model":"claude-opus-5-5","thinking":{"type":"adaptive"}"#;
    let mut conversation = parse(&looped(adaptive), None);
    assert!(unthinks(&conversation, &planned(&conversation)) > 0);
    assert!(conversation.keep_thinking());
    let plan = planned(&conversation);
    assert!(!plan.is_noop() && unthinks(&conversation, &plan) == 0);
    let window = conversation.apply(&[plan.batch]);
    assert!(window.contains(&format!(r#""thinking":{{"type":"adaptive",{DROP}}},"#)), "{window}");
    assert_eq!(conversation.apply(&[]), looped(adaptive), "what is not edited needs no switch");

    // The next plan finds the switch and leaves it.
    let shown = parse(&window, None);
    assert_eq!((shown.binding(), graves(&shown)), (Binding::Free, Vec::new()));
    assert_eq!(unthinks(&shown, &planned(&shown)), 0);
    assert_eq!(keep_thinking(&window), None);

    // While the loop is open its thinking stays: the provider refuses a loop without it.
    let open = looped(adaptive)
        .replace(r#",{"role":"assistant","content":"done"},{"role":"user","content":"on"}"#, "");
    let open = parse(&open, None);
    let plan = planned(&open);
    assert!(!plan.is_noop() && unthinks(&open, &plan) == 0);

    let mut old =
        parse(&looped(r#""model":"claude-opus-4-8","thinking":{"type":"adaptive"}"#), None);
    assert!(!old.keep_thinking() && unthinks(&old, &planned(&old)) > 0);
}

#[test]
fn the_switch_is_spliced_in() {
    let request = "\u{feff}{ \"thinking\" : { \"type\":\"adaptive\" , \"n\":1.0 } ,\"model\":\"claude-sonnet-5-5\", \"messages\":[] }";
    let switched = request.replace("1.0", &format!("1.0,{DROP}"));
    assert_eq!(keep_thinking(request), Some(switched));
    assert_eq!(keep_thinking("{"), None);
    assert_eq!(keep_thinking("[]"), None);
}

#[test]
fn calls_without_reasoning_get_an_empty_one_where_the_model_wants_it() {
    let call = |id: &str, more: &str| {
        format!(
            r#"{{"role":"assistant","content":null,"tool_calls":[{{"id":"{id}","type":"function","function":{{"name":"f","arguments":"{{}}"}}}}]{more}}},{{"role":"tool","tool_call_id":"{id}","content":"r"}}"#
        )
    };
    let request = |model: &str, calls: [String; 4], last: &str| {
        format!(
            r#"{{"model":"{model}","messages":[{{"role":"user","content":"a"}},{},{{"role":"assistant","content":"{last}"}}]}}"#,
            calls.join(",")
        )
    };
    let given = [r#","reasoning_content":"hm""#, r#","reasoning":"hm""#];
    let calls = [
        call("1", ""),
        call("2", given[0]),
        call("3", given[1]),
        call("4", r#","reasoning_content":null"#),
    ];
    let empty = r#","reasoning_content":"""#;
    let filled = [call("1", empty), call("2", given[0]), call("3", given[1]), call("4", empty)];
    let edits = [replace(9, 0, "x")];
    for (model, expected) in
        [("deepseek-v4", filled.clone()), ("kimi-k2.5", filled), ("gpt-4o", calls.clone())]
    {
        let conversation = parse(&request(model, calls.clone(), "b"), Some(Dialect::Chat));
        assert_eq!(render(&conversation, &edits), request(model, expected, "x"));
        assert_eq!(conversation.apply(&[]), request(model, calls.clone(), "b"));
    }
    // Beside a fold, too; what is folded needs none.
    let conversation = parse(&request("deepseek-v4", calls, "b"), Some(Dialect::Chat));
    let window = render(&conversation, &[fold(&[(1, 3)], "x")]);
    assert_eq!(window.matches("reasoning_content").count(), 2, "{window}");
    assert_eq!(graves(&parse(&window, None)), Vec::<String>::new());
}

#[test]
fn reasoning_items_and_what_they_led_to_leave_together() {
    let words = "word ".repeat(80);
    let item = |id: usize| {
        let led_to = match id % 3 {
            0 => format!(
                r#"{{"type":"function_call","id":"fc_{id}","call_id":"c{id}","name":"f","arguments":"{{}}"}},{{"type":"function_call_output","call_id":"c{id}","output":"{words}"}}"#
            ),
            1 => format!(
                r#"{{"type":"message","id":"msg_{id}","role":"assistant","content":[{{"type":"output_text","text":"{words}","annotations":[]}}]}}"#
            ),
            _ => format!(
                r#"{{"type":"custom_tool_call","id":"ct_{id}","call_id":"c{id}","name":"f","input":"{words}"}},{{"type":"custom_tool_call_output","call_id":"c{id}","output":"r"}},{{"role":"user","content":"{words}"}}"#
            ),
        };
        format!(
            r#",{{"type":"reasoning","id":"rs_{id}","summary":[],"encrypted_content":"{words}"}},{led_to}"#
        )
    };
    let items: String = (0..9).map(item).collect();
    let json = format!(r#"{{"input":[{{"role":"user","content":"go"}}{items}]}}"#);
    let whole = count(&parse(&json, None), o200k()).0;
    for (percent, policy) in (1..100).step_by(3).flat_map(|at| POLICIES.map(|policy| (at, policy)))
    {
        let settings = PlanSettings { policy, ..PlanSettings::default() };
        let budget = Budget::of(Tokens((whole * percent / 100).max(1)));
        let made = compact(&json, Some(Dialect::Responses), &budget, &settings, o200k());
        assert_eq!(graves(&made.after), Vec::<String>::new());
        for id in 0..9 {
            let led_to = ["fc", "msg", "ct"][id % 3];
            let has = |kind: &str| made.text.contains(&format!(r#""{kind}_{id}""#));
            assert_eq!(has("rs"), has(led_to), "{policy:?} at {percent}%: {id}");
        }
        let is_reasoning = |part: &Part| matches!(part, Part::Thinking(_));
        let last = made.after.messages.last();
        assert!(last.is_none_or(|last| !last.parts.iter().any(is_reasoning)));
    }
}

/// A reply that broke off while it was thinking says nothing once its thinking is void.
#[test]
fn a_reply_of_nothing_but_void_thinking_is_not_shown() {
    let output = "line of a log\\n".repeat(300);
    let json = format!(
        r#"{{"model":"claude-opus-5-5","max_tokens":4096,"messages":[{{"role":"user","content":"go"}},{{"role":"assistant","content":[{{"type":"tool_use","id":"t1","name":"f","input":{{}}}}]}},{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t1","content":"{output}"}}]}},{{"role":"assistant","content":[{{"type":"thinking","thinking":"hm","signature":"c2ln"}}]}},{{"role":"user","content":"And?"}},{{"role":"assistant","content":"Done."}},{{"role":"user","content":"thanks"}},{{"role":"assistant","content":"ok"}},{{"role":"user","content":"bye"}}]}}"#
    );
    let budget = Budget::of(Tokens(400));
    let compacted =
        compact(&json, Some(Dialect::Anthropic), &budget, &PlanSettings::default(), o200k());
    assert!(!compacted.plan.is_noop() && compacted.plan.fits(), "{}", compacted.plan);
    assert!(!compacted.text.contains("signature"), "{}", compacted.text);
    assert_eq!(graves(&compacted.after), Vec::<String>::new());
    assert!(compacted.text.contains("And?") && compacted.text.contains("bye"));
}

/// Only the loop that is open keeps its thinking, however many came before it.
#[test]
fn thinking_before_the_open_loop_is_void() {
    let output = "line of a log\\n".repeat(600);
    let call = |id: u8, before: &str| {
        format!(
            r#"{{"role":"assistant","content":[{before}{{"type":"tool_use","id":"t{id}","name":"f","input":{{}}}}]}}"#
        )
    };
    let result = |id: u8, text: &str| {
        format!(
            r#"{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t{id}","content":"{text}"}}]}}"#
        )
    };
    let thinking =
        |seal: &str| format!(r#"{{"type":"thinking","thinking":"hm","signature":"{seal}"}},"#);
    let json = format!(
        r#"{{"model":"claude-opus-5-5","max_tokens":4096,"messages":[{{"role":"user","content":"go"}},{},{},{{"role":"assistant","content":[{}{{"type":"text","text":"Done."}}]}},{{"role":"user","content":"again"}},{},{}]}}"#,
        call(1, ""),
        result(1, &output),
        thinking("b2xk"),
        call(2, &thinking("bmV3")),
        result(2, "ok"),
    );
    let budget = Budget::of(Tokens(600));
    let compacted =
        compact(&json, Some(Dialect::Anthropic), &budget, &PlanSettings::default(), o200k());
    assert!(!compacted.plan.is_noop() && compacted.plan.fits(), "{}", compacted.plan);
    assert!(!compacted.text.contains("b2xk"), "{}", compacted.text);
    assert!(compacted.text.contains("bmV3"), "{}", compacted.text);
}
