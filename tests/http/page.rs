//! The page as it is sent: what it says in each state, and that nothing in it comes from elsewhere or is anything but text.

use std::time::Duration;

use revsync::plan::health::Phase;
use revsync::run::history::Lags;
use revsync::run::standing::{Blocked, Shard, ShardPhase};

use crate::client::{Answer, get};
use crate::states::{behind, blocked, healthy, running, seconds, server, shard, sink_down, thousand, waiting};

/// What a browser shows of HTML, roughly: the text between the tags.
fn text(page: &str) -> String {
    let body = page.split_once("<body>").unwrap().1.split_once("<script>").unwrap().0;
    let mut text = String::new();
    for part in body.split('<') {
        if let Some((_, said)) = part.split_once('>') {
            text.push_str(said);
            text.push(' ');
        }
    }
    let plain = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
    let text = plain.iter().fold(text, |text, (coded, plain)| text.replace(coded, plain));
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

async fn page(standing: &std::sync::Arc<revsync::run::standing::Standing>) -> Answer {
    let answer = get(server(standing).await.address(), "/").await;
    assert_eq!((answer.status, answer.headers["content-type"].as_str()), (200, "text/html; charset=utf-8"));
    answer
}

#[tokio::test]
async fn the_first_sentence_says_how_it_is() {
    for (standing, tone, said) in [
        (healthy().await, "good", "Running. All 4 shards are caught up."),
        (behind().await, "busy", "Running. 2 of 4 shards are behind, the furthest by 19 min; 1 more waits for its parents."),
        (
            sink_down().await,
            "bad",
            "Not ready: the sink https://search.example.com has been unreachable for 12 min: connection refused. 2 of 3 shards are behind, \
             the furthest by 12 min.",
        ),
        (waiting().await, "idle", "Waiting: worker-b (process 9) does the work; this process takes over when that one stops."),
        (thousand().await, "busy", "Running. 10 of 1000 shards are behind, the furthest by 26 min; 1 cannot be read at the moment."),
    ] {
        let page = page(&standing).await;
        let first = page.body.split_once("role=\"status\">").unwrap().1.split_once("</p>").unwrap().0;
        assert_eq!(first, said);
        assert!(page.body.contains(&format!("class=\"headline {tone}\"")), "{tone}");
    }
}

#[tokio::test]
async fn what_is_wrong_is_shown_with_its_reason_and_what_to_do() {
    let text = text(&page(&blocked().await).await.body);
    for said in [
        "the index vehicle_registration has been blocked for 12 min: cluster_block_exception",
        "nothing more is read, because too much waits for a blocked index",
        "dead letters 37",
        "lost unread 1",
        "last dead letter mapper_parsing_exception: failed to parse field [ValidFromDate] of type [date] 1 h 3 min ago",
        "revsync dead-letters list --dead-letters sqs://sqs.eu-west-1.amazonaws.com/123456789012/ledger-dead-letters",
        "revsync dead-letters replay --dead-letters sqs://sqs.eu-west-1.amazonaws.com/123456789012/ledger-dead-letters --to https://search.example.com",
        "lost unread, trimmed 1",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let text = self::text(&page(&sink_down().await).await.body);
    assert!(text.contains("sink https://search.example.com ✗ unreachable for 12 min connection refused"), "{text}");
    assert!(text.contains("revsync check --to https://search.example.com"), "{text}");
}

#[tokio::test]
async fn where_nothing_is_wrong_nothing_is_to_be_done() {
    let text = text(&page(&healthy().await).await.body);
    assert!(!text.contains("What to do") && !text.contains("cannot") && !text.contains("What happened last"), "{text}");
}

#[tokio::test]
async fn of_a_thousand_shards_the_worst_come_first_and_the_rest_is_counted() {
    let page = page(&thousand().await).await;
    let rows: Vec<&str> = page.body.match_indices("<td class=\"name\">").map(|(at, _)| &page.body[at + 17..at + 37]).collect();
    assert_eq!(rows.len(), 50);
    let worst: Vec<u64> = rows[..10].iter().map(|name| name.trim_start_matches("shardId-").parse().unwrap()).collect();
    assert_eq!(worst, [142, 942, 842, 742, 642, 542, 442, 342, 242, 42], "the one that cannot be read, then by how far they are behind");
    assert!(text(&page.body).contains("and 950 more that are caught up"), "{}", text(&page.body));
    assert!(page.body.len() < 200_000, "{} bytes", page.body.len());
}

#[tokio::test]
async fn nothing_comes_from_elsewhere_and_nothing_else_runs() {
    let page = page(&healthy().await).await;
    let policy = &page.headers["content-security-policy"];
    for part in [
        "default-src 'none'",
        "script-src 'sha256-",
        "style-src 'sha256-",
        "connect-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    ] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(
        !policy.contains("unsafe") && page.headers["x-content-type-options"] == "nosniff" && page.headers["cache-control"] == "no-store"
    );
    for tag in [
        "<img",
        "<iframe",
        "<object",
        "<form",
        "@import",
        "url(",
        " style=",
        " onclick",
        " onload",
        "<script src",
        "<link rel=\"stylesheet",
    ] {
        assert!(!page.body.contains(tag), "{tag}");
    }
    let addresses = page.body.match_indices("http").map(|(at, _)| &page.body[at..at + 30]);
    let allowed = ["http://www.w3.org/2000/svg", "https://search.example.com", "http-equiv"];
    for address in addresses {
        assert!(allowed.iter().any(|allowed| address.starts_with(allowed)), "{address}");
    }
}

#[tokio::test]
async fn names_from_the_stream_are_text_and_nothing_else() {
    let evil = "</td><script>alert(1)</script><img src=x onerror='alert(2)'>\"&amp;\u{202e}\u{1b}[31m";
    let standing = running().await;
    shard(&standing, evil, |_| 60.0);
    {
        let mut state = standing.state();
        state.shards.get_mut(evil).unwrap().trouble = Some(evil.to_owned());
        state.shards.insert(format!("2{evil}"), Shard::new(ShardPhase::Held { owner: evil.to_owned() }));
        state.blocked = vec![Blocked { index: evil.to_owned(), since: tokio::time::Instant::now(), why: evil.to_owned() }];
        state.last_error = Some((0, evil.to_owned()));
        state.last_dead_letter = Some((0, evil.to_owned()));
        state.phase = Phase::Waiting { owner: evil.to_owned() };
        let about = &mut state.about;
        for name in
            [&mut about.pipeline, &mut about.source, &mut about.sink, &mut about.dead_letters, &mut about.checkpoints, &mut about.owner]
        {
            *name = evil.to_owned();
        }
        state.sink.is_not(evil);
    }
    let page = page(&standing).await.body;
    let (tags, scripts) = (page.matches("<img").count(), page.matches("<script").count());
    assert_eq!((tags, scripts, page.matches("</script").count()), (0, 1, 1));
    assert!(!page.contains("onerror='") && !page.contains('\u{202e}') && !page.contains('\u{1b}'));
    assert!(page.contains("&lt;/td&gt;&lt;script&gt;alert(1)&lt;/script&gt;") && page.contains("&quot;&amp;amp;"));
}

#[tokio::test]
async fn a_shell_takes_the_commands_as_they_stand_there() {
    let standing = sink_down().await;
    standing.state().about.sink = "https://h/a b;rm -rf 'x'".to_owned();
    let text = text(&page(&standing).await.body);
    assert!(text.contains(r"revsync check --to 'https://h/a b;rm -rf '\''x'\'''"), "{text}");
}

#[tokio::test]
async fn a_gap_in_what_was_known_is_a_gap_in_the_curve() {
    let standing = running().await;
    shard(&standing, "s", |_| 0.3);
    {
        let mut state = standing.state();
        let (lags, _) = state.past.shards.get_mut("s").unwrap();
        *lags = Lags::default();
        for (ago, lag) in [(60, Some(40.0)), (45, Some(30.0)), (30, None), (15, Some(20.0))] {
            lags.add(seconds(2 * 3_600 - ago), lag.map(Duration::from_secs_f32));
        }
    }
    let page = page(&standing).await.body;
    let area = page.split_once("\" fill=\"currentColor\"").unwrap().0.rsplit_once('"').unwrap().1;
    assert_eq!(area.matches("23Z").count(), 2, "{area}");
    assert!(page.contains("40 s behind at most in the last 30 min"), "{page}");
}
