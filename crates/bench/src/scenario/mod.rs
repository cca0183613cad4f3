//! What is measured.

mod cursor;
mod drain;
mod enqueue;
mod flat;
mod many;
pub(crate) mod receipts;
mod status;
mod watch;
mod worker;

pub(crate) use self::cursor::cursor;
pub(crate) use self::drain::drain;
pub(crate) use self::enqueue::enqueue;
pub(crate) use self::flat::flat;
pub(crate) use self::many::many;
pub(crate) use self::status::status;
pub(crate) use self::worker::worker;

use duebox_sqlite::chrono::{DateTime, Duration, Utc};
use duebox_sqlite::{Enqueue, format_time};

use crate::engine::{Fallible, NewRow, TOPIC, id, payload};
use crate::report::Series;

/// The settings in words, and the figures.
type Measured = Fallible<(String, Vec<Series>)>;

/// Rows are enqueued as due from here on, a millisecond apart, which is after
/// the seeded ones and before the claims' now.
fn due(number: u64) -> Fallible<DateTime<Utc>> {
    let start: DateTime<Utc> = "2026-01-02T00:00:00Z".parse()?;
    Ok(start + Duration::milliseconds(i64::try_from(number)?))
}

fn work(number: u64) -> Fallible<Enqueue> {
    Ok(Enqueue::new(TOPIC)
        .payload(payload())
        .id(id(number))
        .at(due(number)?))
}

fn new_row(number: u64) -> Fallible<NewRow> {
    Ok(NewRow {
        id: id(number),
        payload: payload(),
        at: format_time(due(number)?)?,
    })
}

/// Who goes first changes from time to time.
fn rotated<T: Copy>(all: &[T], by: usize) -> impl Iterator<Item = T> {
    let by = by % all.len();
    all[by..].iter().chain(&all[..by]).copied()
}

#[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52 rows")]
fn rate(rows: u64, took: std::time::Duration) -> f64 {
    rows as f64 / took.as_secs_f64()
}
