//! Push receipts, where they meet what is SQLite's own.

use std::num::NonZeroU32;
use std::time::Duration;

use super::support::{Folder, assert_refused, hold, number, run};
use duebox_sqlite::chrono::{DateTime, Utc};
use duebox_sqlite::rusqlite::Connection;
use duebox_sqlite::rusqlite::limits::Limit;
use duebox_sqlite::uuid::Uuid;
use duebox_sqlite::{
    Database, DeviceToken, Dialect, JournalMode, Kind, PendingReceipt, PendingReceiptStore,
    PushStoreError, PushTicketId, SqliteDatabase, SqliteReceipts, Statement,
};

pub(super) const ALL: NonZeroU32 = NonZeroU32::MAX;

pub(super) fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(seconds, 0).expect("an instant")
}

fn owner(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

pub(super) fn ticket(name: &str) -> PushTicketId {
    PushTicketId::new(name).expect("a ticket")
}

pub(super) fn receipt(name: &str) -> PendingReceipt {
    PendingReceipt {
        ticket: ticket(name),
        owner_id: owner(1),
        token: DeviceToken::new(format!("token-of-{name}")).expect("a token"),
        sent_at: at(1),
    }
}

/// `t0000` and so on, of owner 1.
pub(super) fn many(number: usize) -> Vec<PendingReceipt> {
    (0..number).map(|n| receipt(&format!("t{n:04}"))).collect()
}

fn names(receipts: &[PendingReceipt]) -> Vec<&str> {
    receipts.iter().map(|each| each.ticket.as_str()).collect()
}

async fn open(folder: &Folder) -> (SqliteDatabase, SqliteReceipts) {
    let db = folder.open().await;
    db.migrate().await.expect("tables");
    let receipts = db.receipts();
    (db, receipts)
}

async fn count(db: &SqliteDatabase) -> i64 {
    number(db, "SELECT COUNT(*) AS n FROM pending_receipts").await
}

#[tokio::test]
async fn a_call_binds_few_values_however_many_tickets_it_has() {
    let folder = Folder::new();
    let (db, receipts) = open(&folder).await;
    let lower = |conn: &mut Connection| {
        conn.set_limit(Limit::SQLITE_LIMIT_VARIABLE_NUMBER, 5)?;
        conn.set_limit(Limit::SQLITE_LIMIT_LENGTH, 4_096)
    };
    db.with_connection(lower).await.unwrap().unwrap();
    assert_eq!(receipts.record(many(2_000), at(9)).await, Ok(2_000));
    let taken = receipts.take_due(at(9), at(99), ALL).await.unwrap();
    assert!(taken == many(2_000));
    let half = taken[..1_000].iter().map(|each| each.ticket.clone());
    assert_eq!(receipts.delete(half.collect()).await, Ok(1_000));
    let most = NonZeroU32::new(600).unwrap();
    assert_eq!(receipts.purge(at(2), most).await, Ok(600));
    assert_eq!(receipts.erase_owner(owner(1)).await, Ok(400));
}

#[tokio::test]
async fn a_limit_that_is_too_low_is_no_instant_out_of_range() {
    let folder = Folder::new();
    let (db, receipts) = open(&folder).await;
    let lower = |conn: &mut Connection| conn.set_limit(Limit::SQLITE_LIMIT_VARIABLE_NUMBER, 0);
    db.with_connection(lower).await.unwrap().unwrap();
    let internal = PushStoreError::Internal;
    assert_eq!(receipts.record(many(1), at(9)).await, Err(internal));
    assert_eq!(receipts.take_due(at(9), at(99), ALL).await, Err(internal));
    assert_eq!(receipts.delete(vec![ticket("x")]).await, Err(internal));
    assert_eq!(receipts.purge(at(9), ALL).await, Err(internal));
    assert_eq!(receipts.erase_owner(owner(1)).await, Err(internal));
}

#[tokio::test]
async fn a_database_in_memory_is_shared_by_all_its_handles() {
    let db = SqliteDatabase::open_in_memory().await.unwrap();
    db.migrate().await.unwrap();
    assert_eq!(db.receipts().record(many(500), at(9)).await, Ok(500));
    let takers = (0..8).map(|_| {
        let receipts = db.clone().receipts();
        tokio::spawn(async move {
            let (mut mine, ten) = (Vec::new(), NonZeroU32::new(10).unwrap());
            loop {
                let taken = receipts.take_due(at(9), at(99), ten).await.unwrap();
                if taken.is_empty() {
                    return mine;
                }
                mine.extend(taken);
            }
        })
    });
    let takers: Vec<_> = takers.collect();
    let mut all = Vec::new();
    for taker in takers {
        all.extend(taker.await.unwrap());
    }
    all.sort_by(|a, b| a.ticket.cmp(&b.ticket));
    assert!(all == many(500));
    assert_eq!(db.receipts().delete(vec![ticket("t0007")]).await, Ok(1));
    assert_eq!(db.receipts().purge(at(1), ALL).await, Ok(0));
    assert_eq!(db.receipts().erase_owner(owner(1)).await, Ok(499));
}

/// Records these in separate calls that are there at the same time, between
/// others that change one row each.
async fn record_together(
    db: &SqliteDatabase,
    calls: Vec<Vec<PendingReceipt>>,
) -> Vec<Result<u64, PushStoreError>> {
    let gate = hold(db).await;
    let spawn = |call| {
        let receipts = db.receipts();
        tokio::spawn(async move { receipts.record(call, at(9)).await })
    };
    let calls: Vec<_> = calls.into_iter().map(spawn).collect();
    // Each is polled once, and so is in the queue.
    tokio::task::yield_now().await;
    drop(gate);
    let mut answers = Vec::new();
    for call in calls {
        answers.push(call.await.expect("a call that does not panic"));
    }
    answers
}

#[tokio::test]
async fn calls_that_wait_share_one_commit() {
    let folder = Folder::new();
    let (db, _) = open(&folder).await;
    let before = folder.commits();
    let calls = many(50).into_iter().map(|receipt| vec![receipt]).collect();
    let answers = record_together(&db, calls).await;
    assert_eq!(answers, [Ok(1); 50]);
    assert_eq!(folder.commits() - before, 1);
    assert_eq!(count(&db).await, 50);
}

#[tokio::test]
async fn one_that_fails_among_many_is_undone_alone_whatever_a_trigger_leaves() {
    for raise in ["ABORT", "FAIL", "ROLLBACK"] {
        let folder = Folder::new();
        let (db, receipts) = open(&folder).await;
        let refuse = Statement::new(format!(
            "CREATE TRIGGER refuse BEFORE INSERT ON pending_receipts
             WHEN NEW.ticket = 'z' BEGIN SELECT RAISE({raise}, 'no'); END"
        ));
        db.execute(&refuse).await.unwrap();
        let call = |first: &str, last: &str| vec![receipt(first), receipt(last)];
        let calls = vec![call("a", "b"), call("c", "z"), call("d", "e")];
        let answers = record_together(&db, calls).await;
        let refused = Err(PushStoreError::Internal);
        assert_eq!(answers, [Ok(2), refused, Ok(2)], "{raise}");
        let left = receipts.take_due(at(9), at(99), ALL).await.unwrap();
        assert_eq!(names(&left), ["a", "b", "d", "e"], "{raise}");
    }
}

#[tokio::test]
async fn a_take_that_fails_among_others_moves_nothing() {
    let folder = Folder::new();
    let (db, receipts) = open(&folder).await;
    receipts.record(many(10), at(9)).await.unwrap();
    run(
        &db,
        "CREATE TRIGGER refuse BEFORE UPDATE ON pending_receipts
         WHEN NEW.ticket = 't0009' BEGIN SELECT RAISE(ABORT, 'no'); END",
    )
    .await;
    let gate = hold(&db).await;
    let (writer, taker) = (db.receipts(), db.receipts());
    let record = tokio::spawn(async move { writer.record(vec![receipt("x")], at(9)).await });
    let take = tokio::spawn(async move { taker.take_due(at(9), at(99), ALL).await });
    tokio::task::yield_now().await;
    drop(gate);
    assert_eq!(record.await.unwrap(), Ok(1));
    assert_eq!(take.await.unwrap(), Err(PushStoreError::Internal));
    let due = "SELECT COUNT(*) AS n FROM pending_receipts WHERE due_at = 9000000";
    assert_eq!(number(&db, due).await, 11);
}

#[tokio::test]
async fn an_erasure_waits_for_the_transaction_of_another() {
    for mode in [JournalMode::Wal, JournalMode::Delete] {
        let folder = Folder::new();
        let db = folder.options().journal_mode(mode).open().await.unwrap();
        db.migrate().await.unwrap();
        let receipts = db.receipts();
        receipts.record(many(10), at(9)).await.unwrap();
        let raw = folder.raw();
        // With a rollback journal who waits looks at the file now and then, and a commit
        // waits for that.
        raw.busy_timeout(Duration::from_mins(1)).unwrap();
        raw.execute_batch("BEGIN IMMEDIATE; UPDATE pending_receipts SET due_at = 7")
            .unwrap();
        let mut erasure = tokio::spawn(async move { receipts.erase_owner(owner(1)).await });
        let early = tokio::time::timeout(Duration::from_millis(300), &mut erasure).await;
        assert!(
            early.is_err(),
            "it does not end while the other has the lock"
        );
        raw.execute_batch("COMMIT").unwrap();
        assert_eq!(erasure.await.unwrap(), Ok(10));
    }
}

#[tokio::test]
async fn a_lock_that_is_not_granted_in_time_is_busy_and_nothing_is_done() {
    let folder = Folder::new();
    let (first, _) = open(&folder).await;
    let options = folder.options().busy_timeout(Duration::from_millis(100));
    let receipts = options.open().await.unwrap().receipts();
    receipts.record(many(3), at(9)).await.unwrap();
    let raw = folder.raw();
    raw.execute_batch("BEGIN IMMEDIATE").unwrap();
    let busy = PushStoreError::Busy;
    assert!(busy.is_retryable());
    assert_eq!(receipts.record(vec![receipt("x")], at(9)).await, Err(busy));
    assert_eq!(receipts.take_due(at(9), at(99), ALL).await, Err(busy));
    assert_eq!(receipts.delete(vec![ticket("t0000")]).await, Err(busy));
    assert_eq!(receipts.purge(at(9), ALL).await, Err(busy));
    assert_eq!(receipts.erase_owner(owner(1)).await, Err(busy));
    raw.execute_batch("COMMIT").unwrap();
    let due = "SELECT COUNT(*) AS n FROM pending_receipts WHERE due_at = 9000000";
    assert_eq!((number(&first, due).await, count(&first).await), (3, 3));
    assert_eq!(receipts.erase_owner(owner(1)).await, Ok(3));
}

#[tokio::test]
async fn an_answer_means_committed_and_no_read_left_open() {
    let folder = Folder::new();
    let (_db, receipts) = open(&folder).await;
    let raw = folder.raw();
    let checkpoint = || {
        let sql = "PRAGMA wal_checkpoint(TRUNCATE)";
        // It fails, or leaves frames, while anybody reads an older state.
        let busy = raw.query_row(sql, [], |row| row.get::<_, i64>(0));
        assert_eq!(busy, Ok(0));
        assert_eq!(std::fs::metadata(folder.wal()).unwrap().len(), 0);
    };
    receipts.record(many(10), at(9)).await.unwrap();
    checkpoint();
    let few = NonZeroU32::new(5).unwrap();
    receipts.take_due(at(9), at(99), few).await.unwrap();
    checkpoint();
    receipts.delete(vec![ticket("t0000")]).await.unwrap();
    receipts.purge(at(9), few).await.unwrap();
    receipts.erase_owner(owner(1)).await.unwrap();
    checkpoint();
}

#[tokio::test]
async fn what_no_store_has_written_is_corrupt_and_stops_no_other() {
    let folder = Folder::new();
    let (db, receipts) = open(&folder).await;
    for (column, value) in [
        ("ticket", "'two words'"),
        ("ticket", "CAST(x'ff' AS TEXT)"),
        ("owner_id", "zeroblob(15)"),
        ("token", "CAST(x'ff' AS TEXT)"),
        ("token", "''"),
        ("sent_at", "-1"),
        ("sent_at", "9223372036854775807"),
    ] {
        receipts.record(many(3), at(9)).await.unwrap();
        let damage =
            format!("UPDATE pending_receipts SET {column} = {value} WHERE ticket = 't0001'");
        db.execute(&Statement::new(damage)).await.unwrap();
        let taken = receipts.take_due(at(9), at(99), ALL).await.unwrap();
        assert_eq!(names(&taken), ["t0000", "t0002"], "{column} = {value}");
        let tickets = taken.into_iter().map(|each| each.ticket).collect();
        assert_eq!(receipts.delete(tickets).await, Ok(2));
        let alone = receipts.take_due(at(99), at(999), ALL).await;
        assert_eq!(alone, Err(PushStoreError::Corrupt), "{column} = {value}");
        let later = receipts.take_due(at(998), at(999), ALL).await;
        assert_eq!(later, Ok(vec![]), "it was moved");
        run(&db, "DELETE FROM pending_receipts").await;
    }
}

#[tokio::test]
async fn a_file_that_is_no_database_any_more_is_a_typed_error() {
    let folder = Folder::new();
    let (db, receipts) = open(&folder).await;
    receipts.record(many(2_000), at(9)).await.unwrap();
    run(&db, "PRAGMA wal_checkpoint(TRUNCATE)").await;
    drop((db, receipts));
    let mut bytes = std::fs::read(folder.file()).unwrap();
    for byte in &mut bytes[4_096..] {
        *byte = b'x';
    }
    std::fs::write(folder.file(), bytes).unwrap();
    let receipts = folder.open().await.receipts();
    let answer = receipts.take_due(at(9), at(99), ALL).await;
    assert_eq!(answer, Err(PushStoreError::Corrupt));
}

/// The table, by a connection of the caller's own.
fn migrate(conn: &Connection) {
    for migration in duebox_migrations::receipts(Dialect::Sqlite) {
        let sql = migration.render(migration.table());
        conn.execute_batch(&sql).expect("the table");
    }
}

#[test]
fn an_owner_is_erased_in_the_callers_own_transaction() {
    let mut conn = Connection::open_in_memory().unwrap();
    migrate(&conn);
    conn.execute_batch("CREATE TABLE account (id BLOB PRIMARY KEY)")
        .unwrap();
    let put = "INSERT INTO pending_receipts VALUES (?, ?, 'token', 0, 0)";
    for (name, owner_id) in [("a", 1), ("b", 1), ("c", 2)] {
        conn.execute(put, (name, owner(owner_id).as_bytes()))
            .unwrap();
    }
    conn.execute("INSERT INTO account VALUES (?)", [owner(1).as_bytes()])
        .unwrap();
    let left = |conn: &Connection| -> (i64, i64) {
        let sql = "SELECT (SELECT COUNT(*) FROM account), COUNT(*) FROM pending_receipts";
        conn.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap()
    };
    for (commit, after) in [(false, (1, 3)), (true, (0, 1))] {
        let transaction = conn.transaction().unwrap();
        transaction
            .execute("DELETE FROM account WHERE id = ?", [owner(1).as_bytes()])
            .unwrap();
        let erased = duebox_sqlite::erase_owner(&transaction, owner(1));
        assert_eq!(erased, Ok(2));
        let again = duebox_sqlite::erase_owner(&transaction, owner(1));
        assert_eq!(again, Ok(0));
        if commit {
            transaction.commit().unwrap();
        } else {
            transaction.rollback().unwrap();
        }
        assert_eq!(left(&conn), after);
    }
    assert_eq!(duebox_sqlite::erase_owner(&conn, owner(2)), Ok(1));
    assert_eq!(left(&conn), (0, 0));
}

#[test]
fn an_erasure_that_is_refused_says_nothing_of_the_row() {
    let conn = Connection::open_in_memory().unwrap();
    let marked = Uuid::from_bytes(*b"marker-of-owner!");
    let missing = duebox_sqlite::erase_owner(&conn, marked);
    let missing = assert_refused(missing, Kind::Schema);
    migrate(&conn);
    conn.execute_batch(
        "CREATE TRIGGER refuse BEFORE DELETE ON pending_receipts
         BEGIN SELECT RAISE(ABORT, OLD.ticket || OLD.token || OLD.owner_id); END",
    )
    .unwrap();
    let put = "INSERT INTO pending_receipts VALUES ('marker-t', ?, 'marker-d', 0, 0)";
    conn.execute(put, [marked.as_bytes()]).unwrap();
    let refused = duebox_sqlite::erase_owner(&conn, marked);
    let refused = assert_refused(refused, Kind::Constraint);
    assert_eq!(refused.code(), Some("SQLITE_CONSTRAINT_TRIGGER"));
    for error in [missing, refused] {
        assert!(std::error::Error::source(&error).is_none());
        let shown = format!("{error} {error:?} {error:#?}").to_lowercase();
        for hidden in ["marker", "6d61726b", "insert", "delete from"] {
            assert!(!shown.contains(hidden), "{shown}");
        }
    }
}

#[tokio::test]
async fn debug_of_the_store_shows_no_row_and_no_path() {
    let folder = Folder::new();
    let (_db, receipts) = open(&folder).await;
    assert_eq!(format!("{receipts:?}"), "SqliteReceipts { .. }");
}
