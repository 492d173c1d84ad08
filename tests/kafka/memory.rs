//! A worker on topics with large messages keeps to its memory.

use crate::command::{Folder, revision};
use crate::kafka::{Sent, broker};
use crate::peak::{BOUND, MIB, so_far};
use crate::process::Worker;
use crate::scripted_opensearch::Scripted;

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_sink_is_down_holds_no_more_of_large_messages_than_it_may() {
    let Some(broker) = broker() else { return };
    let server = Scripted::start().await;
    let (url, folder) = (server.url(), Folder::new());
    let topic = broker.topic_with("large", 4, serde_json::json!({ "max.message.bytes": "2097152" }));
    let text = "x".repeat(1 << 20);
    let address = server.stop().await;
    tokio::task::block_in_place(|| {
        for from in 0..10 {
            // All of these become 200 MiB.
            let data = format!("{{text:\"{text}\"}}");
            let message = |i: i32| Sent::to(i % 4, revision("Large", &format!("{from}-{i}"), 1, Some(&data)));
            broker.produce(&topic, &(0..20).map(message).collect::<Vec<_>>());
        }
        let worker = Worker::start(&folder, &broker.url(&topic), &["--to", &url]);
        worker.wait_until("as much is read as there is room for", |status| status["bytes_in_flight"].as_u64() > Some(12 << 20));
        std::thread::sleep(std::time::Duration::from_secs(5));
        let status = worker.status();
        let unread: u64 = status["shards"].as_array().unwrap().iter().map(|shard| shard["unread"].as_u64().unwrap_or(0)).sum();
        assert!(unread > 100, "{status:#}");
        let peak = so_far(worker.id()).unwrap();
        assert!(peak < BOUND, "{} MiB", peak / MIB);
    });
    let _up = Scripted::start_on(address, None).await;
}
