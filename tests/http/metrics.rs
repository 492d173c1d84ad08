//! What Prometheus scrapes: every instrument from the start, each shard as long as it is read, and nothing that a name could forge.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use revsync::metrics::Loss;
use revsync::metrics::instruments::{self, ALL, Home, Kind};
use revsync::run::http::{Server, recorder, serve};
use revsync::run::standing::{ShardPhase, Standing};

use crate::client::get;
use crate::states::{STUCK_AFTER, behind, blocked, healthy, running, seconds, shard, waiting};

/// Counts with a recorder of its own on this thread, on which the server runs too.
macro_rules! watched {
    ($standing:expr, $forgotten_after:expr => $server:ident) => {
        let recorder = recorder("ledger", $forgotten_after).unwrap();
        let _guard = metrics::set_default_local_recorder(&recorder);
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let $server = serve(listen, Arc::clone(&$standing), recorder.handle(), STUCK_AFTER).await.unwrap();
    };
}

/// The samples by name and labels, without the label that all have.
async fn scrape(server: &Server) -> BTreeMap<String, f64> {
    let answer = get(server.address(), "/metrics").await;
    assert_eq!((answer.status, answer.headers["content-type"].as_str()), (200, "text/plain; version=0.0.4; charset=utf-8"));
    let samples = answer.body.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let samples = samples.map(|line| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(name.contains("pipeline=\"ledger\""), "{line}");
        let name = name.replace("pipeline=\"ledger\",", "").replace("pipeline=\"ledger\"", "").replace("{}", "");
        (name, value.parse().unwrap_or_else(|error| panic!("{error}: {line}")))
    });
    samples.collect()
}

fn of_a_shard(samples: &BTreeMap<String, f64>) -> Vec<&String> {
    samples.keys().filter(|name| name.contains("shard=")).collect()
}

async fn a_shard(standing: &Standing, name: &str) {
    shard(standing, name, |_| 0.5);
    tokio::task::yield_now().await;
}

#[tokio::test]
async fn every_instrument_of_a_worker_is_there_from_the_start() {
    let standing = running().await;
    watched!(standing, seconds(60) => server);
    let samples = scrape(&server).await;
    for (home, name, kind, label) in ALL.into_iter().flat_map(|(home, of)| of.iter().map(move |one| (home, one.0, one.1, one.3))) {
        let is_there = samples.keys().any(|sample| sample.split('{').next() == Some(name));
        let may_be = home != Home::Function && kind != Kind::Histogram && !matches!(label, Some("index" | "shard"));
        assert_eq!(is_there, may_be, "{name}");
    }
    let answer = get(server.address(), "/metrics").await;
    let help = "# HELP revsync_indexed_total Documents written\n# TYPE revsync_indexed_total counter\n";
    assert!(answer.body.contains(help), "{}", answer.body);
}

#[tokio::test]
async fn the_gauges_say_how_the_shards_are_and_whether_all_is_well() {
    let standing = behind().await;
    standing.lost(Loss::Vanished);
    watched!(standing, seconds(60) => server);
    standing.lost(Loss::Vanished);
    let samples = scrape(&server).await;
    for (name, value) in [
        ("revsync_lag_records{shard=\"shardId-000000000001\"}", 812.0),
        ("revsync_shards{phase=\"reading\"}", 4.0),
        ("revsync_shards{phase=\"waiting\"}", 1.0),
        ("revsync_shards{phase=\"ended\"}", 1.0),
        ("revsync_shards{phase=\"held\"}", 0.0),
        ("revsync_data_loss_total{cause=\"vanished\"}", 1.0),
        ("revsync_data_loss_total{cause=\"trimmed\"}", 0.0),
        ("revsync_live", 1.0),
        ("revsync_ready", 1.0),
        ("revsync_stale_ratio", 0.0031),
    ] {
        assert_eq!(samples.get(name).map(|shown| (shown * 10_000.0).trunc() / 10_000.0), Some(value), "{name}: {samples:?}");
    }
    let age = samples["revsync_checkpoint_age_seconds{shard=\"shardId-000000000001\"}"];
    assert!((4.0..60.0).contains(&age), "{age}");
    let lag = samples["revsync_lag_milliseconds{shard=\"shardId-000000000001\"}"];
    assert!((900_000.0..1_000_000.0).contains(&lag), "{lag}");
    assert!(!samples.contains_key("revsync_lag_records{shard=\"shardId-000000000005\"}"), "a shard that has ended has no lag");
}

#[tokio::test]
async fn what_is_blocked_and_who_waits_is_not_ready() {
    for (standing, blocked) in [(blocked().await, Some(1.0)), (waiting().await, None)] {
        watched!(standing, seconds(60) => server);
        let samples = scrape(&server).await;
        assert_eq!((samples["revsync_live"], samples["revsync_ready"]), (1.0, 0.0));
        assert_eq!(samples.get("revsync_index_blocked{index=\"vehicle_registration\"}").copied(), blocked);
    }
}

#[tokio::test]
async fn shards_that_are_read_no_more_are_forgotten_and_everything_else_stays() {
    let standing = running().await;
    a_shard(&standing, "one").await;
    a_shard(&standing, "two").await;
    watched!(standing, Duration::from_millis(50) => server);
    let before = scrape(&server).await;
    assert_eq!(of_a_shard(&before).len(), 6, "{before:?}");
    standing.state().shards.get_mut("one").unwrap().phase = ShardPhase::Ended;
    let after = loop {
        let samples = scrape(&server).await;
        if of_a_shard(&samples).len() <= 3 {
            break samples;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(of_a_shard(&after).len(), 3, "{after:?}");
    assert!(of_a_shard(&after).iter().all(|name| name.contains("two")), "{after:?}");
    let others = |samples: &BTreeMap<String, f64>| samples.keys().filter(|name| !name.contains("shard=")).cloned().collect::<Vec<_>>();
    assert_eq!(others(&before), others(&after));
}

#[tokio::test]
async fn times_are_counted_in_buckets() {
    let standing = healthy().await;
    watched!(standing, seconds(60) => server);
    instruments::request("ok", Duration::from_millis(30), 10);
    instruments::freshness([400, 1_500, 200_000].into_iter());
    let samples = scrape(&server).await;
    let within = |name: &str, bound: &str| samples[&format!("{name}_bucket{{le=\"{bound}\"}}")];
    assert_eq!((within("revsync_request_seconds", "0.025"), within("revsync_request_seconds", "0.05")), (0.0, 1.0));
    let fresh = ["0.25", "0.5", "2.5", "300", "+Inf"].map(|bound| within("revsync_freshness_seconds", bound));
    assert_eq!(fresh, [0.0, 1.0, 2.0, 3.0, 3.0]);
    assert_eq!(samples["revsync_freshness_seconds_count"], 3.0);
}

#[tokio::test]
async fn a_name_forges_no_sample() {
    let standing = running().await;
    a_shard(&standing, "a\"} 1\nforged{b=\"\\").await;
    watched!(standing, seconds(60) => server);
    let samples = scrape(&server).await;
    assert_eq!(of_a_shard(&samples).len(), 3, "{samples:?}");
    assert!(samples.keys().all(|name| name.starts_with("revsync_")), "{samples:?}");
}
