//! The shared suite on MySQL and on MariaDB.

#[path = "common/mod.rs"]
#[allow(
    dead_code,
    reason = "shared with the other tests, which use more of it"
)]
mod common;
#[path = "conformance/receipts.rs"]
mod receipts;

use std::fmt::Write;
use std::sync::Arc;

use async_trait::async_trait;
use duebox_conformance::{Harness, Hook, Plan, ReceiptHarness, Sandbox};
use duebox_mysql::sqlx::{self, AssertSqlSafe};
use duebox_mysql::{Database, DbError, Dialect, MySqlDatabase, Outbox, Statement};

use self::common::{SERVERS, Server, TestDatabase, run};

duebox_conformance::main!(OnServer(SERVERS[0]), OnServer(SERVERS[1]));

#[derive(Clone, Copy)]
struct OnServer(Server);

#[async_trait]
impl Harness for OnServer {
    fn name(&self) -> String {
        self.0.name.into()
    }

    fn unavailable(&self) -> Option<String> {
        self.0.unavailable()
    }

    fn hooks(&self) -> &'static [Hook] {
        &[Hook::Explain, Hook::Cut, Hook::Lock]
    }

    fn receipts(&self) -> Option<Arc<dyn ReceiptHarness>> {
        Some(Arc::new(*self))
    }

    async fn open(&self) -> Box<dyn Sandbox> {
        let of = TestDatabase::new(self.0, "").await;
        let database = of.connect(8).await;
        Box::new(OnMySql { of, database })
    }
}

struct OnMySql {
    of: TestDatabase,
    database: MySqlDatabase,
}

#[async_trait]
impl Sandbox for OnMySql {
    fn database(&self) -> Arc<dyn Database> {
        Arc::new(self.database.clone())
    }

    async fn another(&self) -> Arc<dyn Database> {
        Arc::new(self.of.connect(8).await)
    }

    async fn migrate_outbox(&self, outbox: &Outbox) -> Result<(), DbError> {
        self.database.migrate_outbox(outbox).await
    }

    async fn explain(&self, statement: &Statement) -> Plan {
        explain(&self.database, statement).await
    }

    async fn cut(&self) {
        self.of.cut().await;
    }

    async fn lock(&self, table: &str, id: &str) -> Box<dyn Send> {
        let mut connection = self.of.raw().await;
        run(&mut connection, "BEGIN").await;
        let sql = format!("SELECT id FROM {table} WHERE id = ? FOR UPDATE");
        sqlx::query(AssertSqlSafe(sql))
            .bind(id)
            .fetch_one(&mut connection)
            .await
            .expect("lock a row");
        Box::new(connection)
    }

    async fn close(self: Box<Self>) {
        self.database.pool().close().await;
        self.of.drop().await;
    }
}

/// What a plan says of indexes, sorting and scanning, a line a table.
async fn explain(db: &dyn Database, statement: &Statement) -> Plan {
    let rendered = statement.render(Dialect::MySql).expect("a statement");
    let mut explained = Statement::new(format!("EXPLAIN FORMAT=TRADITIONAL {}", rendered.sql()));
    for value in rendered.values() {
        explained = explained.bind(value.clone());
    }
    let mut plan = Plan::default();
    for row in db.query(&explained).await.expect("a plan") {
        let text = |name: &str| {
            row.get::<Option<String>>(name)
                .ok()
                .flatten()
                .unwrap_or_default()
        };
        let (kind, key, extra) = (text("type"), text("key"), text("Extra"));
        plan.sorts |= extra.contains("filesort");
        // What a subquery returned is no table, nor is a list that came with the statement.
        let list = text("table").starts_with('<') || extra.contains("Table function");
        plan.scans |= kind == "ALL" && !list;
        match key.as_str() {
            "" => {}
            "PRIMARY" => plan.indexes.push("primary".into()),
            name => plan.indexes.push(name.into()),
        }
        let table = text("table");
        // Writing to a String cannot fail.
        let _ = writeln!(
            plan.text,
            "table {table} type {kind} key {key} extra {extra}"
        );
    }
    plan
}
