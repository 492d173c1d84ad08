//! Plans of single streams, and a model: a stream that is split, merged and trimmed at random, and a reader that goes by the plans and is gone
//! now and then.

use proptest::prelude::*;

use super::*;
use crate::record::{Position, SequenceNumber};

fn open(id: &str, parents: &[&str]) -> Listed {
    Listed { id: id.to_owned(), parents: parents.iter().map(|parent| (*parent).to_owned()).collect(), closed: false }
}

fn closed(id: &str, parents: &[&str]) -> Listed {
    Listed { closed: true, ..open(id, parents) }
}

fn settled(number: u64) -> Progress {
    Progress::Settled(Position::Sequence { number: SequenceNumber(number.to_string()), sub: None })
}

fn saved(rows: &[(&str, Progress)]) -> BTreeMap<String, Checkpoint> {
    let row = |progress: &Progress| Checkpoint { progress: progress.clone(), covered: None, targets: BTreeMap::new() };
    rows.iter().map(|(id, progress)| ((*id).to_owned(), row(progress))).collect()
}

fn read(plan: &Plan) -> Vec<(&str, Begin)> {
    plan.read.iter().map(|(id, begin)| (id.as_str(), begin.clone())).collect()
}

const NOW: u64 = 1_000;

/// `p` was split into `a` and `b`, and these were merged to `m`, and `q` was always alone.
fn resharded() -> [Listed; 5] {
    [closed("p", &[]), closed("a", &["p"]), closed("b", &["p"]), open("m", &["a", "b"]), open("q", &[])]
}

#[test]
fn closed_shards_that_were_never_read_are_read_before_their_children() {
    let plan = plan(&resharded(), &BTreeMap::new(), Start::Earliest, NOW);
    assert_eq!(read(&plan), [("p", Begin::Earliest), ("q", Begin::Earliest)]);
    assert_eq!(plan.waiting, ["a", "b", "m"]);
}

#[test]
fn with_the_latest_a_shard_that_was_not_saved_with_the_others_begins_when_they_did() {
    let rows = saved(&[("q", Progress::Begins(Begin::Latest { since: NOW }))]);
    let stream = [closed("p", &[]), open("a", &["p"]), open("q", &[])];
    let plan_of = |rows| plan(&stream, rows, Start::Latest, NOW + 500);
    let then = Begin::Timestamp { millis: NOW };
    assert_eq!(read(&plan_of(&rows)), [("p", then.clone()), ("q", then.clone())]);
    let rows = saved(&[("q", Progress::Begins(Begin::Latest { since: NOW })), ("p", Progress::Ended)]);
    assert_eq!(read(&plan_of(&rows)), [("a", Begin::Earliest), ("q", then)]);
}

#[test]
fn a_merged_shard_waits_for_both_of_its_parents() {
    let one = saved(&[("p", Progress::Ended), ("a", Progress::Ended), ("b", settled(7))]);
    let plan_of = |rows| plan(&resharded(), rows, Start::Earliest, NOW);
    let behind = Begin::After { position: Position::Sequence { number: SequenceNumber("7".into()), sub: None } };
    assert_eq!(read(&plan_of(&one)), [("b", behind), ("q", Begin::Earliest)]);
    let both = saved(&[("p", Progress::Ended), ("a", Progress::Ended), ("b", Progress::Ended)]);
    assert_eq!(read(&plan_of(&both)), [("m", Begin::Earliest), ("q", Begin::Earliest)]);
}

#[test]
fn the_latest_begins_with_the_ends_of_the_stream_and_their_children_begin_at_their_beginning() {
    let first = plan(&resharded(), &BTreeMap::new(), Start::Latest, NOW);
    assert_eq!(read(&first), [("m", Begin::Latest { since: NOW }), ("q", Begin::Latest { since: NOW })]);
    assert!(first.waiting.is_empty());
    let rows = saved(&[("m", Progress::Ended), ("q", Progress::Begins(Begin::Latest { since: NOW }))]);
    let split = [closed("a", &["p"]), closed("m", &["a", "b"]), open("q", &[]), open("x", &["m"]), open("y", &["m"])];
    let second = plan(&split, &rows, Start::Latest, NOW + 1);
    let since = Begin::Timestamp { millis: NOW };
    assert_eq!(read(&second), [("q", since), ("x", Begin::Earliest), ("y", Begin::Earliest)]);
}

#[test]
fn a_shard_that_is_closed_while_its_children_are_not_listed_yet_is_an_end_of_the_stream() {
    let plan = plan(&[closed("p", &[])], &BTreeMap::new(), Start::Latest, NOW);
    assert_eq!(read(&plan), [("p", Begin::Latest { since: NOW })]);
}

#[test]
fn a_start_in_time_holds_for_every_shard_until_something_older_is_settled() {
    let at = Begin::Timestamp { millis: 500 };
    let begun = |covered| {
        let mut rows = saved(&[("p", Progress::Ended), ("q", settled(7))]);
        rows.get_mut("q").unwrap().covered = Some(covered);
        plan(&resharded(), &rows, Start::Timestamp(500), NOW)
    };
    assert_eq!(read(&begun(600))[..2], [("a", at.clone()), ("b", at)]);
    // Begun with another start, and down for long: what was written meanwhile would be passed over.
    assert_eq!(read(&begun(400))[..2], [("a", Begin::Earliest), ("b", Begin::Earliest)]);
}

#[test]
fn a_shard_with_a_descendant_that_was_begun_counts_as_done() {
    let plan = plan(&resharded(), &saved(&[("m", settled(7))]), Start::Earliest, NOW);
    assert_eq!(plan.read.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["m", "q"]);
    assert!(plan.waiting.is_empty());
}

#[test]
fn a_shard_that_was_begun_and_is_not_listed_any_more_is_lost_and_its_children_go_on() {
    let rows = saved(&[("p", settled(7)), ("q", settled(7))]);
    let plan = plan(&resharded()[1..], &rows, Start::Latest, NOW);
    assert_eq!(plan.vanished, ["p"]);
    assert_eq!(plan.read.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["a", "b", "q"]);
}

#[test]
fn the_checkpoint_of_an_ended_shard_stays_until_its_children_are_begun() {
    let listed = &resharded()[1..];
    let removable = |rows: &[(&str, Progress)]| plan(listed, &saved(rows), Start::Earliest, NOW).removable;
    assert!(removable(&[("p", Progress::Ended), ("a", settled(1))]).is_empty(), "b is not begun");
    assert_eq!(removable(&[("p", Progress::Ended), ("a", settled(1)), ("b", settled(1))]), ["p"]);
    assert_eq!(removable(&[("p", Progress::Ended), ("m", settled(1))]), ["p"]);
    assert!(removable(&[("a", Progress::Ended), ("m", settled(1))]).is_empty(), "it would be read again");
}

#[test]
fn a_stream_that_was_made_again_is_known_by_an_open_shard_that_had_ended() {
    assert_eq!(made_again(&resharded(), &saved(&[("p", Progress::Ended), ("q", settled(7))])), [] as [&str; 0]);
    assert_eq!(made_again(&resharded(), &saved(&[("p", Progress::Ended), ("q", Progress::Ended)])), ["q"]);
}

#[test]
fn records_may_be_lost_once_what_is_settled_is_older_than_what_the_stream_keeps() {
    let day = Duration::from_secs(24 * 60 * 60);
    assert_eq!(lost_to_age(0, day, 86_400_000), None);
    assert_eq!(lost_to_age(0, day, 86_400_001), Some(Duration::from_millis(1)));
    assert_eq!(lost_to_age(5, day, 0), None, "a clock that goes wrong loses nothing");
}

/// What is done to the stream, or by the reader.
#[derive(Debug, Clone)]
enum Step {
    Write(usize),
    Split(usize),
    Merge(usize, usize),
    /// Closed shards older than so much are gone.
    Trim(u64),
    /// The reader plans anew, and removes the checkpoints that nobody needs.
    Plan,
    /// It reads so many records of one of the shards that it may read.
    Read(usize, usize),
}

fn steps(trims: bool) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => any::<usize>().prop_map(Step::Write),
        1 => any::<usize>().prop_map(Step::Split),
        1 => (any::<usize>(), any::<usize>()).prop_map(|(a, b)| Step::Merge(a, b)),
        u32::from(trims) => (1_u64..200).prop_map(Step::Trim),
        2 => Just(Step::Plan),
        6 => (any::<usize>(), 1_usize..4).prop_map(|(shard, count)| Step::Read(shard, count)),
    ];
    prop::collection::vec(step, 0..200)
}

#[derive(Debug, Clone)]
struct Made {
    listed: Listed,
    /// When each was written.
    records: Vec<u64>,
    closed_at: Option<u64>,
    gone: bool,
}

struct Model {
    start: Start,
    now: u64,
    shards: Vec<Made>,
    rows: BTreeMap<String, Checkpoint>,
    plan: Plan,
    /// Every record that was read, by shard.
    read: Vec<(String, u64)>,
    lost: BTreeSet<String>,
    first_plan: Option<u64>,
}

impl Model {
    fn new(start: Start) -> Self {
        let mut model = Self {
            start,
            now: 1,
            shards: Vec::new(),
            rows: BTreeMap::new(),
            plan: Plan::default(),
            read: Vec::new(),
            lost: BTreeSet::new(),
            first_plan: None,
        };
        model.make(&[]);
        model.make(&[]);
        model
    }

    fn make(&mut self, parents: &[usize]) {
        let parents: Vec<&str> = parents.iter().map(|parent| self.shards[*parent].listed.id.as_str()).collect();
        let listed = open(&format!("s{:03}", self.shards.len()), &parents);
        self.shards.push(Made { listed, records: Vec::new(), closed_at: None, gone: false });
    }

    fn close(&mut self, shard: usize) {
        self.shards[shard].listed.closed = true;
        self.shards[shard].closed_at = Some(self.now);
    }

    fn open_ones(&self) -> Vec<usize> {
        (0..self.shards.len()).filter(|shard| !self.shards[*shard].listed.closed).collect()
    }

    fn do_(&mut self, step: &Step) {
        self.now += 1;
        let ends = self.open_ones();
        match *step {
            Step::Write(which) => {
                let now = self.now;
                self.shards[ends[which % ends.len()]].records.push(now);
            }
            Step::Split(which) => {
                let parent = ends[which % ends.len()];
                self.close(parent);
                self.make(&[parent]);
                self.make(&[parent]);
            }
            Step::Merge(a, b) => {
                let (a, b) = (ends[a % ends.len()], ends[b % ends.len()]);
                if a != b {
                    self.close(a);
                    self.close(b);
                    self.make(&[a, b]);
                }
            }
            Step::Trim(age) => {
                for shard in &mut self.shards {
                    shard.gone |= shard.closed_at.is_some_and(|at| at + age < self.now);
                }
            }
            Step::Plan => self.replan(),
            Step::Read(which, count) => {
                if let Some((id, _)) = self.plan.read.get(which % self.plan.read.len().max(1)) {
                    let id = id.clone();
                    self.read_some(&id, count);
                }
            }
        }
    }

    fn replan(&mut self) {
        let listed: Vec<Listed> = self.shards.iter().filter(|shard| !shard.gone).map(|shard| shard.listed.clone()).collect();
        self.first_plan.get_or_insert(self.now);
        self.plan = plan(&listed, &self.rows, self.start, self.now);
        for id in std::mem::take(&mut self.plan.removable) {
            self.rows.remove(&id);
        }
        for id in std::mem::take(&mut self.plan.vanished) {
            self.rows.get_mut(&id).unwrap().progress = Progress::Ended;
            self.lost.insert(id);
        }
        // All of them are taken at once, as a process does before it reads.
        for (id, begin) in &self.plan.read {
            let begins = Checkpoint { progress: Progress::Begins(begin.clone()), covered: None, targets: BTreeMap::new() };
            self.rows.entry(id.clone()).or_insert(begins);
        }
    }

    fn read_some(&mut self, id: &str, count: usize) {
        let shard = self.shards.iter().find(|shard| shard.listed.id == id).unwrap().clone();
        let Some(begin) = self.rows.get(id).and_then(|row| row.progress.begin()) else { return };
        if shard.gone {
            return;
        }
        for parent in &shard.listed.parents {
            let parent = self.shards.iter().find(|made| made.listed.id == *parent).unwrap();
            let all_read = self.rows.get(&parent.listed.id).is_none_or(|row| row.progress == Progress::Ended);
            assert!(all_read, "{id} is read before its parent {} was settled", parent.listed.id);
        }
        let is_next = |at: u64| match &begin {
            Begin::Earliest => true,
            Begin::Latest { since: millis } | Begin::Timestamp { millis } => at >= *millis,
            Begin::After { position: Position::Sequence { number, .. } } => at > number.0.parse().unwrap(),
            Begin::After { .. } => unreachable!(),
        };
        let page: Vec<u64> = shard.records.iter().copied().filter(|at| is_next(*at)).take(count).collect();
        let row = self.rows.get_mut(id).unwrap();
        if let Some(last) = page.last() {
            row.progress = settled(*last);
            row.covered = Some(*last);
        }
        if page.len() < count && shard.listed.closed {
            row.progress = Progress::Ended;
        }
        self.read.extend(page.into_iter().map(|at| (id.to_owned(), at)));
    }

    /// Reads on until nothing is left.
    fn read_all(&mut self) {
        for _ in 0..2 * self.shards.len() + 2 {
            let before = self.rows.clone();
            self.replan();
            for (id, _) in self.plan.read.clone() {
                self.read_some(&id, usize::MAX);
            }
            if self.rows == before {
                break;
            }
        }
        assert!(self.plan.waiting.is_empty(), "{:?} wait for ever", self.plan.waiting);
    }

    fn written(&self) -> Vec<(String, u64)> {
        self.shards.iter().flat_map(|shard| shard.records.iter().map(|at| (shard.listed.id.clone(), *at))).collect()
    }

    fn read_in_order(&self) -> Vec<(String, u64)> {
        let mut read = self.read.clone();
        read.sort();
        read
    }
}

proptest! {
    #[test]
    fn everything_is_read_once_and_no_child_before_its_parents(steps in steps(false)) {
        let mut model = Model::new(Start::Earliest);
        steps.iter().for_each(|step| model.do_(step));
        model.read_all();
        prop_assert_eq!(model.read_in_order(), model.written());
        prop_assert!(model.lost.is_empty());
    }

    #[test]
    fn with_the_latest_everything_is_read_that_was_written_since_the_first_plan(steps in steps(false)) {
        let mut model = Model::new(Start::Latest);
        steps.iter().for_each(|step| model.do_(step));
        model.read_all();
        let since = model.first_plan.unwrap();
        let written: Vec<_> = model.written().into_iter().filter(|(_, at)| *at >= since).collect();
        prop_assert_eq!(model.read_in_order(), written);
    }

    #[test]
    fn with_a_start_in_time_everything_is_read_that_was_written_since(steps in steps(false), time in 0_u64..100) {
        let mut model = Model::new(Start::Timestamp(time));
        steps.iter().for_each(|step| model.do_(step));
        model.read_all();
        let written: Vec<_> = model.written().into_iter().filter(|(_, at)| *at >= time).collect();
        prop_assert_eq!(model.read_in_order(), written);
    }

    #[test]
    fn of_a_stream_that_drops_shards_all_that_is_left_is_read_and_what_was_begun_and_is_gone_is_said(steps in steps(true)) {
        let mut model = Model::new(Start::Earliest);
        steps.iter().for_each(|step| model.do_(step));
        model.read_all();
        let read = model.read_in_order();
        let mut once = read.clone();
        once.dedup();
        prop_assert_eq!(&once, &read, "read twice");
        for (id, at) in model.written() {
            let gone = model.shards.iter().any(|shard| shard.listed.id == id && shard.gone);
            prop_assert!(gone || read.contains(&(id.clone(), at)), "{}/{} was never read", id, at);
        }
        for id in &model.lost {
            prop_assert!(model.shards.iter().any(|shard| shard.listed.id == *id && shard.gone));
        }
    }
}
