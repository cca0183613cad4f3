//! The types of each engine that are read, and some that are not.

use duebox_core::Dialect;

/// What a column reads as.
pub(super) enum Reads {
    Integer(i64),
    Truth(bool),
    Real(f64),
    Text(&'static str),
    Bytes(&'static [u8]),
    /// Text of a date or a time without a zone, with a `T` where both are.
    Time(&'static str),
    /// Text of RFC 3339.
    Instant(&'static str),
}

use Reads::{Bytes, Instant, Integer, Real, Text, Time, Truth};

/// A type, a literal of it, and what it reads as.
type Readable = (&'static str, &'static str, Reads);

const POSTGRES: &[Readable] = &[
    ("SMALLINT", "-32768", Integer(-32_768)),
    ("INTEGER", "2147483647", Integer(2_147_483_647)),
    ("BIGINT", "-9223372036854775808", Integer(i64::MIN)),
    ("BOOLEAN", "TRUE", Truth(true)),
    ("REAL", "0.5", Real(0.5)),
    ("DOUBLE PRECISION", "0.1", Real(0.1)),
    ("TEXT", "'é😀'", Text("é😀")),
    ("VARCHAR(9)", "'a '", Text("a ")),
    ("CHAR(3)", "'ab'", Text("ab ")),
    ("NAME", "'a'", Text("a")),
    ("BYTEA", "'\\x00ff41'", Bytes(b"\x00\xffA")),
    (
        "UUID",
        "'6F9619FF-8B86-D011-B42D-00C04FC964FF'",
        Text("6f9619ff-8b86-d011-b42d-00c04fc964ff"),
    ),
    ("JSON", "'{\"a\":1}'", Text("{\"a\":1}")),
    ("JSONB", "'{\"a\":[1,2]}'", Text("{\"a\": [1, 2]}")),
    ("NUMERIC(20, 4)", "-1234567.5", Text("-1234567.5000")),
    ("NUMERIC", "0.00001234", Text("0.00001234")),
    (
        "NUMERIC",
        "123456789012345678901234567890",
        Text("123456789012345678901234567890"),
    ),
    (
        "TIMESTAMPTZ",
        "'2026-03-01 09:30:00.123456+05:30'",
        Instant("2026-03-01T04:00:00.123456Z"),
    ),
    (
        "TIMESTAMPTZ",
        "'1969-12-31 23:59:59.999999+00'",
        Instant("1969-12-31T23:59:59.999999Z"),
    ),
    (
        "TIMESTAMP",
        "'2024-02-29 04:00:00.123456'",
        Time("2024-02-29T04:00:00.123456"),
    ),
    ("DATE", "'1900-03-01'", Time("1900-03-01")),
    ("TIME", "'23:59:59.999999'", Time("23:59:59.999999")),
];

const MYSQL: &[Readable] = &[
    ("TINYINT", "-128", Integer(-128)),
    ("TINYINT UNSIGNED", "255", Integer(255)),
    ("SMALLINT", "-32768", Integer(-32_768)),
    ("SMALLINT UNSIGNED", "65535", Integer(65_535)),
    ("MEDIUMINT", "-8388608", Integer(-8_388_608)),
    ("MEDIUMINT UNSIGNED", "16777215", Integer(16_777_215)),
    ("INT", "-2147483648", Integer(-2_147_483_648)),
    ("INT UNSIGNED", "4294967295", Integer(4_294_967_295)),
    ("BIGINT", "-9223372036854775808", Integer(i64::MIN)),
    ("BIGINT UNSIGNED", "9223372036854775807", Integer(i64::MAX)),
    ("BOOLEAN", "TRUE", Truth(true)),
    ("FLOAT", "0.5", Real(0.5)),
    ("DOUBLE", "0.1", Real(0.1)),
    (
        "VARCHAR(9) CHARACTER SET utf8mb4",
        "_utf8mb4'é😀'",
        Text("é😀"),
    ),
    (
        "VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        "_utf8mb4'é😀'",
        Text("é😀"),
    ),
    (
        "VARCHAR(9) CHARACTER SET latin1",
        "_latin1 x'e9'",
        Text("é"),
    ),
    ("CHAR(9)", "'ab'", Text("ab")),
    ("TEXT", "'a '", Text("a ")),
    ("LONGTEXT", "''", Text("")),
    ("ENUM('calm', 'cross')", "'cross'", Text("cross")),
    ("VARBINARY(9)", "x'00ff41'", Bytes(b"\x00\xffA")),
    ("LONGBLOB", "x'41'", Bytes(b"A")),
    ("JSON", "'{\"a\": [1, 2]}'", Text("{\"a\": [1, 2]}")),
    ("DECIMAL(20, 4)", "-1234567.5", Text("-1234567.5000")),
    (
        "DECIMAL(30, 0)",
        "123456789012345678901234567890",
        Text("123456789012345678901234567890"),
    ),
    (
        "DATETIME(6)",
        "'2024-02-29 04:00:00.123456'",
        Time("2024-02-29T04:00:00.123456"),
    ),
    ("DATE", "'1900-03-01'", Time("1900-03-01")),
    ("TIME(6)", "'23:59:59.999999'", Time("23:59:59.999999")),
];

const SQLITE: &[Readable] = &[
    ("INTEGER", "-9223372036854775808", Integer(i64::MIN)),
    ("BOOLEAN", "TRUE", Truth(true)),
    ("REAL", "0.1", Real(0.1)),
    ("NUMERIC", "0.5", Real(0.5)),
    ("TEXT", "'é😀'", Text("é😀")),
    ("VARCHAR(9)", "'a '", Text("a ")),
    ("TEXT", "''", Text("")),
    ("BLOB", "x'00ff41'", Bytes(b"\x00\xffA")),
    ("BLOB", "x''", Bytes(b"")),
    (
        "DATETIME",
        "'2026-03-01 04:00:00'",
        Time("2026-03-01T04:00:00"),
    ),
];

pub(super) fn readable(dialect: Dialect) -> &'static [Readable] {
    match dialect {
        Dialect::Postgres => POSTGRES,
        Dialect::MySql => MYSQL,
        _ => SQLITE,
    }
}

/// What a type is called, an expression of it, and that expression as text.
type Unreadable = (&'static str, &'static str, &'static str);

pub(super) fn unreadable(dialect: Dialect) -> &'static [Unreadable] {
    match dialect {
        Dialect::Postgres => &[
            (
                "interval",
                "INTERVAL '1 day'",
                "CAST(INTERVAL '1 day' AS TEXT)",
            ),
            ("point", "POINT '(1, 2)'", "CAST(POINT '(1, 2)' AS TEXT)"),
            (
                "int4range",
                "INT4RANGE '[1, 2)'",
                "CAST(INT4RANGE '[1, 2)' AS TEXT)",
            ),
        ],
        Dialect::MySql => &[(
            "geometry",
            "ST_GeomFromText('POINT(1 2)')",
            "ST_AsText(ST_GeomFromText('POINT(1 2)'))",
        )],
        // Each of its five kinds of value is read.
        _ => &[],
    }
}
