use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::HeaderValue;
use reqwest::{Client, Url};
use rustls::{ClientConfig, RootCertStore};

use crate::clock::{ExpoClock, SystemExpoClock};
use crate::pace::Pace;

/// Expo's push service: a [`PushSender`](duebox_core::PushSender) and a
/// [`PushReceiptSource`](duebox_core::PushReceiptSource).
///
/// Clones share connections and pace. `Debug` shows nothing of the access
/// token. Nothing is logged by this crate.
#[derive(Clone)]
pub struct ExpoPush(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) client: Client,
    pub(crate) send_url: Url,
    pub(crate) receipts_url: Url,
    pub(crate) bearer: Option<HeaderValue>,
    pub(crate) max_retries: u32,
    pub(crate) max_answer_bytes: usize,
    pub(crate) pace: Pace,
    pub(crate) clock: Arc<dyn ExpoClock>,
}

/// Why an [`ExpoPush`] cannot be built. It repeats no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExpoConfigError {
    /// The access token is empty or holds what no header can.
    AccessToken,
    /// The base address is no URL of `https`, or of `http` on a loopback
    /// address; or it has credentials, a query or a fragment.
    BaseUrl,
    /// TLS cannot be set up.
    Tls,
}

impl fmt::Display for ExpoConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AccessToken => "the access token is empty or holds what no header can",
            Self::BaseUrl => {
                "the base address is no https URL (http on loopback only) without credentials, \
                 query and fragment"
            }
            Self::Tls => "TLS cannot be set up",
        })
    }
}

impl std::error::Error for ExpoConfigError {}

/// Says how to reach Expo's push service.
pub struct ExpoPushBuilder {
    access_token: Option<String>,
    base_url: String,
    connect_timeout: Duration,
    request_timeout: Duration,
    rate: NonZeroU32,
    max_retries: u32,
    max_answer_bytes: usize,
    clock: Arc<dyn ExpoClock>,
}

impl ExpoPush {
    /// `https://exp.host`, no access token, 10 s to connect, 30 s a request
    /// with its answer (this crate's own choices), 600 notifications a second
    /// (Expo's limit for a project), 2 retries (as the official Node SDK), and
    /// answers of 1 MiB at most (100 tickets are some 10 KiB).
    #[must_use]
    pub fn builder() -> ExpoPushBuilder {
        ExpoPushBuilder {
            access_token: None,
            base_url: "https://exp.host".to_owned(),
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(30),
            rate: NonZeroU32::new(600).unwrap_or(NonZeroU32::MIN),
            max_retries: 2,
            max_answer_bytes: 1 << 20,
            clock: Arc::new(SystemExpoClock::default()),
        }
    }
}

impl fmt::Debug for ExpoPush {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExpoPush")
            .field("access_token", &self.0.bearer.is_some())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ExpoPushBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExpoPushBuilder")
            .field("access_token", &self.access_token.is_some())
            .field("connect_timeout", &self.connect_timeout)
            .field("request_timeout", &self.request_timeout)
            .field("rate", &self.rate)
            .field("max_retries", &self.max_retries)
            .field("max_answer_bytes", &self.max_answer_bytes)
            .finish_non_exhaustive()
    }
}

impl ExpoPushBuilder {
    /// With the project's access token, which is sent as a bearer.
    #[must_use]
    pub fn access_token(mut self, token: impl Into<String>) -> Self {
        self.access_token = Some(token.into());
        self
    }

    /// At another address; `/--/api/v2/push/…` is put behind it.
    #[must_use]
    pub fn base_url(mut self, url: impl Into<String>) -> Self {
        self.base_url = url.into();
        self
    }

    /// How long a connection may take, with name and TLS.
    #[must_use]
    pub const fn connect_timeout(mut self, time: Duration) -> Self {
        self.connect_timeout = time;
        self
    }

    /// How long one request may take, with its whole answer.
    #[must_use]
    pub const fn request_timeout(mut self, time: Duration) -> Self {
        self.request_timeout = time;
        self
    }

    /// How many notifications a second this client and its clones send.
    #[must_use]
    pub const fn rate(mut self, a_second: NonZeroU32) -> Self {
        self.rate = a_second;
        self
    }

    /// How often a request is repeated at most: a send that certainly was not
    /// sent, a read of receipts after any failure of the service.
    #[must_use]
    pub const fn max_retries(mut self, count: u32) -> Self {
        self.max_retries = count;
        self
    }

    /// How much of an answer is read, in bytes; a longer one is unreadable.
    #[must_use]
    pub const fn max_answer_bytes(mut self, bytes: usize) -> Self {
        self.max_answer_bytes = bytes;
        self
    }

    /// With another clock for pace and retries.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn ExpoClock>) -> Self {
        self.clock = clock;
        self
    }

    /// Builds the client. Connects nowhere yet.
    ///
    /// # Errors
    ///
    /// [`ExpoConfigError`] names what cannot be used.
    pub fn build(self) -> Result<ExpoPush, ExpoConfigError> {
        let base = base(&self.base_url)?;
        let url = |path| base.join(path).map_err(|_| ExpoConfigError::BaseUrl);
        let bearer = self.access_token.as_deref().map(bearer).transpose()?;
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|_| ExpoConfigError::Tls)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let client = Client::builder()
            .tls_backend_preconfigured(tls)
            .connect_timeout(self.connect_timeout)
            .timeout(self.request_timeout)
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .no_proxy()
            .user_agent(concat!("duebox-expo/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|_| ExpoConfigError::Tls)?;
        Ok(ExpoPush(Arc::new(Inner {
            client,
            send_url: url("--/api/v2/push/send")?,
            receipts_url: url("--/api/v2/push/getReceipts")?,
            bearer,
            max_retries: self.max_retries,
            max_answer_bytes: self.max_answer_bytes,
            pace: Pace::new(self.rate.get()),
            clock: self.clock,
        })))
    }
}

fn bearer(token: &str) -> Result<HeaderValue, ExpoConfigError> {
    if token.is_empty() || !token.bytes().all(|byte| (0x21..=0x7E).contains(&byte)) {
        return Err(ExpoConfigError::AccessToken);
    }
    let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
        .map_err(|_| ExpoConfigError::AccessToken)?;
    value.set_sensitive(true);
    Ok(value)
}

fn base(text: &str) -> Result<Url, ExpoConfigError> {
    let mut url = Url::parse(text).map_err(|_| ExpoConfigError::BaseUrl)?;
    let loopback = matches!(url.host_str(), Some("127.0.0.1" | "[::1]" | "localhost"));
    let plain = url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    if !plain || !(url.scheme() == "https" || (url.scheme() == "http" && loopback)) {
        return Err(ExpoConfigError::BaseUrl);
    }
    if !url.path().ends_with('/') {
        let path = format!("{}/", url.path());
        url.set_path(&path);
    }
    Ok(url)
}
