//! What the server, or the session, is in no state for: class 25, features that it
//! has not, prepared statements that it has not, class 28, and its own faults.

use duebox_core::Kind;

use super::{Meaning, Report, Rerun, class, open, undone};

pub(super) fn meaning(report: Report<'_>) -> Option<Meaning> {
    Some(match report.code {
        // read_only_sql_transaction
        "25006" => undone(
            Kind::Unsupported,
            "the server, or the session, is read-only",
        ),
        // active_sql_transaction, invalid_transaction_termination
        "25001" | "2D000" => undone(Kind::Unsupported, "this cannot run inside a transaction"),
        // in_failed_sql_transaction
        "25P02" => undone(
            Kind::Other,
            "the transaction has failed before; roll it back",
        )
        .rerun(Rerun::Elsewhere),
        // feature_not_supported, of a cached plan whose columns have changed
        "0A000" if report.routine == Some("RevalidateCachedQuery") => undone(
            Kind::Schema,
            "the columns of a prepared statement have changed; name them in it",
        )
        .rerun(Rerun::StalePlan),
        "0A000" => undone(Kind::Unsupported, "the server does not support this"),
        // invalid_sql_statement_name, duplicate_prepared_statement
        "26000" | "42P05" => undone(
            Kind::Unsupported,
            "a prepared statement is not on this connection; behind a pooler that lends \
             connections by transaction switch prepared statements off",
        )
        .rerun(Rerun::StalePlan),
        // triggered_data_change_violation, object_not_in_prerequisite_state
        "27000" | "55000" => undone(Kind::Other, "the database is not in a state for this"),
        // data_corrupted, index_corrupted
        "XX001" | "XX002" => open(Kind::Corrupt, "the server found its own data damaged"),
        // invalid_authorization_specification, invalid_password
        code if class(code) == "28" => undone(Kind::Other, "the server refused the log-in"),
        // raise_exception and the rest of PL/pgSQL
        code if class(code) == "P0" => undone(
            Kind::Other,
            "a function or trigger of the database raised an error",
        ),
        _ => return None,
    })
}
