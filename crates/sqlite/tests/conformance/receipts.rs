//! The chapters about push receipts. A database that is locked as a whole has
//! no row to lock alone, and no connection that a server could cut.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use duebox_conformance::{Change, Plan, ReceiptHarness, ReceiptHook, ReceiptQuery, ReceiptSandbox};
use duebox_sqlite::rusqlite::Connection;
use duebox_sqlite::{
    JournalMode, PendingReceiptStore, PushTicketId, SqliteDatabase, SqliteOptions, Statement,
};

/// Files with a journal of this kind, and the name of their tests.
pub(crate) struct Receipts(pub(crate) JournalMode, pub(crate) &'static str);

#[async_trait]
impl ReceiptHarness for Receipts {
    fn name(&self) -> String {
        self.1.to_owned()
    }

    fn hooks(&self) -> &'static [ReceiptHook] {
        &[
            ReceiptHook::Reopen,
            ReceiptHook::Damage,
            ReceiptHook::Break,
            ReceiptHook::Refuse,
            ReceiptHook::Explain,
        ]
    }

    async fn open_receipts(&self) -> Box<dyn ReceiptSandbox> {
        let folder = crate::folder();
        let options = crate::options(&folder, self.0);
        let database = options.clone().open().await.expect("a new database");
        database.migrate().await.expect("migrate");
        Box::new(OnSqlite {
            folder,
            options,
            store: Arc::new(database.receipts()),
            databases: Mutex::new(vec![database]),
        })
    }
}

struct OnSqlite {
    folder: PathBuf,
    options: SqliteOptions,
    store: Arc<dyn PendingReceiptStore>,
    /// Those that were given out.
    databases: Mutex<Vec<SqliteDatabase>>,
}

impl OnSqlite {
    async fn open(&self) -> SqliteDatabase {
        let database = self.options.clone().open().await.expect("the file again");
        let mut databases = self.databases.lock().expect("databases");
        databases.push(database.clone());
        database
    }

    /// The harness's own SQL.
    async fn run(&self, sql: String) {
        let database = self.open().await;
        let ran = database.with_connection(move |conn| conn.execute_batch(&sql));
        ran.await.expect("a connection").expect("run");
    }
}

/// A text as SQL writes it.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[async_trait]
impl ReceiptSandbox for OnSqlite {
    fn store(&self) -> Arc<dyn PendingReceiptStore> {
        Arc::clone(&self.store)
    }

    async fn another(&self) -> Arc<dyn PendingReceiptStore> {
        Arc::new(self.open().await.receipts())
    }

    async fn reopen(&self) -> Arc<dyn PendingReceiptStore> {
        let databases = std::mem::take(&mut *self.databases.lock().expect("databases"));
        for database in databases {
            // Whoever still has the handle finds an empty database behind it.
            let close = |conn: &mut Connection| {
                *conn = Connection::open_in_memory().expect("a connection");
            };
            database.with_connection(close).await.expect("a connection");
        }
        let log = self.folder.join("test.db-wal");
        assert!(!log.exists(), "it goes with the last connection");
        self.another().await
    }

    async fn damage(&self, ticket: &PushTicketId, text: &str) {
        let (ticket, text) = (literal(ticket.as_str()), literal(text));
        let sql = format!("UPDATE pending_receipts SET token = {text} WHERE ticket = {ticket}");
        self.run(sql).await;
    }

    async fn break_down(&self) {
        self.run("DROP TABLE pending_receipts".to_owned()).await;
    }

    async fn refuse(&self, change: Change, ticket: &PushTicketId) {
        let (change, row) = match change {
            Change::Insert => ("INSERT", "NEW"),
            Change::Update => ("UPDATE", "NEW"),
            Change::Delete => ("DELETE", "OLD"),
        };
        let ticket = literal(ticket.as_str());
        let sql = format!(
            "CREATE TRIGGER refuse BEFORE {change} ON pending_receipts
             WHEN {row}.ticket = {ticket} BEGIN SELECT RAISE(ABORT, 'refused'); END"
        );
        self.run(sql).await;
    }

    async fn explain(&self, query: ReceiptQuery) -> Vec<Plan> {
        let database = self.open().await;
        self.run("ANALYZE".to_owned()).await;
        let mut plans = Vec::new();
        for statement in statements(query) {
            plans.push(crate::explain(&database, &statement).await);
        }
        plans
    }

    async fn close(self: Box<Self>) {
        let folder = self.folder.clone();
        drop(self);
        crate::remove(folder);
    }
}

/// What the call sends, on the day of the tests, 2026-03-01.
fn statements(query: ReceiptQuery) -> Vec<Statement> {
    const DAY: i64 = 1_772_323_200_000_000;
    let statement = Statement::new;
    match query {
        ReceiptQuery::TakeDue => vec![
            statement(include_str!("../../src/queries/take_due.sql"))
                .bind(DAY)
                .bind(100),
            statement(include_str!("../../src/queries/move_due.sql"))
                .bind(DAY)
                .bind(1),
        ],
        ReceiptQuery::Delete => {
            vec![statement(include_str!("../../src/queries/delete.sql")).bind("t000001")]
        }
        ReceiptQuery::Purge => vec![
            statement(include_str!("../../src/queries/purge.sql"))
                .bind(DAY + 100_000_000)
                .bind(100),
        ],
        ReceiptQuery::EraseOwner => {
            vec![statement(include_str!("../../src/queries/erase_owner.sql")).bind(vec![1; 16])]
        }
        other => panic!("no statements for {other:?}"),
    }
}
