//! Captured streams in a bucket that fails in the middle: what is gone on with, and what is said.

use crate::aws::{CREDENTIALS, REGION};
use crate::command::{Done, Folder, revision};
use crate::scripted_bucket::{Asked, ScriptedBucket, answer, error, list};

fn sync(bucket: &ScriptedBucket) -> Done {
    let environment = [&CREDENTIALS[..], &[("AWS_REGION", REGION)]].concat();
    Folder::new().revsync_with(&["--json", "sync", &bucket.source("x")], &environment, b"").balanced()
}

/// An object that is there as listed.
fn healthy(asked: &Asked, content: &[u8]) -> Vec<u8> {
    assert!(asked.range.is_none(), "it did not break off");
    answer("200 OK", "", content.len(), content)
}

fn records(count: u64) -> Vec<u8> {
    (0..count).map(|number| revision("T", &format!("id-{number}"), 0, Some("{A:1}"))).collect::<String>().into_bytes()
}

/// The objects `x/a.ion` and `x/b.ion`, of which the first is answered as scripted.
fn bucket(first: impl Fn(&Asked, usize) -> Option<Vec<u8>> + Send + Sync + 'static) -> ScriptedBucket {
    let (a, b) = (records(400), records(10));
    ScriptedBucket::start(move |asked, before| {
        if asked.is_list() {
            // The prefix by itself is no object.
            return if asked.path.contains("prefix=x%2F") {
                list(&[("x/a.ion", a.len()), ("x/b.ion", b.len())], "")
            } else {
                list(&[], "")
            };
        }
        let is_first = |asked: &Asked| asked.path.contains("/x/a.ion");
        let content = if is_first(asked) { &a } else { &b };
        let tries = before.iter().filter(|asked| is_first(asked)).count();
        if let Some(answer) = is_first(asked).then(|| first(asked, tries)).flatten() {
            return answer;
        }
        let from: usize = asked.range.as_deref().map_or(0, |range| range["bytes=".len()..].split('-').next().unwrap().parse().unwrap());
        let rest = &content[from..];
        // Breaks off where that was asked for by a length in the script: the first request gives a third.
        if is_first(asked) && tries == 0 {
            return answer("200 OK", "", rest.len(), &rest[..rest.len() / 3]);
        }
        if from == 0 {
            return answer("200 OK", "", rest.len(), rest);
        }
        let range = format!("Content-Range: bytes {from}-{}/{}\r\n", content.len() - 1, content.len());
        answer("206 Partial Content", &range, rest.len(), rest)
    })
}

#[test]
fn an_object_whose_connection_breaks_goes_on_from_where_it_was_and_only_as_the_same_object() {
    let bucket = bucket(|_, _| None);
    let done = sync(&bucket);
    assert_eq!((done.exit, done.count("received"), done.count("dead_letters")), (0, 410, 0), "{done:?}");
    let asked: Vec<Asked> = bucket.asked().into_iter().filter(|asked| asked.path.contains("/x/a.ion")).collect();
    let whole = records(400).len();
    assert_eq!(
        asked.iter().map(|asked| asked.range.clone()).collect::<Vec<_>>(),
        [None, Some(format!("bytes={}-{}", whole / 3, whole - 1))]
    );
    assert!(asked.iter().all(|asked| asked.if_match.as_deref() == Some("\"e-x/a.ion\"")), "{asked:?}");
}

#[test]
fn a_bucket_that_asks_for_patience_gets_it() {
    let bucket = bucket(|_, tries| (tries == 1).then(|| error("503 Slow Down", "SlowDown")));
    let done = sync(&bucket);
    assert_eq!((done.exit, done.count("received")), (0, 410), "{done:?}");
}

#[test]
fn an_object_that_is_no_longer_the_listed_one_is_named_and_the_others_are_read() {
    for (status, code, expected) in [
        ("412 Precondition Failed", "PreconditionFailed", "cannot be read: it changed since the bucket was listed"),
        ("404 Not Found", "NoSuchKey", "cannot be read: it was removed since the bucket was listed"),
        ("403 Forbidden", "AccessDenied", "cannot be read: AccessDenied: as scripted\n help: the right that it takes is s3:GetObject"),
        ("403 Forbidden", "InvalidObjectState", "cannot be read: it is archived\n help: restore what is archived"),
    ] {
        // At once, and after a part of it was read.
        for broken in [0, 1] {
            let bucket = bucket(move |_, tries| (tries >= broken).then(|| error(status, code)));
            let done = sync(&bucket);
            assert!(done.exit == 2 && done.err.contains("s3://exports/x/a.ion ") && done.err.contains(expected), "{code}: {done:?}");
            let read = done.count("received");
            assert!(if broken == 0 { read == 10 } else { (100..300).contains(&read) }, "{code}: {done:?}");
        }
    }
}

#[test]
fn a_server_that_cannot_go_on_in_the_middle_is_not_taken_for_one_that_did() {
    let bucket = bucket(|_, tries| (tries == 1).then(|| answer("200 OK", "", records(400).len(), &records(400))));
    let done = sync(&bucket);
    assert!(done.exit == 2 && done.err.contains("the server cannot go on in the middle of an object"), "{done:?}");
}

#[test]
fn a_list_that_is_cut_off_is_never_taken_for_all_of_it() {
    const CUT_OFF: &str = "<IsTruncated>true</IsTruncated>";
    const ALWAYS_THE_SAME: &str = "<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>";
    for said in [CUT_OFF, ALWAYS_THE_SAME] {
        let bucket = ScriptedBucket::start(move |asked, before| {
            assert!(before.len() < 10, "it goes round in circles");
            if asked.path.contains("prefix=x%2F") { list(&[("x/a.ion", 10)], said) } else { list(&[], "") }
        });
        let environment = [&CREDENTIALS[..], &[("AWS_REGION", REGION)]].concat();
        let done = Folder::new().revsync_with(&["sync", &bucket.source("x")], &environment, b"");
        assert!(done.exit == 2 && done.err.contains("cannot be listed: the list is cut off"), "{done:?}");
    }
}

#[test]
fn a_bucket_that_may_not_be_listed_names_the_right_and_one_of_another_region_names_it() {
    for (status, code, headers, expected) in [
        ("403 Forbidden", "AccessDenied", "", "the right that it takes is s3:ListBucket on the bucket"),
        ("301 Moved Permanently", "PermanentRedirect", "x-amz-bucket-region: eu-north-1\r\n", "add ?region=eu-north-1 to the s3:// URL"),
    ] {
        let body = format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>as scripted</Message></Error>");
        let bucket = ScriptedBucket::start(move |_, _| answer(status, headers, body.len(), body.as_bytes()));
        let environment = [&CREDENTIALS[..], &[("AWS_REGION", REGION)]].concat();
        let done = Folder::new().revsync_with(&["sync", &bucket.source("x")], &environment, b"");
        assert!(done.exit == 2 && done.err.contains("source: s3://exports/x") && done.err.contains(expected), "{code}: {done:?}");
    }
}

#[test]
fn a_bucket_without_credentials_says_how_to_give_some() {
    let folder = Folder::new();
    let environment = [("AWS_EC2_METADATA_DISABLED", "true"), ("HOME", folder.path().to_str().unwrap())];
    // Nothing is sent, so nobody has to listen.
    let place = "s3://example?region=eu-west-1&endpoint=http://127.0.0.1:9";
    let done = folder.revsync_with(&["sync", place], &environment, b"");
    assert!(done.exit == 2 && done.err.contains("there are no credentials for AWS to sign with: set AWS_PROFILE"), "{done:?}");
}

#[test]
fn a_bucket_that_grows_while_it_is_read_twice_is_read_up_to_where_it_was_both_times() {
    let at = |version| move |number| revision("T", &format!("id-{number}"), version, Some("{A:1}"));
    let (older, newer) = ((0..20).map(at(1)).collect::<String>().into_bytes(), (0..20).map(at(2)).collect::<String>().into_bytes());
    let bucket = || {
        let (older, newer) = (older.clone(), newer.clone());
        ScriptedBucket::start(move |asked, before| {
            let is_of_folder = |asked: &Asked| asked.is_list() && asked.path.contains("prefix=x%2F");
            match asked.path.contains("/x/new.ion") {
                _ if is_of_folder(asked) && before.iter().any(is_of_folder) => {
                    list(&[("x/a.ion", older.len()), ("x/new.ion", newer.len())], "")
                }
                _ if is_of_folder(asked) => list(&[("x/a.ion", older.len())], ""),
                _ if asked.is_list() => list(&[], ""),
                true => healthy(asked, &newer),
                false => healthy(asked, &older),
            }
        })
    };
    for resumes in [false, true] {
        let folder = Folder::new();
        let environment = [&CREDENTIALS[..], &[("AWS_REGION", REGION)]].concat();
        let source = bucket().source("x");
        let arguments = ["--json", "sync", &source, "--fold", "--resume"];
        let done = folder.revsync_with(&arguments[..if resumes { 5 } else { 4 }], &environment, b"").balanced();
        assert_eq!((done.exit, done.count("indexed")), (0, 20), "each document is there, as one revision or another: {done:?}");
    }
}

#[test]
fn a_server_that_gives_another_object_or_another_part_than_it_was_asked_for_is_not_believed() {
    let len = records(400).len();
    let of = |range: String, etag: &'static str, from: usize| {
        let headers = format!("Content-Range: bytes {range}/{len}\r\nETag: \"{etag}\"\r\n");
        answer("206 Partial Content", &headers, len - from, &records(400)[from..])
    };
    let (third, all) = (len / 3, len - 1);
    let changed = of(format!("{third}-{all}"), "e-of-another", third);
    let elsewhere = of(format!("{}-{all}", third - 7), "e-x/a.ion", third - 7);
    let at_once = answer("200 OK", "ETag: \"e-of-another\"\r\n", len, &records(400));
    for (tries, given, expected) in [
        (0, at_once, "it changed since the bucket was listed"),
        (1, changed, "it changed since the bucket was listed"),
        (1, elsewhere, "the server cannot go on in the middle of an object"),
    ] {
        let bucket = bucket(move |_, so_far| (so_far == tries).then(|| given.clone()));
        let done = sync(&bucket);
        assert!(done.exit == 2 && done.err.contains(expected), "{tries}: {done:?}");
    }
}
