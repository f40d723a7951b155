//! Tool loops against a scripted server, until far over the budget.

use longhand_testkit::scripted::{ScriptStep, ScriptedCall, ScriptedReply, ScriptedServer};
use serde_json::{Value, json};

use crate::client::{APIS, ClientApi, ClientLanguage, clients};
use crate::facts::{assert_valid, facts, tokens};
use crate::proxy::TestedProxy;

const BUDGET: u64 = 4_000;
const TURNS: usize = 30;

/// Two calls, then three with words before them, then an answer, and so on.
fn reply(turn: usize, mode: &str) -> ScriptedReply {
    let calls = [2, 3, 0][turn % 3];
    let text = match turn % 3 {
        0 => String::new(),
        1 => format!("I look further, \"{turn}\"."),
        _ => answer(turn),
    };
    let call = |number| ScriptedCall {
        id: format!("call_{mode}_{turn}_{number}"),
        name: "look_up".to_owned(),
        arguments: json!({"topic": format!("topic {turn}.{number} of \"ü\" \\ {mode}")}),
    };
    ScriptedReply {
        id: format!("reply_{mode}_{turn}"),
        text,
        calls: (0..calls).map(call).collect(),
        ..ScriptedReply::default()
    }
}

fn answer(turn: usize) -> String {
    format!("It is said in note {turn}:\n\t“häh?” 🦀")
}

fn script(turns: usize, mode: &str) -> Vec<ScriptStep> {
    (0..turns).map(|turn| ScriptStep::Reply(reply(turn, mode))).collect()
}

/// Makes sure that a client saw what the script says.
fn assert_seen(seen: &Value, turns: usize, mode: &str) {
    for turn in 0..turns {
        let reply = reply(turn, mode);
        let ids: Vec<String> = reply.calls.into_iter().map(|call| call.id).collect();
        assert_eq!(seen["answers"][turn], reply.text);
        assert_eq!(seen["calls"][turn], json!(ids));
    }
}

/// Runs one loop whole and one in events; both must fit, be valid and be archived once.
fn check_with(client: &ClientLanguage, api: ClientApi) {
    let modes = [("whole", ""), ("events", "--stream")];
    let server = ScriptedServer::start(modes.iter().flat_map(|(mode, _)| script(TURNS, mode)));
    let proxy = TestedProxy::start(&server.url(), BUDGET);
    let mut told = Vec::new();
    for (mode, option) in modes {
        let arguments = format!("{} {} {TURNS} --key sk-{mode} {option}", proxy.url, api.name);
        let seen = client.run("agent", &arguments);
        assert_seen(&seen, TURNS, mode);
        let history = tokens(api.dialect, &seen["history"].to_string());
        assert!(history.0 > 5 * BUDGET, "{history}");
        told.push(facts(api.dialect, &seen["history"]));
    }
    let requests = server.requests();
    assert_eq!(requests.len(), 2 * TURNS);
    for request in requests {
        assert_valid(api.dialect, &request.body);
        let tokens = tokens(api.dialect, &request.body);
        assert!(tokens.0 <= BUDGET, "{tokens}");
    }
    let mut archived = proxy.archived();
    archived.sort();
    told.sort();
    assert_eq!(archived, told);
}

fn check(api: ClientApi) {
    for client in clients() {
        check_with(&client, api);
    }
}

#[test]
fn chat_completions() {
    check(APIS[0]);
}

#[test]
fn responses() {
    check(APIS[1]);
}

#[test]
fn messages() {
    check(APIS[2]);
}

#[test]
fn responses_with_a_history_that_the_server_holds() {
    const TURNS: usize = 6;
    for client in clients() {
        for (mode, option) in [("whole", ""), ("events", "--stream")] {
            let server = ScriptedServer::start(script(TURNS, mode));
            let proxy = TestedProxy::start(&server.url(), BUDGET);
            let arguments = format!("{} responses {TURNS} --held {option}", proxy.url);
            let seen = client.run("agent", &arguments);
            assert_seen(&seen, TURNS, mode);
            // What goes on from an answer goes on in its session.
            assert_eq!(proxy.archived(), [facts(APIS[1].dialect, &seen["history"])]);
        }
    }
}
