use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The longest ticket, in bytes. Tickets are 1 to 128 bytes of visible ASCII
/// (0x21 to 0x7E) and are told apart byte by byte.
pub const MAX_TICKET_BYTES: usize = 128;
/// The longest device token, in bytes. Tokens are 1 to 512 bytes of visible
/// ASCII (0x21 to 0x7E) and are told apart byte by byte.
pub const MAX_TOKEN_BYTES: usize = 512;

/// Why a text cannot be a ticket or a device token. It does not repeat the
/// text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PushIdError {
    /// It is empty or too long.
    #[error("{what} is {bytes} bytes long, not 1 to {max}")]
    Length {
        /// `a ticket` or `a device token`.
        what: &'static str,
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        max: usize,
    },
    /// One of its bytes is a space, a control character or outside ASCII.
    #[error("{what} holds a character outside visible ASCII (0x21 to 0x7E)")]
    Character {
        /// `a ticket` or `a device token`.
        what: &'static str,
    },
}

fn check(what: &'static str, text: &str, max: usize) -> Result<(), PushIdError> {
    let bytes = text.len();
    if bytes == 0 || bytes > max {
        return Err(PushIdError::Length { what, bytes, max });
    }
    if !text.bytes().all(|byte| (0x21..=0x7E).contains(&byte)) {
        return Err(PushIdError::Character { what });
    }
    Ok(())
}

macro_rules! push_id {
    ($(#[$doc:meta])* $name:ident, $what:literal, $max:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// Takes the text as it is, if it is one.
            ///
            /// # Errors
            ///
            /// [`PushIdError`] if it is empty, too long, or holds anything but
            /// visible ASCII.
            pub fn new(text: impl Into<String>) -> Result<Self, PushIdError> {
                let text = text.into();
                check($what, &text, $max)?;
                Ok(Self(text))
            }

            /// The text, to send or to store. Do not log it.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// The text, taken out.
            #[must_use]
            pub fn into_string(self) -> String {
                self.0
            }
        }

        impl FromStr for $name {
            type Err = PushIdError;

            fn from_str(text: &str) -> Result<Self, PushIdError> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = PushIdError;

            fn try_from(text: String) -> Result<Self, PushIdError> {
                Self::new(text)
            }
        }

        impl TryFrom<&str> for $name {
            type Error = PushIdError;

            fn try_from(text: &str) -> Result<Self, PushIdError> {
                Self::new(text)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(concat!(stringify!($name), "(<redacted>)"))
            }
        }
    };
}

push_id! {
    /// What a provider calls one accepted message, and answers about later.
    ///
    /// 1 to [`MAX_TICKET_BYTES`] bytes of visible ASCII, ordered and told
    /// apart byte by byte. Whoever has a ticket can learn about a device, so
    /// `Debug` hides it and there is no `Display`.
    ///
    /// ```
    /// use duebox_core::PushTicketId;
    ///
    /// let ticket = PushTicketId::new("0198f0a2-7d3c")?;
    /// assert_eq!(ticket.as_str(), "0198f0a2-7d3c");
    /// assert_eq!(format!("{ticket:?}"), "PushTicketId(<redacted>)");
    /// assert!(PushTicketId::new("two words").is_err());
    /// # Ok::<(), duebox_core::PushIdError>(())
    /// ```
    PushTicketId, "a ticket", MAX_TICKET_BYTES
}

push_id! {
    /// The address of one app on one device, as its push service knows it.
    ///
    /// 1 to [`MAX_TOKEN_BYTES`] bytes of visible ASCII, told apart byte by
    /// byte. Whoever has a token can send to the device, so `Debug` hides it
    /// and there is no `Display`.
    ///
    /// ```
    /// use duebox_core::DeviceToken;
    ///
    /// let token: DeviceToken = "ExponentPushToken[abc]".parse()?;
    /// assert_eq!(format!("{token:?}"), "DeviceToken(<redacted>)");
    /// # Ok::<(), duebox_core::PushIdError>(())
    /// ```
    DeviceToken, "a device token", MAX_TOKEN_BYTES
}
