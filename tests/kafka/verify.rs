//! The proof that an index matches a topic, also while the topic is written to and a worker delivers it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use revsync::operation::{Operation, Target};
use revsync::revision::{Document, VersionType};
use revsync::sink::Sink;
use revsync::sink::local::Local;
use serde_json::{Value, json};

use crate::command::{Done, Folder, revision};
use crate::kafka::{Sent, broker};
use crate::process::{Worker, held, note};

fn verify(folder: &Folder, source: &str, more: &[&str]) -> Done {
    folder.revsync(&[&["--json", "verify", source, "--to", "local:index.db"], more].concat())
}

fn target(index: &str, id: &str) -> Target {
    Target { index: index.into(), id: id.to_owned(), version: 1, version_type: VersionType::ExternalGte, routing: None }
}

/// Somebody writes to the index of the notes.
async fn by_hand(folder: &Folder, operation: impl Fn(&str) -> Operation) {
    let index = Local::open(&folder.path().join("index.db")).unwrap();
    index.write([operation("note")].into()).await.unwrap();
}

/// How many differences a report counts, but for those that a pipeline on its way makes.
fn strange(report: &Value) -> [&Value; 2] {
    [&report["foreign"], &report["ahead"]]
}

#[test]
fn a_topic_that_a_worker_delivers_while_it_is_written_to_shows_nothing_foreign_or_ahead() {
    let Some(broker) = broker() else { return };
    let (topic, folder) = (broker.topic("verified", 3), Folder::new());
    broker.produce(&topic, &(0..300).map(|i| note(i % 3, &format!("id-{i}"), 0, "first")).collect::<Vec<_>>());
    let worker = Worker::start(&folder, &broker.url(&topic), &[]);
    worker.wait_until_caught_up(3);
    let stops = AtomicBool::new(false);
    let rounds = thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut round = 0;
            while !stops.load(Ordering::Relaxed) {
                round += 1;
                let changes = (0..50).map(|i| match (round + i) % 5 {
                    0 => Sent::to(i as i32 % 3, revision("Note", &format!("id-{i}"), round, None)),
                    1 => note(i as i32 % 3, &format!("new-{round}-{i}"), 0, "new"),
                    _ => note(i as i32 % 3, &format!("id-{i}"), round, "again"),
                });
                broker.produce(&topic, &changes.collect::<Vec<_>>());
                // Slow enough that a loaded machine reads faster than this writes.
                thread::sleep(Duration::from_millis(300));
            }
            round
        });
        for _ in 0..3 {
            let done = verify(&folder, &broker.url(&topic), &[]);
            assert_eq!(strange(&done.json()), [&json!(0); 2], "{done:?}");
        }
        stops.store(true, Ordering::Relaxed);
        writer.join().unwrap()
    });
    assert!(rounds > 3, "it was written to: {rounds}");
    worker.wait_until_caught_up(3);
    let done = verify(&folder, &broker.url(&topic), &["--content"]);
    assert_eq!((done.exit, &done.json()["equal"]), (0, &json!(true)), "{done:?}");
    assert_eq!(worker.stop().0, 0);
}

#[tokio::test]
async fn what_a_topic_does_not_know_stays_because_it_may_be_older_and_the_rest_is_mended() {
    let Some(broker) = broker() else { return };
    let (topic, folder) = (broker.topic("mended", 1), Folder::new());
    broker.produce(&topic, &[note(0, "a", 1, "x"), note(0, "b", 1, "x"), note(0, "c", 1, "x")]);
    assert_eq!(folder.revsync(&["sync", &broker.url(&topic), "--to", "local:index.db"]).exit, 0);
    // The broker removes what is old, and the index keeps it.
    broker.trim(&topic, 0, 1);
    by_hand(&folder, |index| Operation::Delete { target: target(index, "c") }).await;
    let mended = verify(&folder, &broker.url(&topic), &["--repair"]);
    let report = mended.json();
    assert_eq!((mended.exit, &report["missing"], &report["left"]["missing"]), (1, &json!(1), &json!(0)), "{mended:?}");
    assert_eq!((&report["foreign"], &report["left"]["foreign"]), (&json!(1), &json!(1)), "{mended:?}");
    let remark =
        "note: 1 foreign documents stay, because the source may have dropped records, and these may be theirs; --force deletes them";
    assert_eq!(report["remarks"], json!([remark]));
    assert_eq!((held(&folder, "a"), held(&folder, "c")), (Some((1, "x".to_owned())), Some((1, "x".to_owned()))));
    let forced = verify(&folder, &broker.url(&topic), &["--repair", "--force"]);
    assert_eq!((forced.exit, held(&folder, "a")), (0, None), "{forced:?}");
}

#[tokio::test]
async fn what_a_topic_that_still_begins_at_its_first_offset_does_not_know_is_deleted() {
    let Some(broker) = broker() else { return };
    let (topic, folder) = (broker.topic("whole", 1), Folder::new());
    broker.produce(&topic, &[note(0, "a", 1, "x"), note(0, "b", 1, "x")]);
    assert_eq!(folder.revsync(&["sync", &broker.url(&topic), "--to", "local:index.db"]).exit, 0);
    by_hand(&folder, |index| Operation::Index { target: target(index, "stranger"), document: Document("{}".into()) }).await;
    let mended = verify(&folder, &broker.url(&topic), &["--repair"]);
    assert_eq!((mended.exit, &mended.json()["foreign"], held(&folder, "stranger")), (0, &json!(1), None), "{mended:?}");
}
