use std::pin::Pin;

use crate::DbError;

/// The boxed future that the ports of waking up return.
pub type WakeFuture<'a> = Pin<Box<dyn Future<Output = Result<(), DbError>> + Send + 'a>>;

/// Tells a drainer that there may be new work: the half of waking up that
/// listens.
///
/// # Contract
///
/// A wake-up carries no data and promises nothing: there may be work without
/// one, and none after one. Many that come close together may be told as one,
/// but what comes after a call has returned is told by the next.
///
/// # Cancellation
///
/// A dropped call loses no wake-up: the next one tells it.
pub trait WakeSource: Send {
    /// Waits until somebody said that there may be new work.
    ///
    /// The first call, and the first after an error, connects where that is
    /// needed, and returns at once when it has: work may have come while
    /// nobody listened.
    ///
    /// # Errors
    ///
    /// Why nothing can be heard now. Calling again connects anew; how long to
    /// wait before that is the caller's.
    fn wait(&mut self) -> WakeFuture<'_>;
}

/// Tells drainers in other processes that there is new work: the half of
/// waking up that speaks.
///
/// # Contract
///
/// Called after the commit that brought the work, and for many commits once.
/// Nothing is lost if it fails: the drainers find the work when they next look.
pub trait WakeSink: Send + Sync {
    /// Says once that there is new work.
    ///
    /// # Errors
    ///
    /// Why nobody could be told.
    fn wake(&self) -> WakeFuture<'_>;
}
