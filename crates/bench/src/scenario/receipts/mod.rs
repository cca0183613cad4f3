//! What is measured about the tickets of push notifications.

mod by_batch;
mod in_one_call;
mod plans;
mod takers;

use std::num::NonZeroU32;

use duebox_sqlite::PendingReceiptStore;

pub(crate) use self::by_batch::by_batch;
pub(crate) use self::in_one_call::in_one_call;
pub(crate) use self::plans::plans;
pub(crate) use self::takers::{take_all, takers};

use super::Measured;
use crate::engine::Fallible;
use crate::engine::tickets::later;

/// Owners of the tickets where it does not matter who owns them.
const OWNERS: u64 = 1_000;

/// A limit of this many tickets.
fn limit(count: u64) -> Fallible<NonZeroU32> {
    Ok(u32::try_from(count)?.try_into()?)
}

/// Fails unless the store is empty.
async fn check_empty(store: &dyn PendingReceiptStore) -> Fallible<()> {
    // Everything is due by then, what was taken too.
    let left = store.take_due(later()?, later()?, NonZeroU32::MIN).await?;
    if left.is_empty() {
        Ok(())
    } else {
        Err("a ticket is left".into())
    }
}
