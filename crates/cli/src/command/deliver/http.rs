//! A job is a POST request.

use std::fmt::Write as _;
use std::time::Duration;

use async_trait::async_trait;
use duebox_core::chrono::{DateTime, TimeDelta, Utc};
use duebox_worker::{Clock, Handler, Job, Outcome};
use reqwest::header::{CONTENT_TYPE, DATE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Response, StatusCode, Url, redirect, retry};

use super::RequestArgs;
use super::webhook::Secrets;
use crate::error::CliError;

/// The longest wait that a server may ask for.
const LONGEST_WAIT: Duration = Duration::from_hours(24);
/// So much of an answer is read, so that its connection can be used again; what
/// is longer is cut off.
const ANSWER_BYTES: usize = 64 * 1024;
/// For as long as this: the answer was known by its status.
const ANSWER_TIME: Duration = Duration::from_secs(1);

/// How much later the worker's own limit comes, so that the request's comes
/// first and says what happened.
pub(super) const MARGIN: Duration = Duration::from_secs(2);

/// What every request has in common.
pub(super) struct Request {
    client: Client,
    url: Url,
    content_type: HeaderValue,
    secrets: Secrets,
}

impl Request {
    pub(super) fn new(url: &str, args: &RequestArgs, timeout: Duration) -> Result<Self, CliError> {
        let url = Url::parse(url)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
            .ok_or_else(|| {
                CliError::usage("--http must be a URL that begins with http:// or https://")
            })?;
        let content_type = HeaderValue::from_str(&args.content_type)
            .map_err(|_| CliError::usage("--content-type is not what a header may hold"))?;
        let secrets = Secrets::read(&args.secret_env, &args.secret_file)?;
        // It fails only if there is one already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut client = Client::builder()
            .connect_timeout(args.connect_timeout)
            .timeout(timeout)
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .referer(false)
            .user_agent(concat!("duebox/", env!("CARGO_PKG_VERSION")));
        if !args.proxy_from_env {
            client = client.no_proxy();
        }
        if url.scheme() == "http" && !args.proxy_from_env {
            // A machine without certificates may send to one without TLS.
            client = client.tls_certs_only([]);
        }
        let client = client.build().map_err(|_| {
            CliError::usage(
                "no HTTP client can be made; see that the CA certificates are installed",
            )
        })?;
        Ok(Self {
            client,
            url,
            content_type,
            secrets,
        })
    }
}

pub(super) struct Http {
    request: Request,
    clock: Clock,
}

impl Http {
    pub(super) const fn new(request: Request, clock: Clock) -> Self {
        Self { request, clock }
    }

    fn headers(&self, job: &Job) -> Result<HeaderMap, reqwest::header::InvalidHeaderValue> {
        let timestamp = self.clock.now().timestamp();
        let id = HeaderValue::from_str(job.id())?;
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, self.request.content_type.clone());
        headers.insert("idempotency-key", id.clone());
        headers.insert("webhook-id", id);
        headers.insert("webhook-timestamp", HeaderValue::from(timestamp));
        let secrets = &self.request.secrets;
        if let Some(signature) = secrets.sign(job.id(), timestamp, job.payload().as_bytes()) {
            headers.insert("webhook-signature", HeaderValue::from_str(&signature)?);
        }
        headers.insert(
            "duebox-topic",
            HeaderValue::from_str(&visible(job.topic()))?,
        );
        headers.insert("duebox-attempt", HeaderValue::from(job.attempt()));
        Ok(headers)
    }
}

#[async_trait]
impl Handler for Http {
    async fn handle(&self, job: Job) -> Outcome {
        let Ok(headers) = self.headers(&job) else {
            return Outcome::park("the job's id or topic cannot be a header");
        };
        let request = self.request.client.post(self.request.url.clone());
        let sent = request
            .headers(headers)
            .body(job.payload().to_owned())
            .send()
            .await;
        match sent {
            Ok(response) => {
                let outcome = outcome(response.status(), response.headers(), self.clock.now());
                forget(response).await;
                outcome
            }
            Err(error) => Outcome::retry(failure(&error)),
        }
    }
}

/// Reads the answer to its end if that is near.
async fn forget(mut response: Response) {
    let read = async {
        let mut bytes = 0;
        while let Ok(Some(part)) = response.chunk().await {
            bytes += part.len();
            if bytes > ANSWER_BYTES {
                return;
            }
        }
    };
    let _ = tokio::time::timeout(ANSWER_TIME, read).await;
}

/// What an answer means. Its text is the server's, and is kept nowhere.
fn outcome(status: StatusCode, headers: &HeaderMap, now: DateTime<Utc>) -> Outcome {
    let code = status.as_u16();
    match code {
        200..=299 => Outcome::Done,
        300..=399 => Outcome::retry(format!(
            "the server answered {code}, and redirects are not followed: deliver to the final URL"
        )),
        410 => Outcome::park("the server answered 410: it is gone for good"),
        429 | 503 => match retry_after(headers, now) {
            Some(wait) => Outcome::RetryAt(
                now + wait,
                format!("the server answered {code} and named a time to try again").into(),
            ),
            None => Outcome::retry(format!("the server answered {code}")),
        },
        _ => Outcome::retry(format!("the server answered {code}")),
    }
}

/// The wait that a server asks for, in seconds or until a date; a date goes by
/// the server's own clock if the answer tells it.
fn retry_after(headers: &HeaderMap, now: DateTime<Utc>) -> Option<TimeDelta> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = if let Ok(seconds) = text.parse() {
        Duration::from_secs(seconds)
    } else {
        let date = |text: &str| httpdate::parse_http_date(text).ok();
        let until = date(text)?;
        let told = headers.get(DATE).and_then(|told| date(told.to_str().ok()?));
        until
            .duration_since(told.unwrap_or_else(|| now.into()))
            .unwrap_or_default()
    };
    TimeDelta::from_std(wait.min(LONGEST_WAIT)).ok()
}

/// Why there is no answer, in our own words: a library's would name the URL.
fn failure(error: &reqwest::Error) -> &'static str {
    if error.is_timeout() && error.is_connect() {
        "the server was not reached in time"
    } else if error.is_timeout() {
        "the server did not answer in time"
    } else if error.is_connect() {
        "the server was not reached"
    } else {
        "the connection was cut off before an answer"
    }
}

/// A text as a header may hold it: what is not visible ASCII, and the percent
/// sign, as `%` and two hexadecimal digits a byte.
fn visible(text: &str) -> String {
    let mut header = String::with_capacity(text.len());
    for byte in text.bytes() {
        if (0x21..=0x7E).contains(&byte) && byte != b'%' {
            header.push(char::from(byte));
        } else {
            let _ = write!(header, "%{byte:02X}");
        }
    }
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, headers: &[(&'static str, &'static str)]) -> Outcome {
        let status = StatusCode::from_u16(status).expect("a status");
        let headers = headers.iter().map(|&(name, value)| {
            (
                reqwest::header::HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        });
        outcome(status, &headers.collect(), noon())
    }

    fn noon() -> DateTime<Utc> {
        "2026-01-31T12:00:00Z".parse().expect("a time")
    }

    fn wait(outcome: &Outcome) -> Option<i64> {
        match outcome {
            Outcome::RetryAt(at, _) => Some((*at - noon()).num_seconds()),
            _ => None,
        }
    }

    #[test]
    fn an_answer_is_what_its_status_says() {
        for status in [200, 201, 202, 204, 299] {
            assert_eq!(answer(status, &[]), Outcome::Done);
        }
        assert!(matches!(answer(410, &[]), Outcome::Park(_)));
        for status in [301, 302, 307, 400, 401, 404, 408, 418, 429, 500, 503, 599] {
            match answer(status, &[]) {
                Outcome::Retry(why) => assert!(why.contains(&status.to_string()), "{why}"),
                other => panic!("{status}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_time_to_try_again_is_kept_to_up_to_a_day() {
        for status in [429, 503] {
            assert_eq!(wait(&answer(status, &[("retry-after", "120")])), Some(120));
            assert_eq!(wait(&answer(status, &[("retry-after", "0")])), Some(0));
            let date = [("retry-after", "Sat, 31 Jan 2026 12:10:00 GMT")];
            assert_eq!(wait(&answer(status, &date)), Some(600));
            let own_clock = [date[0], ("date", "Sat, 31 Jan 2026 12:09:00 GMT")];
            assert_eq!(wait(&answer(status, &own_clock)), Some(60));
            let past = [("retry-after", "Sat, 31 Jan 2026 11:00:00 GMT")];
            assert_eq!(wait(&answer(status, &past)), Some(0));
            let long = [("retry-after", "99999999999")];
            assert_eq!(wait(&answer(status, &long)), Some(86_400));
            let nonsense = [("retry-after", "soon")];
            assert!(matches!(answer(status, &nonsense), Outcome::Retry(_)));
        }
        assert!(matches!(
            answer(500, &[("retry-after", "120")]),
            Outcome::Retry(_)
        ));
    }

    #[test]
    fn any_topic_can_be_a_header() {
        assert_eq!(visible("mail.welcome"), "mail.welcome");
        assert_eq!(visible("é 100%"), "%C3%A9%20100%25");
    }
}
