//! Bytes to revisions, pure. A record of any kind goes in; units come out, each a revision, a reason to skip, or a fault.
//!
//! Never panics on any input, never allocates more than a small multiple of what it was given, never reads anything but its arguments.

pub mod ion_json;
pub mod kpl;
pub mod qldb;
