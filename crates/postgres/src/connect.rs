//! How the connections of a pool of our own are made.

use std::future::{Future, poll_fn};
use std::pin::Pin;

use deadpool_postgres::Connect;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Config, Error};
use tokio_postgres_rustls::MakeRustlsConnect;

/// Connects, and drops what the server says unasked.
///
/// The driver would log it for everyone to read, and the notice of a trigger may hold
/// the row's values.
pub(crate) struct Quiet(pub(crate) MakeRustlsConnect);

type Connecting<'a> =
    Pin<Box<dyn Future<Output = Result<(Client, JoinHandle<()>), Error>> + Send + 'a>>;

impl Connect for Quiet {
    fn connect(&self, config: &Config) -> Connecting<'_> {
        let config = config.clone();
        Box::pin(async move {
            let (client, mut connection) = config.connect(self.0.clone()).await?;
            let task = tokio::spawn(async move {
                // To its end, or to the error that whoever waits for an answer is told.
                while let Some(Ok(_)) = poll_fn(|context| connection.poll_message(context)).await {}
            });
            Ok((client, task))
        })
    }
}
