use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use duebox_core::{Database, Outbox, PendingReceiptStore, Statement};
use duebox_mysql::MySqlDatabase;
use duebox_postgres::PostgresDatabase;
use duebox_sqlite::SqliteDatabase;

use crate::session::Session;

pub(crate) const ENGINES: [(&str, Option<&str>); 4] = [
    ("sqlite", None),
    ("postgres", Some("DUEBOX_TEST_POSTGRES_URL")),
    ("mysql", Some("DUEBOX_TEST_MYSQL_URL")),
    ("mariadb", Some("DUEBOX_TEST_MARIADB_URL")),
];

/// What the binary answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Answer {
    /// Standard output, if the exit code is this one.
    #[track_caller]
    pub(crate) fn coded(&self, code: i32) -> &str {
        assert_eq!(self.code, Some(code), "{self:?}");
        &self.out
    }
}

pub(crate) fn duebox(args: &[&str], input: &str) -> Answer {
    let mut command = Command::new(env!("CARGO_BIN_EXE_duebox"));
    answer(command.args(args), input)
}

/// What the command answers to this input.
pub(crate) fn answer(command: &mut Command, input: &str) -> Answer {
    let mut child = command
        .env_remove("DUEBOX_DATABASE_URL")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start the binary");
    let mut stdin = child.stdin.take().expect("its input");
    // It need not read it.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let done = child.wait_with_output().expect("its end");
    Answer {
        code: done.status.code(),
        out: String::from_utf8(done.stdout).expect("text"),
        err: String::from_utf8(done.stderr).expect("text"),
    }
}

/// As Ctrl-C does.
pub(crate) fn interrupt(child: &Child) {
    let sent = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(sent.expect("kill").success());
}

/// A database of a test's own, gone with it.
pub(crate) struct Place {
    pub(crate) url: String,
    pub(crate) table: String,
    /// The folder of an `SQLite` file.
    folder: Option<PathBuf>,
    /// The server, and the database on it.
    server: Option<(String, String)>,
}

impl Place {
    pub(crate) fn new(url: Option<String>) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("cli_{}_{number}", std::process::id());
        let table = "mail".to_owned();
        let Some(server) = url else {
            let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(&name);
            std::fs::create_dir_all(&folder).expect("a folder");
            let url = format!("sqlite:{}", folder.join("app.db").display());
            return Self {
                url,
                table,
                folder: Some(folder),
                server: None,
            };
        };
        run_sql(&server, &format!("CREATE DATABASE {name}"));
        let (base, _) = server.rsplit_once('/').expect("a URL with a database");
        Self {
            url: format!("{base}/{name}"),
            table,
            folder: None,
            server: Some((server, name)),
        }
    }

    /// Runs the binary on this place's outbox.
    pub(crate) fn run(&self, args: &[&str]) -> Answer {
        self.run_with(args, "")
    }

    pub(crate) fn run_with(&self, args: &[&str], input: &str) -> Answer {
        let place = ["--database", &self.url, "--table", &self.table];
        duebox(&[args, &place].concat(), input)
    }

    /// Runs the binary as changed by `change`.
    pub(crate) fn run_by(&self, args: &[&str], change: impl FnOnce(&mut Command)) -> Answer {
        let mut command = Command::new(env!("CARGO_BIN_EXE_duebox"));
        command.args(args);
        command.args(["--database", &self.url, "--table", &self.table]);
        change(&mut command);
        answer(&mut command, "")
    }

    /// Starts the binary and lets it run.
    pub(crate) fn spawn(&self, args: &[&str]) -> Child {
        Command::new(env!("CARGO_BIN_EXE_duebox"))
            .args(args)
            .args(["--database", &self.url, "--table", &self.table])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start the binary")
    }

    /// The scheme of its URL.
    pub(crate) fn engine(&self) -> &str {
        let (scheme, _) = self.url.split_once(':').expect("a URL");
        scheme
    }

    /// A name of its own, for what a test keeps elsewhere.
    pub(crate) fn label(&self) -> String {
        let text = self.url.rsplit('/').find(|part| part.starts_with("cli_"));
        text.expect("its name").to_owned()
    }

    /// The name of its database on the server.
    pub(crate) fn name(&self) -> &str {
        let (_, name) = self.server.as_ref().expect("a server");
        name
    }

    /// Another connection, for SQL of any kind.
    pub(crate) fn session(&self) -> Session {
        Session::new(&self.url)
    }

    pub(crate) fn outbox(&self) -> Outbox {
        Outbox::new(self.table.as_str())
    }

    /// Works on the database without the binary.
    pub(crate) fn with<T>(&self, work: impl AsyncFnOnce(&dyn Database) -> T) -> T {
        with(&self.url, work)
    }

    /// Works on the tickets without the binary.
    pub(crate) fn with_receipts<T>(
        &self,
        work: impl AsyncFnOnce(&dyn PendingReceiptStore) -> T,
    ) -> T {
        block_on(async { work(&*connect(&self.url).await.1).await })
    }
}

type Ports = (Box<dyn Database>, Box<dyn PendingReceiptStore>);

async fn connect(url: &str) -> Ports {
    match url.split_once(':') {
        Some(("sqlite", path)) => {
            let db = SqliteDatabase::open(path).await.expect("a file");
            let receipts = db.receipts();
            (Box::new(db), Box::new(receipts))
        }
        Some(("mysql", _)) => {
            let db = MySqlDatabase::connect(url).await.expect("a server");
            let receipts = db.receipts();
            (Box::new(db), Box::new(receipts))
        }
        _ => {
            let db = PostgresDatabase::connect(url).await.expect("a server");
            let receipts = db.receipts();
            (Box::new(db), Box::new(receipts))
        }
    }
}

fn with<T>(url: &str, work: impl AsyncFnOnce(&dyn Database) -> T) -> T {
    block_on(async { work(&*connect(url).await.0).await })
}

pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(work)
}

fn run_sql(url: &str, sql: &str) {
    let statement = Statement::new(sql.to_owned());
    with(url, async move |db| {
        db.execute(&statement).await.expect("run SQL")
    });
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(folder) = &self.folder {
            let _ = std::fs::remove_dir_all(folder);
        }
        if let Some((server, name)) = &self.server {
            // A connection that was just closed may be there for a moment still.
            let force = if server.starts_with("mysql") {
                ""
            } else {
                " WITH (FORCE)"
            };
            let drop = format!("DROP DATABASE {name}{force}");
            with(server, async |db| drop_it(db, drop).await);
        }
    }
}

async fn drop_it(db: &dyn Database, sql: String) {
    let _ = db.execute(&Statement::new(sql)).await;
}
