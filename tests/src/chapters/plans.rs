//! Plans: what runs often, or over many rows, reads an index and sorts nothing,
//! however many rows there are beside.
//!
//! The statements are those that an outbox sends, recorded on their way. Each
//! is explained on a table that the database knows nothing of yet, and again
//! once it has counted it.

use std::sync::Arc;

use duebox_core::{
    Claim, ClaimCursor, Database, Dialect, Lease, LeaseOutcome, ListOptions, PARKED, Retry,
    Statement, Value,
};

use super::chapter;
use crate::context::{at, at_micros};
use crate::recording::{Recording, is_claim};
use crate::{Context, Hook, Plan};

chapter!(plans:;
    Hook::Explain =>
    a_claim_reads_the_due_index_and_sorts_nothing,
    a_claim_through_a_cursor_reads_the_due_index_from_its_bound,
    a_claim_leases_rows_by_their_key,
    fenced_calls_find_rows_by_their_key,
    calls_by_id_find_rows_by_their_key,
    statements_for_the_callers_own_batch_find_rows_by_their_key,
    an_operators_calls_find_rows_by_their_key,
    a_page_of_a_list_is_read_in_the_order_of_the_key,
    an_export_reads_the_index_of_subjects,
    an_erasure_finds_rows_by_the_index_of_subjects,
    a_page_of_a_subject_with_many_rows_is_not_sorted,
);

#[derive(Clone, Copy, Debug)]
enum Index {
    Primary,
    Due,
    Subject,
}

impl Index {
    fn is(self, name: &str) -> bool {
        // SQLite keeps no name that a constraint gives, and numbers them.
        match self {
            Self::Primary => name == "primary",
            Self::Due => ["outbox_due", "sqlite_autoindex_outbox_2"].contains(&name),
            Self::Subject => ["outbox_subject", "sqlite_autoindex_outbox_3"].contains(&name),
        }
    }
}

/// The tables that plans are asked on: the larger one, and one so small that
/// MySQL and MariaDB would rather read the whole of it, and lock it.
fn sizes(cx: &Context) -> Vec<u64> {
    match cx.dialect() {
        Dialect::MySql => vec![300, 2_000],
        _ => vec![2_000],
    }
}

/// Fills the outbox with rows in every state, ten of each subject, all of them
/// beside `work` rows that are due before the others and are given back leased.
async fn fill(cx: &Context, rows: u64, work: usize) -> Vec<Lease> {
    cx.execute("DELETE FROM outbox").await;
    let payload = "x".repeat(200);
    for first in (0..rows).step_by(500) {
        let statements: Vec<Statement> = (first..rows.min(first + 500))
            .map(|number| {
                let time = match number % 10 {
                    0 => PARKED.to_owned(),
                    1..=5 => at(10_000 + number),
                    _ => at(1_000 + number),
                };
                let subject = format!("s{}", number / 10);
                let id = format!("r{number:04}");
                cx.outbox
                    .enqueue_statement(&id, "t", &payload, Some(&subject), &time)
            })
            .collect();
        cx.db.batch_atomic(&statements).await.expect("enqueue");
    }
    cx.claim(&at(4_000), &at(50_000), rows / 5).await;
    for number in 0..work {
        cx.enqueue(&format!("w{number}"), &at_micros(number as u64))
            .await;
    }
    let claimed = cx.claim(&at(10), &at(60_000), work as u64).await;
    assert_eq!(claimed.len(), work);
    claimed.into_iter().map(|record| record.lease).collect()
}

async fn analyze(cx: &Context) {
    let sql = match cx.dialect() {
        Dialect::MySql => "ANALYZE TABLE outbox",
        _ => "ANALYZE outbox",
    };
    cx.db.query(&Statement::new(sql)).await.expect("analyze");
}

async fn plan(cx: &Context, statement: &Statement) -> Plan {
    let plan = cx.sandbox.explain(statement).await;
    assert!(!plan.text.is_empty(), "there is a plan");
    plan
}

#[track_caller]
fn assert_reads(plan: &Plan, index: Index, statement: &Statement) {
    let found = plan.indexes.iter().any(|name| index.is(name));
    let said = format!("{statement:?}\nis run as\n{}\n{plan:?}", plan.text);
    assert!(found, "{index:?} is not used:\n{said}");
    assert!(!plan.scans, "the whole table is read:\n{said}");
    assert!(!plan.sorts, "rows are sorted:\n{said}");
}

/// A filled outbox, leases on its first rows, and a handle that remembers what
/// is sent.
struct Filled {
    db: Recording,
    leases: Vec<Lease>,
}

impl Filled {
    async fn new(cx: &Context, rows: u64, work: usize) -> Self {
        Self {
            leases: fill(cx, rows, work).await,
            db: Recording::new(Arc::clone(&cx.db)),
        }
    }

    /// Asks of every statement that was sent.
    async fn reads(&self, cx: &Context, index: Index) {
        let sent = self.db.take();
        assert!(!sent.is_empty());
        for analyzed in [false, true] {
            if analyzed {
                analyze(cx).await;
            }
            for statement in &sent {
                assert_reads(&plan(cx, statement).await, index, statement);
            }
        }
    }
}

/// The part of a claim that reads what is due, which is all of it where a
/// claim takes two statements.
fn reading(dialect: Dialect, claim: &Statement) -> Statement {
    if dialect != Dialect::Postgres {
        return claim.clone();
    }
    let sql = claim.sql().expect("a statement");
    let (_, read) = sql.split_once("AS MATERIALIZED (").expect("a read");
    let (read, _) = read.split_once("\n)").expect("its end");
    let values = claim.values().expect("its values").iter().take(3);
    values.cloned().fold(Statement::new(read.to_owned()), bind)
}

fn bind(statement: Statement, value: Value) -> Statement {
    statement.bind(value)
}

async fn a_claim_reads_the_due_index_and_sorts_nothing(cx: Arc<Context>) {
    for rows in sizes(&cx) {
        fill(&cx, rows, 0).await;
        for analyzed in [false, true] {
            if analyzed {
                analyze(&cx).await;
            }
            for limit in [1, 10, 100] {
                let db = Recording::new(Arc::clone(&cx.db));
                let claimed = cx
                    .outbox
                    .claim_due(&db, &at(20_000), &at(50_000), limit)
                    .await;
                assert!(!claimed.expect("claim").is_empty());
                let sent = db.take();
                let read = reading(cx.dialect(), &sent[0]);
                assert_reads(&plan(&cx, &read).await, Index::Due, &read);
            }
        }
    }
}

async fn a_claim_through_a_cursor_reads_the_due_index_from_its_bound(cx: Arc<Context>) {
    for rows in sizes(&cx) {
        fill(&cx, rows, 0).await;
        let db = Recording::new(Arc::clone(&cx.db));
        let claim = Claim::new(at(20_000), at(50_000)).limit(10);
        let mut cursor = ClaimCursor::new();
        for _ in 0..3 {
            db.take();
            cx.outbox
                .claim_through(&db, &claim, &mut cursor, &|| std::time::Duration::ZERO)
                .await
                .expect("claim");
        }
        assert_ne!(db.claim_bound().expect("a claim"), "", "it is bounded");
        let read = reading(cx.dialect(), &db.take()[0]);
        for analyzed in [false, true] {
            if analyzed {
                analyze(&cx).await;
            }
            assert_reads(&plan(&cx, &read).await, Index::Due, &read);
        }
    }
}

async fn a_claim_leases_rows_by_their_key(cx: Arc<Context>) {
    for rows in sizes(&cx) {
        fill(&cx, rows, 0).await;
        let db = Recording::new(Arc::clone(&cx.db));
        let claimed = cx.outbox.claim_due(&db, &at(20_000), &at(50_000), 10).await;
        assert_eq!(claimed.expect("claim").len(), 10);
        for statement in db.take() {
            let plan = plan(&cx, &statement).await;
            assert!(!plan.scans, "the whole table is read:\n{}", plan.text);
            if !is_claim(&statement) || cx.dialect() == Dialect::Postgres {
                let by_key = plan.indexes.iter().any(|name| Index::Primary.is(name));
                assert!(by_key, "{}", plan.text);
            }
        }
    }
}

async fn fenced_calls_find_rows_by_their_key(cx: Arc<Context>) {
    for which in 0..6 {
        for rows in sizes(&cx) {
            let on = Filled::new(&cx, rows, 3).await;
            let db = &on.db;
            let (outbox, leases, now) = (&cx.outbox, &on.leases, &*at(20));
            let retries: Vec<_> = leases
                .iter()
                .map(|lease| Retry {
                    lease,
                    next_attempt_at: now,
                    error: "no",
                })
                .collect();
            let outcomes = match which {
                0 => outbox.complete_claimed(db, leases).await,
                1 => outbox.retry_claimed(db, now, &retries).await,
                2 => outbox.reschedule_claimed(db, leases, now).await,
                3 => outbox.release_claimed(db, leases, now).await,
                4 => outbox.extend_claimed(db, leases, &at(70_000)).await,
                _ => outbox.park_claimed(db, leases, now, "no").await,
            };
            let outcomes = outcomes.expect("a fenced call");
            assert!(outcomes.into_iter().all(LeaseOutcome::is_held));
            on.reads(&cx, Index::Primary).await;
        }
    }
}

async fn calls_by_id_find_rows_by_their_key(cx: Arc<Context>) {
    for rows in sizes(&cx) {
        let on = Filled::new(&cx, rows, 2).await;
        let db = &on.db;
        let outbox = &cx.outbox;
        outbox.complete(db, "w0").await.expect("complete");
        let retried = outbox.retry_later(db, "w1", &at(20)).await;
        retried.expect("retry");
        assert!(outbox.get(db, "w1").await.expect("get").is_some());
        on.reads(&cx, Index::Primary).await;
    }
}

async fn statements_for_the_callers_own_batch_find_rows_by_their_key(cx: Arc<Context>) {
    for rows in sizes(&cx) {
        let on = Filled::new(&cx, rows, 2).await;
        let db = &on.db;
        let retry = Retry {
            lease: &on.leases[1],
            next_attempt_at: &at(20),
            error: "no",
        };
        let batch = [
            cx.outbox.complete_statement(&on.leases[0]),
            cx.outbox.retry_statement(&at(20), retry),
        ];
        assert_eq!(db.batch_atomic(&batch).await.expect("a batch"), [1, 1]);
        on.reads(&cx, Index::Primary).await;
    }
}

async fn an_operators_calls_find_rows_by_their_key(cx: Arc<Context>) {
    for rows in sizes(&cx) {
        let on = Filled::new(&cx, rows, 3).await;
        let db = &on.db;
        let (outbox, ids) = (&cx.outbox, ["w0", "w1", "w2"]);
        assert_eq!(outbox.release(db, &ids).await.expect("release"), 3);
        let parked = outbox.park(db, &ids, &at(20), "why").await;
        assert_eq!(parked.expect("park"), 3);
        let unparked = outbox.unpark(db, &ids, &at(20)).await;
        assert_eq!(unparked.expect("unpark"), 3);
        assert_eq!(outbox.delete(db, &ids).await.expect("delete"), 3);
        on.reads(&cx, Index::Primary).await;
    }
}

async fn a_page_of_a_list_is_read_in_the_order_of_the_key(cx: Arc<Context>) {
    for rows in sizes(&cx) {
        let on = Filled::new(&cx, rows, 0).await;
        let db = &on.db;
        for options in [
            ListOptions::new().limit(20),
            ListOptions::new().after("r0100").limit(20),
        ] {
            let rows = cx.outbox.list(db, &at(20), &options).await;
            assert_eq!(rows.expect("list").len(), 20);
        }
        on.reads(&cx, Index::Primary).await;
    }
}

async fn an_export_reads_the_index_of_subjects(cx: Arc<Context>) {
    for rows in sizes(&cx) {
        let on = Filled::new(&cx, rows, 0).await;
        let page = cx.outbox.export_subject(&on.db, "s7", None, 5).await;
        assert_eq!(page.expect("export").len(), 5);
        let page = cx
            .outbox
            .export_subject(&on.db, "s7", Some("r0074"), 100)
            .await;
        assert_eq!(page.expect("export").len(), 5);
        of_subjects(&cx, &on.db.take()).await;
    }
}

async fn an_erasure_finds_rows_by_the_index_of_subjects(cx: Arc<Context>) {
    for rows in sizes(&cx) {
        let on = Filled::new(&cx, rows, 0).await;
        let erased = cx.outbox.erase_subject(&on.db, "s7", 5).await;
        assert_eq!(erased.expect("erase"), 5);
        let batch = [cx.outbox.erase_subject_statement("s8")];
        assert_eq!(on.db.batch_atomic(&batch).await.expect("erase"), [10]);
        of_subjects(&cx, &on.db.take()).await;
    }
}

async fn a_page_of_a_subject_with_many_rows_is_not_sorted(cx: Arc<Context>) {
    for rows in sizes(&cx) {
        let on = Filled::new(&cx, rows, 0).await;
        cx.execute("UPDATE outbox SET subject = 'many' WHERE id LIKE '%5' OR id LIKE '%0'")
            .await;
        analyze(&cx).await;
        let page = cx.outbox.export_subject(&on.db, "many", None, 5).await;
        assert_eq!(page.expect("export").len(), 5);
        let erased = cx.outbox.erase_subject(&on.db, "many", 5).await;
        assert_eq!(erased.expect("erase"), 5);
        for statement in on.db.take() {
            let plan = plan(&cx, &statement).await;
            assert!(!plan.scans && !plan.sorts, "{}", plan.text);
        }
    }
}

/// Asks of statements about one subject with few rows. PostgreSQL may sort
/// those few rather than read them in order, once it has found them.
async fn of_subjects(cx: &Context, sent: &[Statement]) {
    let few = cx.dialect() == Dialect::Postgres;
    for analyzed in [false, true] {
        if analyzed {
            analyze(cx).await;
        }
        let mut found = 0;
        for statement in sent {
            let plan = plan(cx, statement).await;
            let by = |index: Index| plan.indexes.iter().any(|name| index.is(name));
            assert!(!plan.scans && (few || !plan.sorts), "{}", plan.text);
            // Where ids are read first, the rows are deleted by their key.
            assert!(by(Index::Subject) || by(Index::Primary), "{}", plan.text);
            let sql = statement.sql().expect("a statement");
            if sql.contains("subject = ?") {
                assert!(by(Index::Subject), "{}", plan.text);
                found += 1;
            }
        }
        assert!(found >= 2, "one for each call");
    }
}
