//! The service's accounts, by sqlx on either database.

use std::sync::Arc;

use duebox_postgres::sqlx::{self, PgPool};
use duebox_postgres::{Database, Kind, Lease, Outbox, SqlxPostgresDatabase, Statement};
use duebox_sqlite::SqliteDatabase;
use duebox_sqlite::sqlx::SqlitePool;
use duebox_sqlite::sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};

pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

const TABLE: &str = "CREATE TABLE IF NOT EXISTS account (
    id VARCHAR(64) PRIMARY KEY,
    email VARCHAR(255) NOT NULL UNIQUE,
    welcomes BIGINT NOT NULL DEFAULT 0
)";
// Both databases read `$1`.
const INSERT: &str = "INSERT INTO account (id, email) VALUES ($1, $2)";
const WELCOME: &str = "UPDATE account SET welcomes = welcomes + 1 WHERE id = $1";
const FIND: &str = "SELECT email, welcomes FROM account WHERE id = $1";

#[derive(Clone)]
pub(crate) enum Store {
    Postgres(PgPool),
    Sqlite(SqlitePool),
}

/// What a sign-up came to.
pub(crate) enum SignUp {
    Done,
    /// The address has an account already.
    Taken,
}

/// `$body` with the driver's pool as `$pool` and its adapter's function as `$execute`.
macro_rules! on_either {
    ($store:expr, |$pool:ident, $execute:ident| $body:expr) => {
        match $store {
            Store::Postgres($pool) => {
                use duebox_postgres::execute as $execute;
                $body
            }
            Store::Sqlite($pool) => {
                use duebox_sqlite::sqlx_execute as $execute;
                $body
            }
        }
    };
}

impl Store {
    /// Opens the database and makes the tables. The worker has its handle of the same
    /// database: on PostgreSQL of the same pool.
    pub(crate) async fn open(url: &str) -> Result<(Self, Arc<dyn Database>), Error> {
        let (store, db): (_, Arc<dyn Database>) = if let Some(path) = url.strip_prefix("sqlite:") {
            let db = SqliteDatabase::open(path).await?;
            db.migrate().await?;
            let options = SqliteConnectOptions::new().filename(path);
            let options = options.journal_mode(SqliteJournalMode::Wal);
            let pool = SqlitePool::connect_with(options).await?;
            (Self::Sqlite(pool), Arc::new(db))
        } else if url.starts_with("postgres") {
            let pool = PgPool::connect(url).await?;
            let db = SqlxPostgresDatabase::from_pool(pool.clone());
            db.migrate().await?;
            (Self::Postgres(pool), Arc::new(db))
        } else {
            return Err("say --database sqlite:FILE or postgres://…".into());
        };
        db.execute(&Statement::new(TABLE)).await?;
        Ok((store, db))
    }

    /// The account and its mail, both or neither.
    pub(crate) async fn sign_up(
        &self,
        id: &str,
        email: &str,
        mail: &Statement,
    ) -> Result<SignUp, Error> {
        on_either!(self, |pool, execute| {
            let mut transaction = pool.begin().await?;
            let insert = sqlx::query(INSERT).bind(id).bind(email);
            match insert.execute(&mut *transaction).await {
                Ok(_) => {}
                Err(sqlx::Error::Database(why)) if why.is_unique_violation() => {
                    return Ok(SignUp::Taken);
                }
                Err(error) => return Err(error.into()),
            }
            execute(&mut transaction, mail).await?;
            transaction.commit().await?;
        });
        Ok(SignUp::Done)
    }

    /// The effect of the mail and the end of its row, both or neither: so it takes
    /// place once, whatever crashes. `false` if somebody else has the row by now.
    pub(crate) async fn welcome(&self, outbox: &Outbox, lease: &Lease) -> Result<bool, Error> {
        let complete = outbox.complete_statement(lease);
        on_either!(self, |pool, execute| {
            let mut transaction = pool.begin().await?;
            match execute(&mut transaction, &complete).await {
                Ok(_) => {}
                Err(error) if error.kind() == Kind::RowCount => return Ok(false),
                Err(error) => return Err(error.into()),
            }
            // The row has the id of its account.
            let welcome = sqlx::query(WELCOME).bind(lease.id());
            welcome.execute(&mut *transaction).await?;
            transaction.commit().await?;
        });
        Ok(true)
    }

    /// The address of an account, and how often it was welcomed.
    pub(crate) async fn find(&self, id: &str) -> Result<Option<(String, i64)>, Error> {
        Ok(match self {
            Self::Postgres(pool) => sqlx::query_as(FIND).bind(id).fetch_optional(pool).await?,
            Self::Sqlite(pool) => sqlx::query_as(FIND).bind(id).fetch_optional(pool).await?,
        })
    }
}
