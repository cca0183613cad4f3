//! The SQL migrations of Duebox, embedded.
