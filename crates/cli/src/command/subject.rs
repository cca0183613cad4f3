use std::io;
use std::process::ExitCode;

use duebox_core::format_time;
use duebox_core::uuid::Uuid;

use crate::args::{Place, SubjectCommand};
use crate::command::list::{PAGE, object};
use crate::command::status::all;
use crate::engine::Engine;
use crate::error::CliError;
use crate::output;
use crate::stop::Stop;

pub(crate) async fn run(
    engine: &Engine,
    place: &Place,
    command: &SubjectCommand,
) -> Result<ExitCode, CliError> {
    match command {
        SubjectCommand::Export { subject } => export(engine, place, &read(subject)?).await?,
        SubjectCommand::Erase {
            subject,
            owner,
            yes,
        } => {
            let subject = read(subject)?;
            let owner = match owner {
                Some(owner) => Some(
                    Uuid::parse_str(owner).map_err(|_| CliError::usage("--owner is no UUID"))?,
                ),
                None => Uuid::parse_str(&subject).ok(),
            };
            output::confirm("All rows of this subject will be erased.", *yes)?;
            erase(engine, place, &subject, owner).await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What is given as an argument can be read by others on the machine.
fn read(subject: &str) -> Result<String, CliError> {
    if subject != "-" {
        return Ok(subject.to_owned());
    }
    let mut line = String::new();
    io::stdin()
        .read_line(&mut line)
        .map_err(|error| CliError::Io("read the subject", error))?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

async fn export(engine: &Engine, place: &Place, subject: &str) -> Result<(), CliError> {
    let db = engine.db();
    let now = format_time(db.now().await?)?;
    for outbox in all(engine, place).await? {
        let mut after: Option<String> = None;
        loop {
            let rows = outbox
                .export_subject(&*db, subject, after.as_deref(), PAGE)
                .await?;
            for row in &rows {
                let mut object = object(row, &now, true);
                object["table"] = outbox.table().into();
                output::data(&object.to_string())?;
            }
            after = rows.last().map(|row| row.id.clone());
            if (rows.len() as u64) < PAGE {
                break;
            }
        }
    }
    Ok(())
}

async fn erase(
    engine: &Engine,
    place: &Place,
    subject: &str,
    owner: Option<Uuid>,
) -> Result<(), CliError> {
    let (db, stop) = (engine.db(), Stop::new());
    let mut done = 0;
    for outbox in all(engine, place).await? {
        let mut erased = 0;
        loop {
            stop.check(done)?;
            let rows = outbox.erase_subject(&*db, subject, PAGE).await?;
            erased += rows;
            done += rows;
            output::progress(done);
            if rows < PAGE {
                break;
            }
        }
        output::progress_done();
        output::data(&format!("{}: {erased} rows erased", outbox.table()))?;
    }
    let receipts = engine.known().await?.is_some_and(|known| known.receipts);
    match owner {
        Some(owner) if receipts => {
            let tickets = engine.receipts().erase_owner(owner).await?;
            output::data(&format!("pending_receipts: {tickets} tickets erased"))?;
        }
        None if receipts => output::message(
            "the tickets of push notifications were left: their owners are UUIDs; say --owner",
        ),
        _ => {}
    }
    Ok(())
}
