//! What may go better later: other transactions (class 40), locks, cancellation,
//! and resources (class 53).

use duebox_core::Kind;

use super::{Meaning, Rerun, class, undone};

pub(super) fn meaning(code: &str) -> Option<Meaning> {
    Some(match code {
        // serialization_failure
        "40001" => undone(
            Kind::Busy,
            "gave way to another transaction that changed the same rows",
        )
        .rerun(Rerun::Contention),
        // deadlock_detected
        "40P01" => undone(Kind::Busy, "gave way to another transaction in a deadlock")
            .rerun(Rerun::Contention),
        // lock_not_available
        "55P03" => undone(Kind::Busy, "a lock was not to be had in time"),
        // query_canceled
        "57014" => undone(Kind::Busy, "the statement took too long or was cancelled"),
        // object_in_use
        "55006" => undone(Kind::Busy, "what it works on is in use"),
        // too_many_connections
        "53300" => undone(Kind::Busy, "the server has no connection left"),
        // insufficient_resources: disk_full, out_of_memory and the like
        _ if class(code) == "53" => undone(
            Kind::Busy,
            "the server is out of memory, disk or another resource",
        ),
        _ => return None,
    })
}
