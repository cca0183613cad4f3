//! Batches: all of it or none of it, and how many rows each statement touched.

use std::sync::Arc;

use duebox_core::{Dialect, Kind, Outcome, Statement};

use super::chapter;
use crate::Context;
use crate::context::{account, assert_refused, at, numbered};

mod at_once;
mod refused;

use at_once::{
    a_constraint_that_waits_for_the_commit_undoes_its_batch_alone,
    a_failed_batch_among_many_is_alone_in_failing, a_hundred_failed_batches_leave_a_usable_pool,
    a_refused_statement_among_many_at_once_leaves_no_row, of_many_writers_of_one_version_one_wins,
    two_hundred_batches_and_claims_at_once_all_end,
};
use refused::{
    a_batch_undoes_ddl_or_refuses_it, a_statement_with_an_error_stops_its_batch_before_it_runs,
    statements_of_a_transaction_are_refused, what_a_rollback_would_not_undo_is_refused_in_a_batch,
    words_of_a_transaction_inside_text_are_no_transaction,
};

chapter!(batch:
    a_batch_that_fails_in_the_middle_leaves_nothing,
    a_second_row_of_a_unique_key_is_a_conflict,
    a_refusal_by_a_constraint_names_it_and_leaves_nothing,
    a_missing_table_or_column_is_an_error_of_the_schema,
    state_and_work_are_stored_together_or_not_at_all,
    another_number_of_rows_than_expected_undoes_the_batch,
    execute_with_expected_rows_is_a_batch_of_one,
    counts_are_of_rows_inserted_updated_and_deleted,
    a_query_that_changes_rows_changes_them,
    a_statement_sees_what_came_before_it,
    an_empty_batch_touches_nothing,
    statements_of_a_transaction_are_refused,
    words_of_a_transaction_inside_text_are_no_transaction,
    what_a_rollback_would_not_undo_is_refused_in_a_batch,
    a_batch_undoes_ddl_or_refuses_it,
    a_statement_with_an_error_stops_its_batch_before_it_runs,
    a_hundred_failed_batches_leave_a_usable_pool,
    two_hundred_batches_and_claims_at_once_all_end,
    a_failed_batch_among_many_is_alone_in_failing,
    a_refused_statement_among_many_at_once_leaves_no_row,
    of_many_writers_of_one_version_one_wins,
    a_constraint_that_waits_for_the_commit_undoes_its_batch_alone,
);

const MEMBER: &str = "CREATE TABLE member (
    id VARCHAR(64) NOT NULL PRIMARY KEY,
    email VARCHAR(64) NOT NULL,
    age BIGINT NOT NULL,
    CONSTRAINT member_email UNIQUE (email),
    CONSTRAINT member_age CHECK (age >= 0)
)";

fn member(id: &str, email: Option<&str>, age: i64) -> Statement {
    Statement::new("INSERT INTO member (id, email, age) VALUES (?, ?, ?)")
        .bind(id)
        .bind(email)
        .bind(age)
}

async fn a_batch_that_fails_in_the_middle_leaves_nothing(cx: Arc<Context>) {
    cx.make_account().await;
    let answer = cx.batch(&[account("a"), account("a"), account("b")]).await;
    assert_refused(answer, Kind::Conflict);
    assert_eq!(cx.count_in("account").await, 0);

    cx.batch(&[account("a"), account("b")])
        .await
        .expect("insert");
    let answer = cx
        .batch(&[
            Statement::new("UPDATE account SET version = 7"),
            Statement::new("DELETE FROM account WHERE id = ?").bind("b"),
            account("a"),
        ])
        .await;
    assert_refused(answer, Kind::Conflict);
    let rows = cx
        .query(Statement::new(
            "SELECT COUNT(*) AS n FROM account WHERE version = 0",
        ))
        .await;
    assert_eq!(rows[0].get::<i64>("n").expect("a count"), 2);
}

async fn a_second_row_of_a_unique_key_is_a_conflict(cx: Arc<Context>) {
    cx.execute(MEMBER).await;
    let first = member("a", Some("ada@example.com"), 36);
    assert_eq!(cx.batch(&[first]).await.expect("insert"), [1]);
    for again in [
        member("a", Some("other@example.com"), 36),
        member("b", Some("ada@example.com"), 36),
    ] {
        let error = cx.db.execute(&again).await.expect_err("it is there");
        assert_eq!(error.kind(), Kind::Conflict, "{error}");
        assert_eq!(error.outcome(), Outcome::NotApplied, "{error}");
        assert!(error.code().is_some(), "{error}");
        assert!(!error.is_retryable(), "{error}");
        assert_refused(cx.batch(&[again]).await, Kind::Conflict);
    }
    assert_eq!(cx.count_in("member").await, 1);
}

async fn a_refusal_by_a_constraint_names_it_and_leaves_nothing(cx: Arc<Context>) {
    cx.execute(MEMBER).await;
    let good = || member("a", Some("a@example.com"), 1);
    for bad in [
        member("b", None, 1),
        member("b", Some("b@example.com"), -1),
        Statement::new("UPDATE member SET age = ?").bind(None::<i64>),
    ] {
        let answer = cx.batch(&[good(), bad]).await;
        assert_refused(answer, Kind::Constraint);
        assert_eq!(cx.count_in("member").await, 0);
    }
    let check = member("b", Some("b@example.com"), -1);
    let error = cx.db.execute(&check).await.expect_err("below zero");
    assert_eq!(error.kind(), Kind::Constraint, "{error}");
    assert_eq!(error.constraint(), Some("member_age"), "{error}");
}

async fn a_missing_table_or_column_is_an_error_of_the_schema(cx: Arc<Context>) {
    cx.make_account().await;
    for sql in [
        "INSERT INTO nowhere (id) VALUES (?)",
        "UPDATE account SET missing = ?",
        "INSERT INTO account (id, missing) VALUES ('b', ?)",
    ] {
        let statement = Statement::new(sql).bind("x");
        assert_refused(cx.db.execute(&statement).await, Kind::Schema);
        let answer = cx.batch(&[account("a"), statement]).await;
        assert_refused(answer, Kind::Schema);
    }
    let answer = cx.db.query(&Statement::new("SELECT id FROM nowhere")).await;
    assert_eq!(answer.expect_err("no table").kind(), Kind::Schema);
    assert_eq!(cx.count_in("account").await, 0);
}

async fn state_and_work_are_stored_together_or_not_at_all(cx: Arc<Context>) {
    cx.make_account().await;
    cx.enqueue("there", &at(0)).await;
    let enqueue = |id| cx.outbox.enqueue_statement(id, "t", "p", None, &at(0));
    let counts = cx.batch(&[account("a"), enqueue("a")]).await;
    assert_eq!(counts.expect("both"), [1, 1]);

    let answer = cx.batch(&[account("b"), enqueue("there")]).await;
    assert_refused(answer, Kind::Conflict);
    let answer = cx.batch(&[enqueue("b"), account("a")]).await;
    assert_refused(answer, Kind::Conflict);
    let answer = cx
        .batch(&[
            enqueue("b"),
            account("b"),
            Statement::new("DELETE FROM nowhere"),
        ])
        .await;
    assert_refused(answer, Kind::Schema);
    assert_eq!(cx.count_in("account").await, 1);
    assert_eq!(cx.count().await, 2);
}

async fn another_number_of_rows_than_expected_undoes_the_batch(cx: Arc<Context>) {
    cx.make_account().await;
    cx.batch(&[account("a"), account("b")])
        .await
        .expect("insert");
    let update = || Statement::new("UPDATE account SET version = version + 1");
    for (expected, statement) in [
        (1, update()),
        // The row of this very batch counts too.
        (2, update()),
        (4, update()),
        (
            0,
            Statement::new("DELETE FROM account WHERE id = ?").bind("a"),
        ),
        (
            1,
            Statement::new("DELETE FROM account WHERE id = ?").bind("z"),
        ),
        (1, Statement::new("SELECT id FROM account WHERE id = 'a'")),
    ] {
        let batch = [
            account("c"),
            statement.expect_rows(expected),
            account("d"),
            cx.outbox.enqueue_statement("w", "t", "p", None, &at(0)),
        ];
        let error = cx.batch(&batch).await.expect_err("another number of rows");
        assert_eq!(error.kind(), Kind::RowCount, "{error}");
        assert_eq!(error.outcome(), Outcome::NotApplied, "{error}");
        assert_eq!(error.statement(), Some(1), "{error}");
        assert!(!error.is_retryable(), "{error}");
    }
    let rows = cx
        .query(Statement::new(
            "SELECT COUNT(*) AS n FROM account WHERE version = 0",
        ))
        .await;
    assert_eq!(rows[0].get::<i64>("n").expect("a count"), 2);
    assert_eq!((cx.count_in("account").await, cx.count().await), (2, 0));

    let batch = [
        account("c").expect_rows(1),
        update().expect_rows(3),
        Statement::new("DELETE FROM account WHERE id = ?")
            .bind("z")
            .expect_rows(0),
        Statement::new("SELECT id FROM account").expect_rows(0),
    ];
    assert_eq!(cx.batch(&batch).await.expect("as expected"), [1, 3, 0, 0]);
}

async fn execute_with_expected_rows_is_a_batch_of_one(cx: Arc<Context>) {
    cx.make_account().await;
    cx.batch(&[account("a"), account("b")])
        .await
        .expect("insert");
    let update = Statement::new("UPDATE account SET version = 1");
    let answer = cx.db.execute(&update.clone().expect_rows(1)).await;
    assert_refused(answer, Kind::RowCount);
    let unchanged = "SELECT COUNT(*) AS n FROM account WHERE version = 0";
    let rows = cx.query(Statement::new(unchanged)).await;
    assert_eq!(rows[0].get::<i64>("n").expect("a count"), 2);
    let answer = cx.db.execute(&update.expect_rows(2)).await;
    assert_eq!(answer.expect("as expected"), 2);
}

async fn counts_are_of_rows_inserted_updated_and_deleted(cx: Arc<Context>) {
    cx.make_account().await;
    let mut steps = vec![
        ("INSERT INTO account (id, name) VALUES ('a', 'x')", 1),
        (
            "INSERT INTO account (id, name) VALUES ('b', 'x'), ('c', 'y')",
            2,
        ),
        ("UPDATE account SET version = 1 WHERE name = 'x'", 2),
        // Set to what they hold.
        ("UPDATE account SET version = 1 WHERE name = 'x'", 2),
        ("UPDATE account SET version = version", 3),
        ("UPDATE account SET version = 1 WHERE id = 'z'", 0),
        ("SELECT id FROM account", 0),
        (
            "INSERT INTO account (id, name) SELECT 'd', name FROM account WHERE id = 'a'",
            1,
        ),
    ];
    if cx.dialect() != Dialect::MySql {
        steps.push((
            "INSERT INTO account (id, name) VALUES ('r', 'z') RETURNING id",
            0,
        ));
        steps.push(("UPDATE account SET version = 2 RETURNING id", 0));
        steps.push(("DELETE FROM account WHERE id = 'r' RETURNING id", 0));
    }
    steps.push(("DELETE FROM account WHERE name = 'x'", 3));
    steps.push(("DELETE FROM account WHERE name = 'x'", 0));
    steps.push(("DELETE FROM account", 1));

    for (sql, count) in &steps {
        let found = cx.db.execute(&Statement::new(*sql)).await.expect(sql);
        assert_eq!(found, *count, "{sql}");
    }
    let (batch, counts): (Vec<_>, Vec<_>) = steps
        .into_iter()
        .map(|(sql, count)| (Statement::new(sql), count))
        .unzip();
    assert_eq!(cx.batch(&batch).await.expect("the same in a batch"), counts);
}

async fn a_query_that_changes_rows_changes_them(cx: Arc<Context>) {
    cx.make_account().await;
    assert!(cx.query(account("a")).await.is_empty());
    if cx.dialect() != Dialect::MySql {
        let sql = "INSERT INTO account (id) VALUES ('c'), ('b') RETURNING id";
        let mut ids: Vec<String> = cx
            .query(Statement::new(sql))
            .await
            .iter()
            .map(|row| row.get("id").expect("an id"))
            .collect();
        ids.sort_unstable();
        assert_eq!(ids, ["b", "c"]);
        let other = cx.sandbox.another().await;
        let seen = other
            .query(&Statement::new("SELECT id FROM account"))
            .await
            .expect("read elsewhere");
        assert_eq!(seen.len(), 3);
    }
    let answer = cx.db.query(&account("a").expect_rows(1)).await;
    assert_eq!(answer.expect_err("it is there").kind(), Kind::Conflict);
}

async fn a_statement_sees_what_came_before_it(cx: Arc<Context>) {
    cx.make_account().await;
    let mut batch = Vec::new();
    for number in 0..50 {
        batch.push(account(&numbered(number)));
        batch.push(Statement::new("UPDATE account SET version = version + 1"));
    }
    batch.push(Statement::new("DELETE FROM account WHERE version > ?").bind(25));
    let counts = cx.batch(&batch).await.expect("in order");
    let expected: Vec<u64> = (1..=50).flat_map(|rows| [1, rows]).chain([25]).collect();
    assert_eq!(counts, expected);
}

async fn an_empty_batch_touches_nothing(cx: Arc<Context>) {
    assert_eq!(cx.batch(&[]).await.expect("nothing"), [0_u64; 0]);
}
