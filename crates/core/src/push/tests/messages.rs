use std::time::Duration;

use super::{ticket, token};
use crate::{
    PushCode, PushDeliveryStatus, PushError, PushErrorKind, PushMessage, PushOutcome, PushPriority,
    PushReceipt, PushReceiptStatus, PushRejection, PushSent,
};

#[test]
fn nothing_of_a_message_is_in_its_debug() {
    let message = PushMessage::new(token("marker-token"))
        .title("marker")
        .subtitle("marker")
        .body("marker")
        .data("marker")
        .sound("marker")
        .channel_id("marker")
        .category_id("marker")
        .collapse_id("marker")
        .badge(4_711)
        .priority(PushPriority::High)
        .ttl(Duration::from_mins(1));
    let shown = format!("{message:?}{message:#?}");
    assert!(!shown.contains("marker") && !shown.contains("4711"));
    assert!(shown.contains("<6 bytes>") && shown.contains("High"));
}

#[test]
fn nothing_of_an_outcome_or_a_receipt_is_in_its_debug() {
    let outcome = PushOutcome {
        token: token("marker-token"),
        status: PushDeliveryStatus::Accepted(ticket("marker-ticket")),
    };
    let receipt = PushReceipt {
        ticket: ticket("marker-ticket"),
        status: PushReceiptStatus::Delivered,
    };
    assert!(!format!("{outcome:?}{outcome:#?}{receipt:?}").contains("marker"));
}

#[test]
#[cfg(feature = "json")]
fn a_model_that_is_no_json_is_refused_without_being_quoted() {
    let keys = std::collections::HashMap::from([((1, 2), "marker")]);
    let error = PushMessage::new(token("t")).json(&keys).unwrap_err();
    assert_eq!(error.kind(), PushErrorKind::Refused);
    assert!(!format!("{error}{error:?}").contains("marker"));
    let message = PushMessage::new(token("t")).json(&["a"]).unwrap();
    assert_eq!(message.data.as_deref(), Some(r#"["a"]"#));
}

#[test]
fn a_code_is_shortened_and_cleaned() {
    for (text, kept) in [
        ("DeviceNotRegistered", "DeviceNotRegistered"),
        ("messaging/invalid-token", "messaging/invalid-token"),
        ("a b", "a"),
        ("a\nb", "a"),
        ("caf\u{e9}", "caf"),
        ("[marker]", "unknown"),
        ("", "unknown"),
    ] {
        assert_eq!(PushCode::new(text).as_str(), kept);
    }
    assert_eq!(PushCode::new(&"x".repeat(10_000)).as_str().len(), 64);
}

#[test]
fn an_error_is_perhaps_sent_until_it_is_said_that_it_was_not() {
    let lost = PushError::new(PushErrorKind::Unavailable, "the answer was lost");
    assert_eq!(lost.sent(), PushSent::PerhapsSent);
    assert!(!lost.is_retryable());
    let refused = lost.clone().not_sent();
    assert_eq!(refused.sent(), PushSent::NotSent);
    assert!(refused.is_retryable());
    let wrong = PushError::new(PushErrorKind::Unauthorized, "who are you").not_sent();
    assert!(!wrong.is_retryable());
    assert_eq!(
        wrong.with_status(401).to_string(),
        "who are you (status 401)"
    );
    assert_eq!(
        lost.with_code(PushCode::new("E7")).to_string(),
        "the answer was lost (code E7)"
    );
}

#[test]
fn only_what_certainly_was_not_sent_may_be_sent_again() {
    let failed = PushError::new(PushErrorKind::Unavailable, "no route");
    for (rejection, sent, again) in [
        (PushRejection::DeviceNotRegistered, PushSent::NotSent, false),
        (PushRejection::MessageTooBig, PushSent::NotSent, false),
        (PushRejection::MessageRateExceeded, PushSent::NotSent, true),
        (
            PushRejection::Other(PushCode::new("New")),
            PushSent::PerhapsSent,
            false,
        ),
        (
            PushRejection::Failed(failed.clone()),
            PushSent::PerhapsSent,
            false,
        ),
        (
            PushRejection::Failed(failed.not_sent()),
            PushSent::NotSent,
            true,
        ),
    ] {
        assert_eq!(rejection.sent(), sent, "{rejection:?}");
        assert_eq!(rejection.is_retryable(), again, "{rejection:?}");
    }
    assert_eq!(PushRejection::Other(PushCode::new("New")).name(), "New");
    assert!(PushRejection::DeviceNotRegistered.is_device_gone());
    assert!(!PushRejection::InvalidCredentials.is_device_gone());
}
