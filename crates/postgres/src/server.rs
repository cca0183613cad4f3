//! What both handles ask of a server.

use duebox_core::chrono::{DateTime, Utc};
use duebox_core::{DbError, Kind, Row, parse_time};

/// The server's clock. It goes on within a transaction.
pub(crate) const NOW: &str = "SELECT clock_timestamp() AS now";

/// What a server is asked when the first connection to it is used.
pub(crate) const QUESTION: &str = "\
SELECT
    current_setting('server_version_num')::int AS version,
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

/// Whether a statement is one of those that cannot commit in their middle, as a
/// procedure and a `DO` block can outside a transaction. Not all of them are
/// recognised.
pub(crate) fn is_plain(sql: &str) -> bool {
    let first = sql.trim_start();
    ["INSERT", "UPDATE", "DELETE", "SELECT", "WITH"]
        .iter()
        .any(|word| {
            first
                .get(..word.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(word))
                && !first[word.len()..]
                    .starts_with(|next: char| next.is_alphanumeric() || next == '_')
        })
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
        ] {
            assert!(is_plain(sql), "{sql}");
        }
        for sql in [
            "CALL p()",
            "DO $$ BEGIN COMMIT; END $$",
            "-- SELECT\nCALL p()",
            "VACUUM",
            "selector",
            "",
        ] {
            assert!(!is_plain(sql), "{sql}");
        }
    }
}
