//! Placeholders are found where they are, and nowhere else.

use duebox_core::{Dialect, Statement};

use super::Target;

pub(super) const TARGET: Target = Target {
    name: "placeholders",
    look,
    words: &[
        "E'",
        "N'",
        "_utf8'",
        "$tag$",
        "/*!80000 ",
        "/*M! ",
        "SELECT ",
        "INSERT ",
        "COMMIT",
        "::text",
        "[",
        "]",
        "x'00'",
        "-- ",
        "--\t",
        "||",
        "@>",
        "?|",
        "?&",
    ],
};

fn look(text: &str) -> Result<(), String> {
    for dialect in [Dialect::Postgres, Dialect::Sqlite, Dialect::MySql] {
        whole(dialect, text)?;
        for (before, inside, behind) in hidden(dialect, text) {
            around(dialect, &before, &inside, &behind)?;
        }
    }
    Ok(())
}

/// Whatever it is, at most one number of values fits it.
fn whole(dialect: Dialect, text: &str) -> Result<(), String> {
    let mut fits = 0;
    for count in 0..8 {
        let statement = with_values(text.to_owned(), count);
        if let Ok(rendered) = statement.render(dialect) {
            fits += 1;
            if rendered.values().len() != count {
                return Err(format!("{dialect:?}: other values are bound"));
            }
        }
    }
    if fits > 1 {
        return Err(format!("{dialect:?}: {fits} numbers of values fit"));
    }
    Ok(())
}

/// Ways to hide the text, so that no question mark in it is a placeholder.
fn hidden(dialect: Dialect, text: &str) -> Vec<(String, String, String)> {
    let part =
        |before: &str, inside: String, behind: &str| (before.to_owned(), inside, behind.to_owned());
    let quoted = match dialect {
        // A backslash escapes there.
        Dialect::MySql => text.replace('\\', "\\\\").replace('\'', "''"),
        _ => text.replace('\'', "''"),
    };
    let mut ways = vec![
        part("'", quoted, "'"),
        part("-- ", text.replace(['\n', '\r'], " "), "\n"),
        part(
            "/* ",
            text.replace("*/", "* ")
                .replace("/*", "/ ")
                .replace(['*', '/', '!'], " "),
            " */",
        ),
    ];
    match dialect {
        Dialect::Postgres => {
            let escaped = text.replace('\\', "\\\\").replace('\'', "''");
            ways.push(part("E'", escaped, "'"));
            ways.push(part("$hidden$", text.replace("$hidden", ""), "$hidden$"));
            ways.push(part("\"", text.replace('"', "\"\""), "\""));
        }
        Dialect::MySql => {
            ways.push(part("# ", text.replace(['\n', '\r'], " "), "\n"));
            ways.push(part("`", text.replace('`', "``"), "`"));
        }
        _ => {
            ways.push(part("\"", text.replace('"', "\"\""), "\""));
            ways.push(part("[", text.replace(']', ")"), "]"));
        }
    }
    ways
}

/// Between two placeholders, there are two, and the text is left as it is.
fn around(dialect: Dialect, before: &str, inside: &str, behind: &str) -> Result<(), String> {
    // No engine's text holds a NUL.
    let inside = inside.replace('\0', " ");
    let hidden = format!("{before}{inside}{behind}");
    let sql = format!("SELECT ? , {hidden} , ?");
    let statement = with_values(sql, 2);
    let rendered = statement
        .render(dialect)
        .map_err(|error| format!("{dialect:?} {before}: {error}"))?;
    if !rendered.sql().contains(&hidden) {
        return Err(format!("{dialect:?} {before}: the text was changed"));
    }
    Ok(())
}

fn with_values(sql: String, count: usize) -> Statement {
    (0..count).fold(Statement::new(sql), |statement, _| statement.bind("v"))
}
