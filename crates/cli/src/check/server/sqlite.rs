use std::time::Duration;

use super::ask;
use crate::check::Checking;
use crate::check::finding::Finding;
use crate::error::CliError;

/// A reader that stays for so long is not one that reads just now.
const LOOKS: u32 = 10;
const BETWEEN: Duration = Duration::from_millis(200);

pub(super) async fn check(checking: &mut Checking<'_>) -> Result<(), CliError> {
    // The log is copied back up to the oldest snapshot that somebody reads.
    let (mut end, mut copied) = (0, 0);
    for look in 0..LOOKS {
        let row = ask(checking, "PRAGMA wal_checkpoint(PASSIVE)").await?;
        let log: i64 = row.get("log")?;
        copied = row.get("checkpointed")?;
        if look == 0 {
            end = log;
        }
        if copied >= end {
            return Ok(());
        }
        tokio::time::sleep(BETWEEN).await;
    }
    checking.add(
        Finding::problem(
            "pinned-snapshot",
            format!(
                "{} pages of the write-ahead log cannot be copied back",
                end - copied
            ),
        )
        .because(
            "a program reads an old snapshot and does not end its transaction: the log beside \
             the file grows, and every read looks through it",
        )
        .advise(
            "see which processes have the file open (`fuser -v FILE`), and end the transaction \
             or the process of the one that reads",
        ),
    );
    Ok(())
}
