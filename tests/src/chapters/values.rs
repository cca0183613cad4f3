//! Values in: what binds to which column, and that text stays as it is.

use std::sync::Arc;

use duebox_core::{DbError, Dialect, Kind, Outcome, Row, Statement, Value};

use super::chapter;
use crate::Context;
use crate::context::{account, assert_refused};

mod placeholders;
mod typed;

use placeholders::{
    a_doubled_question_mark_is_an_operator_of_postgres,
    strange_text_is_bound_byte_for_byte_beside_question_marks,
    values_bind_in_the_order_of_their_places,
};
use typed::{
    null_binds_to_every_type, text_binds_to_what_is_parsed_from_text,
    text_compares_with_columns_of_other_types, text_that_its_column_cannot_read_is_refused,
};

chapter!(values:
    text_binds_to_what_is_parsed_from_text,
    text_compares_with_columns_of_other_types,
    text_that_its_column_cannot_read_is_refused,
    null_binds_to_every_type,
    an_integer_binds_to_every_column_that_can_hold_it,
    a_truth_value_binds_and_reads_as_one,
    a_real_keeps_every_bit,
    bytes_are_kept_as_they_are,
    a_widened_column_takes_wider_values,
    arrays_bind_on_postgres_alone,
    a_statement_can_be_run_again,
    strange_text_is_bound_byte_for_byte_beside_question_marks,
    values_bind_in_the_order_of_their_places,
    a_doubled_question_mark_is_an_operator_of_postgres,
);

/// Fails unless a value was refused for not fitting its place, by us or by the
/// database, and certainly left nothing.
#[track_caller]
fn assert_unfit<T: std::fmt::Debug>(answer: Result<T, DbError>, what: &str) {
    let error = answer.expect_err(what);
    let kinds = [Kind::InvalidArgument, Kind::Constraint];
    assert!(kinds.contains(&error.kind()), "{what}: {error:?}");
    assert_eq!(error.outcome(), Outcome::NotApplied, "{what}: {error}");
    assert!(!error.is_retryable(), "{what}: {error}");
}

/// A table `(id, v)` whose `v` is of some type. Each has its own name: servers
/// keep the types of a statement that was prepared for a table of another type.
struct Thing {
    cx: Arc<Context>,
    name: String,
}

impl Thing {
    async fn make(cx: &Arc<Context>, number: usize, ty: &str) -> Self {
        let name = format!("thing{number}");
        let sql = format!("CREATE TABLE {name} (id BIGINT NOT NULL PRIMARY KEY, v {ty})");
        cx.execute(&sql).await;
        let cx = Arc::clone(cx);
        Self { cx, name }
    }

    fn insert(&self, id: i64, value: impl Into<Value>) -> Statement {
        let sql = format!("INSERT INTO {} (id, v) VALUES (?, ?)", self.name);
        Statement::new(sql).bind(id).bind(value)
    }

    async fn add(&self, id: i64, value: impl Into<Value>, what: &str) {
        let counts = self.cx.batch(&[self.insert(id, value)]).await;
        assert_eq!(counts.expect(what), [1], "{what}");
    }

    async fn rows(&self) -> Vec<Row> {
        let sql = format!("SELECT v FROM {} ORDER BY id", self.name);
        self.cx.query(Statement::new(sql)).await
    }

    /// How many rows there are of which the condition holds.
    async fn count(&self, condition: &str, values: &[Value]) -> i64 {
        let sql = format!("SELECT COUNT(*) AS n FROM {} WHERE {condition}", self.name);
        let bind = |statement: Statement, value: &Value| statement.bind(value.clone());
        let rows = self
            .cx
            .query(values.iter().fold(Statement::new(sql), bind))
            .await;
        rows[0].get("n").expect("a count")
    }
}

async fn an_integer_binds_to_every_column_that_can_hold_it(cx: Arc<Context>) {
    let types: &[(&str, i64, i64)] = match cx.dialect() {
        Dialect::Postgres => &[
            ("SMALLINT", -(1 << 15), (1 << 15) - 1),
            ("INTEGER", -(1 << 31), (1 << 31) - 1),
            ("BIGINT", i64::MIN, i64::MAX),
        ],
        Dialect::MySql => &[
            ("TINYINT", -(1 << 7), (1 << 7) - 1),
            ("SMALLINT", -(1 << 15), (1 << 15) - 1),
            ("MEDIUMINT", -(1 << 23), (1 << 23) - 1),
            ("INT", -(1 << 31), (1 << 31) - 1),
            ("INT UNSIGNED", 0, (1 << 32) - 1),
            ("BIGINT", i64::MIN, i64::MAX),
        ],
        _ => &[("INTEGER", i64::MIN, i64::MAX)],
    };
    for (number, (ty, min, max)) in types.iter().enumerate() {
        let thing = Thing::make(&cx, number, ty).await;
        let all = [*min, 0, 1, *max];
        for (id, number) in (0..).zip(all) {
            thing.add(id, number, &format!("{number} into {ty}")).await;
        }
        let rows = thing.rows().await;
        let found: Vec<i64> = rows.iter().map(|row| row.get("v").expect(ty)).collect();
        assert_eq!(found, all, "{ty}");
        assert_eq!(thing.count("v = ?", &[(*max).into()]).await, 1, "{ty}");
        let beyond = [min.checked_sub(1), max.checked_add(1)];
        for number in beyond.into_iter().flatten() {
            let what = format!("{number} into {ty}");
            let bad = thing.insert(9, number);
            assert_unfit(cx.db.execute(&bad).await, &what);
            assert_unfit(cx.batch(&[thing.insert(8, 1), bad]).await, &what);
        }
        assert_eq!(thing.count("1 = 1", &[]).await, 4, "{ty}");
    }
    for (number, ty) in [
        (10, "NUMERIC(20, 2)"),
        (11, "DOUBLE PRECISION"),
        (12, "REAL"),
    ] {
        let thing = Thing::make(&cx, number, ty).await;
        thing.add(1, 7, ty).await;
        assert_eq!(thing.count("v = 7", &[]).await, 1, "{ty}");
    }
}

async fn a_truth_value_binds_and_reads_as_one(cx: Arc<Context>) {
    let thing = Thing::make(&cx, 0, "BOOLEAN").await;
    let all = [Some(true), Some(false), None];
    for (id, truth) in (0..).zip(all) {
        thing.add(id, truth, "a truth value").await;
    }
    let rows = thing.rows().await;
    let found: Vec<Option<bool>> = rows.iter().map(|row| row.get("v").expect("one")).collect();
    assert_eq!(found, all);
    assert_eq!(thing.count("v = ?", &[true.into()]).await, 1);
    assert_eq!(thing.count("v = ? AND id = 0", &[true.into()]).await, 1);
}

async fn a_real_keeps_every_bit(cx: Arc<Context>) {
    let thing = Thing::make(&cx, 0, "DOUBLE PRECISION").await;
    let all = [
        0.0,
        0.1,
        -1.5,
        1e-7,
        std::f64::consts::PI,
        9_007_199_254_740_991.0,
        f64::MAX,
        f64::MIN,
        f64::MIN_POSITIVE,
        f64::EPSILON,
    ];
    for (id, number) in (0..).zip(all) {
        thing.add(id, number, "a real").await;
    }
    let rows = thing.rows().await;
    for (row, number) in rows.iter().zip(all) {
        let found: f64 = row.get("v").expect("a real");
        assert_eq!(found.to_bits(), number.to_bits(), "{number:e}");
    }
    assert_eq!(rows.len(), all.len());
}

async fn bytes_are_kept_as_they_are(cx: Arc<Context>) {
    let ty = match cx.dialect() {
        Dialect::Postgres => "BYTEA",
        Dialect::MySql => "LONGBLOB",
        _ => "BLOB",
    };
    let thing = Thing::make(&cx, 0, ty).await;
    let bytes = [
        Vec::new(),
        (0..=255).collect(),
        vec![0; 70_000],
        b"? $1 \\x41 ' \\".to_vec(),
    ];
    let mut all: Vec<Value> = bytes.into_iter().map(Value::Bytes).collect();
    all.push(Value::Null);
    for (id, value) in (0..).zip(&all) {
        thing.add(id, value.clone(), "bytes").await;
    }
    let rows = thing.rows().await;
    assert_eq!(rows.len(), all.len());
    for (number, (row, value)) in rows.iter().zip(&all).enumerate() {
        assert!(row.value("v").expect("v") == value, "row {number}");
    }
    assert_eq!(thing.count("v = ?", &all[1..2]).await, 1);
}

async fn arrays_bind_on_postgres_alone(cx: Arc<Context>) {
    let texts = ["a", "", "NULL", "a,b", "{}", "\"", "\\", "'", "é😀", " "];
    let mut list: Vec<Option<String>> = texts.map(|text| Some(text.to_owned())).into();
    list.push(None);
    let statement = Statement::new(
        "SELECT t.text, n.number FROM unnest(?::text[]) WITH ORDINALITY AS t (text, place)
        JOIN unnest(?::bigint[]) WITH ORDINALITY AS n (number, place) USING (place)
        WHERE t.text IS NULL OR t.text = ANY(?) ORDER BY place",
    )
    .bind(Value::TextArray(list.clone()))
    .bind(Value::IntegerArray((0..11).collect()))
    .bind(Value::TextArray(list.clone()));
    if cx.dialect() != Dialect::Postgres {
        let array = Statement::new("SELECT ?").bind(Value::TextArray(list));
        assert_refused(cx.db.query(&array).await, Kind::Unsupported);
        return;
    }
    let rows = cx.query(statement).await;
    let found: Vec<Option<String>> = rows
        .iter()
        .map(|row| row.get("text").expect("a text"))
        .collect();
    assert_eq!(found, list);
    assert_eq!(rows[10].get::<i64>("number").expect("a number"), 10);
    let none = Statement::new("SELECT 1 AS n WHERE 'a' = ANY(?)");
    let none = none.bind(Value::TextArray(Vec::new()));
    assert!(cx.query(none).await.is_empty());
}

async fn a_statement_can_be_run_again(cx: Arc<Context>) {
    cx.make_account().await;
    let insert = account("a");
    let delete = Statement::new("DELETE FROM account WHERE id = ?").bind("a");
    for _ in 0..5 {
        assert_eq!(cx.db.execute(&insert).await.expect("insert"), 1);
        let batch = [delete.clone(), insert.clone(), delete.clone()];
        assert_eq!(cx.batch(&batch).await.expect("a batch"), [1, 1, 1]);
    }
    assert_eq!(cx.count_in("account").await, 0);
}

async fn a_widened_column_takes_wider_values(cx: Arc<Context>) {
    let (ty, widen, back): (_, &[&str], _) = match cx.dialect() {
        Dialect::Postgres => (
            "SMALLINT",
            &[
                "ALTER TABLE thing0 ALTER COLUMN v TYPE BIGINT",
                "ALTER TABLE thing1 ALTER COLUMN v TYPE VARCHAR(20)",
            ],
            "VARCHAR(2)",
        ),
        Dialect::MySql => (
            "SMALLINT",
            &[
                "ALTER TABLE thing0 MODIFY v BIGINT",
                "ALTER TABLE thing1 MODIFY v VARCHAR(20)",
            ],
            "VARCHAR(2)",
        ),
        // Its columns have no width.
        _ => ("INTEGER", &[], "TEXT"),
    };
    let number = Thing::make(&cx, 0, ty).await;
    let text = Thing::make(&cx, 1, back).await;
    // So often that every connection of a pool has seen the old types.
    let many: Vec<_> = (0..40)
        .map(|id| {
            let batch = [number.insert(id, id), text.insert(id, "ab")];
            let cx = Arc::clone(&cx);
            tokio::spawn(async move { cx.batch(&batch).await })
        })
        .collect();
    for task in many {
        task.await.expect("a task").expect("it fits");
    }
    for sql in widen {
        cx.execute(sql).await;
    }
    for id in 100..120 {
        let batch = [
            number.insert(id, i64::MAX),
            text.insert(id, "a longer text"),
        ];
        cx.batch(&batch).await.expect("it fits by now");
        let alone = number.insert(id + 100, i64::MIN);
        assert_eq!(cx.db.execute(&alone).await.expect("it fits by now"), 1);
    }
    let many = number.count("v = ?", &[i64::MAX.into()]).await;
    assert_eq!(many, 20);
}
