//! Rows out: every readable type, and what cannot be read told apart.

use std::sync::Arc;

use duebox_core::{DbError, Dialect, FromValue, Kind, Row, Statement, Value};

use super::chapter;
use crate::Context;
use crate::context::{account, at, numbered};

mod types;

use types::{Reads, readable, unreadable};

chapter!(rows:
    every_readable_type_is_read,
    a_type_that_is_not_read_is_refused_by_name,
    null_is_null_of_every_type,
    a_missing_column_null_and_another_type_are_told_apart,
    large_whole_numbers_are_exact,
    an_unsigned_number_that_does_not_fit_is_no_other_number,
    empty_is_not_null,
    rows_come_as_the_query_orders_them,
    columns_are_named_and_the_first_of_a_name_is_read,
    a_changed_table_breaks_no_statement_that_ran_before,
);

async fn every_readable_type_is_read(cx: Arc<Context>) {
    let columns = readable(cx.dialect());
    let (mut names, mut types, mut literals) = (Vec::new(), Vec::new(), Vec::new());
    for (number, (ty, literal, _)) in columns.iter().enumerate() {
        names.push(format!("c{number}"));
        types.push(format!("c{number} {ty}"));
        literals.push(*literal);
    }
    cx.execute(&format!("CREATE TABLE kinds ({})", types.join(", ")))
        .await;
    let names = names.join(", ");
    let literals = literals.join(", ");
    cx.execute(&format!("INSERT INTO kinds ({names}) VALUES ({literals})"))
        .await;
    let rows = cx
        .query(Statement::new(format!("SELECT {names} FROM kinds")))
        .await;
    for (number, (ty, _, reads)) in columns.iter().enumerate() {
        let value = rows[0].value(&format!("c{number}")).expect("the column");
        let as_expected = match reads {
            Reads::Integer(expected) => *value == Value::Integer(*expected),
            Reads::Truth(expected) => bool::from_value(value) == Some(*expected),
            Reads::Real(expected) => *value == Value::Real(*expected),
            Reads::Text(expected) => *value == Value::from(*expected),
            Reads::Bytes(expected) => *value == Value::from(*expected),
            // How date and time are parted is the engine's.
            Reads::Time(expected) => {
                String::from_value(value).is_some_and(|text| text.replace(' ', "T") == *expected)
            }
            Reads::Instant(expected) => String::from_value(value)
                .and_then(|text| duebox_core::parse_time(&text).ok())
                .is_some_and(|time| Ok(time) == duebox_core::parse_time(expected)),
        };
        assert!(as_expected, "{ty} reads as {value:?}");
    }
}

async fn a_type_that_is_not_read_is_refused_by_name(cx: Arc<Context>) {
    for (name, expression, as_text) in unreadable(cx.dialect()) {
        let sql = format!("SELECT 1 AS one, {expression} AS odd");
        let error = cx
            .db
            .query(&Statement::new(sql))
            .await
            .expect_err("no value stands for it");
        assert_eq!(error.kind(), Kind::Unsupported, "{error}");
        let message = error.to_string().to_lowercase();
        assert!(message.contains("odd"), "{message}");
        assert!(message.contains(name), "{message}");
        let rows = cx
            .query(Statement::new(format!("SELECT {as_text} AS odd")))
            .await;
        assert!(
            !rows[0].get::<String>("odd").expect("cast").is_empty(),
            "{name}"
        );
    }
    assert_eq!(cx.count().await, 0, "the connections are as good as before");
}

async fn null_is_null_of_every_type(cx: Arc<Context>) {
    let columns = readable(cx.dialect());
    let (mut names, mut types) = (Vec::new(), Vec::new());
    for (number, (ty, ..)) in columns.iter().enumerate() {
        names.push(format!("c{number}"));
        // MySQL gives a TIMESTAMP the time of now unless NULL is allowed by name.
        types.push(format!("c{number} {ty} NULL"));
    }
    cx.execute(&format!("CREATE TABLE kinds ({})", types.join(", ")))
        .await;
    cx.execute("INSERT INTO kinds (c0) VALUES (NULL)").await;
    let sql = format!("SELECT {} FROM kinds", names.join(", "));
    let rows = cx.query(Statement::new(sql)).await;
    for (name, (ty, ..)) in names.iter().zip(columns) {
        let value = rows[0].value(name).expect("the column");
        assert!(*value == Value::Null, "{ty} reads as {value:?}");
    }
}

#[track_caller]
fn fails<T: FromValue + std::fmt::Debug>(row: &Row, column: &str, kind: Kind) -> DbError {
    let error = row.get::<T>(column).expect_err("it cannot be read so");
    assert_eq!(error.kind(), kind, "{error}");
    let message = error.to_string();
    assert!(message.contains(column), "{message}");
    assert!(!message.contains("someone"), "{message}");
    error
}

async fn a_missing_column_null_and_another_type_are_told_apart(cx: Arc<Context>) {
    cx.make_account().await;
    let nameless = Statement::new("INSERT INTO account (id) VALUES ('b')");
    cx.batch(&[account("a"), nameless]).await.expect("insert");
    let rows = cx
        .query(Statement::new(
            "SELECT id, name, version FROM account ORDER BY id",
        ))
        .await;
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0].get::<String>("name").expect("a name"), "someone");
    assert_eq!(rows[1].get::<Option<String>>("name").expect("none"), None);

    let missing = fails::<String>(&rows[0], "title", Kind::Schema);
    let missing_option = fails::<Option<String>>(&rows[0], "title", Kind::Schema);
    assert_eq!(missing, missing_option);
    let null = fails::<String>(&rows[1], "name", Kind::Corrupt);
    let other = fails::<i64>(&rows[0], "name", Kind::Corrupt);
    assert_ne!(null.to_string(), other.to_string());
    fails::<Option<i64>>(&rows[0], "name", Kind::Corrupt);
    fails::<bool>(&rows[0], "name", Kind::Corrupt);
    fails::<f64>(&rows[0], "version", Kind::Corrupt);
    fails::<String>(&rows[0], "version", Kind::Corrupt);
}

async fn large_whole_numbers_are_exact(cx: Arc<Context>) {
    cx.make_account().await;
    let all = [
        i64::MIN,
        i64::MIN + 1,
        -9_007_199_254_740_993,
        -1,
        0,
        i64::from(u32::MAX),
        9_007_199_254_740_993,
        i64::MAX - 1,
        i64::MAX,
    ];
    for number in all {
        let insert = Statement::new("INSERT INTO account (id, version) VALUES (?, ?)");
        cx.batch(&[insert.bind(number.to_string()).bind(number)])
            .await
            .expect("insert");
    }
    let rows = cx
        .query(Statement::new(
            "SELECT version FROM account ORDER BY version",
        ))
        .await;
    let found: Vec<i64> = rows
        .iter()
        .map(|row| row.get("version").expect("a number"))
        .collect();
    assert_eq!(found, all);
    for (row, number) in rows.iter().zip(all) {
        if let Err(error) = row.get::<u64>("version") {
            assert!(number < 0);
            assert_eq!(error.kind(), Kind::Corrupt, "{error}");
            assert!(!error.to_string().contains(&number.to_string()), "{error}");
        }
        let small = row.get::<i32>("version").ok();
        assert_eq!(small, i32::try_from(number).ok());
    }
}

async fn an_unsigned_number_that_does_not_fit_is_no_other_number(cx: Arc<Context>) {
    let big = Statement::per_dialect(
        "SELECT CAST(18446744073709551615 AS NUMERIC) AS big",
        "SELECT 18446744073709551615 AS big",
        "SELECT CAST(18446744073709551615 AS UNSIGNED) AS big",
    );
    // Refused by the adapter, or given as a type that holds it.
    match cx.db.query(&big).await {
        Err(error) => {
            assert_eq!(error.kind(), Kind::Unsupported, "{error}");
            assert!(error.to_string().contains("big"), "{error}");
        }
        Ok(rows) => {
            rows[0].get::<i64>("big").expect_err("it is no i64");
            let value = rows[0].value("big").expect("the column");
            let text = *value == Value::from("18446744073709551615");
            let real = *value == Value::Real(18_446_744_073_709_551_615.0);
            assert!(text || real, "{value:?}");
        }
    }
}

async fn empty_is_not_null(cx: Arc<Context>) {
    cx.make_account().await;
    let insert = |id: &str, name: Option<&str>| {
        let sql = "INSERT INTO account (id, name) VALUES (?, ?)";
        Statement::new(sql).bind(id).bind(name)
    };
    cx.batch(&[insert("empty", Some("")), insert("null", None)])
        .await
        .expect("insert");
    let rows = cx
        .query(Statement::new("SELECT id, name FROM account ORDER BY id"))
        .await;
    let names: Vec<Option<String>> = rows
        .iter()
        .map(|row| row.get("name").expect("a name or none"))
        .collect();
    assert_eq!(names, [Some(String::new()), None]);
}

async fn rows_come_as_the_query_orders_them(cx: Arc<Context>) {
    cx.make_account().await;
    let batch: Vec<_> = (0..500).map(|n| account(&numbered(n))).collect();
    cx.batch(&batch).await.expect("insert");
    let sql = "SELECT id FROM account ORDER BY id DESC";
    let found: Vec<String> = cx
        .query(Statement::new(sql))
        .await
        .iter()
        .map(|row| row.get("id").expect("an id"))
        .collect();
    assert_eq!(found, (0..500).rev().map(numbered).collect::<Vec<_>>());
    let none = "SELECT id FROM account WHERE id = 'nobody'";
    assert!(cx.query(Statement::new(none)).await.is_empty());
}

async fn columns_are_named_and_the_first_of_a_name_is_read(cx: Arc<Context>) {
    let sql = "SELECT 1 AS a, 2 AS b, 3 AS a, 'é' AS name_of_it";
    let rows = cx.query(Statement::new(sql)).await;
    let names: Vec<&str> = rows[0].columns().collect();
    assert_eq!(names, ["a", "b", "a", "name_of_it"]);
    assert_eq!(rows[0].get::<i64>("a").expect("a number"), 1);
    assert_eq!(rows[0].get::<i64>("b").expect("a number"), 2);
    assert_eq!(rows[0].get::<String>("name_of_it").expect("a text"), "é");
}

async fn a_changed_table_breaks_no_statement_that_ran_before(cx: Arc<Context>) {
    cx.make_account().await;
    cx.execute("ALTER TABLE outbox ADD COLUMN unrelated TEXT")
        .await;
    let changes: &[&str] = match cx.dialect() {
        Dialect::Postgres => &[
            "ALTER TABLE outbox ADD COLUMN more BIGINT NOT NULL DEFAULT 0",
            "ALTER TABLE outbox ALTER COLUMN topic TYPE VARCHAR(400) COLLATE \"C\"",
            "ALTER TABLE outbox ALTER COLUMN locked_by TYPE TEXT COLLATE \"C\"",
            "ALTER TABLE outbox DROP COLUMN unrelated",
            "ALTER TABLE account ADD COLUMN more BIGINT",
        ],
        Dialect::MySql => &[
            "ALTER TABLE outbox ADD COLUMN more BIGINT NOT NULL DEFAULT 0 FIRST",
            "ALTER TABLE outbox MODIFY locked_by VARCHAR(400) NULL",
            "ALTER TABLE outbox DROP COLUMN unrelated",
            "ALTER TABLE account ADD COLUMN more BIGINT FIRST",
        ],
        _ => &[
            "ALTER TABLE outbox ADD COLUMN more INTEGER NOT NULL DEFAULT 0",
            "ALTER TABLE outbox DROP COLUMN unrelated",
            "ALTER TABLE account ADD COLUMN more BIGINT",
        ],
    };
    every_call(&cx, 0).await;
    for (round, sql) in (1..).zip(changes) {
        cx.execute(sql).await;
        every_call(&cx, round).await;
    }
}

/// Eight times at once, so that every connection of a pool knows the statements.
async fn every_call(cx: &Arc<Context>, round: u64) {
    let tasks: Vec<_> = (0..8)
        .map(|number| {
            let cx = Arc::clone(cx);
            let id = format!("r{round}-{number}");
            tokio::spawn(async move { one_of_every_call(&cx, &id, round * 100).await })
        })
        .collect();
    for task in tasks {
        task.await.expect("nothing that it calls fails");
    }
    for left in cx
        .claim(&at(round * 100 + 50), &at(round * 100 + 60), 99)
        .await
    {
        cx.complete(&left.lease).await;
    }
    assert_eq!(cx.count().await, 0);
}

async fn one_of_every_call(cx: &Context, id: &str, now: u64) {
    let (db, outbox) = (&*cx.db, &cx.outbox);
    let batch = [
        account(id),
        outbox.enqueue_statement(id, "t", "p", Some(id), &at(now)),
        Statement::new("UPDATE account SET name = ? WHERE id = ?")
            .bind("x")
            .bind(id)
            .expect_rows(1),
    ];
    cx.batch(&batch).await.expect("a batch");
    outbox
        .retry_later(db, id, &at(now + 1))
        .await
        .expect("retry");
    let entry = cx.row(id).await;
    assert!(entry.is_none_or(|entry| entry.topic == "t"));
    let exported = outbox.export_subject(db, id, None, 9).await;
    assert_eq!(exported.expect("export").len(), 1);
    outbox.release(db, &[id]).await.expect("release");
    let select = Statement::new("SELECT id, name FROM account WHERE id = ?").bind(id);
    assert_eq!(db.query(&select).await.expect("select").len(), 1);
    outbox.stats(db, &at(now)).await.expect("stats");
    let claimed = cx.claim(&at(now + 1), &at(now + 9), 1).await;
    for record in claimed {
        let outcomes = outbox
            .extend_claimed(db, std::slice::from_ref(&record.lease), &at(now + 20))
            .await;
        outcomes.expect("extend");
        outbox
            .release_claimed(db, &[record.lease], &at(now + 30))
            .await
            .expect("release");
    }
}
