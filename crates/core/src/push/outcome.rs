use crate::{DeviceToken, PushCode, PushError, PushSent, PushTicketId};

/// What became of one message of a send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushOutcome {
    /// The device that the message was for.
    pub token: DeviceToken,
    /// What became of it.
    pub status: PushDeliveryStatus,
}

/// What a provider answered about one message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PushDeliveryStatus {
    /// The provider took the message; its receipt comes later, under this
    /// ticket.
    Accepted(PushTicketId),
    /// The message was handed over and nothing more will be heard of it. For
    /// providers that answer at once.
    Delivered,
    /// There is no ticket for the message, and why.
    Rejected(PushRejection),
}

/// What a provider answered about one ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushReceipt {
    /// The ticket that was asked about.
    pub ticket: PushTicketId,
    /// What became of its message.
    pub status: PushReceiptStatus,
}

/// What became of a message whose receipt is there. A ticket without a
/// receipt yet is not answered about at all.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PushReceiptStatus {
    /// The device's own push service took it over. Whether the device showed
    /// it, nobody knows.
    Delivered,
    /// It was not delivered, and why.
    Rejected(PushRejection),
}

/// Why a message was not accepted, or not delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PushRejection {
    /// The device is gone: the app was removed, or notifications were
    /// forbidden. Do not send to its token again.
    DeviceNotRegistered,
    /// The message is larger than the provider takes.
    MessageTooBig,
    /// Too many messages to this device; the same message may be sent later.
    MessageRateExceeded,
    /// The token belongs to another sender than the credentials are of.
    MismatchSenderId,
    /// The app's credentials at the device's push service are not valid.
    InvalidCredentials,
    /// The request with this message failed.
    /// [`PushError::sent`] says whether it may have been sent all the same.
    Failed(PushError),
    /// A reason that this crate has no word for, as the provider calls it.
    Other(PushCode),
}

impl PushRejection {
    /// Whether the device is gone, so that its token is of no more use.
    #[must_use]
    pub const fn is_device_gone(&self) -> bool {
        matches!(self, Self::DeviceNotRegistered)
    }

    /// Whether the message may have reached the device all the same. For a
    /// reason without a word here nobody knows.
    #[must_use]
    pub fn sent(&self) -> PushSent {
        match self {
            Self::Failed(error) => error.sent(),
            Self::Other(_) => PushSent::PerhapsSent,
            _ => PushSent::NotSent,
        }
    }

    /// Whether the same message may be sent again with a chance to succeed
    /// and no risk of showing it twice.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::MessageRateExceeded => true,
            Self::Failed(error) => error.is_retryable(),
            _ => false,
        }
    }

    /// A short name to count and log by, without any value.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::DeviceNotRegistered => "DeviceNotRegistered",
            Self::MessageTooBig => "MessageTooBig",
            Self::MessageRateExceeded => "MessageRateExceeded",
            Self::MismatchSenderId => "MismatchSenderId",
            Self::InvalidCredentials => "InvalidCredentials",
            Self::Failed(_) => "Failed",
            Self::Other(code) => code.as_str(),
        }
    }
}
