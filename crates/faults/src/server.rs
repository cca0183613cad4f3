//! The server of an engine: one that is given, or one of our own, which may
//! be stopped and killed.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use duebox_core::Statement;
use tokio::process::Command;

use crate::place::{Engine, Open, Place, with};

pub(crate) type Fallible<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

pub(crate) struct Server {
    pub(crate) engine: Engine,
    pub(crate) url: String,
    /// Where it is, if it is our own.
    folder: Option<PathBuf>,
    /// More arguments of a server of our own.
    arguments: &'static str,
    admin: Open,
}

impl Server {
    pub(crate) async fn given(engine: Engine, url: String) -> Fallible<Self> {
        Self::at(engine, url, None, "").await
    }

    /// Starts a server of our own.
    pub(crate) async fn start(engine: Engine, folder: PathBuf) -> Fallible<Self> {
        Self::start_with(engine, folder, "").await
    }

    /// As [`start`](Self::start), with more arguments for the server.
    pub(crate) async fn start_with(
        engine: Engine,
        folder: PathBuf,
        arguments: &'static str,
    ) -> Fallible<Self> {
        let url = up(engine, &folder, arguments).await?;
        let url = crate::plain(engine, &url);
        Self::at(engine, url, Some(folder), arguments).await
    }

    async fn at(
        engine: Engine,
        url: String,
        folder: Option<PathBuf>,
        arguments: &'static str,
    ) -> Fallible<Self> {
        let place = Place {
            engine,
            url: url.clone(),
            table: "outbox".to_owned(),
        };
        let admin = place.open().await?;
        Ok(Self {
            engine,
            url,
            folder,
            arguments,
            admin,
        })
    }

    pub(crate) const fn is_own(&self) -> bool {
        self.folder.is_some()
    }

    pub(crate) async fn create(&self, database: &str) -> Fallible<String> {
        self.drop_database(database).await?;
        let create = Statement::new(format!("CREATE DATABASE {database}"));
        self.admin.db.execute(&create).await?;
        with(&self.url, None, database).ok_or_else(|| "the URL names no database".into())
    }

    pub(crate) async fn drop_database(&self, database: &str) -> Fallible<()> {
        let force = match self.engine {
            Engine::Postgres => " WITH (FORCE)",
            _ => "",
        };
        let drop = Statement::new(format!("DROP DATABASE IF EXISTS {database}{force}"));
        self.admin.db.execute(&drop).await?;
        Ok(())
    }

    /// Kills up to `most` sessions of the database, and says how many.
    pub(crate) async fn kill_sessions(&self, database: &str, most: usize) -> Fallible<usize> {
        let list = match self.engine {
            Engine::Postgres => {
                "SELECT pid::bigint AS n FROM pg_stat_activity WHERE datname = ? ORDER BY random()"
            }
            _ => {
                "SELECT CAST(ID AS SIGNED) AS n FROM information_schema.PROCESSLIST \
                 WHERE DB = ? ORDER BY RAND()"
            }
        };
        let rows = self
            .admin
            .db
            .query(&Statement::new(list).bind(database))
            .await?;
        let mut killed = 0;
        for row in rows.iter().take(most) {
            let number: i64 = row.get("n")?;
            let kill = match self.engine {
                Engine::Postgres => format!("SELECT pg_terminate_backend({number})"),
                _ => format!("KILL {number}"),
            };
            // It may be gone by itself meanwhile.
            let done = match self.engine {
                Engine::Postgres => self.admin.db.query(&Statement::new(kill)).await.is_ok(),
                _ => self.admin.db.execute(&Statement::new(kill)).await.is_ok(),
            };
            killed += usize::from(done);
        }
        Ok(killed)
    }

    pub(crate) async fn crash(&self) -> Fallible<()> {
        self.again("crash").await
    }

    pub(crate) async fn restart(&self) -> Fallible<()> {
        self.again("stop").await
    }

    async fn again(&self, how: &str) -> Fallible<()> {
        let folder = self.folder.as_deref().ok_or("the server is not our own")?;
        engine(&[how, &folder.to_string_lossy()], "").await?;
        self.revive().await
    }

    /// Starts it again if it has stopped.
    pub(crate) async fn revive(&self) -> Fallible<()> {
        let folder = self.folder.as_deref().ok_or("the server is not our own")?;
        let url = up(self.engine, folder, self.arguments).await?;
        if !self.url.starts_with(&url) {
            return Err("the server came back elsewhere".into());
        }
        Ok(())
    }

    pub(crate) async fn down(&self) -> Fallible<()> {
        if let Some(folder) = &self.folder {
            engine(&["down", &folder.to_string_lossy()], "").await?;
        }
        Ok(())
    }
}

async fn up(name: Engine, folder: &Path, arguments: &str) -> Fallible<String> {
    let folder = folder.to_string_lossy();
    let up = ["up", name.name(), "--fast", "--dir", &folder];
    let url = engine(&up, arguments).await?;
    Ok(url.trim().to_owned())
}

/// Runs `scripts/engine` and returns what it prints.
async fn engine(arguments: &[&str], of_the_server: &str) -> Fallible<String> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/engine");
    let output = Command::new(script)
        .args(arguments)
        .env("DUEBOX_ENGINE_ARGS", of_the_server)
        .stdin(Stdio::null())
        .output()
        .await?;
    if output.status.success() {
        return Ok(String::from_utf8(output.stdout)?);
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(format!("scripts/engine {}: {said}", arguments.join(" ")).into())
}
