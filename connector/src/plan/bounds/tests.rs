use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::plan::checkpoint::Begin;
use crate::plan::shards::Listed;
use crate::record::{Position, SequenceNumber};

const PATIENCE: Duration = Duration::from_secs(60);
const BOUND: u64 = 1_000_000;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn empty(behind: Option<Duration>) -> Seen {
    Seen { records: 0, newest: None, behind }
}

fn some(newest: u64, behind: Option<Duration>) -> Seen {
    Seen { records: 1, newest: Some(newest), behind }
}

fn open() -> Shard {
    Shard::new(Some(BOUND), PATIENCE)
}

#[test]
fn a_partition_is_over_by_its_position_whatever_is_missing_in_it() {
    let mut partition = Partition::new(3, 10);
    assert_eq!((partition.next(), partition.end(), partition.left(), partition.is_over()), (3, 10, 7, false));
    // From here to the end there are markers of transactions, and what compaction removed.
    assert!(partition.came(6));
    assert_eq!((partition.next(), partition.is_over()), (7, false));
    assert!(!partition.came(12), "it came behind the end");
    assert!(partition.is_over());
    assert_eq!(partition.next(), 10, "what is behind the end is read when the scan goes on");
    assert!(Partition::new(5, 5).is_over() && Partition::new(0, 0).is_over());
    let mut silent = Partition::new(0, 3);
    silent.no_more();
    assert_eq!((silent.is_over(), silent.left()), (true, 0));
}

#[test]
fn what_a_partition_lost_is_known_and_no_more_of_it_is_waited_for() {
    let mut partition = Partition::new(0, 10);
    assert_eq!(partition.begins(0), None);
    assert_eq!(partition.begins(7), Some((0, 7)));
    assert_eq!(partition.begins(5), None);
    assert_eq!((partition.begins(30), partition.is_over()), (Some((7, 10)), true));
}

#[test]
fn a_partition_goes_on_from_its_old_end_to_its_new_one() {
    let mut partition = Partition::new(0, 10);
    assert!(partition.extend(10), "there was more before it");
    partition.no_more();
    assert!(!partition.extend(10) && !partition.extend(4));
    assert!(partition.extend(12));
    assert_eq!((partition.next(), partition.left()), (10, 2));
}

#[test]
fn a_record_that_came_well_after_the_bound_ends_a_shard_and_one_about_it_does_not() {
    assert_eq!(open().saw(some(BOUND + 1_000, None), seconds(9)), Verdict::GoesOn);
    assert_eq!(open().saw(some(BOUND + 1_001, None), seconds(9)), Verdict::Reached);
}

#[test]
fn one_page_that_says_that_it_is_at_the_end_is_not_believed_and_two_without_records_are() {
    let zero = Some(Duration::ZERO);
    let mut shard = open();
    for page in [empty(zero), some(5, zero), some(6, zero), empty(zero), some(7, zero), empty(zero)] {
        assert_eq!(shard.saw(page, seconds(1)), Verdict::GoesOn, "{page:?}");
    }
    assert_eq!(shard.saw(empty(zero), seconds(2)), Verdict::Reached);
}

#[test]
fn a_distance_that_was_measured_is_believed_when_it_is_zero() {
    let mut shard = open();
    assert_eq!(shard.saw(some(5, Some(seconds(90))), seconds(1)), Verdict::GoesOn);
    assert_eq!(shard.saw(some(6, Some(Duration::ZERO)), seconds(2)), Verdict::Reached);
    let mut lies = open();
    assert_eq!(lies.saw(some(5, Some(Duration::from_millis(1))), seconds(1)), Verdict::GoesOn);
    assert_eq!(lies.saw(some(6, Some(Duration::ZERO)), seconds(2)), Verdict::GoesOn, "1 is no distance in time");
}

#[test]
fn a_place_behind_the_bound_is_an_end_although_the_shard_has_more() {
    let mut shard = open();
    for second in 7..=9 {
        assert_eq!(shard.saw(empty(Some(seconds(8))), seconds(second)), Verdict::GoesOn, "{second}");
    }
    assert_eq!(shard.saw(empty(Some(seconds(8))), seconds(10)), Verdict::Reached);
}

#[test]
fn a_shard_that_comes_no_nearer_is_given_up_and_not_because_it_was_read_too_seldom() {
    let stuck = Some(seconds(100_000));
    let mut shard = open();
    for second in 0..60 {
        assert_eq!(shard.saw(empty(stuck), seconds(second)), Verdict::GoesOn, "{second}");
    }
    assert_eq!(shard.saw(empty(stuck), seconds(60)), Verdict::NotProven);
    // What was read was not taken in for minutes between these.
    let mut seldom = open();
    assert!((0..4).all(|read| seldom.saw(empty(stuck), seconds(120 * read)) == Verdict::GoesOn));
    let mut nearer = open();
    assert!((0..90_000).all(|second| nearer.saw(empty(Some(seconds(200_000 - second))), seconds(second)) == Verdict::GoesOn));
}

#[test]
fn a_shard_that_was_closed_is_read_to_its_end_whatever_its_pages_say() {
    let mut closed = Shard::new(None, PATIENCE);
    for _ in 0..50 {
        assert_eq!(closed.saw(some(BOUND + 99_000, Some(Duration::ZERO)), seconds(1)), Verdict::GoesOn);
        assert_eq!(closed.saw(empty(Some(Duration::ZERO)), seconds(1)), Verdict::GoesOn);
    }
}

/// What a service says of the distance to the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Says {
    /// How long ago the next record arrived.
    Truth,
    ZeroOrOne,
    /// How many records are left.
    Count,
    /// The truth, and five seconds.
    NeverZero,
    /// A day, always.
    Stuck,
    Nothing,
}

const LIES: [Says; 6] = [Says::Truth, Says::ZeroOrOne, Says::Count, Says::NeverZero, Says::Stuck, Says::Nothing];

/// What happens to the stream: in how many milliseconds, and what.
#[derive(Debug, Clone, Copy)]
enum Event {
    /// A record, whose time is that much off, in milliseconds.
    Put {
        off: i64,
    },
    Split,
    Merge,
}

/// A shard with all that will ever happen to it, in milliseconds.
#[derive(Debug, Clone)]
struct Simulated {
    id: String,
    parents: Vec<usize>,
    born: u64,
    closed: Option<u64>,
    /// When each record arrived, and when it says that it did.
    records: Vec<(u64, u64)>,
}

impl Simulated {
    fn is_open(&self, at: u64) -> bool {
        self.born <= at && self.closed.is_none_or(|closed| closed > at)
    }
}

/// Begins a minute after 1970, so that no time is before it.
const BEGINNING: u64 = 60_000;

fn simulate(events: &[(u64, usize, Event)]) -> Vec<Simulated> {
    let new = |number: usize, parents: Vec<usize>, born| Simulated {
        id: format!("shard-{number}"),
        parents,
        born,
        closed: None,
        records: Vec::new(),
    };
    let mut shards = vec![new(0, Vec::new(), 0), new(1, Vec::new(), 0)];
    let mut at = BEGINNING;
    for (after, which, event) in events {
        at += after;
        let open: Vec<usize> = (0..shards.len()).filter(|&shard| shards[shard].is_open(at)).collect();
        let chosen = open[which % open.len()];
        match event {
            Event::Put { off } => shards[chosen].records.push((at, at.saturating_add_signed(*off))),
            Event::Split if open.len() < 6 => {
                shards[chosen].closed = Some(at);
                let next = shards.len();
                shards.extend([new(next, vec![chosen], at), new(next + 1, vec![chosen], at)]);
            }
            Event::Merge if open.len() > 1 => {
                let other = open[(which + 1) % open.len()];
                (shards[chosen].closed, shards[other].closed) = (Some(at), Some(at));
                shards.push(new(shards.len(), vec![chosen, other], at));
            }
            Event::Split | Event::Merge => {}
        }
    }
    shards
}

/// A scan of a simulated stream.
struct Scan<'a> {
    shards: &'a [Simulated],
    says: Says,
    /// The most records of a page.
    limit: usize,
    dice: u64,
    now: u64,
    taken: u64,
    stream: Stream,
    /// The shards that are read: the next record, and whether the last page had none.
    reading: BTreeMap<String, (usize, bool)>,
    /// What was handed out: shard and place.
    read: Vec<(usize, usize)>,
}

impl<'a> Scan<'a> {
    fn new(shards: &'a [Simulated], says: Says, limit: usize, dice: u64, now: u64) -> Self {
        let stream = Stream::new(&listed(shards, now), bound(now), PATIENCE);
        let mut scan = Self { shards, says, limit, dice, now, taken: now, stream, reading: BTreeMap::new(), read: Vec::new() };
        scan.begin();
        scan
    }

    fn begin(&mut self) {
        let plan = self.stream.begin(&listed(self.shards, self.now));
        assert!(plan.vanished.is_empty());
        for (shard, begin) in plan.read {
            let next = match begin {
                Begin::After { position: Position::Sequence { number, .. } } => number.0.parse::<usize>().unwrap() + 1,
                Begin::Earliest => 0,
                other => panic!("{other:?}"),
            };
            assert!(self.reading.insert(shard, (next, false)).is_none());
        }
    }

    /// One of so many.
    fn roll(&mut self, sides: u64) -> u64 {
        self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.dice >> 33) % sides
    }

    fn run(&mut self) {
        for _ in 0..4_000 {
            if self.stream.is_over() {
                assert!(self.reading.is_empty());
                return;
            }
            let reading: Vec<String> = self.reading.keys().cloned().collect();
            for shard in reading {
                self.read_page(&shard);
            }
            self.now += 1_000;
        }
        panic!("the scan does not end: {:?}", self.reading);
    }

    fn read_page(&mut self, id: &str) {
        let Some(&(next, was_empty)) = self.reading.get(id) else { return };
        let number = self.shards.iter().position(|shard| shard.id == id).unwrap();
        let shard = &self.shards[number];
        let there = shard.records.iter().take_while(|(arrived, _)| *arrived <= self.now).count();
        // An empty page tells the truth, or comes alone.
        let tells = self.says == Says::Truth;
        let is_empty = self.roll(4) == 0 && next < there && (tells || !was_empty);
        let until = if is_empty { next } else { there.min(next + self.limit) };
        self.read.extend((next..until).map(|place| (number, place)));
        let is_ended = until == there && !shard.is_open(self.now);
        let truth = shard.records.get(until).filter(|(arrived, _)| *arrived <= self.now).map_or(0, |(arrived, _)| self.now - arrived);
        // A record that just came is behind the tip, too.
        let truth = if until < there { truth.max(1) } else { truth };
        let said = match self.says {
            Says::Truth => Some(truth),
            Says::ZeroOrOne => Some(self.roll(2)),
            Says::Count => Some((there - until) as u64),
            Says::NeverZero => Some(truth + 5_000),
            Says::Stuck => Some(86_400_000),
            Says::Nothing => None,
        };
        let newest = shard.records[next..until].iter().map(|(_, says)| *says).max();
        let seen = Seen { records: until - next, newest, behind: said.map(Duration::from_millis) };
        let position = |place: usize| Position::Sequence { number: SequenceNumber(place.to_string()), sub: None };
        let last = (until > next).then(|| position(until - 1));
        let verdict = self.stream.saw(id, seen, last.as_ref(), Duration::from_millis(self.now - self.taken));
        self.reading.insert(id.to_owned(), (until, until == next));
        if is_ended {
            self.reading.remove(id);
            self.stream.ended(id);
            self.begin();
        } else if verdict != Verdict::GoesOn {
            self.reading.remove(id);
        }
    }

    /// Everything that arrived up to then was handed out; of a shard in its order, and of its parents before.
    fn has_all_up_to(&self, time: u64) {
        let read: BTreeSet<(usize, usize)> = self.read.iter().copied().collect();
        for (number, shard) in self.shards.iter().enumerate() {
            for (place, (arrived, _)) in shard.records.iter().enumerate() {
                assert!(*arrived > time || read.contains(&(number, place)), "{} {place}, which arrived at {arrived}", shard.id);
            }
            let places: Vec<usize> = self.read.iter().filter(|(of, _)| *of == number).map(|(_, place)| *place).collect();
            assert!(places.iter().copied().eq(0..places.len()), "{}: {places:?}", shard.id);
            let first = self.read.iter().position(|(of, _)| *of == number);
            for &parent in first.iter().flat_map(|_| &shard.parents) {
                let all = self.shards[parent].records.len();
                assert!(self.read.iter().take(first.unwrap()).filter(|(of, _)| *of == parent).count() == all, "{}", shard.id);
            }
        }
    }
}

fn listed(shards: &[Simulated], now: u64) -> Vec<Listed> {
    let there = shards.iter().filter(|shard| shard.born <= now);
    let name = |parent: &usize| format!("shard-{parent}");
    there
        .map(|shard| Listed { id: shard.id.clone(), parents: shard.parents.iter().map(name).collect(), closed: !shard.is_open(now) })
        .collect()
}

/// The bound that is taken at a time: a `Date` header has whole seconds.
fn bound(now: u64) -> u64 {
    now / 1_000 * 1_000 + 1_000
}

fn event() -> impl Strategy<Value = (u64, usize, Event)> {
    let what = prop_oneof![30 => (-500_i64..500).prop_map(|off| Event::Put { off }), 2 => Just(Event::Split), 1 => Just(Event::Merge)];
    (prop_oneof![5 => 0_u64..200, 1 => 0_u64..20_000], 0_usize..100, what)
}

proptest! {
    #[test]
    fn whatever_a_stream_does_and_says_all_that_was_there_is_read_parents_first_and_the_scan_ends(
        events in prop::collection::vec(event(), 0..200),
        says in prop::sample::select(&LIES[..]),
        limit in 1_usize..40,
        dice in any::<u64>(),
        start in 0_u64..100,
        later in 0_u64..20_000,
    ) {
        let shards = simulate(&events);
        let length: u64 = events.iter().map(|(after, _, _)| after).sum();
        let start = BEGINNING + length * start / 100;
        let mut scan = Scan::new(&shards, says, limit, dice, start);
        scan.run();
        scan.has_all_up_to(start);
        let is_proven = scan.stream.not_proven().next().is_none();
        prop_assert!(is_proven || says == Says::Stuck || says == Says::Nothing);
        prop_assert_eq!(scan.stream.reached(), scan.stream.bound());
        // It goes on with what came meanwhile.
        scan.now += later;
        let start = scan.now;
        scan.taken = start;
        scan.stream.extend(&listed(&shards, start), bound(start));
        scan.begin();
        scan.run();
        scan.has_all_up_to(start);
    }

    #[test]
    fn a_stream_that_is_written_to_faster_than_it_is_read_ends_where_it_was(
        says in prop::sample::select(&LIES[..]),
        dice in any::<u64>(),
        backlog in 0_usize..50,
    ) {
        // Ten records a second, for ever; five are read.
        let events: Vec<_> = (0..10_000).map(|number| (if number < backlog { 0 } else { 100 }, number, Event::Put { off: 0 })).collect();
        let shards = simulate(&events);
        let start = BEGINNING + 20_000;
        let mut scan = Scan::new(&shards, says, 2, dice, start);
        scan.run();
        scan.has_all_up_to(start);
        prop_assert!(scan.read.len() < 1_000, "{} were read", scan.read.len());
        prop_assert!(scan.stream.not_proven().next().is_none());
    }
}

#[test]
fn a_shard_that_vanishes_before_the_scan_goes_on_has_lost_something_and_its_children_are_read() {
    let listing = |id: &str, parents: &[&str]| Listed {
        id: id.to_owned(),
        parents: parents.iter().map(|&parent| parent.to_owned()).collect(),
        closed: false,
    };
    let mut stream = Stream::new(&[listing("a", &[])], BOUND, PATIENCE);
    assert_eq!(stream.begin(&[listing("a", &[])]).read, [("a".to_owned(), Begin::Earliest)]);
    assert!(stream.is_read("a") && !stream.is_over());
    assert_eq!(stream.saw("a", some(BOUND + 5_000, None), None, seconds(1)), Verdict::Reached);
    let now = [listing("b", &["a"])];
    assert_eq!(stream.begin(&now).vanished, Vec::<String>::new(), "everything before the bound was read");
    stream.extend(&now, BOUND + 60_000);
    let plan = stream.begin(&now);
    assert_eq!(plan, Plan { read: vec![("b".to_owned(), Begin::Earliest)], vanished: vec!["a".to_owned()] });
}

#[test]
fn it_is_known_up_to_which_time_everything_was_read() {
    let listing = |id: &str| Listed { id: id.to_owned(), parents: Vec::new(), closed: false };
    let listed = [listing("a"), listing("b")];
    let mut stream = Stream::new(&listed, BOUND, PATIENCE);
    stream.begin(&listed);
    assert_eq!(stream.reached(), 0);
    stream.saw("a", some(600_000, Some(seconds(400))), None, seconds(1));
    assert_eq!(stream.reached(), 0, "of the other one nothing is known");
    stream.saw("b", empty(Some(seconds(300))), None, seconds(2));
    assert_eq!(stream.reached(), 600_000);
    stream.saw("a", some(BOUND + 5_000, None), None, seconds(3));
    assert_eq!(stream.reached(), BOUND + 2_000 - 300_000, "of the one that is read still");
    stream.ended("b");
    assert_eq!(stream.reached(), BOUND);
}
