//! Push receipts beside the outbox: recorded, taken, deleted, purged and erased at
//! once, by tickets of which some are one recorder's own and some everybody's.

use std::collections::HashSet;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use duebox_mysql::chrono::{DateTime, TimeDelta, Utc};
use duebox_mysql::uuid::Uuid;
use duebox_mysql::{
    DbError, DeviceToken, MySqlDatabase, PendingReceipt, PendingReceiptStore, PushTicketId,
};
use tokio::task::JoinHandle;

use super::Dice;

const RECORDERS: usize = 4;
const TAKERS: usize = 4;
const OWNERS: u64 = 30;
/// Recorded over and over, by every recorder.
const SHARED: u64 = 60;

/// What the tasks know together.
#[derive(Default)]
pub(super) struct Tally {
    /// Tickets of one recorder that were taken until long after the end.
    taken: Mutex<HashSet<PushTicketId>>,
    recorded: AtomicU64,
    deleted: AtomicU64,
    purged: AtomicU64,
    erased: AtomicU64,
    /// Nothing is recorded any more.
    closing: AtomicBool,
}

pub(super) struct Receipts {
    tally: Arc<Tally>,
    recorders: Vec<JoinHandle<()>>,
    others: Vec<JoinHandle<()>>,
}

fn from_now(milliseconds: i64) -> DateTime<Utc> {
    DateTime::<Utc>::from(SystemTime::now()) + TimeDelta::milliseconds(milliseconds)
}

fn limit(rows: u64) -> NonZeroU32 {
    NonZeroU32::new(u32::try_from(rows).expect("small")).expect("not 0")
}

impl Receipts {
    pub(super) fn start(handles: &[MySqlDatabase], ends: Instant) -> Self {
        let tally: Arc<Tally> = Arc::default();
        let handle = |task: usize| handles[task % handles.len()].clone();
        let recorders = (0..RECORDERS)
            .map(|task| tokio::spawn(record(handle(task), Arc::clone(&tally), task, ends)))
            .collect();
        let mut others: Vec<_> = (0..TAKERS)
            .map(|task| tokio::spawn(take(handle(task), Arc::clone(&tally), task)))
            .collect();
        for task in 0..2 {
            others.push(tokio::spawn(purge(handle(task), Arc::clone(&tally), task)));
            others.push(tokio::spawn(erase(handle(task), Arc::clone(&tally), task)));
        }
        Self {
            tally,
            recorders,
            others,
        }
    }

    /// Waits until all is done, and counts.
    pub(super) async fn end(self, db: &MySqlDatabase) -> String {
        for task in self.recorders {
            task.await.expect("a recorder");
        }
        self.tally.closing.store(true, Ordering::SeqCst);
        for task in self.others {
            task.await.expect("a taker, a purger or an eraser");
        }
        let left = db.receipts().purge(from_now(60_000), NonZeroU32::MAX).await;
        let left = left.expect("purge");
        let of = |count: &AtomicU64| count.load(Ordering::SeqCst);
        let Tally {
            recorded,
            deleted,
            purged,
            erased,
            taken,
            ..
        } = &*self.tally;
        let (recorded, deleted, purged, erased) =
            (of(recorded), of(deleted), of(purged), of(erased));
        let taken = taken.lock().expect("no panic").len();
        let said = format!(
            "{recorded} tickets recorded, {taken} taken once, {deleted} deleted, {purged} purged, \
             {erased} erased, {left} left"
        );
        assert_eq!(recorded, deleted + purged + erased + left, "{said}");
        assert!(
            taken > 0 && deleted > 0 && purged > 0 && erased > 0,
            "{said}"
        );
        said
    }
}

async fn record(db: MySqlDatabase, tally: Arc<Tally>, task: usize, ends: Instant) {
    let store = db.receipts();
    let mut dice = Dice::new(3_000 + task);
    let mut number = 0_u64;
    while Instant::now() < ends {
        let mut receipt = |ticket: String| PendingReceipt {
            ticket: PushTicketId::new(ticket).expect("a ticket"),
            owner_id: Uuid::from_u128(u128::from(dice.roll(OWNERS))),
            token: DeviceToken::new("token").expect("a token"),
            sent_at: from_now(0),
        };
        let mut call = Vec::new();
        for _ in 0..20 {
            call.push(receipt(format!("own-{task}-{number}")));
            number += 1;
        }
        for shared in 0..SHARED / 3 {
            call.push(receipt(format!("shared-{}", (number + shared) % SHARED)));
        }
        // The shared ones once more, as after a lost answer; an own one that was
        // deleted since would be new, and be taken twice.
        let again = call[20..].to_vec();
        let due_at = from_now(i64::try_from(dice.roll(100)).expect("small") - 50);
        let mut new = store.record(call, due_at).await.expect("record");
        assert!(new >= 20, "its own are new");
        new += store.record(again, due_at).await.expect("record again");
        tally.recorded.fetch_add(new, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(dice.roll(40))).await;
    }
}

async fn take(db: MySqlDatabase, tally: Arc<Tally>, task: usize) {
    let store = db.receipts();
    let mut dice = Dice::new(4_000 + task);
    loop {
        let closing = tally.closing.load(Ordering::SeqCst);
        let now = from_now(0);
        // One in four gives back what it took, as a poller that finds nothing settled.
        let keeps = dice.roll(4) > 0;
        let retry_at = from_now(if keeps { 3_600_000 } else { 20 });
        let mine = store
            .take_due(now, retry_at, limit(1 + dice.roll(60)))
            .await;
        let mine = mine.expect("take");
        if mine.is_empty() {
            if closing {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        }
        if !keeps {
            continue;
        }
        {
            let mut taken = tally.taken.lock().expect("no panic");
            for each in &mine {
                let own = each.ticket.as_str().starts_with("own-");
                assert!(
                    !own || taken.insert(each.ticket.clone()),
                    "it was taken by two"
                );
            }
        }
        // What does not settle is for the purge.
        let settled = mine.into_iter().filter(|_| dice.roll(5) > 0);
        let settled = settled.map(|each| each.ticket).collect();
        let gone = store.delete(settled).await.expect("delete");
        tally.deleted.fetch_add(gone, Ordering::SeqCst);
    }
}

async fn purge(db: MySqlDatabase, tally: Arc<Tally>, task: usize) {
    let store = db.receipts();
    let mut dice = Dice::new(5_000 + task);
    while !tally.closing.load(Ordering::SeqCst) {
        let purged = store.purge(from_now(-500), limit(1 + dice.roll(50))).await;
        tally
            .purged
            .fetch_add(purged.expect("purge"), Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(5 + dice.roll(30))).await;
    }
}

/// By turns as a call of its own and in a transaction of the caller's.
async fn erase(db: MySqlDatabase, tally: Arc<Tally>, task: usize) {
    let store = db.receipts();
    let mut dice = Dice::new(6_000 + task);
    while !tally.closing.load(Ordering::SeqCst) {
        let owner = Uuid::from_u128(u128::from(dice.roll(OWNERS)));
        let erased = if dice.roll(2) == 0 {
            store.erase_owner(owner).await.expect("erase")
        } else {
            loop {
                match erase_within(&db, owner).await {
                    Ok(erased) => break erased,
                    // There it is the caller who runs a deadlock again.
                    Err(error) => assert!(error.is_retryable(), "{error}"),
                }
            }
        };
        tally.erased.fetch_add(erased, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(20 + dice.roll(40))).await;
    }
}

async fn erase_within(db: &MySqlDatabase, owner: Uuid) -> Result<u64, DbError> {
    let mut transaction = db.pool().begin().await.expect("begin");
    let erased = duebox_mysql::erase_owner(&mut transaction, owner).await?;
    transaction.commit().await.expect("commit");
    Ok(erased)
}
