//! Hands work to a command or an HTTP server, by the worker.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use duebox_postgres::{PostgresOptions, PostgresWakeSource};
use duebox_worker::{Backoff, Clock, Handler, Job, Outcome, Worker, WorkerError};

use crate::args::Place;
use crate::engine::{self, Engine};
use crate::error::CliError;
use crate::output;
use crate::signals::Signals;

mod exec;
mod http;
mod log;
mod webhook;

#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("to").required(true).args(["exec", "http"]))]
pub(crate) struct DeliverArgs {
    /// Run this command for each job, with the payload on its standard input;
    /// takes the rest of the line
    #[arg(
        long,
        value_name = "CMD",
        num_args = 1..,
        allow_hyphen_values = true
    )]
    exec: Vec<OsString>,
    /// POST each payload to this URL
    #[arg(long, value_name = "URL")]
    http: Option<String>,
    /// Only jobs of this topic; may be said again
    #[arg(long)]
    topic: Vec<String>,
    /// How many jobs run at once
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = at_least_one)]
    concurrency: usize,
    /// How long one job may take
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = humantime::parse_duration)]
    job_timeout: Duration,
    /// After how many failures a job is parked
    #[arg(long, value_name = "N", default_value_t = 25, value_parser = clap::value_parser!(u64).range(1..))]
    max_attempts: u64,
    /// The longest wait between two attempts
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = humantime::parse_duration)]
    max_wait: Duration,
    /// How long claimed jobs are out of others' reach, at least 1s: what a
    /// crash costs
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = humantime::parse_duration)]
    lease: Duration,
    /// How long jobs that run may take to end when it is told to stop
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration)]
    grace: Duration,
    /// Say only what is wrong with the database, and nothing of jobs that fail
    #[arg(long)]
    quiet: bool,
    /// End when no job is due
    #[arg(long)]
    until_empty: bool,
    #[command(flatten)]
    request: RequestArgs,
}

/// What a request looks like.
#[derive(Debug, clap::Args)]
struct RequestArgs {
    /// What the payloads are
    #[arg(
        long,
        value_name = "TYPE",
        default_value = "application/json",
        conflicts_with = "exec"
    )]
    content_type: String,
    /// Sign by the secret in this environment variable (`whsec_…`); may be said
    /// again, and a variable may hold several secrets
    #[arg(long, value_name = "NAME", conflicts_with = "exec")]
    secret_env: Vec<String>,
    /// Sign by the secret in this file; may be said again
    #[arg(long, value_name = "PATH", conflicts_with = "exec")]
    secret_file: Vec<PathBuf>,
    /// How long it may take to connect
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration, conflicts_with = "exec")]
    connect_timeout: Duration,
    /// Go through the proxy that `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` name
    #[arg(long, conflicts_with = "exec")]
    proxy_from_env: bool,
}

/// Without the command and the URL, which may hold a secret.
impl std::fmt::Debug for DeliverArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeliverArgs")
            .field("topic", &self.topic)
            .field("concurrency", &self.concurrency)
            .finish_non_exhaustive()
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err("it is not a number from 1".to_owned()),
    }
}

pub(crate) async fn run(place: &Place, args: DeliverArgs) -> Result<ExitCode, CliError> {
    if args.job_timeout.is_zero() {
        return Err(CliError::usage("--job-timeout must be more than 0s"));
    }
    // What can be wrong with the target is said before the database is asked.
    let mut stop = Signals::new()?;
    log::start(args.quiet);
    let target = Target::new(&args)?;
    let engine = Engine::open_for_worker(place).await?;
    let outbox = engine::outbox(place)?;
    // That the table is not there would otherwise be logged and tried again for ever.
    outbox.stats(&*engine.db(), &now(&engine).await?).await?;
    let clock = Clock::start(engine.db()).await?;
    let (handler, timeout): (Arc<dyn Handler>, _) = match target {
        Target::Exec(command) => (Arc::new(exec::Exec::new(command)), args.job_timeout),
        Target::Http(request) => (
            Arc::new(http::Http::new(request, clock.clone())),
            args.job_timeout.saturating_add(http::MARGIN),
        ),
    };
    let mut worker = Worker::builder(outbox.clone(), engine.db())
        .name(format!("duebox deliver {}", std::process::id()))
        .clock(clock)
        .concurrency(args.concurrency)
        .timeout(timeout)
        .lease(args.lease)
        .retry(
            Backoff::default()
                .max_attempts(args.max_attempts)
                .cap(args.max_wait),
        )
        .sample_every(None);
    if matches!(engine, Engine::Postgres(_)) {
        let options = PostgresOptions::new(engine::url(place)?)?;
        worker = worker.wake_on(PostgresWakeSource::new(options, &outbox));
    }
    worker = if args.topic.is_empty() {
        worker.handle_any(Shared(handler))
    } else {
        args.topic.iter().fold(worker, |worker, topic| {
            worker.handle(topic.as_str(), Shared(Arc::clone(&handler)))
        })
    };
    let worker = worker.start().await.map_err(of_worker)?;
    let code = tokio::select! {
        code = stop.next() => code,
        end = worker.settled(), if args.until_empty => end.map(|()| 0).map_err(of_worker)?,
        end = worker.wait() => return Err(end.err().map_or_else(died, of_worker)),
    };
    tokio::select! {
        end = worker.shutdown(args.grace) => {
            let stopped = end.map_err(of_worker)?;
            if stopped.interrupted > 0 {
                output::message(&format!(
                    "{} jobs were interrupted and are due again",
                    stopped.interrupted
                ));
            }
            Ok(ExitCode::from(code))
        }
        // Told twice: at once.
        _ = stop.next() => Ok(ExitCode::from(130)),
    }
}

async fn now(engine: &Engine) -> Result<String, CliError> {
    Ok(duebox_core::format_time(engine.db().now().await?)?)
}

fn of_worker(error: WorkerError) -> CliError {
    match error {
        WorkerError::Settings(what) => CliError::usage(what),
        WorkerError::Database(error) => error.into(),
        other => CliError::Finding(other.to_string()),
    }
}

fn died() -> CliError {
    of_worker(WorkerError::Died)
}

/// One handler for several topics, which says why a job failed.
struct Shared(Arc<dyn Handler>);

#[async_trait]
impl Handler for Shared {
    async fn handle(&self, job: Job) -> Outcome {
        let outcome = self.0.handle(job).await;
        log::outcome(&outcome);
        outcome
    }
}

/// Where jobs go, found to be usable.
enum Target {
    Exec(Vec<OsString>),
    Http(http::Request),
}

impl Target {
    fn new(args: &DeliverArgs) -> Result<Self, CliError> {
        match &args.http {
            Some(url) => Ok(Self::Http(http::Request::new(
                url,
                &args.request,
                args.job_timeout,
            )?)),
            None => Ok(Self::Exec(exec::found(&args.exec)?)),
        }
    }
}
