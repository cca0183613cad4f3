//! Everything at once: drainers, enqueuers, retries, releases, erasures and an
//! operator who deletes rows; and push receipts recorded, taken, deleted, purged
//! and erased beside them.
//!
//! 20 seconds a server, or `DUEBOX_TEST_SOAK_MINUTES`, half of it on each kind of
//! table. No deadlock and no lock timeout may reach a caller, no row be lost or
//! handed to two.

mod receipts;

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use duebox_mysql::chrono::{DateTime, TimeDelta, Utc};
use duebox_mysql::sqlx;
use duebox_mysql::{
    Claim, ClaimCursor, Database, Lease, ListOptions, MySqlDatabase, Outbox, OutboxRecord, Retry,
    Statement, format_time,
};

use self::receipts::Receipts;
use crate::common::{Server, TestDatabase, run};
use crate::tests;

tests!(soak: nothing_is_lost_or_doubled_under_everything_at_once);

const DRAINERS: usize = 16;
const ENQUEUERS: usize = 8;
const SUBJECTS: u64 = 40;

/// What the tasks know together.
#[derive(Default)]
struct Ledger {
    /// Ids under a lease that nobody has ended yet.
    held: Mutex<HashSet<String>>,
    completed: Mutex<HashSet<String>>,
    enqueued: AtomicU64,
    erased: AtomicU64,
    /// By the operator.
    deleted: AtomicU64,
    handed_out: AtomicU64,
    /// Nothing is enqueued any more; drain to the end.
    closing: AtomicBool,
}

impl Ledger {
    fn hand_out(&self, records: &[OutboxRecord]) {
        let mut held = self.held.lock().expect("no panic");
        for record in records {
            assert!(
                held.insert(record.id.clone()),
                "{} was handed to two",
                record.id
            );
            let completed = self.completed.lock().expect("no panic");
            assert!(
                !completed.contains(&record.id),
                "{} came after its completion",
                record.id
            );
        }
        self.handed_out
            .fetch_add(records.len() as u64, Ordering::Relaxed);
    }

    /// Before a lease is ended: then another may have the row at once.
    fn give_back(&self, leases: &[Lease]) {
        let mut held = self.held.lock().expect("no panic");
        for lease in leases {
            assert!(held.remove(lease.id()));
        }
    }
}

fn from_now(milliseconds: i64) -> String {
    format_time(DateTime::<Utc>::from(SystemTime::now()) + TimeDelta::milliseconds(milliseconds))
        .expect("a time")
}

/// Numbers that differ from task to task and are the same in every run.
struct Dice(u64);

impl Dice {
    fn new(task: usize) -> Self {
        Self(task as u64)
    }

    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

async fn nothing_is_lost_or_doubled_under_everything_at_once(server: Server) {
    let minutes = std::env::var("DUEBOX_TEST_SOAK_MINUTES").ok();
    let whole = minutes.map_or(Duration::from_secs(20), |minutes| {
        Duration::from_secs(60 * minutes.parse::<u64>().expect("a number of minutes"))
    });
    for portable in [true, false] {
        soak(server, portable, whole / 2).await;
    }
}

async fn soak(server: Server, portable: bool, length: Duration) {
    let of = TestDatabase::new(server, "").await;
    let outbox = Outbox::new("outbox");
    let db = of.connect(2).await;
    if portable {
        db.execute(&Statement::new(outbox.create_table_sql()))
            .await
            .expect("make the table");
    } else {
        db.migrate_outbox(&outbox).await.expect("migrate");
    }
    // The receipts; the outbox is there already.
    db.migrate().await.expect("migrate");
    run(
        &mut of.raw().await,
        "CREATE TABLE state (id VARCHAR(64) PRIMARY KEY)",
    )
    .await;
    let mut admin = server.admin().await;
    let before = deadlocks(&mut admin).await;

    let ledger: Arc<Ledger> = Arc::default();
    // As three processes.
    let handles = [
        of.connect(10).await,
        of.connect(10).await,
        of.connect(10).await,
    ];
    let ends = Instant::now() + length;
    let receipts = Receipts::start(&handles, ends);
    let mut enqueuers = Vec::new();
    for task in 0..ENQUEUERS {
        let (db, outbox, ledger) = (
            handles[task % 3].clone(),
            outbox.clone(),
            Arc::clone(&ledger),
        );
        enqueuers.push(tokio::spawn(enqueue(db, outbox, ledger, task, ends)));
    }
    let mut others = Vec::new();
    for task in 0..DRAINERS {
        let (db, outbox, ledger) = (
            handles[task % 3].clone(),
            outbox.clone(),
            Arc::clone(&ledger),
        );
        others.push(tokio::spawn(drain(db, outbox, ledger, task)));
    }
    for (task, db) in handles.iter().take(2).enumerate() {
        let (db, outbox, ledger) = (db.clone(), outbox.clone(), Arc::clone(&ledger));
        others.push(tokio::spawn(erase(db, outbox, ledger, task, ends)));
    }
    let (operator, known) = (handles[2].clone(), Arc::clone(&ledger));
    others.push(tokio::spawn(operate(operator, outbox.clone(), known, ends)));
    for task in enqueuers {
        task.await.expect("an enqueuer");
    }
    ledger.closing.store(true, Ordering::SeqCst);
    for task in others {
        task.await.expect("a drainer, an eraser or the operator");
    }
    let receipts = receipts.end(&db).await;

    let rows = db
        .query(&Statement::new("SELECT COUNT(*) AS n FROM outbox"))
        .await
        .expect("count");
    assert_eq!(rows[0].get::<i64>("n").expect("a count"), 0);
    let rows = db
        .query(&Statement::new("SELECT COUNT(*) AS n FROM state"))
        .await
        .expect("count");
    let enqueued = ledger.enqueued.load(Ordering::SeqCst);
    assert_eq!(rows[0].get::<u64>("n").expect("a count"), enqueued);
    let completed = ledger.completed.lock().expect("no panic").len() as u64;
    let erased = ledger.erased.load(Ordering::SeqCst);
    let deleted = ledger.deleted.load(Ordering::SeqCst);
    assert_eq!(
        completed + erased + deleted,
        enqueued,
        "{completed} completed, {erased} erased, {deleted} deleted"
    );
    assert!(completed > 0 && erased > 0 && deleted > 0);
    let broken = deadlocks(&mut admin).await - before;
    println!(
        "{} {}: {enqueued} enqueued, {} handed out, {completed} completed, {erased} erased, {deleted} deleted; {receipts}; {broken} deadlocks broken",
        server.name,
        if portable { "portable" } else { "shipped" },
        ledger.handed_out.load(Ordering::SeqCst),
    );
    of.drop().await;
}

async fn deadlocks(admin: &mut sqlx::mysql::MySqlConnection) -> i64 {
    let sql = "SELECT CAST(count AS SIGNED) FROM information_schema.innodb_metrics WHERE name = 'lock_deadlocks'";
    sqlx::query_scalar(sql)
        .fetch_one(admin)
        .await
        .expect("a count")
}

async fn enqueue(
    db: MySqlDatabase,
    outbox: Outbox,
    ledger: Arc<Ledger>,
    task: usize,
    ends: Instant,
) {
    let mut dice = Dice::new(task);
    let mut number = 0_u64;
    while Instant::now() < ends {
        let rows = 1 + dice.roll(10);
        let mut batch = Vec::new();
        for _ in 0..rows {
            let id = format!("e{task}-{number}");
            number += 1;
            let subject = format!("s{}", dice.roll(SUBJECTS));
            let subject = (dice.roll(3) > 0).then_some(subject.as_str());
            // Some in the past, some a little later.
            let at = from_now(i64::try_from(dice.roll(200)).expect("small") - 100);
            batch.push(
                Statement::new("INSERT INTO state (id) VALUES (?)")
                    .bind(&id)
                    .expect_rows(1),
            );
            batch.push(outbox.enqueue_statement(&id, "t", "payload", subject, &at));
        }
        db.batch_atomic(&batch).await.expect("enqueue");
        ledger.enqueued.fetch_add(rows, Ordering::SeqCst);
        // The drainers must keep up.
        tokio::time::sleep(Duration::from_millis(dice.roll(20))).await;
    }
}

async fn drain(db: MySqlDatabase, outbox: Outbox, ledger: Arc<Ledger>, task: usize) {
    let mut dice = Dice::new(1_000 + task);
    let mut cursor = ClaimCursor::new();
    let started = Instant::now();
    let mut idle = 0;
    loop {
        let closing = ledger.closing.load(Ordering::SeqCst);
        let claim = Claim::new(from_now(0), from_now(120_000))
            .limit(1 + dice.roll(30))
            .locked_by("drainer");
        let mine = if task.is_multiple_of(2) {
            outbox.claim(&db, &claim).await.expect("claim")
        } else {
            let elapsed = || started.elapsed();
            outbox
                .claim_through(&db, &claim, &mut cursor, &elapsed)
                .await
                .expect("claim")
        };
        if mine.is_empty() {
            // Longer than a retry is put off, and than a cursor passes over what
            // has come behind it.
            idle += 1;
            if closing && idle > 120 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        }
        idle = 0;
        ledger.hand_out(&mine);
        let leases: Vec<Lease> = mine.into_iter().map(|record| record.lease).collect();
        end(&db, &outbox, &ledger, &mut dice, &leases).await;
    }
}

/// Ends leases in one of the ways that there are.
async fn end(
    db: &MySqlDatabase,
    outbox: &Outbox,
    ledger: &Ledger,
    dice: &mut Dice,
    leases: &[Lease],
) {
    if dice.roll(10) == 0 {
        outbox
            .extend_claimed(db, leases, &from_now(240_000))
            .await
            .expect("extend");
    }
    ledger.give_back(leases);
    match dice.roll(10) {
        0 => {
            let at = from_now(100);
            let retries: Vec<Retry<'_>> = leases
                .iter()
                .map(|lease| Retry {
                    lease,
                    next_attempt_at: &at,
                    error: "it failed",
                })
                .collect();
            outbox
                .retry_claimed(db, &from_now(0), &retries)
                .await
                .expect("retry");
        }
        1 => drop(
            outbox
                .release_claimed(db, leases, &from_now(0))
                .await
                .expect("release"),
        ),
        2 => {
            let ids: Vec<&str> = leases.iter().map(Lease::id).collect();
            outbox.release(db, &ids).await.expect("release by id");
        }
        3 => {
            outbox
                .park_claimed(db, leases, &from_now(0), "parked")
                .await
                .expect("park");
            let ids: Vec<&str> = leases.iter().map(Lease::id).collect();
            outbox.unpark(db, &ids, &from_now(0)).await.expect("unpark");
        }
        _ => {
            let outcomes = outbox.complete_claimed(db, leases).await.expect("complete");
            let mut completed = ledger.completed.lock().expect("no panic");
            for (lease, outcome) in leases.iter().zip(outcomes) {
                if outcome.is_held() {
                    assert!(completed.insert(lease.id().to_owned()), "completed twice");
                }
            }
        }
    }
}

async fn erase(db: MySqlDatabase, outbox: Outbox, ledger: Arc<Ledger>, task: usize, ends: Instant) {
    let mut dice = Dice::new(2_000 + task);
    while Instant::now() < ends {
        let subject = format!("s{}", dice.roll(SUBJECTS));
        let erased = outbox
            .erase_subject(&db, &subject, 1 + dice.roll(20))
            .await
            .expect("erase");
        ledger.erased.fetch_add(erased, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(20 + dice.roll(40))).await;
    }
}

/// Looks at what waits and deletes some of it, leased or not.
async fn operate(db: MySqlDatabase, outbox: Outbox, ledger: Arc<Ledger>, ends: Instant) {
    let mut dice = Dice::new(2_500);
    while Instant::now() < ends {
        outbox.stats(&db, &from_now(0)).await.expect("stats");
        let page = ListOptions::new().limit(5 + dice.roll(20));
        let rows = outbox.list(&db, &from_now(0), &page).await.expect("list");
        let ids: Vec<&str> = rows
            .iter()
            .filter(|_| dice.roll(3) == 0)
            .map(|row| row.id.as_str())
            .collect();
        let deleted = outbox.delete(&db, &ids).await.expect("delete");
        ledger.deleted.fetch_add(deleted, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(20 + dice.roll(60))).await;
    }
}
