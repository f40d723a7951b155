//! How fast it is, beside `pgbench` on the same server. Runs only if `LONGHAND_BENCH` is set: `cargo xtask bench-postgres`.

use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use longhand_archive::{After, Ledger, NewEntry, PostgresArchive, PostgresSettings, wait};
use longhand_testkit::contract::samples::{id, named, user};
use longhand_testkit::rng::Rng;

use crate::server::{PASSWORD, Server, own_server};

const TIME: Duration = Duration::from_secs(6);

/// A message of 1 KB that can hardly be packed.
fn message(rng: &mut Rng) -> NewEntry {
    let text: String = (0..1_000).map(|_| char::from(b'!' + rng.range(0..90) as u8)).collect();
    user(&text)
}

#[test]
fn records_per_second() {
    if std::env::var_os("LONGHAND_BENCH").is_none() {
        return;
    }
    let Some(server) = own_server() else { return };
    server.sql("postgres", "ALTER SYSTEM SET fsync = on").unwrap();
    server.restart("fast");
    let database = server.database();
    server
        .sql(
            &database,
            "CREATE TABLE plain (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body bytea)",
        )
        .unwrap();
    let settings = PostgresSettings { connections_max: 64, ..PostgresSettings::default() };
    let address = server.address(&database, server.port);
    let archive = PostgresArchive::open_with(&address, &settings).unwrap();
    for writers in [16, 64] {
        let plain = pgbench(&server, &database, writers);
        let ours = recorded(&archive, writers);
        println!(
            "bench: {writers} writers: {ours:.0} records/s, pgbench {plain:.0}, {:.2} of it",
            ours / plain
        );
    }
    flatness(&archive);
}

/// Records of as many sessions as there are writers, each durable before the next one.
fn recorded(archive: &PostgresArchive, writers: usize) -> f64 {
    let (count, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for writer in 0..writers {
            let (count, is_over) = (&count, &is_over);
            scope.spawn(move || {
                let name = format!("bench {writers} {writer}");
                let owner = longhand_archive::Owner::LOCAL;
                let mut ledger = Ledger::begin(id(&name), named(owner, &name));
                let mut rng = Rng::new(writer as u64);
                while !is_over.load(Ordering::Relaxed) {
                    let entry = message(&mut rng);
                    wait(ledger.append(archive, After::Newest, &[entry])).unwrap();
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        thread::sleep(TIME);
        is_over.store(true, Ordering::Relaxed);
    });
    count.load(Ordering::Relaxed) as f64 / TIME.as_secs_f64()
}

/// The same bytes in plain inserts.
fn pgbench(server: &Server, database: &str, clients: usize) -> f64 {
    let script = tempfile::NamedTempFile::new().unwrap();
    let mut rng = Rng::new(7);
    let hex: String = (0..1_030).map(|_| format!("{:02x}", rng.range(0..256))).collect();
    std::fs::write(script.path(), format!("INSERT INTO plain (body) VALUES ('\\x{hex}');\n"))
        .unwrap();
    let mut command = Command::new(server.program("pgbench"));
    command.args(["-n", "-h", "127.0.0.1", "-U", "longhand", "-p", &server.port.to_string()]);
    command.args(["-c", &clients.to_string(), "-j", "2", "-T", &TIME.as_secs().to_string(), "-f"]);
    let output =
        command.arg(script.path()).arg(database).env("PGPASSWORD", PASSWORD).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = said
        .lines()
        .find_map(|line| line.strip_prefix("tps = "))
        .unwrap_or_else(|| panic!("{said}{}", String::from_utf8_lossy(&output.stderr)));
    line.split(' ').next().unwrap().parse().unwrap()
}

/// What a record costs at the beginning and at the end of 100,000 in one session, as the server's time.
fn flatness(archive: &PostgresArchive) {
    let owner = longhand_archive::Owner::LOCAL;
    let mut ledger = Ledger::begin(id("long"), named(owner, "long"));
    let mut times = Vec::new();
    let entries: Vec<NewEntry> = (0..500).map(|at| user(&format!("message {at}"))).collect();
    for portion in 0..200 {
        if [20, 199].contains(&portion) {
            let begun = Instant::now();
            for _ in 0..200 {
                wait(ledger.append(archive, After::Newest, &[user("one more")])).unwrap();
            }
            times.push(begun.elapsed() / 200);
        }
        wait(ledger.append(archive, After::Newest, &entries)).unwrap();
    }
    println!(
        "bench: a record costs {:?} after 10,000 and {:?} after 100,000 entries",
        times[0], times[1]
    );
}
