//! How agents really write their requests: each habit is one session, and costs no more than it must.
use crate::common::{
    PATHS, Stage, assistant, faults, is_prefix, messages, request, says, sessions, sqlite, user,
};
use longhand::Tokens;
use longhand_testkit::filler;
use longhand_testkit::scripted::ScriptStep;
use serde_json::{Value, json};

/// What share of all bytes a provider would have had in its cache.
fn cached_share(bodies: &[String]) -> f64 {
    let common = |one: &str, other: &str| {
        one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count()
    };
    let all: usize = bodies.iter().skip(1).map(String::len).sum();
    let cached: usize = bodies.windows(2).map(|pair| common(&pair[0], &pair[1])).sum();
    cached as f64 / all as f64
}

fn words(of: &str, count: usize) -> String {
    (0..count).map(|at| format!("{of}{at} ")).collect()
}

/// Requests as an editor writes them: what was said, then its files as they are now, then the question.
fn with_files_at_the_end(turns: usize) -> Vec<Vec<Value>> {
    let (mut said, mut requests) = (Vec::new(), Vec::new());
    for turn in 0..turns {
        let files = format!("These are the files:\n{}", words(&format!("v{turn}_"), 150));
        let question = user(&format!("Question {turn}: {}", words("why", 40)));
        let mut request: Vec<Value> = said.clone();
        request.extend([user(&files), assistant("Ok."), question.clone()]);
        requests.push(request);
        said.extend([question, assistant(&answer(turn))]);
    }
    requests
}

fn answer(turn: usize) -> String {
    format!("Answer {turn}: {}", words("because", 60))
}

#[tokio::test]
async fn files_that_float_before_the_question_are_one_session() {
    let path = PATHS[0];
    let turns = 40;
    let asked = with_files_at_the_end(turns);
    let whole: Vec<String> = asked.iter().map(|messages| request(path, messages, false)).collect();
    for (budget, least) in [(1_000_000, cached_share(&whole) - 0.05), (8_000, 0.5)] {
        let steps: Vec<ScriptStep> = (0..turns).map(|turn| says(&answer(turn))).collect();
        let stage = Stage::new(Some(budget), steps).await;
        for messages in &asked {
            stage.ask(path, messages).await;
        }
        let sent = stage.sent();
        assert!(sent.iter().all(|body| faults(path, body).is_empty()));
        let share = cached_share(&sent);
        assert!(share >= least, "{share} of {least}");
        let batches = stage.proxy.counts().batches;
        assert!(batches <= 8, "{batches} batches");
        assert_eq!(stage.archived().await.len(), 1);
    }
}

/// Ids of calls as providers make them.
fn with_long_ids(messages: Vec<Value>) -> Vec<Value> {
    let long = |message: Value| {
        let digits = (0..10).map(|digit| format!("\"call_{digit}"));
        digits.fold(message.to_string(), |json, short| {
            json.replace(&short, &format!("{short}Tz8Vq2x"))
        })
    };
    messages.into_iter().map(|message| serde_json::from_str(&long(message)).unwrap()).collect()
}

#[tokio::test]
async fn a_window_that_slides_is_one_session() {
    for path in PATHS {
        let all = with_long_ids(messages(path, 30));
        let stage = Stage::new(Some(6_000), vec![says("Go on."); 30]).await;
        for steps in 1..=30_usize {
            // The first message stays, or it does not; the oldest steps go in either case.
            let from = 1 + 2 * steps.saturating_sub(10);
            let kept = usize::from(steps % 2 == 0);
            let mut asked = all[..kept].to_vec();
            if kept == 0 && from > 1 {
                asked.push(user("The beginning was dropped."));
            } else if kept == 0 {
                asked.push(all[0].clone());
            }
            asked.extend_from_slice(&all[from..=2 * steps]);
            stage.ask(path, &asked).await;
        }
        for body in stage.sent() {
            assert_eq!(faults(path, &body), [], "{path}");
        }
        assert_eq!(stage.archived().await.len(), 1, "{path}");
    }
}

#[tokio::test]
async fn titles_and_agents_of_an_agent_hang_below_its_name() {
    let path = "/v1/messages";
    let stage = Stage::new(Some(8_000), vec![says("Well."); 12]).await;
    let ask = async |messages: &[Value], system: &str| {
        let mut body: Value = serde_json::from_str(&request(path, messages, false)).unwrap();
        body["system"] = json!(system);
        let asked = stage.client.post(stage.url(path)).header("x-longhand-session", "my-task");
        let answer = asked.body(body.to_string()).send().await.unwrap();
        assert_eq!(answer.headers()["x-longhand-session"], "my-task");
        answer.text().await.unwrap();
    };
    let mut said = vec![user("Mend the build.")];
    for turn in 0..3 {
        ask(&said, "You are an agent.").await;
        ask(&[user(&format!("Name this in five words: turn {turn}"))], "You name things.").await;
        ask(&[user(&format!("Look into part {turn}."))], "You are a part of an agent.").await;
        said.extend([assistant("Well."), user("Go on.")]);
    }
    let archived = stage.archived().await;
    assert_eq!(archived.len(), 1);
    assert_eq!(archived[0].1.len(), 6 + 3 * 4);
}

#[tokio::test]
async fn a_tree_of_rewinds_keeps_its_prefix() {
    for path in PATHS {
        let stage = Stage::new(Some(4_000), vec![says("Go on."); 60]).await;
        let all = messages(path, 30);
        stage.ask(path, &all).await;
        let first = stage.sent().pop().unwrap();
        let mut batches = stage.proxy.counts().batches;
        for branch in 0..10 {
            let mut asked = all[..all.len() - 2].to_vec();
            asked.push(user(&format!("Otherwise {branch}.")));
            stage.ask(path, &asked).await;
            let sent = stage.sent().pop().unwrap();
            assert!(faults(path, &sent).is_empty());
            let batches_now = stage.proxy.counts().batches;
            // What the newest step had is all that differs.
            let end = sent.rfind("Otherwise").unwrap() - 100;
            assert!(
                batches_now > batches
                    || first.as_bytes()[..end - 400] == sent.as_bytes()[..end - 400]
            );
            batches = batches_now;
        }
        assert!(batches <= 2, "{path}: {batches}");
        assert_eq!(stage.archived().await.len(), 1);
    }
}

/// What an archive has after a tool loop of so many steps, and what was said in it, in bytes.
async fn after_steps(steps: usize) -> (u64, u64) {
    let path = PATHS[2];
    let (folder, archive) = sqlite();
    let file = folder.path().join("archive.db");
    let empty = std::fs::metadata(&file).unwrap().len();
    let mut all = messages(path, steps);
    for (at, result) in all.iter_mut().enumerate().skip(2).step_by(2) {
        let output = filler::words(100 + at * 37 % 1_000, at as u64);
        result["content"][0]["content"] = json!(output);
    }
    let replies = all.iter().skip(3).step_by(2).map(|message| crate::common::reply(path, message));
    let stage = Stage::with(replies.chain([says("Done.")]), |settings| {
        settings.archive = archive.clone();
        settings.budget = Some(Tokens(8_000));
    })
    .await;
    let (mut last, mut breaks) = (String::new(), 0);
    for step in 1..=steps {
        stage.ask(path, &all[..=2 * step]).await;
        let sent = stage.sent().pop().unwrap();
        breaks += u64::from(!is_prefix(&last, &sent) && !last.is_empty());
        last = sent;
    }
    let batches = stage.proxy.counts().batches;
    assert!(batches > 10 && breaks <= batches, "{breaks} breaks by {batches} batches");
    stage.proxy.stop().await;
    let sessions = sessions(&*archive);
    assert_eq!(sessions.len(), 1);
    assert_eq!(archive.verify(None).unwrap(), []);
    drop(archive);
    (std::fs::metadata(&file).unwrap().len() - empty, sessions[0].bytes)
}

#[tokio::test]
async fn an_archive_grows_with_what_is_said_and_not_with_what_is_sent() {
    let ((half, half_text), (whole, text)) = tokio::join!(after_steps(200), after_steps(400));
    println!("file / text: {:.2}", whole as f64 / text as f64);
    assert!(whole * 2 <= text * 3, "{whole} bytes for {text} of text");
    let (grown, more) = (whole - half, text - half_text);
    assert!(grown * 2 <= more * 3, "{grown} bytes more for {more} of text");
}
