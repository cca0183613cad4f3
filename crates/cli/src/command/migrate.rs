use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use duebox_migrations::Migration;

use crate::args::{MigrateArgs, Place, Tool};
use crate::engine::{self, Engine};
use crate::error::CliError;
use crate::output;

pub(crate) async fn run(place: &Place, args: &MigrateArgs) -> Result<ExitCode, CliError> {
    if args.print || args.tool.is_some() {
        print(place, args)?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.engine.is_some() {
        return Err(CliError::usage("--engine goes with --print or --tool"));
    }
    let engine = Engine::open_or_make(place).await?;
    if place.table.is_some() {
        let outbox = engine::outbox(place)?;
        engine.migrate_outbox(&outbox).await?;
        output::message(&format!("{} is there", outbox.table()));
    } else {
        engine.migrate().await?;
        output::message("outbox and pending_receipts are there");
    }
    Ok(ExitCode::SUCCESS)
}

fn print(place: &Place, args: &MigrateArgs) -> Result<(), CliError> {
    let dialect = match args.engine {
        Some(engine) => engine.dialect(),
        None => engine::dialect(place)?,
    };
    let outbox = engine::outbox(place)?;
    let mut steps: Vec<(&Migration, String)> = duebox_migrations::outbox(dialect)
        .iter()
        .map(|step| (step, step.render(outbox.table())))
        .collect();
    if place.table.is_none() {
        let receipts = duebox_migrations::receipts(dialect).iter();
        steps.extend(receipts.map(|step| (step, step.render(step.table()))));
    }
    let (Some(tool), Some(from), Some(folder)) = (args.tool, args.from, &args.dir) else {
        let texts: Vec<&str> = steps.iter().map(|(_, sql)| sql.trim_end()).collect();
        return output::data(&texts.join("\n\n"));
    };
    fs::create_dir_all(folder).map_err(|error| CliError::Io("make the folder", error))?;
    for ((step, sql), number) in steps.iter().zip(from..) {
        let name = file_name(tool, number, step.name);
        write(&folder.join(&name), &text(tool, sql))?;
        output::data(&name)?;
    }
    Ok(())
}

/// What each tool finds its files by: sqlx and dbmate `<version>_<description>.sql`,
/// refinery and Flyway `V<version>__<description>.sql`.
fn file_name(tool: Tool, number: u32, name: &str) -> String {
    match tool {
        Tool::Sqlx => format!("{number:04}_{name}.sql"),
        Tool::Dbmate => format!("{number:014}_{name}.sql"),
        Tool::Refinery | Tool::Flyway => format!("V{number}__{name}.sql"),
    }
}

/// dbmate reads both directions from one file. Nothing is dropped on the way
/// back: rows that wait are work that was promised.
fn text(tool: Tool, sql: &str) -> String {
    match tool {
        Tool::Dbmate => format!("-- migrate:up\n{}\n\n-- migrate:down\n", sql.trim_end()),
        _ => sql.to_owned(),
    }
}

fn write(path: &Path, text: &str) -> Result<(), CliError> {
    File::create_new(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| CliError::Io("write a file of the migrations", error))
}
