use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use duebox_core::DbError;
use sqlx::mysql::{MySqlConnectOptions, MySqlPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor};

use crate::MySqlDatabase;
use crate::session::Session;
use crate::url;

/// How to connect: an address, and the pool to make.
///
/// ```no_run
/// # async fn example() -> Result<(), duebox_mysql::DbError> {
/// use std::time::Duration;
/// use duebox_mysql::MySqlOptions;
///
/// let db = MySqlOptions::new("mysql://app:secret@db.example.com/app?ssl-mode=VERIFY_IDENTITY")?
///     .max_connections(20)
///     .acquire_timeout(Duration::from_secs(3))
///     .connect()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use]
pub struct MySqlOptions {
    connect: MySqlConnectOptions,
    pool: MySqlPoolOptions,
}

/// What every session of our own pool is set to, whatever the server's defaults:
/// READ COMMITTED, in which claims and enqueues do not lock each other's gaps;
/// no value is cut or replaced in silence; and text is read as
/// [`Statement`](duebox_core::Statement) reads it.
const SESSION: &str = "\
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET SESSION
    sql_mode = 'STRICT_ALL_TABLES,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION',
    SESSION autocommit = 1,
    SESSION completion_type = 'NO_CHAIN',
    SESSION sql_safe_updates = 0,
    SESSION sql_select_limit = 18446744073709551615";

/// [`SESSION`] with a limit for statements. MySQL counts milliseconds and ends
/// reads alone, MariaDB counts seconds and ends whatever runs.
fn limited_session(timeout: Duration) -> String {
    let milliseconds = timeout.as_millis().clamp(1, u128::from(u32::MAX));
    format!(
        "{SESSION} /*!50708 , SESSION max_execution_time = {milliseconds} */ \
         /*M!100101 , SESSION max_statement_time = {}.{:03} */",
        milliseconds / 1000,
        milliseconds % 1000
    )
}

/// A connection that was idle for longer is asked whether it is still there.
const PING_AFTER: Duration = Duration::from_millis(100);

impl MySqlOptions {
    /// The address in `url`: `mysql://user:password@host:port/database`, or the same
    /// with `mariadb://`. Behind `?` it takes these parameters, and no other:
    ///
    /// | parameter | |
    /// |---|---|
    /// | `ssl-mode` | `DISABLED`; `PREFERRED`, which is the default: TLS if the server has it; `REQUIRED`: TLS with whoever answers; `VERIFY_CA`: with a certificate of a trusted authority; `VERIFY_IDENTITY`: with one for this host |
    /// | `ssl-ca` | the authorities to trust beside those of the system: the path of a PEM file, or its text |
    /// | `ssl-cert`, `ssl-key` | the client's own certificate and its key, likewise |
    /// | `socket` | the path of a Unix socket, in place of host and port |
    /// | `collation`, `statement-cache-capacity` | as [`MySqlConnectOptions`] has them |
    /// | `charset`, `timezone` | are always `utf8mb4` and `+00:00`, and may say so |
    ///
    /// # Errors
    ///
    /// [`Kind::InvalidArgument`](crate::Kind::InvalidArgument) if it cannot be
    /// read, has another scheme or a parameter that is not known, or names a file
    /// that is not there or is not what it should be.
    pub fn new(url: &str) -> Result<Self, DbError> {
        Ok(Self::from_driver(url::parse(url)?))
    }

    /// What the driver's own options say. The character set, the time zone, the
    /// SQL mode and the logging of statements are set as this crate needs them.
    pub fn from_driver(connect: MySqlConnectOptions) -> Self {
        let connect = connect
            .charset("utf8mb4")
            .set_names(true)
            .pipes_as_concat(false)
            .no_engine_substitution(false)
            .timezone(Some("+00:00".to_owned()))
            .disable_statement_logging();
        let pool = MySqlPoolOptions::new()
            .acquire_timeout(Duration::from_secs(5))
            // In place of a round trip at every use.
            .test_before_acquire(false)
            .before_acquire(|connection, about| {
                Box::pin(async move {
                    Ok(about.idle_for < PING_AFTER || connection.ping().await.is_ok())
                })
            })
            .after_connect(|connection, _| {
                Box::pin(async move { connection.execute(SESSION).await.map(drop) })
            });
        Self { connect, pool }
    }

    /// At most so many connections, 10 unless it is said.
    pub fn max_connections(mut self, connections: u32) -> Self {
        self.pool = self.pool.max_connections(connections.max(1));
        self
    }

    /// So many connections are kept open, none unless it is said.
    pub fn min_connections(mut self, connections: u32) -> Self {
        self.pool = self.pool.min_connections(connections);
        self
    }

    /// How long a call waits for a connection, 5 seconds unless it is said.
    pub fn acquire_timeout(mut self, timeout: Duration) -> Self {
        self.pool = self.pool.acquire_timeout(timeout);
        self
    }

    /// How long the server lets a statement run, in whole milliseconds and at
    /// least one, before it ends it with [`Kind::Busy`](crate::Kind::Busy); as
    /// the server is set unless it is said. MySQL ends statements that only
    /// read, MariaDB any.
    pub fn statement_timeout(mut self, timeout: Duration) -> Self {
        let session: Arc<str> = limited_session(timeout).into();
        self.pool = self.pool.after_connect(move |connection, _| {
            let session = Arc::clone(&session);
            Box::pin(async move {
                let set = sqlx::raw_sql(AssertSqlSafe(session));
                connection.execute(set).await.map(drop)
            })
        });
        self
    }

    /// Connections that were not used for so long are closed, after 10 minutes
    /// unless it is said.
    pub fn idle_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.pool = self.pool.idle_timeout(timeout);
        self
    }

    /// Connections that are so old are closed, after 30 minutes unless it is said.
    pub fn max_lifetime(mut self, lifetime: Option<Duration>) -> Self {
        self.pool = self.pool.max_lifetime(lifetime);
        self
    }

    /// Makes the pool, and no connection yet: for a service that starts before
    /// its database does.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn connect_lazy(self) -> MySqlDatabase {
        MySqlDatabase::new(self.pool.connect_lazy_with(self.connect), false)
    }

    /// Makes the pool and its first connection, and looks whether the server is
    /// one that can be worked with.
    ///
    /// # Errors
    ///
    /// [`Kind::Unavailable`](crate::Kind::Unavailable) if the server cannot be
    /// reached in [`acquire_timeout`](Self::acquire_timeout),
    /// [`Kind::Unsupported`](crate::Kind::Unsupported) if it is too old, has no
    /// TLS where `ssl-mode` asks for it, or shows a certificate that is refused.
    pub async fn connect(self) -> Result<MySqlDatabase, DbError> {
        let db = self.connect_lazy();
        let connected = async {
            let mut session = Session::acquire(db.pool(), false).await?;
            db.server(&mut session).await?;
            session.settle();
            Ok(())
        };
        let connected: Result<(), crate::error::Failure> = connected.await;
        match connected {
            Ok(()) => Ok(db),
            Err(failure) => Err(failure.error.context("connect to the database")),
        }
    }
}

impl fmt::Debug for MySqlOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MySqlOptions")
            .field("host", &self.connect.get_host())
            .field("port", &self.connect.get_port())
            .field("database", &self.connect.get_database())
            .field("ssl_mode", &self.connect.get_ssl_mode())
            .field("max_connections", &self.pool.get_max_connections())
            .finish_non_exhaustive()
    }
}
