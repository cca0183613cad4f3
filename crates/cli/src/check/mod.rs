//! `duebox check`: what is wrong with a database, why, and what cures it.

use std::process::ExitCode;

use duebox_core::{Dialect, Statement};

use crate::engine::Engine;
use crate::error::CliError;
use crate::output;

/// What `check` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// One JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Reports the server's version.
pub(crate) async fn run(engine: &Engine, args: &CheckArgs) -> Result<ExitCode, CliError> {
    let db = engine.db();
    let sql = match db.dialect() {
        Dialect::Sqlite => "SELECT sqlite_version() AS version",
        Dialect::Postgres => "SELECT version() AS version",
        _ => "SELECT CONCAT(VERSION(), '') AS version",
    };
    let rows = db.query(&Statement::new(sql)).await?;
    let version: String = match rows.first() {
        Some(row) => row.get("version")?,
        None => String::new(),
    };
    if args.json {
        output::data(&serde_json::json!({ "version": version }).to_string())?;
    } else {
        output::data(&output::clean(&version))?;
    }
    Ok(ExitCode::SUCCESS)
}
