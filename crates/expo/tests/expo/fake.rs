//! A service on loopback that gives canned answers, in order.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use duebox_core::PushFuture;
use duebox_expo::ExpoClock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[derive(Clone, Default)]
pub(crate) struct Clock(Arc<Mutex<Vec<Duration>>>);

impl Clock {
    pub(crate) fn waits(&self) -> Vec<Duration> {
        self.0.lock().unwrap().clone()
    }
}

impl ExpoClock for Clock {
    fn elapsed(&self) -> Duration {
        self.0.lock().unwrap().iter().sum()
    }

    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + self.elapsed()
    }

    fn sleep(&self, time: Duration) -> PushFuture<'_, ()> {
        self.0.lock().unwrap().push(time);
        Box::pin(std::future::ready(()))
    }
}

pub(crate) struct Fake {
    pub(crate) url: String,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Fake {
    /// Each answer is a whole one of HTTP; after the last the service closes.
    pub(crate) async fn start(answers: Vec<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let heads = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&heads);
        tokio::spawn(async move {
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let head = request(&mut stream).await;
                seen.lock().unwrap().push(head);
                let _ = stream.write_all(answer.as_bytes()).await;
                let _ = stream.shutdown().await;
            }
        });
        Self { url, heads }
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

async fn request(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        let mut part = [0; 4096];
        let read = stream.read(&mut part).await.unwrap();
        bytes.extend_from_slice(&part[..read]);
        let text = String::from_utf8_lossy(&bytes).to_lowercase();
        if let Some((head, _)) = text.split_once("\r\n\r\n") {
            let start = head.len() + 4;
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
                .map_or(0, |length| length.parse::<usize>().unwrap());
            if bytes.len() >= start + length || read == 0 {
                return head.to_owned();
            }
        }
        assert!(read > 0, "the request was cut off");
    }
}

pub(crate) fn http(status: u16, headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status} X\r\nconnection: close\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    )
}
