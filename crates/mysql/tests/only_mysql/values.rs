//! Types in, types out.

use duebox_mysql::{Database, Kind, MySqlDatabase, Outbox, Outcome, Row, Statement, Value};

use crate::common::{Server, TestDatabase, run};
use crate::tests;

tests!(values:
    columns_of_every_type_are_read,
    texts_bind_to_columns_of_every_type,
    numbers_keep_their_value_or_are_refused,
    collations_by_bytes_are_text_in_any_database,
    types_that_cannot_be_read_are_named_before_anything_runs,
    statements_that_cannot_be_prepared_run_all_the_same,
    counts_are_of_rows_found,
    a_migration_beside_prepared_statements_breaks_none
);

async fn with_table(of: &TestDatabase, columns: &str) -> MySqlDatabase {
    let db = of.connect(2).await;
    run(&mut of.raw().await, format!("CREATE TABLE t ({columns})")).await;
    db
}

async fn one(db: &MySqlDatabase, sql: &str) -> Row {
    let mut rows = db.query(&Statement::new(sql.to_owned())).await.expect(sql);
    assert_eq!(rows.len(), 1, "{sql}");
    rows.remove(0)
}

async fn columns_of_every_type_are_read(server: Server) {
    let of = TestDatabase::new(server, "CHARACTER SET utf8mb4").await;
    let db = with_table(
        &of,
        "t1 TINYINT, t2 TINYINT(1), t3 TINYINT(1) UNSIGNED, s SMALLINT, m MEDIUMINT, i INT, b BIGINT, \
         us SMALLINT UNSIGNED, um MEDIUMINT UNSIGNED, ui INT UNSIGNED, ub BIGINT UNSIGNED, y YEAR, \
         f FLOAT, d DOUBLE, n DECIMAL(30, 4), bits BIT(12), \
         c CHAR(3), v VARCHAR(9), tx TEXT, lt LONGTEXT, j JSON, e ENUM('x', 'y'), st SET('p', 'q'), \
         bi BINARY(2), vb VARBINARY(9), bl BLOB, \
         da DATE, dt DATETIME, dt6 DATETIME(6), ts TIMESTAMP NULL, ti TIME(3), \
         nothing INT",
    )
    .await;
    run(
        &mut of.raw().await,
        "INSERT INTO t VALUES (-128, 1, 200, -32768, -8388608, -2147483648, -9223372036854775808, \
         65535, 16777215, 4294967295, 9223372036854775807, 2026, \
         0.5, -1.25, -12345678901234567890.5, b'100000000001', \
         'é', '😀', 'text', '', '{\"a\": 1}', 'y', 'p,q', \
         x'00ff', x'', x'ff00', \
         '2026-03-01', '2026-03-01 00:00:00', '2026-03-01 23:59:59.000001', '2026-03-01 12:00:00', '-100:00:01.500', \
         NULL)",
    )
    .await;
    let row = one(&db, "SELECT * FROM t").await;
    let integers = [
        ("t1", -128),
        ("t2", 1),
        ("t3", 200),
        ("s", -32_768),
        ("m", -8_388_608),
        ("i", -2_147_483_648),
        ("b", i64::MIN),
        ("us", 65_535),
        ("um", 16_777_215),
        ("ui", 4_294_967_295),
        ("ub", i64::MAX),
        ("y", 2026),
        ("bits", 0b1000_0000_0001),
    ];
    for (column, number) in integers {
        assert_eq!(row.get::<i64>(column).expect(column), number, "{column}");
    }
    assert!(row.get::<bool>("t2").expect("t2"));
    assert!(row.value("f").expect("f") == &Value::Real(0.5));
    assert!(row.value("d").expect("d") == &Value::Real(-1.25));
    let texts = [
        ("n", "-12345678901234567890.5000"),
        ("c", "é"),
        ("v", "😀"),
        ("tx", "text"),
        ("lt", ""),
        ("j", "{\"a\": 1}"),
        ("e", "y"),
        ("st", "p,q"),
        ("da", "2026-03-01"),
        ("dt", "2026-03-01 00:00:00"),
        ("dt6", "2026-03-01 23:59:59.000001"),
        ("ti", "-100:00:01.500000"),
    ];
    for (column, text) in texts {
        assert_eq!(row.get::<String>(column).expect(column), text, "{column}");
    }
    assert!(
        row.get::<String>("ts")
            .expect("ts")
            .starts_with("2026-03-01 ")
    );
    for (column, bytes) in [("bi", &[0, 0xFF][..]), ("vb", &[]), ("bl", &[0xFF, 0])] {
        assert!(
            row.value(column).expect(column) == &Value::Bytes(bytes.to_vec()),
            "{column}"
        );
    }
    assert_eq!(row.get::<Option<i64>>("nothing").expect("nothing"), None);
    // What no column holds: expressions, NULL without a type, an empty result.
    let row = one(
        &db,
        "SELECT 1 AS a, NULL AS b, 'x' AS c, 1.50 AS d, COUNT(*) AS n, SUM(i) AS s FROM t",
    )
    .await;
    assert_eq!(row.get::<i64>("a").expect("a"), 1);
    assert!(row.value("b").expect("b") == &Value::Null);
    assert_eq!(row.get::<String>("c").expect("c"), "x");
    assert_eq!(row.get::<String>("d").expect("d"), "1.50");
    assert_eq!(row.get::<i64>("n").expect("n"), 1);
    assert_eq!(row.get::<String>("s").expect("s"), "-2147483648");
    assert!(
        db.query(&Statement::new("SELECT * FROM t WHERE i > 0"))
            .await
            .expect("none")
            .is_empty()
    );
    of.drop().await;
}

async fn texts_bind_to_columns_of_every_type(server: Server) {
    let of = TestDatabase::new(server, "CHARACTER SET utf8mb4").await;
    let db = with_table(
        &of,
        "n DECIMAL(10, 2), i BIGINT, f DOUBLE, da DATE, dt DATETIME(6), ti TIME, j JSON, e ENUM('x', 'y'), bi BINARY(2), bl BLOB",
    )
    .await;
    let insert = [
        "12.34",
        "-7",
        "0.5",
        "2026-03-01",
        "2026-03-01 01:02:03.000004",
        "11:12:13",
        "[1]",
        "y",
        "ab",
        "é",
    ]
    .iter()
    .fold(
        Statement::new("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"),
        |statement, text| statement.bind(*text),
    );
    assert_eq!(db.execute(&insert).await.expect("insert"), 1);
    let row = one(&db, "SELECT * FROM t").await;
    assert_eq!(row.get::<String>("n").expect("n"), "12.34");
    assert_eq!(row.get::<i64>("i").expect("i"), -7);
    assert_eq!(
        row.get::<String>("dt").expect("dt"),
        "2026-03-01 01:02:03.000004"
    );
    assert_eq!(row.get::<String>("j").expect("j"), "[1]");
    assert_eq!(row.get::<Vec<u8>>("bi").expect("bi"), b"ab");
    assert_eq!(row.get::<Vec<u8>>("bl").expect("bl"), "é".as_bytes());
    let find = Statement::new("SELECT i FROM t WHERE n = ? AND da = ? AND dt < ? AND i = ?")
        .bind("12.34")
        .bind("2026-03-01")
        .bind("2026-03-02 00:00:00")
        .bind("-7");
    assert_eq!(db.query(&find).await.expect("find").len(), 1);
    let nulls = Statement::new("UPDATE t SET n = ?, da = ?, j = ?, bl = ?")
        .bind(Value::Null)
        .bind(Value::Null)
        .bind(Value::Null)
        .bind(Value::Null);
    assert_eq!(db.execute(&nulls).await.expect("update"), 1);
    let wrong = Statement::new("UPDATE t SET dt = ?").bind("not a time, marker-1");
    let error = db.execute(&wrong).await.expect_err("no time");
    assert_eq!(
        (error.kind(), error.outcome()),
        (Kind::Constraint, Outcome::NotApplied)
    );
    assert!(!format!("{error} {error:?}").contains("marker-1"));
    of.drop().await;
}

async fn numbers_keep_their_value_or_are_refused(server: Server) {
    let of = TestDatabase::new(server, "").await;
    let db = with_table(&of, "s SMALLINT, ub BIGINT UNSIGNED, ok BOOLEAN, f DOUBLE").await;
    let fits = Statement::new("INSERT INTO t (s, ub, ok, f) VALUES (?, ?, ?, ?)")
        .bind(-32_768)
        .bind(i64::MAX)
        .bind(true)
        .bind(1.0 / 3.0);
    assert_eq!(db.execute(&fits).await.expect("insert"), 1);
    let row = one(&db, "SELECT ok, f FROM t").await;
    assert!(row.get::<bool>("ok").expect("ok"));
    assert!(row.value("f").expect("f") == &Value::Real(1.0 / 3.0));
    for (column, number) in [("s", 32_768), ("s", i64::MIN), ("ub", -1)] {
        let insert = Statement::new(format!("INSERT INTO t ({column}) VALUES (?)")).bind(number);
        let error = db.execute(&insert).await.expect_err("out of range");
        assert_eq!(
            (error.kind(), error.outcome()),
            (Kind::Constraint, Outcome::NotApplied)
        );
    }
    run(
        &mut of.raw().await,
        "UPDATE t SET ub = 18446744073709551615",
    )
    .await;
    let error = db
        .query(&Statement::new("SELECT ub FROM t"))
        .await
        .expect_err("too large");
    assert_eq!(error.kind(), Kind::Unsupported);
    assert!(error.to_string().contains("cast it to text"), "{error}");
    let row = one(&db, "SELECT CAST(ub AS CHAR) AS ub FROM t").await;
    assert_eq!(row.get::<String>("ub").expect("ub"), "18446744073709551615");
    of.drop().await;
}

async fn collations_by_bytes_are_text_in_any_database(server: Server) {
    for character_set in ["latin1", "utf8mb3", "utf8mb4", "ascii"] {
        let of = TestDatabase::new(server, &format!("CHARACTER SET {character_set}")).await;
        let db = of.connect(2).await;
        db.migrate().await.expect("migrate");
        let portable = Outbox::new("portable");
        db.execute(&Statement::new(portable.create_table_sql()))
            .await
            .expect("make the table");
        for table in ["outbox", "portable"] {
            let insert = Statement::new(format!(
                "INSERT INTO {table} (id, topic, payload, subject, created_at, next_attempt_at, locked_by, last_error) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
            ));
            let values = ["a", "😀", "", "ж😀", "2026", "2026", "😀", "😀"];
            let insert = values
                .iter()
                .fold(insert, |statement, value| statement.bind(*value));
            db.execute(&insert).await.expect("insert");
            let row = one(&db, &format!("SELECT * FROM {table}")).await;
            for (column, text) in [
                ("id", "a"),
                ("topic", "😀"),
                ("payload", ""),
                ("subject", "ж😀"),
                ("locked_by", "😀"),
                ("last_error", "😀"),
            ] {
                assert_eq!(
                    row.get::<String>(column).expect(column),
                    text,
                    "{table}.{column}"
                );
            }
        }
        of.drop().await;
    }
    let of = TestDatabase::new(server, "").await;
    let db = with_table(
        &of,
        "a VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, b TEXT CHARACTER SET ascii COLLATE ascii_bin, \
         c CHAR(9) CHARACTER SET latin1 COLLATE latin1_bin, d ENUM('é') CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, \
         e VARBINARY(9)",
    )
    .await;
    run(
        &mut of.raw().await,
        "INSERT INTO t VALUES ('😀', 'b', 'é', 'é', 'é')",
    )
    .await;
    let row = one(&db, "SELECT * FROM t").await;
    for (column, text) in [("a", "😀"), ("b", "b"), ("c", "é"), ("d", "é")] {
        assert_eq!(row.get::<String>(column).expect(column), text, "{column}");
    }
    assert!(row.value("e").expect("e") == &Value::Bytes("é".into()));
    of.drop().await;
}

async fn types_that_cannot_be_read_are_named_before_anything_runs(server: Server) {
    let of = TestDatabase::new(server, "").await;
    let db = with_table(&of, "id INT PRIMARY KEY, place GEOMETRY").await;
    run(&mut of.raw().await, "INSERT INTO t VALUES (1, POINT(1, 2))").await;
    for _ in 0..2 {
        let error = db
            .query(&Statement::new("SELECT id, place FROM t"))
            .await
            .expect_err("a type");
        assert_eq!(
            (error.kind(), error.outcome()),
            (Kind::Unsupported, Outcome::NotApplied)
        );
        let text = error.to_string();
        assert!(
            text.contains("\"place\"")
                && text.contains("GEOMETRY")
                && text.contains("cast it to text"),
            "{text}"
        );
    }
    let row = one(&db, "SELECT id, ST_AsText(place) AS place FROM t").await;
    assert_eq!(
        row.get::<String>("place").expect("place").replace(' ', ","),
        "POINT(1,2)"
    );

    // A type that is newer than the driver; MariaDB sends it as bytes.
    let mut raw = of.raw().await;
    let vector =
        duebox_mysql::sqlx::Executor::execute(&mut raw, "CREATE TABLE v (v VECTOR(2))").await;
    if vector.is_ok() && server.name == "mysql" {
        let error = db
            .query(&Statement::new("SELECT v FROM v"))
            .await
            .expect_err("a type");
        assert_eq!(error.kind(), Kind::Unsupported, "{error}");
        assert!(error.to_string().contains("cast it to text"), "{error}");
    }
    assert_eq!(
        one(&db, "SELECT id FROM t")
            .await
            .get::<i64>("id")
            .expect("id"),
        1
    );
    of.drop().await;
}

async fn statements_that_cannot_be_prepared_run_all_the_same(server: Server) {
    let of = TestDatabase::new(server, "").await;
    let db = with_table(&of, "id INT PRIMARY KEY, n INT").await;
    let statements = [
        "CREATE TRIGGER twice BEFORE INSERT ON t FOR EACH ROW SET NEW.n = NEW.n * 2",
        "CREATE PROCEDURE p() INSERT INTO t VALUES (7, 7)",
        "CREATE VIEW seen AS SELECT id FROM t",
        "INSERT INTO t VALUES (1, 21)",
    ];
    for sql in statements {
        db.execute(&Statement::new(sql))
            .await
            .unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    assert_eq!(
        one(&db, "SELECT n FROM t")
            .await
            .get::<i64>("n")
            .expect("n"),
        42
    );
    db.execute(&Statement::new("CALL p()")).await.expect("call");
    // It may have committed before it failed.
    let error = db
        .execute(&Statement::new("CALL p()"))
        .await
        .expect_err("it is there");
    assert_eq!(
        (error.kind(), error.outcome()),
        (Kind::Conflict, Outcome::Unknown)
    );
    of.drop().await;
}

async fn counts_are_of_rows_found(server: Server) {
    let of = TestDatabase::new(server, "").await;
    let db = with_table(&of, "id INT PRIMARY KEY, n INT").await;
    run(
        &mut of.raw().await,
        "INSERT INTO t VALUES (1, 1), (2, 1), (3, 1)",
    )
    .await;
    let mariadb = server.name == "mariadb";
    let counts = [
        ("UPDATE t SET n = 1", 3),
        ("UPDATE t SET n = 1 WHERE id = 9", 0),
        ("SELECT id FROM t", 0),
        ("SELECT id FROM t WHERE id = 9", 0),
        (
            "DELETE o FROM t AS o FORCE INDEX (PRIMARY) WHERE id IN (1, 1, 9)",
            1,
        ),
        ("INSERT IGNORE INTO t VALUES (2, 1), (4, 1)", 1),
        (
            "INSERT INTO t VALUES (2, 1) ON DUPLICATE KEY UPDATE n = 1",
            1,
        ),
        (
            "INSERT INTO t VALUES (2, 5) ON DUPLICATE KEY UPDATE n = 6",
            2,
        ),
    ];
    for (sql, count) in counts {
        let statement = Statement::new(sql);
        assert_eq!(db.execute(&statement).await.expect(sql), count, "{sql}");
    }
    let counts: Vec<u64> = db
        .batch_atomic(&[
            Statement::new("SELECT 1"),
            Statement::new("UPDATE t SET n = n"),
        ])
        .await
        .expect("batch");
    assert_eq!(counts, [0, 3]);
    if mariadb {
        let returning = Statement::new("INSERT INTO t VALUES (9, 9) RETURNING id");
        assert_eq!(db.execute(&returning).await.expect("insert"), 0);
        let returning = Statement::new("DELETE FROM t WHERE id = 9 RETURNING n");
        assert_eq!(
            db.query(&returning).await.expect("delete")[0]
                .get::<i64>("n")
                .expect("n"),
            9
        );
    }
    of.drop().await;
}

async fn a_migration_beside_prepared_statements_breaks_none(server: Server) {
    let of = TestDatabase::new(server, "").await;
    let db = of.connect(1).await;
    let outbox = Outbox::new("outbox");
    db.migrate_outbox(&outbox).await.expect("migrate");
    let (day, now, later) = (
        "2026-03-01T00:00:00Z",
        "2026-03-02T00:00:00Z",
        "2026-03-03T00:00:00Z",
    );
    for change in [
        "SELECT 1",
        "ALTER TABLE outbox ADD COLUMN extra TEXT NULL FIRST",
        "ALTER TABLE outbox MODIFY locked_by VARCHAR(300) NULL",
        "ALTER TABLE outbox DROP COLUMN extra",
    ] {
        run(&mut of.raw().await, change).await;
        let row = outbox.enqueue_statement("a", "t", "p", Some("s"), day);
        db.batch_atomic(&[row]).await.expect(change);
        let mine = outbox.claim_due(&db, now, later, 1).await.expect(change);
        assert_eq!(
            outbox
                .get(&db, "a")
                .await
                .expect(change)
                .expect("a row")
                .topic,
            "t"
        );
        let held = outbox
            .complete_claimed(&db, &[mine[0].lease.clone()])
            .await
            .expect(change);
        assert!(held[0].is_held());
    }
    of.drop().await;
}
