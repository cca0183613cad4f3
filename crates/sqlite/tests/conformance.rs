//! The shared suite, on files with a write-ahead log and with a rollback
//! journal.

#[path = "conformance/receipts.rs"]
mod receipts;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use duebox_conformance::{Harness, Hook, Plan, ReceiptHarness, Sandbox};
use duebox_sqlite::rusqlite::{self, params_from_iter, types::Value as Bound};
use duebox_sqlite::{
    Database, DbError, Dialect, JournalMode, Outbox, SqliteDatabase, SqliteOptions, Statement,
    Value,
};

duebox_conformance::main!(
    Files(JournalMode::Wal, "sqlite"),
    Files(JournalMode::Delete, "sqlite_rollback_journal"),
);

struct Files(JournalMode, &'static str);

#[async_trait]
impl Harness for Files {
    fn name(&self) -> String {
        self.1.to_owned()
    }

    fn hooks(&self) -> &'static [Hook] {
        &[Hook::Explain]
    }

    fn receipts(&self) -> Option<Arc<dyn ReceiptHarness>> {
        Some(Arc::new(receipts::Receipts(self.0, self.1)))
    }

    fn checks_suite(&self) -> bool {
        self.1 == "sqlite"
    }

    async fn open(&self) -> Box<dyn Sandbox> {
        let folder = folder();
        let options = options(&folder, self.0);
        let database = options.clone().open().await.expect("a new database");
        Box::new(Folder {
            path: folder,
            options,
            database,
        })
    }
}

/// A new folder for one test.
fn folder() -> PathBuf {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("conformance-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for a test");
    folder
}

fn options(folder: &Path, journal_mode: JournalMode) -> SqliteOptions {
    SqliteOptions::new(folder.join("test.db")).journal_mode(journal_mode)
}

fn remove(folder: PathBuf) {
    // A thread of a handle may be at the files still; what is left is in the target folder.
    let _ = std::fs::remove_dir_all(folder);
}

struct Folder {
    path: PathBuf,
    options: SqliteOptions,
    database: SqliteDatabase,
}

#[async_trait]
impl Sandbox for Folder {
    fn database(&self) -> Arc<dyn Database> {
        Arc::new(self.database.clone())
    }

    async fn another(&self) -> Arc<dyn Database> {
        let options = self.options.clone();
        Arc::new(options.open().await.expect("the file once more"))
    }

    async fn migrate_outbox(&self, outbox: &Outbox) -> Result<(), DbError> {
        self.database.migrate_outbox(outbox).await
    }

    async fn explain(&self, statement: &Statement) -> Plan {
        explain(&self.database, statement).await
    }

    async fn close(self: Box<Self>) {
        let folder = self.path.clone();
        drop(self);
        remove(folder);
    }
}

/// How SQLite would run the statement.
async fn explain(database: &SqliteDatabase, statement: &Statement) -> Plan {
    let rendered = statement.render(Dialect::Sqlite).expect("a statement");
    let sql = format!("EXPLAIN QUERY PLAN {}", rendered.sql());
    let values: Vec<Bound> = rendered.values().iter().map(bound).collect();
    let explain = move |conn: &mut rusqlite::Connection| -> rusqlite::Result<Vec<String>> {
        let mut explain = conn.prepare(&sql)?;
        let lines = explain.query_map(params_from_iter(values), |row| row.get("detail"))?;
        lines.collect()
    };
    let lines = database.with_connection(explain).await;
    plan(&lines.expect("a connection").expect("a plan"))
}

fn bound(value: &Value) -> Bound {
    match value {
        Value::Null => Bound::Null,
        Value::Bool(truth) => Bound::Integer((*truth).into()),
        Value::Integer(number) => Bound::Integer(*number),
        Value::Real(number) => Bound::Real(*number),
        Value::Text(text) => Bound::Text(text.clone()),
        Value::Bytes(bytes) => Bound::Blob(bytes.clone()),
        _ => panic!("a value that SQLite has no type for"),
    }
}

/// Reads lines such as `SEARCH outbox USING INDEX outbox_due (visible_at<?)`.
fn plan(lines: &[String]) -> Plan {
    let mut plan = Plan {
        text: lines.join("\n"),
        ..Plan::default()
    };
    for line in lines {
        let virtual_table = line.contains("VIRTUAL TABLE");
        if line.starts_with("SCAN ") && !line.contains(" USING ") && !virtual_table {
            plan.scans = true;
        }
        if line.starts_with("USE TEMP B-TREE") {
            plan.sorts = true;
        }
        if line.contains(" USING INTEGER PRIMARY KEY ") {
            // The rowid, which is what every other index leads to.
            plan.indexes.push("primary".to_owned());
        }
        let index = ["USING INDEX ", "USING COVERING INDEX "]
            .iter()
            .find_map(|using| line.split_once(using));
        if let Some((_, rest)) = index {
            let name = rest.split(' ').next().unwrap_or(rest);
            plan.indexes.push(match name {
                // What SQLite calls the index of a key that was given no name of its own.
                name if name.starts_with("sqlite_autoindex_") && name.ends_with("_1") => {
                    "primary".to_owned()
                }
                name => name.to_owned(),
            });
        }
    }
    plan
}
