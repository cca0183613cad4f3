//! What a statement names is not there, is there already, or is something else; or
//! the role may not have it.

use duebox_core::Kind;

use super::{Meaning, Report, Rerun, undone};

pub(super) fn meaning(report: Report<'_>) -> Option<Meaning> {
    let first = "; run the migrations first";
    Some(match report.code {
        // undefined_table
        "42P01" => undone(Kind::Schema, missing("table", report, first)),
        // undefined_column
        "42703" => undone(Kind::Schema, missing("column", report, first)),
        // invalid_schema_name
        "3F000" => undone(Kind::Schema, missing("schema", report, "")),
        // undefined_function; for a prepared statement perhaps of before a migration
        "42883" => undone(
            Kind::Schema,
            "a function or operator does not exist for these types",
        )
        .rerun(Rerun::StalePlan),
        // undefined_object
        "42704" => undone(Kind::Schema, missing("object", report, "")),
        // invalid_catalog_name, database_dropped
        "3D000" | "57P04" => undone(Kind::Schema, missing("database", report, "")),
        // duplicate_table, duplicate_object, duplicate_column, duplicate_schema,
        // duplicate_database, duplicate_function
        "42P07" | "42710" | "42701" | "42P06" | "42P04" | "42723" => {
            undone(Kind::Schema, "what it would make is there already")
        }
        // invalid_column_reference: above all ON CONFLICT without its unique index
        "42P10" => undone(
            Kind::Schema,
            "a column, or a unique index of it, is not as the statement says",
        ),
        // datatype_mismatch; for a prepared statement perhaps of before a migration
        "42804" => undone(
            Kind::Schema,
            "a column is of another type than the statement says",
        )
        .rerun(Rerun::StalePlan),
        // wrong_object_type, dependent_objects_still_exist
        "42809" | "2BP01" => undone(
            Kind::Schema,
            "the object is of another kind, or others depend on it",
        ),
        // insufficient_privilege
        "42501" => undone(
            Kind::Schema,
            "the role lacks a privilege that this needs; grant it",
        ),
        _ => return None,
    })
}

/// `table "mail" does not exist`: the name is one of the statement's text, the
/// first that the message quotes, and told only if it looks like a name.
fn missing(what: &str, report: Report<'_>, cure: &str) -> String {
    let is_name = |name: &&str| {
        (1..=130).contains(&name.len())
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$'))
    };
    // English alone quotes like this; in another language the name is left out.
    let quoted = report.message.split('"').nth(1).filter(is_name);
    match quoted.or(report.column.filter(is_name)) {
        Some(name) => format!("{what} {name:?} does not exist{cure}"),
        None => format!("a {what} does not exist{cure}"),
    }
}
