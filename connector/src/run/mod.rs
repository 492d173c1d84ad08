//! The shell: the order of effects, time and shutdown. Everything that waits, waits here.
