//! `duebox check`: what is wrong with a database, why, and what cures it.

mod access;
mod catalog;
mod clock;
mod cure;
mod finding;
mod rows;
mod server;
mod shape;

use std::process::ExitCode;
use std::time::Duration;

use duebox_core::{DbError, Dialect, Kind};
use serde_json::json;

use self::finding::{Finding, Level};
use self::shape::Shape;
use crate::args::Place;
use crate::command::{receipts, status};
use crate::engine::{self, Engine, Known};
use crate::error::CliError;
use crate::output;

/// What `check` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// One JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// A finding that is known and accepted, by its code
    #[arg(long, value_name = "CODE")]
    pub(crate) ignore: Vec<String>,
    /// How long a row may be due before nobody seems to take it
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = humantime::parse_duration)]
    pub(crate) max_oldest: Duration,
    /// How far ahead a lease may end
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = humantime::parse_duration)]
    pub(crate) max_lease: Duration,
    /// How many rows of an outbox may be parked
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) max_parked: u64,
    /// How long a transaction may be open
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = humantime::parse_duration)]
    pub(crate) max_transaction: Duration,
    /// Nothing here is scheduled ahead: rows from a time to come are a problem
    #[arg(long)]
    pub(crate) no_schedule: bool,
    /// How far clocks may differ
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = humantime::parse_duration)]
    pub(crate) max_clock: Duration,
}

/// What every part of the check works with.
pub(crate) struct Checking<'a> {
    engine: &'a Engine,
    place: &'a Place,
    args: &'a CheckArgs,
    /// How the server calls its version.
    version: String,
    findings: Vec<Finding>,
}

impl Checking<'_> {
    fn add(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    fn dialect(&self) -> Dialect {
        self.engine.db().dialect()
    }

    fn is_mariadb(&self) -> bool {
        self.version.contains("MariaDB")
    }

    /// What a part found; that it could not look is a finding too, and leaves
    /// the others to go on.
    fn looked(&mut self, at: &str, answer: Result<(), CliError>) -> Result<(), CliError> {
        match answer {
            Ok(()) => Ok(()),
            Err(CliError::Database(error)) if error.kind() != Kind::Unavailable => {
                self.add(not_seen(at, &error));
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

fn not_seen(at: &str, error: &DbError) -> Finding {
    Finding::note("not-checked", format!("{at} could not be looked at"))
        .because(error.to_string())
        .advise("run the check as a role that may see it")
}

pub(crate) async fn run(place: &Place, args: &CheckArgs) -> Result<ExitCode, CliError> {
    let engine = match Engine::open(place).await {
        Ok(engine) => engine,
        Err(CliError::Database(error)) => {
            let finding = not_opened(engine::dialect(place)?, &error);
            let finding = finding.ok_or(CliError::Database(error))?;
            return report(args, "", &[], vec![finding]);
        }
        Err(error) => return Err(error),
    };
    let engine = &engine;
    let mut checking = Checking {
        engine,
        place,
        args,
        version: server::version(engine).await?,
        findings: Vec::new(),
    };
    let known = match engine.known().await {
        Ok(known) => known,
        // What is there cannot be seen; what is named can be.
        Err(CliError::Database(error)) if engine::is_refusal(&error) => {
            if place.table.is_none() {
                let role = access::role(engine).await?;
                checking.add(access::unseen(&role));
            }
            Known::default()
        }
        Err(error) => return Err(error),
    };
    let receipts = known.receipts;
    let outboxes = status::chosen(place, known)?;

    let clock = clock::check(&mut checking).await;
    checking.looked("the clock", clock)?;
    let server = server::check(&mut checking).await;
    checking.looked("the server's settings and sessions", server)?;
    let mut tables: Vec<(String, Shape)> = outboxes
        .iter()
        .map(|outbox| (outbox.table().to_owned(), Shape::Outbox))
        .collect();
    if receipts && place.table.is_none() {
        tables.push((receipts::TABLE.to_owned(), Shape::Receipts));
    }
    for (table, shape) in &tables {
        let usable = match shape::check(&mut checking, table, *shape).await {
            Ok(usable) => usable,
            Err(error) => {
                checking.looked(&format!("the columns of {table}"), Err(error))?;
                true
            }
        };
        // What lacks columns can be asked for nothing more.
        if !usable {
            continue;
        }
        let settings = server::table(&mut checking, table).await;
        checking.looked(&format!("the settings of {table}"), settings)?;
        let access = access::check(&mut checking, table, *shape).await;
        checking.looked(&format!("the privileges on {table}"), access)?;
        if let Some(outbox) = outboxes.iter().find(|outbox| outbox.table() == table) {
            let rows = rows::check(&mut checking, outbox).await;
            checking.looked(&format!("the rows of {table}"), rows)?;
        }
    }
    report(args, &checking.version, &tables, checking.findings)
}

/// Why there is nothing to look at, where that is not a matter of the command
/// line.
fn not_opened(dialect: Dialect, error: &DbError) -> Option<Finding> {
    match error.kind() {
        Kind::Unsupported if dialect == Dialect::Sqlite => Some(access::read_only_file()),
        Kind::Unsupported => Some(
            Finding::problem("unsupported-server", "the server cannot be worked with")
                .because(error.to_string())
                .advise("set the server as the cause says, or take one that is new enough"),
        ),
        Kind::Unavailable => Some(
            Finding::problem("unreachable", "the server cannot be reached")
                .because(error.to_string())
                .advise("see that the server runs, and that --database names it and may log in"),
        ),
        _ => None,
    }
}

fn report(
    args: &CheckArgs,
    version: &str,
    tables: &[(String, Shape)],
    mut findings: Vec<Finding>,
) -> Result<ExitCode, CliError> {
    findings.retain(|finding| !args.ignore.iter().any(|code| code == finding.code));
    findings.sort_by_key(|finding| finding.level);
    let problems = findings
        .iter()
        .filter(|finding| finding.level == Level::Problem)
        .count();
    if args.json {
        let document = json!({
            "version": version,
            "tables": tables.iter().map(|(table, _)| table).collect::<Vec<_>>(),
            "problems": problems,
            "findings": findings.iter().map(Finding::json).collect::<Vec<_>>(),
        });
        output::data(&document.to_string())?;
    } else {
        output::data(&output::clean(version))?;
        for (table, _) in tables {
            output::data(&format!("looked at {table}"))?;
        }
        for finding in &findings {
            output::data(&format!("\n{}", finding.text()))?;
        }
        let unseen = findings.iter().any(|finding| finding.code == "not-checked");
        let told = match problems {
            0 if unseen => "no problem found in what could be looked at".to_owned(),
            0 => "no problem found".to_owned(),
            1 => "1 problem found".to_owned(),
            more => format!("{more} problems found"),
        };
        output::data(&format!("\n{told}"))?;
    }
    Ok(ExitCode::from(u8::from(problems > 0)))
}
