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
