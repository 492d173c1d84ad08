//! A stream of Kinesis that is read to its bound: what a scan reads, where [`worker`](super::worker) would follow.
//!
//! Its shards are read at the same time, each at its pace and with its waits ([`reading`](super::reading)); which of them, and when it is
//! enough, is decided in [`plan::bounds`](crate::plan::bounds). Saves nothing, and delivers nothing.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, sleep, timeout};

use super::backoff::Waits;
use super::clock;
use super::reading::{News, Read, Reading, What};
use crate::error::{Error, Kind};
use crate::plan::bounds::{Seen, Stream, Verdict};
use crate::plan::outcome::Class;
use crate::plan::retry::policy;
use crate::plan::shards::Listed;
use crate::record::Record;
use crate::source::kinesis::{Failure, Kinesis};
use crate::source::scan::{Length, Page, Pages};

/// How long news are waited for before it is looked at the time.
const TURN: Duration = Duration::from_millis(500);
/// A `Date` header has whole seconds: the time of the answer may be so much later.
const ROUNDED: u64 = 1_000;

/// How a scan reads.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// How soon a shard is read again, 200 ms at the least.
    pub interval: Duration,
    /// How long a shard may come no nearer to its end before it is given up, and said not to be proven complete; and how long it may not answer
    /// before the scan is given up.
    pub patience: Duration,
    /// The memory that what was read and not handed over yet may have, in bytes.
    pub room: usize,
    /// Whether records that were lost before they could be read end the scan.
    pub stops_on_data_loss: bool,
}

/// A shard that cannot be read at present.
#[derive(Debug)]
struct Trouble {
    since: Instant,
    class: Class,
    what: String,
}

/// A stream that is read to its bound.
#[derive(Debug)]
pub struct Bounded {
    kinesis: Arc<Kinesis>,
    settings: Settings,
    runtime: Handle,
    reading: Reading,
    news: Receiver<News>,
    stream: Stream,
    /// The shards as they were listed last.
    listed: Vec<Listed>,
    /// When the bound was taken.
    taken: Instant,
    /// The time from which on the stream may have records, in milliseconds since 1970.
    oldest: u64,
    /// What was read and is not all handed over yet.
    at_hand: Option<(Read, usize)>,
    troubled: HashMap<Arc<str>, Trouble>,
    has_lost: bool,
}

impl Bounded {
    /// Takes the bound: the time by the clock of the service, and the shards that the stream has then.
    ///
    /// # Errors
    /// The stream cannot be asked.
    pub async fn open(kinesis: Kinesis, settings: Settings) -> Result<Self, Error> {
        let kinesis = Arc::new(kinesis);
        let (listed, bound) = bound(&kinesis, settings.patience).await?;
        let (reading, news) = Reading::every(settings.interval, Arc::clone(&kinesis), settings.room);
        // Lossless for the next 500 million years.
        let kept = bound.saturating_sub(kinesis.retention().as_millis() as u64);
        let mut scan = Self {
            stream: Stream::new(&listed, bound, settings.patience),
            listed,
            taken: Instant::now(),
            oldest: kinesis.created().map_or(kept, |created| kept.max(created)).min(bound),
            kinesis,
            settings,
            runtime: Handle::current(),
            reading,
            news,
            at_hand: None,
            troubled: HashMap::new(),
            has_lost: false,
        };
        scan.begin()?;
        Ok(scan)
    }

    /// The next records, as [`Scan::read`](crate::source::scan::Scan::read) gives them.
    ///
    /// # Errors
    /// A shard did not answer for too long, the stream is gone or may not be read, or records were lost where that is to end the scan.
    pub async fn next(&mut self, budget: usize) -> Result<Option<Page>, Error> {
        loop {
            if let Some(page) = self.hand_over(budget) {
                return Ok(Some(page));
            }
            if self.stream.is_over() {
                return Ok(None);
            }
            // It holds a sender itself: they never end.
            if let Ok(Some(news)) = timeout(TURN, self.news.recv()).await {
                self.hear(news).await?;
            }
            self.look_at_the_time()?;
        }
    }

    /// Takes the bound anew: every shard goes on where it stopped.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn go_on(&mut self) -> Result<(), Error> {
        let (listed, bound) = bound(&self.kinesis, self.settings.patience).await?;
        self.taken = Instant::now();
        self.stream.extend(&listed, bound);
        self.listed = listed;
        self.begin()
    }

    fn begin(&mut self) -> Result<(), Error> {
        let plan = self.stream.begin(&self.listed);
        for shard in plan.vanished {
            let what = format!("the stream does not have the shard {shard} any more");
            tracing::error!("records were lost before they were read: {what}");
            self.lost(&what)?;
        }
        for (shard, begin) in plan.read {
            self.reading.read(&shard, begin);
        }
        Ok(())
    }

    async fn hear(&mut self, news: News) -> Result<(), Error> {
        if !self.reading.heeds(&news) {
            return Ok(());
        }
        let shard = news.shard;
        match news.what {
            What::Page(read) => {
                self.troubled.remove(&shard);
                self.take(&shard, read);
            }
            What::Ended => {
                self.reading.stop(&shard);
                self.troubled.remove(&shard);
                self.stream.ended(&shard);
                let has_child = |listed: &Listed| listed.parents.iter().any(|parent| **parent == *shard);
                if !self.listed.iter().any(has_child) {
                    (self.listed, _) = listed(&self.kinesis, self.settings.patience).await?;
                }
                self.begin()?;
            }
            What::Loss { what, .. } => self.lost(&format!("{shard}: {what}"))?,
            What::Trouble { class, what } => match self.troubled.entry(shard) {
                // Credentials that have just run out are new the next time.
                Entry::Occupied(known) if class == Class::Refused && known.get().class == class => {
                    return Err(self.kinesis.error(&Failure::Again { class, what }));
                }
                Entry::Occupied(mut known) => (known.get_mut().class, known.get_mut().what) = (class, what),
                Entry::Vacant(unknown) => {
                    unknown.insert(Trouble { since: Instant::now(), class, what });
                }
            },
            What::Fine => drop(self.troubled.remove(&shard)),
            What::Failed(error) => return Err(error),
        }
        Ok(())
    }

    fn take(&mut self, shard: &Arc<str>, read: Read) {
        let records = &read.page.records;
        let seen =
            Seen { records: records.len(), newest: records.iter().filter_map(|record| record.arrived).max(), behind: read.page.behind };
        let since = read.asked.saturating_duration_since(self.taken);
        let verdict = self.stream.saw(shard, seen, records.last().map(|record| &record.position), since);
        if verdict != Verdict::GoesOn && !read.page.ended {
            self.reading.stop(shard);
        }
        if verdict == Verdict::NotProven {
            let (shard, patience) = (&**shard, self.settings.patience);
            tracing::warn!(
                shard,
                "not proven complete: for {patience:?} the shard gave no record and came no nearer to its end, and did not say that it was \
                 there; what it gave before is read"
            );
        }
        if !read.page.records.is_empty() {
            self.at_hand = Some((read, 0));
        }
    }

    /// Hands over what is at hand.
    fn hand_over(&mut self, budget: usize) -> Option<Page> {
        let (read, from) = self.at_hand.as_mut()?;
        let (mut records, mut size) = (Vec::new(), 0);
        for record in read.page.records.iter().skip(*from) {
            if size >= budget {
                break;
            }
            size += record.data.len() + size_of::<Record>();
            records.push(record.clone());
        }
        *from += records.len();
        if *from >= read.page.records.len() {
            self.at_hand = None;
        }
        Some(Page { records, read: self.stream.reached().saturating_sub(self.oldest) })
    }

    fn lost(&mut self, what: &str) -> Result<(), Error> {
        self.has_lost = true;
        if self.settings.stops_on_data_loss {
            let help = "on_data_loss = \"continue\" goes on with what there is";
            return Err(Error::new(Kind::Source, format!("data loss in {what}")).help(help));
        }
        Ok(())
    }

    fn look_at_the_time(&self) -> Result<(), Error> {
        let Some((shard, Trouble { what, .. })) =
            self.troubled.iter().find(|(_, trouble)| trouble.since.elapsed() >= self.settings.patience)
        else {
            return Ok(());
        };
        let (stream, patience) = (self.kinesis.described(), self.settings.patience);
        let what = format!("source: the shard {shard} of {stream} could not be read for {patience:?}: {what}");
        Err(Error::new(Kind::Source, what).help("nothing is lost: run the same command again when it can be read"))
    }
}

impl Pages for Bounded {
    fn read(&mut self, budget: usize) -> Result<Option<Page>, Error> {
        let runtime = self.runtime.clone();
        runtime.block_on(self.next(budget))
    }

    fn total(&self) -> Length {
        Length::Time(Duration::from_millis(self.stream.bound() - self.oldest))
    }

    fn is_incomplete(&self) -> bool {
        self.has_lost || self.stream.not_proven().next().is_some()
    }

    fn has_dropped(&self) -> bool {
        self.has_lost || self.kinesis.created() != Some(self.oldest)
    }

    fn extend(&mut self) -> Result<bool, Error> {
        let runtime = self.runtime.clone();
        runtime.block_on(self.go_on()).map(|()| true)
    }
}

/// The shards that there are now, and the time by the clock of the service: no earlier than it is.
async fn bound(kinesis: &Kinesis, patience: Duration) -> Result<(Vec<Listed>, u64), Error> {
    let (listed, date) = listed(kinesis, patience).await?;
    let bound = date.map(|date| date + ROUNDED).unwrap_or_else(|| {
        tracing::warn!("{} does not say what time it is: the scan goes by the clock of this machine", kinesis.described());
        clock::millis()
    });
    Ok((listed, bound))
}

/// The shards that there are now, and the time of the answer.
async fn listed(kinesis: &Kinesis, patience: Duration) -> Result<(Vec<Listed>, Option<u64>), Error> {
    let since = Instant::now();
    let mut waits = None;
    loop {
        match kinesis.shards_and_time().await {
            Err(Failure::Again { class: class @ (Class::Throttled | Class::Unavailable), .. }) if since.elapsed() < patience => {
                sleep(waits.get_or_insert_with(|| Waits::new(policy(class))).next()).await;
            }
            // What was read before is delivered, which it would not be where the sink is what does not answer.
            Err(failure) => return Err(Error { kind: Kind::Source, ..kinesis.error(&failure) }),
            Ok(listed) => return Ok(listed),
        }
    }
}
