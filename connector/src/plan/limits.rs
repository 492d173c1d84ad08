//! What a server was found to take, learned from its refusals and kept for the life of the process.

/// The most bytes of uncompressed body that any request may have; below the 10 MiB of small managed domains with room for what grows.
pub const HARD_LIMIT: usize = 9 * 1024 * 1024;

/// The smallest limit that is learned: below this a refusal is about one document, not about the batch.
const FLOOR: usize = 64 * 1024;

/// The new limit after a body of `size` bytes was refused as too large, where the server may have `stated` its own.
///
/// A stated limit counts bytes on the wire; the limit here counts uncompressed bytes, so a stated one is only a hint to stay well below.
pub fn after_refusal(limit: usize, size: usize, stated: Option<usize>) -> usize {
    let half = size / 2;
    let hint = stated.map_or(half, |stated| half.max(stated / 10 * 9).min(size - size / 10));
    limit.min(hint.max(FLOOR))
}

/// How many requests may be under way after one has ended: half as many when the server asked for less, one more when it did not, up to `most`.
pub fn at_once(now: usize, most: usize, throttled: bool) -> usize {
    if throttled { (now / 2).max(1) } else { (now + 1).min(most) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_body_lowers_the_limit_and_never_raises_it() {
        assert_eq!(after_refusal(5_000_000, 4_000_000, None), 2_000_000);
        assert_eq!(after_refusal(1_000_000, 4_000_000, None), 1_000_000);
        assert_eq!(after_refusal(5_000_000, 4_000_000, Some(3_000_000)), 2_700_000);
        assert_eq!(after_refusal(5_000_000, 4_000_000, Some(10_485_760)), 3_600_000);
    }

    #[test]
    fn a_server_that_asks_for_less_gets_less_at_once_and_never_nothing() {
        assert_eq!([at_once(4, 4, true), at_once(1, 4, true), at_once(1, 4, false), at_once(4, 4, false)], [2, 1, 2, 4]);
    }

    #[test]
    fn one_refused_document_does_not_make_every_request_tiny() {
        assert_eq!(after_refusal(5_000_000, 100, None), FLOOR);
    }
}
