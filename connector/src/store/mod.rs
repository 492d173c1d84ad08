//! What must survive a restart: dead letters and checkpoints; and what is too much for memory: the fold of a stream, the blocks of a journal.
//!
//! Decides nothing about what is stored, and reads no clock.

pub mod checkpoints;
pub mod dead_letters;
mod disk;
#[cfg(feature = "local")]
pub mod fold;
#[cfg(feature = "local")]
pub mod journal;
#[cfg(feature = "local")]
mod unnamed;
