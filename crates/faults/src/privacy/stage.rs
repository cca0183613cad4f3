//! The database of a run, and the ways to it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use duebox_mysql::MySqlDatabase;
use duebox_mysql::sqlx::mysql::{MySqlConnectOptions, MySqlPoolOptions};
use duebox_mysql::sqlx::{self, AssertSqlSafe, ConnectOptions, Executor};
use duebox_postgres::sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use duebox_postgres::{PostgresOptions, SqlxPostgresDatabase};
use duebox_sqlite::{SqliteDatabase, SqliteOptions};

use super::calls::Way;
use crate::place::{Engine, Open, Place, with};
use crate::server::{Fallible, Server};

pub(super) struct Stage {
    pub(super) engine: Engine,
    pub(super) server: Option<Server>,
    pub(super) database: String,
    /// A URL, or the path of a file.
    pub(super) url: String,
}

impl Stage {
    /// Makes a database of this run; what was left of an earlier one goes.
    pub(super) async fn new(
        engine: Engine,
        server: Option<Server>,
        folder: PathBuf,
    ) -> Fallible<Self> {
        let database = format!("duebox_privacy_{}", std::process::id());
        let url = match &server {
            Some(server) => hasty(engine, server.create(&database).await?),
            None => folder.join("privacy.db").to_string_lossy().into_owned(),
        };
        Ok(Self {
            engine,
            server,
            database,
            url,
        })
    }

    fn place(&self) -> Place {
        Place {
            engine: self.engine,
            url: self.url.clone(),
            table: "outbox".to_owned(),
        }
    }

    /// Tables as they are shipped, empty.
    pub(super) async fn renew(&self) -> Fallible<()> {
        match &self.server {
            Some(server) => {
                server.create(&self.database).await?;
            }
            None => {
                for suffix in ["", "-wal", "-shm"] {
                    // It is not there at first.
                    let _ = std::fs::remove_file(format!("{}{suffix}", self.url));
                }
            }
        }
        self.place().make().await?;
        Ok(())
    }

    pub(super) async fn open(&self) -> Fallible<Open> {
        Ok(self.place().open().await?)
    }

    /// Every adapter's every kind of pool.
    pub(super) async fn ways(&self) -> Fallible<Vec<Way>> {
        ways(self.engine, &self.url).await
    }

    /// Runs the texts of an administrator, as they are.
    pub(super) async fn run(&self, texts: &[&str]) -> Fallible<()> {
        match self.engine {
            Engine::Sqlite => {
                let conn = duebox_sqlite::rusqlite::Connection::open(&self.url)?;
                for text in texts {
                    conn.execute_batch(text)?;
                }
            }
            Engine::Postgres => {
                let options: PgConnectOptions = self.url.parse()?;
                let mut conn = options.disable_statement_logging().connect().await?;
                for text in texts {
                    let text = duebox_postgres::sqlx::AssertSqlSafe((*text).to_owned());
                    duebox_postgres::sqlx::raw_sql(text)
                        .execute(&mut conn)
                        .await?;
                }
            }
            Engine::Mysql | Engine::Mariadb => {
                // What is run here holds marks.
                let options: MySqlConnectOptions = self.url.parse()?;
                let mut conn = options.disable_statement_logging().connect().await?;
                for text in texts {
                    conn.execute(sqlx::raw_sql(AssertSqlSafe((*text).to_owned())))
                        .await?;
                }
            }
        }
        Ok(())
    }

    /// The same with another user, password, port or database.
    pub(super) fn at(&self, user: &str, port: Option<u16>, database: &str) -> Option<String> {
        let url = with(&self.url, port, database)?;
        let (scheme, rest) = url.split_once("://")?;
        let rest = rest.split_once('@').map_or(rest, |(_, rest)| rest);
        Some(format!("{scheme}://{user}@{rest}"))
    }
}

/// Locks are not waited for long.
fn hasty(engine: Engine, url: String) -> String {
    match engine {
        Engine::Postgres => format!("{url}&options=-c%20lock_timeout%3D200"),
        _ => url,
    }
}

/// How long a pool is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) async fn ways(engine: Engine, url: &str) -> Fallible<Vec<Way>> {
    let name = engine.name();
    Ok(match engine {
        Engine::Sqlite => {
            let options = SqliteOptions::new(url).busy_timeout(Duration::from_millis(200));
            vec![sqlite(options.open().await?)]
        }
        Engine::Postgres => {
            let own = PostgresOptions::new(url)?
                .acquire_timeout(PATIENCE)
                .connect_timeout(PATIENCE)
                .connect_lazy()?;
            let pool = PgPoolOptions::new().acquire_timeout(PATIENCE);
            // The driver logs what functions say on their way, so a service does not ask for it.
            let silent = url.replace("options=", "options=-c%20client_min_messages%3Derror%20");
            let sqlx = SqlxPostgresDatabase::from_pool(pool.connect_lazy(&silent)?);
            vec![
                Way {
                    name: name.to_owned(),
                    store: Arc::new(own.receipts()),
                    db: Arc::new(own),
                },
                Way {
                    name: format!("{name}, sqlx"),
                    store: Arc::new(sqlx.receipts()),
                    db: Arc::new(sqlx),
                },
            ]
        }
        Engine::Mysql | Engine::Mariadb => {
            let own = duebox_mysql::MySqlOptions::new(url)?
                .acquire_timeout(PATIENCE)
                .connect_lazy();
            let pool = MySqlPoolOptions::new()
                .acquire_timeout(PATIENCE)
                .after_connect(|conn, _| {
                    Box::pin(async move {
                        let set = "SET SESSION innodb_lock_wait_timeout = 1, lock_wait_timeout = 1";
                        conn.execute(set).await.map(drop)
                    })
                });
            let lent = MySqlDatabase::from_pool(pool.connect_lazy(url)?);
            vec![
                Way {
                    name: name.to_owned(),
                    store: Arc::new(own.receipts()),
                    db: Arc::new(own),
                },
                Way {
                    name: format!("{name}, a pool that logs"),
                    store: Arc::new(lent.receipts()),
                    db: Arc::new(lent),
                },
            ]
        }
    })
}

pub(super) fn sqlite(db: SqliteDatabase) -> Way {
    Way {
        name: "sqlite".to_owned(),
        store: Arc::new(db.receipts()),
        db: Arc::new(db),
    }
}
