use std::sync::Arc;
use std::time::Instant;

use duebox_sqlite::Database;
use tokio::task::JoinSet;

use super::{Measured, new_row, rate, rotated, work};
use crate::args::{Args, Kind};
use crate::engine::{Engine, Fallible, SESSIONS};
use crate::report::{Goal, Series};

/// Tasks that enqueue at the same time through one handle.
const TASKS: u64 = 64;
/// Rows that each of them enqueues.
const EACH: u64 = 50;

/// Many tasks enqueue one row at a time, against one transaction a row by hand.
pub(crate) async fn enqueue(engine: &dyn Engine, args: &Args) -> Measured {
    // SQLite has one writer, so there more sessions only stand in each other's way.
    let sessions = match args.kind {
        Kind::Sqlite => 1,
        Kind::Postgres | Kind::MySql => SESSIONS as u64,
    };
    let (mut ours, mut by_hand) = (Vec::new(), Vec::new());
    for round in 0..args.repeat {
        for is_ours in rotated(&[true, false], round) {
            if is_ours {
                ours.push(together(engine).await?);
            } else {
                by_hand.push(row_by_row(engine, sessions).await?);
            }
        }
    }
    let settings = format!(
        "{TASKS} tasks enqueue {EACH} rows each, one row a call; by hand, sessions: {sessions}."
    );
    let goal = args.targets().enqueue.map(Goal::AtLeast);
    let series = vec![
        Series::new("Duebox", "rows/s", &ours),
        Series::new("one transaction a row by hand", "rows/s", &by_hand),
        Series::ratio("Duebox / by hand", &ours, &by_hand, goal),
    ];
    Ok((settings, series))
}

async fn together(engine: &dyn Engine) -> Fallible<f64> {
    let place = engine.place("bench_enqueue").await?;
    // Connects and prepares.
    let mut warm = JoinSet::new();
    let place = Arc::new(place);
    for number in 0..TASKS {
        let place = Arc::clone(&place);
        warm.spawn(async move { enqueue_one(&*place.db, &place.outbox, number).await });
    }
    while let Some(ended) = warm.join_next().await {
        ended??;
    }
    let started = Instant::now();
    let mut running = JoinSet::new();
    for task in 0..TASKS {
        let place = Arc::clone(&place);
        running.spawn(async move {
            for number in 0..EACH {
                enqueue_one(&*place.db, &place.outbox, TASKS + task * EACH + number).await?;
            }
            Fallible::Ok(())
        });
    }
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    Ok(rate(TASKS * EACH, started.elapsed()))
}

async fn enqueue_one(
    db: &dyn Database,
    outbox: &duebox_sqlite::Outbox,
    number: u64,
) -> Fallible<()> {
    db.batch_atomic(&[outbox.enqueue(work(number)?)]).await?;
    Ok(())
}

async fn row_by_row(engine: &dyn Engine, sessions: u64) -> Fallible<f64> {
    let place = engine.place("bench_enqueue").await?;
    let mut hands = Vec::new();
    for session in 0..sessions {
        let mut hand = engine.hand(&place, 1).await?;
        hand.enqueue(&new_row(session)?).await?;
        hands.push(hand);
    }
    let each = TASKS * EACH / sessions;
    let started = Instant::now();
    let mut running = JoinSet::new();
    for (session, mut hand) in (1..).zip(hands) {
        running.spawn(async move {
            for number in 0..each {
                hand.enqueue(&new_row(session * TASKS * EACH + number)?)
                    .await?;
            }
            Fallible::Ok(())
        });
    }
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    Ok(rate(each * sessions, started.elapsed()))
}
