//! A full disk, played by a limit on the file.

use super::support::{Folder, NOW, assert_refused, number, run, sql};
use duebox_sqlite::{Database, Kind, Outbox, SqliteDatabase, Statement};

async fn nearly_full(folder: &Folder) -> SqliteDatabase {
    let db = folder.open().await;
    db.migrate().await.unwrap();
    run(
        &db,
        "CREATE TABLE account (id TEXT PRIMARY KEY) STRICT; PRAGMA max_page_count = 80",
    )
    .await;
    db
}

fn sign_up(id: &str) -> [Statement; 2] {
    let payload = "x".repeat(3_000);
    [
        Statement::new("INSERT INTO account VALUES (?)").bind(id),
        Outbox::new("outbox").enqueue_statement(id, "mail", &payload, Some(id), NOW),
    ]
}

async fn assert_both_or_neither(db: &SqliteDatabase, kept: usize) {
    let kept = i64::try_from(kept).unwrap();
    assert_eq!(number(db, "SELECT COUNT(*) AS n FROM account").await, kept);
    assert_eq!(number(db, "SELECT COUNT(*) AS n FROM outbox").await, kept);
    let halves = "SELECT COUNT(*) AS n FROM account WHERE id NOT IN (SELECT id FROM outbox)";
    assert_eq!(number(db, halves).await, 0);
    let open = db.with_connection(|conn| !conn.is_autocommit()).await;
    assert_eq!(open, Ok(false), "a transaction is open");
}

#[tokio::test]
async fn a_batch_that_does_not_fit_leaves_nothing() {
    let folder = Folder::new();
    let db = nearly_full(&folder).await;
    let mut kept = 0;
    let error = loop {
        match db.batch_atomic(&sign_up(&format!("a-{kept}"))).await {
            Ok(counts) => assert_eq!(counts, [1, 1]),
            error => break assert_refused(error, Kind::Other),
        }
        kept += 1;
    };
    assert_eq!(error.code(), Some("SQLITE_FULL"));
    assert!(kept > 10 && !error.is_retryable());
    assert_both_or_neither(&db, kept).await;

    db.execute(&sql("DELETE FROM outbox WHERE id = 'a-0'"))
        .await
        .unwrap();
    db.execute(&sql("DELETE FROM account WHERE id = 'a-0'"))
        .await
        .unwrap();
    db.batch_atomic(&sign_up("b")).await.unwrap();
    assert_both_or_neither(&db, kept).await;
}

#[tokio::test]
async fn of_many_at_once_those_that_fit_are_kept() {
    let folder = Folder::new();
    let db = nearly_full(&folder).await;
    let calls = (0..80).map(|number| {
        let db = db.clone();
        async move { db.batch_atomic(&sign_up(&format!("a-{number}"))).await }
    });
    let answers = super::support::together(&db, calls.collect()).await;
    let kept = answers.iter().filter(|answer| answer.is_ok()).count();
    assert!((10..80).contains(&kept), "{kept}");
    for answer in answers.into_iter().filter(Result::is_err) {
        assert_refused(answer, Kind::Other);
    }
    assert_both_or_neither(&db, kept).await;
    run(&db, "PRAGMA max_page_count = 1000").await;
    db.batch_atomic(&sign_up("b")).await.unwrap();
    assert_both_or_neither(&db, kept + 1).await;
}
