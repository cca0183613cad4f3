//! The shared suite, each test on a file of its own.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use duebox_adapter_sqlx_sqlite::SqlxSqlite;
use duebox_conformance::{Harness, Hook, Plan, Sandbox};
use duebox_core::{Database, DbError, Dialect, Outbox, Statement};

duebox_conformance::main!(Files);

struct Files;

#[async_trait]
impl Harness for Files {
    fn name(&self) -> String {
        "sqlx_sqlite".into()
    }

    // Nobody can cut a file off, or lock one row of it.
    fn hooks(&self) -> &'static [Hook] {
        &[Hook::Explain]
    }

    async fn open(&self) -> Box<dyn Sandbox> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let folder = folder.join(format!("sqlx-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for a test");
        let database = SqlxSqlite::open(folder.join("test.db")).await;
        let database = database.expect("a new database");
        Box::new(Folder { folder, database })
    }
}

struct Folder {
    folder: PathBuf,
    database: SqlxSqlite,
}

#[async_trait]
impl Sandbox for Folder {
    fn database(&self) -> Arc<dyn Database> {
        Arc::new(self.database.clone())
    }

    async fn another(&self) -> Arc<dyn Database> {
        let database = SqlxSqlite::open(self.folder.join("test.db")).await;
        Arc::new(database.expect("the file once more"))
    }

    async fn migrate_outbox(&self, outbox: &Outbox) -> Result<(), DbError> {
        self.database.migrate_outbox(outbox).await
    }

    async fn explain(&self, statement: &Statement) -> Plan {
        let rendered = statement.render(Dialect::Sqlite).expect("a statement");
        let mut explain = Statement::new(format!("EXPLAIN QUERY PLAN {}", rendered.sql()));
        for value in rendered.values() {
            explain = explain.bind(value.clone());
        }
        let rows = self.database.query(&explain).await.expect("a plan");
        let lines: Result<Vec<String>, _> = rows.iter().map(|row| row.get("detail")).collect();
        plan(&lines.expect("lines of a plan"))
    }

    async fn close(self: Box<Self>) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Reads lines such as `SEARCH outbox USING INDEX outbox_due (visible_at<?)`.
fn plan(lines: &[String]) -> Plan {
    let mut plan = Plan {
        text: lines.join("\n"),
        ..Plan::default()
    };
    for line in lines {
        let reads_all = line.starts_with("SCAN ") && !line.contains(" USING ");
        plan.scans |= reads_all && !line.contains("VIRTUAL TABLE");
        plan.sorts |= line.starts_with("USE TEMP B-TREE");
        let name = |using| Some(line.split_once(using)?.1.split(' ').next()?.to_owned());
        let index = name("USING INDEX ").or_else(|| name("USING COVERING INDEX "));
        match index {
            // A key that was given no name of its own, and the rowid.
            Some(name) if name.starts_with("sqlite_autoindex_") && name.ends_with("_1") => {
                plan.indexes.push("primary".into());
            }
            Some(name) => plan.indexes.push(name),
            None if line.contains(" USING INTEGER PRIMARY KEY ") => {
                plan.indexes.push("primary".into());
            }
            None => {}
        }
    }
    plan
}
