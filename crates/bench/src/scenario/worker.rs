use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use duebox_worker::{Outcome, Worker};
use tokio::sync::Notify;

use super::{Measured, drain, rate, rotated};
use crate::args::Args;
use crate::engine::{Engine, Fallible, Place, Seed, TOPIC};
use crate::report::{Goal, Series};

/// Into so many parts a drain under a held snapshot is divided.
const ROUNDS: u64 = 10;
/// The first and the last of so many are compared, by their means.
const ENDS: usize = 2;

/// Drains all rows through workers whose handlers do nothing, and again while
/// another session's snapshot keeps what was deleted.
pub(crate) async fn worker(engine: &dyn Engine, args: &Args) -> Measured {
    let (mut workers, mut by_hand, mut large) = (Vec::new(), Vec::new(), Vec::new());
    let (mut first, mut last) = (Vec::new(), Vec::new());
    for round in 0..args.repeat {
        for way in rotated(&[0, 1, 2], round) {
            match way {
                0 => workers.push(all(engine, args).await?),
                1 => by_hand.push(drain::by_hand(engine, args, args.batch).await?),
                _ => large.push(drain::by_hand(engine, args, args.claim as u64).await?),
            }
        }
        let rates = under_snapshot(engine, args).await?;
        first.push(mean(&rates[..ENDS]));
        last.push(mean(&rates[rates.len() - ENDS..]));
    }
    let settings = format!(
        "{} rows through {} workers, each of {} rows a claim, with handlers that do nothing, \
         four times as many at once; by hand {} sessions without a fence. Under a held snapshot the first {ENDS} and the \
         last {ENDS} tenths of the rows are compared.",
        args.rows, args.workers, args.claim, args.drainers
    );
    let small_batch = format!("by hand, {} a batch", args.batch);
    let large_batch = format!("by hand, {} a batch", args.claim);
    let series = vec![
        Series::new("workers", "rows/s", &workers),
        Series::new(small_batch.as_str(), "rows/s", &by_hand),
        Series::new(large_batch.as_str(), "rows/s", &large),
        Series::ratio(
            format!("workers / {small_batch}"),
            &workers,
            &by_hand,
            Goal::AtLeast(0.75),
        ),
        Series::ratio(
            format!("workers / {large_batch}"),
            &workers,
            &large,
            Goal::AtLeast(0.75),
        ),
        Series::new("first, under a snapshot", "rows/s", &first),
        Series::new("last, under a snapshot", "rows/s", &last),
        Series::ratio(
            "last / first, under a snapshot",
            &last,
            &first,
            Goal::AtLeast(0.9),
        ),
    ];
    Ok((settings, series))
}

fn mean(rates: &[f64]) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a few rounds")]
    let count = rates.len() as f64;
    rates.iter().sum::<f64>() / count
}

/// The time is that from before the first worker starts to when all have
/// written how their jobs ended and have stopped.
async fn all(engine: &dyn Engine, args: &Args) -> Fallible<f64> {
    let place = engine.place("bench_worker").await?;
    let done = Arc::new(Done::default());
    // Connects and prepares, on the empty table.
    for worker in start(&place, args, args.workers, &done).await? {
        worker.settled().await?;
        worker.shutdown(Duration::from_secs(10)).await?;
    }
    engine.seed(&place, Seed::waiting(args.rows)).await?;
    engine.settle(&place).await?;
    let started = Instant::now();
    let workers = start(&place, args, args.workers, &done).await?;
    done.reaches(args.rows).await;
    for worker in workers {
        worker.shutdown(Duration::from_secs(10)).await?;
    }
    let took = started.elapsed();
    nothing_left(&place).await?;
    Ok(rate(args.rows, took))
}

/// The rates of the rounds of one drain, while another session's snapshot keeps
/// every row that was deleted.
async fn under_snapshot(engine: &dyn Engine, args: &Args) -> Fallible<Vec<f64>> {
    let place = engine.place("bench_worker_held").await?;
    let rows = (args.rows / ROUNDS).max(1);
    engine.seed(&place, Seed::waiting(rows * ROUNDS)).await?;
    engine.settle(&place).await?;
    let snapshot = engine.hold(&place).await?;
    let done = Arc::new(Done::default());
    let workers = start(&place, args, args.workers, &done).await?;
    let mut rates = Vec::new();
    let mut since = Instant::now();
    for round in 1..=ROUNDS {
        done.reaches(round * rows).await;
        rates.push(rate(rows, since.elapsed()));
        since = Instant::now();
    }
    for worker in workers {
        worker.shutdown(Duration::from_secs(10)).await?;
    }
    drop(snapshot);
    nothing_left(&place).await?;
    Ok(rates)
}

async fn nothing_left(place: &Place) -> Fallible<()> {
    let now = "2026-01-01T00:00:00Z";
    let stats = place.outbox.stats(&*place.db, now).await?;
    match stats.waiting + stats.due + stats.leased + stats.parked {
        0 => Ok(()),
        left => Err(format!("{left} rows were left").into()),
    }
}

async fn start(
    place: &Place,
    args: &Args,
    workers: usize,
    done: &Arc<Done>,
) -> Fallible<Vec<Worker>> {
    let mut started = Vec::new();
    for _ in 0..workers {
        let done = Arc::clone(done);
        let handler = move |_job| {
            done.one();
            std::future::ready(Outcome::Done)
        };
        let worker = Worker::builder(place.outbox.clone(), Arc::clone(&place.db))
            .handle(TOPIC, handler)
            .concurrency(args.claim * 4)
            .batch(args.claim)
            .sample_every(None)
            .start()
            .await?;
        started.push(worker);
    }
    Ok(started)
}

/// Counts the jobs that were handled.
#[derive(Default)]
struct Done {
    count: AtomicU64,
    wanted: AtomicU64,
    reached: Notify,
}

impl Done {
    fn one(&self) {
        let count = self.count.fetch_add(1, Ordering::AcqRel) + 1;
        if count == self.wanted.load(Ordering::Acquire) {
            self.reached.notify_one();
        }
    }

    async fn reaches(&self, wanted: u64) {
        self.wanted.store(wanted, Ordering::Release);
        while self.count.load(Ordering::Acquire) < wanted {
            // One that was counted before it was wanted tells nobody.
            let soon = tokio::time::sleep(Duration::from_millis(20));
            tokio::select! {
                () = self.reached.notified() => {}
                () = soon => {}
            }
        }
    }
}
