//! Statements in a transaction of sqlx, in the file of this adapter.

use super::support::{Folder, LATER, NOW, assert_refused, enqueue, number, run, sql};
use duebox_sqlite::chrono::DateTime;
use duebox_sqlite::sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use duebox_sqlite::sqlx::{self, Connection, Sqlite, Transaction};
use duebox_sqlite::uuid::Uuid;
use duebox_sqlite::{
    Database, DeviceToken, Kind, LeaseOutcome, Outbox, PendingReceipt, PendingReceiptStore,
    PushTicketId, Retry, SqliteDatabase, Statement, Value, sqlx_erase_owner, sqlx_execute,
    sqlx_query,
};

const STATE: &str = "CREATE TABLE state (id TEXT PRIMARY KEY, n INTEGER)";
const ROWS: &str = "SELECT COUNT(*) AS n FROM outbox";
const STATES: &str = "SELECT COUNT(*) AS n FROM state";

async fn place() -> (Folder, SqliteDatabase, SqliteConnection) {
    let folder = Folder::new();
    let db = folder.open().await;
    db.migrate().await.unwrap();
    run(&db, STATE).await;
    let options = SqliteConnectOptions::new().filename(folder.file());
    let connection = SqliteConnection::connect_with(&options).await.unwrap();
    (folder, db, connection)
}

/// The service's own statement, by sqlx, and its work by this crate.
async fn state_and_work(transaction: &mut Transaction<'_, Sqlite>, id: &str) {
    sqlx::query("INSERT INTO state (id) VALUES (?)")
        .bind(id)
        .execute(&mut **transaction)
        .await
        .unwrap();
    assert_eq!(sqlx_execute(transaction, &enqueue(id)).await, Ok(1));
}

#[tokio::test]
async fn the_callers_commit_decides_on_state_and_work() {
    let (_folder, db, mut connection) = place().await;
    let mut transaction = connection.begin().await.unwrap();
    state_and_work(&mut transaction, "x").await;
    transaction.rollback().await.unwrap();
    let mut transaction = connection.begin().await.unwrap();
    state_and_work(&mut transaction, "x").await;
    drop(transaction);
    assert_eq!((number(&db, STATES).await, number(&db, ROWS).await), (0, 0));
    let mut transaction = connection.begin().await.unwrap();
    state_and_work(&mut transaction, "x").await;
    transaction.commit().await.unwrap();
    assert_eq!((number(&db, STATES).await, number(&db, ROWS).await), (1, 1));
}

#[tokio::test]
async fn a_missed_count_is_the_callers_to_roll_back_in_a_transaction_only() {
    let (_folder, db, mut connection) = place().await;
    let missed = || enqueue("x").expect_rows(2);

    let mut transaction = connection.begin().await.unwrap();
    let error = sqlx_execute(&mut transaction, &missed()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::RowCount);
    let seen = sqlx_query(&mut transaction, &sql(ROWS)).await.unwrap();
    assert_eq!(seen[0].get("n"), Ok(1));
    transaction.rollback().await.unwrap();

    // A transaction that sqlx does not know of.
    sqlx::raw_sql("BEGIN")
        .execute(&mut connection)
        .await
        .unwrap();
    let error = sqlx_execute(&mut connection, &missed()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::RowCount);
    let seen = sqlx_query(&mut connection, &sql(ROWS)).await.unwrap();
    assert_eq!(seen[0].get("n"), Ok(1));
    sqlx::raw_sql("ROLLBACK")
        .execute(&mut connection)
        .await
        .unwrap();

    assert_refused(
        sqlx_execute(&mut connection, &missed()).await,
        Kind::RowCount,
    );
    assert!(!connection.is_in_transaction());
    assert_eq!(number(&db, ROWS).await, 0);

    // One that was dropped has not ended yet.
    for _ in 0..100 {
        drop(connection.begin().await.unwrap());
        let answer = sqlx_execute(&mut connection, &missed()).await;
        assert_refused(answer, Kind::RowCount);
    }
    assert_eq!(number(&db, ROWS).await, 0);
    let met = enqueue("x").expect_rows(1);
    assert_eq!(sqlx_execute(&mut connection, &met).await, Ok(1));
    assert_eq!(number(&db, ROWS).await, 1);
}

#[tokio::test]
async fn a_dropped_call_is_done_or_not_done_and_leaves_no_transaction_open() {
    let (_folder, db, mut connection) = place().await;
    let mut dropped = 0;
    for turns in 0..200 {
        let statement = enqueue(&format!("a{turns}")).expect_rows(1);
        tokio::select! {
            biased;
            done = sqlx_execute(&mut connection, &statement) => assert_eq!(done, Ok(1)),
            () = async { for _ in 0..turns % 20 { tokio::task::yield_now().await } } => dropped += 1,
        }
        // The file is free for others, and the connection for its own next statement.
        db.execute(&enqueue(&format!("b{turns}"))).await.unwrap();
        let next = enqueue(&format!("c{turns}")).expect_rows(1);
        assert_eq!(sqlx_execute(&mut connection, &next).await, Ok(1));
        assert!(!connection.is_in_transaction());
    }
    assert!(dropped > 0);
    let others = "SELECT COUNT(*) AS n FROM outbox WHERE id NOT LIKE 'a%'";
    assert_eq!(number(&db, others).await, 400);
}

#[tokio::test]
async fn a_statement_that_fails_changes_nothing_and_leaves_the_transaction() {
    let (_folder, db, mut connection) = place().await;
    let mut transaction = connection.begin().await.unwrap();
    sqlx_execute(&mut transaction, &enqueue("x")).await.unwrap();
    let twice = assert_refused(
        sqlx_execute(&mut transaction, &enqueue("x")).await,
        Kind::Conflict,
    );
    assert_eq!(twice.constraint(), Some("outbox.id"));
    sqlx_execute(&mut transaction, &enqueue("y")).await.unwrap();
    transaction.commit().await.unwrap();
    assert_eq!(number(&db, ROWS).await, 2);
}

#[tokio::test]
async fn a_handler_completes_and_retries_in_the_transaction_of_its_effect() {
    let (_folder, db, mut connection) = place().await;
    let outbox = Outbox::new("outbox");
    for id in ["done", "later"] {
        db.execute(&enqueue(id)).await.unwrap();
    }
    let claimed = outbox.claim_due(&db, NOW, LATER, 2).await.unwrap();
    let (done, later) = (&claimed[0].lease, &claimed[1].lease);
    let mut transaction = connection.begin().await.unwrap();
    for statement in [
        outbox.complete_statement(done),
        outbox.retry_statement(
            NOW,
            Retry {
                lease: later,
                next_attempt_at: LATER,
                error: "busy",
            },
        ),
    ] {
        assert_eq!(sqlx_execute(&mut transaction, &statement).await, Ok(1));
        let again = sqlx_execute(&mut transaction, &statement).await;
        assert_eq!(again.unwrap_err().kind(), Kind::RowCount);
    }
    transaction.commit().await.unwrap();
    assert_eq!(number(&db, "SELECT attempts AS n FROM outbox").await, 1);
    let late = outbox
        .complete_claimed(&db, std::slice::from_ref(done))
        .await;
    assert_eq!(late, Ok(vec![LeaseOutcome::Lost]));
}

#[tokio::test]
async fn an_account_goes_with_its_work_and_its_tickets() {
    let (_folder, db, mut connection) = place().await;
    let outbox = Outbox::new("outbox");
    let owner = Uuid::from_u128(7);
    let ticket = |ticket: &str, owner_id| PendingReceipt {
        ticket: PushTicketId::new(ticket).unwrap(),
        owner_id,
        token: DeviceToken::new("token").unwrap(),
        sent_at: DateTime::UNIX_EPOCH,
    };
    let tickets = vec![ticket("a", owner), ticket("b", Uuid::from_u128(8))];
    let due_at = DateTime::UNIX_EPOCH;
    db.receipts().record(tickets, due_at).await.unwrap();
    let about = outbox.enqueue_statement("x", "mail", "{}", Some("s"), NOW);
    db.execute(&about).await.unwrap();

    let mut transaction = connection.begin().await.unwrap();
    let erasure = outbox.erase_subject_statement("s");
    assert_eq!(sqlx_execute(&mut transaction, &erasure).await, Ok(1));
    assert_eq!(sqlx_erase_owner(&mut transaction, owner).await, Ok(1));
    transaction.commit().await.unwrap();
    assert_eq!(number(&db, ROWS).await, 0);
    let left = "SELECT COUNT(*) AS n FROM pending_receipts";
    assert_eq!(number(&db, left).await, 1);
}

#[tokio::test]
async fn values_come_back_as_they_were_bound() {
    let (_folder, _db, mut connection) = place().await;
    let bound: [Value; 9] = [
        Value::Null,
        i64::MIN.into(),
        0.5.into(),
        (-0.5).into(),
        f64::INFINITY.into(),
        "naïve ? 'x'".into(),
        "".into(),
        vec![0_u8, 0xFF].into(),
        Value::Bytes(Vec::new()),
    ];
    for value in bound {
        let select = Statement::new("SELECT ? AS v, '?' AS literal").bind(value.clone());
        let rows = sqlx_query(&mut connection, &select).await.unwrap();
        assert_eq!(rows[0].value("v"), Ok(&value));
        assert_eq!(rows[0].get("literal"), Ok("?".to_owned()));
    }
    // By what the value is, not by what its column or its text says.
    let select = sql("SELECT CAST(x'66ff' AS TEXT) AS v, n FROM (SELECT 1) LEFT JOIN state");
    let rows = sqlx_query(&mut connection, &select).await.unwrap();
    assert_eq!(rows[0].value("v"), Ok(&Value::Bytes(vec![0x66, 0xFF])));
    assert_eq!(rows[0].value("n"), Ok(&Value::Null));
    let truth = Statement::new("SELECT ? AS v").bind(true);
    let rows = sqlx_query(&mut connection, &truth).await.unwrap();
    assert_eq!(rows[0].value("v"), Ok(&Value::Integer(1)));
}

#[tokio::test]
async fn a_count_is_of_rows_that_changed() {
    let (_folder, _db, mut connection) = place().await;
    for (text, count) in [
        ("INSERT INTO state (id) VALUES ('a'), ('b'), ('c')", 3),
        ("SELECT id FROM state", 0),
        ("CREATE TABLE other (id)", 0),
        ("/* its own */ UPDATE state SET n = 1", 3),
        ("/* its own */ CREATE TABLE another (id)", 0),
        (
            "WITH some AS (SELECT 'a' AS id) DELETE FROM state WHERE id IN some",
            1,
        ),
        ("DELETE FROM state WHERE id = 'a'", 0),
        ("UPDATE state SET n = 2 RETURNING n", 0),
        ("REPLACE INTO state (id) VALUES ('b')", 1),
    ] {
        assert_eq!(
            sqlx_execute(&mut connection, &sql(text)).await,
            Ok(count),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_bad_argument_is_refused_before_any_sql() {
    // No database, so whatever reaches SQLite is an error of another kind.
    let folder = Folder::new();
    std::fs::write(folder.file(), [b'x'; 4096]).unwrap();
    let options = SqliteConnectOptions::new().filename(folder.file());
    let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
    let outbox = Outbox::new("outbox");
    for (statement, kind) in [
        (
            outbox.enqueue_statement("", "t", "", None, NOW),
            Kind::InvalidArgument,
        ),
        (
            outbox.enqueue_statement("x", "t", "", None, "soon"),
            Kind::InvalidArgument,
        ),
        (Statement::new("SELECT ? FROM a"), Kind::InvalidArgument),
        (
            Statement::new("SELECT ? FROM a").bind(f64::NAN),
            Kind::InvalidArgument,
        ),
        (Statement::new("COMMIT"), Kind::Unsupported),
    ] {
        assert_refused(sqlx_execute(&mut connection, &statement).await, kind);
        assert_refused(sqlx_query(&mut connection, &statement).await, kind);
    }
    let sent = sqlx_execute(&mut connection, &enqueue("x")).await;
    assert_eq!(sent.unwrap_err().kind(), Kind::Corrupt);
}

#[tokio::test]
async fn placeholders_that_would_stay_null_are_refused() {
    let (_folder, _db, mut connection) = place().await;
    for text in [
        "SELECT :name AS n",
        "SELECT @name AS n",
        "SELECT $name AS n",
        "SELECT $1 AS n",
    ] {
        let answer = sqlx_query(&mut connection, &Statement::new(text)).await;
        assert_refused(answer, Kind::InvalidArgument);
    }
}

#[tokio::test]
async fn no_error_repeats_a_value() {
    let (_folder, db, mut connection) = place().await;
    run(
        &db,
        "CREATE TABLE a (id INTEGER PRIMARY KEY, email TEXT NOT NULL UNIQUE) STRICT;
         CREATE TRIGGER refused BEFORE DELETE ON a
         BEGIN
             SELECT RAISE(ABORT, 'no ada@example.com');
         END;
         INSERT INTO a VALUES (1, 'ada@example.com')",
    )
    .await;
    let insert = |id: Value| {
        let statement = Statement::new("INSERT INTO a VALUES (?, ?)");
        statement.bind(id).bind("ada@example.com")
    };
    for (statement, kind, constraint) in [
        (insert(2.into()), Kind::Conflict, Some("a.email")),
        (insert("ada".into()), Kind::InvalidArgument, None),
        (sql("DELETE FROM a"), Kind::Constraint, None),
        (
            sql("SELECT \"ada@example.com\".n FROM a"),
            Kind::Schema,
            None,
        ),
        (sql("SELEC ada FROM a"), Kind::InvalidArgument, None),
    ] {
        for answer in [
            sqlx_execute(&mut connection, &statement).await.map(drop),
            sqlx_query(&mut connection, &statement).await.map(drop),
        ] {
            let error = assert_refused(answer, kind);
            assert_eq!(error.constraint(), constraint, "{error}");
            assert!(error.code().is_some(), "{error}");
            assert!(!format!("{error} {error:?}").contains("ada"), "{error}");
        }
    }
}
