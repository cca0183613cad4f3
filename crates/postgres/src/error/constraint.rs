//! A row that the table refuses: class 23, and what is of its kind in others.

use duebox_core::Kind;

use super::{Meaning, Report, class, undone};

pub(super) fn meaning(report: Report<'_>) -> Option<Meaning> {
    Some(match report.code {
        // unique_violation
        "23505" => undone(Kind::Conflict, "a row with this key is there already"),
        // not_null_violation
        "23502" => match report.column {
            Some(column) => undone(
                Kind::Constraint,
                format!("column {column:?} must not be null"),
            ),
            None => undone(Kind::Constraint, "a column must not be null"),
        },
        // foreign_key_violation
        "23503" => undone(Kind::Constraint, "a foreign key refused the change"),
        // check_violation
        "23514" => undone(Kind::Constraint, "a check refused the change"),
        // transaction_integrity_constraint_violation, with_check_option_violation
        "40002" | "44000" => undone(Kind::Constraint, "a constraint refused the change"),
        code if class(code) == "23" => undone(Kind::Constraint, "a constraint refused the change"),
        _ => return None,
    })
}
