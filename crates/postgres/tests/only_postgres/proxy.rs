//! A way to the server that is slow, loses answers, and breaks when told to.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use duebox_postgres::tokio_postgres::Config;
use duebox_postgres::tokio_postgres::config::Host;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};

use crate::place::{server, with_port};

/// Forwards connections to the test's server.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    control: Arc<Control>,
    cut: watch::Sender<u32>,
}

struct Control {
    /// How long a byte takes, each way.
    delay: Duration,
    /// What the server answers is lost.
    mute: AtomicBool,
    /// The client has heard something since it last spoke.
    heard: AtomicBool,
    /// How often it spoke after it had heard something.
    trips: AtomicU32,
}

impl Proxy {
    pub(crate) async fn new(delay: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("a port").port();
        let control = Arc::new(Control {
            delay,
            mute: AtomicBool::new(false),
            heard: AtomicBool::new(true),
            trips: AtomicU32::new(0),
        });
        let (cut, cuts) = watch::channel(0);
        let server = address();
        tokio::spawn({
            let control = Arc::clone(&control);
            async move {
                while let Ok((client, _)) = listener.accept().await {
                    let (control, mut cuts, server) =
                        (Arc::clone(&control), cuts.clone(), server.clone());
                    tokio::spawn(async move {
                        let Ok(server) = TcpStream::connect(server).await else {
                            return;
                        };
                        cuts.mark_unchanged();
                        tokio::select! {
                            () = forward(client, server, &control) => {}
                            _ = cuts.changed() => {}
                        }
                    });
                }
            }
        });
        Self { port, control, cut }
    }

    /// A URL that leads here instead of to the server.
    pub(crate) fn url(&self, url: &str) -> String {
        with_port(url, self.port)
    }

    /// From now on what the server answers is lost, or not.
    pub(crate) fn mute(&self, mute: bool) {
        self.control.mute.store(mute, Ordering::SeqCst);
    }

    /// How many round trips there were since this was last asked, of one client.
    pub(crate) fn trips(&self) -> u32 {
        self.control.heard.store(true, Ordering::SeqCst);
        self.control.trips.swap(0, Ordering::SeqCst)
    }

    /// Ends all connections.
    pub(crate) fn cut(&self) {
        self.cut.send_modify(|cuts| *cuts += 1);
    }
}

pub(crate) fn address() -> String {
    let config: Config = server().expect("a server").parse().expect("a URL");
    let port = config.get_ports().first().copied().unwrap_or(5432);
    match config.get_hosts().first() {
        Some(Host::Tcp(host)) => format!("{host}:{port}"),
        _ => panic!("the tests need a server that is reached by TCP"),
    }
}

async fn forward(client: TcpStream, server: TcpStream, control: &Control) {
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let spoken = || {
        if control.heard.swap(false, Ordering::SeqCst) {
            control.trips.fetch_add(1, Ordering::SeqCst);
        }
        true
    };
    let answered = || {
        let muted = control.mute.load(Ordering::SeqCst);
        control.heard.fetch_or(!muted, Ordering::SeqCst);
        !muted
    };
    tokio::join!(
        one_way(from_client, to_server, control.delay, spoken, || true),
        one_way(from_server, to_client, control.delay, || true, answered),
    );
}

/// Carries what `take` and, after the delay, `give` let through.
async fn one_way(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    delay: Duration,
    take: impl Fn() -> bool,
    give: impl Fn() -> bool,
) {
    let (sender, mut receiver) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let read = async move {
        let mut buffer = vec![0; 65_536];
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            if take()
                && sender
                    .send((Instant::now() + delay, buffer[..length].to_vec()))
                    .is_err()
            {
                break;
            }
        }
    };
    let write = async move {
        let mut waiting = VecDeque::new();
        while let Some(chunk) = receiver.recv().await {
            waiting.push_back(chunk);
            while let Some((due, bytes)) = waiting.pop_front() {
                tokio::time::sleep_until(due.into()).await;
                if !give() {
                    continue;
                }
                if to.write_all(&bytes).await.is_err() {
                    return;
                }
            }
        }
    };
    tokio::join!(read, write);
}
