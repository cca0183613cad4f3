//! What a value may be, checked before any SQL and alike for every database.

use crate::DbError;

/// The longest id, in bytes. Ids are 1 to 64 bytes of visible ASCII (0x21 to
/// 0x7E) and are told apart byte by byte.
pub const MAX_ID_BYTES: usize = 64;
/// The longest topic or subject, in bytes of UTF-8. Both are at least one byte
/// and hold no control characters.
pub const MAX_TOPIC_BYTES: usize = 255;
/// The largest payload: 8 MiB of UTF-8. A payload may be empty; it holds no
/// NUL character.
pub const MAX_PAYLOAD_BYTES: usize = 8 * 1024 * 1024;
/// How much of an error's text is kept with its row, in bytes.
pub const MAX_ERROR_BYTES: usize = 4 * 1024;

pub(crate) fn id(id: &str) -> Result<(), DbError> {
    visible_ascii("an id", id, MAX_ID_BYTES)
}

pub(crate) fn topic(topic: &str) -> Result<(), DbError> {
    printable("a topic", topic)
}

pub(crate) fn subject(subject: &str) -> Result<(), DbError> {
    printable("a subject", subject)
}

pub(crate) fn holder(name: &str) -> Result<(), DbError> {
    printable("the name of a holder", name)
}

pub(crate) fn payload(payload: &str) -> Result<(), DbError> {
    if payload.len() > MAX_PAYLOAD_BYTES {
        return Err(DbError::invalid(format!(
            "a payload is {} bytes long, over the {MAX_PAYLOAD_BYTES} that fit; keep the content \
             elsewhere and enqueue a reference to it",
            payload.len()
        )));
    }
    if payload.contains('\0') {
        return Err(DbError::invalid(
            "a payload holds a NUL character, which no database keeps",
        ));
    }
    Ok(())
}

/// An error's text as it is kept: control characters replaced by spaces, cut
/// at a character. Whatever the text, this never fails.
pub(crate) fn error_text(text: &str) -> String {
    let mut kept = String::with_capacity(text.len().min(MAX_ERROR_BYTES));
    for character in text.chars() {
        let character = if character.is_control() {
            ' '
        } else {
            character
        };
        if kept.len() + character.len_utf8() > MAX_ERROR_BYTES {
            break;
        }
        kept.push(character);
    }
    kept
}

/// 1 to `max` bytes, each from 0x21 to 0x7E.
pub(crate) fn visible_ascii(what: &str, text: &str, max: usize) -> Result<(), DbError> {
    if text.is_empty() || text.len() > max {
        return Err(length(what, text, max));
    }
    if !text.bytes().all(|byte| (0x21..=0x7E).contains(&byte)) {
        return Err(DbError::invalid(format!(
            "{what} holds a character outside visible ASCII (0x21 to 0x7E)"
        )));
    }
    Ok(())
}

fn printable(what: &str, text: &str) -> Result<(), DbError> {
    if text.is_empty() || text.len() > MAX_TOPIC_BYTES {
        return Err(length(what, text, MAX_TOPIC_BYTES));
    }
    if text.chars().any(char::is_control) {
        return Err(DbError::invalid(format!(
            "{what} holds a control character"
        )));
    }
    Ok(())
}

fn length(what: &str, text: &str, max: usize) -> DbError {
    DbError::invalid(format!(
        "{what} is {} bytes long, not 1 to {max}",
        text.len()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_1_to_64_visible_ascii_bytes() {
        for good in ["!", "~", "01ARZ3NDEKTSV4RRFFQ69G5FAV", &"x".repeat(64)] {
            assert!(id(good).is_ok());
        }
        for bad in ["", " ", "a b", "a\n", "\u{7f}", "é", "a\0", &"x".repeat(65)] {
            assert!(id(bad).is_err());
        }
    }

    #[test]
    fn a_topic_counts_bytes_and_refuses_controls() {
        assert!(topic(&"é".repeat(127)).is_ok());
        assert!(topic(&"é".repeat(128)).is_err());
        for bad in ["", "a\tb", "a\u{85}", "a\0"] {
            assert!(topic(bad).is_err());
            assert!(subject(bad).is_err());
        }
        assert!(subject(" a b ").is_ok());
    }

    #[test]
    fn a_payload_may_be_empty_and_holds_no_nul() {
        assert!(payload("").is_ok());
        assert!(payload("\\u0000").is_ok());
        assert!(payload("a\0b").is_err());
        assert!(payload(&"x".repeat(MAX_PAYLOAD_BYTES)).is_ok());
        assert!(payload(&"x".repeat(MAX_PAYLOAD_BYTES + 1)).is_err());
    }

    #[test]
    fn the_text_of_an_error_is_cleaned_and_cut_at_a_character() {
        assert_eq!(error_text("a\0b\nc"), "a b c");
        let cut = error_text(&"é€".repeat(2_000));
        assert!(cut.len() <= MAX_ERROR_BYTES && cut.len() > MAX_ERROR_BYTES - 3);
        assert!(cut.ends_with(['é', '€']));
    }

    #[test]
    fn no_refusal_repeats_the_value() {
        for error in [
            id("mar\tker").unwrap_err(),
            subject("mar\tker").unwrap_err(),
        ] {
            assert!(!error.to_string().contains("mar"));
        }
    }
}
