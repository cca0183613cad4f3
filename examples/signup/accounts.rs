//! The service's own table, and the batch that ties a mail to it.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use duebox_sqlite::{
    Database, DbError, Enqueue, Kind, Outbox, OutboxStats, Statement, format_time,
};

use crate::database;
use crate::mail::{TOPIC, Welcome};
use crate::sign_up::{Plan, SignUp};

// The key is compared byte by byte on every engine.
const CREATE_ACCOUNTS: [&str; 3] = [
    "\
CREATE TABLE IF NOT EXISTS {accounts} (
    id text COLLATE \"C\" PRIMARY KEY,
    address text COLLATE \"C\" NOT NULL UNIQUE,
    email text NOT NULL,
    name text NOT NULL,
    plan text,
    locale text,
    welcome_id text COLLATE \"C\" NOT NULL UNIQUE,
    created_at text NOT NULL
)",
    "\
CREATE TABLE IF NOT EXISTS {accounts} (
    id TEXT PRIMARY KEY,
    address TEXT NOT NULL UNIQUE,
    email TEXT NOT NULL,
    name TEXT NOT NULL,
    plan TEXT,
    locale TEXT,
    welcome_id TEXT NOT NULL UNIQUE,
    created_at TEXT NOT NULL
) STRICT",
    "\
CREATE TABLE IF NOT EXISTS {accounts} (
    id VARCHAR(64) PRIMARY KEY,
    address VARCHAR(320) NOT NULL UNIQUE,
    email VARCHAR(320) NOT NULL,
    name VARCHAR(200) NOT NULL,
    plan VARCHAR(16),
    locale VARCHAR(35),
    welcome_id VARCHAR(64) NOT NULL UNIQUE,
    created_at VARCHAR(27) NOT NULL
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
];

const INSERT_ACCOUNT: &str = "\
INSERT INTO {accounts} (id, address, email, name, plan, locale, welcome_id, created_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)";

const PAGE_OF_ACCOUNTS: &str = "\
SELECT id, address, email, welcome_id
FROM {accounts}
WHERE id > ?
ORDER BY id
LIMIT 1000";

/// What became of a sign-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignedUp {
    New,
    AlreadyThere,
}

/// What `--verify` needs to know of an account.
pub(crate) struct Account {
    pub(crate) id: String,
    pub(crate) key: String,
    pub(crate) email: String,
    pub(crate) welcome_id: String,
}

/// The accounts and the mails that are due to them, in one database.
#[derive(Clone)]
pub(crate) struct Accounts {
    pub(crate) db: Arc<dyn Database>,
    pub(crate) outbox: Outbox,
    table: String,
}

impl Accounts {
    /// Opens the database; `name` begins the names of the tables, if there is one, so that
    /// several sets of them can be in one database.
    pub(crate) async fn open(url: &str, name: Option<&str>) -> Result<Self, DbError> {
        let named = |table: &str| name.map_or(table.into(), |name| format!("{name}_{table}"));
        let outbox = Outbox::try_new(named("outbox"))?;
        let db = database::open(url, &outbox).await?;
        let table = named("accounts");
        let [postgres, sqlite, mysql] =
            CREATE_ACCOUNTS.map(|text| text.replace("{accounts}", &table));
        db.execute(&Statement::per_dialect(postgres, sqlite, mysql))
            .await?;
        Ok(Self { db, outbox, table })
    }

    /// Drops both tables.
    pub(crate) async fn drop_all(&self) -> Result<(), DbError> {
        for table in [self.table.as_str(), self.outbox.table()] {
            let sql = format!("DROP TABLE IF EXISTS {table}");
            self.db.execute(&Statement::new(sql)).await?;
        }
        Ok(())
    }

    fn statement(&self, text: &str) -> Statement {
        Statement::new(text.replace("{accounts}", &self.table))
    }

    /// Inserts the account and enqueues its mail: both, or neither. `now` is the database's time,
    /// by whatever clock.
    ///
    /// The unique key on the address is what makes this safe to repeat. The id of an outbox row is
    /// free again once its mail is out, so it could not tell a new sign-up from an old one.
    pub(crate) async fn sign_up(
        &self,
        sign_up: &SignUp,
        now: DateTime<Utc>,
    ) -> Result<SignedUp, DbError> {
        let (account, mail) = (Enqueue::new_id(now), Enqueue::new_id(now));
        let insert = self
            .statement(INSERT_ACCOUNT)
            .bind(account.as_str())
            .bind(sign_up.address.key())
            .bind(sign_up.address.as_str())
            .bind(sign_up.name.as_str())
            .bind(sign_up.plan.map(Plan::as_str))
            .bind(sign_up.locale.as_deref())
            .bind(mail.as_str())
            .bind(format_time(now)?);
        let work = Enqueue::new(TOPIC)
            .id(mail)
            .subject(account)
            .at(now)
            .json(&Welcome::from(sign_up))?;
        let batch = [insert, self.outbox.enqueue(work)];
        match self.db.batch_atomic(&batch).await {
            Ok(_) => Ok(SignedUp::New),
            // The address is there, and the whole batch was undone.
            Err(error) if error.kind() == Kind::Conflict && error.statement() == Some(0) => {
                Ok(SignedUp::AlreadyThere)
            }
            Err(error) => Err(error.context("sign up")),
        }
    }

    /// How many mails wait, are being delivered, or were set aside.
    pub(crate) async fn stats(&self) -> Result<OutboxStats, DbError> {
        let now = format_time(self.db.now().await?)?;
        self.outbox.stats(&*self.db, &now).await
    }

    /// The accounts behind this id, at most a thousand of them.
    pub(crate) async fn page(&self, after: &str) -> Result<Vec<Account>, DbError> {
        let page = self.statement(PAGE_OF_ACCOUNTS).bind(after);
        let rows = self.db.query(&page).await?;
        rows.iter()
            .map(|row| {
                Ok(Account {
                    id: row.get("id")?,
                    key: row.get("address")?,
                    email: row.get("email")?,
                    welcome_id: row.get("welcome_id")?,
                })
            })
            .collect()
    }
}
