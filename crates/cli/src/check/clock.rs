//! Whether this machine and the server agree about the time.

use std::time::{Duration, Instant, SystemTime};

use duebox_core::Dialect;
use duebox_core::chrono::{DateTime, TimeDelta, Utc};

use super::Checking;
use super::finding::Finding;
use crate::error::CliError;

/// The two are compared by an answer that takes no time worth a difference; the
/// time that it took is allowed for.
pub(super) async fn check(checking: &mut Checking<'_>) -> Result<(), CliError> {
    // There the server's clock is the process's own.
    if checking.dialect() == Dialect::Sqlite {
        return Ok(());
    }
    let db = checking.engine.db();
    // The first answer may have to wait for a connection.
    db.now().await?;
    let asked = Instant::now();
    let theirs = db.now().await?;
    let took = asked.elapsed();
    let ours = DateTime::<Utc>::from(SystemTime::now()) - half(took);
    let difference = theirs - ours;
    let most = checking.args.max_clock + took;
    if difference.abs().to_std().is_ok_and(|apart| apart > most) {
        let by = difference.abs().to_std().unwrap_or_default();
        let by = humantime::format_duration(Duration::from_secs(by.as_secs()));
        let ahead = difference > TimeDelta::zero();
        checking.add(
            Finding::problem(
                "clock-difference",
                format!(
                    "the server's clock is {by} {} this machine's",
                    if ahead { "ahead of" } else { "behind" }
                ),
            )
            .because(
                "one of the two is wrong: rows whose time is taken from a machine that is \
                 ahead fall due late by as much",
            )
            .advise(
                "set both clocks by the network's time (`timedatectl set-ntp true`), and take \
                 the time of rows from the database (`Database::now`, or the worker's Clock)",
            ),
        );
    }
    Ok(())
}

fn half(time: Duration) -> TimeDelta {
    TimeDelta::from_std(time / 2).unwrap_or_default()
}
