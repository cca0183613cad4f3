//! Rows from the command line, a file or standard input.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::process::ExitCode;

use duebox_core::chrono::{DateTime, Utc};
use duebox_core::{
    Database, DbError, Enqueue, MAX_PAYLOAD_BYTES, Outbox, Statement, WakeSink, parse_time,
};
use duebox_postgres::PostgresWakeSink;

use crate::args::Place;
use crate::engine::{self, Engine};
use crate::error::CliError;
use crate::output;

mod lines;

#[derive(clap::Args)]
pub(crate) struct EnqueueArgs {
    /// What kind of work it is
    #[arg(required_unless_present = "json_lines", conflicts_with = "json_lines")]
    topic: Option<String>,
    /// What the work needs to know, or - to read it from standard input; empty
    /// if it is not said
    #[arg(conflicts_with = "json_lines")]
    payload: Option<String>,
    /// Read the payload from this file
    #[arg(long, value_name = "PATH", conflicts_with_all = ["payload", "json_lines"])]
    file: Option<PathBuf>,
    /// The row's id, instead of a new one
    #[arg(long, conflicts_with = "json_lines")]
    id: Option<String>,
    /// The person the work is for
    #[arg(long, conflicts_with = "json_lines")]
    subject: Option<String>,
    /// When it is enqueued and first due, as in 2026-01-31T09:30:00Z; now by
    /// the database's clock if it is not said
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
    /// Leave alone a row whose id is there already; ids must be given
    #[arg(long)]
    once: bool,
    /// Read rows from standard input, one JSON object a line: topic, payload
    /// (text, or any JSON), subject, at, id
    #[arg(long)]
    json_lines: bool,
    /// Leave out the lines before this one, to go on where it stopped
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        requires = "json_lines",
        hide_default_value = true
    )]
    from_line: u64,
}

/// Without what may be private.
impl std::fmt::Debug for EnqueueArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EnqueueArgs")
            .field("topic", &self.topic)
            .finish_non_exhaustive()
    }
}

pub(crate) async fn run(
    engine: &Engine,
    place: &Place,
    args: EnqueueArgs,
) -> Result<ExitCode, CliError> {
    let target = Target {
        db: engine.db(),
        outbox: engine::outbox(place)?,
        once: args.once,
    };
    let at = args.at.as_deref().map(parse_time).transpose()?;
    let already = if args.json_lines {
        lines::run(engine, &target, at, args.from_line).await?
    } else {
        one(engine, &target, args, at).await?
    };
    if already > 0 {
        output::message(&format!("{already} rows were there already"));
    }
    Ok(ExitCode::SUCCESS)
}

async fn one(
    engine: &Engine,
    target: &Target,
    args: EnqueueArgs,
    at: Option<DateTime<Utc>>,
) -> Result<u64, CliError> {
    if args.once && args.id.is_none() {
        return Err(CliError::usage(
            "--once goes by the id; say which with --id",
        ));
    }
    let payload = match (args.payload.as_deref(), &args.file) {
        (_, Some(path)) => {
            let file = File::open(path).map_err(|error| CliError::Io("open the file", error))?;
            text(file, "read the file")?
        }
        (Some("-"), None) => text(io::stdin().lock(), "read standard input")?,
        (payload, None) => payload.unwrap_or_default().to_owned(),
    };
    let at = match at {
        Some(at) => at,
        None => target.db.now().await?,
    };
    let row = Ready::new(
        target,
        Enqueue::new(args.topic.unwrap_or_default()).payload(payload),
        args.id,
        args.subject,
        at,
    )?;
    let touched = target.write(std::slice::from_ref(&row)).await?;
    wake(engine, &target.outbox).await;
    output::data(&row.id)?;
    Ok(1 - touched)
}

/// A whole text, if it can be a payload.
fn text(reader: impl Read, doing: &'static str) -> Result<String, CliError> {
    let mut bytes = Vec::new();
    // One byte more, so that what is too long is refused and not cut.
    let most = MAX_PAYLOAD_BYTES as u64 + 1;
    let read = reader.take(most).read_to_end(&mut bytes);
    read.map_err(|error| CliError::Io(doing, error))?;
    if bytes.len() as u64 == most {
        return Err(CliError::usage(format!(
            "the payload is longer than the {MAX_PAYLOAD_BYTES} bytes that fit; keep the content \
             elsewhere and enqueue a reference to it"
        )));
    }
    String::from_utf8(bytes).map_err(|_| {
        CliError::usage("the payload is not UTF-8 text; encode it, as base64 for instance")
    })
}

/// Where rows go.
struct Target {
    db: std::sync::Arc<dyn Database>,
    outbox: Outbox,
    once: bool,
}

/// A row that can be written.
struct Ready {
    id: String,
    work: Enqueue,
    bytes: usize,
}

impl Ready {
    fn new(
        target: &Target,
        work: Enqueue,
        id: Option<String>,
        subject: Option<String>,
        at: DateTime<Utc>,
    ) -> Result<Self, DbError> {
        let id = id.unwrap_or_else(|| Enqueue::new_id(at));
        let mut work = work.id(id.as_str()).at(at);
        if let Some(subject) = subject {
            work = work.subject(subject);
        }
        // What cannot be enqueued is refused here, before anything is written.
        let statement = target.outbox.enqueue(work.clone());
        let bytes = statement
            .values()?
            .iter()
            .map(|value| match value {
                duebox_core::Value::Text(text) => text.len(),
                _ => 0,
            })
            .sum();
        Ok(Self { id, work, bytes })
    }
}

impl Target {
    /// Writes all of these or none; returns how many were not there already.
    async fn write(&self, rows: &[Ready]) -> Result<u64, DbError> {
        let work = rows.iter().map(|row| row.work.clone());
        let statements: Vec<Statement> = if self.once {
            work.map(|work| self.outbox.enqueue_once(work)).collect()
        } else {
            vec![self.outbox.enqueue_many_statement(work)]
        };
        Ok(self.db.batch_atomic(&statements).await?.into_iter().sum())
    }
}

/// Tells workers that listen. One that was not told polls.
async fn wake(engine: &Engine, outbox: &Outbox) {
    if let Engine::Postgres(db) = engine {
        let _ = PostgresWakeSink::new(db.clone(), outbox).wake().await;
    }
}
