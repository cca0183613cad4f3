//! Why no connection was made, after which nothing was done. Where only other
//! settings can help, here or at the server, it is not to be tried again.

use std::io;

use duebox_core::{DbError, Kind};

use super::{Failure, sort};

/// Sorts an error in making a connection.
pub(crate) fn sort_connect(error: &sqlx::Error) -> Failure {
    use sqlx::Error;
    let failure = match error {
        Error::Io(cause) => Failure {
            broken: true,
            ..Failure::ours(certificate(cause).unwrap_or_else(|| {
                DbError::new(
                    Kind::Unavailable,
                    "no connection to the server could be made; see whether its address is right",
                )
            }))
        },
        // The driver has no type for it.
        Error::Tls(cause) if cause.to_string() == "server does not support TLS" => {
            Failure::ours(DbError::new(
                Kind::Unsupported,
                "the server offers no TLS, which ssl-mode asks for; switch it on there",
            ))
        }
        Error::Tls(_) | Error::Configuration(_) => Failure::ours(DbError::new(
            Kind::Unsupported,
            "no TLS with the server; see ssl-mode, ssl-ca, ssl-cert and ssl-key",
        )),
        error => sort(error),
    };
    failure.map(DbError::not_applied)
}

/// What rustls says of the server's certificate, inside an error of input and output.
fn certificate(cause: &io::Error) -> Option<DbError> {
    use rustls::CertificateError as Certificate;
    let cause = cause.get_ref()?.downcast_ref::<rustls::Error>()?;
    let rustls::Error::InvalidCertificate(why) = cause else {
        return Some(DbError::new(Kind::Unavailable, "no TLS with the server"));
    };
    let message = match why {
        Certificate::UnknownIssuer => {
            "the server's certificate is from no authority that is trusted; see ssl-ca"
        }
        Certificate::Expired | Certificate::ExpiredContext { .. } => {
            "the server's certificate has expired"
        }
        Certificate::NotValidForName | Certificate::NotValidForNameContext { .. } => {
            "the server's certificate is for another host name"
        }
        _ => "the server's certificate is not valid",
    };
    Some(DbError::new(Kind::Unsupported, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use duebox_core::Outcome;
    use rustls::CertificateError as Certificate;

    #[test]
    fn only_what_may_pass_is_to_be_tried_again() {
        let io = |cause: rustls::Error| {
            sqlx::Error::Io(io::Error::new(io::ErrorKind::InvalidData, cause))
        };
        let certificate = |why| io(rustls::Error::InvalidCertificate(why));
        for (cause, says, again) in [
            (certificate(Certificate::UnknownIssuer), "see ssl-ca", false),
            (certificate(Certificate::Expired), "has expired", false),
            (
                certificate(Certificate::NotValidForName),
                "another host name",
                false,
            ),
            (certificate(Certificate::BadSignature), "not valid", false),
            (io(rustls::Error::HandshakeNotComplete), "no TLS", true),
            (
                sqlx::Error::Tls("server does not support TLS".into()),
                "offers no TLS",
                false,
            ),
            (sqlx::Error::Tls("s3cr3t".into()), "see ssl-mode", false),
            (
                sqlx::Error::Io(io::Error::other("s3cr3t")),
                "no connection",
                true,
            ),
            (
                sqlx::Error::Io(io::ErrorKind::UnexpectedEof.into()),
                "no connection",
                true,
            ),
        ] {
            let error = sort_connect(&cause).error;
            assert_eq!(error.is_retryable(), again, "{error}");
            assert_eq!(error.outcome(), Outcome::NotApplied, "{error}");
            assert!(error.to_string().contains(says), "{error}");
            assert!(!format!("{error} {error:?}").contains("s3cr3t"), "{error}");
        }
    }
}
