use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use duebox_core::DbError;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::connect::Quiet;
use crate::url::{self, SslMode};
use crate::{PostgresDatabase, tls};

/// How to reach a database and with how many connections.
///
/// A connection string is a URL or `key=value` pairs, as for libpq, with the
/// parameters that [`tokio_postgres::Config`] reads (several hosts, among them)
/// and these:
///
/// - `sslmode`: `disable`; `prefer` and `allow`, which take TLS if the server has
///   it; `require`, which takes TLS with whoever answers; `verify-ca`, which asks
///   for a certificate of a trusted authority; `verify-full`, which asks for one
///   of this host. It is `prefer` unless it is said.
/// - `sslrootcert`: a PEM file with the authorities to trust, or `system`. Those
///   of the system are trusted unless it is said. With it, `require` is
///   `verify-ca`, as for libpq.
///
/// ```no_run
/// use std::time::Duration;
/// use duebox_postgres::PostgresOptions;
///
/// # async fn example() -> Result<(), duebox_postgres::DbError> {
/// let db = PostgresOptions::new("postgres://app@db.internal/app?sslmode=verify-full")?
///     .max_connections(20)
///     .acquire_timeout(Duration::from_secs(2))
///     .connect()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use]
pub struct PostgresOptions {
    driver: tokio_postgres::Config,
    mode: SslMode,
    root_cert: Option<PathBuf>,
    max_connections: usize,
    acquire_timeout: Duration,
    connect_timeout: Duration,
    prepared: bool,
    statement_timeout: Option<Duration>,
}

impl PostgresOptions {
    /// Reads a connection string.
    ///
    /// # Errors
    ///
    /// [`Kind::InvalidArgument`](crate::Kind::InvalidArgument) if it cannot be
    /// read. The error quotes nothing of it.
    pub fn new(url: &str) -> Result<Self, DbError> {
        let url::Parsed {
            mut driver,
            mode,
            root_cert,
        } = url::parse(url)?;
        let mut mode = mode.unwrap_or(SslMode::Prefer);
        let root_cert = root_cert.filter(|file| file != "system").map(PathBuf::from);
        if mode == SslMode::Require && root_cert.is_some() {
            mode = SslMode::VerifyCa;
        }
        if driver.get_application_name().is_none() {
            driver.application_name("duebox");
        }
        // A peer that is gone without a word is noticed within a minute or so and
        // not after the two hours that are usual.
        if driver.get_keepalives_idle() == tokio_postgres::Config::new().get_keepalives_idle() {
            driver.keepalives_idle(Duration::from_secs(30));
            driver.keepalives_interval(Duration::from_secs(10));
            driver.keepalives_retries(3);
        }
        if driver.get_tcp_user_timeout().is_none() {
            driver.tcp_user_timeout(Duration::from_secs(30));
        }
        let connect_timeout = driver
            .get_connect_timeout()
            .copied()
            .unwrap_or(Duration::from_secs(5));
        Ok(Self {
            driver,
            mode,
            root_cert,
            max_connections: 10,
            acquire_timeout: Duration::from_secs(10),
            connect_timeout,
            prepared: true,
            statement_timeout: None,
        })
    }

    /// How many connections there may be at once: 10 unless it is said.
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.max_connections = connections.max(1);
        self
    }

    /// How long a call waits for a connection while all are in use, before it
    /// fails with [`Kind::Busy`](crate::Kind::Busy): 10 seconds unless it is said.
    pub fn acquire_timeout(mut self, timeout: Duration) -> Self {
        self.acquire_timeout = timeout;
        self
    }

    /// How long a new connection may take, log-in included: what
    /// `connect_timeout` says, otherwise 5 seconds.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How long the server lets a statement run, in whole milliseconds and at
    /// least one, before it ends it with [`Kind::Busy`](crate::Kind::Busy); as
    /// the server is set unless it is said. It is asked for when a connection is
    /// made, which a pooler such as PgBouncer may refuse.
    pub fn statement_timeout(mut self, timeout: Duration) -> Self {
        self.statement_timeout = Some(timeout);
        self
    }

    /// As [`PostgresDatabase::with_prepared_statements`].
    pub fn prepared_statements(mut self, prepared: bool) -> Self {
        self.prepared = prepared;
        self
    }

    /// Makes the pool and one connection, and looks whether the server is one
    /// that can be worked with.
    ///
    /// # Errors
    ///
    /// Why the server cannot be reached or used.
    pub async fn connect(self) -> Result<PostgresDatabase, DbError> {
        let database = self.connect_lazy()?;
        database.check().await?;
        Ok(database)
    }

    /// Makes the pool, and no connection yet: for a service that starts before
    /// its database does.
    ///
    /// # Errors
    ///
    /// [`Kind::InvalidArgument`](crate::Kind::InvalidArgument) if the file of
    /// `sslrootcert` cannot be read, or there is no host.
    pub fn connect_lazy(self) -> Result<PostgresDatabase, DbError> {
        let (driver, tls) = self.ready()?;
        let fast = ManagerConfig {
            recycling_method: RecyclingMethod::Fast,
        };
        let pool = Pool::builder(Manager::from_connect(driver, Quiet(tls), fast))
            .max_size(self.max_connections)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(self.acquire_timeout))
            .create_timeout(Some(self.connect_timeout))
            .build()
            .map_err(|_| DbError::invalid("the pool of connections cannot be made"))?;
        Ok(PostgresDatabase::with_own_pool(pool).with_prepared_statements(self.prepared))
    }

    /// What a connection is made with.
    pub(crate) fn ready(&self) -> Result<(tokio_postgres::Config, MakeRustlsConnect), DbError> {
        if self.driver.get_hosts().is_empty() && self.driver.get_hostaddrs().is_empty() {
            return Err(DbError::invalid("the connection string names no host"));
        }
        let mut driver = self.driver.clone();
        driver.ssl_mode(match self.mode {
            SslMode::Disable => tokio_postgres::config::SslMode::Disable,
            SslMode::Prefer => tokio_postgres::config::SslMode::Prefer,
            _ => tokio_postgres::config::SslMode::Require,
        });
        driver.connect_timeout(self.connect_timeout);
        if let Some(timeout) = self.statement_timeout {
            let set = format!(
                "-c statement_timeout={}",
                timeout.as_millis().clamp(1, i32::MAX as u128)
            );
            let options = match driver.get_options() {
                Some(options) => format!("{options} {set}"),
                None => set,
            };
            driver.options(options);
        }
        let tls = tls::connector(self.mode, self.root_cert.as_deref())?;
        Ok((driver, tls))
    }
}

/// Shows no password, and nothing else of the connection string.
impl fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresOptions")
            .field("sslmode", &self.mode)
            .field("max_connections", &self.max_connections)
            .field("acquire_timeout", &self.acquire_timeout)
            .field("connect_timeout", &self.connect_timeout)
            .field("prepared_statements", &self.prepared)
            .field("statement_timeout", &self.statement_timeout)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_neither_password_nor_user_nor_host() {
        let options = PostgresOptions::new("postgres://someone:secret@there/place").unwrap();
        let shown = format!("{options:?} {options:#?}");
        for hidden in ["someone", "secret", "there", "place"] {
            assert!(!shown.contains(hidden), "{shown}");
        }
    }

    #[test]
    fn a_root_certificate_makes_require_verify() {
        let mode = |url| PostgresOptions::new(url).unwrap().mode;
        assert_eq!(mode("postgres://h?sslmode=require"), SslMode::Require);
        assert_eq!(
            mode("postgres://h?sslmode=require&sslrootcert=/ca.pem"),
            SslMode::VerifyCa
        );
        assert_eq!(mode("postgres://h"), SslMode::Prefer);
    }
}
