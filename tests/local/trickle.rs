//! A source that is slow: what has come through a pipe is delivered, whatever comes later.

use std::io::Write;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::command::{Folder, revision};
use crate::qldb_stream::{binary, put, revision as value};

/// Gives the parts one after another to a sync that reads a pipe, each only when what came before has been written.
fn delivered_as_they_come(parts: &[(Vec<u8>, &str)]) {
    let folder = Folder::new();
    let mut command = folder.command(&["--json", "sync", "-", "--to", "bulk:lines"], &[]);
    let mut running = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut pipe = running.stdin.take().unwrap();
    for (part, id) in parts {
        pipe.write_all(part).unwrap();
        pipe.flush().unwrap();
        let since = Instant::now();
        let line = format!("\"_id\":\"{id}\"");
        while !std::fs::read_to_string(folder.path().join("lines")).is_ok_and(|lines| lines.contains(&line)) {
            assert!(since.elapsed() < Duration::from_secs(60), "{id} was not delivered while the pipe was open");
            sleep(Duration::from_millis(20));
        }
    }
    drop(pipe);
    assert!(running.wait().unwrap().success());
}

fn ids() -> [&'static str; 4] {
    ["first", "second", "third", "fourth"]
}

#[test]
fn values_of_ion_binary_are_delivered_as_they_come() {
    delivered_as_they_come(&ids().map(|id| (binary(&[value("T", id, 0, &put("x"))]).to_vec(), id)));
}

#[test]
fn values_of_ion_text_are_delivered_as_they_come() {
    delivered_as_they_come(&ids().map(|id| (revision("T", id, 0, Some("{a:1}")).into_bytes(), id)));
}

#[test]
fn of_json_lines_those_that_are_whole_are_delivered() {
    let line = |id: &str| {
        let record = binary(&[value("T", id, 0, &put("x"))]);
        let data = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, record);
        serde_json::json!({ "Data": data }).to_string() + "\n"
    };
    let (third, fifth) = (line("third"), line("fifth"));
    let first = [line("first"), line("second"), third[..100].to_owned()].concat();
    let then = [third[100..].to_owned(), line("fourth"), fifth[..1].to_owned()].concat();
    delivered_as_they_come(&[(first.into_bytes(), "second"), (then.into_bytes(), "fourth"), (fifth[1..].into(), "fifth")]);
}

#[test]
fn a_compressed_pipe_is_delivered_as_far_as_it_was_flushed() {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    let parts = ids().map(|id| {
        gzip.write_all(&binary(&[value("T", id, 0, &put("x"))])).unwrap();
        gzip.flush().unwrap();
        (std::mem::take(gzip.get_mut()), id)
    });
    let last = (gzip.finish().unwrap(), "fourth");
    delivered_as_they_come(&[parts.as_slice(), &[last]].concat());
}
