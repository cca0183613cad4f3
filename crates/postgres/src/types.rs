//! What PostgreSQL's types are to this crate, by their OIDs, for both drivers.

/// How the values of a type are written and read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Bool,
    Int2,
    Int4,
    Int8,
    Oid,
    Float4,
    Float8,
    /// Text, and whatever else is the same bytes in text and in binary.
    Text,
    Bytes,
    Uuid,
    Jsonb,
    Timestamp,
    TimestampTz,
    Date,
    Time,
    Numeric,
    Array(Item),
    /// Written as text, for the server to parse; not read.
    Other,
}

/// What an array is of, as far as it is written without the server parsing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    Int2,
    Int4,
    Int8,
    Text,
    Other,
}

impl Item {
    /// The OID of the element's type, for the binary form of an array.
    pub(crate) const fn oid(self) -> u32 {
        match self {
            Self::Int2 => 21,
            Self::Int4 => 23,
            Self::Int8 => 20,
            Self::Text | Self::Other => 25,
        }
    }
}

/// The shape of a type that is built in; `None` for any other.
///
/// <https://github.com/postgres/postgres/blob/master/src/include/catalog/pg_type.dat>
pub(crate) const fn built_in(oid: u32) -> Option<Shape> {
    Some(match oid {
        16 => Shape::Bool,
        17 => Shape::Bytes,
        20 => Shape::Int8,
        21 => Shape::Int2,
        23 => Shape::Int4,
        26 => Shape::Oid,
        // "char", name, text, json, unknown, bpchar, varchar
        18 | 19 | 25 | 114 | 705 | 1042 | 1043 => Shape::Text,
        700 => Shape::Float4,
        701 => Shape::Float8,
        1082 => Shape::Date,
        1083 => Shape::Time,
        1114 => Shape::Timestamp,
        1184 => Shape::TimestampTz,
        1700 => Shape::Numeric,
        2950 => Shape::Uuid,
        3802 => Shape::Jsonb,
        1005 => Shape::Array(Item::Int2),
        1007 => Shape::Array(Item::Int4),
        1016 => Shape::Array(Item::Int8),
        1009 => Shape::Array(Item::Text),
        // bool, bytea, "char", name, bpchar, varchar, oid, float4, float8, date,
        // time, timestamp, timestamptz, numeric, uuid, json, jsonb
        1000 | 1001 | 1002 | 1003 | 1014 | 1015 | 1028 | 1021 | 1022 | 1182 | 1183 | 1115
        | 1185 | 1231 | 2951 | 199 | 3807 => Shape::Array(Item::Other),
        _ => return None,
    })
}

impl Shape {
    /// Whether a column of this type can be read.
    pub(crate) const fn is_read(self) -> bool {
        !matches!(self, Self::Array(_) | Self::Other)
    }
}
