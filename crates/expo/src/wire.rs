use duebox_core::{PushCode, PushMessage, PushPriority, PushRejection};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// A message as Expo's service reads it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Message<'a> {
    to: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subtitle: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sound: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    badge: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    channel_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    category_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    collapse_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<u64>,
}

/// `None` if the data is no JSON object.
pub(crate) fn message(message: &PushMessage) -> Option<Message<'_>> {
    let data = match &message.data {
        // As it was given: numbers keep their digits.
        Some(text) => Some(object(text)?),
        None => None,
    };
    Some(Message {
        to: message.token.as_str(),
        title: message.title.as_deref(),
        subtitle: message.subtitle.as_deref(),
        body: message.body.as_deref(),
        data,
        sound: message.sound.as_deref(),
        badge: message.badge,
        channel_id: message.channel_id.as_deref(),
        category_id: message.category_id.as_deref(),
        collapse_id: message.collapse_id.as_deref(),
        priority: message.priority.map(|priority| match priority {
            PushPriority::High => "high",
            _ => "normal",
        }),
        ttl: message.ttl.map(|time| time.as_secs()),
    })
}

fn object(text: &str) -> Option<&RawValue> {
    let value: &RawValue = serde_json::from_str(text).ok()?;
    value.get().starts_with('{').then_some(value)
}

/// Why a ticket or a receipt is an error.
pub(crate) fn rejection(answer: &Value) -> PushRejection {
    let code = answer
        .get("details")
        .and_then(|details| details.get("error")?.as_str())
        .unwrap_or_default();
    match code {
        "DeviceNotRegistered" => PushRejection::DeviceNotRegistered,
        "MessageTooBig" => PushRejection::MessageTooBig,
        "MessageRateExceeded" => PushRejection::MessageRateExceeded,
        "MismatchSenderId" => PushRejection::MismatchSenderId,
        "InvalidCredentials" => PushRejection::InvalidCredentials,
        other => PushRejection::Other(PushCode::new(other)),
    }
}
