use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use duebox_core::{Database, DbError, Dialect, Kind, Outbox, PendingReceiptStore, Statement};
use duebox_mysql::{MySqlDatabase, MySqlOptions};
use duebox_postgres::{PostgresDatabase, PostgresOptions};
use duebox_sqlite::SqliteDatabase;

use crate::args::Place;
use crate::error::CliError;

/// The database that the URL names.
#[derive(Debug)]
pub(crate) enum Engine {
    Sqlite(SqliteDatabase),
    Postgres(PostgresDatabase),
    MySql(MySqlDatabase),
}

/// What the migrations' bookkeeping knows.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) outboxes: Vec<Outbox>,
    pub(crate) receipts: bool,
}

impl Engine {
    /// Connects. An SQLite file must be there.
    pub(crate) async fn open(place: &Place) -> Result<Self, CliError> {
        Self::connect(place, false, place.limit(), 2).await
    }

    /// As [`open`](Self::open), with as many connections as a worker uses.
    pub(crate) async fn open_for_worker(place: &Place) -> Result<Self, CliError> {
        Self::connect(place, false, place.limit(), 4).await
    }

    /// Connects, and makes an SQLite file that is not there. To migrate may take
    /// as long as it takes.
    pub(crate) async fn open_or_make(place: &Place) -> Result<Self, CliError> {
        Self::connect(place, true, None, 2).await
    }

    async fn connect(
        place: &Place,
        make: bool,
        limit: Option<Duration>,
        connections: u16,
    ) -> Result<Self, CliError> {
        let url = url(place)?;
        Ok(match dialect_of(url)? {
            Dialect::Postgres => {
                let mut options = PostgresOptions::new(url)?.max_connections(connections.into());
                if let Some(limit) = limit {
                    options = options.statement_timeout(limit);
                }
                Self::Postgres(options.connect().await?)
            }
            Dialect::MySql => {
                let mut options = MySqlOptions::new(url)?.max_connections(connections.into());
                if let Some(limit) = limit {
                    options = options.statement_timeout(limit);
                }
                Self::MySql(options.connect().await?)
            }
            _ => {
                let path = url.trim_start_matches("sqlite:");
                let path = path.strip_prefix("//").unwrap_or(path);
                if !make && !Path::new(path).is_file() {
                    return Err(CliError::usage(
                        "the SQLite file that --database names is not there; \
                         see the path, or make it with `duebox migrate`",
                    ));
                }
                Self::Sqlite(SqliteDatabase::open(path).await?)
            }
        })
    }

    /// The port that every call of an outbox takes.
    pub(crate) fn db(&self) -> Arc<dyn Database> {
        match self {
            Self::Sqlite(db) => Arc::new(db.clone()),
            Self::Postgres(db) => Arc::new(db.clone()),
            Self::MySql(db) => Arc::new(db.clone()),
        }
    }

    pub(crate) fn receipts(&self) -> Arc<dyn PendingReceiptStore> {
        match self {
            Self::Sqlite(db) => Arc::new(db.receipts()),
            Self::Postgres(db) => Arc::new(db.receipts()),
            Self::MySql(db) => Arc::new(db.receipts()),
        }
    }

    /// Makes the tables `outbox` and `pending_receipts`.
    pub(crate) async fn migrate(&self) -> Result<(), DbError> {
        match self {
            Self::Sqlite(db) => db.migrate().await,
            Self::Postgres(db) => db.migrate().await,
            Self::MySql(db) => db.migrate().await,
        }
    }

    /// Makes the table of one outbox.
    pub(crate) async fn migrate_outbox(&self, outbox: &Outbox) -> Result<(), DbError> {
        match self {
            Self::Sqlite(db) => db.migrate_outbox(outbox).await,
            Self::Postgres(db) => db.migrate_outbox(outbox).await,
            Self::MySql(db) => db.migrate_outbox(outbox).await,
        }
    }

    /// The outboxes and receipts that were migrated; `None` if there is no
    /// bookkeeping.
    pub(crate) async fn known(&self) -> Result<Option<Known>, CliError> {
        let db = self.db();
        let read = Statement::new(format!(
            "SELECT target, number FROM {} ORDER BY target, number",
            duebox_migrations::BOOKKEEPING_TABLE
        ));
        let rows = match db.query(&read).await {
            Ok(rows) => rows,
            Err(error) if error.kind() == Kind::Schema => return Ok(None),
            Err(error) => return Err(error.context("read which tables were migrated").into()),
        };
        let receipts = duebox_migrations::receipts(db.dialect());
        let mut known = Known::default();
        for row in rows {
            let number: u32 = row.get("number")?;
            let target: String = row.get("target")?;
            if receipts.iter().any(|step| step.number == number) {
                known.receipts = true;
            } else if known
                .outboxes
                .last()
                .is_none_or(|last| last.table() != target)
            {
                known.outboxes.push(Outbox::try_new(target)?);
            }
        }
        Ok(Some(known))
    }
}

/// The outbox that was named, or the one of that name.
pub(crate) fn outbox(place: &Place) -> Result<Outbox, CliError> {
    Ok(Outbox::try_new(place.table.as_deref().unwrap_or("outbox"))?)
}

pub(crate) fn url(place: &Place) -> Result<&str, CliError> {
    place.database.as_deref().ok_or_else(|| {
        CliError::usage("no database: give --database URL or set DUEBOX_DATABASE_URL")
    })
}

/// The dialect of the URL that was given.
pub(crate) fn dialect(place: &Place) -> Result<Dialect, CliError> {
    dialect_of(url(place)?)
}

fn dialect_of(url: &str) -> Result<Dialect, CliError> {
    match url.split_once(':').map(|(scheme, _)| scheme) {
        Some("sqlite") => Ok(Dialect::Sqlite),
        Some("postgres" | "postgresql") => Ok(Dialect::Postgres),
        Some("mysql" | "mariadb") => Ok(Dialect::MySql),
        _ => Err(CliError::usage(
            "--database must begin with sqlite:, postgres:// or mysql://",
        )),
    }
}
