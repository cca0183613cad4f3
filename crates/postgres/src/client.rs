//! A connection of tokio-postgres.

use std::error::Error as StdError;
use std::fmt;
use std::pin::pin;

use bytes::BytesMut;
use deadpool_postgres::ClientWrapper;
use duebox_core::{Columns, DbError, Rendered, Row, Value};
use futures_util::TryStreamExt;
use tokio_postgres::types::{FromSql, IsNull, Kind as TypeKind, ToSql, Type, to_sql_checked};
use tokio_postgres::{Column, GenericClient, RowStream, Statement};

use crate::error::Failure;
use crate::session::Session;
use crate::types::{Item, Shape, built_in};
use crate::{bind, row};

/// The statements a connection keeps prepared before it forgets all of them, so
/// that a service that makes up its SQL does not fill the server's memory.
const CACHE: usize = 512;

/// The shape of a type that tokio-postgres describes.
pub(crate) fn shape_of(ty: &Type) -> Shape {
    if let Some(shape) = built_in(ty.oid()) {
        return shape;
    }
    match ty.kind() {
        TypeKind::Enum(_) => Shape::Text,
        TypeKind::Domain(base) => shape_of(base),
        TypeKind::Array(_) => Shape::Array(Item::Other),
        _ if ty.name() == "citext" => Shape::Text,
        _ => Shape::Other,
    }
}

fn type_name(ty: &Type) -> String {
    match ty.kind() {
        TypeKind::Array(of) => format!("{}[]", of.name()),
        _ => ty.name().to_owned(),
    }
}

/// A value as the driver takes it. The driver logs parameters by their `Debug`,
/// which shows no value here.
#[derive(Clone, Copy)]
struct Bound<'a>(&'a Value);

impl fmt::Debug for Bound<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl ToSql for Bound<'_> {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        if *self.0 == Value::Null {
            return Ok(IsNull::Yes);
        }
        // Where the server is to find the types itself it gets text alone.
        if *ty == Type::UNKNOWN {
            bind::text(self.0, out);
        } else {
            bind::write(self.0, shape_of(ty), out);
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, ty: &Type) -> tokio_postgres::types::Format {
        match bind::format(self.0, shape_of(ty)) {
            bind::Format::Binary if *ty != Type::UNKNOWN => tokio_postgres::types::Format::Binary,
            _ => tokio_postgres::types::Format::Text,
        }
    }

    to_sql_checked!();
}

/// A connection of a pool that keeps statements prepared.
pub(crate) struct Prepared<'a>(pub(crate) &'a ClientWrapper);

impl Session for Prepared<'_> {
    async fn command(&mut self, sql: &str) -> Result<(), Failure> {
        Ok(self.0.batch_execute(sql).await?)
    }

    async fn count(&mut self, statement: &Rendered<'_>) -> Result<u64, Failure> {
        let prepared = prepare(self.0, statement).await?;
        execute_prepared(self.0, &prepared, statement).await
    }

    async fn rows(&mut self, statement: &Rendered<'_>) -> Result<Vec<Row>, Failure> {
        let prepared = prepare(self.0, statement).await?;
        query_prepared(self.0, &prepared, statement).await
    }
}

/// Any connection or transaction, without preparing.
pub(crate) struct Unprepared<'a, C>(pub(crate) &'a C);

impl<C: GenericClient + Sync> Session for Unprepared<'_, C> {
    async fn command(&mut self, sql: &str) -> Result<(), Failure> {
        Ok(self.0.batch_execute(sql).await?)
    }

    async fn count(&mut self, statement: &Rendered<'_>) -> Result<u64, Failure> {
        execute_unprepared(self.0, statement).await
    }

    async fn rows(&mut self, statement: &Rendered<'_>) -> Result<Vec<Row>, Failure> {
        query_unprepared(self.0, statement).await
    }
}

fn bound<'a>(statement: &'a Rendered<'_>) -> impl ExactSizeIterator<Item = Bound<'a>> {
    statement.values().iter().map(Bound)
}

/// The statement prepared, from the connection's cache if it is there.
pub(crate) async fn prepare(
    client: &ClientWrapper,
    statement: &Rendered<'_>,
) -> Result<Statement, Failure> {
    if client.statement_cache.size() > CACHE {
        client.statement_cache.clear();
    }
    // Preparing runs nothing.
    let prepared = prepare_fitting(client, statement).await;
    prepared.map_err(Failure::not_applied)
}

async fn prepare_fitting(
    client: &ClientWrapper,
    statement: &Rendered<'_>,
) -> Result<Statement, Failure> {
    let prepared = client.prepare_cached(statement.sql()).await?;
    if check(&prepared, statement.values()).is_ok() {
        return Ok(prepared);
    }
    // The types may be those of before a migration.
    client.statement_cache.remove(statement.sql(), &[]);
    let prepared = client.prepare_cached(statement.sql()).await?;
    check(&prepared, statement.values())?;
    Ok(prepared)
}

/// Refuses what cannot be bound, before anything is sent.
fn check(prepared: &Statement, values: &[Value]) -> Result<(), DbError> {
    if prepared.params().len() != values.len() {
        return Err(DbError::invalid(
            "a statement names parameters as $1; write ? for each value",
        ));
    }
    for (place, (value, ty)) in values.iter().zip(prepared.params()).enumerate() {
        let shape = shape_of(ty);
        bind::check(value, shape, ty.name(), place + 1)?;
    }
    Ok(())
}

/// Runs a prepared statement and counts the rows that it changed.
///
/// The message is sent when the future is polled first.
pub(crate) async fn execute_prepared(
    client: &tokio_postgres::Client,
    prepared: &Statement,
    statement: &Rendered<'_>,
) -> Result<u64, Failure> {
    let changed = client.execute_raw(prepared, bound(statement)).await?;
    Ok(if prepared.columns().is_empty() {
        changed
    } else {
        0
    })
}

/// Runs a prepared statement and reads its rows.
async fn query_prepared(
    client: &tokio_postgres::Client,
    prepared: &Statement,
    statement: &Rendered<'_>,
) -> Result<Vec<Row>, Failure> {
    // Nothing has run yet.
    let reader = Reader::of(prepared.columns()).map_err(DbError::not_applied)?;
    let mut rows = pin!(client.query_raw(prepared, bound(statement)).await?);
    let mut read = Vec::new();
    while let Some(row) = rows.try_next().await? {
        read.push(reader.read(&row)?);
    }
    Ok(read)
}

/// Sends a statement unprepared, in one message, with its values as text for
/// the server to find the types of.
async fn send<C: GenericClient + Sync>(
    client: &C,
    statement: &Rendered<'_>,
) -> Result<RowStream, Failure> {
    if let Some(nth) = statement.values().iter().position(too_long) {
        return Err(
            DbError::invalid(format!("value {} is too long for one message", nth + 1)).into(),
        );
    }
    let values: Vec<_> = bound(statement)
        .map(|value| (value, Type::UNKNOWN))
        .collect();
    Ok(client.query_typed_raw(statement.sql(), values).await?)
}

/// Runs a statement unprepared and counts the rows that it changed.
///
/// The message is sent when the future is polled first.
pub(crate) async fn execute_unprepared<C: GenericClient + Sync>(
    client: &C,
    statement: &Rendered<'_>,
) -> Result<u64, Failure> {
    let mut rows = pin!(send(client, statement).await?);
    let mut returned = false;
    while rows.try_next().await?.is_some() {
        returned = true;
    }
    // A statement that returns rows and has returned none has changed none.
    Ok(if returned {
        0
    } else {
        rows.rows_affected().unwrap_or(0)
    })
}

/// Runs a statement unprepared and reads its rows.
async fn query_unprepared<C: GenericClient + Sync>(
    client: &C,
    statement: &Rendered<'_>,
) -> Result<Vec<Row>, Failure> {
    let mut rows = pin!(send(client, statement).await?);
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

/// The server takes a message of up to 1 GiB.
fn too_long(value: &Value) -> bool {
    const MOST: usize = 0x3fff_ff00;
    match value {
        Value::Text(text) => text.len() > MOST,
        Value::Bytes(bytes) => bytes.len() > MOST / 2,
        _ => false,
    }
}

/// How to read the rows of one statement.
struct Reader {
    columns: Columns,
    shapes: Vec<(Shape, Type)>,
}

impl Reader {
    fn of(columns: &[Column]) -> Result<Self, DbError> {
        let mut shapes = Vec::with_capacity(columns.len());
        for column in columns {
            let ty = column.type_();
            let shape = shape_of(ty);
            if !shape.is_read() {
                return Err(row::unreadable(column.name(), &type_name(ty)));
            }
            shapes.push((shape, ty.clone()));
        }
        Ok(Self {
            columns: Columns::new(columns.iter().map(Column::name)),
            shapes,
        })
    }

    fn read(&self, from: &tokio_postgres::Row) -> Result<Row, Failure> {
        let mut values = Vec::with_capacity(self.shapes.len());
        for (place, (shape, ty)) in self.shapes.iter().enumerate() {
            let Raw(bytes) = from.try_get(place)?;
            values.push(match bytes {
                None => Value::Null,
                Some(bytes) => row::read(from.columns()[place].name(), ty.name(), *shape, bytes)?,
            });
        }
        Ok(Row::new(self.columns.clone(), values))
    }
}

/// The bytes of a column of any type.
struct Raw<'a>(Option<&'a [u8]>);

impl<'a> FromSql<'a> for Raw<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        Ok(Self(Some(raw)))
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        Ok(Self(None))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}
