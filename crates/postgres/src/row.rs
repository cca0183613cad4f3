//! Values out: a column in the server's binary form as a [`Value`].

use std::fmt::Write as _;

use duebox_core::{DbError, Kind, Value};

use crate::types::Shape;

/// The error for a column of a type that is not read.
pub(crate) fn unreadable(column: &str, type_name: &str) -> DbError {
    DbError::new(
        Kind::Unsupported,
        format!("column {column:?} is of type {type_name}, which is not read; cast it to text"),
    )
}

/// Reads one value that is not `NULL`.
pub(crate) fn read(
    column: &str,
    type_name: &str,
    shape: Shape,
    bytes: &[u8],
) -> Result<Value, DbError> {
    let value = match shape {
        Shape::Bool => fixed(bytes).map(|[byte]| Value::Bool(byte != 0)),
        Shape::Int2 => fixed(bytes).map(|b| Value::Integer(i16::from_be_bytes(b).into())),
        Shape::Int4 => fixed(bytes).map(|b| Value::Integer(i32::from_be_bytes(b).into())),
        Shape::Int8 => fixed(bytes).map(|b| Value::Integer(i64::from_be_bytes(b))),
        Shape::Oid => fixed(bytes).map(|b| Value::Integer(u32::from_be_bytes(b).into())),
        Shape::Float4 => fixed(bytes).map(|b| Value::Real(f32::from_be_bytes(b).into())),
        Shape::Float8 => fixed(bytes).map(|b| Value::Real(f64::from_be_bytes(b))),
        Shape::Text => text(bytes),
        Shape::Bytes => Some(Value::Bytes(bytes.to_vec())),
        Shape::Uuid => fixed(bytes).map(|b| Value::Text(uuid(b))),
        Shape::Jsonb => bytes
            .split_first()
            .and_then(|(version, json)| match version {
                1 => text(json),
                _ => None,
            }),
        Shape::Timestamp => fixed(bytes)
            .map(i64::from_be_bytes)
            .and_then(|micros| timestamp(micros, "")),
        Shape::TimestampTz => fixed(bytes)
            .map(i64::from_be_bytes)
            .and_then(|micros| timestamp(micros, "Z")),
        Shape::Date => fixed(bytes)
            .map(i32::from_be_bytes)
            .and_then(|days| date(days.into()))
            .map(Value::Text),
        Shape::Time => fixed(bytes).map(|b| Value::Text(time(i64::from_be_bytes(b)))),
        Shape::Numeric => numeric(bytes).map(Value::Text),
        Shape::Array(_) | Shape::Other => return Err(unreadable(column, type_name)),
    };
    value.ok_or_else(|| {
        DbError::new(
            Kind::Unsupported,
            format!("column {column:?} of type {type_name} holds what cannot be read as that; cast it to text"),
        )
    })
}

fn fixed<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    bytes.try_into().ok()
}

fn text(bytes: &[u8]) -> Option<Value> {
    std::str::from_utf8(bytes)
        .ok()
        .map(|text| Value::Text(text.to_owned()))
}

fn uuid(bytes: [u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (place, byte) in bytes.iter().enumerate() {
        if matches!(place, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        let _ = write!(text, "{byte:02x}");
    }
    text
}

const DAY: i64 = 86_400_000_000;

/// Microseconds since 2000-01-01. Infinity, and what is outside the years 1 to
/// 9999, is `None`.
fn timestamp(micros: i64, zone: &str) -> Option<Value> {
    let date = date(micros.div_euclid(DAY))?;
    let time = time(micros.rem_euclid(DAY));
    Some(Value::Text(format!("{date}T{time}{zone}")))
}

/// Days since 2000-01-01, by the civil calendar reckoned from March on.
fn date(days: i64) -> Option<String> {
    // 0000-03-01 is so many days before 2000-01-01.
    let days = days + 730_425;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = year + era * 400 + i64::from(month <= 2);
    (1..=9999)
        .contains(&year)
        .then(|| format!("{year:04}-{month:02}-{day:02}"))
}

fn time(micros: i64) -> String {
    let seconds = micros / 1_000_000;
    format!(
        "{:02}:{:02}:{:02}.{:06}",
        seconds / 3_600,
        seconds / 60 % 60,
        seconds % 60,
        micros % 1_000_000
    )
}

/// Digits to the base 10 000, the place of the first, a sign, and how many
/// decimal digits are shown behind the point.
fn numeric(bytes: &[u8]) -> Option<String> {
    let half = |place: usize| -> Option<u16> {
        fixed(bytes.get(2 * place..2 * place + 2)?).map(u16::from_be_bytes)
    };
    let (count, sign, scale) = (usize::from(half(0)?), half(2)?, usize::from(half(3)?));
    #[allow(clippy::cast_possible_wrap)]
    let weight = i32::from(half(1)? as i16);
    let mut text = String::new();
    match sign {
        0x0000 => {}
        0x4000 => text.push('-'),
        0xC000 => return Some("NaN".into()),
        0xD000 => return Some("Infinity".into()),
        0xF000 => return Some("-Infinity".into()),
        _ => return None,
    }
    let digits: Vec<u16> = (0..count)
        .map(|place| half(4 + place))
        .collect::<Option<_>>()?;
    let digit = |weight_of: i32| -> u16 {
        usize::try_from(weight - weight_of)
            .ok()
            .and_then(|place| digits.get(place))
            .copied()
            .unwrap_or(0)
    };
    let _ = write!(text, "{}", digit(weight.max(0)));
    for place in (0..weight.max(0)).rev() {
        let _ = write!(text, "{:04}", digit(place));
    }
    if scale > 0 {
        text.push('.');
        let end = text.len() + scale;
        let mut place = -1;
        while text.len() < end {
            let _ = write!(text, "{:04}", digit(place));
            place -= 1;
        }
        text.truncate(end);
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (days, text) in [
            (0, Some("2000-01-01")),
            (-1, Some("1999-12-31")),
            (59, Some("2000-02-29")),
            (60, Some("2000-03-01")),
            (366, Some("2001-01-01")),
            (-730_119, Some("0001-01-01")),
            (-730_120, None),
            (2_921_939, Some("9999-12-31")),
            (2_921_940, None),
        ] {
            assert_eq!(date(days).as_deref(), text, "{days}");
        }
    }

    #[test]
    fn a_type_that_is_not_read_is_named_with_its_column() {
        let error = read("tags", "text[]", Shape::Other, b"x").unwrap_err();
        assert_eq!(
            error.to_string(),
            r#"column "tags" is of type text[], which is not read; cast it to text"#
        );
    }
}
