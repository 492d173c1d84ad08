//! The OpenSearch sink.

pub mod config;
mod redact;
mod reply;
pub mod request;
