//! How soon and how often something is tried again, per class. The waiting itself is `run/backoff.rs`.

use std::time::Duration;

use super::outcome::Class;

/// Waits between tries of one class: full jitter below an exponential ceiling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// The ceiling of the first wait.
    pub base: Duration,
    /// The highest ceiling.
    pub cap: Duration,
    /// Tries after which the operation is a dead letter; `None` tries until the run's own budget ends.
    pub tries: Option<u32>,
}

/// The policy of a class.
pub fn policy(class: Class) -> Policy {
    let (base, cap, tries) = match class {
        Class::Throttled => (100, 10_000, None),
        Class::Unavailable => (200, 10_000, None),
        Class::Blocked => (1_000, 30_000, None),
        Class::Unknown => (200, 5_000, Some(10)),
    };
    Policy { base: Duration::from_millis(base), cap: Duration::from_millis(cap), tries }
}
