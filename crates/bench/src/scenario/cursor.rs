use std::sync::Arc;
use std::time::{Duration, Instant};

use duebox_sqlite::{Claim, ClaimCursor, LeaseOutcome};

use super::watch::Watch;
use super::{Measured, work};
use crate::args::Args;
use crate::engine::{Engine, Fallible, HOLDER, NOW, Place, UNTIL, id, payload};
use crate::report::{Goal, Series, median};

/// Rounds at either end whose medians are compared: one part in so many.
const PART: usize = 10;
/// How often a row appears far below the cursor, in rounds.
const LATE_EVERY: usize = 150;
/// When such a row is due: long before all others.
const LATE: &str = "2026-01-01T00:00:00Z";
/// Within what a row that appears below the cursor has to be claimed.
const LATE_WITHIN: f64 = 5.0;

/// Enqueues, claims and completes batches while another session's snapshot
/// keeps every row that was deleted.
pub(crate) async fn cursor(engine: &dyn Engine, args: &Args) -> Measured {
    let rounds = usize::try_from((args.rows / args.batch).max(PART as u64 * 2))?;
    let ways: &[bool] = if args.cursor_only {
        &[true]
    } else {
        &[true, false]
    };
    let mut lanes = Lanes::default();
    for round in 0..args.repeat {
        for with_cursor in super::rotated(ways, round) {
            lanes.run(engine, args, rounds, with_cursor).await?;
        }
    }
    let settings = format!(
        "{rounds} rounds of {} rows under a held snapshot; the first and the last {} are compared.",
        args.batch,
        rounds / PART
    );
    let Lanes {
        cursor,
        plain,
        scans,
        late,
    } = lanes;
    let mut series = vec![
        Series::new("first claims, with the cursor", "ms", &cursor.first),
        Series::new("last claims, with the cursor", "ms", &cursor.last),
        Series::ratio(
            "last / first, with the cursor",
            &cursor.last,
            &cursor.first,
            Goal::AtMost(1.5),
        ),
        Series::new("full scans, of the time", "%", &scans).goal(Goal::AtMost(10.0)),
        Series::new("longest wait of a row below the cursor", "s", &late)
            .goal(Goal::AtMost(LATE_WITHIN)),
    ];
    if !args.cursor_only {
        series.extend([
            Series::new("first claims, without", "ms", &plain.first),
            Series::new("last claims, without", "ms", &plain.last),
            Series::ratio("last / first, without", &plain.last, &plain.first, None),
        ]);
    }
    Ok((settings, series))
}

#[derive(Default)]
struct Ends {
    first: Vec<f64>,
    last: Vec<f64>,
}

#[derive(Default)]
struct Lanes {
    cursor: Ends,
    plain: Ends,
    /// Per cent of the time that went into full scans.
    scans: Vec<f64>,
    /// Seconds that the last-served late row waited.
    late: Vec<f64>,
}

impl Lanes {
    async fn run(
        &mut self,
        engine: &dyn Engine,
        args: &Args,
        rounds: usize,
        with_cursor: bool,
    ) -> Fallible<()> {
        let place = engine.place("bench_cursor").await?;
        engine.settle(&place).await?;
        let mut lane = Lane::new(place, with_cursor);
        // As many as a planner may take to settle on a plan.
        for _ in 0..20 {
            lane.round(args.batch).await?;
        }
        let snapshot = engine.hold(&lane.place).await?;
        lane.took.clear();
        lane.scans = Duration::ZERO;
        let started = Instant::now();
        for round in 0..rounds {
            if with_cursor && round % LATE_EVERY == LATE_EVERY / 2 {
                lane.enqueue_late(round).await?;
            }
            lane.round(args.batch).await?;
        }
        let scans = lane.scans.as_secs_f64() / started.elapsed().as_secs_f64();
        // Full load goes on until the last of them was served.
        while !lane.late.is_empty() {
            lane.round(args.batch).await?;
        }
        drop(snapshot);
        let part = rounds / PART;
        let ends = if with_cursor {
            self.scans.push(scans * 100.0);
            self.late.push(lane.longest.as_secs_f64());
            &mut self.cursor
        } else {
            &mut self.plain
        };
        ends.first.push(median(&lane.took[..part]));
        ends.last.push(median(&lane.took[rounds - part..rounds]));
        Ok(())
    }
}

struct Lane {
    place: Place,
    watch: Watch,
    /// `None` for claims that always begin at the start of the queue.
    cursor: Option<ClaimCursor>,
    origin: Instant,
    enqueued: u64,
    /// Milliseconds of each claim.
    took: Vec<f64>,
    /// The time that full scans took.
    scans: Duration,
    /// Rows below the cursor that were not claimed yet, and since when they are there.
    late: Vec<(String, Instant)>,
    longest: Duration,
}

impl Lane {
    fn new(place: Place, with_cursor: bool) -> Self {
        Self {
            watch: Watch::new(Arc::clone(&place.db)),
            place,
            cursor: with_cursor.then(ClaimCursor::new),
            origin: Instant::now(),
            enqueued: 0,
            took: Vec::new(),
            scans: Duration::ZERO,
            late: Vec::new(),
            longest: Duration::ZERO,
        }
    }

    async fn enqueue_late(&mut self, round: usize) -> Fallible<()> {
        let late = id((1 << 41) + round as u64);
        let statement = self
            .place
            .outbox
            .enqueue_statement(&late, "late", &payload(), None, LATE);
        self.place.db.execute(&statement).await?;
        self.late.push((late, Instant::now()));
        Ok(())
    }

    async fn round(&mut self, batch: u64) -> Fallible<()> {
        let outbox = &self.place.outbox;
        let work = (self.enqueued..self.enqueued + batch)
            .map(work)
            .collect::<Fallible<Vec<_>>>()?;
        self.enqueued += batch;
        let statement = outbox.enqueue_many_statement(work);
        self.place.db.execute(&statement).await?;
        let claim = Claim::new(NOW, UNTIL).limit(batch).locked_by(HOLDER);
        let origin = self.origin;
        let started = Instant::now();
        let records = match &mut self.cursor {
            Some(cursor) => {
                let elapsed = move || origin.elapsed();
                outbox
                    .claim_through(&self.watch, &claim, cursor, &elapsed)
                    .await?
            }
            None => outbox.claim(&self.watch, &claim).await?,
        };
        let took = started.elapsed();
        self.took.push(took.as_secs_f64() * 1e3);
        if self.watch.scanned() {
            self.scans += took;
        }
        for record in &records {
            self.late.retain(|(id, since)| {
                let found = *id == record.id;
                if found {
                    self.longest = self.longest.max(since.elapsed());
                }
                !found
            });
        }
        let leases: Vec<_> = records.into_iter().map(|record| record.lease).collect();
        let outcomes = outbox.complete_claimed(&*self.place.db, &leases).await?;
        if outcomes.contains(&LeaseOutcome::Lost) {
            return Err("a lease was lost".into());
        }
        Ok(())
    }
}
