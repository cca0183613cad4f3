//! A connection of the pool while it is worked with.

use std::ops::Deref;

use deadpool_postgres::{ClientWrapper, Object};

/// Holds a connection and closes it when dropped, unless it was given back.
///
/// Whoever drops a future in the middle of its work drops this, and with it a
/// connection that may be inside a transaction or have an answer under way.
#[derive(Debug)]
pub(crate) struct Checkout(Option<Object>);

impl Checkout {
    pub(crate) const fn new(connection: Object) -> Self {
        Self(Some(connection))
    }

    /// Back to the pool: the connection is idle and in no transaction.
    pub(crate) fn give_back(mut self) {
        drop(self.0.take());
    }
}

impl Deref for Checkout {
    type Target = ClientWrapper;

    fn deref(&self) -> &ClientWrapper {
        self.0
            .as_ref()
            .expect("a connection until it is given back")
    }
}

impl Drop for Checkout {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take() {
            // Dropping what is taken closes the socket, and the server rolls back.
            drop(Object::take(connection));
        }
    }
}
