#![doc = include_str!("../README.md")]

mod check;
mod drain;
mod full;
mod history;
mod place;
mod plan;
mod privacy;
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

use clap::{Args, Parser, Subcommand, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};

use self::full::Disk;
use self::history::Answer;
use self::place::Engine;
use self::plan::{Can, Plan};
use self::privacy::Privacy;
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
    /// Calls everything with a mark in every field, makes every error happen,
    /// and exits with 1 if a mark is seen in any output, or after an erasure.
    Privacy(Privacy),
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
    /// Puts a PostgreSQL server on a small file system and fills that, instead
    /// of ending the server. Needs the right to mount.
    #[arg(long)]
    full_disk: bool,
    /// Keeps the journals of histories that broke a promise.
    #[arg(long)]
    keep: bool,
}

fn main() -> ExitCode {
    let command = Cli::parse().command;
    if let Command::Process(args) = &command {
        role::run(args);
        return ExitCode::SUCCESS;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    match runtime.block_on(command.run()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("duebox-faults: {error}");
            ExitCode::from(2)
        }
    }
}

/// Comes when this process is told to end, so that it can clean up.
async fn interruption() -> Box<dyn std::error::Error + Send + Sync> {
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => tokio::select! {
            _ = tokio::signal::ctrl_c() => "interrupted".into(),
            _ = terminate.recv() => "terminated".into(),
        },
        Err(error) => error.into(),
    }
}

/// The engines that were asked for, or all.
fn engines(asked: &[Engine], url: Option<&str>) -> Fallible<Vec<Engine>> {
    let engines = match asked {
        [] => Engine::value_variants().to_vec(),
        asked => asked.to_vec(),
    };
    if url.is_some() && engines.len() > 1 {
        return Err("a URL is for one engine".into());
    }
    Ok(engines)
}

impl Command {
    /// Whether all is as it is promised.
    async fn run(&self) -> Fallible<bool> {
        let work = std::env::temp_dir().join(format!("duebox-faults-{}", std::process::id()));
        std::fs::create_dir_all(&work)?;
        // Servers may run as another user.
        std::fs::set_permissions(&work, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        let (done, keep) = match self {
            Self::Histories(histories) => (histories.run(&work).await, histories.keep),
            Self::Privacy(privacy) => (privacy.run(&work).await, false),
            Self::Process(_) => (Ok(true), false),
        };
        if !keep || matches!(done, Ok(true)) {
            std::fs::remove_dir_all(&work)?;
        }
        done
    }
}

impl Histories {
    async fn run(&self, work: &Path) -> Fallible<bool> {
        let engines = engines(&self.engine, self.url.as_deref())?;
        let seed = self.seed.unwrap_or_else(|| fastrand::u64(1..1 << 40));
        println!("the first seed is {seed}");
        let mut table = Table::default();
        for engine in engines {
            let stage = self.stage(engine, work).await?;
            let line = tokio::select! {
                line = self.on(&stage, seed) => line,
                why = interruption() => Err(why),
            };
            if let Some(server) = &stage.server {
                server.down().await?;
            }
            table.0.push(line?);
        }
        print!("{table}");
        Ok(table.is_clean())
    }

    async fn stage(&self, engine: Engine, work: &Path) -> Fallible<Stage> {
        let (mut server, mut disk) = (None, None);
        match (engine, &self.url) {
            (Engine::Sqlite, _) => {
                let made = Disk::new(work.join("disk"), 48)?;
                println!("sqlite: a full disk is {}", made.how());
                disk = Some(Arc::new(made));
            }
            (_, Some(url)) => {
                server = Some(Arc::new(Server::given(engine, plain(engine, url)).await?));
            }
            (Engine::Postgres, None) if self.full_disk => {
                let made = Disk::new(work.join("disk"), 400)?;
                if !made.is_mounted() {
                    return Err("there is no right to mount a file system".into());
                }
                let folder = made.folder.join(engine.name());
                let small = "-c max_wal_size=64MB -c min_wal_size=32MB";
                server = Some(Arc::new(Server::start_with(engine, folder, small).await?));
                disk = Some(Arc::new(made));
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
            refused: 0,
            unknown: 0,
            tally: Arc::clone(&stage.tally),
            violations: 0,
        };
        let fill = stage.server.is_some() && stage.disk.is_some();
        let own = stage.server.as_ref().is_some_and(|server| server.is_own());
        let can = Can {
            end: own && !fill,
            fill,
        };
        for seed in seed..seed + self.count {
            let late = |minutes| began.elapsed() >= Duration::from_secs(60 * minutes);
            if self.minutes.is_some_and(late) {
                break;
            }
            let plan = Plan::new(seed, stage.engine, can, self.millis);
            let verdict = stage.play(&plan, self.keep).await;
            let verdict = verdict.map_err(|error| format!("seed {seed}: {error}"))?;
            line.histories += 1;
            line.operations += verdict.count(|_| true);
            line.refused += verdict.count(|answer| matches!(answer, Answer::Refused { .. }));
            line.unknown += verdict.count(Answer::is_unknown);
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
