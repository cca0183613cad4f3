use chrono::{DateTime, TimeDelta, Utc};

use crate::PushStoreError;

/// 9999-12-31T23:59:59.999999Z.
const LAST: i64 = 253_402_300_799_999_999;

/// The microseconds since 1970 of an instant, floored. For the author of a
/// store: it is how every store reads every instant that it is given.
///
/// A leap second is read as the last microsecond before it.
///
/// # Errors
///
/// [`PushStoreError::OutOfRange`] unless its year is within 1970 to 9999.
///
/// ```
/// use duebox_core::chrono::DateTime;
/// use duebox_core::{PushStoreError, check_instant, instant_from_micros};
///
/// let instant = DateTime::from_timestamp_nanos(1_999);
/// assert_eq!(check_instant(instant)?, 1);
/// assert_eq!(instant_from_micros(1)?, DateTime::from_timestamp_micros(1).unwrap());
/// let before = DateTime::from_timestamp_nanos(-1);
/// assert_eq!(check_instant(before), Err(PushStoreError::OutOfRange));
/// # Ok::<(), PushStoreError>(())
/// ```
pub fn check_instant(instant: DateTime<Utc>) -> Result<i64, PushStoreError> {
    // chrono keeps a leap second as a fraction above one second.
    let fraction = i64::from(instant.timestamp_subsec_micros().min(999_999));
    instant
        .timestamp()
        .checked_mul(1_000_000)
        .and_then(|micros| micros.checked_add(fraction))
        .filter(|micros| (0..=LAST).contains(micros))
        .ok_or(PushStoreError::OutOfRange)
}

/// The instant that is this many microseconds after 1970 began. For the author
/// of a store, to read what [`check_instant`] gave.
///
/// # Errors
///
/// [`PushStoreError::Corrupt`] if it is not of the years 1970 to 9999, so that
/// no store has written it.
pub fn instant_from_micros(micros: i64) -> Result<DateTime<Utc>, PushStoreError> {
    Some(micros)
        .filter(|micros| (0..=LAST).contains(micros))
        .and_then(DateTime::from_timestamp_micros)
        .ok_or(PushStoreError::Corrupt)
}

/// The instant that is `wait` after this one, which is floored first.
pub(super) fn later(
    instant: DateTime<Utc>,
    wait: TimeDelta,
) -> Result<DateTime<Utc>, PushStoreError> {
    let micros = check_instant(instant)?;
    wait.num_microseconds()
        .and_then(|wait| micros.checked_add(wait))
        .and_then(|later| instant_from_micros(later).ok())
        .ok_or(PushStoreError::OutOfRange)
}
