//! Every call of both ports, with a mark wherever personal data can stand.

use std::num::NonZeroU32;
use std::sync::Arc;

use duebox_core::chrono::{DateTime, TimeDelta, Utc};
use duebox_core::{
    Claim, ClaimCursor, Database, DeviceToken, Enqueue, Lease, ListOptions, Outbox, PendingReceipt,
    PendingReceiptStore, PushDeliveryStatus, PushOutcome, PushTicketId, ReadThenWrite, Retry,
    Statement,
};

use super::ear::Ear;
use super::marks::{MARK, NUMBER, OWNER};

/// One way to a database.
#[derive(Clone)]
pub(super) struct Way {
    pub(super) name: String,
    pub(super) db: Arc<dyn Database>,
    pub(super) store: Arc<dyn PendingReceiptStore>,
}

/// Done before each call: cuts the way, kills sessions.
pub(super) type Before<'a> = &'a (dyn Fn() + Sync);

pub(super) fn at(second: u32) -> String {
    format!("2026-03-01T10:00:{second:02}.000000Z")
}

fn instant(second: u32) -> DateTime<Utc> {
    duebox_core::parse_time(&at(second)).expect("a time")
}

pub(super) fn subject() -> String {
    format!("for {MARK}")
}

fn row(outbox: &Outbox, id: &str) -> Statement {
    outbox.enqueue_statement(id, "t", &format!("to {MARK}"), Some(&subject()), &at(0))
}

/// Calls `outbox` by every call there is.
pub(super) async fn outbox(ear: &mut Ear, scene: &str, way: &Way, before: Before<'_>) {
    let outbox = Outbox::new("outbox");
    let db = &*way.db;
    macro_rules! call {
        ($call:expr) => {{
            before();
            ear.call(scene, $call).await
        }};
    }
    enqueue(ear, scene, way, &outbox, before).await;
    // A holder's name is for people to read, and shown.
    let claim = Claim::new(at(1), at(2)).limit(1).locked_by("holder");
    let claimed = call!(outbox.claim(db, &claim)).unwrap_or_default();
    let lease = claimed
        .first()
        .map_or_else(|| Lease::new("a", 1, at(0)), |record| record.lease.clone());
    let leases = [lease];
    call!(outbox.note_claimed(db, &leases, MARK));
    call!(outbox.extend_claimed(db, &leases, &at(3)));
    let retry = Retry {
        lease: &leases[0],
        next_attempt_at: &at(1),
        error: MARK,
    };
    ear.hear(scene, &format!("{retry:?} {leases:?} {claimed:?}"));
    call!(outbox.retry_claimed(db, &at(1), &[retry]));
    call!(outbox.claim_due(db, &at(1), &at(2), 1));
    let mut cursor = ClaimCursor::new();
    let elapsed = || std::time::Duration::ZERO;
    call!(outbox.claim_through(db, &claim, &mut cursor, &elapsed));
    call!(outbox.release_claimed(db, &leases, &at(1)));
    call!(outbox.reschedule_claimed(db, &leases, &at(1)));
    call!(outbox.park_claimed(db, &leases, &at(1), MARK));
    call!(outbox.complete_claimed(db, &leases));
    call!(db.execute(&outbox.complete_statement(&leases[0])));
    call!(db.execute(&outbox.retry_statement(&at(1), retry)));
    call!(outbox.stats(db, &at(1)));
    call!(outbox.list(db, &at(1), &ListOptions::new()));
    call!(outbox.get(db, "a"));
    call!(outbox.park(db, &["a"], &at(1), MARK));
    call!(outbox.unpark(db, &["a"], &at(1)));
    call!(outbox.release(db, &["a"]));
    call!(outbox.retry_later(db, "a", &at(2)));
    call!(outbox.complete(db, "nobody"));
    call!(outbox.delete(db, &["b"]));
    call!(outbox.export_subject(db, &subject(), None, 10));
    call!(db.execute(&outbox.erase_subject_statement(MARK)));
    call!(outbox.erase_subject(db, &subject(), 10));
    call!(db.now());
    refused(ear, scene, way, &outbox, before).await;
}

async fn enqueue(ear: &mut Ear, scene: &str, way: &Way, outbox: &Outbox, before: Before<'_>) {
    let db = &*way.db;
    macro_rules! call {
        ($call:expr) => {{
            before();
            ear.call(scene, $call).await
        }};
    }
    call!(db.execute(&row(outbox, "a")));
    call!(db.execute(&row(outbox, "a"))); // a conflict
    call!(db.execute(&row(outbox, "a2").expect_rows(7))); // another count
    let once = outbox.enqueue_once_statement("a", "t", MARK, Some(MARK), &at(0));
    call!(db.execute(&once));
    let work = ["b", "c"].map(|id| {
        let work = Enqueue::new("t").id(id).payload(MARK).subject(subject());
        work.at(instant(0))
    });
    ear.hear(scene, &format!("{work:?}"));
    let many = outbox.enqueue_many_statement(work);
    ear.hear(scene, &format!("{many:?} {:?}", many.values()));
    call!(db.batch_atomic(&[row(outbox, "d"), many.clone()]));
    call!(db.batch_atomic(&[row(outbox, "e"), many]));
    let find = Statement::new("SELECT * FROM outbox WHERE subject = ? AND claims <> ?");
    call!(db.query(&find.bind(subject()).bind(NUMBER)));
    let read = Statement::new("SELECT payload FROM outbox WHERE subject = ?").bind(subject());
    let write = row(outbox, "a");
    let step = ReadThenWrite::new(read, move |_| Ok(vec![write.clone()]));
    ear.hear(scene, &format!("{step:?}"));
    call!(db.read_then_write(&step));
}

/// What is refused before any SQL.
async fn refused(ear: &mut Ear, scene: &str, way: &Way, outbox: &Outbox, before: Before<'_>) {
    let db = &*way.db;
    let control = format!("{MARK}\u{7}");
    macro_rules! call {
        ($call:expr) => {{
            before();
            ear.call(scene, $call).await
        }};
    }
    call!(outbox.claim_due(db, MARK, &at(1), 1));
    call!(outbox.retry_later(db, "a", MARK));
    call!(outbox.export_subject(db, &control, None, 1));
    call!(outbox.erase_subject(db, &control, 1));
    let statements = [
        outbox.enqueue_statement("a", "t", &format!("{MARK}\0"), Some(MARK), &at(0)),
        outbox.enqueue_statement("a", "t", MARK, Some(&control), MARK),
        Statement::new("SELECT ?").bind(MARK).bind(MARK),
        Statement::new("COMMIT").bind(MARK),
    ];
    for statement in statements {
        ear.hear(scene, &format!("{statement:?}"));
        call!(db.execute(&statement));
        call!(db.batch_atomic(&[statement]));
    }
}

pub(super) fn receipt(number: u32) -> PendingReceipt {
    PendingReceipt {
        ticket: PushTicketId::new(format!("ticket-{MARK}-{number}")).expect("a ticket"),
        owner_id: OWNER,
        token: DeviceToken::new(format!("token-{MARK}")).expect("a token"),
        sent_at: instant(0),
    }
}

/// Calls the store of receipts by every call there is.
pub(super) async fn receipts(ear: &mut Ear, scene: &str, way: &Way, before: Before<'_>) {
    let store = &*way.store;
    macro_rules! call {
        ($call:expr) => {{
            before();
            ear.call(scene, $call).await
        }};
    }
    let all: Vec<PendingReceipt> = (0..3).map(receipt).collect();
    ear.hear(scene, &format!("{all:?}"));
    call!(store.record(all.clone(), instant(1)));
    let accepted = PushOutcome {
        token: receipt(9).token,
        status: PushDeliveryStatus::Accepted(receipt(9).ticket),
    };
    ear.hear(scene, &format!("{accepted:?}"));
    call!(store.record_accepted(OWNER, &[accepted], instant(0)));
    let limit = NonZeroU32::new(2).unwrap_or(NonZeroU32::MIN);
    call!(store.take_due(instant(1), instant(2), limit));
    call!(store.delete(vec![receipt(0).ticket]));
    call!(store.purge(instant(0), limit));
    let never = DateTime::UNIX_EPOCH - TimeDelta::days(1);
    call!(store.purge(never, limit));
    call!(store.erase_owner(OWNER));
}
