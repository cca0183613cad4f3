//! Where a test works: a schema of its own, and connections to it.

use std::sync::atomic::{AtomicU32, Ordering};

use duebox_postgres::tokio_postgres::{Client, NoTls};
use duebox_postgres::{Database, PostgresDatabase, PostgresOptions, tokio_postgres};

const VARIABLE: &str = "DUEBOX_TEST_POSTGRES_URL";

pub(crate) fn unavailable() -> Option<String> {
    server()
        .is_none()
        .then(|| format!("no server: set {VARIABLE}"))
}

fn server() -> Option<String> {
    std::env::var(VARIABLE).ok().filter(|url| !url.is_empty())
}

/// A schema of its own, which the next run of the tests would find empty again.
pub(crate) struct Place {
    pub(crate) name: String,
    pub(crate) admin: Client,
}

impl Place {
    pub(crate) async fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("only_{}_{number}", std::process::id());
        let admin = client(&server().expect("a server")).await;
        let sql = format!(
            "DROP SCHEMA IF EXISTS {name} CASCADE; CREATE SCHEMA {name}; SET search_path = {name}"
        );
        admin.batch_execute(&sql).await.expect("make a schema");
        Self { name, admin }
    }

    /// A URL by which connections work in this schema and bear its name.
    pub(crate) fn url(&self) -> String {
        self.url_at(&server().expect("a server"), "")
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

async fn client(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("connect");
    tokio::spawn(connection);
    client
}

pub(crate) async fn the_server_is_there() {
    let place = Place::new().await;
    let db = place.connect().await;
    db.migrate().await.expect("migrate");
    db.migrate().await.expect("migrate again");
    let now = db.now().await.expect("a time");
    assert!(now > duebox_postgres::chrono::DateTime::UNIX_EPOCH);
    assert_eq!(place.number("SELECT count(*) FROM outbox").await, 0);
    place.close().await;
}
