//! Migrations from many processes, and beside other tools.

use duebox_mysql::uuid::Uuid;
use duebox_mysql::{Database, Kind, MySqlDatabase, Outbox, PendingReceiptStore, Statement};

use crate::common::{Server, TestDatabase, run};
use crate::tests;

tests!(migrations:
    many_processes_migrate_at_once,
    tables_of_another_tool_are_recognised,
    tables_that_lack_something_are_refused_by_name,
    a_table_that_was_dropped_is_made_again,
    an_outbox_in_another_database_is_migrated_there,
    a_user_with_the_least_privileges_migrates_what_is_migrated
);

async fn many_processes_migrate_at_once(server: Server) {
    for _ in 0..3 {
        let of = TestDatabase::new(server, "").await;
        let mut processes = Vec::new();
        for _ in 0..8 {
            let db = of.connect(1).await;
            processes.push(tokio::spawn(async move {
                db.migrate().await?;
                db.migrate_outbox(&Outbox::new("mail")).await
            }));
        }
        for process in processes {
            process.await.expect("no panic").expect("migrate");
        }
        let db = of.connect(1).await;
        let rows = db
            .query(&Statement::new("SELECT target, number, name, applied_at FROM duebox_migrations ORDER BY target, number"))
            .await
            .expect("query");
        let found: Vec<(String, i64)> = rows
            .iter()
            .map(|row| {
                (
                    row.get("target").expect("a text"),
                    row.get("number").expect("a number"),
                )
            })
            .collect();
        let expected = [("mail", 1), ("outbox", 1), ("pending_receipts", 2)];
        assert_eq!(
            found,
            expected.map(|(target, number)| (target.to_owned(), number))
        );
        let at: String = rows[0].get("applied_at").expect("a text");
        assert_eq!(
            duebox_mysql::format_time(duebox_mysql::parse_time(&at).expect("a time"))
                .expect("a text"),
            at
        );
        of.drop().await;
    }
}

async fn tables_of_another_tool_are_recognised(server: Server) {
    let of = TestDatabase::new(server, "").await;
    let db = of.connect(1).await;
    let outbox = Outbox::new("outbox");
    db.execute(&Statement::new(outbox.create_table_sql()))
        .await
        .expect("make the table");
    run(
        &mut of.raw().await,
        "ALTER TABLE outbox ADD COLUMN own TEXT NULL",
    )
    .await;
    db.migrate().await.expect("migrate");
    db.migrate().await.expect("migrate again");
    let indexes = "SELECT DISTINCT CONVERT(index_name USING utf8mb4) AS name FROM information_schema.statistics \
                   WHERE table_schema = DATABASE() AND table_name = 'outbox' ORDER BY name";
    assert_eq!(
        db.query(&Statement::new(indexes))
            .await
            .expect("query")
            .len(),
        3
    );
    let noted = "SELECT target FROM duebox_migrations WHERE target = 'outbox'";
    assert_eq!(
        db.query(&Statement::new(noted)).await.expect("query").len(),
        1
    );
    of.drop().await;
}

async fn tables_that_lack_something_are_refused_by_name(server: Server) {
    let cases = [
        ("DROP COLUMN lapses", "lapses"),
        ("DROP INDEX outbox_due", "visible_at,id"),
        ("DROP INDEX outbox_subject", "subject,id"),
    ];
    for (change, named) in cases {
        let of = TestDatabase::new(server, "").await;
        let db = of.connect(1).await;
        let outbox = Outbox::new("outbox");
        db.execute(&Statement::new(outbox.create_table_sql()))
            .await
            .expect("make the table");
        run(&mut of.raw().await, format!("ALTER TABLE outbox {change}")).await;
        let error = db
            .migrate_outbox(&outbox)
            .await
            .expect_err("something is missing");
        assert_eq!(error.kind(), Kind::Schema);
        assert!(error.to_string().contains(named), "{error}");
        // The lock is free again.
        db.migrate_outbox(&Outbox::new("mail"))
            .await
            .expect("migrate another");
        of.drop().await;
    }
}

async fn a_table_that_was_dropped_is_made_again(server: Server) {
    let of = TestDatabase::new(server, "").await;
    let db = of.connect(1).await;
    db.migrate().await.expect("migrate");
    let mut raw = of.raw().await;
    let outbox = Outbox::new("outbox");
    for round in 0..2 {
        run(&mut raw, "DROP TABLE outbox, pending_receipts").await;
        db.migrate().await.expect("migrate again");
        let row = outbox.enqueue_statement("a", "t", "p", None, "2026-03-01T00:00:00Z");
        assert_eq!(db.execute(&row).await.expect("enqueue"), 1, "{round}");
        let receipts = Statement::new("SELECT ticket FROM pending_receipts");
        assert!(db.query(&receipts).await.expect("query").is_empty());
    }
    // It is noted once, and what took its name is told.
    let noted = Statement::new("SELECT target FROM duebox_migrations");
    assert_eq!(db.query(&noted).await.expect("query").len(), 2);
    run(&mut raw, "ALTER TABLE outbox DROP COLUMN last_error").await;
    let error = db.migrate().await.expect_err("another table");
    assert_eq!(error.kind(), Kind::Schema, "{error}");
    assert!(error.to_string().contains("last_error"), "{error}");
    of.drop().await;
}

async fn an_outbox_in_another_database_is_migrated_there(server: Server) {
    let of = TestDatabase::new(server, "").await;
    let other = TestDatabase::new(server, "").await;
    let db = of.connect(2).await;
    let outbox = Outbox::new(format!("{}.mail", other.name));
    db.migrate_outbox(&outbox).await.expect("migrate");
    db.migrate_outbox(&outbox).await.expect("migrate again");
    let (day, now, later) = (
        "2026-03-01T00:00:00Z",
        "2026-03-02T00:00:00Z",
        "2026-03-03T00:00:00Z",
    );
    db.batch_atomic(&[outbox.enqueue_statement("a", "t", "p", Some("s"), day)])
        .await
        .expect("enqueue");
    let mine = outbox.claim_due(&db, now, later, 1).await.expect("claim");
    assert!(
        outbox
            .complete_claimed(&db, &[mine[0].lease.clone()])
            .await
            .expect("complete")[0]
            .is_held()
    );
    db.batch_atomic(&[outbox.enqueue_statement("a", "t", "p", Some("s"), day)])
        .await
        .expect("enqueue");
    assert_eq!(
        outbox
            .export_subject(&db, "s", None, 9)
            .await
            .expect("export")
            .len(),
        1
    );
    assert_eq!(outbox.erase_subject(&db, "s", 9).await.expect("erase"), 1);
    assert_eq!(
        db.execute(&outbox.erase_subject_statement("s"))
            .await
            .expect("erase"),
        0
    );
    let here = "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name LIKE '%mail%'";
    assert!(
        db.query(&Statement::new(here))
            .await
            .expect("query")
            .is_empty()
    );
    other.drop().await;
    of.drop().await;
}

/// The privileges are those that the README names.
async fn a_user_with_the_least_privileges_migrates_what_is_migrated(server: Server) {
    let of = TestDatabase::new(server, "").await;
    let maker = format!("m_{}", of.name);
    let mut admin = server.admin().await;
    run(&mut admin, format!("CREATE USER {maker} IDENTIFIED BY 'x'")).await;
    let grant = "GRANT CREATE, SELECT, INSERT ON";
    run(&mut admin, format!("{grant} {}.* TO {maker}", of.name)).await;
    let url = of.url();
    let (_, rest) = url.split_once('@').expect("a user");
    let db = MySqlDatabase::connect(&format!("mysql://{maker}:x@{rest}")).await;
    db.expect("connect").migrate().await.expect("migrate");
    run(&mut admin, format!("DROP USER {maker}")).await;
    let user = format!("u_{}", of.name);
    run(&mut admin, format!("CREATE USER {user} IDENTIFIED BY 'x'")).await;
    for table in ["outbox", "pending_receipts"] {
        let grant = "GRANT SELECT, INSERT, UPDATE, DELETE ON";
        run(&mut admin, format!("{grant} {}.{table} TO {user}", of.name)).await;
    }
    let url = format!("mysql://{user}:x@{rest}");
    let limited = MySqlDatabase::connect(&url).await.expect("connect");
    let error = limited.migrate().await.expect_err("it may not look");
    assert_eq!(error.kind(), Kind::Schema);
    let says = "see or make the table \"duebox_migrations\": the user lacks the privilege CREATE";
    assert!(error.to_string().contains(says), "{error}");
    let grant = "GRANT SELECT ON";
    run(
        &mut admin,
        format!("{grant} {}.duebox_migrations TO {user}", of.name),
    )
    .await;
    limited.migrate().await.expect("all is there");

    let outbox = Outbox::new("outbox");
    let at = "2026-03-01T00:00:00.000000Z";
    let row = outbox.enqueue_statement("a", "t", "p", Some("s"), at);
    limited.batch_atomic(&[row]).await.expect("enqueue");
    let until = "2026-03-02T00:00:00.000000Z";
    let claimed = outbox.claim_due(&limited, at, until, 10).await;
    let leases = [claimed.expect("claim").remove(0).lease];
    outbox
        .complete_claimed(&limited, &leases)
        .await
        .expect("complete");
    outbox
        .erase_subject(&limited, "s", 10)
        .await
        .expect("erase");
    let store = limited.receipts();
    store.erase_owner(Uuid::nil()).await.expect("erase");
    run(&mut admin, format!("DROP USER {user}")).await;
    of.drop().await;
}
