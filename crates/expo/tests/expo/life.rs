//! Ten thousand messages from the send to the last receipt, on every engine.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use duebox_core::chrono::{DateTime, Utc};
use duebox_core::uuid::Uuid;
use duebox_core::{
    DeviceRegistry, DeviceToken, PendingReceipt, PendingReceiptStore, PushDeliveryStatus,
    PushFuture, PushOutcome, PushRejection, PushSender, PushSent, PushStoreError, Statement,
};
use duebox_expo::{ExpoPush, FakeExpo, FakeFault};
use duebox_mysql::{MySqlDatabase, MySqlOptions};
use duebox_postgres::PostgresDatabase;
use duebox_sqlite::{Database, SqliteDatabase};
use duebox_worker::{ManualClock, ReceiptPoller};

use crate::stage::{Clock, builder, fake, run, to};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    Sqlite,
    Postgres,
    MySql,
    MariaDb,
}

impl Engine {
    pub(crate) const ALL: [Self; 4] = [Self::Sqlite, Self::Postgres, Self::MySql, Self::MariaDb];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::MySql => "mysql",
            Self::MariaDb => "mariadb",
        }
    }

    fn url(self) -> Option<String> {
        let variable = match self {
            Self::Sqlite => return None,
            Self::Postgres => "DUEBOX_TEST_POSTGRES_URL",
            Self::MySql => "DUEBOX_TEST_MYSQL_URL",
            Self::MariaDb => "DUEBOX_TEST_MARIADB_URL",
        };
        std::env::var(variable).ok().filter(|url| !url.is_empty())
    }

    pub(crate) fn unavailable(self) -> Option<String> {
        let missing = self != Self::Sqlite && self.url().is_none();
        missing.then(|| format!("no {} server is named", self.name()))
    }
}

/// A database of this test's own.
struct Place {
    engine: Engine,
    name: String,
    store: Arc<dyn PendingReceiptStore>,
    db: Arc<dyn Database>,
}

impl Place {
    async fn new(engine: Engine) -> Self {
        let name = format!("expo_{}", std::process::id());
        let url = engine.url().unwrap_or_default();
        let own = || {
            let (base, _) = url.rsplit_once('/').expect("a URL with a database");
            format!("{base}/{name}")
        };
        if engine != Engine::Sqlite {
            Self::on_server(engine, &format!("CREATE DATABASE {name}")).await;
        }
        let (store, db): (Arc<dyn PendingReceiptStore>, Arc<dyn Database>) = match engine {
            Engine::Sqlite => {
                let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(&name);
                std::fs::create_dir_all(&folder).expect("a folder");
                let db = SqliteDatabase::open(folder.join("app.db"))
                    .await
                    .expect("a file");
                db.migrate().await.expect("migrate");
                (Arc::new(db.receipts()), Arc::new(db))
            }
            Engine::Postgres => {
                let db = PostgresDatabase::connect(&own()).await.expect("a server");
                db.migrate().await.expect("migrate");
                (Arc::new(db.receipts()), Arc::new(db))
            }
            _ => {
                let db = MySqlDatabase::connect(&own()).await.expect("a server");
                db.migrate().await.expect("migrate");
                (Arc::new(db.receipts()), Arc::new(db))
            }
        };
        Self {
            engine,
            name,
            store,
            db,
        }
    }

    async fn on_server(engine: Engine, sql: &str) {
        let url = engine.url().expect("a server");
        let statement = Statement::new(sql.to_owned());
        let done = if engine == Engine::Postgres {
            let db = PostgresDatabase::connect(&url).await.expect("a server");
            db.execute(&statement).await
        } else {
            let options = MySqlOptions::new(&url).expect("a URL");
            options
                .connect()
                .await
                .expect("a server")
                .execute(&statement)
                .await
        };
        done.expect("run SQL");
    }

    async fn pending(&self) -> i64 {
        let count = Statement::new("SELECT COUNT(*) AS found FROM pending_receipts");
        let rows = self.db.query(&count).await.expect("count");
        rows[0].get("found").expect("a count")
    }

    async fn close(self) {
        drop((self.store, self.db));
        match self.engine {
            Engine::Sqlite => {
                let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(&self.name);
                let _ = std::fs::remove_dir_all(folder);
            }
            engine => {
                let force = if engine == Engine::Postgres {
                    " WITH (FORCE)"
                } else {
                    ""
                };
                Self::on_server(engine, &format!("DROP DATABASE {}{force}", self.name)).await;
            }
        }
    }
}

/// The devices that were told to be gone, how often, and by which send.
#[derive(Default)]
struct Registry(Mutex<BTreeMap<String, Vec<DateTime<Utc>>>>);

impl DeviceRegistry for Registry {
    fn invalidate(
        &self,
        tokens: Vec<DeviceToken>,
        sent_at: DateTime<Utc>,
    ) -> PushFuture<'_, Result<u64, PushStoreError>> {
        let mut gone = self.0.lock().expect("the registry");
        let count = tokens.len() as u64;
        for token in tokens {
            gone.entry(token.as_str().to_owned())
                .or_default()
                .push(sent_at);
        }
        Box::pin(std::future::ready(Ok(count)))
    }
}

const MESSAGES: usize = 10_000;

/// Of every twenty: two dead by their ticket, two by their receipt, two late, one never
/// settled, and thirteen that arrive.
fn name(at: usize) -> String {
    let fate = match at % 20 {
        0 | 1 => "unregistered",
        2 | 3 => "gone",
        4 | 5 => "late",
        6 => "never",
        _ => "phone",
    };
    format!("{fate}-{at}")
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Sent {
    accepted: u64,
    dead: u64,
    perhaps: u64,
}

/// Sends to all until each is sent or perhaps sent, and records what was accepted.
async fn send_all(expo: &ExpoPush, place: &Place, clock: &ManualClock) -> Sent {
    let mut sent = Sent::default();
    let mut left: Vec<String> = (0..MESSAGES).map(name).collect();
    while !left.is_empty() {
        let batch: Vec<String> = left.drain(..left.len().min(500)).collect();
        let now = clock.clock().now();
        let outcomes = match expo.send(to(batch.iter().map(String::as_str))).await {
            Ok(outcomes) => outcomes,
            Err(error) if error.sent() == PushSent::NotSent => {
                left.extend(batch);
                continue;
            }
            Err(_) => {
                sent.perhaps += batch.len() as u64;
                continue;
            }
        };
        let mut accepted = Vec::new();
        for (PushOutcome { token, status }, name) in outcomes.into_iter().zip(batch) {
            match status {
                PushDeliveryStatus::Accepted(ticket) => accepted.push(PendingReceipt {
                    ticket,
                    owner_id: Uuid::from_u128(1),
                    token,
                    sent_at: now,
                }),
                PushDeliveryStatus::Rejected(PushRejection::DeviceNotRegistered) => sent.dead += 1,
                PushDeliveryStatus::Rejected(rejection)
                    if rejection.sent() == PushSent::NotSent =>
                {
                    left.push(name);
                }
                _ => sent.perhaps += 1,
            }
        }
        sent.accepted += accepted.len() as u64;
        let due = now + duebox_core::RECEIPT_POLL_DELAY;
        place.store.record(accepted, due).await.expect("record");
    }
    sent
}

/// Faults of the sends, and of the reads later.
fn send_faults(fake: &FakeExpo) {
    for round in 0..30 {
        fake.then(match round % 6 {
            0 => FakeFault::too_many_requests(Some("2")),
            1 => FakeFault::AcceptThen {
                status: 504,
                body: "<html>".into(),
            },
            2 => FakeFault::Cut,
            3 => FakeFault::answer(400, "{}"),
            _ => FakeFault::Spoil(Vec::new()),
        });
    }
}

fn read_faults(fake: &FakeExpo) {
    for _ in 0..4 {
        fake.then(FakeFault::answer(503, "<html>"));
        fake.then(FakeFault::too_many_requests(None));
        fake.then(FakeFault::Cut);
        fake.then(FakeFault::Spoil(Vec::new()));
    }
}

pub(crate) fn ten_thousand(engine: Engine) {
    run(async move {
        let place = Place::new(engine).await;
        let fake = fake().await;
        let waits = Clock::default();
        let expo = builder(&fake, &waits).build().expect("a client");
        let start: DateTime<Utc> = "2026-03-01T00:00:00Z".parse().expect("a time");
        let clock = ManualClock::new(start);
        let advance = |minutes| {
            fake.advance(Duration::from_mins(minutes));
            clock.advance(Duration::from_mins(minutes));
        };

        send_faults(&fake);
        let sent = send_all(&expo, &place, &clock).await;
        let issued = fake.issued();
        assert_eq!(sent.accepted + sent.dead + sent.perhaps, MESSAGES as u64);
        assert!(
            sent.perhaps > 0 && fake.faults_left() == 0,
            "faults were met: {sent:?}"
        );
        let pending = place.pending().await;
        assert_eq!(pending, i64::try_from(sent.accepted).expect("a count"));
        // What was accepted and is not on record was told as perhaps sent.
        assert!(issued.len() as u64 >= sent.accepted);
        assert!(issued.len() as u64 - sent.accepted <= sent.perhaps);

        let registry = Arc::new(Registry::default());
        let poller = ReceiptPoller::builder(
            Arc::new(expo),
            Arc::clone(&place.store),
            Arc::clone(&registry) as Arc<dyn DeviceRegistry>,
            clock.clock(),
        )
        .limit(NonZeroU32::new(700).expect("not zero"))
        .start();
        read_faults(&fake);
        // Until all that settles has settled, and then until the rest is forgotten.
        let mut left = Vec::new();
        for _ in 0..30 {
            advance(60);
            // It may be about to wait for a time that is past by now.
            let on = async {
                loop {
                    advance(1);
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            };
            tokio::select! {
                biased;
                () = poller.next_round() => {}
                () = on => {}
            }
            left.push(place.pending().await);
        }
        poller.shutdown().await;
        assert_eq!(fake.faults_left(), 0, "the reads met their faults");
        assert_eq!(left.last(), Some(&0), "{left:?}");
        assert!(left.is_sorted_by(|a, b| a >= b), "{left:?}");

        // Each device that is gone by its receipt was told once, by its own send.
        let gone = registry.0.lock().expect("the registry").clone();
        let mut expected = 0;
        for (ticket, token) in &issued {
            let told = gone.get(token);
            if !token.contains("gone") {
                assert_eq!(told, None, "{ticket}");
            } else if let Some(told) = told {
                assert_eq!(told[..], [start], "{ticket}");
                expected += 1;
            }
        }
        assert_eq!(gone.len(), expected);
        println!(
            "{}: {sent:?}, {} issued, {} devices gone, pending by hour {left:?}, {} requests",
            engine.name(),
            issued.len(),
            gone.len(),
            fake.requests().len()
        );
        place.close().await;
    });
}
