//! To come.

pub mod request;
