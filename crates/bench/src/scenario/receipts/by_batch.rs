use std::sync::Arc;
use std::time::Instant;

use duebox_sqlite::PendingReceiptStore;

use super::super::{rate, rotated};
use super::{Measured, OWNERS, check_empty, limit};
use crate::args::Args;
use crate::engine::tickets::{TicketHand, later, now, record};
use crate::engine::{Engine, Fallible};
use crate::report::{Goal, Series};

/// Tickets of a batch.
const BATCH: u32 = 1_000;

/// One taker takes and deletes all tickets, by batches.
pub(crate) async fn by_batch(engine: &dyn Engine, args: &Args) -> Measured {
    let (mut ours, mut by_hand) = (Vec::new(), Vec::new());
    for round in 0..args.repeat {
        for is_ours in rotated(&[true, false], round) {
            let rate = once(engine, args.rows, is_ours).await?;
            if is_ours { &mut ours } else { &mut by_hand }.push(rate);
        }
    }
    let settings = format!(
        "{} tickets are taken and deleted by {BATCH}, until none is left.",
        args.rows
    );
    let series = vec![
        Series::new("Duebox", "tickets/s", &ours),
        Series::new("by hand", "tickets/s", &by_hand),
        Series::ratio("Duebox / by hand", &ours, &by_hand, Goal::AtLeast(0.8)),
    ];
    Ok((settings, series))
}

async fn once(engine: &dyn Engine, count: u64, is_ours: bool) -> Fallible<f64> {
    let tickets = engine.tickets().await?;
    let mut taker = if is_ours {
        Taker::Ours(Arc::clone(&tickets.store))
    } else {
        Taker::ByHand(engine.ticket_hand(&tickets, BATCH).await?)
    };
    // Connects and prepares, by a batch that is not counted.
    record(&*tickets.store, BATCH.into(), BATCH.into(), OWNERS).await?;
    taker.take_and_delete().await?;

    record(&*tickets.store, count, BATCH.into(), OWNERS).await?;
    engine.settle_tickets(&tickets).await?;
    let started = Instant::now();
    let mut done = 0;
    while done < count {
        match taker.take_and_delete().await? {
            0 => return Err(format!("{done} tickets were taken of {count}").into()),
            more => done += more,
        }
    }
    let took = started.elapsed();
    check_empty(&*tickets.store).await?;
    Ok(rate(done, took))
}

enum Taker {
    Ours(Arc<dyn PendingReceiptStore>),
    ByHand(Box<dyn TicketHand>),
}

impl Taker {
    /// Takes a batch and deletes it; how many went.
    async fn take_and_delete(&mut self) -> Fallible<u64> {
        match self {
            Self::Ours(store) => {
                let taken = store
                    .take_due(now()?, later()?, limit(BATCH.into())?)
                    .await?;
                let tickets = taken.into_iter().map(|receipt| receipt.ticket).collect();
                Ok(store.delete(tickets).await?)
            }
            Self::ByHand(hand) => hand.take_and_delete().await,
        }
    }
}
