//! Batches that fail, and what is left of them.

use std::sync::Arc;
use std::time::Duration;

use duebox_postgres::{Database, DbError, Kind, Outbox, Outcome, PostgresOptions, Statement};

use crate::place::{Place, at, every_way, sqlx_at, tokio_at};
use crate::proxy::Proxy;

fn insert(id: &str) -> Statement {
    Statement::new("INSERT INTO state (id) VALUES (?)").bind(id)
}

async fn place() -> Place {
    let place = Place::new().await;
    place.make_outbox().await;
    place
        .run("CREATE TABLE state (id text PRIMARY KEY, n integer NOT NULL DEFAULT 0)")
        .await;
    place
}

/// A `COMMIT` that the server answers with `ROLLBACK` would look like a success.
pub(crate) async fn what_fails_late_stores_nothing() {
    let place = place().await;
    place
        .run(
            "CREATE TABLE child (
                id text PRIMARY KEY,
                parent text REFERENCES state (id) DEFERRABLE INITIALLY DEFERRED
            )",
        )
        .await;
    let url = place.url_at(
        &crate::place::server().expect("a server"),
        "%20-c%20statement_timeout%3D200",
    );
    for (name, db) in every_way(&url, 1).await {
        let late: [(Statement, Kind, &str); 4] = [
            // Its second row fails.
            (
                Statement::new("SELECT 1 / (2 - n) FROM generate_series(1, 2) AS n"),
                Kind::InvalidArgument,
                "22012",
            ),
            // Its commit fails.
            (
                Statement::new("INSERT INTO child (id, parent) VALUES ('c', 'nobody')"),
                Kind::Constraint,
                "23503",
            ),
            (Statement::new("SELECT pg_sleep(5)"), Kind::Busy, "57014"),
            (
                Statement::new("INSERT INTO nowhere VALUES (1)"),
                Kind::Schema,
                "42P01",
            ),
        ];
        for (statement, kind, code) in late {
            for more in [vec![], vec![insert("b")], vec![insert("b").expect_rows(1)]] {
                let mut batch = vec![insert("a"), statement.clone()];
                batch.extend(more);
                let error = db.batch_atomic(&batch).await.expect_err(code);
                assert_eq!(error.kind(), kind, "{name}: {error}");
                assert_eq!(error.code(), Some(code), "{name}: {error}");
                assert_eq!(error.outcome(), Outcome::NotApplied, "{name}: {error}");
                assert_eq!(
                    place.number("SELECT count(*) FROM state").await,
                    0,
                    "{name} {code}"
                );
                assert_eq!(
                    place.number("SELECT count(*) FROM child").await,
                    0,
                    "{name} {code}"
                );
                db.now().await.expect("the connection is as good as before");
            }
        }
        assert_eq!(place.idle_in_transaction().await, 0, "{name}");
    }
    place.close().await;
}

pub(crate) async fn the_first_failure_is_told_with_its_place() {
    let place = place().await;
    for (name, db) in every_way(&place.url(), 1).await {
        let missed = Statement::new("UPDATE state SET n = 1 WHERE id = 'nobody'").expect_rows(1);
        let error = db
            .batch_atomic(&[insert("a"), missed, insert("a")])
            .await
            .expect_err("missed");
        assert_eq!(
            (error.kind(), error.statement()),
            (Kind::RowCount, Some(1)),
            "{name}: {error}"
        );
        let error = db
            .batch_atomic(&[insert("a"), insert("b"), insert("a")])
            .await
            .expect_err("twice");
        assert_eq!(
            (error.kind(), error.statement()),
            (Kind::Conflict, Some(2)),
            "{name}: {error}"
        );
        assert_eq!(error.constraint(), Some("state_pkey"));
        assert_eq!(
            place.number("SELECT count(*) FROM state").await,
            0,
            "{name}"
        );
    }
    place.close().await;
}

pub(crate) async fn a_statement_may_need_what_one_before_it_makes() {
    let place = place().await;
    for (number, (name, db)) in every_way(&place.url(), 1).await.into_iter().enumerate() {
        let batch = [
            Statement::new(format!("CREATE TABLE made_{number} (id text)")),
            Statement::new(format!("INSERT INTO made_{number} VALUES (?)")).bind("a"),
        ];
        assert_eq!(db.batch_atomic(&batch).await.expect(name), [0, 1]);
    }
    place.close().await;
}

/// Outside a transaction a procedure and a `DO` block can commit in their middle.
pub(crate) async fn a_batch_of_one_cannot_commit_half_of_itself() {
    let place = place().await;
    let sql = "DO $$ BEGIN INSERT INTO state VALUES ('half'); COMMIT; PERFORM 1 / 0; END $$";
    for (name, db) in every_way(&place.url(), 1).await {
        let error = db
            .batch_atomic(&[Statement::new(sql)])
            .await
            .expect_err("it fails");
        assert_eq!(error.outcome(), Outcome::NotApplied, "{name}: {error}");
        assert_eq!(
            place.number("SELECT count(*) FROM state").await,
            0,
            "{name}"
        );
    }
    place.close().await;
}

/// A pool that only looks whether a connection is open hands out a failed
/// transaction again.
pub(crate) async fn no_connection_in_a_failed_transaction_is_handed_out() {
    let place = place().await;
    for (name, db) in every_way(&place.url(), 2).await {
        for number in 0..100 {
            let batch = [insert("a"), insert("a"), insert("b")];
            let error = db.batch_atomic(&batch).await.expect_err("a duplicate");
            assert_eq!(error.code(), Some("23505"), "{name}, {number}: {error}");
            db.query(&Statement::new("SELECT 1 AS one"))
                .await
                .expect("a query");
        }
        assert_eq!(place.number("SELECT count(*) FROM state").await, 0);
    }
    // And not one that somebody else left so.
    let db = tokio_at(&place.url(), 1).await;
    for number in 0..3 {
        let connection = db.pool().get().await.expect("a connection");
        connection.batch_execute("BEGIN").await.expect("begin");
        connection
            .batch_execute("SELECT 1 / 0")
            .await
            .expect_err("a failure");
        drop(connection);
        if number == 0 {
            db.execute(&insert("c")).await.expect("an insert");
        } else {
            let batch = [insert(&format!("d{number}")), insert(&format!("e{number}"))];
            db.batch_atomic(&batch).await.expect("a batch");
        }
    }
    assert_eq!(place.number("SELECT count(*) FROM state").await, 5);
    place.close().await;
}

/// Whoever repeats a batch of which the answer was lost must find out that it
/// was done, and nothing may be done twice.
pub(crate) async fn a_lost_answer_to_the_commit_is_unknown_and_not_tried_again() {
    let place = place().await;
    place.run("INSERT INTO state VALUES ('counter')").await;
    let outbox = Outbox::new("outbox");
    for way in 0..4 {
        let proxy = Proxy::new(Duration::ZERO).await;
        let (name, db) = every_way(&proxy.url(&place.url()), 1)
            .await
            .swap_remove(way);
        let batch = [
            Statement::new("UPDATE state SET n = n + 1 WHERE id = 'counter'").expect_rows(1),
            outbox.enqueue_statement(&format!("r-{way}"), "t", "", None, &at(0)),
            // At the commit: the answers before it arrive.
            Statement::new("SELECT set_config('duebox.slow', 'on', true)"),
        ];
        place
            .run(
                "CREATE OR REPLACE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql
                     AS $$ BEGIN PERFORM pg_sleep(1); RETURN NULL; END $$;
                 DROP TRIGGER IF EXISTS slowly ON outbox;
                 CREATE CONSTRAINT TRIGGER slowly AFTER INSERT ON outbox
                     DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slowly()",
            )
            .await;
        let lose = async {
            // In the commit, so all answers before its own have come.
            place.sleeping(1).await;
            proxy.mute(true);
            place.sleeping(0).await;
            // What the server says next is on its way, and gets no further.
            tokio::time::sleep(Duration::from_millis(100)).await;
            proxy.cut();
            proxy.mute(false);
        };
        let (answer, ()) = tokio::join!(db.batch_atomic(&batch), lose);
        let error = answer.expect_err("the answer is lost");
        assert_eq!(
            (error.kind(), error.outcome()),
            (Kind::Unavailable, Outcome::Unknown),
            "{name}: {error}"
        );
        let error = db.batch_atomic(&batch).await.expect_err("it was done");
        assert_eq!(
            (error.kind(), error.outcome()),
            (Kind::Conflict, Outcome::NotApplied),
            "{name}: {error}"
        );
        let count = place
            .number("SELECT n::bigint FROM state WHERE id = 'counter'")
            .await;
        assert_eq!(count, i64::try_from(way).unwrap() + 1, "{name}");
    }
    place.close().await;
}

/// The connection breaks before the commit goes out, so nothing was done.
pub(crate) async fn a_break_before_the_commit_is_known() {
    let place = place().await;
    let proxy = Proxy::new(Duration::ZERO).await;
    for (name, db) in every_way(&proxy.url(&place.url()), 1).await {
        let batch = [
            insert("a").expect_rows(1),
            Statement::new("SELECT pg_sleep(60)"),
        ];
        let break_it = async {
            place.sleeping(1).await;
            proxy.cut();
        };
        let (answer, ()) = tokio::join!(db.batch_atomic(&batch), break_it);
        // The server would sleep on.
        place.cut().await;
        let error = answer.expect_err("a broken connection");
        assert_eq!(
            (error.kind(), error.outcome()),
            (Kind::Unavailable, Outcome::NotApplied),
            "{name}: {error}"
        );
        assert!(error.is_retryable(), "{name}");
    }
    place.close().await;
}

/// Each of them needs one connection at a time.
pub(crate) async fn a_small_pool_serves_many() {
    let place = place().await;
    for (name, db) in every_way(&place.url(), 5).await {
        let tasks: Vec<_> = (0..200)
            .map(|number| {
                let db = Arc::clone(&db);
                tokio::spawn(async move {
                    let outbox = Outbox::new("outbox");
                    let id = format!("{number}");
                    let state = format!("{name}-{number}");
                    let batch = [
                        insert(&state),
                        outbox.enqueue_statement(&id, "t", "", None, &at(0)),
                    ];
                    db.batch_atomic(&batch).await.expect("a batch");
                    let records = outbox
                        .claim_due(&*db, &at(1), &at(2), 1)
                        .await
                        .expect("claim");
                    let leases: Vec<_> = records.into_iter().map(|record| record.lease).collect();
                    outbox
                        .complete_claimed(&*db, &leases)
                        .await
                        .expect("complete")
                })
            })
            .collect();
        let mut completed = 0;
        for task in tasks {
            completed += task.await.expect(name).len();
        }
        assert_eq!(
            completed as i64 + place.number("SELECT count(*) FROM outbox").await,
            200,
            "{name}"
        );
        place.run("DELETE FROM outbox").await;
    }
    place.close().await;
}

pub(crate) async fn a_full_pool_is_busy() {
    let place = place().await;
    let options = PostgresOptions::new(&place.url())
        .unwrap()
        .max_connections(1);
    let tokio = options
        .acquire_timeout(Duration::from_secs(3))
        .connect()
        .await
        .expect("connect");
    let pool = duebox_postgres::sqlx::postgres::PgPoolOptions::new()
        .max_connections(1)
        .acquire_timeout(Duration::from_secs(3));
    let sqlx = duebox_postgres::SqlxPostgresDatabase::from_pool(
        pool.connect(&place.url()).await.expect("connect"),
    );
    let held = (
        tokio.pool().get().await.expect("a connection"),
        sqlx.pool().acquire().await.expect("a connection"),
    );
    for db in [&tokio as &dyn Database, &sqlx] {
        let error = db.execute(&insert("a")).await.expect_err("all are in use");
        assert_eq!(
            (error.kind(), error.outcome()),
            (Kind::Busy, Outcome::NotApplied),
            "{error}"
        );
        assert!(error.is_retryable());
    }
    drop(held);
    tokio.execute(&insert("a")).await.expect("one is free");
    sqlx.execute(&insert("b")).await.expect("one is free");
    place.close().await;
}

/// Two batches that lock the same rows in opposite order.
pub(crate) async fn no_deadlock_reaches_the_caller() {
    let place = place().await;
    place.run("INSERT INTO state SELECT i::text FROM generate_series(1, 4) AS i; SET deadlock_timeout = '20ms'").await;
    let url = place.url_at(
        &crate::place::server().expect("a server"),
        "%20-c%20deadlock_timeout%3D20",
    );
    for (name, db) in [
        (
            "tokio-postgres",
            Arc::new(tokio_at(&url, 4).await) as Arc<dyn Database>,
        ),
        ("sqlx", Arc::new(sqlx_at(&url, 4))),
    ] {
        let before = place.number("SELECT sum(n) FROM state").await;
        let tasks: Vec<_> = (0..4)
            .map(|task| {
                let db = Arc::clone(&db);
                tokio::spawn(async move {
                    let mut order: Vec<_> = (1..=4).collect();
                    if task % 2 == 0 {
                        order.reverse();
                    }
                    let batch: Vec<_> = order
                        .iter()
                        .map(|id| {
                            Statement::new("UPDATE state SET n = n + 1 WHERE id = ?")
                                .bind(id.to_string())
                        })
                        .collect();
                    let mut surfaced = 0;
                    for _ in 0..25 {
                        insist(&mut surfaced, || db.batch_atomic(&batch)).await;
                    }
                    surfaced
                })
            })
            .collect();
        let mut surfaced = 0;
        for task in tasks {
            surfaced += task.await.expect(name);
        }
        assert!(surfaced < 5, "{name}: {surfaced} of 100");
        let after = place.number("SELECT sum(n) FROM state").await;
        assert_eq!(after - before, 4 * 4 * 25, "{name}");
    }
    place.close().await;
}

/// What `work` answers in the end. Reruns are bounded, and a slow machine can use
/// them all up; how often it did is added to `surfaced`.
async fn insist<T, F>(surfaced: &mut usize, work: impl Fn() -> F) -> T
where
    F: Future<Output = Result<T, DbError>>,
{
    loop {
        match work().await {
            Ok(answer) => return answer,
            Err(error) => {
                assert_eq!(error.kind(), Kind::Busy, "{error}");
                assert!(error.is_retryable(), "{error}");
                *surfaced += 1;
            }
        }
    }
}

/// With a stricter isolation as the default, claims meet and give way.
pub(crate) async fn stricter_isolation_works() {
    for isolation in ["serializable", "repeatable%5C%20read"] {
        let place = place().await;
        place.fill(400).await;
        let setting = format!("%20-c%20default_transaction_isolation%3D{isolation}");
        let url = place.url_at(&crate::place::server().expect("a server"), &setting);
        let db = Arc::new(tokio_at(&url, 8).await);
        let tasks: Vec<_> = (0..8)
            .map(|task| {
                let db = Arc::clone(&db);
                tokio::spawn(async move {
                    let outbox = Outbox::new("outbox");
                    let (mut done, mut surfaced) = (0, 0);
                    let (now, until) = (at(1), at(3));
                    loop {
                        let id = format!("new-{task}-{done}");
                        let more = [outbox.enqueue_statement(&id, "t", "", None, &at(4))];
                        insist(&mut surfaced, || db.batch_atomic(&more)).await;
                        let claim = || outbox.claim_due(&*db, &now, &until, 5);
                        let records = insist(&mut surfaced, claim).await;
                        if records.is_empty() {
                            return (done, surfaced);
                        }
                        let leases: Vec<_> =
                            records.into_iter().map(|record| record.lease).collect();
                        let complete = || outbox.complete_claimed(&*db, &leases);
                        let held = insist(&mut surfaced, complete).await;
                        done += held.iter().filter(|outcome| outcome.is_held()).count();
                    }
                })
            })
            .collect();
        let (mut done, mut surfaced) = (0, 0);
        for task in tasks {
            let (some, errors) = task.await.expect(isolation);
            (done, surfaced) = (done + some, surfaced + errors);
        }
        assert_eq!(done, 400, "{isolation}");
        assert!(surfaced < 5, "{isolation}: {surfaced} errors");
        place.close().await;
    }
}
