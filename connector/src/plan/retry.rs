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
        Class::Contended => (50, 2_000, None),
        Class::Unknown => (200, 5_000, Some(10)),
        Class::Refused => (5_000, 30_000, None),
    };
    Policy { base: Duration::from_millis(base), cap: Duration::from_millis(cap), tries }
}

/// The longest wait that a server's `Retry-After` is heeded for; what asks for more is asked again then.
pub const LONGEST_AFTER: Duration = Duration::from_secs(60 * 60);

/// The name of a class, as the kind of a fault that a whole request had.
pub fn name(class: Class) -> &'static str {
    match class {
        Class::Throttled => "throttled",
        Class::Unavailable => "unavailable",
        Class::Blocked => "blocked",
        Class::Contended => "contended",
        Class::Unknown => "unknown",
        Class::Refused => "refused",
    }
}

/// Whether one operation's trouble of this class is its index's, so that the rest of the index waits with it and other indices do not.
pub fn concerns_the_index(class: Class) -> bool {
    matches!(class, Class::Unavailable | Class::Blocked)
}
