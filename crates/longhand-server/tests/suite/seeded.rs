//! Clients at random against a proxy: whatever they do, windows are valid and nothing is lost.
//!
//! `LONGHAND_SEEDS` is how many histories are played in each format; a failure names its seed, and
//! `LONGHAND_SEED` plays that one alone. `LONGHAND_SEED_FIRST` is the first of many.
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::raw::{RawServer, whole};
use crate::common::{PATHS, Stage, faults, is_prefix, sqlite, told_on_paths, user, words};
use longhand::{Archive, MemoryArchive, Tokens};
use longhand_testkit::faulty::{Fault, Faulty};
use longhand_testkit::rng::Rng;
use serde_json::{Value, json};

const BUDGET: u64 = 1_500;
const TURNS: usize = 25;

/// A client's conversation, as far as the client knows.
#[derive(Clone, Default)]
struct Chat {
    messages: Vec<Value>,
    /// What was last sent for it, if it only grew since.
    sent: String,
    /// How many batches there were then.
    batches: u64,
    /// The session of its last request, and what it knew then.
    session: String,
    known: Vec<Value>,
}

struct Play {
    path: &'static str,
    rng: Rng,
    upstream: RawServer,
    /// What the upstream answers next.
    answers: Arc<Mutex<VecDeque<String>>>,
    archive: Arc<Faulty>,
    stage: Stage,
    said: usize,
    /// Whether the client writes its JSON otherwise today.
    is_odd: bool,
    /// The batches of proxies that were stopped.
    past: u64,
}

impl Play {
    async fn new(path: &'static str, seed: u64, store: &Arc<dyn Archive>) -> Self {
        let archive = Arc::new(Faulty::new(Arc::clone(store), Fault::None));
        let answers: Arc<Mutex<VecDeque<String>>> = Arc::default();
        let scripted_answers = Arc::clone(&answers);
        let upstream = RawServer::start(move |_| {
            whole(
                "application/json",
                &scripted_answers.lock().unwrap().pop_front().unwrap_or_default(),
            )
        });
        let stage = stage(&archive, &upstream).await;
        Self {
            path,
            rng: Rng::new(seed),
            upstream,
            answers,
            archive,
            stage,
            said: 0,
            is_odd: false,
            past: 0,
        }
    }

    /// Something new to say, of any length.
    fn words(&mut self, of: &str) -> String {
        self.said += 1;
        let length = *self.rng.choose(&[1, 3, 10, 30]);
        format!("{of} {}: {}.", self.said, "this and that is well, ".repeat(length))
    }

    /// What the model says next.
    fn message(&mut self) -> Value {
        let words = self.words("Answer");
        let id = format!("call_{}", self.said);
        let input =
            json!({"path": format!("src/{}.rs", self.said), "deep": {"z": 1, "a": [1.5, null]}});
        let calls = self.rng.chance(0.5);
        match (self.path, calls) {
            ("/v1/messages", false) => {
                json!({"role": "assistant", "content": [{"type": "text", "text": words}]})
            }
            ("/v1/messages", true) => {
                json!({"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": "read", "input": input}]})
            }
            ("/v1/responses", false) => {
                json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": words}]})
            }
            ("/v1/responses", true) => {
                json!({"type": "function_call", "call_id": id, "name": "read", "arguments": input.to_string()})
            }
            (_, false) => json!({"role": "assistant", "content": words}),
            _ => {
                json!({"role": "assistant", "content": null, "tool_calls": [{"id": id, "type": "function", "function": {"name": "read", "arguments": input.to_string()}}]})
            }
        }
    }

    /// What a client says after a message of the model.
    fn next(&mut self, after: &Value) -> Value {
        let output = self.words("Result");
        let chat_call = &after["tool_calls"][0]["id"];
        let call = &after["content"][0]["id"];
        if chat_call.is_string() {
            json!({"role": "tool", "tool_call_id": chat_call, "content": output})
        } else if after["call_id"].is_string() {
            json!({"type": "function_call_output", "call_id": after["call_id"], "output": output})
        } else if call.is_string() {
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": call, "content": output}]})
        } else {
            user(&self.words("Question"))
        }
    }

    /// A request as this client writes it today.
    fn body(&self, chat: &Chat, system: &str) -> String {
        let mut messages = chat.messages.clone();
        let mut body = json!({"model": "scripted", "max_tokens": 100});
        match self.path {
            "/v1/messages" => {
                body["system"] = json!(system);
                body["messages"] = json!(messages);
            }
            "/v1/responses" => {
                body["instructions"] = json!(system);
                body["input"] = json!(messages);
            }
            _ => {
                messages.insert(0, json!({"role": "system", "content": system}));
                body["messages"] = json!(messages);
            }
        }
        if !self.is_odd {
            return body.to_string();
        }
        if let Some(last) = body["messages"].as_array_mut().and_then(|all| all.last_mut())
            && last["content"].is_array()
        {
            last["content"][0]["cache_control"] = json!({"type": "ephemeral"});
        }
        body.sort_all_objects();
        serde_json::to_string_pretty(&body).unwrap()
    }

    /// Asks with what a chat has so far; gives what the model says.
    async fn ask(&mut self, chat: &mut Chat, system: &str) -> Value {
        let message = self.message();
        let answer = match self.path {
            "/v1/messages" => {
                json!({"type": "message", "role": "assistant", "content": message["content"], "stop_reason": "end_turn"})
            }
            "/v1/responses" => json!({"status": "completed", "output": [message]}),
            _ => json!({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}),
        };
        self.answers.lock().unwrap().push_back(answer.to_string());
        let body = self.body(chat, system);
        let response = self.stage.post(self.path, &body).await;
        assert_eq!(response.status(), 200);
        let header = |name: &str| {
            let value =
                response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
            value.unwrap_or_default()
        };
        assert_ne!(header("x-longhand"), "bypassed");
        // What fits by its bytes alone is not counted.
        let after: u64 = header("x-longhand-tokens-after").parse().unwrap_or(0);
        let short = header("x-longhand-shortfall");
        assert!(after <= BUDGET || !short.is_empty(), "{after} tokens and not a word of it");
        chat.session = header("x-longhand-session");
        response.text().await.unwrap();
        let sent = String::from_utf8(self.upstream.got().pop().unwrap().body).unwrap();
        let wrong = faults(self.path, &sent);
        assert!(wrong.is_empty(), "{wrong:?}");
        // A side call or a fork may have made it.
        let batches = self.past + self.stage.proxy.counts().batches;
        let made = std::mem::replace(&mut chat.batches, batches) < batches;
        assert!(made || is_prefix(&chat.sent, &sent), "the prefix broke without a batch");
        chat.sent = sent;
        chat.known.clone_from(&chat.messages);
        chat.known.push(message.clone());
        message
    }

    /// Another proxy on the same archive.
    async fn restart(&mut self) {
        let stage = stage(&self.archive, &self.upstream).await;
        self.past += self.stage.proxy.counts().batches;
        std::mem::replace(&mut self.stage, stage).proxy.stop().await;
    }
}

async fn stage(archive: &Arc<Faulty>, upstream: &RawServer) -> Stage {
    let archive = Arc::clone(archive);
    Stage::with([], |settings| {
        settings.archive = archive;
        settings.budget = Some(Tokens(BUDGET));
        settings.upstream_openai = Some(upstream.url());
        settings.upstream_anthropic = Some(upstream.url());
    })
    .await
}

/// The words of messages as a client has them.
fn words_of(path: &str, messages: &[Value]) -> Vec<String> {
    words(path, &messages.iter().map(Value::to_string).collect::<Vec<_>>())
}

async fn play(path: &'static str, seed: u64, store: Arc<dyn Archive>, waits: bool) {
    let mut play = Play::new(path, seed, &store).await;
    let mut chats: Vec<Chat> = Vec::new();
    let mut failed = false;
    for _ in 0..TURNS {
        if chats.is_empty() || play.rng.chance(0.08) {
            let first = user(&play.words("Beginning"));
            chats.push(Chat { messages: vec![first], ..Chat::default() });
        }
        let at = play.rng.range(0..chats.len());
        let mut chat = chats[at].clone();
        match play.rng.range(0..12) {
            // A title for it; nobody keeps the answer.
            0 => {
                let mut aside = Chat { sent: String::new(), ..chat.clone() };
                play.ask(&mut aside, "Give this a title.").await;
            }
            // Another answer to the same.
            1 => {
                play.ask(&mut chat, "Be brief.").await;
                (chats[at].sent, chats[at].batches) = (chat.sent, chat.batches);
            }
            // Back to an earlier question, asked otherwise; both go on.
            2 if chat.messages.len() > 3 => {
                let users: Vec<usize> = (0..chat.messages.len())
                    .filter(|at| {
                        chat.messages[*at]["role"] == "user"
                            && chat.messages[*at]["content"].is_string()
                    })
                    .collect();
                let from = *play.rng.choose(&users);
                let mut fork = Chat { messages: chat.messages[..from].to_vec(), ..Chat::default() };
                fork.messages.push(user(&play.words("Otherwise")));
                chats.push(fork);
            }
            3 => {
                play.restart().await;
            }
            // Nothing can be written for a while, which takes time: not in every history.
            4 if seed % 3 == 2 && !failed => {
                failed = true;
                play.archive.set(Fault::ReadOnly);
                let message = play.ask(&mut chat, "Be brief.").await;
                let next = play.next(&message);
                chat.messages.extend([message, next]);
                chats[at] = chat;
                tokio::time::sleep(Duration::from_secs(2)).await;
                play.archive.set(Fault::None);
                if waits {
                    play.restart().await;
                }
            }
            // The same in other words of JSON, with marks; the prefix is not what it was.
            5 => {
                chat.sent.clear();
                play.is_odd = true;
                play.ask(&mut chat, "Be brief.").await;
                play.is_odd = false;
                chats[at].sent.clear();
            }
            // It goes on.
            _ => {
                let message = play.ask(&mut chat, "Be brief.").await;
                let next = play.next(&message);
                chat.messages.extend([message, next]);
                chats[at] = chat;
            }
        }
    }
    // Every client says one thing more.
    for chat in &mut chats {
        play.ask(chat, "Be brief.").await;
    }
    play.stage.proxy.stop().await;
    for chat in &chats {
        let paths = told_on_paths(&*store, &chat.session);
        let paths: Vec<_> = paths.iter().map(|told| words(path, told)).collect();
        let known = words_of(path, &chat.known);
        assert!(paths.contains(&known), "session {}\n{paths:#?}\n{known:#?}", chat.session);
    }
    assert_eq!(store.verify(None).unwrap(), []);
}

async fn histories(seeds: std::ops::Range<u64>, waits: bool) {
    for seed in seeds {
        let all = PATHS.map(|path| {
            tokio::spawn(async move {
                let (_folder, disk) = sqlite();
                let memory: Arc<dyn Archive> = Arc::new(MemoryArchive::default());
                play(path, seed, if seed % 2 == 0 { memory } else { disk }, waits).await;
            })
        });
        for (path, done) in PATHS.iter().zip(futures_util::future::join_all(all).await) {
            assert!(done.is_ok(), "LONGHAND_SEED={seed} in the format of {path}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_clients_do_windows_are_valid_and_nothing_is_lost() {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let count = number("LONGHAND_SEEDS").unwrap_or(12);
    let first = number("LONGHAND_SEED_FIRST").unwrap_or(0);
    let seeds = number("LONGHAND_SEED").map_or(first..first + count, |seed| seed..seed + 1);
    println!(
        "histories: {} in each of three formats, from seed {}",
        seeds.end - seeds.start,
        seeds.start
    );
    histories(seeds, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fork_has_its_past_while_an_archive_comes_back() {
    histories(5..6, false).await;
}
