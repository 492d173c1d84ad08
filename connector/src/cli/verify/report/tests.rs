use super::*;
use crate::metrics::Counts;
use crate::plan::fold::Mend;
use crate::run::verify::Read;
use crate::store::fold::differences::Difference;

fn found(class: Class, id: &str, held: Option<u64>, folded: Option<u64>) -> Found {
    let difference = Difference {
        class,
        index: 0,
        id: id.to_owned(),
        routing: None,
        held,
        is_tombstone: false,
        folded,
        is_other: false,
        mend: Mend::Newest,
        row: None,
    };
    ("car".into(), difference)
}

fn findings() -> Findings {
    let sample = vec![found(Class::Missing, "a", None, Some(7)), found(Class::Stale, "b\u{1b}", Some(3), Some(5))];
    Findings {
        read: Read { units: 60, ..Read::default() },
        is_complete: true,
        documents: 20_231,
        indices: 3,
        found: Some(Comparison { counts: [1, 12, 0, 0, 0, 0], sample }),
        ..Findings::default()
    }
}

fn report(findings: &Findings) -> Report<'_> {
    Report { findings, source: "capture.ion".into(), sink: &SinkUrl::BulkStdout, seconds: 0.42, is_finished: true }
}

#[test]
fn what_is_different_is_counted_and_named_with_its_versions() {
    let findings = findings();
    let text = report(&findings).human(Paint(false));
    assert_eq!(
        text,
        "different: 20,231 documents in 3 indices  (capture.ion, 60 units, against bulk:-, 0.4 s)\n\ndifferent\n  \
         missing                1  the stream has them, the index does not\n  \
         stale                 12  the index holds something older, or other content\n\n  \
         missing           car/a  index none, stream 7\n  \
         stale             car/b\u{fffd}  index 3, stream 5\n  \
         stale             and 11 more; --sample 0 tells all\n"
    );
    assert_eq!(report(&findings).exit(), Exit::Attention);
}

#[test]
fn only_what_is_equal_proven_and_finished_is_good() {
    let equal = Findings { found: Some(Comparison::default()), ..findings() };
    assert_eq!(report(&equal).exit(), Exit::Done);
    assert!(report(&equal).human(Paint(false)).starts_with("equal: 20,231 documents in 3 indices  ("));
    let unusable = Findings { read: Read { unusable: 1, ..Read::default() }, found: Some(Comparison::default()), ..findings() };
    assert_eq!(report(&unusable).exit(), Exit::Attention);
    assert!(!report(&Findings { found: None, ..findings() }).is_equal());
    assert!(!Report { is_finished: false, ..report(&equal) }.is_equal());
}

#[test]
fn a_repair_is_judged_by_what_is_left() {
    let mended = Findings { repaired: Some(Counts::default()), left: Some(Comparison::default()), ..findings() };
    assert_eq!(report(&mended).exit(), Exit::Done);
    assert!(report(&mended).human(Paint(false)).starts_with("equal after the repair: "));
    let refused = Findings { repaired: Some(Counts { dead_letters: 1, ..Counts::default() }), ..findings() };
    assert_eq!(report(&refused).exit(), Exit::Attention);
    let json = report(&mended).json();
    assert_eq!((&json["equal"], &json["stale"], &json["left"]["stale"]), (&json!(true), &json!(12), &json!(0)));
    assert_eq!(
        json["differences"][1],
        json!({"class": "stale", "index": "car", "id": "b\u{1b}", "held": 3, "tombstone": false, "stream": 5, "content": false})
    );
}
