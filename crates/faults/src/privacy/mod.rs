//! No mark in any output, and none in the database after an erasure.

mod calls;
mod dump;
mod ear;
mod marks;
mod scenes;
mod stage;
mod worker;

use std::path::Path;

use clap::Args;

use self::ear::Ear;
use self::stage::Stage;
use crate::place::Engine;
use crate::server::{Fallible, Server};

/// Which engines to look at.
#[derive(Args)]
pub(crate) struct Privacy {
    /// On which engines; on all unless it is said.
    #[arg(long)]
    engine: Vec<Engine>,
    /// A server to use, for one engine. Without it one is started.
    #[arg(long)]
    url: Option<String>,
}

/// What every engine can be made to answer.
const KINDS: [&str; 10] = [
    "unavailable",
    "busy",
    "conflict",
    "constraint",
    "row count",
    "invalid argument",
    "unsupported",
    "schema",
    "corrupt",
    "other",
];

impl Privacy {
    pub(crate) async fn run(&self, work: &Path) -> Fallible<bool> {
        ear::listen()?;
        // What a handler's panic says is its own affair, and not looked at.
        std::panic::set_hook(Box::new(|_| {}));
        let mut clean = true;
        println!(
            "| engine | calls | errors | kinds | log lines | leaks |\n|---|---|---|---|---|---|"
        );
        for engine in crate::engines(&self.engine, self.url.as_deref())? {
            let server = match (engine, &self.url) {
                (Engine::Sqlite, _) => None,
                (_, Some(url)) => Some(Server::given(engine, crate::plain(engine, url)).await?),
                (_, None) => Some(Server::start(engine, work.join(engine.name())).await?),
            };
            let stage = Stage::new(engine, server, work.to_owned()).await?;
            let mut ear = Ear::default();
            let played = tokio::select! {
                played = play(&mut ear, &stage) => played,
                why = crate::interruption() => Err(why),
            };
            if let Some(server) = &stage.server {
                server.drop_database(&stage.database).await?;
                server.down().await?;
            }
            played?;
            clean &= report(engine, &ear);
        }
        Ok(clean)
    }
}

async fn play(ear: &mut Ear, stage: &Stage) -> Fallible<()> {
    scenes::play(ear, stage).await?;
    worker::play(ear, stage).await?;
    dump::play(ear, stage).await
}

/// Whether nothing was seen, and all was heard.
fn report(engine: Engine, ear: &Ear) -> bool {
    let lines: u64 = ear.lines.values().sum();
    println!(
        "| {} | {} | {} | {} | {lines} | {} |",
        engine.name(),
        ear.calls,
        ear.errors,
        ear.kinds.len(),
        ear.leaks.len(),
    );
    for leak in &ear.leaks {
        println!("  {leak}");
    }
    let missed: Vec<&str> = KINDS
        .into_iter()
        .filter(|kind| !ear.kinds.contains(*kind))
        .collect();
    if !missed.is_empty() {
        println!("  no error of these kinds was made: {}", missed.join(", "));
    }
    let drivers: &[&str] = match engine {
        // rusqlite logs nothing.
        Engine::Sqlite => &["duebox_worker"],
        Engine::Postgres => &["tokio_postgres", "sqlx", "duebox_worker"],
        Engine::Mysql | Engine::Mariadb => &["sqlx", "duebox_worker"],
    };
    let silent: Vec<&&str> = drivers
        .iter()
        .filter(|driver| !ear.lines.contains_key(**driver))
        .collect();
    if !silent.is_empty() {
        println!(
            "  nothing was heard of {silent:?}, only of {:?}",
            ear.lines.keys()
        );
    }
    ear.leaks.is_empty() && missed.is_empty() && silent.is_empty()
}
