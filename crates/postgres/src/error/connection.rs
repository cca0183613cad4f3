//! The connection, or the server behind it, ends: class 08, and operator
//! intervention (class 57).

use duebox_core::Kind;

use super::{Meaning, class, open};

pub(super) fn meaning(code: &str) -> Option<Meaning> {
    Some(match code {
        // cannot_connect_now
        "57P03" => open(
            Kind::Unavailable,
            "the server is starting up or shutting down",
        ),
        // admin_shutdown, crash_shutdown
        "57P01" | "57P02" => open(Kind::Unavailable, "the server ended the connection"),
        // idle_session_timeout, idle_in_transaction_session_timeout, transaction_timeout
        "57P05" | "25P03" | "25P04" => {
            open(Kind::Unavailable, "the server timed the connection out")
        }
        // protocol_violation, which PgBouncer reports its own troubles with
        "08P01" => open(
            Kind::Unavailable,
            "the connection did not follow the protocol",
        ),
        _ if class(code) == "08" => open(Kind::Unavailable, "the connection failed"),
        _ => return None,
    })
}
