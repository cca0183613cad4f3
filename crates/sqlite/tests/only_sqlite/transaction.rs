//! Statements in a transaction of the caller's.

use super::support::{LATER, NOW, assert_refused, enqueue, sql};
use duebox_sqlite::rusqlite::Connection;
use duebox_sqlite::{Kind, Outbox, SqliteDatabase};

fn count(conn: &Connection) -> i64 {
    let rows = duebox_sqlite::query(conn, &sql("SELECT COUNT(*) AS n FROM outbox")).unwrap();
    rows[0].get("n").unwrap()
}

fn connection() -> Connection {
    let conn = Connection::open_in_memory().unwrap();
    conn.execute_batch(&Outbox::new("outbox").create_table_sql())
        .unwrap();
    conn
}

#[test]
fn the_callers_commit_decides() {
    let mut conn = connection();
    let transaction = conn.transaction().unwrap();
    assert_eq!(duebox_sqlite::execute(&transaction, &enqueue("x")), Ok(1));
    drop(transaction);
    assert_eq!(count(&conn), 0);
    let transaction = conn.transaction().unwrap();
    duebox_sqlite::execute(&transaction, &enqueue("x")).unwrap();
    transaction.commit().unwrap();
    assert_eq!(count(&conn), 1);
}

#[test]
fn a_missed_count_is_the_callers_to_roll_back_in_a_transaction_only() {
    let mut conn = connection();
    let missed = || enqueue("x").expect_rows(2);
    let transaction = conn.transaction().unwrap();
    let error = duebox_sqlite::execute(&transaction, &missed()).unwrap_err();
    assert_eq!(error.kind(), Kind::RowCount);
    assert_eq!(count(&transaction), 1);
    drop(transaction);
    assert_refused(duebox_sqlite::execute(&conn, &missed()), Kind::RowCount);
    assert_eq!(count(&conn), 0);
    assert!(conn.is_autocommit());
    assert_eq!(
        duebox_sqlite::execute(&conn, &enqueue("x").expect_rows(1)),
        Ok(1)
    );
    assert_eq!(count(&conn), 1);
}

#[test]
fn a_statement_that_fails_changes_nothing_and_leaves_the_transaction() {
    let mut conn = connection();
    let transaction = conn.transaction().unwrap();
    duebox_sqlite::execute(&transaction, &enqueue("x")).unwrap();
    let twice = duebox_sqlite::execute(&transaction, &enqueue("x"));
    assert_refused(twice, Kind::Conflict);
    duebox_sqlite::execute(&transaction, &enqueue("y")).unwrap();
    transaction.commit().unwrap();
    assert_eq!(count(&conn), 2);
}

#[tokio::test]
async fn a_handler_completes_in_the_transaction_of_its_effect() {
    let db = SqliteDatabase::open_in_memory().await.unwrap();
    db.migrate().await.unwrap();
    let outbox = Outbox::new("outbox");
    duebox_sqlite::Database::execute(&db, &enqueue("x"))
        .await
        .unwrap();
    let claimed = outbox.claim_due(&db, NOW, LATER, 1).await.unwrap();
    let complete = outbox.complete_statement(&claimed[0].lease);
    let twice = move |conn: &mut Connection| {
        let transaction = conn.transaction().unwrap();
        let first = duebox_sqlite::execute(&transaction, &complete);
        let second = duebox_sqlite::execute(&transaction, &complete);
        transaction.commit().unwrap();
        (first, second.unwrap_err().kind(), count(conn))
    };
    let answer = db.with_connection(twice).await.unwrap();
    assert_eq!(answer, (Ok(1), Kind::RowCount, 0));
}
