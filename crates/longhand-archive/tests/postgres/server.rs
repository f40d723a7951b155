//! One server and one pooler for all tests of this program, and a database for each.

use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use longhand_archive::{PostgresArchive, PostgresSettings};
use tempfile::TempDir;

const USER: &str = "longhand";
pub(crate) const PASSWORD: &str = "s3cret-of-the-tests";
const START_MAX: Duration = Duration::from_secs(60);

/// A server that is ended with this program.
pub(crate) struct Server {
    folder: TempDir,
    programs: PathBuf,
    pub(crate) port: u16,
    pub(crate) pooler_port: Option<u16>,
    databases: AtomicU32,
}

/// What ends with this program: the server ends itself when the keeper does.
static KEEPER: Mutex<Vec<Child>> = Mutex::new(Vec::new());

/// The server; `None` if none can be had, which is said once.
pub(crate) fn server() -> Option<&'static Server> {
    static SERVER: OnceLock<Result<Server, String>> = OnceLock::new();
    let server = SERVER.get_or_init(|| {
        Server::start()
            .inspect_err(|reason| eprintln!("SKIPPED: all tests on PostgreSQL: {reason}"))
    });
    let is_required = std::env::var("LONGHAND_POSTGRES").as_deref() == Ok("required");
    match server {
        Err(reason) if is_required => panic!("no PostgreSQL: {reason}"),
        server => server.as_ref().ok(),
    }
}

/// A server that a test may restart: nobody else uses it.
pub(crate) fn own_server() -> Option<Server> {
    server()?;
    Some(Server::start().unwrap())
}

fn programs() -> Option<PathBuf> {
    let has_initdb = |folder: &PathBuf| folder.join("initdb").exists();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).find(has_initdb);
    on_path.or_else(|| {
        let releases = fs::read_dir("/usr/lib/postgresql").ok()?;
        let folders = releases.filter_map(|release| Some(release.ok()?.path().join("bin")));
        folders.filter(has_initdb).max()
    })
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|output| output.stdout.starts_with(b"0\n"))
}

/// A command that runs as the user `postgres` where we are root, whom the server refuses.
fn as_postgres(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "postgres", "--regid", "postgres", "--init-groups"]).arg(program);
    command.env("HOME", "/tmp");
    command
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn wait_for(port: u16) -> Result<(), String> {
    let begun = Instant::now();
    while begun.elapsed() < START_MAX {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                thread::sleep(Duration::from_millis(50));
            }
            Err(error) => return Err(error.to_string()),
        }
    }
    Err(format!("nothing listens on port {port}"))
}

impl Server {
    fn start() -> Result<Self, String> {
        let programs = programs().ok_or("initdb is not installed")?;
        let folder = tempfile::Builder::new().prefix("longhand-pg").tempdir_in("/tmp");
        let folder = folder.map_err(|error| error.to_string())?;
        let data = folder.path().join("data");
        let key = folder.path().join("key");
        fs::create_dir(&data).map_err(|error| error.to_string())?;
        fs::write(&key, PASSWORD).map_err(|error| error.to_string())?;
        if is_root() {
            run(Command::new("chown").args(["-R", "postgres"]).arg(folder.path()))?;
        }
        run(as_postgres(&programs.join("initdb"))
            .args(["-D"])
            .arg(&data)
            .args(["-U", USER, "--auth=scram-sha-256", "--no-sync", "--no-locale", "-E", "UTF8"])
            .arg(format!("--pwfile={}", key.display())))?;
        let port = free_port();
        let mut settings = String::new();
        write!(
            settings,
            "listen_addresses = '127.0.0.1'\nport = {port}\nunix_socket_directories = ''\nmax_connections = 200\n\
             fsync = off\nshared_buffers = 64MB\nlog_min_messages = fatal\nautovacuum_naptime = 5\n"
        )
        .unwrap();
        fs::write(data.join("postgresql.auto.conf"), settings)
            .map_err(|error| error.to_string())?;
        let mut server =
            Self { folder, programs, port, pooler_port: None, databases: AtomicU32::new(0) };
        server.begin()?;
        server.pooler_port = server.start_pooler()?;
        server.sql("postgres", "CREATE DATABASE filled")?;
        drop(
            PostgresArchive::open(&server.address("filled", port))
                .map_err(|error| error.to_string())?,
        );
        Ok(server)
    }

    /// Starts the server, and whatever ends it when this program does.
    fn begin(&self) -> Result<(), String> {
        let data = self.folder.path().join("data");
        let log = self.folder.path().join("log");
        run(as_postgres(&self.programs.join("pg_ctl"))
            .args(["start", "-w", "-D"])
            .arg(&data)
            .arg("-l")
            .arg(&log)
            .stdout(Stdio::null()))?;
        let mut keepers = KEEPER.lock().unwrap();
        if self.pooler_port.is_none() {
            let stop = format!(
                "cat > /dev/null; pid=$(head -1 '{data}/postmaster.pid'); kill -INT $pid; \
                 pooler=$(cat '{folder}/pooler.pid'); kill -INT $pooler; sleep 1; rm -rf '{folder}'",
                data = data.display(),
                folder = self.folder.path().display(),
            );
            let mut keeper = Command::new("sh");
            keeper.arg("-c").arg(stop).stdin(Stdio::piped()).stdout(Stdio::null());
            keepers.push(keeper.stderr(Stdio::null()).spawn().map_err(|error| error.to_string())?);
        }
        wait_for(self.port)
    }

    /// Kills the server as a power cut would, or ends it, and starts it again.
    pub(crate) fn restart(&self, mode: &str) {
        let data = self.folder.path().join("data");
        let mut stop = as_postgres(&self.programs.join("pg_ctl"));
        run(stop.args(["stop", "-w", "-m", mode, "-D"]).arg(&data)).unwrap();
        self.begin().unwrap();
    }

    fn start_pooler(&self) -> Result<Option<u16>, String> {
        let program = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"].map(Path::new);
        let Some(program) = program.into_iter().find(|program| program.exists()) else {
            return Err("pgbouncer is not installed".to_owned());
        };
        let port = free_port();
        let folder = self.folder.path();
        let users = folder.join("users");
        let settings = folder.join("pooler.ini");
        fs::write(&users, format!("\"{USER}\" \"{PASSWORD}\"\n"))
            .map_err(|error| error.to_string())?;
        let text = format!(
            "[databases]\n* = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\nauth_type = scram-sha-256\nauth_file = {}\npool_mode = transaction\ndefault_pool_size = 3\n\
             max_client_conn = 500\npidfile = {}\nlogfile = {}\nserver_login_retry = 1\n",
            self.port,
            users.display(),
            folder.join("pooler.pid").display(),
            folder.join("pooler.log").display()
        );
        fs::write(&settings, text).map_err(|error| error.to_string())?;
        if is_root() {
            run(Command::new("chown").arg("postgres").arg(&users).arg(&settings))?;
        }
        run(as_postgres(program).arg("-d").arg(&settings).stdout(Stdio::null()))?;
        wait_for(port)?;
        Ok(Some(port))
    }

    /// The path of a program that came with the server.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.programs.join(name)
    }

    pub(crate) fn address(&self, database: &str, port: u16) -> String {
        format!("postgres://{USER}:{PASSWORD}@127.0.0.1:{port}/{database}")
    }

    /// Runs statements on a database.
    pub(crate) fn sql(&self, database: &str, sql: &str) -> Result<String, String> {
        let mut psql = Command::new("psql");
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-U", USER]);
        psql.args(["-p", &self.port.to_string(), "-d", database, "-c", sql]);
        let output =
            psql.env("PGPASSWORD", PASSWORD).output().map_err(|error| error.to_string())?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
        }
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// The name of a new database, which has the tables already.
    pub(crate) fn database(&self) -> String {
        let name = format!("t{}", self.databases.fetch_add(1, Ordering::Relaxed));
        // Nobody else may be connected to the template.
        static COPYING: Mutex<()> = Mutex::new(());
        let _copying: MutexGuard<'_, ()> =
            COPYING.lock().unwrap_or_else(|error| error.into_inner());
        self.sql("postgres", &format!("CREATE DATABASE {name} TEMPLATE filled STRATEGY file_copy"))
            .unwrap();
        name
    }

    /// Opens a new archive, through the pooler or directly.
    pub(crate) fn open(&self, database: &str, pooled: bool) -> PostgresArchive {
        let port = if pooled { self.pooler_port.unwrap() } else { self.port };
        let settings = PostgresSettings {
            connections_max: 4,
            wait_max: Duration::from_secs(20),
            ..PostgresSettings::default()
        };
        PostgresArchive::open_with(&self.address(database, port), &settings).unwrap()
    }
}
