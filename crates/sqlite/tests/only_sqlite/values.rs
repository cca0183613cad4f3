//! Values of SQLite's, and what an error says of them.

use super::support::{LATER, NOW, assert_refused, enqueue, number, run, sql};
use duebox_sqlite::{Database, Kind, Outbox, SqliteDatabase, Statement, Value};

#[tokio::test]
async fn text_that_is_no_text_comes_as_bytes_and_hides_no_other_row() {
    let db = SqliteDatabase::open_in_memory().await.unwrap();
    db.migrate().await.unwrap();
    for id in ["a", "b", "c"] {
        db.execute(&enqueue(id)).await.unwrap();
    }
    run(
        &db,
        "UPDATE outbox SET payload = CAST(x'66ff' AS TEXT) WHERE id = 'b'",
    )
    .await;
    let rows = db
        .query(&sql("SELECT payload FROM outbox ORDER BY id"))
        .await
        .unwrap();
    assert_eq!(
        rows[1].value("payload"),
        Ok(&Value::Bytes(vec![0x66, 0xFF]))
    );
    let outbox = Outbox::new("outbox");
    let claimed = outbox.claim_due(&db, NOW, LATER, 9).await.unwrap();
    let ids: Vec<_> = claimed.iter().map(|record| &*record.id).collect();
    assert_eq!(ids, ["a", "c"]);
    assert_eq!(number(&db, "SELECT COUNT(*) AS n FROM outbox").await, 3);
}

#[tokio::test]
async fn a_number_that_sqlite_would_lose_is_refused() {
    let db = SqliteDatabase::open_in_memory().await.unwrap();
    let select = |number: f64| Statement::new("SELECT ? AS n").bind(number);
    assert_refused(db.query(&select(f64::NAN)).await, Kind::InvalidArgument);
    for number in [f64::INFINITY, f64::MIN_POSITIVE, -0.5] {
        let rows = db.query(&select(number)).await.unwrap();
        assert_eq!(rows[0].get::<f64>("n"), Ok(number));
    }
}

#[tokio::test]
async fn placeholders_that_would_stay_null_are_refused() {
    let db = SqliteDatabase::open_in_memory().await.unwrap();
    for text in [
        "SELECT :name AS n",
        "SELECT @name AS n",
        "SELECT $name AS n",
    ] {
        assert_refused(db.query(&Statement::new(text)).await, Kind::InvalidArgument);
    }
}

#[tokio::test]
async fn no_error_repeats_a_value() {
    const MARK: &str = "ada@example.com";
    let db = SqliteDatabase::open_in_memory().await.unwrap();
    run(
        &db,
        "CREATE TABLE a (
             id INTEGER PRIMARY KEY,
             email TEXT NOT NULL UNIQUE CHECK (email <> 'x' || substr(email, 2)),
             n INTEGER
         ) STRICT;
         CREATE TRIGGER refused BEFORE UPDATE ON a
         BEGIN
             SELECT RAISE(ABORT, 'no ada@example.com');
         END;
         INSERT INTO a VALUES (1, 'ada@example.com', 1)",
    )
    .await;
    let insert = |id: Value, email: Value, n: Value| {
        Statement::new("INSERT INTO a VALUES (?, ?, ?)")
            .bind(id)
            .bind(email)
            .bind(n)
    };
    let cases = [
        (
            insert(2.into(), MARK.into(), 1.into()),
            Kind::Conflict,
            Some("a.email"),
        ),
        (
            insert(1.into(), "b".into(), 1.into()),
            Kind::Conflict,
            Some("a.id"),
        ),
        (
            insert(2.into(), Value::Null, 1.into()),
            Kind::Constraint,
            Some("a.email"),
        ),
        (
            insert(2.into(), "xada@example.com".into(), 1.into()),
            Kind::Constraint,
            None,
        ),
        (
            insert(2.into(), "b".into(), MARK.into()),
            Kind::Constraint,
            None,
        ),
        (
            insert(MARK.into(), "b".into(), 1.into()),
            Kind::InvalidArgument,
            None,
        ),
        (Statement::new("UPDATE a SET n = 2"), Kind::Constraint, None),
        (
            Statement::new("SELECT json(?) AS n").bind(MARK),
            Kind::Other,
            None,
        ),
        (
            Statement::new("SELECT \"ada@example.com\".n FROM a"),
            Kind::Schema,
            None,
        ),
        (Statement::new("SELECT n FROM nowhere"), Kind::Schema, None),
        (
            Statement::new("SELEC n FROM a"),
            Kind::InvalidArgument,
            None,
        ),
    ];
    for (statement, kind, constraint) in cases {
        for error in [
            assert_refused(db.execute(&statement).await, kind),
            assert_refused(db.query(&statement).await, kind),
            assert_refused(
                db.batch_atomic(std::slice::from_ref(&statement)).await,
                kind,
            ),
        ] {
            assert!(
                !format!("{error} {error:?} {error:#?}").contains("ada"),
                "{error}"
            );
            assert_eq!(error.constraint(), constraint, "{error}");
            assert!(error.code().is_some(), "{error}");
        }
    }
}

#[tokio::test]
async fn an_id_of_any_character_that_ids_have_is_claimed_and_completed() {
    let db = SqliteDatabase::open_in_memory().await.unwrap();
    db.migrate().await.unwrap();
    let mut ids: Vec<String> = (0x21..=0x7E_u8)
        .map(|byte| format!("{}x", char::from(byte)))
        .collect();
    ids.extend(
        [
            "\\u0041", "\"", "\\", "\\\"", "1", "01", "1.0", "null", "a.b", "$", "[0]",
        ]
        .map(Into::into),
    );
    for id in &ids {
        db.execute(&enqueue(id)).await.unwrap();
    }
    let outbox = Outbox::new("outbox");
    let claimed = outbox.claim_due(&db, NOW, LATER, u64::MAX).await.unwrap();
    assert_eq!(claimed.len(), ids.len());
    for record in claimed {
        let outcomes = outbox.complete_claimed(&db, &[record.lease]).await.unwrap();
        assert_eq!(
            outcomes,
            [duebox_sqlite::LeaseOutcome::Held],
            "{}",
            record.id
        );
    }
    assert_eq!(number(&db, "SELECT COUNT(*) AS n FROM outbox").await, 0);
}
