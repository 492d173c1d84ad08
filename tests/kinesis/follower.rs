//! The smallest worker there can be: follows a stream by the plans, and takes what it read as settled. What it saved outlives it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use revsync::plan::checkpoint::{Checkpoint, Progress, Start};
use revsync::plan::shards::plan;
use revsync::record::{Position, Record};
use revsync::run::reading::{News, Reading, What};
use revsync::source::kinesis::Kinesis;
use tokio::sync::mpsc::Receiver;
use tokio::time::timeout;

/// What everything that is read may have together.
pub(crate) const ROOM: usize = 15 * 1024 * 1024;
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Follower {
    pub(crate) kinesis: Arc<Kinesis>,
    pub(crate) reading: Reading,
    heard: Receiver<News>,
    start: Start,
    pub(crate) saved: BTreeMap<String, Checkpoint>,
    /// Everything that was read, in its order.
    pub(crate) records: Vec<Record>,
    /// The shards, as they were begun and ended.
    pub(crate) events: Vec<String>,
    pub(crate) losses: Vec<String>,
    pub(crate) failed: Option<String>,
}

impl Follower {
    pub(crate) fn new(kinesis: Kinesis, start: Start) -> Self {
        Self::continuing(kinesis, start, BTreeMap::new())
    }

    pub(crate) fn continuing(kinesis: Kinesis, start: Start, saved: BTreeMap<String, Checkpoint>) -> Self {
        let kinesis = Arc::new(kinesis);
        let (reading, heard) = Reading::new(Arc::clone(&kinesis), ROOM);
        let (records, events, losses) = (Vec::new(), Vec::new(), Vec::new());
        Self { kinesis, reading, heard, start, saved, records, events, losses, failed: None }
    }

    /// Reads what may be read now.
    pub(crate) async fn plan(&mut self) {
        let listed = self.kinesis.shards().await.unwrap();
        let plan = plan(&listed, &self.saved, self.start, now());
        for shard in plan.vanished {
            // Of one that is read, its reading tells.
            if !self.reading.is_reading(&shard) {
                self.losses.push(format!("{shard} vanished"));
                self.saved.get_mut(&shard).unwrap().progress = Progress::Ended;
            }
        }
        for (shard, begin) in plan.read {
            if !self.reading.is_reading(&shard) {
                self.events.push(format!("{shard} begins"));
                let begins = Checkpoint { progress: Progress::Begins(begin.clone()), covered: None, targets: BTreeMap::new() };
                self.saved.entry(shard.clone()).or_insert(begins);
                self.reading.read(&shard, begin);
            }
        }
    }

    /// Follows the stream until that is so.
    pub(crate) async fn follow_until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        self.plan().await;
        let followed = timeout(PATIENCE, async {
            while !is_so(self) {
                match timeout(Duration::from_millis(100), self.heard.recv()).await {
                    Ok(news) => self.hear(news.unwrap()).await,
                    Err(_) => self.plan().await,
                }
            }
        });
        let followed = followed.await;
        assert!(followed.is_ok(), "{what} never came: {} records, {:?}", self.records.len(), self.events);
    }

    pub(crate) async fn follow_until_records(&mut self, count: usize) {
        self.follow_until("so many records", |follower| follower.records.len() >= count).await;
        assert_eq!(self.records.len(), count);
    }

    /// Follows it until reading has failed.
    pub(crate) async fn follow_failing(&mut self) {
        while self.failed.is_none() {
            let news = timeout(PATIENCE, self.heard.recv()).await.expect("news").unwrap();
            self.hear(news).await;
        }
    }

    async fn hear(&mut self, news: News) {
        let shard = news.shard.to_string();
        match news.what {
            What::Page(read) => {
                if let Some(last) = read.page.records.last() {
                    self.saved.get_mut(&shard).unwrap().progress = Progress::Settled(last.position.clone());
                }
                self.records.extend(read.page.records.iter().cloned());
            }
            What::Ended => {
                self.events.push(format!("{shard} ends"));
                self.saved.get_mut(&shard).unwrap().progress = Progress::Ended;
                self.plan().await;
            }
            What::Loss { what, .. } => self.losses.push(what),
            What::Trouble { .. } | What::Fine => {}
            What::Failed(error) => self.failed = Some(error.to_string()),
        }
    }

    /// The data of everything that was read, as text.
    pub(crate) fn texts(&self) -> Vec<String> {
        self.records.iter().map(text).collect()
    }
}

pub(crate) fn text(record: &Record) -> String {
    String::from_utf8(record.data.to_vec()).unwrap()
}

pub(crate) fn number(record: &Record) -> String {
    match &record.position {
        Position::Sequence { number, sub: None } => number.0.clone(),
        other => panic!("expected the position of a whole record, found {other:?}"),
    }
}

pub(crate) fn now() -> u64 {
    u64::try_from(time::OffsetDateTime::now_utc().unix_timestamp_nanos() / 1_000_000).unwrap()
}
