//! What may be said on the command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};
use duebox_core::{Dialect, RowState};

use crate::check::CheckArgs;
use crate::command::bench::BenchArgs;
use crate::command::deliver::DeliverArgs;
use crate::command::enqueue::EnqueueArgs;

/// Enqueues, delivers, and looks after outboxes and push receipts, in SQLite, PostgreSQL, MySQL and `MariaDB`.
#[derive(Debug, Parser)]
#[command(
    name = "duebox",
    version,
    after_help = "Exit codes: 0 fine; 1 a finding, a threshold passed or an id that is not there; \
                  2 wrong usage; 3 the database; 4 files and streams; 130 stopped by Ctrl-C."
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) place: Place,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Where the rows are.
#[derive(clap::Args)]
pub(crate) struct Place {
    /// sqlite:FILE, postgres://… or mysql://…
    #[arg(
        long,
        global = true,
        env = "DUEBOX_DATABASE_URL",
        hide_env_values = true,
        value_name = "URL"
    )]
    pub(crate) database: Option<String>,
    /// The outbox; "outbox" where one is needed and none is named
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) table: Option<String>,
    /// How long one statement may run; 0s for as long as the server allows, and
    /// for poolers that let nobody set it
    #[arg(long, global = true, value_name = "TIME", default_value = "30s", value_parser = humantime::parse_duration)]
    pub(crate) timeout: Duration,
}

impl Place {
    /// How long one statement may run, if that is limited.
    pub(crate) fn limit(&self) -> Option<Duration> {
        Some(self.timeout).filter(|limit| !limit.is_zero())
    }
}

/// Without the URL, which may hold a password.
impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Place")
            .field("table", &self.table)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make the tables, or print what makes them
    Migrate(MigrateArgs),
    /// Enqueue work
    Enqueue(EnqueueArgs),
    /// Hand work to a command or an HTTP server as it falls due, until told to
    /// stop
    Deliver(DeliverArgs),
    /// Measure this database, in a table of its own that is gone afterwards
    Bench(BenchArgs),
    /// Look for what is wrong with the database
    Check(CheckArgs),
    /// Count rows by where they stand
    Status(StatusArgs),
    /// List rows, in the order of their ids
    List(ListArgs),
    /// Show one row
    Show(ShowArgs),
    /// Make parked rows due again
    Retry(RetryArgs),
    /// Set rows aside
    Park(ParkArgs),
    /// End leases; their holders lose them
    Release(ReleaseArgs),
    /// Delete rows for good
    Delete(DeleteArgs),
    /// Export or erase what is kept about a person
    #[command(subcommand)]
    Subject(SubjectCommand),
    /// Look after the tickets of push notifications
    #[command(subcommand)]
    Receipts(ReceiptsCommand),
    /// Print completions for a shell
    Completions(CompletionsArgs),
    /// Print the manual page
    Man,
}

#[derive(Debug, clap::Args)]
pub(crate) struct MigrateArgs {
    /// Print the SQL and touch no database
    #[arg(long)]
    pub(crate) print: bool,
    /// The SQL of this engine; otherwise that of --database
    #[arg(long, value_enum)]
    pub(crate) engine: Option<EngineName>,
    /// Write files named for this tool instead
    #[arg(
        long,
        value_enum,
        requires = "from",
        requires = "dir",
        conflicts_with = "print"
    )]
    pub(crate) tool: Option<Tool>,
    /// The number of the first file
    #[arg(long, value_name = "N", requires = "tool")]
    pub(crate) from: Option<u32>,
    /// Where to write the files; nothing there is overwritten
    #[arg(long, value_name = "FOLDER", requires = "tool")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Tool {
    Sqlx,
    Refinery,
    Flyway,
    Dbmate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineName {
    Sqlite,
    Postgres,
    Mysql,
}

impl EngineName {
    pub(crate) const fn dialect(self) -> Dialect {
        match self {
            Self::Sqlite => Dialect::Sqlite,
            Self::Postgres => Dialect::Postgres,
            Self::Mysql => Dialect::MySql,
        }
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {
    /// One JSON document instead of a table
    #[arg(long)]
    pub(crate) json: bool,
    /// Only what an index tells: neither topics nor holders
    #[arg(long)]
    pub(crate) totals: bool,
    /// Again and again, until Ctrl-C
    #[arg(long)]
    pub(crate) watch: bool,
    /// How long to wait in between
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = humantime::parse_duration, requires = "watch")]
    pub(crate) every: Duration,
    /// Exit with 1 if a row has been due for longer, such as 5m
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) max_oldest: Option<Duration>,
    /// Exit with 1 if an outbox has more parked rows
    #[arg(long, value_name = "N")]
    pub(crate) max_parked: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum State {
    Waiting,
    Due,
    Leased,
    Parked,
}

impl State {
    pub(crate) const fn of(state: RowState) -> &'static str {
        match state {
            RowState::Waiting => "waiting",
            RowState::Due => "due",
            RowState::Leased => "leased",
            RowState::Parked => "parked",
        }
    }

    pub(crate) const fn state(self) -> RowState {
        match self {
            Self::Waiting => RowState::Waiting,
            Self::Due => RowState::Due,
            Self::Leased => RowState::Leased,
            Self::Parked => RowState::Parked,
        }
    }
}

/// Which rows.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Filter {
    /// Only rows of this topic
    #[arg(long, allow_hyphen_values = true)]
    pub(crate) topic: Option<String>,
    /// Only rows in this state
    #[arg(long, value_enum)]
    pub(crate) state: Option<State>,
    /// Only rows enqueued longer ago, such as 2h
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) older_than: Option<Duration>,
}

impl Filter {
    pub(crate) const fn is_empty(&self) -> bool {
        self.topic.is_none() && self.state.is_none() && self.older_than.is_none()
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(crate) filter: Filter,
    /// At most so many rows
    #[arg(long, default_value_t = 100)]
    pub(crate) limit: u64,
    /// Only rows behind this id
    #[arg(long, value_name = "ID", allow_hyphen_values = true)]
    pub(crate) after: Option<String>,
    /// One JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
    /// With the subjects
    #[arg(long)]
    pub(crate) reveal: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    pub(crate) id: String,
    /// One JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// With the payload and the subject
    #[arg(long)]
    pub(crate) reveal: bool,
}

/// The rows that a command changes: by their ids, or all that match.
#[derive(Debug, clap::Args)]
pub(crate) struct Selection {
    /// The ids; without any, all rows that match the filters
    pub(crate) ids: Vec<String>,
    #[command(flatten)]
    pub(crate) filter: Filter,
    /// Say how many rows it would be, and change none
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RetryArgs {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// All parked rows that match the other filters
    #[arg(long, conflicts_with = "ids")]
    pub(crate) parked: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ParkArgs {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// What to keep with the rows as the reason
    #[arg(long, default_value = "parked by an operator")]
    pub(crate) reason: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ReleaseArgs {
    #[command(flatten)]
    pub(crate) selection: Selection,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SubjectCommand {
    /// Print all rows of a person, with payloads, and the tickets of the owner,
    /// one JSON object a line
    Export {
        /// The subject, or - to read it from standard input
        subject: String,
        /// The owner of the tickets, unless the subject is that UUID
        #[arg(long, value_name = "UUID")]
        owner: Option<String>,
    },
    /// Erase all rows of a person, and the tickets of the owner
    Erase {
        /// The subject, or - to read it from standard input
        subject: String,
        /// The owner of the tickets, unless the subject is that UUID
        #[arg(long, value_name = "UUID")]
        owner: Option<String>,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ReceiptsCommand {
    /// Count the tickets whose receipts are awaited
    Status {
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
    /// Delete tickets that nobody will answer any more
    Purge {
        /// Sent longer ago than this
        #[arg(long, value_name = "TIME", default_value = "1day", value_parser = humantime::parse_duration)]
        older_than: Duration,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}
