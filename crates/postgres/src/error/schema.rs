//! What a statement names is not there, is there already, or is something else; or
//! the role may not have it.

use duebox_core::{Dialect, Kind};

use super::{Meaning, Report, Rerun, undone};

pub(super) fn meaning(report: Report<'_>) -> Option<Meaning> {
    Some(match report.code {
        // undefined_table
        "42P01" => undone(Kind::Schema, missing_table(report)),
        // undefined_column
        "42703" => undone(Kind::Schema, missing_column(report)),
        // invalid_schema_name
        "3F000" => undone(Kind::Schema, missing_schema(report)),
        // undefined_function; for a prepared statement perhaps of before a migration
        "42883" => undone(
            Kind::Schema,
            "a function or operator does not exist for these types",
        )
        .rerun(Rerun::StalePlan),
        // undefined_object
        "42704" => undone(Kind::Schema, missing("object", report)),
        // invalid_catalog_name, database_dropped
        "3D000" | "57P04" => undone(Kind::Schema, missing("database", report)),
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
        "42501" => undone(Kind::Schema, denied(report)),
        _ => return None,
    })
}

/// A table that is not there, or one whose schema the role may not use, which the
/// server does not tell apart. Only what the migrations make is cured by them, and the
/// caller's own tables come here too.
fn missing_table(report: Report<'_>) -> String {
    match quoted(report.message, 0) {
        Some(name) if is_ours(name) => {
            format!("table {name:?} does not exist; run the migrations first")
        }
        Some(name) => {
            format!("table {name:?} does not exist; if it is Duebox's, run the migrations first")
        }
        None => "the statement names a table that does not exist".into(),
    }
}

/// The server names the table of a column too where rows are written.
fn missing_column(report: Report<'_>) -> String {
    let column = quoted(report.message, 0).or(report.column.filter(|name| is_name(name)));
    match (column, quoted(report.message, 1)) {
        (Some(column), Some(table)) if is_ours(table) => {
            format!("column {column:?} of table {table:?} does not exist; run the migrations first")
        }
        (Some(column), _) if is_column_of_ours(column) => {
            format!("column {column:?} does not exist; if it is Duebox's, run the migrations first")
        }
        (Some(column), _) => format!("column {column:?} does not exist"),
        (None, _) => "the statement names a column that does not exist".into(),
    }
}

/// No schema was named, and there is none in which to make a table.
fn missing_schema(report: Report<'_>) -> String {
    if report.routine == Some("RangeVarGetCreationNamespace") {
        return "no schema of search_path is one that the role may use; grant usage on it, or \
                make one"
            .into();
    }
    missing("schema", report)
}

/// What the role may not have. The routine is of a check of privileges, whose text
/// ends in a name; a function of the database may raise this code with any text.
fn denied(report: Report<'_>) -> String {
    let object = [
        "table", "schema", "sequence", "function", "view", "database",
    ]
    .into_iter()
    .find_map(|what| {
        let text = report.message.strip_prefix("permission denied for ")?;
        let name = text.strip_prefix(what)?.strip_prefix(' ')?;
        is_name(name).then_some((what, name))
    });
    match object {
        Some((what, name)) if report.routine == Some("aclcheck_error") => {
            format!("the role lacks a privilege on the {what} {name:?}; grant it")
        }
        _ => "the role lacks a privilege that this needs; grant it".into(),
    }
}

fn missing(what: &str, report: Report<'_>) -> String {
    match quoted(report.message, 0).or(report.column.filter(|name| is_name(name))) {
        Some(name) => format!("{what} {name:?} does not exist"),
        None => format!("a {what} does not exist"),
    }
}

/// A name that the message quotes, of those the first or the one so many after it. It is
/// one of the statement's text, and told only if it looks like a name. English alone
/// quotes like this; in another language names are left out.
fn quoted(message: &str, place: usize) -> Option<&str> {
    let name = message.split('"').nth(2 * place + 1);
    name.filter(|name| is_name(name))
}

fn is_name(name: &str) -> bool {
    (1..=130).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$'))
}

/// A table that `migrate` makes.
fn is_ours(table: &str) -> bool {
    let files = duebox_migrations::all(Dialect::Postgres);
    files.iter().any(|file| file.table() == table)
}

fn is_column_of_ours(column: &str) -> bool {
    let files = duebox_migrations::outbox(Dialect::Postgres);
    files
        .iter()
        .any(|file| file.expected_columns().contains(&column))
}
