//! The shared suite on PostgreSQL, through each of the drivers.

#[path = "conformance/receipts.rs"]
mod receipts;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use duebox_conformance::{Harness, Hook, Plan, ReceiptHarness, Sandbox};
use duebox_postgres::{
    Database, DbError, Outbox, PostgresDatabase, PostgresOptions, Statement, tokio_postgres,
};

#[cfg(not(feature = "sqlx"))]
duebox_conformance::main!(TokioPostgres);
#[cfg(feature = "sqlx")]
duebox_conformance::main!(TokioPostgres, sqlx_postgres::Sqlx);

const VARIABLE: &str = "DUEBOX_TEST_POSTGRES_URL";

fn url() -> Option<String> {
    std::env::var(VARIABLE).ok().filter(|url| !url.is_empty())
}

fn unavailable() -> Option<String> {
    url()
        .is_none()
        .then(|| format!("no server: set {VARIABLE}"))
}

/// A schema of its own for each test, which its connections have as their path.
struct Schema {
    name: String,
    admin: tokio_postgres::Client,
}

impl Schema {
    async fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("suite_{}_{number}", std::process::id());
        let admin = admin().await;
        let sql = format!("DROP SCHEMA IF EXISTS {name} CASCADE; CREATE SCHEMA {name}");
        admin.batch_execute(&sql).await.expect("make a schema");
        Self { name, admin }
    }

    /// A URL by which connections work in this schema and bear its name.
    fn url(&self) -> String {
        let url = url().expect("a server");
        let separator = if url.contains('?') { '&' } else { '?' };
        format!(
            "{url}{separator}options=-c%20search_path%3D{0}&application_name={0}",
            self.name
        )
    }

    async fn cut(&self) {
        let sql = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = $1";
        self.admin
            .execute(sql, &[&self.name])
            .await
            .expect("end the connections");
    }

    async fn lock(&self, table: &str, id: &str) -> Box<dyn Send> {
        let client = admin().await;
        let table = if table.contains('.') {
            table.to_owned()
        } else {
            format!("{}.{table}", self.name)
        };
        client.batch_execute("BEGIN").await.expect("begin");
        let sql = format!("SELECT 1 FROM {table} WHERE id = $1 FOR UPDATE");
        client.query_one(&sql, &[&id]).await.expect("lock a row");
        Box::new(client)
    }

    async fn drop(self) {
        let sql = format!("DROP SCHEMA {} CASCADE", self.name);
        self.admin
            .batch_execute(&sql)
            .await
            .expect("drop the schema");
    }
}

async fn admin() -> tokio_postgres::Client {
    let url = url().expect("a server");
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls)
        .await
        .expect("connect");
    tokio::spawn(connection);
    client
}

/// What a plan says of indexes, sorting and scanning.
async fn explain(db: &dyn Database, statement: &Statement) -> Plan {
    let sql = statement.sql().expect("a statement").to_owned();
    let mut explained = Statement::new(format!("EXPLAIN (COSTS OFF) {sql}"));
    for value in statement.values().expect("its values") {
        explained = explained.bind(value.clone());
    }
    let rows = db.query(&explained).await.expect("a plan");
    let lines: Vec<String> = rows
        .iter()
        .map(|row| row.get("QUERY PLAN").expect("a line"))
        .collect();
    let mut plan = Plan {
        text: lines.join("\n"),
        ..Plan::default()
    };
    for line in &lines {
        let line = line.trim_start_matches([' ', '-', '>']);
        if line.starts_with("Sort") && !line.starts_with("Sort Key") {
            plan.sorts = true;
        }
        if line.starts_with("Seq Scan") {
            plan.scans = true;
        }
        let index = line
            .split_once(" using ")
            .or_else(|| line.split_once("Bitmap Index Scan on "));
        if let Some((_, index)) = index {
            let name = index.split(' ').next().unwrap_or(index);
            plan.indexes.push(if name.ends_with("_pkey") {
                "primary".into()
            } else {
                name.to_owned()
            });
        }
    }
    plan
}

struct TokioPostgres;

#[async_trait]
impl Harness for TokioPostgres {
    fn name(&self) -> String {
        "postgres".into()
    }

    fn unavailable(&self) -> Option<String> {
        unavailable()
    }

    fn hooks(&self) -> &'static [Hook] {
        &[Hook::Explain, Hook::Cut, Hook::Lock]
    }

    fn receipts(&self) -> Option<Arc<dyn ReceiptHarness>> {
        Some(Arc::new(receipts::Receipts(receipts::TokioPostgres)))
    }

    fn checks_suite(&self) -> bool {
        true
    }

    async fn open(&self) -> Box<dyn Sandbox> {
        let schema = Schema::new().await;
        let database = connect(&schema).await;
        Box::new(OnTokioPostgres { schema, database })
    }
}

async fn connect(schema: &Schema) -> PostgresDatabase {
    let options = PostgresOptions::new(&schema.url())
        .expect("a URL")
        .max_connections(8);
    options.connect().await.expect("connect")
}

struct OnTokioPostgres {
    schema: Schema,
    database: PostgresDatabase,
}

#[async_trait]
impl Sandbox for OnTokioPostgres {
    fn database(&self) -> Arc<dyn Database> {
        Arc::new(self.database.clone())
    }

    async fn another(&self) -> Arc<dyn Database> {
        Arc::new(connect(&self.schema).await)
    }

    async fn migrate_outbox(&self, outbox: &Outbox) -> Result<(), DbError> {
        self.database.migrate_outbox(outbox).await
    }

    async fn explain(&self, statement: &Statement) -> Plan {
        explain(&self.database, statement).await
    }

    async fn cut(&self) {
        self.schema.cut().await;
    }

    async fn lock(&self, table: &str, id: &str) -> Box<dyn Send> {
        self.schema.lock(table, id).await
    }

    async fn close(self: Box<Self>) {
        self.database.pool().close();
        self.schema.drop().await;
    }
}

#[cfg(feature = "sqlx")]
mod sqlx_postgres {
    use duebox_postgres::SqlxPostgresDatabase;
    use duebox_postgres::sqlx::postgres::PgPoolOptions;

    use super::{
        Arc, Database, DbError, Harness, Hook, Outbox, Plan, ReceiptHarness, Sandbox, Schema,
        Statement, TokioPostgres, async_trait, explain, receipts, unavailable,
    };

    pub(crate) struct Sqlx;

    #[async_trait]
    impl Harness for Sqlx {
        fn name(&self) -> String {
            "sqlx".into()
        }

        fn unavailable(&self) -> Option<String> {
            unavailable()
        }

        fn hooks(&self) -> &'static [Hook] {
            TokioPostgres.hooks()
        }

        fn receipts(&self) -> Option<Arc<dyn ReceiptHarness>> {
            Some(Arc::new(receipts::Receipts(receipts::Sqlx)))
        }

        async fn open(&self) -> Box<dyn Sandbox> {
            let schema = Schema::new().await;
            let database = connect(&schema).await;
            Box::new(OnSqlx { schema, database })
        }
    }

    pub(crate) async fn connect(schema: &Schema) -> SqlxPostgresDatabase {
        let pool = PgPoolOptions::new()
            .max_connections(8)
            .connect(&schema.url())
            .await;
        SqlxPostgresDatabase::from_pool(pool.expect("connect"))
    }

    struct OnSqlx {
        schema: Schema,
        database: SqlxPostgresDatabase,
    }

    #[async_trait]
    impl Sandbox for OnSqlx {
        fn database(&self) -> Arc<dyn Database> {
            Arc::new(self.database.clone())
        }

        async fn another(&self) -> Arc<dyn Database> {
            Arc::new(connect(&self.schema).await)
        }

        async fn migrate_outbox(&self, outbox: &Outbox) -> Result<(), DbError> {
            self.database.migrate_outbox(outbox).await
        }

        async fn explain(&self, statement: &Statement) -> Plan {
            explain(&self.database, statement).await
        }

        async fn cut(&self) {
            self.schema.cut().await;
        }

        async fn lock(&self, table: &str, id: &str) -> Box<dyn Send> {
            self.schema.lock(table, id).await
        }

        async fn close(self: Box<Self>) {
            self.database.pool().close().await;
            self.schema.drop().await;
        }
    }
}
