//! Where a test works: a schema of its own, and connections to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use duebox_postgres::sqlx::postgres::{PgPool, PgPoolOptions};
use duebox_postgres::tokio_postgres::{Client, NoTls};
use duebox_postgres::{
    Database, Dialect, PendingReceiptStore, PostgresDatabase, PostgresOptions,
    SqlxPostgresDatabase, Value, tokio_postgres,
};

const VARIABLE: &str = "DUEBOX_TEST_POSTGRES_URL";

pub(crate) fn unavailable() -> Option<String> {
    server()
        .is_none()
        .then(|| format!("no server: set {VARIABLE}"))
}

pub(crate) fn server() -> Option<String> {
    std::env::var(VARIABLE).ok().filter(|url| !url.is_empty())
}

/// A schema of its own, which the next run of the tests would find empty again.
pub(crate) struct Place {
    pub(crate) name: String,
    server: String,
    pub(crate) admin: Client,
}

impl Place {
    pub(crate) async fn new() -> Self {
        Self::on(&server().expect("a server")).await
    }

    /// One on another server.
    pub(crate) async fn on(server: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("only_{}_{number}", std::process::id());
        let admin = client(server).await;
        let sql = format!(
            "DROP SCHEMA IF EXISTS {name} CASCADE; CREATE SCHEMA {name}; SET search_path = {name}"
        );
        admin.batch_execute(&sql).await.expect("make a schema");
        Self {
            name,
            server: server.to_owned(),
            admin,
        }
    }

    /// A URL by which connections work in this schema and bear its name.
    pub(crate) fn url(&self) -> String {
        self.url_at(&self.server, "")
    }

    /// The same on another server, with more settings for the session.
    pub(crate) fn url_at(&self, server: &str, more: &str) -> String {
        let separator = if server.contains('?') { '&' } else { '?' };
        format!(
            "{server}{separator}options=-c%20search_path%3D{0}{more}&application_name={0}",
            self.name
        )
    }

    pub(crate) fn options(&self) -> PostgresOptions {
        PostgresOptions::new(&self.url()).expect("a URL")
    }

    pub(crate) async fn connect(&self) -> PostgresDatabase {
        self.options().connect().await.expect("connect")
    }

    pub(crate) async fn client(&self) -> Client {
        client(&self.url()).await
    }

    pub(crate) async fn run(&self, sql: &str) {
        self.admin
            .batch_execute(sql)
            .await
            .expect("the test's own SQL");
    }

    /// Makes the outbox `outbox` by the shipped migrations.
    pub(crate) async fn make_outbox(&self) {
        for file in duebox_migrations::outbox(Dialect::Postgres) {
            self.run(file.sql).await;
        }
    }

    /// Fills the outbox with so many rows, due at the first seconds of March 2026.
    pub(crate) async fn fill(&self, rows: u32) {
        let sql = format!(
            "INSERT INTO outbox (id, topic, payload, created_at, next_attempt_at)
             SELECT lpad(i::text, 26, '0'), 't', repeat('x', 200), at, at
             FROM generate_series(1, {rows}) AS i,
                 to_char(timestamp '2026-03-01' + i * interval '1 us', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') AS at"
        );
        self.run(&sql).await;
    }

    /// Sessions of this place that are inside a transaction and do nothing in it.
    pub(crate) async fn idle_in_transaction(&self) -> i64 {
        self.number(&format!(
            "SELECT count(*) FROM pg_stat_activity
             WHERE application_name = '{}' AND state LIKE 'idle in transaction%'",
            self.name
        ))
        .await
    }

    /// Ends every connection of this place from the server's side.
    pub(crate) async fn cut(&self) {
        let sql = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = $1";
        self.admin
            .execute(sql, &[&self.name])
            .await
            .expect("end the connections");
    }

    /// Waits until `sessions` of this place sleep in the server, as by `pg_sleep`.
    pub(crate) async fn sleeping(&self, sessions: i64) {
        let sql = format!(
            "SELECT count(*) FROM pg_stat_activity
             WHERE application_name = '{}' AND wait_event = 'PgSleep'",
            self.name
        );
        for _ in 0..12_000 {
            if self.number(&sql).await == sessions {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("no {sessions} sessions sleep");
    }

    /// One number that the server answers.
    pub(crate) async fn number(&self, sql: &str) -> i64 {
        self.admin
            .query_one(sql, &[])
            .await
            .expect("the test's own SQL")
            .get(0)
    }

    pub(crate) async fn close(self) {
        let sql = format!("DROP SCHEMA {} CASCADE", self.name);
        self.admin
            .batch_execute(&sql)
            .await
            .expect("drop the schema");
    }
}

/// The ways to work with a database, each with a pool of so many connections.
pub(crate) async fn every_way(
    url: &str,
    connections: u32,
) -> Vec<(&'static str, Arc<dyn Database>)> {
    let (tokio, sqlx) = (tokio_at(url, connections).await, sqlx_at(url, connections));
    vec![
        ("tokio-postgres", Arc::new(tokio.clone())),
        (
            "tokio-postgres, unprepared",
            Arc::new(tokio.with_prepared_statements(false)),
        ),
        ("sqlx", Arc::new(sqlx.clone())),
        (
            "sqlx, unprepared",
            Arc::new(sqlx.with_prepared_statements(false)),
        ),
    ]
}

/// The same ways to the pending receipts.
pub(crate) async fn every_store(
    url: &str,
    connections: u32,
) -> Vec<(&'static str, Arc<dyn PendingReceiptStore>)> {
    let (tokio, sqlx) = (tokio_at(url, connections).await, sqlx_at(url, connections));
    let unprepared = tokio.clone().with_prepared_statements(false);
    let sqlx_unprepared = sqlx.clone().with_prepared_statements(false);
    vec![
        ("tokio-postgres", Arc::new(tokio.receipts())),
        (
            "tokio-postgres, unprepared",
            Arc::new(unprepared.receipts()),
        ),
        ("sqlx", Arc::new(sqlx.receipts())),
        ("sqlx, unprepared", Arc::new(sqlx_unprepared.receipts())),
    ]
}

pub(crate) async fn tokio_at(url: &str, connections: u32) -> PostgresDatabase {
    let options = PostgresOptions::new(url)
        .expect("a URL")
        .max_connections(connections as usize);
    options.connect().await.expect("connect")
}

pub(crate) fn sqlx_at(url: &str, connections: u32) -> SqlxPostgresDatabase {
    SqlxPostgresDatabase::from_pool(sqlx_pool(url, connections))
}

pub(crate) fn sqlx_pool(url: &str, connections: u32) -> PgPool {
    PgPoolOptions::new()
        .max_connections(connections)
        .connect_lazy(url)
        .expect("a URL")
}

/// The same URL for a server at another port of this machine.
pub(crate) fn with_port(url: &str, port: u16) -> String {
    let start = url
        .find('@')
        .map_or_else(|| url.find("//").expect("a URL") + 2, |at| at + 1);
    let end = url[start..].find('/').map_or(url.len(), |end| start + end);
    format!("{}127.0.0.1:{port}{}", &url[..start], &url[end..])
}

/// A time of 2026-03-01.
pub(crate) fn at(seconds: u32) -> String {
    format!(
        "2026-03-01T{:02}:{:02}:{:02}.000000Z",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

/// What a value is, for a test that compares.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::Null => "NULL".into(),
        Value::Bool(truth) => truth.to_string(),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => number.to_string(),
        Value::Text(text) => text.clone(),
        Value::Bytes(bytes) => format!("{bytes:?}"),
        other => format!("{other:?}"),
    }
}

/// The connection of a place again, once the server is there again.
pub(crate) async fn reconnect(url: &str, name: &str) -> Option<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.ok()?;
    tokio::spawn(connection);
    let path = format!("SET search_path = {name}");
    client.batch_execute(&path).await.ok()?;
    Some(client)
}

async fn client(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("connect");
    tokio::spawn(connection);
    client
}
