//! The audit of a journal, end to end: generated ledgers are proven in every form that they leave the ledger in, and whatever was done to one is named.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use ion_rs::{Element, List, Sequence, Struct, Value as Ion};
use serde_json::{Value, json};

use crate::command::{Done, Folder};
use crate::dice::Dice;
use crate::ledger::{Kind, Ledger, OUTPUTS, Output, sealed};

/// Writes a stream as one capture.
fn capture(folder: &Folder, records: &[Vec<u8>]) {
    folder.write("stream.10n", records.concat());
}

fn verify(folder: &Folder, source: &str) -> Done {
    folder.revsync(&["--json", "verify-journal", source, "--sample", "0"])
}

fn gaps(folder: &Folder, source: &str) -> Done {
    folder.revsync(&["--json", "journal", source, "--sample", "0"])
}

/// A folder with an export of a ledger in `export/`.
fn exported(ledger: &Ledger, output: Output) -> Folder {
    let folder = Folder::new();
    ledger.export(&folder.path().join("export"), output, 7);
    folder
}

/// The blocks of which something is told in a list of a report.
fn blocks(report: &Value, list: &str) -> BTreeSet<u64> {
    report[list].as_array().unwrap().iter().map(|one| one["block"]["sequenceNo"].as_u64().unwrap()).collect()
}

/// The checks that failed, each with its block.
fn breaks(report: &Value) -> Vec<(u64, String)> {
    let breaks = report["breaks"].as_array().unwrap().iter();
    breaks.map(|one| (one["block"]["sequenceNo"].as_u64().unwrap(), one["check"].as_str().unwrap().to_owned())).collect()
}

/// The blocks with a document of which JSON loses a type.
fn lossy(ledger: &Ledger) -> BTreeSet<u64> {
    let is_lossy = |kind: &Kind| matches!(kind, Kind::Put(data) if data.as_struct().unwrap().get("Photo").is_some());
    let blocks = ledger.blocks.iter().filter(|block| block.revisions.iter().any(|revision| is_lossy(&revision.kind)));
    blocks.map(|block| block.sequence).collect()
}

fn count(ledger: &Ledger, wanted: fn(&Kind) -> bool) -> u64 {
    ledger.revisions().filter(|revision| wanted(&revision.kind)).count() as u64
}

#[test]
fn an_export_in_ion_is_proven() {
    let ledger = Ledger::new(1, 60);
    for output in [Output::IonText, Output::IonBinary] {
        let folder = exported(&ledger, output);
        let done = verify(&folder, "export");
        let report = done.json();
        assert_eq!((done.exit, &report["proven"]), (0, &json!(true)), "{output:?}: {done:?}");
        assert_eq!((&report["blocks"], &report["links"]), (&json!(60), &json!(59)));
        assert_eq!(report["verified"]["whole"], json!(count(&ledger, |kind| matches!(kind, Kind::Put(_)))));
        assert_eq!(report["verified"]["redacted"], json!(1));
        assert_eq!(report["unchecked"], json!({"deletions": count(&ledger, |kind| *kind == Kind::Delete), "system": 2}));
        assert_eq!(gaps(&folder, "export").exit, 0);
    }
}

#[test]
fn an_export_in_json_is_proven_but_for_the_documents_whose_types_it_has_lost() {
    let ledger = Ledger::new(1, 60);
    let folder = exported(&ledger, Output::Json);
    let done = verify(&folder, "export");
    let report = done.json();
    assert!(!lossy(&ledger).is_empty());
    assert_eq!((done.exit, &report["broken"], blocks(&report, "open")), (1, &json!(0), lossy(&ledger)), "{done:?}");
    assert!(report["open"].as_array().unwrap().iter().all(|one| one["check"] == "types_lost"));
    assert_eq!(gaps(&folder, "export").exit, 0);
}

#[test]
fn a_json_export_without_lost_types_is_proven() {
    let seed = (0..).find(|seed| lossy(&Ledger::new(*seed, 24)).is_empty()).unwrap();
    let folder = exported(&Ledger::new(seed, 24), Output::Json);
    let done = verify(&folder, "export");
    assert_eq!((done.exit, &done.json()["proven"]), (0, &json!(true)), "{done:?}");
}

#[test]
fn a_stream_is_proven_in_any_order_and_with_everything_twice() {
    let ledger = Ledger::new(2, 50);
    for records in [ledger.stream(), ledger.shuffled(7, 1), ledger.shuffled(8, 2)] {
        let folder = Folder::new();
        capture(&folder, &records);
        let done = verify(&folder, "stream.10n");
        assert_eq!((done.exit, &done.json()["proven"], &done.json()["blocks"]), (0, &json!(true), &json!(50)), "{done:?}");
        assert_eq!(gaps(&folder, "stream.10n").exit, 0);
    }
}

#[test]
fn a_stream_and_an_export_of_one_ledger_are_one_journal() {
    let ledger = Ledger::new(3, 30);
    let folder = Folder::new();
    ledger.export(folder.path(), Output::IonText, 9);
    // What was captured before the redaction has the content still.
    capture(&folder, &ledger.before_redactions().shuffled(1, 1));
    let done = verify(&folder, ".");
    assert_eq!((done.exit, &done.json()["blocks"], &done.json()["links"]), (0, &json!(30), &json!(29)), "{done:?}");
}

#[test]
fn exports_that_touch_or_overlap_are_one_journal() {
    let ledger = Ledger::new(4, 40);
    for ranges in [[0..20, 20..40], [0..25, 15..40]] {
        let folder = Folder::new();
        for range in ranges {
            ledger.part(range).export(folder.path(), Output::IonBinary, 6);
        }
        let done = verify(&folder, ".");
        assert_eq!((done.exit, &done.json()["links"]), (0, &json!(39)), "{done:?}");
    }
}

#[test]
fn an_export_that_begins_in_the_middle_of_its_strand_is_proven_from_there_on() {
    let folder = exported(&Ledger::new(5, 40).part(13..31), Output::IonText);
    let done = folder.revsync(&["verify-journal", "export"]);
    assert_eq!(done.exit, 0, "{done:?}");
    assert!(done.out.contains("@13: nothing is before it that it could go on from"), "{done:?}");
}

#[test]
fn two_strands_are_two_chains() {
    let folder = Folder::new();
    for seed in [6, 7] {
        Ledger::new(seed, 20).export(folder.path(), Output::IonText, 8);
    }
    let done = verify(&folder, ".");
    assert_eq!((done.exit, &done.json()["strand_count"], &done.json()["links"]), (0, &json!(2), &json!(38)), "{done:?}");
}

#[test]
fn blocks_that_are_missing_are_told_as_ranges() {
    let mut ledger = Ledger::new(8, 40);
    ledger.blocks.drain(20..23);
    ledger.blocks.remove(5);
    let folder = exported(&ledger, Output::IonText);
    for done in [gaps(&folder, "export"), verify(&folder, "export")] {
        let report = done.json();
        assert_eq!((done.exit, &report["strands"][0]["missing"]), (1, &json!([[5, 5], [20, 22]])), "{done:?}");
        assert_eq!(report["missing_blocks"], json!(4));
    }
}

#[test]
fn a_revision_that_is_missing_from_a_stream_is_told_with_its_block() {
    let ledger = Ledger::new(9, 12);
    let place = ledger.blocks.iter().position(|block| block.revisions.len() == 3).unwrap();
    let before: usize = ledger.blocks[..place].iter().map(|block| 1 + block.revisions.len()).sum();
    let mut records = ledger.stream();
    records.remove(before + 2);
    let folder = Folder::new();
    capture(&folder, &records);
    for done in [gaps(&folder, "stream.10n"), verify(&folder, "stream.10n")] {
        let address = json!({"strandId": ledger.strand, "sequenceNo": place});
        assert_eq!((done.exit, &done.json()["incomplete"]), (1, &json!([{"block": address, "seen": 2, "of": 3}])), "{done:?}");
    }
}

#[test]
fn a_block_that_is_missing_from_a_stream_leaves_revisions_without_it() {
    let ledger = Ledger::new(9, 12);
    let mut records = ledger.stream();
    let before: usize = ledger.blocks[..4].iter().map(|block| 1 + block.revisions.len()).sum();
    records.remove(before);
    let folder = Folder::new();
    capture(&folder, &records);
    let report = gaps(&folder, "stream.10n").json();
    assert_eq!((&report["missing_blocks"], blocks(&report, "without_block")), (&json!(1), BTreeSet::from([4])), "{report}");
}

/// What `change` makes of the block at this place, in every output format and as a stream: what is told is looked at by `judge`.
fn changed(ledger: &Ledger, judge: impl Fn(&Value, &str)) {
    for output in OUTPUTS {
        let folder = exported(ledger, output);
        let done = verify(&folder, "export");
        assert_eq!(done.exit, 1, "{output:?}: {done:?}");
        judge(&done.json(), &format!("{output:?}: {done:?}"));
    }
    let folder = Folder::new();
    capture(&folder, &ledger.shuffled(1, 2));
    let done = verify(&folder, "stream.10n");
    assert_eq!(done.exit, 1, "{done:?}");
    judge(&done.json(), &format!("{done:?}"));
}

fn member<'a>(of: &'a Element, name: &str) -> &'a Element {
    of.as_struct().unwrap().get(name).unwrap()
}

/// A struct with another value in the place of a member.
fn with(of: &Element, name: &str, value: impl Into<Element>) -> Element {
    let mut value = Some(value.into());
    let fields = of.as_struct().unwrap().fields().map(|(field, before)| {
        let is_it = field.text() == Some(name);
        (field.clone(), if is_it { value.take().unwrap() } else { before.clone() })
    });
    Element::from(fields.collect::<Struct>())
}

fn lob(of: &Element, name: &str) -> Vec<u8> {
    member(of, name).as_lob().unwrap().to_vec()
}

#[test]
fn a_forged_block_whose_own_hashes_are_right_breaks_the_chain() {
    let mut ledger = Ledger::new(10, 30);
    let block = &mut ledger.blocks[11];
    let forged = with(&block.value, "transactionInfo", Element::read_one(r#"{statements:[{statement:"DROP TABLE Person"}]}"#).unwrap());
    block.value = sealed(&forged, &lob(&block.value, "previousBlockHash"));
    changed(&ledger, |report, said| {
        assert_eq!(breaks(report), [(12, "previous_block_hash".to_owned())], "{said}");
    });
}

#[test]
fn blocks_that_were_swapped_break_the_chain() {
    let mut ledger = Ledger::new(11, 30);
    let [one, other] = [8, 9].map(|place: usize| member(&ledger.blocks[place].value, "blockAddress").clone());
    ledger.blocks.swap(8, 9);
    for (place, address) in [(8, one), (9, other)] {
        ledger.blocks[place].value = with(&ledger.blocks[place].value, "blockAddress", address);
    }
    changed(&ledger, |report, said| {
        let broken: Vec<u64> = breaks(report).into_iter().filter(|(_, check)| check == "previous_block_hash").map(|(at, _)| at).collect();
        assert_eq!(broken, [8, 9, 10], "{said}");
    });
}

#[test]
fn a_revision_that_was_dropped_from_a_block_of_an_export_breaks_it() {
    let mut ledger = Ledger::new(12, 30);
    let place = ledger.blocks.iter().position(|block| block.revisions.len() == 3).unwrap();
    let revisions = member(&ledger.blocks[place].value, "revisions").as_sequence().unwrap();
    let two: Sequence = revisions.iter().take(2).cloned().collect();
    ledger.blocks[place].value = with(&ledger.blocks[place].value, "revisions", List::from(two));
    changed(&ledger, |report, said| assert_eq!(breaks(report), [(place as u64, "revisions".to_owned())], "{said}"));
}

/// What is in place of the revisions of a block.
type Revised = fn(&[Element]) -> Vec<Element>;

/// The block of a ledger with three revisions, and these in place of them.
fn with_revisions(ledger: &mut Ledger, revisions: impl Fn(&[Element]) -> Vec<Element>) -> u64 {
    let place = ledger.blocks.iter().position(|block| block.revisions.len() == 3).unwrap();
    let value = &ledger.blocks[place].value;
    let before: Vec<Element> = member(value, "revisions").as_sequence().unwrap().iter().cloned().collect();
    let after: Sequence = revisions(&before).into_iter().collect();
    ledger.blocks[place].value = with(value, "revisions", List::from(after));
    place as u64
}

fn of_hash(hash: Vec<u8>) -> Element {
    Element::from([("hash", Element::blob(hash))].into_iter().collect::<Struct>())
}

#[test]
fn a_revision_that_is_passed_off_as_one_of_the_ledger_s_own_leaves_its_document_without_one() {
    let only_hash = |revisions: &[Element]| [&[of_hash(lob(&revisions[0], "hash"))], &revisions[1..]].concat();
    // The root of the three is that of these two.
    let of_two = |revisions: &[Element]| {
        let pair = crate::ledger::dot(&lob(&revisions[0], "hash"), &lob(&revisions[1], "hash"));
        vec![of_hash(pair), revisions[2].clone()]
    };
    let both: [Revised; 2] = [only_hash, of_two];
    for hide in both {
        let mut ledger = Ledger::new(12, 30);
        let place = with_revisions(&mut ledger, hide);
        changed(&ledger, |report, said| {
            assert!(blocks(report, "open").contains(&place) && report["not_proven_reasons"]["no_revisions"] == 1, "{said}");
        });
        let folder = exported(&ledger, Output::IonText);
        let (report, told) = (gaps(&folder, "export"), folder.revsync(&["journal", "export"]));
        assert_eq!((report.exit, &report.json()["blocks_without_revisions"]), (1, &json!(1)), "{report:?}");
        assert!(told.exit == 1 && told.out.contains("incomplete: 1 block without a revision of each document"), "{told:?}");
    }
}

#[test]
fn a_deletion_that_was_put_in_without_a_hash_is_told() {
    let mut ledger = Ledger::new(12, 30);
    let place = with_revisions(&mut ledger, |revisions| {
        let before = revisions[2].as_struct().unwrap();
        let deletion = before.fields().filter(|(name, _)| name.text() != Some("data")).map(|(name, value)| {
            let is_hash = name.text() == Some("hash");
            (name.clone(), if is_hash { Element::blob([]) } else { value.clone() })
        });
        [revisions, &[Element::from(deletion.collect::<Struct>())]].concat()
    });
    changed(&ledger, |report, said| {
        assert!(blocks(report, "open").contains(&place) && report["not_proven_reasons"]["revision_without_hash"] == 1, "{said}");
    });
}

#[test]
fn a_block_that_cannot_be_used_is_named() {
    let mut ledger = Ledger::new(12, 30);
    let place = with_revisions(&mut ledger, |revisions| [revisions, &[Element::int(7)]].concat());
    let folder = exported(&ledger, Output::IonText);
    let reason = format!("block {}@{place}: expected a record of a QLDB stream or a block of a journal, found an entry", ledger.strand);
    for done in [gaps(&folder, "export"), verify(&folder, "export")] {
        let report = done.json();
        assert!(done.exit == 1 && report["first_unusable"].as_str().unwrap().contains(&reason), "{done:?}");
    }
    for command in ["journal", "verify-journal"] {
        let done = folder.revsync(&[command, "export"]);
        assert!(done.exit == 1 && done.out.contains(&reason), "{done:?}");
    }
}

#[test]
fn a_second_export_with_another_block_in_it_is_found() {
    let ledger = Ledger::new(13, 20);
    let mut forged = ledger.part(5..15);
    let block = &mut forged.blocks[9];
    let other = with(&block.value, "transactionInfo", Element::read_one("{statements:[]}").unwrap());
    block.value = sealed(&other, &lob(&block.value, "previousBlockHash"));
    let folder = Folder::new();
    ledger.export(&folder.path().join("a"), Output::IonText, 50);
    forged.export(&folder.path().join("b"), Output::IonText, 50);
    let done = verify(&folder, ".");
    assert!(breaks(&done.json()).contains(&(14, "copies".to_owned())), "{done:?}");
}

/// One leaf of a value changed by one byte or digit, the `number`th; `number` is counted down. Leaves below the members `unless` stay.
fn flipped(value: &Element, number: &mut usize, dice: &mut Dice, unless: &[&str]) -> Element {
    match value.value() {
        Ion::Struct(fields) => Element::from(
            fields
                .fields()
                .map(|(name, value)| {
                    let is_left = unless.contains(&name.text().unwrap());
                    (name.clone(), if is_left { value.clone() } else { flipped(value, number, dice, unless) })
                })
                .collect::<Struct>(),
        ),
        Ion::List(items) => Element::from(List::from(items.iter().map(|item| flipped(item, number, dice, unless)).collect::<Sequence>())),
        _ if *number > 0 => {
            *number -= 1;
            value.clone()
        }
        leaf => {
            // Nothing behind it is changed.
            *number = usize::MAX;
            match leaf {
                Ion::Blob(bytes) => {
                    let mut bytes = bytes.as_ref().to_vec();
                    let at = dice.below(bytes.len());
                    bytes[at] ^= 1 << dice.below(8);
                    Element::blob(bytes)
                }
                Ion::String(text) if !text.text().is_empty() => {
                    let mut chars: Vec<char> = text.text().chars().collect();
                    let at = dice.below(chars.len());
                    chars[at] = if chars[at] == 'x' { 'y' } else { 'x' };
                    Element::string(chars.into_iter().collect::<String>())
                }
                Ion::Int(int) => Element::int(int.as_i64().unwrap() + 1),
                Ion::Decimal(decimal) => Element::read_one(format!("{decimal}1")).unwrap(),
                Ion::Bool(bool) => Element::boolean(!bool),
                Ion::Timestamp(time) => {
                    let text = time.to_string();
                    let at = text.find("20").unwrap_or(0);
                    Element::read_one(text.replacen(&text[at..at + 4], "1999", 1)).unwrap()
                }
                Ion::Null(_) => Element::boolean(true),
                _ => Element::string("x"),
            }
        }
    }
}

/// Flips something that a hash covers, in a block of a ledger by chance; the ledger and the block.
fn tampered(seed: u64) -> (Ledger, u64) {
    let mut dice = Dice::new(seed);
    let mut ledger = Ledger::new(dice.below(50) as u64, 24);
    loop {
        let place = dice.below(ledger.blocks.len());
        // What no hash covers: where and when a block is, what was asked to be redacted, and the metadata of deletions.
        let mut unless = vec!["blockAddress", "blockTimestamp", "transactionId", "redactionInfo"];
        let block = &mut ledger.blocks[place];
        if block.revisions.iter().any(|revision| revision.kind == Kind::Delete) {
            unless.push("metadata");
        }
        let mut number = dice.below(40);
        let value = flipped(&block.value, &mut number, &mut dice, &unless);
        if value != block.value {
            block.value = value;
            return (ledger, place as u64);
        }
    }
}

#[test]
fn whatever_is_flipped_its_block_is_named() {
    for seed in 0..60 {
        let (ledger, place) = tampered(seed);
        let named = |done: &Done| {
            let report = done.json();
            let mut named = blocks(&report, "breaks");
            named.extend(blocks(&report, "open"));
            // The revision of another document is not one of the stream's.
            named.extend(blocks(&report, "incomplete"));
            assert!(done.exit == 1 && named.contains(&place), "seed {seed}, block {place}: {done:?}");
        };
        let output = OUTPUTS[seed as usize % 3];
        named(&verify(&exported(&ledger, output), "export"));
        if seed % 4 == 0 {
            let folder = Folder::new();
            capture(&folder, &ledger.shuffled(seed, 1));
            named(&verify(&folder, "stream.10n"));
        }
    }
}

#[test]
fn no_statement_and_no_value_of_a_document_is_in_a_report() {
    for seed in [0, 1, 2, 3, 4] {
        let (ledger, _) = tampered(seed);
        let folder = exported(&ledger, Output::Json);
        for json in [&["--json"][..], &[]] {
            let done = folder.revsync(&[json, &["verify-journal", "export"]].concat());
            let said = format!("{}{}", done.out, done.err);
            assert!(["Kowalczyk", "Long Street", "SELECT", "UPDATE", "INSERT"].iter().all(|word| !said.contains(word)), "{said}");
        }
    }
}

#[test]
fn a_source_without_a_journal_proves_nothing() {
    let folder = Folder::new();
    folder.write("s.ion", crate::qldb_stream::control());
    for command in ["journal", "verify-journal"] {
        let done = folder.revsync(&[command, "s.ion"]);
        assert!(done.exit == 1 && done.out.starts_with("no block of a journal: "), "{done:?}");
    }
    folder.write("s.ion", "{a:1}");
    let done = folder.revsync(&["--json", "verify-journal", "s.ion"]);
    assert_eq!((done.exit, done.count("unusable")), (1, 1), "{done:?}");
    assert_eq!(folder.revsync(&["verify-journal", "nothing.ion"]).exit, 2);
    assert!(!Path::new("nothing.ion").exists());
}

#[test]
fn lists_are_cut_and_the_rest_is_counted() {
    let mut ledger = Ledger::new(14, 60);
    ledger.blocks = ledger.blocks.into_iter().step_by(2).collect();
    let folder = exported(&ledger, Output::IonText);
    let done = folder.revsync(&["journal", "export", "--sample", "3"]);
    assert!(done.exit == 1 && done.out.contains("  and 26 more; --sample 0 tells all"), "{done:?}");
}

#[test]
fn a_thousand_blocks_are_proven_in_every_output_format() {
    let ledger = Ledger::new(15, 1_000);
    for output in OUTPUTS {
        let folder = Folder::new();
        ledger.export(folder.path(), output, 100);
        let done = verify(&folder, ".");
        let report = done.json();
        let open = if output == Output::Json { lossy(&ledger) } else { BTreeSet::new() };
        assert_eq!((&report["blocks"], &report["links"], &report["broken"]), (&json!(1_000), &json!(999), &json!(0)), "{done:?}");
        assert_eq!((blocks(&report, "open"), done.exit), (open.clone(), i32::from(!open.is_empty())), "{output:?}");
    }
}

#[test]
fn an_audit_that_is_interrupted_tells_what_it_found_and_exits_2() {
    for command in ["journal", "verify-journal"] {
        let folder = Folder::new();
        let made = Command::new("mkfifo").arg(folder.path().join("pipe")).status().unwrap();
        assert!(made.success());
        let running = folder.command(&["--json", command, "pipe"], &[]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Opened when the signal is listened for already; the source comes to no end before.
        let mut pipe = std::fs::File::options().write(true).open(folder.path().join("pipe")).unwrap();
        pipe.write_all(&Ledger::new(16, 1).stream().concat()).unwrap();
        let signalled = Command::new("kill").args(["-INT", &running.id().to_string()]).status().unwrap();
        assert!(signalled.success());
        let output = running.wait_with_output().unwrap();
        drop(pipe);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((output.status.code(), &report["complete"]), (Some(2), &json!(false)), "{report}");
        assert_ne!(report["proven"], json!(true));
    }
}

#[test]
fn the_examples_of_the_readme_run_as_written() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap();
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let (_, section) = readme.split_once("\n## Prove that a journal is what its ledger wrote\n").unwrap();
    let (_, session) = section.split_once("```console\n").unwrap();
    let (session, _) = session.split_once("```\n").unwrap();
    // How long it took is another thing each time.
    let timeless = |text: &str| {
        let line = |line: &str| match line.strip_suffix(" s)").and_then(|line| line.rsplit_once(", ")) {
            Some((before, _)) => before.to_owned(),
            None => line.to_owned(),
        };
        text.lines().map(line).collect::<Vec<_>>()
    };
    let folder = Folder::new();
    std::os::unix::fs::symlink(root.join("tests"), folder.path().join("tests")).unwrap();
    let examples: Vec<(&str, &str)> = session.split("$ revsync ").skip(1).map(|example| example.split_once('\n').unwrap()).collect();
    for (typed, expected) in &examples {
        let done = folder.revsync(&typed.split(' ').collect::<Vec<_>>());
        assert_eq!((done.exit, timeless(&done.out)), (0, timeless(expected)), "{typed}");
    }
    assert_eq!(examples.len(), 2);
}
