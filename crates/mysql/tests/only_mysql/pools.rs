//! A pool of the caller's own and one of ours, and what they meet in use.

use std::time::Duration;

use duebox_mysql::sqlx::mysql::MySqlPoolOptions;
use duebox_mysql::sqlx::{self, AssertSqlSafe, Executor, MySqlPool};
use duebox_mysql::{Database, Kind, MySqlDatabase, Outbox, Outcome, Statement};

use crate::common::{Server, TestDatabase, run};
use crate::tests;

tests!(pools:
    the_callers_sessions_keep_their_isolation,
    our_own_pool_is_strict_and_read_committed,
    a_connection_that_the_server_closed_is_noticed,
    a_lock_that_is_not_granted_undoes_the_whole_batch,
    deadlocks_do_not_reach_the_caller,
    one_connection_is_enough_and_many_calls_share_few
);

const DAY: &str = "2026-03-01T00:00:00.000000Z";
const NOW: &str = "2026-03-02T00:00:00.000000Z";
const LATER: &str = "2026-03-03T00:00:00.000000Z";

/// A pool as a service has it, whose sessions begin with this statement.
pub(crate) async fn pool(of: &TestDatabase, connections: u32, setting: &'static str) -> MySqlPool {
    MySqlPoolOptions::new()
        .max_connections(connections)
        .after_connect(move |connection, _| {
            Box::pin(async move { connection.execute(setting).await.map(drop) })
        })
        .connect(&of.url())
        .await
        .expect("connect")
}

pub(crate) async fn with_outbox(of: &TestDatabase) -> (MySqlDatabase, Outbox) {
    let db = of.connect(4).await;
    let outbox = Outbox::new("outbox");
    db.migrate_outbox(&outbox).await.expect("migrate");
    (db, outbox)
}

async fn the_callers_sessions_keep_their_isolation(server: Server) {
    let of = TestDatabase::new(server, "").await;
    let (other, outbox) = with_outbox(&of).await;
    let pool = pool(
        &of,
        1,
        "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    )
    .await;
    let db = MySqlDatabase::from_pool(pool.clone());
    for round in 0..6 {
        // Whatever was last: done, failed at once, failed in the server, refused.
        let id = format!("r{round}");
        let row = outbox.enqueue_statement(&id, "t", "p", None, DAY);
        match round {
            0 => drop(db.batch_atomic(&[row]).await.expect("enqueue")),
            1 => drop(db.execute(&row).await.expect("enqueue")),
            2 => drop(
                db.execute(&Statement::new("INSERT nonsense"))
                    .await
                    .expect_err("nonsense"),
            ),
            3 => {
                db.execute(&row).await.expect("enqueue");
                db.execute(&row).await.expect_err("it is there");
            }
            4 => drop(outbox.claim_due(&db, NOW, LATER, 1).await.expect("claim")),
            _ => drop(
                db.batch_atomic(&[row.expect_rows(2)])
                    .await
                    .expect_err("one row"),
            ),
        }
        let mut transaction = pool.begin().await.expect("begin");
        let count = "SELECT COUNT(*) FROM outbox";
        let before: i64 = sqlx::query_scalar(count)
            .fetch_one(&mut *transaction)
            .await
            .expect("a count");
        let more = outbox.enqueue_statement(&format!("x{round}"), "t", "p", None, LATER);
        other.batch_atomic(&[more]).await.expect("enqueue");
        let after: i64 = sqlx::query_scalar(count)
            .fetch_one(&mut *transaction)
            .await
            .expect("a count");
        assert_eq!(
            before, after,
            "after round {round} a read is not repeatable"
        );
        transaction.rollback().await.expect("roll back");
    }
    of.drop().await;
}

async fn our_own_pool_is_strict_and_read_committed(server: Server) {
    let of = TestDatabase::new(server, "").await;
    let db = of.connect(2).await;
    run(
        &mut of.raw().await,
        "CREATE TABLE t (short VARCHAR(3), small TINYINT)",
    )
    .await;
    let long = Statement::new("INSERT INTO t (short) VALUES (?)").bind("abcd");
    assert_eq!(
        db.execute(&long).await.expect_err("too long").kind(),
        Kind::Constraint
    );
    let large = Statement::new("INSERT INTO t (small) VALUES (?)").bind(1_000);
    assert_eq!(
        db.execute(&large).await.expect_err("too large").kind(),
        Kind::Constraint
    );
    // A transaction of the caller's on our pool sees what others commit.
    let mut transaction = db.pool().begin().await.expect("begin");
    let count = "SELECT COUNT(*) FROM t";
    let none: i64 = sqlx::query_scalar(count)
        .fetch_one(&mut *transaction)
        .await
        .expect("count");
    run(&mut of.raw().await, "INSERT INTO t (small) VALUES (1)").await;
    let one: i64 = sqlx::query_scalar(count)
        .fetch_one(&mut *transaction)
        .await
        .expect("count");
    assert_eq!((none, one), (0, 1));
    drop(transaction);
    of.drop().await;
}

async fn a_connection_that_the_server_closed_is_noticed(server: Server) {
    let of = TestDatabase::new(server, "").await;
    let (db, outbox) = with_outbox(&of).await;
    // All four connections are there.
    let held: Vec<_> =
        futures_of(4, || async { db.pool().acquire().await.expect("acquire") }).await;
    drop(held);
    tokio::time::sleep(Duration::from_millis(50)).await;

    // At once: what begins with a transaction of ours takes another connection.
    of.cut().await;
    let row = outbox.enqueue_statement("a", "t", "p", None, DAY);
    db.batch_atomic(&[row]).await.expect("enqueue");
    assert_eq!(
        outbox
            .claim_due(&db, NOW, LATER, 1)
            .await
            .expect("claim")
            .len(),
        1
    );

    // After a pause: anything does.
    let held: Vec<_> =
        futures_of(4, || async { db.pool().acquire().await.expect("acquire") }).await;
    drop(held);
    tokio::time::sleep(Duration::from_millis(50)).await;
    of.cut().await;
    tokio::time::sleep(Duration::from_millis(150)).await;
    for _ in 0..8 {
        let row = outbox.enqueue_once_statement("b", "t", "p", None, DAY);
        db.execute(&row).await.expect("enqueue");
    }

    // By itself, as servers do to idle sessions.
    let pool = pool(&of, 2, "SET SESSION wait_timeout = 1").await;
    let db = MySqlDatabase::from_pool(pool);
    outbox.stats(&db, NOW).await.expect("stats");
    tokio::time::sleep(Duration::from_millis(2_300)).await;
    outbox.complete(&db, "b").await.expect("complete");
    of.drop().await;
}

async fn futures_of<T, F: Future<Output = T>>(count: usize, make: impl Fn() -> F) -> Vec<T> {
    let mut all = Vec::new();
    for _ in 0..count {
        all.push(make().await);
    }
    all
}

async fn a_lock_that_is_not_granted_undoes_the_whole_batch(server: Server) {
    let of = TestDatabase::new(server, "").await;
    let (own, outbox) = with_outbox(&of).await;
    run(
        &mut of.raw().await,
        "CREATE TABLE state (id VARCHAR(64) PRIMARY KEY, n INT NOT NULL)",
    )
    .await;
    run(
        &mut of.raw().await,
        "INSERT INTO state (id, n) VALUES ('held', 0)",
    )
    .await;
    let mut holder = of.raw().await;
    run(&mut holder, "BEGIN").await;
    run(&mut holder, "UPDATE state SET n = 1 WHERE id = 'held'").await;

    let db =
        MySqlDatabase::from_pool(pool(&of, 2, "SET SESSION innodb_lock_wait_timeout = 1").await);
    let batch = [
        Statement::new("INSERT INTO state (id, n) VALUES ('mine', 0)"),
        Statement::new("UPDATE state SET n = 2 WHERE id = 'held'"),
        outbox.enqueue_statement("a", "t", "p", None, DAY),
    ];
    let begun = std::time::Instant::now();
    let error = db
        .batch_atomic(&batch)
        .await
        .expect_err("the row is locked");
    // As the session says, and not as the server does unless told.
    assert!(begun.elapsed() < Duration::from_secs(50));
    assert_eq!(error.code(), Some("1205"));
    assert_eq!(
        (error.kind(), error.outcome()),
        (Kind::Busy, Outcome::NotApplied)
    );
    assert!(error.is_retryable());
    assert_eq!(error.statement(), Some(1));
    let sql = "SELECT id FROM state WHERE id = 'mine' UNION ALL SELECT id FROM outbox";
    assert!(
        own.query(&Statement::new(sql))
            .await
            .expect("query")
            .is_empty()
    );

    // While it is only for a while, the batch is run again and succeeds.
    let waiting = tokio::spawn(async move { db.batch_atomic(&batch).await });
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    run(&mut holder, "COMMIT").await;
    assert_eq!(
        waiting.await.expect("no panic").expect("the lock is free"),
        [1, 1, 1]
    );
    of.drop().await;
}

async fn deadlocks_do_not_reach_the_caller(server: Server) {
    let of = TestDatabase::new(server, "").await;
    let db = of.connect(4).await;
    run(
        &mut of.raw().await,
        "CREATE TABLE tally (id INT PRIMARY KEY, n INT NOT NULL)",
    )
    .await;
    run(
        &mut of.raw().await,
        "INSERT INTO tally (id, n) VALUES (1, 0), (2, 0)",
    )
    .await;
    let add = |id: i32| {
        Statement::new("UPDATE tally SET n = n + 1 WHERE id = ?")
            .bind(id)
            .expect_rows(1)
    };
    let mut admin = server.admin().await;
    let count = "SELECT CAST(count AS SIGNED) FROM information_schema.innodb_metrics WHERE name = 'lock_deadlocks'";
    let before: i64 = sqlx::query_scalar(count)
        .fetch_one(&mut admin)
        .await
        .expect("a count");
    let workers: Vec<_> = (0..4)
        .map(|worker| {
            let db = db.clone();
            let batch = if worker % 2 == 0 {
                [add(1), add(2)]
            } else {
                [add(2), add(1)]
            };
            tokio::spawn(async move {
                let mut surfaced = 0;
                for _ in 0..100 {
                    // Reruns are bounded, and a slow machine can use them all up.
                    while let Err(error) = db.batch_atomic(&batch).await {
                        assert!(error.is_retryable(), "{error}");
                        surfaced += 1;
                    }
                }
                surfaced
            })
        })
        .collect();
    let mut surfaced = 0;
    for worker in workers {
        surfaced += worker.await.expect("no panic");
    }
    assert!(surfaced < 5, "{surfaced} of 400");
    let rows = db
        .query(&Statement::new("SELECT n FROM tally"))
        .await
        .expect("query");
    assert!(
        rows.iter()
            .all(|row| row.get::<i64>("n").expect("a number") == 400)
    );
    let after: i64 = sqlx::query_scalar(count)
        .fetch_one(&mut admin)
        .await
        .expect("a count");
    assert!(after > before, "no deadlock came up, so nothing was shown");
    of.drop().await;
}

async fn one_connection_is_enough_and_many_calls_share_few(server: Server) {
    let of = TestDatabase::new(server, "").await;
    let db = of.connect(1).await;
    let outbox = Outbox::new("outbox");
    db.migrate().await.expect("migrate");
    let row = outbox.enqueue_statement("a", "t", "p", Some("s"), DAY);
    db.batch_atomic(&[row]).await.expect("enqueue");
    let mine = outbox.claim_due(&db, NOW, LATER, 1).await.expect("claim");
    outbox
        .complete_claimed(&db, &[mine[0].lease.clone()])
        .await
        .expect("complete");
    outbox.erase_subject(&db, "s", 10).await.expect("erase");
    db.now().await.expect("the time");

    let db = of.connect(5).await;
    let calls: Vec<_> = (0..200)
        .map(|call| {
            let (db, outbox) = (db.clone(), outbox.clone());
            tokio::spawn(async move {
                if call % 2 == 0 {
                    let row = outbox.enqueue_statement(&format!("r{call}"), "t", "p", None, DAY);
                    db.batch_atomic(&[row]).await.expect("enqueue");
                } else {
                    outbox.claim_due(&db, NOW, LATER, 3).await.expect("claim");
                }
            })
        })
        .collect();
    for call in calls {
        call.await.expect("no panic");
    }
    let mut admin = server.admin().await;
    let open = of.sessions(&mut admin).await.len();
    assert!(open <= 6, "{open} sessions");
    run(&mut admin, AssertSqlSafe("SELECT 1").0).await;
    of.drop().await;
}
