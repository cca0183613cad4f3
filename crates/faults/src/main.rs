#![doc = include_str!("../README.md")]

mod check;
mod drain;
mod full;
mod history;
mod place;
mod plan;
mod proxy;
mod report;
mod role;
mod run;
mod server;
mod stored;
mod tally;
mod troupe;
mod watched;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};

use self::full::Disk;
use self::place::Engine;
use self::plan::Plan;
use self::report::{Line, Table};
use self::role::RoleArgs;
use self::run::Stage;
use self::server::{Fallible, Server};
use self::tally::Tally;

/// Runs Duebox in many processes under faults and checks what they say they
/// did.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Plays histories and prints a table; exits with 1 if a promise broke.
    Histories(Histories),
    /// A process of a history.
    #[command(hide = true)]
    Process(RoleArgs),
}

#[derive(Args)]
struct Histories {
    /// On which engines, one after the other; on all unless it is said.
    #[arg(long)]
    engine: Vec<Engine>,
    /// A server to use, for one engine. Without it one is started, and also
    /// stopped and killed as part of the play.
    #[arg(long)]
    url: Option<String>,
    /// How many on each engine.
    #[arg(long = "histories", default_value_t = 200)]
    count: u64,
    /// Begins no other history on an engine after so many minutes.
    #[arg(long)]
    minutes: Option<u64>,
    /// The seed of the first history; those after it follow.
    #[arg(long)]
    seed: Option<u64>,
    /// How long faults strike in a history.
    #[arg(long, default_value_t = 2_000)]
    millis: u64,
    /// Keeps the journals of histories that broke a promise.
    #[arg(long)]
    keep: bool,
}

fn main() -> ExitCode {
    let histories = match Cli::parse().command {
        Command::Process(args) => {
            role::run(&args);
            return ExitCode::SUCCESS;
        }
        Command::Histories(histories) => histories,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    match runtime.block_on(histories.run()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("duebox-faults: {error}");
            ExitCode::from(2)
        }
    }
}

impl Histories {
    async fn run(&self) -> Fallible<bool> {
        let engines = if self.engine.is_empty() {
            vec![
                Engine::Sqlite,
                Engine::Postgres,
                Engine::Mysql,
                Engine::Mariadb,
            ]
        } else {
            self.engine.clone()
        };
        if self.url.is_some() && engines.len() > 1 {
            return Err("a URL is for one engine".into());
        }
        let work = std::env::temp_dir().join(format!("duebox-faults-{}", std::process::id()));
        std::fs::create_dir_all(&work)?;
        // Servers may run as another user.
        std::fs::set_permissions(&work, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        let seed = self.seed.unwrap_or_else(|| fastrand::u64(1..1 << 40));
        println!("the first seed is {seed}");
        let mut table = Table::default();
        let mut terminate = signal(SignalKind::terminate())?;
        for engine in engines {
            let stage = self.stage(engine, &work).await?;
            let line = tokio::select! {
                line = self.on(&stage, seed) => line,
                _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
                _ = terminate.recv() => Err("terminated".into()),
            };
            if let Some(server) = &stage.server {
                server.down().await?;
            }
            table.0.push(line?);
        }
        if table.is_clean() || !self.keep {
            std::fs::remove_dir_all(&work)?;
        }
        print!("{table}");
        Ok(table.is_clean())
    }

    async fn stage(&self, engine: Engine, work: &Path) -> Fallible<Stage> {
        let (mut server, mut disk) = (None, None);
        match (engine, &self.url) {
            (Engine::Sqlite, _) => {
                let made = Disk::new(work.join("disk"))?;
                println!("sqlite: a full disk is {}", made.how());
                disk = Some(Arc::new(made));
            }
            (_, Some(url)) => {
                server = Some(Arc::new(Server::given(engine, plain(engine, url)).await?));
            }
            (_, None) => {
                let folder: PathBuf = work.join(engine.name());
                server = Some(Arc::new(Server::start(engine, folder).await?));
            }
        }
        Ok(Stage {
            engine,
            work: work.to_owned(),
            server,
            disk,
            tally: Arc::new(Tally::default()),
            millis: self.millis,
        })
    }

    async fn on(&self, stage: &Stage, seed: u64) -> Fallible<Line> {
        let began = Instant::now();
        let mut line = Line {
            engine: stage.engine,
            histories: 0,
            operations: 0,
            tally: Arc::clone(&stage.tally),
            violations: 0,
        };
        let own = stage.server.as_ref().is_some_and(|server| server.is_own());
        for seed in seed..seed + self.count {
            let late = |minutes| began.elapsed() >= Duration::from_secs(60 * minutes);
            if self.minutes.is_some_and(late) {
                break;
            }
            let plan = Plan::new(seed, seed, stage.engine, own, self.millis);
            let verdict = stage.play(&plan, self.keep).await?;
            line.histories += 1;
            line.operations += verdict.operations as u64;
            line.violations += verdict.violations.len() as u64;
            if !verdict.violations.is_empty() {
                println!("{} seed {seed}: {:?}", stage.engine.name(), plan.strikes);
            }
            for violation in verdict.violations.iter().take(5) {
                println!("  {violation}\n{}", verdict.excerpt(violation));
            }
        }
        Ok(line)
    }
}

/// Through the proxy there is no TLS, and nobody need ask for it.
fn plain(engine: Engine, url: &str) -> String {
    let parameter = match engine {
        Engine::Postgres => "sslmode=disable",
        _ => "ssl-mode=DISABLED",
    };
    let join = if url.contains('?') { '&' } else { '?' };
    format!("{url}{join}{parameter}")
}
