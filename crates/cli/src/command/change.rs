//! What changes rows, by their ids or by filters, a batch at a time.

use std::collections::BTreeSet;
use std::process::ExitCode;

use duebox_core::chrono::{DateTime, Utc};
use duebox_core::{Database, DbError, Outbox, OutboxEntry, RowState, format_time};

use crate::args::{DeleteArgs, Filter, ParkArgs, Place, ReleaseArgs, RetryArgs, Selection, State};
use crate::command::list::{PAGE, options};
use crate::engine::{self, Engine};
use crate::error::CliError;
use crate::output::{self, Progress};
use crate::stop::Stop;

/// The change, and what to call it once done.
#[derive(Clone, Copy)]
enum Change<'a> {
    Retry,
    Park(&'a str),
    Release,
    Delete,
}

impl Change<'_> {
    const fn done(self) -> &'static str {
        match self {
            Self::Retry => "made due again",
            Self::Park(_) => "parked",
            Self::Release => "released",
            Self::Delete => "deleted",
        }
    }

    /// Whether it does anything to a row in this state; a lapsed lease can be
    /// released in any of them.
    fn touches(self, row: &OutboxEntry, now: &str) -> bool {
        match self {
            Self::Retry => row.state(now) == RowState::Parked,
            Self::Release => row.locked_until.is_some(),
            Self::Park(_) | Self::Delete => true,
        }
    }

    async fn apply(
        self,
        outbox: &Outbox,
        db: &dyn Database,
        ids: &[&str],
        now: &str,
    ) -> Result<u64, DbError> {
        match self {
            Self::Retry => outbox.unpark(db, ids, now).await,
            Self::Park(reason) => outbox.park(db, ids, now, reason).await,
            Self::Release => outbox.release(db, ids).await,
            Self::Delete => outbox.delete(db, ids).await,
        }
    }
}

pub(crate) async fn retry(
    engine: &Engine,
    place: &Place,
    mut args: RetryArgs,
) -> Result<ExitCode, CliError> {
    if args.parked {
        args.selection.filter.state = Some(State::Parked);
    }
    run(engine, place, &args.selection, Change::Retry, true).await
}

pub(crate) async fn park(
    engine: &Engine,
    place: &Place,
    args: &ParkArgs,
) -> Result<ExitCode, CliError> {
    run(
        engine,
        place,
        &args.selection,
        Change::Park(&args.reason),
        true,
    )
    .await
}

pub(crate) async fn release(
    engine: &Engine,
    place: &Place,
    args: &ReleaseArgs,
) -> Result<ExitCode, CliError> {
    run(engine, place, &args.selection, Change::Release, true).await
}

pub(crate) async fn delete(
    engine: &Engine,
    place: &Place,
    args: &DeleteArgs,
) -> Result<ExitCode, CliError> {
    run(engine, place, &args.selection, Change::Delete, args.yes).await
}

/// Counts what is selected, says who loses a lease, asks, and goes over it again
/// to change it. Rows that come or change in between are taken as they are then.
async fn run(
    engine: &Engine,
    place: &Place,
    selection: &Selection,
    change: Change<'_>,
    yes: bool,
) -> Result<ExitCode, CliError> {
    if selection.ids.is_empty() == selection.filter.is_empty() {
        return Err(CliError::usage(
            "say which rows: either their ids, or at least one of --topic, --state and --older-than",
        ));
    }
    // One that is given twice is meant once.
    let ids: BTreeSet<&str> = selection.ids.iter().map(String::as_str).collect();
    let walk = Walk {
        db: &*engine.db(),
        outbox: &engine::outbox(place)?,
        ids: ids.iter().copied().collect(),
        filter: &selection.filter,
        change,
        now: engine.db().now().await?,
    };
    // What only reads, and the question, Ctrl-C ends at once.
    let found = walk.go(None).await?;
    if found.leased > 0 {
        output::message(&format!(
            "{} of these rows are under lease: their holders will lose the lease",
            found.leased
        ));
    }
    if selection.dry_run {
        output::data(&format!("{} rows would be {}", found.rows, change.done()))?;
        return Ok(ExitCode::SUCCESS);
    }
    if found.rows > 0 {
        output::confirm(
            &format!("{} rows will be {}.", found.rows, change.done()),
            yes,
        )?;
    }
    let done = if found.rows > 0 {
        walk.go(Some(&Stop::new())).await?.rows
    } else {
        0
    };
    output::data(&format!("{done} rows {}", change.done()))?;
    // An id that changed nothing is a finding: a script wants to know.
    let wanted = u64::try_from(ids.len()).unwrap_or(u64::MAX);
    if done < wanted {
        return Err(CliError::Finding(format!(
            "{} of the ids had nothing to change: not there, or not in the state for it",
            wanted - done
        )));
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(Default)]
struct Found {
    rows: u64,
    leased: u64,
}

struct Walk<'a> {
    db: &'a dyn Database,
    outbox: &'a Outbox,
    ids: Vec<&'a str>,
    filter: &'a Filter,
    change: Change<'a>,
    now: DateTime<Utc>,
}

impl Walk<'_> {
    /// Counts, or changes until told to stop.
    async fn go(&self, apply: Option<&Stop>) -> Result<Found, CliError> {
        let now = format_time(self.now)?;
        let progress = Progress::new("rows");
        let mut found = Found::default();
        let mut after = String::new();
        let mut ids = self.ids.iter();
        loop {
            if let Some(stop) = apply {
                stop.check(found.rows)?;
            }
            let (rows, last) = if self.ids.is_empty() {
                let page = options(self.filter, self.now)?;
                let page = page.after(after.as_str()).limit(PAGE);
                let rows = self.outbox.list(self.db, &now, &page).await?;
                let last = (rows.len() as u64) < PAGE;
                (rows, last)
            } else {
                match ids.next() {
                    Some(id) => (Vec::from_iter(self.outbox.get(self.db, id).await?), false),
                    None => break,
                }
            };
            if let Some(row) = rows.last() {
                after.clone_from(&row.id);
            }
            let touched: Vec<&OutboxEntry> = rows
                .iter()
                .filter(|row| self.change.touches(row, &now))
                .collect();
            found.leased += touched
                .iter()
                .filter(|row| row.state(&now) == RowState::Leased)
                .count() as u64;
            if apply.is_some() {
                let ids: Vec<&str> = touched.iter().map(|row| row.id.as_str()).collect();
                found.rows += self.change.apply(self.outbox, self.db, &ids, &now).await?;
                progress.at(found.rows);
            } else {
                found.rows += touched.len() as u64;
            }
            if last {
                break;
            }
        }
        Ok(found)
    }
}
