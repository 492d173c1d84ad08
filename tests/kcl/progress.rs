//! How far a checkpoint goes: up to what is settled, and not beyond, whatever the sink does and whatever becomes of the checkpoint.

use std::iter::repeat_n;
use std::time::{Duration, Instant};

use crate::command::Folder;
use crate::kcl::{Handed, Lease};
use crate::qldb_stream::put;
use crate::scripted_opensearch::{Fate, Scripted, Step};
use crate::stalling_opensearch::Stalling;
use crate::{child, people, person, versions};

/// Hands empty pages over until a checkpoint was taken there.
fn until_saved(child: &mut crate::kcl::Child, at: (u64, u64), lease: &mut Lease) {
    let until = Instant::now() + Duration::from_secs(60);
    while lease.at != Some(at) {
        assert!(Instant::now() < until, "{lease:?} never came to {at:?}");
        child.process(&[], 0, lease);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sink_that_does_not_answer_settles_nothing_and_a_later_call_saves_what_it_answered_meanwhile() {
    let (server, folder, mut lease) = (Stalling::start().await, Folder::new(), Lease::default());
    let mut child = child(&folder, &server.url(), &[], &mut lease);
    child.process(&people(5), 0, &mut lease);
    child.process(&[], 0, &mut lease);
    assert_eq!(lease.asked, [], "nothing is settled");
    server.release();
    until_saved(&mut child, (5, 0), &mut lease);
    assert_eq!((server.documents(), lease.asked.len(), child.close().exit), (5, 1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn far_behind_nothing_is_waited_for_and_what_is_settled_by_then_is_saved() {
    let (server, folder, mut lease) = (Stalling::start().await, Folder::new(), Lease::default());
    let mut child = child(&folder, &server.url(), &[], &mut lease);
    let began = Instant::now();
    child.process(&people(5), 60_000, &mut lease);
    assert!(began.elapsed() < Duration::from_secs(2), "a page of a backlog waited for the sink");
    assert_eq!(lease.asked, []);
    server.release();
    until_saved(&mut child, (5, 0), &mut lease);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sink_that_asks_for_less_or_loses_its_answer_is_asked_again_before_the_checkpoint() {
    let (server, folder, mut lease) = (Scripted::start().await, Folder::new(), Lease::default());
    server.script([
        Step::status(429, "slow down"),
        Step::after_writing(Fate::Drop),
        Step::reject(1, 429, "circuit_breaking_exception", "slow down"),
    ]);
    let mut child = child(&folder, &server.url(), &[], &mut lease);
    child.process(&people(5), 0, &mut lease);
    until_saved(&mut child, (5, 0), &mut lease);
    assert_eq!((versions(&server).len(), server.bulks().len(), child.close().exit), (5, 4, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_in_the_middle_of_an_aggregate_is_where_the_next_child_goes_on() {
    let (server, folder, mut lease) = (Scripted::start().await, Folder::new(), Lease::default());
    let parts: Vec<Handed> = (0..10).map(|sub| Handed { number: 7, sub, data: person(&sub.to_string(), 0, &put("x")) }).collect();
    // The sixth part is refused for now, however often it is sent.
    let refused = |place| Step::reject(place, 429, "circuit_breaking_exception", "slow down");
    server.script([refused(5)].into_iter().chain(repeat_n(refused(0), 1_000)));
    let mut first = child(&folder, &server.url(), &[], &mut lease);
    first.process(&parts, 0, &mut lease);
    assert_eq!(lease.at, Some((7, 4)), "the parts before it are settled");
    first.kill();
    server.clear();
    let bulks = server.bulks().len();
    let mut second = child(&folder, &server.url(), &[], &mut lease);
    second.process(&parts, 0, &mut lease);
    assert_eq!((lease.at, versions(&server).len(), second.close().exit), (Some((7, 9)), 10, 0));
    let again: Vec<String> = server.bulks()[bulks..].iter().flat_map(|bulk| bulk.operations()).collect();
    assert_eq!(again, ["index 5@0", "index 6@0", "index 7@0", "index 8@0", "index 9@0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_that_cannot_be_stored_just_now_is_asked_for_again() {
    let (server, folder, mut lease) = (Scripted::start().await, Folder::new(), Lease::default());
    let mut child = child(&folder, &server.url(), &[], &mut lease);
    lease.fails.extend(["ThrottlingException", "KinesisClientLibDependencyException", "ThrottlingException"]);
    child.process(&people(3), 0, &mut lease);
    assert_eq!((lease.at, lease.asked.len()), (Some((3, 0)), 4));
    assert_eq!(child.close().exit, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_that_is_not_taken_ends_nothing_and_the_next_one_stands_for_it() {
    for exception in ["InvalidStateException", "IllegalArgumentException", "RuntimeException"] {
        let (server, folder, mut lease) = (Scripted::start().await, Folder::new(), Lease::default());
        let mut child = child(&folder, &server.url(), &[], &mut lease);
        lease.fails.push_back(exception);
        child.process(&people(3), 0, &mut lease);
        assert_eq!((lease.at, lease.asked.len()), (None, 1), "{exception}");
        child.process(&[], 0, &mut lease);
        assert_eq!((lease.at, lease.asked.len()), (Some((3, 0)), 2), "{exception}");
        let over = child.close();
        assert!(over.exit == 0 && over.err.contains(exception), "{over:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn throttling_that_lasts_is_left_to_a_later_call() {
    let (server, folder, mut lease) = (Scripted::start().await, Folder::new(), Lease::default());
    let mut child = child(&folder, &server.url(), &[], &mut lease);
    lease.fails.extend(["ThrottlingException"; 4]);
    child.process(&people(3), 0, &mut lease);
    assert_eq!((lease.at, lease.asked.len()), (None, 4));
    child.process(&[], 0, &mut lease);
    assert_eq!((lease.at, lease.asked.len()), (Some((3, 0)), 5));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_is_lost_at_a_checkpoint_is_not_checkpointed_again_and_records_are_taken_until_the_end_is_said() {
    let (server, folder, mut lease) = (Scripted::start().await, Folder::new(), Lease::default());
    let mut child = child(&folder, &server.url(), &[], &mut lease);
    lease.fails.push_back("ShutdownException");
    child.process(&people(2), 0, &mut lease);
    child.process(&people(4), 0, &mut lease);
    child.request("shutdownRequested", &mut lease);
    child.request("leaseLost", &mut lease);
    assert_eq!((lease.at, lease.asked.len()), (None, 1));
    assert_eq!((versions(&server).len(), child.close().exit), (4, 0));
}
