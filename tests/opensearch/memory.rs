//! The most memory that a run of the command takes, as the operating system counts it: while the server does not answer, and afterwards.
//!
//! The bound is `request_bytes x requests_in_flight x 3` plus 64 MiB, at default settings 124 MiB. What is measured is Linux's high-water mark of
//! resident memory (`VmHWM`) without the pages of the program's file (`RssFile`): those belong to no run, the system takes them back when it
//! needs them, and an unoptimised build has several times as many. A release build has some 14 MiB of them, and they are taken off the bound,
//! so that this holds for `VmHWM` there. File pages only become more during a run, so that what they were at its end is at least what they were
//! at the peak. Runs of this test come to 50 to 90 MiB; the rest is margin for what the system's allocator does not give back at once.

use std::process::Stdio;
use std::time::Duration;

use crate::command::Folder;
use crate::dice::Dice;
use crate::qldb_stream::{binary, put, revision};
use crate::stalling_opensearch::Stalling;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// What the process may hold, without the pages of its file.
const BOUND: usize = (5 * 4 * 3 + 64 - 14) * MIB;

/// What records and operations that wait may take of it.
const BUDGET: usize = 5 * 4 * 2 * MIB;

/// A capture of documents of these sizes, over and over until it fills the budget twice; and how many there are.
fn capture(sizes: &[usize]) -> (Vec<u8>, usize) {
    const ID: &str = "id-000000";
    let mut dice = Dice::new(7);
    // Text of 40 letters, which compresses to two thirds: compressed bodies have a size too.
    let mut note = |size: usize| (0..size).map(|_| char::from(b'0' + dice.below(40) as u8)).collect::<String>();
    let records: Vec<_> = sizes.iter().map(|size| binary(&[revision("T", ID, 0, &put(&note(*size)))])).collect();
    let places: Vec<usize> = records.iter().map(|record| memchr::memmem::find(record, ID.as_bytes()).unwrap()).collect();
    let (mut capture, mut count) = (Vec::new(), 0);
    // Records and documents each take their bytes.
    while capture.len() < BUDGET {
        for (record, place) in records.iter().zip(&places) {
            let begin = capture.len() + place;
            capture.extend_from_slice(record);
            capture[begin..begin + ID.len()].copy_from_slice(format!("id-{count:06}").as_bytes());
            count += 1;
        }
    }
    (capture, count)
}

/// The number behind a name in one of a process's files.
fn figure(process: u32, file: &str, name: &str) -> usize {
    let text = std::fs::read_to_string(format!("/proc/{process}/{file}")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().unwrap()
}

/// Runs a sync into a server that answers only when nothing more is read; gives the process's peak in bytes.
async fn peak(capture: &[u8], documents: usize) -> usize {
    let (folder, server) = (Folder::new(), Stalling::start().await);
    folder.write("capture.10n", capture);
    let mut command = folder.command(&["--json", "sync", "capture.10n", "--to", &server.url()], &[]);
    let running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let process = running.id();
    let (mut before, mut now) = (0, 1);
    while before < now {
        tokio::time::sleep(Duration::from_secs(1)).await;
        (before, now) = (now, figure(process, "io", "rchar"));
    }
    assert!(now < capture.len(), "all {} bytes were read while nothing was answered", capture.len());
    server.release();
    server.at_the_end().await;
    let peak = (figure(process, "status", "VmHWM") - figure(process, "status", "RssFile")) * KIB;
    server.end();
    let output = running.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(server.documents(), documents);
    peak
}

async fn stays_below_the_bound(sizes: &[usize]) {
    if !cfg!(target_os = "linux") {
        eprintln!("not measured: only Linux tells the peak of a process that runs");
        return;
    }
    let (capture, documents) = capture(sizes);
    let peak = peak(&capture, documents).await;
    println!("{} MiB", peak / MIB);
    assert!(peak <= BOUND, "documents of {sizes:?} bytes took {} MiB, may take {} MiB", peak / MIB, BOUND / MIB);
    assert!(peak >= BUDGET / 2, "{} MiB: nothing was measured", peak / MIB);
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_of_a_kib_stay_below_the_bound() {
    stays_below_the_bound(&[KIB; 16]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_of_100_kib_stay_below_the_bound() {
    stays_below_the_bound(&[100 * KIB; 4]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_of_a_mib_stay_below_the_bound() {
    stays_below_the_bound(&[MIB]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_of_all_sizes_up_to_8_mib_stay_below_the_bound() {
    stays_below_the_bound(&[KIB, 100 * KIB, MIB, 8 * MIB, 4 * KIB, 3 * MIB, 300 * KIB, 8 * MIB, 10 * KIB, 2 * MIB]).await;
}
