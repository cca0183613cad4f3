//! Other connections on the same file.

use std::time::{Duration, Instant};

use super::support::{Folder, LATER, NOW, assert_refused, batch, enqueue, number, run, sql};
use duebox_sqlite::{Database, JournalMode, Kind, Outbox};

#[tokio::test]
async fn a_lock_that_is_not_granted_in_time_is_busy_for_all_who_waited_so_long() {
    let folder = Folder::new();
    let timeout = Duration::from_secs(1);
    let db = folder.options().busy_timeout(timeout).open().await.unwrap();
    db.migrate().await.unwrap();
    let raw = folder.raw();
    raw.execute_batch("BEGIN IMMEDIATE").unwrap();
    let began = Instant::now();
    let calls = (0..20).map(|id| tokio::spawn(batch(&db, vec![enqueue(&format!("id-{id}"))])));
    let calls: Vec<_> = calls.collect();
    for call in calls {
        let error = assert_refused(call.await.unwrap(), Kind::Busy);
        assert!(error.is_retryable());
    }
    assert!(began.elapsed() >= timeout, "{:?}", began.elapsed());
    // One after the other it would be at least 20 times as long.
    assert!(began.elapsed() < timeout * 20, "{:?}", began.elapsed());
    assert_eq!(number(&db, "SELECT COUNT(*) AS n FROM outbox").await, 0);
    raw.execute_batch("COMMIT").unwrap();
    db.execute(&enqueue("x")).await.unwrap();
}

#[tokio::test]
async fn a_lock_that_is_released_in_time_is_waited_for() {
    let folder = Folder::new();
    let db = folder.open().await;
    db.migrate().await.unwrap();
    let raw = folder.raw();
    raw.execute_batch("BEGIN IMMEDIATE").unwrap();
    let call = tokio::spawn(batch(&db, vec![enqueue("x")]));
    tokio::task::yield_now().await;
    raw.execute_batch("COMMIT").unwrap();
    assert_eq!(call.await.unwrap(), Ok(vec![1]));
}

#[tokio::test]
async fn a_commit_that_readers_hold_up_too_long_is_undone() {
    let folder = Folder::new();
    let options = folder.options().journal_mode(JournalMode::Delete);
    let timeout = Duration::from_millis(100);
    let db = options.busy_timeout(timeout).open().await.unwrap();
    db.migrate().await.unwrap();
    let raw = folder.raw();
    raw.execute_batch("BEGIN").unwrap();
    let count = |conn: &duebox_sqlite::rusqlite::Connection| {
        conn.query_row("SELECT COUNT(*) FROM outbox", [], |row| {
            row.get::<_, i64>(0)
        })
    };
    assert_eq!(count(&raw), Ok(0));
    let error = assert_refused(db.batch_atomic(&[enqueue("x")]).await, Kind::Busy);
    assert_eq!(error.code(), Some("SQLITE_BUSY"));
    raw.execute_batch("COMMIT").unwrap();
    assert_eq!(count(&raw), Ok(0));
    assert_eq!(db.batch_atomic(&[enqueue("x")]).await, Ok(vec![1]));
    assert_eq!(count(&raw), Ok(1));
}

#[tokio::test]
async fn an_answer_means_committed_and_the_lock_released() {
    let folder = Folder::new();
    let db = folder.open().await;
    db.migrate().await.unwrap();
    for id in 0..10 {
        db.execute(&enqueue(&format!("id-{id}"))).await.unwrap();
    }
    let outbox = Outbox::new("outbox");
    let raw = folder.raw();
    let leased = |expected: i64| {
        let sql = "SELECT COUNT(*) FROM outbox WHERE locked_until IS NOT NULL";
        let found = raw.query_row(sql, [], |row| row.get::<_, i64>(0));
        assert_eq!(found, Ok(expected));
        raw.execute_batch("BEGIN IMMEDIATE; UPDATE outbox SET topic = topic; COMMIT")
            .expect("the lock, at once");
    };
    assert_eq!(outbox.claim_due(&db, NOW, LATER, 3).await.unwrap().len(), 3);
    leased(3);
    let returning = sql("UPDATE outbox SET locked_until = NULL RETURNING id");
    assert_eq!(db.query(&returning).await.unwrap().len(), 10);
    leased(0);
}

#[tokio::test]
async fn no_call_leaves_a_read_open() {
    let folder = Folder::new();
    let db = folder.open().await;
    db.migrate().await.unwrap();
    let outbox = Outbox::new("outbox");
    db.execute(&enqueue("x")).await.unwrap();
    number(&db, "SELECT COUNT(*) AS n FROM outbox").await;
    outbox.claim_due(&db, NOW, LATER, 3).await.unwrap();
    outbox.stats(&db, NOW).await.unwrap();
    db.query(&sql("SELECT * FROM nowhere")).await.unwrap_err();
    db.execute(&enqueue("x")).await.unwrap_err();
    // It fails, or leaves frames, while anybody reads an older state.
    let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
    let busy = folder
        .raw()
        .query_row(checkpoint, [], |row| row.get::<_, i64>(0));
    assert_eq!(busy, Ok(0));
    assert_eq!(std::fs::metadata(folder.wal()).unwrap().len(), 0);
}

#[tokio::test]
async fn a_log_that_a_reader_made_long_is_cut_after_it() {
    const KEPT: u64 = 17 * 1024 * 1024;
    let folder = Folder::new();
    let db = folder.open().await;
    db.migrate().await.unwrap();
    run(&db, "PRAGMA synchronous = OFF").await;
    let reader = folder.raw();
    reader
        .execute_batch("BEGIN; SELECT COUNT(*) FROM outbox")
        .unwrap();
    reader
        .query_row("SELECT COUNT(*) FROM outbox", [], |_| Ok(()))
        .unwrap();
    let outbox = Outbox::new("outbox");
    let length = || std::fs::metadata(folder.wal()).unwrap().len();
    let mut id = 0;
    while length() < 2 * KEPT {
        let name = format!("id-{id}");
        db.execute(&enqueue(&name)).await.unwrap();
        outbox.complete(&db, &name).await.unwrap();
        id += 1;
    }
    reader.execute_batch("COMMIT").unwrap();
    for id in 0..500 {
        let name = format!("more-{id}");
        db.execute(&enqueue(&name)).await.unwrap();
        outbox.complete(&db, &name).await.unwrap();
    }
    assert!(length() < KEPT, "{} bytes after 1000 writes", length());
}
