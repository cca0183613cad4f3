use super::{ticket, token};
use crate::{DeviceToken, PushIdError, PushTicketId};

#[test]
fn a_ticket_is_1_to_128_visible_ascii_bytes() {
    for good in ["!", "~", "a'b\"c\\?%_", &"x".repeat(128)] {
        assert_eq!(ticket(good).as_str(), good);
        assert_eq!(ticket(good).into_string(), good);
    }
    for bad in [
        "",
        " ",
        "a b",
        "a\n",
        "\u{7f}",
        "é",
        "a\0",
        &"x".repeat(129),
    ] {
        assert!(PushTicketId::new(bad).is_err());
        assert!(bad.parse::<PushTicketId>().is_err());
        assert!(PushTicketId::try_from(bad).is_err());
        assert!(PushTicketId::try_from(bad.to_owned()).is_err());
    }
}

#[test]
fn a_token_is_1_to_512_visible_ascii_bytes() {
    assert_eq!(token(&"~".repeat(512)).as_str().len(), 512);
    for bad in ["", "a\tb", "\u{80}", &"x".repeat(513)] {
        assert!(DeviceToken::new(bad).is_err());
    }
}

#[test]
fn a_refusal_is_typed_and_repeats_nothing() {
    let long = PushTicketId::new("marker".repeat(100)).unwrap_err();
    assert_eq!(
        long,
        PushIdError::Length {
            what: "a ticket",
            bytes: 600,
            max: 128
        }
    );
    assert_eq!(long.to_string(), "a ticket is 600 bytes long, not 1 to 128");
    let odd = DeviceToken::new("mar\tker").unwrap_err();
    assert_eq!(
        odd,
        PushIdError::Character {
            what: "a device token"
        }
    );
    for error in [long, odd] {
        assert!(!format!("{error}{error:?}").contains("mar"));
    }
}

#[test]
fn debug_hides_both() {
    assert_eq!(
        format!("{:?}", ticket("marker")),
        "PushTicketId(<redacted>)"
    );
    assert_eq!(format!("{:#?}", token("marker")), "DeviceToken(<redacted>)");
}

#[test]
fn tickets_are_told_apart_and_ordered_byte_by_byte() {
    let mut tickets = ["b", "a", "B", "A", "a0", "a-", "~", "!"].map(ticket);
    tickets.sort();
    assert_eq!(
        tickets.map(PushTicketId::into_string),
        ["!", "A", "B", "a", "a-", "a0", "b", "~"]
    );
    assert_ne!(ticket("abc"), ticket("ABC"));
}
