use std::fmt;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use duebox_core::chrono::{DateTime, NaiveDateTime, Utc};
use duebox_core::{Database, DbError, Dialect, Kind, ReadThenWrite, Rendered, Row, Statement};
use sqlx::MySqlPool;

use crate::config::MySqlOptions;
use crate::error::{Failure, commit_was_undone};
use crate::reruns::Reruns;
use crate::server::Server;
use crate::session::{Session, execute, query};

/// A MySQL or MariaDB database.
///
/// Cheap to clone; clones share one pool.
#[derive(Clone)]
pub struct MySqlDatabase(Arc<Inner>);

struct Inner {
    pool: MySqlPool,
    /// The pool was made by the caller.
    borrowed: bool,
    server: OnceLock<Server>,
}

impl MySqlDatabase {
    /// Connects to `mysql://user:password@host:port/database`, with a pool of
    /// its own; see [`MySqlOptions`] for more than the address.
    ///
    /// # Errors
    ///
    /// Those of [`MySqlOptions::new`] and [`MySqlOptions::connect`].
    pub async fn connect(url: &str) -> Result<Self, DbError> {
        MySqlOptions::new(url)?.connect().await
    }

    /// Uses a pool that the service has already, whose sessions stay as they
    /// are.
    ///
    /// At first use it is checked that they have `autocommit` on, the character
    /// set `utf8mb4` (as is sqlx's default), no `sql_select_limit`, none of
    /// `NO_BACKSLASH_ESCAPES`, `ANSI_QUOTES` and `EMPTY_STRING_IS_NULL` in
    /// `sql_mode`, and on MariaDB `sql_safe_updates` off; if not, every call is
    /// [`Kind::Unsupported`].
    #[must_use]
    pub fn from_pool(pool: MySqlPool) -> Self {
        Self::new(pool, true)
    }

    pub(crate) fn new(pool: MySqlPool, borrowed: bool) -> Self {
        Self(Arc::new(Inner {
            pool,
            borrowed,
            server: OnceLock::new(),
        }))
    }

    /// The pool, for transactions of the caller's own; see
    /// [`execute`](crate::execute).
    ///
    /// Sessions of a pool that [`connect`](Self::connect) made are strict and
    /// READ COMMITTED.
    #[must_use]
    pub fn pool(&self) -> &MySqlPool {
        &self.0.pool
    }

    /// What is known of the server; asked at first use.
    pub(crate) async fn server(&self, session: &mut Session) -> Result<Server, Failure> {
        if let Some(server) = self.0.server.get() {
            return Ok(*server);
        }
        let server = Server::ask(session.connection()).await?;
        Ok(*self.0.server.get_or_init(|| server))
    }

    /// A connection to a server that is known to do, on which these fit.
    pub(crate) async fn session(&self, statements: &[Rendered<'_>]) -> Result<Session, Failure> {
        let mut session = Session::acquire(&self.0.pool, self.0.borrowed).await?;
        let ready = async {
            let server = self.server(&mut session).await?;
            session
                .check_packets(statements, server.max_allowed_packet)
                .await
        };
        match ready.await {
            Ok(()) => Ok(session),
            Err(failure) => {
                session.settle_after(&failure).await;
                Err(failure)
            }
        }
    }

    /// A connection inside a transaction.
    pub(crate) async fn begin(&self, statements: &[Rendered<'_>]) -> Result<Session, Failure> {
        let mut session = self.session(statements).await?;
        session.begin().await?;
        Ok(session)
    }

    async fn execute_once(&self, statement: &Rendered<'_>) -> Result<u64, Failure> {
        let mut session = self.session(std::slice::from_ref(statement)).await?;
        let run = async {
            session.isolate().await?;
            execute(session.connection(), statement).await
        };
        let answer = run.await;
        settled(session, statement, answer).await
    }

    async fn query_once(&self, statement: &Rendered<'_>) -> Result<Vec<Row>, Failure> {
        let mut session = self.session(std::slice::from_ref(statement)).await?;
        let reads = only_reads(statement.sql());
        let run = async {
            if !reads {
                session.isolate().await?;
            }
            query(session.connection(), statement, None).await
        };
        // One that reads is not run again when its answer is lost: it may call
        // functions that write.
        let answer = run.await;
        settled(session, statement, answer).await
    }

    async fn batch_once(&self, statements: &[Rendered<'_>]) -> Result<Vec<u64>, Failure> {
        let mut session = self.begin(statements).await?;
        let run = async {
            let mut counts = Vec::with_capacity(statements.len());
            for (index, statement) in statements.iter().enumerate() {
                let count = execute_expecting(&mut session, statement)
                    .await
                    .map_err(|failure| failure.map(|error| error.with_statement(index)))?;
                counts.push(count);
            }
            Ok(counts)
        };
        let answer = run.await;
        end(session, answer).await
    }

    async fn read_then_write_once(
        &self,
        step: &ReadThenWrite,
        read: &Rendered<'_>,
    ) -> Result<Vec<Row>, Failure> {
        let mut session = self.begin(std::slice::from_ref(read)).await?;
        let run = async {
            let rows = query(session.connection(), read, Some(step.budget())).await?;
            let writes = step.then(&rows).map_err(Failure::ours)?;
            let writes = Statement::render_batch(Dialect::MySql, &writes).map_err(Failure::ours)?;
            for write in &writes {
                execute_expecting(&mut session, write).await?;
            }
            Ok(rows)
        };
        let answer = run.await;
        end(session, answer).await
    }
}

/// Gives the session back after a statement outside of a transaction of ours, or
/// closes it where others could inherit something of the statement.
async fn settled<T>(
    session: Session,
    statement: &Rendered<'_>,
    answer: Result<T, Failure>,
) -> Result<T, Failure> {
    match &answer {
        Ok(_) if statement.runs_others() => session.close_after_others().await?,
        Ok(_) => session.settle(),
        Err(_) if statement.runs_others() => {}
        Err(failure) => session.settle_after(failure).await,
    }
    answer
}

async fn execute_expecting(
    session: &mut Session,
    statement: &Rendered<'_>,
) -> Result<u64, Failure> {
    let found = execute(session.connection(), statement).await?;
    statement.check_rows(found).map_err(Failure::ours)
}

/// Commits, or rolls back after an error.
pub(crate) async fn end<T>(session: Session, answer: Result<T, Failure>) -> Result<T, Failure> {
    match answer {
        Ok(answer) => match session.commit().await {
            Ok(()) => Ok(answer),
            Err(failure) => Err(Failure {
                // Whatever it says, the transaction is not run again.
                passing: false,
                unheard: false,
                ..failure.map(|error| {
                    if commit_was_undone(&error) {
                        error.not_applied()
                    } else {
                        error.unknown()
                    }
                })
            }),
        },
        // No COMMIT was sent, so none of it remains: the server rolls back a
        // session that ends, too.
        Err(failure) => {
            session.roll_back(&failure).await;
            Err(Failure {
                unheard: false,
                ..failure.map(DbError::not_applied)
            })
        }
    }
}

#[async_trait]
impl Database for MySqlDatabase {
    fn dialect(&self) -> Dialect {
        Dialect::MySql
    }

    async fn execute(&self, statement: &Statement) -> Result<u64, DbError> {
        if statement.expected_rows().is_some() {
            let counts = self.batch_atomic(std::slice::from_ref(statement)).await?;
            return Ok(counts.iter().sum());
        }
        let statement = statement.render(Dialect::MySql)?;
        let mut reruns = Reruns::new(&self.0.pool);
        loop {
            match self.execute_once(&statement).await {
                Err(failure) if reruns.allow(&failure).await => {}
                answer => return answer.map_err(|failure| failure.error),
            }
        }
    }

    async fn query(&self, statement: &Statement) -> Result<Vec<Row>, DbError> {
        let statement = statement.render(Dialect::MySql)?;
        let mut reruns = Reruns::new(&self.0.pool);
        loop {
            match self.query_once(&statement).await {
                Err(failure) if reruns.allow(&failure).await => {}
                answer => return answer.map_err(|failure| failure.error),
            }
        }
    }

    async fn batch_atomic(&self, statements: &[Statement]) -> Result<Vec<u64>, DbError> {
        let statements = Statement::render_batch(Dialect::MySql, statements)?;
        if statements.is_empty() {
            return Ok(Vec::new());
        }
        let mut reruns = Reruns::new(&self.0.pool);
        loop {
            match self.batch_once(&statements).await {
                Err(failure) if reruns.allow(&failure).await => {}
                answer => return answer.map_err(|failure| failure.error),
            }
        }
    }

    async fn now(&self) -> Result<DateTime<Utc>, DbError> {
        let rows = self
            .query(&Statement::new("SELECT UTC_TIMESTAMP(6) AS now"))
            .await?;
        let text: String = rows
            .first()
            .ok_or_else(|| DbError::new(Kind::Corrupt, "the server's clock gave no row"))?
            .get("now")?;
        NaiveDateTime::parse_from_str(&text, "%Y-%m-%d %H:%M:%S%.f")
            .map(|time| time.and_utc())
            .map_err(|_| DbError::new(Kind::Corrupt, "the server's clock gave no time"))
    }

    async fn read_then_write(&self, step: &ReadThenWrite) -> Result<Vec<Row>, DbError> {
        let read = step.read().render(Dialect::MySql)?;
        let mut reruns = Reruns::new(&self.0.pool);
        loop {
            match self.read_then_write_once(step, &read).await {
                Err(failure) if reruns.allow(&failure).await => {}
                answer => return answer.map_err(|failure| failure.error),
            }
        }
    }
}

impl fmt::Debug for MySqlDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MySqlDatabase")
            .field("connections", &self.0.pool.size())
            .field("idle", &self.0.pool.num_idle())
            .field("borrowed", &self.0.borrowed)
            .finish_non_exhaustive()
    }
}

/// Whether the isolation of the transaction does not matter.
fn only_reads(sql: &str) -> bool {
    let head = sql.trim_start().as_bytes();
    ["SELECT", "SHOW", "EXPLAIN", "DESCRIBE"]
        .iter()
        .any(|word| {
            head.get(..word.len())
                .is_some_and(|head| head.eq_ignore_ascii_case(word.as_bytes()))
        })
}
