//! What `duebox-proof` checks; its README says how.

pub mod fuzz;
pub mod model;
