//! What must survive a restart: dead letters (checkpoints join them with the first endless source).

pub mod dead_letters;
