//! A connection beside those of the binary, for SQL of any kind, and a role that
//! may do less.

use duebox_mysql::sqlx::{self, AssertSqlSafe, Connection as _, Executor as _, MySqlConnection};
use duebox_postgres::tokio_postgres::{self, NoTls};
use duebox_sqlite::rusqlite;
use tokio::runtime::Runtime;

use crate::place::Place;

/// One connection, closed when it is dropped.
pub(crate) enum Session {
    Sqlite(rusqlite::Connection),
    Postgres(Runtime, tokio_postgres::Client),
    MySql(Runtime, Box<MySqlConnection>),
}

impl Session {
    pub(crate) fn new(url: &str) -> Self {
        let (scheme, rest) = url.split_once(':').expect("a URL");
        if scheme == "sqlite" {
            return Self::Sqlite(rusqlite::Connection::open(rest).expect("open the file"));
        }
        // Its own thread reads what comes while nobody waits for it.
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        if scheme == "mysql" {
            let connection = runtime.block_on(MySqlConnection::connect(url));
            return Self::MySql(runtime, Box::new(connection.expect("connect")));
        }
        let client = runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("connect");
            tokio::spawn(connection);
            client
        });
        Self::Postgres(runtime, client)
    }

    /// Runs a text.
    pub(crate) fn run(&mut self, sql: &str) {
        match self {
            Self::Sqlite(connection) => connection.execute_batch(sql).expect(sql),
            Self::Postgres(runtime, client) => {
                runtime.block_on(client.batch_execute(sql)).expect(sql);
            }
            Self::MySql(runtime, connection) => {
                let text = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()));
                runtime.block_on(connection.execute(text)).expect(sql);
            }
        }
    }

    /// Runs a text, and says whether that went well.
    pub(crate) fn tries(&mut self, sql: &str) -> bool {
        match self {
            Self::Sqlite(connection) => connection.execute_batch(sql).is_ok(),
            Self::Postgres(runtime, client) => runtime.block_on(client.batch_execute(sql)).is_ok(),
            Self::MySql(runtime, connection) => {
                let text = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()));
                runtime.block_on(connection.execute(text)).is_ok()
            }
        }
    }

    /// Runs statements one by one.
    pub(crate) fn script(&mut self, sql: &str) {
        for statement in sql.split(";\n") {
            self.run(statement.trim().trim_end_matches(';'));
        }
    }

    /// Begins a transaction that reads the outbox and stays open; returns what
    /// the session is called.
    pub(crate) fn begin_reading(&mut self) -> String {
        let read = "SELECT COUNT(*) FROM mail";
        match self {
            Self::Sqlite(connection) => {
                connection.execute_batch("BEGIN").expect("begin");
                let rows: i64 = connection
                    .query_row(read, [], |row| row.get(0))
                    .expect("read");
                assert_ne!(rows, 0);
                "write-ahead log".to_owned()
            }
            Self::Postgres(runtime, client) => runtime.block_on(async {
                let begin = format!("BEGIN ISOLATION LEVEL REPEATABLE READ; {read}");
                client.batch_execute(&begin).await.expect("begin");
                let row = client.query_one("SELECT pg_backend_pid()", &[]).await;
                let pid: i32 = row.expect("its number").get(0);
                format!("session {pid} ")
            }),
            Self::MySql(runtime, connection) => runtime.block_on(async {
                let begin = sqlx::raw_sql("START TRANSACTION WITH CONSISTENT SNAPSHOT");
                connection.execute(begin).await.expect("begin");
                let rows: i64 = sqlx::query_scalar(read)
                    .fetch_one(&mut **connection)
                    .await
                    .expect("read");
                assert_ne!(rows, 0);
                let id: u64 = sqlx::query_scalar("SELECT CONNECTION_ID()")
                    .fetch_one(&mut **connection)
                    .await
                    .expect("its number");
                format!("session {id} ")
            }),
        }
    }
}

/// A role that may work with the outbox and nothing else; gone when it is
/// dropped.
pub(crate) struct Role<'a> {
    place: &'a Place,
    /// As `GRANT` names it.
    pub(crate) name: String,
}

impl<'a> Role<'a> {
    pub(crate) fn new(place: &'a Place) -> Self {
        let plain = place.name();
        let privileges = "SELECT, INSERT, UPDATE, DELETE ON mail";
        let (name, make) = match place.engine() {
            "mysql" => {
                let name = format!("'{plain}'@'%'");
                let make = format!("CREATE USER {name} IDENTIFIED BY 'pass'");
                (name, make)
            }
            _ => (
                plain.to_owned(),
                format!("CREATE ROLE {plain} LOGIN PASSWORD 'pass'"),
            ),
        };
        let mut session = place.session();
        session.run(&make);
        session.run(&format!("GRANT {privileges} TO {name}"));
        Self { place, name }
    }

    /// The address of the database for it.
    pub(crate) fn url(&self) -> String {
        let url = &self.place.url;
        let (scheme, rest) = url.split_once("://").expect("a URL");
        let (_, server) = rest.split_once('@').expect("a user");
        format!("{scheme}://{}:pass@{server}", self.place.name())
    }
}

impl Drop for Role<'_> {
    fn drop(&mut self) {
        let mut session = self.place.session();
        match self.place.engine() {
            "mysql" => session.run(&format!("DROP USER {}", self.name)),
            _ => session.script(&format!("DROP OWNED BY {0};\nDROP ROLE {0}", self.name)),
        }
    }
}
