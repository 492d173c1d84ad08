//! How much memory a process takes at most, as Linux counts it. Elsewhere nobody tells of a process that runs.
//!
//! What counts is the high-water mark of resident memory (`VmHWM`) without the pages of the program's file (`RssFile`): those belong to no run,
//! the system takes them back when it needs them, and an unoptimised build has several times as many. File pages only become more during a
//! run, so that what they are later is at least what they were at the peak.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::process::Child;
use std::thread::sleep;
use std::time::Duration;

pub const MIB: usize = 1 << 20;

/// What a process may hold at default settings, `request_bytes x requests_in_flight x 3` plus 64 MiB, without the pages of its file: a release
/// build has some 14 MiB of them, so that what stays below this here has a `VmHWM` of at most 124 MiB there.
pub const BOUND: usize = (5 * 4 * 3 + 64 - 14) * MIB;

/// The number behind a name in one of a process's files; `None` where there is none (any more).
pub fn figure(process: u32, file: &str, name: &str) -> Option<usize> {
    number(&std::fs::read_to_string(format!("/proc/{process}/{file}")).ok()?, name)
}

fn number(text: &str, name: &str) -> Option<usize> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().ok()
}

/// The most memory that a process took so far, in bytes.
pub fn so_far(process: u32) -> Option<usize> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    Some(number(&status, "VmHWM")?.saturating_sub(number(&status, "RssFile")?) * 1024)
}

/// Waits until a process has ended; the most memory that it took, as far as it was looked at before its end.
pub fn until_the_end(process: &mut Child) -> usize {
    let mut peak = 0;
    while process.try_wait().expect("a child").is_none() {
        peak = so_far(process.id()).unwrap_or(peak);
        sleep(Duration::from_millis(2));
    }
    peak
}
