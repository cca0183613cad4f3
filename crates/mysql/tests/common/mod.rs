//! The servers under test, and a database of its own for each test.

use std::sync::atomic::{AtomicU32, Ordering};

use duebox_mysql::sqlx::{self, AssertSqlSafe, Connection, Executor, MySqlConnection};
use duebox_mysql::{MySqlDatabase, MySqlOptions};

/// One of the two servers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Server {
    /// What stands before the names of its tests.
    pub(crate) name: &'static str,
    variable: &'static str,
}

/// Both.
pub(crate) const SERVERS: [Server; 2] = [
    Server {
        name: "mysql",
        variable: "DUEBOX_TEST_MYSQL_URL",
    },
    Server {
        name: "mariadb",
        variable: "DUEBOX_TEST_MARIADB_URL",
    },
];

impl Server {
    /// Where it is, if it is there.
    pub(crate) fn url(self) -> Option<String> {
        std::env::var(self.variable)
            .ok()
            .filter(|url| !url.is_empty())
    }

    /// Why no test can run, if none can.
    pub(crate) fn unavailable(self) -> Option<String> {
        self.url()
            .is_none()
            .then(|| format!("no server: set {}", self.variable))
    }

    /// A connection beside those under test.
    pub(crate) async fn admin(self) -> MySqlConnection {
        let url = self.url().expect("a server");
        MySqlConnection::connect(&url).await.expect("connect")
    }
}

/// A database of a test's own.
pub(crate) struct TestDatabase {
    /// The server that it is on.
    pub(crate) server: Server,
    /// Its name.
    pub(crate) name: String,
}

impl TestDatabase {
    /// Makes one; `options` are those of `CREATE DATABASE`.
    pub(crate) async fn new(server: Server, options: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("suite_{}_{number}", std::process::id());
        let mut admin = server.admin().await;
        run(&mut admin, format!("DROP DATABASE IF EXISTS {name}")).await;
        run(&mut admin, format!("CREATE DATABASE {name} {options}")).await;
        Self { server, name }
    }

    /// Its address.
    pub(crate) fn url(&self) -> String {
        let url = self.server.url().expect("a server");
        let (base, query) = url
            .split_once('?')
            .map_or((&*url, None), |(b, q)| (b, Some(q)));
        let base = base.rsplit_once('/').expect("an address with a database").0;
        let query = query.map(|query| format!("?{query}")).unwrap_or_default();
        format!("{base}/{}{query}", self.name)
    }

    /// A handle with a pool of its own.
    pub(crate) async fn connect(&self, connections: u32) -> MySqlDatabase {
        self.options()
            .max_connections(connections)
            .connect()
            .await
            .expect("connect")
    }

    /// How to connect to it.
    pub(crate) fn options(&self) -> MySqlOptions {
        MySqlOptions::new(&self.url()).expect("an address")
    }

    /// A connection to it beside those under test, as sqlx makes it.
    pub(crate) async fn raw(&self) -> MySqlConnection {
        MySqlConnection::connect(&self.url())
            .await
            .expect("connect")
    }

    /// The sessions that are in it.
    pub(crate) async fn sessions(&self, admin: &mut MySqlConnection) -> Vec<u64> {
        let sql = "SELECT CAST(id AS UNSIGNED) FROM information_schema.processlist \
                   WHERE db = ? AND id <> CONNECTION_ID()";
        sqlx::query_scalar(sql)
            .bind(&self.name)
            .fetch_all(admin)
            .await
            .expect("list sessions")
    }

    /// Ends every session that is in it.
    pub(crate) async fn cut(&self) {
        let mut admin = self.server.admin().await;
        for _ in 0..500 {
            let sessions = self.sessions(&mut admin).await;
            if sessions.is_empty() {
                return;
            }
            for session in sessions {
                // It may have ended by itself.
                let _ = admin
                    .execute(AssertSqlSafe(format!("KILL {session}")))
                    .await;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        panic!("sessions outlive KILL");
    }

    /// Removes it.
    pub(crate) async fn drop(self) {
        let mut admin = self.server.admin().await;
        run(&mut admin, format!("DROP DATABASE {}", self.name)).await;
    }
}

/// Runs SQL of a test.
pub(crate) async fn run(connection: &mut MySqlConnection, sql: impl Into<String>) {
    let sql: String = sql.into();
    connection
        .execute(AssertSqlSafe(sql.clone()))
        .await
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
}
