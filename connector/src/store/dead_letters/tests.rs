//! Dead letters in a file: what is stored stays, what is damaged hides nothing, what is removed is all that is removed.

use std::collections::HashSet;
use std::fs;
use std::io::Write;
use std::path::PathBuf;

use bytes::Bytes;

use super::*;
use crate::plan::mapping::Mode;
use crate::record::{Fault, Header, Message, Origin, Position, SequenceNumber};

fn letter(id: &str, reason: &str) -> DeadLetter {
    DeadLetter {
        v: FORMAT_VERSION,
        id: id.to_owned(),
        time: "2024-05-06T07:08:09Z".to_owned(),
        first_time: None,
        origin: Origin { stream: "ledger.ion".to_owned(), shard: "ledger.ion".to_owned() },
        position: Position::Byte { offset: 42 },
        unit: 0,
        part: 0,
        format: "qldb".to_owned(),
        table: Some("Person".to_owned()),
        mode: None,
        document_id: Some("7PiADsj9Zt".to_owned()),
        version: Some(3),
        index: Some("person".to_owned()),
        action: Some("index".to_owned()),
        attempts: 1,
        error: Fault::new("mapper_parsing_exception", reason),
        first_error: None,
        connector: "0.1.0".to_owned(),
        large: None,
        message: None,
        payload: Bytes::from_static(b"\xe0\x01\x00\xea\n"),
    }
}

struct Here {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Here {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("letters.jsonl");
        Self { _folder: folder, path }
    }

    fn store(&self) -> DeadLetters {
        DeadLetters::in_file(&self.path).unwrap()
    }

    /// Takes letters out, as a walk does at its end.
    async fn remove(&self, ids: &[&str]) {
        let mut walk = self.store().walk().await.unwrap();
        walk.settle(&ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>()).await.unwrap();
        walk.end().await.unwrap();
    }

    fn write(&self, bytes: &[u8]) {
        fs::OpenOptions::new().append(true).create(true).open(&self.path).unwrap().write_all(bytes).unwrap();
    }

    /// What is listed: ids and reasons of letters, lines of damage.
    fn listed(&self) -> Vec<String> {
        let entries = LetterFile::look(&self.path).list().unwrap();
        entries
            .map(|entry| match entry.unwrap() {
                Entry::Letter(letter) => format!("{} {}", letter.id, letter.error.reason),
                Entry::Damaged { at, .. } => format!("damaged {at}"),
            })
            .collect()
    }

    fn files(&self) -> usize {
        fs::read_dir(self.path.parent().unwrap()).unwrap().count()
    }
}

#[tokio::test]
async fn a_stored_letter_reads_back_as_it_was() {
    let here = Here::new();
    let stored = letter("aa", "r");
    here.store().append(std::slice::from_ref(&stored)).await.unwrap();
    let mut walk = here.store().walk().await.unwrap();
    let read = walk.next(PORTION).await.unwrap().unwrap();
    assert!(matches!(&read[..], [Entry::Letter(read)] if **read == stored));
    assert!(walk.next(PORTION).await.unwrap().is_none());
}

#[test]
fn opening_leaves_nothing_behind() {
    let here = Here::new();
    here.store();
    assert_eq!((here.files(), here.listed().len()), (0, 0));
}

#[test]
fn a_place_that_cannot_be_written_is_found_at_the_start() {
    let here = Here::new();
    let folder = here.path.parent().unwrap().to_path_buf();
    for path in [folder.clone(), folder.join("no/such/folder/x.jsonl"), PathBuf::from("/dev/null")] {
        let error = DeadLetters::in_file(&path).unwrap_err();
        assert!(error.kind == Kind::DeadLetters && error.what.contains("cannot be written"), "{}: {error}", path.display());
    }
}

#[cfg(unix)]
#[tokio::test]
async fn only_its_owner_can_read_the_file() {
    use std::os::unix::fs::PermissionsExt;
    let here = Here::new();
    let mode = || fs::metadata(&here.path).unwrap().permissions().mode() & 0o777;
    here.store().append(&[letter("aa", "r"), letter("bb", "r")]).await.unwrap();
    assert_eq!(mode(), 0o600);
    here.remove(&["aa"]).await;
    assert_eq!(mode(), 0o600);
}

#[tokio::test]
async fn a_letter_that_was_cut_off_spoils_no_other() {
    let here = Here::new();
    here.store().append(&[letter("aa", "r")]).await.unwrap();
    here.write(br#"{"v":1,"id":"torn"#);
    assert_eq!(here.listed(), ["aa r", "damaged line 2"]);
    here.store().append(&[letter("bb", "r")]).await.unwrap();
    assert_eq!(here.listed(), ["aa r", "damaged line 2", "bb r"]);
}

#[tokio::test]
async fn damage_and_a_newer_form_are_named_by_line_and_hide_no_other_letter() {
    let here = Here::new();
    here.write(b"\xff\xfe\n\n{\"v\":99,\"anything\":1}\n[]\n");
    here.store().append(&[letter("aa", "r")]).await.unwrap();
    assert_eq!(here.listed(), ["damaged line 1", "damaged line 3", "damaged line 4", "aa r"]);
}

#[tokio::test]
async fn a_letter_of_the_form_before_is_read_and_has_nothing_beside_its_bytes() {
    let here = Here::new();
    let written = String::from_utf8(letter("aa", "r").line().unwrap()).unwrap();
    here.write(format!("{}\n", written.replace(&format!("\"v\":{FORMAT_VERSION}"), "\"v\":1")).as_bytes());
    assert_eq!(here.listed(), ["aa r"]);
    let beside =
        Message { key: Some(Bytes::from_static(b"k")), headers: vec![Header { name: "h".to_owned(), value: None }], is_null: true };
    let message = DeadLetter { message: Some(beside), ..letter("bb", "r") };
    let line = String::from_utf8(message.line().unwrap()).unwrap();
    assert!(line.contains(r#""message":{"key":"aw==","headers":[["h",null]],"null_value":true}"#), "{line}");
    assert_eq!(super::letter::read(line.as_bytes()), Ok(message));
}

#[tokio::test]
async fn a_letter_written_again_is_shown_once_as_it_was_last() {
    let here = Here::new();
    for (id, reason) in [("aa", "first"), ("bb", "only"), ("aa", "second")] {
        here.store().append(&[letter(id, reason)]).await.unwrap();
    }
    assert_eq!(here.listed(), ["bb only", "aa second"]);
}

#[tokio::test]
async fn removing_takes_every_copy_of_a_letter_and_keeps_all_else() {
    let here = Here::new();
    here.store().append(&[letter("aa", "1"), letter("bb", "r"), letter("aa", "2")]).await.unwrap();
    here.write(b"no json\n{\"v\":99}\n{\"v\":1,\"torn");
    here.remove(&["aa", "zz"]).await;
    assert_eq!(here.listed(), ["bb r", "damaged line 2", "damaged line 3", "damaged line 4"]);
    assert_eq!(here.files(), 1);
    here.remove(&["bb"]).await;
    assert_eq!(here.listed(), ["damaged line 1", "damaged line 2", "damaged line 3"]);
}

#[tokio::test]
async fn removing_where_nothing_was_ever_stored_is_nothing() {
    let here = Here::new();
    here.remove(&["aa"]).await;
    assert_eq!(here.files(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn letters_that_are_stored_while_others_are_removed_are_not_lost() {
    const EACH: usize = 40;
    let here = Here::new();
    here.store().append(&[letter("old", "r")]).await.unwrap();
    let writers = (0..3).map(|writer| {
        let store = here.store();
        tokio::spawn(async move {
            for number in 0..EACH {
                store.append(&[letter(&format!("{writer}-{number}"), "r")]).await.unwrap();
            }
        })
    });
    let remover = {
        let (store, file) = (here.store(), LetterFile::look(&here.path));
        tokio::spawn(async move {
            for number in 0..EACH {
                let (file, ids) = (file.clone(), HashSet::from(["old".to_owned(), format!("0-{number}")]));
                blocking(move || file.remove(&ids)).await.unwrap();
                store.append(&[letter("old", "r")]).await.unwrap();
            }
        })
    };
    for task in writers.chain([remover]).collect::<Vec<_>>() {
        task.await.unwrap();
    }
    // What the remover did not reach in time is still there too; nothing else may be missing.
    let listed: std::collections::BTreeSet<_> = here.listed().into_iter().collect();
    for writer in 1..3 {
        for number in 0..EACH {
            assert!(listed.contains(&format!("{writer}-{number} r")), "{writer}-{number}");
        }
    }
    assert_eq!(here.files(), 1);
}

#[cfg(unix)]
#[tokio::test]
async fn a_link_to_the_file_stays_a_link() {
    let here = Here::new();
    let link = here.path.with_file_name("link.jsonl");
    here.store().append(&[letter("aa", "r"), letter("bb", "r")]).await.unwrap();
    std::os::unix::fs::symlink(&here.path, &link).unwrap();
    assert_eq!(LetterFile::look(&link).remove(&HashSet::from(["aa".to_owned()])), Ok(1));
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(here.listed(), ["bb r"]);
}

fn origin() -> Origin {
    Origin { stream: "ledger".into(), shard: "shardId-000000000000".into() }
}

#[test]
fn an_id_is_the_same_in_every_run_and_version() {
    assert_eq!(identify(&origin(), &Position::Byte { offset: 42 }, 0, None, b"payload"), "433b24b40890b441e2fae6b3ebf09d48");
}

#[test]
fn different_units_records_and_shards_have_different_ids() {
    let number =
        |sub| Position::Sequence { number: SequenceNumber("49590338271490256608559692538361571095921575989136588898".into()), sub };
    let other = Origin { stream: "ledge".into(), shard: "rshardId-000000000000".into() };
    let ids = std::collections::BTreeSet::from([
        identify(&origin(), &Position::Byte { offset: 42 }, 0, None, b"payload"),
        identify(&origin(), &Position::Byte { offset: 42 }, 1, None, b"payload"),
        identify(&origin(), &Position::Byte { offset: 43 }, 0, None, b"payload"),
        identify(&origin(), &Position::Byte { offset: 42 }, 0, None, b"another file under the same name"),
        identify(&other, &Position::Byte { offset: 42 }, 0, None, b"payload"),
        identify(&origin(), &number(None), 0, None, b"payload"),
        identify(&origin(), &number(Some(0)), 0, None, b"payload"),
        identify(&origin(), &number(Some(1)), 0, None, b"payload"),
        identify(&origin(), &Position::Offset { topic: "t".into(), partition: 1, offset: 1 }, 0, None, b"payload"),
        identify(&origin(), &Position::Byte { offset: 42 }, 0, Some(Mode::History), b"payload"),
    ]);
    assert_eq!(ids.len(), 10);
    let of_newest = identify(&origin(), &Position::Byte { offset: 42 }, 0, Some(Mode::Latest), b"payload");
    assert!(ids.contains(&of_newest), "it is the id that letters had before there were histories");
}

#[test]
fn damage_is_told_without_the_content() {
    for line in [
        r#"{"v":1,"id":7,"secret":"hunter2"}"#,
        r#"{"v":1,"payload":"hunter2"#,
        r#"hunter2"#,
        r#"{"v":"hunter2"}"#,
        r#"{"v":2,"x":"hunter2"}"#,
    ] {
        let reason = letter::read(line.as_bytes()).unwrap_err();
        assert!(!reason.contains("hunter2"), "{reason}");
    }
}

#[tokio::test]
async fn a_walk_hands_out_every_letter_once_in_portions_and_rewrites_the_file_seldom() {
    let here = Here::new();
    let letters: Vec<DeadLetter> = (0..1_200).map(|number| letter(&format!("{number:04}"), "r")).collect();
    here.store().append(&letters).await.unwrap();
    here.store().append(&letters[..1]).await.unwrap();
    let mut walk = here.store().walk().await.unwrap();
    let (mut met, mut left) = (Vec::new(), Vec::new());
    while let Some(portion) = walk.next(usize::MAX).await.unwrap() {
        assert!(portion.len() <= PORTION);
        let ids = portion.into_iter().map(|entry| if let Entry::Letter(letter) = entry { letter.id } else { panic!() });
        let ids: Vec<String> = ids.collect();
        walk.settle(&ids).await.unwrap();
        met.extend(ids);
        left.push(here.listed().len());
    }
    walk.end().await.unwrap();
    met.sort();
    assert_eq!(met, letters.iter().map(|letter| letter.id.clone()).collect::<Vec<_>>());
    assert_eq!((left, here.listed().len()), (vec![1_200, 200, 0], 0));
}

#[tokio::test]
async fn a_portion_ends_where_its_payloads_are_many_bytes() {
    let here = Here::new();
    let large = |id: &str| DeadLetter { payload: Bytes::from(vec![0; PORTION_BYTES - 1]), ..letter(id, "r") };
    here.store().append(&[large("a"), large("b"), large("c"), large("d"), letter("e", "r")]).await.unwrap();
    let mut walk = here.store().walk().await.unwrap();
    let mut portions = Vec::new();
    while let Some(portion) = walk.next(PORTION).await.unwrap() {
        portions.push(portion.len());
    }
    assert_eq!(portions, [2, 2, 1]);
}

#[tokio::test]
async fn what_was_stored_anew_leaves_no_older_copy() {
    let here = Here::new();
    here.store().append(&[letter("aa", "1"), letter("bb", "r")]).await.unwrap();
    let mut walk = here.store().walk().await.unwrap();
    here.store().append(&[letter("aa", "2")]).await.unwrap();
    walk.replace(&[Anew { id: "aa".to_owned(), moment: None }]).await.unwrap();
    walk.end().await.unwrap();
    assert_eq!(here.listed(), ["bb r", "aa 2"]);
    assert_eq!(fs::read_to_string(&here.path).unwrap().lines().count(), 2);
}
