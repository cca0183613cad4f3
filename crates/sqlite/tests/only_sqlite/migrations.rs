//! Tables that are there already, in whatever form.

use super::support::{Folder, assert_refused, number, run};
use duebox_sqlite::{Database, Kind, Outbox, SqliteDatabase, Statement};

#[tokio::test]
async fn migrations_are_noted_and_applied_once() {
    let db = SqliteDatabase::open_in_memory().await.unwrap();
    for _ in 0..2 {
        db.migrate().await.unwrap();
        db.migrate_outbox(&Outbox::new("mail")).await.unwrap();
    }
    let applied = "SELECT COUNT(*) AS n FROM duebox_migrations WHERE length(applied_at) = 27";
    assert_eq!(number(&db, applied).await, 3);
    for table in ["outbox", "mail"] {
        let due = Statement::new("SELECT COUNT(*) AS n FROM sqlite_schema WHERE name = ?");
        let rows = db.query(&due.bind(format!("{table}_due"))).await.unwrap();
        assert_eq!(rows[0].get::<i64>("n"), Ok(1));
    }
}

#[tokio::test]
async fn many_handles_may_migrate_one_new_file_at_once() {
    for _ in 0..5 {
        // Of its own, since handles close after they were dropped.
        let folder = Folder::new();
        let calls = (0..16).map(|_| {
            let options = folder.options();
            tokio::spawn(async move { options.open().await?.migrate().await })
        });
        for call in calls.collect::<Vec<_>>() {
            call.await.unwrap().unwrap();
        }
        let db = folder.open().await;
        assert_eq!(
            number(&db, "SELECT COUNT(*) AS n FROM duebox_migrations").await,
            2
        );
    }
}

#[tokio::test]
async fn a_table_that_another_tool_made_is_recognised() {
    let db = SqliteDatabase::open_in_memory().await.unwrap();
    let outbox = Outbox::new("mail");
    db.execute(&Statement::new(outbox.create_table_sql()))
        .await
        .unwrap();
    let tables = "SELECT COUNT(*) AS n FROM sqlite_schema";
    let before = number(&db, tables).await;
    db.migrate_outbox(&outbox).await.unwrap();
    // The table of the bookkeeping and its key's index, and no second pair of indexes.
    assert_eq!(number(&db, tables).await, before + 2);
    assert_eq!(
        number(&db, "SELECT COUNT(*) AS n FROM duebox_migrations").await,
        1
    );
}

#[tokio::test]
async fn a_table_that_lacks_something_is_refused_by_name() {
    let db = SqliteDatabase::open_in_memory().await.unwrap();
    run(
        &db,
        "CREATE TABLE outbox (id TEXT PRIMARY KEY, topic TEXT, payload TEXT)",
    )
    .await;
    let error = assert_refused(db.migrate().await, Kind::Schema);
    assert!(error.to_string().contains("\"subject\""), "{error}");
    let noted = "SELECT COUNT(*) AS n FROM sqlite_schema WHERE name = 'duebox_migrations'";
    assert_eq!(number(&db, noted).await, 0, "all was undone");

    let other = SqliteDatabase::open_in_memory().await.unwrap();
    other.migrate().await.unwrap();
    run(
        &other,
        "DROP INDEX outbox_due; DELETE FROM duebox_migrations",
    )
    .await;
    let error = assert_refused(other.migrate().await, Kind::Schema);
    assert!(error.to_string().contains("(visible_at, id)"), "{error}");
}

#[tokio::test]
async fn a_table_that_was_dropped_is_made_again() {
    let db = SqliteDatabase::open_in_memory().await.unwrap();
    db.migrate().await.unwrap();
    run(&db, "DROP TABLE outbox").await;
    db.migrate().await.unwrap();
    assert_eq!(number(&db, "SELECT COUNT(*) AS n FROM outbox").await, 0);
}
