//! Where a history takes place: a database of its own, and the way to it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use duebox_core::{Database, DbError, Outbox, PendingReceiptStore, Statement};
use duebox_mysql::MySqlOptions;
use duebox_postgres::PostgresOptions;
use duebox_sqlite::{SqliteDatabase, SqliteOptions};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engine {
    Sqlite,
    Postgres,
    Mysql,
    Mariadb,
}

impl Engine {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::Mysql => "mysql",
            Self::Mariadb => "mariadb",
        }
    }
}

/// A database of a history, as one process sees it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) engine: Engine,
    /// A URL, or the path of a file.
    pub(crate) url: String,
    pub(crate) table: String,
}

/// An open place.
#[derive(Clone)]
pub(crate) struct Open {
    pub(crate) db: Arc<dyn Database>,
    pub(crate) receipts: Arc<dyn PendingReceiptStore>,
    pub(crate) sqlite: Option<SqliteDatabase>,
}

/// Connections of one process: few, so that they are shared.
const CONNECTIONS: usize = 3;
/// Short, for a history is.
const PATIENCE: Duration = Duration::from_secs(2);

impl Place {
    pub(crate) fn outbox(&self) -> Outbox {
        Outbox::new(self.table.as_str())
    }

    pub(crate) async fn open(&self) -> Result<Open, DbError> {
        match self.engine {
            Engine::Sqlite => {
                let options = SqliteOptions::new(Path::new(&self.url));
                let db = options.busy_timeout(PATIENCE).open().await?;
                Ok(Open {
                    receipts: Arc::new(db.receipts()),
                    db: Arc::new(db.clone()),
                    sqlite: Some(db),
                })
            }
            Engine::Postgres => {
                let options = PostgresOptions::new(&self.url)?
                    .max_connections(CONNECTIONS)
                    .connect_timeout(PATIENCE)
                    .acquire_timeout(PATIENCE);
                let db = options.connect_lazy()?;
                Ok(Open {
                    receipts: Arc::new(db.receipts()),
                    db: Arc::new(db),
                    sqlite: None,
                })
            }
            Engine::Mysql | Engine::Mariadb => {
                let connections = u32::try_from(CONNECTIONS).unwrap_or(u32::MAX);
                let options = MySqlOptions::new(&self.url)?
                    .max_connections(connections)
                    .acquire_timeout(PATIENCE);
                let db = options.connect_lazy();
                Ok(Open {
                    receipts: Arc::new(db.receipts()),
                    db: Arc::new(db),
                    sqlite: None,
                })
            }
        }
    }

    /// Makes the tables: the shipped ones, or by the one statement that serves
    /// all engines where the table has another name.
    pub(crate) async fn make(&self) -> Result<(), DbError> {
        match self.engine {
            Engine::Sqlite => {
                let options = SqliteOptions::new(Path::new(&self.url));
                options.open().await?.migrate().await?;
            }
            Engine::Postgres => {
                PostgresOptions::new(&self.url)?
                    .connect_lazy()?
                    .migrate()
                    .await?;
            }
            Engine::Mysql | Engine::Mariadb => {
                MySqlOptions::new(&self.url)?
                    .connect_lazy()
                    .migrate()
                    .await?;
            }
        }
        let db = self.open().await?.db;
        let create = Statement::new(self.outbox().create_table_sql());
        for statement in [
            create,
            Statement::new("CREATE TABLE state (unit VARCHAR(64) NOT NULL PRIMARY KEY)"),
            Statement::new("CREATE TABLE effect (id VARCHAR(64) NOT NULL, claims BIGINT NOT NULL)"),
        ] {
            db.execute(&statement).await?;
        }
        Ok(())
    }
}

/// `url` with another database, and another port of this machine if one is
/// given.
pub(crate) fn with(url: &str, port: Option<u16>, database: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let (authority, path) = rest.split_once('/')?;
    let query = path.split_once('?').map_or("", |(_, query)| query);
    let query = if query.is_empty() {
        String::new()
    } else {
        format!("?{query}")
    };
    let authority = match (port, authority.rsplit_once('@')) {
        (None, _) => authority.to_owned(),
        (Some(port), Some((user, _))) => format!("{user}@127.0.0.1:{port}"),
        (Some(port), None) => format!("127.0.0.1:{port}"),
    };
    Some(format!("{scheme}://{authority}/{database}{query}"))
}

/// The host and port that a URL names.
pub(crate) fn address(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("://")?;
    let (authority, _) = rest.split_once('/')?;
    let host = authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host);
    Some(host.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_keeps_its_user_and_its_parameters() {
        let url = "mysql://test:p@127.0.0.1:3306/test?ssl-mode=DISABLED";
        assert_eq!(
            with(url, Some(7), "other").as_deref(),
            Some("mysql://test:p@127.0.0.1:7/other?ssl-mode=DISABLED")
        );
        assert_eq!(
            with("postgres://h:1/a", None, "b").as_deref(),
            Some("postgres://h:1/b")
        );
        assert_eq!(address(url).as_deref(), Some("127.0.0.1:3306"));
    }
}
