use std::io::Write;
use std::time::Duration;

use duebox_core::{PushCode, PushError, PushErrorKind};
use flate2::Compression;
use flate2::write::GzEncoder;
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, RETRY_AFTER,
};
use reqwest::{Response, Url};
use serde_json::Value;

use crate::config::Inner;

/// Bodies longer than this are compressed, as the official Node SDK does.
const GZIP_ABOVE: usize = 1024;

/// What the service may ask for at most: a poller that does as it is told must not
/// sleep until the receipts are gone.
const MOST_TO_WAIT: Duration = Duration::from_hours(1);

/// An answer that is JSON with status 200, or why there is none.
pub(crate) enum Failure {
    /// The request failed.
    Error(PushError),
    /// The messages are of several projects, as the details list them.
    Projects(Value, PushError),
}

impl Inner {
    /// One request. Every failure that is not certainly *not sent* is perhaps
    /// sent.
    pub(crate) async fn post(&self, url: &Url, json: Vec<u8>) -> Result<Value, Failure> {
        let mut request = self
            .client
            .post(url.clone())
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/json");
        if let Some(bearer) = &self.bearer {
            request = request.header(AUTHORIZATION, bearer.clone());
        }
        request = match zipped(&json) {
            Some(body) => request.header(CONTENT_ENCODING, "gzip").body(body),
            None => request.body(json),
        };
        let response = request.send().await.map_err(|error| {
            Failure::Error(if error.is_connect() {
                unavailable("the push service cannot be reached").not_sent()
            } else if error.is_timeout() {
                unavailable("the push service did not answer in time")
            } else {
                unavailable("the connection to the push service broke")
            })
        })?;
        let status = response.status().as_u16();
        let retry_after = self.retry_after(response.headers());
        let body = self.read(response).await;
        if status == 200 {
            let body = body.map_err(|error| Failure::Error(error.with_status(status)))?;
            return match serde_json::from_slice::<Value>(&body) {
                // What has tickets is read, whatever errors stand beside them.
                Ok(value) if value.get("data").is_some_and(|data| !data.is_null()) => Ok(value),
                Ok(value) => Err(refusal(status, Some(&value), retry_after)),
                Err(_) => Err(refusal(status, None, retry_after)),
            };
        }
        let value = body
            .ok()
            .and_then(|body| serde_json::from_slice::<Value>(&body).ok());
        Err(refusal(status, value.as_ref(), retry_after))
    }

    async fn read(&self, mut response: Response) -> Result<Vec<u8>, PushError> {
        let mut body = Vec::new();
        loop {
            match response.chunk().await {
                Ok(Some(part)) if body.len() + part.len() > self.max_answer_bytes => {
                    return Err(PushError::new(
                        PushErrorKind::Unreadable,
                        "the push service's answer is too long",
                    ));
                }
                Ok(Some(part)) => body.extend_from_slice(&part),
                Ok(None) => return Ok(body),
                Err(_) => return Err(unavailable("the push service's answer was cut off")),
            }
        }
    }

    fn retry_after(&self, headers: &HeaderMap) -> Option<Duration> {
        let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
        let wait = if let Ok(seconds) = text.parse::<u64>() {
            Duration::from_secs(seconds)
        } else {
            let at = httpdate::parse_http_date(text).ok()?;
            at.duration_since(self.clock.now()).unwrap_or_default()
        };
        Some(wait.min(MOST_TO_WAIT))
    }
}

fn unavailable(message: &'static str) -> PushError {
    PushError::new(PushErrorKind::Unavailable, message)
}

fn zipped(json: &[u8]) -> Option<Vec<u8>> {
    if json.len() <= GZIP_ABOVE {
        return None;
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(json).ok()?;
    encoder.finish().ok()
}

/// The error of an answer without data: by its status where that alone tells,
/// else by its first code.
fn refusal(status: u16, answer: Option<&Value>, retry_after: Option<Duration>) -> Failure {
    let first = answer.and_then(|answer| answer.get("errors")?.get(0));
    let code = first.and_then(|error| error.get("code")?.as_str());
    let (kind, message, sent) = match (status, code) {
        (500.., _) => (PushErrorKind::Unavailable, "the push service failed", true),
        (429, _) | (200..=499, Some("TOO_MANY_REQUESTS")) => (
            PushErrorKind::RateLimited,
            "the push service wants fewer requests",
            false,
        ),
        (401 | 403, _) | (200..=499, Some("UNAUTHORIZED")) => (
            PushErrorKind::Unauthorized,
            "the push service does not accept the access token",
            false,
        ),
        (408, _) => (
            PushErrorKind::Unavailable,
            "the push service gave the request up",
            true,
        ),
        (400..=499, _)
        | (
            200,
            Some(
                "PUSH_TOO_MANY_EXPERIENCE_IDS"
                | "PUSH_TOO_MANY_NOTIFICATIONS"
                | "PUSH_TOO_MANY_RECEIPTS",
            ),
        ) => (
            PushErrorKind::Refused,
            "the push service refuses the request",
            false,
        ),
        (200, Some(_)) => (
            PushErrorKind::Refused,
            "the push service answered with an error",
            true,
        ),
        _ => (
            PushErrorKind::Unreadable,
            "the push service's answer cannot be read",
            true,
        ),
    };
    let mut error = PushError::new(kind, message).with_status(status);
    if !sent {
        error = error.not_sent();
    }
    if let Some(code) = code {
        error = error.with_code(PushCode::new(code));
    }
    if let Some(wait) = retry_after {
        error = error.with_retry_after(wait);
    }
    let details = first.and_then(|error| error.get("details"));
    match (code, details) {
        (Some("PUSH_TOO_MANY_EXPERIENCE_IDS"), Some(details)) if !sent => {
            Failure::Projects(details.clone(), error)
        }
        _ => Failure::Error(error),
    }
}
