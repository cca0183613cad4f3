use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use duebox_core::{Database, DbError, Dialect, Kind, Outbox, PendingReceiptStore, Row, Statement};
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

/// What there is.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) outboxes: Vec<Outbox>,
    pub(crate) receipts: bool,
    /// Names that were noted and are none of an outbox.
    pub(crate) unnamed: u32,
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
                if path.contains('?') {
                    return Err(CliError::usage(
                        "an SQLite file takes no parameters: leave out what begins with `?`",
                    ));
                }
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

    /// The outboxes that the migrations noted, if they noted any, and whether there are
    /// receipts, whoever made them. What this role may not see is an error: it could be
    /// anybody's rows.
    pub(crate) async fn known(&self) -> Result<Known, CliError> {
        let db = self.db();
        let mut known = Known::default();
        let read = Statement::new(format!(
            "SELECT target, number FROM {} ORDER BY target, number",
            duebox_migrations::BOOKKEEPING_TABLE
        ));
        let steps = duebox_migrations::receipts(db.dialect());
        for row in seen(db.query(&read).await)?.unwrap_or_default() {
            let number: u32 = row.get("number")?;
            let target: String = row.get("target")?;
            let noted = known.outboxes.last();
            if steps.iter().any(|step| step.number == number) {
                known.receipts = true;
                continue;
            }
            if noted.is_some_and(|last| last.table() == target) {
                continue;
            }
            match Outbox::try_new(target) {
                Ok(outbox) => known.outboxes.push(outbox),
                Err(_) => known.unnamed += 1,
            }
        }
        // Another tool may have made them.
        let receipts = Statement::new("SELECT ticket FROM pending_receipts WHERE 1 = 0");
        known.receipts = match db.query(&receipts).await {
            // MySQL and MariaDB refuse what is not there, too.
            Err(error)
                if is_refusal(&error) && db.dialect() == Dialect::MySql && !known.receipts =>
            {
                false
            }
            answer => seen(answer)?.is_some(),
        };
        Ok(known)
    }
}

/// The rows of a table; `None` if it is not there.
fn seen(answer: Result<Vec<Row>, DbError>) -> Result<Option<Vec<Row>>, DbError> {
    match answer {
        Ok(rows) => Ok(Some(rows)),
        Err(error) if error.kind() == Kind::Schema && !is_refusal(&error) => Ok(None),
        Err(error) => Err(error.context("read which tables were migrated")),
    }
}

/// Whether a privilege is missing. PostgreSQL: `insufficient_privilege`. MySQL and
/// MariaDB: none on the table, or on its columns.
pub(crate) fn is_refusal(error: &DbError) -> bool {
    matches!(error.code(), Some("42501" | "1142" | "1143"))
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
