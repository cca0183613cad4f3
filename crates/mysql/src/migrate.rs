use duebox_core::{DbError, Dialect, Kind, Outbox, Row, Statement};
use duebox_migrations::{
    BOOKKEEPING_APPLIED, BOOKKEEPING_CREATE, BOOKKEEPING_RECORD, BOOKKEEPING_TABLE, Migration,
    lock, split,
};

use crate::MySqlDatabase;
use crate::error::Failure;
use crate::session::{Session, execute, query};

/// # Migrations
///
/// Each may run at every start, in many processes at once: a named lock of the
/// server lets one after the other work. MySQL and MariaDB commit at each DDL
/// statement, so what was applied before an error stays, and the next run goes
/// on from there.
impl MySqlDatabase {
    /// Makes the tables `outbox` and `pending_receipts`, unless they are there.
    ///
    /// Tables that another tool made are recognised by their columns.
    ///
    /// # Errors
    ///
    /// [`Kind::Schema`] if a table of that name lacks a column or an index that
    /// the outbox needs, [`Kind::Busy`] if another session migrates for longer
    /// than a minute; otherwise what the database says.
    pub async fn migrate(&self) -> Result<(), DbError> {
        let outbox = duebox_migrations::outbox(Dialect::MySql);
        let receipts = duebox_migrations::receipts(Dialect::MySql);
        self.apply(&[("outbox", outbox), ("pending_receipts", receipts)])
            .await
    }

    /// Makes the table of this outbox, unless it is there.
    ///
    /// # Errors
    ///
    /// As [`migrate`](Self::migrate).
    pub async fn migrate_outbox(&self, outbox: &Outbox) -> Result<(), DbError> {
        let migrations = duebox_migrations::outbox(Dialect::MySql);
        self.apply(&[(outbox.table(), migrations)]).await
    }

    async fn apply(&self, targets: &[(&str, &[Migration])]) -> Result<(), DbError> {
        let run = async {
            let mut session = self.session(&[]).await?;
            take_lock(&mut session).await?;
            // `IF NOT EXISTS` wants the privilege to create even where it exists.
            if columns(&mut session, BOOKKEEPING_TABLE).await?.is_empty() {
                run(&mut session, BOOKKEEPING_CREATE.to_owned(), &[])
                    .await
                    .map_err(|failure| {
                        let doing = format!("see or make the table {BOOKKEEPING_TABLE:?}");
                        failure.map(|error| error.context(doing))
                    })?;
            }
            for (table, migrations) in targets {
                apply_to(&mut session, table, migrations).await?;
            }
            for release in lock(Dialect::MySql).release {
                rows(&mut session, release, &[]).await?;
            }
            session.settle();
            Ok(())
        };
        // After an error the session is closed, which releases the lock.
        let answer: Result<(), Failure> = run.await;
        answer.map_err(|failure| failure.error.context("migrate the database"))
    }
}

async fn take_lock(session: &mut Session) -> Result<(), Failure> {
    for take in lock(Dialect::MySql).take {
        let answer = rows(session, take, &[]).await?;
        let taken = answer.first().and_then(|row| {
            let column = row.columns().next()?.to_owned();
            row.get::<i64>(&column).ok()
        });
        if taken != Some(1) {
            return Err(Failure::ours(
                DbError::new(
                    Kind::Busy,
                    "another session has migrated for longer than a minute",
                )
                .not_applied(),
            ));
        }
    }
    Ok(())
}

async fn apply_to(
    session: &mut Session,
    table: &str,
    migrations: &[Migration],
) -> Result<(), Failure> {
    let applied: Vec<u32> = rows(session, BOOKKEEPING_APPLIED, &[table])
        .await?
        .iter()
        .map(|row| row.get("number"))
        .collect::<Result<_, _>>()
        .map_err(Failure::ours)?;
    for (index, migration) in migrations.iter().enumerate() {
        // What was noted may have been dropped since.
        let noted = applied.contains(&migration.number);
        let found = columns(session, table).await?;
        let lacking = migration
            .expected_columns()
            .iter()
            .find(|column| !found.iter().any(|found| found == *column));
        match lacking {
            None if noted => {}
            None => check_indexes(session, table, migration).await?,
            // The first step makes the table; it cannot complete another's.
            Some(column) if index == 0 && !found.is_empty() => {
                return Err(Failure::ours(DbError::new(
                    Kind::Schema,
                    format!("table {table:?} is there without the column {column:?}"),
                )));
            }
            Some(_) => {
                for statement in split(&migration.render(table)) {
                    run(session, statement.to_owned(), &[]).await?;
                }
            }
        }
        if noted {
            continue;
        }
        let number = migration.number.to_string();
        let applied_at = utc(session).await?;
        run(
            session,
            BOOKKEEPING_RECORD.to_owned(),
            &[table, &number, migration.name, &applied_at],
        )
        .await?;
    }
    Ok(())
}

/// The table's columns, in lower case; none if there is no table.
async fn columns(session: &mut Session, table: &str) -> Result<Vec<String>, Failure> {
    let (schema, name) = parts(table);
    let sql = "\
SELECT LOWER(CONVERT(column_name USING utf8mb4)) AS name
FROM information_schema.columns
WHERE table_schema = COALESCE(NULLIF(?, ''), DATABASE())
    AND table_name = ?
ORDER BY ordinal_position";
    rows(session, sql, &[schema, name])
        .await?
        .iter()
        .map(|row| row.get("name").map_err(Failure::ours))
        .collect()
}

/// Claims name the due index, and erasure would be slow without the other.
async fn check_indexes(
    session: &mut Session,
    table: &str,
    migration: &Migration,
) -> Result<(), Failure> {
    let (schema, name) = parts(table);
    let sql = "\
SELECT
    CONVERT(index_name USING utf8mb4) AS name,
    LOWER(CONVERT(column_name USING utf8mb4)) AS part
FROM information_schema.statistics
WHERE table_schema = COALESCE(NULLIF(?, ''), DATABASE())
    AND table_name = ?
ORDER BY index_name, seq_in_index";
    // Not GROUP_CONCAT, which is cut at the session's group_concat_max_len.
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for row in rows(session, sql, &[schema, name]).await? {
        let name: String = row.get("name").map_err(Failure::ours)?;
        // An index on an expression has no column there.
        let part: Option<String> = row.get("part").map_err(Failure::ours)?;
        let part = part.unwrap_or_default();
        match found.last_mut() {
            Some((last, parts)) if *last == name => parts.push(part),
            _ => found.push((name, vec![part])),
        }
    }
    for index in migration.expected_indexes() {
        if !found.iter().any(|(_, parts)| parts == index) {
            let wanted = index.join(",");
            return Err(Failure::ours(DbError::new(
                Kind::Schema,
                format!("table {table:?} is there without an index on ({wanted})"),
            )));
        }
    }
    Ok(())
}

async fn utc(session: &mut Session) -> Result<String, Failure> {
    let sql = "SELECT DATE_FORMAT(UTC_TIMESTAMP(6), '%Y-%m-%dT%H:%i:%s.%fZ') AS now";
    let answer = rows(session, sql, &[]).await?;
    let row = answer
        .first()
        .ok_or_else(|| Failure::ours(DbError::new(Kind::Corrupt, "the clock gave no row")))?;
    row.get("now").map_err(Failure::ours)
}

fn parts(table: &str) -> (&str, &str) {
    table.split_once('.').unwrap_or(("", table))
}

fn bound(sql: String, values: &[&str]) -> Statement {
    values.iter().fold(Statement::new(sql), |statement, value| {
        statement.bind(*value)
    })
}

async fn run(session: &mut Session, sql: String, values: &[&str]) -> Result<(), Failure> {
    let statement = bound(sql, values);
    let statement = statement.render(Dialect::MySql).map_err(Failure::ours)?;
    execute(session.connection(), &statement).await.map(drop)
}

async fn rows(session: &mut Session, sql: &str, values: &[&str]) -> Result<Vec<Row>, Failure> {
    let statement = bound(sql.to_owned(), values);
    let statement = statement.render(Dialect::MySql).map_err(Failure::ours)?;
    query(session.connection(), &statement, None).await
}
