//! One shard, page by page: where reading begins, how it goes on with a new iterator, and what an answer means.

use std::time::Duration;

use revsync::plan::checkpoint::Begin;
use revsync::plan::outcome::Class;
use revsync::record::{Position, SequenceNumber};
use revsync::source::kinesis::{Failure, Page, Reader};
use tokio::time::sleep;

use crate::connect;
use crate::follower::{number, text};
use crate::script::{ARN, ScriptedStream, Shard, refuses};
use crate::scripted_aws::HANGS_UP;

async fn reader(stream: &ScriptedStream, shard: &str, begin: Begin) -> Reader {
    connect(&stream.url()).await.unwrap().reader(shard, begin)
}

fn after(number: u64, sub: Option<u64>) -> Begin {
    Begin::After { position: Position::Sequence { number: SequenceNumber(number.to_string()), sub } }
}

fn texts(page: &Page) -> Vec<String> {
    page.records.iter().map(text).collect()
}

/// Of every call but the first `good`, the iterator is too old.
fn expires_after(stream: &ScriptedStream, good: usize) {
    stream.instead(move |request, before| {
        let reads = before.iter().filter(|request| request.action == "GetRecords").count();
        // Once: the iterator that is made then is good.
        let is_old = request.action == "GetRecords" && reads == good;
        is_old.then(|| refuses("ExpiredIteratorException", "Iterator expired."))
    });
}

#[tokio::test]
async fn a_record_comes_as_it_was_written_with_its_number_its_time_and_its_shard() {
    let stream = ScriptedStream::start(vec![Shard::with("shard-0", [41, 42])]).await;
    let page = reader(&stream, "shard-0", Begin::Earliest).await.next(10).await.unwrap();
    assert_eq!(texts(&page), ["41", "42"]);
    let record = &page.records[1];
    assert_eq!((record.origin.stream.as_str(), record.origin.shard.as_str()), (ARN, "shard-0"));
    assert_eq!((number(record).as_str(), record.arrived, record.damage.is_none()), ("42", Some(42), true));
    assert_eq!((page.ended, page.skip_first_sub, page.loss), (false, None, None));
}

#[tokio::test]
async fn reading_begins_where_it_is_told_to() {
    let stream = ScriptedStream::start(vec![Shard::with("shard-0", [10, 20, 30])]).await;
    for (begin, iterator, read) in [
        (Begin::Earliest, "TRIM_HORIZON", vec!["10", "20", "30"]),
        (Begin::Latest { since: 15 }, "LATEST", vec![]),
        (Begin::Timestamp { millis: 15 }, "AT_TIMESTAMP 15", vec!["20", "30"]),
        (after(20, None), "AFTER_SEQUENCE_NUMBER 20", vec!["30"]),
        (after(20, Some(3)), "AT_SEQUENCE_NUMBER 20", vec!["20", "30"]),
    ] {
        let page = reader(&stream, "shard-0", begin.clone()).await.next(10).await.unwrap();
        assert_eq!(texts(&page), read, "{begin:?}");
        assert_eq!(stream.iterators().last().unwrap(), iterator);
        assert_eq!(page.skip_first_sub, (begin == after(20, Some(3))).then_some(3));
    }
}

#[tokio::test]
async fn the_rest_of_an_aggregate_is_read_also_behind_empty_pages_and_a_new_iterator() {
    let stream = ScriptedStream::start(vec![Shard::with("shard-0", [20, 30])]).await;
    stream.instead(|request, before| {
        let reads = before.iter().filter(|request| request.action == "GetRecords").count();
        match (request.action.as_str(), reads) {
            ("GetRecords", 0) => Some((200, r#"{"Records":[],"NextShardIterator":"shard-0|0","MillisBehindLatest":5}"#.to_owned())),
            ("GetRecords", 1) => Some(refuses("ExpiredIteratorException", "Iterator expired.")),
            _ => None,
        }
    });
    let mut reader = reader(&stream, "shard-0", after(20, Some(3))).await;
    let first = reader.next(1).await.unwrap();
    assert!(first.records.is_empty() && !first.ended && first.skip_first_sub.is_none());
    let second = reader.next(1).await.unwrap();
    assert_eq!((texts(&second), second.skip_first_sub), (vec!["20".to_owned()], Some(3)));
    assert_eq!(stream.iterators(), ["AT_SEQUENCE_NUMBER 20", "AT_SEQUENCE_NUMBER 20"]);
    assert_eq!(reader.next(1).await.unwrap().skip_first_sub, None, "only of the first record");
}

#[tokio::test]
async fn an_expired_iterator_is_renewed_behind_the_last_record_that_was_read() {
    let stream = ScriptedStream::start(vec![Shard::with("shard-0", [10, 20, 30])]).await;
    expires_after(&stream, 1);
    let mut reader = reader(&stream, "shard-0", Begin::Latest { since: 5 }).await;
    stream.change(|state| state.shards[0].records.push((40, 40, b"40".to_vec())));
    // The first iterator was made before that.
    let page = reader.next(10).await.unwrap();
    assert_eq!((texts(&page), stream.iterators()), (vec![], vec!["LATEST".to_owned()]));
    stream.change(|state| state.shards[0].records.push((50, 50, b"50".to_vec())));
    let page = reader.next(10).await.unwrap();
    assert_eq!(stream.iterators(), ["LATEST", "AT_TIMESTAMP 5"], "the latest once more would pass records over");
    assert_eq!(texts(&page), ["10", "20", "30", "40", "50"]);

    expires_after(&stream, stream.asked("GetRecords").len());
    stream.change(|state| state.shards[0].records.push((60, 60, b"60".to_vec())));
    assert_eq!(texts(&reader.next(10).await.unwrap()), ["60"]);
    assert_eq!(stream.iterators().last().unwrap(), "AFTER_SEQUENCE_NUMBER 50");
}

#[tokio::test]
async fn an_iterator_that_is_always_too_old_is_no_loop() {
    let stream = ScriptedStream::start(vec![Shard::with("shard-0", [10])]).await;
    stream.instead(|request, _| (request.action == "GetRecords").then(|| refuses("ExpiredIteratorException", "Iterator expired.")));
    let failed = reader(&stream, "shard-0", Begin::Earliest).await.next(10).await.unwrap_err();
    assert!(matches!(&failed, Failure::Again { what, .. } if what.contains("Iterator expired")), "{failed:?}");
    assert_eq!(stream.asked("GetRecords").len(), 1, "another one is as good as this one, which was just made");
}

#[tokio::test]
async fn a_position_that_the_stream_does_not_have_any_more_is_a_loss_and_reading_goes_on_with_the_oldest() {
    let stream = ScriptedStream::start(vec![Shard::with("shard-0", [30, 40])]).await;
    stream.instead(|request, _| {
        let is_old = request.action == "GetShardIterator" && request.json()["StartingSequenceNumber"] == "20";
        is_old.then(|| refuses("InvalidArgumentException", "StartingSequenceNumber 20 is invalid."))
    });
    let mut reader = reader(&stream, "shard-0", after(20, None)).await;
    let lost = reader.next(10).await.unwrap();
    assert!(lost.loss.as_ref().unwrap().contains("StartingSequenceNumber 20 is invalid"), "{lost:?}");
    assert!(lost.records.is_empty() && !lost.ended);
    let page = reader.next(10).await.unwrap();
    assert_eq!((texts(&page), page.loss), (vec!["30".to_owned(), "40".to_owned()], None));
    assert_eq!(stream.iterators(), ["AFTER_SEQUENCE_NUMBER 20", "TRIM_HORIZON"]);
}

#[tokio::test]
async fn what_is_written_while_a_shard_waits_for_its_first_read_is_not_passed_over_with_the_latest() {
    let stream = ScriptedStream::start(vec![Shard::with("shard-0", [10])]).await;
    let mut reader = reader(&stream, "shard-0", Begin::Latest { since: 15 }).await;
    sleep(Duration::from_millis(1_100)).await;
    stream.change(|state| state.shards = vec![Shard::with("shard-0", [10, 20])]);
    assert_eq!(texts(&reader.next(100).await.unwrap()), ["20"]);
}

#[tokio::test]
async fn a_start_in_time_that_is_refused_is_no_loss() {
    let stream = ScriptedStream::start(vec![Shard::with("shard-0", [30])]).await;
    stream.instead(|request, _| {
        let message = "The timestampInMillis parameter cannot be greater than the currentTimestampInMillis.";
        (request.action == "GetShardIterator").then(|| refuses("InvalidArgumentException", message))
    });
    let failed = reader(&stream, "shard-0", Begin::Timestamp { millis: 9 }).await.next(10).await.unwrap_err();
    assert!(matches!(&failed, Failure::Again { what, .. } if what.contains("timestampInMillis")), "{failed:?}");
}

#[tokio::test]
async fn a_closed_shard_ends_with_its_last_record_and_has_nothing_behind_it() {
    let closed = Shard { closed: true, ..Shard::with("shard-0", [10, 20]) };
    let child = Shard { parents: vec!["shard-0".to_owned()], ..Shard::new("shard-1") };
    let stream = ScriptedStream::start(vec![closed, child]).await;
    let mut reader = reader(&stream, "shard-0", Begin::Earliest).await;
    let first = reader.next(1).await.unwrap();
    assert_eq!((texts(&first), first.ended), (vec!["10".to_owned()], false));
    let last = reader.next(1).await.unwrap();
    assert_eq!((texts(&last), last.ended), (vec!["20".to_owned()], true));
    let asked = stream.service.requests().len();
    let behind = reader.next(1).await.unwrap();
    assert!(behind.ended && behind.records.is_empty());
    assert_eq!(stream.service.requests().len(), asked, "nothing is asked for any more");
}

#[tokio::test]
async fn an_answer_that_says_nothing_is_no_end_of_an_open_shard() {
    let stream = ScriptedStream::start(vec![Shard::with("shard-0", [10])]).await;
    stream.instead(|request, _| (request.action == "GetRecords").then(|| (200, "{}".to_owned())));
    let mut reader = reader(&stream, "shard-0", Begin::Earliest).await;
    let failed = reader.next(10).await.unwrap_err();
    assert!(matches!(&failed, Failure::Again { class: Class::Unknown, .. }), "{failed:?}");
    stream.change(|state| state.instead = None);
    assert_eq!(texts(&reader.next(10).await.unwrap()), ["10"]);
}

#[tokio::test]
async fn a_connection_that_breaks_has_read_nothing_and_the_same_is_read_again() {
    let stream = ScriptedStream::start(vec![Shard::with("shard-0", [10, 20])]).await;
    let mut reader = reader(&stream, "shard-0", Begin::Earliest).await;
    assert_eq!(texts(&reader.next(1).await.unwrap()), ["10"]);
    stream.instead(|request, _| (request.action == "GetRecords").then(|| (HANGS_UP, String::new())));
    let failed = reader.next(1).await.unwrap_err();
    assert!(matches!(&failed, Failure::Again { class: Class::Unavailable, .. }), "{failed:?}");
    stream.instead(|request, _| (request.action == "GetRecords").then(|| (503, String::new())));
    assert!(matches!(reader.next(1).await.unwrap_err(), Failure::Again { class: Class::Unavailable, .. }));
    stream.change(|state| state.instead = None);
    assert_eq!(texts(&reader.next(1).await.unwrap()), ["20"]);
    assert_eq!(stream.iterators(), ["TRIM_HORIZON"], "the iterator is as good as it was");
}

#[tokio::test]
async fn a_read_that_is_given_up_has_read_nothing() {
    let stream = ScriptedStream::start(vec![Shard::with("shard-0", [10, 20])]).await;
    let mut reader = reader(&stream, "shard-0", Begin::Earliest).await;
    for _ in 0..20 {
        // Given up at its first wait: while the iterator is asked for, later while records are.
        let _ = tokio::time::timeout(std::time::Duration::ZERO, reader.next(10)).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(texts(&reader.next(10).await.unwrap()), ["10", "20"]);
}

#[tokio::test]
async fn what_an_error_of_a_read_means() {
    let stream = ScriptedStream::start(vec![Shard::with("shard-0", [10])]).await;
    let mut reader = reader(&stream, "shard-0", Begin::Earliest).await;
    for (code, class) in [
        ("ProvisionedThroughputExceededException", Class::Throttled),
        ("LimitExceededException", Class::Throttled),
        ("KMSThrottlingException", Class::Throttled),
        ("AccessDeniedException", Class::Refused),
        ("KMSAccessDeniedException", Class::Refused),
        ("ExpiredTokenException", Class::Refused),
        ("InternalFailureException", Class::Unavailable),
    ] {
        stream.instead(move |request, _| (request.action == "GetRecords").then(|| refuses(code, "for a reason")));
        let asked = stream.asked("GetRecords").len();
        match reader.next(10).await.unwrap_err() {
            Failure::Again { class: found, what } => {
                assert_eq!((found, what.contains("for a reason")), (class, true), "{code}: {what}");
            }
            other => panic!("{code}: {other:?}"),
        }
        assert_eq!(stream.asked("GetRecords").len(), asked + 1, "{code}: a reader tries once");
    }
    stream.instead(|request, _| (request.action == "GetRecords").then(|| refuses("ResourceNotFoundException", "no such shard")));
    assert!(matches!(reader.next(10).await.unwrap_err(), Failure::Gone { .. }));
}

#[tokio::test]
async fn pages_of_ten_thousand_records_and_of_ten_megabytes_are_read_whole() {
    let many = Shard::with("many", 1..=10_000);
    let mut large = Shard::new("large");
    large.records = (1..=10).map(|number| (number, number, vec![b'x'; 1024 * 1024])).collect();
    let mut huge = Shard::new("huge");
    huge.records = vec![(1, 1, vec![b'x'; 10 * 1024 * 1024])];
    let stream = ScriptedStream::start(vec![many, large, huge]).await;
    for (shard, records, bytes) in [("many", 10_000, 38_894), ("large", 10, 10 << 20), ("huge", 1, 10 << 20)] {
        let page = reader(&stream, shard, Begin::Earliest).await.next(10_000).await.unwrap();
        let read: usize = page.records.iter().map(|record| record.data.len()).sum();
        assert_eq!((page.records.len(), read), (records, bytes), "{shard}");
        assert!(page.bytes > bytes, "what a record takes beside its bytes counts");
    }
}
