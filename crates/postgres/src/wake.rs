use std::fmt;
use std::future::poll_fn;
use std::time::Duration;

use deadpool_postgres::PoolError;
use duebox_core::{Database, DbError, Kind, Outbox, Statement, WakeFuture, WakeSink, WakeSource};
use tokio::sync::mpsc;
use tokio_postgres::AsyncMessage;

use crate::{PostgresOptions, error};

/// How often a connection that hears nothing is asked whether it is there.
const CHECK: Duration = Duration::from_secs(30);

/// Hears of new work in an outbox by `LISTEN`, on a connection of its own.
///
/// It needs a session, so the address must not lead to PgBouncer in
/// transaction mode. Notifications carry no data, and those that come close
/// together are told as one.
#[must_use = "it hears nothing before it is waited on"]
pub struct PostgresWakeSource {
    options: PostgresOptions,
    channel: String,
    listening: Option<Listening>,
}

struct Listening {
    client: tokio_postgres::Client,
    heard: mpsc::Receiver<()>,
}

impl PostgresWakeSource {
    /// Listens to this outbox at this server; connects when it is waited on.
    pub fn new(options: PostgresOptions, outbox: &Outbox) -> Self {
        Self {
            options,
            channel: channel(outbox),
            listening: None,
        }
    }

    async fn listen(&self) -> Result<Listening, DbError> {
        let (driver, tls) = self.options.ready()?;
        let connected = driver.connect(tls).await;
        let connected = connected.map_err(|error| error::pool(PoolError::Backend(error)));
        let (client, mut connection) = connected?;
        // One place: a notification that finds it taken is told by the one that is there.
        let (tell, heard) = mpsc::channel(1);
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await
            {
                if matches!(message, AsyncMessage::Notification(_)) {
                    let _ = tell.try_send(());
                }
            }
            // Dropping `tell` says that the connection has ended.
        });
        let listen = format!("LISTEN \"{}\"", self.channel);
        client.batch_execute(&listen).await.map_err(failed)?;
        Ok(Listening { client, heard })
    }

    async fn next(&mut self) -> Result<(), DbError> {
        let Some(listening) = &mut self.listening else {
            self.listening = Some(self.listen().await?);
            return Ok(());
        };
        loop {
            match tokio::time::timeout(CHECK, listening.heard.recv()).await {
                Ok(Some(())) => return Ok(()),
                Ok(None) => break,
                // A peer that is gone without a word would never be noticed by listening.
                Err(_) => {
                    let asked = listening.client.batch_execute("");
                    match tokio::time::timeout(CHECK, asked).await {
                        Ok(Ok(())) => {}
                        _ => break,
                    }
                }
            }
        }
        self.listening = None;
        Err(DbError::new(Kind::Unavailable, "the connection was lost").context("listen"))
    }
}

fn failed(error: tokio_postgres::Error) -> DbError {
    error::Failure::from(error).error.context("listen")
}

impl WakeSource for PostgresWakeSource {
    fn wait(&mut self) -> WakeFuture<'_> {
        Box::pin(self.next())
    }
}

impl fmt::Debug for PostgresWakeSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresWakeSource")
            .field("channel", &self.channel)
            .field("listening", &self.listening.is_some())
            .finish_non_exhaustive()
    }
}

/// Tells of new work in an outbox by `NOTIFY`, through any database handle of
/// PostgreSQL, a pooler's too.
///
/// A `NOTIFY` takes a lock of the whole server as it commits, so it is not put
/// into the batch that enqueues: say it afterwards, through something that says
/// it for many batches at once.
#[derive(Clone)]
pub struct PostgresWakeSink<D> {
    db: D,
    notify: Statement,
}

impl<D: Database> PostgresWakeSink<D> {
    /// Tells those who listen to this outbox, by this database.
    pub fn new(db: D, outbox: &Outbox) -> Self {
        let notify = Statement::new("SELECT pg_notify(?, '')::text AS told").bind(channel(outbox));
        Self { db, notify }
    }
}

impl<D: Database> WakeSink for PostgresWakeSink<D> {
    fn wake(&self) -> WakeFuture<'_> {
        Box::pin(async {
            let told = self.db.query(&self.notify).await;
            told.map(drop).map_err(|error| error.context("notify"))
        })
    }
}

impl<D> fmt::Debug for PostgresWakeSink<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresWakeSink").finish_non_exhaustive()
    }
}

/// Under the 63 bytes of a name, as a table's name has 48 at most a part.
fn channel(outbox: &Outbox) -> String {
    format!("duebox_{}", outbox.table())
        .chars()
        .take(63)
        .collect()
}
