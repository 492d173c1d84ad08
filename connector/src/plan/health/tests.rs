use super::*;

const AFTER: Duration = Duration::from_secs(600);

const fn min(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}

fn place(role: Role, reach: Reach) -> Place {
    Place { role, address: "x://y".to_owned(), reach }
}

fn down() -> Reach {
    Reach::Unreachable { since: min(3), why: "connection refused".to_owned() }
}

/// Four shards, caught up, and everything reachable.
fn good() -> Summary {
    let roles = [Role::Source, Role::Sink, Role::Checkpoints, Role::DeadLetters];
    Summary {
        phase: Phase::Running,
        places: roles.map(|role| place(role, Reach::Reached)).into(),
        blocked: Vec::new(),
        paused: false,
        shards: Shards { read: 4, ..Shards::default() },
        stalled: Duration::ZERO,
        data_loss: 0,
    }
}

/// The same, with something to do and nothing done for an hour.
fn idle() -> Summary {
    let shards = Shards { read: 4, behind: 2, furthest: min(4), unsettled: 9, ..Shards::default() };
    Summary { shards, stalled: min(60), ..good() }
}

fn with(mut summary: Summary, change: impl FnOnce(&mut Summary)) -> Summary {
    change(&mut summary);
    summary
}

fn waiting() -> Phase {
    Phase::Waiting { owner: "worker-a".to_owned() }
}

fn blocked() -> Vec<Blocked> {
    vec![Blocked { index: "person".to_owned(), since: min(12), why: "index_closed_exception: closed".to_owned() }]
}

#[test]
fn a_process_is_stuck_only_where_something_is_to_be_done_nothing_hinders_it_and_nothing_was_settled_for_long() {
    for (what, summary, stuck) in [
        ("caught up", good(), false),
        ("caught up for an hour", with(good(), |it| it.stalled = min(60)), false),
        ("records wait for an hour", idle(), true),
        ("lag alone, and every shard answers", with(idle(), |it| it.shards.unsettled = 0), false),
        ("a shard does not answer", with(idle(), |it| (it.shards.unsettled, it.shards.silent) = (0, SILENT)), true),
        ("a shard that was caught up does not answer", with(good(), |it| (it.shards.silent, it.stalled) = (min(9), min(60))), true),
        ("records alone, no lag known", with(idle(), |it| it.shards.furthest = Duration::ZERO), true),
        ("exactly as long as is allowed", with(idle(), |it| it.stalled = AFTER), true),
        ("a moment less", with(idle(), |it| it.stalled = AFTER - Duration::from_millis(1)), false),
        ("another does the work", with(idle(), |it| it.phase = waiting()), false),
        ("starting", with(idle(), |it| it.phase = Phase::Starting), false),
        ("stopping", with(idle(), |it| it.phase = Phase::Stopping), false),
        ("the source is down", with(idle(), |it| it.places[0].reach = down()), false),
        ("the sink is down", with(idle(), |it| it.places[1].reach = down()), false),
        ("the checkpoints are down", with(idle(), |it| it.places[2].reach = down()), false),
        ("the dead letters are down", with(idle(), |it| it.places[3].reach = down()), false),
        ("an index is blocked", with(idle(), |it| it.blocked = blocked()), false),
        ("paused", with(idle(), |it| it.paused = true), false),
        ("a shard cannot be read", with(idle(), |it| it.shards.troubled = 1), false),
        ("nothing was tried yet", with(idle(), |it| it.places[1].reach = Reach::Untried), true),
    ] {
        assert_eq!(summary.stuck(AFTER).is_some(), stuck, "{what}");
    }
    let why = idle().stuck(AFTER).unwrap();
    assert_eq!(why, "nothing was settled for 1 h, although everything can be reached and 9 records wait");
}

#[test]
fn a_pipeline_is_ready_when_it_runs_everything_can_be_reached_and_no_index_is_blocked() {
    for (what, summary, reasons) in [
        ("all is well", good(), &[][..]),
        ("behind", with(idle(), |it| it.stalled = Duration::ZERO), &[]),
        ("stuck", idle(), &[]),
        ("starting", with(good(), |it| it.phase = Phase::Starting), &["it is starting"]),
        ("waiting", with(good(), |it| it.phase = waiting()), &["worker-a does the work; this process takes over when that one stops"]),
        ("stopping", with(good(), |it| it.phase = Phase::Stopping), &["it was told to stop"]),
        (
            "source",
            with(good(), |it| it.places[0].reach = down()),
            &["the source x://y has been unreachable for 3 min: connection refused"],
        ),
        ("sink", with(good(), |it| it.places[1].reach = down()), &["the sink x://y has been unreachable for 3 min: connection refused"]),
        (
            "checkpoints",
            with(good(), |it| it.places[2].reach = down()),
            &["the place for checkpoints x://y has been unreachable for 3 min: connection refused"],
        ),
        (
            "dead letters",
            with(good(), |it| it.places[3].reach = down()),
            &["the place for dead letters x://y has been unreachable for 3 min: connection refused"],
        ),
        ("a sink not tried yet", with(good(), |it| it.places[1].reach = Reach::Untried), &[]),
        ("no letter yet", with(good(), |it| it.places[3].reach = Reach::Untried), &[]),
        (
            "blocked",
            with(good(), |it| it.blocked = blocked()),
            &["the index person has been blocked for 12 min: index_closed_exception: closed"],
        ),
        (
            "paused",
            with(good(), |it| (it.blocked, it.paused) = (blocked(), true)),
            &[
                "the index person has been blocked for 12 min: index_closed_exception: closed",
                "nothing more is read, because too much waits for a blocked index",
            ],
        ),
        (
            "several",
            with(good(), |it| (it.phase, it.places[1].reach) = (Phase::Starting, down())),
            &["it is starting", "the sink x://y has been unreachable for 3 min: connection refused"],
        ),
        (
            "nameless",
            with(good(), |it| it.places[1] = Place { address: String::new(), ..place(Role::Sink, down()) }),
            &["the sink has been unreachable for 3 min: connection refused"],
        ),
    ] {
        assert_eq!(summary.not_ready(), reasons, "{what}");
    }
}

#[test]
fn one_sentence_says_how_it_is() {
    let shards = |change: fn(&mut Shards)| with(good(), |it| change(&mut it.shards));
    for (summary, tone, text) in [
        (good(), Tone::Good, "Running. All 4 shards are caught up."),
        (shards(|it| it.read = 1), Tone::Good, "Running. The only shard is caught up."),
        (shards(|it| it.read = 0), Tone::Good, "Running. There is no shard to read."),
        (shards(|it| (it.read, it.held) = (0, 2)), Tone::Good, "Running. All 2 shards are read by others."),
        (shards(|it| (it.behind, it.furthest) = (1, min(4))), Tone::Busy, "Running. 1 of 4 shards is behind, by 4 min."),
        (shards(|it| (it.behind, it.furthest) = (2, min(4))), Tone::Busy, "Running. 2 of 4 shards are behind, the furthest by 4 min."),
        (shards(|it| (it.read, it.behind, it.furthest) = (1, 1, min(90))), Tone::Busy, "Running. The only shard is 1 h 30 min behind."),
        (shards(|it| it.unknown = 1), Tone::Busy, "Running. 1 of 4 shards has not answered yet."),
        (shards(|it| it.unknown = 3), Tone::Busy, "Running. 3 of 4 shards have not answered yet."),
        (
            shards(|it| (it.behind, it.furthest, it.troubled, it.waiting) = (1, min(4), 1, 2)),
            Tone::Busy,
            "Running. 1 of 4 shards is behind, by 4 min; 1 cannot be read at the moment; 2 more wait for their parents.",
        ),
        (shards(|it| it.waiting = 1), Tone::Good, "Running. All 4 shards are caught up; 1 more waits for its parents."),
        (
            with(idle(), |it| it.places[1].reach = down()),
            Tone::Bad,
            "Not ready: the sink x://y has been unreachable for 3 min: connection refused. 2 of 4 shards are behind, the furthest by 4 min.",
        ),
        (
            with(good(), |it| (it.blocked, it.paused) = (blocked(), true)),
            Tone::Bad,
            "Not ready: the index person has been blocked for 12 min: index_closed_exception: closed (and 1 more). All 4 shards are caught up.",
        ),
        (
            with(good(), |it| it.places[1].reach = Reach::Unreachable { since: min(3), why: "word ".repeat(100) }),
            Tone::Bad,
            "Not ready: the sink x://y has been unreachable for 3 min: word word word word word word word word word word word word word word word \
             word word word … All 4 shards are caught up.",
        ),
        (
            with(good(), |it| {
                it.places[1].reach = Reach::Unreachable { since: min(3), why: "word ".repeat(100) };
                it.blocked = blocked();
            }),
            Tone::Bad,
            "Not ready: the sink x://y has been unreachable for 3 min: word word word word word word word word word word word word word word word \
             word word word … (and 1 more). All 4 shards are caught up.",
        ),
        (
            idle(),
            Tone::Bad,
            "Stuck: nothing was settled for 1 h, although everything can be reached and 9 records wait. It should be started anew. \
             2 of 4 shards are behind, the furthest by 4 min.",
        ),
        (
            with(good(), |it| it.phase = waiting()),
            Tone::Idle,
            "Waiting: worker-a does the work; this process takes over when that one stops.",
        ),
        (with(good(), |it| it.phase = Phase::Starting), Tone::Idle, "Starting."),
        (with(good(), |it| it.phase = Phase::Stopping), Tone::Idle, "Stopping: what is under way is finished, nothing more is read."),
        (
            with(good(), |it| (it.phase, it.places[0].reach) = (Phase::Starting, down())),
            Tone::Bad,
            "Not ready: the source x://y has been unreachable for 3 min: connection refused.",
        ),
        (
            with(good(), |it| it.data_loss = 1),
            Tone::Busy,
            "Running. All 4 shards are caught up. Records were lost before they could be read, once.",
        ),
    ] {
        assert_eq!(summary.headline(AFTER), Headline { tone, text: text.to_owned() });
    }
}

#[test]
fn times_are_said_as_people_say_them() {
    for (seconds, said) in [
        (1, "1 s"),
        (59, "59 s"),
        (60, "1 min"),
        (90, "1 min 30 s"),
        (600, "10 min"),
        (661, "11 min"),
        (3_600, "1 h"),
        (5_400, "1 h 30 min"),
        (86_399, "23 h 59 min"),
        (86_400, "1 d"),
        (100_000, "1 d 3 h"),
    ] {
        assert_eq!(in_words(Duration::from_secs(seconds)), said);
    }
    assert_eq!((in_words(Duration::ZERO), in_words(Duration::from_millis(420))), ("0 ms".to_owned(), "420 ms".to_owned()));
}
