//! Personal data: no error, no `Debug` and no panic shows what a row holds.
//!
//! Databases and drivers quote rows and values in their messages. Each test
//! puts a mark wherever personal data can stand, makes things fail, and looks
//! for the mark in all that can be printed.

mod refused;

use std::error::Error;
use std::fmt::Debug;
use std::panic::catch_unwind;
use std::sync::Arc;

use duebox_core::{
    Claim, Columns, Database, DbError, Dialect, Enqueue, Kind, ListOptions, Outbox, ReadThenWrite,
    Retry, Row, Statement, Value, parse_time,
};

use self::refused::{make_people, refused_by_the_database};
use super::chapter;
use crate::broken::quietly;
use crate::context::{at, in_time};
use crate::{Context, Hook};

chapter!(privacy:
    errors_of_enqueueing_show_nothing_of_the_row,
    errors_of_refused_arguments_show_nothing_of_them,
    errors_of_the_callers_own_statements_show_no_value,
    errors_inside_a_read_and_its_writes_show_no_value,
    errors_of_reading_a_row_show_no_value,
    errors_of_a_corrupt_row_show_nothing_of_it,
    errors_of_a_missing_table_show_no_value,
    debug_of_what_holds_a_row_hides_it,
    a_panic_over_a_name_does_not_repeat_it;
    Hook::Cut => errors_of_a_lost_connection_show_no_value,
);

/// What must not be seen. Short enough for a time's column.
const MARK: &str = "S3cretMark";

/// Fails if the mark can be read from what is printed, as text or as bytes.
#[track_caller]
fn assert_hidden(printed: &str) {
    let bytes = format!("{:?}", MARK.as_bytes());
    let bytes = bytes.trim_matches(['[', ']']);
    let shown = printed.to_lowercase().contains(&MARK.to_lowercase()) || printed.contains(bytes);
    assert!(!shown, "it shows personal data: {printed}");
}

#[track_caller]
fn assert_debug_hides(value: &dyn Debug) {
    assert_hidden(&format!("{value:?}"));
    assert_hidden(&format!("{value:#?}"));
}

/// Looks at everything an error can be made to print.
#[track_caller]
fn assert_error_hides(error: &DbError) {
    assert_hidden(&error.to_string());
    assert_debug_hides(error);
    assert_hidden(error.code().unwrap_or_default());
    assert_hidden(error.constraint().unwrap_or_default());
    let mut source: Option<&dyn Error> = error.source();
    while let Some(cause) = source {
        assert_hidden(&cause.to_string());
        assert_hidden(&format!("{cause:?}"));
        source = cause.source();
    }
}

/// Takes the error that there must be, and looks at it.
#[track_caller]
fn fails<T>(what: &str, answer: Result<T, DbError>) -> DbError {
    let Err(error) = answer else {
        panic!("{what} is no error");
    };
    assert_error_hides(&error);
    error
}

fn marked(text: &str) -> String {
    format!("{text}{MARK}")
}

/// A row with a mark in its payload and its subject.
fn marked_row(outbox: &Outbox, id: &str) -> Statement {
    outbox.enqueue_statement(id, "t", &marked("to "), Some(&marked("for ")), &at(0))
}

async fn errors_of_enqueueing_show_nothing_of_the_row(cx: Arc<Context>) {
    let row = marked_row(&cx.outbox, "a");
    cx.db.execute(&row).await.expect("enqueue");
    let time = parse_time(&at(0)).expect("a time");
    let many = cx.outbox.enqueue_many_statement(["b", "a"].map(|id| {
        let work = Enqueue::new("t").id(id).payload(MARK).subject(MARK);
        work.at(time)
    }));
    for statement in [row.clone(), row.clone().expect_rows(1), many] {
        let error = fails("an id that is there", cx.db.execute(&statement).await);
        assert_eq!(error.kind(), Kind::Conflict);
        let batch = [marked_row(&cx.outbox, "c"), statement];
        let error = fails("an id that is there", cx.db.batch_atomic(&batch).await);
        assert_eq!(error.kind(), Kind::Conflict);
    }
    let none = row.clone().expect_rows(7);
    fails("another count", cx.db.execute(&none).await);
}

async fn errors_of_refused_arguments_show_nothing_of_them(cx: Arc<Context>) {
    let control = marked("\u{7}");
    let long = MARK.repeat(30);
    let huge = MARK.repeat(1_000_000);
    let nul = marked("\0");
    let outbox = &cx.outbox;
    let statements = [
        outbox.enqueue_statement("a", &control, "", None, &at(0)),
        outbox.enqueue_statement("a", "t", &nul, None, &at(0)),
        outbox.enqueue_statement("a", "t", &huge, None, &at(0)),
        outbox.enqueue_statement("a", "t", "", Some(&control), &at(0)),
        outbox.enqueue_statement("a", "t", "", Some(&long), &at(0)),
        outbox.enqueue_statement("a", "t", "", None, MARK),
        outbox.enqueue_statement("a", "t", MARK, Some(MARK), ""),
        outbox.enqueue_statement(&long, "t", MARK, Some(MARK), &at(0)),
        outbox.enqueue(Enqueue::new("t").payload(MARK).subject(MARK)),
        outbox.enqueue_once_statement("", "t", MARK, Some(MARK), &at(0)),
        outbox.enqueue_many_statement([Enqueue::new("t").subject(&control)]),
        outbox.erase_subject_statement(&control),
        Statement::new("SELECT ?").bind(MARK).bind(MARK),
        Statement::new("SELECT '").bind(MARK),
        Statement::new("COMMIT").bind(MARK),
        outbox
            .enqueue_statement("a", "t", MARK, None, &at(0))
            .bind(MARK),
    ];
    for statement in &statements {
        assert_debug_hides(statement);
        fails("a refused statement", cx.db.execute(statement).await);
        fails("a refused statement", cx.db.query(statement).await);
        let batch = [marked_row(outbox, "b"), statement.clone()];
        fails("a refused statement", cx.db.batch_atomic(&batch).await);
        fails("a refused statement", statement.render(cx.dialect()));
    }
    let db = &*cx.db;
    fails(
        "a subject",
        outbox.export_subject(db, &control, None, 1).await,
    );
    fails("a subject", outbox.erase_subject(db, &long, 1).await);
    fails("a time", outbox.claim_due(db, MARK, &at(1), 1).await);
    fails("a time", outbox.retry_later(db, "a", MARK).await);
    fails("an id", outbox.complete(db, &long).await);
    let claim = Claim::new(at(0), at(1)).locked_by(&control);
    fails("a holder", outbox.claim(db, &claim).await);
    assert_eq!(cx.count().await, 0);
}

async fn errors_of_the_callers_own_statements_show_no_value(cx: Arc<Context>) {
    make_people(&cx).await;
    for (statement, kind) in refused_by_the_database() {
        assert_debug_hides(&statement);
        let batch = [marked_row(&cx.outbox, "a"), statement.clone()];
        let answers = [
            cx.db.batch_atomic(&batch).await.map(drop),
            cx.db.query(&statement).await.map(drop),
            cx.db.execute(&statement).await.map(drop),
        ];
        for (place, answer) in answers.into_iter().enumerate() {
            // A query counts nothing, so it expects nothing.
            let said = kind.filter(|kind| *kind != Kind::RowCount || place != 1);
            match (answer, said) {
                (Err(error), said) => {
                    assert_error_hides(&error);
                    if let Some(kind) = said {
                        assert_eq!(error.kind(), kind, "{error}");
                    }
                }
                (Ok(()), None) => {}
                (Ok(()), Some(kind)) => panic!("no {kind} error of {statement:?}"),
            }
        }
        // What a lenient database took is in the way of the next.
        let delete = Statement::new("DELETE FROM person WHERE id <> ?").bind(MARK);
        cx.db.execute(&delete).await.expect("clean up");
        cx.execute("DELETE FROM outbox").await;
        let mail = Statement::new("UPDATE person SET mail = ?, age = 30").bind(MARK);
        cx.db.execute(&mail).await.expect("clean up");
    }
}

async fn errors_inside_a_read_and_its_writes_show_no_value(cx: Arc<Context>) {
    make_people(&cx).await;
    let read = Statement::new("SELECT id, mail FROM person WHERE mail = ?").bind(MARK);
    for (write, kind) in refused_by_the_database() {
        let step = ReadThenWrite::new(read.clone(), move |_| Ok(vec![write.clone()]));
        assert_debug_hides(&step);
        match (cx.db.read_then_write(&step).await, kind) {
            (Err(error), _) => assert_error_hides(&error),
            (Ok(_), Some(kind)) => panic!("no {kind} error"),
            (Ok(_), None) => {}
        }
    }
    let refuses = ReadThenWrite::new(read.clone(), |rows| {
        Err(rows[0].get::<i64>("mail").expect_err("it is a text"))
    });
    fails(
        "a step that gives up",
        cx.db.read_then_write(&refuses).await,
    );
    let nowhere = Statement::new("SELECT id FROM nowhere WHERE id = ?").bind(MARK);
    let nowhere = ReadThenWrite::new(nowhere, |_| Ok(Vec::new()));
    fails("a missing table", cx.db.read_then_write(&nowhere).await);
}

async fn errors_of_reading_a_row_show_no_value(cx: Arc<Context>) {
    cx.db
        .execute(&marked_row(&cx.outbox, "a"))
        .await
        .expect("enqueue");
    let select = Statement::new("SELECT payload, subject, locked_by FROM outbox WHERE subject = ?");
    let rows = cx.db.query(&select.bind(marked("for "))).await;
    let row = rows.expect("query").remove(0);
    assert_debug_hides(&row);
    let error = fails("another type", row.get::<i64>("payload"));
    assert_eq!(error.kind(), Kind::Corrupt);
    fails("another type", row.get::<bool>("subject"));
    fails("another type", row.get::<f64>("subject"));
    fails("a missing column", row.get::<String>("topic"));
    fails("NULL", row.get::<String>("locked_by"));
    let unreadable = Statement::per_dialect(
        "SELECT point(1, 2) AS place, payload FROM outbox WHERE subject = ?",
        "SELECT nowhere(payload) AS place FROM outbox WHERE subject = ?",
        "SELECT POINT(1, 2) AS place, payload FROM outbox WHERE subject = ?",
    );
    let unreadable = unreadable.bind(marked("for "));
    fails("an unreadable type", cx.db.query(&unreadable).await);
}

async fn errors_of_a_corrupt_row_show_nothing_of_it(cx: Arc<Context>) {
    cx.db
        .execute(&marked_row(&cx.outbox, "a"))
        .await
        .expect("enqueue");
    let ruin = Statement::new("UPDATE outbox SET next_attempt_at = ?, created_at = ?");
    let ruin = ruin.bind(format!("0{MARK}")).bind(MARK);
    cx.db.execute(&ruin).await.expect("ruin the row");
    let error = fails(
        "a time that is none",
        cx.outbox.stats(&*cx.db, &at(1)).await,
    );
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
}

async fn errors_of_a_missing_table_show_no_value(cx: Arc<Context>) {
    cx.enqueue("a", &at(0)).await;
    let leases = [cx.claim_one(&at(0), &at(9)).await.lease];
    let row = marked_row(&cx.outbox, "b");
    cx.execute("DROP TABLE outbox").await;
    let (db, outbox, now) = (&*cx.db, &cx.outbox, at(1));
    let retry = Retry {
        lease: &leases[0],
        next_attempt_at: &now,
        error: MARK,
    };
    let named = Claim::new(at(1), at(2)).locked_by(MARK);
    let answers = [
        db.execute(&row).await.map(drop),
        db.batch_atomic(&[row]).await.map(drop),
        outbox.claim(db, &named).await.map(drop),
        outbox.complete_claimed(db, &leases).await.map(drop),
        outbox.retry_claimed(db, &now, &[retry]).await.map(drop),
        outbox.park_claimed(db, &leases, &now, MARK).await.map(drop),
        outbox.park(db, &["a"], &now, MARK).await.map(drop),
        outbox.export_subject(db, MARK, None, 9).await.map(drop),
        outbox.erase_subject(db, MARK, 9).await.map(drop),
        db.execute(&outbox.retry_statement(&now, retry))
            .await
            .map(drop),
        db.execute(&outbox.erase_subject_statement(MARK))
            .await
            .map(drop),
    ];
    for answer in answers {
        let error = fails("a missing table", answer);
        assert_eq!(error.kind(), Kind::Schema, "{error}");
    }
}

async fn debug_of_what_holds_a_row_hides_it(cx: Arc<Context>) {
    let row = marked_row(&cx.outbox, "a");
    assert_debug_hides(&row);
    assert_debug_hides(&row.render(Dialect::MySql).expect("a statement"));
    assert_debug_hides(&row.values().expect("its values"));
    for value in [
        Value::from(MARK),
        Value::from(MARK.as_bytes()),
        Value::TextArray(vec![Some(MARK.into())]),
    ] {
        assert_debug_hides(&Some(value.clone()));
        assert_debug_hides(&Row::new(Columns::new(["column"]), vec![value]));
    }
    let work = Enqueue::new("t").payload(MARK).subject(MARK);
    assert_debug_hides(&work);
    let many = cx.outbox.enqueue_many_statement([work]);
    assert_debug_hides(&many);
    assert_debug_hides(&cx.outbox.erase_subject_statement(MARK));

    cx.db.execute(&row).await.expect("enqueue");
    let record = cx.claim_one(&at(0), &at(9)).await;
    assert!(record.payload.contains(MARK));
    assert_debug_hides(&record);
    let retry = Retry {
        lease: &record.lease,
        next_attempt_at: &at(1),
        error: MARK,
    };
    assert_debug_hides(&retry);
    assert_debug_hides(&cx.outbox.retry_statement(&at(1), retry));
    let retried = cx.outbox.retry_claimed(&*cx.db, &at(1), &[retry]).await;
    assert!(retried.expect("retry")[0].is_held());
    let entry = cx.entry("a").await;
    assert!(entry.last_error.as_deref() == Some(MARK));
    assert_debug_hides(&entry);
    let all = cx.outbox.list(&*cx.db, &at(1), &ListOptions::new()).await;
    assert_debug_hides(&all.expect("list"));
    let subject = marked("for ");
    let all = cx.outbox.export_subject(&*cx.db, &subject, None, 9).await;
    assert_debug_hides(&all.expect("export"));
    assert_debug_hides(&cx.outbox);
}

async fn a_panic_over_a_name_does_not_repeat_it(_: Arc<Context>) {
    for name in [
        MARK.to_owned(),
        format!("x; DROP TABLE {MARK}"),
        MARK.repeat(9),
    ] {
        let error = Outbox::try_new(&*name).expect_err("an impossible name");
        assert_error_hides(&error);
        let panic = quietly(|| catch_unwind(|| Outbox::new(name)));
        let panic = panic.expect_err("it panics");
        let said = panic.downcast_ref::<String>().expect("a message");
        assert_eq!(*said, error.to_string());
    }
}

async fn errors_of_a_lost_connection_show_no_value(cx: Arc<Context>) {
    let mut lost = 0;
    for round in 0..20 {
        let calling = {
            let cx = Arc::clone(&cx);
            tokio::spawn(async move {
                let mut answers = Vec::new();
                for number in 0..10 {
                    let id = format!("{round}-{number}");
                    let batch = [
                        marked_row(&cx.outbox, &id),
                        marked_row(&cx.outbox, &(id + "b")),
                    ];
                    answers.push(cx.db.batch_atomic(&batch).await.map(drop));
                    let subject = marked("for ");
                    answers.push(
                        cx.outbox
                            .erase_subject(&*cx.db, &subject, 1)
                            .await
                            .map(drop),
                    );
                }
                answers
            })
        };
        while !calling.is_finished() {
            in_time(cx.sandbox.cut()).await;
        }
        for answer in in_time(calling).await.expect("the calls") {
            if let Err(error) = answer {
                assert_error_hides(&error);
                lost += 1;
            }
        }
    }
    assert!(lost > 0, "no call lost its connection");
}
