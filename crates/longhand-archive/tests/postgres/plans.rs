//! What queries read on a filled database: no large table from end to end.

use longhand_archive::{
    Archive, Key, NoteFilter, Owner, Page, RequestFilter, RequestRecord, Scope, SessionFilter,
    Storage as _, Upkeep, Version, ask, wait,
};
use longhand_testkit::contract::samples::{
    id, links, named, record, reply, stub_handle, stubs, user,
};

use crate::server::server;

const SESSIONS: u64 = 3_000;

/// The tables that grow with what is said.
const LARGE: [&str; 9] = [
    "session",
    "entry",
    "batch",
    "reference",
    "request",
    "usage",
    "posting",
    "derived",
    "preamble",
];

/// Rows that the server made of nothing, beside those that are asked for.
const FILL: &str = "\
INSERT INTO longhand.session (id, owner, dialect, name, begun_ms, project, agent, file, imported, opening, newest, entries, bytes,
    first_ms, last_ms, round, link, batches, requests, notes, undone, pins, usage, seal)
SELECT sha256(('s' || n)::bytea), sha256(('o' || n % 50)::bytea), '', ('name' || n)::bytea, n, '', '', '', 0, '', 1000000 + n, 20, 0, 0, 0,
    0, sha256(n::text::bytea), 1, 5, 0, '', '', '', '' FROM generate_series(1, 3000) n;
INSERT INTO longhand.entry (session, seq, id, parent, round, at_ms, link, seal, form, excerpt, body)
SELECT number, seq, 10000000 + number * 20 + seq, NULLIF(seq - 1, -1), seq, 0, sha256((number || '-' || seq)::bytea), '', '', '',
    sha256((number || ':' || seq)::bytea) FROM longhand.session, generate_series(0, 19) seq WHERE substr(name, 1, 4) = 'name';
INSERT INTO longhand.batch (session, number, after, at_ms, seal, receipt, edits)
SELECT number, 1, 0, 0, '', '', '' FROM longhand.session WHERE substr(name, 1, 4) = 'name';
INSERT INTO longhand.reference (handle, session, batch)
SELECT sha256(('h' || number)::bytea), number, 1 FROM longhand.session WHERE substr(name, 1, 4) = 'name';
INSERT INTO longhand.request (session, number, id, at_ms, answer, seal, line)
SELECT number, n, nextval('longhand.request_id'), n, ('a' || number || n)::bytea, '', '' FROM longhand.session, generate_series(1, 5) n
    WHERE substr(name, 1, 4) = 'name';
INSERT INTO longhand.usage (session, day, hash, model, sums)
SELECT number, number % 400, '', '', '' FROM longhand.session WHERE substr(name, 1, 4) = 'name';
INSERT INTO longhand.derived (session, hash, key, seal, value)
SELECT number, sha256('x'), 'x', '', '' FROM longhand.session WHERE substr(name, 1, 4) = 'name';
INSERT INTO longhand.preamble (owner, id, content)
SELECT sha256('o'), sha256(n::text::bytea), sha256(n::text::bytea) FROM generate_series(1, 3000) n;
INSERT INTO longhand.posting (term, slice, entries, data)
SELECT sha256(n::text::bytea), 1000000 + n % 7, 1, '' FROM generate_series(1, 30000) n;
ANALYZE";

#[test]
fn no_question_reads_a_large_table_from_end_to_end() {
    let Some(server) = server() else { return };
    let database = server.database();
    let archive = server.open(&database, false);
    let said = [user("The exporter crashed because the queue was full."), reply("Restart it.")];
    record(&archive, "s", &said);
    wait(archive.maintain(Upkeep::Index)).unwrap();
    server.sql(&database, FILL).unwrap();
    assert!(archive.session(id("s")).unwrap().is_some());
    server.sql(&database, "SELECT pg_stat_reset()").unwrap();

    // All that requests do, and all that people ask of one session or the newest ones.
    record(&archive, "s", &[user("And then?"), reply("It ran.")]);
    archive.commit(id("s"), &stubs(0, 3, &[0])).unwrap();
    archive.undo(id("s"), None).unwrap().unwrap();
    archive.pin(id("s"), longhand_core::Seq(1), true).unwrap();
    let preamble = Some(archive.keep_preamble(Owner::LOCAL, "a prompt").unwrap());
    let request =
        RequestRecord { preamble, answer: Some("a1".to_owned()), ..RequestRecord::default() };
    archive.log_request(id("s"), &request).unwrap();
    archive.put_derived(id("s"), "key", "value").unwrap();
    archive.derived(id("s"), "key").unwrap().unwrap();
    archive.derived_keys(id("s"), "k").unwrap();
    wait(archive.open(id("s"), Version::default())).unwrap().unwrap();
    wait(archive.nodes(id("s"), vec![0..2])).unwrap();
    wait(archive.bodies(id("s"), vec![0..2, 3..4])).unwrap();
    wait(archive.links(Owner::LOCAL, links(Owner::LOCAL, &said))).unwrap();
    wait(archive.references(stub_handle(0))).unwrap();
    archive.requests(id("s"), Page::first(10)).unwrap();
    wait(
        archive.list_requests(RequestFilter::Answer(Owner::LOCAL, "a1".to_owned()), Page::first(1)),
    )
    .unwrap();
    wait(archive.notes(NoteFilter::Session(id("s")))).unwrap();
    wait(archive.notes(NoteFilter::Handle(stub_handle(0)))).unwrap();
    wait(archive.get(vec![Key::Shared("x".to_owned())])).unwrap();
    for of in [
        SessionFilter::All,
        SessionFilter::Owner(Owner::LOCAL),
        SessionFilter::Session(id("s")),
        SessionFilter::Named("name7".to_owned()),
        SessionFilter::NamePrefix("name12".to_owned()),
        SessionFilter::IdPrefix("ab12".to_owned()),
        SessionFilter::Group(7),
        SessionFilter::Continuing(id("s")),
    ] {
        // Sessions that were filled in are damaged: they are listed all the same.
        wait(archive.list_sessions(of, Page::first(20))).unwrap();
    }
    for scope in [Scope::Session(id("s")), Scope::Owner(Owner::LOCAL), Scope::All] {
        archive.search(&scope, "exporter queue", 9).unwrap();
        wait(ask::ranked(
            &archive,
            std::slice::from_ref(&scope),
            "exporter queue",
            Default::default(),
            9,
            &|_, _| true,
        ))
        .unwrap();
    }
    archive.verify(Some(id("s"))).unwrap();
    archive.begin(id("t"), &named(Owner::LOCAL, "t")).unwrap();
    archive.remove(id("t")).unwrap();

    // The server tells what was read with some delay.
    let reads = "SELECT pg_stat_clear_snapshot(), relname || ' ' || seq_scan || ' ' || seq_tup_read FROM pg_stat_user_tables \
                 WHERE schemaname = 'longhand'";
    drop(archive);
    std::thread::sleep(std::time::Duration::from_secs(2));
    let reads = server.sql(&database, reads).unwrap();
    println!("{reads}");
    let mut is_told = false;
    for line in reads.lines() {
        let mut words = line.trim_start_matches('|').split(' ');
        let (table, _, rows) = (words.next().unwrap(), words.next(), words.next().unwrap());
        is_told |= table == "entry";
        let rows: u64 = rows.parse().unwrap();
        assert!(
            !LARGE.contains(&table) || rows < SESSIONS,
            "{table}: {rows} rows were read one by one"
        );
    }
    assert!(is_told, "{reads}");
    // It would be noticed.
    server.sql(&database, "SELECT count(*) FROM longhand.entry WHERE at_ms = 7").unwrap();
    std::thread::sleep(std::time::Duration::from_secs(1));
    let noticed = "SELECT seq_tup_read >= 60000 FROM pg_stat_user_tables WHERE relname = 'entry'";
    assert_eq!(server.sql(&database, noticed).unwrap(), "t");
}
