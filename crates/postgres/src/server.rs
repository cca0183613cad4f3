//! What both handles ask of a server.

use duebox_core::chrono::{DateTime, Utc};
use duebox_core::{DbError, Kind, Row, parse_time};

/// The server's clock. It goes on within a transaction.
pub(crate) const NOW: &str = "SELECT clock_timestamp() AS now";

/// What a server is asked when the first connection to it is used.
pub(crate) const QUESTION: &str = "\
SELECT
    current_setting('server_version_num')::int AS version,
    current_setting('server_encoding') AS encoding,
    current_setting('standard_conforming_strings') AS backslashes";

/// The oldest server that is supported, as `server_version_num` has it.
const OLDEST: i64 = 130_000;

/// Says whether a server that answered [`QUESTION`] so can be worked with.
pub(crate) fn examine(rows: &[Row]) -> Result<(), DbError> {
    let unsupported = |message| DbError::new(Kind::Unsupported, message).not_applied();
    let row = rows
        .first()
        .ok_or_else(|| unsupported("unsupported server: it does not tell its version".into()))?;
    let version: i64 = row.get("version")?;
    if version < OLDEST {
        let major = version / 10_000;
        return Err(unsupported(format!(
            "unsupported server: PostgreSQL {major} is older than 13"
        )));
    }
    // Of SQL_ASCII the server keeps whatever bytes it is given.
    let encoding: String = row.get("encoding")?;
    if encoding != "UTF8" && encoding != "SQL_ASCII" {
        return Err(unsupported(format!(
            "unsupported server: the database is encoded in {encoding} and cannot keep every \
             text; make one in UTF8"
        )));
    }
    // Placeholders are looked for outside literals, which would end elsewhere.
    if row.get::<String>("backslashes")? != "on" {
        return Err(unsupported(
            "unsupported server: standard_conforming_strings is off; set it to on".into(),
        ));
    }
    Ok(())
}

/// The time that [`NOW`] returned.
pub(crate) fn read_now(rows: &[Row]) -> Result<DateTime<Utc>, DbError> {
    let row = rows
        .first()
        .ok_or_else(|| DbError::new(Kind::Corrupt, "the server told no time"))?;
    let now = parse_time(&row.get::<String>("now")?)?;
    Ok(now)
}

/// What queries and changes begin with.
const QUERIES: [&str; 8] = [
    "INSERT", "UPDATE", "DELETE", "SELECT", "WITH", "MERGE", "VALUES", "TABLE",
];

/// What changes of a schema begin with.
const DEFINITIONS: [&str; 7] = [
    "CREATE", "ALTER", "DROP", "TRUNCATE", "GRANT", "REVOKE", "COMMENT",
];

/// In the text of those that cannot be undone, or take many transactions.
const NOT_ATOMIC: [&str; 5] = [
    "CONCURRENTLY",
    "DATABASE",
    "SUBSCRIPTION",
    "SYSTEM",
    "TABLESPACE",
];

/// Whether a statement is one of those that cannot commit in their middle, as a
/// procedure and a `DO` block can outside a transaction. Not all of them are
/// recognised.
pub(crate) fn is_plain(sql: &str) -> bool {
    let first = first_word(sql);
    let is = |word: &&str| first.eq_ignore_ascii_case(word);
    if DEFINITIONS.iter().any(is) {
        let text = sql.to_ascii_uppercase();
        return !NOT_ATOMIC.iter().any(|word| text.contains(word));
    }
    QUERIES.iter().any(is)
}

/// The first word of a statement, behind comments and the parentheses of a query.
fn first_word(mut sql: &str) -> &str {
    loop {
        sql = sql.trim_start_matches(|next: char| next.is_whitespace() || next == '(');
        sql = if let Some(comment) = sql.strip_prefix("--") {
            comment
                .split_once(['\n', '\r'])
                .map_or("", |(_, rest)| rest)
        } else if let Some(comment) = sql.strip_prefix("/*") {
            behind_comment(comment)
        } else {
            let end = sql.find(|next: char| !next.is_alphanumeric() && !matches!(next, '_' | '$'));
            return &sql[..end.unwrap_or(sql.len())];
        };
    }
}

/// What follows a comment of which the opening was read; comments nest.
fn behind_comment(mut sql: &str) -> &str {
    let mut depth = 1;
    while depth > 0 {
        let Some(at) = sql.find(['/', '*']) else {
            return "";
        };
        let mark = &sql[at..];
        let (step, length) = match mark.get(..2) {
            Some("/*") => (1, 2),
            Some("*/") => (-1, 2),
            _ => (0, 1),
        };
        depth += step;
        sql = &mark[length..];
    }
    sql
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_cannot_commit_in_its_middle_is_plain() {
        for sql in [
            "INSERT INTO t VALUES ($1)",
            "  update t SET a = 1",
            "with x as (select 1) select * from x",
            "SELECT\n1",
            "-- of a page\r\n/* CALL /* p */ () **/ /*/ CALL */ ((SELECT 1) UNION SELECT 2)",
            "--\n--\nmerge into t",
            "create table t (id text)",
            "VALUES (1)",
        ] {
            assert!(is_plain(sql), "{sql}");
        }
        for sql in [
            "CALL p()",
            "DO $$ BEGIN COMMIT; END $$",
            "-- SELECT\nCALL p()",
            "/* SELECT /* */ SELECT */ CALL p()",
            "/**/CALL p()",
            "--",
            "/* SELECT",
            "create index concurrently on t (id)",
            "DROP DATABASE d",
            "select$1",
            "VACUUM",
            "selector",
            "",
        ] {
            assert!(!is_plain(sql), "{sql}");
        }
    }
}
