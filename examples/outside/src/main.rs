//! Migrates, enqueues in a transaction of its own driver, and drains, on the database of
//! each URL that it is given.

use std::sync::Arc;
use std::time::Duration;

use duebox_mysql::MySqlDatabase;
use duebox_postgres::{PostgresDatabase, SqlxPostgresDatabase};
use duebox_sqlite::sqlx::sqlite::{SqliteConnectOptions, SqlitePool};
use duebox_sqlite::{Database, Enqueue, Outbox, SqliteDatabase, Statement};
use duebox_worker::{Job, Outcome, Worker};
use tokio::sync::mpsc;

type Failure = Box<dyn std::error::Error>;

/// Tables of its own, so that it may run on a database that is in use.
const NAME: &str = "duebox_outside";

#[tokio::main]
async fn main() -> Result<(), Failure> {
    for url in std::env::args().skip(1) {
        let (engine, _) = url
            .split_once(':')
            .ok_or("a URL is sqlite:FILE or scheme://…")?;
        let enqueued = match engine {
            "sqlite" => on_sqlite(url.trim_start_matches("sqlite:")).await?,
            "postgres" | "postgresql" => on_postgres(&url).await?,
            "mysql" | "mariadb" => on_mysql(&url).await?,
            _ => return Err("a URL of an engine that is not known".into()),
        };
        println!("{engine}: {enqueued} enqueued in transactions of their own and drained");
    }
    Ok(())
}

fn outbox() -> Outbox {
    Outbox::new(format!("{NAME}_outbox"))
}

/// The work of one change, with a payload that names its driver.
async fn mail(db: &dyn Database, driver: &str) -> Result<Statement, Failure> {
    let work = Enqueue::new("mail").subject(driver).payload(driver);
    Ok(outbox().enqueue(work.at(db.now().await?)))
}

/// Makes the tables anew.
async fn prepare(db: &dyn Database) -> Result<(), Failure> {
    let state = format!("CREATE TABLE {NAME}_state (driver VARCHAR(20) PRIMARY KEY)");
    for sql in [
        format!("DROP TABLE IF EXISTS {NAME}_outbox"),
        format!("DROP TABLE IF EXISTS {NAME}_state"),
        outbox().create_table_sql(),
        state,
    ] {
        db.execute(&Statement::new(sql)).await?;
    }
    Ok(())
}

fn insert() -> String {
    format!("INSERT INTO {NAME}_state (driver) VALUES ")
}

async fn on_sqlite(path: &str) -> Result<usize, Failure> {
    let db = SqliteDatabase::open(path).await?;
    db.migrate().await?;
    prepare(&db).await?;
    let work = mail(&db, "rusqlite").await?;
    db.with_connection(move |conn| -> Result<(), String> {
        let transaction = conn.transaction().map_err(|error| error.to_string())?;
        let state = transaction.execute(&format!("{}('rusqlite')", insert()), []);
        state.map_err(|error| error.to_string())?;
        duebox_sqlite::execute(&transaction, &work).map_err(|error| error.to_string())?;
        transaction.commit().map_err(|error| error.to_string())
    })
    .await??;

    let pool = SqlitePool::connect_with(SqliteConnectOptions::new().filename(path)).await?;
    let work = mail(&db, "sqlx").await?;
    let mut transaction = pool.begin().await?;
    let state = Statement::new(insert() + "(?)").bind("sqlx");
    duebox_sqlite::sqlx_execute(&mut transaction, &state.expect_rows(1)).await?;
    duebox_sqlite::sqlx_execute(&mut transaction, &work).await?;
    transaction.commit().await?;
    pool.close().await;
    drain(Arc::new(db), &["rusqlite", "sqlx"]).await
}

async fn on_postgres(url: &str) -> Result<usize, Failure> {
    let db = PostgresDatabase::connect(url).await?;
    db.migrate().await?;
    prepare(&db).await?;
    let work = mail(&db, "tokio-postgres").await?;
    let mut client = db.pool().get().await?;
    let transaction = client.transaction().await?;
    let state = format!("{}('tokio-postgres')", insert());
    transaction.execute(&state, &[]).await?;
    duebox_postgres::execute(&*transaction, &work).await?;
    transaction.commit().await?;
    drop(client);

    let pool = duebox_postgres::sqlx::PgPool::connect(url).await?;
    let work = mail(&SqlxPostgresDatabase::from_pool(pool.clone()), "sqlx").await?;
    let mut transaction = pool.begin().await?;
    let state = Statement::new(insert() + "(?)").bind("sqlx");
    duebox_postgres::execute(&mut transaction, &state.expect_rows(1)).await?;
    duebox_postgres::execute(&mut transaction, &work).await?;
    transaction.commit().await?;
    pool.close().await;
    drain(Arc::new(db), &["sqlx", "tokio-postgres"]).await
}

async fn on_mysql(url: &str) -> Result<usize, Failure> {
    let db = MySqlDatabase::connect(url).await?;
    db.migrate().await?;
    prepare(&db).await?;
    let work = mail(&db, "sqlx").await?;
    let mut transaction = db.pool().begin().await?;
    let state = Statement::new(insert() + "(?)").bind("sqlx");
    duebox_mysql::execute(&mut transaction, &state.expect_rows(1)).await?;
    duebox_mysql::execute(&mut transaction, &work).await?;
    transaction.commit().await?;
    drain(Arc::new(db), &["sqlx"]).await
}

/// Delivers what is there, and fails if that is not the work of these, with their state.
async fn drain(db: Arc<dyn Database>, drivers: &[&str]) -> Result<usize, Failure> {
    let (sender, mut delivered) = mpsc::unbounded_channel();
    let deliver = move |job: Job| {
        let sent = sender.send(job.payload().to_owned());
        async move {
            if sent.is_ok() {
                Outcome::Done
            } else {
                Outcome::retry("nobody hears")
            }
        }
    };
    let worker = Worker::builder(outbox(), db.clone())
        .handle("mail", deliver)
        .start()
        .await?;
    worker.settled().await?;
    worker.shutdown(Duration::from_secs(10)).await?;
    let mut found = Vec::new();
    while let Ok(driver) = delivered.try_recv() {
        found.push(driver);
    }
    found.sort();
    let states = format!("SELECT driver FROM {NAME}_state ORDER BY driver");
    let states = db.query(&Statement::new(states)).await?;
    let states: Result<Vec<String>, _> = states.iter().map(|row| row.get("driver")).collect();
    let left = format!("SELECT COUNT(*) AS n FROM {NAME}_outbox");
    let left: i64 = db.query(&Statement::new(left)).await?[0].get("n")?;
    if found != drivers || states? != drivers || left != 0 {
        return Err(format!("enqueued by {drivers:?}, delivered {found:?}, {left} left").into());
    }
    for table in ["outbox", "state"] {
        db.execute(&Statement::new(format!("DROP TABLE {NAME}_{table}")))
            .await?;
    }
    Ok(found.len())
}
