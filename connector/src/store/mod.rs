//! What must survive a restart: dead letters and checkpoints.
//!
//! Decides nothing about what is stored, and reads no clock.

pub mod checkpoints;
pub mod dead_letters;
mod disk;
