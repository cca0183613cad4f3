use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::lex::{Class, Lexed, lex, lex_with_casts};
use crate::{DbError, Dialect, Kind, Value};

/// SQL text and the values bound to it.
///
/// The placeholder is `?` for every database, and `??` is a literal question
/// mark (PostgreSQL's operators `?`, `?|` and `?&` are written `??`, `??|` and
/// `??&`). Placeholders are found by a lexer of the dialect: a `?` inside a
/// literal, a quoted name, a comment or a dollar quote stays as it is. Values
/// are bound and never written into the text.
///
/// A statement that was built from an impossible argument, such as an enqueue
/// with an empty topic, carries its error: every [`Database`](crate::Database)
/// returns it before any SQL of the batch runs.
///
/// `Debug` shows the text and how many values there are, never a value.
///
/// ```
/// use duebox_core::{Dialect, Statement};
///
/// let statement = Statement::new("UPDATE account SET seen = ? WHERE id = ? AND tag <> '?'")
///     .bind(true)
///     .bind("a-17")
///     .expect_rows(1);
/// assert_eq!(
///     statement.render(Dialect::Postgres)?.sql(),
///     "UPDATE account SET seen = $1 WHERE id = $2 AND tag <> '?'"
/// );
/// assert_eq!(
///     statement.render(Dialect::Sqlite)?.sql(),
///     "UPDATE account SET seen = ? WHERE id = ? AND tag <> '?'"
/// );
/// assert_eq!(
///     statement.render(Dialect::MySql)?.sql(),
///     "UPDATE account SET seen = ? WHERE id = ? AND tag <> '?'"
/// );
/// # Ok::<(), duebox_core::DbError>(())
/// ```
#[derive(Clone)]
pub struct Statement {
    source: Source,
    values: Vec<Value>,
    expected_rows: Option<u64>,
    error: Option<DbError>,
}

#[derive(Clone)]
enum Source {
    One(Sql),
    Each([Sql; 3]),
    Built(Arc<Built>),
}

/// Text and values that are made when the dialect is known, once for each.
struct Built {
    build: Box<dyn Fn(Dialect) -> Form + Send + Sync>,
    forms: [OnceLock<Form>; 3],
}

pub(crate) struct Form {
    pub(crate) sql: String,
    pub(crate) values: Vec<Value>,
}

#[derive(Clone)]
enum Sql {
    Static(&'static str),
    Shared(Arc<str>),
}

impl Sql {
    fn as_str(&self) -> &str {
        match self {
            Self::Static(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl From<Cow<'static, str>> for Sql {
    fn from(text: Cow<'static, str>) -> Self {
        match text {
            Cow::Borrowed(text) => Self::Static(text),
            Cow::Owned(text) => Self::Shared(text.into()),
        }
    }
}

const fn place(dialect: Dialect) -> usize {
    match dialect {
        Dialect::Postgres => 0,
        Dialect::Sqlite => 1,
        Dialect::MySql => 2,
    }
}

impl Statement {
    /// One statement whose text is the same for every database.
    ///
    /// Anything a text can have wrong (an open quote, a second statement, a
    /// count of placeholders that is not the count of values) is an error of
    /// [`Kind::InvalidArgument`] when it is rendered or run.
    #[must_use]
    pub fn new(sql: impl Into<Cow<'static, str>>) -> Self {
        Self::from_source(Source::One(sql.into().into()))
    }

    /// One statement with a text for each dialect; the values are the same.
    #[must_use]
    pub fn per_dialect(
        postgres: impl Into<Cow<'static, str>>,
        sqlite: impl Into<Cow<'static, str>>,
        mysql: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::from_source(Source::Each([
            postgres.into().into(),
            sqlite.into().into(),
            mysql.into().into(),
        ]))
    }

    /// A text that is kept elsewhere and shared.
    pub(crate) fn shared(sql: Arc<str>) -> Self {
        Self::from_source(Source::One(Sql::Shared(sql)))
    }

    /// A text for each dialect that is kept elsewhere and shared.
    pub(crate) fn shared_per_dialect(sql: [Arc<str>; 3]) -> Self {
        Self::from_source(Source::Each(sql.map(Sql::Shared)))
    }

    /// A statement whose text and values both depend on the dialect.
    pub(crate) fn built(build: impl Fn(Dialect) -> Form + Send + Sync + 'static) -> Self {
        Self::from_source(Source::Built(Arc::new(Built {
            build: Box::new(build),
            forms: [const { OnceLock::new() }; 3],
        })))
    }

    /// A statement that only carries an error.
    pub(crate) fn refused(error: DbError) -> Self {
        let mut statement = Self::new("SELECT 1");
        statement.error = Some(error);
        statement
    }

    const fn from_source(source: Source) -> Self {
        Self {
            source,
            values: Vec::new(),
            expected_rows: None,
            error: None,
        }
    }

    /// Binds the next value.
    #[must_use]
    pub fn bind(mut self, value: impl Into<Value>) -> Self {
        if let Source::Built(_) = self.source {
            self.error.get_or_insert_with(|| {
                DbError::invalid("this statement has all of its values and takes no more")
            });
        }
        self.values.push(value.into());
        self
    }

    /// Makes a batch roll back, with [`Kind::RowCount`], unless this statement
    /// inserts, updates or deletes exactly `rows` rows.
    ///
    /// This is optimistic concurrency without an interactive transaction:
    /// `UPDATE … WHERE id = ? AND version = ?` that must touch one row.
    #[must_use]
    pub fn expect_rows(mut self, rows: u64) -> Self {
        self.expected_rows = Some(rows);
        self
    }

    /// How many rows it must touch, if that was said.
    #[must_use]
    pub fn expected_rows(&self) -> Option<u64> {
        self.expected_rows
    }

    /// The text as it was given; of a statement with one text a dialect, the
    /// one for PostgreSQL. Use [`render`](Self::render) to run it.
    ///
    /// # Errors
    ///
    /// The error that the statement carries.
    pub fn sql(&self) -> Result<&str, DbError> {
        self.carried()?;
        Ok(self.form(Dialect::Postgres).0)
    }

    /// The values in the order of their placeholders; of a statement whose
    /// values differ by dialect, those for PostgreSQL.
    ///
    /// # Errors
    ///
    /// The error that the statement carries.
    pub fn values(&self) -> Result<&[Value], DbError> {
        self.carried()?;
        Ok(self.form(Dialect::Postgres).1)
    }

    /// The text and values to send to a database of this dialect, on their
    /// own (not in a batch).
    ///
    /// # Errors
    ///
    /// The error that the statement carries; [`Kind::InvalidArgument`] if the
    /// text cannot be read or the values are not as many as the placeholders;
    /// [`Kind::Unsupported`] if it would begin, end or save a transaction, or
    /// binds an array where there are none.
    pub fn render(&self, dialect: Dialect) -> Result<Rendered<'_>, DbError> {
        let (rendered, _) = self.lexed(dialect)?;
        Ok(rendered)
    }

    /// The text and values of each statement of a batch, in order.
    ///
    /// Call it before any SQL of the batch runs: a batch with one statement
    /// that cannot run does nothing.
    ///
    /// # Errors
    ///
    /// Those of [`render`](Self::render), and [`Kind::Unsupported`] for what
    /// would commit or cannot run inside a transaction. The error tells which
    /// statement it was.
    pub fn render_batch(
        dialect: Dialect,
        statements: &[Self],
    ) -> Result<Vec<Rendered<'_>>, DbError> {
        let mut all = Vec::with_capacity(statements.len());
        for (index, statement) in statements.iter().enumerate() {
            let (rendered, class) = statement
                .lexed(dialect)
                .map_err(|error| error.with_statement(index))?;
            if let Class::NotInBatch(keyword) = class {
                let message =
                    format!("{keyword} cannot be part of a batch on {dialect}; run it on its own");
                let error = DbError::new(Kind::Unsupported, message);
                return Err(error.not_applied().with_statement(index));
            }
            all.push(rendered);
        }
        Ok(all)
    }

    fn lexed(&self, dialect: Dialect) -> Result<(Rendered<'_>, Class), DbError> {
        self.carried()?;
        let (source, values) = self.form(dialect);
        let Lexed {
            sql,
            placeholders,
            class,
            runs_others,
        } = lex(dialect, source)
            .map_err(|error| DbError::invalid(format!("read a statement: {error}")))?;
        if placeholders != values.len() {
            return Err(DbError::invalid(format!(
                "a statement has {placeholders} placeholders and {} values; write ?? for a \
                 question mark that is no placeholder",
                values.len()
            )));
        }
        let refused = match class {
            Class::Ordinary | Class::NotInBatch(_) => None,
            Class::Transaction(keyword) => Some(format!(
                "{keyword} would change the transaction or the session; use batch_atomic, or a \
                 transaction of your own driver"
            )),
            Class::Stream(keyword) => Some(format!("{keyword} streams data; use your own driver")),
        };
        if let Some(message) = refused {
            return Err(DbError::new(Kind::Unsupported, message).not_applied());
        }
        let array = |value: &Value| matches!(value, Value::TextArray(_) | Value::IntegerArray(_));
        if dialect != Dialect::Postgres && values.iter().any(array) {
            return Err(DbError::new(
                Kind::Unsupported,
                format!("{dialect} has no arrays to bind"),
            )
            .not_applied());
        }
        Ok((
            Rendered {
                source,
                sql,
                values,
                expected_rows: self.expected_rows,
                runs_others,
            },
            class,
        ))
    }

    fn carried(&self) -> Result<(), DbError> {
        self.error.clone().map_or(Ok(()), Err)
    }

    fn form(&self, dialect: Dialect) -> (&str, &[Value]) {
        match &self.source {
            Source::One(sql) => (sql.as_str(), &self.values),
            Source::Each(each) => (each[place(dialect)].as_str(), &self.values),
            Source::Built(built) => {
                let form = built.forms[place(dialect)].get_or_init(|| (built.build)(dialect));
                (&form.sql, &form.values)
            }
        }
    }
}

impl fmt::Debug for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Statement");
        if let Some(error) = &self.error {
            return debug.field("error", error).finish_non_exhaustive();
        }
        let (sql, values) = self.form(Dialect::Postgres);
        debug
            .field("sql", &sql)
            .field("values", &values.len())
            .field("expected_rows", &self.expected_rows)
            .finish_non_exhaustive()
    }
}

/// A [`Statement`] as one dialect wants it.
#[derive(Clone)]
pub struct Rendered<'a> {
    /// The text before its placeholders were written.
    source: &'a str,
    sql: Cow<'a, str>,
    values: &'a [Value],
    expected_rows: Option<u64>,
    runs_others: bool,
}

impl Rendered<'_> {
    /// The text to send: placeholders are `$1`, `$2`, … for PostgreSQL and
    /// `?` for the others.
    #[must_use]
    pub fn sql(&self) -> &str {
        &self.sql
    }

    /// The text for PostgreSQL with some placeholders cast: where `casts` has
    /// a type, `?` becomes `($1::text::type)`.
    ///
    /// For an adapter whose driver cannot bind a text to a place of that type.
    ///
    /// ```
    /// use duebox_core::{Dialect, Statement};
    ///
    /// let statement = Statement::new("DELETE FROM t WHERE id = ? AND n = ?").bind("…").bind(7_i64);
    /// assert_eq!(
    ///     statement.render(Dialect::Postgres)?.sql_with_casts(&[Some("uuid"), None]),
    ///     "DELETE FROM t WHERE id = ($1::text::uuid) AND n = $2"
    /// );
    /// # Ok::<(), duebox_core::DbError>(())
    /// ```
    #[must_use]
    pub fn sql_with_casts(&self, casts: &[Option<&str>]) -> String {
        let cast = |place| casts.get(place).copied().flatten();
        // It was read before, so it can be read again.
        lex_with_casts(crate::Dialect::Postgres, self.source, &cast)
            .map_or_else(|_| self.sql.clone(), |lexed| lexed.sql)
            .into_owned()
    }

    /// The values in the order of their placeholders.
    #[must_use]
    pub fn values(&self) -> &[Value] {
        self.values
    }

    /// How many rows it must touch, if that was said.
    #[must_use]
    pub fn expected_rows(&self) -> Option<u64> {
        self.expected_rows
    }

    /// Whether it may run other statements, which may commit in its middle or
    /// leave a transaction open: `CALL`, `DO` of PostgreSQL, `EXECUTE`, a `SET` of
    /// MySQL that sets more than variables of the user's own, and on MySQL every
    /// kind of statement that is not known.
    ///
    /// An adapter does not run such a statement again, takes no error for the end
    /// of all that it did, and gives its connection to nobody else.
    ///
    /// ```
    /// use duebox_core::{Dialect, Statement};
    ///
    /// let call = Statement::new("/* nightly */ CALL tidy()");
    /// assert!(call.render(Dialect::MySql)?.runs_others());
    /// let plain = Statement::new("DELETE FROM t WHERE note = 'CALL tidy()'");
    /// assert!(!plain.render(Dialect::MySql)?.runs_others());
    /// # Ok::<(), duebox_core::DbError>(())
    /// ```
    #[must_use]
    pub fn runs_others(&self) -> bool {
        self.runs_others
    }

    /// Holds the number of rows touched against
    /// [`expect_rows`](Statement::expect_rows).
    ///
    /// # Errors
    ///
    /// [`Kind::RowCount`] if it is another, as yet with an unknown outcome:
    /// the caller rolls back and then says so.
    pub fn check_rows(&self, found: u64) -> Result<u64, DbError> {
        match self.expected_rows {
            Some(expected) if expected != found => Err(DbError::row_count(expected, found)),
            _ => Ok(found),
        }
    }
}

impl fmt::Debug for Rendered<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rendered")
            .field("sql", &self.sql)
            .field("values", &self.values.len())
            .field("expected_rows", &self.expected_rows)
            .finish()
    }
}
