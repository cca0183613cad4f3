use std::process::ExitCode;
use std::time::Duration;

use duebox_core::{Kind, Outbox, OutboxStats, format_time};
use serde_json::json;

use crate::args::{Place, StatusArgs};
use crate::engine::{self, Engine};
use crate::error::CliError;
use crate::output;

pub(crate) async fn run(
    engine: &Engine,
    place: &Place,
    args: &StatusArgs,
) -> Result<ExitCode, CliError> {
    loop {
        let passed = once(engine, place, args).await?;
        if !args.watch {
            return Ok(ExitCode::from(u8::from(passed)));
        }
        // Nothing is under way here, so Ctrl-C may end the process at once.
        tokio::time::sleep(args.every).await;
    }
}

/// Whether a threshold was passed.
async fn once(engine: &Engine, place: &Place, args: &StatusArgs) -> Result<bool, CliError> {
    let outboxes = all(engine, place).await?;
    let db = engine.db();
    let now = format_time(db.now().await?)?;
    let (mut counted, mut broken) = (Vec::new(), None);
    for outbox in outboxes {
        match outbox.stats(&*db, &now).await {
            Ok(stats) => counted.push((outbox, stats)),
            // The others are shown all the same, and then this is the end.
            Err(error) if error.kind() == Kind::Schema => {
                let table = outbox.table();
                output::message(&format!("{table}: it is not as the migrations left it"));
                broken = Some(error);
            }
            Err(error) => return Err(error.into()),
        }
    }
    if args.json {
        let outboxes: Vec<_> = counted
            .iter()
            .map(|(outbox, stats)| object(outbox, stats))
            .collect();
        output::data(&json!({ "at": now, "outboxes": outboxes }).to_string())?;
    } else {
        let rows = counted.iter().map(|(outbox, stats)| {
            [
                outbox.table().to_owned(),
                stats.waiting.to_string(),
                stats.due.to_string(),
                stats.leased.to_string(),
                stats.parked.to_string(),
                oldest(stats).map_or_else(
                    || "-".to_owned(),
                    |age| {
                        humantime::format_duration(Duration::from_secs(age.as_secs())).to_string()
                    },
                ),
            ]
        });
        let header = ["OUTBOX", "WAITING", "DUE", "LEASED", "PARKED", "OLDEST DUE"];
        output::data(&output::table(header, rows))?;
    }
    let mut passed = false;
    for (outbox, stats) in &counted {
        if args
            .max_oldest
            .is_some_and(|max| oldest(stats).is_some_and(|age| age > max))
        {
            output::message(&format!(
                "{}: a row has been due for too long",
                outbox.table()
            ));
            passed = true;
        }
        if args.max_parked.is_some_and(|max| stats.parked > max) {
            output::message(&format!("{}: too many rows are parked", outbox.table()));
            passed = true;
        }
    }
    match broken {
        Some(error) => Err(error.into()),
        None => Ok(passed),
    }
}

/// The outbox that was named; or every one that the bookkeeping knows, or the one
/// of the default name.
pub(crate) async fn all(engine: &Engine, place: &Place) -> Result<Vec<Outbox>, CliError> {
    if place.table.is_some() {
        return Ok(vec![engine::outbox(place)?]);
    }
    if let Some(known) = engine.known().await?
        && !known.outboxes.is_empty()
    {
        return Ok(known.outboxes);
    }
    let outbox = engine::outbox(place)?;
    output::message(&format!(
        "no outbox was made by the migrations here, so only {} is looked at; name others by --table",
        outbox.table()
    ));
    Ok(vec![outbox])
}

fn oldest(stats: &OutboxStats) -> Option<Duration> {
    stats.oldest_due.and_then(|age| age.to_std().ok())
}

fn object(outbox: &Outbox, stats: &OutboxStats) -> serde_json::Value {
    json!({
        "table": outbox.table(),
        "waiting": stats.waiting,
        "due": stats.due,
        "leased": stats.leased,
        "parked": stats.parked,
        "oldest_due_seconds": oldest(stats).map(|age| age.as_secs()),
    })
}
