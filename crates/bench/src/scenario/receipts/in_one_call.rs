use std::time::Instant;

use duebox_sqlite::PushTicketId;

use super::{Measured, OWNERS, check_empty, limit};
use crate::args::Args;
use crate::engine::tickets::{later, now, receipt};
use crate::engine::{Engine, Fallible};
use crate::report::Series;

/// Records all tickets in one call, takes them in one and deletes them in one.
pub(crate) async fn in_one_call(engine: &dyn Engine, args: &Args) -> Measured {
    let count = args.rows;
    let (mut record, mut take, mut delete) = (Vec::new(), Vec::new(), Vec::new());
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for _ in 0..args.repeat {
        let tickets = engine.tickets().await?;
        let receipts = (0..count).map(|number| receipt(number, OWNERS));
        let receipts = receipts.collect::<Fallible<Vec<_>>>()?;
        before.push(peak_memory()?);

        let started = Instant::now();
        let new = tickets.store.record(receipts, now()?).await?;
        record.push(started.elapsed().as_secs_f64());

        let started = Instant::now();
        let taken = tickets.store.take_due(now()?, later()?, limit(count)?);
        let taken = taken.await?;
        take.push(started.elapsed().as_secs_f64());
        let taken: Vec<PushTicketId> = taken.into_iter().map(|each| each.ticket).collect();
        let got = taken.len() as u64;

        let started = Instant::now();
        let gone = tickets.store.delete(taken).await?;
        delete.push(started.elapsed().as_secs_f64());
        after.push(peak_memory()?);

        if [new, got, gone] != [count; 3] {
            return Err(format!("of {count}: new {new}, taken {got}, deleted {gone}").into());
        }
        check_empty(&*tickets.store).await?;
    }
    let settings = format!(
        "{count} tickets, one call each. The memory is the most that the process has held so far \
         (VmHWM); before the first call, the program and the tickets to record."
    );
    let series = vec![
        Series::new("recorded", "s", &record),
        Series::new("taken", "s", &take),
        Series::new("deleted", "s", &delete),
        Series::new("memory before the first call", "MiB", &before[..1]),
        Series::new("memory after the first three", "MiB", &after[..1]),
        Series::new("memory in the end", "MiB", &after[args.repeat - 1..]),
    ];
    Ok((settings, series))
}

/// The most that this process has held, in MiB.
fn peak_memory() -> Fallible<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let size = line.and_then(|line| line.trim().strip_suffix("kB"));
    let kib: f64 = size.ok_or("no VmHWM")?.trim().parse()?;
    Ok(kib / 1024.0)
}
