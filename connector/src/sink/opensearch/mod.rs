//! The OpenSearch sink.

pub mod config;
pub mod request;
