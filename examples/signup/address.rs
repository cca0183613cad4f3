//! The address of an account.

/// A mail address that can stand in a message as it is.
///
/// Taken are addresses of ASCII with an unquoted local part and a domain of at least two labels;
/// that is what RFC 5321 lets every server carry. Others are refused, each with its reason.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Address {
    text: String,
}

impl Address {
    /// Checks `text`; the error says what is wrong and does not quote it.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        if text.is_empty() {
            return Err("is empty");
        }
        let (local, domain) = text.rsplit_once('@').ok_or("has no @")?;
        check_local_part(local)?;
        check_domain(domain)?;
        if text.len() > 254 {
            return Err("is longer than 254 bytes");
        }
        Ok(Self {
            text: format!("{local}@{}", domain.to_ascii_lowercase()),
        })
    }

    /// The address that mail is sent to: the local part as it was given, the domain in lower case.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Two addresses with one key are one account.
    ///
    /// The key is the address in lower case: a server may tell `Ann@` from `ann@`, yet nearly none
    /// does, and a person who signs up twice seldom minds the shift key. What follows a `+` counts,
    /// and so do dots, for what they mean is for the server to say.
    pub(crate) fn key(&self) -> String {
        self.text.to_ascii_lowercase()
    }
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Address(redacted)")
    }
}

fn check_local_part(local: &str) -> Result<(), &'static str> {
    if local.is_empty() {
        return Err("has nothing before the @");
    }
    if !local.is_ascii() {
        return Err("is not ASCII before the @");
    }
    if local.len() > 64 {
        return Err("has more than 64 bytes before the @");
    }
    // RFC 5322, `dot-atom`.
    let atom = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(&byte);
    if !local.bytes().all(|byte| atom(byte) || byte == b'.') {
        return Err("has a character that may not stand before the @");
    }
    if local.split('.').any(str::is_empty) {
        return Err("has a misplaced dot before the @");
    }
    Ok(())
}

fn check_domain(domain: &str) -> Result<(), &'static str> {
    if domain.is_empty() {
        return Err("has no domain");
    }
    if !domain.is_ascii() {
        return Err("has a domain that is not in its ASCII form");
    }
    let mut labels = 0;
    for label in domain.split('.') {
        let bytes = label
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let ends = !label.starts_with('-') && !label.ends_with('-');
        if label.is_empty() || label.len() > 63 || !bytes || !ends {
            return Err("has a malformed domain");
        }
        labels += 1;
    }
    if labels < 2 {
        return Err("has a domain of one label");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Address;

    fn key(text: &str) -> String {
        Address::parse(text)
            .unwrap_or_else(|why| panic!("{text} {why}"))
            .key()
    }

    #[test]
    fn the_local_part_is_kept_and_the_domain_lower_cased() {
        let address = Address::parse("Ann.Example+News@Mail.EXAMPLE.com").expect("valid");
        assert_eq!(address.as_str(), "Ann.Example+News@mail.example.com");
    }

    #[test]
    fn case_makes_no_second_account_but_plus_and_dots_do() {
        assert_eq!(key("ANN@EXAMPLE.COM"), key("ann@example.com"));
        assert_ne!(key("ann+news@example.com"), key("ann@example.com"));
        assert_ne!(key("a.nn@example.com"), key("ann@example.com"));
    }

    #[test]
    fn every_atom_and_the_longest_parts_are_taken() {
        key("!#$%&'*+-/=?^_`{|}~@example.com");
        key("x@xn--bcher-kva.example");
        let longest = format!(
            "{}@{}.{}.{}",
            "l".repeat(64),
            "a".repeat(63),
            "b".repeat(63),
            "c".repeat(61)
        );
        assert_eq!(longest.len(), 254);
        key(&longest);
        assert_eq!(
            Address::parse(&format!("{longest}c")),
            Err("is longer than 254 bytes")
        );
    }

    #[test]
    fn what_could_not_stand_in_a_header_is_refused() {
        for (text, why) in [
            ("", "is empty"),
            ("ann", "has no @"),
            ("@example.com", "has nothing before the @"),
            ("jürgen@example.com", "is not ASCII before the @"),
            (
                "ann lee@example.com",
                "has a character that may not stand before the @",
            ),
            (
                "\"ann\"@example.com",
                "has a character that may not stand before the @",
            ),
            (
                "a@b@example.com",
                "has a character that may not stand before the @",
            ),
            (".ann@example.com", "has a misplaced dot before the @"),
            ("ann..lee@example.com", "has a misplaced dot before the @"),
            ("ann@", "has no domain"),
            (
                "ann@bücher.example",
                "has a domain that is not in its ASCII form",
            ),
            ("ann@localhost", "has a domain of one label"),
            ("ann@example..com", "has a malformed domain"),
            ("ann@-a.example.com", "has a malformed domain"),
            (
                "ann@example.com\r\nBcc: x@example.com",
                "has a character that may not stand before the @",
            ),
            ("ann@example.com\r\n", "has a malformed domain"),
            ("ann@exam\0ple.com", "has a malformed domain"),
            (
                &format!("{}@example.com", "l".repeat(65)),
                "has more than 64 bytes before the @",
            ),
            (
                &format!("ann@{}.com", "d".repeat(64)),
                "has a malformed domain",
            ),
        ] {
            assert_eq!(Address::parse(text), Err(why), "{text:?}");
        }
    }
}
