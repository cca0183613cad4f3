//! The stores of push receipts for the shared suite.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use duebox_conformance::{Change, Plan, ReceiptHarness, ReceiptHook, ReceiptQuery, ReceiptSandbox};
use duebox_mysql::sqlx;
use duebox_mysql::uuid::Uuid;
use duebox_mysql::{MySqlDatabase, PendingReceiptStore, PushTicketId, Statement};

use crate::common::{TestDatabase, run};
use crate::{OnServer, explain};

#[async_trait]
impl ReceiptHarness for OnServer {
    fn name(&self) -> String {
        self.0.name.into()
    }

    fn unavailable(&self) -> Option<String> {
        self.0.unavailable()
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
        let of = TestDatabase::new(self.0, "").await;
        let database = of.connect(8).await;
        database.migrate().await.expect("migrate");
        Box::new(Receipts {
            of,
            database,
            others: Mutex::default(),
        })
    }
}

struct Receipts {
    of: TestDatabase,
    database: MySqlDatabase,
    /// Handles beside it.
    others: Mutex<Vec<MySqlDatabase>>,
}

impl Receipts {
    async fn connect(&self) -> MySqlDatabase {
        let database = self.of.connect(8).await;
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        others.push(database.clone());
        database
    }

    async fn close_all(&self) {
        let others =
            std::mem::take(&mut *self.others.lock().unwrap_or_else(PoisonError::into_inner));
        for database in others {
            database.pool().close().await;
        }
        self.database.pool().close().await;
    }
}

#[async_trait]
impl ReceiptSandbox for Receipts {
    fn store(&self) -> Arc<dyn PendingReceiptStore> {
        Arc::new(self.database.receipts())
    }

    async fn another(&self) -> Arc<dyn PendingReceiptStore> {
        Arc::new(self.connect().await.receipts())
    }

    async fn reopen(&self) -> Arc<dyn PendingReceiptStore> {
        self.close_all().await;
        self.another().await
    }

    async fn damage(&self, ticket: &PushTicketId, text: &str) {
        let done = sqlx::query("UPDATE pending_receipts SET token = ? WHERE ticket = ?")
            .bind(text)
            .bind(ticket.as_str())
            .execute(&mut self.of.raw().await)
            .await
            .expect("damage a row");
        assert_eq!(done.rows_affected(), 1);
    }

    async fn break_down(&self) {
        run(&mut self.of.raw().await, "DROP TABLE pending_receipts").await;
    }

    async fn refuse(&self, change: Change, ticket: &PushTicketId) {
        let (event, row) = match change {
            Change::Insert => ("INSERT", "NEW"),
            Change::Update => ("UPDATE", "NEW"),
            Change::Delete => ("DELETE", "OLD"),
        };
        let ticket = ticket.as_str();
        let sql = format!(
            "CREATE TRIGGER refuse_{event} BEFORE {event} ON pending_receipts FOR EACH ROW \
             IF {row}.ticket = '{ticket}' THEN \
             SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'refused {ticket}'; END IF"
        );
        run(&mut self.of.raw().await, sql).await;
    }

    async fn cut(&self) {
        self.of.cut().await;
    }

    async fn lock(&self, ticket: &PushTicketId) -> Box<dyn Send> {
        let mut connection = self.of.raw().await;
        run(&mut connection, "BEGIN").await;
        let sql = "SELECT ticket FROM pending_receipts WHERE ticket = ? FOR UPDATE";
        sqlx::query(sql)
            .bind(ticket.as_str())
            .fetch_one(&mut connection)
            .await
            .expect("lock a row");
        Box::new(connection)
    }

    async fn explain(&self, query: ReceiptQuery) -> Vec<Plan> {
        const DAY: &str = "2026-03-01 12:00:00.000000";
        run(&mut self.of.raw().await, "ANALYZE TABLE pending_receipts").await;
        let tickets: Vec<_> = (0..100).map(|number| format!("t{number:06}")).collect();
        let array = format!("[\"{}\"]", tickets.join("\",\""));
        let delete = Statement::new(include_str!("../../src/queries/delete.sql")).bind(array);
        // In a list of the length that it is sent with.
        let list = ["?"; 128].join(", ");
        let move_due = include_str!("../../src/queries/move_due.sql").replace("{tickets}", &list);
        let mut move_due = Statement::new(move_due).bind(DAY);
        for number in 0..128 {
            move_due = move_due.bind(tickets[number.min(99)].as_str());
        }
        let statements = match query {
            ReceiptQuery::TakeDue => vec![
                Statement::new(include_str!("../../src/queries/take_due.sql"))
                    .bind(DAY)
                    .bind(100),
                move_due,
            ],
            ReceiptQuery::Delete => vec![delete],
            ReceiptQuery::Purge => vec![
                Statement::new(include_str!("../../src/queries/purge.sql"))
                    .bind(DAY)
                    .bind(100),
                delete,
            ],
            ReceiptQuery::EraseOwner => {
                let owner_id = Uuid::from_u128(7);
                let by = |sql| Statement::new(sql).bind(&owner_id.as_bytes()[..]);
                vec![
                    by(include_str!("../../src/queries/erase_owner_read.sql")),
                    delete,
                    // In the caller's own transaction.
                    by(include_str!("../../src/queries/erase_owner.sql")),
                ]
            }
            _ => panic!("no plan of {query:?}"),
        };
        let mut plans = Vec::new();
        for statement in &statements {
            plans.push(explain(&self.database, statement).await);
        }
        plans
    }

    async fn close(self: Box<Self>) {
        self.close_all().await;
        self.of.drop().await;
    }
}
