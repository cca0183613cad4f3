//! Schemas that change under a service, and those that are not as they should be.

use std::sync::Arc;

use duebox_postgres::uuid::Uuid;
use duebox_postgres::{
    Database, Kind, Outbox, Outcome, PendingReceiptStore, PostgresDatabase, Statement,
};

use crate::place::{Place, at, every_way, sqlx_at, tokio_at};

/// A migration beside running services must not break what they have prepared.
pub(crate) async fn prepared_statements_outlive_a_migration() {
    for way in 0..4 {
        let place = Place::new().await;
        place.make_outbox().await;
        place
            .run("CREATE TABLE state (id text PRIMARY KEY, n smallint, gone text)")
            .await;
        let (name, db) = every_way(&place.url(), 1).await.swap_remove(way);
        let outbox = Outbox::new("outbox");
        for round in 0..4 {
            let id = format!("r-{round}");
            let n = if round > 1 { 100_000 } else { 1 };
            let batch = [
                Statement::new("INSERT INTO state (id, n) VALUES (?, ?)")
                    .bind(id.as_str())
                    .bind(n),
                outbox.enqueue_statement(&id, "t", "", Some("s"), &at(0)),
                Statement::new("SELECT * FROM state"),
            ];
            db.batch_atomic(&batch)
                .await
                .unwrap_or_else(|error| panic!("{name}, {round}: {error}"));
            let records = outbox
                .claim_due(&*db, &at(1), &at(2), 1)
                .await
                .expect("claim");
            let leases: Vec<_> = records.into_iter().map(|record| record.lease).collect();
            assert!(
                outbox
                    .complete_claimed(&*db, &leases)
                    .await
                    .expect("complete")[0]
                    .is_held()
            );
            let all = db
                .query(&Statement::new("SELECT * FROM state WHERE id = ?").bind(id))
                .await;
            let all = all.unwrap_or_else(|error| panic!("{name}, {round}: {error}"));
            assert_eq!(all[0].get::<i64>("n").unwrap(), n, "{name}");
            place
                .run(match round {
                    0 => "ALTER TABLE outbox ADD COLUMN more text; ALTER TABLE state ADD COLUMN more text",
                    1 => "ALTER TABLE outbox ALTER topic TYPE text; ALTER TABLE state ALTER n TYPE bigint",
                    _ => "ALTER TABLE outbox DROP COLUMN IF EXISTS more; ALTER TABLE state DROP COLUMN IF EXISTS gone",
                })
                .await;
        }
        place.close().await;
    }
}

/// Also where a column's type is another one, and where the server was told to
/// forget what is prepared.
pub(crate) async fn prepared_statements_are_made_again() {
    let place = Place::new().await;
    place.run("CREATE TABLE t (id text)").await;
    let uuid = "018f0000-0000-7000-8000-0000000000ff";
    for (name, db) in every_way(&place.url(), 1).await {
        let insert = Statement::new("INSERT INTO t (id) VALUES (?)").bind(uuid);
        let find = Statement::new("SELECT id FROM t WHERE id = ?").bind(uuid);
        for ty in ["text", "uuid", "text"] {
            place
                .run(&format!("ALTER TABLE t ALTER id TYPE {ty} USING id::{ty}"))
                .await;
            db.execute(&insert)
                .await
                .unwrap_or_else(|error| panic!("{name}, {ty}: {error}"));
            db.batch_atomic(&[insert.clone(), insert.clone()])
                .await
                .expect(name);
            let rows = db
                .query(&find)
                .await
                .unwrap_or_else(|error| panic!("{name}, {ty}: {error}"));
            assert!(rows.len() >= 3, "{name}");
        }
        db.execute(&Statement::new("DEALLOCATE ALL"))
            .await
            .expect(name);
        db.execute(&insert)
            .await
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        place.run("DELETE FROM t").await;
    }
    place.close().await;
}

pub(crate) async fn sixteen_migrate_at_once() {
    let place = Place::new().await;
    for round in 0..5 {
        let url = place.url();
        let tasks: Vec<_> = (0..16)
            .map(|task| {
                let url = url.clone();
                tokio::spawn(async move {
                    let outbox = Outbox::new("mail");
                    if task % 2 == 0 {
                        let db = tokio_at(&url, 1).await;
                        db.migrate().await?;
                        db.migrate_outbox(&outbox).await
                    } else {
                        let db = sqlx_at(&url, 1);
                        db.migrate_outbox(&outbox).await?;
                        db.migrate().await
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await
                .expect("a task")
                .unwrap_or_else(|error| panic!("{round}: {error}"));
        }
        let indexes = "SELECT count(*) FROM pg_indexes WHERE schemaname = current_schema()
                       AND tablename IN ('outbox', 'mail') AND indexname LIKE '%\\_due'";
        assert_eq!(place.number(indexes).await, 2);
        assert_eq!(
            place.number("SELECT count(*) FROM duebox_migrations").await,
            3
        );
        place
            .run("DROP TABLE outbox, mail, pending_receipts, duebox_migrations")
            .await;
    }
    place.close().await;
}

pub(crate) async fn a_schema_that_another_tool_applied_is_recognised() {
    let place = Place::new().await;
    place.run(&Outbox::new("outbox").create_table_sql()).await;
    place.run("INSERT INTO outbox (id, topic, payload, created_at, next_attempt_at) VALUES ('a', 't', '', '2026-03-01T00:00:00.000000Z', '2026-03-01T00:00:00.000000Z')").await;
    let db = place.connect().await;
    for _ in 0..2 {
        db.migrate().await.expect("migrate");
        assert_eq!(place.number("SELECT count(*) FROM outbox").await, 1);
        assert_eq!(
            place.number("SELECT count(*) FROM duebox_migrations").await,
            2
        );
    }
    // A table that was dropped since is made again.
    place.run("DROP TABLE outbox").await;
    db.migrate().await.expect("migrate");
    assert_eq!(place.number("SELECT count(*) FROM outbox").await, 0);
    place.close().await;
}

pub(crate) async fn a_table_of_another_shape_is_named_with_its_column() {
    let place = Place::new().await;
    let outbox = Outbox::new("outbox");
    place
        .run(
            &outbox
                .create_table_sql()
                .replace("lapses BIGINT NOT NULL DEFAULT 0,", ""),
        )
        .await;
    let db = place.connect().await;
    let error = db.migrate().await.expect_err("a column is missing");
    assert_eq!(
        (error.kind(), error.outcome()),
        (Kind::Schema, Outcome::NotApplied),
        "{error}"
    );
    assert!(
        error.to_string().contains("\"outbox\"") && error.to_string().contains("\"lapses\""),
        "{error}"
    );
    let made = "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema() AND tablename <> 'outbox'";
    assert_eq!(place.number(made).await, 0, "nothing was made");

    let error = outbox
        .claim_due(&db, &at(0), &at(1), 1)
        .await
        .expect_err("a column is missing");
    assert_eq!(error.kind(), Kind::Schema, "{error}");
    let elsewhere = Outbox::new("mail");
    let error = elsewhere
        .claim_due(&db, &at(0), &at(1), 1)
        .await
        .expect_err("no table");
    assert_eq!(
        (error.kind(), error.outcome()),
        (Kind::Schema, Outcome::NotApplied),
        "{error}"
    );
    assert!(
        error
            .to_string()
            .contains("table \"mail\" does not exist; if it is Duebox's, run the migrations"),
        "{error}"
    );
    // The caller's own tables are none of the migrations' business.
    for (sql, says) in [
        ("SELECT 1 FROM nowhere", "if it is Duebox's"),
        (
            "UPDATE outbox SET lapses = 0",
            "of table \"outbox\" does not exist; run the migrations",
        ),
        (
            "SELECT missing FROM outbox",
            "column \"missing\" does not exist (code",
        ),
        (
            "SELECT 1 FROM \"a b\"",
            "names a table that does not exist (code",
        ),
    ] {
        let error = db.query(&Statement::new(sql)).await.expect_err(sql);
        assert_eq!(error.kind(), Kind::Schema, "{error}");
        assert!(error.to_string().contains(says), "{sql}: {error}");
    }
    place.close().await;
}

/// A role that may not make tables starts its service all the same, once somebody
/// else has made them.
pub(crate) async fn a_role_without_the_privilege_is_told() {
    let place = Place::new().await;
    let role = format!("{}_role", place.name);
    place
        .run(&format!(
            "CREATE ROLE {role} LOGIN PASSWORD 'x';
             GRANT USAGE ON SCHEMA {} TO {role}",
            place.name
        ))
        .await;
    let url = place.url();
    let at_host = url.find('@').expect("a user in the URL");
    let url = format!("postgres://{role}:x{}", &url[at_host..]);
    let db = PostgresDatabase::connect(&url).await.expect("connect");
    let error = db.migrate().await.expect_err("it may not");
    assert_eq!(
        (error.kind(), error.code()),
        (Kind::Schema, Some("42501")),
        "{error}"
    );

    place.make_outbox().await;
    let error = Outbox::new("outbox")
        .claim_due(&db, &at(0), &at(1), 1)
        .await
        .expect_err("it may not");
    assert_eq!(
        (error.kind(), error.code()),
        (Kind::Schema, Some("42501")),
        "{error}"
    );
    place
        .run(&format!(
            "GRANT SELECT, INSERT, UPDATE, DELETE ON outbox TO {role}"
        ))
        .await;
    db.migrate_outbox(&Outbox::new("outbox"))
        .await
        .expect("there is nothing to do");
    Outbox::new("outbox")
        .claim_due(&db, &at(0), &at(1), 1)
        .await
        .expect("claim");
    place
        .run(&format!("DROP OWNED BY {role}; DROP ROLE {role}"))
        .await;
    place.close().await;
}

/// What the README asks for is enough, and what is missing of it is named.
pub(crate) async fn a_role_is_told_what_it_lacks() {
    let place = Place::new().await;
    place.connect().await.migrate().await.expect("migrate");
    let role = format!("{}_role", place.name);
    place
        .run(&format!("CREATE ROLE {role} LOGIN PASSWORD 'x'"))
        .await;
    let url = place.url();
    let at_host = url.find('@').expect("a user in the URL");
    let url = format!("postgres://{role}:x{}", &url[at_host..]);
    let grants = [
        (
            format!("USAGE ON SCHEMA {}", place.name),
            "no schema of search_path is one that the role may use",
        ),
        (
            "SELECT ON duebox_migrations".to_owned(),
            "lacks a privilege on the table \"duebox_migrations\"; grant it",
        ),
    ];
    for (name, db) in every_way(&url, 1).await {
        db.now().await.expect(name);
    }
    for (grant, says) in grants {
        for error in [
            tokio_at(&url, 1).await.migrate().await,
            sqlx_at(&url, 1).migrate().await,
        ] {
            let error = error.expect_err(says);
            assert_eq!(error.kind(), Kind::Schema, "{error}");
            assert_eq!(error.outcome(), Outcome::NotApplied, "{error}");
            assert!(error.to_string().contains(says), "{error}");
        }
        place.run(&format!("GRANT {grant} TO {role}")).await;
    }
    place
        .run(&format!(
            "GRANT SELECT, INSERT, UPDATE, DELETE ON outbox, pending_receipts TO {role}"
        ))
        .await;
    let db = tokio_at(&url, 1).await;
    db.migrate().await.expect("there is nothing to do");
    let outbox = Outbox::new("outbox");
    db.execute(&outbox.enqueue_statement("a", "t", "", None, &at(0)))
        .await
        .expect("enqueue");
    let records = outbox.claim_due(&db, &at(1), &at(2), 1).await;
    let lease = records.expect("claim").remove(0).lease;
    let outcomes = outbox.complete_claimed(&db, &[lease]).await;
    assert!(outcomes.expect("complete")[0].is_held());
    db.receipts()
        .erase_owner(Uuid::from_u128(1))
        .await
        .expect("erase");

    // A schema that is named is told too.
    place
        .run(&format!(
            "REVOKE USAGE ON SCHEMA {} FROM {role}",
            place.name
        ))
        .await;
    let elsewhere = Outbox::new(format!("{}.outbox", place.name));
    let error = elsewhere.claim_due(&db, &at(1), &at(2), 1).await;
    let error = error.expect_err("it may not");
    let says = format!("lacks a privilege on the schema {:?}", place.name);
    assert!(error.to_string().contains(&says), "{error}");
    place
        .run(&format!("DROP OWNED BY {role}; DROP ROLE {role}"))
        .await;
    place.close().await;
}

/// Text compares by bytes whatever the database compares by.
pub(crate) async fn the_databases_collation_does_not_matter() {
    let place = Place::new().await;
    let version = place
        .number("SELECT current_setting('server_version_num')::bigint")
        .await;
    if version < 150_000 {
        // Before 15 a database cannot have a collation of ICU, and others may not be installed.
        return place.close().await;
    }
    let name = format!("{}_icu", place.name);
    place
        .run(&format!("CREATE DATABASE {name} TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US' ENCODING 'UTF8'"))
        .await;
    let url = crate::place::server().expect("a server");
    let start = url.rfind('/').expect("a database");
    let url = format!(
        "{}/{name}{}",
        &url[..start],
        url[start..].find('?').map_or("", |at| &url[start + at..])
    );
    let db = Arc::new(tokio_at(&url, 4).await);
    let (shipped, portable) = (Outbox::new("shipped"), Outbox::new("portable"));
    db.migrate_outbox(&shipped).await.expect("migrate");
    db.execute(&Statement::new(portable.create_table_sql()))
        .await
        .expect("make the table");
    for outbox in [shipped, portable] {
        for id in ["b", "B", "a", "A", "a-b", "ab", "-a", "_a", "~"] {
            db.execute(&outbox.enqueue_statement(id, "t", "", Some(id), &at(0)))
                .await
                .expect("enqueue");
        }
        let all = outbox
            .claim_due(&*db, &at(1), &at(2), 100)
            .await
            .expect("claim");
        let ids: Vec<_> = all.iter().map(|record| record.id.as_str()).collect();
        assert_eq!(
            ids,
            ["-a", "A", "B", "_a", "a", "a-b", "ab", "b", "~"],
            "{}",
            outbox.table()
        );
        let leases: Vec<_> = all.into_iter().map(|record| record.lease).collect();
        let held = outbox
            .complete_claimed(&*db, &leases)
            .await
            .expect("complete");
        assert!(held.iter().all(|outcome| outcome.is_held()));
    }
    db.pool().close();
    drop(db);
    place
        .run(&format!("DROP DATABASE {name} WITH (FORCE)"))
        .await;
    place.close().await;
}

/// One that does not read a statement as this library does.
pub(crate) async fn a_server_that_reads_backslashes_is_unsupported() {
    let place = Place::new().await;
    let setting = "%20-c%20standard_conforming_strings%3Doff%20-c%20escape_string_warning%3Doff";
    let url = place.url_at(&crate::place::server().expect("a server"), setting);
    let error = PostgresDatabase::connect(&url)
        .await
        .expect_err("it is unsupported");
    assert_eq!(
        (error.kind(), error.outcome()),
        (Kind::Unsupported, Outcome::NotApplied),
        "{error}"
    );
    assert!(error.to_string().contains("unsupported server"), "{error}");
    let error = sqlx_at(&url, 1).now().await.expect_err("it is unsupported");
    assert_eq!(error.kind(), Kind::Unsupported, "{error}");
    place.close().await;
}
