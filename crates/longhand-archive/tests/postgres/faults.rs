//! What goes wrong between a node and its database, and at the database.

use std::time::{Duration, Instant};

use longhand_archive::{
    After, Archive, ArchiveError, NewSession, PostgresArchive, PostgresSettings,
};
use longhand_testkit::contract::samples::{id, named, stubs, user};

use crate::server::{own_server, server};
use crate::wire::Wire;

fn opened(address: &str, wait_max: Duration) -> PostgresArchive {
    let settings = PostgresSettings { connections_max: 2, wait_max, ..PostgresSettings::default() };
    PostgresArchive::open_with(address, &settings).unwrap()
}

/// The connection is cut before each message of a write in turn. It is made all the same, and once.
#[test]
fn a_connection_that_is_cut_at_any_message_loses_and_doubles_nothing() {
    let Some(server) = server() else { return };
    let database = server.database();
    let wire = Wire::to(server.port);
    let address = format!("{}?sslmode=disable", server.address(&database, wire.port));
    let archive = opened(&address, Duration::from_secs(20));
    archive.begin(id("s"), &named(longhand_archive::Owner::LOCAL, "s")).unwrap();
    let mut said = 0;
    for at in 0.. {
        let cuts = wire.cuts();
        wire.cut_after(at);
        let text = format!("before message {at}");
        let appended = archive.append(id("s"), After::Newest, &[user(&text)]).unwrap();
        assert_eq!(appended.seqs[0].0, said, "cut before message {at}");
        said += 1;
        if at % 4 == 0 {
            // A batch has more statements, and is as safe.
            archive.commit(id("s"), &stubs(at as u64 / 4, said - 1, &[said - 1])).unwrap();
        }
        wire.cut_after(-1);
        if wire.cuts() == cuts {
            assert!(at > 10, "only {at} messages");
            break;
        }
    }
    let direct = server.open(&database, false);
    let entries = direct.entries(id("s"), 0..said).unwrap();
    for (at, entry) in entries.iter().enumerate() {
        assert_eq!(entry.raw, user(&format!("before message {at}")).raw);
    }
    assert_eq!(direct.head(id("s")).unwrap().unwrap().entries, said);
    assert_eq!(direct.verify(None).unwrap(), []);
    println!("cut before each of {} messages, {} cuts", said, wire.cuts());
    // No connection is left behind.
    assert!(wire.connections() <= 2, "{}", wire.connections());
    drop(archive);
    let begun = Instant::now();
    while wire.connections() > 0 {
        assert!(begun.elapsed() < Duration::from_secs(10), "{} are left", wire.connections());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A server that cannot be reached, or is silent, is an error that says so, in time.
#[test]
fn a_server_that_is_silent_or_away_is_named_in_time() {
    let Some(server) = server() else { return };
    let wire = Wire::to(server.port);
    let address = format!("{}?sslmode=disable", server.address(&server.database(), wire.port));
    let settings = PostgresSettings {
        wait_max: Duration::from_millis(500),
        statement_max: Duration::from_millis(300),
        connections_max: 2,
        password_file: None,
    };
    let archive = PostgresArchive::open_with(&address, &settings).unwrap();
    archive.begin(id("s"), &NewSession::default()).unwrap();
    wire.set_late(Duration::from_secs(10));
    let begun = Instant::now();
    let error = archive.session(id("s")).unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
    assert!(error.to_string().contains("did not answer within"), "{error}");
    wire.set_late(Duration::ZERO);
    assert!(archive.session(id("s")).unwrap().is_some(), "it is back");
}

/// A primary that takes no writes any more says so, and goes on when it does.
#[test]
fn a_server_that_is_read_only_keeps_what_it_has() {
    let Some(server) = own_server() else { return };
    let database = server.database();
    let archive = server.open(&database, true);
    archive.begin(id("s"), &NewSession::default()).unwrap();
    archive.append(id("s"), After::Newest, &[user("before")]).unwrap();
    let set = |value: &str| {
        server
            .sql("postgres", &format!("ALTER SYSTEM SET default_transaction_read_only = {value}"))
            .unwrap();
        server.sql("postgres", "SELECT pg_reload_conf()").unwrap();
        std::thread::sleep(Duration::from_millis(300));
    };
    set("on");
    let error = archive.append(id("s"), After::Newest, &[user("meanwhile")]).unwrap_err();
    assert!(matches!(error, ArchiveError::Unwritable { .. }), "{error:?}");
    assert_eq!(archive.entries(id("s"), 0..9).unwrap().len(), 1);
    set("off");
    archive.append(id("s"), After::Newest, &[user("after")]).unwrap();
    assert_eq!(archive.verify(None).unwrap(), []);
}

/// A disk that is full: the tables are in a tablespace of a few megabytes.
#[test]
fn a_full_disk_is_named_and_what_was_acknowledged_stays() {
    let Some(server) = own_server() else { return };
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    let Some(disk) = SmallDisk::mount(folder.path()) else {
        eprintln!("SKIPPED: the full disk: no small file system can be mounted here");
        return;
    };
    server
        .sql("postgres", &format!("CREATE TABLESPACE small LOCATION '{}'", disk.folder()))
        .unwrap();
    server
        .sql(
            "postgres",
            "CREATE DATABASE small TEMPLATE filled TABLESPACE small STRATEGY file_copy",
        )
        .unwrap();
    let archive = server.open("small", false);
    archive.begin(id("s"), &NewSession::default()).unwrap();
    let (mut said, mut seed) = (0, 1_u64);
    let error = loop {
        // Nothing that could be packed.
        let text: String = (0..40_000)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                char::from(b'!' + (seed >> 33) as u8 % 90)
            })
            .collect();
        match archive.append(id("s"), After::Newest, &[user(&text)]) {
            Ok(_) => said += 1,
            Err(error) => break error,
        }
        assert!(said < 2_000, "the disk is never full");
    };
    assert!(matches!(error, ArchiveError::Full { .. }), "{error:?}");
    assert_eq!(archive.entries(id("s"), 0..u64::MAX).unwrap().len(), said);
    assert_eq!(archive.verify(None).unwrap(), []);
    drop(archive);
    server.sql("postgres", "DROP DATABASE small WITH (FORCE)").unwrap();
    server.sql("postgres", "DROP TABLESPACE small").unwrap();
}

/// A file system in memory with room for the tables and a little more.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    fn mount(folder: &std::path::Path) -> Option<Self> {
        let run = |program: &str, arguments: &[&str]| {
            let mut command = std::process::Command::new(program);
            command.args(arguments).arg(folder);
            command.output().is_ok_and(|output| output.status.success())
        };
        if !run("mount", &["-t", "tmpfs", "-o", "size=20m", "longhand-small"]) {
            return None;
        }
        let disk = Self(folder.to_owned());
        run("chown", &["postgres"]).then_some(disk)
    }

    fn folder(&self) -> std::path::Display<'_> {
        self.0.display()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).output();
    }
}
