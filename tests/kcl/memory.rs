//! The most memory that a child takes, with pages as large as Kinesis hands them out and a sink that does not answer.

use std::time::Duration;

use crate::command::Folder;
use crate::kcl::{Handed, Lease};
use crate::peak::{BOUND, MIB, so_far};
use crate::qldb_stream::Does;
use crate::stalling_opensearch::Stalling;
use crate::{child, person};

/// A page of so many records with 10 MB together.
fn page(first: u64, count: u64) -> Vec<Handed> {
    let data = "x".repeat(10_000_000 / count as usize - 250);
    let record = |number: u64| Handed { number, sub: 0, data: person(&number.to_string(), 0, &Does::Put(format!("{{note:\"{data}\"}}"))) };
    (first..first + count).map(record).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_ten_megabytes_stay_below_the_bound_while_the_sink_hangs() {
    for count in [10_u64, 10_000] {
        let (server, folder, mut lease) = (Stalling::start().await, Folder::new(), Lease::default());
        let mut child = child(&folder, &server.url(), &[], &mut lease);
        let mut handed = 0;
        // As many as it takes, and one that it has to keep waiting for.
        for first in (0..8).map(|page| 1 + page * count) {
            handed += count;
            child.send_records(&page(first, count), 60_000, &lease);
            if !child.is_answered_within(Duration::from_secs(5), "processRecords", &mut lease) {
                break;
            }
        }
        assert!(handed < 8 * count, "80 MB were taken in");
        server.release();
        child.answered("processRecords", &mut lease);
        child.request("shardEnded", &mut lease);
        assert_eq!((lease.ended, server.documents()), (true, handed as usize));
        if let Some(peak) = so_far(child.id()) {
            println!("{count} records a page: {} MiB", peak / MIB);
            assert!(peak <= BOUND, "{count} records a page: took {} MiB, may take {}", peak / MIB, BOUND / MIB);
        }
        assert_eq!(child.close().exit, 0);
    }
}
