//! What undoes one job of a transaction that others share.

use std::cell::Cell;

use duebox_core::DbError;
use rusqlite::Connection;

use crate::error;

/// A savepoint that is made only if it is needed, since each page that is
/// changed behind one is copied first.
pub(crate) struct Undo<'a> {
    conn: &'a Connection,
    scope: Scope,
    made: Cell<bool>,
}

/// What else is in the transaction, and what a failed statement leaves there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Nothing: the whole can be rolled back.
    Alone,
    /// Work of others. One row of bound values that is refused leaves nothing.
    Shared,
    /// Work of others. Any statement that fails may leave a part of what it
    /// did, as a constraint or a trigger says `FAIL`.
    SharedWithParts,
}

impl<'a> Undo<'a> {
    pub(crate) const fn new(conn: &'a Connection, scope: Scope) -> Self {
        Self {
            conn,
            scope,
            made: Cell::new(false),
        }
    }

    /// To be called before changes that, if they fail, may be there in part.
    pub(crate) fn before(&self, in_part: bool) -> Result<(), DbError> {
        let needed = match self.scope {
            Scope::Alone => false,
            Scope::Shared => in_part,
            Scope::SharedWithParts => true,
        };
        if needed && !self.made.get() {
            step(self.conn, "SAVEPOINT duebox")?;
            self.made.set(true);
        }
        Ok(())
    }

    /// Ends the savepoint, if there is one; if the work failed, with its changes.
    pub(crate) fn end(self, failed: bool) -> Result<(), DbError> {
        if !self.made.get() {
            return Ok(());
        }
        if failed {
            step(self.conn, "ROLLBACK TO duebox")?;
        }
        step(self.conn, "RELEASE duebox")
    }
}

/// Runs one of the few statements about transactions.
pub(crate) fn step(conn: &Connection, sql: &str) -> Result<(), DbError> {
    conn.prepare_cached(sql)
        .and_then(|mut statement| statement.raw_execute())
        .map(drop)
        .map_err(|error| error::sort(&error))
}
