//! Claims through a cursor: cheap beside what a snapshot keeps, and no row
//! below the cursor starves. The clock is an argument, so minutes cost nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use duebox_core::{Claim, ClaimCursor, Database, DbError, Kind, OutboxRecord};

use super::chapter;
use crate::context::{assert_refused, at, ids, in_time, numbered};
use crate::recording::Recording;
use crate::{Context, Unreliable};

chapter!(cursor:
    the_first_claim_reads_from_the_start,
    a_full_claim_bounds_the_next_by_its_last_row,
    rows_of_one_time_are_not_lost_at_the_bound,
    a_short_claim_makes_a_scan_due,
    a_claim_cut_short_by_its_bytes_makes_no_scan_due,
    a_late_commit_below_the_bound_is_claimed_in_time,
    a_lapsed_lease_below_the_bound_is_claimed_in_time,
    a_retry_below_the_bound_is_claimed_in_time,
    full_scans_take_at_most_a_tenth_of_the_time,
    rows_of_one_claim_come_oldest_first,
    a_backlog_below_the_bound_is_worked_off_from_its_oldest_row,
    a_queue_that_was_always_empty_has_no_bound,
    an_error_leaves_the_cursor_as_it_was,
    a_claim_of_nothing_leaves_the_cursor_as_it_was,
    drainers_with_cursors_hand_out_each_row_once,
);

/// No row waits longer than this below a bound, while claims are made.
const IN_TIME: Duration = Duration::from_secs(5);
const MS: Duration = Duration::from_millis(1);

/// One drainer with its cursor, and a clock that moves when it is told to.
struct Drainer {
    cx: Arc<Context>,
    db: Recording,
    cursor: ClaimCursor,
    /// Microseconds.
    clock: AtomicU64,
    /// What a claim from the start of the queue and one from a bound take.
    scan_takes: Duration,
    bounded_takes: Duration,
}

impl Drainer {
    fn new(cx: &Arc<Context>) -> Self {
        Self {
            db: Recording::new(cx.db.clone()),
            cx: Arc::clone(cx),
            cursor: ClaimCursor::new(),
            clock: AtomicU64::new(0),
            scan_takes: Duration::ZERO,
            bounded_takes: Duration::ZERO,
        }
    }

    fn now(&self) -> Duration {
        Duration::from_micros(self.clock.load(Ordering::SeqCst))
    }

    fn pass(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).expect("a short time");
        self.clock.fetch_add(micros, Ordering::SeqCst);
    }

    async fn try_claim(&mut self, claim: &Claim) -> Result<Vec<OutboxRecord>, DbError> {
        self.db.take();
        let mut cursor = std::mem::take(&mut self.cursor);
        let elapsed = || {
            match self.db.claim_bound() {
                None => {}
                Some(bound) if bound.is_empty() => self.pass(self.scan_takes),
                Some(_) => self.pass(self.bounded_takes),
            }
            self.now()
        };
        let outbox = &self.cx.outbox;
        let answer = outbox
            .claim_through(&self.db, claim, &mut cursor, &elapsed)
            .await;
        self.cursor = cursor;
        answer
    }

    /// Claims up to so many rows, late in the tests' day, and says from where
    /// on it looked: an empty text is the start of the queue.
    async fn claim(&mut self, limit: u64) -> (String, Vec<OutboxRecord>) {
        let claim = Claim::new(at(9_000), at(90_000)).limit(limit);
        let records = self.try_claim(&claim).await.expect("claim");
        let bound = self.db.claim_bound().expect("a claim was sent");
        (bound, records)
    }
}

/// Rows due at 1000 s, 1001 s, …
async fn backlog(cx: &Context, rows: usize) {
    cx.enqueue_each((0..rows).map(|number| (format!("r{number:04}"), at(1_000 + number as u64))))
        .await;
}

async fn the_first_claim_reads_from_the_start(cx: Arc<Context>) {
    backlog(&cx, 3).await;
    let (bound, records) = Drainer::new(&cx).claim(2).await;
    assert_eq!((bound.as_str(), records.len()), ("", 2));
}

async fn a_full_claim_bounds_the_next_by_its_last_row(cx: Arc<Context>) {
    backlog(&cx, 40).await;
    let mut drainer = Drainer::new(&cx);
    drainer.claim(10).await;
    for number in [9, 19, 29] {
        let (bound, records) = drainer.claim(10).await;
        assert_eq!(bound, at(1_000 + number));
        assert_eq!(records[0].id, format!("r{:04}", number + 1));
        assert_eq!(records.len(), 10);
    }
}

async fn rows_of_one_time_are_not_lost_at_the_bound(cx: Arc<Context>) {
    cx.enqueue_numbered(30, &at(5)).await;
    let mut drainer = Drainer::new(&cx);
    let mut all = Vec::new();
    for rows in [7, 7, 7, 7, 2] {
        let (bound, records) = drainer.claim(7).await;
        assert_eq!(records.len(), rows, "from {bound:?} on");
        all.extend(records.into_iter().map(|record| record.id));
    }
    assert_eq!(all, (0..30).map(numbered).collect::<Vec<_>>());
}

async fn a_short_claim_makes_a_scan_due(cx: Arc<Context>) {
    backlog(&cx, 12).await;
    let mut drainer = Drainer::new(&cx);
    drainer.scan_takes = MS;
    drainer.claim(10).await;
    drainer.pass(MS * 20);
    let (bound, records) = drainer.claim(10).await;
    assert_eq!((bound, records.len()), (at(1_009), 2));
    cx.enqueue("below", &at(1)).await;
    let (bound, records) = drainer.claim(10).await;
    assert_eq!((bound.as_str(), ids(&records)), ("", vec!["below"]));
}

async fn a_claim_cut_short_by_its_bytes_makes_no_scan_due(cx: Arc<Context>) {
    let payload = "x".repeat(600);
    for number in 0..6 {
        let id = numbered(number);
        let row = cx
            .outbox
            .enqueue_statement(&id, "t", &payload, None, &at(number as u64));
        cx.db.batch_atomic(&[row]).await.expect("enqueue");
    }
    let claim = Claim::new(at(9_000), at(90_000)).limit(10).max_bytes(1_000);
    let mut drainer = Drainer::new(&cx);
    for number in 0..6 {
        let records = drainer.try_claim(&claim).await.expect("claim");
        assert_eq!(ids(&records), [numbered(number)]);
        let bound = drainer.db.claim_bound().expect("a claim was sent");
        assert_eq!(bound.is_empty(), number == 0, "{bound}");
        drainer.pass(MS * 50);
    }
}

async fn a_late_commit_below_the_bound_is_claimed_in_time(cx: Arc<Context>) {
    for takes in [MS, MS * 700] {
        let mut drainer = under_load(&cx, takes).await;
        cx.enqueue("below", &at(3)).await;
        claimed_in_time(&mut drainer).await;
    }
}

async fn a_lapsed_lease_below_the_bound_is_claimed_in_time(cx: Arc<Context>) {
    for takes in [MS, MS * 700] {
        let mut drainer = under_load(&cx, takes).await;
        cx.enqueue("below", &at(3)).await;
        // A lease of which most has run when the drainer's next claim is made.
        assert_eq!(cx.claim_one(&at(3), &at(600)).await.id, "below");
        claimed_in_time(&mut drainer).await;
    }
}

async fn a_retry_below_the_bound_is_claimed_in_time(cx: Arc<Context>) {
    for takes in [MS, MS * 700] {
        cx.enqueue("below", &at(3)).await;
        cx.claim_one(&at(3), &at(90_000)).await;
        let mut drainer = under_load(&cx, takes).await;
        cx.outbox
            .retry_later(&*cx.db, "below", &at(4))
            .await
            .expect("retry");
        claimed_in_time(&mut drainer).await;
    }
}

/// A drainer that has come some way into a backlog which it will not see the
/// end of, where a full scan takes this long.
async fn under_load(cx: &Arc<Context>, scan_takes: Duration) -> Drainer {
    cx.execute("DELETE FROM outbox WHERE id <> 'below'").await;
    backlog(cx, 2_000).await;
    let mut drainer = Drainer::new(cx);
    drainer.scan_takes = scan_takes;
    drainer.bounded_takes = MS;
    for _ in 0..5 {
        drainer.claim(10).await;
        drainer.pass(MS * 49);
    }
    drainer
}

async fn claimed_in_time(drainer: &mut Drainer) {
    let appeared = drainer.now();
    let mut passed_over = 0;
    loop {
        let (bound, records) = drainer.claim(10).await;
        assert_eq!(records.len(), 10, "it stays under load");
        let waited = drainer.now().saturating_sub(appeared);
        assert!(waited <= IN_TIME, "it still waits after {waited:?}");
        if records.iter().any(|record| record.id == "below") {
            assert_eq!(records[0].id, "below", "it is the oldest");
            assert!(bound.is_empty() && passed_over > 0);
            drainer.cx.complete(&records[0].lease).await;
            return;
        }
        passed_over += 1;
        drainer.pass(MS * 49);
    }
}

async fn full_scans_take_at_most_a_tenth_of_the_time(cx: Arc<Context>) {
    backlog(&cx, 5).await;
    let mut drainer = Drainer::new(&cx);
    drainer.scan_takes = MS * 50;
    drainer.bounded_takes = MS * 2;
    let (mut scans, mut bounded) = (0_u32, 0_u32);
    // Nothing more comes, so that each claim is short and a scan always due.
    while drainer.now() < Duration::from_secs(10) {
        let (bound, _) = drainer.claim(10).await;
        if bound.is_empty() {
            scans += 1;
        } else {
            bounded += 1;
        }
        drainer.pass(MS * 28);
    }
    let scanned = drainer.scan_takes * (scans - 1);
    assert!(
        scanned * 10 <= drainer.now(),
        "{scans} scans and {bounded} bounded claims in {:?}",
        drainer.now()
    );
    assert!(scans > 10, "they run as soon as they may: {scans}");
}

async fn rows_of_one_claim_come_oldest_first(cx: Arc<Context>) {
    for (id, seconds) in [("b", 2), ("A", 3), ("a", 3), ("Z", 3), ("~", 1), ("c", 2)] {
        cx.enqueue(id, &at(seconds)).await;
    }
    let mut drainer = Drainer::new(&cx);
    let (_, records) = drainer.claim(2).await;
    assert_eq!(ids(&records), ["~", "b"]);
    let (_, records) = drainer.claim(4).await;
    assert_eq!(ids(&records), ["c", "A", "Z", "a"]);
}

async fn a_backlog_below_the_bound_is_worked_off_from_its_oldest_row(cx: Arc<Context>) {
    backlog(&cx, 1_000).await;
    let mut drainer = Drainer::new(&cx);
    drainer.claim(10).await;
    drainer.claim(10).await;
    cx.enqueue_each((0..200).map(|number| (format!("below-{number:03}"), at(number))))
        .await;
    let mut below = Vec::new();
    let mut after = 0;
    while below.len() < 200 {
        drainer.pass(MS * 50);
        let (_, records) = drainer.claim(10).await;
        let found = records.iter().filter(|row| row.id.starts_with("below"));
        let before = below.len();
        below.extend(found.map(|row| row.id.clone()));
        if before > 0 {
            after += 1;
            assert_eq!(below.len() - before, 10, "newer rows wait meanwhile");
        }
        assert!(drainer.now() < Duration::from_secs(10), "it starves");
    }
    assert!(below.is_sorted());
    assert_eq!(after, 19);
}

async fn a_queue_that_was_always_empty_has_no_bound(cx: Arc<Context>) {
    let mut drainer = Drainer::new(&cx);
    for _ in 0..5 {
        let (bound, records) = drainer.claim(10).await;
        assert_eq!((bound.as_str(), records.len()), ("", 0));
        drainer.pass(MS * 50);
    }
    cx.enqueue("a", &at(0)).await;
    assert_eq!(ids(&drainer.claim(10).await.1), ["a"]);
}

async fn an_error_leaves_the_cursor_as_it_was(cx: Arc<Context>) {
    backlog(&cx, 100).await;
    let mut drainer = Drainer::new(&cx);
    drainer.claim(10).await;
    drainer.pass(MS * 50);
    let before = format!("{:?}", drainer.cursor);
    for (now, until) in [(at(9_000), at(9_000)), ("now".into(), at(9_000))] {
        let answer = drainer.try_claim(&Claim::new(now, until)).await;
        assert_refused(answer, Kind::InvalidArgument);
        assert_eq!(format!("{:?}", drainer.cursor), before);
    }
    // The rows of this claim are leased, and nobody was told.
    let lossy = Unreliable::new(cx.db.clone());
    let claim = Claim::new(at(9_000), at(9_010)).limit(10);
    let elapsed = || MS * 60;
    let lost = cx
        .outbox
        .claim_through(&lossy, &claim, &mut drainer.cursor, &elapsed)
        .await;
    assert_eq!(lost.expect_err("lost").kind(), Kind::Unavailable);
    assert_eq!(format!("{:?}", drainer.cursor), before);
    let (bound, records) = drainer.claim(10).await;
    assert_eq!(bound, at(1_009));
    assert_eq!(records[0].id, "r0020");
}

async fn a_claim_of_nothing_leaves_the_cursor_as_it_was(cx: Arc<Context>) {
    backlog(&cx, 100).await;
    let mut drainer = Drainer::new(&cx);
    drainer.claim(10).await;
    let before = format!("{:?}", drainer.cursor);
    let nothing = Claim::new(at(9_000), at(90_000)).limit(0);
    cx.enqueue("below", &at(3)).await;
    for _ in 0..3 {
        drainer.pass(Duration::from_secs(2));
        let records = drainer.try_claim(&nothing).await.expect("claim");
        assert_eq!(records, []);
        assert_eq!(format!("{:?}", drainer.cursor), before);
    }
    let (bound, records) = drainer.claim(10).await;
    assert_eq!((bound.as_str(), &*records[0].id), ("", "below"));
}

async fn drainers_with_cursors_hand_out_each_row_once(cx: Arc<Context>) {
    const ROWS: usize = 400;
    backlog(&cx, ROWS).await;
    let taken = Arc::new(AtomicUsize::new(0));
    let other = cx.sandbox.another().await;
    let tasks: Vec<_> = (0..4)
        .map(|task| {
            let mut drainer = Drainer::new(&cx);
            if task >= 2 {
                drainer.db = Recording::new(Arc::clone(&other));
            }
            let taken = Arc::clone(&taken);
            tokio::spawn(async move {
                let mut all = Vec::new();
                while taken.load(Ordering::SeqCst) < ROWS {
                    let (_, records) = drainer.claim(7).await;
                    taken.fetch_add(records.len(), Ordering::SeqCst);
                    for record in records {
                        drainer.cx.complete(&record.lease).await;
                        all.push(record.id);
                    }
                    drainer.pass(MS * 50);
                }
                all
            })
        })
        .collect();
    let mut all = Vec::new();
    for task in tasks {
        all.extend(in_time(task).await.expect("a drainer"));
    }
    all.sort_unstable();
    let expected: Vec<String> = (0..ROWS).map(|number| format!("r{number:04}")).collect();
    assert_eq!(all, expected);
    assert_eq!(cx.count().await, 0);
    assert!(other.now().await.is_ok());
}
