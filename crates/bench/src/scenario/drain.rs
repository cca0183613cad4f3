use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use duebox_sqlite::{Claim, ClaimCursor, Database, DbError, LeaseOutcome, Outbox, OutboxRecord};
use tokio::task::JoinSet;

use super::{Measured, rate, rotated};
use crate::args::Args;
use crate::engine::{Engine, Fallible, HOLDER, Hand, NOW, Place, Seed, UNTIL};
use crate::report::{Goal, Series};

/// The naive algorithm is measured on the same table, but over its first rows.
const NAIVE_PART: u64 = 20;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Ours,
    /// As the worker does it.
    Cursor,
    ByHand,
    Naive,
}

const WAYS: [Way; 4] = [Way::Ours, Way::ByHand, Way::Cursor, Way::Naive];

/// Claims and completes all rows, by batches.
pub(crate) async fn drain(engine: &dyn Engine, args: &Args) -> Measured {
    let mut rates = WAYS.map(|_| Vec::new());
    for round in 0..args.repeat {
        for way in rotated(&[0, 1, 2, 3], round) {
            rates[way].push(drain_once(engine, args, WAYS[way]).await?);
        }
    }
    let [ours, by_hand, cursor, naive] = rates;
    let targets = args.targets();
    let settings = format!(
        "{} rows, {} a batch, drainers: {}; naive over {} of the rows.",
        args.rows,
        args.batch,
        args.drainers,
        naive_rows(args)
    );
    let series = vec![
        Series::new("Duebox", "rows/s", &ours),
        Series::new("Duebox, through a cursor", "rows/s", &cursor),
        Series::new("by hand", "rows/s", &by_hand),
        Series::new("naive", "rows/s", &naive),
        Series::ratio(
            "Duebox / by hand",
            &ours,
            &by_hand,
            Goal::AtLeast(targets.by_hand),
        ),
        Series::ratio(
            "Duebox, through a cursor / by hand",
            &cursor,
            &by_hand,
            None,
        ),
        Series::ratio(
            "Duebox / naive",
            &ours,
            &naive,
            Goal::AtLeast(targets.naive),
        ),
        Series::ratio(
            "Duebox, through a cursor / naive",
            &cursor,
            &naive,
            Goal::AtLeast(targets.naive),
        ),
    ];
    Ok((settings, series))
}

/// Claims and completes all rows by hand-written SQL.
pub(super) async fn by_hand(engine: &dyn Engine, args: &Args, batch: u64) -> Fallible<f64> {
    let mut args = args.clone();
    args.batch = batch;
    drain_once(engine, &args, Way::ByHand).await
}

fn naive_rows(args: &Args) -> u64 {
    (args.rows / NAIVE_PART).max(1)
}

async fn drain_once(engine: &dyn Engine, args: &Args, way: Way) -> Fallible<f64> {
    let place = engine.place("bench_drain").await?;
    let mut drainers = Vec::new();
    for _ in 0..args.drainers {
        let mut drainer = match way {
            Way::Ours | Way::Cursor => Drainer::Ours(Ours::new(&place, args, way == Way::Cursor)),
            Way::ByHand => Drainer::ByHand(engine.hand(&place, args.batch).await?),
            Way::Naive => Drainer::Naive(engine.hand(&place, args.batch).await?),
        };
        // Connects and prepares, on the empty table.
        drainer.step(&AtomicU64::new(0)).await?;
        drainers.push(drainer);
    }
    engine.seed(&place, Seed::waiting(args.rows)).await?;
    engine.settle(&place).await?;

    let rows = match way {
        Way::Naive => naive_rows(args),
        _ => args.rows,
    };
    let done = Arc::new(AtomicU64::new(0));
    let started = Instant::now();
    let mut running = JoinSet::new();
    for mut drainer in drainers {
        let done = Arc::clone(&done);
        running.spawn(async move {
            while done.load(Ordering::Relaxed) < rows && drainer.step(&done).await? {}
            Fallible::Ok(())
        });
    }
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    let took = started.elapsed();
    let done = done.load(Ordering::Relaxed);
    if done < rows {
        return Err(format!("{done} rows were drained of {rows}").into());
    }
    Ok(rate(done, took))
}

enum Drainer {
    Ours(Ours),
    ByHand(Box<dyn Hand>),
    Naive(Box<dyn Hand>),
}

struct Ours {
    db: Arc<dyn Database>,
    outbox: Outbox,
    claim: Claim,
    cursor: Option<ClaimCursor>,
    origin: Instant,
}

impl Ours {
    fn new(place: &Place, args: &Args, with_cursor: bool) -> Self {
        Self {
            db: Arc::clone(&place.db),
            outbox: place.outbox.clone(),
            claim: Claim::new(NOW, UNTIL).limit(args.batch).locked_by(HOLDER),
            cursor: with_cursor.then(ClaimCursor::new),
            origin: Instant::now(),
        }
    }

    async fn claim(&mut self) -> Result<Vec<OutboxRecord>, DbError> {
        let Some(cursor) = &mut self.cursor else {
            return self.outbox.claim(&*self.db, &self.claim).await;
        };
        let origin = self.origin;
        let elapsed = move || origin.elapsed();
        self.outbox
            .claim_through(&*self.db, &self.claim, cursor, &elapsed)
            .await
    }
}

impl Drainer {
    /// Claims a batch and completes it, adding to `done`; `false` if there was
    /// none.
    async fn step(&mut self, done: &AtomicU64) -> Fallible<bool> {
        match self {
            Self::Ours(ours) => {
                let records = ours.claim().await?;
                if records.is_empty() {
                    // From a cursor on, that may not be all.
                    return Ok(ours.cursor.is_some());
                }
                let leases: Vec<_> = records.into_iter().map(|record| record.lease).collect();
                let outcomes = ours.outbox.complete_claimed(&*ours.db, &leases).await?;
                if outcomes.contains(&LeaseOutcome::Lost) {
                    return Err("a lease was lost".into());
                }
                done.fetch_add(leases.len() as u64, Ordering::Relaxed);
                Ok(true)
            }
            Self::ByHand(hand) => {
                let jobs = hand.claim().await?;
                if jobs.is_empty() {
                    return Ok(false);
                }
                hand.complete(&jobs).await?;
                done.fetch_add(jobs.len() as u64, Ordering::Relaxed);
                Ok(true)
            }
            Self::Naive(hand) => {
                let jobs = hand.look().await?;
                for job in &jobs {
                    if hand.take(job).await? {
                        hand.complete_one(job).await?;
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                }
                Ok(!jobs.is_empty())
            }
        }
    }
}
