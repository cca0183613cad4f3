use std::sync::Arc;
use std::time::Instant;

use tokio::task::JoinSet;

use super::{Measured, new_row, rate, rotated, work};
use crate::args::Args;
use crate::engine::{Engine, Fallible};
use crate::report::{Goal, Series};

/// Enqueues batches of rows, one statement each.
pub(crate) async fn many(engine: &dyn Engine, args: &Args) -> Measured {
    let (mut ours, mut by_hand) = (Vec::new(), Vec::new());
    for round in 0..args.repeat {
        for is_ours in rotated(&[true, false], round) {
            let rate = many_once(engine, args, is_ours).await?;
            if is_ours { &mut ours } else { &mut by_hand }.push(rate);
        }
    }
    let settings = format!(
        "{} rows, {} a statement, tasks: {}.",
        args.rows, args.batch, args.drainers
    );
    let series = vec![
        Series::new("Duebox", "rows/s", &ours),
        Series::new("by hand", "rows/s", &by_hand),
        Series::ratio("Duebox / by hand", &ours, &by_hand, Goal::AtLeast(0.8)),
    ];
    Ok((settings, series))
}

async fn many_once(engine: &dyn Engine, args: &Args, is_ours: bool) -> Fallible<f64> {
    let place = Arc::new(engine.place("bench_many").await?);
    engine.settle(&place).await?;
    let tasks = args.drainers as u64;
    let batches = (args.rows / args.batch / tasks).max(1);
    let batch = args.batch;
    let mut hands = Vec::new();
    for task in 0..tasks {
        let hand = if is_ours {
            None
        } else {
            Some(engine.hand(&place, batch).await?)
        };
        let mut enqueuer = Enqueuer {
            place: Arc::clone(&place),
            hand,
        };
        // Connects and prepares; these ids come after all others.
        enqueuer.step((1 << 40) + task * batch, batch).await?;
        hands.push(enqueuer);
    }
    let started = Instant::now();
    let mut running = JoinSet::new();
    for (task, mut enqueuer) in (0..).zip(hands) {
        running.spawn(async move {
            for number in 0..batches {
                enqueuer
                    .step((number * tasks + task) * batch, batch)
                    .await?;
            }
            Fallible::Ok(())
        });
    }
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    Ok(rate(batches * batch * tasks, started.elapsed()))
}

struct Enqueuer {
    place: Arc<crate::engine::Place>,
    /// `None` for the library.
    hand: Option<Box<dyn crate::engine::Hand>>,
}

impl Enqueuer {
    async fn step(&mut self, first: u64, batch: u64) -> Fallible<()> {
        let numbers = first..first + batch;
        match &mut self.hand {
            None => {
                let work = numbers.map(work).collect::<Fallible<Vec<_>>>()?;
                let statement = self.place.outbox.enqueue_many_statement(work);
                self.place.db.execute(&statement).await?;
            }
            Some(hand) => {
                let rows = numbers.map(new_row).collect::<Fallible<Vec<_>>>()?;
                hand.enqueue_many(&rows).await?;
            }
        }
        Ok(())
    }
}
