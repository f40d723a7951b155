//! What other users of the machine get of `longhand run`, and what is left when it is killed: nothing.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use longhand_testkit::scripted::{ScriptStep, ScriptedServer};
use serde_json::{Value, json};

use crate::run::{Folder, names};

/// How long something may take that takes a moment.
const PATIENCE: Duration = Duration::from_mins(1);

/// The user `nobody`.
const NOBODY: &str = "65534";

/// A stage: a home, a folder for temporary files, and an upstream.
struct AgentStage {
    folder: Folder,
    server: ScriptedServer,
}

impl AgentStage {
    fn new() -> Self {
        let folder = Folder::new();
        std::fs::create_dir(folder.path("tmp")).unwrap();
        let server =
            ScriptedServer::start((0..9).map(|at| ScriptStep::Answer(format!("Answer {at}."))));
        Self { folder, server }
    }

    /// Writes a program of the shell.
    fn script(&self, name: &str, text: &str) {
        self.folder.write(name, format!("#!/bin/bash\n{text}"));
        let made = Command::new("chmod").arg("+x").arg(self.folder.path(name)).status();
        assert!(made.unwrap().success());
    }

    /// Starts a program behind a proxy; in a group of its own, as a terminal would not have it, and for everybody to
    /// read what it makes unless it takes care.
    fn start(&self, program: &str) -> Child {
        let line = "umask 0; exec \"$0\" run --archive a.db --upstream \"$1\" -- \"$2\"";
        Command::new("sh")
            .args(["-c", line, env!("CARGO_BIN_EXE_longhand"), &self.server.url(), program])
            .current_dir(self.folder.path(""))
            .env("HOME", self.folder.path(""))
            .env("TMPDIR", self.folder.path("tmp"))
            .env_remove("PI_CODING_AGENT_DIR")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap()
    }

    fn run(&self, program: &str) -> (Option<i32>, String) {
        ended(self.start(program))
    }

    /// Waits for a file with a whole line in it, and gives what it says.
    fn awaited(&self, name: &str) -> String {
        let read = || std::fs::read_to_string(self.folder.path(name)).unwrap_or_default();
        until(name, || read().ends_with('\n'));
        read()
    }

    fn temporary(&self) -> Vec<String> {
        names(&self.folder.path("tmp"))
    }
}

/// Waits for the end of a run, not for that of others that hold its streams.
fn ended(mut child: Child) -> (Option<i32>, String) {
    let mut said = child.stderr.take().unwrap();
    let reading = std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = said.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    let status = child.wait().unwrap();
    until("nobody writes any more", || reading.is_finished());
    (status.code(), reading.join().unwrap())
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn kill(signal: &str, pid: &str) {
    assert!(
        Command::new("kill").args([&format!("-{signal}"), pid.trim()]).status().unwrap().success()
    );
}

/// Whether a process is there and no zombie.
fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    stat.is_ok_and(|stat| !stat.rsplit_once(')').unwrap().1.trim_start().starts_with('Z'))
}

/// Sends a request, and gives status and body of the answer.
fn ask(host: &str, head: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(host).unwrap();
    let length = body.len();
    let text = format!(
        "{head}\r\nhost: {host}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), body.to_owned())
}

/// What a program of another user prints; `None` if only this user is to be had.
fn as_somebody_else(line: &str) -> Option<String> {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "sh", "-c", line]);
    let output = command.stderr(Stdio::null()).output().ok();
    let printed = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    if printed.as_deref().is_none_or(|printed| !printed.starts_with(NOBODY)) {
        println!("skipped: only root can be somebody else");
        return None;
    }
    printed
}

/// A program that says what it was started with, and waits.
const WAITS: &str = "env > environment.new && mv environment.new environment
until test -e go; do sleep 0.05; done
";

fn variable(environment: &str, name: &str) -> String {
    let line = environment.lines().find_map(|line| line.strip_prefix(&format!("{name}=")));
    line.unwrap_or_else(|| panic!("no {name} in {environment}")).to_owned()
}

#[test]
fn nobody_without_the_secret_gets_a_word_from_a_run() {
    for agent in ["claude", "codex", "opencode", "pi", "aider", "llm", "anything"] {
        let stage = AgentStage::new();
        stage.script(agent, WAITS);
        let run = stage.start(&format!("./{agent}"));
        let environment = stage.awaited("environment");
        let url = variable(&environment, "ANTHROPIC_BASE_URL");
        let (host, secret) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
        assert!(secret.len() >= 32, "at least 128 bits: {secret}");
        let words = r#"{"model":"m","messages":[{"role":"user","content":"mine"}]}"#;
        for path in [
            "/",
            "/longhand/health",
            "/longhand/ready",
            "/longhand/metrics",
            "/v1/models",
            "/v1/chat/completions",
            "/v1/responses",
            "/v1/messages",
            "/v1/anything",
        ] {
            let wrong = secret.replace(|c: char| c.is_ascii_digit(), "f");
            for head in [
                format!("POST {path} HTTP/1.1"),
                format!("GET {path} HTTP/1.1"),
                format!("OPTIONS {path} HTTP/1.1\r\norigin: https://evil.example"),
                format!("POST /{wrong}{path} HTTP/1.1"),
                format!("POST /{}{path} HTTP/1.1", &secret[1..]),
                format!("POST {path}?secret={secret} HTTP/1.1"),
                format!("POST {path} HTTP/1.1\r\nopenai-project: {wrong}"),
                format!("POST {path} HTTP/1.1\r\nauthorization: Bearer {wrong}"),
            ] {
                assert_eq!(ask(host, &head, words), (401, String::new()), "{agent}: {head}");
            }
        }
        // A web page does not get in even if it has the secret.
        for header in [
            "sec-fetch-site: cross-site",
            "sec-fetch-site: same-site",
            "origin: https://evil.example",
            "origin: http://localhost:3000",
            "origin: null",
        ] {
            let head = format!("POST /{secret}/v1/chat/completions HTTP/1.1\r\n{header}");
            assert_eq!(ask(host, &head, words).0, 403, "{agent}: {header}");
        }
        let head = format!("GET /{secret}/longhand/health HTTP/1.1");
        assert_eq!(ask(host, &head, "").0, 200, "{agent}");
        let lines = "id -u; cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ; ls -R \"$TMPDIR\"; cat \"$TMPDIR\"/*/*/*";
        let lines = lines.replace("$TMPDIR", &stage.folder.path("tmp").display().to_string());
        let open = Command::new("chmod").arg("755").arg(stage.folder.path("")).status().unwrap();
        assert!(open.success());
        let seen = as_somebody_else(&lines).unwrap_or_else(|| {
            // What stands in a command line is for everybody.
            let output = Command::new("sh").args(["-c", "cat /proc/[0-9]*/cmdline"]).output();
            String::from_utf8_lossy(&output.unwrap().stdout).into_owned()
        });
        assert!(seen.contains(agent), "{agent} is there");
        assert!(!seen.contains(secret), "{agent}: {}", seen.replace('\0', " "));
        stage.folder.write("go", "");
        let (status, said) = ended(run);
        assert_eq!(status, Some(0), "{agent}: {said}");
        assert!(said.contains("a request without the secret of this run was refused"), "{said}");
        assert!(stage.server.requests().is_empty(), "{agent}: nothing was sent");
        assert!(stage.temporary().is_empty(), "{agent}: {:?}", stage.temporary());
    }
}

/// Posts to an address with some headers.
const POST: &str = r#"
post() {
    address=${1#http://}; host=${address%%/*}; path=/${address#*/}
    body='{"model":"m","messages":[{"role":"user","content":"hi"}]}'
    exec 3<>"/dev/tcp/${host%%:*}/${host##*:}"
    printf 'POST %s/chat/completions HTTP/1.1\r\nhost: %s\r\n%bauthorization: Bearer k\r\ncontent-length: %s\r\nconnection: close\r\n\r\n%s' "$path" "$host" "$2" "${#body}" "$body" >&3
    cat <&3 > answer
}
"#;

#[test]
fn the_secret_goes_no_further_than_the_proxy() {
    let stage = AgentStage::new();
    stage.script("agent", &format!("{POST}{WAITS} post \"$OPENAI_BASE_URL\" ''"));
    // Codex has no secret in its address, and sends a variable as a header.
    let codex = format!(
        "{POST}{WAITS} address=${{2#*\\\"}}; post \"${{address%\\\"}}\" \"openai-project: $OPENAI_PROJECT\\r\\n\""
    );
    stage.script("codex", &codex);
    stage.folder.write("go", "");
    let mut secrets = Vec::new();
    for agent in ["./agent", "./codex"] {
        let (status, said) = stage.run(agent);
        assert_eq!(status, Some(0), "{said}");
        assert!(stage.folder.read("answer").starts_with("HTTP/1.1 200"), "{agent}: {said}");
        let url = variable(&stage.awaited("environment"), "OPENAI_BASE_URL");
        secrets.push(url.split('/').nth(3).unwrap().to_owned());
    }
    assert_ne!(secrets[0], secrets[1], "each run has its own");
    let sent = format!("{:?}", stage.server.requests());
    assert_eq!(stage.server.requests().len(), 2, "{sent}");
    let kept: Vec<u8> = names(&stage.folder.path(""))
        .iter()
        .filter(|name| name.starts_with("a.db"))
        .flat_map(|name| std::fs::read(stage.folder.path(name)).unwrap())
        .collect();
    let kept = String::from_utf8_lossy(&kept);
    for secret in secrets {
        assert!(!sent.contains(&secret) && !kept.contains(&secret), "{sent}");
    }
    assert!(!sent.contains("openai-project"), "{sent}");
    // It is no credential either: both runs are the same caller's.
    let listed = stage.folder.run("ls --all --json --archive a.db").json();
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed:#}");
}

/// What pi has before a run.
fn pi_stage() -> AgentStage {
    let stage = AgentStage::new();
    let models = json!({"providers": {"openai": {"apiKey": "sk-of-mine"}}});
    stage.folder.write(".pi/agent/models.json", models.to_string());
    stage.folder.write(".pi/agent/settings.json", "{\"theme\":\"dark\"}");
    stage.folder.write(".pi/agent/trusted.json", "[1]");
    stage
}

/// A `pi` that logs in, changes its models, replaces its settings, and makes a folder; then it does `then`.
///
/// Its last commands are builtins: a shell that waits for a program does not end with SIGINT.
fn pi(stage: &AgentStage, then: &str) {
    let script = r#"cd "$PI_CODING_AGENT_DIR"
find .. -not -type l -printf '%m %y %P\n' > "$HOME/modes"
printf '{"openai":"logged in"}' > auth.json
printf '{"theme":"light"}' > settings.new && mv settings.new settings.json
sed 's/^{/{"mine":{"baseUrl":"http:\/\/m"},/' models.json > models.new && mv models.new models.json
mkdir -p themes/new && printf red > themes/new/colours
printf '[2]' > trusted.json
mkdir auth.json.lock
echo $PPID > "$HOME/guard"; echo $$ > "$HOME/pid"
"#;
    stage.script("pi", &format!("{script}{then}\n"));
}

/// Makes sure that the user's folder has all that `pi` wrote, and that nothing else is left.
fn assert_brought_back(stage: &AgentStage, how: &str) {
    let user_file = |name: &str| stage.folder.read(&format!(".pi/agent/{name}"));
    assert_eq!(user_file("auth.json"), r#"{"openai":"logged in"}"#, "{how}");
    assert_eq!(user_file("settings.json"), r#"{"theme":"light"}"#, "{how}");
    assert_eq!(user_file("trusted.json"), "[2]", "{how}");
    assert_eq!(user_file("themes/new/colours"), "red", "{how}");
    let models: Value = serde_json::from_str(&user_file("models.json")).unwrap();
    let expected = json!({
        "mine": {"baseUrl": "http://m"}, "providers": {"openai": {"apiKey": "sk-of-mine"}},
    });
    assert_eq!(models, expected, "{how}: no address of ours");
    let all = names(&stage.folder.path(".pi/agent"));
    let known = ["auth.json", "models.json", "sessions", "settings.json", "themes", "trusted.json"];
    assert_eq!(all, known, "{how}");
    assert!(stage.temporary().is_empty(), "{how}: {:?}", stage.temporary());
}

#[test]
fn a_private_folder_is_private_and_what_the_agent_saves_is_kept_however_the_run_ends() {
    for (how, then) in [
        ("exit 0", "exit 0"),
        ("exit 3", "exit 3"),
        ("TERM", "exec sleep 600"),
        ("INT", "exec sleep 600"),
        ("HUP", "exec sleep 600"),
        ("QUIT", "exec sleep 600"),
        ("USR1", "exec sleep 600"),
        ("ALRM", "exec sleep 600"),
        ("KILL", "exec sleep 600"),
    ] {
        let stage = pi_stage();
        pi(&stage, then);
        let run = stage.start("./pi");
        if then.starts_with("exec") {
            stage.awaited("pid");
            kill(how, &run.id().to_string());
        }
        ended(run);
        until(how, || stage.temporary().is_empty());
        assert_brought_back(&stage, how);
        for line in stage.folder.read("modes").lines() {
            let expected = if line.contains(" d ") { "700 " } else { "600 " };
            assert!(line.starts_with(expected) || line.contains(" s "), "{how}: {line}");
        }
    }
}

#[test]
fn what_everybody_s_death_leaves_is_brought_back_by_the_next_run() {
    let stage = pi_stage();
    pi(&stage, "exec sleep 600");
    let run = stage.start("./pi");
    let agent = stage.awaited("pid");
    let guard = stage.folder.read("guard");
    // The guard must not be quicker.
    kill("STOP", &guard);
    kill("KILL", &run.id().to_string());
    kill("KILL", &guard);
    ended(run);
    until("the agent is gone", || !lives(&agent));
    assert_eq!(stage.temporary().len(), 1, "{:?}", stage.temporary());
    stage.script("other", "exit 0");
    let (status, said) = stage.run("./other");
    assert_eq!(status, Some(0), "{said}");
    assert_brought_back(&stage, "all were killed");
}

#[test]
fn a_run_that_goes_on_is_not_swept_away() {
    let stage = pi_stage();
    pi(&stage, "until test -e \"$HOME/go\"; do sleep 0.05; done; test -e models.json");
    let run = stage.start("./pi");
    stage.awaited("pid");
    stage.script("other", "exit 0");
    assert_eq!(stage.run("./other").0, Some(0));
    assert_eq!(stage.temporary().len(), 1, "{:?}", stage.temporary());
    stage.folder.write("go", "");
    assert_eq!(ended(run).0, Some(0));
    assert_brought_back(&stage, "beside another run");
}

#[test]
fn what_the_user_changed_during_a_run_is_kept_and_told() {
    let stage = pi_stage();
    pi(&stage, "until test -e \"$HOME/go\"; do sleep 0.05; done");
    let run = stage.start("./pi");
    stage.awaited("pid");
    stage.folder.write(".pi/agent/settings.json", "{\"theme\":\"mine, and newer\"}");
    stage.folder.write(".pi/agent/auth.json", "{\"openai\":\"another login\"}");
    stage.folder.write("go", "");
    let (status, said) = ended(run);
    assert_eq!(status, Some(0), "{said}");
    let user_file = |name: &str| stage.folder.read(&format!(".pi/agent/{name}"));
    assert_eq!(user_file("settings.json"), "{\"theme\":\"mine, and newer\"}");
    assert_eq!(user_file("settings.json.longhand-run"), "{\"theme\":\"light\"}");
    assert_eq!(user_file("auth.json"), "{\"openai\":\"another login\"}");
    assert_eq!(user_file("auth.json.longhand-run"), "{\"openai\":\"logged in\"}");
    for name in ["settings.json", "auth.json"] {
        let told = format!("{name} was changed during the run and is kept");
        assert!(said.contains(&told), "{said}");
        assert!(said.contains(&format!("{name}.longhand-run")), "{said}");
    }
    assert!(stage.temporary().is_empty());
}

/// An agent that is a wrapper: what works is a grandchild that does not listen to anybody.
const WRAPPER: &str = r#"echo $PPID > guard; echo $$ > wrapper
bash -c 'trap "" TERM HUP INT; echo $$ > worker.new; mv worker.new worker; while :; do sleep 0.1; done' &
setsid bash -c 'echo $$ > apart.new; mv apart.new apart; exec sleep 600' &
wait; wait
"#;

#[test]
fn no_process_of_an_agent_outlives_its_proxy() {
    for victim in ["run", "guard", "wrapper and run"] {
        let stage = AgentStage::new();
        stage.script("agent", WRAPPER);
        let run = stage.start("./agent");
        let (worker, apart) = (stage.awaited("worker"), stage.awaited("apart"));
        let wrapper = stage.folder.read("wrapper");
        let pid = run.id().to_string();
        match victim {
            "run" => kill("KILL", &pid),
            "guard" => kill("KILL", &stage.folder.read("guard")),
            _ => {
                // The worker is an orphan before anybody looks.
                let guard = stage.folder.read("guard");
                kill("STOP", &guard);
                kill("KILL", &wrapper);
                kill("KILL", &pid);
                // The kernel may have woken it already.
                let _ = Command::new("kill").args(["-CONT", guard.trim()]).status();
            }
        }
        let (status, said) = ended(run);
        if victim == "guard" {
            assert_eq!(status, Some(128 + 9), "{said}");
        }
        for (name, pid) in [("wrapper", &wrapper), ("worker", &worker), ("apart", &apart)] {
            until(&format!("{name} ends with {victim}"), || !lives(pid));
        }
        until("the folder is gone", || stage.temporary().is_empty());
    }
}

#[test]
fn what_an_agent_leaves_running_on_purpose_goes_on() {
    let stage = AgentStage::new();
    stage.script("agent", "setsid sleep 600 >/dev/null 2>&1 & echo $! > daemon; exit 4");
    let (status, said) = stage.run("./agent");
    assert_eq!(status, Some(4), "{said}");
    let daemon = stage.folder.read("daemon");
    assert!(lives(&daemon));
    kill("KILL", &daemon);
}

#[test]
fn every_signal_is_passed_on_even_the_first() {
    let stage = AgentStage::new();
    let signals = ["INT", "QUIT", "HUP", "USR1", "USR2", "WINCH", "CONT", "TERM"];
    let traps: String =
        signals.iter().map(|name| format!("trap 'echo {name} >> heard' {name}\n")).collect();
    stage.script(
        "agent",
        &format!("{traps}echo > ready\nuntil test -e go; do sleep 0.02; done\nexit 6"),
    );
    let run = stage.start("./agent");
    stage.awaited("ready");
    for (count, signal) in signals.iter().enumerate() {
        kill(signal, &run.id().to_string());
        until(signal, || {
            let heard = std::fs::read_to_string(stage.folder.path("heard")).unwrap_or_default();
            heard.lines().count() == count + 1 && heard.lines().last() == Some(signal)
        });
    }
    stage.folder.write("go", "");
    let (status, said) = ended(run);
    assert_eq!(status, Some(6), "{said}");
    // One that comes as soon as the agent is there.
    let early = "trap 'exit 5' TERM\nread -r _ _ _ run _ < /proc/$PPID/stat\nkill -TERM $run\n\
                 while :; do sleep 0.02; done";
    stage.script("early", early);
    for _ in 0..5 {
        let (status, said) = stage.run("./early");
        assert_eq!(status, Some(5), "{said}");
    }
}
