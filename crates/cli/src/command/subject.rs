use std::io;
use std::process::ExitCode;

use duebox_core::format_time;
use duebox_core::uuid::Uuid;

use crate::args::{Place, SubjectCommand};
use crate::command::list::{PAGE, object};
use crate::command::receipts;
use crate::command::status::all;
use crate::engine::Engine;
use crate::error::CliError;
use crate::output::{self, Progress};
use crate::stop::Stop;

pub(crate) async fn run(
    engine: &Engine,
    place: &Place,
    command: &SubjectCommand,
) -> Result<ExitCode, CliError> {
    match command {
        SubjectCommand::Export { subject, owner } => {
            let subject = read(subject)?;
            let owner = owner_of(owner.as_deref(), &subject)?;
            export(engine, place, &subject, owner).await?;
        }
        SubjectCommand::Erase {
            subject,
            owner,
            yes,
        } => {
            let subject = read(subject)?;
            let owner = owner_of(owner.as_deref(), &subject)?;
            output::confirm("All rows of this subject will be erased.", *yes)?;
            erase(engine, place, &subject, owner).await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The owner of tickets that is meant.
fn owner_of(owner: Option<&str>, subject: &str) -> Result<Option<Uuid>, CliError> {
    match owner {
        Some(owner) => Uuid::parse_str(owner)
            .map(Some)
            .map_err(|_| CliError::usage("--owner is no UUID")),
        None => Ok(Uuid::parse_str(subject).ok()),
    }
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

async fn export(
    engine: &Engine,
    place: &Place,
    subject: &str,
    owner: Option<Uuid>,
) -> Result<(), CliError> {
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
    let Some(owner) = with_tickets(engine, owner).await? else {
        return Ok(());
    };
    let mut after = Some(String::new());
    while let Some(ticket) = after {
        let (objects, last) = receipts::export(&*db, owner, &ticket).await?;
        for object in objects {
            output::data(&object.to_string())?;
        }
        after = last;
    }
    Ok(())
}

/// The owner, if there are tickets that could be theirs.
async fn with_tickets(engine: &Engine, owner: Option<Uuid>) -> Result<Option<Uuid>, CliError> {
    if !engine.known().await?.receipts {
        return Ok(None);
    }
    if owner.is_none() {
        output::message(
            "the tickets of push notifications were left: their owners are UUIDs; say --owner",
        );
    }
    Ok(owner)
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
        let progress = Progress::new("rows");
        let mut erased = 0;
        loop {
            stop.check(done)?;
            let rows = outbox.erase_subject(&*db, subject, PAGE).await?;
            erased += rows;
            done += rows;
            progress.at(done);
            if rows < PAGE {
                break;
            }
        }
        drop(progress);
        output::data(&format!("{}: {erased} rows erased", outbox.table()))?;
    }
    if let Some(owner) = with_tickets(engine, owner).await? {
        let tickets = engine.receipts().erase_owner(owner).await?;
        output::data(&format!("{}: {tickets} tickets erased", receipts::TABLE))?;
    }
    Ok(())
}
