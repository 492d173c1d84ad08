//! The command with its dead letters in a queue and in a bucket.

use serde_json::json;

use crate::aws::{CREDENTIALS, Emulator, REGION, emulator};
use crate::command::{Done, Folder, revision};

/// Runs the command as one who may use the emulator.
fn revsync(folder: &Folder, arguments: &[&str]) -> Done {
    let environment = [&CREDENTIALS[..], &[("AWS_REGION", REGION)]].concat();
    folder.revsync_with(arguments, &environment, b"")
}

/// A queue with a bucket for what is large, and a bucket by itself; as options.
pub(crate) fn places(emulator: &Emulator) -> [Vec<String>; 2] {
    let bucket = |what: &str| emulator.bucket_place(&emulator.bucket(&emulator.name(what)));
    let queue = emulator.queue_place(&emulator.queue(&emulator.name("letters"), json!({ "MaximumMessageSize": "16384" })));
    [
        vec!["--dead-letters".to_owned(), queue, "--dead-letters-large".to_owned(), bucket("large")],
        vec!["--dead-letters".to_owned(), bucket("letters")],
    ]
}

#[test]
fn letters_are_stored_listed_shown_and_replayed() {
    let Some(emulator) = emulator() else { return };
    for place in places(emulator) {
        let folder = Folder::new();
        let at: Vec<&str> = place.iter().map(String::as_str).collect();
        let with = |arguments: &[&str]| revsync(&folder, &[arguments, &at].concat());
        let (long, secret) = ("x".repeat(600), format!("{{Secret:\"hunter2\",Text:\"{}\"}}", "y".repeat(20_000)));
        folder.write(
            "s.ion",
            [revision("T", &long, 0, Some(&secret)), revision("U", &long, 0, Some("{}")), revision("U", "a", 0, Some("{}"))].concat(),
        );
        let synced = with(&["--json", "sync", "s.ion"]).balanced();
        assert_eq!((synced.exit, synced.count("indexed"), synced.count("dead_letters")), (1, 1, 2), "{synced:?}");

        let listed = with(&["dead-letters", "list"]);
        assert!(listed.exit == 0 && listed.out.contains("2 dead letters: 2 id_too_long"), "{listed:?}");
        assert!(!listed.out.contains("hunter2") && !listed.err.contains("hunter2"), "{listed:?}");
        let sample = listed.err.contains("a sample: 2 were looked at, and the queue reports about 2");
        assert_eq!(sample, at[1].starts_with("sqs:"), "{listed:?}");
        let listed = with(&["--json", "dead-letters", "list", "--table", "T"]).json();
        assert_eq!((listed["dead_letters"].as_array().unwrap().len(), &listed["complete"]), (1, &true.into()), "{listed}");
        let id = listed["dead_letters"][0]["id"].as_str().unwrap();

        let shown = with(&["dead-letters", "show", &id[..8]]);
        assert!(shown.exit == 0 && shown.out.contains("id_too_long") && !shown.out.contains("hunter2"), "{shown:?}");
        let shown = with(&["dead-letters", "show", &id[..8], "--payload"]);
        assert!(shown.exit == 0 && shown.out.contains("hunter2"), "{}: {shown:?}", at[1]);

        let dry = with(&["dead-letters", "replay", "--dry-run"]);
        assert_eq!((dry.exit, dry.out.matches(": id_too_long, expected").count()), (0, 2), "{dry:?}");
        folder.write("rules.toml", "[[table]]\nname = \"*\"\nlong_ids = \"hash\"\n");
        let dry = with(&["--json", "--config", "rules.toml", "dead-letters", "replay", "--dry-run", &id[..8]]);
        let told: serde_json::Value = serde_json::from_str(&dry.out).unwrap();
        assert_eq!((&told["letter"], &told["action"], &told["index"]), (&id.into(), &"index".into(), &"t".into()), "{dry:?}");

        let refused = with(&["--json", "dead-letters", "replay"]).balanced();
        assert_eq!((refused.exit, refused.count("received"), refused.count("dead_letters")), (1, 2, 2), "{refused:?}");
        let one = with(&["--json", "--config", "rules.toml", "dead-letters", "replay", &id[..8]]).balanced();
        assert_eq!((one.exit, one.count("indexed"), one.count("received")), (0, 1, 1), "{one:?}");
        let rest = with(&["--json", "--config", "rules.toml", "dead-letters", "replay"]).balanced();
        assert_eq!((rest.exit, rest.count("indexed"), rest.count("received")), (0, 1, 1), "{rest:?}");
        assert_eq!(with(&["dead-letters", "list"]).out, "no dead letters\n");
    }
}

#[test]
fn a_queue_is_looked_at_as_far_as_one_asks() {
    let Some(emulator) = emulator() else { return };
    let [queue, bucket] = places(emulator);
    for (place, command) in [(queue, "sqs"), (bucket, "s3")] {
        let folder = Folder::new();
        let at: Vec<&str> = place.iter().map(String::as_str).collect();
        let records: String = (0..12).map(|number| revision(&format!("T{number}"), &"x".repeat(600), 0, Some("{}"))).collect();
        folder.write("s.ion", records);
        assert_eq!(revsync(&folder, &[&["sync", "s.ion"], &at[..]].concat()).exit, 1);
        let listed = revsync(&folder, &[&["--json", "dead-letters", "list", "--limit", "3"], &at[..]].concat()).json();
        assert_eq!((listed["dead_letters"].as_array().unwrap().len(), &listed["complete"]), (3, &false.into()), "{command}: {listed}");
        let all = revsync(&folder, &[&["--json", "dead-letters", "list"], &at[..]].concat()).json();
        assert_eq!((all["dead_letters"].as_array().unwrap().len(), &all["complete"]), (12, &true.into()), "{command}: {all}");
    }
}

#[test]
fn check_says_whether_letters_can_be_stored() {
    let Some(emulator) = emulator() else { return };
    let folder = Folder::new();
    let [queue, bucket] = places(emulator);
    for (place, found) in [(queue, "keeps a letter for 4 d; messages of up to 16384 bytes"), (bucket, "can be written")] {
        let at: Vec<&str> = place.iter().map(String::as_str).collect();
        let checked = revsync(&folder, &[&["check", "-"], &at[..]].concat());
        assert!(checked.exit == 0 && checked.out.contains(found), "{checked:?}");
        let nowhere = [at[0], &at[1].replace("letters", "nowhere")];
        let checked = revsync(&folder, &[&["check", "-"], &nowhere[..], &at[2..]].concat());
        assert!(checked.exit == 2 && checked.out.contains("✗ dead letters"), "{checked:?}");
    }
}

#[test]
fn a_place_that_cannot_be_written_is_found_before_anything_is_read_or_written() {
    let Some(emulator) = emulator() else { return };
    let folder = Folder::new();
    folder.write("s.ion", revision("T", "a", 0, Some("{}")));
    let [queue, bucket] = places(emulator);
    for place in [queue, bucket] {
        let nowhere = place[1].replace("letters", "nowhere");
        let arguments =
            [&["sync", "s.ion", "--dead-letters", &nowhere], &place.iter().map(String::as_str).collect::<Vec<_>>()[2..]].concat();
        let done = revsync(&folder, &arguments);
        assert_eq!((done.exit, folder.path().join("revsync.db").exists()), (2, false), "{done:?}");
        assert!(done.err.contains("error: dead letters: "), "{done:?}");
    }
}
