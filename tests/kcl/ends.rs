//! The ends that a child comes to: of its shard, of its lease, of its daemon, and by a signal.

use std::iter::repeat_n;
use std::time::{Duration, Instant};

use crate::command::Folder;
use crate::kcl::Lease;
use crate::scripted_opensearch::{Fate, Scripted, Step};
use crate::stalling_opensearch::Stalling;
use crate::{child, people, versions};

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_shard_is_not_answered_before_all_of_it_is_settled() {
    let (server, folder, mut lease) = (Scripted::start().await, Folder::new(), Lease::default());
    server.script(repeat_n(Step::status(503, "down"), 10_000));
    let mut child = child(&folder, &server.url(), &[], &mut lease);
    child.process(&people(3), 60_000, &mut lease);
    child.send(&serde_json::json!({ "action": "shardEnded" }));
    child.is_silent_for(Duration::from_secs(3));
    assert_eq!((&lease.asked[..], versions(&server).len()), (&[][..], 0));
    server.clear();
    child.answered("shardEnded", &mut lease);
    assert_eq!((&lease.asked[..], versions(&server).len()), (&[(None, None)][..], 3), "the end itself is what is checkpointed");
    assert_eq!(child.close().exit, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_shard_is_checkpointed_however_long_that_is_refused_for_now() {
    let (server, folder, mut lease) = (Scripted::start().await, Folder::new(), Lease::default());
    let mut child = child(&folder, &server.url(), &[], &mut lease);
    child.process(&people(1), 0, &mut lease);
    lease.fails.extend(["ThrottlingException"; 5]);
    child.request("shardEnded", &mut lease);
    assert_eq!((lease.ended, lease.asked.len()), (true, 7));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_is_lost_while_the_sink_hangs_is_given_up_at_once_and_without_a_checkpoint() {
    let (server, folder, mut lease) = (Stalling::start().await, Folder::new(), Lease::default());
    let mut child = child(&folder, &server.url(), &[], &mut lease);
    child.process(&people(3), 60_000, &mut lease);
    let began = Instant::now();
    child.request("leaseLost", &mut lease);
    let over = child.close();
    assert!(began.elapsed() < Duration::from_secs(5), "it waited for the sink");
    assert_eq!((over.exit, &lease.asked[..]), (0, &[][..]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_stops_gets_the_grace_time_and_then_what_is_settled() {
    let (server, folder, mut lease) = (Scripted::start().await, Folder::new(), Lease::default());
    let mut child = child(&folder, &server.url(), &["--grace", "2s"], &mut lease);
    child.process(&people(3), 0, &mut lease);
    server.script(repeat_n(Step::status(503, "down"), 10_000));
    child.process(&people(5)[3..], 60_000, &mut lease);
    let began = Instant::now();
    child.request("shutdownRequested", &mut lease);
    assert!(began.elapsed() >= Duration::from_secs(2), "what was handed over had no time to be settled");
    assert_eq!((lease.at, lease.asked.len()), (Some((3, 0)), 1));
    server.clear();
    child.request("leaseLost", &mut lease);
    assert_eq!(child.close().exit, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_stops_is_answered_as_soon_as_all_is_settled() {
    let (server, folder, mut lease) = (Scripted::start().await, Folder::new(), Lease::default());
    let mut child = child(&folder, &server.url(), &["--grace", "1h", "--linger", "1h"], &mut lease);
    child.process(&people(3), 60_000, &mut lease);
    assert_eq!(lease.at, None);
    child.request("shutdownRequested", &mut lease);
    assert_eq!((lease.at, versions(&server).len()), (Some((3, 0)), 3));
    assert_eq!(child.close().exit, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_dies_while_nothing_goes_through_takes_its_child_along() {
    let (server, folder, mut lease) = (Scripted::start().await, Folder::new(), Lease::default());
    server.script(repeat_n(Step::without_writing(Fate::Drop), 10_000));
    // So little room that a page cannot be taken as a whole: the child works on it when the daemon goes.
    let small = ["--grace", "1s", "--request-bytes", "1KiB", "--requests-in-flight", "1"];
    let mut child = child(&folder, &server.url(), &small, &mut lease);
    child.send_records(&people(200), 0, &lease);
    child.is_silent_for(Duration::from_secs(4));
    let began = Instant::now();
    let over = child.close();
    assert!(began.elapsed() < Duration::from_secs(10), "it went on without a daemon");
    assert_eq!((over.exit, over.said.concat().as_str(), &lease.asked[..]), (0, "", &[][..]));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_in_the_middle_of_a_page_is_waited_out_and_the_page_is_answered_then() {
    let (server, folder, mut lease) = (Scripted::start().await, Folder::new(), Lease::default());
    server.script(repeat_n(Step::without_writing(Fate::Drop), 10_000));
    let small = ["--request-bytes", "1KiB", "--requests-in-flight", "1"];
    let mut child = child(&folder, &server.url(), &small, &mut lease);
    child.send_records(&people(200), 0, &lease);
    child.is_silent_for(Duration::from_secs(3));
    server.clear();
    child.answered("processRecords", &mut lease);
    child.process(&[], 0, &mut lease);
    assert_eq!((lease.at, versions(&server).len(), child.close().exit), (Some((200, 0)), 200, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_signal_to_the_child_alone_leaves_it_serving_until_the_daemon_ends_it() {
    let (server, folder, mut lease) = (Scripted::start().await, Folder::new(), Lease::default());
    let mut child = child(&folder, &server.url(), &[], &mut lease);
    child.terminate();
    child.process(&people(3), 0, &mut lease);
    child.request("shutdownRequested", &mut lease);
    child.request("leaseLost", &mut lease);
    assert_eq!((lease.at, child.close().exit), (Some((3, 0)), 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_signal_ends_the_child_of_a_daemon_that_does_not_in_the_end() {
    let (server, folder, mut lease) = (Scripted::start().await, Folder::new(), Lease::default());
    let mut child = child(&folder, &server.url(), &["--grace", "0s"], &mut lease);
    child.process(&people(3), 0, &mut lease);
    child.terminate();
    let over = child.over();
    assert!(over.exit == 0 && over.err.contains("the MultiLangDaemon has not ended this shard since"), "{over:?}");
}
