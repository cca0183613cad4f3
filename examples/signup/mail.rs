//! The welcome mail: the payload of its outbox row, and the message made from it.

use std::io;

use chrono::{DateTime, Utc};
use mail_builder::MessageBuilder;
use mail_builder::headers::raw::Raw;
use serde::{Deserialize, Serialize};

use crate::greeting::greeting;
use crate::sign_up::{Plan, SignUp};

/// The topic of the outbox rows whose payload is a [`Welcome`].
pub(crate) const TOPIC: &str = "mail.welcome";
const SENDER: (&str, &str) = ("Duebox example", "welcome@signup.example.com");
const MESSAGE_ID_DOMAIN: &str = "signup.example.com";

/// All that the message is made from, so that a drainer needs no other row.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Welcome {
    to: String,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<Plan>,
    #[serde(skip_serializing_if = "Option::is_none")]
    locale: Option<String>,
}

impl From<&SignUp> for Welcome {
    fn from(sign_up: &SignUp) -> Self {
        Self {
            to: sign_up.address.as_str().to_owned(),
            name: sign_up.name.clone(),
            plan: sign_up.plan,
            locale: sign_up.locale.clone(),
        }
    }
}

impl Welcome {
    /// The whole message (RFC 5322): lines end in CRLF, everything is ASCII.
    ///
    /// It depends on its arguments alone. A row that is delivered twice, because its drainer died
    /// between delivering and completing, gives the same bytes twice, and a reader's mail server
    /// can tell by the `Message-ID`.
    pub(crate) fn message(
        &self,
        outbox_id: &str,
        created_at: DateTime<Utc>,
    ) -> io::Result<Vec<u8>> {
        let text = greeting(self.locale.as_deref(), &self.name, self.plan);
        MessageBuilder::new()
            .from(SENDER)
            .to((self.name.as_str(), self.to.as_str()))
            .subject(text.subject)
            .date(created_at.timestamp())
            .message_id(message_id(outbox_id))
            .header("Content-Language", Raw::new(text.language))
            // RFC 3834: no holiday reply is wanted.
            .header("Auto-Submitted", Raw::new("auto-generated"))
            .text_body(text.body.replace('\n', "\r\n"))
            .write_to_vec()
    }
}

/// The `Message-ID` of a row's mail, without its angle brackets.
pub(crate) fn message_id(outbox_id: &str) -> String {
    format!("{outbox_id}@{MESSAGE_ID_DOMAIN}")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use chrono::{DateTime, Utc};
    use mail_parser::{Message, MessageParser};

    use super::Welcome;
    use crate::greeting::greeting;
    use crate::lines::Lines;
    use crate::sign_up::SignUp;

    const ID: &str = "01J00000000000000000000000";

    fn created_at() -> DateTime<Utc> {
        "2024-02-29T23:59:59.999999Z".parse().expect("a date")
    }

    fn message(sign_up: &SignUp) -> Vec<u8> {
        Welcome::from(sign_up)
            .message(ID, created_at())
            .expect("memory can be written")
    }

    fn parse(raw: &[u8]) -> Message<'_> {
        MessageParser::new().parse(raw).expect("a message")
    }

    fn sign_up(name: &str) -> SignUp {
        let line = serde_json::json!({"email": "Ann+1@Example.com", "name": name, "plan": "team", "locale": "ar"});
        SignUp::parse(line.to_string().as_bytes()).expect("valid")
    }

    /// What RFC 5322 and RFC 2047 say of the bytes, whatever the headers mean.
    fn assert_well_formed(raw: &[u8]) {
        let text = str::from_utf8(raw).expect("ASCII");
        assert!(text.is_ascii());
        assert!(text.ends_with("\r\n"));
        let (header, _) = text
            .split_once("\r\n\r\n")
            .expect("an empty line after the header");
        for line in text.split("\r\n") {
            assert!(
                !line.contains(['\r', '\n', '\0']),
                "a bare control character in {line:?}"
            );
            // A line can be folded at a space only, so one long word may pass 78; nothing may pass 998.
            let unfoldable = line.split(' ').any(|word| word.len() > 60);
            assert!(
                line.len() <= if unfoldable { 998 } else { 78 },
                "{} bytes: {line:?}",
                line.len()
            );
        }
        for line in header.split("\r\n") {
            assert!(!line.trim().is_empty(), "a folded line is blank");
            let encoded = line
                .split_ascii_whitespace()
                .filter(|word| word.starts_with("=?"));
            encoded.for_each(|word| assert!(word.len() <= 75, "{word}"));
        }
    }

    /// Reads the message back with another implementation and compares every field.
    fn assert_says(raw: &[u8], sign_up: &SignUp) {
        let read = parse(raw);
        let text = greeting(sign_up.locale.as_deref(), &sign_up.name, sign_up.plan);
        let to = read.to().and_then(|to| to.as_list()).expect("To is a list");
        assert_eq!(to.len(), 1, "{to:?}");
        assert_eq!(to[0].name(), Some(sign_up.name.as_str()));
        assert_eq!(to[0].address(), Some(sign_up.address.as_str()));
        assert_eq!(read.subject(), Some(text.subject.as_str()));
        assert_eq!(
            read.message_id(),
            Some("01J00000000000000000000000@signup.example.com")
        );
        assert_eq!(
            read.date().map(mail_parser::DateTime::to_timestamp),
            Some(created_at().timestamp())
        );
        assert_eq!(
            read.body_text(0).as_deref(),
            Some(text.body.replace('\n', "\r\n").as_str())
        );
        for once in [
            "From",
            "To",
            "Subject",
            "Date",
            "Message-ID",
            "MIME-Version",
            "Content-Type",
        ] {
            let count = read
                .headers()
                .iter()
                .filter(|header| header.name().eq_ignore_ascii_case(once))
                .count();
            assert_eq!(count, 1, "{once}");
        }
    }

    #[test]
    fn every_sign_up_of_the_shipped_file_gives_a_message_that_reads_back() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/signups.jsonl");
        let bytes = std::fs::read(path).expect("the file is shipped");
        let mut count = 0;
        for line in Lines::new(bytes.as_slice()) {
            let Some(bytes) = line.expect("memory can be read").bytes else {
                continue;
            };
            let Ok(sign_up) = SignUp::parse(&bytes) else {
                continue;
            };
            let raw = message(&sign_up);
            assert_well_formed(&raw);
            assert_says(&raw, &sign_up);
            count += 1;
        }
        assert!(count >= 500, "only {count} sign-ups");
    }

    #[test]
    fn names_of_every_length_fold_at_a_character() {
        for letter in [
            "a", "é", "龍", "𠮷", "e\u{301}", "a ", "é ", "\"", "\\", ",",
        ] {
            for count in (1..=100).step_by(3) {
                let sign_up = sign_up(&letter.repeat(count));
                let raw = message(&sign_up);
                assert_well_formed(&raw);
                assert_says(&raw, &sign_up);
            }
        }
    }

    #[test]
    fn a_row_delivered_twice_gives_the_same_bytes_and_another_row_another_message_id() {
        let sign_up = sign_up("Ann");
        let stored = serde_json::to_string(&Welcome::from(&sign_up)).expect("plain data");
        let again: Welcome = serde_json::from_str(&stored).expect("as it was stored");
        let raw = message(&sign_up);
        assert_eq!(again.message(ID, created_at()).expect("memory"), raw);

        let other = again
            .message("01J00000000000000000000001", created_at())
            .expect("memory");
        assert_ne!(parse(&other).message_id(), parse(&raw).message_id());
    }

    #[test]
    fn the_header_is_as_expected() {
        let raw = message(&sign_up("Zoë \"Z\" Example"));
        let text = String::from_utf8(raw).expect("ASCII");
        let (header, _) = text.split_once("\r\n\r\n").expect("a header");
        assert_eq!(
            header.split("\r\n").collect::<Vec<_>>(),
            [
                "From: \"Duebox example\" <welcome@signup.example.com>",
                "To: =?utf-8?Q?Zo=C3=AB_=22Z=22_Example?= <Ann+1@example.com>",
                "Subject: =?utf-8?B?2YXYsdit2KjZi9inIFpvw6sgIloiIEV4YW1wbGU=?=",
                "Date: Thu, 29 Feb 2024 23:59:59 +0000",
                "Message-ID: <01J00000000000000000000000@signup.example.com>",
                "Content-Language: ar",
                "Auto-Submitted: auto-generated",
                "MIME-Version: 1.0",
                "Content-Type: text/plain; charset=\"utf-8\"",
                "Content-Transfer-Encoding: base64",
            ]
        );
    }
}
