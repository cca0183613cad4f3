//! A connection of sqlx.

use std::collections::HashMap;
use std::sync::Mutex;

use duebox_core::{Columns, DbError, Kind, Rendered, Row, Value};
use futures_util::TryStreamExt;
use sqlx::postgres::{PgArguments, PgConnection};
use sqlx::{
    Arguments, AssertSqlSafe, Column, Connection, Either, Executor, Row as _, SqlSafeStr, SqlStr,
    Statement, TypeInfo, ValueRef,
};

use crate::bind::{self, Format};
use crate::error::Failure;
use crate::plans::Plans;
use crate::row;
use crate::session::Session;
use crate::sqlx_bind::{
    Bound, Parameter, arguments, cast, check, needs_cast, parameters, shape_of, unencoded,
};
use crate::types::{Shape, built_in};

/// What a handle has learnt of a database.
#[derive(Default)]
pub(crate) struct Learnt {
    plans: Plans,
    /// How SQL names a type, by its OID.
    names: Mutex<HashMap<u32, String>>,
    /// What the parameters of a statement are, by its text; for unprepared ones.
    parameters: Mutex<HashMap<String, Vec<Parameter>>>,
}

impl Learnt {
    /// A text to prepare. The driver keeps a statement by its text, so another one
    /// makes another plan; see [`Plans`].
    fn dated(&self, sql: &str) -> SqlStr {
        match self.plans.span() {
            0 => text(sql),
            span => text(format!("{sql}\n-- {span}")),
        }
    }

    /// The schema may be another one.
    pub(crate) fn forget(&self) {
        lock(&self.names).clear();
        lock(&self.parameters).clear();
    }
}

/// How many statements are known before all of them are forgotten.
const CACHE: usize = 512;

/// SQL that holds no value: it comes from a statement's own text.
fn text(sql: impl Into<String>) -> SqlStr {
    AssertSqlSafe(sql.into()).into_sql_str()
}

/// A connection that keeps statements prepared, as sqlx does unless its cache is
/// switched off.
pub(crate) struct SqlxPrepared<'a> {
    pub(crate) connection: &'a mut PgConnection,
    pub(crate) learnt: &'a Learnt,
}

impl Session for SqlxPrepared<'_> {
    async fn command(&mut self, sql: &str) -> Result<(), Failure> {
        command(self.connection, sql).await
    }

    async fn count(&mut self, statement: &Rendered<'_>) -> Result<u64, Failure> {
        let (prepared, arguments) = self.prepare(statement).await?;
        let done = prepared
            .query_with(arguments)
            .execute(&mut *self.connection)
            .await?;
        Ok(if prepared.columns().is_empty() {
            done.rows_affected()
        } else {
            0
        })
    }

    async fn rows(&mut self, statement: &Rendered<'_>) -> Result<Vec<Row>, Failure> {
        let (prepared, arguments) = self.prepare(statement).await?;
        // Nothing has run yet.
        let reader = Reader::of(prepared.columns()).map_err(DbError::not_applied)?;
        let mut rows = prepared.query_with(arguments).fetch(&mut *self.connection);
        let mut read = Vec::new();
        while let Some(row) = rows.try_next().await? {
            read.push(reader.read(&row)?);
        }
        Ok(read)
    }
}

impl SqlxPrepared<'_> {
    /// The statement prepared, from the connection's cache if it is there, and its
    /// values. Preparing runs nothing.
    async fn prepare(
        &mut self,
        statement: &Rendered<'_>,
    ) -> Result<(sqlx::postgres::PgStatement, PgArguments), Failure> {
        self.prepare_cast(statement)
            .await
            .map_err(Failure::not_applied)
    }

    async fn prepare_cast(
        &mut self,
        statement: &Rendered<'_>,
    ) -> Result<(sqlx::postgres::PgStatement, PgArguments), Failure> {
        let mut prepared = self
            .connection
            .prepare(self.learnt.dated(statement.sql()))
            .await?;
        if check(statement.values(), &parameters(&prepared)).is_err() {
            // The types may be those of before a migration.
            self.connection.clear_cached_statements().await?;
            prepared = self
                .connection
                .prepare(self.learnt.dated(statement.sql()))
                .await?;
        }
        let mut parameters = parameters(&prepared);
        check(statement.values(), &parameters)?;
        if !needs_cast(statement.values(), &parameters) {
            let arguments = arguments(statement.values(), &parameters)?;
            return Ok((prepared, arguments));
        }
        for (value, parameter) in statement.values().iter().zip(&mut parameters) {
            if bind::format(value, parameter.shape) == Format::Text {
                parameter.name = self.name(parameter.oid).await?;
            }
        }
        let prepared = self
            .connection
            .prepare(self.learnt.dated(&cast(statement, &parameters)))
            .await?;
        let arguments = arguments(statement.values(), &parameters)?;
        Ok((prepared, arguments))
    }

    /// How SQL names a type.
    async fn name(&mut self, oid: u32) -> Result<String, Failure> {
        if let Some(name) = lock(&self.learnt.names).get(&oid) {
            return Ok(name.clone());
        }
        let mut arguments = PgArguments::default();
        arguments
            .add(Bound {
                bytes: Some(oid.to_be_bytes().to_vec()),
                ty: 26,
            })
            .map_err(unencoded)?;
        let sql = "SELECT pg_catalog.format_type($1, NULL)";
        let row = sqlx::query_with(sql, arguments)
            .fetch_one(&mut *self.connection)
            .await?;
        let raw = row.try_get_raw(0)?;
        let name = raw
            .as_str()
            .map_err(|_| Failure::lost("the server does not name its types"))?
            .to_owned();
        lock(&self.learnt.names).insert(oid, name.clone());
        Ok(name)
    }
}

/// A connection that leads to the same session of the server for as long as it is
/// held, by itself or by a transaction, without statements that outlive their run.
pub(crate) struct SqlxUnprepared<'a> {
    pub(crate) connection: &'a mut PgConnection,
    pub(crate) learnt: &'a Learnt,
}

impl Session for SqlxUnprepared<'_> {
    async fn command(&mut self, sql: &str) -> Result<(), Failure> {
        command(self.connection, sql).await
    }

    async fn count(&mut self, statement: &Rendered<'_>) -> Result<u64, Failure> {
        let mut returned = false;
        let mut changed = 0;
        let (sql, arguments) = self.cast(statement).await?;
        let query = sqlx::query_with(sql, arguments).persistent(false);
        let mut answers = self.connection.fetch_many(query);
        while let Some(answer) = answers.try_next().await? {
            match answer {
                Either::Left(done) => changed += done.rows_affected(),
                Either::Right(_) => returned = true,
            }
        }
        // A statement that returns rows and has returned none has changed none.
        Ok(if returned { 0 } else { changed })
    }

    async fn rows(&mut self, statement: &Rendered<'_>) -> Result<Vec<Row>, Failure> {
        let (sql, arguments) = self.cast(statement).await?;
        let mut rows = sqlx::query_with(sql, arguments)
            .persistent(false)
            .fetch(&mut *self.connection);
        let mut read = Vec::new();
        let mut reader = None;
        while let Some(row) = rows.try_next().await? {
            let reader = match &mut reader {
                Some(reader) => reader,
                none => none.insert(Reader::of(row.columns())?),
            };
            read.push(reader.read(&row)?);
        }
        Ok(read)
    }
}

impl SqlxUnprepared<'_> {
    async fn cast(&mut self, statement: &Rendered<'_>) -> Result<(SqlStr, PgArguments), Failure> {
        let mut parameters = self.parameters(statement).await?;
        if check(statement.values(), &parameters).is_err() {
            lock(&self.learnt.parameters).remove(statement.sql());
            parameters = self.parameters(statement).await?;
        }
        check(statement.values(), &parameters)?;
        let arguments = arguments(statement.values(), &parameters)?;
        Ok((text(cast(statement, &parameters)), arguments))
    }

    /// Asks the server, once a text, by a statement that SQL prepares: what sqlx
    /// prepares by itself would stay on the server's connection.
    async fn parameters(&mut self, statement: &Rendered<'_>) -> Result<Vec<Parameter>, Failure> {
        if statement.values().is_empty() {
            return Ok(Vec::new());
        }
        if let Some(known) = lock(&self.learnt.parameters).get(statement.sql()) {
            return Ok(known.clone());
        }
        let name = format!("duebox_{:016x}", crate::retry::random());
        let sql = format!(
            "PREPARE {name} AS {}\n;\n\
             SELECT p.type::oid::text, pg_catalog.format_type(p.type, NULL) \
             FROM pg_catalog.pg_prepared_statements AS s \
             CROSS JOIN unnest(s.parameter_types) WITH ORDINALITY AS p (type, place) \
             WHERE s.name = '{name}' ORDER BY p.place; \
             DEALLOCATE {name}",
            statement.sql()
        );
        let unnamed = || Failure::lost("the server does not name its types");
        let mut parameters = Vec::new();
        let mut answers = self.connection.fetch(sqlx::raw_sql(text(sql)));
        while let Some(row) = answers.try_next().await? {
            let (oid, name) = (row.try_get_raw(0)?, row.try_get_raw(1)?);
            let oid = oid
                .as_str()
                .ok()
                .and_then(|oid| oid.parse().ok())
                .ok_or_else(unnamed)?;
            let name = name.as_str().map_err(|_| unnamed())?.to_owned();
            parameters.push(Parameter {
                oid,
                shape: built_in(oid).unwrap_or(Shape::Other),
                name,
            });
        }
        drop(answers);
        let mut known = lock(&self.learnt.parameters);
        if known.len() >= CACHE {
            known.clear();
        }
        known.insert(statement.sql().to_owned(), parameters.clone());
        Ok(parameters)
    }
}

async fn command(connection: &mut PgConnection, sql: &str) -> Result<(), Failure> {
    connection.execute(sqlx::raw_sql(text(sql))).await?;
    Ok(())
}

/// How to read the rows of one statement.
struct Reader {
    columns: Columns,
    shapes: Vec<Shape>,
}

impl Reader {
    fn of(columns: &[sqlx::postgres::PgColumn]) -> Result<Self, DbError> {
        let mut shapes = Vec::with_capacity(columns.len());
        for column in columns {
            let shape = shape_of(column.type_info());
            if !shape.is_read() {
                return Err(row::unreadable(
                    column.name(),
                    &column.type_info().name().to_lowercase(),
                ));
            }
            shapes.push(shape);
        }
        Ok(Self {
            columns: Columns::new(columns.iter().map(Column::name)),
            shapes,
        })
    }

    fn read(&self, from: &sqlx::postgres::PgRow) -> Result<Row, Failure> {
        let mut values = Vec::with_capacity(self.shapes.len());
        for (place, shape) in self.shapes.iter().enumerate() {
            let raw = from.try_get_raw(place)?;
            values.push(match raw.as_bytes() {
                _ if raw.is_null() => Value::Null,
                Ok(bytes) => {
                    let column = &from.columns()[place];
                    row::read(
                        column.name(),
                        &column.type_info().name().to_lowercase(),
                        *shape,
                        bytes,
                    )?
                }
                Err(_) => {
                    return Err(
                        DbError::new(Kind::Other, "the driver cannot follow the server").into(),
                    );
                }
            });
        }
        Ok(Row::new(self.columns.clone(), values))
    }
}

/// Nothing is left half done by a panic while one of these is locked.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
