use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU32;

use chrono::{DateTime, Utc};
use thiserror::Error;

use super::instant::later;
use crate::{
    DeviceRegistry, DeviceToken, PendingReceipt, PendingReceiptStore, PushError, PushReceipt,
    PushReceiptSource, PushReceiptStatus, PushStoreError, PushTicketId, RECEIPT_POLL_DELAY,
    RECEIPT_RETENTION,
};

/// How many old tickets go in one statement, so that none takes long.
const PURGE_BATCH: NonZeroU32 = NonZeroU32::new(1_000).unwrap();

/// What one [`poll_pending_receipts`] did. `taken` is always `delivered` and
/// `rejected` and `unsettled` together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReceiptPoll {
    /// Tickets that were due and that this poll took.
    pub taken: u64,
    /// Of those, settled and delivered.
    pub delivered: u64,
    /// Of those, settled and not delivered.
    pub rejected: u64,
    /// Of those, still without a receipt, or kept because of a failure: they
    /// are due again [`RECEIPT_POLL_DELAY`] after this poll.
    pub unsettled: u64,
    /// Of those rejected, the ones whose device is gone.
    pub gone: u64,
    /// Tokens that the registry stopped sending to. Fewer than `gone` where
    /// several messages went to one device, where the registry knew already,
    /// and where a device registered anew after the send.
    pub invalidated: u64,
    /// Settled tickets that this poll deleted. Fewer than `delivered` and
    /// `rejected` together where somebody else was first.
    pub deleted: u64,
    /// Tickets that were too old to be answered any more and were deleted
    /// without a receipt.
    pub purged: u64,
}

/// A poll that failed on its way.
///
/// No ticket was lost by it: what had not settled, and what settled without
/// all of its consequences, is due again [`RECEIPT_POLL_DELAY`] after the poll.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("poll pending receipts: {cause}")]
#[non_exhaustive]
pub struct ReceiptPollError {
    /// What had been done; its counts add up too.
    pub poll: ReceiptPoll,
    /// What failed.
    pub cause: ReceiptPollCause,
}

/// Which of the three that a poll asks has failed it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReceiptPollCause {
    /// The store of pending receipts.
    #[error("{0}")]
    Store(PushStoreError),
    /// The source of receipts.
    #[error("read receipts: {0}")]
    Source(PushError),
    /// The registry of devices.
    #[error("invalidate device tokens: the registry failed ({})", registry_word(*.0))]
    Registry(PushStoreError),
}

/// The texts of [`PushStoreError`] speak of receipts.
const fn registry_word(error: PushStoreError) -> &'static str {
    match error {
        PushStoreError::Busy => "busy or out of reach",
        PushStoreError::OutOfRange => "an instant is out of range",
        PushStoreError::Corrupt => "it holds what it cannot read",
        PushStoreError::Internal => "an error that trying again does not cure",
    }
}

/// Takes up to `limit` tickets that are due at `now`, asks for their receipts,
/// and does what follows from them.
///
/// In this order, so that a process that dies anywhere in between loses
/// nothing:
///
/// 1. [take](PendingReceiptStore::take_due) a batch, which makes it due again
///    [`RECEIPT_POLL_DELAY`] after `now`;
/// 2. ask the source for its receipts;
/// 3. [invalidate](DeviceRegistry::invalidate) the tokens of devices that are
///    gone, each with the instant of its own send;
/// 4. delete what settled;
/// 5. [purge](PendingReceiptStore::purge) what is older than
///    [`RECEIPT_RETENTION`], all of it.
///
/// Call it until [`ReceiptPoll::taken`] is less than `limit`, then again some
/// time later; any number of pollers may run at once. Memory is bounded by
/// `limit`. A source that says nothing about some tickets leaves those for
/// another poll; what it says about tickets that nobody asked for is ignored.
///
/// # Cancellation
///
/// A dropped poll has done its steps up to some point, and loses no ticket.
///
/// # Errors
///
/// If the store or the source fails, the poll ends there. If the registry
/// fails, the tickets of those devices stay, the other steps up to the
/// deletion are done, and the error is returned then. A poll that fails purges
/// nothing: what it could not settle gets another try first.
/// [`PushStoreError::OutOfRange`] if `now` is not of the years 1970 to 9999, or
/// is of their last 15 minutes.
pub async fn poll_pending_receipts(
    source: &dyn PushReceiptSource,
    pending: &dyn PendingReceiptStore,
    registry: &dyn DeviceRegistry,
    now: DateTime<Utc>,
    limit: NonZeroU32,
) -> Result<ReceiptPoll, ReceiptPollError> {
    let mut poll = ReceiptPoll::default();
    let done = run(&mut poll, source, pending, registry, now, limit).await;
    poll.unsettled = poll.taken - poll.delivered - poll.rejected;
    match done {
        Ok(()) => Ok(poll),
        Err(cause) => Err(ReceiptPollError { poll, cause }),
    }
}

async fn run(
    poll: &mut ReceiptPoll,
    source: &dyn PushReceiptSource,
    pending: &dyn PendingReceiptStore,
    registry: &dyn DeviceRegistry,
    now: DateTime<Utc>,
    limit: NonZeroU32,
) -> Result<(), ReceiptPollCause> {
    let retry_at = later(now, RECEIPT_POLL_DELAY).map_err(ReceiptPollCause::Store)?;
    let taken = pending
        .take_due(now, retry_at, limit)
        .await
        .map_err(ReceiptPollCause::Store)?;
    if !taken.is_empty() {
        poll.taken = count(taken.len());
        let tickets = taken.iter().map(|each| each.ticket.clone()).collect();
        let receipts = source
            .receipts(tickets)
            .await
            .map_err(ReceiptPollCause::Source)?;
        let mut settled = Settled::new(taken, receipts);
        let failure = invalidate(poll, registry, &mut settled).await;
        delete(poll, pending, settled).await?;
        if let Some(error) = failure {
            return Err(ReceiptPollCause::Registry(error));
        }
    }
    // Before 1970 nothing was sent.
    if let Ok(sent_before) = later(now, -RECEIPT_RETENTION) {
        loop {
            let gone = pending
                .purge(sent_before, PURGE_BATCH)
                .await
                .map_err(ReceiptPollCause::Store)?;
            poll.purged += gone;
            if gone < u64::from(PURGE_BATCH.get()) {
                break;
            }
        }
    }
    Ok(())
}

/// The tickets of a batch that have a receipt, by what follows from it.
#[derive(Default)]
struct Settled {
    delivered: Vec<PushTicketId>,
    rejected: Vec<PushTicketId>,
    gone: HashMap<DeviceToken, Dead>,
}

/// One token whose device is gone: the latest of its sends that found it so,
/// which says what those before it say, and the tickets of all of them.
struct Dead {
    sent_at: DateTime<Utc>,
    tickets: Vec<PushTicketId>,
}

impl Settled {
    fn new(taken: Vec<PendingReceipt>, receipts: Vec<PushReceipt>) -> Self {
        let mut asked: HashMap<_, _> = taken
            .into_iter()
            .map(|each| (each.ticket, (each.token, each.sent_at)))
            .collect();
        let mut settled = Self::default();
        for PushReceipt { ticket, status } in receipts {
            // Removed, so that a second receipt of one ticket is ignored.
            let Some((device, sent_at)) = asked.remove(&ticket) else {
                continue;
            };
            match status {
                PushReceiptStatus::Delivered => settled.delivered.push(ticket),
                PushReceiptStatus::Rejected(why) if why.is_device_gone() => {
                    let dead = settled.gone.entry(device).or_insert_with(|| Dead {
                        sent_at,
                        tickets: Vec::new(),
                    });
                    dead.sent_at = dead.sent_at.max(sent_at);
                    dead.tickets.push(ticket);
                }
                PushReceiptStatus::Rejected(_) => settled.rejected.push(ticket),
            }
        }
        settled
    }
}

/// Invalidates the tokens of devices that are gone, those of one instant in
/// one call, and forgets about the tickets of those for which that failed. A
/// registry that refuses some tokens is still asked about the others; one that
/// is busy is left alone.
async fn invalidate(
    poll: &mut ReceiptPoll,
    registry: &dyn DeviceRegistry,
    settled: &mut Settled,
) -> Option<PushStoreError> {
    let mut by_instant = BTreeMap::<_, Vec<_>>::new();
    for (token, dead) in &settled.gone {
        by_instant
            .entry(dead.sent_at)
            .or_default()
            .push(token.clone());
    }
    let mut failure: Option<PushStoreError> = None;
    for (sent_at, mut tokens) in by_instant {
        if !failure.is_some_and(PushStoreError::is_retryable) {
            tokens.sort_unstable();
            match registry.invalidate(tokens, sent_at).await {
                Ok(stopped) => {
                    poll.invalidated += stopped;
                    continue;
                }
                Err(error) => failure = Some(error),
            }
        }
        settled.gone.retain(|_, dead| dead.sent_at != sent_at);
    }
    failure
}

/// Deletes what settled, and counts it once it is gone.
async fn delete(
    poll: &mut ReceiptPoll,
    pending: &dyn PendingReceiptStore,
    settled: Settled,
) -> Result<(), ReceiptPollCause> {
    let gone: Vec<_> = settled
        .gone
        .into_values()
        .flat_map(|dead| dead.tickets)
        .collect();
    let (delivered, rejected) = (settled.delivered.len(), settled.rejected.len() + gone.len());
    let dead = gone.len();
    let mut tickets = settled.delivered;
    tickets.extend(settled.rejected);
    tickets.extend(gone);
    if tickets.is_empty() {
        return Ok(());
    }
    poll.deleted = pending
        .delete(tickets)
        .await
        .map_err(ReceiptPollCause::Store)?;
    poll.delivered = count(delivered);
    poll.rejected = count(rejected);
    poll.gone = count(dead);
    Ok(())
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
