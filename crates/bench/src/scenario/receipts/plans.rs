use std::time::Instant;

use super::{Measured, limit};
use crate::args::Args;
use crate::engine::tickets::{Query, Tickets, owner, record, sent_at};
use crate::engine::{Engine, Fallible};
use crate::report::Series;

/// Tickets of one owner.
const EACH: u64 = 10;
/// A purge deletes one ticket in so many.
const PURGED: u64 = 100;

/// Erases one owner and purges old tickets, among many.
pub(crate) async fn plans(engine: &dyn Engine, args: &Args) -> Measured {
    let owners = (args.waiting / EACH).max(args.repeat as u64);
    let (count, old) = (owners * EACH, owners * EACH / PURGED);
    if old == 0 || (args.repeat as u64 + 1) * old > owners {
        return Err("there are too few --waiting for this, or too many --repeat".into());
    }
    let tickets = engine.tickets().await?;
    record(&*tickets.store, count, count.min(100_000), owners).await?;
    engine.settle_tickets(&tickets).await?;

    let erase = Query::EraseOwner(owner(owners - 1));
    let erase_plan = plan(engine, &tickets, erase, "pending_receipts_owner").await?;
    let purge = Query::Purge {
        sent_before: sent_at(old)?,
        limit: u32::try_from(old)?,
    };
    let purge_plan = plan(engine, &tickets, purge, "pending_receipts_sent").await?;

    let (mut erased, mut purged) = (Vec::new(), Vec::new());
    for round in 1..=args.repeat as u64 {
        // None of what these owners have is old yet.
        let started = Instant::now();
        let gone = tickets.store.erase_owner(owner(owners - round)).await?;
        erased.push(started.elapsed().as_secs_f64() * 1e3);
        check(gone, EACH)?;

        let started = Instant::now();
        let purge = tickets.store.purge(sent_at(old * round)?, limit(old)?);
        let gone = purge.await?;
        purged.push(started.elapsed().as_secs_f64() * 1e3);
        check(gone, old)?;
    }
    let settings = format!(
        "{count} tickets of {owners} owners. How the engine erases an owner:\n\n{erase_plan}\n\n\
         and finds what a purge deletes:\n\n{purge_plan}"
    );
    let series = vec![
        Series::new(format!("erasing an owner, {EACH} tickets"), "ms", &erased),
        Series::new(format!("purging {old} tickets"), "ms", &purged),
    ];
    // It is large.
    engine.tickets().await?;
    Ok((settings, series))
}

/// The plan in a block of its own; fails unless it names this index.
async fn plan(
    engine: &dyn Engine,
    tickets: &Tickets,
    query: Query,
    index: &str,
) -> Fallible<String> {
    let plan = engine.plan(tickets, query).await?.join("\n");
    if plan.contains(index) {
        Ok(format!("```text\n{plan}\n```"))
    } else {
        Err(format!("{index} is not used:\n{plan}").into())
    }
}

fn check(gone: u64, expected: u64) -> Fallible<()> {
    if gone == expected {
        Ok(())
    } else {
        Err(format!("{gone} tickets went, not {expected}").into())
    }
}
