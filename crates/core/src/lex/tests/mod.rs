use super::{Class, LexError, lex};
use crate::Dialect;

mod classes;
mod opaque;
mod placeholders;
mod statements;

#[track_caller]
fn is(dialect: Dialect, sql: &str, expected: &str, placeholders: usize) {
    let lexed = lex(dialect, sql).unwrap_or_else(|error| panic!("{dialect}: {sql}: {error}"));
    assert_eq!(lexed.sql, expected, "{dialect}: {sql}");
    assert_eq!(lexed.placeholders, placeholders, "{dialect}: {sql}");
}

/// The text comes back as it is, with so many placeholders.
#[track_caller]
fn same(dialect: Dialect, sql: &str, placeholders: usize) {
    is(dialect, sql, sql, placeholders);
}

#[track_caller]
fn all(sql: &str, placeholders: usize) {
    for dialect in Dialect::ALL {
        same(dialect, sql, placeholders);
    }
}

#[track_caller]
fn fails(dialect: Dialect, sql: &str, expected: LexError) {
    assert_eq!(lex(dialect, sql), Err(expected), "{dialect}: {sql}");
}

#[track_caller]
fn unclosed(dialect: Dialect, sql: &str, what: &'static str) {
    fails(dialect, sql, LexError::Unterminated { what });
}

#[track_caller]
fn class(dialect: Dialect, sql: &str, expected: Class) {
    let lexed = lex(dialect, sql).unwrap_or_else(|error| panic!("{dialect}: {sql}: {error}"));
    assert_eq!(lexed.class, expected, "{dialect}: {sql}");
}
