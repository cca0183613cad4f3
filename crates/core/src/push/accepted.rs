use chrono::{DateTime, TimeDelta, Utc};
use uuid::Uuid;

use crate::{PendingReceipt, PushDeliveryStatus, PushOutcome};

/// How long after a send its receipts are first asked for, and how long
/// between two times: 15 minutes, as
/// [Expo's documentation](https://docs.expo.dev/push-notifications/sending-notifications/#check-push-receipts-for-errors)
/// recommends. Most receipts are there sooner, all but a few are there then.
pub const RECEIPT_POLL_DELAY: TimeDelta = TimeDelta::minutes(15);

/// How long after a send its receipts are asked for at all: 24 hours, after
/// which Expo
/// [keeps them no longer](https://docs.expo.dev/push-notifications/sending-notifications/#check-push-receipts-for-errors).
pub const RECEIPT_RETENTION: TimeDelta = TimeDelta::hours(24);

/// The tickets of a send to one owner, each with the token of its own outcome,
/// in the order of the outcomes. Outcomes without a ticket have no part in it.
///
/// ```
/// use duebox_core::chrono::DateTime;
/// use duebox_core::uuid::Uuid;
/// use duebox_core::{
///     DeviceToken, PushDeliveryStatus, PushOutcome, PushRejection, PushTicketId,
///     accepted_receipts,
/// };
///
/// let outcomes = [
///     PushOutcome {
///         token: DeviceToken::new("gone")?,
///         status: PushDeliveryStatus::Rejected(PushRejection::DeviceNotRegistered),
///     },
///     PushOutcome {
///         token: DeviceToken::new("phone")?,
///         status: PushDeliveryStatus::Accepted(PushTicketId::new("t-1")?),
///     },
/// ];
/// let receipts = accepted_receipts(Uuid::nil(), &outcomes, DateTime::UNIX_EPOCH);
/// assert_eq!(receipts.len(), 1);
/// assert_eq!(receipts[0].ticket.as_str(), "t-1");
/// assert_eq!(receipts[0].token.as_str(), "phone");
/// # Ok::<(), duebox_core::PushIdError>(())
/// ```
#[must_use]
pub fn accepted_receipts(
    owner_id: Uuid,
    outcomes: &[PushOutcome],
    sent_at: DateTime<Utc>,
) -> Vec<PendingReceipt> {
    outcomes
        .iter()
        .filter_map(|outcome| match &outcome.status {
            PushDeliveryStatus::Accepted(ticket) => Some(PendingReceipt {
                ticket: ticket.clone(),
                owner_id,
                token: outcome.token.clone(),
                sent_at,
            }),
            PushDeliveryStatus::Delivered | PushDeliveryStatus::Rejected(_) => None,
        })
        .collect()
}
