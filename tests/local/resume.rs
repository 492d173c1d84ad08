//! `sync --resume`: a run that was interrupted goes on where it was, and never past anything that is not settled.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Child, Stdio};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use revsync::sink::local::Local;
use serde_json::{Value, json};

use crate::command::{Done, Folder, revision};
use crate::dice::Dice;
use crate::ledger::{Ledger, Output, PREFIX};

/// A folder of captured files in several forms, of which later ones have newer revisions of the same documents; and the versions that stand.
fn capture(folder: &Folder, files: usize, in_each: usize) -> BTreeMap<String, u64> {
    std::fs::create_dir(folder.path().join("export")).unwrap();
    let mut newest = BTreeMap::new();
    for file in 0..files {
        let revisions = (0..in_each).map(|number| {
            let (id, version) = (format!("d{}", (file * in_each + number * 7) % (files * in_each / 2)), (file * in_each + number) as u64);
            let text = revision("T", &id, version, Some(&format!("{{n:{version}}}")));
            newest.insert(id, version);
            text + "\n"
        });
        let text = revisions.collect::<String>();
        if file % 2 == 0 {
            folder.write(&format!("export/{file:02}.ion"), text);
        } else {
            let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
            packed.write_all(text.as_bytes()).unwrap();
            folder.write(&format!("export/{file:02}.ion.gz"), packed.finish().unwrap());
        }
    }
    newest
}

fn held(folder: &Folder, of: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let index = Local::open_existing(&folder.path().join("revsync.db")).unwrap();
    of.keys().filter_map(|id| Some((id.clone(), index.get("t", id).unwrap()?.0))).collect()
}

const RESUMED: [&str; 5] = ["--json", "sync", "export", "--resume", "--name=load"];

/// A run that takes its time.
fn slowly(folder: &Folder, rate: &str) -> Child {
    let arguments = [&RESUMED[..], &["--max-rate", rate]].concat();
    folder.command(&arguments, &[]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn saved(folder: &Folder) -> Value {
    folder.revsync(&["--json", "checkpoints", "list"]).json()["checkpoints"].clone()
}

/// Waits until something is saved, and gives it.
fn wait_until_saved(folder: &Folder) -> Value {
    for _ in 0..600 {
        // It may not be whole yet.
        let listed = folder.revsync(&["--json", "checkpoints", "list"]);
        if listed.exit == 0 {
            let saved = listed.json()["checkpoints"].clone();
            if saved[0]["progress"]["scanned"]["before"]["files"].as_u64() > Some(0) {
                return saved;
            }
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("nothing was saved");
}

/// Interrupts a run after it had saved something behind the first file.
fn interrupted(folder: &Folder, rate: &str) -> Value {
    let mut running = slowly(folder, rate);
    let saved = wait_until_saved(folder);
    running.kill().unwrap();
    running.wait().unwrap();
    saved
}

fn resumed(folder: &Folder) -> Done {
    folder.revsync(&RESUMED)
}

fn killed_again_and_again(seed: u64) {
    let (folder, mut dice) = (Folder::new(), Dice::new(seed));
    let newest = capture(&folder, 8, 250);
    for round in 0..3 {
        let mut running = slowly(&folder, "100");
        if round == 0 {
            wait_until_saved(&folder);
        }
        std::thread::sleep(Duration::from_millis(dice.below(2_500) as u64));
        if dice.percent(30) {
            let stopped = std::process::Command::new("kill").args(["-TERM", &running.id().to_string()]).status().unwrap();
            assert!(stopped.success());
        } else {
            running.kill().unwrap();
        }
        running.wait().unwrap();
    }
    let done = resumed(&folder).balanced();
    assert_eq!((done.exit, done.count("pending")), (0, 0), "seed {seed}: {done:?}");
    assert_eq!(held(&folder, &newest), newest, "seed {seed}");
    assert!(done.count("received") < 2_000 && done.err.contains("goes on where it was interrupted"), "seed {seed}: {done:?}");
    assert_eq!(saved(&folder), json!([]), "a good end leaves nothing to go on with");
}

#[test]
fn a_run_that_is_killed_at_any_moment_goes_on_where_it_was_and_comes_to_the_fold() {
    std::thread::scope(|scope| {
        let of = (0..4).map(|seed| scope.spawn(move || killed_again_and_again(seed))).collect::<Vec<_>>();
        of.into_iter().for_each(|one| one.join().unwrap());
    });
}

#[test]
fn a_first_run_begins_at_the_beginning_and_says_so() {
    let folder = Folder::new();
    let newest = capture(&folder, 2, 10);
    let done = resumed(&folder).balanced();
    assert_eq!((done.exit, done.count("received")), (0, 20), "{done:?}");
    assert!(done.err.contains("nothing of it was interrupted: begins at the beginning"), "{done:?}");
    assert_eq!(held(&folder, &newest), newest);
}

#[test]
fn files_before_the_place_are_not_opened() {
    let folder = Folder::new();
    let newest = capture(&folder, 6, 100);
    let mark = interrupted(&folder, "50")[0]["progress"]["scanned"].clone();
    // As long as before, and no captured stream any more: only whoever opens it can tell.
    let path = folder.path().join("export/00.ion");
    std::fs::write(&path, vec![0; std::fs::metadata(&path).unwrap().len() as usize]).unwrap();
    let done = resumed(&folder).balanced();
    let before = mark["before"]["files"].as_u64().unwrap();
    assert!(done.exit == 0 && done.count("received") <= 600 - 100 * before, "{mark}: {done:?}");
    assert_eq!(held(&folder, &newest), newest);
}

#[test]
fn without_resume_everything_is_read_and_what_was_saved_stays() {
    let folder = Folder::new();
    capture(&folder, 6, 100);
    let before = interrupted(&folder, "50");
    let done = folder.revsync(&["--json", "sync", "export", "--name=load"]).balanced();
    assert_eq!((done.exit, done.count("received")), (0, 600));
    assert_eq!(saved(&folder)[0]["progress"], before[0]["progress"]);
}

#[test]
fn a_source_that_changed_is_refused_with_what_changed_and_can_be_begun_anew() {
    let folder = Folder::new();
    let newest = capture(&folder, 6, 100);
    interrupted(&folder, "50");
    std::fs::remove_file(folder.path().join("export/00.ion")).unwrap();
    let done = folder.revsync(&["sync", "export", "--resume", "--name=load"]);
    assert_eq!(done.exit, 2);
    assert!(done.err.contains("is not what it was when the run was interrupted: before 0"), "{done:?}");
    assert!(done.err.contains("revsync checkpoints rewind earliest --name 'load'"), "{done:?}");
    for no_place_of_a_file in ["latest", "2025-07-31T00:00:00Z", "495"] {
        let refused = folder.revsync(&["checkpoints", "rewind", no_place_of_a_file, "--name", "load"]);
        assert!(refused.exit == 2 && refused.err.contains("set back to earliest only"), "{refused:?}");
    }
    let rewound = folder.revsync(&["checkpoints", "rewind", "earliest", "--name", "load"]);
    assert!(rewound.exit == 0 && rewound.out.contains("load: 1 shard; revsync sync --resume goes on from there"), "{rewound:?}");
    let done = resumed(&folder).balanced();
    assert_eq!((done.exit, done.count("received")), (0, 500), "{done:?}");
    assert!(done.err.contains("begins at the beginning"), "{done:?}");
    let held = held(&folder, &newest);
    assert!(held.iter().all(|(id, version)| newest[id] == *version));
}

#[test]
fn what_came_behind_the_place_meanwhile_is_read() {
    let folder = Folder::new();
    capture(&folder, 6, 100);
    interrupted(&folder, "50");
    folder.write("export/99.ion", revision("T", "late", 7, Some("{}")));
    assert_eq!(resumed(&folder).exit, 0);
    assert_eq!(held(&folder, &BTreeMap::from([("late".to_owned(), 7)])).len(), 1);
}

#[test]
fn nothing_behind_a_file_that_is_damaged_counts_as_read_until_it_is_mended() {
    let folder = Folder::new();
    let newest = capture(&folder, 4, 50);
    let path = folder.path().join("export/01.ion.gz");
    let whole = std::fs::read(&path).unwrap();
    let mut damaged = whole.clone();
    let middle = damaged.len() / 2;
    damaged[middle..].fill(0);
    std::fs::write(&path, damaged).unwrap();
    let done = resumed(&folder);
    assert!(done.exit == 2 && done.err.contains("01.ion.gz"), "{done:?}");
    assert_eq!(saved(&folder)[0]["progress"]["scanned"]["file"], "01.ion.gz");
    assert_eq!(resumed(&folder).exit, 2, "it is not passed over");
    std::fs::write(&path, whole).unwrap();
    let done = resumed(&folder).balanced();
    assert_eq!((done.exit, done.count("received")), (0, 150), "{done:?}");
    assert_eq!(held(&folder, &newest), newest);
}

#[test]
fn dead_letters_are_settled_and_are_not_written_again() {
    let folder = Folder::new();
    let newest = capture(&folder, 6, 100);
    let path = folder.path().join("export/00.ion");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, "{recordType:\"NO_SUCH\"}\n".repeat(3) + &text).unwrap();
    interrupted(&folder, "50");
    let letters = || folder.revsync(&["--json", "dead-letters", "list"]).json()["dead_letters"].as_array().unwrap().len();
    assert_eq!(letters(), 3);
    let done = resumed(&folder).balanced();
    assert_eq!((done.exit, done.count("dead_letters"), letters()), (0, 0, 3), "{done:?}");
    assert_eq!(held(&folder, &newest), newest);
}

#[test]
fn the_place_may_be_a_file_and_another_sink_is_refused_then() {
    let folder = Folder::new();
    let newest = capture(&folder, 6, 100);
    let with = |to: &str, rate: &str| {
        let (to, place) = (format!("--to={to}"), "--checkpoints=file:places.json");
        let arguments: Vec<String> =
            RESUMED.iter().map(|argument| (*argument).to_owned()).chain([to, place.to_owned(), format!("--max-rate={rate}")]).collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        folder.command(&arguments, &[]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut running = with("local:revsync.db", "50");
    while !std::fs::read_to_string(folder.path().join("places.json")).is_ok_and(|text| text.contains("scanned")) {
        std::thread::sleep(Duration::from_millis(50));
    }
    running.kill().unwrap();
    running.wait().unwrap();
    let refused = with("local:other.db", "0").wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && said.contains("and is to go on into local:"), "{said}");
    assert_eq!(with("local:revsync.db", "0").wait().unwrap().code(), Some(0));
    assert_eq!(held(&folder, &newest), newest);
}

#[test]
fn an_index_that_was_removed_meanwhile_is_not_taken_for_the_one_that_was_written() {
    let folder = Folder::new();
    let newest = capture(&folder, 2, 20);
    let damaged = folder.path().join("export/01.ion.gz");
    let whole = std::fs::read(&damaged).unwrap();
    let middle = whole.len() / 2;
    std::fs::write(&damaged, [&whole[..middle], &vec![0; whole.len() - middle]].concat()).unwrap();
    let arguments = [&RESUMED[..], &["--checkpoints", "file:checkpoints.json"]].concat();
    assert_eq!(folder.revsync(&arguments).exit, 2);
    std::fs::write(&damaged, &whole).unwrap();
    std::fs::remove_file(folder.path().join("revsync.db")).unwrap();
    for _ in 0..2 {
        let refused = folder.revsync(&arguments);
        assert_eq!(refused.exit, 2, "{refused:?}");
        assert!(refused.err.contains("found an empty index") && refused.err.contains("checkpoints rewind earliest"), "{refused:?}");
    }
    let done = folder.revsync(&["--json", "sync", "export", "--name=load"]).balanced();
    assert_eq!((done.exit, held(&folder, &newest)), (0, newest.clone()), "{done:?}");
}

#[test]
fn what_an_interrupted_run_found_missing_is_missing_for_the_run_that_goes_on() {
    let folder = Folder::new();
    let files = Ledger::new(5, 60).export(&folder.path().join("export"), Output::Json, 10);
    // Its name says one block more than it holds.
    let named = files[0].to_str().unwrap().replace("-9.json", "-10.json");
    std::fs::rename(&files[0], named).unwrap();
    let prefix = folder.path().join("export").join(PREFIX);
    let manifest = std::fs::read_dir(prefix)
        .unwrap()
        .map(|file| file.unwrap().path())
        .find(|path| path.to_str().unwrap().ends_with("completed.manifest"));
    let manifest = manifest.unwrap();
    let text = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, text.replace("-9.json", "-10.json")).unwrap();
    interrupted(&folder, "8");
    let done = resumed(&folder);
    assert!(done.exit == 1 && done.err.contains("not proven complete"), "{done:?}");
}

#[test]
fn what_cannot_be_gone_on_with_is_refused_with_the_reason() {
    let folder = Folder::new();
    capture(&folder, 1, 2);
    for (source, to, reason) in [
        ("-", "local:revsync.db", "expected files, found standard input"),
        ("kafka://127.0.0.1:1/topic", "local:revsync.db", "revsync run follows it and keeps checkpoints"),
        ("kinesis://stream?region=eu-west-1", "local:revsync.db", "revsync run follows it and keeps checkpoints"),
        ("export", "bulk:lines", "bulk:lines is written anew by every run"),
        ("missing", "local:revsync.db", "missing does not exist"),
    ] {
        let done = folder.revsync(&["sync", source, "--resume", "--to", to]);
        assert!(done.exit == 2 && done.err.contains(reason), "{source}: {done:?}");
    }
    assert!(!folder.path().join("revsync.db").exists() && !folder.path().join("lines").exists(), "nothing was written");
}

/// A run that breaks off at a damaged file, which is mended then.
fn broken_off_at(folder: &Folder, file: &str, arguments: &[&str]) {
    let path = folder.path().join(file);
    let whole = std::fs::read(&path).unwrap();
    let middle = whole.len() / 2;
    std::fs::write(&path, [&whole[..middle], &vec![0; whole.len() - middle]].concat()).unwrap();
    let done = folder.revsync(arguments);
    assert!(done.exit == 2 && done.err.contains("is damaged or cut off"), "{done:?}");
    std::fs::write(&path, whole).unwrap();
}

#[test]
fn a_run_that_was_interrupted_before_anything_was_to_be_written_goes_on() {
    for more in [&[][..], &["--checkpoints", "file:checkpoints.json"]] {
        let folder = Folder::new();
        let newest = capture(&folder, 2, 20);
        folder.write("export/00.ion", "{recordType:\"NO_SUCH\"}\n".repeat(3));
        let arguments = [&RESUMED[..], more].concat();
        broken_off_at(&folder, "export/01.ion.gz", &arguments);
        let done = folder.revsync(&arguments);
        assert!(done.err.contains("goes on where it was interrupted: 00.ion"), "{done:?}");
        assert_eq!((done.exit, done.count("indexed")), (1, 20), "the last dead letter is read again: {done:?}");
        assert_eq!(held(&folder, &newest).len(), 20);
    }
}

#[test]
fn a_source_with_a_long_path_can_be_gone_on_with_too() {
    let folder = Folder::new();
    let newest = capture(&folder, 2, 20);
    let deep = "экспорт/".repeat(20) + "it's";
    std::fs::create_dir_all(folder.path().join(&deep).parent().unwrap()).unwrap();
    std::fs::rename(folder.path().join("export"), folder.path().join(&deep)).unwrap();
    let arguments = ["--json", "sync", &deep, "--resume"];
    broken_off_at(&folder, &format!("{deep}/01.ion.gz"), &arguments);
    assert!(saved(&folder)[0]["stream"].as_str().unwrap().ends_with(&deep), "{}", saved(&folder));
    std::fs::rename(folder.path().join(&deep).join("00.ion"), folder.path().join("00.ion")).unwrap();
    let refused = folder.revsync(&arguments);
    let (_, command) = refused.err.split_once("begin anew: revsync ").expect("a command that can be copied");
    std::fs::rename(folder.path().join("00.ion"), folder.path().join(&deep).join("00.ion")).unwrap();
    let (command, _) = command.split_once(", with --to").unwrap();
    let shell = format!("{} {command}", env!("CARGO_BIN_EXE_revsync"));
    assert!(std::process::Command::new("sh").args(["-c", &shell]).current_dir(folder.path()).status().unwrap().success(), "{shell}");
    let done = folder.revsync(&arguments).balanced();
    assert!(done.exit == 0 && done.count("received") == 40, "{done:?}");
    assert_eq!(held(&folder, &newest), newest);
}

#[test]
fn who_goes_on_by_other_rules_is_told_that_what_came_before_is_by_the_old_ones() {
    let folder = Folder::new();
    let newest = capture(&folder, 6, 100);
    interrupted(&folder, "50");
    let config = folder.write("other.toml", "[[table]]\nname = \"T\"\nexclude = [\"m\"]\n");
    let arguments = [&RESUMED[..], &["--config", config.to_str().unwrap()]].concat();
    let done = folder.revsync(&arguments).balanced();
    assert!(done.exit == 0 && done.err.contains("not what it was when the run was interrupted"), "{done:?}");
    assert!(done.err.contains("checkpoints rewind earliest --name 'load'"), "{done:?}");
    assert_eq!(held(&folder, &newest), newest);
}
