//! The services of the examples as their users run them: started, asked, killed, started
//! again; and nothing is lost.
//!
//! `cargo test` builds the examples first, unless it is given the name of a test: then
//! build them yourself, or what runs is what was built before.

mod place;
mod push;
mod web;
