use std::fmt;
use std::sync::Arc;

use crate::{DbError, Kind, Value};

/// One row that a query returned, read by column name.
///
/// Reading tells apart a column that is not there, one that is `NULL` and one
/// that holds another type: each is an error of [`Kind::Schema`] or
/// [`Kind::Corrupt`] that names the column, never its value. `Debug` shows the
/// columns and the types.
///
/// ```
/// use duebox_core::{Columns, Row, Value};
///
/// let columns = Columns::new(["id", "subject"]);
/// let row = Row::new(columns, vec![Value::from(7_i64), Value::Null]);
/// assert_eq!(row.get::<i64>("id")?, 7);
/// assert_eq!(row.get::<Option<String>>("subject")?, None);
/// assert!(row.get::<String>("subject").unwrap_err().to_string().contains("NULL"));
/// assert!(row.get::<i64>("topic").unwrap_err().to_string().contains("no column"));
/// # Ok::<(), duebox_core::DbError>(())
/// ```
#[derive(Clone, PartialEq)]
pub struct Row {
    columns: Columns,
    values: Vec<Value>,
}

/// The names of a query's columns, shared by all of its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns(Arc<[Box<str>]>);

impl Columns {
    /// The names, in the order of the values.
    pub fn new<S: Into<Box<str>>>(names: impl IntoIterator<Item = S>) -> Self {
        Self(names.into_iter().map(Into::into).collect())
    }
}

impl Row {
    /// A row of these columns. For the author of an adapter.
    ///
    /// # Panics
    ///
    /// If there are not as many values as columns.
    #[must_use]
    pub fn new(columns: Columns, values: Vec<Value>) -> Self {
        assert_eq!(columns.0.len(), values.len(), "one value a column");
        Self { columns, values }
    }

    /// Reads the column `name`; the first of them if several share the name.
    ///
    /// # Errors
    ///
    /// [`Kind::Schema`] if there is no such column; [`Kind::Corrupt`] if it is
    /// `NULL` and `T` is no [`Option`], or if its type or range is not `T`'s.
    pub fn get<T: FromValue>(&self, name: &str) -> Result<T, DbError> {
        let value = self.value(name)?;
        T::from_value(value).ok_or_else(|| mismatch(name, value, T::EXPECTED))
    }

    /// Takes a text out of the row without copying it, and leaves `NULL`.
    pub(crate) fn take_text(&mut self, name: &str) -> Result<String, DbError> {
        let index = self.index(name)?;
        match std::mem::replace(&mut self.values[index], Value::Null) {
            Value::Text(text) => Ok(text),
            other => Err(mismatch(name, &other, String::EXPECTED)),
        }
    }

    /// Like [`take_text`](Self::take_text) where `NULL` is allowed.
    pub(crate) fn take_optional(&mut self, name: &str) -> Result<Option<String>, DbError> {
        let index = self.index(name)?;
        match std::mem::replace(&mut self.values[index], Value::Null) {
            Value::Text(text) => Ok(Some(text)),
            Value::Null => Ok(None),
            other => Err(mismatch(name, &other, String::EXPECTED)),
        }
    }

    /// The value of the column `name` as it came.
    ///
    /// # Errors
    ///
    /// [`Kind::Schema`] if there is no such column.
    pub fn value(&self, name: &str) -> Result<&Value, DbError> {
        Ok(&self.values[self.index(name)?])
    }

    /// The names of the columns, in order.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        self.columns.0.iter().map(AsRef::as_ref)
    }

    fn index(&self, name: &str) -> Result<usize, DbError> {
        self.columns()
            .position(|column| column == name)
            .ok_or_else(|| DbError::new(Kind::Schema, format!("the row has no column {name:?}")))
    }
}

fn mismatch(name: &str, value: &Value, expected: &str) -> DbError {
    let message = match value {
        Value::Null => format!("column {name:?} is NULL, not {expected}"),
        // The type is the same, so what does not fit is the value.
        _ if value.type_name() == expected => format!("column {name:?} is out of range"),
        _ => format!(
            "column {name:?} holds {}, not {expected}",
            value.type_name()
        ),
    };
    DbError::new(Kind::Corrupt, message)
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.columns().zip(&self.values))
            .finish()
    }
}

/// A type that can be read from a column.
///
/// Implemented for `bool`, `i32`, `i64`, `u32`, `u64`, `f64`, `String`,
/// `Vec<u8>` and an [`Option`] of each. A `bool` is also read from the whole
/// numbers 0 and 1, as SQLite and MySQL keep it; bytes are also read from text.
pub trait FromValue: Sized {
    /// What to call this type in an error.
    const EXPECTED: &'static str;

    /// The value as this type, or `None` if it is another.
    fn from_value(value: &Value) -> Option<Self>;
}

macro_rules! integer_from_value {
    ($($ty:ty),+) => {$(
        impl FromValue for $ty {
            const EXPECTED: &'static str = "integer";

            fn from_value(value: &Value) -> Option<Self> {
                match value {
                    Value::Integer(number) => (*number).try_into().ok(),
                    _ => None,
                }
            }
        }
    )+};
}

integer_from_value!(i32, i64, u32, u64);

impl FromValue for bool {
    const EXPECTED: &'static str = "bool";

    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Bool(truth) => Some(*truth),
            Value::Integer(0) => Some(false),
            Value::Integer(1) => Some(true),
            _ => None,
        }
    }
}

impl FromValue for f64 {
    const EXPECTED: &'static str = "real";

    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Real(number) => Some(*number),
            _ => None,
        }
    }
}

impl FromValue for String {
    const EXPECTED: &'static str = "text";

    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        }
    }
}

impl FromValue for Vec<u8> {
    const EXPECTED: &'static str = "bytes";

    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Bytes(bytes) => Some(bytes.clone()),
            Value::Text(text) => Some(text.clone().into_bytes()),
            _ => None,
        }
    }
}

impl<T: FromValue> FromValue for Option<T> {
    const EXPECTED: &'static str = T::EXPECTED;

    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Null => Some(None),
            _ => T::from_value(value).map(Some),
        }
    }
}
