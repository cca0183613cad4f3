//! Values in: a [`Value`] as the place that it is bound to wants it, in the
//! server's binary form where that is cheap and certain, otherwise as text that
//! the server parses.

use bytes::BufMut;
use duebox_core::{DbError, Value};

use crate::types::{Item, Shape};

/// In which of the server's two formats [`write`] writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Binary,
    Text,
}

/// The format of a value for a place of this shape.
pub(crate) fn format(value: &Value, shape: Shape) -> Format {
    let binary = matches!(
        (value, shape),
        (Value::Null, _)
            | (Value::Bool(_), Shape::Bool)
            | (
                Value::Bool(_) | Value::Integer(_),
                Shape::Int2 | Shape::Int4 | Shape::Int8
            )
            | (Value::Real(_), Shape::Float8)
            | (Value::Text(_), Shape::Text | Shape::Jsonb)
            | (Value::Bytes(_), Shape::Bytes)
            | (Value::TextArray(_), Shape::Array(Item::Text))
            | (
                Value::IntegerArray(_),
                Shape::Array(Item::Int2 | Item::Int4 | Item::Int8)
            )
    );
    if binary { Format::Binary } else { Format::Text }
}

/// Says whether a value can be bound to a place, before anything is sent; `nth`
/// counts from 1.
pub(crate) fn check(
    value: &Value,
    shape: Shape,
    type_name: &str,
    nth: usize,
) -> Result<(), DbError> {
    let what = match (value, shape) {
        (Value::Integer(number), Shape::Int2) if i16::try_from(*number).is_err() => None,
        (Value::Integer(number), Shape::Int4) if i32::try_from(*number).is_err() => None,
        (Value::IntegerArray(all), Shape::Array(Item::Int2))
            if all.iter().any(|number| i16::try_from(*number).is_err()) =>
        {
            None
        }
        (Value::IntegerArray(all), Shape::Array(Item::Int4))
            if all.iter().any(|number| i32::try_from(*number).is_err()) =>
        {
            None
        }
        (Value::Bytes(_), Shape::Bytes) => return Ok(()),
        (Value::Bytes(_), _) => Some("bytes"),
        (Value::TextArray(_) | Value::IntegerArray(_), Shape::Array(_) | Shape::Other) => {
            return Ok(());
        }
        (Value::TextArray(_) | Value::IntegerArray(_), _) => Some("an array"),
        _ => return Ok(()),
    };
    Err(DbError::invalid(match what {
        None => format!("value {nth} is out of range for its place, which is {type_name}"),
        Some(what) => format!("value {nth} is {what} and its place is {type_name}"),
    }))
}

/// Writes a value that [`check`] passed, in the format that [`format`] tells.
/// A `NULL` writes nothing.
pub(crate) fn write(value: &Value, shape: Shape, out: &mut impl BufMut) {
    match (value, format(value, shape)) {
        (Value::Null, _) => {}
        (Value::Bool(truth), Format::Binary) => match shape {
            Shape::Bool => out.put_u8((*truth).into()),
            _ => integer((*truth).into(), shape, out),
        },
        (Value::Integer(number), Format::Binary) => integer(*number, shape, out),
        (Value::Real(number), Format::Binary) => out.put_f64(*number),
        (Value::Text(text), Format::Binary) => {
            if shape == Shape::Jsonb {
                out.put_u8(1);
            }
            out.put_slice(text.as_bytes());
        }
        (Value::Bytes(bytes), Format::Binary) => out.put_slice(bytes),
        (Value::TextArray(texts), Format::Binary) => {
            let has_null = texts.iter().any(Option::is_none);
            header(texts.len(), has_null, Item::Text, out);
            for text in texts {
                match text {
                    None => out.put_i32(-1),
                    Some(text) => {
                        out.put_u32(length(text.len()));
                        out.put_slice(text.as_bytes());
                    }
                }
            }
        }
        (Value::IntegerArray(numbers), Format::Binary) => {
            let Shape::Array(item) = shape else { return };
            header(numbers.len(), false, item, out);
            let (bytes, shape) = match item {
                Item::Int2 => (2, Shape::Int2),
                Item::Int4 => (4, Shape::Int4),
                _ => (8, Shape::Int8),
            };
            for number in numbers {
                out.put_u32(bytes);
                integer(*number, shape, out);
            }
        }
        (value, _) => text(value, out),
    }
}

/// Writes a value as text for the server to parse.
pub(crate) fn text(value: &Value, out: &mut impl BufMut) {
    match value {
        // As a boolean and as any number, whichever the place is.
        Value::Bool(truth) => out.put_u8(if *truth { b'1' } else { b'0' }),
        Value::Integer(number) => display(number, out),
        Value::Real(number) => display(number, out),
        Value::Text(text) => out.put_slice(text.as_bytes()),
        Value::Bytes(bytes) => {
            out.put_slice(b"\\x");
            for byte in bytes {
                let digit = |half: u8| b"0123456789abcdef"[usize::from(half)];
                out.put_slice(&[digit(byte >> 4), digit(byte & 15)]);
            }
        }
        Value::TextArray(texts) => {
            list(texts, out, |text, out| match text {
                None => out.put_slice(b"NULL"),
                Some(text) => quoted(text, out),
            });
        }
        Value::IntegerArray(numbers) => list(numbers, out, display),
        // Null is sent as no text at all; whoever adds a kind of value adds it here.
        _ => {}
    }
}

fn display(number: &impl std::fmt::Display, out: &mut impl BufMut) {
    out.put_slice(number.to_string().as_bytes());
}

/// `{…,…}`: <https://www.postgresql.org/docs/current/arrays.html#ARRAYS-IO>
fn list<T, B: BufMut>(items: &[T], out: &mut B, write: impl Fn(&T, &mut B)) {
    out.put_u8(b'{');
    for (place, item) in items.iter().enumerate() {
        if place > 0 {
            out.put_u8(b',');
        }
        write(item, out);
    }
    out.put_u8(b'}');
}

fn quoted(text: &str, out: &mut impl BufMut) {
    out.put_u8(b'"');
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|byte| matches!(byte, b'"' | b'\\')) {
        out.put_slice(&rest[..at]);
        out.put_slice(&[b'\\', rest[at]]);
        rest = &rest[at + 1..];
    }
    out.put_slice(rest);
    out.put_u8(b'"');
}

fn integer(number: i64, shape: Shape, out: &mut impl BufMut) {
    // `check` has seen that the number fits.
    #[allow(clippy::cast_possible_truncation)]
    match shape {
        Shape::Int2 => out.put_i16(number as i16),
        Shape::Int4 => out.put_i32(number as i32),
        _ => out.put_i64(number),
    }
}

/// The head of an array of one dimension, or of none if it is empty.
fn header(len: usize, has_null: bool, item: Item, out: &mut impl BufMut) {
    out.put_u32((len > 0).into());
    out.put_u32(has_null.into());
    out.put_u32(item.oid());
    if len > 0 {
        out.put_u32(length(len));
        out.put_u32(1);
    }
}

/// A length in a message. A message that holds it is at most 1 GiB long, so one
/// that does not fit is refused before it is sent.
fn length(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::*;

    fn as_text(value: &Value) -> String {
        let mut out = BytesMut::new();
        text(value, &mut out);
        String::from_utf8(out.to_vec()).unwrap()
    }

    #[test]
    fn an_array_as_text_quotes_what_could_be_read_as_something_else() {
        let texts = ["a", "", "NULL", "a,b", "{}", "\"", "\\", " x ", "é"];
        let mut all: Vec<Option<String>> =
            texts.iter().map(|text| Some((*text).to_owned())).collect();
        all.push(None);
        assert_eq!(
            as_text(&Value::TextArray(all)),
            r#"{"a","","NULL","a,b","{}","\"","\\"," x ","é",NULL}"#
        );
        assert_eq!(as_text(&Value::IntegerArray(vec![1, -2])), "{1,-2}");
        assert_eq!(as_text(&Value::IntegerArray(vec![])), "{}");
    }

    #[test]
    fn bytes_as_text_are_hexadecimal() {
        assert_eq!(as_text(&Value::Bytes(vec![0, 0x7f, 0xff])), "\\x007fff");
    }

    #[test]
    fn a_number_that_does_not_fit_is_refused_before_it_is_sent() {
        for (number, shape, fits) in [
            (i64::from(i16::MAX), Shape::Int2, true),
            (i64::from(i16::MAX) + 1, Shape::Int2, false),
            (i64::from(i32::MIN), Shape::Int4, true),
            (i64::from(i32::MIN) - 1, Shape::Int4, false),
            (i64::MIN, Shape::Int8, true),
        ] {
            assert_eq!(
                check(&Value::Integer(number), shape, "it", 1).is_ok(),
                fits,
                "{number}"
            );
        }
    }

    #[test]
    fn an_error_names_the_place_and_never_the_value() {
        let error = check(&Value::Bytes(b"secret".to_vec()), Shape::Uuid, "uuid", 2).unwrap_err();
        assert_eq!(error.to_string(), "value 2 is bytes and its place is uuid");
        let error = check(&Value::Integer(40_000), Shape::Int2, "int2", 1).unwrap_err();
        assert!(!error.to_string().contains("40000"));
    }
}
