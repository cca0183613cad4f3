//! An HTTP server that answers as each request's topic asks, well or badly.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value, json};

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) line: String,
    /// By name in lower case.
    pub(crate) headers: Map<String, Value>,
    pub(crate) body: String,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.as_str()
    }

    fn read(stream: &mut BufReader<TcpStream>) -> Option<Self> {
        let mut line = String::new();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let mut headers = Map::new();
        loop {
            let mut text = String::new();
            stream.read_line(&mut text).ok()?;
            let Some((name, value)) = text.trim_end().split_once(": ") else {
                break;
            };
            headers.insert(name.to_ascii_lowercase(), json!(value));
        }
        let length = headers.get("content-length").and_then(Value::as_str);
        let mut body = vec![0; length.map_or(0, |text| text.parse().expect("a length"))];
        stream.read_exact(&mut body).ok()?;
        Some(Self {
            line: line.trim_end().to_owned(),
            headers,
            body: String::from_utf8(body).expect("text"),
        })
    }
}

/// Listens on loopback; its threads end with the process.
pub(crate) struct Server {
    pub(crate) url: String,
    seen: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let requests = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let requests = Arc::clone(&requests);
                std::thread::spawn(move || serve(stream, &requests));
            }
        });
        Self {
            url: format!("http://{address}/hook?key=in-the-url"),
            seen,
        }
    }

    /// The requests of a topic, as its header names it, until now.
    pub(crate) fn seen(&self, topic: &str) -> Vec<Request> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let of_topic = |request: &&Request| request.header("duebox-topic") == Some(topic);
        seen.iter().filter(of_topic).cloned().collect()
    }
}

/// A URL where nobody listens.
pub(crate) fn nowhere() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    format!("http://{}/", listener.local_addr().expect("its address"))
}

fn serve(stream: TcpStream, seen: &Mutex<Vec<Request>>) {
    let mut write = stream.try_clone().expect("a clone");
    let mut read = BufReader::new(stream);
    while let Some(request) = Request::read(&mut read) {
        let topic = request
            .header("duebox-topic")
            .unwrap_or_default()
            .to_owned();
        seen.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(request);
        // A client that has left is what some of these are for.
        if answer(&topic, &mut write, &mut read).is_err() {
            return;
        }
    }
}

const NO_MORE: std::io::ErrorKind = std::io::ErrorKind::ConnectionAborted;

fn answer(topic: &str, write: &mut TcpStream, read: &mut impl Read) -> std::io::Result<()> {
    let body = "private words";
    let full = |status: &str, header: &str| {
        format!(
            "HTTP/1.1 {status}\r\n{header}content-length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    match topic {
        "429" => write.write_all(full("429 Too Many", "retry-after: 120\r\n").as_bytes()),
        "503" => {
            let headers = "date: Sat, 31 Jan 2026 12:00:00 GMT\r\n\
                           retry-after: Sat, 31 Jan 2026 12:10:00 GMT\r\n";
            write.write_all(full("503 Busy", headers).as_bytes())
        }
        "302" => {
            let location = "location: /private\r\n";
            write.write_all(full("302 Elsewhere", location).as_bytes())
        }
        "400" | "410" | "500" => write.write_all(full(&format!("{topic} private"), "").as_bytes()),
        // Until the client has had enough.
        "slow" => {
            std::io::copy(read, &mut std::io::sink())?;
            Err(NO_MORE.into())
        }
        "cut" => {
            write.write_all(b"HTTP/1.1 200 OK\r\ncontent-le")?;
            write.shutdown(std::net::Shutdown::Both)?;
            Err(NO_MORE.into())
        }
        "cut_body" => {
            write.write_all(b"HTTP/1.1 500 No\r\ncontent-length: 1000\r\n\r\npri")?;
            write.shutdown(std::net::Shutdown::Both)?;
            Err(NO_MORE.into())
        }
        "endless" | "endless_failure" => {
            let status = if topic == "endless" {
                "200 OK"
            } else {
                "500 No"
            };
            write!(
                write,
                "HTTP/1.1 {status}\r\ntransfer-encoding: chunked\r\n\r\n"
            )?;
            loop {
                write.write_all(b"400\r\n")?;
                write.write_all(&[b'x'; 0x400])?;
                write.write_all(b"\r\n")?;
            }
        }
        "endless_head" => {
            write.write_all(b"HTTP/1.1 200 OK\r\n")?;
            for number in 0.. {
                write!(write, "x-{number}: {}\r\n", "y".repeat(1_000))?;
            }
            Ok(())
        }
        _ => write.write_all(full("200 OK", "").as_bytes()),
    }
}
