mod tickets;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use duebox_sqlite::rusqlite::{self, Connection, Row, TransactionBehavior};
use duebox_sqlite::{Outbox, SqliteDatabase, Statement};

use super::{
    Engine, Fallible, HOLDER, Hand, Job, NOW, NewRow, Place, Scratch, Seed, TOPIC, UNTIL, payload,
};

/// A file for each outbox, in a directory that is deleted in the end.
pub(crate) struct Sqlite {
    dir: PathBuf,
    files: AtomicU64,
}

impl Sqlite {
    pub(crate) fn new(parent: &Path) -> Fallible<Self> {
        let dir = parent.join(format!("duebox-bench-{}", std::process::id()));
        std::fs::create_dir_all(&dir)?;
        Ok(Self {
            dir,
            files: AtomicU64::new(0),
        })
    }

    /// A name that was not used before: a handle may still be closing the last
    /// file, and deletes its log then.
    fn new_file(&self, table: &str) -> Scratch {
        let number = self.files.fetch_add(1, Ordering::Relaxed);
        Scratch(self.dir.join(format!("{table}-{number}.db")))
    }
}

/// A connection that is set up as the library sets up its own.
fn connect(file: &Scratch) -> rusqlite::Result<Connection> {
    let conn = Connection::open(&file.0)?;
    conn.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA busy_timeout = 5000",
    )?;
    conn.set_prepared_statement_cache_capacity(64);
    Ok(conn)
}

fn checkpoint(file: &Scratch) -> Fallible<()> {
    let conn = connect(file)?;
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(())
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        // What is left is in a directory for temporary files.
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

#[async_trait]
impl Engine for Sqlite {
    async fn version(&self) -> Fallible<String> {
        Ok(format!("SQLite {}", rusqlite::version()))
    }

    async fn place(&self, name: &str) -> Fallible<Place> {
        let outbox = Outbox::new(name);
        let file = self.new_file(outbox.table());
        let db = SqliteDatabase::open(&file.0).await?;
        db.migrate_outbox(&outbox).await?;
        Ok(Place {
            db: Arc::new(db),
            outbox,
            file,
        })
    }

    async fn seed(&self, place: &Place, seed: Seed) -> Fallible<()> {
        let time = |base| {
            format!(
                "strftime('%Y-%m-%dT%H:%M:%S', '{base}', (n / 1000) || ' seconds') || printf('.%03d000Z', n % 1000)"
            )
        };
        let due = time(seed.due);
        let (lease, claims) = match seed.leased {
            Some(until) => (time(until), 1),
            None => ("NULL".to_owned(), 0),
        };
        let sql = format!(
            "WITH RECURSIVE seq (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM seq LIMIT ?)
            INSERT INTO {} (id, topic, payload, created_at, next_attempt_at, locked_until, claims)
            SELECT printf('01J%023d', n + ?), ?, ?, {due}, {due}, {lease}, {claims} FROM seq",
            place.outbox.table()
        );
        let statement = Statement::new(sql)
            .bind(i64::try_from(seed.count)?)
            .bind(i64::try_from(seed.first)?)
            .bind(TOPIC)
            .bind(payload());
        place.db.execute(&statement).await?;
        Ok(())
    }

    async fn settle(&self, place: &Place) -> Fallible<()> {
        checkpoint(&place.file)
    }

    async fn hand(&self, place: &Place, batch: u64) -> Fallible<Box<dyn Hand>> {
        let table = place.outbox.table();
        Ok(Box::new(SqliteHand {
            conn: connect(&place.file)?,
            batch: i64::try_from(batch)?,
            select: format!(
                "SELECT rowid, id, topic, payload, subject, attempts, created_at FROM {table} \
                 WHERE visible_at <= ? ORDER BY visible_at, id LIMIT ?"
            ),
            lease: format!(
                "UPDATE {table} SET locked_until = ?, locked_by = ?, claims = claims + 1 \
                 WHERE rowid = ?"
            ),
            take: format!(
                "UPDATE {table} SET locked_until = ?, locked_by = ?, claims = claims + 1 \
                 WHERE id = ? AND visible_at <= ?"
            ),
            delete: format!("DELETE FROM {table} WHERE id = ?"),
            insert: format!(
                "INSERT INTO {table} (id, topic, payload, subject, created_at, next_attempt_at) \
                 VALUES (?1, ?2, ?3, NULL, ?4, ?4)"
            ),
        }))
    }

    async fn hold(&self, place: &Place) -> Fallible<Box<dyn Send>> {
        let conn = connect(&place.file)?;
        conn.execute_batch("BEGIN")?;
        conn.query_row(
            &format!("SELECT COUNT(*) FROM {}", place.outbox.table()),
            [],
            |_| Ok(()),
        )?;
        Ok(Box::new(conn))
    }
}

/// Runs where it is called, as a program with nothing else to do would.
struct SqliteHand {
    conn: Connection,
    batch: i64,
    select: String,
    lease: String,
    take: String,
    delete: String,
    insert: String,
}

fn job(row: &Row<'_>) -> rusqlite::Result<Job> {
    Ok(Job {
        rowid: row.get(0)?,
        id: row.get(1)?,
        read: (
            row.get(2)?,
            row.get(3)?,
            row.get(4)?,
            row.get(5)?,
            row.get(6)?,
        ),
    })
}

fn select(conn: &Connection, sql: &str, batch: i64) -> rusqlite::Result<Vec<Job>> {
    let mut select = conn.prepare_cached(sql)?;
    select.query_map((NOW, batch), job)?.collect()
}

fn insert(conn: &Connection, sql: &str, row: &NewRow) -> rusqlite::Result<usize> {
    let mut insert = conn.prepare_cached(sql)?;
    insert.execute((&row.id, TOPIC, &row.payload, &row.at))
}

#[async_trait]
impl Hand for SqliteHand {
    async fn claim(&mut self) -> Fallible<Vec<Job>> {
        let tx = self
            .conn
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        let jobs = select(&tx, &self.select, self.batch)?;
        {
            let mut lease = tx.prepare_cached(&self.lease)?;
            for job in &jobs {
                lease.execute((UNTIL, HOLDER, job.rowid))?;
            }
        }
        tx.commit()?;
        Ok(jobs)
    }

    async fn complete(&mut self, jobs: &[Job]) -> Fallible<()> {
        let tx = self
            .conn
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        {
            let mut delete = tx.prepare_cached(&self.delete)?;
            for job in jobs {
                delete.execute([&job.id])?;
            }
        }
        tx.commit()?;
        Ok(())
    }

    async fn look(&mut self) -> Fallible<Vec<Job>> {
        Ok(select(&self.conn, &self.select, self.batch)?)
    }

    async fn take(&mut self, job: &Job) -> Fallible<bool> {
        let mut take = self.conn.prepare_cached(&self.take)?;
        Ok(take.execute((UNTIL, HOLDER, &job.id, NOW))? == 1)
    }

    async fn complete_one(&mut self, job: &Job) -> Fallible<()> {
        self.conn.prepare_cached(&self.delete)?.execute([&job.id])?;
        Ok(())
    }

    async fn enqueue(&mut self, row: &NewRow) -> Fallible<()> {
        insert(&self.conn, &self.insert, row)?;
        Ok(())
    }

    async fn enqueue_many(&mut self, rows: &[NewRow]) -> Fallible<()> {
        let tx = self
            .conn
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        for row in rows {
            insert(&tx, &self.insert, row)?;
        }
        tx.commit()?;
        Ok(())
    }
}
