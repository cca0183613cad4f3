//! Addresses of servers are read or refused, and no password is told.

use duebox_mysql::MySqlOptions;
use duebox_postgres::PostgresOptions;

use super::Target;

pub(super) const TARGET: Target = Target {
    name: "urls",
    look,
    words: &[
        "postgres://",
        "postgresql://",
        "mysql://",
        "mariadb://",
        "user",
        "@",
        ":",
        "/",
        "app",
        "?",
        "&",
        "=",
        "sslmode=",
        "ssl-mode=",
        "require",
        "VERIFY_IDENTITY",
        "[::1]",
        "127.0.0.1",
        "%2F",
        "%",
        "host=",
        "password=",
        "socket=",
        "options=-c%20search_path",
    ],
};

/// Is in no name, word or default.
const SECRET: &str = "s3cr3tZQ9";

fn look(text: &str) -> Result<(), String> {
    // As it is; and with a password, in the two places that there are for one.
    let with_secret = match (text.split_once('@'), text.split_once('?')) {
        (Some((before, behind)), _) if before.contains("://") && !before.contains('?') => {
            format!("{before}:{SECRET}@{behind}")
        }
        (_, Some((before, behind))) => format!("{before}?password={SECRET}&{behind}"),
        _ => text.to_owned(),
    };
    for url in [text, &with_secret] {
        let postgres = PostgresOptions::new(url);
        let mysql = MySqlOptions::new(url);
        let told = format!("{postgres:?} {mysql:?}");
        if told.contains(SECRET) {
            return Err("the password is told".into());
        }
        for error in [postgres.err(), mysql.err()].into_iter().flatten() {
            if error.to_string().contains(SECRET) {
                return Err("the password is in the error".into());
            }
        }
    }
    Ok(())
}
