//! A connection of a pool while it is worked with.

use std::ops::{Deref, DerefMut};

/// A connection of either pool.
pub(crate) trait Pooled {
    /// Takes it from its pool and closes the socket, upon which the server rolls back.
    fn close(self);
}

impl Pooled for deadpool_postgres::Object {
    fn close(self) {
        drop(Self::take(self));
    }
}

#[cfg(feature = "sqlx")]
impl Pooled for sqlx::pool::PoolConnection<sqlx::Postgres> {
    fn close(self) {
        drop(self.detach());
    }
}

/// Holds a connection and closes it when dropped, unless it was given back.
///
/// Whoever drops a future in the middle of its work drops this, and with it a
/// connection that may be inside a transaction or have an answer under way.
#[derive(Debug)]
pub(crate) struct Checkout<C: Pooled>(Option<C>);

const HELD: &str = "a connection until it is given back";

impl<C: Pooled> Checkout<C> {
    pub(crate) const fn new(connection: C) -> Self {
        Self(Some(connection))
    }

    /// Back to the pool: the connection is idle and in no transaction.
    pub(crate) fn give_back(mut self) {
        drop(self.0.take());
    }
}

impl<C: Pooled + Deref> Deref for Checkout<C> {
    type Target = C::Target;

    fn deref(&self) -> &C::Target {
        self.0.as_ref().expect(HELD)
    }
}

impl<C: Pooled + DerefMut> DerefMut for Checkout<C> {
    fn deref_mut(&mut self) -> &mut C::Target {
        self.0.as_mut().expect(HELD)
    }
}

impl<C: Pooled> Drop for Checkout<C> {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take() {
            connection.close();
        }
    }
}
