//! A stand-in for Expo's push service; see [`FakeExpo`].

mod fault;
mod http;
mod service;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

pub use self::fault::{FakeFault, Spoil};
use self::service::Service;

/// Expo's push service on a loopback address, for tests: it accepts messages,
/// remembers their tickets and settles them as its own clock goes on.
///
/// What becomes of a message is in its token's text, so that a client in any
/// language can ask for it: `ExponentPushToken[unregistered-7]` is refused with its
/// ticket, `gone` by its receipt; `toobig`, `rate`, `mismatch`, `credentials` and
/// `unheard` have a receipt with the error of that name, and the last with one that no
/// client knows; `late` is settled after six hours, `never` not at all; `b-project` is of another
/// project than the rest. Every other message is delivered, and its receipt is there
/// after 15 minutes.
///
/// It holds to the service's limits: 100 recipients and 1 000 tickets a request, one
/// project, the access token if there is [one](Self::require_token). Its tickets count
/// up. Nothing here sleeps; [`advance`](Self::advance) moves its clock. Dropping it ends it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use duebox_core::{DeviceToken, PushDeliveryStatus, PushMessage, PushSender};
/// use duebox_expo::{ExpoPush, FakeExpo};
///
/// let fake = FakeExpo::start().await?;
/// let expo = ExpoPush::builder().base_url(fake.url()).build()?;
/// let token = DeviceToken::new("ExponentPushToken[phone-1]")?;
/// let outcomes = expo.send(vec![PushMessage::new(token)]).await?;
/// assert!(matches!(outcomes[0].status, PushDeliveryStatus::Accepted(_)));
/// assert_eq!(fake.requests()[0].items, 1);
/// # Ok(())
/// # }
/// ```
pub struct FakeExpo {
    url: String,
    service: Arc<Mutex<Service>>,
    task: JoinHandle<()>,
}

/// A request as the fake saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FakeRequest {
    /// `send`, `getReceipts`, or what else was asked for.
    pub path: String,
    /// How many recipients or tickets it names.
    pub items: usize,
    /// Whether its body was compressed.
    pub gzip: bool,
    /// Whether it had a bearer.
    pub bearer: bool,
    /// The status that it was answered with; 0 if it was answered with no whole answer.
    pub status: u16,
    /// Its body, as JSON text.
    pub body: String,
    /// The body that it was answered with, as far as there was one.
    pub answer: String,
}

impl FakeExpo {
    /// Starts it on a free port of 127.0.0.1.
    ///
    /// # Errors
    ///
    /// If it cannot listen there.
    pub async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let service = Arc::new(Mutex::new(Service::default()));
        let task = tokio::spawn(accept(listener, Arc::clone(&service)));
        Ok(Self { url, service, task })
    }

    /// Its address, for [`base_url`](crate::ExpoPushBuilder::base_url), and for
    /// `EXPO_BASE_URL` of the official client.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The next request that no earlier fault is for meets this one.
    pub fn then(&self, fault: FakeFault) {
        self.service().faults.push_back(fault);
    }

    /// How many faults no request has met yet.
    #[must_use]
    pub fn faults_left(&self) -> usize {
        self.service().faults.len()
    }

    /// Refuses every request from here on that has not this access token.
    pub fn require_token(&self, token: &str) {
        self.service().token = Some(token.to_owned());
    }

    /// Moves its clock, by which receipts are there.
    pub fn advance(&self, by: Duration) {
        self.service().now += by;
    }

    /// Every request so far, in order.
    #[must_use]
    pub fn requests(&self) -> Vec<FakeRequest> {
        self.service().requests.clone()
    }

    /// Every ticket that was issued with the token that it is of, in order,
    /// whether or not the answer that had it came through.
    #[must_use]
    pub fn issued(&self) -> Vec<(String, String)> {
        self.service().issued()
    }

    fn service(&self) -> MutexGuard<'_, Service> {
        lock(&self.service)
    }
}

fn lock(service: &Mutex<Service>) -> MutexGuard<'_, Service> {
    service.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for FakeExpo {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for FakeExpo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeExpo")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

async fn accept(listener: TcpListener, service: Arc<Mutex<Service>>) {
    // Dropped with this task, which ends what is still being served.
    let mut served = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        served.spawn(serve(stream, Arc::clone(&service)));
        while served.try_join_next().is_some() {}
    }
}

/// Answers one request and closes, so that a fault is of one request alone.
async fn serve(mut stream: TcpStream, service: Arc<Mutex<Service>>) {
    let Some(request) = http::read(&mut stream).await else {
        return;
    };
    let reply = lock(&service).answer(&request);
    // A client that leaves has had enough.
    let _ = http::write(&mut stream, reply).await;
}
