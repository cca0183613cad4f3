//! Addresses. The driver passes over what it does not know in them, so that a
//! misspelt `ssl-mode` would leave a connection in plain text: what it would pass
//! over, or use for something else than was meant, is refused here.

use duebox_core::DbError;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use sqlx::mysql::{MySqlConnectOptions, MySqlSslMode};

const FORM: &str = "it is like mysql://user:password@host:3306/database";

/// The parameters, by every name that the driver has for each; the first is told.
const KNOWN: [&[&str]; 9] = [
    &["charset"],
    &["collation"],
    &["socket"],
    &["ssl-ca", "sslca"],
    &["ssl-cert", "sslcert"],
    &["ssl-key", "sslkey"],
    &["ssl-mode", "sslmode"],
    &["statement-cache-capacity"],
    &["timezone", "time-zone"],
];

/// Reads an address. An error quotes nothing of it but the names of parameters,
/// since any other part may turn out to be of a password.
pub(crate) fn parse(text: &str) -> Result<MySqlConnectOptions, DbError> {
    let rest = match text.split_once("://") {
        Some((scheme, rest)) if is_ours(scheme) => rest,
        _ => {
            return Err(DbError::invalid(format!(
                "the address is no mysql:// or mariadb:// URL; {FORM}"
            )));
        }
    };
    // What stands behind the host has no place for these, so a password holds them
    // and was cut in two.
    let host = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    if rest[host..].contains(['@', '#']) {
        return Err(DbError::invalid(
            "the address has an @ or # behind its host; write the special characters of a \
             password or of a value in percent encoding",
        ));
    }
    let query = rest.split_once('?').map_or("", |(_, query)| query);
    check(&given(query)?)?;
    text.parse().map_err(|_| {
        DbError::invalid(format!(
            "the address cannot be read; {FORM}, with the special characters of a password in \
             percent encoding"
        ))
    })
}

fn is_ours(scheme: &str) -> bool {
    ["mysql", "mariadb"]
        .iter()
        .any(|ours| scheme.eq_ignore_ascii_case(ours))
}

/// The parameters that are given, by their first names, with their values.
fn given(query: &str) -> Result<Vec<(&'static str, String)>, DbError> {
    let mut given: Vec<(&str, String)> = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').ok_or_else(|| {
            DbError::invalid("a parameter of the address has no value; write it as name=value")
        })?;
        let name = KNOWN
            .iter()
            .find(|names| names.contains(&key))
            .ok_or_else(|| unknown(key))?[0];
        if given.iter().any(|(other, _)| *other == name) {
            return Err(DbError::invalid(format!(
                "the address has the parameter {name} twice"
            )));
        }
        given.push((name, decoded(value)));
    }
    Ok(given)
}

fn unknown(key: &str) -> DbError {
    let known = KNOWN.map(|names| names[0]).join(", ");
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name = if (1..=40).contains(&key.len()) && key.chars().all(is_name) {
        format!(" {key:?}")
    } else {
        String::new()
    };
    DbError::invalid(format!(
        "the address has a parameter{name} that is not known; known are {known}"
    ))
}

fn check(given: &[(&'static str, String)]) -> Result<(), DbError> {
    let is_given = |name: &str| given.iter().any(|(other, _)| *other == name);
    for (name, value) in given {
        match *name {
            "ssl-mode" if value.parse::<MySqlSslMode>().is_err() => {
                return Err(DbError::invalid(
                    "ssl-mode is none of DISABLED, PREFERRED, REQUIRED, VERIFY_CA and \
                     VERIFY_IDENTITY",
                ));
            }
            "ssl-ca" | "ssl-cert" => certificates(name, value)?,
            "ssl-key" => {
                PrivateKeyDer::from_pem_slice(&pem(name, value)?).map_err(|_| {
                    DbError::invalid("the file of ssl-key has no private key in PEM")
                })?;
            }
            "statement-cache-capacity" if value.parse::<usize>().is_err() => {
                return Err(DbError::invalid("statement-cache-capacity is not a number"));
            }
            "charset" if !value.eq_ignore_ascii_case("utf8mb4") => {
                return Err(DbError::invalid("charset can only be utf8mb4 here"));
            }
            "timezone" if value != "+00:00" => {
                return Err(DbError::invalid(
                    "timezone can only be that of UTC here, written %2B00:00",
                ));
            }
            _ => {}
        }
    }
    if is_given("ssl-ca") && !is_given("ssl-mode") {
        return Err(DbError::invalid(
            "ssl-ca alone verifies nothing; add ssl-mode=VERIFY_IDENTITY, or VERIFY_CA",
        ));
    }
    if is_given("ssl-cert") != is_given("ssl-key") {
        return Err(DbError::invalid(
            "ssl-cert and ssl-key belong together; give both or neither",
        ));
    }
    Ok(())
}

fn certificates(name: &str, value: &str) -> Result<(), DbError> {
    let mut usable = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem(name, value)?) {
        let added = certificate.is_ok_and(|certificate| usable.add(certificate).is_ok());
        if !added {
            return Err(no_certificates(name));
        }
    }
    if usable.is_empty() {
        return Err(no_certificates(name));
    }
    Ok(())
}

fn no_certificates(name: &str) -> DbError {
    DbError::invalid(format!(
        "the file of {name} has no certificates in PEM, or one that cannot be read"
    ))
}

/// What a value holds: a text in PEM, or else the path of one.
fn pem(name: &str, value: &str) -> Result<Vec<u8>, DbError> {
    let trimmed = value.trim();
    if trimmed.starts_with("-----BEGIN") && trimmed.ends_with("-----") {
        return Ok(value.as_bytes().to_vec());
    }
    std::fs::read(value).map_err(|_| DbError::invalid(format!("the file of {name} cannot be read")))
}

/// A value as the driver reads it: `%2B` is a plus, and a plus is a blank.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let code = tail
            .get(..2)
            .filter(|code| *first == b'%' && code.iter().all(u8::is_ascii_hexdigit))
            .and_then(|code| std::str::from_utf8(code).ok())
            .and_then(|code| u8::from_str_radix(code, 16).ok());
        rest = if let Some(byte) = code {
            bytes.push(byte);
            &tail[2..]
        } else {
            bytes.push(if *first == b'+' { b' ' } else { *first });
            tail
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests;
