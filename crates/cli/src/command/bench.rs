//! What this database does, beside the same by hand-written SQL.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use duebox_core::{Database, DbError, Enqueue, Outbox, Statement, format_time};
use serde_json::json;

use crate::engine::Engine;
use crate::error::CliError;
use crate::output::{self, Progress};
use crate::signals::Signals;

mod by_hand;

/// So often each way has its turn.
const ROUNDS: u64 = 4;
/// A payload of this many bytes.
const PAYLOAD: usize = 200;

#[derive(Debug, clap::Args)]
pub(crate) struct BenchArgs {
    /// How many rows each way enqueues and drains
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    rows: u64,
    /// How many rows one statement takes
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1000))]
    batch: u64,
    /// One JSON document instead of a table
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(engine: &Engine, args: &BenchArgs) -> Result<ExitCode, CliError> {
    let mut signals = Signals::new()?;
    let db = engine.db();
    let now = db.now().await?;
    let table = format!("duebox_bench_{}", Enqueue::new_id(now).to_ascii_lowercase());
    let bench = Bench {
        outbox: Outbox::try_new(table.as_str())?,
        rows: args.rows,
        batch: args.batch,
        db,
    };
    let end = tokio::select! {
        figures = bench.run() => figures.map_err(CliError::from),
        _ = signals.next() => Err(CliError::Stopped(0)),
    };
    // However it ended, nothing of it is left.
    let cleaned = bench.clean_up().await;
    print(args, &end?)?;
    cleaned.map(|()| ExitCode::SUCCESS)
}

struct Bench {
    db: Arc<dyn Database>,
    outbox: Outbox,
    rows: u64,
    batch: u64,
}

/// Which way it is done.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Duebox,
    ByHand,
}

/// How long each batch took.
#[derive(Default)]
struct Took {
    rows: u64,
    batches: Vec<Duration>,
}

#[derive(Default)]
struct Figures {
    enqueue: [Took; 2],
    drain: [Took; 2],
}

impl Bench {
    async fn run(&self) -> Result<Figures, DbError> {
        let create = Statement::new(self.outbox.create_table_sql());
        self.db.execute(&create).await?;
        let progress = Progress::new("rows");
        let mut figures = Figures::default();
        for round in 0..ROUNDS {
            let first = self.rows * round / ROUNDS;
            let rows = self.rows * (round + 1) / ROUNDS - first;
            // Who comes second finds the table as the first has left it: in turns.
            let ways = [Way::Duebox, Way::ByHand];
            let ways = if round % 2 == 0 {
                ways
            } else {
                [ways[1], ways[0]]
            };
            for way in ways {
                self.fill(way, rows, &mut figures.enqueue[way as usize])
                    .await?;
                self.drain(way, rows, &mut figures.drain[way as usize])
                    .await?;
            }
            progress.at((first + rows) * 2);
        }
        Ok(figures)
    }

    async fn fill(&self, way: Way, rows: u64, took: &mut Took) -> Result<(), DbError> {
        let now = self.db.now().await?;
        let payload = "x".repeat(PAYLOAD);
        let mut left = rows;
        while left > 0 {
            let batch = left.min(self.batch);
            let ids: Vec<String> = (0..batch).map(|_| Enqueue::new_id(now)).collect();
            let began = Instant::now();
            let statement = match way {
                Way::Duebox => self
                    .outbox
                    .enqueue_many_statement(ids.into_iter().map(|id| {
                        Enqueue::new("bench")
                            .id(id)
                            .payload(payload.as_str())
                            .at(now)
                    })),
                Way::ByHand => {
                    by_hand::insert(self.db.dialect(), self.outbox.table(), &ids, &payload, now)?
                }
            };
            self.db.execute(&statement).await?;
            took.add(batch, began.elapsed());
            left -= batch;
        }
        Ok(())
    }

    async fn drain(&self, way: Way, rows: u64, took: &mut Took) -> Result<(), DbError> {
        let now = self.db.now().await?;
        let until = format_time(now + Duration::from_hours(1))?;
        let now = format_time(now)?;
        let mut done = 0;
        loop {
            let began = Instant::now();
            let got = match way {
                Way::Duebox => self.take(&now, &until).await?,
                Way::ByHand => {
                    by_hand::take(&*self.db, self.outbox.table(), &now, &until, self.batch).await?
                }
            };
            if got == 0 {
                break;
            }
            took.add(got, began.elapsed());
            done += got;
        }
        // Figures of anything else would be wrong.
        if done == rows {
            Ok(())
        } else {
            Err(DbError::row_count(rows, done).context("drain the table of the benchmark"))
        }
    }

    async fn take(&self, now: &str, until: &str) -> Result<u64, DbError> {
        let claimed = self.outbox.claim_due(&*self.db, now, until, self.batch);
        let leases: Vec<_> = claimed.await?.into_iter().map(|row| row.lease).collect();
        if !leases.is_empty() {
            self.outbox.complete_claimed(&*self.db, &leases).await?;
        }
        Ok(leases.len() as u64)
    }

    async fn clean_up(&self) -> Result<(), CliError> {
        let table = self.outbox.table();
        let drop = Statement::new(format!("DROP TABLE IF EXISTS {table}"));
        let mut tries = 0;
        loop {
            match self.db.execute(&drop).await {
                Ok(_) => return Ok(()),
                Err(error) => {
                    tries += 1;
                    if tries == 5 {
                        output::message(&format!(
                            "the table {table} is left over; drop it: DROP TABLE {table}"
                        ));
                        return Err(error.into());
                    }
                    // What was interrupted may hold it for a moment still.
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            }
        }
    }
}

impl Took {
    fn add(&mut self, rows: u64, time: Duration) {
        self.rows += rows;
        self.batches.push(time);
    }

    #[expect(clippy::cast_precision_loss, reason = "a figure to read")]
    fn rate(&self) -> f64 {
        let seconds = self.batches.iter().sum::<Duration>().as_secs_f64();
        self.rows as f64 / seconds.max(f64::MIN_POSITIVE)
    }

    /// The time under which so many of a hundred batches stayed, in ms.
    fn percentile(&self, percent: usize) -> f64 {
        let mut times = self.batches.clone();
        times.sort_unstable();
        let place = (times.len() * percent).div_ceil(100).saturating_sub(1);
        times.get(place).map_or(0.0, Duration::as_secs_f64) * 1e3
    }
}

fn print(args: &BenchArgs, figures: &Figures) -> Result<(), CliError> {
    let parts = [("enqueue", &figures.enqueue), ("drain", &figures.drain)];
    let ratio = |took: &[Took; 2]| took[0].rate() / took[1].rate();
    if args.json {
        let way = |took: &Took| {
            json!({
                "rows_per_second": took.rate(),
                "p50_ms": took.percentile(50),
                "p99_ms": took.percentile(99),
            })
        };
        let mut document = json!({ "rows": args.rows, "batch": args.batch });
        for (name, took) in parts {
            document[name] = json!({
                "duebox": way(&took[0]),
                "by_hand": way(&took[1]),
                "ratio": ratio(took),
            });
        }
        return output::data(&document.to_string());
    }
    let mut rows = Vec::new();
    for (name, took) in parts {
        for (way, took, ratio) in [
            ("duebox", &took[0], format!("{:.2}", ratio(took))),
            ("by hand", &took[1], "1.00".to_owned()),
        ] {
            rows.push([
                name.to_owned(),
                way.to_owned(),
                format!("{:.0}", took.rate()),
                format!("{:.2}", took.percentile(50)),
                format!("{:.2}", took.percentile(99)),
                ratio,
            ]);
        }
    }
    let header = ["", "by", "rows/s", "ms p50", "ms p99", "ratio"];
    output::data(&output::table(header, rows))?;
    output::message(&format!(
        "{} rows each way, {} a batch, payloads of {PAYLOAD} bytes, one connection at a time",
        args.rows, args.batch
    ));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_batches() {
        let mut took = Took::default();
        assert!(took.percentile(50).abs() < f64::EPSILON);
        for ms in (1..=100).rev() {
            took.add(10, Duration::from_millis(ms));
        }
        assert!((took.percentile(50) - 50.0).abs() < 1e-9);
        assert!((took.percentile(99) - 99.0).abs() < 1e-9);
        assert!((took.rate() - 1_000.0 / 5.05).abs() < 1e-6);
    }
}
