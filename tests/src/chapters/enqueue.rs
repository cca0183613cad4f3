//! Enqueueing: one row, once, many, by the builder, and handlers that take
//! effect once.

use std::collections::BTreeMap;
use std::sync::Arc;

use duebox_core::chrono::{DateTime, TimeDelta, Utc};
use duebox_core::{Enqueue, Kind, Outcome, Statement, parse_time};

use super::chapter;
use crate::Context;
use crate::context::{account, assert_refused, at};

mod effect;
mod many;

use effect::{
    a_handler_takes_effect_once, a_handler_that_lost_its_lease_takes_no_effect,
    a_lease_that_was_kept_elsewhere_completes_its_row, a_retry_in_a_batch_is_done_with_it,
};
use many::{
    many_are_enqueued_all_or_none, many_are_what_each_alone_would_be,
    none_to_enqueue_touches_nothing, one_that_cannot_be_enqueued_stops_all,
};

chapter!(enqueue:
    a_row_is_written_as_it_is_said,
    an_id_that_is_there_is_a_conflict_until_its_row_is_gone,
    a_row_that_is_there_is_left_as_it_is_by_enqueueing_once,
    of_many_that_enqueue_once_at_once_one_does,
    enqueueing_once_in_a_batch_does_not_stop_it,
    the_builder_writes_what_the_statement_writes,
    an_id_of_the_builder_is_a_ulid_of_the_time,
    a_model_is_kept_as_json,
    what_the_builder_cannot_enqueue_is_carried_into_the_batch,
    many_are_what_each_alone_would_be,
    many_are_enqueued_all_or_none,
    one_that_cannot_be_enqueued_stops_all,
    none_to_enqueue_touches_nothing,
    a_handler_takes_effect_once,
    a_handler_that_lost_its_lease_takes_no_effect,
    a_lease_that_was_kept_elsewhere_completes_its_row,
    a_retry_in_a_batch_is_done_with_it,
);

fn time(seconds: u64) -> DateTime<Utc> {
    parse_time(&at(seconds)).expect("a time")
}

async fn a_row_is_written_as_it_is_said(cx: Arc<Context>) {
    let at_floored = "2026-03-01T00:00:00.123456Z";
    let statement = cx.outbox.enqueue_statement(
        "a",
        "mail.welcome",
        "{}",
        Some("s-17"),
        "2026-03-01T00:00:00.1234569Z",
    );
    assert_eq!(cx.batch(&[statement]).await.expect("enqueue"), [1]);
    let row = cx.entry("a").await;
    assert_eq!((&*row.id, &*row.topic), ("a", "mail.welcome"));
    assert_eq!(row.payload.as_deref(), Some("{}"));
    assert_eq!(row.subject.as_deref(), Some("s-17"));
    assert_eq!((row.attempts, row.claims, row.lapses), (0, 0, 0));
    assert_eq!(row.created_at, at_floored);
    assert_eq!(row.next_attempt_at, at_floored);
    assert_eq!((row.locked_until, row.locked_by), (None, None));
    assert_eq!((row.last_error, row.failed_at), (None, None));
    let rows = cx
        .query(Statement::new(
            "SELECT created_at, visible_at FROM outbox WHERE id = 'a'",
        ))
        .await;
    for column in ["created_at", "visible_at"] {
        assert_eq!(rows[0].get::<String>(column).expect("a time"), at_floored);
    }
}

async fn an_id_that_is_there_is_a_conflict_until_its_row_is_gone(cx: Arc<Context>) {
    cx.enqueue("a", &at(0)).await;
    let before = cx.entry("a").await;
    let again = cx
        .outbox
        .enqueue_statement("a", "other", "other", Some("s"), &at(9));
    let refused = |answer: Result<u64, _>| {
        let error: duebox_core::DbError = answer.expect_err("it is there");
        assert_eq!(error.kind(), Kind::Conflict, "{error}");
        assert_eq!(error.outcome(), Outcome::NotApplied, "{error}");
    };
    refused(cx.db.execute(&again).await);
    let batch = [again.clone(), again.clone()];
    assert_refused(cx.batch(&batch).await, Kind::Conflict);
    assert_eq!(cx.entry("a").await, before);

    let lease = cx.claim_one(&at(0), &at(10)).await.lease;
    refused(cx.db.execute(&again).await);
    let park = cx.outbox.park(&*cx.db, &["a"], &at(1), "no").await;
    assert_eq!(park.expect("park"), 1);
    refused(cx.db.execute(&again).await);
    assert!(!cx.complete(&lease).await.is_held());
    cx.outbox.complete(&*cx.db, "a").await.expect("complete");
    assert_eq!(cx.db.execute(&again).await.expect("the id is free"), 1);
    assert_eq!(cx.entry("a").await.topic, "other");
}

async fn a_row_that_is_there_is_left_as_it_is_by_enqueueing_once(cx: Arc<Context>) {
    let once = |payload| {
        cx.outbox
            .enqueue_once_statement("a", "t", payload, Some("s"), &at(0))
    };
    assert_eq!(cx.db.execute(&once("first")).await.expect("enqueue"), 1);
    let before = cx.entry("a").await;
    for _ in 0..2 {
        assert_eq!(cx.db.execute(&once("second")).await.expect("no error"), 0);
        let counts = cx.batch(&[once("second"), once("third")]).await;
        assert_eq!(counts.expect("no error"), [0, 0]);
    }
    assert_eq!(cx.entry("a").await, before);
    // Nor does it touch a lease, or a row that is parked.
    let lease = cx.claim_one(&at(0), &at(10)).await.lease;
    let leased = cx.entry("a").await;
    assert_eq!(cx.db.execute(&once("second")).await.expect("no error"), 0);
    assert_eq!(cx.entry("a").await, leased);
    assert!(cx.complete(&lease).await.is_held());
    assert_eq!(cx.db.execute(&once("again")).await.expect("enqueue"), 1);
    assert_eq!(cx.entry("a").await.payload.as_deref(), Some("again"));
}

async fn of_many_that_enqueue_once_at_once_one_does(cx: Arc<Context>) {
    let other = cx.sandbox.another().await;
    for round in 0..5 {
        let id = format!("r{round}");
        let tasks: Vec<_> = (0..16)
            .map(|number| {
                let payload = number.to_string();
                let once = cx
                    .outbox
                    .enqueue_once_statement(&id, "t", &payload, None, &at(0));
                let db = if number % 2 == 0 { &cx.db } else { &other };
                let db = Arc::clone(db);
                tokio::spawn(async move {
                    let counts = db.batch_atomic(&[once]).await.expect("no conflict");
                    (payload, counts[0])
                })
            })
            .collect();
        let mut first = Vec::new();
        for task in tasks {
            let (payload, count) = task.await.expect("a task");
            if count > 0 {
                assert_eq!(count, 1);
                first.push(payload);
            }
        }
        assert_eq!(first.len(), 1, "one of them has enqueued");
        assert_eq!(cx.entry(&id).await.payload.as_ref(), Some(&first[0]));
    }
}

async fn enqueueing_once_in_a_batch_does_not_stop_it(cx: Arc<Context>) {
    cx.make_account().await;
    cx.enqueue("a", &at(0)).await;
    let once = cx
        .outbox
        .enqueue_once_statement("a", "t", "p", None, &at(0));
    let counts = cx.batch(&[account("x"), once.clone(), account("y")]).await;
    assert_eq!(counts.expect("a batch"), [1, 0, 1]);
    // Whoever must know says how many rows it has to touch.
    let answer = cx.batch(&[account("z"), once.expect_rows(1)]).await;
    assert_refused(answer, Kind::RowCount);
    assert_eq!(cx.count_in("account").await, 2);
}

async fn the_builder_writes_what_the_statement_writes(cx: Arc<Context>) {
    let said = cx
        .outbox
        .enqueue_statement("a", "t", "p", Some("s"), &at(5));
    let work = |id: &str| {
        Enqueue::new("t")
            .id(id)
            .payload("p")
            .subject("s")
            .at(time(5) + TimeDelta::nanoseconds(999))
    };
    cx.batch(&[said]).await.expect("enqueue");
    let built = [
        cx.outbox.enqueue(work("b")),
        cx.outbox.enqueue_once(work("c")),
        cx.outbox.enqueue_once(work("c")),
        cx.outbox.enqueue(Enqueue::new("t").id("d").at(time(5))),
    ];
    assert_eq!(cx.batch(&built).await.expect("enqueue"), [1, 1, 0, 1]);
    let said = cx.entry("a").await;
    for id in ["b", "c"] {
        let mut built = cx.entry(id).await;
        built.id.clone_from(&said.id);
        assert_eq!(built, said);
    }
    let least = cx.entry("d").await;
    assert_eq!((least.payload.as_deref(), least.subject), (Some(""), None));
    assert_refused(
        cx.batch(&[cx.outbox.enqueue(work("b"))]).await,
        Kind::Conflict,
    );
}

async fn an_id_of_the_builder_is_a_ulid_of_the_time(cx: Arc<Context>) {
    const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let now = time(86_399) + TimeDelta::milliseconds(123);
    let work: Vec<_> = (0..50).map(|_| Enqueue::new("t").at(now)).collect();
    let batch: Vec<_> = work
        .into_iter()
        .map(|work| cx.outbox.enqueue(work))
        .collect();
    cx.batch(&batch).await.expect("no two ids are alike");
    let millis = u64::try_from(now.timestamp_millis()).expect("after 1970");
    let head: String = (0..10)
        .rev()
        .map(|place| char::from(DIGITS[(millis >> (5 * place) & 31) as usize]))
        .collect();
    let records = cx.claim(&at(90_000), &at(90_010), 99).await;
    assert_eq!(records.len(), 50);
    for record in records {
        assert_eq!(record.id.len(), 26);
        assert!(record.id.starts_with(&head), "{} {head}", record.id);
        assert!(record.id.bytes().all(|byte| DIGITS.contains(&byte)));
    }
    let known = Enqueue::new_id(now);
    assert!(known.starts_with(&head));
    cx.batch(&[cx.outbox.enqueue(Enqueue::new("t").id(&*known).at(now))])
        .await
        .expect("an id that the caller knows");
    assert_eq!(cx.entry(&known).await.topic, "t");
    // Before 1970 a ULID has no time; the row has.
    let early = parse_time("1066-10-14T09:00:00Z").expect("a time");
    let work = Enqueue::new("early").at(early);
    cx.batch(&[cx.outbox.enqueue(work)]).await.expect("enqueue");
    let record = cx.claim_one(&at(0), &at(10)).await;
    assert_eq!((&*record.topic, record.id.len()), ("early", 26));
    assert_eq!(record.created_at, "1066-10-14T09:00:00.000000Z");
}

async fn a_model_is_kept_as_json(cx: Arc<Context>) {
    let model = BTreeMap::from([("to", vec!["ada@example.com", "\"é\\\0\n😀"])]);
    let work = Enqueue::new("t").json(&model).expect("it can be JSON");
    cx.batch(&[cx.outbox.enqueue(work.at(time(0)))])
        .await
        .expect("enqueue");
    let record = cx.claim_one(&at(0), &at(10)).await;
    assert_eq!(
        record.payload,
        r#"{"to":["ada@example.com","\"é\\\u0000\n😀"]}"#
    );
    // A map whose keys are no texts is no JSON.
    let none = BTreeMap::from([((1, 2), "secret")]);
    let error = Enqueue::new("t").json(&none).expect_err("no JSON");
    assert_eq!(error.kind(), Kind::InvalidArgument, "{error}");
    assert!(!error.to_string().contains("secret"), "{error}");
}

async fn what_the_builder_cannot_enqueue_is_carried_into_the_batch(cx: Arc<Context>) {
    let good = || Enqueue::new("t").at(time(0));
    for (what, work) in [
        ("no time", Enqueue::new("t").id("a")),
        ("no topic", Enqueue::new("").at(time(0))),
        ("a topic", Enqueue::new("t\n").at(time(0))),
        ("no id", good().id("")),
        ("an id", good().id("a b")),
        ("no subject", good().subject("")),
        ("a subject", good().subject("s\0")),
        ("a payload", good().payload("p\0")),
        ("a year", good().at(DateTime::<Utc>::MAX_UTC)),
    ] {
        for statement in [
            cx.outbox.enqueue(work.clone()),
            cx.outbox.enqueue_once(work.clone()),
            cx.outbox.enqueue_many_statement([good(), work.clone()]),
        ] {
            statement.sql().expect_err(what);
            statement.values().expect_err(what);
            statement.render(cx.dialect()).expect_err(what);
            cx.refuses(statement.clone(), Kind::InvalidArgument, what)
                .await;
            assert_refused(cx.db.execute(&statement).await, Kind::InvalidArgument);
        }
    }
    assert_eq!(cx.count().await, 0);
}
