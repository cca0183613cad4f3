//! A database for a test, and a process that is killed if the test ends.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use duebox_postgres::PostgresDatabase;
use duebox_sqlite::{Database, SqliteDatabase, Statement};

static NUMBER: AtomicU32 = AtomicU32::new(0);

pub(crate) struct Place {
    pub(crate) url: String,
    pub(crate) db: Arc<dyn Database>,
    schema: Option<(PostgresDatabase, String)>,
    folder: Option<PathBuf>,
}

impl Place {
    /// A new file, and a new schema if there is a server.
    pub(crate) async fn all() -> Vec<Self> {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("services_{}_{number}", std::process::id());
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(&name);
        std::fs::create_dir_all(&folder).expect("a folder");
        let file = folder.join("service.db");
        let db = SqliteDatabase::open(&file).await.expect("a file");
        let mut all = vec![Self {
            url: format!("sqlite:{}", file.display()),
            db: Arc::new(db),
            schema: None,
            folder: Some(folder),
        }];
        match std::env::var("DUEBOX_TEST_POSTGRES_URL") {
            Ok(url) => all.push(Self::on_postgres(&url, name).await),
            Err(_) => eprintln!("not run on PostgreSQL: DUEBOX_TEST_POSTGRES_URL is not set"),
        }
        all
    }

    async fn on_postgres(url: &str, schema: String) -> Self {
        let server = PostgresDatabase::connect(url).await.expect("a server");
        let create = Statement::new(format!("CREATE SCHEMA {schema}"));
        server.execute(&create).await.expect("a schema");
        let mark = if url.contains('?') { '&' } else { '?' };
        let url = format!("{url}{mark}options=-c%20search_path%3D{schema}");
        let db = PostgresDatabase::connect(&url).await.expect("the schema");
        Self {
            url,
            db: Arc::new(db),
            schema: Some((server, schema)),
            folder: None,
        }
    }

    pub(crate) fn is_postgres(&self) -> bool {
        self.schema.is_some()
    }

    pub(crate) async fn number(&self, sql: &str) -> i64 {
        let rows = self.db.query(&Statement::new(sql.to_owned())).await;
        rows.expect("a number")[0].get("n").expect("a number")
    }

    pub(crate) async fn remove(self) {
        if let Some((server, schema)) = self.schema {
            let drop = Statement::new(format!("DROP SCHEMA {schema} CASCADE"));
            server.execute(&drop).await.expect("drop the schema");
        }
        if let Some(folder) = self.folder {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

/// An example that runs, and what it prints.
pub(crate) struct Running {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Running {
    pub(crate) fn start(example: &str, arguments: &[&str]) -> Self {
        // Beside the folder of this test, where `cargo test` has built it before.
        let exe = std::env::current_exe().expect("the path of this test");
        let built = exe.ancestors().nth(2).expect("the folder of the profile");
        let program = built.join("examples").join(example);
        let mut child = Command::new(&program)
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| {
                panic!("{error}: build the examples first: cargo build --examples --all-features")
            });
        let out = BufReader::new(child.stdout.take().expect("its output"));
        Self { child, out }
    }

    /// The next line that it prints; empty at the end.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }

    /// With no chance to do anything.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("kill it");
        self.child.wait().expect("its end");
    }

    /// As a supervisor stops it.
    #[cfg(unix)]
    pub(crate) fn terminate(mut self) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(sent.expect("a signal").success());
        assert!(self.child.wait().expect("its end").success());
    }

    pub(crate) fn finished(mut self) -> String {
        let mut last = String::new();
        loop {
            match self.line() {
                line if line.is_empty() => break,
                line => last = line,
            }
        }
        assert!(self.child.wait().expect("its end").success());
        last
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until it is so, and fails rather than wait for ever; it measures nothing.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, so: impl Fn() -> F) {
    let wait = async {
        while !so().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let limit = Duration::from_mins(2);
    let waited = tokio::time::timeout(limit, wait).await;
    assert!(waited.is_ok(), "it does not come: {what}");
}
