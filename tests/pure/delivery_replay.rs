//! Dead letters sent again: what settles is taken out, what is refused stays, and no letter is ever in both states.

use std::time::Duration;

use revsync::error::{Error, Kind};
use revsync::plan::mapping::Deletes;
use revsync::plan::resurrection::Guard;
use revsync::record::Record;
use revsync::run::choice::Choice;
use revsync::run::deliver::{Deliver, Settings};
use revsync::run::replay::replay;
use revsync::store::dead_letters::DeadLetter;
use tokio::sync::watch;

use crate::line::{Bench, deliver};
use crate::qldb_stream::{Does, aggregate, binary, control, damaged_aggregate, put, record, records, revision, shard};
use crate::scripted_sink::{Step, down, poison};

fn people(count: usize) -> Vec<Record> {
    let ids: Vec<String> = (0..count).map(|number| number.to_string()).collect();
    records(ids.iter().map(|id| ("Person", id.as_str(), 0, put(id))))
}

/// A bench on which everything was refused once.
async fn refused(records: &[Record]) -> Bench {
    let bench = Bench::with(Settings { give_up_after: Some(Duration::from_secs(60)), ..Settings::default() });
    bench.sink.rule(|rules| rules.refuses = |_| Some(poison()));
    deliver(&mut bench.line(), records).await.unwrap();
    bench.sink.rule(|rules| rules.refuses = |_| None);
    bench
}

async fn replay_all(bench: &Bench) -> (Result<usize, Error>, Deliver) {
    replay_chosen(bench, &Choice::default(), None).await
}

async fn replay_chosen(bench: &Bench, choice: &Choice, guard: Option<&Guard>) -> (Result<usize, Error>, Deliver) {
    let mut line = bench.line();
    let (_never, stop) = watch::channel(false);
    let result = replay(&bench.store, choice, guard, &mut line, stop, |_| ()).await;
    (result, line)
}

fn ids(letters: &[DeadLetter]) -> Vec<&str> {
    letters.iter().filter_map(|letter| letter.document_id.as_deref()).collect()
}

#[tokio::test(start_paused = true)]
async fn letters_that_settle_are_taken_out() {
    let bench = refused(&people(3)).await;
    assert_eq!(bench.letters().len(), 3);
    let (result, line) = replay_all(&bench).await;
    assert_eq!((result, line.counts().indexed), (Ok(3), 3));
    assert_eq!((bench.letters(), bench.sink.documents().len()), (vec![], 3));
}

#[tokio::test(start_paused = true)]
async fn a_letter_that_is_refused_again_stays_with_its_newest_reason_and_the_others_go() {
    let bench = refused(&people(3)).await;
    let before = bench.letters();
    bench.sink.rule(|rules| {
        rules.refuses = |operation| {
            let reply = revsync::plan::outcome::Reply::error(400, "strict_dynamic_mapping_exception", "no such field");
            (operation.target().id == "1").then_some(reply)
        };
    });
    let (result, line) = replay_all(&bench).await;
    assert_eq!((result, line.counts().indexed, line.counts().dead_letters), (Ok(2), 2, 1));
    let letters = bench.letters();
    assert_eq!(ids(&letters), ["1"]);
    assert_eq!((letters[0].id.as_str(), letters[0].error.kind.as_str()), (before[1].id.as_str(), "strict_dynamic_mapping_exception"));
}

#[tokio::test(start_paused = true)]
async fn a_letter_that_the_index_has_overtaken_is_stale_and_goes() {
    let bench = refused(&records([("Person", "a", 3, put("x"))])).await;
    deliver(&mut bench.line(), &records([("Person", "a", 4, put("y"))])).await.unwrap();
    let (result, line) = replay_all(&bench).await;
    assert_eq!((result, line.counts().stale, bench.letters().len()), (Ok(1), 1, 0));
    assert_eq!(bench.sink.version("person", "a"), Some(4));
}

#[tokio::test(start_paused = true)]
async fn every_unit_of_a_record_has_its_own_letter_and_its_own_replay() {
    let values =
        |from: u64| (from..from + 2).map(|version| revision("Person", &version.to_string(), version, &put("x"))).collect::<Vec<_>>();
    let user_records = [binary(&values(0)), binary(&[vec![control()], values(2)].concat())];
    let bench = refused(&[record(&shard("0"), 0, aggregate(&user_records))]).await;
    let letters = bench.letters();
    assert_eq!(letters.iter().map(|letter| (letter.unit, letter.part)).collect::<Vec<_>>(), [(0, 0), (1, 1), (3, 1), (4, 2)]);
    bench.sink.rule(|rules| rules.refuses = |operation| (operation.target().version == 2).then(poison));
    let (result, _) = replay_all(&bench).await;
    assert_eq!(result, Ok(3));
    assert_eq!(ids(&bench.letters()), ["2"]);
}

#[tokio::test(start_paused = true)]
async fn two_letters_of_one_document_come_to_its_highest_version_and_both_go() {
    let bench = refused(&records([("Person", "a", 0, put("x")), ("Person", "a", 1, put("y"))])).await;
    assert_eq!(bench.letters().len(), 2);
    let (result, line) = replay_all(&bench).await;
    assert_eq!((result, line.counts().indexed, line.counts().compacted), (Ok(2), 1, 1));
    assert_eq!((bench.letters().len(), bench.sink.version("person", "a")), (0, Some(1)));
}

#[tokio::test(start_paused = true)]
async fn a_replay_that_is_cut_short_has_taken_out_what_settled_and_nothing_else() {
    let mut bench = refused(&people(4)).await;
    bench.settings.request_operations = 1;
    bench.settings.requests_in_flight = 1;
    bench.sink.script([Step::Proper, Step::Answer(vec![(0, poison())])]);
    bench.sink.script((0..1_000).map(|_| Step::Fail(down("gone"))));
    let (result, line) = replay_all(&bench).await;
    assert_eq!(result.map_err(|error| error.kind), Err(Kind::Pending));
    assert_eq!((line.counts().indexed, line.counts().dead_letters, line.counts().received), (1, 1, 4));
    assert_eq!(ids(&bench.letters()), ["2", "3", "1"]);
}

#[tokio::test(start_paused = true)]
async fn a_letter_that_is_refused_again_and_again_takes_the_room_of_one_and_keeps_its_first_time() {
    let bench = refused(&people(2)).await;
    let first = bench.letters();
    bench.sink.rule(|rules| rules.refuses = |operation| (operation.target().id == "1").then(poison));
    for _ in 0..3 {
        assert!(replay_all(&bench).await.0.is_ok());
    }
    let lines = bench.letter_lines();
    assert_eq!((ids(&lines), lines[0].id.as_str()), (vec!["1"], first[1].id.as_str()));
    assert_eq!(lines[0].first_time.as_deref(), Some(first[1].time.as_str()));
    assert!(lines[0].moment() > first[1].moment());
}

#[tokio::test(start_paused = true)]
async fn only_the_chosen_letters_are_sent_and_the_others_stay() {
    let bench =
        refused(&records([("Person", "a", 0, put("x")), ("Vehicle", "b", 0, put("x")), ("VehicleRegistration", "c", 0, put("x"))])).await;
    let now = bench.letters().iter().filter_map(DeadLetter::moment).max().unwrap();
    let choices = [
        (
            Choice { tables: vec!["Person".to_owned()], reasons: vec!["nothing_like_it".to_owned()], ..Choice::default() },
            &["a", "b", "c"][..],
        ),
        (Choice { after: Some(now), ..Choice::default() }, &["a", "b", "c"]),
        (Choice { tables: vec!["Vehicle*".to_owned()], ..Choice::default() }, &["a"]),
        (Choice { reasons: vec![poison_kind()], before: Some(now + Duration::from_secs(1)), ..Choice::default() }, &[]),
    ];
    for (choice, left) in choices {
        let (result, _) = replay_chosen(&bench, &choice, None).await;
        assert!(result.is_ok());
        assert_eq!(ids(&bench.letters()), left, "{choice:?}");
    }
}

fn poison_kind() -> String {
    let revsync::plan::outcome::Reply { error: Some(error), .. } = poison() else { panic!("poison is an error") };
    error.kind
}

#[tokio::test(start_paused = true)]
async fn letters_that_a_guard_stops_stay_and_are_told_and_the_others_go() {
    let bench = refused(&records([("Person", "a", 0, put("x")), ("Vehicle", "b", 4, Does::Delete), ("Vehicle", "c", 0, put("x"))])).await;
    let later = bench.letters().iter().filter_map(DeadLetter::moment).max().unwrap() + Duration::from_secs(1);
    let rules = vec![("Vehicle".to_owned(), Deletes::Tombstone), ("*".to_owned(), Deletes::Delete)];
    let (result, line) = replay_chosen(&bench, &Choice::default(), Some(&Guard { rules, forgotten_before: later })).await;
    assert!(result.unwrap_err().what.contains("1 could bring a deleted document back"));
    assert_eq!((ids(&bench.letters()), line.counts().indexed, line.counts().absent), (vec!["a"], 1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_replay_hears_the_stop_signal_and_has_taken_out_what_settled() {
    let mut bench = refused(&people(4)).await;
    bench.settings.request_operations = 1;
    bench.settings.requests_in_flight = 1;
    bench.settings.give_up_after = None;
    bench.sink.script([Step::Proper]);
    bench.sink.script((0..1_000).map(|_| Step::Fail(down("gone"))));
    let (signal, stop) = watch::channel(false);
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(60)).await;
        signal.send_replace(true);
    });
    let mut line = bench.line();
    let error = replay(&bench.store, &Choice::default(), None, &mut line, stop, |_| ()).await.unwrap_err();
    assert_eq!((error.kind, line.counts().indexed, line.counts().pending), (Kind::Interrupted, 1, line.counts().received - 1));
    assert_eq!(ids(&bench.letters()), ["1", "2", "3"]);
}

#[tokio::test(start_paused = true)]
async fn the_damaged_part_of_an_aggregate_keeps_its_reason() {
    let bench = refused(&[record(&shard("0"), 0, damaged_aggregate())]).await;
    let before = bench.letters();
    assert_eq!(before[0].error.kind, "damaged_aggregate");
    let (result, line) = replay_all(&bench).await;
    assert_eq!((result, line.counts().dead_letters), (Ok(0), 1));
    assert_eq!((bench.letters().len(), &bench.letters()[0].error), (1, &before[0].error));
}

#[tokio::test(start_paused = true)]
async fn letters_from_many_places_take_no_room_once_they_are_settled() {
    let bench = refused(&people(1)).await;
    let letter = bench.letters().remove(0);
    let mut line = bench.line();
    for number in 0..1_000 {
        let mut letter = letter.clone();
        letter.origin.shard = format!("shard-{}", number % 10);
        line.push_letter(&letter).await.unwrap();
    }
    line.finish().await.unwrap();
    assert_eq!((line.ledger().held(), line.counts().received, line.counts().pending), (0, 1_000, 0));
}
