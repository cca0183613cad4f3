//! What an error says of the change, where its code alone would say too much.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use duebox_postgres::uuid::Uuid;
use duebox_postgres::{
    Database, DbError, Outcome, PendingReceiptStore, PostgresDatabase, SqlxPostgresDatabase,
    Statement,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::place::{Place, every_way, sqlx_pool, tokio_at, with_port};
use crate::proxy::address;

async fn place() -> Place {
    let place = Place::new().await;
    place.run("CREATE TABLE state (id text PRIMARY KEY)").await;
    place
}

fn insert(id: &str) -> Statement {
    Statement::new("INSERT INTO state (id) VALUES (?)").bind(id)
}

fn insert_read(id: &str) -> Statement {
    Statement::new("INSERT INTO state (id) VALUES (?) RETURNING id").bind(id)
}

/// A pooler whose server is gone: once it is armed it passes a `COMMIT` on, keeps the
/// answers to it and to what came with it, says something of its own instead, and
/// closes the connection.
async fn pooler(says: Vec<u8>) -> (u16, Arc<AtomicBool>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("a port").port();
    let armed = Arc::new(AtomicBool::new(false));
    let is_armed = Arc::clone(&armed);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(lend(client, says.clone(), Arc::clone(&is_armed)));
        }
    });
    (port, armed)
}

async fn lend(mut client: TcpStream, says: Vec<u8>, armed: Arc<AtomicBool>) {
    let mut server = TcpStream::connect(address()).await.expect("a server");
    let (mut asked, mut answered) = (vec![0; 65_536], vec![0; 65_536]);
    loop {
        tokio::select! {
            length = client.read(&mut asked) => {
                let Ok(length @ 1..) = length else { return };
                let _ = server.write_all(&asked[..length]).await;
                let commits = asked[..length].windows(6).any(|word| word == b"COMMIT");
                if commits && armed.swap(false, Ordering::SeqCst) {
                    let mut heard = Vec::new();
                    while !heard.windows(7).any(|word| word == b"COMMIT\0") {
                        let length = server.read(&mut answered).await.expect("an answer");
                        heard.extend_from_slice(&answered[..length]);
                    }
                    let _ = client.write_all(&says).await;
                    let _ = client.shutdown().await;
                    return;
                }
            }
            length = server.read(&mut answered) => {
                let Ok(length @ 1..) = length else { return };
                let _ = client.write_all(&answered[..length]).await;
            }
        }
    }
}

/// An error as the protocol has it; older poolers leave out `V`, which is the severity
/// in no language.
fn error_message(severity: &str, with_v: bool, code: &str) -> Vec<u8> {
    let v = if with_v {
        format!("V{severity}\0")
    } else {
        String::new()
    };
    let fields = format!("S{severity}\0{v}C{code}\0Mserver conn crashed?\0\0");
    let length = u32::try_from(fields.len() + 4).expect("short");
    [b"E", &length.to_be_bytes()[..], fields.as_bytes()].concat()
}

/// Whatever code it bears, it does not say whether the server committed.
pub(crate) async fn a_connection_that_ends_behind_the_commit_is_unknown() {
    let place = place().await;
    for (severity, with_v, code) in [
        ("FATAL", true, "08P01"),
        ("FATAL", false, "57P01"),
        ("FATAL", false, "53300"),
        ("PANIC", true, "40001"),
        // As PgBouncer once said it.
        ("ERROR", false, "08P01"),
    ] {
        let (port, armed) = pooler(error_message(severity, with_v, code)).await;
        for (name, db) in every_way(&with_port(&place.url(), port), 1).await {
            for batch in [
                [insert("a"), insert("b")],
                [insert("a").expect_rows(1), insert("b")],
            ] {
                db.now().await.expect("a connection");
                armed.store(true, Ordering::SeqCst);
                let error = db.batch_atomic(&batch).await.expect_err(code);
                assert_eq!(place.number("SELECT count(*) FROM state").await, 2);
                assert_eq!(
                    (error.code(), error.outcome()),
                    (Some(code), Outcome::Unknown),
                    "{name} {severity}: {error}"
                );
                place.run("DELETE FROM state").await;
            }
        }
    }
    place.close().await;
}

/// Outside a transaction a procedure and a `DO` block keep what they have committed,
/// whatever they raise then.
pub(crate) async fn what_may_commit_in_its_middle_is_run_once() {
    let place = place().await;
    let client = place.client().await;
    // Codes of a conflict, of a statement that was prepared before a migration, and of
    // a transaction that somebody left failed.
    for code in ["40P01", "40001", "26000", "42883", "25P02", "23505"] {
        let body = format!(
            "BEGIN INSERT INTO state VALUES (gen_random_uuid()); COMMIT; \
             RAISE 'no' USING ERRCODE = '{code}'; END"
        );
        place
            .run(&format!(
                "CREATE OR REPLACE PROCEDURE half() LANGUAGE plpgsql AS $${body}$$"
            ))
            .await;
        for sql in [
            "CALL half()".to_owned(),
            "-- SELECT\n/* WITH /* SELECT */ */ call half();".to_owned(),
            format!("DO $${body}$$"),
        ] {
            let statement = Statement::new(sql.clone());
            for (name, db) in every_way(&place.url(), 1).await {
                // This way every statement has a transaction of its prepared.
                let rows = i64::from(name != "sqlx, unprepared");
                let name = format!("{name} {code} {sql}");
                let answer = db.execute(&statement).await;
                told(&place, answer, rows, &name).await;
                let answer = db.query(&statement).await;
                told(&place, answer, rows, &name).await;
                let answer = db.batch_atomic(std::slice::from_ref(&statement)).await;
                told(&place, answer, 0, &name).await;
                db.now().await.expect("the connection is as good as before");
            }
            let answer = duebox_postgres::execute(&client, &statement).await;
            told(&place, answer, 1, "the caller's own client").await;
            let answer = duebox_postgres::query(&client, &statement).await;
            told(&place, answer, 1, "the caller's own client").await;
        }
    }
    place.close().await;
}

/// A failure that left so many rows, and says no more of them than is certain.
async fn told<T: std::fmt::Debug>(
    place: &Place,
    answer: Result<T, DbError>,
    rows: i64,
    name: &str,
) {
    let error = answer.expect_err(name);
    let found = place.number("SELECT count(*) FROM state").await;
    assert_eq!(found, rows, "{name}: {error}");
    let outcome = if rows == 0 {
        Outcome::NotApplied
    } else {
        Outcome::Unknown
    };
    assert_eq!(error.outcome(), outcome, "{name}: {error}");
    place.run("DELETE FROM state").await;
}

/// As after a `BEGIN` of the service's own that nothing ended.
pub(crate) async fn a_transaction_that_somebody_left_open_takes_nothing() {
    let place = place().await;
    let pool = tokio_at(&place.url(), 1).await.pool().clone();
    let prepared = PostgresDatabase::from_pool(pool);
    let unprepared = prepared.clone().with_prepared_statements(false);
    let leave = async |sql: &str| {
        let connection = prepared.pool().get().await.expect("a connection");
        // The last of them fails.
        let _ = connection.batch_execute(sql).await;
    };
    let committed = "SELECT count(*) FROM state";
    for (way, db) in [&prepared, &unprepared].into_iter().enumerate() {
        for left in ["BEGIN", "BEGIN; SELECT 1", "BEGIN; SELECT 1 / 0"] {
            place.run("DELETE FROM state").await;
            // Whether what is run is prepared on that connection.
            for is_kept in [true, false] {
                let name = |what: &str| format!("{what} {is_kept}");
                let leave = async || {
                    if is_kept {
                        for statement in [insert("kept"), insert_read("kept")] {
                            db.query(&statement).await.expect("an insert");
                            place.run("DELETE FROM state WHERE id = 'kept'").await;
                        }
                    }
                    leave(left).await;
                };
                leave().await;
                db.execute(&insert(&name("one"))).await.expect("an insert");
                leave().await;
                let block = format!(
                    "DO $$ BEGIN INSERT INTO state VALUES ('{}'); COMMIT; END $$",
                    name("block")
                );
                db.execute(&Statement::new(block)).await.expect("a block");
                leave().await;
                let batch = [insert(&name("a")), insert(&name("b"))];
                db.batch_atomic(&batch).await.expect("a batch");
                leave().await;
                let looked_at = [insert(&name("c")).expect_rows(1)];
                db.batch_atomic(&looked_at).await.expect("a batch");
                leave().await;
                let rows = db.query(&insert_read(&name("query"))).await;
                let rows = rows.expect("a query");
                assert_eq!(rows.len(), 1);
                assert_eq!(place.idle_in_transaction().await, 0, "{way} {left}");
            }
            assert_eq!(place.number(committed).await, 12, "{way} {left}");
        }
    }
    leave("BEGIN").await;
    prepared.migrate().await.expect("migrate");
    assert_eq!(place.number("SELECT count(*) FROM outbox").await, 0);
    leave("BEGIN").await;
    let receipts = prepared.receipts();
    receipts.erase_owner(Uuid::nil()).await.expect("erase");
    assert_eq!(place.idle_in_transaction().await, 0);
    place.close().await;
}

/// On a pool of sqlx, where nobody looks, the transactions of sqlx see to it.
pub(crate) async fn a_transaction_of_sqlx_that_was_dropped_takes_nothing() {
    let place = place().await;
    let pool = sqlx_pool(&place.url(), 1);
    let prepared = SqlxPostgresDatabase::from_pool(pool.clone());
    let unprepared = prepared.clone().with_prepared_statements(false);
    for (number, db) in [&prepared, &unprepared].into_iter().enumerate() {
        let transaction = pool.begin().await.expect("begin");
        drop(transaction);
        db.execute(&insert(&format!("a{number}")))
            .await
            .expect("an insert");
        let mut transaction = pool.begin().await.expect("begin");
        duebox_postgres::execute(&mut *transaction, &Statement::new("SELECT 1 / 0"))
            .await
            .expect_err("a failure");
        drop(transaction);
        db.execute(&insert(&format!("b{number}")))
            .await
            .expect("an insert");
    }
    assert_eq!(place.number("SELECT count(*) FROM state").await, 4);
    assert_eq!(place.idle_in_transaction().await, 0);
    place.close().await;
}

/// What fails before anything of it ran is certain for those too.
pub(crate) async fn what_cannot_run_at_all_is_not_applied() {
    let place = place().await;
    for (name, db) in every_way(&place.url(), 1).await {
        for sql in ["CALL nowhere()", "DOES nothing", "VACUUM state, nowhere"] {
            let error = db.execute(&Statement::new(sql)).await.expect_err(name);
            // It may have cleaned the first table.
            let open = sql.starts_with("VACUUM") && name != "sqlx, unprepared";
            let outcome = if open {
                Outcome::Unknown
            } else {
                Outcome::NotApplied
            };
            assert_eq!(error.outcome(), outcome, "{name}: {error}");
        }
    }
    place.close().await;
}
