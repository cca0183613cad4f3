use std::fmt;

/// One value bound to a [`Statement`](crate::Statement), or read from a
/// [`Row`](crate::Row).
///
/// A [`Value::Text`] binds to any column that the database can parse from
/// text: `uuid`, `timestamptz`, `jsonb`, `numeric`, `datetime` and so on.
/// An [`Value::Integer`] binds to any column of whole numbers that can hold
/// it. `Debug` shows the variant and never what is in it.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// SQL `NULL`, of whatever type the place asks for.
    Null,
    /// A truth value; SQLite and MySQL keep it as 0 or 1.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// A floating-point number.
    Real(f64),
    /// Text, without NUL characters where the database refuses them.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// Many texts as one array. Only PostgreSQL has arrays; elsewhere a
    /// statement that binds one is refused.
    TextArray(Vec<Option<String>>),
    /// Many whole numbers as one array. Only PostgreSQL has arrays; elsewhere
    /// a statement that binds one is refused.
    IntegerArray(Vec<i64>),
}

impl Value {
    pub(crate) const fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "bool",
            Self::Integer(_) => "integer",
            Self::Real(_) => "real",
            Self::Text(_) => "text",
            Self::Bytes(_) => "bytes",
            Self::TextArray(_) => "text array",
            Self::IntegerArray(_) => "integer array",
        }
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{}>", self.type_name())
    }
}

macro_rules! value_from {
    ($($from:ty => $variant:ident),+ $(,)?) => {$(
        impl From<$from> for Value {
            fn from(value: $from) -> Self {
                Self::$variant(value.into())
            }
        }
    )+};
}

value_from! {
    bool => Bool,
    i16 => Integer,
    i32 => Integer,
    i64 => Integer,
    u16 => Integer,
    u32 => Integer,
    f64 => Real,
    &str => Text,
    &String => Text,
    String => Text,
    &[u8] => Bytes,
    Vec<u8> => Bytes,
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}
