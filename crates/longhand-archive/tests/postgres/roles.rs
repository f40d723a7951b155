//! The roles of `packaging/postgres-roles.sql`: enough for each, and nothing more.

use std::path::Path;

use longhand_archive::{Archive, ArchiveError, PostgresArchive, Scope, Storage as _, Upkeep, wait};
use longhand_testkit::contract::samples::{id, record, reply, stubs, user};

use crate::server::{PASSWORD, Server, server};

fn opened(server: &Server, database: &str, role: &str) -> Result<PostgresArchive, ArchiveError> {
    let address = server.address(database, server.port);
    PostgresArchive::open(&address.replacen("longhand:", &format!("{role}:"), 1))
}

#[test]
fn the_server_needs_no_right_to_change_tables() {
    let Some(server) = server() else { return };
    server.sql("postgres", "CREATE DATABASE roles").unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/postgres-roles.sql");
    let script = std::fs::read_to_string(script).unwrap();
    server.sql("roles", &script).unwrap();
    for role in ["longhand_owner", "longhand_server", "longhand_reader"] {
        server.sql("roles", &format!("ALTER ROLE {role} PASSWORD '{PASSWORD}'")).unwrap();
    }
    // Before there are tables, only the owner can make them.
    for role in ["longhand_server", "longhand_reader"] {
        let error = opened(server, "roles", role).unwrap_err();
        assert!(matches!(error, ArchiveError::Unwritable { .. }), "{role}: {error:?}");
    }
    opened(server, "roles", "longhand_owner").unwrap();
    // It can be run again, also when the tables are there.
    server.sql("roles", &script).unwrap();

    let archive = opened(server, "roles", "longhand_server").unwrap();
    record(&archive, "s", &[user("The exporter crashed."), reply("Then restart it.")]);
    record(&archive, "t", &[user("Another session.")]);
    archive.commit(id("s"), &stubs(0, 1, &[0])).unwrap();
    archive.undo(id("s"), None).unwrap().unwrap();
    archive.put_derived(id("s"), "key", "value").unwrap();
    archive.rename(id("s"), "renamed").unwrap();
    for upkeep in [Upkeep::Index, Upkeep::Reindex, Upkeep::Wipe] {
        assert!(wait(archive.maintain(upkeep)).unwrap());
    }
    assert_eq!(archive.search(&Scope::All, "exporter", 9).unwrap().len(), 1);
    assert!(archive.remove(id("t")).unwrap());
    assert_eq!(archive.verify(None).unwrap(), []);

    let reader = opened(server, "roles", "longhand_reader").unwrap();
    assert_eq!(reader.entries(id("s"), 0..9).unwrap().len(), 2);
    let error = reader.rename(id("s"), "not by me").unwrap_err();
    assert!(matches!(error, ArchiveError::Unwritable { .. }), "{error:?}");

    for statement in [
        "CREATE TABLE longhand.more (number bigint)",
        "ALTER TABLE longhand.entry ADD COLUMN more bigint",
        "DROP TABLE longhand.note",
        "TRUNCATE longhand.note",
        "UPDATE longhand.schema_version SET version = 7",
        "CREATE SCHEMA more",
    ] {
        let error = server.sql("roles", &format!("SET ROLE longhand_server; {statement}"));
        let error = error.unwrap_err();
        assert!(
            error.contains("permission denied") || error.contains("must be owner"),
            "{statement}: {error}"
        );
    }
}
