//! Signatures by the [Standard Webhooks] scheme.
//!
//! [Standard Webhooks]: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::error::CliError;

/// What a secret is written with in front.
const PREFIX: &str = "whsec_";
/// How many bytes a secret has, by the scheme.
const BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// The secrets to sign by: more than one while receivers go over to a new one.
pub(super) struct Secrets(Vec<Hmac<Sha256>>);

impl Secrets {
    /// Those of these variables and files, each of which may hold several,
    /// separated by spaces or on lines of their own.
    pub(super) fn read(variables: &[String], files: &[impl AsRef<Path>]) -> Result<Self, CliError> {
        let mut secrets = Self(Vec::new());
        for name in variables {
            let text = std::env::var(name).map_err(|_| {
                CliError::usage("an environment variable of --secret-env is not set, or no text")
            })?;
            secrets.add("--secret-env", &text)?;
        }
        for path in files {
            let text = std::fs::read_to_string(path)
                .map_err(|error| CliError::Io("read a file of --secret-file", error))?;
            secrets.add("--secret-file", &text)?;
        }
        Ok(secrets)
    }

    fn add(&mut self, from: &str, text: &str) -> Result<(), CliError> {
        let before = self.0.len();
        for secret in text.split_whitespace() {
            let key = secret.strip_prefix(PREFIX);
            let key = key.and_then(|key| STANDARD.decode(key).ok());
            let key = key.filter(|key| BYTES.contains(&key.len()));
            let mac = key.and_then(|key| Hmac::new_from_slice(&key).ok());
            self.0.push(mac.ok_or_else(|| {
                CliError::usage(format!(
                    "a secret of {from} is not whsec_ and the base64 of 24 to 64 bytes; \
                     make one with: echo whsec_$(openssl rand -base64 32)"
                ))
            })?);
        }
        if self.0.len() == before {
            return Err(CliError::usage(format!("{from} names an empty secret")));
        }
        Ok(())
    }

    /// The header `webhook-signature`; `None` if nothing is signed. `timestamp`
    /// is in seconds.
    pub(super) fn sign(&self, id: &str, timestamp: i64, payload: &[u8]) -> Option<String> {
        if self.0.is_empty() {
            return None;
        }
        let signed = format!("{id}.{timestamp}.");
        let signatures = self.0.iter().map(|mac| {
            let mac = mac.clone().chain_update(&signed).chain_update(payload);
            format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
        });
        Some(signatures.collect::<Vec<_>>().join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(text: &str) -> Result<Secrets, CliError> {
        let mut secrets = Secrets(Vec::new());
        secrets.add("--secret-env", text).map(|()| secrets)
    }

    /// The vector that the scheme's own libraries are tested with.
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

    fn sign(secrets: &Secrets) -> Option<String> {
        let payload = br#"{"test": 2432232314}"#;
        secrets.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, payload)
    }

    #[test]
    fn the_vector_of_the_scheme_is_signed_as_it_says() {
        let secrets = secrets(SECRET).expect("a secret");
        assert_eq!(sign(&secrets).as_deref(), Some(SIGNATURE));
    }

    #[test]
    fn each_secret_gives_one_signature_separated_by_spaces() {
        let other = format!("whsec_{}", STANDARD.encode([7; 64]));
        let secrets = secrets(&format!("{SECRET}\n {other}\n")).expect("secrets");
        let signed = sign(&secrets).expect("a signature");
        let (first, second) = signed.split_once(' ').expect("two");
        assert_eq!(first, SIGNATURE);
        assert!(second.starts_with("v1,") && second != first && !second.contains(' '));
    }

    #[test]
    fn what_is_no_secret_is_refused_without_quoting_it() {
        let short = format!("whsec_{}", STANDARD.encode([7; 23]));
        let long = format!("whsec_{}", STANDARD.encode([7; 65]));
        let bare = STANDARD.encode([7; 32]);
        for text in ["", " \n", "whsec_", "whsec_?", &short, &long, &bare] {
            let error = secrets(text).err().expect(text).to_string();
            assert!(
                text.trim().len() < 8 || !error.contains(&text[7..]),
                "{error}"
            );
        }
    }

    #[test]
    fn without_a_secret_nothing_is_signed() {
        assert_eq!(sign(&Secrets(Vec::new())), None);
    }
}
