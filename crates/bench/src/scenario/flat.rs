use std::time::Instant;

use duebox_sqlite::{Claim, LeaseOutcome};

use super::{Measured, work};
use crate::args::Args;
use crate::engine::{Engine, Fallible, HOLDER, NOW, Place, Seed, UNTIL, id};
use crate::report::{Goal, Series, median};

/// Claims of which the median is one measurement.
const CLAIMS: usize = 40;
/// What no state may cost more than, as a multiple of the empty one's claim.
const MOST: f64 = 1.5;

/// Above the number of every seeded row.
const SEEDED: u64 = 1 << 40;

struct State {
    name: String,
    place: Place,
    /// Rows that were enqueued here, so that their ids differ.
    enqueued: u64,
    each: Vec<f64>,
}

/// Times claims beside rows that are not claimed, in tables of their own.
///
/// What was claimed is completed and enqueued anew at the end of the queue, so
/// a table stays as it is.
pub(crate) async fn flat(engine: &dyn Engine, args: &Args) -> Measured {
    let batch = args.batch;
    let beside = |name: &str, count: u64| format!("one batch beside {count} {name}");
    let plan = [
        ("flat_batch", "one batch".to_owned(), batch, None),
        ("flat_few", "1000 waiting".to_owned(), 1_000, None),
        (
            "flat_many",
            format!("{} waiting", args.waiting),
            args.waiting,
            None,
        ),
        (
            "flat_delayed",
            beside("not yet due", args.delayed),
            batch,
            Some(Seed::delayed(args.delayed)),
        ),
        (
            "flat_leased",
            beside("under lease", args.leased),
            batch,
            Some(Seed::leased(args.leased)),
        ),
    ];
    let mut states = Vec::new();
    for (table, name, waiting, others) in plan {
        let place = engine.place(table).await?;
        if let Some(others) = others {
            engine.seed(&place, others).await?;
        }
        engine.seed(&place, Seed::waiting(waiting)).await?;
        engine.settle(&place).await?;
        let mut state = State {
            name,
            place,
            enqueued: 0,
            each: Vec::new(),
        };
        // As many as a planner may take to settle on a plan.
        for _ in 0..10 {
            state.claim(batch).await?;
        }
        states.push(state);
    }
    for _ in 0..args.repeat {
        let mut took = vec![Vec::new(); states.len()];
        for _ in 0..CLAIMS {
            for (state, took) in states.iter_mut().zip(&mut took) {
                took.push(state.claim(batch).await?);
            }
        }
        for (state, took) in states.iter_mut().zip(took) {
            state.each.push(median(&took));
        }
    }
    let mut series: Vec<Series> = states
        .iter()
        .map(|state| Series::new(state.name.clone(), "ms", &state.each))
        .collect();
    let ratio = |of: usize, to: usize| {
        let name = format!("{} / {}", states[of].name, states[to].name);
        Series::ratio(name, &states[of].each, &states[to].each, Goal::AtMost(MOST))
    };
    series.push(ratio(2, 1));
    series.extend((1..states.len()).map(|of| ratio(of, 0)));
    let settings = format!(
        "The time of a claim of {batch} rows; medians of {CLAIMS} claims, in turn with the others."
    );
    // They are large.
    for state in &states {
        engine.place(state.place.outbox.table()).await?;
    }
    Ok((settings, series))
}

impl State {
    /// Claims a batch, and how many milliseconds that took.
    async fn claim(&mut self, batch: u64) -> Fallible<f64> {
        let Place { db, outbox, .. } = &self.place;
        let claim = Claim::new(NOW, UNTIL).limit(batch).locked_by(HOLDER);
        let started = Instant::now();
        let records = outbox.claim(&**db, &claim).await?;
        let took = started.elapsed();
        if records.len() as u64 != batch {
            return Err(format!("{} rows were claimed of {batch}", records.len()).into());
        }
        let leases: Vec<_> = records.into_iter().map(|record| record.lease).collect();
        let outcomes = outbox.complete_claimed(&**db, &leases).await?;
        if outcomes.contains(&LeaseOutcome::Lost) {
            return Err("a lease was lost".into());
        }
        let again = (self.enqueued..self.enqueued + batch)
            .map(|number| Ok(work(number)?.id(id(SEEDED + number))))
            .collect::<Fallible<Vec<_>>>()?;
        self.enqueued += batch;
        db.execute(&outbox.enqueue_many_statement(again)).await?;
        Ok(took.as_secs_f64() * 1e3)
    }
}
