//! What the server is, how it is set, and what its other sessions keep.

mod mysql;
mod postgres;
mod sqlite;

use duebox_core::{Dialect, Row, Statement};

use super::Checking;
use crate::engine::Engine;
use crate::error::CliError;

/// How the server calls its version.
pub(super) async fn version(engine: &Engine) -> Result<String, CliError> {
    let db = engine.db();
    let sql = match db.dialect() {
        Dialect::Sqlite => "SELECT 'SQLite ' || sqlite_version() AS version",
        Dialect::Postgres => "SELECT version() AS version",
        // MySQL says nothing but the number; MariaDB says who it is.
        _ => {
            "SELECT CONVERT(CONCAT(CASE WHEN VERSION() LIKE '%MariaDB%' THEN '' ELSE 'MySQL ' END, VERSION()) USING utf8mb4) AS version"
        }
    };
    let rows = db.query(&Statement::new(sql)).await?;
    match rows.first() {
        Some(row) => Ok(row.get("version")?),
        None => Ok(String::new()),
    }
}

pub(super) async fn check(checking: &mut Checking<'_>) -> Result<(), CliError> {
    match checking.dialect() {
        Dialect::Postgres => postgres::check(checking).await,
        Dialect::MySql => mysql::check(checking).await,
        _ => sqlite::check(checking).await,
    }
}

/// What is set for one table alone.
pub(super) async fn table(checking: &mut Checking<'_>, table: &str) -> Result<(), CliError> {
    match checking.dialect() {
        Dialect::Postgres => postgres::table(checking, table).await,
        Dialect::MySql => mysql::table(checking, table).await,
        _ => Ok(()),
    }
}

/// The one row of a question about the server.
async fn ask(checking: &Checking<'_>, sql: &str) -> Result<Row, CliError> {
    let rows = checking
        .engine
        .db()
        .query(&Statement::new(sql.to_owned()))
        .await?;
    rows.into_iter().next().ok_or_else(|| {
        let error = duebox_core::DbError::new(
            duebox_core::Kind::Corrupt,
            "the server answered with no row",
        );
        error.into()
    })
}

/// So many seconds for people.
fn seconds(seconds: i64) -> String {
    let time = std::time::Duration::from_secs(seconds.max(0).unsigned_abs());
    humantime::format_duration(time).to_string()
}
