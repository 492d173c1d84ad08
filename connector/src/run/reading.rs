//! The shards of a stream, read at the same time: one task for each, which keeps its pace, waits where it has to, and tells what it read.
//!
//! Room for a page is taken before it is read, and goes with it: whoever is not heard, because nobody takes pages in, reads no more. Never
//! settles anything, and never chooses a shard: that is [`plan::shards`](crate::plan::shards).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::backoff::Waits;
use super::notices::Notices;
use super::room::{Room, Taken};
use crate::error::{Error, Kind};
use crate::metrics::Loss;
use crate::panics::guard;
use crate::plan::checkpoint::Begin;
use crate::plan::outcome::Class;
use crate::plan::pace::{Pace, SOONEST, Seen};
use crate::plan::retry::policy;
use crate::source::kinesis::{Failure, Kinesis, Page, Reader};

/// News that wait to be heard; pages among them are bounded by their room.
const WAITING: usize = 64;
/// A shard that is throttled for so long is in trouble: other readers take what it may be read at.
const THROTTLED_FOR_LONG: Duration = Duration::from_secs(30);

/// The shards that are read.
#[derive(Debug)]
pub struct Reading {
    shared: Arc<Shared>,
    news: Sender<News>,
    tasks: HashMap<Arc<str>, Task>,
    /// How often reading was begun.
    begun: u64,
}

#[derive(Debug)]
struct Task {
    number: u64,
    handle: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    kinesis: Arc<Kinesis>,
    room: Arc<Room>,
    notices: Notices,
    /// How soon a shard is read again, where its pages do not say it.
    interval: Option<Duration>,
}

impl Shared {
    /// How soon a shard is read again of which nothing was read.
    fn soonest(&self) -> Duration {
        self.interval.unwrap_or(SOONEST)
    }
}

/// What the reading of one shard has to tell. Of a shard that is no longer read there may be news still: [`Reading::heeds`] knows them.
#[derive(Debug)]
pub struct News {
    /// The shard.
    pub shard: Arc<str>,
    /// What there is to tell of it.
    pub what: What,
    /// Which reading of the shard it is.
    number: u64,
}

/// What happened to a shard. Things come in the order in which they happened.
#[derive(Debug)]
pub enum What {
    /// It was read; there may have been nothing. Its memory counts until this is dropped.
    Page(Read),
    /// It is closed and was read to its end: nothing more comes. Its children are not begun before all of it is settled.
    Ended,
    /// Something of it was lost before it was read: why. What is there still comes next.
    Loss {
        /// What became of it.
        cause: Loss,
        /// In words.
        what: String,
    },
    /// It cannot be read at present: why. It is tried again.
    Trouble {
        /// How soon; `Refused` where a person has to do something for it.
        class: Class,
        /// What happened.
        what: String,
    },
    /// It can be read again.
    Fine,
    /// It cannot be read, and no other shard either: the stream is gone, or this is a bug. Nothing more comes.
    Failed(Error),
}

/// A page that was read.
#[derive(Debug)]
pub struct Read {
    /// The page.
    pub page: Page,
    /// When it was asked for.
    pub asked: Instant,
    room: Taken,
}

impl Read {
    /// The memory that it counts for, in bytes.
    pub fn held(&self) -> usize {
        self.room.bytes()
    }
}

impl Reading {
    /// Nothing is read yet. All pages that were read and not dropped yet may have `room_bytes` together.
    pub fn new(kinesis: Arc<Kinesis>, room_bytes: usize) -> (Self, Receiver<News>) {
        Self::paced(kinesis, room_bytes, None)
    }

    /// As [`new`](Self::new), and each shard is read once in every `interval`, whatever its pages are.
    pub fn every(interval: Duration, kinesis: Arc<Kinesis>, room_bytes: usize) -> (Self, Receiver<News>) {
        Self::paced(kinesis, room_bytes, Some(interval.max(SOONEST)))
    }

    fn paced(kinesis: Arc<Kinesis>, room_bytes: usize, interval: Option<Duration>) -> (Self, Receiver<News>) {
        let (news, heard) = channel(WAITING);
        let shared = Arc::new(Shared { kinesis, room: Room::new(room_bytes), notices: Notices::default(), interval });
        (Self { shared, news, tasks: HashMap::new(), begun: 0 }, heard)
    }

    /// The memory that pages take which are being read or were read and not dropped, in bytes; never more than all the room, which a single
    /// page may exceed.
    pub fn room_in_use(&self) -> usize {
        self.shared.room.in_use()
    }

    /// Reads a shard from there on; where it is read already, that ends.
    pub fn read(&mut self, shard: &str, begin: Begin) {
        self.stop(shard);
        self.begun += 1;
        let shard: Arc<str> = shard.into();
        let teller = Teller { shard: Arc::clone(&shard), number: self.begun, news: self.news.clone() };
        tracing::info!(%shard, "the shard is read, {}", from(&begin));
        let reader = self.shared.kinesis.reader(&shard, begin);
        let shared = Arc::clone(&self.shared);
        let handle = tokio::spawn(async move {
            // Boxed, so that the task is as small as what it waits for.
            if let Err(fault) = guard(Box::pin(follow(&shared, reader, &teller))).await {
                teller.tell(What::Failed(Error::new(Kind::Bug, fault.reason))).await;
            }
        });
        self.tasks.insert(shard, Task { number: self.begun, handle });
    }

    /// Whether a shard is read, or was read to its end and not stopped.
    pub fn is_reading(&self, shard: &str) -> bool {
        self.tasks.contains_key(shard)
    }

    /// The shards that are read, or were read to their end and not stopped.
    pub fn shards(&self) -> impl Iterator<Item = &str> {
        self.tasks.keys().map(|shard| &**shard)
    }

    /// Whether news are of a shard that is read, and of this reading of it; others mean nothing any more.
    pub fn heeds(&self, news: &News) -> bool {
        self.tasks.get(&news.shard).is_some_and(|task| task.number == news.number)
    }

    /// A shard is read no more, at once.
    pub fn stop(&mut self, shard: &str) {
        if let Some(task) = self.tasks.remove(shard) {
            task.handle.abort();
        }
    }

    /// Nothing is read any more, at once.
    pub fn stop_all(&mut self) {
        for (_, task) in self.tasks.drain() {
            task.handle.abort();
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.stop_all();
    }
}

/// Who tells the news of one shard.
struct Teller {
    shard: Arc<str>,
    number: u64,
    news: Sender<News>,
}

impl Teller {
    async fn tell(&self, what: What) {
        // Whoever does not listen any more drops the tasks too.
        let _ = self.news.send(News { shard: Arc::clone(&self.shard), what, number: self.number }).await;
    }
}

/// Reads a shard to its end, or for ever.
async fn follow(shared: &Shared, mut reader: Reader, teller: &Teller) {
    let mut pace = Pace::new(shared.kinesis.largest_record());
    let mut trouble = Trouble::default();
    let mut due = Instant::now();
    loop {
        sleep_until(due).await;
        let turn = shared.room.turn().await;
        let mut room = shared.room.take(pace.memory()).await;
        let began = Instant::now();
        let read = reader.next(pace.limit()).await;
        drop(turn);
        let page = match read {
            Ok(page) => page,
            Err(failure) => {
                drop(room);
                let Some((class, what)) = judged(shared, failure, teller).await else { return };
                due = (began + shared.soonest()).max(Instant::now() + trouble.is(&shared.notices, teller, class, what).await);
                continue;
            }
        };
        room.becomes(page.bytes);
        trouble.is_over(teller).await;
        if let Some(why) = page.loss {
            tracing::error!(shard = %teller.shard, "records were lost before they were read: {why}; reading goes on with the oldest there is");
            teller.tell(What::Loss { cause: Loss::Trimmed, what: why }).await;
            due = began + shared.soonest();
            continue;
        }
        let bytes = page.records.iter().map(|record| record.data.len()).sum();
        pace.saw(Seen { records: page.records.len(), bytes, behind: page.behind });
        due = began + shared.interval.unwrap_or(pace.interval());
        let ended = page.ended;
        teller.tell(What::Page(Read { page, asked: began, room })).await;
        if ended {
            tracing::info!(shard = %teller.shard, "the shard is closed, and was read to its end");
            return teller.tell(What::Ended).await;
        }
    }
}

/// What a failure comes to: how soon to try again and why, or nothing where there is nothing to try; that is told.
async fn judged(shared: &Shared, failure: Failure, teller: &Teller) -> Option<(Class, String)> {
    let what = match failure {
        Failure::Again { class, what } => return Some((class, what)),
        Failure::Gone { what } => what,
    };
    // The shard, or all of the stream.
    let listed = match shared.kinesis.shards().await {
        Ok(listed) => listed,
        Err(Failure::Gone { .. }) => {
            teller.tell(What::Failed(shared.kinesis.gone())).await;
            return None;
        }
        Err(Failure::Again { class, what }) => return Some((class, what)),
    };
    if listed.iter().any(|listed| *listed.id == *teller.shard) {
        return Some((Class::Unavailable, what));
    }
    match shared.kinesis.is_there().await {
        Ok(true) => {
            tracing::error!(shard = %teller.shard, "records were lost before they were read: the stream does not have the shard any more: {what}");
            teller.tell(What::Loss { cause: Loss::Vanished, what }).await;
            teller.tell(What::Ended).await;
        }
        Ok(false) => teller.tell(What::Failed(shared.kinesis.gone())).await,
        Err(failure) => return Some((Class::Unavailable, failure.to_string())),
    }
    None
}

/// The tries in a row that failed.
#[derive(Default)]
struct Trouble {
    now: Option<Now>,
}

struct Now {
    class: Class,
    waits: Waits,
    since: Instant,
    tries: u32,
    told: bool,
}

impl Trouble {
    /// A try failed; gives the wait before the next one.
    async fn is(&mut self, notices: &Notices, teller: &Teller, class: Class, what: String) -> Duration {
        let now =
            self.now.get_or_insert_with(|| Now { class, waits: Waits::new(policy(class)), since: Instant::now(), tries: 0, told: false });
        if now.class != class {
            (now.class, now.waits) = (class, Waits::new(policy(class)));
        }
        now.tries += 1;
        // One failure is nothing to speak of: connections break, and others read the shard too.
        let is_serious = match class {
            Class::Refused => true,
            Class::Throttled => now.since.elapsed() >= THROTTLED_FOR_LONG,
            _ => now.tries > 1,
        };
        let wait = now.waits.next();
        if is_serious {
            if notices.is_due(&what) {
                tracing::warn!(shard = %teller.shard, "a shard cannot be read: {what}; trying again");
            }
            now.told = true;
            teller.tell(What::Trouble { class, what }).await;
        }
        wait
    }

    /// A try succeeded.
    async fn is_over(&mut self, teller: &Teller) {
        if self.now.take().is_some_and(|now| now.told) {
            tracing::info!(shard = %teller.shard, "the shard can be read again");
            teller.tell(What::Fine).await;
        }
    }
}

/// Where reading begins, in words.
fn from(begin: &Begin) -> String {
    match begin {
        Begin::Earliest => "from its oldest record on".to_owned(),
        Begin::Latest { .. } => "from now on".to_owned(),
        Begin::Timestamp { millis } => format!("from {millis} ms since 1970 on"),
        Begin::After { position } => format!("behind {position}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn teller() -> (Teller, Receiver<News>) {
        let (news, heard) = channel(WAITING);
        (Teller { shard: "shard-0".into(), number: 1, news }, heard)
    }

    async fn fails(trouble: &mut Trouble, notices: &Notices, teller: &Teller, class: Class) {
        let wait = trouble.is(notices, teller, class, "a reason".to_owned()).await;
        tokio::time::advance(wait.max(SOONEST)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_shard_is_in_trouble_when_it_was_throttled_for_half_a_minute() {
        let ((teller, mut heard), notices, mut trouble) = (teller(), Notices::default(), Trouble::default());
        let began = Instant::now();
        while began.elapsed() < THROTTLED_FOR_LONG {
            fails(&mut trouble, &notices, &teller, Class::Throttled).await;
            assert!(heard.try_recv().is_err(), "{:?}", began.elapsed());
        }
        fails(&mut trouble, &notices, &teller, Class::Throttled).await;
        assert!(matches!(heard.try_recv().unwrap().what, What::Trouble { .. }));
        trouble.is_over(&teller).await;
        assert!(matches!(heard.try_recv().unwrap().what, What::Fine));
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_between_two_failures_makes_them_nothing_to_speak_of() {
        let ((teller, mut heard), notices, mut trouble) = (teller(), Notices::default(), Trouble::default());
        for _ in 0..10 {
            fails(&mut trouble, &notices, &teller, Class::Unavailable).await;
            trouble.is_over(&teller).await;
        }
        assert!(heard.try_recv().is_err());
        fails(&mut trouble, &notices, &teller, Class::Unavailable).await;
        fails(&mut trouble, &notices, &teller, Class::Unavailable).await;
        assert!(matches!(heard.try_recv().unwrap().what, What::Trouble { .. }));
    }
}
