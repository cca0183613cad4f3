//! What is asked of a server once: its version, and what its sessions must be like.

use duebox_core::{DbError, Kind};
use sqlx::Row;
use sqlx::mysql::MySqlConnection;

use crate::error::{Failure, sort};

/// What a handle remembers of its server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Server {
    pub(crate) max_allowed_packet: u64,
}

const ASK: &str = "\
SELECT
    CONVERT(@@version USING utf8mb4) AS version,
    CAST(@@max_allowed_packet AS UNSIGNED) AS max_allowed_packet,
    CAST(@@autocommit AS UNSIGNED) AS autocommit,
    CAST(@@sql_select_limit AS UNSIGNED) AS select_limit,
    CAST(@@sql_safe_updates AS UNSIGNED) AS safe_updates,
    CONVERT(@@sql_mode USING utf8mb4) AS sql_mode,
    CONVERT(CONCAT_WS(' ', @@character_set_client, @@character_set_connection, @@character_set_results) USING utf8mb4) AS charsets";

impl Server {
    pub(crate) async fn ask(connection: &mut MySqlConnection) -> Result<Self, Failure> {
        let row = sqlx::query(ASK)
            .fetch_one(connection)
            .await
            .map_err(|error| sort(&error).before_the_work())?;
        let text = |name: &str| row.try_get::<String, _>(name).unwrap_or_default();
        let unsupported =
            |message: String| Failure::ours(DbError::new(Kind::Unsupported, message).not_applied());
        is_supported(&text("version")).map_err(unsupported)?;
        if row.try_get::<u64, _>("autocommit").ok() != Some(1) {
            return Err(unsupported(
                "the pool's sessions have autocommit off; turn it on".into(),
            ));
        }
        // It would cut what is read back after a write, unseen. So many rows are
        // never read.
        let limit: Option<u64> = row.try_get("select_limit").ok();
        if limit.is_none_or(|limit| limit < u64::from(u32::MAX)) {
            return Err(unsupported(
                "the pool's sessions have a sql_select_limit; set it to its default".into(),
            ));
        }
        // There MariaDB takes a join from a list of ids for one of a whole table.
        if text("version").contains("MariaDB")
            && row.try_get::<u64, _>("safe_updates").ok() != Some(0)
        {
            return Err(unsupported(
                "the pool's sessions have sql_safe_updates on; turn it off".into(),
            ));
        }
        // Statements are read with the rules of the absence of the first two; the
        // third makes NULL of an empty text, to which nothing compares.
        let modes = text("sql_mode");
        for mode in [
            "NO_BACKSLASH_ESCAPES",
            "ANSI_QUOTES",
            "EMPTY_STRING_IS_NULL",
        ] {
            if modes.split(',').any(|set| set == mode) {
                return Err(unsupported(format!(
                    "the pool's sessions have {mode} in sql_mode; take it out"
                )));
            }
        }
        if text("charsets") != "utf8mb4 utf8mb4 utf8mb4" {
            return Err(unsupported(
                "the pool's sessions do not use the character set utf8mb4; set it in their options"
                    .into(),
            ));
        }
        Ok(Self {
            max_allowed_packet: row.try_get("max_allowed_packet").unwrap_or(0),
        })
    }
}

/// MySQL 8.0.17 and newer, MariaDB 10.6 and newer.
fn is_supported(version: &str) -> Result<(), String> {
    let mut numbers = version
        .split(|c: char| !c.is_ascii_digit())
        .map(|part| part.parse::<u32>().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    let found = [next(), next(), next()];
    let (name, least) = if version.contains("MariaDB") {
        ("MariaDB", [10, 6, 0])
    } else {
        ("MySQL", [8, 0, 17])
    };
    if found >= least {
        return Ok(());
    }
    let [major, minor, patch] = found;
    let [least_major, least_minor, least_patch] = least;
    Err(format!(
        "unsupported server: {name} {major}.{minor}.{patch} is older than \
         {least_major}.{least_minor}.{least_patch}"
    ))
}

#[cfg(test)]
mod tests {
    use super::is_supported;

    #[test]
    fn older_servers_are_refused() {
        let supported = [
            "8.0.17",
            "8.0.36-28",
            "8.4.0",
            "9.7.4-2",
            "10.6.0-MariaDB",
            "10.11.14-MariaDB-0+deb12u2",
            "11.8.9-MariaDB-0+deb13u1",
        ];
        for version in supported {
            assert_eq!(is_supported(version), Ok(()), "{version}");
        }
        for version in [
            "5.7.44-log",
            "8.0.16",
            "10.5.27-MariaDB-log",
            "5.5.68-MariaDB",
            "",
        ] {
            assert!(is_supported(version).is_err(), "{version}");
        }
        assert_eq!(
            is_supported("8.0.16-log").unwrap_err(),
            "unsupported server: MySQL 8.0.16 is older than 8.0.17"
        );
    }
}
