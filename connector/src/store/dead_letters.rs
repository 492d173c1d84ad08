//! The dead-letter store.
