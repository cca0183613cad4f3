//! What the driver logs, at every level, holds no value that was given to us.
//!
//! A process has one logger, so this is a test binary of its own.

#[path = "common/mod.rs"]
#[allow(
    dead_code,
    reason = "shared with the other tests, which use more of it"
)]
mod common;

use std::fmt::Write as _;
use std::num::NonZeroU32;
use std::process::ExitCode;
use std::sync::Mutex;

use duebox_conformance::Listener;
use duebox_mysql::chrono::DateTime;
use duebox_mysql::sqlx::mysql::MySqlPool;
use duebox_mysql::uuid::Uuid;
use duebox_mysql::{
    Database, DeviceToken, Enqueue, MySqlDatabase, Outbox, PendingReceipt, PendingReceiptStore,
    PushTicketId,
};
use libtest_mimic::{Arguments, Failed, Trial};

use self::common::{SERVERS, Server, TestDatabase, run};

/// Stands in payloads, subjects, tickets and tokens.
const SECRET: &str = "ada@example.com";
/// Hexadecimal, as a log would show it.
const OWNER: Uuid = Uuid::from_u128(0xcafe_0000_cafe_0000_cafe_0000_cafe_0000);

static LOGGED: Mutex<String> = Mutex::new(String::new());

fn note(target: &str, fields: &str) {
    let mut logged = LOGGED.lock().expect("the log");
    logged.push_str(target);
    logged.push_str(fields);
    logged.push('\n');
}

fn main() -> ExitCode {
    tracing::subscriber::set_global_default(Listener::new(note)).expect("no other subscriber");
    let required = std::env::var("DUEBOX_TEST_REQUIRE").is_ok_and(|value| value == "all");
    let trial = |server: Server| {
        let name = format!("{}::logs::hold_no_value", server.name);
        match server.unavailable() {
            Some(why) if required => Trial::test(name, move || Err(Failed::from(why))),
            Some(why) => Trial::test(name, || Ok(()))
                .with_kind(why)
                .with_ignored_flag(true),
            None => Trial::test(name, move || {
                let runtime = tokio::runtime::Builder::new_multi_thread()
                    .worker_threads(2)
                    .enable_all()
                    .build();
                runtime.expect("a runtime").block_on(hold_no_value(server));
                Ok(())
            }),
        }
    };
    let mut arguments = Arguments::from_args();
    // They share the log.
    arguments.test_threads = Some(1);
    libtest_mimic::run(&arguments, SERVERS.map(trial).into()).exit_code()
}

async fn hold_no_value(server: Server) {
    LOGGED.lock().expect("the log").clear();
    let of = TestDatabase::new(server, "").await;
    of.connect(1).await.migrate().await.expect("migrate");
    let outbox = Outbox::new("outbox");
    let of_the_driver = MySqlPool::connect(&of.url()).await.expect("connect");
    for db in [of.connect(2).await, MySqlDatabase::from_pool(of_the_driver)] {
        let work = Enqueue::new("t")
            .payload(SECRET)
            .subject(SECRET)
            .at(DateTime::UNIX_EPOCH);
        db.batch_atomic(&[outbox.enqueue(work)])
            .await
            .expect("enqueue");
        outbox
            .erase_subject(&db, SECRET, u64::MAX)
            .await
            .expect("erase");
        use_receipts(&of, &db).await;
    }
    {
        let logged = LOGGED.lock().expect("the log");
        // A pool as the driver makes it logs statements.
        assert!(logged.contains("pending_receipts"), "nothing was logged");
        for value in [SECRET, "cafe0000", "CAFE0000"] {
            let shown = logged.lines().find(|line| line.contains(value));
            assert_eq!(shown, None);
        }
    }
    of.drop().await;
}

/// Every call about receipts, done and refused.
async fn use_receipts(of: &TestDatabase, db: &MySqlDatabase) {
    let store = db.receipts();
    let receipt = PendingReceipt {
        ticket: PushTicketId::new(SECRET).expect("a ticket"),
        owner_id: OWNER,
        token: DeviceToken::new(SECRET).expect("a token"),
        sent_at: DateTime::UNIX_EPOCH,
    };
    let at = DateTime::UNIX_EPOCH;
    let mut said = String::new();
    for hide in [false, true] {
        if hide {
            run(
                &mut of.raw().await,
                "RENAME TABLE pending_receipts TO hidden",
            )
            .await;
        }
        let recorded = store.record(vec![receipt.clone()], at).await;
        let taken = store.take_due(at, at, NonZeroU32::MAX).await;
        let deleted = store.delete(vec![receipt.ticket.clone()]).await;
        let purged = store.purge(at, NonZeroU32::MAX).await;
        let erased = store.erase_owner(OWNER).await;
        let mut transaction = db.pool().begin().await.expect("begin");
        let within = duebox_mysql::erase_owner(&mut transaction, OWNER).await;
        assert_eq!(recorded.is_err(), hide);
        assert_eq!(within.is_err(), hide);
        let _ = write!(
            said,
            "{store:?}{recorded:?}{taken:?}{deleted:?}{purged:?}{erased:?}{within:?}"
        );
    }
    run(
        &mut of.raw().await,
        "RENAME TABLE hidden TO pending_receipts",
    )
    .await;
    assert!(!said.contains(SECRET) && !said.to_lowercase().contains("cafe"));
}
