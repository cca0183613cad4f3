//! What the drivers log, at every level, holds no value that was given to us.
//!
//! A process has one logger, so this is a test binary of its own.

#[path = "only_postgres/place.rs"]
#[allow(dead_code)]
mod place;

use std::num::NonZeroU32;
use std::process::ExitCode;
use std::sync::Mutex;

use duebox_conformance::Listener;
use duebox_postgres::chrono::DateTime;
use duebox_postgres::uuid::Uuid;
use duebox_postgres::{
    Database, DeviceToken, Outbox, PendingReceipt, PendingReceiptStore, PushTicketId, Retry,
    Statement, Value,
};
use libtest_mimic::{Arguments, Failed, Trial};
use place::{Place, at, every_store, every_way};

/// Stands in payloads, subjects, errors and other values.
const SECRET: &str = "ada@example.com";
/// The same as bytes are written.
const HEX: &str = "616461406578616d706c65";

/// Hexadecimal, as a log would show it.
const OWNER: Uuid = Uuid::from_u128(0xcafe_0000_cafe_0000_cafe_0000_cafe_0000);

static LOGGED: Mutex<String> = Mutex::new(String::new());

/// What logs through `log` and not through `tracing`.
struct Logger;

impl log::Log for Logger {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        note(record.target(), &format!(" {}", record.args()));
    }

    fn flush(&self) {}
}

fn note(target: &str, fields: &str) {
    let mut logged = LOGGED.lock().expect("the log");
    logged.push_str(target);
    logged.push_str(fields);
    logged.push('\n');
}

fn main() -> ExitCode {
    log::set_logger(&Logger).expect("no other logger");
    log::set_max_level(log::LevelFilter::Trace);
    tracing::subscriber::set_global_default(Listener::new(note)).expect("no other subscriber");
    let required = std::env::var("DUEBOX_TEST_REQUIRE").is_ok_and(|value| value == "all");
    let name = "logs::hold_no_value";
    let trial = match place::unavailable() {
        Some(why) if required => Trial::test(name, move || Err(Failed::from(why))),
        Some(why) => Trial::test(name, || Ok(()))
            .with_kind(why)
            .with_ignored_flag(true),
        None => Trial::test(name, || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build();
            runtime.expect("a runtime").block_on(hold_no_value());
            Ok(())
        }),
    };
    libtest_mimic::run(&Arguments::from_args(), vec![trial]).exit_code()
}

async fn hold_no_value() {
    let place = Place::new().await;
    place.make_outbox().await;
    place
        .run("CREATE TABLE person (email text PRIMARY KEY, data bytea, tags text[], key uuid, n integer CHECK (n < 100))")
        .await;
    for (_, db) in every_way(&place.url(), 1).await {
        everything(&*db, &place).await;
    }
    place.connect().await.migrate().await.expect("migrate");
    for (_, store) in every_store(&place.url(), 1).await {
        every_receipt(&*store).await;
    }
    place
        .run("ALTER TABLE pending_receipts ADD CONSTRAINT short CHECK (length(token) < 9)")
        .await;
    for (_, store) in every_store(&place.url(), 1).await {
        let error = store.record(vec![receipt()], DateTime::UNIX_EPOCH).await;
        let error = error.expect_err("the check refuses it");
        note("error", &format!(" {error} {error:?}"));
    }
    let mut client = place.client().await;
    let transaction = client.transaction().await.expect("begin");
    let insert = Statement::new("INSERT INTO person (email) VALUES (?)").bind(SECRET);
    duebox_postgres::execute(&transaction, &insert)
        .await
        .expect("insert");
    duebox_postgres::execute(&transaction, &insert)
        .await
        .expect_err("twice");
    drop(transaction);
    let transaction = client.transaction().await.expect("begin");
    duebox_postgres::erase_owner(&transaction, OWNER)
        .await
        .expect("erase");
    drop(transaction);
    every_notice(&place).await;

    look_through();
    place.close().await;
}

/// The test's own statements, which have the values in them, are not logged.
fn look_through() {
    let logged = LOGGED.lock().expect("the log");
    for heard in [
        "tokio_postgres",
        "sqlx",
        "INSERT INTO person",
        "with parameters: [<text>",
        "INSERT INTO pending_receipts",
        "noticed nobody",
        "warned of nobody",
    ] {
        assert!(logged.contains(heard), "{heard} was listened to");
    }
    for line in logged.lines() {
        for secret in [SECRET, HEX, "4242424242", "cafe0000"] {
            assert!(!line.contains(secret), "{line}");
        }
    }
}

/// A pool of our own drops them; the service sets its own up so that there are none.
async fn every_notice(place: &Place) {
    place
        .run(
            "CREATE TABLE noisy (email text);
             CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql
                 AS $$ BEGIN
                     RAISE NOTICE 'noticed %', NEW.email;
                     RAISE WARNING 'warned of %', NEW.email;
                     RETURN NEW;
                 END $$;
             CREATE TRIGGER tell BEFORE INSERT ON noisy FOR EACH ROW EXECUTE FUNCTION tell()",
        )
        .await;
    let insert = Statement::new("INSERT INTO noisy (email) VALUES (?)");
    let server = place::server().expect("a server");
    let silent = place.url_at(&server, "%20-c%20client_min_messages%3Derror");
    let own = every_way(&place.url(), 1).await;
    let borrowed = every_way(&silent, 1).await;
    let own = own.iter().filter(|(name, _)| !name.starts_with("sqlx"));
    let borrowed = borrowed.iter().filter(|(name, _)| name.starts_with("sqlx"));
    for (name, db) in own.chain(borrowed) {
        let secret = insert.clone().bind(SECRET);
        db.execute(&secret).await.expect(name);
        db.batch_atomic(&[secret.clone(), secret])
            .await
            .expect(name);
    }
    // With a connection of any other making.
    duebox_postgres::execute(&place.client().await, &insert.bind("nobody"))
        .await
        .expect("insert");
}

fn receipt() -> PendingReceipt {
    PendingReceipt {
        ticket: PushTicketId::new(SECRET).expect("a ticket"),
        owner_id: OWNER,
        token: DeviceToken::new(SECRET).expect("a token"),
        sent_at: DateTime::UNIX_EPOCH,
    }
}

async fn every_receipt(store: &dyn PendingReceiptStore) {
    let instant = DateTime::UNIX_EPOCH;
    let new = store.record(vec![receipt()], instant).await;
    assert_eq!(new, Ok(1));
    let taken = store.take_due(instant, instant, NonZeroU32::MIN).await;
    note("taken", &format!(" {taken:?}"));
    assert_eq!(taken.expect("take").len(), 1);
    assert_eq!(store.delete(vec![receipt().ticket]).await, Ok(1));
    assert_eq!(store.purge(instant, NonZeroU32::MIN).await, Ok(0));
    assert_eq!(store.erase_owner(OWNER).await, Ok(0));
}

async fn everything(db: &dyn Database, place: &Place) {
    let outbox = Outbox::new("outbox");
    let insert = Statement::new("INSERT INTO person (email, data, tags, n) VALUES (?, ?, ?, ?)")
        .bind(SECRET)
        .bind(SECRET.as_bytes())
        .bind(Value::TextArray(vec![Some(SECRET.into())]))
        .bind(42_i64);
    db.execute(&insert).await.expect("insert");
    db.execute(&insert).await.expect_err("a duplicate");
    db.batch_atomic(&[insert.clone(), insert])
        .await
        .expect_err("a duplicate");
    let find =
        Statement::new("SELECT email, data FROM person WHERE email = ? AND n <> ?").bind(SECRET);
    db.query(&find.bind(4_242_424_242_i64)).await.ok();
    for sql in [
        "UPDATE person SET key = ?",
        "UPDATE person SET n = length(?) * 100",
        "SELECT ?::uuid",
        "SELECT nothing(?)",
    ] {
        db.execute(&Statement::new(sql).bind(SECRET))
            .await
            .expect_err(sql);
    }
    let enqueue = outbox.enqueue_statement("a", "t", SECRET, Some(SECRET), &at(0));
    db.batch_atomic(std::slice::from_ref(&enqueue))
        .await
        .expect("enqueue");
    db.batch_atomic(&[enqueue]).await.expect_err("a duplicate");
    let records = outbox
        .claim_due(db, &at(1), &at(2), 1)
        .await
        .expect("claim");
    let retry = Retry {
        lease: &records[0].lease,
        next_attempt_at: &at(3),
        error: SECRET,
    };
    outbox
        .retry_claimed(db, &at(1), &[retry])
        .await
        .expect("retry");
    outbox
        .export_subject(db, SECRET, None, 10)
        .await
        .expect("export");
    let sleep = Statement::new("SELECT ?::text AS who FROM pg_sleep(1.2)").bind(SECRET);
    db.query(&sleep)
        .await
        .expect("a slow statement, which sqlx warns of");
    let cut = async {
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        place.cut().await;
    };
    let (answer, ()) = tokio::join!(db.query(&sleep), cut);
    answer.expect_err("it was cut off");
    outbox.erase_subject(db, SECRET, 10).await.expect("erase");
    db.execute(&Statement::new("DELETE FROM person WHERE email = ?").bind(SECRET))
        .await
        .expect("delete");
}
