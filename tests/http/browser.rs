//! The page as a person sees it, in a real browser. What it looked like is left in `target/tmp/page`.

use std::sync::Arc;

use revsync::run::standing::Standing;

use crate::headless::Browser;
use crate::states::{behind, blocked, healthy, seconds, server, shard, sink_down, thousand, waiting};

/// Whether anything sticks out of the page at its side, which nobody would find.
const STICKS_OUT: &str = "document.documentElement.scrollWidth > innerWidth";

fn url(server: &revsync::run::http::Server) -> String {
    format!("http://{}/", server.address())
}

#[tokio::test]
async fn every_state_is_shown_to_people_without_a_complaint_of_the_browser() {
    let Some(browser) = Browser::start().await else { return };
    let states: [(&str, Arc<Standing>); 6] = [
        ("healthy", healthy().await),
        ("behind", behind().await),
        ("sink-down", sink_down().await),
        ("blocked", blocked().await),
        ("waiting", waiting().await),
        ("thousand", thousand().await),
    ];
    for (name, standing) in states {
        let server = server(&standing).await;
        browser.open(&url(&server)).await;
        let headline = standing.state().summary(crate::states::millis()).headline(crate::states::STUCK_AFTER).text;
        let shown = browser.look("document.querySelector('[role=status]').innerText").await;
        let words = |text: &str| text.split(['.', ';']).next().unwrap().to_owned();
        assert_eq!(words(shown.as_str().unwrap()), words(&headline), "{name}");
        // The style is the page's own, and is in force.
        let bar = browser.look("getComputedStyle(document.querySelector('.headline')).borderLeftWidth").await;
        assert_eq!(bar, "6px", "{name}");
        for (width, dark) in [(1280, false), (1280, true), (400, false)] {
            let theme = if dark { "dark" } else { "light" };
            let picture = browser.picture(&format!("{name}-{width}-{theme}.png"), width, dark).await;
            assert!(picture.metadata().unwrap().len() > 5_000, "{name}");
            assert_eq!(browser.look(STICKS_OUT).await, false, "{name} at {width}");
        }
        assert_eq!(browser.problems().await, [] as [&str; 0], "{name}");
    }
}

#[tokio::test]
async fn what_changes_is_shown_by_itself_without_the_page_being_loaded_anew() {
    let Some(browser) = Browser::start().await else { return };
    let standing = healthy().await;
    let server = server(&standing).await;
    browser.open(&url(&server)).await;
    browser.look("window.kept = 'the same page'").await;
    assert_eq!(browser.look("document.querySelectorAll('svg path').length > 8").await, true);
    shard(&standing, "shardId-000000000002", |minute| (10 * minute) as f32);
    browser.wait("document.querySelector('[role=status]').innerText.includes('1 of 4 shards is behind, by 5 min')").await;
    assert_eq!(browser.look("[window.kept, document.title]").await, serde_json::json!(["the same page", "… ledger – revsync"]));
    assert_eq!(browser.problems().await, [] as [&str; 0]);

    // That nothing newer comes is said, until it does.
    let address = server.address();
    server.stop().await;
    browser.wait("!document.getElementById('lost').hidden").await;
    let lost = browser.look("document.getElementById('lost').innerText").await;
    assert!(lost.as_str().unwrap().starts_with("No answer since "), "{lost}");
    let metrics = revsync::run::http::recorder("ledger", seconds(60)).unwrap().handle();
    let _server = revsync::run::http::serve(address, standing, metrics, crate::states::STUCK_AFTER).await.unwrap();
    browser.wait("document.getElementById('lost').hidden").await;
}
