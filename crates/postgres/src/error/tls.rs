//! Why there is no TLS with the server, for both drivers. Where only other settings
//! can help, here or at the server, it is not to be tried again.

use std::error::Error;
use std::io;

use duebox_core::{DbError, Kind};

/// Whether the server answered that it has no TLS, where it was asked for. Neither
/// driver has a type for that.
pub(super) fn is_not_offered(cause: &(dyn Error + 'static)) -> bool {
    cause.to_string() == "server does not support TLS"
}

pub(super) fn not_offered() -> DbError {
    let message = "the server offers no TLS, which sslmode asks for; switch it on there";
    DbError::new(Kind::Unsupported, message).not_applied()
}

/// What rustls says, by itself or inside an error of input and output.
pub(super) fn refused(cause: &(dyn Error + 'static)) -> Option<DbError> {
    let inner = cause
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref);
    let inner = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>());
    inner.or_else(|| cause.downcast_ref()).map(untrusted)
}

fn untrusted(error: &rustls::Error) -> DbError {
    use rustls::CertificateError as Certificate;
    let rustls::Error::InvalidCertificate(why) = error else {
        return DbError::new(Kind::Unavailable, "no TLS with the server").not_applied();
    };
    let message = match why {
        Certificate::UnknownIssuer => {
            "the server's certificate is from no authority that is trusted; see sslrootcert"
        }
        Certificate::Expired | Certificate::ExpiredContext { .. } => {
            "the server's certificate has expired"
        }
        Certificate::NotValidForName | Certificate::NotValidForNameContext { .. } => {
            "the server's certificate is for another host name"
        }
        _ => "the server's certificate is not valid",
    };
    DbError::new(Kind::Unsupported, message).not_applied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waiting_does_not_cure_is_not_to_be_tried_again() {
        use rustls::{CertificateError, Error as Tls};
        let unknown = || Tls::InvalidCertificate(CertificateError::UnknownIssuer);
        let wrapped = io::Error::new(io::ErrorKind::InvalidData, unknown());
        for error in [refused(&unknown()), refused(&wrapped), Some(not_offered())] {
            let error = error.expect("an error of TLS");
            assert_eq!(error.kind(), Kind::Unsupported, "{error}");
            assert!(!error.is_retryable());
        }
        let broken = refused(&Tls::HandshakeNotComplete).expect("an error of TLS");
        assert!(broken.is_retryable(), "{broken}");
        let cut = io::Error::from(io::ErrorKind::UnexpectedEof);
        assert_eq!(refused(&cut), None);
    }

    #[cfg(feature = "sqlx")]
    #[test]
    fn sqlx_says_it_as_tokio_postgres_does() {
        let error = |cause: &str| super::super::sqlx_pool(&sqlx::Error::Tls(cause.into()), false);
        let none = error("server does not support TLS");
        assert_eq!(
            none.to_string(),
            "connect: the server offers no TLS, which sslmode asks for; switch it on there"
        );
        assert_eq!(error("built without TLS").kind(), Kind::Unsupported);
    }
}
