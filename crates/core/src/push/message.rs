use std::fmt;
use std::time::Duration;

use crate::DeviceToken;

/// One notification to one device.
///
/// Only the token must be there; a message without title and body reaches the
/// app and shows nothing. What a provider has no word for, its sender leaves
/// out. A sender that cannot send a message, because it is too large or its
/// data is no JSON object, rejects that message alone. `Debug` shows which
/// parts there are and nothing of what they say.
///
/// ```
/// use duebox_core::{DeviceToken, PushMessage};
///
/// let token = DeviceToken::new("ExponentPushToken[abc]")?;
/// let message = PushMessage::new(token)
///     .title("Your parcel is here")
///     .body("Ada signed for it")
///     .data(r#"{"parcel":17}"#);
/// assert!(!format!("{message:?}").contains("Ada"));
/// # Ok::<(), duebox_core::PushIdError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PushMessage {
    /// The device that the message is for.
    pub token: DeviceToken,
    /// What is shown first.
    pub title: Option<String>,
    /// What is shown below the title, where the platform has it.
    pub subtitle: Option<String>,
    /// The text.
    pub body: Option<String>,
    /// A JSON object for the app, as text.
    pub data: Option<String>,
    /// The sound to play, `default` for the platform's own.
    pub sound: Option<String>,
    /// The number to show on the app's icon; 0 removes it.
    pub badge: Option<u32>,
    /// The notification channel, where the platform has them.
    pub channel_id: Option<String>,
    /// The category, which gives the notification its buttons.
    pub category_id: Option<String>,
    /// A later message with the same name takes the place of this one.
    pub collapse_id: Option<String>,
    /// How urgent it is; the provider decides unless it is said.
    pub priority: Option<PushPriority>,
    /// How long the provider may keep trying.
    pub ttl: Option<Duration>,
}

/// How urgent a [`PushMessage`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PushPriority {
    /// It may wait until the device wakes.
    Normal,
    /// It wakes the device.
    High,
}

macro_rules! text_setters {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(mut self, text: impl Into<String>) -> Self {
            self.$name = Some(text.into());
            self
        }
    )+};
}

impl PushMessage {
    /// An empty message to this device.
    #[must_use]
    pub const fn new(token: DeviceToken) -> Self {
        Self {
            token,
            title: None,
            subtitle: None,
            body: None,
            data: None,
            sound: None,
            badge: None,
            channel_id: None,
            category_id: None,
            collapse_id: None,
            priority: None,
            ttl: None,
        }
    }

    text_setters! {
        /// With what is shown first.
        title,
        /// With what is shown below the title.
        subtitle,
        /// With the text.
        body,
        /// With a JSON object for the app, as text.
        data,
        /// With the sound to play.
        sound,
        /// On this notification channel.
        channel_id,
        /// In this category.
        category_id,
        /// Taking the place of an earlier message of the same name.
        collapse_id,
    }

    /// With a model for the app, as JSON. Providers want an object: a struct
    /// or a map.
    ///
    /// # Errors
    ///
    /// [`PushErrorKind::Refused`](crate::PushErrorKind::Refused) if the model
    /// cannot be written as JSON; the error does not quote it.
    #[cfg(feature = "json")]
    pub fn json<T: serde::Serialize + ?Sized>(self, model: &T) -> Result<Self, crate::PushError> {
        match serde_json::to_string(model) {
            Ok(text) => Ok(self.data(text)),
            Err(_) => Err(crate::PushError::new(
                crate::PushErrorKind::Refused,
                "the message's model cannot be written as JSON",
            )
            .not_sent()),
        }
    }

    /// With this number on the app's icon.
    #[must_use]
    pub const fn badge(mut self, number: u32) -> Self {
        self.badge = Some(number);
        self
    }

    /// With this urgency.
    #[must_use]
    pub const fn priority(mut self, priority: PushPriority) -> Self {
        self.priority = Some(priority);
        self
    }

    /// To be given up after this time.
    #[must_use]
    pub const fn ttl(mut self, time: Duration) -> Self {
        self.ttl = Some(time);
        self
    }
}

impl fmt::Debug for PushMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hidden =
            |text: &Option<String>| text.as_ref().map(|text| format!("<{} bytes>", text.len()));
        f.debug_struct("PushMessage")
            .field("token", &self.token)
            .field("title", &hidden(&self.title))
            .field("subtitle", &hidden(&self.subtitle))
            .field("body", &hidden(&self.body))
            .field("data", &hidden(&self.data))
            .field("sound", &hidden(&self.sound))
            .field("badge", &self.badge.map(|_| format_args!("<hidden>")))
            .field("channel_id", &hidden(&self.channel_id))
            .field("category_id", &hidden(&self.category_id))
            .field("collapse_id", &hidden(&self.collapse_id))
            .field("priority", &self.priority)
            .field("ttl", &self.ttl)
            .finish()
    }
}
