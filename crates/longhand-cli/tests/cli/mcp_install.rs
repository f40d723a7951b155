//! `longhand mcp install` and `uninstall` on settings files as agents have them.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use crate::run::Folder;
use serde_json::{Value, json};

/// An agent, its settings file, and how such a file looks.
struct Case {
    agent: &'static str,
    file: &'static str,
    /// A file with another server and comments, where the agent takes them.
    text: &'static str,
    /// Where our entry is.
    pointer: &'static str,
}

const CASES: [Case; 5] = [
    Case {
        agent: "claude",
        file: ".claude.json",
        text: "{\n  \"numStartups\": 34,\n  \"oauthAccount\": {\"emailAddress\": \"a@b.c\"},\n  \"projects\": {\n    \"/w\": {\"mcpServers\": {}, \"history\": []}\n  },\n  \"mcpServers\": {\n    \"other\": {\n      \"type\": \"stdio\",\n      \"command\": \"npx\",\n      \"args\": [],\n      \"env\": {}\n    }\n  },\n  \"cost\": 1.50\n}",
        pointer: "/mcpServers/longhand",
    },
    Case {
        agent: "codex",
        file: ".codex/config.toml",
        text: "# mine\nmodel = \"gpt-5.1\"   # best\n\n[mcp_servers.other]\ncommand = 'npx'\nargs = [\n  \"-y\", # yes\n]\n\n[mcp_servers.other.env]\nKEY = \"[mcp_servers.longhand]\"\n\n[projects.\"/w\"]\ntrust_level = \"trusted\"\n",
        pointer: "/mcp_servers/longhand",
    },
    Case {
        agent: "cursor",
        file: ".cursor/mcp.json",
        text: "{\"mcpServers\": {\"other\": {\"url\": \"http://localhost:1/sse\"}}}\n",
        pointer: "/mcpServers/longhand",
    },
    Case {
        agent: "zed",
        file: "config/zed/settings.json",
        text: "// Zed settings\n//\n// see the documentation\n{\n  \"theme\": {\"mode\": \"system\"}, // day and night\n  \"context_servers\": {\n    /* a server */\n    \"other\": {\"command\": \"x\", \"args\": [\"//\"]},\n  },\n  \"vim_mode\": true,\n}\n",
        pointer: "/context_servers/longhand",
    },
    Case {
        agent: "opencode",
        file: "config/opencode/opencode.jsonc",
        text: "{\r\n\t\"$schema\": \"https://opencode.ai/config.json\",\r\n\t// servers\r\n\t\"mcp\": {\r\n\t\t\"other\": {\"type\": \"local\", \"command\": [\"x\"]}\r\n\t},\r\n}\r\n",
        pointer: "/mcp/longhand",
    },
];

/// What a settings file says, whatever it is written in; the comments of these files stand alone.
fn says(case: &Case, text: &str) -> Value {
    if case.agent == "codex" {
        return serde_json::to_value(toml::from_str::<toml::Table>(text).unwrap()).unwrap();
    }
    let mut json = String::new();
    for line in text.lines() {
        let line = line.split(" // ").next().unwrap();
        let is_comment = ["//", "/*"].iter().any(|sign| line.trim_start().starts_with(sign));
        json.push_str(if is_comment { "" } else { line });
    }
    let json = json.replace([' ', '\t', '\r'], "").replace(",}", "}").replace(",]", "]");
    serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The lines of a file that have nothing of our entry.
fn other_lines(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines.map(|line| line.trim_end_matches(',').to_owned()).collect()
}

#[test]
fn an_entry_is_added_and_taken_back_and_every_other_byte_stays() {
    for case in &CASES {
        let Case { agent, file, text, pointer } = case;
        let folder = Folder::with(file, text);
        let printed = folder.run(&format!("mcp install {agent} --print"));
        assert_eq!(printed.status, 0, "{agent}: {printed:?}");
        assert!(printed.stdout.contains("+ ") && printed.stdout.contains("mcp"), "{printed:?}");
        assert_eq!(folder.read(file), *text, "{agent}: it only prints");
        // Nobody can be asked.
        let asked = folder.run(&format!("mcp install {agent}"));
        assert!(asked.status == 2 && asked.stderr.contains("--yes"), "{agent}: {asked:?}");
        assert_eq!(folder.read(file), *text);
        let run = folder.run(&format!("mcp install {agent} --yes --scope all"));
        assert_eq!(run.status, 0, "{agent}: {run:?}");
        let new = folder.read(file);
        let entry = says(case, &new).pointer(pointer).cloned().unwrap_or_else(|| panic!("{new}"));
        let command = entry["command"].as_str().or(entry["command"][0].as_str()).unwrap();
        assert!(command.starts_with('/') && command.ends_with("longhand"), "{entry}");
        assert!(entry.to_string().contains(r#""mcp","--scope","all"]"#), "{entry}");
        assert_eq!(folder.read(&format!("{file}.orig")), *text, "{agent}: the copy");
        // What was there is there, in its order.
        let new_lines = other_lines(&new);
        let mut at = new_lines.iter();
        for line in other_lines(text) {
            // A file of one line has ours in it.
            let is_there = at.any(|new| *new == line) || text.lines().count() == 1;
            assert!(is_there, "{agent}: {line}\n{new}");
        }
        let again = folder.run(&format!("mcp install {agent} --yes --scope all"));
        assert!(again.stderr.contains("has it already"), "{agent}: {again:?}");
        assert_eq!(folder.read(file), new);
        // Other options change our entry where it stands.
        let other = folder.run(&format!("mcp install {agent} --yes --write"));
        assert_eq!(other.status, 0, "{agent}: {other:?}");
        let changed = folder.read(file);
        assert_eq!(changed.matches("--write").count(), 1, "{changed}");
        assert!(!changed.contains("--scope"), "{changed}");
        let gone = folder.run(&format!("mcp uninstall {agent} --yes"));
        assert_eq!(gone.status, 0, "{agent}: {gone:?}");
        assert_eq!(folder.read(file), *text, "{agent}");
        let nothing = folder.run(&format!("mcp uninstall {agent} --yes"));
        assert!(nothing.status == 0 && nothing.stderr.contains("no such entry"), "{nothing:?}");
    }
}

#[test]
fn a_file_that_is_not_there_is_made_where_the_agent_is() {
    for Case { agent, file, pointer, .. } in &CASES {
        let folder = Folder::new();
        let run = folder.run(&format!("mcp install {agent} --yes"));
        // The machine may have the agent in its PATH.
        if run.status == 2 {
            assert!(run.stderr.contains("is not here"), "{run:?}");
            assert!(folder.names().is_empty(), "{agent}: {:?}", folder.names());
        }
        let folder = Folder::new();
        let made = match *agent {
            "claude" => ".claude/settings.json".to_owned(),
            _ => file.rsplit_once('/').unwrap().0.to_owned() + "/something",
        };
        folder.write(&made, "");
        let run = folder.run(&format!("mcp install {agent} --yes"));
        assert_eq!(run.status, 0, "{agent}: {run:?}");
        let file = file.replace("jsonc", "json");
        let text = folder.read(&file);
        let says: Value = match *agent {
            "codex" => serde_json::to_value(toml::from_str::<toml::Table>(&text).unwrap()).unwrap(),
            _ => serde_json::from_str(&text).unwrap(),
        };
        assert!(says.pointer(pointer).unwrap().to_string().contains("\"mcp\""), "{text}");
        assert!(!folder.path(&format!("{file}.orig")).exists());
        let gone = folder.run(&format!("mcp uninstall {agent} --yes"));
        assert!(gone.status == 0 && !folder.read(&file).contains("longhand"), "{gone:?}");
    }
}

#[test]
fn what_is_unusual_is_left_alone() {
    let foreign = r#"{"mcpServers": {"longhand": {"command": "npx", "args": ["longhand-notes"]}}}"#;
    let ours = r#"{"mcpServers": {"longhand": {"command": "/old/longhand", "args": ["mcp"]}}}"#;
    for (file, agent, text, words) in [
        (".cursor/mcp.json", "cursor", foreign.as_bytes(), "another server called longhand"),
        (".cursor/mcp.json", "cursor", b"{\"mcpServers\": {", "no JSON"),
        (".cursor/mcp.json", "cursor", b"[]", "no object"),
        (".cursor/mcp.json", "cursor", b"{\"mcpServers\": []}", "cannot be changed safely"),
        (".cursor/mcp.json", "cursor", b"{\"mcpServers\": {}, \"mcpServers\": {}}", "twice"),
        (".cursor/mcp.json", "cursor", b"{\"a\": \"\xff\"}", "no UTF-8"),
        (".codex/config.toml", "codex", b"model = ", "no TOML"),
        (
            ".codex/config.toml",
            "codex",
            b"mcp_servers = {a = {command = \"x\"}}\n",
            "cannot be changed safely",
        ),
        (
            ".codex/config.toml",
            "codex",
            b"mcp_servers.longhand = {command = \"longhand\", args = [\"mcp\", \"--write\"]}\n",
            "not changed here",
        ),
    ] {
        let folder = Folder::with(file, text);
        let run = folder.run(&format!("mcp install {agent} --yes"));
        assert_eq!(run.status, 2, "{words}: {run:?}");
        assert!(
            run.stderr.contains(words) && run.stderr.contains("nothing was written"),
            "{words}: {run:?}"
        );
        assert_eq!(fs::read(folder.path(file)).unwrap(), text, "{words}");
        assert!(!folder.path(&format!("{file}.orig")).exists(), "{words}");
    }
    let run = Folder::with(".cursor/mcp.json", foreign).run("mcp uninstall cursor --yes");
    assert!(run.status == 2 && run.stderr.contains("another server"), "{run:?}");
    // An entry of an earlier version of ours is ours.
    let folder = Folder::with(".cursor/mcp.json", ours);
    assert_eq!(folder.run("mcp install cursor --yes").status, 0);
    assert!(!folder.read(".cursor/mcp.json").contains("/old/"));
    // A file that is read-only, and a folder in its place.
    let folder = Folder::with(".cursor/mcp.json", "{}");
    let path = folder.path(".cursor/mcp.json");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    let run = folder.run("mcp install cursor --yes");
    assert!(run.status == 2 && run.stderr.contains("read-only"), "{run:?}");
    assert_eq!(folder.read(".cursor/mcp.json"), "{}");
    let folder = Folder::with(".cursor/mcp.json/x", "");
    let run = folder.run("mcp install cursor --yes");
    assert!(run.status == 2 && run.stderr.contains("cannot be changed safely"), "{run:?}");
    let run = folder.run("mcp install pi");
    assert!(run.status == 2 && run.stderr.contains("longhand run -- pi"), "{run:?}");
    assert_eq!(folder.run("mcp install emacs").status, 2);
    assert_eq!(folder.run("mcp --write install claude").status, 2);
}

#[test]
fn links_are_followed_and_modes_are_kept() {
    let folder = Folder::with("dotfiles/claude.json", "{\"mcpServers\": {}}");
    let target = folder.path("dotfiles/claude.json");
    fs::set_permissions(&target, fs::Permissions::from_mode(0o600)).unwrap();
    symlink(&target, folder.path(".claude.json")).unwrap();
    let run = folder.run("mcp install claude --yes");
    assert_eq!(run.status, 0, "{run:?}");
    assert!(folder.path(".claude.json").is_symlink());
    assert!(folder.read("dotfiles/claude.json").contains("longhand"));
    for file in ["dotfiles/claude.json", ".claude.json.orig"] {
        let mode = fs::metadata(folder.path(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}: it may have keys in it");
    }
    let folder = Folder::new();
    symlink(folder.path("nowhere"), folder.path(".claude.json")).unwrap();
    let run = folder.run("mcp install claude --yes");
    assert!(run.status == 2 && !folder.path("nowhere").exists(), "{run:?}");
}

#[test]
fn newer_files_of_opencode_have_one_level_more() {
    let file = "config/opencode/opencode.json";
    let folder = Folder::with(
        file,
        r#"{"mcp": {"servers": {"other": {"type": "local", "command": ["x"]}}}}"#,
    );
    assert_eq!(folder.run("mcp install opencode --yes --project .").status, 0);
    let entry = &folder.json(file)["mcp"]["servers"]["longhand"];
    assert_eq!((&entry["type"], &entry["command"][1]), (&json!("local"), &json!("mcp")));
    assert_eq!(entry["command"][3], folder.path("").display().to_string().trim_end_matches('/'));
}
