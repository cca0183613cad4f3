//! Connection strings: what this crate reads itself is taken out of them, and
//! the rest goes to the driver.

use std::str::FromStr;

use duebox_core::DbError;

/// What `sslmode` can say, from none to all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SslMode {
    Disable,
    /// TLS if the server has it. `allow` is read as this: both take what there is.
    Prefer,
    /// TLS with whoever answers.
    Require,
    /// TLS with a certificate of a trusted authority.
    VerifyCa,
    /// TLS with a certificate of a trusted authority for this host.
    VerifyFull,
}

impl FromStr for SslMode {
    type Err = DbError;

    fn from_str(text: &str) -> Result<Self, DbError> {
        Ok(match text {
            "disable" => Self::Disable,
            "allow" | "prefer" => Self::Prefer,
            "require" => Self::Require,
            "verify-ca" => Self::VerifyCa,
            "verify-full" => Self::VerifyFull,
            _ => {
                return Err(DbError::invalid(
                    "sslmode is none of disable, allow, prefer, require, verify-ca and verify-full",
                ));
            }
        })
    }
}

/// A connection string, taken apart.
pub(crate) struct Parsed {
    pub(crate) driver: tokio_postgres::Config,
    pub(crate) mode: Option<SslMode>,
    pub(crate) root_cert: Option<String>,
}

/// Reads a URL, or settings as `key=value`. An error quotes nothing of it, since
/// any part may turn out to be of a password.
pub(crate) fn parse(text: &str) -> Result<Parsed, DbError> {
    let (rest, taken) = if text.starts_with("postgres://") || text.starts_with("postgresql://") {
        from_url(text)
    } else if is_other_url(text) {
        return Err(DbError::invalid(
            "the URL is not one of PostgreSQL; write postgres://user:password@host:port/database",
        ));
    } else {
        from_settings(text)?
    };
    let mut mode = None;
    let mut root_cert = None;
    for (key, value) in taken {
        match key {
            "sslmode" => mode = Some(value.parse()?),
            _ => root_cert = Some(value),
        }
    }
    let driver = rest.parse().map_err(|_| {
        DbError::invalid(
            "the connection string cannot be read; in a URL, write the special characters of a \
             password in percent encoding, and only parameters that are supported",
        )
    })?;
    Ok(Parsed {
        driver,
        mode,
        root_cert,
    })
}

/// Whether it is a URL with another scheme. The key of a setting holds no `:`.
fn is_other_url(text: &str) -> bool {
    let scheme = text.split_once("://").map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| !scheme.contains(|c: char| c == '=' || c.is_whitespace()))
}

/// The parameters that this crate reads.
fn ours(key: &str) -> Option<&'static str> {
    ["sslmode", "sslrootcert"]
        .into_iter()
        .find(|ours| *ours == key)
}

type Taken = Vec<(&'static str, String)>;

fn from_url(url: &str) -> (String, Taken) {
    // As the driver does, which lets a password hold a question mark.
    let host = url.find('@').map_or(0, |at| at + 1);
    let Some(mark) = url[host..].find('?').map(|mark| host + mark) else {
        return (url.to_owned(), Vec::new());
    };
    let (front, query) = (&url[..mark], &url[mark + 1..]);
    let mut taken = Vec::new();
    let mut rest = Vec::new();
    for pair in query.split('&') {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        match ours(key) {
            Some(key) => taken.push((key, percent_decoded(value))),
            None => rest.push(pair),
        }
    }
    let query = rest.join("&");
    (
        if query.is_empty() {
            front.to_owned()
        } else {
            format!("{front}?{query}")
        },
        taken,
    )
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let code = tail
            .get(..2)
            .and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// `key = value` separated by blanks; a value may stand in `'`, and `\` takes the
/// next character as it is.
fn from_settings(text: &str) -> Result<(String, Taken), DbError> {
    let mut taken = Vec::new();
    let mut rest = String::new();
    let mut left = text.trim_start();
    while !left.is_empty() {
        let broken = || {
            DbError::invalid(
                "the connection string is neither a URL, as \
                 postgres://user:password@host:port/database, nor settings, as host=… user=…",
            )
        };
        let (key, tail) = left.split_once('=').ok_or_else(broken)?;
        let from = tail.trim_start();
        let mut value = String::new();
        let mut characters = from.char_indices();
        let quoted = from.starts_with('\'');
        if quoted {
            characters.next();
        }
        let mut end = from.len();
        let mut closed = !quoted;
        while let Some((at, character)) = characters.next() {
            match character {
                '\\' => value.push(characters.next().ok_or_else(broken)?.1),
                '\'' if quoted => {
                    (end, closed) = (at + 1, true);
                    break;
                }
                _ if !quoted && character.is_whitespace() => {
                    end = at;
                    break;
                }
                _ => value.push(character),
            }
        }
        if !closed {
            return Err(broken());
        }
        if let Some(key) = ours(key.trim()) {
            taken.push((key, value));
        } else {
            rest.push_str(&left[..left.len() - tail.len()]);
            rest.push_str(&from[..end]);
            rest.push(' ');
        }
        left = from[end..].trim_start();
    }
    Ok((rest, taken))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_keeps_what_is_the_drivers() {
        let url = "postgres://u:p%40@h:1/d?sslmode=verify-full&application_name=x&sslrootcert=%2Fetc%2Fca+1.pem";
        let parsed = parse(url).unwrap();
        assert_eq!(parsed.mode, Some(SslMode::VerifyFull));
        assert_eq!(parsed.root_cert.as_deref(), Some("/etc/ca+1.pem"));
        assert_eq!(parsed.driver.get_application_name(), Some("x"));
        assert_eq!(parsed.driver.get_password(), Some(&b"p@"[..]));
        let parsed = parse("postgres://u:p?sslmode=x@h/d?sslmode=require").unwrap();
        assert_eq!(parsed.mode, Some(SslMode::Require));
        assert_eq!(parsed.driver.get_password(), Some(&b"p?sslmode=x"[..]));
        assert_eq!(
            parse("postgresql://h?sslmode=disable").unwrap().mode,
            Some(SslMode::Disable)
        );
    }

    #[test]
    fn settings_keep_what_is_the_drivers() {
        let text = r"host=h sslmode = 'verify-ca' password='a b\'c' sslrootcert=/a\ b.pem dbname=d";
        let parsed = parse(text).unwrap();
        assert_eq!(parsed.mode, Some(SslMode::VerifyCa));
        assert_eq!(parsed.root_cert.as_deref(), Some("/a b.pem"));
        assert_eq!(parsed.driver.get_password(), Some(&b"a b'c"[..]));
        assert_eq!(parsed.driver.get_dbname(), Some("d"));
    }

    #[test]
    fn what_is_not_read_is_told_with_the_form_that_is() {
        for (text, says) in [
            (
                "mysql://u:p@h/d",
                "not one of PostgreSQL; write postgres://user",
            ),
            ("http://h", "not one of PostgreSQL; write postgres://user"),
            ("mariadb://u@h/d?ssl-mode=REQUIRED", "not one of PostgreSQL"),
            ("localhost", "neither a URL, as postgres://user"),
            ("h:5432/d", "nor settings, as host=… user=…"),
        ] {
            let error = parse(text).err().expect(text).to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
        let settings = parse("host=h password=mysql://p").unwrap();
        assert_eq!(settings.driver.get_password(), Some(&b"mysql://p"[..]));
    }

    #[test]
    fn an_error_quotes_nothing() {
        for text in [
            "postgres://u:secret?x",
            "postgres://u:se cret@h:port/d",
            "host=h sslmode=secret",
            "secret",
            "mysql://secret:secret@secret/secret",
            "password='secret",
            "postgres://h/d?secret=1",
        ] {
            let error = parse(text).err().expect(text).to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
