//! Values in, values out.

use duebox_core::{Columns, DbError, Kind, Row, Value};
use sqlx::mysql::{MySqlArguments, MySqlColumn, MySqlRow, MySqlTypeInfo};
use sqlx::{Arguments, Column, Decode, MySql, Row as _, Type, TypeInfo};

/// The most values that one statement can bind; the protocol counts them in 16 bits.
const MOST_VALUES: usize = 65_535;

/// Encodes values for the binary protocol. A text goes as VARCHAR, which the
/// server converts to whatever the place is.
pub(crate) fn arguments(values: &[Value]) -> Result<MySqlArguments, DbError> {
    if values.len() > MOST_VALUES {
        return Err(DbError::invalid(format!(
            "{} values are more than the {MOST_VALUES} that one statement can bind",
            values.len()
        )));
    }
    let mut arguments = MySqlArguments::default();
    arguments.reserve(values.len(), values.iter().map(encoded_len).sum());
    for value in values {
        match value {
            Value::Null => arguments.add(None::<&str>),
            Value::Bool(truth) => arguments.add(truth),
            Value::Integer(number) => arguments.add(number),
            Value::Real(number) => arguments.add(number),
            Value::Text(text) => arguments.add(text.as_str()),
            Value::Bytes(bytes) => arguments.add(bytes.as_slice()),
            _ => {
                let error = DbError::new(Kind::Unsupported, "MySQL has no such type of value");
                return Err(error.not_applied());
            }
        }
        .map_err(|_| DbError::invalid("a value cannot be encoded"))?;
    }
    Ok(arguments)
}

/// How many bytes a value takes in a packet, at most.
fn encoded_len(value: &Value) -> usize {
    match value {
        Value::Text(text) => text.len() + 9,
        Value::Bytes(bytes) => bytes.len() + 9,
        _ => 8,
    }
}

/// How long the longest packet is that runs this statement, at most: its text
/// is in one, its values, each with two bytes of type, are in another.
pub(crate) fn packet_len(sql: &str, values: &[Value]) -> usize {
    let values: usize = values.iter().map(|value| encoded_len(value) + 3).sum();
    sql.len().max(values) + 32
}

/// How the bytes of one column are read.
#[derive(Clone, Copy)]
enum Shape {
    Signed,
    Unsigned,
    Float,
    Text,
    Bytes,
    Bits,
    Date,
    DateTime,
    Time,
}

impl Shape {
    fn of(ty: &MySqlTypeInfo) -> Option<Self> {
        // By name, a text of a collation by bytes looks binary; the driver's own
        // test for text asks the collation, of which 63 alone means bytes.
        if <str as Type<MySql>>::compatible(ty) {
            return Some(Self::Text);
        }
        // Names a TINYINT(1) without its sign.
        if <i64 as Type<MySql>>::compatible(ty) {
            return Some(Self::Signed);
        }
        Some(match ty.name() {
            "BOOLEAN" | "TINYINT UNSIGNED" | "SMALLINT UNSIGNED" | "MEDIUMINT UNSIGNED"
            | "INT UNSIGNED" | "BIGINT UNSIGNED" | "YEAR" => Self::Unsigned,
            "FLOAT" | "DOUBLE" => Self::Float,
            "DECIMAL" | "JSON" | "NULL" | "SET" | "ENUM" => Self::Text,
            "BINARY" | "VARBINARY" | "TINYBLOB" | "BLOB" | "MEDIUMBLOB" | "LONGBLOB" => Self::Bytes,
            "BIT" => Self::Bits,
            "DATE" => Self::Date,
            "DATETIME" | "TIMESTAMP" => Self::DateTime,
            "TIME" => Self::Time,
            _ => return None,
        })
    }
}

/// The columns of one result: their names and how to read them.
pub(crate) struct Layout {
    columns: Columns,
    shapes: Vec<Shape>,
}

impl Layout {
    /// Refuses, by name, a column of a type that cannot be read.
    pub(crate) fn new(columns: &[MySqlColumn]) -> Result<Self, DbError> {
        let shapes = columns
            .iter()
            .map(|column| {
                Shape::of(column.type_info()).ok_or_else(|| {
                    let (name, ty) = (column.name(), column.type_info().name());
                    DbError::new(
                        Kind::Unsupported,
                        format!(
                            "column {name:?} is of type {ty}, which is not read; cast it to text"
                        ),
                    )
                })
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            columns: Columns::new(columns.iter().map(Column::name)),
            shapes,
        })
    }

    /// A row of the binary protocol.
    pub(crate) fn read(&self, row: &MySqlRow) -> Result<Row, DbError> {
        let mut values = Vec::with_capacity(self.shapes.len());
        for (index, shape) in self.shapes.iter().enumerate() {
            let name = || row.columns().get(index).map_or("", Column::name);
            let unreadable = || {
                let message = format!("column {:?} holds what cannot be read as its type", name());
                DbError::new(Kind::Corrupt, message)
            };
            let raw = row.try_get_raw(index).map_err(|_| unreadable())?;
            // Only for NULL there are no bytes. (The driver's `is_null` also says
            // so of a zero date.)
            let value = match <&[u8] as Decode<MySql>>::decode(raw) {
                Err(_) => Value::Null,
                Ok(bytes) => match shape.read(bytes).ok_or_else(unreadable)? {
                    Read::Value(value) => value,
                    Read::TooLarge => {
                        let message = format!(
                            "column {:?} holds an unsigned number over {}; cast it to text",
                            name(),
                            i64::MAX
                        );
                        return Err(DbError::new(Kind::Unsupported, message));
                    }
                },
            };
            values.push(value);
        }
        Ok(Row::new(self.columns.clone(), values))
    }
}

enum Read {
    Value(Value),
    TooLarge,
}

impl Shape {
    /// Reads what the binary protocol sends; the length tells the width.
    fn read(self, bytes: &[u8]) -> Option<Read> {
        let value = match self {
            Self::Signed => Value::Integer(match *bytes {
                [a] => i64::from(a.cast_signed()),
                [a, b] => i16::from_le_bytes([a, b]).into(),
                _ => match <[u8; 4]>::try_from(bytes) {
                    Ok(four) => i32::from_le_bytes(four).into(),
                    Err(_) => i64::from_le_bytes(bytes.try_into().ok()?),
                },
            }),
            Self::Unsigned => return unsigned(bytes.iter().rev()),
            Self::Bits => return unsigned(bytes.iter()),
            Self::Float => Value::Real(match <[u8; 4]>::try_from(bytes) {
                Ok(four) => f32::from_le_bytes(four).into(),
                Err(_) => f64::from_le_bytes(bytes.try_into().ok()?),
            }),
            Self::Text => Value::Text(str::from_utf8(bytes).ok()?.to_owned()),
            Self::Bytes => Value::Bytes(bytes.to_vec()),
            Self::Date => Value::Text(date(bytes.get(1..)?)?),
            Self::DateTime => Value::Text(date_time(bytes.get(1..)?)?),
            Self::Time => Value::Text(time(bytes.get(1..)?)?),
        };
        Some(Read::Value(value))
    }
}

fn unsigned<'a>(highest_first: impl Iterator<Item = &'a u8>) -> Option<Read> {
    let mut number: u64 = 0;
    for byte in highest_first {
        number = number.checked_mul(256)? + u64::from(*byte);
    }
    Some(i64::try_from(number).map_or(Read::TooLarge, |number| Read::Value(Value::Integer(number))))
}

/// Years, months and days; none of them for the date of zeros.
fn date(bytes: &[u8]) -> Option<String> {
    Some(match *bytes {
        [] => "0000-00-00".to_owned(),
        [low, high, month, day, ..] => {
            let year = u16::from_le_bytes([low, high]);
            format!("{year:04}-{month:02}-{day:02}")
        }
        _ => return None,
    })
}

fn date_time(bytes: &[u8]) -> Option<String> {
    let date = date(bytes)?;
    Some(match *bytes.get(4..).unwrap_or_default() {
        [] => format!("{date} 00:00:00"),
        [hour, minute, second, ref micros @ ..] => {
            format!(
                "{date} {hour:02}:{minute:02}:{second:02}{}",
                fraction(micros)?
            )
        }
        _ => return None,
    })
}

/// Up to 838 hours, before or behind midnight.
fn time(bytes: &[u8]) -> Option<String> {
    Some(match *bytes {
        [] => "00:00:00".to_owned(),
        [
            negative,
            d0,
            d1,
            d2,
            d3,
            hour,
            minute,
            second,
            ref micros @ ..,
        ] => {
            let sign = if negative == 0 { "" } else { "-" };
            let hours = u64::from(u32::from_le_bytes([d0, d1, d2, d3])) * 24 + u64::from(hour);
            format!(
                "{sign}{hours:02}:{minute:02}:{second:02}{}",
                fraction(micros)?
            )
        }
        _ => return None,
    })
}

fn fraction(bytes: &[u8]) -> Option<String> {
    if bytes.is_empty() {
        return Some(String::new());
    }
    let micros = u32::from_le_bytes(bytes.try_into().ok()?);
    Some(format!(".{micros:06}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_times_read_as_the_server_writes_them() {
        assert_eq!(date(&[]).as_deref(), Some("0000-00-00"));
        assert_eq!(date(&[0xEA, 0x07, 3, 1]).as_deref(), Some("2026-03-01"));
        assert_eq!(
            date_time(&[0xEA, 0x07, 3, 1]).as_deref(),
            Some("2026-03-01 00:00:00")
        );
        assert_eq!(
            date_time(&[0xEA, 0x07, 3, 1, 9, 5, 7, 1, 0, 0, 0]).as_deref(),
            Some("2026-03-01 09:05:07.000001")
        );
        assert_eq!(
            time(&[1, 34, 0, 0, 0, 22, 59, 59]).as_deref(),
            Some("-838:59:59")
        );
        assert_eq!(date(&[1]), None);
    }
}
