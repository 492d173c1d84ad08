//! The shell: the order of effects, time and shutdown. Everything that waits, waits here.
//!
//! [`deliver`] is the whole line from record to settled; `traffic` is what of it is under way, and `request` the one retry loop. Decides
//! nothing itself: that is [`plan`](crate::plan).

mod backoff;
pub mod choice;
pub mod clock;
pub mod deliver;
pub mod explain;
mod letters;
mod notices;
mod part;
pub mod replay;
mod request;
pub mod sync;
mod traffic;
