//! What one call of a shared transaction does must not reach another.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::support::{Folder, assert_refused, batch, number, run, sql, together};
use duebox_sqlite::{Database, DbError, Kind, SqliteDatabase, Statement};

async fn counting(folder: &Folder) -> SqliteDatabase {
    let db = folder.open().await;
    run(
        &db,
        "CREATE TABLE a (n INTEGER NOT NULL);
         INSERT INTO a VALUES (0);
         CREATE TABLE parent (id INTEGER PRIMARY KEY);",
    )
    .await;
    db
}

fn more() -> Statement {
    sql("UPDATE a SET n = n + 1")
}

/// Each of the calls counts one up, and then does its own.
async fn each(db: &SqliteDatabase, statements: Vec<Statement>) -> Vec<Result<Vec<u64>, DbError>> {
    let calls = statements
        .into_iter()
        .map(|statement| batch(db, vec![more(), statement]));
    together(db, calls.collect()).await
}

async fn assert_once(db: &SqliteDatabase, answers: &[Result<Vec<u64>, DbError>]) {
    let good = answers.iter().filter(|answer| answer.is_ok()).count();
    assert_eq!(
        number(db, "SELECT n FROM a").await,
        i64::try_from(good).unwrap(),
        "each call that succeeded was done once, and no other"
    );
}

#[tokio::test]
async fn a_broken_deferred_key_fails_its_own_batch_alone() {
    let folder = Folder::new();
    let db = counting(&folder).await;
    run(
        &db,
        "CREATE TABLE child (
             parent INTEGER REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED
         )",
    )
    .await;
    let answers = each(
        &db,
        vec![
            sql("INSERT INTO parent VALUES (1)"),
            // Broken, although the next one brings the parent.
            sql("INSERT INTO child VALUES (2)"),
            sql("INSERT INTO parent VALUES (2)"),
            sql("INSERT INTO child VALUES (3)"),
            sql("INSERT INTO child VALUES (1)"),
        ],
    )
    .await;
    for (place, answer) in answers.iter().enumerate() {
        if place == 1 || place == 3 {
            assert_refused(answer.clone(), Kind::Constraint);
        } else {
            assert_eq!(answer, &Ok(vec![1, 1]));
        }
    }
    assert_once(&db, &answers).await;
    assert_eq!(number(&db, "SELECT COUNT(*) AS n FROM child").await, 1);
    assert_eq!(number(&db, "SELECT COUNT(*) AS n FROM parent").await, 2);
}

#[tokio::test]
async fn a_deferred_key_made_meanwhile_is_noticed() {
    let folder = Folder::new();
    let db = counting(&folder).await;
    let fine = each(
        &db,
        vec![
            sql("INSERT INTO parent VALUES (7)"),
            sql("INSERT INTO parent VALUES (8)"),
        ],
    )
    .await;
    assert!(fine.iter().all(Result::is_ok));
    run(&db, "UPDATE a SET n = 0").await;
    // Another process changes the schema.
    folder
        .raw()
        .execute_batch(
            "CREATE TABLE child (parent REFERENCES parent DEFERRABLE INITIALLY DEFERRED)",
        )
        .unwrap();
    let answers = each(
        &db,
        vec![
            more(),
            sql("INSERT INTO child VALUES (1)"),
            sql("INSERT INTO parent VALUES (1)"),
        ],
    )
    .await;
    assert_refused(answers[1].clone(), Kind::Constraint);
    assert_eq!(number(&db, "SELECT COUNT(*) AS n FROM child").await, 0);
}

#[tokio::test]
async fn keys_that_a_connection_defers_are_not_deferred_in_a_batch() {
    let folder = Folder::new();
    let db = counting(&folder).await;
    run(
        &db,
        "CREATE TABLE child (parent INTEGER REFERENCES parent (id));
         PRAGMA defer_foreign_keys = ON",
    )
    .await;
    let answers = each(
        &db,
        vec![
            more(),
            sql("INSERT INTO child VALUES (1)"),
            sql("INSERT INTO parent VALUES (1)"),
        ],
    )
    .await;
    let error = assert_refused(answers[1].clone(), Kind::Constraint);
    assert_eq!(error.statement(), Some(1), "at its statement: {error}");
    assert!(answers[0].is_ok() && answers[2].is_ok());
}

#[tokio::test]
async fn or_rollback_undoes_its_own_batch_alone() {
    let folder = Folder::new();
    let db = counting(&folder).await;
    let answers = each(
        &db,
        vec![
            sql("INSERT INTO parent VALUES (1)"),
            sql("INSERT INTO parent VALUES (2)"),
            sql("INSERT OR ROLLBACK INTO parent VALUES (1)"),
            sql("INSERT INTO parent VALUES (3)"),
            sql("INSERT OR ROLLBACK INTO parent VALUES (3)"),
        ],
    )
    .await;
    for (place, answer) in answers.iter().enumerate() {
        if place == 2 || place == 4 {
            assert_refused(answer.clone(), Kind::Conflict);
        } else {
            assert_eq!(answer, &Ok(vec![1, 1]));
        }
    }
    assert_once(&db, &answers).await;
    assert_eq!(number(&db, "SELECT COUNT(*) AS n FROM parent").await, 3);
}

#[tokio::test]
async fn a_trigger_that_rolls_back_undoes_its_own_batch_alone() {
    let folder = Folder::new();
    let db = counting(&folder).await;
    run(
        &db,
        "CREATE TRIGGER no_seven BEFORE INSERT ON parent WHEN NEW.id = 7
         BEGIN SELECT RAISE(ROLLBACK, 'not ada@example.com'); END",
    )
    .await;
    for place in 0..3 {
        run(&db, "UPDATE a SET n = 0; DELETE FROM parent").await;
        let mut statements = vec![
            sql("INSERT INTO parent VALUES (1)"),
            sql("INSERT INTO parent VALUES (2)"),
        ];
        statements.insert(place, sql("INSERT INTO parent VALUES (7)"));
        let answers = each(&db, statements).await;
        let error = assert_refused(answers[place].clone(), Kind::Constraint);
        assert!(!error.to_string().contains("ada"), "{error}");
        assert_once(&db, &answers).await;
        assert_eq!(number(&db, "SELECT COUNT(*) AS n FROM parent").await, 2);
    }
}

#[tokio::test]
async fn a_shared_commit_that_is_refused_is_tried_by_each_alone() {
    for refused in [1, 2, usize::MAX] {
        let folder = Folder::new();
        let db = counting(&folder).await;
        let commits = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&commits);
        let hook = move || count.fetch_add(1, Ordering::Relaxed) < refused;
        db.with_connection(move |conn| conn.commit_hook(Some(hook)))
            .await
            .unwrap()
            .unwrap();
        let answers = each(&db, vec![more(), more(), more()]).await;
        db.with_connection(|conn| conn.commit_hook(None::<fn() -> bool>))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(commits.load(Ordering::Relaxed), 4, "one, and three alone");
        // The first refusal was of all; what is left of them meets the first alone.
        let failed = refused.saturating_sub(1).min(3);
        for (place, answer) in answers.iter().enumerate() {
            if place < failed {
                assert_refused(answer.clone(), Kind::Constraint);
            } else {
                assert_eq!(answer, &Ok(vec![1, 1]));
            }
        }
        assert_eq!(
            number(&db, "SELECT n FROM a").await,
            i64::try_from(2 * (3 - failed)).unwrap()
        );
    }
}

/// One statement each, so that nothing else asks for a savepoint.
async fn alone(db: &SqliteDatabase, statements: Vec<Statement>) -> Vec<Result<u64, DbError>> {
    let calls = statements.into_iter().map(|statement| {
        let db = db.clone();
        async move { db.execute(&statement).await }
    });
    together(db, calls.collect()).await
}

#[tokio::test]
async fn a_statement_that_fails_in_the_middle_leaves_no_part() {
    let both = "INSERT INTO b VALUES (1), (2), (3), (1)";
    for (table, statement) in [
        ("CREATE TABLE b (id INTEGER PRIMARY KEY)", both),
        (
            "CREATE TABLE b (id INTEGER PRIMARY KEY)",
            "INSERT or\tfail INTO b VALUES (1), (2), (3), (1)",
        ),
        (
            "CREATE TABLE b (id INTEGER UNIQUE ON CONFLICT FAIL, failed_at TEXT)",
            "INSERT INTO b (id) VALUES (1), (2), (3), (1)",
        ),
        (
            "CREATE TABLE b (id INTEGER); CREATE TRIGGER c BEFORE INSERT ON b WHEN NEW.id = 3
             BEGIN SELECT RAISE(FAIL, 'no'); END",
            both,
        ),
        (
            "CREATE TABLE b (id INTEGER); CREATE TEMP TRIGGER c BEFORE INSERT ON b WHEN NEW.id = 3
             BEGIN SELECT RAISE(FAIL, 'no'); END",
            both,
        ),
        (
            "CREATE TABLE b (id INTEGER)",
            "INSERT INTO b SELECT abs(column1) FROM (VALUES (1), (2), (-9223372036854775808))",
        ),
        (
            "CREATE TABLE b (id INTEGER) STRICT",
            "INSERT INTO b VALUES (1), ('x')",
        ),
        (
            "CREATE TABLE b (id INTEGER)",
            "INSERT INTO b SELECT sum(column2)
             FROM (VALUES (1, 1), (2, 9223372036854775807), (2, 1)) GROUP BY column1",
        ),
        (
            "CREATE TABLE b (id INTEGER)",
            "INSERT INTO b SELECT l.value
             FROM (VALUES ('[1]'), ('bad')) AS given, json_each(given.column1) AS l",
        ),
    ] {
        for place in 0..3 {
            let folder = Folder::new();
            let db = counting(&folder).await;
            run(&db, table).await;
            let mut statements = vec![more(), more()];
            statements.insert(place, sql(statement));
            let answers = alone(&db, statements).await;
            for (at, answer) in answers.into_iter().enumerate() {
                assert_eq!(answer.is_ok(), at != place, "{statement}");
            }
            let left = number(&db, "SELECT COUNT(*) AS n FROM b").await;
            assert_eq!(left, 0, "{table}; {statement}");
            assert_eq!(number(&db, "SELECT n FROM a").await, 2);
        }
    }
}

#[tokio::test]
async fn a_missed_count_of_one_statement_is_undone_among_others() {
    let folder = Folder::new();
    let db = counting(&folder).await;
    let answers = alone(&db, vec![more(), more().expect_rows(2), more()]).await;
    assert_eq!((&answers[0], &answers[2]), (&Ok(1), &Ok(1)));
    assert_refused(answers[1].clone(), Kind::RowCount);
    assert_eq!(number(&db, "SELECT n FROM a").await, 2);
}
