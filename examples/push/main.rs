//! A service that sends push notifications, and learns by their receipts which devices
//! are gone.
//!
//! ```text
//! cargo run -p duebox-examples --features push --example push -- --database sqlite:push.db
//! ```
//!
//! Each device is registered in the batch that enqueues its greeting. The worker sends
//! the greeting and keeps the ticket; the poller reads the receipts, and forgets the
//! devices that are gone. The program ends when nothing is left to do. It may be killed
//! at any moment and started again.
//!
//! Without `--provider URL` it talks to a stand-in of the provider's service in this
//! process, whose quarter of an hour passes in a moment.

mod devices;
mod send;

use std::num::NonZeroU32;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use duebox_expo::{ExpoPush, FakeExpo};
use duebox_postgres::PostgresDatabase;
use duebox_sqlite::{Database, Outbox, PendingReceiptStore, SqliteDatabase};
use duebox_worker::{Backoff, ReceiptPoller, Worker};
use lexopt::{Arg, Parser, ValueExt};

use self::devices::Devices;
use self::send::{Sender, TOPIC};

pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

/// The database, and the store of tickets in it.
type Stores = (Arc<dyn Database>, Arc<dyn PendingReceiptStore>);

struct Options {
    database: String,
    provider: Option<String>,
    devices: u32,
    lease: Duration,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("push: {error}");
            ExitCode::FAILURE
        }
    }
}

fn options() -> Result<Options, Error> {
    let mut options = Options {
        database: "sqlite:push.db".to_owned(),
        provider: None,
        devices: 100,
        lease: Duration::from_secs(30),
    };
    let mut arguments = Parser::from_env();
    while let Some(argument) = arguments.next()? {
        match argument {
            Arg::Long("database") => options.database = arguments.value()?.string()?,
            Arg::Long("provider") => options.provider = Some(arguments.value()?.string()?),
            Arg::Long("devices") => options.devices = arguments.value()?.parse()?,
            Arg::Long("lease") => {
                options.lease = Duration::from_secs(arguments.value()?.parse()?);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(options)
}

async fn open(url: &str) -> Result<Stores, Error> {
    if let Some(path) = url.strip_prefix("sqlite:") {
        let db = SqliteDatabase::open(path).await?;
        db.migrate().await?;
        Ok((Arc::new(db.clone()), Arc::new(db.receipts())))
    } else if url.starts_with("postgres") {
        let db = PostgresDatabase::connect(url).await?;
        db.migrate().await?;
        Ok((Arc::new(db.clone()), Arc::new(db.receipts())))
    } else {
        Err("say --database sqlite:FILE or postgres://…".into())
    }
}

async fn run() -> Result<(), Error> {
    let options = options()?;
    let (db, pending) = open(&options.database).await?;
    let outbox = Outbox::new("outbox");
    let devices = Devices::open(Arc::clone(&db)).await?;

    let stand_in = match &options.provider {
        Some(_) => None,
        None => Some(FakeExpo::start().await?),
    };
    let provider = options.provider.as_deref();
    let url = provider.or(stand_in.as_ref().map(FakeExpo::url));
    let expo = ExpoPush::builder().base_url(url.unwrap_or_default());
    let expo = Arc::new(expo.build()?);

    let sender = Sender {
        devices: devices.clone(),
        expo: Arc::clone(&expo),
        pending: Arc::clone(&pending),
    };
    let worker = Worker::builder(outbox.clone(), Arc::clone(&db))
        .handle(TOPIC, move |job| send::send(sender.clone(), job))
        .retry(Backoff::default().cap(Duration::from_secs(5)))
        .lease(options.lease)
        .start()
        .await?;
    let registry = Arc::new(devices.clone());
    let poller = ReceiptPoller::builder(expo, pending, registry, worker.clock().clone())
        .every(Duration::from_millis(200))
        .limit(NonZeroU32::MIN.saturating_add(999))
        .start();

    let new = devices
        .register(&outbox, options.devices, worker.clock())
        .await?;
    println!("registered {new}");
    worker.nudge();
    loop {
        if let Some(stand_in) = &stand_in {
            stand_in.advance(Duration::from_mins(15));
        }
        if devices.left().await? == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    poller.shutdown().await;
    worker.shutdown(Duration::from_secs(10)).await?;
    let (greeted, gone) = devices.count().await?;
    println!("greeted {greeted}, gone {gone}");
    Ok(())
}
