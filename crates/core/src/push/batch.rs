//! What every store does alike before and after its own statements.

use uuid::Uuid;

use crate::{
    DeviceToken, PendingReceipt, PushStoreError, PushTicketId, check_instant, instant_from_micros,
};

/// The receipts of one [`record`](crate::PendingReceiptStore::record) as they
/// are to be stored: their instants checked and floored, the first of equal
/// tickets kept, sorted by ticket. For the author of a store.
///
/// Two sessions that insert the same tickets in the same order wait for each
/// other at worst, and never lock each other out.
///
/// # Errors
///
/// [`PushStoreError::OutOfRange`] for any instant outside the years 1970 to
/// 9999, that of a repeated ticket too.
pub fn distinct_receipts(
    mut receipts: Vec<PendingReceipt>,
) -> Result<Vec<PendingReceipt>, PushStoreError> {
    for receipt in &mut receipts {
        receipt.sent_at = instant_from_micros(check_instant(receipt.sent_at)?)?;
    }
    // Stable, so that of equal tickets the first comes first.
    receipts.sort_by(|a, b| a.ticket.cmp(&b.ticket));
    receipts.dedup_by(|later, kept| later.ticket == kept.ticket);
    Ok(receipts)
}

/// The tickets of one [`delete`](crate::PendingReceiptStore::delete), each
/// once, sorted. For the author of a store.
#[must_use]
pub fn distinct_tickets(mut tickets: Vec<PushTicketId>) -> Vec<PushTicketId> {
    tickets.sort_unstable();
    tickets.dedup();
    tickets
}

/// The receipts that one [`take_due`](crate::PendingReceiptStore::take_due)
/// took, each beside the due instant that it had, in microseconds, put into
/// the order that the port promises. For the author of a store, whose database
/// may return them in any.
///
/// What is [`PushStoreError::Corrupt`] is left out, so that it does not stop
/// the others.
///
/// # Errors
///
/// [`PushStoreError::Corrupt`] if nothing else was taken; any other error of a
/// row at once.
pub fn order_taken(
    taken: impl IntoIterator<Item = Result<(i64, PendingReceipt), PushStoreError>>,
) -> Result<Vec<PendingReceipt>, PushStoreError> {
    let mut readable = Vec::new();
    let mut corrupt = false;
    for row in taken {
        match row {
            Ok(row) => readable.push(row),
            Err(PushStoreError::Corrupt) => corrupt = true,
            Err(error) => return Err(error),
        }
    }
    if corrupt && readable.is_empty() {
        return Err(PushStoreError::Corrupt);
    }
    readable.sort_unstable_by(|(due_a, a), (due_b, b)| {
        due_a.cmp(due_b).then_with(|| a.ticket.cmp(&b.ticket))
    });
    Ok(readable.into_iter().map(|(_, receipt)| receipt).collect())
}

impl PendingReceipt {
    /// A receipt made from what is stored. For the author of a store.
    ///
    /// # Errors
    ///
    /// [`PushStoreError::Corrupt`] if no store can have written this: the
    /// ticket or the token is none, or the instant is outside the years 1970
    /// to 9999.
    pub fn from_stored(
        ticket: String,
        owner_id: Uuid,
        token: String,
        sent_at_micros: i64,
    ) -> Result<Self, PushStoreError> {
        Ok(Self {
            ticket: PushTicketId::new(ticket).map_err(|_| PushStoreError::Corrupt)?,
            owner_id,
            token: DeviceToken::new(token).map_err(|_| PushStoreError::Corrupt)?,
            sent_at: instant_from_micros(sent_at_micros)?,
        })
    }
}
