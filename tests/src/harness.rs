use std::sync::Arc;

use async_trait::async_trait;
use duebox_core::{Database, DbError, Outbox, Statement};

use crate::ReceiptHarness;

/// What an adapter gives the suite: databases to test in.
#[async_trait]
pub trait Harness: Send + Sync + 'static {
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
    fn hooks(&self) -> &'static [Hook] {
        &[]
    }

    /// The stores of push receipts beside its outboxes, if it has them. The
    /// chapters about receipts are otherwise reported as not run.
    fn receipts(&self) -> Option<Arc<dyn ReceiptHarness>> {
        None
    }

    /// Whether to test the suite too: that it finds stores broken on purpose,
    /// made of this harness's own. See [`broken`](crate::broken).
    fn checks_suite(&self) -> bool {
        false
    }

    /// A new, empty database (or schema, or file) that no other test sees.
    async fn open(&self) -> Box<dyn Sandbox>;
}

/// One test's own database.
#[async_trait]
pub trait Sandbox: Send + Sync {
    /// The handle that the test works with; the same at every call.
    fn database(&self) -> Arc<dyn Database>;

    /// Another handle on the same database with connections of its own, as
    /// another process would have.
    async fn another(&self) -> Arc<dyn Database>;

    /// Applies the shipped migrations for the table of `outbox`.
    ///
    /// # Errors
    ///
    /// Those of the adapter's `migrate_outbox`.
    async fn migrate_outbox(&self, outbox: &Outbox) -> Result<(), DbError>;

    /// For [`Hook::Explain`]: how the database would run the statement.
    async fn explain(&self, statement: &Statement) -> Plan {
        let _ = statement;
        not_served(Hook::Explain)
    }

    /// For [`Hook::Cut`]: ends every connection of [`Self::database`] from the
    /// server's side.
    async fn cut(&self) {
        not_served(Hook::Cut)
    }

    /// For [`Hook::Lock`]: locks one row, by its id, in a transaction that
    /// stays open until the answer is dropped.
    async fn lock(&self, table: &str, id: &str) -> Box<dyn Send> {
        let _ = (table, id);
        not_served(Hook::Lock)
    }

    /// Removes the database. A test that panicked does not come here.
    #[allow(
        clippy::must_use_candidate,
        reason = "a future that does nothing by default"
    )]
    async fn close(self: Box<Self>) {}
}

/// Something that a test may need and a harness may leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hook {
    /// [`Sandbox::explain`].
    Explain,
    /// [`Sandbox::cut`].
    Cut,
    /// [`Sandbox::lock`].
    Lock,
}

/// A test that needs a hook runs only where the harness names it.
fn not_served(hook: Hook) -> ! {
    panic!("the harness names {hook:?} among its hooks, and its sandbox does not serve it")
}

/// What a plan test asks of a plan.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The names of the indexes used; the primary key's is `primary`.
    pub indexes: Vec<String>,
    /// Whether rows of the table are sorted.
    pub sorts: bool,
    /// Whether the whole table is read.
    pub scans: bool,
    /// The plan as the database gave it, for the message of a failed test.
    pub text: String,
}

/// How a test's outbox table was made. Every test runs with both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schema {
    /// By [`Outbox::create_table_sql`].
    Portable,
    /// By the shipped migrations.
    Shipped,
}

impl Schema {
    pub(crate) const ALL: [Self; 2] = [Self::Portable, Self::Shipped];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Shipped => "shipped",
        }
    }
}
