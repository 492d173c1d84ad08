//! What can be watched: every instrument is there from the start under its documented name, and says the same as the report.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use metrics::Unit;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use revsync::metrics::instruments::{ALL, Home, Instrument, Kind, announce};
use revsync::metrics::{Counts, Skip};
use revsync::run::deliver::Settings;
use revsync::run::standing::{About, Standing};
use time::OffsetDateTime;
use tokio::time::timeout;

use crate::line::{Bench, deliver};
use crate::qldb_stream::{Does, put, record, records, shard, text, value};
use crate::scripted_sink::{busy, poison};

/// Everything that the instruments show, by name and label.
fn shown(snapshotter: &Snapshotter) -> BTreeMap<String, f64> {
    let value = |value: DebugValue| match value {
        DebugValue::Counter(count) => count as f64,
        DebugValue::Gauge(value) => value.into_inner(),
        DebugValue::Histogram(values) => values.len() as f64,
    };
    let entries = snapshotter.snapshot().into_vec().into_iter().map(|(key, _, _, shown)| {
        let labels: Vec<String> = key.key().labels().map(|label| format!("{{{}={}}}", label.key(), label.value())).collect();
        (format!("{}{}", key.key().name(), labels.concat()), value(shown))
    });
    entries.collect()
}

fn all() -> impl Iterator<Item = Instrument> {
    ALL.into_iter().flat_map(|(_, instruments)| instruments).copied()
}

#[tokio::test(start_paused = true)]
async fn every_instrument_is_there_before_anything_happens() {
    let recorder = DebuggingRecorder::new();
    let (snapshotter, _guard) = (recorder.snapshotter(), metrics::set_default_local_recorder(&recorder));
    let bench = Bench::new();
    let _line = bench.line();
    announce(Home::Function);
    announce(Home::Worker);
    let shown = shown(&snapshotter);
    for (name, kind, unit, label, help) in all() {
        assert!(!help.is_empty() && name.starts_with("revsync_"), "{name}");
        assert_eq!(name.ends_with("_total"), kind == Kind::Counter, "{name}");
        let units = [("bytes", Unit::Bytes), ("_milliseconds", Unit::Milliseconds), ("_seconds", Unit::Seconds)];
        let measured = units.into_iter().find(|(word, _)| name.contains(word));
        assert_eq!(unit, measured.map_or(Unit::Count, |(_, unit)| unit), "{name}");
        let is_there = shown.keys().any(|key| key.split('{').next() == Some(name));
        // A distribution of nothing, and the state of no index and no shard, show nothing.
        assert!(is_there || kind == Kind::Histogram || matches!(label, Some("index" | "shard")), "{name}");
    }
    assert!(shown.values().all(|value| *value == 0.0), "{shown:?}");
    for reason in Skip::ALL {
        assert!(shown.contains_key(&format!("revsync_skipped_total{{reason={}}}", reason.as_str())), "{reason:?}");
    }
}

#[test]
fn every_instrument_is_documented() {
    let readme = include_str!("../../README.md");
    for (name, _, _, _, help) in all() {
        assert!(readme.contains(&format!("`{name}")) && readme.contains(help), "the README does not explain {name}: {help}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_instruments_say_the_same_as_the_report() {
    let recorder = DebuggingRecorder::new();
    let (snapshotter, _guard) = (recorder.snapshotter(), metrics::set_default_local_recorder(&recorder));
    let bench = Bench::with(Settings { request_operations: 5, ..Settings::default() });
    bench.sink.rule(|rules| {
        rules.refuses = |operation| (operation.target().id == "4").then(poison);
        rules.refuses_at_first = |operation| (operation.target().id == "7").then(busy);
        rules.takes = Duration::from_millis(20);
    });
    let mut line = bench.line();
    let ids: Vec<String> = (0..20).map(|number| number.to_string()).collect();
    let mut all = records(ids.iter().flat_map(|id| [("Person", id.as_str(), 0, put(id)), ("Person", id.as_str(), 1, Does::Delete)]));
    all.push(record(&shard("1"), 9, text(&[value("BLOCK_SUMMARY", "{}")])));
    all.push(record(&shard("1"), 10, text(&["\"nothing known\"".to_owned()])));
    deliver(&mut line, &all).await.unwrap();
    deliver(&mut line, &records([("Person", "7", 0, put("x"))])).await.unwrap();

    let Counts { received, indexed, deleted, stale, absent, compacted, dead_letters, bytes, .. } = line.counts();
    assert!([deleted + absent, stale, compacted, dead_letters].iter().all(|count| *count > 0), "{:?}", line.counts());
    let shown = shown(&snapshotter);
    let expected = [
        ("revsync_received_total", received),
        ("revsync_indexed_total", indexed),
        ("revsync_deleted_total", deleted),
        ("revsync_stale_total", stale),
        ("revsync_absent_total", absent),
        ("revsync_compacted_total", compacted),
        ("revsync_dead_letters_total", dead_letters),
        ("revsync_skipped_total{reason=block_summary}", 1),
        ("revsync_pending", 0),
        ("revsync_bytes_total", bytes),
        ("revsync_requests_total{answer=ok}", bench.sink.requests().len() as u64),
        ("revsync_request_seconds", bench.sink.requests().len() as u64),
        ("revsync_request_bytes_total", bench.sink.requests().iter().map(|request| request.bytes as u64).sum()),
        ("revsync_retries_total{class=throttled}", 2),
        ("revsync_requests_in_flight", 0),
        ("revsync_lanes_in_use", 0),
        ("revsync_bytes_in_flight", 0),
        ("revsync_parked_bytes", 0),
        ("revsync_source_paused", 0),
    ];
    for (name, value) in expected {
        assert_eq!(shown.get(name), Some(&(value as f64)), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_waits_is_shown_while_it_waits() {
    let recorder = DebuggingRecorder::new();
    let (snapshotter, _guard) = (recorder.snapshotter(), metrics::set_default_local_recorder(&recorder));
    let bench = Bench::with(Settings { request_bytes: 20_000, requests_in_flight: 1, give_up_after: None, ..Settings::default() });
    bench.sink.block("person");
    let mut line = bench.line();
    for number in 0..1_000 {
        let one = records([("Person", number.to_string().as_str(), 0, put("x"))]);
        if timeout(Duration::from_secs(600), line.push(&one[0])).await.is_err() {
            break;
        }
    }
    let waiting = shown(&snapshotter);
    let budget = f64::from(20_000 * 2);
    assert_eq!((waiting["revsync_index_blocked{index=person}"], waiting["revsync_source_paused"]), (1.0, 1.0));
    assert!(waiting["revsync_parked_bytes"] > budget / 2.0 && waiting["revsync_parked_bytes"] <= waiting["revsync_bytes_in_flight"]);
    assert!(waiting["revsync_lanes_in_use"] > 10.0 && waiting["revsync_retries_total{class=blocked}"] > 10.0, "{waiting:?}");

    bench.sink.rule(|rules| rules.blocked.clear());
    line.finish().await.unwrap();
    line.push(&records([("Person", "last", 0, put("x"))])[0]).await.unwrap();
    line.finish().await.unwrap();
    let after = shown(&snapshotter);
    assert_eq!((after["revsync_index_blocked{index=person}"], after["revsync_source_paused"]), (0.0, 0.0));
    assert_eq!((after["revsync_parked_bytes"], after["revsync_lanes_in_use"]), (0.0, 0.0));
}

#[tokio::test(start_paused = true)]
async fn a_line_shows_nothing_that_only_a_function_or_a_worker_has() {
    let recorder = DebuggingRecorder::new();
    let (snapshotter, _guard) = (recorder.snapshotter(), metrics::set_default_local_recorder(&recorder));
    let bench = Bench::new();
    deliver(&mut bench.line(), &records([("Person", "a", 0, put("x"))])).await.unwrap();
    let others: Vec<&str> = ALL.into_iter().filter(|(home, _)| *home != Home::Line).flat_map(|(_, of)| of).map(|one| one.0).collect();
    let shown = shown(&snapshotter);
    assert!(shown.keys().all(|key| !others.contains(&key.split('{').next().unwrap())), "{shown:?}");
}

#[tokio::test(start_paused = true)]
async fn what_was_written_is_as_fresh_as_its_commit_is_old_and_what_was_refused_as_stale_is_a_share() {
    let recorder = DebuggingRecorder::new();
    let (snapshotter, _guard) = (recorder.snapshotter(), metrics::set_default_local_recorder(&recorder));
    let (bench, standing) = (Bench::new(), Arc::new(Standing::new(About::default())));
    let mut line = bench.line().watched_by(&standing);
    deliver(&mut line, &records([("Person", "a", 3, put("x")), ("Person", "b", 3, Does::Delete)])).await.unwrap();
    deliver(&mut line, &records([("Person", "a", 2, put("x")), ("Person", "a", 1, put("x"))])).await.unwrap();
    let ages: Vec<f64> = snapshotter
        .snapshot()
        .into_vec()
        .into_iter()
        .filter_map(|(key, _, _, value)| match value {
            DebugValue::Histogram(values) if key.key().name() == "revsync_freshness_seconds" => Some(values),
            _ => None,
        })
        .flatten()
        .map(|age| age.into_inner())
        .collect();
    let Counts { indexed, deleted, absent, stale, .. } = line.counts();
    assert_eq!((indexed, deleted + absent, stale), (1, 1, 1));
    // The revisions of these tests were committed in May 2024.
    let since = OffsetDateTime::now_utc() - OffsetDateTime::from_unix_timestamp(1_714_557_600).unwrap();
    assert_eq!(ages.len() as u64, indexed + deleted);
    assert!(ages.iter().all(|age| (since.as_seconds_f64() - age).abs() < 3_600.0), "{ages:?}");
    assert_eq!(standing.state().stale.ratio(), Some(1.0 / 3.0));
}
