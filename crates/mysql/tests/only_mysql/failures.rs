//! Errors of the server, sorted, without what is in the rows.

use duebox_mysql::{
    Database, DbError, Kind, MySqlDatabase, MySqlOptions, Outbox, Outcome, Statement,
};

use crate::common::{Server, TestDatabase, run};
use crate::tests;

tests!(failures:
    each_refusal_has_its_kind_and_says_nothing_of_a_row,
    what_is_missing_is_named,
    privileges_and_logins_are_told_apart,
    a_server_that_is_not_there_is_unavailable,
    debug_and_display_show_no_password,
    a_statement_binlog_refuses_read_committed
);

const DAY: &str = "2026-03-01T00:00:00.000000Z";
const NOW: &str = "2026-03-02T00:00:00.000000Z";
const LATER: &str = "2026-03-03T00:00:00.000000Z";
const MARKER: &str = "mArKeR";
const LONG: &str = "mArKeRmArKeRmArKeRmArKeR";

/// A statement, what it binds, and the kind and constraint of the refusal.
const CASES: [(&str, &str, Kind, Option<&str>); 12] = [
    (
        "INSERT INTO parent (id, need) VALUES (?, 'x')",
        MARKER,
        Kind::Conflict,
        Some("PRIMARY"),
    ),
    (
        "INSERT INTO parent (id, u, need) VALUES ('n', ?, 'x')",
        MARKER,
        Kind::Conflict,
        Some("one_u"),
    ),
    (
        "INSERT INTO child VALUES ('d', ?)",
        "mArKeR-2",
        Kind::Constraint,
        Some("to_parent"),
    ),
    (
        "DELETE FROM parent WHERE id = ?",
        MARKER,
        Kind::Constraint,
        Some("to_parent"),
    ),
    (
        "INSERT INTO parent (id, need) VALUES ('n', ?)",
        MARKER,
        Kind::Constraint,
        Some("short_check"),
    ),
    (
        "INSERT INTO parent (id) VALUES (?)",
        "mArKeR-3",
        Kind::Constraint,
        None,
    ),
    (
        "INSERT INTO parent (id, need) VALUES (?, NULL)",
        "mArKeR-3",
        Kind::Constraint,
        None,
    ),
    (
        "INSERT INTO parent (id, need, short) VALUES ('n', 'x', ?)",
        LONG,
        Kind::Constraint,
        None,
    ),
    (
        "UPDATE parent SET small = ?",
        "1000000",
        Kind::Constraint,
        None,
    ),
    (
        "UPDATE parent SET small = ?",
        MARKER,
        Kind::Constraint,
        None,
    ),
    ("UPDATE parent SET at = ?", MARKER, Kind::Constraint, None),
    (
        "UPDATE parent SET latin = ?",
        "mArKeR😀",
        Kind::Constraint,
        None,
    ),
];

fn say_nothing(error: &DbError) {
    let text = format!("{error} {error:?} {error:#?}");
    assert!(!text.contains(MARKER), "{text}");
    assert!(std::error::Error::source(error).is_none());
}

async fn each_refusal_has_its_kind_and_says_nothing_of_a_row(server: Server) {
    let of = TestDatabase::new(server, "").await;
    let db = of.connect(2).await;
    let mut raw = of.raw().await;
    run(
        &mut raw,
        "CREATE TABLE parent (id VARCHAR(40) PRIMARY KEY, \
         u VARCHAR(40) NULL, need VARCHAR(40) NOT NULL, short VARCHAR(20) NULL, small TINYINT NULL, at DATETIME NULL, j JSON NULL, \
         latin VARCHAR(40) CHARACTER SET latin1 NULL, \
         CONSTRAINT one_u UNIQUE (u), CONSTRAINT short_check CHECK (need <> 'mArKeR'))",
    )
    .await;
    run(
        &mut raw,
        "CREATE TABLE child (id VARCHAR(40) PRIMARY KEY, parent VARCHAR(40) NOT NULL, \
         CONSTRAINT to_parent FOREIGN KEY (parent) REFERENCES parent (id))",
    )
    .await;
    run(
        &mut raw,
        "INSERT INTO parent (id, u, need) VALUES ('mArKeR', 'mArKeR', 'x')",
    )
    .await;
    run(&mut raw, "INSERT INTO child VALUES ('c', 'mArKeR')").await;
    for (sql, value, kind, constraint) in CASES {
        let statement = Statement::new(sql.to_owned()).bind(value);
        for error in [
            db.execute(&statement).await.expect_err(sql),
            db.batch_atomic(&[statement]).await.expect_err(sql),
        ] {
            assert_eq!(
                (error.kind(), error.outcome()),
                (kind, Outcome::NotApplied),
                "{sql}: {error}"
            );
            if let Some(name) = constraint {
                assert!(
                    error.constraint().is_some_and(|found| found.contains(name)),
                    "{sql}: {error}"
                );
            }
            say_nothing(&error);
        }
    }
    // As the README has it.
    let key = Statement::new("INSERT INTO parent (id, need) VALUES ('mArKeR', 'x')");
    let error = db.execute(&key).await.expect_err("it is there");
    let says = match server.name {
        "mariadb" => "PRIMARY",
        _ => "parent.PRIMARY",
    };
    assert_eq!(error.constraint(), Some(says));
    let json = Statement::new("UPDATE parent SET j = ?").bind(MARKER);
    let error = db.execute(&json).await.expect_err("no JSON");
    assert_eq!(error.kind(), Kind::Constraint, "{error}");
    say_nothing(&error);
    let nonsense = Statement::new("SELECT mArKeR FROM WHERE");
    let error = db.query(&nonsense).await.expect_err("nonsense");
    assert_eq!(
        (error.kind(), error.outcome()),
        (Kind::InvalidArgument, Outcome::NotApplied)
    );
    say_nothing(&error);
    let deep = Statement::new("SELECT EXTRACTVALUE('<a/>', CONCAT('~', ?)) AS x").bind(MARKER);
    say_nothing(&db.query(&deep).await.expect_err("no path"));
    // The outbox's own.
    let outbox = Outbox::new("outbox");
    db.migrate_outbox(&outbox).await.expect("migrate");
    let row = outbox.enqueue_statement("a", "t", MARKER, Some(MARKER), DAY);
    db.execute(&row).await.expect("enqueue");
    let error = db
        .batch_atomic(&[Statement::new("SELECT 1"), row])
        .await
        .expect_err("it is there");
    assert_eq!((error.kind(), error.statement()), (Kind::Conflict, Some(1)));
    say_nothing(&error);
    of.drop().await;
}

async fn what_is_missing_is_named(server: Server) {
    let of = TestDatabase::new(server, "").await;
    let db = of.connect(2).await;
    let outbox = Outbox::new("outbox");
    let errors = [
        outbox
            .claim_due(&db, NOW, LATER, 1)
            .await
            .expect_err("no table"),
        outbox.stats(&db, NOW).await.expect_err("no table"),
        outbox
            .erase_subject(&db, "s", 1)
            .await
            .expect_err("no table"),
        db.execute(&outbox.enqueue_statement("a", "t", "p", None, DAY))
            .await
            .expect_err("no table"),
    ];
    for error in errors {
        assert_eq!(
            (error.kind(), error.outcome()),
            (Kind::Schema, Outcome::NotApplied),
            "{error}"
        );
        let says = format!(
            "table \"outbox\" does not exist in the database {:?}; run the migrations first",
            of.name
        );
        assert!(error.to_string().contains(&says), "{error}");
    }
    db.migrate_outbox(&outbox).await.expect("migrate");
    run(
        &mut of.raw().await,
        "ALTER TABLE outbox DROP COLUMN last_error",
    )
    .await;
    let error = outbox.get(&db, "a").await.expect_err("no column");
    assert_eq!(error.kind(), Kind::Schema);
    assert!(error.to_string().contains("last_error"), "{error}");
    run(&mut of.raw().await, "DROP INDEX outbox_due ON outbox").await;
    let error = outbox
        .claim_due(&db, NOW, LATER, 1)
        .await
        .expect_err("no index");
    assert_eq!(error.kind(), Kind::Schema, "{error}");
    let says = "index \"outbox_due\" does not exist";
    assert!(error.to_string().contains(says), "{error}");
    let error = MySqlDatabase::connect(&of.url().replace(&of.name, "no_such_database"))
        .await
        .expect_err("no database");
    assert_eq!(error.kind(), Kind::Schema, "{error}");
    let says = "database \"no_such_database\" does not exist";
    assert!(error.to_string().contains(says), "{error}");
    // MariaDB says only that the table is missing.
    let elsewhere = Outbox::new("nowhere.outbox");
    let error = elsewhere.stats(&db, NOW).await.expect_err("no database");
    assert_eq!(error.kind(), Kind::Schema, "{error}");
    assert!(
        error.to_string().contains("database \"nowhere\""),
        "{error}"
    );
    let error = db.migrate_outbox(&elsewhere).await.expect_err("none");
    let says = "database \"nowhere\" does not exist";
    assert!(error.to_string().contains(says), "{error}");
    // A table of the caller's own.
    let error = db.query(&Statement::new("SELECT 1 FROM account")).await;
    let error = error.expect_err("no table").to_string();
    assert!(
        error.contains("if it is Duebox's, run the migrations first"),
        "{error}"
    );
    of.drop().await;
}

async fn privileges_and_logins_are_told_apart(server: Server) {
    let of = TestDatabase::new(server, "").await;
    let db = of.connect(1).await;
    let outbox = Outbox::new("outbox");
    db.migrate_outbox(&outbox).await.expect("migrate");
    let due = outbox.enqueue_statement("due", "t", "p", None, DAY);
    db.execute(&due).await.expect("enqueue");
    let user = format!("u_{}", of.name);
    let mut admin = server.admin().await;
    run(
        &mut admin,
        format!("CREATE USER {user} IDENTIFIED BY 'geheim-1'"),
    )
    .await;
    run(
        &mut admin,
        format!("GRANT SELECT ON {}.* TO {user}", of.name),
    )
    .await;
    let url = |password: &str| {
        let url = of.url();
        let (_, rest) = url.split_once('@').expect("a user");
        format!("mysql://{user}:{password}@{rest}")
    };
    let limited = MySqlDatabase::connect(&url("geheim-1"))
        .await
        .expect("connect");
    outbox.stats(&limited, NOW).await.expect("it may read");
    let row = outbox.enqueue_statement("a", "t", "p", None, DAY);
    for error in [
        limited.execute(&row).await.expect_err("it may not write"),
        limited
            .batch_atomic(&[row])
            .await
            .expect_err("it may not write"),
        outbox
            .claim_due(&limited, NOW, LATER, 1)
            .await
            .expect_err("it may not lock"),
    ] {
        assert_eq!(
            (error.kind(), error.outcome()),
            (Kind::Schema, Outcome::NotApplied),
            "{error}"
        );
        let error = error.to_string();
        assert!(error.contains("the user lacks the privilege "), "{error}");
        assert!(error.contains("on the table \"outbox\""), "{error}");
    }
    let error = MySqlDatabase::connect(&url("geheim-2"))
        .await
        .expect_err("a wrong password");
    assert_eq!(
        (error.kind(), error.outcome()),
        (Kind::Other, Outcome::NotApplied),
        "{error}"
    );
    assert!(!error.is_retryable());
    assert!(!format!("{error} {error:?}").contains("geheim"));
    run(&mut admin, format!("DROP USER {user}")).await;
    of.drop().await;
}

async fn a_server_that_is_not_there_is_unavailable(_: Server) {
    // A port that nobody listens at.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let port = listener.local_addr().expect("an address").port();
    drop(listener);
    let options =
        MySqlOptions::new(&format!("mysql://u:p@127.0.0.1:{port}/d")).expect("an address");
    let options = options.acquire_timeout(std::time::Duration::from_millis(500));
    let error = options
        .clone()
        .connect()
        .await
        .expect_err("nobody is there");
    assert_eq!(
        (error.kind(), error.outcome()),
        (Kind::Unavailable, Outcome::NotApplied),
        "{error}"
    );
    assert!(error.is_retryable());
    let db = options.connect_lazy();
    let row = Outbox::new("outbox").enqueue_statement("a", "t", "p", None, DAY);
    for error in [
        db.batch_atomic(std::slice::from_ref(&row))
            .await
            .expect_err("nobody is there"),
        db.execute(&row).await.expect_err("nobody is there"),
        Outbox::new("outbox")
            .claim_due(&db, NOW, LATER, 1)
            .await
            .expect_err("nobody is there"),
    ] {
        assert_eq!(
            (error.kind(), error.outcome()),
            (Kind::Unavailable, Outcome::NotApplied),
            "{error}"
        );
    }
}

async fn debug_and_display_show_no_password(server: Server) {
    let url = server
        .url()
        .expect("a server")
        .replace("test:test@", "test:s3cr3t@");
    let options = MySqlOptions::new(&url).expect("an address");
    let shown = format!("{options:?} {:?}", options.clone().connect_lazy());
    assert!(!shown.contains("s3cr3t"), "{shown}");
    for url in [
        "mysql://u:s3cr3t@[::1/d",
        "nonsense s3cr3t",
        "mysql://u:s3cr3t@h/d?ssl-mode=s3cr3t",
    ] {
        let error = MySqlOptions::new(url).expect_err("no address");
        assert_eq!(error.kind(), Kind::InvalidArgument);
        assert!(!format!("{error} {error:?}").contains("s3cr3t"), "{error}");
    }
}

async fn a_statement_binlog_refuses_read_committed(server: Server) {
    let of = TestDatabase::new(server, "").await;
    let own = of.connect(1).await;
    let outbox = Outbox::new("outbox");
    own.migrate_outbox(&outbox).await.expect("migrate");
    let row = own
        .query(&Statement::new("SELECT @@log_bin AS n"))
        .await
        .expect("query")
        .remove(0);
    if row.get::<i64>("n").expect("a number") == 0 {
        // Without a binary log its format does not matter.
        of.drop().await;
        return;
    }
    let pool = duebox_mysql::sqlx::mysql::MySqlPoolOptions::new()
        .after_connect(|connection, _| {
            Box::pin(async move {
                let sql = "SET SESSION binlog_format = 'STATEMENT'";
                duebox_mysql::sqlx::Executor::execute(connection, sql)
                    .await
                    .map(drop)
            })
        })
        .connect(&of.url())
        .await
        .expect("connect");
    let db = MySqlDatabase::from_pool(pool);
    let row = outbox.enqueue_statement("a", "t", "p", None, DAY);
    for error in [
        db.execute(&row).await.expect_err("a statement binlog"),
        db.batch_atomic(&[row])
            .await
            .expect_err("a statement binlog"),
    ] {
        assert_eq!(
            (error.kind(), error.outcome()),
            (Kind::Unsupported, Outcome::NotApplied),
            "{error}"
        );
        assert!(error.to_string().contains("binlog_format"), "{error}");
    }
    of.drop().await;
}
