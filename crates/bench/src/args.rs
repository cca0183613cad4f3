use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use duebox_sqlite::PendingReceiptStore;
use lexopt::prelude::*;

use crate::engine::{Engine, Fallible, MySql, Postgres, Sqlite, tickets};

pub(crate) const HELP: &str = "\
Measures Duebox against hand-written SQL and the naive algorithm.

duebox-bench --engine ENGINE [--url URL] [--scenario NAME]... [OPTIONS]

  --engine ENGINE    sqlite, postgres, mysql or mariadb
  --url URL          the server, with a database that nothing else uses
  --dir DIR          sqlite: where the files go, on a disk (the working directory)
  --scenario NAME    of an outbox: drain, enqueue, many, flat, cursor, worker or
                     status; of push receipts: receipts, tickets, takers or
                     receipt-plans; may be repeated; the first six unless it is said
  --rows N           drain, many, cursor, receipts, tickets: how many (100000)
  --batch N          rows of a claim, and of an INSERT of many (100)
  --drainers N       drain, many: how many at once (4)
  --workers N        worker: how many (2)
  --claim N          worker: rows of a claim (1024 on mysql, else 512); four times as
                     many handlers run at once
  --repeat N         how often each figure is measured (5)
  --waiting N        flat, status, receipt-plans: the large backlog (1000000)
  --delayed N        flat: rows that are not yet due (200000)
  --leased N         flat: rows under lease (100000 on sqlite, else 50000)
  --cursor-only      cursor: leave out the rounds without the cursor, which take
                     long if there are many rows
  --json             JSON instead of Markdown
";

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Sqlite,
    Postgres,
    MySql,
}

/// What each engine has to reach.
pub(crate) struct Targets {
    pub(crate) by_hand: f64,
    pub(crate) naive: f64,
    pub(crate) enqueue: Option<f64>,
}

#[derive(Clone)]
pub(crate) struct Args {
    pub(crate) kind: Kind,
    url: Option<String>,
    dir: PathBuf,
    pub(crate) scenarios: Vec<String>,
    pub(crate) rows: u64,
    pub(crate) batch: u64,
    pub(crate) drainers: usize,
    pub(crate) workers: usize,
    pub(crate) claim: usize,
    pub(crate) repeat: usize,
    pub(crate) waiting: u64,
    pub(crate) delayed: u64,
    pub(crate) leased: u64,
    pub(crate) cursor_only: bool,
    pub(crate) json: bool,
    /// The file of the tickets to take, for a process that the program started
    /// itself: empty on a server.
    taker: Option<PathBuf>,
}

impl Args {
    /// `None` if help was asked for.
    pub(crate) fn parse() -> Fallible<Option<Self>> {
        let mut parser = lexopt::Parser::from_env();
        let (mut kind, mut leased, mut claim) = (None, None, None);
        let mut args = Self {
            kind: Kind::Sqlite,
            url: None,
            dir: ".".into(),
            scenarios: Vec::new(),
            rows: 100_000,
            batch: 100,
            drainers: 4,
            workers: 2,
            claim: 512,
            repeat: 5,
            waiting: 1_000_000,
            delayed: 200_000,
            leased: 100_000,
            cursor_only: false,
            json: false,
            taker: None,
        };
        while let Some(arg) = parser.next()? {
            match arg {
                Long("engine") => {
                    kind = Some(match &*parser.value()?.string()? {
                        "sqlite" => Kind::Sqlite,
                        "postgres" => Kind::Postgres,
                        "mysql" | "mariadb" => Kind::MySql,
                        other => return Err(format!("there is no engine {other}").into()),
                    });
                }
                Long("url") => args.url = Some(parser.value()?.string()?),
                Long("dir") => args.dir = parser.value()?.into(),
                Long("scenario") => args.scenarios.push(parser.value()?.string()?),
                Long("rows") => args.rows = parser.value()?.parse()?,
                Long("batch") => args.batch = parser.value()?.parse()?,
                Long("drainers") => args.drainers = parser.value()?.parse()?,
                Long("workers") => args.workers = parser.value()?.parse()?,
                Long("claim") => claim = Some(parser.value()?.parse()?),
                Long("repeat") => args.repeat = parser.value()?.parse()?,
                Long("waiting") => args.waiting = parser.value()?.parse()?,
                Long("delayed") => args.delayed = parser.value()?.parse()?,
                Long("leased") => leased = Some(parser.value()?.parse()?),
                Long("cursor-only") => args.cursor_only = true,
                Long("taker") => args.taker = Some(parser.value()?.into()),
                Long("json") => args.json = true,
                Short('h') | Long("help") => return Ok(None),
                other => return Err(other.unexpected().into()),
            }
        }
        args.kind = kind.ok_or("which --engine?")?;
        let on_server = args.kind != Kind::Sqlite;
        args.leased = leased.unwrap_or(if on_server { 50_000 } else { 100_000 });
        // As each engine does best.
        args.claim = claim.unwrap_or(if args.kind == Kind::MySql { 1_024 } else { 512 });
        for (name, count) in [
            ("rows", args.rows),
            ("batch", args.batch),
            ("drainers", args.drainers as u64),
            ("workers", args.workers as u64),
            ("claim", args.claim as u64),
            ("repeat", args.repeat as u64),
        ] {
            if count == 0 {
                return Err(format!("--{name} must be at least 1").into());
            }
        }
        if args.scenarios.is_empty() {
            args.scenarios = ["drain", "enqueue", "many", "flat", "cursor", "worker"]
                .map(str::to_owned)
                .into();
        }
        Ok(Some(args))
    }

    pub(crate) async fn open(&self) -> Fallible<Box<dyn Engine>> {
        let url = || self.url.as_deref().ok_or("which --url?");
        Ok(match self.kind {
            Kind::Sqlite => Box::new(Sqlite::new(&self.dir)?),
            Kind::Postgres => Box::new(Postgres::new(url()?).await?),
            Kind::MySql => Box::new(MySql::new(url()?).await?),
        })
    }

    /// This program again, as one that takes the tickets in this file.
    pub(crate) fn taker_command(&self, file: &Path) -> Fallible<Command> {
        let engine = match self.kind {
            Kind::Sqlite => "sqlite",
            Kind::Postgres => "postgres",
            Kind::MySql => "mysql",
        };
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--engine", engine]);
        if let Some(url) = &self.url {
            command.args(["--url", url]);
        }
        command.arg("--taker").arg(file);
        Ok(command)
    }

    /// If this is such a program, the tickets to take.
    pub(crate) async fn taker(&self) -> Fallible<Option<Arc<dyn PendingReceiptStore>>> {
        let Some(file) = &self.taker else {
            return Ok(None);
        };
        let url = self.url.as_deref().unwrap_or_default();
        Ok(Some(tickets::attach(self.kind, url, file).await?))
    }

    pub(crate) fn targets(&self) -> Targets {
        match self.kind {
            Kind::Sqlite => Targets {
                by_hand: 0.8,
                naive: 15.0,
                enqueue: Some(5.0),
            },
            Kind::Postgres => Targets {
                by_hand: 0.85,
                naive: 15.0,
                enqueue: None,
            },
            Kind::MySql => Targets {
                by_hand: 0.8,
                naive: 10.0,
                enqueue: None,
            },
        }
    }
}
