use std::sync::Arc;

use async_trait::async_trait;
use duebox_core::{PendingReceiptStore, PushTicketId};

use crate::Plan;

/// What an adapter gives the chapters about push receipts: stores to test.
///
/// An adapter that tests an outbox too returns it from
/// [`Harness::receipts`](crate::Harness::receipts).
#[async_trait]
pub trait ReceiptHarness: Send + Sync + 'static {
    /// What stands before the names of the tests, such as `postgres`.
    fn name(&self) -> String;

    /// Why no test can run here, such as `no server: set MY_TEST_URL`.
    ///
    /// The tests are then reported as ignored, with this reason; or fail, if
    /// the environment variable `DUEBOX_TEST_REQUIRE` is `all`.
    fn unavailable(&self) -> Option<String> {
        None
    }

    /// The hooks that its sandboxes serve. A test that needs another one is
    /// reported as not run.
    fn hooks(&self) -> &'static [ReceiptHook] {
        &[]
    }

    /// A new, empty store that no other test sees.
    async fn open_receipts(&self) -> Box<dyn ReceiptSandbox>;
}

/// One test's own store.
#[async_trait]
pub trait ReceiptSandbox: Send + Sync {
    /// The store that the test works with; the same at every call.
    fn store(&self) -> Arc<dyn PendingReceiptStore>;

    /// Another handle on what is stored, with connections of its own, as
    /// another process would have.
    async fn another(&self) -> Arc<dyn PendingReceiptStore>;

    /// For [`ReceiptHook::Reopen`]: closes every handle given so far, and
    /// opens what is stored anew, as a service does that starts again.
    async fn reopen(&self) -> Arc<dyn PendingReceiptStore> {
        unserved()
    }

    /// For [`ReceiptHook::Damage`]: writes `text`, which no token can be, in
    /// place of the token of this ticket.
    async fn damage(&self, ticket: &PushTicketId, text: &str) {
        let _ = (ticket, text);
        unserved::<()>();
    }

    /// For [`ReceiptHook::Break`]: makes every later call fail for good, as by
    /// dropping the table.
    async fn break_down(&self) {
        unserved::<()>();
    }

    /// For [`ReceiptHook::Refuse`]: makes the database refuse this change of
    /// the row of this ticket from now on, as by a trigger that raises an
    /// error.
    async fn refuse(&self, change: Change, ticket: &PushTicketId) {
        let _ = (change, ticket);
        unserved::<()>();
    }

    /// For [`ReceiptHook::Cut`]: ends every connection of [`Self::store`] from
    /// the server's side.
    async fn cut(&self) {
        unserved::<()>();
    }

    /// For [`ReceiptHook::Lock`]: locks the row of this ticket in a
    /// transaction that stays open until the answer is dropped.
    async fn lock(&self, ticket: &PushTicketId) -> Box<dyn Send> {
        let _ = ticket;
        unserved()
    }

    /// For [`ReceiptHook::Explain`]: how the database would run each statement
    /// of this call, after its statistics were brought up to date.
    async fn explain(&self, query: ReceiptQuery) -> Vec<Plan> {
        let _ = query;
        unserved()
    }

    /// Removes what was made. A test that panicked does not come here.
    #[expect(clippy::must_use_candidate, reason = "a future must be used anyway")]
    async fn close(self: Box<Self>) {
        drop(self);
    }
}

fn unserved<T>() -> T {
    panic!("the harness names a hook that its sandbox does not serve")
}

/// Something that a test about receipts may need and a harness may leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReceiptHook {
    /// [`ReceiptSandbox::reopen`].
    Reopen,
    /// [`ReceiptSandbox::damage`].
    Damage,
    /// [`ReceiptSandbox::break_down`].
    Break,
    /// [`ReceiptSandbox::refuse`].
    Refuse,
    /// [`ReceiptSandbox::cut`].
    Cut,
    /// [`ReceiptSandbox::lock`].
    Lock,
    /// [`ReceiptSandbox::explain`].
    Explain,
}

/// A change of one row, for [`ReceiptSandbox::refuse`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The row is inserted.
    Insert,
    /// The row is updated.
    Update,
    /// The row is deleted.
    Delete,
}

/// A call of the port whose plans a test reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReceiptQuery {
    /// `take_due`, with a limit of 100.
    TakeDue,
    /// `delete`, of 100 tickets.
    Delete,
    /// `purge`, with a limit of 100.
    Purge,
    /// `erase_owner`.
    EraseOwner,
}
