//! The services of the examples as their users run them: started, asked, killed, started
//! again; and nothing is lost.

mod place;
mod push;
mod web;
