//! What is read and not taken in yet has a bound, however many shards there are.

use std::sync::Arc;
use std::time::Duration;

use revsync::plan::checkpoint::Begin;
use revsync::run::reading::{Reading, What};
use tokio::time::timeout;

use crate::connect;
use crate::script::{ScriptedStream, Shard};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// Two hundred shards with 100 KiB each.
async fn full() -> ScriptedStream {
    let shard = |number: u64| {
        let mut shard = Shard { behind: Some(1_000), ..Shard::new(&format!("shard-{number}")) };
        shard.records = (1..=5).map(|number| (number, number, vec![b'x'; 20 * KIB])).collect();
        shard
    };
    ScriptedStream::start((0..200).map(shard).collect()).await
}

#[tokio::test]
async fn two_hundred_shards_whose_pages_nobody_takes_in_hold_no_more_than_their_room_and_all_go_on_when_somebody_does() {
    const ROOM: usize = 512 * KIB;
    let stream = full().await;
    let kinesis = Arc::new(connect(&stream.url()).await.unwrap());
    let (mut reading, mut heard) = Reading::new(Arc::clone(&kinesis), ROOM);
    for shard in kinesis.shards().await.unwrap() {
        reading.read(&shard.id, Begin::Earliest);
    }
    // Until no page comes any more.
    let mut held = Vec::new();
    while let Ok(news) = timeout(Duration::from_secs(if held.is_empty() { 30 } else { 3 }), heard.recv()).await {
        if let What::Page(read) = news.unwrap().what {
            held.push(read);
        }
    }
    let sum: usize = held.iter().map(|read| read.page.bytes).sum();
    let one = held.iter().map(|read| read.page.bytes).max().unwrap();
    assert!(held.len() < 20, "{} pages are held", held.len());
    // Each of the reads at once may turn out larger than expected, once.
    assert!(sum <= ROOM + 8 * one, "{sum} bytes are held");
    let mut records: usize = held.iter().map(|read| read.page.records.len()).sum();
    drop(held);
    while records < 200 * 5 {
        let news = timeout(Duration::from_secs(20), heard.recv()).await.expect("reading goes on").unwrap();
        if let What::Page(read) = news.what {
            records += read.page.records.len();
        }
    }
    assert_eq!(records, 200 * 5);
}

#[tokio::test]
async fn a_page_that_is_larger_than_all_the_room_is_read_alone() {
    let mut shards = vec![Shard::new("shard-0"), Shard::new("shard-1")];
    for shard in &mut shards {
        shard.records = vec![(1, 1, vec![b'x'; 10 * MIB])];
    }
    let stream = ScriptedStream::start(shards).await;
    let kinesis = Arc::new(connect(&stream.url()).await.unwrap());
    let (mut reading, mut heard) = Reading::new(kinesis, MIB);
    reading.read("shard-0", Begin::Earliest);
    reading.read("shard-1", Begin::Earliest);
    for _ in 0..2 {
        let page = loop {
            let news = timeout(Duration::from_secs(10), heard.recv()).await.expect("a page").unwrap();
            if let What::Page(read) = news.what
                && !read.page.records.is_empty()
            {
                break read;
            }
        };
        assert!(page.held() >= 10 * MIB);
        drop(page);
    }
}
