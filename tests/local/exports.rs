//! Journal exports and the objects of delivery streams, as folders: what is read of them, and what is said of what is missing.

use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::command::{Done, Folder, revision};
use crate::ledger::{Ledger, OUTPUTS, Output};

fn sync(folder: &Folder, source: &str) -> Done {
    folder.revsync(&["--json", "sync", source]).balanced()
}

/// A ledger's export in a folder `export`, in files of so many blocks.
fn export(folder: &Folder, ledger: &Ledger, output: Output, blocks: usize) -> Vec<PathBuf> {
    ledger.export(&folder.path().join("export"), output, blocks)
}

/// The manifest of a folder whose name ends so.
fn manifest(folder: &Path, end: &str) -> PathBuf {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().ends_with(end) {
                return path;
            }
        }
    }
    panic!("no manifest {end}");
}

#[test]
fn a_whole_export_is_read_without_a_word_in_every_output_format() {
    for output in OUTPUTS {
        let (folder, ledger) = (Folder::new(), Ledger::new(3, 40));
        let files = export(&folder, &ledger, output, 7);
        let done = sync(&folder, "export");
        assert_eq!((done.exit, done.err.as_str()), (0, ""), "{output:?}: {done:?}");
        // Downloaded from deeper inside, and without its folders.
        let flat = folder.path().join("flat");
        std::fs::create_dir(&flat).unwrap();
        for file in files.iter().chain([&manifest(folder.path(), ".completed.manifest")]) {
            std::fs::copy(file, flat.join(file.file_name().unwrap())).unwrap();
        }
        let again = sync(&folder, "flat");
        assert_eq!((again.exit, again.err.as_str(), again.count("received")), (0, "", done.count("received")), "{output:?}: {again:?}");
    }
}

#[test]
fn files_that_a_manifest_names_and_that_are_not_there_are_said_and_the_rest_is_read() {
    for output in OUTPUTS {
        let (folder, ledger) = (Folder::new(), Ledger::new(3, 40));
        let files = export(&folder, &ledger, output, 10);
        std::fs::remove_file(&files[1]).unwrap();
        std::fs::remove_file(&files[3]).unwrap();
        let done = sync(&folder, "export");
        assert_eq!(done.exit, 1, "{output:?}: {done:?}");
        let name = files[1].file_name().unwrap().to_str().unwrap();
        assert!(
            done.err.contains(": 2 of the 4 files that ") && done.err.contains(name) && done.err.contains("not proven complete"),
            "{done:?}"
        );
        assert!(done.count("indexed") > 0, "{done:?}");
    }
}

#[test]
fn an_export_without_its_completed_manifest_and_one_without_any_manifest() {
    let (folder, ledger) = (Folder::new(), Ledger::new(3, 20));
    export(&folder, &ledger, Output::IonText, 10);
    let whole = sync(&folder, "export");
    std::fs::remove_file(manifest(folder.path(), ".completed.manifest")).unwrap();
    let done = sync(&folder, "export");
    assert_eq!((done.exit, done.count("received")), (1, whole.count("received")), "{done:?}");
    assert!(done.err.contains("it was started, and there is no completed manifest"), "{done:?}");
    std::fs::remove_file(manifest(folder.path(), ".started.manifest")).unwrap();
    let done = sync(&folder, "export");
    assert_eq!((done.exit, done.err.as_str(), done.count("received")), (0, "", whole.count("received")), "{done:?}");
}

#[test]
fn a_file_that_does_not_hold_the_blocks_of_its_name_leaves_the_scan_unproven() {
    let (folder, ledger) = (Folder::new(), Ledger::new(3, 20));
    let files = export(&folder, &ledger, Output::Json, 10);
    let text = std::fs::read_to_string(&files[0]).unwrap();
    let cut: Vec<&str> = text.lines().take(9).collect();
    std::fs::write(&files[0], cut.join("\n") + "\n").unwrap();
    let done = sync(&folder, "export");
    assert_eq!(done.exit, 1, "{done:?}");
    assert!(done.err.contains("expected the blocks 0 to 9 of strand") && done.err.contains("found at its end block 8"), "{done:?}");
    assert!(done.err.contains("not proven complete"), "{done:?}");
}

#[test]
fn what_nests_without_end_in_a_data_file_or_a_manifest_costs_only_itself() {
    let nested = format!("{{keys:{}1{}}}", "{a:".repeat(100_000), "}".repeat(100_000));
    for poison in
        [nested.as_str(), "{keys:[\"\\UFFFFFFFF\"],recordType:\"CONTROL\"}", "{keys:[$99999999999999999999],recordType:\"CONTROL\"}"]
    {
        let (folder, ledger) = (Folder::new(), Ledger::new(3, 20));
        let files = export(&folder, &ledger, Output::IonText, 10);
        let whole = sync(&folder, "export");
        std::fs::write(files[0].with_file_name("s.0-0.ion"), poison).unwrap();
        let done = sync(&folder, "export");
        let counts = (done.count("indexed") + done.count("stale") + done.count("deleted"), done.count("dead_letters"));
        assert_eq!((done.exit, counts), (1, (whole.count("indexed") + whole.count("stale") + whole.count("deleted"), 1)), "{done:?}");
        std::fs::write(manifest(folder.path(), ".completed.manifest"), poison).unwrap();
        let done = sync(&folder, "export");
        assert!(done.exit == 1 && done.err.contains("says nothing: expected the keys of the export's files"), "{done:?}");
    }
}

#[test]
fn files_in_json_that_were_joined_in_the_middle_of_a_line_are_still_the_journal() {
    let seed = (0..).find(|seed| !format!("{:?}", Ledger::new(*seed, 12).blocks).contains("Photo")).unwrap();
    let (folder, ledger) = (Folder::new(), Ledger::new(seed, 12));
    let files = export(&folder, &ledger, Output::Json, 4);
    let joined: String = files.iter().map(|file| std::fs::read_to_string(file).unwrap().trim_end().to_owned()).collect();
    assert_eq!(joined.lines().count(), 10);
    folder.write("joined.json", joined);
    let done = folder.revsync(&["--json", "verify-journal", "joined.json"]);
    assert_eq!((done.exit, &done.json()["proven"], &done.json()["blocks"]), (0, &true.into(), &12.into()), "{done:?}");
}

#[test]
fn two_exports_of_one_ledger_in_one_tree_come_to_the_same_as_one() {
    let (one, two, ledger) = (Folder::new(), Folder::new(), Ledger::new(3, 40));
    export(&one, &ledger, Output::IonText, 40);
    for (name, part, output) in [("first", 0..25, Output::IonBinary), ("second", 20..40, Output::Json)] {
        ledger.part(part).export(&two.path().join("export").join(name), output, 10);
    }
    let (whole, parts) = (sync(&one, "export"), sync(&two, "export"));
    assert_eq!((whole.exit, parts.exit), (0, 0), "{parts:?}");
    assert!(parts.err.contains("overlap: both hold the blocks 20 to 24, which does no harm"), "{parts:?}");
    let hits = |folder: &Folder| folder.revsync(&["--json", "verify", "export", "--to", "local:revsync.db"]);
    assert_eq!((hits(&one).exit, hits(&two).exit), (0, 0));
    let gap = Folder::new();
    for (name, part) in [("first", 0..10), ("second", 20..40)] {
        ledger.part(part).export(&gap.path().join("export").join(name), Output::IonText, 10);
    }
    let done = sync(&gap, "export");
    assert!(done.exit == 0 && done.err.contains("leave a gap: the blocks 10 to 19 are in neither"), "{done:?}");
}

#[test]
fn objects_of_a_delivery_stream_are_read_whatever_stands_between_their_records() {
    let records = Ledger::new(5, 60).stream();
    let expected = {
        let folder = Folder::new();
        folder.write("stream.10n", records.concat());
        sync(&folder, "stream.10n")
    };
    for delimiter in ["", "\n", "\r\n"] {
        for gzipped in [false, true] {
            let folder = Folder::new();
            for (number, records) in records.chunks(50).enumerate() {
                let path = folder.path().join(format!("ledger/year=2020/month=03/{number:02}/ledger-1-2020-03-01-{number:02}-00-00-0f0f"));
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                let object: Vec<u8> = records.iter().flat_map(|record| [record, delimiter.as_bytes()].concat()).collect();
                let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
                encoder.write_all(&object).unwrap();
                std::fs::write(path, if gzipped { encoder.finish().unwrap() } else { object }).unwrap();
            }
            folder.write("ledger/_SUCCESS", "");
            let done = sync(&folder, "ledger");
            let counts =
                |done: &Done| ["received", "indexed", "deleted", "stale", "compacted", "dead_letters"].map(|name| done.count(name));
            assert_eq!((done.exit, counts(&done)[0], counts(&done)[5]), (0, counts(&expected)[0], 0), "{delimiter:?}: {done:?}");
            let verified = folder.revsync(&["verify", "ledger", "--to", "local:revsync.db"]);
            assert_eq!(verified.exit, 0, "{verified:?}");
        }
    }
}

#[test]
fn records_that_a_delivery_stream_could_not_process_are_read_from_its_error_folder() {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    let folder = Folder::new();
    let failed = |id: &str| {
        let raw = STANDARD.encode(revision("T", id, 0, Some("{A:1}")));
        serde_json::json!({"attemptsMade": 4, "arrivalTimestamp": 1_583_050_530_000u64, "errorCode": "Lambda.FunctionTimedOut",
            "errorMessage": "The function did not answer in time.", "attemptEndingTimestamp": 1_583_050_590_000u64, "rawData": raw})
        .to_string()
    };
    let path = folder.path().join("errors/processing-failed/2020/03/01/08");
    std::fs::create_dir_all(&path).unwrap();
    std::fs::write(path.join("ledger-1-2020"), format!("{}\n{}\n", failed("a"), failed("b"))).unwrap();
    let done = sync(&folder, "errors");
    assert_eq!((done.exit, done.count("indexed"), done.count("received")), (0, 2, 2), "{done:?}");
}

#[test]
fn a_manifest_that_was_gzipped_with_its_export_is_still_the_manifest() {
    let (folder, ledger) = (Folder::new(), Ledger::new(3, 40));
    let mut files = export(&folder, &ledger, Output::IonText, 10);
    let whole = sync(&folder, "export");
    for end in [".started.manifest", ".completed.manifest"] {
        files.push(manifest(folder.path(), end));
    }
    for file in &files {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(&std::fs::read(file).unwrap()).unwrap();
        std::fs::write(format!("{}.gz", file.display()), encoder.finish().unwrap()).unwrap();
        std::fs::remove_file(file).unwrap();
    }
    let done = sync(&folder, "export");
    assert_eq!((done.exit, done.err.as_str(), done.count("received")), (0, "", whole.count("received")), "{done:?}");
    std::fs::remove_file(format!("{}.gz", files[1].display())).unwrap();
    let done = sync(&folder, "export");
    assert!(done.exit == 1 && done.err.contains(": 1 of the 4 files that "), "{done:?}");
}

#[test]
fn a_repair_from_a_part_of_an_export_brings_no_deleted_document_back() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path().join("export")).unwrap();
    folder.write("export/e.started.manifest", "");
    folder.write("export/1.ion", [revision("T", "gone", 0, Some("{A:1}")), revision("T", "kept", 0, Some("{A:1}"))].concat());
    folder.write("export/2.ion", revision("T", "gone", 1, None));
    assert_eq!(sync(&folder, "export").count("deleted"), 0);
    let whole = std::fs::read(folder.path().join("export/2.ion")).unwrap();
    std::fs::remove_file(folder.path().join("export/2.ion")).unwrap();
    let done = folder.revsync(&["verify", "export", "--repair"]);
    assert_eq!(done.exit, 1, "{done:?}");
    assert!(done.out.contains("1 missing documents stay so") && done.out.contains("could not be read completely"), "{done:?}");
    folder.write("export/2.ion", whole);
    let done = folder.revsync(&["--json", "verify", "export"]);
    assert!(done.out.contains("\"resurrected\":0") && done.out.contains("\"missing\":0"), "{done:?}");
    std::fs::remove_file(folder.path().join("export/2.ion")).unwrap();
    let forced = folder.revsync(&["verify", "export", "--repair", "--force"]);
    assert!(forced.out.contains("was made to forget them"), "{forced:?}");
}
