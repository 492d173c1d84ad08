use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::revision::VersionType::{External, ExternalGte};

fn fold(said: &[(Said, u64)], version_type: VersionType) -> Folded {
    let mut folded = Folded::default();
    for (said, version) in said {
        folded.take(*said, *version, version_type);
    }
    folded
}

const DOCUMENT: Said = Said::Is(State::Document);
const DELETED: Said = Said::Is(State::Deleted);
const TOMBSTONE: Said = Said::Is(State::Tombstone);
const ERASED: Said = Said::Erased(State::Deleted);
const ERASED_BY_TOMBSTONE: Said = Said::Erased(State::Tombstone);
const REDACTED: Said = Said::Is(State::Redacted);

fn document(version: u64) -> Option<Held> {
    Some(Held { version, is_tombstone: false, is_other: false, is_redacted: false })
}

fn tombstone(version: u64) -> Option<Held> {
    Some(Held { version, is_tombstone: true, is_other: false, is_redacted: false })
}

fn other(version: u64) -> Option<Held> {
    Some(Held { version, is_tombstone: false, is_other: true, is_redacted: false })
}

#[test]
fn the_highest_version_stands_in_every_order_and_of_a_tie_the_later_or_the_first() {
    let stands = |said: &[(Said, u64)], version_type| fold(said, version_type).newest.unwrap();
    for version_type in [External, ExternalGte] {
        for order in [[(DOCUMENT, 4), (DELETED, 7), (DOCUMENT, 0)], [(DELETED, 7), (DOCUMENT, 0), (DOCUMENT, 4)]] {
            assert_eq!(stands(&order, version_type), Newest { version: 7, state: State::Deleted });
        }
    }
    assert_eq!(stands(&[(DOCUMENT, 5), (DELETED, 5)], ExternalGte).state, State::Deleted);
    assert_eq!(stands(&[(DOCUMENT, 5), (DELETED, 5)], External).state, State::Document);
}

#[test]
fn a_redaction_stands_before_a_put_of_its_version_whichever_comes_first() {
    for order in [[(DOCUMENT, 5), (Said::Redacted, 5)], [(Said::Redacted, 5), (DOCUMENT, 5)]] {
        let folded = fold(&order, External);
        assert_eq!((folded.newest, folded.version()), (None, Some(5)));
    }
    let newer = fold(&[(DOCUMENT, 5), (Said::Redacted, 5), (DOCUMENT, 6), (Said::Redacted, 5)], External);
    assert_eq!((newer.newest.unwrap().version, newer.redacted), (6, vec![5]));
}

#[test]
fn a_redaction_that_erases_stands_before_a_put_of_its_version_and_before_what_is_older() {
    for order in [[(DOCUMENT, 5), (ERASED, 5), (DOCUMENT, 3)], [(ERASED, 5), (DOCUMENT, 3), (DOCUMENT, 5)]] {
        let folded = fold(&order, External);
        assert_eq!((folded.newest, &*folded.redacted), (Some(Newest { version: 5, state: State::Deleted }), &[5][..]));
    }
    let newer = fold(&[(DOCUMENT, 6), (ERASED_BY_TOMBSTONE, 5), (DOCUMENT, 5)], External);
    assert_eq!(newer.newest, Some(Newest { version: 6, state: State::Document }));
}

#[test]
fn a_document_of_a_history_holds_no_content_that_was_redacted() {
    use Class::{Ahead, Missing, RedactedPresent, Stale};
    let mut redacted = Folded::default();
    for (said, version_type) in [(DOCUMENT, External), (REDACTED, ExternalGte), (DOCUMENT, External)] {
        redacted.take(said, 5, version_type);
    }
    let held = |is_redacted, is_other| Some(Held { version: 5, is_tombstone: false, is_other, is_redacted });
    let judged = |held| judge(Some(&redacted), held).map(|(class, mend)| (class, mend == Mend::Newest));
    assert_eq!(judged(None), Some((Missing, true)));
    assert_eq!(judged(held(false, false)), Some((RedactedPresent, true)));
    assert_eq!(judged(held(true, false)), None);
    assert_eq!(judged(held(true, true)), Some((Stale, true)));
    let put = fold(&[(DOCUMENT, 5)], External);
    assert_eq!(judge(Some(&put), held(true, true)), Some((Ahead, Mend::Nothing)), "content that was removed does not come back");
}

#[test]
fn what_does_not_count_makes_an_id_known_and_nothing_else() {
    let known = fold(&[(Said::Nothing, 9)], External);
    for held in [None, document(3), tombstone(12)] {
        assert_eq!(judge(Some(&known), held), None);
    }
    let kept = fold(&[(DOCUMENT, 3), (Said::Nothing, 9)], External);
    assert_eq!(judge(Some(&kept), document(3)), None);
}

/// What the stream says, what is held, and what comes of it.
type Field = (&'static [(Said, u64)], Option<Held>, Option<(Class, Mend)>);

#[test]
fn every_field_of_the_table_has_its_class_and_what_mends_it() {
    use Class::{Ahead, Foreign, Missing, RedactedPresent, Resurrected, Stale};
    use Mend::{Erase, Newest, Nothing};
    let fields: [Field; 44] = [
        (&[(DOCUMENT, 5)], None, Some((Missing, Newest))),
        (&[(DOCUMENT, 5)], tombstone(4), Some((Missing, Newest))),
        (&[(DOCUMENT, 5)], tombstone(5), Some((Missing, Newest))),
        (&[(DOCUMENT, 5)], tombstone(6), Some((Ahead, Nothing))),
        (&[(DOCUMENT, 5)], document(4), Some((Stale, Newest))),
        (&[(DOCUMENT, 5)], document(5), None),
        (&[(DOCUMENT, 5)], other(5), Some((Stale, Newest))),
        (&[(DOCUMENT, 5)], document(6), Some((Ahead, Nothing))),
        (&[(DELETED, 5)], None, None),
        (&[(DELETED, 5)], tombstone(4), Some((Stale, Newest))),
        (&[(DELETED, 5)], tombstone(5), None),
        (&[(DELETED, 5)], tombstone(6), Some((Ahead, Nothing))),
        (&[(DELETED, 5)], document(4), Some((Resurrected, Newest))),
        (&[(DELETED, 5)], document(5), Some((Resurrected, Newest))),
        (&[(DELETED, 5)], document(6), Some((Ahead, Nothing))),
        (&[(TOMBSTONE, 5)], None, Some((Missing, Newest))),
        (&[(TOMBSTONE, 5)], tombstone(4), Some((Stale, Newest))),
        (&[(TOMBSTONE, 5)], tombstone(5), None),
        (&[(TOMBSTONE, 5)], document(5), Some((Resurrected, Newest))),
        (&[(TOMBSTONE, 5)], document(6), Some((Ahead, Nothing))),
        // A redacted version below the newest.
        (&[(Said::Redacted, 2), (DOCUMENT, 5)], document(2), Some((RedactedPresent, Newest))),
        (&[(Said::Redacted, 2), (DELETED, 5)], document(2), Some((RedactedPresent, Newest))),
        (&[(Said::Redacted, 2), (DOCUMENT, 5)], document(3), Some((Stale, Newest))),
        (&[(Said::Redacted, 2), (DOCUMENT, 5)], document(5), None),
        // A redaction that is the newest.
        (&[(Said::Redacted, 5)], None, None),
        (&[(Said::Redacted, 5)], document(5), Some((RedactedPresent, Erase(5)))),
        (&[(Said::Redacted, 4), (Said::Redacted, 5)], document(4), Some((RedactedPresent, Erase(5)))),
        (&[(Said::Redacted, 5)], document(6), Some((Ahead, Nothing))),
        (&[(Said::Redacted, 5)], document(4), None),
        (&[(Said::Redacted, 5)], tombstone(5), None),
        (&[(Said::Redacted, 5), (DOCUMENT, 3)], None, None),
        (&[(Said::Redacted, 5), (DOCUMENT, 3)], document(2), Some((Stale, Newest))),
        (&[(Said::Redacted, 5), (DOCUMENT, 3)], document(3), None),
        (&[(Said::Redacted, 5), (DELETED, 3)], document(2), Some((Resurrected, Newest))),
        (&[(Said::Redacted, 5), (Said::Redacted, 2), (DOCUMENT, 3)], document(2), Some((RedactedPresent, Newest))),
        (&[(Said::Redacted, 5), (DOCUMENT, 3)], tombstone(6), Some((Ahead, Nothing))),
        // A redaction that is the newest, and erases.
        (&[(ERASED, 5), (DOCUMENT, 3)], None, None),
        (&[(ERASED, 5), (DOCUMENT, 3)], document(3), Some((Resurrected, Newest))),
        (&[(ERASED, 5), (DOCUMENT, 3)], document(5), Some((RedactedPresent, Newest))),
        (&[(ERASED, 5)], document(6), Some((Ahead, Nothing))),
        (&[(ERASED, 5)], tombstone(4), Some((Stale, Newest))),
        (&[(ERASED_BY_TOMBSTONE, 5)], tombstone(5), None),
        (&[(ERASED, 2), (DOCUMENT, 5)], document(2), Some((RedactedPresent, Newest))),
        (&[(ERASED, 2), (DOCUMENT, 5)], document(5), None),
    ];
    for (said, held, expected) in fields {
        assert_eq!(judge(Some(&fold(said, External)), held), expected, "{said:?} and {held:?}");
    }
    assert_eq!(judge(None, document(7)), Some((Foreign, Erase(7))));
    assert_eq!((judge(None, tombstone(7)), judge(None, None)), (None, None));
}

/// One id of an index, as OpenSearch has it.
#[derive(Debug, Clone, Copy, Default)]
struct Index {
    held: Option<Held>,
    /// The version of a delete that it remembers without a document.
    remembered: Option<u64>,
}

impl Index {
    /// Writes under `external_gte`; whether it was done.
    fn write(&mut self, version: u64, state: State) -> bool {
        if self.held.map(|held| held.version).max(self.remembered).is_some_and(|there| there > version) {
            return false;
        }
        *self = match state {
            State::Document | State::Redacted => Self { held: document(version), remembered: None },
            State::Tombstone => Self { held: tombstone(version), remembered: None },
            State::Deleted => Self { held: None, remembered: Some(version) },
        };
        true
    }
}

fn damage() -> impl Strategy<Value = Index> {
    let held = prop_oneof![Just(None), (0..9u64).prop_map(document), (0..9u64).prop_map(tombstone), (0..9u64).prop_map(other),];
    (held, prop::option::of(0..12u64)).prop_map(|(held, remembered)| Index { held, remembered: remembered.filter(|_| held.is_none()) })
}

fn history() -> impl Strategy<Value = Vec<(Said, u64)>> {
    let said =
        prop::sample::select(vec![DOCUMENT, DOCUMENT, DELETED, TOMBSTONE, Said::Redacted, ERASED, ERASED_BY_TOMBSTONE, Said::Nothing]);
    prop::collection::vec((said, 0..9u64), 0..8)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

    #[test]
    fn whatever_the_damage_what_was_mended_is_as_it_should_be_and_nothing_newer_was_touched(
        history in history(),
        gte in any::<bool>(),
        damaged in damage(),
    ) {
        let folded = (!history.is_empty()).then(|| fold(&history, if gte { ExternalGte } else { External }));
        let mut index = damaged;
        match judge(folded.as_ref(), index.held) {
            None => return Ok(()),
            Some((class, Mend::Nothing)) => {
                prop_assert_eq!(class, Class::Ahead);
                prop_assert!(damaged.held.unwrap().version > folded.unwrap().version().unwrap());
                return Ok(());
            }
            Some((_, mend)) => {
                let (version, state) = match mend {
                    Mend::Erase(version) => (version, State::Deleted),
                    _ => folded.as_ref().and_then(|folded| folded.newest).map(|newest| (newest.version, newest.state)).unwrap(),
                };
                if !index.write(version, state) {
                    // Only the memory of a delete stands against it, never something that is held.
                    prop_assert!(index.remembered.is_some_and(|remembered| remembered > version));
                    index.remembered = None;
                    prop_assert!(index.write(version, state));
                }
            }
        }
        prop_assert_eq!(judge(folded.as_ref(), index.held), None);
    }

    #[test]
    fn without_redactions_every_order_comes_to_one_fold(history in history(), order in any::<prop::sample::Index>()) {
        let mut history: Vec<_> = history.into_iter().filter(|(said, _)| *said != Said::Redacted).collect();
        // Of one version there is one revision.
        history.sort_by_key(|(_, version)| *version);
        history.dedup_by_key(|(_, version)| *version);
        let expected = fold(&history, External);
        let middle = order.index(history.len() + 1);
        history.rotate_left(middle);
        prop_assert_eq!(fold(&history, External), expected);
    }
}

/// A revision of a document as a fold is told of it.
fn told() -> impl Strategy<Value = (Said, u64)> {
    let said = prop_oneof![
        4 => Just(Said::Is(State::Document)),
        1 => Just(Said::Is(State::Deleted)),
        1 => Just(Said::Redacted),
        1 => Just(Said::Erased(State::Deleted)),
        1 => Just(Said::Nothing),
    ];
    (said, 0_u64..4)
}

/// What an index comes to that is sent these, of those that are no redaction.
fn come_to(sent: impl Iterator<Item = (State, u64, bool)>, ties: VersionType) -> Option<(State, u64)> {
    sent.fold(None, |held: Option<(State, u64)>, (state, version, erases)| match held {
        Some((_, newest)) if newest > version || newest == version && ties == VersionType::External && !erases => held,
        _ => Some((state, version)),
    })
}

proptest! {
    #[test]
    fn what_is_sifted_comes_to_what_everything_comes_to_but_for_what_was_redacted(
        told in prop::collection::vec(told(), 0..12),
        ties in prop_oneof![Just(VersionType::External), Just(VersionType::ExternalGte)],
    ) {
        // Where clocks cannot tie, of one version there is one revision, however often it comes.
        let mut states = HashMap::new();
        let told: Vec<_> = told.into_iter().filter(|(said, version)| match said {
            Said::Is(state) if ties == VersionType::External => states.entry(*version).or_insert(*state) == state,
            _ => true,
        }).collect();
        let (mut folded, mut stood) = (Folded::default(), None);
        for (at, (said, version)) in told.iter().enumerate() {
            if folded.take(*said, *version, ties) {
                stood = Some(at);
            }
        }
        let redacted: Vec<u64> = told.iter().filter(|(said, _)| matches!(said, Said::Redacted | Said::Erased(_))).map(|(_, version)| *version).collect();
        let operations = || told.iter().enumerate().filter_map(|(at, (said, version))| match said {
            Said::Is(state) => Some((at, *state, *version, false)),
            Said::Erased(state) => Some((at, *state, *version, true)),
            Said::Redacted | Said::Nothing => None,
        });
        let sifted: Vec<_> = operations()
            .filter(|(at, state, version, _)| folded.sift(*state, *version, stood == Some(*at)) == Sifted::Stands)
            .collect();
        let of = |(_, state, version, erases): (usize, State, u64, bool)| (state, version, erases);
        let all = operations().filter(|(_, state, version, _)| *state != State::Document || !redacted.contains(version));
        prop_assert_eq!(come_to(sifted.iter().copied().map(of), ties), come_to(all.map(of), ties), "{:?}", sifted);
        // Where nothing of it was redacted, it is written once.
        prop_assert!(!redacted.is_empty() || sifted.len() <= 1, "{:?}", sifted);
    }
}
