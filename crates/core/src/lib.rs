//! Ports, domain and SQL of Duebox.

mod dialect;
pub use dialect::Dialect;
