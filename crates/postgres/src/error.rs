//! Errors: what the server and the drivers report, as a [`DbError`].
//!
//! Codes are sorted here and nowhere else. The server's messages quote rows, so
//! none is passed on: only the code, and the names of constraint, column and
//! relation.

mod busy;
mod connection;
mod constraint;
mod schema;
#[cfg(feature = "sqlx")]
mod sqlx;
mod state;
mod statement;
mod tls;
mod tokio_postgres;

use std::borrow::Cow;

use duebox_core::{DbError, Kind, Outcome, Rendered};

#[cfg(feature = "sqlx")]
pub(crate) use self::sqlx::sqlx_pool;
pub(crate) use self::tokio_postgres::pool;
use crate::server::is_plain;

/// An error on its way out, with what may be done about it.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: DbError,
    pub(crate) rerun: Rerun,
    /// The connection is not to be used again.
    pub(crate) broken: bool,
    /// Nothing remains, by where it failed and not by what the server said of it.
    certain: bool,
}

/// Whether the whole of it can be run again by us. All of these are certain to
/// have left nothing behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rerun {
    No,
    /// A deadlock, or a conflict with another transaction.
    Contention,
    /// A statement that the connection keeps no longer fits the schema, or the
    /// server forgot it; to be prepared anew on the same connection.
    StalePlan,
    /// Somebody else left the connection in a transaction.
    Elsewhere,
}

impl Failure {
    /// An error of our own, on a connection that is as good as before.
    pub(crate) fn ours(error: DbError) -> Self {
        Self {
            certain: error.outcome() == Outcome::NotApplied,
            error,
            rerun: Rerun::No,
            broken: false,
        }
    }

    /// The connection was lost, or what it says makes no sense.
    pub(crate) fn lost(what: &'static str) -> Self {
        Self::broken(DbError::new(Kind::Unavailable, what))
    }

    /// An error behind which the connection is not to be used again.
    pub(crate) fn broken(error: DbError) -> Self {
        Self {
            broken: true,
            ..Self::ours(error)
        }
    }

    /// The connection is in a transaction that somebody else left open.
    pub(crate) fn occupied() -> Self {
        let message = "a connection was given back to the pool with a transaction open";
        Self {
            rerun: Rerun::Elsewhere,
            ..Self::ours(DbError::new(Kind::Other, message).not_applied())
        }
    }

    /// The same failure, certain that nothing of the change remains.
    pub(crate) fn not_applied(mut self) -> Self {
        self.error = self.error.not_applied();
        self.certain = true;
        self
    }

    /// The same failure, of a statement that ran outside a transaction of ours. One
    /// that may commit in its middle keeps that, whatever the server says of the rest.
    pub(crate) fn alone(mut self, statement: &Rendered<'_>) -> Self {
        if !self.certain && !is_plain(statement.sql()) {
            self.broken |= self.rerun == Rerun::Elsewhere;
            self.rerun = Rerun::No;
            self.error = self.error.unknown();
        }
        self
    }

    /// The same failure, of the statement at this place in its batch.
    pub(crate) fn at(mut self, place: usize) -> Self {
        self.error = self.error.with_statement(place);
        self
    }

    /// The same failure, past the point from which it is not run again.
    pub(crate) const fn not_again(mut self) -> Self {
        self.rerun = Rerun::No;
        self
    }
}

impl From<DbError> for Failure {
    fn from(error: DbError) -> Self {
        Self::ours(error)
    }
}

/// What the server reported, from either driver.
#[derive(Clone, Copy)]
pub(crate) struct Report<'a> {
    pub(crate) code: &'a str,
    /// The connection ends with it.
    pub(crate) fatal: bool,
    pub(crate) message: &'a str,
    pub(crate) column: Option<&'a str>,
    pub(crate) constraint: Option<&'a str>,
    pub(crate) routine: Option<&'a str>,
    /// It points into the text of the statement, and comes from nothing that the
    /// statement called: it was found while that was read, before anything ran.
    pub(crate) of_text: bool,
}

/// What a code says.
struct Meaning {
    kind: Kind,
    outcome: Outcome,
    message: Cow<'static, str>,
    rerun: Rerun,
}

/// The server undid it, or never did it.
fn undone(kind: Kind, message: impl Into<Cow<'static, str>>) -> Meaning {
    Meaning {
        kind,
        outcome: Outcome::NotApplied,
        message: message.into(),
        rerun: Rerun::No,
    }
}

/// It may have been done.
fn open(kind: Kind, message: &'static str) -> Meaning {
    Meaning {
        outcome: Outcome::Unknown,
        ..undone(kind, message)
    }
}

impl Meaning {
    fn rerun(self, rerun: Rerun) -> Self {
        Self { rerun, ..self }
    }
}

/// Sorts the server's codes, by a file each for what they are about; whole classes are
/// told last, by the last that knows them:
/// <https://www.postgresql.org/docs/current/errcodes-appendix.html>.
pub(crate) fn sort(report: Report<'_>) -> Failure {
    let meaning = constraint::meaning(report)
        .or_else(|| busy::meaning(report.code))
        .or_else(|| connection::meaning(report.code))
        .or_else(|| state::meaning(report))
        .or_else(|| schema::meaning(report))
        .or_else(|| statement::meaning(report.code))
        .unwrap_or_else(|| open(Kind::Other, "the server reported an error"));
    // The code is then of what happened to the connection, and a pooler that lost its
    // server takes any. Older ones do not call it fatal.
    let broken = report.fatal || meaning.kind == Kind::Unavailable;
    let mut error = DbError::new(meaning.kind, meaning.message).with_code(report.code);
    if meaning.outcome == Outcome::NotApplied && !broken {
        error = error.not_applied();
    }
    if let Some(name) = report.constraint {
        error = error.with_constraint(name);
    }
    Failure {
        error,
        rerun: if broken { Rerun::No } else { meaning.rerun },
        broken,
        certain: report.of_text && !broken,
    }
}

/// The first two characters of a code.
fn class(code: &str) -> &str {
    code.get(..2).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(code: &str) -> Report<'_> {
        Report {
            code,
            fatal: false,
            message: "",
            column: None,
            constraint: None,
            routine: None,
            of_text: false,
        }
    }

    #[test]
    fn what_the_server_may_have_done_is_never_called_not_applied() {
        for code in [
            "57P01", "57P02", "57P05", "08006", "08P01", "40003", "XX000", "XX001", "25P04",
            "57P03", "99999", "",
        ] {
            assert_eq!(
                sort(report(code)).error.outcome(),
                Outcome::Unknown,
                "{code}"
            );
        }
    }

    #[test]
    fn an_error_that_ends_the_connection_leaves_open_what_was_done() {
        for code in [
            "40001", "40P01", "53300", "23505", "57014", "26000", "25P02",
        ] {
            let failure = sort(Report {
                fatal: true,
                ..report(code)
            });
            assert_eq!(failure.error.outcome(), Outcome::Unknown, "{code}");
            assert_eq!(failure.rerun, Rerun::No, "{code}");
            assert!(failure.broken, "{code}");
        }
    }

    #[test]
    fn only_what_is_certainly_undone_is_run_again() {
        for code in ["40001", "40P01", "26000", "25P02"] {
            let failure = sort(report(code));
            assert_ne!(failure.rerun, Rerun::No, "{code}");
            assert_eq!(failure.error.outcome(), Outcome::NotApplied, "{code}");
        }
        for code in ["40003", "57014", "55P03", "23505", "0A000"] {
            assert_eq!(sort(report(code)).rerun, Rerun::No, "{code}");
        }
    }

    #[test]
    fn a_missing_table_is_named_and_a_value_never_is() {
        let message = r#"relation "app.mail" does not exist"#;
        let error = sort(Report {
            message,
            ..report("42P01")
        })
        .error;
        assert_eq!(
            error.to_string(),
            r#"table "app.mail" does not exist; if it is Duebox's, run the migrations first (code 42P01)"#
        );
        let message = r#"invalid input syntax for type uuid: "ada@example.com""#;
        let error = sort(Report {
            message,
            ..report("22P02")
        })
        .error;
        assert!(!error.to_string().contains("ada"));
        let message = r#"relation "ada@example.com" does not exist"#;
        let error = sort(Report {
            message,
            ..report("42P01")
        })
        .error;
        assert!(!error.to_string().contains("ada"));
    }

    #[test]
    fn migrations_are_the_cure_of_what_they_make_alone() {
        let says = |code, message| {
            let report = Report {
                message,
                ..report(code)
            };
            sort(report).error.to_string()
        };
        for (code, message, expected) in [
            (
                "42P01",
                r#"relation "outbox" does not exist"#,
                r#"table "outbox" does not exist; run the migrations first (code 42P01)"#,
            ),
            (
                "42P01",
                "Relation »outbox« existiert nicht",
                "the statement names a table that does not exist (code 42P01)",
            ),
            (
                "42703",
                r#"column "token" of relation "pending_receipts" does not exist"#,
                r#"column "token" of table "pending_receipts" does not exist; run the migrations first (code 42703)"#,
            ),
            (
                "42703",
                r#"column "lapses" does not exist"#,
                r#"column "lapses" does not exist; if it is Duebox's, run the migrations first (code 42703)"#,
            ),
            (
                "42703",
                r#"column "emial" of relation "account" does not exist"#,
                r#"column "emial" does not exist (code 42703)"#,
            ),
        ] {
            assert_eq!(says(code, message), expected);
        }
    }

    #[test]
    fn a_privilege_is_told_by_a_check_of_privileges_alone() {
        let says = |routine, message| {
            let report = Report {
                message,
                routine: Some(routine),
                ..report("42501")
            };
            sort(report).error.to_string()
        };
        assert_eq!(
            says(
                "aclcheck_error",
                "permission denied for table duebox_migrations"
            ),
            r#"the role lacks a privilege on the table "duebox_migrations"; grant it (code 42501)"#
        );
        for (routine, message) in [
            ("exec_stmt_raise", "permission denied for table ada"),
            (
                "aclcheck_error",
                "permission denied for table ada@example.com",
            ),
            ("aclcheck_error", "keine Berechtigung für Tabelle ada"),
        ] {
            assert_eq!(
                says(routine, message),
                "the role lacks a privilege that this needs; grant it (code 42501)"
            );
        }
    }
}
