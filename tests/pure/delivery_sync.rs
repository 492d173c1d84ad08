//! A scan from a captured stream through the whole line: input that comes slowly, stop signals, errors on the way.

use std::io::Write;
use std::os::fd::AsRawFd;
use std::sync::{Arc, mpsc};

use revsync::error::{Error, Kind};
use revsync::metrics::Counts;
use revsync::plan::outcome::Failure;
use revsync::run::deliver::Settings;
use revsync::run::sync::sync;
use revsync::source::capture::Capture;
use tokio::sync::watch;

use crate::line::Bench;
use crate::qldb_stream::{put, revision};
use crate::scripted_sink::{Step, poison};

fn person(id: &str) -> String {
    revision("Person", id, 0, &put("x")) + "\n"
}

/// What a scan that runs on its own came to.
struct Scan {
    bench: Arc<Bench>,
    stop: watch::Sender<bool>,
    counts: watch::Receiver<Counts>,
    result: tokio::task::JoinHandle<Result<(), Error>>,
    /// The input ends when this goes.
    input: mpsc::Sender<()>,
}

/// People in a pipe, which then falls silent. The source hands them over in pages, so that there are always some that it still has.
const PEOPLE: u64 = 1_500;

/// Scans the reading end of a pipe.
fn scan(bench: Bench) -> Scan {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let (input, silence) = mpsc::channel::<()>();
    std::thread::spawn(move || {
        let padding = "x".repeat(2_000);
        for id in 0..PEOPLE {
            // A scan that has ended reads no further.
            if writer.write_all((revision("Person", &id.to_string(), 0, &put(&padding)) + "\n").as_bytes()).is_err() {
                return;
            }
        }
        let _ = silence.recv();
    });
    let (stop, stopped) = watch::channel(false);
    let (seen, counts) = watch::channel(Counts::default());
    let bench = Arc::new(bench);
    let at_work = bench.clone();
    let result = tokio::spawn(async move {
        let path = format!("/dev/fd/{}", reader.as_raw_fd());
        let capture = tokio::task::spawn_blocking(move || Capture::open(&path, revsync::record::Bound::EndsAtStart)).await.unwrap()?;
        drop(reader);
        let mut line = at_work.line();
        sync(capture, &mut line, stopped, |_, counts| drop(seen.send_replace(counts.clone()))).await.map(drop)
    });
    Scan { bench, stop, counts, result, input }
}

/// What was read is settled: nothing is pending, although not everything was read.
fn all_read_is_settled(counts: &Counts) -> bool {
    counts.received > 0 && counts.pending == 0
}

#[tokio::test]
async fn what_came_through_a_pipe_is_written_and_counted_although_nothing_more_comes() {
    let mut scan = scan(Bench::new());
    scan.counts.wait_for(all_read_is_settled).await.unwrap();
    drop(scan.input);
    scan.result.await.unwrap().unwrap();
    assert_eq!((scan.counts.borrow().indexed, scan.bench.sink.documents().len() as u64), (PEOPLE, PEOPLE));
}

#[tokio::test]
async fn letters_are_stored_although_nothing_more_comes() {
    let bench = Bench::with(Settings { breaker: None, ..Settings::default() });
    bench.sink.rule(|rules| rules.refuses = |_| Some(poison()));
    let mut scan = scan(bench);
    scan.counts.wait_for(all_read_is_settled).await.unwrap();
    let counts = scan.counts.borrow().clone();
    assert!(counts.dead_letters > 0 && scan.bench.letter_lines().len() as u64 >= counts.dead_letters);
    drop(scan.input);
    scan.result.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_sink_that_refuses_ends_the_scan_although_nothing_more_comes() {
    let bench = Bench::new();
    bench.sink.script([Step::Fail(Failure::Unauthorized { what: "401".into() })]);
    let scan = scan(bench);
    assert_eq!(scan.result.await.unwrap().unwrap_err().kind, Kind::Sink);
}

#[tokio::test]
async fn a_stop_signal_ends_a_scan_that_waits_for_input() {
    let mut scan = scan(Bench::new());
    scan.counts.wait_for(all_read_is_settled).await.unwrap();
    scan.stop.send_replace(true);
    assert_eq!(scan.result.await.unwrap().unwrap_err().kind, Kind::Interrupted);
    let counts = scan.counts.borrow().clone();
    assert!(counts.balanced() && counts.indexed > 0, "{counts:?}");
}

#[tokio::test(start_paused = true)]
async fn two_tables_in_one_index_leave_what_came_before_delivered() {
    let bench = Bench::new();
    let path = bench.letters_folder().join("captured.ion");
    std::fs::write(&path, person("a") + &revision("person", "b", 0, &put("y")) + "\n" + &person("c")).unwrap();
    let capture = Capture::open(path.to_str().unwrap(), revsync::record::Bound::EndsAtStart).unwrap();
    let mut line = bench.line();
    let (_stop, stopped) = watch::channel(false);
    let error = sync(capture, &mut line, stopped, |_, _| {}).await.unwrap_err();
    assert_eq!(error.kind, Kind::Usage);
    assert_eq!(bench.sink.sent(), [["index a@0"]]);
    assert_eq!((line.counts().indexed, line.counts().pending), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn damage_in_the_middle_of_a_capture_leaves_what_came_before_delivered() {
    let bench = Bench::new();
    let path = bench.letters_folder().join("captured.ion");
    let good = crate::qldb_stream::binary(&[person("a"), person("b")]);
    // A struct that says that it is longer than what there is.
    std::fs::write(&path, [&good[..], b"\xde\xbf\x01"].concat()).unwrap();
    let capture = Capture::open(path.to_str().unwrap(), revsync::record::Bound::EndsAtStart).unwrap();
    let mut line = bench.line();
    let (_stop, stopped) = watch::channel(false);
    let result = sync(capture, &mut line, stopped, |_, _| {}).await;
    assert_eq!(result.map_err(|error| error.kind), Err(Kind::Source));
    assert_eq!((line.counts().indexed, line.counts().pending, bench.sink.finished()), (2, 0, 1));
}
