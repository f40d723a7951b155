//! The agents: how each is started, and how it goes on from where it was.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use portable_pty::{CommandBuilder, PtySize, native_pty_system};

use crate::model::{ActingStyle, Nature};
use crate::workspace::Workspace;

/// The longest that one run of an agent may take.
const RUN_MAX: Duration = Duration::from_mins(4);

/// Stands for the prompt among arguments, and for a script of ours.
const PROMPT: &str = "{prompt}";
const SCRIPT: &str = "{script}";

/// A tool for `llm`, which takes Python.
const FUNCTIONS: &str = "import subprocess

def bash(command: str) -> str:
    \"Runs a command.\"
    done = subprocess.run(['bash', '-c', command], capture_output=True, text=True)
    return done.stdout + done.stderr or '(nothing was printed)'
";

/// Most agents: they call tools, resume and send outputs as they are.
const PLAIN: Nature =
    Nature { style: ActingStyle::Tools, resumes: true, cuts_outputs: false, rewrites: false };

/// Where agents are installed; set by `cargo xtask test-agents`.
const CACHE: &str = "LONGHAND_AGENTS";

/// A published agent.
pub(crate) struct PublishedAgent {
    pub(crate) name: &'static str,
    pub(crate) nature: Nature,
    program: PathBuf,
    /// Its arguments for the first prompt, and for those that follow.
    first: Vec<&'static str>,
    next: Vec<&'static str>,
    variables: Vec<(&'static str, &'static str)>,
    /// Whether it runs in a terminal.
    in_terminal: bool,
    /// The script in `clients/agents` that it is, with the packages that it needs beside it.
    script: Option<(&'static str, Option<PathBuf>)>,
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The exit status; `None` if it was killed.
    pub(crate) status: Option<i32>,
    /// All that was printed.
    pub(crate) output: String,
}

impl PublishedAgent {
    /// An agent by its name, if it is installed.
    pub(crate) fn named(name: &'static str) -> Option<Self> {
        let Some(cache) = std::env::var_os(CACHE).filter(|cache| !cache.is_empty()) else {
            println!("skipped: {CACHE} is not set; `cargo xtask test-agents` sets it");
            return None;
        };
        let cache = Path::new(&cache);
        let node = |package: &str, program: &str| {
            cache.join(package).join("node_modules/.bin").join(program)
        };
        let python =
            |package: &str, program: &str| cache.join(package).join("venv/bin").join(program);
        let agent = match name {
            "claude" => {
                let options = [
                    "-p",
                    PROMPT,
                    "--model",
                    "claude-sonnet-4-5",
                    "--dangerously-skip-permissions",
                ];
                Self {
                    name,
                    nature: PLAIN,
                    program: node("claude-code", "claude"),
                    first: options.to_vec(),
                    next: [&["-c"], &options[..]].concat(),
                    variables: vec![
                        ("IS_SANDBOX", "1"),
                        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
                        ("CLAUDE_CODE_ENABLE_TASKS", "0"),
                        ("ENABLE_TOOL_SEARCH", "false"),
                        ("DISABLE_AUTO_COMPACT", "1"),
                        ("DISABLE_AUTOUPDATER", "1"),
                    ],
                    in_terminal: true,
                    script: None,
                }
            }
            "codex" => {
                let options = [
                    "--skip-git-repo-check",
                    "--dangerously-bypass-approvals-and-sandbox",
                    "-m",
                    "gpt-5.1",
                    "-c",
                    "tool_output_token_limit=20000",
                    PROMPT,
                ];
                Self {
                    name,
                    nature: PLAIN,
                    program: node("codex", "codex"),
                    first: [&["exec"], &options[..]].concat(),
                    next: [&["exec", "resume", "--last"], &options[..]].concat(),
                    variables: vec![("CODEX_API_KEY", "sk-none")],
                    in_terminal: true,
                    script: None,
                }
            }
            "opencode" => Self {
                name,
                nature: PLAIN,
                program: node("opencode", "opencode"),
                first: vec!["run", "-m", "anthropic/claude-sonnet-4-5", PROMPT],
                next: vec!["run", "-c", "-m", "anthropic/claude-sonnet-4-5", PROMPT],
                variables: vec![
                    (
                        "OPENCODE_CONFIG_CONTENT",
                        r#"{"permission":"allow","compaction":{"auto":false,"prune":false},"share":"disabled"}"#,
                    ),
                    ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
                    ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
                    ("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1"),
                    ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1"),
                ],
                in_terminal: false,
                script: None,
            },
            "pi" => Self {
                name,
                nature: PLAIN,
                program: node("pi", "pi"),
                first: vec!["-p", "--provider", "openai", "--model", "gpt-4o", PROMPT],
                next: vec!["-c", "-p", "--provider", "openai", "--model", "gpt-4o", PROMPT],
                variables: vec![("PI_OFFLINE", "1"), ("PI_SKIP_VERSION_CHECK", "1")],
                in_terminal: false,
                script: None,
            },
            "mini-swe-agent" => Self {
                name,
                nature: Nature { resumes: false, cuts_outputs: true, ..PLAIN },
                program: python("mini-swe-agent", "mini"),
                first: vec!["-y", "--exit-immediately", "-m", "openai/gpt-4o", "-t", PROMPT],
                next: vec!["-y", "--exit-immediately", "-m", "openai/gpt-4o", "-t", PROMPT],
                variables: vec![
                    ("MSWEA_CONFIGURED", "true"),
                    ("MSWEA_COST_TRACKING", "ignore_errors"),
                    ("LITELLM_LOCAL_MODEL_COST_MAP", "True"),
                ],
                in_terminal: false,
                script: None,
            },
            "aider" => {
                let options = [
                    "--model",
                    "openai/gpt-4o",
                    "--yes-always",
                    "--no-git",
                    "--no-pretty",
                    "--no-fancy-input",
                    "--no-stream",
                    "--no-check-update",
                    "--no-show-release-notes",
                    "--analytics-disable",
                    "--no-detect-urls",
                    "--map-tokens",
                    "0",
                    "--max-chat-history-tokens",
                    "1000000",
                    "src/lease_0.txt",
                    "src/lease_3.txt",
                ];
                Self {
                    name,
                    nature: Nature { style: ActingStyle::Words, rewrites: true, ..PLAIN },
                    program: python("aider", "aider"),
                    first: options.to_vec(),
                    next: [&["--restore-chat-history"], &options[..]].concat(),
                    variables: vec![("LITELLM_LOCAL_MODEL_COST_MAP", "True")],
                    in_terminal: false,
                    script: None,
                }
            }
            "llm" => {
                let options = ["-m", "gpt-4o", "--functions", FUNCTIONS, "--cl", "0", PROMPT];
                Self {
                    name,
                    nature: PLAIN,
                    program: python("llm", "llm"),
                    first: options.to_vec(),
                    next: [&["-c"], &options[..]].concat(),
                    variables: Vec::new(),
                    in_terminal: false,
                    script: None,
                }
            }
            "openai-agents" => Self::script(name, "openai_agents.py", python(name, "python"), None),
            "langchain" => Self::script(name, "langchain_agent.py", python(name, "python"), None),
            "pydantic-ai" => {
                Self::script(name, "pydantic_ai_agent.py", python(name, "python"), None)
            }
            "ai" => {
                let packages = cache.join("ai/node_modules");
                let is_there = packages.exists();
                let program =
                    if is_there { PathBuf::from("/usr/bin/env") } else { packages.clone() };
                let mut agent = Self::script(name, "ai.mjs", program, Some(packages));
                agent.first.insert(0, "node");
                agent.next.insert(0, "node");
                agent
            }
            other => panic!("nobody knows an agent {other}"),
        };
        if !agent.program.exists() {
            println!("skipped: {name} is not installed at {}", agent.program.display());
            return None;
        }
        Some(agent)
    }

    /// A program of a few lines, made with an SDK.
    fn script(
        name: &'static str,
        script: &'static str,
        program: PathBuf,
        packages: Option<PathBuf>,
    ) -> Self {
        Self {
            name,
            nature: PLAIN,
            program,
            first: vec![SCRIPT, PROMPT],
            next: vec![SCRIPT, PROMPT],
            variables: vec![("LANGSMITH_TRACING", "false"), ("OTEL_SDK_DISABLED", "true")],
            in_terminal: false,
            script: Some((script, packages)),
        }
    }

    /// Where its script is; packages for Node are looked for beside it.
    fn script_path(&self, workspace: &Workspace) -> String {
        let Some((script, packages)) = &self.script else { return String::new() };
        let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/agents").join(script);
        let Some(packages) = packages else { return ours.to_string_lossy().into_owned() };
        let beside = workspace.home().join("node_modules");
        if !beside.exists() {
            std::os::unix::fs::symlink(packages, beside).unwrap();
        }
        let copy = workspace.home().join(script);
        std::fs::copy(ours, &copy).unwrap();
        copy.to_string_lossy().into_owned()
    }

    /// Where its program is.
    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// What it wants to have set.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.variables.iter().copied()
    }

    /// The same with a variable of its own.
    pub(crate) fn with_variable(mut self, name: &'static str, value: &'static str) -> Self {
        self.variables.retain(|(known, _)| *known != name);
        self.variables.push((name, value));
        self
    }

    /// Runs it behind `longhand run` in a session that it has on disk.
    pub(crate) fn resume(
        &self,
        workspace: &Workspace,
        upstream: &str,
        budget: u64,
        session: &str,
        prompt: &str,
    ) -> Ended {
        let mut arguments: Vec<&str> = match self.name {
            "codex" => vec!["exec", "resume", session],
            "pi" => vec!["--session", session],
            _ => vec!["--resume", session],
        };
        arguments.extend(self.first.iter().filter(|word| **word != "exec"));
        self.run_with(workspace, upstream, budget, &arguments, (prompt, ""), || false)
    }

    /// Runs it once behind `longhand run`; ends it with SIGKILL as soon as `kill` says so.
    pub(crate) fn run(
        &self,
        workspace: &Workspace,
        upstream: &str,
        (budget, goes_on): (u64, bool),
        (prompt, input): (&str, &str),
        kill: impl Fn() -> bool,
    ) -> Ended {
        let arguments = if goes_on { &self.next } else { &self.first };
        self.run_with(workspace, upstream, budget, arguments, (prompt, input), kill)
    }

    fn run_with(
        &self,
        workspace: &Workspace,
        upstream: &str,
        budget: u64,
        arguments: &[&str],
        (prompt, input): (&str, &str),
        kill: impl Fn() -> bool,
    ) -> Ended {
        let mut words: Vec<String> = ["run", "--budget"].map(str::to_owned).to_vec();
        words.extend([
            budget.to_string(),
            "--upstream".to_owned(),
            upstream.to_owned(),
            "--archive".to_owned(),
        ]);
        words.push(workspace.archive().to_string_lossy().into_owned());
        words.extend(["--".to_owned(), self.program.to_string_lossy().into_owned()]);
        let script = self.script_path(workspace);
        let filled = |word: &&str| word.replace(PROMPT, prompt).replace(SCRIPT, &script);
        words.extend(arguments.iter().map(filled));
        let mut variables: Vec<(String, String)> = [
            ("ANTHROPIC_API_KEY", "sk-ant-none"),
            ("OPENAI_API_KEY", "sk-none"),
            ("DISABLE_TELEMETRY", "1"),
            ("DO_NOT_TRACK", "1"),
            ("TERM", "xterm-256color"),
            ("LANG", "C.UTF-8"),
        ]
        .into_iter()
        .chain(self.variables.iter().copied())
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
        let home = workspace.home().to_string_lossy().into_owned();
        variables.push(("HOME".to_owned(), home));
        variables.push(("PATH".to_owned(), std::env::var("PATH").unwrap_or_default()));
        if self.in_terminal {
            run_in_terminal(workspace, &words, &variables, kill)
        } else {
            run_in_pipes(workspace, &words, &variables, input, kill)
        }
    }
}

fn run_in_terminal(
    workspace: &Workspace,
    words: &[String],
    variables: &[(String, String)],
    kill: impl Fn() -> bool,
) -> Ended {
    let size = PtySize { rows: 50, cols: 160, pixel_width: 0, pixel_height: 0 };
    let pair = native_pty_system().openpty(size).unwrap();
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_longhand"));
    command.args(words);
    command.env_clear();
    for (name, value) in variables {
        command.env(name, value);
    }
    command.cwd(workspace.project());
    let mut child = pair.slave.spawn_command(command).unwrap();
    drop(pair.slave);
    let mut reader = pair.master.try_clone_reader().unwrap();
    let reading = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = reader.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    });
    let pid = child.process_id().unwrap();
    let status = wait(kill, pid, || Some(child.try_wait().unwrap()?.exit_code().cast_signed()));
    let _ = child.wait();
    drop(pair.master);
    Ended { status, output: reading.join().unwrap() }
}

fn run_in_pipes(
    workspace: &Workspace,
    words: &[String],
    variables: &[(String, String)],
    input: &str,
    kill: impl Fn() -> bool,
) -> Ended {
    let output = tempfile::tempfile().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_longhand"))
        .args(words)
        .env_clear()
        .envs(variables.iter().cloned())
        .current_dir(workspace.project())
        .stdin(Stdio::piped())
        .stdout(output.try_clone().unwrap())
        .stderr(output.try_clone().unwrap())
        .process_group(0)
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let writing = std::thread::spawn(move || {
        // Whoever is killed does not read to the end.
        let _ = stdin.write_all(input.as_bytes());
    });
    let pid = child.id();
    let status = wait(kill, pid, || Some(child.try_wait().unwrap()?.code().unwrap_or(-1)));
    let _ = child.wait();
    let _ = writing.join();
    let mut text = String::new();
    let mut file = output;
    std::io::Seek::rewind(&mut file).unwrap();
    let _ = file.read_to_string(&mut text);
    Ended { status, output: text }
}

/// Waits for the end of a process, or ends its group.
fn wait(kill: impl Fn() -> bool, pid: u32, mut ended: impl FnMut() -> Option<i32>) -> Option<i32> {
    let begun = Instant::now();
    loop {
        if let Some(status) = ended() {
            return Some(status);
        }
        let is_late = begun.elapsed() > RUN_MAX;
        if kill() || is_late {
            let group = format!("-{pid}");
            let _ = Command::new("kill").args(["-9", "--", &group]).status();
            assert!(!is_late, "the agent did not end within {} s", RUN_MAX.as_secs());
            return None;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
