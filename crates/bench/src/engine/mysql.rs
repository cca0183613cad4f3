mod tickets;

use std::str::FromStr;
use std::sync::Arc;

use async_trait::async_trait;
use duebox_mysql::sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlRow};
use duebox_mysql::sqlx::{self, AssertSqlSafe, ConnectOptions, Connection, Executor, Row};
use duebox_mysql::{Database, MySqlDatabase, MySqlOptions, Outbox, Statement};

use super::{
    Engine, Fallible, HOLDER, Hand, Job, NOW, NewRow, Place, SESSIONS, Scratch, Seed, TOPIC, UNTIL,
    payload,
};

/// MySQL or MariaDB.
pub(crate) struct MySql {
    url: String,
    db: MySqlDatabase,
}

impl MySql {
    pub(crate) async fn new(url: &str) -> Fallible<Self> {
        let sessions = u32::try_from(SESSIONS)?;
        let options = MySqlOptions::new(url)?.max_connections(sessions);
        Ok(Self {
            url: url.to_owned(),
            db: options.connect().await?,
        })
    }

    async fn settle_table(&self, table: &str) -> Fallible<()> {
        let analyze = Statement::new(format!("ANALYZE TABLE {table}"));
        self.db.query(&analyze).await?;
        Ok(())
    }

    async fn connection(&self) -> Fallible<MySqlConnection> {
        let options = MySqlConnectOptions::from_str(&self.url)?.disable_statement_logging();
        let mut connection = options.connect().await?;
        connection
            .execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
            .await?;
        Ok(connection)
    }
}

#[async_trait]
impl Engine for MySql {
    async fn version(&self) -> Fallible<String> {
        let rows = self
            .db
            .query(&Statement::new("SELECT VERSION() AS version"))
            .await?;
        let version: String = rows.first().ok_or("no version")?.get("version")?;
        let name = if version.contains("MariaDB") {
            "MariaDB"
        } else {
            "MySQL"
        };
        Ok(format!("{name} {}", version.replace("-MariaDB", "")))
    }

    async fn place(&self, name: &str) -> Fallible<Place> {
        let outbox = Outbox::new(name);
        self.db.migrate_outbox(&outbox).await?;
        self.db
            .execute(&Statement::new(format!("TRUNCATE TABLE {name}")))
            .await?;
        Ok(Place {
            db: Arc::new(self.db.clone()),
            outbox,
            file: Scratch::default(),
        })
    }

    async fn seed(&self, place: &Place, seed: Seed) -> Fallible<()> {
        const CHUNK: u64 = 100_000;
        let time = |base| {
            format!(
                "CONCAT(DATE_FORMAT(DATE_ADD('{base}.000000', INTERVAL n * 1000 MICROSECOND), \
                 '%Y-%m-%dT%H:%i:%s.%f'), 'Z')"
            )
        };
        let due = time(seed.due);
        let (lease, claims) = match seed.leased {
            Some(until) => (time(until), 1),
            None => ("NULL".to_owned(), 0),
        };
        let digits = "(SELECT 0 AS d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 \
                      UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 \
                      UNION ALL SELECT 8 UNION ALL SELECT 9)";
        // A recursion is limited to a thousand rows here.
        let sql = format!(
            "INSERT INTO {} (id, topic, payload, created_at, next_attempt_at, locked_until, claims)
            SELECT CONCAT('01J', LPAD(n + ?, 23, '0')), ?, ?, {due}, {due}, {lease}, {claims}
            FROM (
                SELECT ? + a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d AS n
                FROM {digits} AS a, {digits} AS b, {digits} AS c, {digits} AS e, {digits} AS f
            ) AS seq
            WHERE n < ?
            ORDER BY n",
            place.outbox.table()
        );
        for chunk in 0..seed.count.div_ceil(CHUNK) {
            let statement = Statement::new(sql.clone())
                .bind(i64::try_from(seed.first)?)
                .bind(TOPIC)
                .bind(payload())
                .bind(i64::try_from(chunk * CHUNK)?)
                .bind(i64::try_from(seed.count)?);
            place.db.execute(&statement).await?;
        }
        Ok(())
    }

    async fn settle(&self, place: &Place) -> Fallible<()> {
        self.settle_table(place.outbox.table()).await
    }

    async fn hand(&self, place: &Place, batch: u64) -> Fallible<Box<dyn Hand>> {
        let table = place.outbox.table();
        let due = format!(
            "SELECT id, topic, payload, subject, attempts, created_at FROM {table} \
             FORCE INDEX ({table}_due) WHERE visible_at <= ? ORDER BY visible_at, id LIMIT {batch}"
        );
        Ok(Box::new(MySqlHand {
            connection: self.connection().await?,
            claim: format!("{due} FOR UPDATE SKIP LOCKED"),
            look: due,
            table: table.to_owned(),
        }))
    }

    async fn hold(&self, _place: &Place) -> Fallible<Box<dyn Send>> {
        let mut connection = self.connection().await?;
        for sql in [
            "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
            "START TRANSACTION WITH CONSISTENT SNAPSHOT",
        ] {
            connection.execute(sql).await?;
        }
        Ok(Box::new(connection))
    }
}

struct MySqlHand {
    connection: MySqlConnection,
    table: String,
    claim: String,
    look: String,
}

fn job(row: &MySqlRow) -> Result<Job, sqlx::Error> {
    Ok(Job {
        rowid: 0,
        id: row.try_get(0)?,
        read: (
            row.try_get(1)?,
            row.try_get(2)?,
            row.try_get(3)?,
            row.try_get(4)?,
            row.try_get(5)?,
        ),
    })
}

fn ids(count: usize) -> String {
    let mut list = "?,".repeat(count);
    list.pop();
    list
}

#[async_trait]
impl Hand for MySqlHand {
    async fn claim(&mut self) -> Fallible<Vec<Job>> {
        let mut tx = self.connection.begin().await?;
        let rows = sqlx::query(AssertSqlSafe(&*self.claim))
            .bind(NOW)
            .fetch_all(&mut *tx)
            .await?;
        let jobs: Vec<Job> = rows.iter().map(job).collect::<Result<_, _>>()?;
        if !jobs.is_empty() {
            let sql = format!(
                "UPDATE {} SET locked_until = ?, locked_by = ?, claims = claims + 1 \
                 WHERE id IN ({})",
                self.table,
                ids(jobs.len())
            );
            let mut lease = sqlx::query(AssertSqlSafe(sql)).bind(UNTIL).bind(HOLDER);
            for job in &jobs {
                lease = lease.bind(&job.id);
            }
            lease.execute(&mut *tx).await?;
        }
        tx.commit().await?;
        Ok(jobs)
    }

    async fn complete(&mut self, jobs: &[Job]) -> Fallible<()> {
        let sql = format!(
            "DELETE FROM {} WHERE id IN ({})",
            self.table,
            ids(jobs.len())
        );
        let mut delete = sqlx::query(AssertSqlSafe(sql));
        for job in jobs {
            delete = delete.bind(&job.id);
        }
        delete.execute(&mut self.connection).await?;
        Ok(())
    }

    async fn look(&mut self) -> Fallible<Vec<Job>> {
        let rows = sqlx::query(AssertSqlSafe(&*self.look))
            .bind(NOW)
            .fetch_all(&mut self.connection)
            .await?;
        Ok(rows.iter().map(job).collect::<Result<_, _>>()?)
    }

    async fn take(&mut self, job: &Job) -> Fallible<bool> {
        let sql = format!(
            "UPDATE {} SET locked_until = ?, locked_by = ?, claims = claims + 1 \
             WHERE id = ? AND visible_at <= ?",
            self.table
        );
        let done = sqlx::query(AssertSqlSafe(sql))
            .bind(UNTIL)
            .bind(HOLDER)
            .bind(&job.id)
            .bind(NOW)
            .execute(&mut self.connection)
            .await?;
        Ok(done.rows_affected() == 1)
    }

    async fn complete_one(&mut self, job: &Job) -> Fallible<()> {
        let sql = format!("DELETE FROM {} WHERE id = ?", self.table);
        sqlx::query(AssertSqlSafe(sql))
            .bind(&job.id)
            .execute(&mut self.connection)
            .await?;
        Ok(())
    }

    async fn enqueue(&mut self, row: &NewRow) -> Fallible<()> {
        self.enqueue_many(std::slice::from_ref(row)).await
    }

    async fn enqueue_many(&mut self, rows: &[NewRow]) -> Fallible<()> {
        let mut sql = format!(
            "INSERT INTO {} (id, topic, payload, subject, created_at, next_attempt_at) VALUES ",
            self.table
        );
        sql.push_str(&"(?, ?, ?, NULL, ?, ?),".repeat(rows.len()));
        sql.pop();
        let mut insert = sqlx::query(AssertSqlSafe(sql));
        for row in rows {
            insert = insert
                .bind(&row.id)
                .bind(TOPIC)
                .bind(&row.payload)
                .bind(&row.at)
                .bind(&row.at);
        }
        insert.execute(&mut self.connection).await?;
        Ok(())
    }
}
