//! What a person sees who starts the command, or configures it, and not the daemon.

use std::fs::OpenOptions;
use std::process::Stdio;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::command::Folder;
use crate::kcl::{Child, Lease};
use crate::{SHARD, kcl_command};

#[test]
fn in_a_terminal_it_says_who_starts_it_and_does_not_wait() {
    let folder = Folder::new();
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).and_then(|()| unlockpt(&terminal)).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let keyboard = OpenOptions::new().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let output = kcl_command(&folder, "local:x.db", &[]).stdin(Stdio::from(keyboard)).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    assert!(said.contains("found a terminal") && said.contains("A fleet on the Kinesis Client Library"), "{said}");
}

#[test]
fn what_has_no_default_here_is_asked_for_by_name() {
    let folder = Folder::new();
    let given = ["--to", "local:x.db", "--name", "ledger", "--dead-letters", "file:letters.jsonl"];
    for (left_out, says) in [
        ("--to", "kcl: no sink is named"),
        ("--dead-letters", "kcl: no place for dead letters is named"),
        ("--name", "kcl: the pipeline has no name"),
    ] {
        let pairs = given.chunks(2).filter(|pair| pair[0] != left_out);
        let arguments: Vec<&str> = ["kcl"].into_iter().chain(pairs.flatten().copied()).collect();
        let done = folder.revsync(&arguments);
        assert!(done.exit == 2 && done.out.is_empty() && done.err.contains(says), "{done:?}");
    }
    for sink in ["bulk:-", "bulk:lines"] {
        let done = folder.revsync(&["kcl", "--to", sink, "--name", "ledger", "--dead-letters", "file:letters.jsonl"]);
        assert!(done.exit == 2 && done.err.contains("there is a child for each shard"), "{done:?}");
        assert!(!folder.path().join("lines").exists());
    }
}

#[test]
fn what_the_command_line_does_not_say_may_stand_in_the_file() {
    let (folder, mut lease) = (Folder::new(), Lease::default());
    folder.write("revsync.toml", "name = \"ledger\"\n[sink]\nurl = \"local:x.db\"\n[dead_letters]\nurl = \"file:letters.jsonl\"\n");
    let mut child = Child::start(folder.command(&["--config", "revsync.toml", "kcl"], &[]));
    child.initialize(SHARD, &mut lease);
    let over = child.close();
    assert!(over.exit == 0 && over.err.contains("begins after TRIM_HORIZON"), "{over:?}");
}

#[test]
fn a_place_for_dead_letters_that_cannot_be_written_is_found_at_the_start() {
    let folder = Folder::new();
    let mut child =
        Child::start(folder.command(&["kcl", "--to", "local:x.db", "--name", "ledger", "--dead-letters", "file:no/letters"], &[]));
    let over = child.over();
    assert!(over.exit == 2 && over.err.contains("no/letters"), "{over:?}");
}

#[test]
fn plain_deletes_into_opensearch_are_warned_of() {
    let folder = Folder::new();
    // Nobody is there, and that is waited for.
    let over = Child::start(kcl_command(&folder, "http://127.0.0.1:9", &[])).close();
    assert!(over.exit == 0 && over.err.contains("every table gets plain deletes"), "{over:?}");
}
