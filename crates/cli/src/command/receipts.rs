use std::num::NonZeroU32;
use std::process::ExitCode;

use duebox_core::chrono::{DateTime, Utc};
use duebox_core::uuid::Uuid;
use duebox_core::{Database, Dialect, Row, Statement, format_time, instant_from_micros};
use serde_json::{Value, json};

use crate::args::ReceiptsCommand;
use crate::command::list::before;
use crate::engine::Engine;
use crate::error::CliError;
use crate::output::{self, Progress};
use crate::stop::Stop;

/// The one table of tickets.
pub(crate) const TABLE: &str = "pending_receipts";
/// Tickets that are deleted, or read, at a time.
const BATCH: NonZeroU32 = NonZeroU32::new(1000).unwrap();

pub(crate) async fn run(engine: &Engine, command: &ReceiptsCommand) -> Result<ExitCode, CliError> {
    match command {
        ReceiptsCommand::Status { json } => {
            let pending = pending(&*engine.db()).await?;
            if *json {
                output::data(&json!({ "table": TABLE, "pending": pending }).to_string())?;
            } else {
                let rows = [[TABLE.to_owned(), pending.to_string()]];
                output::data(&output::table(["RECEIPTS", "PENDING"], rows))?;
            }
        }
        ReceiptsCommand::Purge { older_than, yes } => {
            let sent_before = before(engine.db().now().await?, *older_than)?;
            output::confirm("The tickets that were sent before will be deleted.", *yes)?;
            let (store, stop) = (engine.receipts(), Stop::new());
            let progress = Progress::new("tickets");
            let mut done = 0;
            loop {
                stop.check(done)?;
                let went = store.purge(sent_before, BATCH).await?;
                done += went;
                progress.at(done);
                if went < u64::from(BATCH.get()) {
                    break;
                }
            }
            drop(progress);
            output::data(&format!("{done} tickets deleted"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// How many tickets wait for their receipts.
pub(crate) async fn pending(db: &dyn Database) -> Result<u64, CliError> {
    let count = Statement::new(format!("SELECT COUNT(*) AS pending FROM {TABLE}"));
    let rows = db.query(&count).await?;
    match rows.first() {
        Some(row) => Ok(row.get("pending")?),
        None => Ok(0),
    }
}

/// The tickets of an owner behind this one, in byte order, as JSON objects; and
/// the last of them, unless there are no more.
pub(crate) async fn export(
    db: &dyn Database,
    owner: Uuid,
    after: &str,
) -> Result<(Vec<Value>, Option<String>), CliError> {
    // Each engine keeps owners and instants in its own way.
    let instants = match db.dialect() {
        Dialect::MySql => {
            "DATE_FORMAT(sent_at, '%Y-%m-%dT%H:%i:%s.%fZ') AS sent_at,
             DATE_FORMAT(due_at, '%Y-%m-%dT%H:%i:%s.%fZ') AS due_at"
        }
        _ => "sent_at, due_at",
    };
    let read = format!(
        "SELECT ticket, token, {instants}
         FROM {TABLE}
         WHERE owner_id = ?
             AND ticket > ?
         ORDER BY ticket
         LIMIT {BATCH}"
    );
    let read = match db.dialect() {
        Dialect::Postgres => Statement::new(read).bind(owner.to_string()),
        _ => Statement::new(read).bind(owner.as_bytes().to_vec()),
    };
    let rows = db.query(&read.bind(after)).await?;
    let objects = rows
        .iter()
        .map(|row| object(row, owner))
        .collect::<Result<Vec<_>, CliError>>()?;
    let last = match rows.last() {
        Some(row) if rows.len() as u64 == u64::from(BATCH.get()) => Some(row.get("ticket")?),
        _ => None,
    };
    Ok((objects, last))
}

fn object(row: &Row, owner: Uuid) -> Result<Value, CliError> {
    Ok(json!({
        "table": TABLE,
        "owner_id": owner.to_string(),
        "ticket": row.get::<String>("ticket")?,
        "token": row.get::<String>("token")?,
        "sent_at": format_time(instant(row, "sent_at")?)?,
        "due_at": format_time(instant(row, "due_at")?)?,
    }))
}

fn instant(row: &Row, name: &str) -> Result<DateTime<Utc>, CliError> {
    if let duebox_core::Value::Integer(micros) = row.value(name)? {
        return Ok(instant_from_micros(*micros)?);
    }
    Ok(duebox_core::parse_time(&row.get::<String>(name)?)?)
}
