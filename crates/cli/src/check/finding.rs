use std::fmt::Write;

use serde_json::{Value, json};

use crate::output;

/// How much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// Rows are, or will be, late, lost to view or refused.
    Problem,
    /// Worth knowing; it needs no cure.
    Note,
}

/// One thing that cures a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cure {
    /// SQL for the database, by somebody who may run it.
    Sql(String),
    /// A command line of this program, without the address of the database.
    Run(String),
    /// What only a person can do.
    Do(String),
}

/// What is wrong, why, and what cures it. It holds no payload and no subject.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) level: Level,
    /// What scripts know it by, such as `missing-index`.
    pub(crate) code: &'static str,
    pub(crate) table: Option<String>,
    pub(crate) what: String,
    pub(crate) cause: String,
    pub(crate) cures: Vec<Cure>,
}

impl Finding {
    pub(crate) fn problem(code: &'static str, what: impl Into<String>) -> Self {
        Self {
            level: Level::Problem,
            code,
            table: None,
            what: what.into(),
            cause: String::new(),
            cures: Vec::new(),
        }
    }

    pub(crate) fn note(code: &'static str, what: impl Into<String>) -> Self {
        Self {
            level: Level::Note,
            ..Self::problem(code, what)
        }
    }

    pub(crate) fn of(mut self, table: &str) -> Self {
        self.table = Some(table.to_owned());
        self
    }

    pub(crate) fn because(mut self, cause: impl Into<String>) -> Self {
        self.cause = cause.into();
        self
    }

    /// Statements, of which the last is ended here.
    pub(crate) fn sql(mut self, sql: impl Into<String>) -> Self {
        self.cures.push(Cure::Sql(sql.into() + ";"));
        self
    }

    pub(crate) fn run(mut self, command: impl Into<String>) -> Self {
        self.cures.push(Cure::Run(command.into()));
        self
    }

    pub(crate) fn advise(mut self, what: impl Into<String>) -> Self {
        self.cures.push(Cure::Do(what.into()));
        self
    }

    /// For people. What a database says of itself may hold what others wrote.
    pub(crate) fn text(&self) -> String {
        let level = match self.level {
            Level::Problem => output::alarming("PROBLEM"),
            Level::Note => output::notable("note"),
        };
        let place = self.table.as_ref().map(|table| format!("{table}: "));
        let mut text = format!(
            "{level} {}\n    {}{}",
            self.code,
            place.unwrap_or_default(),
            output::clean(&self.what)
        );
        if !self.cause.is_empty() {
            let _ = write!(text, "\n    cause: {}", output::clean(&self.cause));
        }
        for cure in &self.cures {
            // What was made of several lines stays so.
            let (kind, lines) = match cure {
                Cure::Sql(sql) => ("SQL", sql.as_str()),
                Cure::Run(command) => ("run", command.as_str()),
                Cure::Do(what) => ("do", what.as_str()),
            };
            for (place, line) in lines.lines().enumerate() {
                let head = if place == 0 { kind } else { "" };
                let _ = write!(text, "\n    {head:>5}  {}", output::clean(line));
            }
        }
        text
    }

    pub(crate) fn json(&self) -> Value {
        let cures: Vec<Value> = self
            .cures
            .iter()
            .map(|cure| match cure {
                Cure::Sql(sql) => json!({ "sql": sql }),
                Cure::Run(command) => json!({ "run": command }),
                Cure::Do(what) => json!({ "do": what }),
            })
            .collect();
        json!({
            "level": match self.level {
                Level::Problem => "problem",
                Level::Note => "note",
            },
            "code": self.code,
            "table": self.table,
            "what": self.what,
            "cause": self.cause,
            "cures": cures,
        })
    }
}
