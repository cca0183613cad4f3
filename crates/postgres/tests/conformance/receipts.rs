//! The chapters about push receipts, through each of the drivers.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use duebox_conformance::{Change, Plan, ReceiptHarness, ReceiptHook, ReceiptQuery, ReceiptSandbox};
use duebox_postgres::{
    Database, PendingReceiptStore, PostgresDatabase, PushTicketId, Statement, Value,
};

use crate::{Schema, admin, connect, explain, unavailable};

/// One of the drivers.
#[async_trait]
pub(crate) trait Driver: Send + Sync + 'static {
    const NAME: &'static str;
    type Handle: Database + Clone + 'static;

    /// A handle with connections of its own.
    async fn connect(schema: &Schema) -> Self::Handle;

    async fn migrate(handle: &Self::Handle);

    fn receipts(handle: &Self::Handle) -> Arc<dyn PendingReceiptStore>;

    async fn close(handle: &Self::Handle);
}

pub(crate) struct TokioPostgres;

#[async_trait]
impl Driver for TokioPostgres {
    const NAME: &'static str = "postgres";
    type Handle = PostgresDatabase;

    async fn connect(schema: &Schema) -> PostgresDatabase {
        connect(schema).await
    }

    async fn migrate(handle: &PostgresDatabase) {
        handle.migrate().await.expect("migrate");
    }

    fn receipts(handle: &PostgresDatabase) -> Arc<dyn PendingReceiptStore> {
        Arc::new(handle.receipts())
    }

    async fn close(handle: &PostgresDatabase) {
        handle.pool().close();
    }
}

#[cfg(feature = "sqlx")]
pub(crate) struct Sqlx;

#[cfg(feature = "sqlx")]
#[async_trait]
impl Driver for Sqlx {
    const NAME: &'static str = "sqlx";
    type Handle = duebox_postgres::SqlxPostgresDatabase;

    async fn connect(schema: &Schema) -> Self::Handle {
        crate::sqlx_postgres::connect(schema).await
    }

    async fn migrate(handle: &Self::Handle) {
        handle.migrate().await.expect("migrate");
    }

    fn receipts(handle: &Self::Handle) -> Arc<dyn PendingReceiptStore> {
        Arc::new(handle.receipts())
    }

    async fn close(handle: &Self::Handle) {
        handle.pool().close().await;
    }
}

/// The stores of one driver.
pub(crate) struct Receipts<D>(pub(crate) D);

#[async_trait]
impl<D: Driver> ReceiptHarness for Receipts<D> {
    fn name(&self) -> String {
        D::NAME.into()
    }

    fn unavailable(&self) -> Option<String> {
        unavailable()
    }

    fn hooks(&self) -> &'static [ReceiptHook] {
        &[
            ReceiptHook::Reopen,
            ReceiptHook::Damage,
            ReceiptHook::Break,
            ReceiptHook::Refuse,
            ReceiptHook::Cut,
            ReceiptHook::Lock,
            ReceiptHook::Explain,
        ]
    }

    async fn open_receipts(&self) -> Box<dyn ReceiptSandbox> {
        let schema = Schema::new().await;
        let handle = D::connect(&schema).await;
        D::migrate(&handle).await;
        Box::new(OnPostgres::<D> {
            store: D::receipts(&handle),
            schema,
            handles: Mutex::new(vec![handle]),
        })
    }
}

struct OnPostgres<D: Driver> {
    schema: Schema,
    store: Arc<dyn PendingReceiptStore>,
    /// Those that were given out.
    handles: Mutex<Vec<D::Handle>>,
}

impl<D: Driver> OnPostgres<D> {
    async fn new_handle(&self) -> D::Handle {
        let handle = D::connect(&self.schema).await;
        self.handles.lock().expect("handles").push(handle.clone());
        handle
    }

    async fn close_all(&self) {
        let handles = std::mem::take(&mut *self.handles.lock().expect("handles"));
        for handle in handles {
            D::close(&handle).await;
        }
    }

    /// The harness's own SQL, in the schema of the test.
    async fn run(&self, sql: &str) {
        let sql = format!("SET search_path = {}; {sql}", self.schema.name);
        self.schema.admin.batch_execute(&sql).await.expect("run");
    }
}

/// A text as SQL writes it.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[async_trait]
impl<D: Driver> ReceiptSandbox for OnPostgres<D> {
    fn store(&self) -> Arc<dyn PendingReceiptStore> {
        Arc::clone(&self.store)
    }

    async fn another(&self) -> Arc<dyn PendingReceiptStore> {
        D::receipts(&self.new_handle().await)
    }

    async fn reopen(&self) -> Arc<dyn PendingReceiptStore> {
        self.close_all().await;
        D::receipts(&self.new_handle().await)
    }

    async fn damage(&self, ticket: &PushTicketId, text: &str) {
        self.run(&format!(
            "UPDATE pending_receipts SET token = {} WHERE ticket = {}",
            literal(text),
            literal(ticket.as_str())
        ))
        .await;
    }

    async fn break_down(&self) {
        self.run("DROP TABLE pending_receipts").await;
    }

    async fn refuse(&self, change: Change, ticket: &PushTicketId) {
        let (change, row) = match change {
            Change::Insert => ("INSERT", "NEW"),
            Change::Update => ("UPDATE", "NEW"),
            Change::Delete => ("DELETE", "OLD"),
        };
        self.run(&format!(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN RAISE EXCEPTION 'refused: %', {row}; END $$;
             CREATE TRIGGER refuse BEFORE {change} ON pending_receipts FOR EACH ROW
             WHEN ({row}.ticket = {}) EXECUTE FUNCTION refuse()",
            literal(ticket.as_str())
        ))
        .await;
    }

    async fn cut(&self) {
        self.schema.cut().await;
    }

    async fn lock(&self, ticket: &PushTicketId) -> Box<dyn Send> {
        let client = admin().await;
        client.batch_execute("BEGIN").await.expect("begin");
        let sql = format!(
            "SELECT 1 FROM {}.pending_receipts WHERE ticket = $1 FOR UPDATE",
            self.schema.name
        );
        let row = client.query_one(&sql, &[&ticket.as_str()]).await;
        row.expect("lock a row");
        Box::new(client)
    }

    async fn explain(&self, query: ReceiptQuery) -> Vec<Plan> {
        self.run("ANALYZE pending_receipts").await;
        let handle = self.new_handle().await;
        vec![explain(&handle, &statement(query)).await]
    }

    async fn close(self: Box<Self>) {
        self.close_all().await;
        self.schema.drop().await;
    }
}

/// The call's own statement, with values as the tests use them.
fn statement(query: ReceiptQuery) -> Statement {
    match query {
        ReceiptQuery::TakeDue => Statement::new(include_str!("../../src/queries/take_due.sql"))
            .bind("2026-03-01T00:00:01.000000Z")
            .bind(100)
            .bind("2026-03-01T00:15:01.000000Z"),
        ReceiptQuery::Delete => {
            let tickets = (0..100).map(|each| Some(format!("t{each:06}"))).collect();
            Statement::new(include_str!("../../src/queries/delete.sql"))
                .bind(Value::TextArray(tickets))
        }
        ReceiptQuery::Purge => Statement::new(include_str!("../../src/queries/purge.sql"))
            .bind("2026-03-01T01:00:00.000000Z")
            .bind(100),
        ReceiptQuery::EraseOwner => {
            Statement::new(include_str!("../../src/queries/erase_owner.sql"))
                .bind("00000007-0000-4000-8000-000000000007")
        }
        other => panic!("no plan of {other:?}"),
    }
}
