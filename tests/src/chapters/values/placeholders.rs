//! What is a placeholder and what is not.

use std::sync::Arc;

use duebox_core::{Dialect, Statement};

use crate::Context;
use crate::context::{at, numbered};

/// Texts that look like something else to some lexer, driver or formatter.
const STRANGE: [&str; 34] = [
    "?",
    "??",
    "$1",
    "?1",
    ":a",
    "@b",
    "@@c",
    "#",
    "'",
    "''",
    "\"",
    "`",
    "[a]",
    "\\",
    "\\'",
    "\\\\",
    "\\0",
    "--",
    "-- '",
    "/*",
    "*/",
    "/*! ' */",
    ";",
    "%s",
    "%",
    "_",
    "{}",
    "{0}",
    "$$",
    "$q$",
    "E'\\''",
    "NULL",
    "\u{feff}é😀",
    "? $1 ?1 :a @b '' \\ -- /* ; %s {}",
];

pub(super) async fn strange_text_is_bound_byte_for_byte_beside_question_marks(cx: Arc<Context>) {
    let names = match cx.dialect() {
        Dialect::MySql => {
            "(id VARCHAR(64) PRIMARY KEY, `what?` LONGTEXT, note LONGTEXT) CHARACTER SET utf8mb4"
        }
        _ => "(id VARCHAR(64) PRIMARY KEY, \"what?\" TEXT, note TEXT)",
    };
    cx.execute(&format!("CREATE TABLE quiz {names}")).await;
    for (number, text) in STRANGE.into_iter().enumerate() {
        let id = numbered(number);
        let own = Statement::per_dialect(
            "INSERT INTO quiz (id, \"what?\", note) /* ? /* $1 ' ? */ \" */
            VALUES (?, ?, '?' || ? || '??' || E'\\'?' || $q$ ? ' $1 $q$) -- ? '",
            "INSERT INTO quiz (id, \"what?\", [note]) /* ? ' \" */
            VALUES (?, ?, '?' || ? || '??' || '''?' || ' ? '' $1 ') -- ? '",
            "INSERT INTO quiz (id, `what?`, note) /* ? ' \" */
            VALUES (?, ?, CONCAT('?', ?, \"??\", '\\'?', ' ? '' $1 ')) # ? '",
        )
        .bind(&id)
        .bind(text)
        .bind(text);
        let work = cx
            .outbox
            .enqueue_statement(&id, text, text, Some(text), &at(0));
        let alone = format!("alone-{number}");
        let alone = cx
            .outbox
            .enqueue_statement(&alone, text, text, Some(text), &at(0));
        cx.batch(&[own, work]).await.expect("with the own");
        assert_eq!(cx.db.execute(&alone).await.expect("alone"), 1);
    }

    let read = Statement::per_dialect(
        "SELECT id, \"what?\" AS what, note FROM quiz WHERE note LIKE '%?%' AND id >= ? ORDER BY id",
        "SELECT id, [what?] AS what, note FROM quiz WHERE note LIKE '%?%' AND id >= ? ORDER BY id",
        "SELECT id, `what?` AS what, note FROM quiz WHERE note LIKE '%?%' AND id >= ? ORDER BY id",
    );
    let rows = cx.query(read.bind("")).await;
    assert_eq!(rows.len(), STRANGE.len());
    for (row, text) in rows.iter().zip(STRANGE) {
        assert_eq!(row.get::<String>("what").expect("a text"), text);
        let note = format!("?{text}??'? ? ' $1 ");
        assert_eq!(row.get::<String>("note").expect("a text"), note);
    }
    let records = cx.claim(&at(0), &at(60), u64::MAX).await;
    assert_eq!(records.len(), 2 * STRANGE.len());
    for record in records {
        let number = record.id.trim_start_matches(|c: char| !c.is_ascii_digit());
        let text = STRANGE[number.parse::<usize>().expect("a number")];
        assert_eq!(record.topic, text);
        assert_eq!(record.payload, text);
        assert_eq!(record.subject.as_deref(), Some(text));
    }
}

pub(super) async fn values_bind_in_the_order_of_their_places(cx: Arc<Context>) {
    let columns: Vec<String> = (0..40).map(|n| format!("c{n}")).collect();
    let typed: Vec<String> = columns
        .iter()
        .map(|column| format!("{column} BIGINT"))
        .collect();
    cx.execute(&format!("CREATE TABLE wide ({})", typed.join(", ")))
        .await;
    let places = "?, /* ? */ ".repeat(columns.len() - 1) + "?";
    let sql = format!(
        "INSERT INTO wide ({}) VALUES ({places})",
        columns.join(", ")
    );
    let insert = (0..40).fold(Statement::new(sql), Statement::bind);
    cx.batch(&[insert]).await.expect("insert");
    let conditions: Vec<String> = columns
        .iter()
        .map(|column| format!("{column}=?AND'?'<>''"))
        .collect();
    let sql = format!(
        "SELECT c0, c9, c10, c39 FROM wide WHERE {}",
        conditions.join(" AND ")
    );
    let rows = cx
        .query((0..40).fold(Statement::new(sql), Statement::bind))
        .await;
    for (column, number) in [("c0", 0), ("c9", 9), ("c10", 10), ("c39", 39)] {
        assert_eq!(rows[0].get::<i64>(column).expect("a number"), number);
    }
}

pub(super) async fn a_doubled_question_mark_is_an_operator_of_postgres(cx: Arc<Context>) {
    let statement = Statement::new(
        "SELECT CAST(? AS JSONB) ?? ? AS has, CAST(? AS JSONB) ??| ARRAY['x', 'b'] AS has_any,
        CAST(? AS JSONB) ??& ARRAY['a', 'x'] AS has_all, '??' AS literal",
    );
    let json = r#"{"a": 1, "b": "?"}"#;
    let statement = statement.bind(json).bind("a").bind(json).bind(json);
    if cx.dialect() != Dialect::Postgres {
        cx.db
            .query(&statement)
            .await
            .expect_err("there is no such operator");
        return;
    }
    let rows = cx.query(statement).await;
    assert!(rows[0].get::<bool>("has").expect("a truth value"));
    assert!(rows[0].get::<bool>("has_any").expect("a truth value"));
    assert!(!rows[0].get::<bool>("has_all").expect("a truth value"));
    assert_eq!(rows[0].get::<String>("literal").expect("a text"), "??");
}
