//! Where a test's outbox is: a table of its own on a server, or a file.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use duebox_core::{Database, Outbox, Statement};
use duebox_mysql::{MySqlDatabase, MySqlOptions};
use duebox_postgres::PostgresOptions;
use duebox_sqlite::SqliteDatabase;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    Sqlite,
    Postgres,
    MySql,
    MariaDb,
}

impl Engine {
    pub(crate) const ALL: [Self; 4] = [Self::Sqlite, Self::Postgres, Self::MySql, Self::MariaDb];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::MySql => "mysql",
            Self::MariaDb => "mariadb",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|engine| engine.name() == name)
    }

    const fn variable(self) -> Option<&'static str> {
        match self {
            Self::Sqlite => None,
            Self::Postgres => Some("DUEBOX_TEST_POSTGRES_URL"),
            Self::MySql => Some("DUEBOX_TEST_MYSQL_URL"),
            Self::MariaDb => Some("DUEBOX_TEST_MARIADB_URL"),
        }
    }

    pub(crate) fn url(self) -> Option<String> {
        let url = std::env::var(self.variable()?).ok();
        url.filter(|url| !url.is_empty())
    }

    pub(crate) fn unavailable(self) -> Option<String> {
        let variable = self.variable()?;
        self.url()
            .is_none()
            .then(|| format!("no server: set {variable}"))
    }
}

/// An empty outbox, and the way to it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) engine: Engine,
    pub(crate) table: String,
    /// The folder of an SQLite file.
    folder: PathBuf,
}

impl Place {
    pub(crate) fn new(engine: Engine) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self::named(engine, format!("worker_{}_{number}", std::process::id()))
    }

    /// The place of this table, which another process may have made.
    pub(crate) fn named(engine: Engine, table: String) -> Self {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(&table);
        Self {
            engine,
            table,
            folder,
        }
    }

    pub(crate) fn url(&self) -> String {
        self.engine.url().unwrap_or_default()
    }

    pub(crate) fn outbox(&self) -> Outbox {
        Outbox::new(self.table.as_str())
    }

    /// Connections of their own, as another process would have.
    pub(crate) async fn connect(&self) -> Arc<dyn Database> {
        let url = self.engine.url().unwrap_or_default();
        match self.engine {
            Engine::Sqlite => {
                std::fs::create_dir_all(&self.folder).expect("a folder for a test");
                let file = self.folder.join("test.db");
                Arc::new(SqliteDatabase::open(file).await.expect("a file"))
            }
            Engine::Postgres => {
                let options = PostgresOptions::new(&url).expect("a URL");
                Arc::new(
                    options
                        .max_connections(5)
                        .connect()
                        .await
                        .expect("a server"),
                )
            }
            Engine::MySql | Engine::MariaDb => {
                let options = MySqlOptions::new(&url).expect("a URL");
                let database: MySqlDatabase = options
                    .max_connections(5)
                    .connect()
                    .await
                    .expect("a server");
                Arc::new(database)
            }
        }
    }

    /// Makes the table.
    pub(crate) async fn make(&self, db: &dyn Database) {
        self.remove(db).await;
        let create = Statement::new(self.outbox().create_table_sql());
        db.execute(&create).await.expect("make the table");
    }

    pub(crate) async fn remove(&self, db: &dyn Database) {
        let drop = format!("DROP TABLE IF EXISTS {}", self.table);
        db.execute(&Statement::new(drop))
            .await
            .expect("drop the table");
    }

    /// What is left of a file whose handles are gone.
    pub(crate) fn clean(&self) {
        if self.engine == Engine::Sqlite {
            // A thread of a handle may be at it still; it is in the target folder.
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}
