//! Times of the outbox: text of one width, so that text order is time order.

use chrono::{DateTime, Datelike, NaiveDate, TimeDelta, Timelike, Utc};

use crate::DbError;

/// The time at which a parked row is due: the last instant that has a text.
///
/// A row whose `next_attempt_at` is this time is parked, however it got there,
/// and no claim takes it.
pub const PARKED: &str = "9999-12-31T23:59:59.999999Z";

/// Reads an RFC 3339 text, floored to the microsecond.
///
/// `t` and `z` may be lower case, the fraction may have any number of digits,
/// and an offset is applied. A leap second (`23:59:60`) is read as the last
/// microsecond before it.
///
/// # Errors
///
/// [`Kind::InvalidArgument`](crate::Kind::InvalidArgument) if the text is
/// anything else, or if in UTC its year is not within 1 to 9999.
///
/// ```
/// use duebox_core::{format_time, parse_time};
///
/// let time = parse_time("2026-01-15t23:00:00.1234567+05:30")?;
/// assert_eq!(format_time(time)?, "2026-01-15T17:30:00.123456Z");
/// assert!(parse_time("2026-01-15 17:30:00").is_err());
/// # Ok::<(), duebox_core::DbError>(())
/// ```
pub fn parse_time(text: &str) -> Result<DateTime<Utc>, DbError> {
    parse(text.as_bytes()).map_err(|why| {
        DbError::invalid(format!(
            "{why}; write an RFC 3339 time such as 2026-01-31T09:30:00Z"
        ))
    })
}

/// Writes a time as the outbox keeps it: `YYYY-MM-DDTHH:MM:SS.ffffffZ`, always
/// 27 characters, floored to the microsecond.
///
/// # Errors
///
/// [`Kind::InvalidArgument`](crate::Kind::InvalidArgument) if its year is not
/// within 1 to 9999.
pub fn format_time(time: DateTime<Utc>) -> Result<String, DbError> {
    if !(1..=9999).contains(&time.year()) {
        return Err(DbError::invalid(OUT_OF_RANGE));
    }
    // chrono keeps a leap second as a fraction above one second.
    let micros = (time.nanosecond() / 1_000).min(999_999);
    Ok(format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{micros:06}Z",
        time.year(),
        time.month(),
        time.day(),
        time.hour(),
        time.minute(),
        time.second(),
    ))
}

/// The stored form of an argument called `name`.
pub(crate) fn stored(name: &'static str, text: &str) -> Result<String, DbError> {
    parse_time(text)
        .and_then(format_time)
        .map_err(|error| error.context(name))
}

const OUT_OF_RANGE: &str = "the year of a time is not within 1 to 9999";

fn parse(text: &[u8]) -> Result<DateTime<Utc>, &'static str> {
    const SHAPE: &str = "a time is not RFC 3339";
    const RANGE: &str = "a part of a time is out of its range";

    let (head, rest) = text.split_at_checked(19).ok_or(SHAPE)?;
    let shaped = head.iter().enumerate().all(|(place, byte)| match place {
        4 | 7 => *byte == b'-',
        10 => matches!(byte, b'T' | b't'),
        13 | 16 => *byte == b':',
        _ => byte.is_ascii_digit(),
    });
    if !shaped {
        return Err(SHAPE);
    }
    let second = number(&head[17..19]);
    let leap = second == 60;

    let (nanos, zone) = match rest.split_first() {
        Some((b'.', rest)) => {
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if digits == 0 {
                return Err(SHAPE);
            }
            let micros = (0..6).fold(0, |sum, place| {
                let digit = rest[..digits].get(place).map_or(0, |byte| byte - b'0');
                sum * 10 + u32::from(digit)
            });
            (micros * 1_000, &rest[digits..])
        }
        _ => (0, rest),
    };
    let offset_minutes = match zone {
        [b'Z' | b'z'] => 0,
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2]
            if [h1, h2, m1, m2].into_iter().all(u8::is_ascii_digit) =>
        {
            let (hours, minutes) = (number(&[*h1, *h2]), number(&[*m1, *m2]));
            if hours > 23 || minutes > 59 {
                return Err(RANGE);
            }
            let ahead = i64::from(hours * 60 + minutes);
            if *sign == b'+' { ahead } else { -ahead }
        }
        _ => return Err(SHAPE),
    };

    #[expect(clippy::cast_possible_wrap, reason = "four digits fit")]
    let year = number(&head[..4]) as i32;
    let local = NaiveDate::from_ymd_opt(year, number(&head[5..7]), number(&head[8..10]))
        .and_then(|date| {
            date.and_hms_nano_opt(
                number(&head[11..13]),
                number(&head[14..16]),
                if leap { 59 } else { second },
                if leap { 999_999_000 } else { nanos },
            )
        })
        .ok_or(RANGE)?;
    let utc = local
        .checked_sub_signed(TimeDelta::minutes(offset_minutes))
        .ok_or(OUT_OF_RANGE)?
        .and_utc();
    if leap && (utc.hour(), utc.minute()) != (23, 59) {
        return Err(RANGE);
    }
    if !(1..=9999).contains(&utc.year()) {
        return Err(OUT_OF_RANGE);
    }
    Ok(utc)
}

fn number(digits: &[u8]) -> u32 {
    digits
        .iter()
        .fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(text: &str) -> Result<String, DbError> {
        stored("at", text)
    }

    #[test]
    fn every_spelling_of_an_instant_is_stored_alike() {
        for text in [
            "2026-01-15T17:30:00Z",
            "2026-01-15t17:30:00z",
            "2026-01-15T17:30:00.0Z",
            "2026-01-15T17:30:00.0000009999999Z",
            "2026-01-15T17:30:00+00:00",
            "2026-01-15T17:30:00-00:00",
            "2026-01-15T23:00:00+05:30",
            "2026-01-14T17:31:00-23:59",
        ] {
            assert_eq!(
                round(text).unwrap(),
                "2026-01-15T17:30:00.000000Z",
                "{text}"
            );
        }
    }

    #[test]
    fn a_fraction_is_floored_to_the_microsecond() {
        assert_eq!(
            round("2022-12-31T23:59:59.9999999Z").unwrap(),
            "2022-12-31T23:59:59.999999Z"
        );
        assert_eq!(
            round("2022-12-31T23:59:59.5Z").unwrap(),
            "2022-12-31T23:59:59.500000Z"
        );
        assert_eq!(
            round("2016-12-31T23:59:60.7Z").unwrap(),
            "2016-12-31T23:59:59.999999Z"
        );
        assert_eq!(
            round("2017-01-01T00:59:60+01:00").unwrap(),
            "2016-12-31T23:59:59.999999Z"
        );
    }

    #[test]
    fn the_ends_of_the_range_are_kept() {
        assert_eq!(
            round("0001-01-01T00:00:00Z").unwrap(),
            "0001-01-01T00:00:00.000000Z"
        );
        assert_eq!(round(PARKED).unwrap(), PARKED);
    }

    #[test]
    fn whatever_is_not_rfc_3339_is_refused() {
        for text in [
            "",
            " ",
            "2026-01-15",
            "2026-01-15T17:30:00",
            "2026-01-15T17:30Z",
            "2026-01-15 17:30:00Z",
            "2026-01-15T17:30:00.Z",
            "2026-01-15T17:30:00,5Z",
            "2026-01-15T17:30:00+24:00",
            "2026-01-15T17:30:00+05:60",
            "2026-01-15T17:30:00+05",
            "2026-01-15T17:30:00+0530",
            "2026-01-15T17:30:00 Z",
            "2026-01-15T17:30:00ZZ",
            " 2026-01-15T17:30:00Z",
            "2026-02-30T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-01-15T24:00:00Z",
            "2026-01-15T17:60:00Z",
            "2026-01-15T17:30:60Z",
            "2026-01-15T17:30:61Z",
            "0000-12-31T23:59:59Z",
            "0001-01-01T00:00:00+00:01",
            "9999-12-31T23:59:59-00:01",
            "+10000-01-01T00:00:00Z",
            "10000-01-01T00:00:00Z",
            "-001-01-01T00:00:00Z",
            "2026-01-1\u{665}T17:30:00Z",
        ] {
            assert!(round(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_time_of_chrono_outside_the_years_is_refused() {
        assert!(format_time(DateTime::<Utc>::MAX_UTC).is_err());
        assert!(format_time(DateTime::<Utc>::MIN_UTC).is_err());
    }
}
