//! One sign-up, checked.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::address::Address;
use crate::lines::MAX_LINE;

/// The longest name, in characters.
const MAX_NAME: usize = 200;

/// What an account may be signed up for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Plan {
    Free,
    Team,
    Business,
}

impl Plan {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Team => "team",
            Self::Business => "business",
        }
    }
}

/// A sign-up whose every field has been checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SignUp {
    pub(crate) address: Address,
    pub(crate) name: String,
    pub(crate) plan: Option<Plan>,
    pub(crate) locale: Option<String>,
}

/// Why a line is not a sign-up. It names the field and never what stood there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Blank,
    TooLong,
    NotUtf8,
    NotJson {
        column: usize,
    },
    NotAnObject,
    Missing {
        field: &'static str,
    },
    NotText {
        field: &'static str,
    },
    Wrong {
        field: &'static str,
        why: &'static str,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blank => f.write_str("the line is blank"),
            Self::TooLong => write!(f, "the line is longer than {MAX_LINE} bytes"),
            Self::NotUtf8 => f.write_str("the line is not UTF-8"),
            Self::NotJson { column } => write!(f, "the line is not JSON, see byte {column}"),
            Self::NotAnObject => f.write_str("the line is not a JSON object"),
            Self::Missing { field } => write!(f, "{field} is missing"),
            Self::NotText { field } => write!(f, "{field} is not text"),
            Self::Wrong { field, why } => write!(f, "{field} {why}"),
        }
    }
}

impl SignUp {
    /// Reads a JSON object with the fields `email`, `name`, and, if they like, `plan` and `locale`.
    ///
    /// Other fields are ignored, so that the form may grow before this program does.
    pub(crate) fn parse(line: &[u8]) -> Result<Self, Refusal> {
        let text = str::from_utf8(line).map_err(|_| Refusal::NotUtf8)?;
        if text.trim().is_empty() {
            return Err(Refusal::Blank);
        }
        // The error's own text may quote the line.
        let value: Value = serde_json::from_str(text).map_err(|error| Refusal::NotJson {
            column: error.column(),
        })?;
        let Value::Object(fields) = value else {
            return Err(Refusal::NotAnObject);
        };
        let email = required(&fields, "email")?;
        let address = Address::parse(email).map_err(|why| Refusal::Wrong {
            field: "email",
            why,
        })?;
        let name = name(required(&fields, "name")?)?;
        let plan = optional(&fields, "plan")?.map(plan).transpose()?;
        let locale = optional(&fields, "locale")?.map(locale).transpose()?;
        Ok(Self {
            address,
            name,
            plan,
            locale,
        })
    }
}

fn optional<'a>(
    fields: &'a Map<String, Value>,
    field: &'static str,
) -> Result<Option<&'a str>, Refusal> {
    match fields.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Refusal::NotText { field }),
    }
}

fn required<'a>(fields: &'a Map<String, Value>, field: &'static str) -> Result<&'a str, Refusal> {
    optional(fields, field)?.ok_or(Refusal::Missing { field })
}

fn name(text: &str) -> Result<String, Refusal> {
    let wrong = |why| Err(Refusal::Wrong { field: "name", why });
    let name = text.trim();
    if name.is_empty() {
        return wrong("is blank");
    }
    if name.chars().any(char::is_control) {
        return wrong("has a control character");
    }
    if name.chars().count() > MAX_NAME {
        return wrong("is longer than 200 characters");
    }
    // In a subject a mail reader would decode it, and show another name.
    if name.contains("=?") {
        return wrong("looks like an encoded word");
    }
    Ok(name.to_owned())
}

fn plan(text: &str) -> Result<Plan, Refusal> {
    match text {
        "free" => Ok(Plan::Free),
        "team" => Ok(Plan::Team),
        "business" => Ok(Plan::Business),
        _ => Err(Refusal::Wrong {
            field: "plan",
            why: "is none of free, team and business",
        }),
    }
}

/// Takes what has the form of a language tag (RFC 5646); it goes into a header.
fn locale(text: &str) -> Result<String, Refusal> {
    let mut subtags = text.split('-');
    let language = subtags.next().unwrap_or_default();
    let named = (2..=8).contains(&language.len())
        && language.bytes().all(|byte| byte.is_ascii_alphabetic());
    let formed = subtags.all(|subtag| {
        (1..=8).contains(&subtag.len()) && subtag.bytes().all(|byte| byte.is_ascii_alphanumeric())
    });
    if !named || !formed || text.len() > 35 {
        return Err(Refusal::Wrong {
            field: "locale",
            why: "is not a language tag",
        });
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{Plan, Refusal, SignUp};

    fn reason(line: impl AsRef<[u8]>) -> String {
        match SignUp::parse(line.as_ref()) {
            Ok(_) => panic!("{} is taken", String::from_utf8_lossy(line.as_ref())),
            Err(refusal) => refusal.to_string(),
        }
    }

    #[test]
    fn a_whole_line_is_read() {
        let line = r#" {"plan":"team","name":"  Jose\u0301 \ud83d\ude00 ","email":"Jose+1@Example.com","locale":"pt-BR","ref":[1]} "#;
        let sign_up = SignUp::parse(line.as_bytes()).expect("whole");
        assert_eq!(sign_up.address.as_str(), "Jose+1@example.com");
        assert_eq!(sign_up.name, "Jose\u{301} 😀");
        assert_eq!(sign_up.plan, Some(Plan::Team));
        assert_eq!(sign_up.locale.as_deref(), Some("pt-BR"));
    }

    #[test]
    fn plan_and_locale_may_be_absent_or_null() {
        let sign_up =
            SignUp::parse(br#"{"email":"a@example.com","name":"A","plan":null}"#).expect("whole");
        assert_eq!((sign_up.plan, sign_up.locale), (None, None));
    }

    #[test]
    fn every_refusal_names_its_field() {
        for (line, expected) in [
            ("", "the line is blank"),
            (" \t", "the line is blank"),
            (r#"{"email":"a@exa"#, "the line is not JSON, see byte 15"),
            (
                r#"{"email":"a@example.com","name":"\ud83d"}"#,
                "the line is not JSON, see byte 40",
            ),
            ("[]", "the line is not a JSON object"),
            (r#"{"name":"A"}"#, "email is missing"),
            (r#"{"email":null,"name":"A"}"#, "email is missing"),
            (r#"{"email":7,"name":"A"}"#, "email is not text"),
            (r#"{"email":"a","name":"A"}"#, "email has no @"),
            (r#"{"email":"a@example.com"}"#, "name is missing"),
            (r#"{"email":"a@example.com","name":{}}"#, "name is not text"),
            (r#"{"email":"a@example.com","name":" "}"#, "name is blank"),
            (
                r#"{"email":"a@example.com","name":"a\u0000b"}"#,
                "name has a control character",
            ),
            (
                r#"{"email":"a@example.com","name":"a\r\nBcc: b"}"#,
                "name has a control character",
            ),
            (
                r#"{"email":"a@example.com","name":"=?utf-8?q?a?="}"#,
                "name looks like an encoded word",
            ),
            (
                r#"{"email":"a@example.com","name":"A","plan":"gold"}"#,
                "plan is none of free, team and business",
            ),
            (
                r#"{"email":"a@example.com","name":"A","plan":[]}"#,
                "plan is not text",
            ),
            (
                r#"{"email":"a@example.com","name":"A","locale":"e"}"#,
                "locale is not a language tag",
            ),
            (
                r#"{"email":"a@example.com","name":"A","locale":"en\r\nBcc:"}"#,
                "locale is not a language tag",
            ),
        ] {
            assert_eq!(reason(line), expected, "{line}");
        }
        assert_eq!(
            reason(b"{\"email\":\"a@example.com\",\"name\":\"Ren\xe9\"}"),
            "the line is not UTF-8"
        );
        assert_eq!(
            reason("[".repeat(4000)),
            "the line is not JSON, see byte 128"
        );
    }

    #[test]
    fn two_hundred_characters_of_any_width_are_a_name() {
        let line = |count| {
            format!(
                r#"{{"email":"a@example.com","name":"{}"}}"#,
                "𠮷".repeat(count)
            )
        };
        assert!(SignUp::parse(line(200).as_bytes()).is_ok());
        assert_eq!(reason(line(201)), "name is longer than 200 characters");
    }

    #[test]
    fn a_refusal_never_quotes_the_line() {
        let marker = "marker";
        for line in [
            r#"{"email":"marker","name":"marker","plan":"marker"}"#,
            r#"{"email":"marker@example.com","name":"marker","plan":"marker"}"#,
            r#"{"email":"marker@example.com","name":"marker\u0007"}"#,
            r#"{"email":"marker@example.com","name":"marker","locale":"marker marker"}"#,
            r#"{"email":{"marker":"marker"}}"#,
            r#"{"email":"marker@example.com" marker}"#,
            "marker",
            r#""marker""#,
        ] {
            let refusal = SignUp::parse(line.as_bytes()).expect_err(line);
            assert!(
                !format!("{refusal} {refusal:?}").contains(marker),
                "{refusal:?}"
            );
        }
        assert_eq!(
            Refusal::TooLong.to_string(),
            "the line is longer than 8192 bytes"
        );
    }
}
