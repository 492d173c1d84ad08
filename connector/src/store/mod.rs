//! What must survive a restart: dead letters .
//!
//! Decides nothing about what is stored, and reads no clock.

pub mod dead_letters;
