use std::time::SystemTime;

use duebox_core::chrono::{DateTime, Utc};
use duebox_core::{DbError, Dialect, Kind, Outbox, format_time};
use duebox_migrations::{
    BOOKKEEPING_APPLIED, BOOKKEEPING_CREATE, BOOKKEEPING_RECORD, Lock, Migration,
};
use rusqlite::Connection;

use crate::{SqliteDatabase, error};

impl SqliteDatabase {
    /// Applies the shipped migrations: the tables `outbox` and
    /// `pending_receipts`.
    ///
    /// It may run in every process at every start: it waits for another that
    /// does the same, and does nothing where all is done. A schema that another
    /// tool applied is recognised by its columns and indexes. What was applied
    /// is noted in the table `duebox_migrations`.
    ///
    /// # Errors
    ///
    /// [`Kind::Schema`] if a table of the name is there and lacks a column or an
    /// index; otherwise what the database says. After an error nothing was
    /// applied, unless its [`outcome`](DbError::outcome) is unknown.
    pub async fn migrate(&self) -> Result<(), DbError> {
        self.apply(duebox_migrations::all(Dialect::Sqlite), None)
            .await
    }

    /// Like [`migrate`](Self::migrate), for the table of this outbox only.
    ///
    /// # Errors
    ///
    /// Those of [`migrate`](Self::migrate).
    pub async fn migrate_outbox(&self, outbox: &Outbox) -> Result<(), DbError> {
        let table = outbox.table().to_owned();
        self.apply(duebox_migrations::outbox(Dialect::Sqlite), Some(table))
            .await
    }

    async fn apply(
        &self,
        migrations: &'static [Migration],
        table: Option<String>,
    ) -> Result<(), DbError> {
        let run = move |conn: &mut Connection| {
            // Whatever is open after an error is rolled back by `with_connection`.
            let Lock { take, release } = duebox_migrations::lock(Dialect::Sqlite);
            let change = || -> Result<(), DbError> {
                take.iter().try_for_each(|sql| run(conn, sql))?;
                run(conn, BOOKKEEPING_CREATE)?;
                for migration in migrations {
                    let table = table.as_deref().unwrap_or(migration.table());
                    apply_one(conn, migration, table)?;
                }
                Ok(())
            };
            change().map_err(DbError::not_applied)?;
            release.iter().try_for_each(|sql| run(conn, sql))
        };
        let done = self.with_connection(run).await;
        done.and_then(|done| done)
            .map_err(|error| error.context("migrate"))
    }
}

fn apply_one(conn: &Connection, migration: &Migration, table: &str) -> Result<(), DbError> {
    let noted = is_noted(conn, migration, table).map_err(|error| error::sort(&error))?;
    let columns = columns(conn, table).map_err(|error| error::sort(&error))?;
    if columns.is_empty() || (!noted && adds_columns(migration, table, &columns)?) {
        for statement in duebox_migrations::split(&migration.render(table)) {
            run(conn, statement)?;
        }
    } else if !noted {
        has_indexes(conn, migration, table)?;
    }
    if noted {
        return Ok(());
    }
    let now: DateTime<Utc> = SystemTime::now().into();
    conn.execute(
        BOOKKEEPING_RECORD,
        (table, migration.number, migration.name, format_time(now)?),
    )
    .map(drop)
    .map_err(|error| error::sort(&error))
}

/// Whether the step has yet to be applied to a table that is there.
fn adds_columns(migration: &Migration, table: &str, columns: &[String]) -> Result<bool, DbError> {
    let has = |name: &&str| columns.iter().any(|column| column == name);
    let Some(missing) = migration.expected_columns().iter().find(|name| !has(name)) else {
        return Ok(false);
    };
    if migration.number == first_of(migration) {
        return Err(DbError::new(
            Kind::Schema,
            format!("table \"{table}\" is there without the column \"{missing}\""),
        ));
    }
    Ok(true)
}

/// The step that makes the table; later ones add to it.
fn first_of(migration: &Migration) -> u32 {
    duebox_migrations::all(Dialect::Sqlite)
        .iter()
        .filter(|other| other.table() == migration.table())
        .map(|other| other.number)
        .min()
        .unwrap_or(migration.number)
}

fn is_noted(conn: &Connection, migration: &Migration, table: &str) -> rusqlite::Result<bool> {
    let mut applied = conn.prepare_cached(BOOKKEEPING_APPLIED)?;
    let mut numbers = applied.query([table])?;
    while let Some(row) = numbers.next()? {
        if row.get::<_, u32>(0)? == migration.number {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The columns of a table, generated ones too; none if it is not there.
fn columns(conn: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    let (schema, name) = split(table);
    let mut names = conn.prepare("SELECT name FROM pragma_table_xinfo(?, ?)")?;
    names.query_map((name, schema), |row| row.get(0))?.collect()
}

fn has_indexes(conn: &Connection, migration: &Migration, table: &str) -> Result<(), DbError> {
    let (schema, name) = split(table);
    let found = || -> rusqlite::Result<Vec<String>> {
        let mut indexes = conn.prepare(
            "SELECT (
                 SELECT group_concat(name, ', ' ORDER BY seqno)
                 FROM pragma_index_info(list.name, ?2)
             )
             FROM pragma_index_list(?1, ?2) AS list",
        )?;
        indexes
            .query_map((name, schema), |row| row.get::<_, Option<String>>(0))?
            .map(|columns| Ok(columns?.unwrap_or_default()))
            .collect()
    };
    let found = found().map_err(|error| error::sort(&error))?;
    for wanted in migration.expected_indexes() {
        let wanted = wanted.join(", ");
        if !found.iter().any(|columns| columns.starts_with(&wanted)) {
            return Err(DbError::new(
                Kind::Schema,
                format!("table \"{table}\" is there without an index on ({wanted})"),
            ));
        }
    }
    Ok(())
}

fn split(table: &str) -> (Option<&str>, &str) {
    match table.split_once('.') {
        Some((schema, name)) => (Some(schema), name),
        None => (None, table),
    }
}

fn run(conn: &Connection, sql: &str) -> Result<(), DbError> {
    conn.execute_batch(sql).map_err(|error| error::sort(&error))
}
