//! As much of HTTP/1.1 as a client of the service speaks, and ways to break it.

use std::io::{self, Read};

use flate2::read::GzDecoder;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// What a client may send at most.
const MOST: usize = 8 << 20;

/// A whole request.
pub(super) struct Request {
    pub(super) path: String,
    pub(super) gzip: bool,
    pub(super) bearer: Option<String>,
    pub(super) body: String,
}

/// What a request is answered with.
pub(super) enum Reply {
    /// A whole answer.
    Whole {
        status: u16,
        headers: String,
        body: Vec<u8>,
    },
    /// The head says that there is more.
    Cut(Vec<u8>),
    Close,
    Silence,
    Endless,
}

/// `None` if the client left in its middle.
pub(super) async fn read(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    loop {
        if let Some(request) = parse(&bytes) {
            return Some(request);
        }
        let read = stream.read_buf(&mut bytes).await.ok()?;
        if read == 0 || bytes.len() > MOST {
            return None;
        }
    }
}

/// `None` if it is not whole yet.
fn parse(bytes: &[u8]) -> Option<Request> {
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut request = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(start) = request.parse(bytes).ok()? else {
        return None;
    };
    let header = |name: &str| {
        let mut headers = request.headers.iter();
        let header = headers.find(|header| header.name.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(header.value).ok()
    };
    let rest = &bytes[start..];
    let body = match header("content-length") {
        Some(length) => rest.get(..length.parse().ok()?)?.to_vec(),
        None if header("transfer-encoding").is_some() => chunks(rest)?,
        None => Vec::new(),
    };
    let gzip = header("content-encoding") == Some("gzip");
    let body = if gzip {
        let mut text = Vec::new();
        let unpacked = GzDecoder::new(&*body).take(MOST as u64);
        io::BufReader::new(unpacked).read_to_end(&mut text).ok()?;
        text
    } else {
        body
    };
    Some(Request {
        path: request.path?.to_owned(),
        gzip,
        bearer: header("authorization").map(str::to_owned),
        body: String::from_utf8_lossy(&body).into_owned(),
    })
}

/// The body of a request that came in chunks.
fn chunks(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let httparse::Status::Complete((start, size)) = httparse::parse_chunk_size(rest).ok()?
        else {
            return None;
        };
        let size = usize::try_from(size).ok()?;
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(rest.get(start..start + size)?);
        rest = rest.get(start + size + 2..)?;
    }
}

pub(super) async fn write(stream: &mut TcpStream, reply: Reply) -> io::Result<()> {
    match reply {
        Reply::Whole {
            status,
            headers,
            body,
        } => {
            let head = format!(
                "HTTP/1.1 {status} Fake\r\nconnection: close\r\n{headers}content-length: {}\r\n\r\n",
                body.len()
            );
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(&body).await?;
        }
        Reply::Cut(body) => {
            let head = format!(
                "HTTP/1.1 200 Fake\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(&body[..body.len() / 2]).await?;
        }
        Reply::Close => {}
        Reply::Silence => {
            // Until the client leaves.
            stream.read_u8().await?;
        }
        Reply::Endless => {
            let head = "HTTP/1.1 200 Fake\r\nconnection: close\r\n\r\n{\"data\":[";
            stream.write_all(head.as_bytes()).await?;
            loop {
                stream.write_all(&[b' '; 4096]).await?;
            }
        }
    }
    stream.shutdown().await
}
