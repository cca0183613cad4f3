//! The caller's own connections and transactions of sqlx.

use async_trait::async_trait;
use duebox_core::{DbError, Row, Statement};
use sqlx::Transaction;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnection, Postgres};

use crate::Handle;
use crate::sqlx_client::{Learnt, SqlxPrepared};
use crate::transaction::sealed::Sealed;
use crate::transaction::{count, rows};

impl Sealed for &mut PgConnection {}

#[async_trait]
impl Handle for &mut PgConnection {
    async fn run(self, statement: &Statement) -> Result<u64, DbError> {
        let learnt = Learnt::default();
        count(
            SqlxPrepared {
                connection: self,
                learnt: &learnt,
            },
            statement,
        )
        .await
    }

    async fn read(self, statement: &Statement) -> Result<Vec<Row>, DbError> {
        let learnt = Learnt::default();
        rows(
            SqlxPrepared {
                connection: self,
                learnt: &learnt,
            },
            statement,
        )
        .await
    }
}

/// What holds a connection is a handle as the connection is, since an argument of a
/// generic type is not dereferenced by the compiler.
macro_rules! holds_a_connection {
    ($($holder:ty),+) => {$(
        impl Sealed for &mut $holder {}

        #[async_trait]
        impl Handle for &mut $holder {
            async fn run(self, statement: &Statement) -> Result<u64, DbError> {
                Handle::run(&mut **self, statement).await
            }

            async fn read(self, statement: &Statement) -> Result<Vec<Row>, DbError> {
                Handle::read(&mut **self, statement).await
            }
        }
    )+};
}

holds_a_connection!(Transaction<'_, Postgres>, PoolConnection<Postgres>);
