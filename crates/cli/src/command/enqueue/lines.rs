//! Many rows, one JSON object a line.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, BufRead, Read};

use duebox_core::chrono::{DateTime, Utc};
use duebox_core::{DbError, Enqueue, MAX_PAYLOAD_BYTES, Outcome, parse_time};
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use super::{Ready, Target, wake};
use crate::engine::Engine;
use crate::error::CliError;
use crate::output;

/// Rows that are written at a time.
const ROWS: usize = 500;
/// Bytes that are, with room under the packets of MySQL and MariaDB.
const BYTES: usize = MAX_PAYLOAD_BYTES + 64 * 1024;
/// The longest line. JSON may need six bytes for one of a payload.
const LINE: usize = 6 * MAX_PAYLOAD_BYTES + 64 * 1024;

/// Enqueues what standard input says, and prints the ids of each batch once it
/// is committed. Returns how many rows were there already.
pub(super) async fn run(
    engine: &Engine,
    target: &Target,
    at: Option<DateTime<Utc>>,
    from: u64,
) -> Result<u64, CliError> {
    let stop = tokio::signal::ctrl_c();
    let mut stop = std::pin::pin!(stop);
    let mut input = lines();
    let mut so_far = SoFar {
        line: from.saturating_sub(1),
        ..SoFar::default()
    };
    let mut batch = Batch::default();
    loop {
        let line = tokio::select! {
            biased;
            _ = &mut stop => return Err(so_far.with(Bad::Stopped)),
            line = input.recv() => line,
        };
        let line = line.transpose().map_err(|bad| so_far.with(bad))?;
        let row = match &line {
            Some((number, text)) if *number >= from && !text.trim().is_empty() => {
                let now = match at.or(batch.now) {
                    Some(now) => now,
                    None => *batch.now.insert(target.db.now().await?),
                };
                let row = read(target, text, now);
                Some(row.map_err(|what| so_far.with(Bad::Line(*number, what)))?)
            }
            _ => None,
        };
        // A row that is too much for this batch begins the next one.
        let bytes = row.as_ref().map_or(0, |row| row.bytes);
        let full = batch.rows.len() == ROWS || batch.bytes + bytes > BYTES;
        if !batch.rows.is_empty() && (full || line.is_none()) {
            let touched = target.write(&batch.rows).await;
            let touched = touched.map_err(|error| so_far.with(Bad::Database(error)))?;
            wake(engine, &target.outbox).await;
            let ids: Vec<&str> = batch.rows.iter().map(|row| row.id.as_str()).collect();
            so_far.rows += ids.len() as u64;
            so_far.already += ids.len() as u64 - touched;
            so_far.line = batch.last;
            output::data(&ids.join("\n"))?;
            batch = Batch::default();
        }
        let Some((number, _)) = line else {
            return Ok(so_far.already);
        };
        if let Some(row) = row {
            batch.bytes += row.bytes;
            batch.rows.push(row);
            batch.last = number;
        }
    }
}

/// Rows to be written together.
#[derive(Default)]
struct Batch {
    rows: Vec<Ready>,
    bytes: usize,
    /// The line of the last of them.
    last: u64,
    /// What time it was when the first of them was read.
    now: Option<DateTime<Utc>>,
}

/// The lines of standard input, by a thread that ends with the process: a read
/// cannot be given up.
fn lines() -> mpsc::Receiver<Result<(u64, String), Bad>> {
    let (sender, lines) = mpsc::channel(64);
    std::thread::spawn(move || {
        let mut stdin = io::stdin().lock();
        for number in 1.. {
            let mut bytes = Vec::new();
            let read = (&mut stdin)
                .take(LINE as u64 + 1)
                .read_until(b'\n', &mut bytes);
            let line = match read {
                Ok(0) => return,
                Err(error) => Err(Bad::Io(error)),
                Ok(bytes) if bytes > LINE => Err(Bad::Line(number, "it is too long".into())),
                Ok(_) => String::from_utf8(bytes)
                    .map(|text| (number, text))
                    .map_err(|_| Bad::Line(number, "it is not UTF-8 text".into())),
            };
            let over = line.is_err();
            if sender.blocking_send(line).is_err() || over {
                return;
            }
        }
    });
    lines
}

/// What a line says, or what is wrong with it without a word of it.
fn read(target: &Target, line: &str, now: DateTime<Utc>) -> Result<Ready, String> {
    let mut fields: BTreeMap<String, Box<RawValue>> = serde_json::from_str(line)
        .map_err(|error| format!("it is no JSON object (column {})", error.column()))?;
    let mut take = |name: &str| fields.remove(name);
    let (topic, payload) = (take("topic"), take("payload"));
    let (subject, at, id) = (take("subject"), take("at"), take("id"));
    if !fields.is_empty() {
        return Err("it has a key other than topic, payload, subject, at and id".into());
    }
    let topic = text("topic", topic)?.ok_or("it has no topic")?;
    let subject = text("subject", subject)?;
    let id = text("id", id)?;
    if target.once && id.is_none() {
        return Err("it has no id, by which --once goes".into());
    }
    let said = |error: DbError| error.to_string();
    let at = match text("at", at)? {
        Some(at) => parse_time(&at).map_err(said)?,
        None => now,
    };
    // A text is the payload; of any other JSON its own text is, as it stands.
    let payload = payload.map_or_else(String::new, |raw| {
        serde_json::from_str(raw.get()).unwrap_or_else(|_| raw.get().to_owned())
    });
    let work = Enqueue::new(topic).payload(payload);
    Ready::new(target, work, id, subject, at).map_err(said)
}

fn text(name: &str, raw: Option<Box<RawValue>>) -> Result<Option<String>, String> {
    raw.map_or(Ok(None), |raw| {
        serde_json::from_str(raw.get()).map_err(|_| format!("its {name} is no text"))
    })
}

/// Why it goes no further.
enum Bad {
    Line(u64, String),
    Io(io::Error),
    Database(DbError),
    /// Ctrl-C.
    Stopped,
}

/// What is committed.
#[derive(Default)]
struct SoFar {
    line: u64,
    rows: u64,
    already: u64,
}

impl SoFar {
    /// The error, after how far it got is said.
    fn with(&self, bad: Bad) -> CliError {
        let next = self.line + 1;
        let mut said = format!("{} rows are enqueued", self.rows);
        match &bad {
            Bad::Database(error) if error.outcome() == Outcome::Unknown => {
                let _ = write!(
                    said,
                    "; whether lines from {next} on are is not known, up to {ROWS} of them: \
                     go on with --from-line {next}, safely if they have ids and --once is said"
                );
            }
            _ => {
                let _ = write!(
                    said,
                    ", and nothing from line {next} on: go on with --from-line {next}"
                );
            }
        }
        output::message(&said);
        match bad {
            Bad::Line(number, what) => CliError::usage(format!("line {number}: {what}")),
            Bad::Io(error) => CliError::Io("read standard input", error),
            Bad::Database(error) => error.into(),
            Bad::Stopped => CliError::Stopped(self.rows),
        }
    }
}
