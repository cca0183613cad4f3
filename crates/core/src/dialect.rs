use std::fmt;

/// The SQL that a `Database` speaks.
///
/// MariaDB speaks [`Dialect::MySql`]: whatever the two need to be told apart
/// for stands in version comments inside the SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dialect {
    /// PostgreSQL 13 and newer.
    Postgres,
    /// SQLite 3.38 and newer.
    Sqlite,
    /// MySQL 8.0.17 and newer, MariaDB 10.6 and newer.
    MySql,
}

impl Dialect {
    /// Every dialect there is, in the order of their declaration.
    pub const ALL: [Self; 3] = [Self::Postgres, Self::Sqlite, Self::MySql];
}

/// `postgres`, `sqlite` or `mysql`.
impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Postgres => "postgres",
            Self::Sqlite => "sqlite",
            Self::MySql => "mysql",
        })
    }
}
