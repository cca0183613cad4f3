use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Stdio};
use std::time::Instant;

use duebox_sqlite::PendingReceiptStore;
use duebox_sqlite::chrono::DateTime;

use super::{Measured, OWNERS, limit};
use crate::args::Args;
use crate::engine::tickets::{later, now, receipt, record};
use crate::engine::{Engine, Fallible};
use crate::report::Series;

const PROCESSES: usize = 8;
const TICKETS: u64 = 5_000;
/// Tickets that a process takes in one call.
const A_CALL: u64 = 100;
/// What a process says when it could begin.
const READY: &str = "ready";

/// Processes take at once what is due, until nothing is.
pub(crate) async fn takers(engine: &dyn Engine, args: &Args) -> Measured {
    let (mut took, mut each, mut shares) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..args.repeat {
        let tickets = engine.tickets().await?;
        record(&*tickets.store, TICKETS, 1_000, OWNERS).await?;
        engine.settle_tickets(&tickets).await?;
        let mut takers = (0..PROCESSES)
            .map(|_| Taker::start(args, &tickets.file.0))
            .collect::<Fallible<Vec<_>>>()?;
        for taker in &mut takers {
            taker.wait_until_ready()?;
        }
        let started = Instant::now();
        for taker in &mut takers {
            taker.go()?;
        }
        let taken = takers.iter_mut().map(Taker::taken);
        let taken = taken.collect::<Fallible<Vec<_>>>()?;
        took.push(started.elapsed().as_secs_f64());
        check(&taken)?;
        let counts: Vec<_> = taken.iter().map(Vec::len).collect();
        shares.push(format!("{counts:?}"));
        #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52")]
        each.extend(counts.iter().map(|count| *count as f64));
    }
    let settings = format!(
        "{TICKETS} due tickets, processes: {PROCESSES}, {A_CALL} a call. Every ticket was taken \
         exactly once. Taken by each, a list a round: {}.",
        shares.join(", ")
    );
    let series = vec![
        Series::new("until nothing was due", "s", &took),
        Series::new("taken by one process", "tickets", &each),
    ];
    Ok((settings, series))
}

/// Fails unless every ticket is there exactly once.
fn check(taken: &[Vec<String>]) -> Fallible<()> {
    let mut times: HashMap<&str, u64> = HashMap::new();
    for ticket in taken.iter().flatten() {
        *times.entry(ticket).or_default() += 1;
    }
    for number in 0..TICKETS {
        let receipt = receipt(number, OWNERS)?;
        match times.remove(receipt.ticket.as_str()) {
            Some(1) => {}
            other => {
                let times = other.unwrap_or_default();
                return Err(format!("ticket {number} was taken {times} times").into());
            }
        }
    }
    if times.is_empty() {
        Ok(())
    } else {
        Err("a ticket was taken that was not recorded".into())
    }
}

/// This program once more, as [`take_all`]. It is killed with this, if it has
/// not ended.
struct Taker {
    process: Child,
    says: BufReader<ChildStdout>,
}

impl Taker {
    fn start(args: &Args, file: &std::path::Path) -> Fallible<Self> {
        let mut process = args
            .taker_command(file)?
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let says = process.stdout.take().ok_or("no stdout")?;
        Ok(Self {
            process,
            says: BufReader::new(says),
        })
    }

    fn wait_until_ready(&mut self) -> Fallible<()> {
        let mut line = String::new();
        self.says.read_line(&mut line)?;
        if line.trim() == READY {
            Ok(())
        } else {
            Err("a process could not begin".into())
        }
    }

    fn go(&mut self) -> Fallible<()> {
        // Closed by this.
        let mut tell = self.process.stdin.take().ok_or("no stdin")?;
        Ok(writeln!(tell)?)
    }

    /// Waits for its end.
    fn taken(&mut self) -> Fallible<Vec<String>> {
        let mut text = String::new();
        self.says.read_to_string(&mut text)?;
        if !self.process.wait()?.success() {
            return Err("a process failed".into());
        }
        Ok(text.lines().map(str::to_owned).collect())
    }
}

impl Drop for Taker {
    fn drop(&mut self) {
        // It has ended, or is to.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What each of the processes does: takes until nothing is due, and prints what
/// it took.
pub(crate) async fn take_all(store: &dyn PendingReceiptStore) -> Fallible<()> {
    // Connects, and takes nothing.
    store
        .take_due(DateTime::UNIX_EPOCH, later()?, limit(A_CALL)?)
        .await?;
    println!("{READY}");
    std::io::stdin().read_line(&mut String::new())?;
    let mut all = Vec::new();
    loop {
        let taken = store.take_due(now()?, later()?, limit(A_CALL)?).await?;
        if taken.is_empty() {
            break;
        }
        all.extend(taken);
    }
    for receipt in all {
        println!("{}", receipt.ticket.as_str());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ticket_must_be_taken_once() {
        let all: Vec<String> = (0..TICKETS)
            .map(|number| {
                receipt(number, OWNERS)
                    .expect("a receipt")
                    .ticket
                    .into_string()
            })
            .collect();
        let (one, other) = all.split_at(1_000);
        let (one, other) = (one.to_vec(), other.to_vec());
        assert!(check(&[one.clone(), other.clone()]).is_ok());
        assert!(check(&[one.clone(), one.clone(), other.clone()]).is_err());
        assert!(check(&[one.clone(), other[1..].to_vec()]).is_err());
        assert!(check(&[one, other, vec!["another".to_owned()]]).is_err());
    }
}
