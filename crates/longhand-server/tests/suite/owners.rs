//! A session belongs to whoever began it: nobody else reads it or writes into it, on any way in.
use std::sync::Arc;

use crate::common::{Stage, assistant, reopened, says, sessions, sqlite, user};
use longhand::{Archive, Owner, SessionId, Tokens};
use longhand_archive::NewSession;
use longhand_server::{HeaderName, Settings};
use longhand_testkit::scripted::{ScriptStep, ScriptedCall, ScriptedReply};
use serde_json::{Value, json};

const SECRET: &str = "the vault opens with axolotl 4711";

/// How keys are sent: a header with the key in it, or the end of the address.
const FORMS: [(&str, &str); 7] = [
    ("authorization", "Bearer KEY"),
    ("x-api-key", "KEY"),
    ("x-goog-api-key", "KEY"),
    ("api-key", "KEY"),
    ("x-team-key", "KEY"),
    ("x-longhand-key", "KEY"),
    ("?", "key=KEY"),
];

fn set(settings: &mut Settings, archive: &Arc<dyn Archive>) {
    settings.archive = Arc::clone(archive);
    settings.budget = Some(Tokens(1_500));
    settings.expand_tool = true;
    settings.credential_headers = vec![HeaderName::from_static("x-team-key")];
}

/// A long conversation whose first answer has the secret.
fn conversation(rounds: usize) -> Vec<Value> {
    let mut messages = vec![user("Remember this."), assistant(&format!("I will: {SECRET}."))];
    for round in 0..rounds {
        messages.push(user(&format!("Round {round}: {}", "what of this and that? ".repeat(20))));
        messages.push(assistant(&format!("Answer {round}: {}", "this and that. ".repeat(20))));
    }
    messages.push(user("And now?"));
    messages
}

/// An answer that asks for something of ours.
fn recalls(arguments: Value) -> ScriptStep {
    let call = ScriptedCall { id: "call_1".into(), name: "longhand_recall".into(), arguments };
    ScriptStep::Reply(ScriptedReply {
        id: "r".into(),
        calls: vec![call],
        ..ScriptedReply::default()
    })
}

async fn ask(
    stage: &Stage,
    path: &str,
    (name, value): (&str, &str),
    key: Option<&str>,
    session: Option<&str>,
    body: &Value,
) -> u16 {
    let query = match key {
        Some(key) if name == "?" => format!("?{}", value.replace("KEY", key)),
        _ => String::new(),
    };
    let mut call = stage.client.post(stage.url(&format!("{path}{query}")));
    if let Some(key) = key.filter(|_| name != "?") {
        call = call.header(name, &value.replace("KEY", key));
    }
    if let Some(session) = session {
        call = call.header("x-longhand-session", session);
    }
    let answer = call.body(body.to_string()).send().await.unwrap();
    let status = answer.status().as_u16();
    answer.text().await.unwrap();
    status
}

fn body(path: &str, messages: &[Value]) -> Value {
    let list = if path == "/v1/responses" { "input" } else { "messages" };
    json!({"model": "scripted", "max_tokens": 100, list: messages})
}

/// What of the archive belongs to an owner: entries, batches and request lines of each session.
fn held_by(archive: &dyn Archive, owner: Owner) -> Vec<String> {
    let all = sessions(archive).into_iter().filter(|session| session.owner == owner);
    all.map(|session| {
        let entries = archive.entries(session.id, 0..u64::MAX).unwrap();
        let batches = archive.batches(session.id, longhand_archive::Page::ALL).unwrap().items;
        let requests = archive.requests(session.id, longhand_archive::Page::ALL).unwrap().items;
        format!("{} {entries:?} {batches:?} {requests:?}", session.name)
    })
    .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_else_reads_or_writes_a_session_even_after_a_restart() {
    for form in FORMS {
        // Both at once, or one core would be idle while this long test is the last.
        tokio::join!(attack(form, None), attack(form, Some("task")));
    }
}

/// Tries to reach a session with other keys than its owner's.
async fn attack(form: (&str, &str), named: Option<&str>) {
    let path = "/v1/chat/completions";
    let (folder, archive) = sqlite();
    let stage = Stage::with(vec![says("Noted."); 2], |settings| set(settings, &archive)).await;
    for rounds in [8, 9] {
        let request = body(path, &conversation(rounds));
        assert_eq!(ask(&stage, path, form, Some("victim"), named, &request).await, 200);
    }
    let shown = stage.sent().pop().unwrap();
    assert!(!shown.contains(SECRET), "it is out of sight: {shown}");
    let handle = shown.split("h:").nth(1).map(|rest| format!("h:{}", &rest[..12])).unwrap();
    stage.proxy.stop().await;
    let victim = sessions(&*archive)[0].clone();
    let before = held_by(&*archive, victim.owner);
    assert_ne!(victim.owner, Owner::LOCAL, "{form:?}");
    drop(archive);

    // Whoever comes first after a restart finds nothing in memory.
    let archive = reopened(&folder);
    let asked = [json!({"handle": handle}), json!({"handle": "e:1"}), json!({"query": "axolotl"})];
    let mut rounds = 0;
    for attacker in [None, Some(""), Some("thief"), Some("victi"), Some("Victim")] {
        for session in [None, Some(victim.name.clone()), Some(victim.id.to_string())] {
            let steps = asked.iter().map(|call| recalls(call.clone()));
            let steps: Vec<ScriptStep> = steps.flat_map(|call| [call, says("Hm.")]).collect();
            let stage = Stage::with(steps, |settings| set(settings, &archive)).await;
            let session = session.as_deref();
            // The first message alone, the beginning without the secret, and its end.
            let first = vec![user("Remember this.")];
            let begins = vec![user("Remember this."), user("And now?")];
            let ends = conversation(9).split_off(2);
            for messages in [&first, &begins, &ends] {
                rounds += 1;
                ask(&stage, path, form, attacker, session, &body(path, messages)).await;
            }
            for sent in stage.sent() {
                assert!(!sent.contains("4711"), "{form:?} {attacker:?} {session:?}: {sent}");
            }
            stage.proxy.stop().await;
        }
    }
    assert_eq!(rounds, 45);
    assert_eq!(held_by(&*archive, victim.owner), before, "{form:?} {named:?}");

    // The owner has it all, in any form of the key.
    let stage =
        Stage::with([recalls(asked[2].clone()), says("Yes.")], |settings| set(settings, &archive))
            .await;
    let request = body(path, &conversation(10));
    assert_eq!(ask(&stage, path, FORMS[1], Some("victim"), named, &request).await, 200);
    assert!(stage.sent().pop().unwrap().contains("4711"), "{form:?}");
    stage.proxy.stop().await;
    let victims = sessions(&*archive).into_iter().filter(|session| session.owner == victim.owner);
    assert_eq!(victims.count(), 1, "{form:?}");
}

#[tokio::test]
async fn answers_that_a_provider_holds_are_their_owner_s() {
    let path = "/v1/responses";
    let message = json!({"type": "message", "id": "m", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": SECRET, "annotations": []}]});
    let answer = json!({"id": "resp_1", "object": "response", "status": "completed",
        "model": "scripted", "output": [message], "usage": {"input_tokens": 10, "output_tokens": 5}});
    let kind = vec![("content-type", "application/json".to_owned())];
    let (folder, archive) = sqlite();
    let steps = [ScriptStep::Raw(200, kind, answer.to_string())];
    let stage = Stage::with(steps, |settings| set(settings, &archive)).await;
    let first = body(path, &[user("Remember this.")]);
    ask(&stage, path, FORMS[0], Some("victim"), None, &first).await;
    stage.proxy.stop().await;
    let victim = sessions(&*archive)[0].clone();
    let before = held_by(&*archive, victim.owner);
    drop(archive);
    let archive = reopened(&folder);
    let long = "what of this and that? ".repeat(400);
    let going_on = json!({"model": "scripted", "previous_response_id": "resp_1", "input": long});
    for (key, session) in [
        (None, None),
        (Some("thief"), None),
        (None, Some("resp_1")),
        (Some("thief"), Some("›resp_1")),
    ] {
        let steps = [recalls(json!({"handle": "e:1"})), says("Hm.")];
        let stage = Stage::with(steps, |settings| set(settings, &archive)).await;
        let session = session.filter(|name: &&str| name.is_ascii());
        ask(&stage, path, FORMS[0], key, session, &going_on).await;
        for sent in stage.sent() {
            assert!(!sent.contains("4711"), "{key:?} {session:?}: {sent}");
        }
        stage.proxy.stop().await;
    }
    assert_eq!(held_by(&*archive, victim.owner), before);
    let steps = [recalls(json!({"handle": "e:1"})), says("Yes.")];
    let stage = Stage::with(steps, |settings| set(settings, &archive)).await;
    ask(&stage, path, FORMS[0], Some("victim"), None, &going_on).await;
    assert!(stage.sent().pop().unwrap().contains("4711"), "its owner goes on from it");
}

/// An id is a hash of owner and name; should two ever be alike, the owner in the archive decides.
#[tokio::test]
async fn an_archived_session_of_another_owner_is_not_used_whatever_its_id() {
    let path = "/v1/chat/completions";
    for require in [false, true] {
        let (_folder, archive) = sqlite();
        let id = SessionId::named(Owner::LOCAL, "task");
        let theirs =
            NewSession { owner: Owner::of("victim"), name: "task".into(), ..NewSession::default() };
        archive.begin(id, &theirs).unwrap();
        let entry = longhand::driver::new_entry("chat", user(SECRET).to_string(), true, 0).unwrap();
        archive.append(id, longhand_archive::After::Newest, &[entry]).unwrap();
        let before = held_by(&*archive, theirs.owner);
        let steps = [recalls(json!({"handle": "e:0"})), says("Hm.")];
        let stage = Stage::with(steps, |settings| {
            set(settings, &archive);
            settings.require_archive = require;
        })
        .await;
        let request = body(path, &[user("And now?")]);
        let expected = if require { 503 } else { 200 };
        for _ in 0..2 {
            let status = ask(&stage, path, FORMS[0], None, Some("task"), &request).await;
            assert_eq!(status, expected);
        }
        assert!(stage.sent().iter().all(|sent| !sent.contains("4711")));
        assert_eq!(stage.sent().len(), if require { 0 } else { 2 });
        stage.proxy.stop().await;
        assert_eq!(held_by(&*archive, theirs.owner), before);
    }
}

/// A token with claims, as a provider's login issues it.
fn token(claims: &Value) -> String {
    let piece = |json: &Value| {
        let bits: String = json.to_string().bytes().map(|byte| format!("{byte:08b}")).collect();
        let alphabet: Vec<char> =
            ('A'..='Z').chain('a'..='z').chain('0'..='9').chain(['-', '_']).collect();
        let digits = bits.as_bytes().chunks(6).map(|bits| {
            let bits = format!("{:0<6}", String::from_utf8_lossy(bits));
            alphabet[usize::from_str_radix(&bits, 2).unwrap()]
        });
        digits.collect::<String>()
    };
    format!("{}.{}.c2ln", piece(&json!({"alg": "RS256"})), piece(claims))
}

/// The key of each turn.
type Key = Box<dyn Fn(u64) -> String>;

#[tokio::test]
async fn a_token_that_is_renewed_in_mid_session_leaves_one_session_and_its_edits() {
    let jwt = |end: u64| {
        token(&json!({"iss": "https://auth.example", "sub": "ann", "exp": end, "jti": end}))
    };
    let kinds: [(&str, Key); 3] = [
        ("a subscription", Box::new(|turn| format!("sk-ant-oat01-token-number-{turn}"))),
        ("a login", Box::new(jwt)),
        ("Longhand's key", Box::new(|turn| format!("sk-provider-{turn}"))),
    ];
    let path = "/v1/chat/completions";
    for (kind, key) in kinds {
        let (_folder, archive) = sqlite();
        let stage = Stage::with(vec![says("Noted."); 4], |settings| {
            set(settings, &archive);
            settings.expand_tool = false;
            if kind == "Longhand's key" {
                settings.keys = vec!["ours".to_owned()];
            }
        })
        .await;
        for turn in 0..4 {
            let request = body(path, &conversation(8 + turn as usize));
            let call = stage.client.post(stage.url(path)).header("x-longhand-key", "ours");
            let call = call.bearer_auth(&key(turn)).body(request.to_string());
            let answer = call.send().await.unwrap();
            assert_eq!(answer.status().as_u16(), 200);
            answer.text().await.unwrap();
        }
        let batches = stage.proxy.counts().batches;
        stage.proxy.stop().await;
        let sessions = sessions(&*archive);
        assert_eq!(sessions.len(), 1, "{kind}: {sessions:?}");
        // Edits are made once and hold: nothing begins anew with a new token.
        assert!(batches < 3, "{kind}: {batches}");
        let entries = archive.entries(sessions[0].id, 0..u64::MAX).unwrap();
        let secrets = entries.iter().filter(|entry| entry.raw.contains(SECRET)).count();
        assert_eq!(secrets, 1, "{kind}: every word stands once");
    }
}

#[tokio::test]
async fn an_owner_that_is_set_is_every_caller_s() {
    let (_folder, archive) = sqlite();
    let stage = Stage::with(vec![says("Noted."); 7], |settings| {
        set(settings, &archive);
        settings.owner = Some(Owner::LOCAL);
    })
    .await;
    let path = "/v1/chat/completions";
    for (turn, form) in FORMS.into_iter().enumerate() {
        let key = format!("key-{turn}");
        let request = body(path, &conversation(turn));
        assert_eq!(ask(&stage, path, form, Some(&key), None, &request).await, 200);
    }
    stage.proxy.stop().await;
    let sessions = sessions(&*archive);
    assert_eq!((sessions.len(), sessions[0].owner), (1, Owner::LOCAL));
}

#[tokio::test]
async fn off_loopback_a_key_of_ours_is_needed() {
    let start = async |change: fn(&mut Settings)| {
        let (_folder, archive) = sqlite();
        let mut settings = Settings::new(archive);
        settings.listen = "0.0.0.0:0".parse().unwrap();
        settings.upstream_openai = Some("http://127.0.0.1:9".to_owned());
        change(&mut settings);
        longhand_server::serve(settings).await
    };
    let error = start(|_| {}).await.expect_err("nobody asked to let anyone in").to_string();
    assert!(error.contains("key"), "{error}");
    for change in
        [(|settings| settings.keys = vec!["ours".to_owned()]) as fn(&mut Settings), |settings| {
            settings.open_to_all = true;
        }]
    {
        start(change).await.unwrap().stop().await;
    }
}
