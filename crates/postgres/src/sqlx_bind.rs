//! Values in, by sqlx, which binds in binary alone: a text for a type that it would
//! have to be parsed for goes out as a text and is cast in the SQL.

use duebox_core::{DbError, Rendered, Value};
use sqlx::encode::{Encode, IsNull};
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgArguments, PgTypeInfo, PgTypeKind, Postgres};
use sqlx::{Arguments, Either, Statement, Type, TypeInfo};

use crate::bind::{self, Format};
use crate::error::Failure;
use crate::types::{Item, Shape, built_in};

/// The place that a value is bound to.
#[derive(Clone, Debug)]
pub(crate) struct Parameter {
    pub(crate) oid: u32,
    pub(crate) shape: Shape,
    /// As SQL names it; empty if it is not known yet.
    pub(crate) name: String,
}

pub(crate) fn shape_of(ty: &PgTypeInfo) -> Shape {
    let Some(oid) = ty.oid() else {
        return Shape::Other;
    };
    if let Some(shape) = built_in(oid.0) {
        return shape;
    }
    match ty.kind() {
        PgTypeKind::Enum(_) => Shape::Text,
        PgTypeKind::Domain(base) => shape_of(base),
        PgTypeKind::Array(_) => Shape::Array(Item::Other),
        _ if ty.name() == "citext" => Shape::Text,
        _ => Shape::Other,
    }
}

pub(crate) fn parameters(prepared: &sqlx::postgres::PgStatement) -> Vec<Parameter> {
    let Some(Either::Left(types)) = prepared.parameters() else {
        return Vec::new();
    };
    let parameter = |ty: &PgTypeInfo| Parameter {
        oid: ty.oid().map_or(0, |oid| oid.0),
        shape: shape_of(ty),
        name: ty.name().to_lowercase(),
    };
    types.iter().map(parameter).collect()
}

/// Refuses what cannot be bound, before anything is sent.
pub(crate) fn check(values: &[Value], parameters: &[Parameter]) -> Result<(), DbError> {
    if parameters.len() != values.len() {
        return Err(DbError::invalid(
            "a statement names parameters as $1; write ? for each value",
        ));
    }
    for (place, (value, parameter)) in values.iter().zip(parameters).enumerate() {
        bind::check(value, parameter.shape, &parameter.name, place + 1)?;
    }
    Ok(())
}

pub(crate) fn needs_cast(values: &[Value], parameters: &[Parameter]) -> bool {
    values
        .iter()
        .zip(parameters)
        .any(|(value, parameter)| bind::format(value, parameter.shape) == Format::Text)
}

/// The text with a cast where a value goes out as text.
pub(crate) fn cast(statement: &Rendered<'_>, parameters: &[Parameter]) -> String {
    if !needs_cast(statement.values(), parameters) {
        return statement.sql().to_owned();
    }
    let casts: Vec<_> = statement
        .values()
        .iter()
        .zip(parameters)
        .map(
            |(value, parameter)| match bind::format(value, parameter.shape) {
                Format::Binary => None,
                Format::Text => Some(parameter.name.as_str()),
            },
        )
        .collect();
    statement.sql_with_casts(&casts)
}

pub(crate) fn arguments(
    values: &[Value],
    parameters: &[Parameter],
) -> Result<PgArguments, Failure> {
    let mut arguments = PgArguments::default();
    for (value, parameter) in values.iter().zip(parameters) {
        let mut bytes = Vec::new();
        let ty = match bind::format(value, parameter.shape) {
            Format::Binary => {
                bind::write(value, parameter.shape, &mut bytes);
                parameter.oid
            }
            Format::Text => {
                bind::text(value, &mut bytes);
                25
            }
        };
        let bytes = (*value != Value::Null).then_some(bytes);
        arguments.add(Bound { bytes, ty }).map_err(unencoded)?;
    }
    Ok(arguments)
}

pub(crate) fn unencoded(_: sqlx::error::BoxDynError) -> Failure {
    DbError::invalid("a value is too long for one message").into()
}

/// A value as sqlx takes it: its bytes, and the OID of their type.
pub(crate) struct Bound {
    pub(crate) bytes: Option<Vec<u8>>,
    pub(crate) ty: u32,
}

impl Type<Postgres> for Bound {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(25))
    }
}

impl Encode<'_, Postgres> for Bound {
    fn encode_by_ref(
        &self,
        out: &mut PgArgumentBuffer,
    ) -> Result<IsNull, sqlx::error::BoxDynError> {
        let Some(bytes) = &self.bytes else {
            return Ok(IsNull::Yes);
        };
        out.extend_from_slice(bytes);
        Ok(IsNull::No)
    }

    fn produces(&self) -> Option<PgTypeInfo> {
        Some(PgTypeInfo::with_oid(Oid(self.ty)))
    }

    fn size_hint(&self) -> usize {
        self.bytes.as_ref().map_or(0, Vec::len)
    }
}
