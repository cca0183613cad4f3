//! Through PgBouncer, which lends a connection for one transaction.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use duebox_postgres::tokio_postgres::Config;
use duebox_postgres::tokio_postgres::config::Host;
use duebox_postgres::{
    Database, DbError, Kind, Outbox, Outcome, PendingReceiptStore, PostgresDatabase,
    SqlxPostgresDatabase, Statement,
};

use crate::place::{Place, at, server, sqlx_pool, tokio_at};

pub(crate) const VARIABLE: &str = "DUEBOX_TEST_PGBOUNCER";

pub(crate) fn unavailable() -> Option<String> {
    std::env::var(VARIABLE)
        .map_or(true, |path| path.is_empty())
        .then(|| format!("no PgBouncer: set {VARIABLE}"))
}

struct PgBouncer {
    port: u16,
    child: Child,
    directory: PathBuf,
}

impl PgBouncer {
    /// Starts one that has two connections to the server and lends them by
    /// transaction.
    async fn start(place: &Place) -> Self {
        let program = std::env::var(VARIABLE).expect("a PgBouncer");
        let directory = std::env::temp_dir().join(format!("{}_pgbouncer", place.name));
        std::fs::create_dir_all(&directory).expect("a directory");
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let config: Config = server().expect("a server").parse().expect("a URL");
        let host = match config.get_hosts().first() {
            Some(Host::Tcp(host)) => host.clone(),
            _ => panic!("the tests need a server that is reached by TCP"),
        };
        let password = config.get_password().map_or(String::new(), |password| {
            format!("password={}", String::from_utf8_lossy(password))
        });
        let text = format!(
            "[databases]
             place = host={host} port={} dbname={} user={} {password} connect_query='SET search_path = {}'
             [pgbouncer]
             listen_addr = 127.0.0.1
             listen_port = {port}
             unix_socket_dir =
             auth_type = any
             pool_mode = transaction
             default_pool_size = 2
             max_client_conn = 100
             ignore_startup_parameters = extra_float_digits,options\n",
            config.get_ports().first().copied().unwrap_or(5432),
            config.get_dbname().unwrap_or("postgres"),
            config.get_user().unwrap_or("postgres"),
            place.name,
        );
        let file = directory.join("pgbouncer.ini");
        std::fs::write(&file, text.replace("\n             ", "\n")).expect("a configuration");
        let mut command = Command::new(program);
        // It refuses to run as root, and becomes this user then.
        if Command::new("id")
            .arg("-u")
            .output()
            .is_ok_and(|id| id.stdout == b"0\n")
        {
            command.args(["-u", "nobody"]);
        }
        let child = command
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("start PgBouncer");
        let started = Self {
            port,
            child,
            directory,
        };
        for _ in 0..200 {
            if tokio::net::TcpStream::connect(("127.0.0.1", port))
                .await
                .is_ok()
            {
                return started;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        panic!("PgBouncer does not listen");
    }

    fn url(&self) -> String {
        format!(
            "postgres://someone@127.0.0.1:{}/place?sslmode=disable",
            self.port
        )
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Everything that a handle and a transaction do, by many at once, so that they
/// meet on the two connections of the server.
async fn everything(db: Arc<dyn Database>, receipts: Arc<dyn PendingReceiptStore>) {
    let tasks: Vec<_> = (0..8)
        .map(|task| {
            let (db, receipts) = (Arc::clone(&db), Arc::clone(&receipts));
            tokio::spawn(async move {
                for number in 0..10 {
                    one_round(&*db, &format!("{task}-{number}"))
                        .await
                        .expect("a round");
                    crate::receipts::alone(&*receipts, &format!("{task}-{number}-")).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("a task");
    }
}

/// An error of this kind is as it should be, and any other is passed on.
fn refused<T: std::fmt::Debug>(answer: Result<T, DbError>, kind: Kind) -> Result<(), DbError> {
    let error = answer.expect_err("it is refused");
    assert_eq!(error.outcome(), Outcome::NotApplied, "{error}");
    if error.kind() == kind {
        Ok(())
    } else {
        Err(error)
    }
}

async fn one_round(db: &dyn Database, name: &str) -> Result<(), DbError> {
    let outbox = Outbox::new("outbox");
    let key = "018f0000-0000-7000-8000-000000000000";
    let insert =
        Statement::new("INSERT INTO state (id, key, at, n, data, tags) VALUES (?, ?, ?, ?, ?, ?)")
            .bind(name)
            .bind(key)
            .bind("2026-03-01T10:00:00.5+02:00")
            .bind(7_i64)
            .bind(vec![0_u8, 255])
            .bind(duebox_postgres::Value::TextArray(vec![
                Some("a,\"b".into()),
                None,
            ]));
    assert_eq!(db.execute(&insert).await?, 1);
    let rows = db
        .query(
            &Statement::new("SELECT key, at, n, data, tags[1] AS tag FROM state WHERE id = ?")
                .bind(name),
        )
        .await?;
    assert_eq!(rows[0].get::<String>("key")?, key);
    assert_eq!(rows[0].get::<String>("at")?, "2026-03-01T08:00:00.500000Z");
    assert_eq!(rows[0].get::<i64>("n")?, 7);
    assert_eq!(rows[0].get::<Vec<u8>>("data")?, [0, 255]);
    assert_eq!(rows[0].get::<String>("tag")?, "a,\"b");
    let update = Statement::new("UPDATE state SET n = n + ? WHERE id = ?")
        .bind(1_i64)
        .bind(name);
    let enqueue = outbox.enqueue_statement(name, "t", "{}", Some("someone"), &at(0));
    assert_eq!(
        db.batch_atomic(&[update.clone().expect_rows(1), enqueue])
            .await?,
        [1, 1]
    );
    refused(
        db.batch_atomic(&[update.clone(), update.expect_rows(2)])
            .await,
        Kind::RowCount,
    )?;
    refused(db.execute(&insert).await, Kind::Conflict)?;
    let records = outbox.claim_due(db, &at(1), &at(2), 1).await?;
    let leases: Vec<_> = records.into_iter().map(|record| record.lease).collect();
    outbox.complete_claimed(db, &leases).await?;
    outbox.erase_subject(db, "nobody", 10).await?;
    db.now().await?;
    Ok(())
}

async fn place() -> Place {
    let place = Place::new().await;
    place
        .run(
            "CREATE TABLE state (
                id text PRIMARY KEY, key uuid, at timestamptz, n smallint, data bytea, tags text[]
            )",
        )
        .await;
    place
}

pub(crate) async fn everything_works_on_tokio_postgres() {
    let place = place().await;
    let pooler = PgBouncer::start(&place).await;
    let db = tokio_at(&pooler.url(), 8)
        .await
        .with_prepared_statements(false);
    db.migrate().await.expect("migrate");
    // As its own pool, and as one of the service's that it looks after others in.
    let borrowed = PostgresDatabase::from_pool(db.pool().clone()).with_prepared_statements(false);
    for db in [&db, &borrowed] {
        everything(Arc::new(db.clone()), Arc::new(db.receipts())).await;
        assert_eq!(place.number("SELECT sum(n) FROM state").await, 8 * 80);
        assert_eq!(place.number("SELECT count(*) FROM outbox").await, 0);
        place.run("DELETE FROM state").await;
    }

    let mut client = db.pool().get().await.expect("a connection");
    let transaction = client.transaction().await.expect("begin");
    let enqueue = Outbox::new("outbox").enqueue_statement("own", "t", "", None, &at(0));
    assert_eq!(
        duebox_postgres::execute(&*transaction, &enqueue)
            .await
            .expect("enqueue"),
        1
    );
    transaction.commit().await.expect("commit");
    assert_eq!(place.number("SELECT count(*) FROM outbox").await, 1);
    place.close().await;
}

pub(crate) async fn everything_works_on_sqlx() {
    let place = place().await;
    let pooler = PgBouncer::start(&place).await;
    let db = SqlxPostgresDatabase::from_pool(sqlx_pool(&pooler.url(), 8))
        .with_prepared_statements(false);
    db.migrate().await.expect("migrate");
    everything(Arc::new(db.clone()), Arc::new(db.receipts())).await;
    assert_eq!(place.number("SELECT sum(n) FROM state").await, 8 * 80);
    assert_eq!(place.number("SELECT count(*) FROM outbox").await, 0);
    place.close().await;
}

/// Whoever forgets to switch them off is told to, and nothing is done wrongly.
pub(crate) async fn prepared_statements_are_refused_with_the_cure() {
    let place = place().await;
    place.make_outbox().await;
    let pooler = PgBouncer::start(&place).await;
    let db = Arc::new(tokio_at(&pooler.url(), 8).await);
    let tasks: Vec<_> = (0..8)
        .map(|task| {
            let db = Arc::clone(&db);
            tokio::spawn(async move {
                let mut failures = Vec::new();
                for number in 0..10 {
                    failures.extend(one_round(&*db, &format!("{task}-{number}")).await.err());
                }
                failures
            })
        })
        .collect();
    let mut failures = Vec::new();
    for task in tasks {
        failures.extend(task.await.expect("a task"));
    }
    assert!(!failures.is_empty());
    for failure in failures {
        assert_eq!(failure.kind(), Kind::Unsupported, "{failure}");
        assert!(
            failure
                .to_string()
                .contains("switch prepared statements off"),
            "{failure}"
        );
    }
    place.close().await;
}
