//! Captures in JSON: lines, Lambda events, lists of records and row changes, whole and damaged.

use super::*;

#[test]
fn a_broken_line_among_json_lines_costs_only_itself() {
    for broken in [
        "{\"Data\":\"4AEA",
        "{\"Data\":\"4AEA6g8=\"",
        "{\"Data\":",
        "{",
        "}",
        "{\"Data\":\"4AEA6g8=\"}}",
        "{\"Data\":\"!!\"}",
        "{\"Other\":1}",
        "garbage",
        "{\"Data\":[1,2",
        "{\"Data\":{\"a\":1,",
    ] {
        let text = format!("{{\"Data\":\"MQ==\"}}\n{broken}\n{{\"Data\":\"Mg==\"}}\n{{\"kinesis\":{{\"data\":\"Mw==\"}}}}\n");
        let (_directory, path) = file(text.as_bytes());
        let (records, error) = read(&path, 1 << 20);
        assert_eq!(error, None, "{broken}");
        let kept = text_of(&records);
        assert!(["1", "2", "3"].iter().all(|n| kept.iter().any(|k| k == n)), "{broken}: {kept:?}");
        assert_eq!(records.iter().filter(|r| r.damage.is_some()).count(), 1, "{broken}: {records:?}");
    }
}

#[test]
fn a_broken_first_or_last_line_costs_only_itself() {
    for text in [
        "{\"Data\":\"4AE\n{\"Data\":\"MQ==\"}\n",
        "{\"Data\":\"MQ==\"}\n{\"Data\":\"4AEA",
        "{\"Data\":\"MQ==\"}\n{\"Data\":\"4AEA\n\n",
        "??\n{\"Data\":\"MQ==\"}",
    ] {
        let (_directory, path) = file(text.as_bytes());
        let (records, error) = read(&path, 1 << 20);
        assert_eq!(error, None, "{text}");
        assert_eq!(text_of(&records), ["1"], "{text}");
        assert_eq!(records.len(), 2);
    }
}

#[test]
fn every_form_of_json_record_is_read() {
    let text = concat!(
        "{\"Data\":\"4AEA6g8=\",\"SequenceNumber\":\"1\"}\n",
        "{\"sequenceNumber\":\"2\",\"data\":\"4AEA6g8\"}\r\n",
        "{\"kinesis\":{\"partitionKey\":\"a\",\"data\":\"4AEA6g8=\"},\"eventID\":\"x\"}\n",
        "{\"Records\":[{\"kinesis\":{\"data\":\"4AEA6g8=\"}},{\"Data\":\"4AEA6g8=\"}],\"NextShardIterator\":\"x\"} {\"Records\":[]}\n",
        "[{\"Data\":\"4AEA6g8=\"}, {\"Data\":\"4AEA6g8=\"},]\n",
        "\"4AEA6g8=\"\n",
        "4AEA6g8=\n",
        "{\"Data\":{\"type\":\"Buffer\",\"data\":[224,1,0,234,15]}}\n",
        "{\"MillisBehindLatest\":0,\n  \"records\" : [ \n {\"data\":\"4AEA6\\u00678=\"} ] }",
    );
    let (_directory, path) = file(text.as_bytes());
    assert_eq!(good(&path), vec![&b"\xE0\x01\x00\xEA\x0F"[..]; 11]);
}

#[test]
fn one_bad_record_in_a_lambda_event_costs_only_itself() {
    let event = String::from_utf8(fs::read(fixture("vehicle-registration/lambda-event.json")).unwrap()).unwrap();
    let whole = good(&fixture("vehicle-registration/lambda-event.json"));
    let compact = event.replace("\n", "").replace("  ", "");
    for text in [event, compact] {
        let middle = text.match_indices("\"data\"").nth(3).unwrap().0;
        for (bad, at) in [("!", middle + 12), ("\"", middle + 20), ("}", middle + 5), ("\n", middle + 30), (",", middle + 6)] {
            let mut text = text.clone();
            text.replace_range(at..at + 1, bad);
            let (_directory, path) = file(text.as_bytes());
            let (records, error) = read(&path, 1 << 20);
            assert_eq!(error, None, "{bad:?}");
            let kept: Vec<_> = records.iter().filter(|r| r.damage.is_none()).map(|r| r.data.clone()).collect();
            for (i, record) in whole.iter().enumerate().filter(|&(i, _)| i != 3) {
                assert!(kept.contains(record), "record {i} was lost by {bad:?}");
            }
            assert!(records.iter().any(|r| r.damage.is_some()));
        }
    }
}

#[test]
fn a_cut_off_lambda_event_is_an_error_after_its_records() {
    let event = fs::read(fixture("vehicle-registration/lambda-event.json")).unwrap();
    let (_directory, path) = file(&event[..event.len() / 2]);
    let (records, error) = read(&path, 1 << 20);
    assert!(records.len() > 3);
    assert!(error.unwrap().what.contains("is damaged at byte"));
}

#[test]
fn objects_that_share_a_line_are_records_of_their_own() {
    let block = |number: u64| format!(r#"{{"blockAddress":{{"strandId":"}}{{","sequenceNo":{number}}},"transactionId":"t","a":{{}}}}"#);
    for between in ["", " ", " \t", "\r"] {
        let text = format!("{}\n{}{between}{}\n{}{between}{}", block(0), block(1), block(2), block(3), r#"{"blockAddress":"#);
        let directory = written(&[("s", text.as_bytes())]);
        let expected: Vec<Bytes> = (0..4).map(block).chain([r#"{"blockAddress":"#.to_owned()]).map(Bytes::from).collect();
        assert_eq!(good(&directory.path().join("s")), expected, "{between:?}");
    }
    // Over the borders of pages too, and of many each costs as much as alone.
    let text = block(0) + "\n" + &r#"{"a":1}"#.repeat(400_000);
    let directory = written(&[("s", text.as_bytes())]);
    assert_eq!(good(&directory.path().join("s")).len(), 400_001);
    // What is damaged costs its line.
    let text = format!("{}\n{}]{}\n{}\n", block(0), block(1), block(2), block(3));
    let directory = written(&[("s", text.as_bytes())]);
    assert_eq!(good(&directory.path().join("s")).len(), 3);
}

#[test]
fn a_cut_off_event_among_lines_of_events_costs_only_its_rest() {
    let text = "{\"Records\":[{\"Data\":\"MQ==\"},{\"Data\":\"Mg==\"}\n{\"Records\":[{\"Data\":\"Mw==\"}]}\n{\"Records\":[{\"Data\":\"N\n{\"Records\":[{\"Data\":\"NA==\"}]}\n";
    let (_directory, path) = file(text.as_bytes());
    let (records, error) = read(&path, 1 << 20);
    assert_eq!(error, None);
    assert_eq!(text_of(&records), ["1", "2", "3", "4"]);
    assert_eq!(records.iter().filter(|r| r.damage.is_some()).count(), 2);
}

#[test]
fn a_list_of_records_is_read_whatever_its_length() {
    let data = base64::Engine::encode(&json_record::BASE64, vec![b'x'; 1 << 20]);
    let records: Vec<String> = (0..20).map(|i| format!("{{\"SequenceNumber\":\"{i}\",\"Data\":\"{data}\"}}")).collect();
    let (_directory, path) = file(format!("{{\"Records\":[{}],\"MillisBehindLatest\":0}}\n", records.join(",\n")).as_bytes());
    let mut capture = Capture::open(path.to_str().unwrap(), Bound::EndsAtStart).unwrap();
    let mut count = 0;
    while let Some(page) = capture.read(1).unwrap() {
        count += page.records.len();
        assert!(capture.current.as_ref().is_none_or(|input| input.window.bytes().len() <= 4 << 20), "the whole list was buffered");
    }
    assert_eq!(count, 20);
}

proptest::proptest! {
    #[test]
    fn one_flipped_byte_of_json_lines_costs_at_most_its_line(at: proptest::sample::Index, to: u8) {
        let lines: Vec<String> = (0..6u8).map(|i| format!("{{\"SequenceNumber\":\"{i}\",\"Data\":\"{}\"}}\n", base64::Engine::encode(&json_record::BASE64, [0xE0, 1, 0, 0xEA, 0x21, i]))).collect();
        let mut text = lines.concat().into_bytes();
        let at = at.index(text.len());
        text[at] = to;
        let hit = at / lines[0].len();
        let mut window = Window::new(Box::new(std::io::Cursor::new(text)));
        let (mut framing, mut out) = (json::Json::default(), Vec::new());
        while let Ok(Some(framed)) = framing.next(&mut window) {
            out.push(framed.data);
        }
        // A line whose line feed is gone is one with the next.
        let lost = |i: usize| i == hit || at % lines[0].len() == lines[0].len() - 1 && i == hit + 1;
        for i in (0..6u8).filter(|&i| !lost(i.into())) {
            proptest::prop_assert!(out.iter().any(|data| data[..] == [0xE0, 1, 0, 0xEA, 0x21, i]), "line {} was lost by byte {}", i, at);
        }
    }

    #[test]
    fn any_json_like_text_comes_to_an_end(odd in "[{}\\[\\]\":,aRecordsDt1= \n\\\\]{0,80}", cut in "(\\{\"Records\":\\[)?(\\{\"Data\":\"MQ==\"\\},?\n?){0,4}[{}\\],\"\n]{0,6}") {
        for text in [odd, cut] {
            let mut window = Window::new(Box::new(std::io::Cursor::new(text.clone().into_bytes())));
            let (mut framing, mut count) = (json::Json::default(), 0);
            while let Ok(Some(_)) = framing.next(&mut window) {
                count += 1;
                assert!(count <= text.len() + 1, "no progress");
            }
        }
    }
}

const UPDATE: &str = r#"{"schema":{},"payload":{"op":"u","before":null,"after":{"id":1,"records":[{"Data":"x"}]},"source":{}}}"#;

#[test]
fn row_changes_are_records_as_they_stand_however_they_are_laid_out() {
    let pretty = |text: &str| serde_json::to_string_pretty(&serde_json::from_str::<serde_json::Value>(text).unwrap()).unwrap();
    let texts = |path: &Path| good(path).iter().map(|data| serde_json::from_slice::<serde_json::Value>(data).unwrap()).collect::<Vec<_>>();
    for text in [
        format!("{PUT}\n{UPDATE}\n"),
        format!("{PUT},\r\n{UPDATE}"),
        format!("{UPDATE}\n{PUT}"),
        format!("[{PUT},{UPDATE}]"),
        format!("[\n{PUT},\n{UPDATE}\n]\n"),
        format!("[{},\n{}]", pretty(PUT), pretty(UPDATE)),
        format!("{}\n{}\n", pretty(PUT), pretty(UPDATE)),
        format!("{PUT}{UPDATE}"),
        format!("{} {}", pretty(UPDATE), pretty(PUT)),
    ] {
        let mut expected = [PUT, UPDATE].map(|text| serde_json::from_str::<serde_json::Value>(text).unwrap());
        if text.starts_with(UPDATE) || text.starts_with(&pretty(UPDATE)) {
            expected.reverse();
        }
        for bytes in [text.clone().into_bytes(), gz(text.as_bytes())] {
            let (_directory, path) = file(&bytes);
            assert_eq!(texts(&path), expected, "{text}");
        }
    }
}

#[test]
fn a_row_change_that_is_damaged_costs_itself() {
    let cut = &PUT[..40];
    for text in [
        format!("{UPDATE}\n{cut}\n{PUT}\n"),
        format!("[{UPDATE},{cut},{PUT}]"),
        format!("[\n{UPDATE},\n{cut}\n,{PUT}\n]"),
        format!("{{\n\"op\":\"Put\",\"data\":[]}}\n{{\"op\":\"Put\n{PUT}\n"),
    ] {
        let (_directory, path) = file(text.as_bytes());
        let (records, error) = read(&path, 1 << 20);
        assert_eq!(error, None, "{text}");
        assert_eq!((records.len(), records[2].data.as_ref()), (3, PUT.as_bytes()), "{text}: {records:?}");
    }
}

#[test]
fn a_value_that_is_null_is_a_message_without_one() {
    let nulls = |text: &str| {
        let (_directory, path) = file(text.as_bytes());
        let (records, error) = read(&path, 1 << 20);
        assert_eq!(error, None);
        records.iter().map(|record| record.message.as_ref().is_some_and(|message| message.is_null)).collect::<Vec<_>>()
    };
    assert_eq!(nulls(&format!("{PUT}\nnull\n{UPDATE}\n")), [false, true, false]);
    assert_eq!(nulls(&format!("[{PUT},\nnull , {UPDATE}]")), [false, true, false]);
    assert_eq!(nulls("{\"recordType\":\"CONTROL\"}\nnull\n"), [false, false]);
}
