//! The statements about pending receipts, with their values bound.

use duebox_core::chrono::{DateTime, NaiveDateTime, Utc};
use duebox_core::uuid::Uuid;
use duebox_core::{
    DbError, Kind, MAX_TICKET_BYTES, PendingReceipt, PushStoreError, Row, Statement, Value,
    check_instant, instant_from_micros,
};

use super::json;

/// Records those of the receipts in a JSON array that are not there.
pub(super) fn record(receipts: String, due_at: &str) -> Statement {
    Statement::new(include_str!("../queries/record.sql"))
        .bind(due_at)
        .bind(receipts)
}

/// A receipt as [`record`] reads it.
pub(super) fn row(receipt: &PendingReceipt) -> Result<String, PushStoreError> {
    Ok(format!(
        "[{},\"{}\",{},\"{}\"]",
        json::text(receipt.ticket.as_str()),
        receipt.owner_id.simple(),
        json::text(receipt.token.as_str()),
        timestamp(receipt.sent_at)?,
    ))
}

/// Reads and locks what is due.
pub(super) fn take_due(now: &str, limit: u32) -> Statement {
    Statement::new(include_str!("../queries/take_due.sql"))
        .bind(now)
        .bind(limit)
}

/// How many rows one [`move_due`] names: few enough that it is kept prepared and
/// smaller than a quarter of the server's packets, unless a single ticket is not.
pub(super) fn most_moved(max_allowed_packet: u64) -> usize {
    let quarter = usize::try_from(max_allowed_packet / 4).unwrap_or(usize::MAX);
    let most = (quarter / (MAX_TICKET_BYTES + 16)).clamp(1, 1_024);
    // Its list is filled up to a power of two.
    1 << most.ilog2()
}

/// Moves the due instant of rows that were read, all of which are there.
///
/// The list is filled up with the last one, so that few different statements are
/// prepared.
pub(super) fn move_due(rows: &[Row], retry_at: &str) -> Result<Statement, DbError> {
    let places = rows.len().next_power_of_two();
    let list = vec!["?"; places].join(", ");
    let text = include_str!("../queries/move_due.sql").replace("{tickets}", &list);
    let mut statement = Statement::new(text)
        .bind(retry_at)
        .expect_rows(rows.len() as u64);
    let filling = rows.last().into_iter().cycle();
    for row in rows.iter().chain(filling).take(places) {
        statement = statement.bind(row.value("ticket")?.clone());
    }
    Ok(statement)
}

/// Deletes the tickets in a JSON array.
pub(super) fn delete(tickets: String) -> Statement {
    Statement::new(include_str!("../queries/delete.sql")).bind(tickets)
}

/// Reads and locks what a purge deletes.
pub(super) fn purge(sent_before: &str, limit: u32) -> Statement {
    Statement::new(include_str!("../queries/purge.sql"))
        .bind(sent_before)
        .bind(limit)
}

/// Reads which tickets an erasure deletes.
pub(super) fn owned(owner_id: Uuid) -> Statement {
    Statement::new(include_str!("../queries/erase_owner_read.sql")).bind(&owner_id.as_bytes()[..])
}

/// Deletes every ticket of one owner, in whatever isolation the transaction has.
pub(crate) fn erasure(owner_id: Uuid) -> Statement {
    Statement::new(include_str!("../queries/erase_owner.sql")).bind(&owner_id.as_bytes()[..])
}

/// An instant as the server parses it, whatever its `time_zone` and `sql_mode`
/// are.
pub(super) fn timestamp(instant: DateTime<Utc>) -> Result<String, PushStoreError> {
    let floored = instant_from_micros(check_instant(instant)?)?;
    Ok(floored.format("%Y-%m-%d %H:%M:%S%.6f").to_string())
}

/// A receipt that was taken, beside the due instant that it had.
pub(super) fn taken(row: &Row) -> Result<(i64, PendingReceipt), PushStoreError> {
    let text = |column| match row.value(column) {
        Ok(Value::Text(text)) => Some(text.as_str()),
        _ => None,
    };
    let micros = |column| {
        let time = NaiveDateTime::parse_from_str(text(column)?, "%Y-%m-%d %H:%M:%S%.f").ok()?;
        Some(time.and_utc().timestamp_micros())
    };
    let stored = || {
        let owner_id = row.get::<Vec<u8>>("owner_id").ok()?;
        Some((
            text("ticket")?.to_owned(),
            Uuid::from_slice(&owner_id).ok()?,
            text("token")?.to_owned(),
            micros("sent_at")?,
        ))
    };
    let (ticket, owner_id, token, sent_at) = stored().ok_or(PushStoreError::Corrupt)?;
    let receipt = PendingReceipt::from_stored(ticket, owner_id, token, sent_at)?;
    // The date of zeros is no instant, and due before any.
    Ok((micros("due_at").unwrap_or(i64::MIN), receipt))
}

/// The tickets that were read, as JSON.
pub(super) fn tickets(rows: &[Row]) -> Result<Vec<String>, DbError> {
    let ticket = |row: &Row| match row.value("ticket")? {
        Value::Text(ticket) => Ok(json::text(ticket)),
        _ => Err(DbError::new(Kind::Schema, "column \"ticket\" is no text")),
    };
    rows.iter().map(ticket).collect()
}
