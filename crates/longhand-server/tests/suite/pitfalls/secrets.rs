//! Security: who may ask what, and what is never told.

use std::sync::Arc;

use longhand::Tokens;
use longhand_testkit::scripted::ScriptStep;

use crate::common::raw::{RawServer, exchange, whole};
use crate::common::{PATHS, Stage, answers, log, messages, request, sqlite, user};

#[tokio::test]
async fn p69_nobody_but_the_operator_chooses_the_upstream() {
    let other = Stage::new(None, answers(20)).await;
    let there = other.proxy.address();
    let stage = Stage::new(Some(8_000), answers(20)).await;
    let here = stage.proxy.address();
    let body = r#"{"model":"m","base_url":"URL","api_base":"URL","upstream":"URL","messages":[{"role":"user","content":"hi"}]}"#
        .replace("URL", &format!("http://{there}"));
    for (target, headers) in [
        (format!("http://{there}/v1/chat/completions"), String::new()),
        (format!("//{there}/v1/chat/completions"), String::new()),
        (format!("/v1/../..//{there}/v1/chat/completions"), String::new()),
        (format!("/v1/chat/completions?base_url=http://{there}"), String::new()),
        (format!("@{there}/v1/chat/completions"), String::new()),
        ("/v1/chat/completions".to_owned(), format!("x-base-url: http://{there}\r\n")),
        ("/v1/chat/completions".to_owned(), format!("x-longhand-upstream: http://{there}\r\n")),
        ("/v1/chat/completions".to_owned(), format!("x-forwarded-host: {there}\r\n")),
        ("/v1/chat/completions".to_owned(), format!("x-upstream: {there}\r\n")),
    ] {
        let head = format!(
            "POST {target} HTTP/1.1\r\nhost: {here}\r\nauthorization: Bearer canary\r\nconnection: close\r\n{headers}content-length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = exchange(here, head.into_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 "), "{target}: {answer}");
    }
    let tunnel = format!("CONNECT {there} HTTP/1.1\r\nhost: {there}\r\nconnection: close\r\n\r\n");
    exchange(here, tunnel.into_bytes()).await;
    assert_eq!(other.proxy.counts().requests, 0);
    assert!(other.sent().is_empty());
}

#[tokio::test]
async fn p70_every_route_wants_the_key_a_local_host_and_no_foreign_page() {
    let stage = Stage::with([], |settings| settings.keys = vec!["right".to_owned()]).await;
    let here = stage.proxy.address();
    let local = format!("host: {here}\r\n");
    let routes = PATHS.into_iter().chain([
        "/v1/models",
        "/v1/messages/count_tokens",
        "/longhand/health",
        "/longhand/ready",
        "/longhand/metrics",
        "/longhand/",
        "/",
    ]);
    for path in routes {
        for method in ["GET", "POST", "OPTIONS", "DELETE"] {
            for (headers, expected) in [
                (local.clone(), 401),
                (format!("{local}x-longhand-key: wrong\r\n"), 401),
                (format!("{local}upgrade: websocket\r\nconnection: upgrade\r\n"), 401),
                ("host: evil.example\r\nx-longhand-key: right\r\n".to_owned(), 403),
                (format!("{local}origin: https://evil.example\r\nx-longhand-key: right\r\n"), 403),
            ] {
                let head =
                    format!("{method} {path} HTTP/1.1\r\n{headers}connection: close\r\n\r\n");
                let answer = exchange(here, head.into_bytes()).await;
                let status = answer.get(9..12).unwrap_or_default();
                assert_eq!(status, expected.to_string(), "{method} {path} {headers}");
                assert!(!answer.to_lowercase().contains("access-control-allow"), "{answer}");
            }
        }
    }
    assert!(stage.sent().is_empty());
}

#[tokio::test]
async fn p71_keys_are_nowhere_but_on_their_way() {
    let (folder, archive) = sqlite();
    let (log, lines) = log();
    let ours = "canary-ours-3141592653589793";
    let theirs = "canary-sk-theirs-2718281828459045";
    let steps = [answers(2), vec![ScriptStep::Status(401), ScriptStep::Drop]].concat();
    let stage = Stage::with(steps, |settings| {
        settings.keys = vec![ours.to_owned()];
        settings.archive = Arc::clone(&archive);
        settings.log = Some(log);
        settings.budget = Some(Tokens(3_000));
    })
    .await;
    let mut told = String::new();
    for (path, place) in [
        (PATHS[0], "authorization"),
        (PATHS[2], "x-api-key"),
        (PATHS[1], "api-key"),
        ("/v1/models?key=canary-in-query-1", "authorization"),
    ] {
        let body = request(path, &messages(path, 20), false);
        for key in [ours, "canary-wrong-1"] {
            let request = stage.client.post(stage.url(path)).header("x-longhand-key", key);
            let request = request.header(place, &format!("Bearer {theirs}")).body(body.clone());
            let answer = request.header("x-longhand-session", "work").send().await.unwrap();
            told.push_str(&format!("{:?}", answer.headers()));
            told.push_str(&answer.text().await.unwrap_or_default());
        }
    }
    for path in ["metrics", "ready", "health"] {
        let request = stage.client.get(stage.url(&format!("/longhand/{path}")));
        let answer = request.header("x-longhand-key", ours).send().await.unwrap();
        told.push_str(&answer.text().await.unwrap());
    }
    told.push_str(&format!("{:?}", stage.proxy));
    let sent = format!("{:?}", stage.server.requests());
    assert!(sent.contains(theirs) && !sent.contains(ours));
    let read = || crate::common::legible(&folder);
    crate::common::until("all is archived", || read().contains("file_19")).await;
    told.push_str(&read());
    stage.proxy.stop().await;
    told.push_str(&read());
    told.push_str(&lines.lock().unwrap().join("\n"));
    for piece in ["canary", "3141592653", "2718281828"] {
        let at = told.find(piece);
        assert_eq!(at, None, "{}", &told[at.unwrap_or(0)..][..60.min(told.len())]);
    }
    #[cfg(unix)]
    for file in std::fs::read_dir(folder.path()).unwrap() {
        use std::os::unix::fs::PermissionsExt;
        let mode = file.unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "others may not read the archive: {mode:o}");
    }
}

#[tokio::test]
async fn p73_keys_that_begin_alike_share_nothing() {
    for path in PATHS {
        let stage = Stage::new(Some(3_000), answers(4)).await;
        let body = request(path, &messages(path, 20), false);
        let long = "sk-the-same-twenty-letters-and-more-of-them-";
        let mut sessions = Vec::new();
        for key in ["1", "2", ""] {
            let request = stage.client.post(stage.url(path)).body(body.clone());
            let answer = request.bearer_auth(&format!("{long}{key}")).send().await.unwrap();
            sessions.push(answer.headers()["x-longhand-session"].to_str().unwrap().to_owned());
            answer.text().await.unwrap();
        }
        // Nor do two chats that end with the same word.
        sessions.push(stage.ask(path, &[user("continue")]).await.get("x-longhand-session").into());
        sessions.sort();
        sessions.dedup();
        assert_eq!(sessions.len(), 4, "{path}");
        assert_eq!(stage.proxy.counts().batches, 3, "no edits are shared either");
    }
}

#[tokio::test]
async fn p75_what_is_ours_never_goes_upstream() {
    let elsewhere = Stage::new(None, answers(1)).await;
    let target = elsewhere.server.url();
    let stage =
        Stage::new(Some(8_000), [answers(2), vec![ScriptStep::Redirect(target)]].concat()).await;
    for path in [PATHS[0], "/v1/files", PATHS[2]] {
        let mut request = stage.client.post(stage.url(path)).bearer_auth("oauth-token");
        for name in ["session", "key", "anything", "tokens-before"] {
            request = request.header(format!("x-longhand-{name}"), "ours");
        }
        let request = request.header("x-longhand", "ours");
        let body = crate::common::request(path, &[user("Hm?")], false);
        request.body(body).send().await.unwrap().text().await.unwrap();
    }
    for request in stage.server.requests() {
        let ours = request
            .headers
            .iter()
            .find(|(name, value)| name.starts_with("x-longhand") || value == "ours");
        assert_eq!(ours, None);
    }
    assert!(elsewhere.sent().is_empty(), "a token went to another host");
}

#[tokio::test]
async fn an_upstream_s_path_is_never_left_and_nobody_tunnels() {
    let upstream = RawServer::start(|_| whole("application/json", "{}"));
    let base = upstream.url().replace("/v1", "/api/v1");
    let stage = Stage::with([], |settings| {
        settings.upstream_openai = Some(base.clone());
        settings.upstream_anthropic = Some(base);
    })
    .await;
    let here = stage.proxy.address();
    let ask = async |line: &str| {
        let head = format!("{line} HTTP/1.1\r\nhost: {here}\r\nconnection: close\r\n\r\n");
        exchange(here, head.into_bytes()).await.get(9..12).unwrap_or_default().to_owned()
    };
    for path in [
        "/../api-admin",
        "/v1/../../api-admin",
        "/%2e%2e/api-admin",
        "/v1/%2E%2e/%2e./api-admin",
        "/..\\api-admin",
        "/v1/..\\..\\api-admin",
        "/..%5Capi-admin",
        "/..%2fapi-admin",
        "/%252e%252e%252fapi-admin",
        "/..;/api-admin",
        "-admin",
    ] {
        for method in ["GET", "POST", "DELETE"] {
            let status = ask(&format!("{method} {path}")).await;
            assert_eq!(status, "400", "{method} {path}");
        }
    }
    assert!(upstream.got().is_empty(), "{:?}", upstream.got());
    for line in ["CONNECT evil.example:443", "CONNECT 127.0.0.1:1", "CONNECT /v1/models"] {
        let status = ask(line).await;
        assert!(["405", "400"].contains(&status.as_str()), "{line}: {status}");
    }
    assert!(upstream.got().is_empty(), "{:?}", upstream.got());
    assert_eq!(ask("GET /v1/models?x=../../y").await, "200");
    assert_eq!(ask("GET //api-admin").await, "200");
    let lines: Vec<String> =
        upstream.got().iter().map(|got| got.head.lines().next().unwrap().to_owned()).collect();
    assert_eq!(lines, ["GET /api/v1/models?x=../../y HTTP/1.1", "GET /api//api-admin HTTP/1.1"]);
}

#[tokio::test]
async fn our_key_goes_nowhere_however_often_it_was_sent() {
    let ours = "our-key-of-sixteen-letters";
    let upstream = RawServer::start(|_| whole("application/json", "{}"));
    let stage = Stage::with([], |settings| {
        settings.upstream_openai = Some(upstream.url());
        settings.upstream_anthropic = Some(upstream.url());
        settings.keys = vec![ours.to_owned(), "another-key-of-ours".to_owned()];
    })
    .await;
    let here = stage.proxy.address();
    let everywhere = "authorization: Bearer KEY\r\nauthorization: bearer  KEY\r\nx-api-key: KEY\r\n\
                      x-api-key: theirs\r\nx-goog-api-key: KEY\r\napi-key: another-key-of-ours\r\n\
                      cookie: a=1; key=KEY; b=2\r\nx-else: \"KEY\"\r\nproxy-authorization: Basic KEY\r\n";
    for path in [PATHS[0], "/v1/files", "/v1/models"] {
        let body = request(PATHS[0], &[user("Hm?")], false);
        let query = "?a=1&key=KEY&b=our%2Dkey-of-sixteen-letters&c=x";
        let head = format!(
            "POST {path}{query} HTTP/1.1\r\nhost: {here}\r\nconnection: close\r\n{everywhere}x-longhand-key: KEY\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = exchange(here, head.replace("KEY", ours).into_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
        let got = upstream.got().pop().unwrap();
        for key in [ours, "another-key", "our%2Dkey"] {
            assert!(!got.head.contains(key), "{path}: {}", got.head);
        }
        assert!(got.head.starts_with(&format!("POST {path}?a=1&c=x ")), "{}", got.head);
        assert!(got.head.contains("x-api-key: theirs"), "{}", got.head);
    }
    // In a path it could not be taken out.
    let head = format!(
        "GET /v1/{ours}/x HTTP/1.1\r\nhost: {here}\r\nx-longhand-key: {ours}\r\nconnection: close\r\n\r\n"
    );
    assert!(exchange(here, head.into_bytes()).await.starts_with("HTTP/1.1 400"));
    assert_eq!(upstream.got().len(), 3);
}

#[tokio::test]
async fn a_private_proxy_answers_nobody_without_its_secret_and_tells_it_to_nobody() {
    let secret = "5ec4e7-of-a-run-0123456789abcdef";
    let (folder, archive) = sqlite();
    let (log, lines) = log();
    let stage = Stage::with(answers(4), |settings| {
        settings.secret = Some(secret.to_owned());
        settings.archive = Arc::clone(&archive);
        settings.log = Some(log);
    })
    .await;
    let here = stage.proxy.address();
    let routes = PATHS.into_iter().chain([
        "/v1/models",
        "/longhand/health",
        "/longhand/ready",
        "/longhand/metrics",
        "/longhand/",
        "/",
    ]);
    for path in routes {
        for method in ["GET", "POST", "OPTIONS", "CONNECT"] {
            for (before, header) in [
                ("", ""),
                ("/5ec4e7-of-a-run-0123456789abcdee", ""),
                ("/5ec4e7", ""),
                ("", "openai-project: 5ec4e7.proj\r\n"),
                ("", "x-longhand-key: 5ec4e7-of-a-run-0123456789abcdef\r\n"),
                ("", "upgrade: websocket\r\nconnection: upgrade\r\n"),
            ] {
                let head = format!(
                    "{method} {before}{path} HTTP/1.1\r\nhost: {here}\r\n{header}connection: close\r\n\r\n"
                );
                let answer = exchange(here, head.into_bytes()).await;
                // No server takes a path for a tunnel.
                let expected = if method == "CONNECT" { ["400", "401"] } else { ["401"; 2] };
                let status = answer.get(9..12).unwrap_or_default();
                assert!(expected.contains(&status), "{method} {before}{path} {header}: {answer}");
                assert_eq!(answer.split_once("\r\n\r\n").map(|(_, body)| body), Some(""));
                assert!(!answer.to_lowercase().contains("longhand"), "{answer}");
            }
        }
    }
    assert!(stage.sent().is_empty());
    assert_eq!(stage.proxy.counts().requests, 0, "strangers are not counted as the agent's");
    let mut told = String::new();
    let mut sessions = Vec::new();
    // In the path and in the header; both are the same caller.
    for (url, project) in [
        (format!("/{secret}{}", PATHS[0]), "proj_1".to_owned()),
        (PATHS[0].to_owned(), format!("{secret}.proj_1")),
    ] {
        let body = request(PATHS[0], &[user("Hm?")], false);
        let request = stage.client.post(stage.url(&url)).bearer_auth("k").body(body);
        let answer = request.header("openai-project", &project).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        told.push_str(&format!("{:?}", answer.headers()));
        sessions.push(answer.headers()["x-longhand-session"].clone());
        told.push_str(&answer.text().await.unwrap());
    }
    assert_eq!(sessions[0], sessions[1], "the secret is no credential");
    let metrics = stage.client.get(stage.url(&format!("/{secret}/longhand/metrics")));
    told.push_str(&metrics.send().await.unwrap().text().await.unwrap());
    for request in stage.server.requests() {
        let project = request.headers.iter().find(|(name, _)| name == "openai-project");
        assert_eq!(project.map(|(_, value)| value.as_str()), Some("proj_1"));
        told.push_str(&format!("{request:?}"));
    }
    stage.proxy.stop().await;
    told.push_str(&lines.lock().unwrap().join("\n"));
    told.push_str(&crate::common::legible(&folder));
    assert!(told.contains("/v1/chat/completions") && !told.contains("5ec4e7"), "{told}");
}
