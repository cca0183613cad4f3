/// The statements of a shipped or rendered file, in order, for a driver that takes
/// one at a time.
///
/// Each comes without its `;` and without the `--` lines before it. It splits at
/// every `;`, which is right for the files of this crate, where none stands in a
/// literal or in a comment, and not for SQL at large.
///
/// ```
/// let sql = "-- Dear operator,\nCREATE TABLE a (id INT);\n\n-- For speed.\nCREATE INDEX b ON a (id);\n";
/// let statements: Vec<_> = duebox_migrations::split(sql).collect();
/// assert_eq!(statements, ["CREATE TABLE a (id INT)", "CREATE INDEX b ON a (id)"]);
/// ```
pub fn split(sql: &str) -> impl Iterator<Item = &str> {
    sql.split(';')
        .map(without_leading_comments)
        .filter(|statement| !statement.is_empty())
}

fn without_leading_comments(statement: &str) -> &str {
    let mut rest = statement.trim();
    while rest.starts_with("--") {
        rest = rest.split_once('\n').map_or("", |(_, tail)| tail.trim());
    }
    rest
}
