//! Names in the server's messages: of constraints, columns, tables and privileges.
//! Messages quote rows too, so a name is told only where no value can stand, and
//! only if it looks like a name. English messages alone are read.

use duebox_core::Dialect;

use super::er;

/// The table of an outbox can have any name.
const IF_OURS: &str = "if it is Duebox's, run the migrations first";

/// The name of the key or constraint in the message. The duplicate value
/// stands before it and may hold anything, thus the last such phrase counts,
/// and only a plain name behind it.
pub(super) fn constraint(number: u16, message: &str) -> Option<&str> {
    let (before, quote) = match number {
        er::DUP_ENTRY => (" for key '", '\''),
        er::CHECK_CONSTRAINT_VIOLATED => ("Check constraint '", '\''),
        er::NO_REFERENCED_ROW_2 | er::ROW_IS_REFERENCED_2 | er::CONSTRAINT_FAILED => {
            ("CONSTRAINT `", '`')
        }
        _ => return None,
    };
    let name = &message[message.rfind(before)? + before.len()..];
    let name = match number {
        // It ends the message, or the value has broken out of its quotes.
        er::DUP_ENTRY => name.strip_suffix(quote)?,
        _ => name.split(quote).next()?,
    };
    plain(name)
}

/// `column "x" …`, for messages that name the first thing in single quotes and
/// hold no value.
pub(super) fn column(message: &str, what: &str) -> String {
    match quoted(message) {
        Some(name) => format!("column {name:?} {what}"),
        None => format!("a column {what}"),
    }
}

pub(super) fn missing_column(message: &str) -> String {
    let files = duebox_migrations::outbox(Dialect::MySql);
    let is_ours = |name: &str| {
        files
            .iter()
            .any(|file| file.expected_columns().contains(&name))
    };
    match quoted(message) {
        Some(name) if is_ours(name) => format!("column {name:?} does not exist; {IF_OURS}"),
        _ => column(message, "does not exist"),
    }
}

pub(super) fn missing_database(message: &str) -> String {
    match quoted(message) {
        Some(name) => format!("database {name:?} does not exist"),
        None => "the database does not exist".into(),
    }
}

/// MariaDB says the same of a table whose database is missing, thus the name of the
/// database too.
pub(super) fn missing_table(message: &str) -> String {
    let Some(name) = quoted(message) else {
        return "the statement names a table that does not exist".into();
    };
    let (place, table) = match name.rsplit_once('.') {
        Some((database, table)) => (format!(" in the database {database:?}"), table),
        None => (String::new(), name),
    };
    let files = duebox_migrations::all(Dialect::MySql);
    let cure = if files.iter().any(|file| file.table() == table) {
        "run the migrations first"
    } else {
        IF_OURS
    };
    format!("table {table:?} does not exist{place}; {cure}")
}

pub(super) fn missing_index(message: &str) -> String {
    match quoted(message) {
        Some(name) => format!("index {name:?} does not exist; {IF_OURS}"),
        None => "the statement names an index that does not exist".into(),
    }
}

/// Which privilege is lacking on which table: `INSERT command denied to user … for
/// table …`, where a database may stand before the table and a column too.
pub(super) fn denied(message: &str) -> String {
    let privilege = message.split_once(" command denied to ").map(|(of, _)| of);
    // MySQL so refuses a locking read, which a privilege to change the table allows.
    let privilege = privilege.map(|of| match of {
        "SELECT with locking clause" => "UPDATE",
        of => of,
    });
    let privilege = privilege.filter(|of| {
        of.len() <= 60
            && of
                .chars()
                .all(|c| c.is_ascii_uppercase() || matches!(c, ' ' | ','))
    });
    let table = [" for table ", " in table "]
        .iter()
        .find_map(|before| Some(message.rfind(before)? + before.len()))
        .and_then(|at| {
            let name = message[at..].rsplit('.').next()?;
            plain(name.trim_matches(['\'', '`']))
        });
    match (privilege, table) {
        (Some(privilege), Some(table)) => {
            format!("the user lacks the privilege {privilege} on the table {table:?}; grant it")
        }
        (_, Some(table)) => {
            format!("the user lacks a privilege on the table {table:?}; grant it")
        }
        _ => "the user lacks a privilege on the database, a table or a column; grant it".into(),
    }
}

fn quoted(message: &str) -> Option<&str> {
    message.split('\'').nth(1).and_then(plain)
}

/// A name of letters, digits and what joins them, which no value can pass for
/// in the places where it is looked for.
fn plain(name: &str) -> Option<&str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$' | '-');
    (!name.is_empty() && name.len() <= 200 && name.chars().all(is_plain)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_table_is_named_with_its_database() {
        assert_eq!(
            missing_table("Table 'nowhere.outbox' doesn't exist"),
            r#"table "outbox" does not exist in the database "nowhere"; run the migrations first"#
        );
        assert_eq!(
            missing_table("Table 'app.account' doesn't exist"),
            "table \"account\" does not exist in the database \"app\"; \
             if it is Duebox's, run the migrations first"
        );
        assert_eq!(
            missing_table("Tabelle »app.mail« existiert nicht"),
            "the statement names a table that does not exist"
        );
    }

    #[test]
    fn a_missing_column_of_an_outbox_may_want_a_migration() {
        assert_eq!(
            missing_column("Unknown column 'last_error' in 'field list'"),
            "column \"last_error\" does not exist; if it is Duebox's, run the migrations first"
        );
        assert_eq!(
            missing_column("Unknown column 'a.email' in 'where clause'"),
            r#"column "a.email" does not exist"#
        );
    }

    #[test]
    fn a_lacking_privilege_is_named_with_its_table() {
        let named = r#"the user lacks the privilege CREATE on the table "outbox"; grant it"#;
        for message in [
            "CREATE command denied to user 'lim'@'127.0.0.1' for table 'outbox'",
            "CREATE command denied to user 'lim'@'127.0.0.1' for table `lp`.`outbox`",
            "CREATE command denied to user ' for table 'x'@'%' for table 'outbox'",
        ] {
            assert_eq!(denied(message), named);
        }
        assert_eq!(
            denied("SELECT command denied to user 'lim'@'%' for column 'b' in table 'outbox'"),
            r#"the user lacks the privilege SELECT on the table "outbox"; grant it"#
        );
        assert_eq!(
            denied("SELECT with locking clause command denied to user 'x'@'%' for table 'outbox'"),
            r#"the user lacks the privilege UPDATE on the table "outbox"; grant it"#
        );
        for message in [
            "Access denied for user 'lim'@'%' to database 'lp'",
            "CREATE command denied to user 'lim'@'%' for table 'o b'",
            "",
        ] {
            assert_eq!(
                denied(message),
                "the user lacks a privilege on the database, a table or a column; grant it"
            );
        }
    }
}
