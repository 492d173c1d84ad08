//! What is to be said of topics of Kafka before they are followed: whether they can be read, and what `run` would do with them.
//!
//! Joins no group, and commits nothing.

use tokio::task::spawn_blocking;

use super::Tried;
use crate::config::Settings;
use crate::error::Error;
use crate::kafka::Address;
use crate::kafka::client::Context;
use crate::panics::panicked;
use crate::plan::checkpoint::Start;
use crate::source::kafka::Outlook;

/// Tries topics and what a group committed of them, and says what would be done.
pub(super) async fn check(settings: &Settings, address: &Address, tried: &mut Vec<Tried>) {
    match look(settings, address).await {
        Ok(found) => {
            tried.push(Tried::new("source", Ok(readable(&found))));
            tried.push(Tried::new("group", Ok(of_group(&found, settings.group()))));
            tried.push(intent(&found, settings.source.start));
        }
        Err(error) => tried.push(Tried::new("source", Err(error))),
    }
}

async fn look(settings: &Settings, address: &Address) -> Result<Outlook, Error> {
    let context = Context::new(&settings.source.properties, &settings.source.aws).await?;
    let (address, properties, group) = (address.clone(), settings.source.properties.clone(), settings.group().to_owned());
    spawn_blocking(move || Outlook::look(&address, &properties, &context, &group)).await.map_err(|_| panicked())?
}

fn readable(found: &Outlook) -> String {
    let topics: Vec<String> = found.topics.iter().map(|listed| format!("{} with {}", listed.topic, number(listed.partitions))).collect();
    let messages: i64 = found.partitions.iter().map(|standing| standing.end - standing.first).sum();
    format!("{} can be read, {messages} messages at most", topics.join(", "))
}

fn number(partitions: i32) -> String {
    if partitions == 1 { "1 partition".to_owned() } else { format!("{partitions} partitions") }
}

fn of_group(found: &Outlook, group: &str) -> String {
    let committed = found.partitions.iter().filter_map(|standing| Some((standing, standing.committed?)));
    let lag: i64 = committed.clone().map(|(standing, next)| (standing.end - next.max(standing.first)).max(0)).sum();
    match committed.count() {
        0 => format!("{group} committed nothing yet"),
        some => format!("{group} committed offsets of {some} of {} partitions, and is {lag} messages behind there", found.partitions.len()),
    }
}

/// What `run` would do.
fn intent(found: &Outlook, start: Start) -> Tried {
    let goes_on = found.partitions.iter().filter(|standing| standing.committed.is_some()).count();
    let from = match (start, goes_on) {
        (Start::Earliest, _) | (_, 1..) => "their first messages",
        (Start::Latest, 0) => "what is written from then on",
        (Start::Timestamp(_), 0) => "the time of start",
    };
    let fresh = found.partitions.len() - goes_on;
    let mut tried =
        Tried::new("run", Ok(format!("would go on in {goes_on} partitions from their committed offsets, begin with {fresh} at {from}")));
    let is_lost =
        |standing: &&crate::source::kafka::Standing| standing.committed.is_some_and(|next| next < standing.first || next > standing.end);
    let lost: Vec<String> =
        found.partitions.iter().filter(is_lost).map(|standing| format!("{}-{}", standing.key.0, standing.key.1)).collect();
    if !lost.is_empty() {
        tried.attention = true;
        tried.help = Some(format!(
            "data loss: what the group committed of {} is not there any more; what there is is delivered, or nothing with on_data_loss = \"stop\"",
            lost.join(", ")
        ));
    }
    tried
}
