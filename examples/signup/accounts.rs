//! The service's own table, and the batch that ties a mail to it.

use std::path::Path;

use chrono::{DateTime, Utc};
use duebox_sqlite::{
    Database, DbError, Enqueue, Kind, Outbox, OutboxStats, SqliteDatabase, Statement, format_time,
};

use crate::mail::Welcome;
use crate::sign_up::{Plan, SignUp};

const CREATE_ACCOUNTS: &str = "\
CREATE TABLE IF NOT EXISTS accounts (
    id TEXT PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    email TEXT NOT NULL,
    name TEXT NOT NULL,
    plan TEXT,
    locale TEXT,
    welcome_id TEXT NOT NULL UNIQUE,
    created_at TEXT NOT NULL
) STRICT";

const INSERT_ACCOUNT: &str = "\
INSERT INTO accounts (id, key, email, name, plan, locale, welcome_id, created_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (key) DO NOTHING";

const PAGE_OF_ACCOUNTS: &str = "\
SELECT id, key, email, welcome_id
FROM accounts
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
#[derive(Clone, Debug)]
pub(crate) struct Accounts {
    pub(crate) db: SqliteDatabase,
    pub(crate) outbox: Outbox,
}

impl Accounts {
    pub(crate) async fn open(path: &Path) -> Result<Self, DbError> {
        Self::prepare(SqliteDatabase::open(path).await?).await
    }

    async fn prepare(db: SqliteDatabase) -> Result<Self, DbError> {
        db.migrate().await?;
        db.execute(&Statement::new(CREATE_ACCOUNTS)).await?;
        let outbox = Outbox::new("outbox");
        Ok(Self { db, outbox })
    }

    /// Inserts the account and enqueues its mail: both, or neither.
    ///
    /// The unique key on the address is what makes this safe to repeat. The id of an outbox row is
    /// free again once its mail is out, so it could not tell a new sign-up from an old one.
    pub(crate) async fn sign_up(&self, sign_up: &SignUp) -> Result<SignedUp, DbError> {
        let now = self.db.now().await?;
        let (account, mail) = (Enqueue::new_id(now), Enqueue::new_id(now));
        let batch = [
            insert(&account, &mail, sign_up, now)?,
            self.outbox.enqueue(
                Enqueue::new("mail.welcome")
                    .id(mail)
                    .subject(account)
                    .at(now)
                    .json(&Welcome::from(sign_up))?,
            ),
        ];
        match self.db.batch_atomic(&batch).await {
            Ok(_) => Ok(SignedUp::New),
            Err(error) if error.kind() == Kind::RowCount => Ok(SignedUp::AlreadyThere),
            Err(error) => Err(error.context("sign up")),
        }
    }

    /// How many mails wait, are being delivered, or were set aside.
    pub(crate) async fn stats(&self) -> Result<OutboxStats, DbError> {
        let now = format_time(self.db.now().await?)?;
        self.outbox.stats(&self.db, &now).await
    }

    /// The accounts behind this id, at most a thousand of them.
    pub(crate) async fn page(&self, after: &str) -> Result<Vec<Account>, DbError> {
        let rows = self
            .db
            .query(&Statement::new(PAGE_OF_ACCOUNTS).bind(after))
            .await?;
        rows.iter()
            .map(|row| {
                Ok(Account {
                    id: row.get("id")?,
                    key: row.get("key")?,
                    email: row.get("email")?,
                    welcome_id: row.get("welcome_id")?,
                })
            })
            .collect()
    }
}

fn insert(
    account: &str,
    mail: &str,
    sign_up: &SignUp,
    now: DateTime<Utc>,
) -> Result<Statement, DbError> {
    Ok(Statement::new(INSERT_ACCOUNT)
        .bind(account)
        .bind(sign_up.address.key())
        .bind(sign_up.address.as_str())
        .bind(sign_up.name.as_str())
        .bind(sign_up.plan.map(Plan::as_str))
        .bind(sign_up.locale.as_deref())
        .bind(mail)
        .bind(format_time(now)?)
        // An account that is there touches no row, and the whole batch is rolled back.
        .expect_rows(1))
}
