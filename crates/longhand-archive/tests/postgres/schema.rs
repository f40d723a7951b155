//! Opening an archive: its tables, and what is said if that cannot be done.

use std::error::Error as _;
use std::thread;
use std::time::Duration;

use longhand_archive::{ArchiveError, PostgresArchive, PostgresSettings, ServerError};

use crate::server::{PASSWORD, server};

/// All that an error says, with its causes.
fn said(error: &ArchiveError) -> String {
    let mut said = format!("{error} {error:?}");
    let mut cause = error.source();
    while let Some(error) = cause {
        said.push_str(&format!(" {error}"));
        cause = error.source();
    }
    said
}

#[test]
fn nodes_that_start_at_once_make_the_tables_once() {
    let Some(server) = server() else { return };
    server.sql("postgres", "CREATE DATABASE fresh").unwrap();
    let ports = [server.port, server.pooler_port.unwrap()];
    thread::scope(|scope| {
        for port in ports.into_iter().cycle().take(8) {
            let address = server.address("fresh", port);
            scope.spawn(move || PostgresArchive::open(&address).unwrap());
        }
    });
    let versions =
        server.sql("fresh", "SELECT count(*), max(version) FROM longhand.schema_version").unwrap();
    assert_eq!(versions, "1|1");
}

#[test]
fn tables_of_a_newer_release_are_left_as_they_are() {
    let Some(server) = server() else { return };
    let database = server.database();
    server.sql(&database, "UPDATE longhand.schema_version SET version = 99").unwrap();
    let error = PostgresArchive::open(&server.address(&database, server.port)).unwrap_err();
    assert!(matches!(error, ArchiveError::OtherFormat { found: 99, known: 1, .. }), "{error}");
}

#[test]
fn what_cannot_be_opened_says_why_and_never_the_password() {
    let Some(server) = server() else { return };
    let settings =
        PostgresSettings { wait_max: Duration::from_millis(300), ..PostgresSettings::default() };
    let open = |address: &str| {
        let error = PostgresArchive::open_with(address, &settings).unwrap_err();
        assert!(!said(&error).contains(PASSWORD), "{}", said(&error));
        error
    };
    let nowhere = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error = open(&server.address("filled", nowhere));
    assert!(matches!(error.server_error(), Some(ServerError::Unreachable { .. })), "{error:?}");
    let wrong = server.address("filled", server.port).replace(PASSWORD, "other");
    let error = PostgresArchive::open_with(&wrong, &settings).unwrap_err();
    assert!(matches!(error.server_error(), Some(ServerError::Login { .. })), "{error:?}");
    assert!(!said(&error).contains("other@"));
    let error = open(&server.address("no_such_database", server.port));
    assert!(matches!(error.server_error(), Some(ServerError::NoDatabase { .. })), "{error:?}");
    let error = open(&format!("{}?sslmode=require", server.address("filled", server.port)));
    assert!(matches!(error.server_error(), Some(ServerError::Unreachable { .. })), "{error:?}");
}

#[test]
fn what_is_damaged_is_found_and_named() {
    use longhand_archive::Archive as _;
    let Some(server) = server() else { return };
    let database = server.database();
    let archive = server.open(&database, false);
    longhand_testkit::contract::samples::record(
        &archive,
        "s",
        &[longhand_testkit::contract::samples::user("one")],
    );
    longhand_testkit::contract::samples::record(
        &archive,
        "t",
        &[longhand_testkit::contract::samples::user("two")],
    );
    let s = longhand_testkit::contract::samples::id("s");
    server.sql(&database, "UPDATE longhand.entry SET at_ms = at_ms + 1 WHERE id = 1").unwrap();
    let damages = archive.verify(None).unwrap();
    assert_eq!(damages.len(), 1, "{damages:?}");
    assert_eq!(damages[0].session, Some(s));
    assert!(archive.entries(s, 0..1).is_err());
    server.sql(&database, "UPDATE longhand.session SET bytes = 7").unwrap();
    assert_eq!(archive.verify(None).unwrap().len(), 2);
}
