//! Text, and NULL, in columns of every type.

use std::sync::Arc;

use duebox_core::{Dialect, Statement};

use super::{Thing, assert_unfit};
use crate::Context;

/// A type, a text that is written into it, and what then holds of the value `v`.
type Parsed = (&'static str, &'static str, &'static str);

const POSTGRES: [Parsed; 21] = [
    (
        "UUID",
        "6F9619FF-8B86-D011-B42D-00C04FC964FF",
        "v = UUID '6f9619ff-8b86-d011-b42d-00c04fc964ff'",
    ),
    (
        "TIMESTAMPTZ",
        "2026-03-01T09:30:00.123456+05:30",
        "v = TIMESTAMPTZ '2026-03-01 04:00:00.123456+00'",
    ),
    (
        "TIMESTAMP",
        "2026-03-01T04:00:00.5",
        "v = TIMESTAMP '2026-03-01 04:00:00.5'",
    ),
    ("DATE", "2026-03-01", "v = DATE '2026-03-01'"),
    ("TIME", "04:00:00.25", "v = TIME '04:00:00.25'"),
    ("INTERVAL", "90 minutes", "v = INTERVAL '1:30:00'"),
    ("JSONB", r#"{"a":[1,2]}"#, r#"v = JSONB '{"a": [1, 2]}'"#),
    ("JSON", r#"{"a":1}"#, r#"CAST(v AS TEXT) = '{"a":1}'"#),
    ("NUMERIC(20, 4)", "-12.34", "v = -12.34"),
    ("SMALLINT", "-7", "v = -7"),
    ("INTEGER", "42", "v = 42"),
    ("BIGINT", "-9223372036854775808", "v = -9223372036854775808"),
    ("DOUBLE PRECISION", "0.5", "v = 0.5"),
    ("REAL", "0.5", "v = 0.5"),
    ("BOOLEAN", "true", "v"),
    ("BYTEA", "\\x00ff", "length(v) = 2"),
    ("VARCHAR(3)", "é€", "length(v) = 2"),
    ("TEXT[]", "{a,b}", "v = ARRAY['a', 'b']"),
    ("BIGINT[]", "{1,2}", "v = CAST(ARRAY[1, 2] AS BIGINT[])"),
    ("INET", "10.0.0.1", "v = INET '10.0.0.1'"),
    ("mood", "calm", "v = 'calm'"),
];

const MYSQL: [Parsed; 14] = [
    (
        "DATETIME(6)",
        "2026-03-01 04:00:00.123456",
        "v = TIMESTAMP'2026-03-01 04:00:00.123456'",
    ),
    ("DATE", "2026-03-01", "v = DATE'2026-03-01'"),
    ("TIME(6)", "04:00:00.25", "v = TIME'04:00:00.25'"),
    ("YEAR", "2026", "v = 2026"),
    ("JSON", r#"{"a": [1, 2]}"#, "JSON_EXTRACT(v, '$.a[1]') = 2"),
    ("DECIMAL(20, 4)", "-12.34", "v = -12.34"),
    ("SMALLINT", "-7", "v = -7"),
    ("BIGINT", "-9223372036854775808", "v = -9223372036854775808"),
    ("DOUBLE", "0.5", "v = 0.5"),
    ("VARBINARY(9)", "é", "LENGTH(v) = 2"),
    ("VARCHAR(3)", "abc", "v = 'abc'"),
    ("LONGTEXT", "abc", "v = 'abc'"),
    ("ENUM('calm', 'cross')", "calm", "v = 'calm'"),
    ("SET('a', 'b')", "a,b", "FIND_IN_SET('b', v) = 2"),
];

const SQLITE: [Parsed; 5] = [
    ("INTEGER", "42", "v = 42 AND typeof(v) = 'integer'"),
    ("REAL", "0.5", "v = 0.5 AND typeof(v) = 'real'"),
    ("NUMERIC", "12.25", "v = 12.25 AND typeof(v) = 'real'"),
    ("TEXT", "42", "v = '42' AND typeof(v) = 'text'"),
    ("DATETIME", "2026-03-01 04:00:00", "typeof(v) = 'text'"),
];

fn parsed(dialect: Dialect) -> &'static [Parsed] {
    match dialect {
        Dialect::Postgres => &POSTGRES,
        Dialect::MySql => &MYSQL,
        _ => &SQLITE,
    }
}

async fn make_types(cx: &Context) {
    if cx.dialect() == Dialect::Postgres {
        cx.execute("CREATE TYPE mood AS ENUM ('calm', 'cross')")
            .await;
    }
}

pub(super) async fn text_binds_to_what_is_parsed_from_text(cx: Arc<Context>) {
    make_types(&cx).await;
    for (number, (ty, text, holds)) in parsed(cx.dialect()).iter().enumerate() {
        let thing = Thing::make(&cx, number, ty).await;
        thing.add(1, *text, ty).await;
        assert_eq!(thing.count(holds, &[]).await, 1, "{ty}");

        thing.add(2, None::<&str>, ty).await;
        let update = format!("UPDATE {} SET v = ? WHERE id = ?", thing.name);
        let update = Statement::new(update).bind(*text).bind(2);
        assert_eq!(cx.db.execute(&update).await.expect(ty), 1);
        assert_eq!(thing.count(holds, &[]).await, 2, "{ty}");
    }
}

pub(super) async fn text_compares_with_columns_of_other_types(cx: Arc<Context>) {
    let (a, b) = match cx.dialect() {
        Dialect::Postgres => ("UUID", "TIMESTAMPTZ"),
        Dialect::MySql => ("DECIMAL(20, 4)", "DATETIME(6)"),
        _ => ("INTEGER", "NUMERIC"),
    };
    let values = match cx.dialect() {
        Dialect::Postgres => [
            "6f9619ff-8b86-d011-b42d-00c04fc964ff",
            "2026-03-01T04:00:00Z",
        ],
        Dialect::MySql => ["12.5", "2026-03-01 04:00:00"],
        _ => ["42", "12.5"],
    };
    cx.execute(&format!("CREATE TABLE pair (a {a}, b {b})"))
        .await;
    let insert = Statement::new("INSERT INTO pair (a, b) VALUES (?, ?)");
    let insert = insert.bind(values[0]).bind(values[1]);
    cx.batch(&[insert]).await.expect("insert");
    let select = Statement::new("SELECT COUNT(*) AS n FROM pair WHERE a = ? AND b >= ? AND b <= ?");
    let rows = cx
        .query(select.bind(values[0]).bind(values[1]).bind(values[1]))
        .await;
    assert_eq!(rows[0].get::<i64>("n").expect("a count"), 1);
    let delete = Statement::new("DELETE FROM pair WHERE a = ? AND b IN (?, ?)");
    let delete = delete.bind(values[0]).bind(values[1]).bind(values[1]);
    assert_eq!(cx.batch(&[delete]).await.expect("delete"), [1]);
}

pub(super) async fn text_that_its_column_cannot_read_is_refused(cx: Arc<Context>) {
    let (strict, types): (&str, &[&str]) = match cx.dialect() {
        Dialect::Postgres => (
            "",
            &[
                "UUID",
                "TIMESTAMPTZ",
                "DATE",
                "JSONB",
                "JSON",
                "NUMERIC",
                "SMALLINT",
                "BIGINT",
                "BOOLEAN",
                "mood",
            ],
        ),
        Dialect::MySql => (
            "",
            &[
                "DATETIME(6)",
                "DATE",
                "JSON",
                "DECIMAL(20, 4)",
                "SMALLINT",
                "BIGINT",
                "DOUBLE",
                "ENUM('calm', 'cross')",
            ],
        ),
        _ => (" STRICT", &["INTEGER", "REAL"]),
    };
    make_types(&cx).await;
    for (number, ty) in types.iter().enumerate() {
        let name = format!("strict{number}");
        let sql = format!("CREATE TABLE {name} (id INTEGER NOT NULL PRIMARY KEY, v {ty}){strict}");
        cx.execute(&sql).await;
        let thing = Thing {
            cx: Arc::clone(&cx),
            name,
        };
        let bad = thing.insert(1, "no such value");
        assert_unfit(cx.db.execute(&bad).await, ty);
        let answer = cx.batch(&[thing.insert(2, None::<&str>), bad]).await;
        assert_unfit(answer, ty);
        assert_eq!(thing.count("1 = 1", &[]).await, 0, "{ty}");
    }
}

pub(super) async fn null_binds_to_every_type(cx: Arc<Context>) {
    make_types(&cx).await;
    for (number, (ty, text, _)) in parsed(cx.dialect()).iter().enumerate() {
        let thing = Thing::make(&cx, number, ty).await;
        thing.add(1, *text, ty).await;
        thing.add(2, None::<i64>, ty).await;
        let update = format!("UPDATE {} SET v = ?", thing.name);
        let update = Statement::new(update).bind(None::<String>);
        assert_eq!(cx.db.execute(&update).await.expect(ty), 2, "{ty}");
        assert_eq!(thing.count("v IS NULL", &[]).await, 2, "{ty}");
    }
}
