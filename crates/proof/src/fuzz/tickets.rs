//! Tickets and tokens are visible ASCII of a bounded length, and are shown by nothing.

use duebox_core::{DeviceToken, PushTicketId};

use super::Target;

pub(super) const TARGET: Target = Target {
    name: "tickets",
    look,
    words: &[
        "ExponentPushToken[",
        "]",
        "\u{7f}",
        "!",
        "~",
        "00000000000000000000000000000000",
    ],
};

fn look(text: &str) -> Result<(), String> {
    let visible = text.bytes().all(|byte| (0x21..=0x7e).contains(&byte));
    let fits = |most: usize| visible && (1..=most).contains(&text.len());
    let ticket = PushTicketId::new(text);
    let token = DeviceToken::new(text);
    if ticket.is_ok() != fits(128) {
        return Err("a ticket is taken that should be refused, or refused".into());
    }
    if token.is_ok() != fits(512) {
        return Err("a token is taken that should be refused, or refused".into());
    }
    if ticket.as_ref().is_ok_and(|ticket| ticket.as_str() != text)
        || token.as_ref().is_ok_and(|token| token.as_str() != text)
    {
        return Err("the text was changed".into());
    }
    // Shorter ones stand in any text by chance.
    let shown = format!("{ticket:?} {token:?}");
    if text.len() >= 16 && shown.contains(text) {
        return Err("the text is shown".into());
    }
    Ok(())
}
