//! A worker that is killed at any moment, on a stream that is split and merged before, while and after it runs.

use std::time::Duration;

use revsync::sink::local::Local;

use crate::command::Folder;
use crate::feeder::{Feeder, Fold};
use crate::kinesis::{Stream, kinesis};
use crate::process::Worker;

/// What the index of a folder holds of these documents.
fn held(folder: &Folder, fold: &Fold) -> Fold {
    let index = Local::open_existing(&folder.path().join("index.db")).unwrap();
    let text = |source: &str| serde_json::from_str::<serde_json::Value>(source).unwrap()["text"].as_str().map(str::to_owned);
    fold.iter()
        .map(|(id, (version, _))| match index.get("note", id).unwrap() {
            Some((version, source)) => (id.clone(), (version, text(&source))),
            // A delete leaves no document; its version is the newest there is.
            None => (id.clone(), (*version, None)),
        })
        .collect()
}

/// A worker of a folder; what it was killed with is taken over from it after a second of silence.
fn worker(folder: &Folder, stream: &Stream) -> Worker {
    let config = folder.write("worker.toml", "name = \"notes\"\n[checkpoints]\ntakeover_after = \"1s\"\n");
    let config = config.to_str().unwrap();
    Worker::start(folder, &[&stream.url(), "--to", "local:index.db", "--dead-letters", "file:letters.jsonl", "--config", config])
}

fn killed_again_and_again(seed: u64) {
    let Some(emulator) = kinesis() else { return };
    let (stream, folder) = (Stream::make(emulator, "kills", 2), Folder::new());
    let mut feeder = Feeder::new(&stream, seed, 30);
    // While nobody reads: a closed shard with records, and its children.
    feeder.write(40);
    feeder.reshard();
    feeder.write(40);
    for _ in 0..feeder.dice().between(2, 4) {
        let running = worker(&folder, &stream);
        // Before it reads, while it does, or when it has read everything.
        std::thread::sleep(Duration::from_millis(feeder.dice().below(2_500) as u64));
        feeder.write(30);
        if feeder.dice().percent(70) {
            feeder.reshard();
        }
        feeder.write(20);
        std::thread::sleep(Duration::from_millis(feeder.dice().below(700) as u64));
        if feeder.dice().percent(80) {
            running.kill();
        } else {
            let (exit, log) = running.stop();
            assert_eq!(exit, 0, "seed {seed}: {log}");
        }
        if feeder.dice().percent(40) {
            feeder.reshard();
            feeder.write(20);
        }
    }
    let last = worker(&folder, &stream);
    let status = last.wait_until_caught_up(&stream.open());
    assert_eq!(status["data_loss"].as_object().unwrap().values().filter(|count| **count != 0).count(), 0, "seed {seed}: {status:#}");
    let (exit, log) = last.stop();
    assert_eq!(exit, 0, "seed {seed}: {log}");
    assert_eq!(held(&folder, &feeder.fold), feeder.fold, "seed {seed}");
    assert!(!folder.path().join("letters.jsonl").exists() || folder.read("letters.jsonl").is_empty(), "seed {seed}");
    // Whoever comes now has nothing left to do.
    let idle = worker(&folder, &stream);
    let status = idle.wait_until_caught_up(&stream.open());
    assert_eq!((&status["counts"]["indexed"], &status["counts"]["deleted"]), (&0.into(), &0.into()), "seed {seed}: {status:#}");
}

/// Seeds, some at a time: most of the time is waiting.
fn seeds(from: u64, to: u64) {
    std::thread::scope(|scope| {
        let of = (from..to).map(|seed| scope.spawn(move || killed_again_and_again(seed))).collect::<Vec<_>>();
        of.into_iter().for_each(|one| one.join().unwrap());
    });
}

#[test]
fn a_worker_that_is_killed_anywhere_while_shards_are_split_and_merged_comes_to_the_fold() {
    if std::env::var_os("REVSYNC_TEST_LONG").is_some() {
        (0..60).step_by(4).for_each(|seed| seeds(seed, seed + 4));
    } else {
        seeds(0, 4);
    }
}
