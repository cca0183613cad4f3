//! What no batch takes, refused before any of it runs.

use std::sync::Arc;

use duebox_core::{Dialect, Kind, Statement, Value};

use crate::Context;
use crate::context::{account, assert_refused, at};

pub(super) async fn statements_of_a_transaction_are_refused(cx: Arc<Context>) {
    let everywhere = [
        "BEGIN",
        "begin",
        "Begin Transaction",
        "BEGIN;",
        "START TRANSACTION",
        "start\ttransaction",
        "COMMIT",
        "COMMIT;",
        "commit work",
        "END",
        "ROLLBACK",
        "rollBack to a",
        "ROLLBACK TO SAVEPOINT a",
        "SAVEPOINT a",
        "RELEASE a",
        "RELEASE SAVEPOINT a",
        "ABORT",
        "XA COMMIT 'a'",
        " \r\n\tCOMMIT",
        "/* why */ COMMIT",
        "/**/COMMIT/**/",
        "-- why\nCOMMIT",
        "-- '\n/* \" */ -- ;\n COMMIT",
        "COMMIT -- why",
        "(COMMIT)",
        "( (ROLLBACK) )",
    ];
    let here: &[&str] = match cx.dialect() {
        Dialect::Postgres => &[
            "PREPARE TRANSACTION 'a'",
            "COMMIT PREPARED 'a'",
            "/* /* */ SELECT 1 */ COMMIT",
            "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
            "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
        ],
        Dialect::Sqlite => &["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE", "\u{feff}COMMIT"],
        Dialect::MySql => &[
            "# why\nCOMMIT",
            "/*! COMMIT */",
            "/*!50000 COMMIT */",
            "/*M!100200 COMMIT */",
            "XA START 'a'",
            "SET autocommit = 0",
            "SET @@session.autocommit = 1",
            "SET @a = 1, AutoCommit = 1",
            "SET SESSION TRANSACTION READ ONLY",
            "LOCK TABLES outbox WRITE",
            "UNLOCK TABLES",
        ],
        _ => &[],
    };
    for sql in everywhere.iter().chain(here) {
        let statement = Statement::new(*sql);
        cx.refuses(statement.clone(), Kind::Unsupported, sql).await;
        assert_refused(cx.db.execute(&statement).await, Kind::Unsupported);
        assert_refused(cx.db.query(&statement).await, Kind::Unsupported);
    }
    cx.make_account().await;
    let counts = cx.batch(&[account("a"), account("b")]).await;
    assert_eq!(counts.expect("nothing was left open"), [1, 1]);
}

pub(super) async fn words_of_a_transaction_inside_text_are_no_transaction(cx: Arc<Context>) {
    cx.make_account().await;
    let batch = [
        account("COMMIT"),
        Statement::new("INSERT INTO account (id, name) VALUES ('BEGIN', 'ROLLBACK; COMMIT')"),
        Statement::new("/* COMMIT */ UPDATE account SET name = ? -- ROLLBACK")
            .bind("SAVEPOINT a; RELEASE a"),
        Statement::new("(SELECT id FROM account WHERE id = 'END')"),
        Statement::new("DELETE FROM account WHERE id IN (SELECT 'COMMIT');"),
    ];
    // SQLite has no parenthesis around a whole query.
    let batch = if cx.dialect() == Dialect::Sqlite {
        [&batch[..3], &batch[4..]].concat()
    } else {
        batch.to_vec()
    };
    cx.batch(&batch).await.expect("no transaction is meant");
    assert_eq!(cx.count_in("account").await, 1);
}

pub(super) async fn what_a_rollback_would_not_undo_is_refused_in_a_batch(cx: Arc<Context>) {
    cx.make_account().await;
    let refused: &[&str] = match cx.dialect() {
        Dialect::Postgres => &["DISCARD ALL", "DEALLOCATE ALL", "PREPARE a AS SELECT 1"],
        Dialect::Sqlite => &[
            "PRAGMA user_version = 7",
            "pragma foreign_keys = off",
            "/* why */ PRAGMA user_version = 7",
            "EXPLAIN PRAGMA user_version = 7",
            "VACUUM",
            "VACUUM INTO 'elsewhere'",
            "ATTACH ':memory:' AS elsewhere",
            "DETACH elsewhere",
        ],
        Dialect::MySql => &[
            "CREATE TABLE another (id BIGINT)",
            "create table if not exists account (id bigint)",
            "/*!50000 CREATE */ TABLE another (id BIGINT)",
            "CREATE INDEX account_name ON account (name)",
            "CREATE TEMPORARY TABLE another (id BIGINT)",
            "ALTER TABLE account ADD COLUMN more BIGINT",
            "DROP TABLE account",
            "TRUNCATE account",
            "TRUNCATE TABLE account",
            "RENAME TABLE account TO another",
            "ANALYZE TABLE account",
            "GRANT SELECT ON account TO somebody",
            "FLUSH TABLES",
            "CALL something()",
            "SET time_zone = '+00:00'",
        ],
        _ => &[],
    };
    for sql in refused {
        cx.refuses(Statement::new(*sql), Kind::Unsupported, sql)
            .await;
        let batch = [account("a"), Statement::new(*sql)];
        assert_refused(cx.batch(&batch).await, Kind::Unsupported);
    }
    assert_eq!(cx.count_in("account").await, 0);
    assert!(!cx.has_table("another").await);
}

pub(super) async fn a_batch_undoes_ddl_or_refuses_it(cx: Arc<Context>) {
    cx.make_account().await;
    let other = duebox_core::Outbox::new("another");
    let batch = [
        account("a"),
        Statement::new(other.create_table_sql()),
        other.enqueue_statement("w", "t", "p", None, &at(0)),
        account("a"),
    ];
    let kind = match cx.dialect() {
        Dialect::MySql => Kind::Unsupported,
        _ => Kind::Conflict,
    };
    assert_refused(cx.batch(&batch).await, kind);
    assert_eq!(cx.count_in("account").await, 0);
    assert!(!cx.has_table("another").await);
    if cx.dialect() != Dialect::MySql {
        cx.batch(&batch[..3]).await.expect("with the change");
        assert_eq!(cx.count_in("another").await, 1);
    }
}

pub(super) async fn a_statement_with_an_error_stops_its_batch_before_it_runs(cx: Arc<Context>) {
    cx.make_account().await;
    let enqueue = |topic| cx.outbox.enqueue_statement("w", topic, "p", None, &at(0));
    let invalid = [
        ("an empty topic", enqueue("")),
        ("a value too few", Statement::new("SELECT ?, ?").bind(1)),
        (
            "a value too many",
            Statement::new("SELECT '?'").bind("for a ? in a literal"),
        ),
        ("no statement", Statement::new(" -- nothing\n")),
        ("two statements", Statement::new("SELECT 1; SELECT 2")),
        ("an open literal", Statement::new("SELECT 'a")),
        ("an open comment", Statement::new("SELECT 1 /* a")),
        ("a NUL", Statement::new("SELECT 'a\0'")),
        (
            "a numbered placeholder",
            Statement::new("SELECT ?1").bind(1),
        ),
    ];
    for (what, statement) in invalid {
        cx.refuses(statement.clone(), Kind::InvalidArgument, what)
            .await;
        let batch = [account("a"), account("b"), statement.clone()];
        assert_refused(cx.batch(&batch).await, Kind::InvalidArgument);
        assert_refused(cx.db.execute(&statement).await, Kind::InvalidArgument);
        assert_refused(cx.db.query(&statement).await, Kind::InvalidArgument);
    }
    if cx.dialect() != Dialect::Postgres {
        for array in [
            Value::TextArray(vec![None]),
            Value::IntegerArray(vec![1, 2]),
        ] {
            let statement = Statement::new("SELECT ?").bind(array);
            cx.refuses(statement, Kind::Unsupported, "an array").await;
        }
    }
    assert_eq!(cx.count_in("account").await, 0);
}
