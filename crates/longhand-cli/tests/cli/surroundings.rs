//! Homes, links, masks and crowds: it works, or an error names the file.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::run::Folder;

const ROUND: &[u8] = b"{\"user\": \"Hi.\", \"assistant\": \"Hello.\"}\n";

/// Runs a line of the shell in which `longhand` is the program.
fn shell(folder: &Folder, line: &str) -> (i32, String, String) {
    let line = line.replace("longhand", env!("CARGO_BIN_EXE_longhand"));
    let mut child = Command::new("sh")
        .args(["-c", &line])
        .current_dir(folder.path(""))
        .env("HOME", folder.path("home"))
        .env_remove("XDG_DATA_HOME")
        .env_remove("XDG_CONFIG_HOME")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _ = child.stdin.take().unwrap().write_all(ROUND);
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

#[test]
fn an_archive_is_its_owners_whatever_the_mask() {
    use std::os::unix::fs::PermissionsExt;
    for mask in ["000", "022", "077"] {
        let folder = Folder::new();
        let (status, _, told) =
            shell(&folder, &format!("umask {mask}; longhand record demo --redact"));
        assert_eq!(status, 0, "{told}");
        for name in ["archive.db", "archive.db.redact-key"] {
            let path = folder.path("home/.local/share/longhand").join(name);
            let mode = std::fs::metadata(path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name} under {mask}");
        }
    }
}

#[test]
fn a_home_that_cannot_be_written_is_named() {
    let folder = Folder::new();
    // Modes do not bind root, so the places are impossible ones.
    for (line, named) in [
        ("HOME=/proc/nobody longhand record demo", "/proc/nobody"),
        ("HOME=/dev/null longhand record demo", "/dev/null"),
        ("longhand record demo --archive /proc/archive.db", "/proc/archive.db"),
        ("longhand record demo --archive nothere/../../proc/x/a.db", "proc/x"),
    ] {
        let (status, said, told) = shell(&folder, &format!("cd /; {line}"));
        assert_eq!((status, said.as_str()), (2, ""), "{line}: {told}");
        assert!(told.contains(named) && told.starts_with("error: "), "{line}: {told}");
    }
}

#[test]
fn links_are_followed_and_dangling_ones_named() {
    let folder = Folder::new();
    folder.write("real/empty", "");
    std::os::unix::fs::symlink("real/a.db", folder.path("link.db")).unwrap();
    let (status, _, told) = shell(&folder, "longhand record demo --archive link.db");
    assert!(status == 2 && told.contains("link.db"), "{told}");
    let (status, _, told) = shell(&folder, "longhand record demo --archive real/a.db");
    assert_eq!(status, 0, "{told}");
    let (status, _, told) = shell(&folder, "longhand record demo --archive link.db");
    assert_eq!(status, 0, "{told}");
    let (status, said, _) = shell(&folder, "longhand export demo --archive real/a.db");
    // The session's record has the first words, too, and not as part of a message.
    assert_eq!((status, said.matches("Hi.\\\"").count()), (0, 2), "{said}");
}

#[test]
fn a_newer_format_is_refused_by_name_and_left_alone() {
    let folder = Folder::new();
    shell(&folder, "longhand record demo --archive a.db");
    let db = rusqlite::Connection::open(folder.path("a.db")).unwrap();
    db.execute_batch("PRAGMA user_version = 99; PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    drop(db);
    let before = std::fs::read(folder.path("a.db")).unwrap();
    for command in ["record demo", "ls", "search Hi", "verify", "export demo", "rm demo --yes"] {
        let (status, said, told) = shell(&folder, &format!("longhand {command} --archive a.db"));
        assert_eq!((status, said.as_str()), (2, ""), "{command}: {told}");
        assert!(told.contains("a.db") && told.contains("99"), "{command}: {told}");
    }
    assert_eq!(std::fs::read(folder.path("a.db")).unwrap(), before);
}

#[test]
fn fifty_at_once_on_a_new_archive_lose_nothing() {
    let folder = Folder::new();
    let mut children: Vec<_> = (0..50)
        .map(|number| {
            let line =
                serde_json::json!({"user": format!("I am number {number}."), "assistant": "Yes."});
            let mut child =
                folder.start(&format!("record crowd{} --archive new/a.db --json", number % 3));
            let _ = child.stdin.take().unwrap().write_all(format!("{line}\n").as_bytes());
            (number, child)
        })
        .collect();
    let mut acknowledged = Vec::new();
    for (number, child) in children.drain(..) {
        let run = crate::run::FinishedRun::of("record", &child.wait_with_output().unwrap());
        match run.status {
            0 => acknowledged.push(number),
            // A machine that is too busy for the crowd says so, and names the file.
            _ => assert!(run.stderr.contains("a.db"), "{run:?}"),
        }
    }
    let all: String = (0..3)
        .map(|at| folder.run(&format!("export crowd{at} --archive new/a.db")).stdout)
        .collect();
    for number in &acknowledged {
        // The session's record has the first words, too, and not as part of a message.
        let said = format!("I am number {number}.\\\"");
        assert_eq!(all.matches(&said).count(), 1, "{said}");
    }
    assert!(acknowledged.len() >= 40, "{} of 50", acknowledged.len());
    assert_eq!(folder.run("verify --archive new/a.db").status, 0);
}

#[test]
fn a_log_of_another_archive_is_refused_with_a_hint() {
    let folder = Folder::new();
    for name in ["a", "b"] {
        let (status, _, told) =
            shell(&folder, &format!("longhand record demo --archive {name}.db"));
        assert_eq!(status, 0, "{told}");
    }
    // A process that is killed leaves its log behind, and another file comes to its place.
    let db = rusqlite::Connection::open(folder.path("a.db")).unwrap();
    db.execute("UPDATE stamp SET before = now, now = randomblob(16)", []).unwrap();
    std::fs::copy(folder.path("a.db-wal"), folder.path("b.db-wal")).unwrap();
    let before = std::fs::read(folder.path("b.db")).unwrap();
    for line in ["longhand ls --archive b.db", "longhand record demo --archive b.db"] {
        let (status, _, told) = shell(&folder, line);
        assert_eq!(status, 2, "{line}: {told}");
        assert!(told.contains("b.db-wal belongs to another file"), "{line}: {told}");
        assert!(told.contains("hint: "), "{line}: {told}");
    }
    assert_eq!(std::fs::read(folder.path("b.db")).unwrap(), before);
    let (status, _, told) = shell(&folder, "mv b.db-wal away; longhand verify --archive b.db");
    assert_eq!(status, 0, "{told}");
}
