//! Sessions with settings of all kinds: those that change nothing, and those that
//! are refused.

use duebox_mysql::sqlx::mysql::{MySqlConnectOptions, MySqlPoolOptions};
use duebox_mysql::sqlx::{AssertSqlSafe, Executor};
use duebox_mysql::{Database, Kind, MySqlDatabase, Outbox, Outcome, Retry, Statement};

use crate::common::{Server, TestDatabase, run};
use crate::pools::{pool, with_outbox};
use crate::tests;

tests!(settings:
    an_outbox_works_whatever_the_sessions_settings,
    sessions_that_cannot_do_are_refused_before_anything_runs,
    an_outbox_works_in_every_sql_mode_that_is_not_refused,
    a_statement_that_runs_too_long_is_ended_by_the_server;
    alone: our_own_pool_has_no_limit_of_rows
);

const DAY: &str = "2026-03-01T00:00:00.000000Z";
const NOW: &str = "2026-03-02T00:00:00.000000Z";
const LATER: &str = "2026-03-03T00:00:00.000000Z";

async fn an_outbox_works_whatever_the_sessions_settings(server: Server) {
    let settings = [
        "SET SESSION sql_mode = '', time_zone = '+13:00'",
        "SET SESSION sql_mode = 'ONLY_FULL_GROUP_BY,STRICT_ALL_TABLES,NO_ZERO_DATE,PAD_CHAR_TO_FULL_LENGTH,PIPES_AS_CONCAT,IGNORE_SPACE,HIGH_NOT_PRECEDENCE'",
        "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY",
        "SET SESSION completion_type = 'CHAIN', group_concat_max_len = 4",
        "SET SESSION sql_auto_is_null = 1, unique_checks = 1, time_zone = '-11:30'",
    ];
    for setting in settings {
        // A default character set that can hold no emoji.
        let of = TestDatabase::new(server, "CHARACTER SET latin1").await;
        let (_, outbox) = with_outbox(&of).await;
        let portable = Outbox::new("portable");
        let db = MySqlDatabase::from_pool(pool(&of, 2, setting).await);
        let make = Statement::new(portable.create_table_sql());
        if setting.contains("READ ONLY") {
            of.connect(1)
                .await
                .execute(&make)
                .await
                .expect("make the table");
        } else {
            db.execute(&make).await.expect("make the table");
        }
        for outbox in [outbox, portable] {
            let payload = "{\"é\": \"😀\\\\ '\\\"\"} ";
            let rows = [
                outbox.enqueue_statement(
                    "Job-A",
                    "t😀",
                    payload,
                    Some("ж "),
                    "2026-01-15T23:00:00+05:30",
                ),
                outbox.enqueue_statement(
                    "job-a",
                    "T😀",
                    "",
                    Some("Ж "),
                    "2026-01-15T17:30:00.000001Z",
                ),
            ];
            db.batch_atomic(&rows).await.expect(setting);
            let late = outbox.enqueue_statement("late", "t", "p", None, "2026-01-15T17:30:01Z");
            assert_eq!(db.execute(&late).await.expect(setting), 1);
            let again = outbox.enqueue_once_statement("late", "t", "p", None, DAY);
            assert_eq!(db.execute(&again).await.expect(setting), 0);

            let until = "2026-01-15T18:00:00Z";
            let first = outbox
                .claim_due(&db, "2026-01-15T17:30:00Z", until, 10)
                .await
                .expect(setting);
            assert_eq!(first.len(), 1, "{setting}");
            let record = &first[0];
            assert_eq!(
                (
                    &*record.id,
                    &*record.topic,
                    &*record.payload,
                    record.subject.as_deref()
                ),
                ("Job-A", "t😀", payload, Some("ж "))
            );
            assert_eq!(record.created_at, "2026-01-15T17:30:00.000000Z");
            let now = "2026-01-15T17:30:00.999999Z";
            let second = outbox.claim_due(&db, now, until, 10).await.expect(setting);
            assert_eq!(second.len(), 1);
            assert_eq!((&*second[0].id, &*second[0].payload), ("job-a", ""));
            let lease = second[0].lease.clone();
            let held = outbox.complete_claimed(&db, &[lease]).await.expect(setting);
            assert!(held[0].is_held());
            let lease = first[0].lease.clone();
            let held = outbox
                .release_claimed(&db, &[lease], now)
                .await
                .expect(setting);
            assert!(held[0].is_held());
            assert_eq!(outbox.erase_subject(&db, "ж", 10).await.expect(setting), 0);
            assert_eq!(outbox.erase_subject(&db, "ж ", 10).await.expect(setting), 1);
            let stats = outbox.stats(&db, NOW).await.expect(setting);
            assert_eq!(
                (stats.due, stats.leased, stats.waiting),
                (1, 0, 0),
                "{setting}"
            );
        }
        // A batch with nothing behind it leaves no transaction, chained or not.
        db.batch_atomic(&[Statement::new("DELETE FROM outbox WHERE id = 'late'")])
            .await
            .expect(setting);
        let rest = of.connect(1).await;
        let gone = rest
            .query(&Statement::new("SELECT id FROM outbox"))
            .await
            .expect(setting);
        assert!(gone.is_empty(), "{setting}");
        of.drop().await;
    }
}

async fn sessions_that_cannot_do_are_refused_before_anything_runs(server: Server) {
    let of = TestDatabase::new(server, "").await;
    let (_, outbox) = with_outbox(&of).await;
    let settings = [
        ("SET SESSION sql_mode = 'ANSI'", "ANSI_QUOTES"),
        (
            "SET SESSION sql_mode = 'NO_BACKSLASH_ESCAPES'",
            "NO_BACKSLASH_ESCAPES",
        ),
        ("SET SESSION autocommit = 0", "autocommit"),
        ("SET SESSION sql_select_limit = 1000", "sql_select_limit"),
        ("SET NAMES latin1", "utf8mb4"),
    ];
    let safe = ("SET SESSION sql_safe_updates = 1", "sql_safe_updates");
    let empty = (
        "SET SESSION sql_mode = 'STRICT_ALL_TABLES,EMPTY_STRING_IS_NULL'",
        "EMPTY_STRING_IS_NULL",
    );
    let oracle = ("SET SESSION sql_mode = 'ORACLE'", "ANSI_QUOTES");
    let of_mariadb = [safe, empty, oracle];
    let of_mariadb = of_mariadb.into_iter().filter(|_| server.name == "mariadb");
    for (setting, named) in settings.into_iter().chain(of_mariadb) {
        let db = MySqlDatabase::from_pool(pool(&of, 2, setting).await);
        for _ in 0..2 {
            let row = outbox.enqueue_statement("a", "t", "p", None, DAY);
            let error = db.batch_atomic(&[row]).await.expect_err(setting);
            assert_eq!(
                (error.kind(), error.outcome()),
                (Kind::Unsupported, Outcome::NotApplied)
            );
            assert!(error.to_string().contains(named), "{error}");
        }
    }
    let options: MySqlConnectOptions = of.url().parse().expect("an address");
    // Of our own sessions it is we who set these.
    let options =
        duebox_mysql::MySqlOptions::from_driver(options.charset("latin1").set_names(false));
    let db = options.connect().await.expect("connect");
    assert_eq!(outbox.stats(&db, NOW).await.expect("stats").due, 0);
    of.drop().await;
}

async fn an_outbox_works_in_every_sql_mode_that_is_not_refused(server: Server) {
    let common = [
        "ALLOW_INVALID_DATES",
        "ERROR_FOR_DIVISION_BY_ZERO",
        "HIGH_NOT_PRECEDENCE",
        "IGNORE_SPACE",
        "NO_AUTO_VALUE_ON_ZERO",
        "NO_DIR_IN_CREATE",
        "NO_UNSIGNED_SUBTRACTION",
        "NO_ZERO_IN_DATE",
        "ONLY_FULL_GROUP_BY",
        "PAD_CHAR_TO_FULL_LENGTH",
        "PIPES_AS_CONCAT",
        "REAL_AS_FLOAT",
        "TRADITIONAL",
    ];
    let own: &[&str] = match server.name {
        "mariadb" => &[
            "NO_FIELD_OPTIONS",
            "NO_KEY_OPTIONS",
            "NO_TABLE_OPTIONS",
            "SIMULTANEOUS_ASSIGNMENT",
            "TIME_ROUND_FRACTIONAL",
        ],
        _ => &["TIME_TRUNCATE_FRACTIONAL"],
    };
    let of = TestDatabase::new(server, "").await;
    for (number, mode) in common.iter().chain(own).enumerate() {
        let options: MySqlConnectOptions = of.url().parse().expect("an address");
        let set = format!("SET SESSION sql_mode = '{mode}', group_concat_max_len = 4");
        let pool = MySqlPoolOptions::new()
            .max_connections(1)
            .after_connect(move |connection, _| {
                let set = AssertSqlSafe(set.clone());
                Box::pin(async move { connection.execute(set).await.map(drop) })
            })
            .connect_with(options)
            .await
            .expect("connect");
        let db = MySqlDatabase::from_pool(pool);
        let outbox = Outbox::new(format!("outbox_{number}"));
        if number % 2 == 0 {
            let make = Statement::new(outbox.create_table_sql());
            db.execute(&make).await.expect(mode);
        }
        db.migrate_outbox(&outbox).await.expect(mode);
        let ids: Vec<String> = (10..50).map(|id| id.to_string()).collect();
        for id in &ids {
            let row = outbox.enqueue_statement(id, "t", "", Some("s"), DAY);
            assert_eq!(db.execute(&row).await.expect(mode), 1);
            let again = outbox.enqueue_once_statement(id, "t", "", Some("s"), DAY);
            assert_eq!(db.execute(&again).await.expect(mode), 0, "{mode}");
        }
        let claimed = outbox.claim_due(&db, NOW, LATER, 100).await.expect(mode);
        let found: Vec<&String> = claimed.iter().map(|record| &record.id).collect();
        assert!(found.iter().copied().eq(&ids), "{mode}: {found:?}");
        assert!(claimed.iter().all(|record| record.payload.is_empty()));
        let leases: Vec<_> = claimed.into_iter().map(|record| record.lease).collect();
        let (again, completed) = leases.split_at(30);
        let retries: Vec<_> = again
            .iter()
            .map(|lease| Retry {
                lease,
                next_attempt_at: NOW,
                error: "",
            })
            .collect();
        let held = outbox.retry_claimed(&db, NOW, &retries).await.expect(mode);
        assert!(held.iter().all(|answer| answer.is_held()), "{mode}");
        let held = outbox.complete_claimed(&db, completed).await.expect(mode);
        assert!(held.iter().all(|answer| answer.is_held()), "{mode}");
        let again = outbox.claim_due(&db, NOW, LATER, 100).await.expect(mode);
        assert_eq!(again.len(), 30, "{mode}");
        assert!(
            again
                .iter()
                .all(|record| (record.attempts, record.claims, record.lapses) == (1, 2, 0)),
            "{mode}"
        );
        let erased = outbox.erase_subject(&db, "s", 100).await.expect(mode);
        assert_eq!(erased, 30, "{mode}");
    }
    of.drop().await;
}

async fn our_own_pool_has_no_limit_of_rows(server: Server) {
    let mut admin = server.admin().await;
    let of = TestDatabase::new(server, "").await;
    run(
        &mut admin,
        "SET GLOBAL sql_select_limit = 1, GLOBAL group_concat_max_len = 4",
    )
    .await;
    let outcome = tokio::spawn(async move {
        let db = of.connect(1).await;
        let outbox = Outbox::new("outbox");
        let make = Statement::new(outbox.create_table_sql());
        db.execute(&make).await.expect("make the table");
        db.migrate_outbox(&outbox).await.expect("migrate");
        for id in 0..20 {
            let row = outbox.enqueue_statement(&format!("r{id}"), "t", "p", Some("s"), DAY);
            db.execute(&row).await.expect("enqueue");
        }
        let claimed = outbox.claim_due(&db, NOW, LATER, 100).await.expect("claim");
        let leases: Vec<_> = claimed.into_iter().map(|record| record.lease).collect();
        let held = outbox
            .extend_claimed(&db, &leases, LATER)
            .await
            .expect("extend");
        let erased = outbox.erase_subject(&db, "s", 100).await.expect("erase");
        of.drop().await;
        (
            leases.len(),
            held.iter().filter(|answer| answer.is_held()).count(),
            erased,
        )
    })
    .await;
    for setting in ["sql_select_limit", "group_concat_max_len"] {
        run(&mut admin, format!("SET GLOBAL {setting} = DEFAULT")).await;
    }
    assert_eq!(outcome.expect("no panic"), (20, 20, 20));
}

async fn a_statement_that_runs_too_long_is_ended_by_the_server(server: Server) {
    let of = TestDatabase::new(server, "").await;
    let limited = of
        .options()
        .statement_timeout(std::time::Duration::from_millis(50));
    let db = limited.connect().await.expect("connect");
    let long = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
        SELECT COUNT(*) AS found FROM n AS a, n AS b, n AS c, n AS d";
    let error = db.query(&Statement::new(long)).await.expect_err("ended");
    assert_eq!(error.kind(), Kind::Busy, "{error}");
    assert_eq!(error.outcome(), Outcome::NotApplied, "{error}");
    // The session goes on, as all the others are set.
    let (outbox, next) = (Outbox::new("outbox"), DAY);
    db.migrate_outbox(&outbox).await.expect("migrate");
    let row = outbox.enqueue_statement("a", "t", "p", None, next);
    db.batch_atomic(&[row]).await.expect("enqueue");
    assert_eq!(
        outbox
            .claim_due(&db, NOW, LATER, 10)
            .await
            .expect("claim")
            .len(),
        1
    );
    of.drop().await;
}
