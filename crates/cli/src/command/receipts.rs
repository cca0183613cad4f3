use std::num::NonZeroU32;
use std::process::ExitCode;

use duebox_core::Statement;
use serde_json::json;

use crate::args::ReceiptsCommand;
use crate::command::list::before;
use crate::engine::Engine;
use crate::error::CliError;
use crate::output;
use crate::stop::Stop;

/// Tickets that are deleted at a time.
const BATCH: NonZeroU32 = NonZeroU32::new(1000).unwrap();

pub(crate) async fn run(engine: &Engine, command: &ReceiptsCommand) -> Result<ExitCode, CliError> {
    match command {
        ReceiptsCommand::Status { json } => {
            let count = Statement::new("SELECT COUNT(*) AS pending FROM pending_receipts");
            let rows = engine.db().query(&count).await?;
            let pending: u64 = match rows.first() {
                Some(row) => row.get("pending")?,
                None => 0,
            };
            if *json {
                output::data(
                    &json!({ "table": "pending_receipts", "pending": pending }).to_string(),
                )?;
            } else {
                let rows = [["pending_receipts".to_owned(), pending.to_string()]];
                output::data(&output::table(["RECEIPTS", "PENDING"], rows))?;
            }
        }
        ReceiptsCommand::Purge { older_than, yes } => {
            let sent_before = before(engine.db().now().await?, *older_than)?;
            output::confirm("The tickets that were sent before will be deleted.", *yes)?;
            let (store, stop) = (engine.receipts(), Stop::new());
            let mut done = 0;
            loop {
                stop.check(done)?;
                let went = store.purge(sent_before, BATCH).await?;
                done += went;
                output::progress(done);
                if went < u64::from(BATCH.get()) {
                    break;
                }
            }
            output::progress_done();
            output::data(&format!("{done} tickets deleted"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
