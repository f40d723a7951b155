//! The tables, and how they came to be what they are.

use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};

use super::ServerError;
use super::fault::Fault;
use super::server::{Asked, Server, rolled_back};
use crate::ArchiveError;

/// The version that is written. A change gets a new number and a step from the one before.
pub(super) const VERSION: i64 = 1;

/// The oldest release of the server that has all that is used.
const SERVER_MIN: i32 = 130_000;

/// Nodes that make the tables at once wait for each other by this lock: "longhand".
const LOCK: i64 = 0x6c6f_6e67_6861_6e64;

/// How each version is made from the one before it.
const STEPS: [&str; VERSION as usize] = [FIRST];

/// Texts are bytes, since `text` takes no NUL and orders by language; the long ones are packed, and the server must not
/// try to compress them again. What is called a seal is a checksum over the row, and a hash
/// stands in an index for a text that may be too long for it.
const FIRST: &str = "\
CREATE SEQUENCE longhand.entry_id;
CREATE SEQUENCE longhand.request_id;

-- All that a list shows of a session; its version is made of the counts here. `newest` is the id of the entry that was
-- appended last. `undone` and `pins` are lists of numbers.
CREATE TABLE longhand.session (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id bytea NOT NULL UNIQUE,
    owner bytea NOT NULL,
    dialect bytea NOT NULL,
    name bytea NOT NULL,
    continues bytea,
    kin bigint,
    begun_ms bigint NOT NULL,
    project bytea NOT NULL,
    agent bytea NOT NULL,
    file bytea NOT NULL,
    imported bigint NOT NULL,
    opening bytea NOT NULL,
    newest bigint NOT NULL,
    entries bigint NOT NULL,
    bytes bigint NOT NULL,
    first_ms bigint NOT NULL,
    last_ms bigint NOT NULL,
    parent bigint,
    round bigint NOT NULL,
    link bytea NOT NULL,
    batches bigint NOT NULL,
    requests bigint NOT NULL,
    notes bigint NOT NULL,
    undone bytea NOT NULL,
    pins bytea NOT NULL,
    usage bytea NOT NULL,
    seal bytea NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX session_activity ON longhand.session (owner, newest, number);
CREATE INDEX session_recent ON longhand.session (newest, number);
CREATE INDEX session_name ON longhand.session (substr(name, 1, 64));
CREATE INDEX session_kin ON longhand.session (kin) WHERE kin IS NOT NULL;
CREATE INDEX session_continues ON longhand.session (continues) WHERE continues IS NOT NULL;

-- `body` is the message, packed; `excerpt` says what search sees of it.
CREATE TABLE longhand.entry (
    session bigint NOT NULL REFERENCES longhand.session,
    seq bigint NOT NULL,
    id bigint NOT NULL UNIQUE,
    parent bigint,
    round bigint NOT NULL,
    at_ms bigint NOT NULL,
    source_ms bigint,
    link bytea NOT NULL,
    seal bytea NOT NULL,
    form bytea NOT NULL,
    excerpt bytea NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (session, seq)
);
ALTER TABLE longhand.entry ALTER body SET STORAGE EXTERNAL, ALTER excerpt SET STORAGE EXTERNAL;
CREATE INDEX entry_link ON longhand.entry (link);
CREATE INDEX entry_fork ON longhand.entry (session, seq) INCLUDE (parent, link)
    WHERE parent IS DISTINCT FROM seq - 1;

CREATE TABLE longhand.batch (
    session bigint NOT NULL REFERENCES longhand.session,
    number bigint NOT NULL,
    after bigint NOT NULL,
    reach bigint,
    at_ms bigint NOT NULL,
    seal bytea NOT NULL,
    state_seal bytea,
    receipt bytea NOT NULL,
    edits bytea NOT NULL,
    state bytea,
    PRIMARY KEY (session, number) INCLUDE (after, reach)
);
ALTER TABLE longhand.batch ALTER receipt SET STORAGE EXTERNAL, ALTER edits SET STORAGE EXTERNAL,
    ALTER state SET STORAGE EXTERNAL;

-- Which batch of a session had a handle first.
CREATE TABLE longhand.reference (
    handle bytea NOT NULL,
    session bigint NOT NULL REFERENCES longhand.session,
    batch bigint NOT NULL,
    PRIMARY KEY (handle, session)
);
CREATE INDEX reference_session ON longhand.reference (session);

CREATE TABLE longhand.preamble (
    owner bytea NOT NULL,
    id bytea NOT NULL,
    content bytea NOT NULL,
    PRIMARY KEY (owner, id)
);
ALTER TABLE longhand.preamble ALTER content SET STORAGE EXTERNAL;

CREATE TABLE longhand.request (
    session bigint NOT NULL REFERENCES longhand.session,
    number bigint NOT NULL,
    id bigint NOT NULL,
    at_ms bigint NOT NULL,
    preamble bytea,
    answer bytea,
    seal bytea NOT NULL,
    line bytea NOT NULL,
    PRIMARY KEY (session, number)
);
CREATE INDEX request_preamble ON longhand.request (preamble) WHERE preamble IS NOT NULL;
CREATE INDEX request_answer ON longhand.request (substr(answer, 1, 64)) WHERE answer IS NOT NULL;

-- What the requests of a session to a model on a day took, added up.
CREATE TABLE longhand.usage (
    session bigint NOT NULL REFERENCES longhand.session,
    day bigint NOT NULL,
    hash bytea NOT NULL,
    model bytea NOT NULL,
    sums bytea NOT NULL,
    PRIMARY KEY (session, day, hash)
) WITH (fillfactor = 70);
CREATE INDEX usage_day ON longhand.usage (day);

CREATE TABLE longhand.note (
    session bigint NOT NULL REFERENCES longhand.session,
    number bigint NOT NULL,
    at_ms bigint NOT NULL,
    handle bytea NOT NULL,
    seal bytea NOT NULL,
    content bytea NOT NULL,
    PRIMARY KEY (session, number)
);
CREATE INDEX note_handle ON longhand.note (handle);

CREATE TABLE longhand.derived (
    session bigint NOT NULL REFERENCES longhand.session,
    hash bytea NOT NULL,
    key bytea NOT NULL,
    seal bytea NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (session, hash)
);
ALTER TABLE longhand.derived ALTER value SET STORAGE EXTERNAL;

CREATE TABLE longhand.value (
    name bytea PRIMARY KEY,
    value bytea NOT NULL
);

-- The search index, which is derived: entries wait in `pending` until they are in a slice. A posting says where the
-- entries of a slice have a term; `term` counts the entries of all slices.
CREATE TABLE longhand.pending (entry bigint PRIMARY KEY);
CREATE TABLE longhand.slice (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    last bigint NOT NULL,
    entries bigint NOT NULL,
    words bigint NOT NULL,
    oldest_ms bigint NOT NULL,
    newest_ms bigint NOT NULL,
    docs bytea NOT NULL
);
CREATE INDEX slice_last ON longhand.slice (last) INCLUDE (id, entries, oldest_ms, newest_ms);
CREATE TABLE longhand.posting (
    term bytea NOT NULL,
    slice bigint NOT NULL,
    entries bigint NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (term, slice)
);
CREATE UNIQUE INDEX posting_slice ON longhand.posting (slice, term);
ALTER TABLE longhand.posting ALTER data SET STORAGE EXTERNAL;
CREATE TABLE longhand.term (term bytea PRIMARY KEY, entries bigint NOT NULL) WITH (fillfactor = 70);
";

/// Makes the tables, or brings them up to date; other nodes may do so at the same time.
pub(super) async fn prepare(server: &Server) -> Result<(), Fault> {
    let name = server.name.clone();
    let found = server.ask(|db| Box::pin(async move { Ok(facts(db).await?) })).await?;
    let release: i32 = found.get::<_, String>(0).parse().unwrap_or(0);
    if release < SERVER_MIN {
        let reason = format!("it runs PostgreSQL {}, and 13 or later is needed", release / 10_000);
        return Err(ArchiveError::from(ServerError::Unfit { archive: name, reason }).into());
    }
    let version = if found.get(1) { server.ask(|db| Box::pin(version(db))).await? } else { 0 };
    check(&name, version)?;
    if version == VERSION {
        return Ok(());
    }
    server
        .ask(|db| -> Asked<'_, ()> {
            let name = name.clone();
            Box::pin(async move {
                match migrate(db, &name).await {
                    Ok(()) => Ok(()),
                    Err(fault) => rolled_back(db, fault).await,
                }
            })
        })
        .await
}

/// The release of the server, and whether there are tables of ours. The catalogue is read as it is: what `to_regclass`
/// knows may be older than the lock.
async fn facts(db: &Client) -> Result<Row, tokio_postgres::Error> {
    let sql = "SELECT current_setting('server_version_num'), \
               EXISTS (SELECT 1 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
               WHERE n.nspname = 'longhand' AND c.relname = 'schema_version')";
    db.query_typed_one(sql, &[]).await
}

async fn version(db: &Client) -> Result<i64, Fault> {
    let found = db.query_typed_opt("SELECT version FROM longhand.schema_version", &[]).await?;
    Ok(found.map_or(0, |row| row.get(0)))
}

fn check(archive: &str, version: i64) -> Result<(), Fault> {
    if version > VERSION {
        let archive = archive.to_owned();
        return Err(ArchiveError::OtherFormat { archive, found: version, known: VERSION }.into());
    }
    Ok(())
}

async fn migrate(db: &Client, archive: &str) -> Result<(), Fault> {
    db.batch_execute("BEGIN").await?;
    db.execute_typed("SELECT pg_advisory_xact_lock($1)", &[(&LOCK, Type::INT8)]).await?;
    // Where the schema is there, the right to make one is not needed.
    let found = facts(db).await?;
    if !found.get::<_, bool>(1) {
        let sql =
            "SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = 'longhand')";
        if !db.query_typed_one(sql, &[]).await?.get::<_, bool>(0) {
            db.batch_execute("CREATE SCHEMA longhand").await?;
        }
        db.batch_execute(
            "CREATE TABLE longhand.schema_version (version bigint NOT NULL); \
             INSERT INTO longhand.schema_version VALUES (0)",
        )
        .await?;
    }
    let version = version(db).await?;
    check(archive, version)?;
    for step in STEPS.iter().skip(version as usize) {
        db.batch_execute(step).await?;
    }
    let update = "UPDATE longhand.schema_version SET version = $1";
    db.execute_typed(update, &[(&VERSION, Type::INT8)]).await?;
    db.batch_execute("COMMIT").await?;
    Ok(())
}
