//! What the server says, as kinds and outcomes, and what is not passed on.

use std::time::Duration;

use duebox_postgres::sqlx::postgres::PgPoolOptions;
use duebox_postgres::{
    Database, Kind, Outbox, Outcome, PostgresDatabase, SqlxPostgresDatabase, Statement,
};

use crate::place::{Place, at, every_way, server, with_port};

const SECRET: &str = "ada@example.com";

fn statement(sql: &'static str) -> Statement {
    let count = sql.matches('?').count();
    (0..count).fold(Statement::new(sql), |statement, _| statement.bind(SECRET))
}

/// Every one with a value of a person in it, which no error shows.
pub(crate) async fn are_sorted_and_quote_no_value() {
    let place = Place::new().await;
    place.make_outbox().await;
    place
        .run(
            "CREATE TABLE person (
                 email text PRIMARY KEY, name text NOT NULL, age integer CHECK (age > 0),
                 short varchar(3), key uuid, boss text REFERENCES person,
                 EXCLUDE USING btree (key WITH =)
             );
             INSERT INTO person (email, name, key) VALUES
                 ('ada@example.com', 'x', '018f0000-0000-7000-8000-000000000000');
             CREATE FUNCTION fail(text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE 'not %', $1; END $$;
             CREATE FUNCTION deep(text) RETURNS text LANGUAGE sql AS $$ SELECT deep($1 || 'x') $$",
        )
        .await;
    let cases = [
        (
            "INSERT INTO person (email, name) VALUES (?, 'x')",
            Kind::Conflict,
            "23505",
        ),
        (
            "INSERT INTO person (email, name) VALUES (? || '2', NULL)",
            Kind::Constraint,
            "23502",
        ),
        (
            "INSERT INTO person (email, name, age) VALUES (? || '2', 'x', -1)",
            Kind::Constraint,
            "23514",
        ),
        (
            "INSERT INTO person (email, name, boss) VALUES (? || '2', 'x', 'nobody')",
            Kind::Constraint,
            "23503",
        ),
        (
            "INSERT INTO person (email, name, key) VALUES (? || '2', 'x', '018f0000-0000-7000-8000-000000000000')",
            Kind::Constraint,
            "23P01",
        ),
        (
            "UPDATE person SET short = ?",
            Kind::InvalidArgument,
            "22001",
        ),
        ("UPDATE person SET key = ?", Kind::InvalidArgument, "22P02"),
        ("SELECT ?::timestamptz", Kind::InvalidArgument, "22007"),
        (
            "SELECT ?::text || (1 / 0)::text",
            Kind::InvalidArgument,
            "22012",
        ),
        (
            "SELECT (SELECT ?::text FROM generate_series(1, 2))",
            Kind::InvalidArgument,
            "21000",
        ),
        ("SELECT fail(?)", Kind::Other, "P0001"),
        ("SELECT deep(?)", Kind::InvalidArgument, "54001"),
        (
            "SELECT nothing FROM person WHERE email = ?",
            Kind::Schema,
            "42703",
        ),
        (
            "SELECT 1 FROM nowhere WHERE email = ?",
            Kind::Schema,
            "42P01",
        ),
        ("SELECT nothing(?::text)", Kind::Schema, "42883"),
        (
            "SELECT 1 FROM no.where WHERE email = ?",
            Kind::Schema,
            "42P01",
        ),
        ("SELEC ?", Kind::InvalidArgument, "42601"),
        ("SELECT pg_read_file(?)", Kind::Other, "58P01"),
        (
            "INSERT INTO person (email, name) SELECT ?, 'x' ON CONFLICT (name) DO NOTHING",
            Kind::Schema,
            "42P10",
        ),
    ];
    for (name, db) in every_way(&place.url(), 2).await {
        for (sql, kind, code) in cases {
            let alone = db.execute(&statement(sql)).await.expect_err(sql);
            let other = Statement::new("SELECT 1");
            let in_batch = db
                .batch_atomic(&[other, statement(sql)])
                .await
                .expect_err(sql);
            for error in [&alone, &in_batch] {
                assert_eq!(
                    (error.kind(), error.code()),
                    (kind, Some(code)),
                    "{name}: {sql}: {error}"
                );
                // A code that is not on the list is certain in a batch all the same,
                // which was not committed.
                let certain = code != "58P01" || error.statement().is_some();
                assert_eq!(
                    error.outcome() == Outcome::NotApplied,
                    certain,
                    "{name}: {sql}: {error}"
                );
                let shown = format!("{error} {error:?} {error:#?}");
                assert!(!shown.contains("ada"), "{name}: {shown}");
                assert!(std::error::Error::source(error).is_none());
            }
            assert_eq!(in_batch.statement(), Some(1), "{name}: {sql}");
        }
        let error = db
            .execute(&statement(cases[0].0))
            .await
            .expect_err("a duplicate");
        assert_eq!(error.constraint(), Some("person_pkey"), "{name}");
        let error = db
            .execute(&statement(cases[1].0))
            .await
            .expect_err("a null");
        assert!(
            error
                .to_string()
                .contains("column \"name\" must not be null"),
            "{name}: {error}"
        );
    }
    place.close().await;
}

pub(crate) async fn a_read_only_server_is_unsupported_until_it_is_not() {
    let place = Place::new().await;
    place.make_outbox().await;
    let outbox = Outbox::new("outbox");
    let url = place.url_at(
        &server().expect("a server"),
        "%20-c%20default_transaction_read_only%3Don",
    );
    for (number, (name, db)) in every_way(&url, 1).await.into_iter().enumerate() {
        let enqueue = outbox.enqueue_statement(&format!("r-{number}"), "t", "", None, &at(0));
        for answer in [
            db.execute(&enqueue).await,
            db.batch_atomic(&[enqueue.clone(), enqueue.clone()])
                .await
                .map(|counts| counts[0]),
            outbox
                .claim_due(&*db, &at(1), &at(2), 1)
                .await
                .map(|records| records.len() as u64),
        ] {
            let error = answer.expect_err("it is read-only");
            assert_eq!(
                (error.kind(), error.code()),
                (Kind::Unsupported, Some("25006")),
                "{name}: {error}"
            );
            assert_eq!(error.outcome(), Outcome::NotApplied, "{name}: {error}");
        }
        outbox.stats(&*db, &at(1)).await.expect("reading goes on");
        // As when a standby is promoted.
        db.execute(&Statement::new("SET default_transaction_read_only = off"))
            .await
            .expect("set");
        db.execute(&enqueue).await.expect("it can be written");
        db.execute(&Statement::new("RESET ALL"))
            .await
            .expect("reset");
    }
    place.close().await;
}

/// A pool that has no connection because none can be made is not full.
pub(crate) async fn a_dead_server_is_no_full_pool() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("a port")
        .port();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent_port = silent.local_addr().expect("a port").port();
    for port in [closed, silent_port] {
        let pool = PgPoolOptions::new()
            .max_connections(2)
            .acquire_timeout(Duration::from_millis(300))
            .connect_lazy(&with_port(&server().expect("a server"), port))
            .expect("a URL");
        let db = SqlxPostgresDatabase::from_pool(pool);
        // As many as there may be connections, all of which are being made.
        let (one, other) = tokio::join!(db.now(), db.now());
        for answer in [one, other] {
            let error = answer.expect_err("there is no server");
            assert_eq!(error.kind(), Kind::Unavailable, "{error}");
            assert_eq!(error.outcome(), Outcome::NotApplied, "{error}");
            assert!(error.is_retryable());
            assert!(error.to_string().contains("could not be reached in time"));
        }
    }
}

/// Why a server cannot be reached or used, without a password in it.
pub(crate) async fn connecting_says_why_it_fails() {
    let base = server().expect("a server");
    let at_host = base
        .find('@')
        .map_or_else(|| base.find("//").expect("a URL") + 2, |at| at + 1);
    let database = base.rfind('/').expect("a database");
    let closed = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_port = silent.local_addr().unwrap().port();
    let cases = [
        (
            format!("postgres://nobody_here:secret@{}", &base[at_host..]),
            Kind::Other,
            "log-in",
        ),
        (
            format!("{}/no_such_database", &base[..database]),
            Kind::Schema,
            "database",
        ),
        (
            format!("postgres://u:secret@127.0.0.1:{closed}/d"),
            Kind::Unavailable,
            "cannot be reached",
        ),
        (
            format!("postgres://u:secret@127.0.0.1:{silent_port}/d?connect_timeout=1"),
            Kind::Unavailable,
            "did not answer in time",
        ),
        (
            format!("postgres://u:secret@no-such-host.invalid:{closed}/d"),
            Kind::Unavailable,
            "cannot be reached",
        ),
        (
            "postgres://u:secret@127.0.0.1/d?sslmode=verify-full&sslrootcert=/nowhere.pem".into(),
            Kind::InvalidArgument,
            "sslrootcert",
        ),
        (
            "postgres://u:secret@127.0.0.1/d?sslmode=secret".into(),
            Kind::InvalidArgument,
            "sslmode",
        ),
        (
            format!("mysql://u:secret@127.0.0.1:{closed}/d?ssl-mode=REQUIRED"),
            Kind::InvalidArgument,
            "write postgres://",
        ),
        (
            "postgres:///d?user=secret".into(),
            Kind::InvalidArgument,
            "no host",
        ),
    ];
    for (url, kind, says) in cases {
        let error = PostgresDatabase::connect(&url).await.expect_err(&url);
        assert_eq!(
            (error.kind(), error.outcome()),
            (kind, Outcome::NotApplied),
            "{url}: {error}"
        );
        assert!(error.to_string().contains(says), "{url}: {error}");
        assert!(!format!("{error} {error:?}").contains("secret"), "{error}");
    }
    drop(silent);
}

pub(crate) async fn a_statement_that_runs_too_long_is_ended_by_the_server() {
    let place = Place::new().await;
    // Beside the settings that the address has.
    let limited = place.options().statement_timeout(Duration::from_millis(50));
    let db = limited.connect().await.expect("connect");
    let long = Statement::new("SELECT 1 AS one FROM pg_sleep(600)");
    let error = db.query(&long).await.expect_err("ended");
    assert_eq!(error.kind(), Kind::Busy, "{error}");
    assert_eq!(error.outcome(), Outcome::NotApplied, "{error}");
    let schema = Statement::new("SELECT current_schema()::text AS name");
    let rows = db.query(&schema).await.expect("the session goes on");
    assert_eq!(rows[0].get::<String>("name").expect("a name"), place.name);
    place.close().await;
}
