//! Values of PostgreSQL's own types, in and out, by every way to bind them.

use duebox_postgres::{Database, DbError, Kind, Outcome, Row, Statement, Value};

use crate::place::{Place, every_way, shown, sqlx_pool};

/// A type, a text of it, and what it reads as.
const TYPES: &[(&str, &str, &str)] = &[
    (
        "uuid",
        "018F0000-0000-7000-8000-0000000000Ff",
        "018f0000-0000-7000-8000-0000000000ff",
    ),
    (
        "timestamptz",
        "2026-03-01 10:00:00.1234567+02",
        "2026-03-01T08:00:00.123457Z",
    ),
    (
        "timestamptz",
        "0001-01-01T00:00:00Z",
        "0001-01-01T00:00:00.000000Z",
    ),
    (
        "timestamptz",
        "9999-12-31T23:59:59.999999Z",
        "9999-12-31T23:59:59.999999Z",
    ),
    (
        "timestamp",
        "1969-12-31 23:59:59.5",
        "1969-12-31T23:59:59.500000",
    ),
    ("date", "2024-02-29", "2024-02-29"),
    ("time", "24:00:00", "24:00:00.000000"),
    ("json", r#"{"b": 1,  "a":2}"#, r#"{"b": 1,  "a":2}"#),
    ("jsonb", r#"{"b": 1,  "a":2}"#, r#"{"a": 2, "b": 1}"#),
    ("numeric", "0", "0"),
    (
        "numeric",
        "-12345678901234567890.000100",
        "-12345678901234567890.000100",
    ),
    ("numeric", "0.00001", "0.00001"),
    ("numeric", "10000", "10000"),
    ("numeric", "100000000.00000000", "100000000.00000000"),
    ("numeric(7,3)", "1234.5", "1234.500"),
    ("numeric", "1e-30", "0.000000000000000000000000000001"),
    ("numeric", "NaN", "NaN"),
    ("smallint", "-32768", "-32768"),
    ("integer", "2147483647", "2147483647"),
    ("bigint", "-9223372036854775808", "-9223372036854775808"),
    ("oid", "4294967295", "4294967295"),
    ("real", "0.5", "0.5"),
    ("double precision", "1e21", "1000000000000000000000"),
    ("boolean", "yes", "true"),
    ("text", "  it''s ? \\ \u{1F600} ", "  it''s ? \\ \u{1F600} "),
    ("varchar(5)", "abc", "abc"),
    ("char(5)", "abc", "abc  "),
    ("name", "abc", "abc"),
    ("\"char\"", "x", "x"),
    ("mood", "so so", "so so"),
    ("positive", "5", "5"),
    ("short", "abc", "abc"),
    ("bytea", "\\x00ff", "[0, 255]"),
];

async fn place() -> Place {
    let place = Place::new().await;
    place
        .run(
            "CREATE TYPE mood AS ENUM ('fine', 'so so');
             CREATE DOMAIN positive AS integer CHECK (VALUE > 0);
             CREATE DOMAIN short AS varchar(5)",
        )
        .await;
    for (number, (ty, ..)) in TYPES.iter().enumerate() {
        place.run(&format!("CREATE TABLE t{number} (v {ty})")).await;
    }
    place
}

/// Writes the text, finds the row by it, and reads it.
async fn there_and_back(name: &str, db: &dyn Database) {
    for (number, (ty, text, read)) in TYPES.iter().enumerate() {
        let run = async {
            db.execute(&Statement::new(format!("INSERT INTO t{number} VALUES (?)")).bind(*text))
                .await?;
            if *ty != "json" {
                let rows = db
                    .query(
                        &Statement::new(format!("SELECT v FROM t{number} WHERE v = ?")).bind(*text),
                    )
                    .await?;
                assert_eq!(rows.len(), 1, "{name}: {ty} {text}");
            }
            let rows = db
                .query(&Statement::new(format!("SELECT v FROM t{number}")))
                .await?;
            db.execute(&Statement::new(format!("DELETE FROM t{number}")))
                .await?;
            db.execute(
                &Statement::new(format!("INSERT INTO t{number} VALUES (?)")).bind(Value::Null),
            )
            .await?;
            let null = db
                .query(&Statement::new(format!(
                    "DELETE FROM t{number} RETURNING v"
                )))
                .await?;
            Ok::<_, DbError>((rows, null))
        };
        let (rows, null) = run
            .await
            .unwrap_or_else(|error| panic!("{name}: {ty} {text}: {error}"));
        assert_eq!(shown(rows[0].value("v").unwrap()), *read, "{name}: {ty}");
        assert_eq!(shown(null[0].value("v").unwrap()), "NULL", "{name}: {ty}");
    }
}

pub(crate) async fn a_text_binds_to_what_the_server_can_parse() {
    let place = place().await;
    for (name, db) in every_way(&place.url(), 2).await {
        there_and_back(name, &*db).await;
    }
    place.close().await;
}

pub(crate) async fn other_values_bind_where_they_fit() {
    let place = place().await;
    place
        .run(
            "CREATE TABLE wide (
                s smallint, i integer, b bigint, n numeric, d double precision, r real, t text, o boolean, y bytea,
                us uuid[], ts text[], ii integer[], bb bigint[], nn numeric[], p positive
            )",
        )
        .await;
    let uuid = "018f0000-0000-7000-8000-0000000000ff".to_owned();
    let good = [
        ("s", Value::Integer(-5), "-5"),
        ("s", Value::Bool(true), "1"),
        ("i", Value::Integer(i64::from(i32::MIN)), "-2147483648"),
        ("b", Value::Integer(i64::MAX), "9223372036854775807"),
        ("n", Value::Integer(12), "12"),
        ("n", Value::Real(0.5), "0.5"),
        ("d", Value::Integer(3), "3"),
        ("d", Value::Real(-0.1), "-0.1"),
        ("d", Value::Real(f64::INFINITY), "Infinity"),
        (
            "d",
            Value::Real(f64::MIN_POSITIVE),
            "2.2250738585072014e-308",
        ),
        ("r", Value::Real(0.25), "0.25"),
        ("t", Value::Integer(7), "7"),
        ("t", Value::Text(String::new()), ""),
        ("o", Value::Bool(false), "false"),
        ("o", Value::Integer(1), "true"),
        ("y", Value::Bytes(vec![0, 1, 254]), "\\x0001fe"),
        ("y", Value::Bytes(vec![]), "\\x"),
        (
            "us",
            Value::TextArray(vec![Some(uuid.clone()), None]),
            &format!("{{{uuid},NULL}}"),
        ),
        ("ts", Value::TextArray(vec![]), "{}"),
        (
            "ts",
            Value::TextArray(vec![Some("NULL".into()), None, Some("a,\"\\b".into())]),
            r#"{"NULL",NULL,"a,\"\\b"}"#,
        ),
        ("ii", Value::IntegerArray(vec![1, -2]), "{1,-2}"),
        ("bb", Value::IntegerArray(vec![]), "{}"),
        ("nn", Value::IntegerArray(vec![1, 2]), "{1,2}"),
        ("p", Value::Integer(3), "3"),
    ];
    let bad = [
        ("s", Value::Integer(32_768)),
        ("i", Value::Integer(i64::from(i32::MAX) + 1)),
        ("ii", Value::IntegerArray(vec![i64::MAX])),
        ("us", Value::TextArray(vec![Some("secret".into())])),
        ("n", Value::Text("secret".into())),
        ("o", Value::Integer(2)),
        ("i", Value::Real(0.5)),
        ("i", Value::Bytes(vec![1])),
        ("t", Value::Text("a\0b".into())),
    ];
    for (name, db) in every_way(&place.url(), 2).await {
        for (column, value, text) in &good {
            let insert = Statement::new(format!("INSERT INTO wide ({column}) VALUES (?)"))
                .bind(value.clone());
            let inserted = db.execute(&insert).await;
            inserted.unwrap_or_else(|error| panic!("{name}: {column} {value:?}: {error}"));
            let read = Statement::new(format!("DELETE FROM wide RETURNING {column}::text AS v"));
            let rows = db.query(&read).await.expect("a row");
            assert_eq!(
                rows[0].get::<String>("v").unwrap(),
                *text,
                "{name}: {column}"
            );
        }
        for (column, value) in &bad {
            let insert = Statement::new(format!("INSERT INTO wide ({column}) VALUES (?)"))
                .bind(value.clone());
            let error = db.execute(&insert).await.expect_err(column);
            assert_eq!(
                error.kind(),
                Kind::InvalidArgument,
                "{name}: {column} {value:?}: {error}"
            );
            assert_eq!(
                error.outcome(),
                Outcome::NotApplied,
                "{name}: {column}: {error}"
            );
            assert!(!format!("{error} {error:?}").contains("secret"), "{error}");
        }
        assert_eq!(place.number("SELECT count(*) FROM wide").await, 0, "{name}");
    }
    place.close().await;
}

/// Before anything is done, where the types are known before.
pub(crate) async fn a_type_that_is_not_read_is_named() {
    let place = place().await;
    place.run("CREATE TABLE seen (id integer)").await;
    for (name, db) in every_way(&place.url(), 2).await {
        for (ty, text, shown) in [
            ("interval", "1 day", "interval"),
            ("inet", "10.0.0.1", "inet"),
            ("integer[]", "{1,2}", "int4[]"),
            ("point", "(1,2)", "point"),
        ] {
            let select = format!("SELECT 1 AS one, '{text}'::{ty} AS odd");
            let error = db.query(&Statement::new(select)).await.expect_err(ty);
            assert_eq!(error.kind(), Kind::Unsupported, "{name}: {error}");
            let message = error.to_string();
            for part in ["\"odd\"", shown, "cast it to text"] {
                assert!(message.contains(part), "{name}: {message} has no {part}");
            }
            assert!(!message.contains(text), "{message}");
            let cast = Statement::new(format!("SELECT ('{text}'::{ty})::text AS odd"));
            db.query(&cast).await.expect("a text");
            // Rows that nobody reads may be of any type.
            db.execute(&Statement::new(format!("SELECT '{text}'::{ty}")))
                .await
                .expect("no rows are read");
        }
        let insert = "INSERT INTO seen VALUES (1) RETURNING ARRAY[id] AS ids";
        let error = db
            .query(&Statement::new(insert))
            .await
            .expect_err("an array");
        let inserted = place.number("SELECT count(*) FROM seen").await;
        match error.outcome() {
            Outcome::NotApplied => assert_eq!(inserted, 0, "{name}"),
            Outcome::Unknown => assert!(name.contains("unprepared"), "{name}"),
        }
        place.run("DELETE FROM seen").await;
        for text in ["infinity", "0044-03-15 BC", "10000-01-01"] {
            let select = format!("SELECT '{text}'::timestamptz AS odd");
            let error = db.query(&Statement::new(select)).await.expect_err(text);
            assert_eq!(error.kind(), Kind::Unsupported, "{name}: {error}");
        }
    }
    place.close().await;
}

pub(crate) async fn a_transaction_of_the_callers_binds_alike() {
    let place = place().await;
    let mut client = place.client().await;
    let pool = sqlx_pool(&place.url(), 1);
    for (number, (ty, text, _)) in TYPES.iter().enumerate() {
        let insert = Statement::new(format!("INSERT INTO t{number} VALUES (?)")).bind(*text);
        let select = Statement::new(format!(
            "SELECT v FROM t{number} WHERE v::text = ?::text OR ? <> ''"
        ));
        let select = select.bind("x").bind("y");
        let transaction = client.transaction().await.expect("begin");
        duebox_postgres::execute(&transaction, &insert)
            .await
            .unwrap_or_else(|error| panic!("{ty}: {error}"));
        let by_tokio = duebox_postgres::query(&transaction, &select)
            .await
            .expect("a row");
        transaction.commit().await.expect("commit");
        let mut transaction = pool.begin().await.expect("begin");
        duebox_postgres::execute(&mut *transaction, &insert)
            .await
            .unwrap_or_else(|error| panic!("{ty}: {error}"));
        let by_sqlx = duebox_postgres::query(&mut *transaction, &select)
            .await
            .expect("rows");
        transaction.commit().await.expect("commit");
        assert_eq!((by_tokio.len(), by_sqlx.len()), (1, 2), "{ty}");
        let value = |row: &Row| shown(row.value("v").unwrap());
        assert_eq!(value(&by_tokio[0]), value(&by_sqlx[1]), "{ty}");
    }
    // A missed expectation is an error, and undoing it is the caller's.
    let missed = Statement::new("UPDATE t0 SET v = v WHERE v IS NULL").expect_rows(1);
    let transaction = client.transaction().await.expect("begin");
    let error = duebox_postgres::execute(&transaction, &missed)
        .await
        .expect_err("no row");
    assert_eq!(error.kind(), Kind::RowCount);
    duebox_postgres::execute(&transaction, &Statement::new("DELETE FROM t0"))
        .await
        .expect("it goes on");
    transaction.rollback().await.expect("roll back");
    assert_eq!(place.number("SELECT count(*) FROM t0").await, 2);
    place.close().await;
}

/// Whatever a service holds, and both drivers' word for what a failure did to it.
pub(crate) async fn every_handle_takes_statements_and_a_failed_transaction_commits_nothing() {
    let place = Place::new().await;
    place.run("CREATE TABLE t (id integer PRIMARY KEY)").await;
    let deadpool = place.connect().await.pool().clone();
    let sqlx = sqlx_pool(&place.url(), 2);
    let insert = |id: i32| Statement::new("INSERT INTO t VALUES (?)").bind(id);
    let count = Statement::new("SELECT id FROM t");

    let mut object = deadpool.get().await.expect("a connection");
    duebox_postgres::execute(&**object, &insert(1))
        .await
        .expect("insert");
    let mut connection = sqlx.acquire().await.expect("a connection");
    duebox_postgres::execute(&mut connection, &insert(2))
        .await
        .expect("insert");
    duebox_postgres::execute(&mut *connection, &insert(3))
        .await
        .expect("insert");
    let rows = duebox_postgres::query(&mut connection, &count).await;
    assert_eq!(rows.expect("rows").len(), 3);

    let transaction = object.transaction().await.expect("begin");
    for (id, fails) in [(4, false), (1, true)] {
        let answer = duebox_postgres::execute(&*transaction, &insert(id)).await;
        assert_eq!(answer.is_err(), fails);
    }
    transaction.commit().await.expect("the driver says so");
    let mut transaction = sqlx.begin().await.expect("begin");
    for (id, fails) in [(5, false), (1, true)] {
        let answer = duebox_postgres::execute(&mut transaction, &insert(id)).await;
        assert_eq!(answer.is_err(), fails);
    }
    transaction.commit().await.expect("the driver says so");
    let mut transaction = sqlx.begin().await.expect("begin");
    let rows = duebox_postgres::query(&mut transaction, &count).await;
    assert_eq!(rows.expect("rows").len(), 3, "nothing more was stored");
    drop(transaction);
    place.close().await;
}

/// Counts are of rows that were changed.
pub(crate) async fn a_statement_that_returns_rows_counts_none() {
    let place = Place::new().await;
    place.run("CREATE TABLE t (id integer)").await;
    for (name, db) in every_way(&place.url(), 2).await {
        for (sql, count) in [
            ("INSERT INTO t SELECT generate_series(1, 3)", 3),
            ("SELECT * FROM t", 0),
            ("UPDATE t SET id = id RETURNING id", 0),
            ("UPDATE t SET id = id", 3),
            ("DELETE FROM t WHERE id > 3", 0),
            ("CREATE TABLE IF NOT EXISTS t (id integer)", 0),
            (
                "WITH gone AS (DELETE FROM t RETURNING id) SELECT count(*) FROM gone",
                0,
            ),
            ("EXPLAIN SELECT 1", 0),
        ] {
            let statement = Statement::new(sql);
            assert_eq!(
                db.execute(&statement).await.expect(sql),
                count,
                "{name}: {sql}"
            );
            if !sql.starts_with("INSERT") {
                let twice = [statement.clone(), statement];
                let counts = if sql.starts_with("DELETE") || sql.starts_with("WITH") {
                    [0, 0]
                } else {
                    [count, count]
                };
                assert_eq!(
                    db.batch_atomic(&twice).await.expect(sql),
                    counts,
                    "{name}: {sql}"
                );
            }
        }
    }
    place.close().await;
}
