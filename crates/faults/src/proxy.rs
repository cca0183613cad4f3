//! The way to a server, which is slow, breaks, and leads nowhere when told to.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::tally::{Fault, Tally};

/// Forwards connections to a server.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    pub(crate) way: Arc<Way>,
    accepting: tokio::task::JoinHandle<()>,
}

/// What happens on the way.
pub(crate) struct Way {
    server: String,
    tally: Arc<Tally>,
    /// So many requests more are not to arrive.
    before: AtomicU64,
    /// So many requests more are to arrive, and their answers not.
    after: AtomicU64,
    delay_ms: AtomicU64,
    held: watch::Sender<bool>,
}

impl Way {
    pub(crate) fn cut_before(&self, requests: u64) {
        self.before.store(requests, Ordering::SeqCst);
    }

    pub(crate) fn cut_after(&self, requests: u64) {
        self.after.store(requests, Ordering::SeqCst);
    }

    pub(crate) fn delay(&self, millis: u64) {
        self.delay_ms.store(millis, Ordering::SeqCst);
    }

    /// From now on nothing is forwarded and nobody told; connections that
    /// wanted something in the meantime end after it.
    pub(crate) fn hold(&self, hold: bool) {
        self.held.send_replace(hold);
    }

    /// Everything works again.
    pub(crate) fn mend(&self) {
        self.cut_before(0);
        self.cut_after(0);
        self.delay(0);
        self.hold(false);
    }

    /// Whether this is one of those that `left` is for.
    fn is_due(left: &AtomicU64) -> bool {
        let take = |left: u64| left.checked_sub(1);
        left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take)
            .is_ok()
    }

    async fn slow(&self) {
        let millis = self.delay_ms.load(Ordering::SeqCst);
        if millis > 0 {
            self.tally.count(Fault::Delayed);
            tokio::time::sleep(Duration::from_millis(millis)).await;
        }
    }

    /// Whether this connection was held, and is to end.
    async fn was_held(&self) -> bool {
        let mut held = self.held.subscribe();
        if !*held.borrow_and_update() {
            return false;
        }
        self.tally.count(Fault::HeldOpen);
        // The sender is ours.
        let _ = held.wait_for(|held| !held).await;
        true
    }

    async fn forward(&self, mut client: TcpStream) -> io::Result<()> {
        let mut server = TcpStream::connect(&self.server).await?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (mut asked, mut answered) = (vec![0; 65_536], vec![0; 65_536]);
        let mut is_last = false;
        loop {
            tokio::select! {
                read = client.read(&mut asked) => {
                    let bytes = read?;
                    if bytes == 0 || self.was_held().await {
                        return Ok(());
                    }
                    if Self::is_due(&self.before) {
                        self.tally.count(Fault::CutBefore);
                        return Ok(());
                    }
                    is_last |= Self::is_due(&self.after);
                    self.slow().await;
                    server.write_all(&asked[..bytes]).await?;
                }
                read = server.read(&mut answered) => {
                    let bytes = read?;
                    if bytes == 0 || self.was_held().await {
                        return Ok(());
                    }
                    if is_last {
                        self.tally.count(Fault::CutAfter);
                        return Ok(());
                    }
                    self.slow().await;
                    client.write_all(&answered[..bytes]).await?;
                }
            }
        }
    }
}

impl Proxy {
    pub(crate) async fn start(server: String, tally: Arc<Tally>) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let way = Arc::new(Way {
            server,
            tally,
            before: AtomicU64::new(0),
            after: AtomicU64::new(0),
            delay_ms: AtomicU64::new(0),
            held: watch::Sender::new(false),
        });
        let ways = Arc::clone(&way);
        let accepting = tokio::spawn(async move {
            loop {
                if let Ok((client, _)) = listener.accept().await {
                    let way = Arc::clone(&ways);
                    // An end without a word is what either side gets of an error.
                    tokio::spawn(async move { drop(way.forward(client).await) });
                }
            }
        });
        Ok(Self {
            port,
            way,
            accepting,
        })
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}
