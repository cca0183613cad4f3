//! The connections behind a handle: whose turn it is, and what is left on them.

use std::time::Duration;

use super::support::{Folder, LATER, NOW, assert_refused, enqueue, hold, number, run, sql};
use duebox_sqlite::{Database, Enqueue, Kind, Outbox, SqliteDatabase, parse_time, rusqlite};

#[tokio::test]
async fn a_transaction_left_open_by_the_caller_is_rolled_back() {
    let db = SqliteDatabase::open_in_memory().await.unwrap();
    run(&db, "CREATE TABLE a (n INTEGER)").await;
    run(&db, "BEGIN IMMEDIATE; INSERT INTO a VALUES (1)").await;
    assert_eq!(number(&db, "SELECT COUNT(*) AS n FROM a").await, 0);
    db.execute(&sql("INSERT INTO a VALUES (2)")).await.unwrap();
    assert_eq!(number(&db, "SELECT n FROM a").await, 2);
}

#[tokio::test]
async fn a_panic_of_the_caller_is_the_callers() {
    let db = SqliteDatabase::open_in_memory().await.unwrap();
    run(&db, "CREATE TABLE a (n INTEGER)").await;
    let call = {
        let db = db.clone();
        async move {
            db.with_connection(|conn| {
                conn.execute_batch("BEGIN; INSERT INTO a VALUES (1)")
                    .unwrap();
                panic!("on purpose")
            })
            .await
        }
    };
    let joined = tokio::spawn(call).await;
    assert!(joined.unwrap_err().is_panic());
    assert_eq!(number(&db, "SELECT COUNT(*) AS n FROM a").await, 0);
}

#[tokio::test]
async fn what_is_dropped_before_its_turn_is_not_done() {
    let folder = Folder::new();
    let db = folder.open().await;
    run(&db, "CREATE TABLE a (n INTEGER)").await;
    let gate = hold(&db).await;
    let insert = sql("INSERT INTO a VALUES (1)");
    let alone = db.with_connection(|conn| conn.execute("INSERT INTO a VALUES (3)", []));
    let batch = [insert.clone(), insert.clone()];
    tokio::select! {
        biased;
        _ = db.execute(&insert) => unreachable!(),
        _ = db.batch_atomic(&batch) => unreachable!(),
        _ = alone => unreachable!(),
        () = std::future::ready(()) => {}
    }
    drop(gate);
    assert_eq!(db.execute(&sql("INSERT INTO a VALUES (2)")).await, Ok(1));
    assert_eq!(number(&db, "SELECT SUM(n) AS n FROM a").await, 2);
}

#[tokio::test]
async fn what_is_dropped_while_it_runs_is_done_as_a_whole() {
    let folder = Folder::new();
    let db = folder.open().await;
    run(
        &db,
        "CREATE TABLE a (n INTEGER); CREATE TABLE b (n INTEGER)",
    )
    .await;
    let batch = [
        sql("INSERT INTO a VALUES (1)"),
        sql(
            "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 500000)
             INSERT INTO b SELECT n FROM c",
        ),
    ];
    let call = tokio::time::timeout(Duration::from_millis(20), db.batch_atomic(&batch));
    let _ = call.await;
    // The writer has one turn behind the other.
    run(&db, "SELECT 1").await;
    let (a, b) = (
        number(&db, "SELECT COUNT(*) AS n FROM a").await,
        number(&db, "SELECT COUNT(*) AS n FROM b").await,
    );
    assert!((a, b) == (1, 500_000) || (a, b) == (0, 0), "{a}, {b}");
}

#[tokio::test]
async fn reads_of_a_file_wait_for_no_write() {
    let folder = Folder::new();
    let db = folder.open().await;
    run(&db, "CREATE TABLE a (n INTEGER); INSERT INTO a VALUES (1)").await;
    let gate = hold(&db).await;
    assert_eq!(number(&db, "SELECT n FROM a").await, 1);
    drop(gate);
    let db = folder.options().readers(0).open().await.unwrap();
    assert_eq!(number(&db, "SELECT n FROM a").await, 1);
}

#[tokio::test]
async fn a_write_is_seen_by_the_next_read() {
    let folder = Folder::new();
    let db = folder.open().await;
    run(&db, "CREATE TABLE a (n INTEGER)").await;
    for n in 1..=200 {
        db.execute(&sql("INSERT INTO a VALUES (1)")).await.unwrap();
        assert_eq!(number(&db, "SELECT COUNT(*) AS n FROM a").await, n);
    }
}

#[tokio::test]
async fn what_only_the_writers_connection_has_can_be_read() {
    let folder = Folder::new();
    let db = folder.open().await;
    run(
        &db,
        "CREATE TEMP TABLE t (n INTEGER); INSERT INTO t VALUES (5)",
    )
    .await;
    assert_eq!(number(&db, "SELECT n FROM t").await, 5);
    let other = folder.path().join("other.db");
    let attach = format!("ATTACH '{}' AS other", other.display());
    db.execute(&duebox_sqlite::Statement::new(attach))
        .await
        .unwrap();
    db.migrate_outbox(&Outbox::new("other.mail")).await.unwrap();
    assert_eq!(number(&db, "SELECT COUNT(*) AS n FROM other.mail").await, 0);
}

#[tokio::test]
async fn a_changed_schema_disturbs_no_prepared_statement() {
    let folder = Folder::new();
    let db = folder.open().await;
    run(&db, "CREATE TABLE a (n INTEGER); INSERT INTO a VALUES (1)").await;
    for _ in 0..8 {
        let rows = db.query(&sql("SELECT * FROM a")).await.unwrap();
        assert_eq!(rows[0].columns().count(), 1);
    }
    let raw = folder.raw();
    raw.execute_batch("ALTER TABLE a ADD COLUMN m INTEGER NOT NULL DEFAULT 7")
        .unwrap();
    for _ in 0..8 {
        let rows = db.query(&sql("SELECT * FROM a")).await.unwrap();
        assert_eq!(rows[0].get::<i64>("m"), Ok(7));
    }
}

#[tokio::test]
async fn few_variables_are_enough() {
    use rusqlite::limits::Limit;
    let db = SqliteDatabase::open_in_memory().await.unwrap();
    db.migrate().await.unwrap();
    db.with_connection(|conn| conn.set_limit(Limit::SQLITE_LIMIT_VARIABLE_NUMBER, 999))
        .await
        .unwrap()
        .unwrap();
    let outbox = Outbox::new("outbox");
    let at = parse_time(NOW).unwrap();
    let work = (0..5_000).map(|id| {
        Enqueue::new("mail")
            .id(format!("id-{id}"))
            .payload("{}")
            .at(at)
    });
    let statement = outbox.enqueue_many_statement(work);
    assert_eq!(db.execute(&statement).await, Ok(5_000));
    let claimed = outbox.claim_due(&db, NOW, LATER, u64::MAX).await.unwrap();
    assert_eq!(claimed.len(), 5_000);
    let leases: Vec<_> = claimed.into_iter().map(|record| record.lease).collect();
    let outcomes = outbox.complete_claimed(&db, &leases).await.unwrap();
    assert_eq!(outcomes.len(), 5_000);
    assert_eq!(number(&db, "SELECT COUNT(*) AS n FROM outbox").await, 0);
}

#[tokio::test]
async fn a_batch_of_its_own_is_refused_what_a_batch_cannot_do() {
    let db = SqliteDatabase::open_in_memory().await.unwrap();
    db.migrate().await.unwrap();
    for text in [
        "VACUUM",
        "PRAGMA user_version = 3",
        "DETACH x",
        "COMMIT",
        "SAVEPOINT s",
    ] {
        let answer = db.batch_atomic(&[enqueue("x"), sql(text)]).await;
        assert_refused(answer, Kind::Unsupported);
    }
    assert_eq!(number(&db, "SELECT COUNT(*) AS n FROM outbox").await, 0);
    // By themselves, where they can be.
    db.execute(&sql("PRAGMA user_version = 3")).await.unwrap();
    db.execute(&sql("VACUUM")).await.unwrap();
    let rows = db.query(&sql("PRAGMA user_version")).await.unwrap();
    assert_eq!(rows[0].get::<i64>("user_version"), Ok(3));
}
