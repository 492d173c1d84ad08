//! The most memory that a run of the command takes, as the operating system counts it: while the server does not answer, and afterwards.
//!
//! Runs of this test come to 40 to 85 MiB; what is left to the bound is margin for what the system's allocator does not give back at once.

use std::process::Stdio;
use std::time::Duration;

use crate::command::Folder;
use crate::dice::Dice;
use crate::peak::{BOUND, MIB, figure, so_far};
use crate::qldb_stream::{binary, put, revision};
use crate::stalling_opensearch::Stalling;

const KIB: usize = 1 << 10;

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

/// Runs a sync into a server that answers only when nothing more is read; gives the process's peak in bytes.
async fn peak(capture: &[u8], documents: usize) -> usize {
    let (folder, server) = (Folder::new(), Stalling::start().await);
    folder.write("capture.10n", capture);
    let mut command = folder.command(&["--json", "sync", "capture.10n", "--to", &server.url()], &[]);
    let running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let process = running.id();
    let (mut before, mut now) = (0, 1);
    while before < now || server.documents() == 0 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        (before, now) = (now, figure(process, "io", "rchar").unwrap());
    }
    assert!(now < capture.len(), "all {} bytes were read while nothing was answered", capture.len());
    server.release();
    server.at_the_end().await;
    let peak = so_far(process).unwrap();
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
