use std::fmt;
use std::time::Duration;

/// What went wrong with a request to a push service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PushErrorKind {
    /// The service cannot be reached, did not answer in time, or failed by
    /// itself.
    Unavailable,
    /// The service wants fewer requests;
    /// [`retry_after`](PushError::retry_after) may say how long to wait.
    RateLimited,
    /// The service does not accept the credentials.
    Unauthorized,
    /// The service understood the request and refuses it as a whole.
    Refused,
    /// The answer is not what the service documents.
    Unreadable,
    /// Anything else.
    Other,
}

/// Whether a message may have reached its device although there is no ticket
/// for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PushSent {
    /// It certainly was not sent: sending it again sends it once.
    NotSent,
    /// It may have been sent: the answer was lost or cannot be read. Sending
    /// it again may show it twice.
    PerhapsSent,
}

/// The error of [`PushSender`](crate::PushSender) and
/// [`PushReceiptSource`](crate::PushReceiptSource).
///
/// It is made of fixed texts, numbers and a [`PushCode`], so that no token,
/// ticket, credential or text of a message or of the provider can be in it,
/// and it has no [`source`](std::error::Error::source).
///
/// ```
/// use std::time::Duration;
/// use duebox_core::{PushCode, PushError, PushErrorKind, PushSent};
///
/// let error = PushError::new(PushErrorKind::RateLimited, "the service wants fewer requests")
///     .not_sent()
///     .with_status(429)
///     .with_code(PushCode::new("TOO_MANY_REQUESTS"))
///     .with_retry_after(Duration::from_secs(30));
/// assert_eq!(error.sent(), PushSent::NotSent);
/// assert!(error.is_retryable());
/// assert_eq!(
///     error.to_string(),
///     "the service wants fewer requests (status 429, code TOO_MANY_REQUESTS)"
/// );
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct PushError(Box<Parts>);

#[derive(Clone, PartialEq, Eq)]
struct Parts {
    kind: PushErrorKind,
    sent: PushSent,
    message: &'static str,
    status: Option<u16>,
    code: Option<PushCode>,
    retry_after: Option<Duration>,
}

impl PushError {
    /// An error after which a message may have been sent, until
    /// [`not_sent`](Self::not_sent) is said.
    ///
    /// `message` is lower case without a final period.
    #[must_use]
    pub fn new(kind: PushErrorKind, message: &'static str) -> Self {
        Self(Box::new(Parts {
            kind,
            sent: PushSent::PerhapsSent,
            message,
            status: None,
            code: None,
            retry_after: None,
        }))
    }

    /// The same error, certain that no message was sent.
    #[must_use]
    pub fn not_sent(mut self) -> Self {
        self.0.sent = PushSent::NotSent;
        self
    }

    /// With the status of the HTTP answer.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.0.status = Some(status);
        self
    }

    /// With the provider's own code.
    #[must_use]
    pub fn with_code(mut self, code: PushCode) -> Self {
        self.0.code = Some(code);
        self
    }

    /// With the time after which the service may be asked again, as it said.
    #[must_use]
    pub fn with_retry_after(mut self, wait: Duration) -> Self {
        self.0.retry_after = Some(wait);
        self
    }

    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> PushErrorKind {
        self.0.kind
    }

    /// Whether a message may have been sent. Without meaning for an error of
    /// [`PushReceiptSource`](crate::PushReceiptSource), which sends nothing.
    #[must_use]
    pub fn sent(&self) -> PushSent {
        self.0.sent
    }

    /// The status of the HTTP answer, if there was one.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        self.0.status
    }

    /// The provider's own code, if it gave one.
    #[must_use]
    pub fn code(&self) -> Option<&PushCode> {
        self.0.code.as_ref()
    }

    /// How long the service wants to be left alone, if it said so.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// Whether the same messages may be sent again with a chance to succeed
    /// and no risk of showing them twice: the kind is
    /// [`PushErrorKind::Unavailable`] or [`PushErrorKind::RateLimited`], and
    /// nothing was sent. Reading receipts again is harmless after any error.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(
            self.0.kind,
            PushErrorKind::Unavailable | PushErrorKind::RateLimited
        ) && self.0.sent == PushSent::NotSent
    }
}

impl fmt::Display for PushError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.message)?;
        match (self.0.status, &self.0.code) {
            (None, None) => Ok(()),
            (Some(status), None) => write!(f, " (status {status})"),
            (None, Some(code)) => write!(f, " (code {code})"),
            (Some(status), Some(code)) => write!(f, " (status {status}, code {code})"),
        }
    }
}

impl fmt::Debug for PushError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PushError")
            .field("kind", &self.0.kind)
            .field("sent", &self.0.sent)
            .field("message", &format_args!("{self}"))
            .field("retry_after", &self.0.retry_after)
            .finish()
    }
}

impl std::error::Error for PushError {}

/// A provider's word for an error, such as `TOO_MANY_REQUESTS`, shortened and
/// cleaned so that it can be logged.
///
/// Kept are the leading ASCII letters, digits and `_ - . /`, 64 at most. What
/// follows anything else is dropped: a code holds nothing else, and the rest
/// may be a sentence that quotes a token. Of a text that begins with none,
/// `unknown` is kept.
///
/// ```
/// use duebox_core::PushCode;
///
/// assert_eq!(PushCode::new("InvalidCredentials").as_str(), "InvalidCredentials");
/// assert_eq!(PushCode::new("Gone: ExponentPushToken[abc]").as_str(), "Gone");
/// assert_eq!(PushCode::new("").as_str(), "unknown");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PushCode(String);

impl PushCode {
    /// The longest code, in bytes.
    pub const MAX_BYTES: usize = 64;

    /// The part of `text` that is a code.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let kept: String = text
            .chars()
            .take_while(|each| each.is_ascii_alphanumeric() || "_-./".contains(*each))
            .take(Self::MAX_BYTES)
            .collect();
        Self(if kept.is_empty() {
            "unknown".to_owned()
        } else {
            kept
        })
    }

    /// The code.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PushCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
