//! What the processes of a history do.

mod drainer;
mod enqueuer;
mod eraser;
mod receipts;
mod worker;

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use duebox_core::chrono::{DateTime, TimeDelta, Utc};
use duebox_core::{DbError, Kind, Outbox, PendingReceiptStore, format_time};
use duebox_worker::{CancellationToken, Clock};

use crate::history::{Answer, Call, Journal};
use crate::place::{Engine, Open, Place};

pub(crate) use self::drainer::{claimed, held, outcomes};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    Enqueuer,
    Worker,
    Drainer,
    Receipts,
    Eraser,
}

impl Role {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Enqueuer => "enqueuer",
            Self::Worker => "worker",
            Self::Drainer => "drainer",
            Self::Receipts => "receipts",
            Self::Eraser => "eraser",
        }
    }
}

/// A process of a history; the harness starts it.
#[derive(Args, Clone, Debug)]
pub(crate) struct RoleArgs {
    pub(crate) role: Role,
    #[arg(long)]
    pub(crate) engine: Engine,
    #[arg(long)]
    pub(crate) url: String,
    #[arg(long)]
    pub(crate) table: String,
    /// What it calls itself, in the journal's name and in its ids.
    #[arg(long)]
    pub(crate) name: String,
    #[arg(long)]
    pub(crate) journals: PathBuf,
    #[arg(long)]
    pub(crate) seed: u64,
    /// How wrong the clock of this process is.
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) skew_ms: i64,
    /// While this file is there, the database may not grow.
    #[arg(long)]
    pub(crate) full: Option<PathBuf>,
}

/// How long leases are: the shortest that a worker takes.
pub(crate) const LEASE: Duration = Duration::from_secs(1);
/// How long a caller waits for an answer before it drops the call.
const PATIENCE: Duration = Duration::from_millis(1_500);
pub(crate) const SUBJECTS: u64 = 12;
pub(crate) const OWNERS: u64 = 8;

/// A process with all that it needs.
pub(crate) struct Session {
    pub(crate) name: String,
    pub(crate) open: Open,
    pub(crate) outbox: Outbox,
    pub(crate) journal: Arc<Journal>,
    pub(crate) clock: Clock,
    pub(crate) skew: TimeDelta,
    pub(crate) stop: CancellationToken,
}

/// Runs until the harness closes its end of standard input, or is gone.
pub(crate) fn run(args: &RoleArgs) {
    let stop = CancellationToken::new();
    let told = stop.clone();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read(&mut [0]);
        told.cancel();
    });
    // Panics of handlers are part of the play.
    std::panic::set_hook(Box::new(|_| {}));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let Some(session) = Session::start(args, stop).await else {
            return;
        };
        let mut random = fastrand::Rng::with_seed(args.seed);
        match args.role {
            Role::Enqueuer => enqueuer::run(&session, &mut random).await,
            Role::Worker => worker::run(session, args.seed).await,
            Role::Drainer => drainer::run(&session, &mut random).await,
            Role::Receipts => receipts::run(&session, &mut random).await,
            Role::Eraser => eraser::run(&session, &mut random).await,
        }
    });
}

impl Session {
    /// Nothing if it was told to stop before the database answered.
    async fn start(args: &RoleArgs, stop: CancellationToken) -> Option<Self> {
        let place = Place {
            engine: args.engine,
            url: args.url.clone(),
            table: args.table.clone(),
        };
        let path = args.journals.join(format!("{}.jsonl", args.name));
        let journal = Arc::new(Journal::create(&path).expect("a journal"));
        loop {
            let opened = async {
                let open = place.open().await?;
                let clock = Clock::start(Arc::clone(&open.db)).await?;
                Ok::<_, DbError>((open, clock))
            };
            if let Ok(Ok((open, clock))) = tokio::time::timeout(PATIENCE, opened).await {
                if let (Some(full), Some(sqlite)) = (&args.full, &open.sqlite) {
                    tokio::spawn(crate::full::obey(full.clone(), sqlite.clone()));
                }
                return Some(Self {
                    name: args.name.clone(),
                    outbox: place.outbox(),
                    skew: TimeDelta::milliseconds(args.skew_ms),
                    open,
                    journal,
                    clock,
                    stop,
                });
            }
            if stop.is_cancelled() {
                return None;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The time, as wrong as this process has it.
    pub(crate) fn now(&self) -> DateTime<Utc> {
        self.clock.now() + self.skew
    }

    pub(crate) fn running(&self) -> bool {
        !self.stop.is_cancelled()
    }

    /// A pause that ends early if the process is to stop.
    pub(crate) async fn pause(&self, millis: u64) {
        tokio::select! {
            () = self.stop.cancelled() => {}
            () = tokio::time::sleep(Duration::from_millis(millis)) => {}
        }
    }

    /// Writes down a call and its answer; gives up if there is none in time.
    pub(crate) async fn call<T>(
        &self,
        call: Call,
        run: impl Future<Output = Result<T, DbError>>,
        answer: impl FnOnce(&T) -> Answer,
    ) -> Result<T, DbError> {
        logged(&self.journal, call, run, answer).await
    }

    pub(crate) fn store(&self) -> Arc<dyn PendingReceiptStore> {
        Arc::clone(&self.open.receipts)
    }
}

/// Writes down a call and its answer; drops it if there is none in time.
pub(crate) async fn logged<T>(
    journal: &Journal,
    call: Call,
    run: impl Future<Output = Result<T, DbError>>,
    answer: impl FnOnce(&T) -> Answer,
) -> Result<T, DbError> {
    let number = journal.begin(call);
    let done = match tokio::time::timeout(PATIENCE, run).await {
        Ok(done) => done,
        Err(_) => Err(DbError::new(Kind::Unavailable, "no answer in time")),
    };
    let said = match &done {
        Ok(value) => answer(value),
        Err(error) => Answer::error(error),
    };
    journal.end(number, said);
    done
}

/// A time of the outbox.
pub(crate) fn text(time: DateTime<Utc>) -> String {
    format_time(time).expect("a time of our days")
}
