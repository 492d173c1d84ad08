//! Whole captures, as files on disk.

mod json_forms;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::window::Window;
use super::*;
use crate::record::Bound;

const PUT: &str = r#"{"op":"Put","table":"shop.item","ts":1,"data":[{"name":"sku","value":"a"},{"name":"n","value":[1,2]}]}"#;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures").join(name)
}

/// Everything that a capture gives, read in pages of a size, and its error.
fn read(source: &Path, budget: usize) -> (Vec<Record>, Option<Error>) {
    let mut capture = Capture::open(source.to_str().unwrap(), Bound::EndsAtStart).unwrap();
    let mut records = Vec::new();
    loop {
        match capture.read(budget) {
            Ok(Some(page)) => {
                assert!(!page.records.is_empty());
                assert!(capture.total().is_none_or(|total| page.read <= total), "more was read than there is");
                records.extend(page.records);
            }
            Ok(None) => return (records, None),
            Err(error) => {
                assert!(capture.read(budget).unwrap().is_none(), "an error comes once");
                return (records, Some(error));
            }
        }
    }
}

fn good(source: &Path) -> Vec<Bytes> {
    let (records, error) = read(source, 1 << 20);
    assert_eq!(error, None);
    assert!(records.iter().all(|r| r.damage.is_none()), "{records:?}");
    records.into_iter().map(|r| r.data).collect()
}

fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn written(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    directory
}

fn file(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let directory = written(&[("capture", bytes)]);
    let path = directory.path().join("capture");
    (directory, path)
}

fn text_of(records: &[Record]) -> Vec<String> {
    records.iter().filter(|r| r.damage.is_none()).map(|r| String::from_utf8_lossy(&r.data).into_owned()).collect()
}

#[test]
fn the_recorded_stream_gives_the_same_records_in_every_binary_form() {
    let binary = good(&fixture("vehicle-registration/stream.10n"));
    assert_eq!(binary.len(), 75);
    assert!(binary.iter().all(|r| r.starts_with(&[0xE0, 1, 0, 0xEA])));
    for form in ["stream.10n.gz", "stream.jsonl", "stream.jsonl.gz", "get-records.json", "get-records.json.gz"] {
        assert_eq!(good(&fixture(&format!("vehicle-registration/{form}"))), binary, "{form}");
    }
    let text = good(&fixture("vehicle-registration/stream.ion"));
    assert_eq!(text.len(), binary.len());
    assert_eq!(good(&fixture("vehicle-registration/stream.ion.gz")), text);
}

#[test]
fn a_lambda_event_gives_its_aggregates_as_they_are() {
    let records = good(&fixture("vehicle-registration/lambda-event.json"));
    assert_eq!(good(&fixture("vehicle-registration/lambda-event.json.gz")), records);
    assert!(records.iter().any(|r| r.starts_with(&[0xF3, 0x89, 0x9A, 0xC2])));
    assert!(records.iter().any(|r| r.starts_with(&[0xE0, 1, 0, 0xEA])));
}

#[test]
fn one_aggregate_in_a_file_is_one_record() {
    let records = good(&fixture("qldb/documentation.kpl"));
    assert_eq!(records, [fs::read(fixture("qldb/documentation.kpl")).unwrap()]);
}

#[test]
fn pages_keep_to_their_budget_and_give_all_records_in_order() {
    let path = fixture("vehicle-registration/stream.10n");
    let (all, _) = read(&path, 1 << 30);
    for budget in [1, 700, 5000] {
        let mut capture = Capture::open(path.to_str().unwrap(), Bound::EndsAtStart).unwrap();
        let (mut offsets, mut pages, mut last) = (Vec::new(), 0, 0);
        while let Some(page) = capture.read(budget).unwrap() {
            let size: usize = page.records.iter().rev().skip(1).map(|r| r.data.len()).sum();
            assert!(size < budget, "{size} bytes before the last record of a page of {budget}");
            assert!(page.read >= last);
            (pages, last) = (pages + 1, page.read);
            offsets.extend(page.records.into_iter().map(|r| r.position));
        }
        assert!(pages > 1);
        assert_eq!(offsets, all.iter().map(|r| r.position.clone()).collect::<Vec<_>>());
        assert_eq!(Some(last), capture.total());
    }
}

#[test]
fn positions_are_unique_and_ascend_in_every_form() {
    for form in ["stream.10n", "stream.ion", "stream.jsonl", "lambda-event.json", "get-records.json", "get-records.json.gz"] {
        let (records, _) = read(&fixture(&format!("vehicle-registration/{form}")), 1 << 20);
        assert!(records.windows(2).all(|pair| pair[0].position < pair[1].position), "{form}");
    }
}

#[test]
fn the_offset_in_a_json_container_is_that_of_the_data() {
    let path = fixture("vehicle-registration/get-records.json");
    let text = fs::read_to_string(&path).unwrap();
    let (records, _) = read(&path, 1 << 20);
    for record in records {
        let Position::Byte { offset } = record.position else { panic!() };
        assert!(text[offset as usize..].starts_with("\"4AEA6"));
    }
}

#[test]
fn records_of_a_file_carry_the_source_as_their_origin() {
    let path = fixture("qldb/documentation.10n");
    let (records, _) = read(&path, 1 << 20);
    assert_eq!(records[0].origin.to_string(), path.to_str().unwrap());
}

#[test]
fn a_directory_is_read_file_by_file_in_the_order_of_names() {
    let directory = written(&[
        ("b.ion", b"{recordType:2}"),
        ("a.ion", b"{recordType:1}"),
        ("deep/er/c.jsonl", b"{\"Data\":\"4AEA6g8=\"}\n"),
        ("empty.ion", b""),
        (".hidden.ion", b"{recordType:3}"),
        (".hidden/d.ion", b"{recordType:4}"),
        ("README.md", b"# About\n\nNothing."),
        ("notes.txt", b"some words"),
        ("export.started.manifest", b"{ledgerName:\"x\"}"),
        ("picture.png", b"\x89PNG\r\n\x1a\n\0\0"),
    ]);
    let (records, error) = read(directory.path(), 1 << 20);
    assert_eq!(error, None);
    let shards: Vec<_> = records.iter().map(|r| r.origin.shard.as_str()).collect();
    assert_eq!(shards, ["a.ion", "b.ion", "deep/er/c.jsonl"]);
    assert!(records.iter().all(|r| r.origin.stream == directory.path().to_str().unwrap()));
    let capture = Capture::open(directory.path().to_str().unwrap(), Bound::EndsAtStart).unwrap();
    assert_eq!(capture.files, 4);
    assert_eq!(capture.notes().len(), 4, "{:?}", capture.notes());
    assert_eq!(capture.total(), Some(14 + 14 + 20));
}

#[cfg(unix)]
#[test]
fn a_directory_that_links_to_itself_is_read_once() {
    let directory = written(&[("a/one.ion", b"{recordType:1}")]);
    std::os::unix::fs::symlink(directory.path(), directory.path().join("a/loop")).unwrap();
    std::os::unix::fs::symlink("nowhere", directory.path().join("dangling")).unwrap();
    assert_eq!(read(directory.path(), 1 << 20).0.len(), 1);
}

#[test]
fn a_damaged_file_of_a_directory_ends_the_run_after_all_others() {
    let mut cut = fs::read(fixture("qldb/documentation.10n")).unwrap();
    cut.truncate(cut.len() - 1);
    let directory = written(&[("1.10n", &cut), ("2.ion", b"{recordType:1}"), ("3.10n", &cut), ("4.ion", b"{recordType:2}")]);
    let (records, error) = read(directory.path(), 1 << 20);
    assert_eq!(records.len(), 3 + 1 + 3 + 1);
    let what = error.unwrap().what;
    assert!(what.starts_with("2 files"), "{what}");
    assert!(what.contains("1.10n is damaged at byte"), "{what}");
}

#[test]
fn what_cannot_be_opened_is_said_with_what_to_do() {
    let directory = written(&[("text", b"hello\nworld\n"), ("none/README", b"# x"), ("empty/.hidden", b"")]);
    let error = |name: &str| Capture::open(directory.path().join(name).to_str().unwrap(), Bound::EndsAtStart).unwrap_err();
    for (name, says) in [
        ("missing", "does not exist"),
        ("text", "is not a captured stream: expected Ion binary (E0 01 00 EA)"),
        ("none", "without a captured stream; passed over: README"),
        ("empty", "is an empty directory"),
    ] {
        let error = error(name);
        assert_eq!(error.kind, Kind::Source);
        assert!(error.what.contains(says), "{error}");
        assert!(error.help.is_some());
    }
}

#[test]
fn an_empty_file_is_a_capture_without_records() {
    for bytes in [&b""[..], b"\n \r\n", &gz(b"")] {
        let (_directory, path) = file(bytes);
        assert_eq!(good(&path).len(), 0);
    }
}

#[test]
fn a_damaged_ion_file_gives_everything_before_and_names_file_and_offset() {
    let whole = fs::read(fixture("vehicle-registration/stream.10n")).unwrap();
    let (_directory, path) = file(&whole[..whole.len() - 10]);
    let (records, error) = read(&path, 1 << 20);
    assert_eq!(records.len(), 74);
    let error = error.unwrap();
    assert_eq!(error.kind, Kind::Source);
    assert!(error.what.starts_with(&format!("{} is damaged at byte ", path.display())), "{error}");
}

#[test]
fn a_cut_off_gzip_file_gives_everything_before_and_says_so() {
    let whole = gz(&fs::read(fixture("vehicle-registration/stream.10n")).unwrap());
    let (_directory, path) = file(&whole[..whole.len() / 2]);
    let (records, error) = read(&path, 1 << 20);
    assert!(records.len() > 20, "only {} records", records.len());
    assert!(records.iter().all(|r| r.damage.is_none()));
    assert!(error.unwrap().what.contains("is damaged or cut off after byte"));
}

#[test]
fn a_line_in_which_a_gzip_file_is_cut_off_is_not_taken_for_a_record() {
    let row = |number: u64| PUT.replace("\"ts\":1", &format!("\"ts\":{}", number.wrapping_mul(0x9E37_79B9_7F4A_7C15)));
    let base64 = |number: u64| {
        STANDARD.encode([&[0xE0, 1, 0, 0xEA, 0x88][..], &number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes()[..]].concat())
    };
    let forms: [&dyn Fn(u64) -> String; 3] = [&row, &|number| format!(r#"{{"Data":"{}"}}"#, base64(number)), &base64];
    for (form, line) in forms.into_iter().enumerate() {
        let lines = |count: u64| (0..count).map(|number| line(number) + "\n").collect::<String>();
        let (_directory, path) = file(lines(2000).as_bytes());
        let whole: Vec<Bytes> = good(&path);
        let packed = gz(lines(2000).as_bytes());
        for cut in [packed.len() / 3, packed.len() / 2, packed.len() - 40, packed.len() - 4] {
            let (_directory, path) = file(&packed[..cut]);
            let (records, error) = read(&path, 1 << 20);
            assert!(error.is_some_and(|error| error.what.contains("is damaged or cut off")), "{form} {cut}");
            let damaged = records.iter().find(|record| record.damage.is_some());
            assert!(damaged.is_none() && !records.is_empty(), "{form} {cut}: {damaged:?}");
            assert!(records.iter().map(|record| &record.data).eq(&whole[..records.len()]), "{form} {cut}");
        }
        // Only what stands behind its content is missing.
        let without_end = gz(lines(3).trim_end().as_bytes());
        let (_directory, path) = file(&without_end[..without_end.len() - 4]);
        assert!(read(&path, 1 << 20).0.len() >= 2, "{form}");
    }
}

#[test]
fn every_member_of_a_gzip_file_is_read_and_gzip_inside_gzip_too() {
    let (_directory, path) = file(&[gz(b"{recordType:1}\n"), gz(b"{recordType:2}\n")].concat());
    assert_eq!(good(&path), ["{recordType:1}", "{recordType:2}"]);
    let (_directory, path) = file(&gz(&gz(b"{recordType:1}")));
    assert_eq!(good(&path), ["{recordType:1}"]);
}

#[test]
fn a_compressed_file_of_any_size_is_read_in_bounded_memory() {
    let mut text = b"{recordType:1}\n".to_vec();
    text.resize(20 << 20, b' ');
    text.extend_from_slice(b"\n{recordType:2}\n");
    let (_directory, path) = file(&gz(&text));
    let mut capture = Capture::open(path.to_str().unwrap(), Bound::EndsAtStart).unwrap();
    let mut records = Vec::new();
    while let Some(page) = capture.read(1).unwrap() {
        records.extend(page.records);
        assert!(capture.current.as_ref().is_none_or(|input| input.window.bytes().len() <= 1 << 20), "the window grew");
    }
    assert_eq!(text_of(&records), ["{recordType:1}", "{recordType:2}"]);
}

#[test]
fn a_byte_order_mark_is_no_part_of_a_record() {
    let (_directory, path) = file("\u{FEFF}{recordType:1}".as_bytes());
    assert_eq!(good(&path), ["{recordType:1}"]);
}

#[test]
fn a_file_that_grows_meanwhile_is_read_to_its_length_at_the_start() {
    let (_directory, path) = file(b"{recordType:1}\n");
    let mut capture = Capture::open(path.to_str().unwrap(), Bound::EndsAtStart).unwrap();
    fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{recordType:2}\n").unwrap();
    let page = capture.read(1 << 20).unwrap().unwrap();
    assert_eq!(page.records.len(), 1);
    assert!(capture.read(1 << 20).unwrap().is_none());
}

#[test]
fn a_file_that_becomes_shorter_meanwhile_is_not_taken_for_whole() {
    let directory = written(&[("a.ion", b"{recordType:1}\n{recordType:2}\n")]);
    let mut capture = Capture::open(directory.path().to_str().unwrap(), Bound::EndsAtStart).unwrap();
    fs::write(directory.path().join("a.ion"), b"{recordType:1}\n").unwrap();
    assert_eq!(capture.read(1 << 20).unwrap().unwrap().records.len(), 1);
    assert!(capture.read(1 << 20).unwrap_err().what.contains("became shorter"));
}

#[cfg(target_os = "linux")]
#[test]
fn a_pipe_is_read_to_its_end_and_its_length_is_not_known() {
    use std::os::fd::AsRawFd;
    let (reader, mut writer) = std::io::pipe().unwrap();
    let source = format!("/proc/self/fd/{}", reader.as_raw_fd());
    let writing = std::thread::spawn(move || {
        for i in 0..50_000 {
            writeln!(writer, "{{recordType:{i}}}").unwrap();
        }
    });
    let mut capture = Capture::open(&source, Bound::EndsAtStart).unwrap();
    // Only the other end may hold the pipe open now.
    drop(reader);
    assert_eq!(capture.total(), None);
    let mut count = 0;
    while let Some(page) = capture.read(1 << 16).unwrap() {
        count += page.records.len();
    }
    writing.join().unwrap();
    assert_eq!(count, 50_000);
}

#[test]
fn json_lines_that_are_records_themselves_are_handed_on_as_text() {
    let text = "{\"recordType\":\"CONTROL\"}\n{\"recordType\n\n{\"recordType\":\"CONTROL\",\"a\":1}\r\n";
    let (_directory, path) = file(text.as_bytes());
    assert_eq!(good(&path), ["{\"recordType\":\"CONTROL\"}", "{\"recordType", "{\"recordType\":\"CONTROL\",\"a\":1}"]);
}

#[test]
fn no_error_or_reason_shows_content() {
    for text in ["{\"Data\":\"MQ==\"}\n{\"Data\":\"SECRET!\"}\n", "{\"Data\":\"MQ==\"}\n{\"SECRET\":\"x\n", "{recordType:1}\n{a:\"SECRET\n"]
    {
        let (_directory, path) = file(text.as_bytes());
        let (records, error) = read(&path, 1 << 20);
        let said: String =
            records.iter().filter_map(|r| r.damage.as_ref()).map(ToString::to_string).chain(error.map(|e| e.to_string())).collect();
        assert!(!said.is_empty() && !said.contains("SECRET"), "{said}");
    }
}

#[test]
fn every_flipped_byte_of_a_real_capture_costs_at_most_its_record() {
    let capture = fs::read(fixture("qldb/documentation.10n")).unwrap();
    let whole = good(&fixture("qldb/documentation.10n"));
    let ends: Vec<usize> = whole
        .iter()
        .scan(0, |end, r| {
            *end += r.len();
            Some(*end)
        })
        .collect();
    let (_directory, path) = file(&capture);
    for at in 0..capture.len() {
        for flip in [0x01, 0x80, 0xFF, 0x10] {
            let mut damaged = capture.clone();
            damaged[at] ^= flip;
            fs::write(&path, &damaged).unwrap();
            let (records, error) = read(&path, 1 << 20);
            let hit = ends.iter().position(|&end| at < end).unwrap();
            for (i, record) in whole.iter().enumerate().filter(|&(i, _)| i != hit) {
                assert!(records.iter().any(|r| r.data == record), "record {i} was lost by byte {at} ^ {flip:02x}");
            }
            assert!(error.is_none() || hit + 1 == whole.len());
        }
    }
}
