//! What the shared suite cannot ask: it is about SQLite and this adapter alone.

use duebox_sqlite::{Database, Outbox, SqliteDatabase, Statement};

#[tokio::test]
async fn smoke() {
    let dir = std::env::temp_dir().join(format!("duebox-smoke-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let db = SqliteDatabase::open(dir.join("a.db")).await.unwrap();
    db.migrate().await.unwrap();
    db.migrate().await.unwrap();
    let outbox = Outbox::new("outbox");
    let at = "2026-01-31T09:30:00Z";
    db.batch_atomic(&[
        Statement::new("CREATE TABLE a (b TEXT)"),
        outbox.enqueue_statement("1", "mail", "{}", None, at),
        outbox.enqueue_statement("2", "mail", "{}", None, at),
    ])
    .await
    .unwrap();
    let claimed = outbox
        .claim_due(&db, at, "2026-01-31T09:31:00Z", 10)
        .await
        .unwrap();
    assert_eq!(claimed.len(), 2);
    let leases: Vec<_> = claimed.into_iter().map(|record| record.lease).collect();
    outbox.complete_claimed(&db, &leases).await.unwrap();
    let rows = db
        .query(&Statement::new("SELECT COUNT(*) AS n FROM outbox"))
        .await
        .unwrap();
    assert_eq!(rows[0].get::<i64>("n").unwrap(), 0);
}
