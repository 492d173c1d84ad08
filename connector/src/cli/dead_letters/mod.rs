//! `dead-letters list`, `show` and `replay`: look at what could not be indexed, and send it again.
//!
//! Never changes a letter: only a replay that settled it takes it out.

mod advice;
mod choosing;
mod list;
mod replay;
mod show;

use std::collections::BTreeSet;

use clap::{Args, Subcommand};

use super::Context;
use super::options::{ClientOptions, Overriding};
use crate::config::Overrides;
use crate::error::{Error, Exit, Kind};

use advice::{Advice, advice};

/// Look at records that could not be indexed, and send them again
///
/// A dead letter is a record or an operation that can never succeed as it is. It holds the record with all that is needed to send it again.
///
/// Of a queue (sqs://) nobody can see everything: what is looked at is received, so that others do not see it meanwhile, and let go at the end.
/// From a topic (kafka://) nothing can be taken out before its retention does: what a replay of all letters has settled is passed over from then on.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    List(list::Arguments),
    Show(show::Arguments),
    Replay(Box<replay::Arguments>),
}

/// Where the letters are.
#[derive(Debug, Clone, Args)]
struct PlaceOptions {
    /// Where dead letters are: file:PATH, sqs://HOST/ACCOUNT/QUEUE, s3://BUCKET[/PREFIX] or kafka://HOST:PORT/TOPIC [default:
    /// file:revsync-dead-letters.jsonl]
    #[arg(long, value_name = "PLACE", env = "REVSYNC_DEAD_LETTERS", hide_env_values = true)]
    dead_letters: Option<String>,
    /// Where those are that are larger than a message of the queue or topic may be: s3://BUCKET[/PREFIX]
    #[arg(long, value_name = "PLACE", env = "REVSYNC_DEAD_LETTERS_LARGE", hide_env_values = true)]
    dead_letters_large: Option<String>,
    #[command(flatten)]
    client: ClientOptions,
}

impl Overriding for PlaceOptions {
    fn put(&self, over: &mut Overrides) {
        over.dead_letters = self.dead_letters.clone();
        over.dead_letters_large = self.dead_letters_large.clone();
        self.client.put(over);
    }
}

pub(super) async fn run(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Error> {
    match &arguments.what {
        What::List(arguments) => list::run(arguments, context).await,
        What::Show(arguments) => show::run(arguments, context).await,
        What::Replay(arguments) => replay::run(arguments, context).await,
    }
}

/// The fewest digits by which an id is shown.
const SHORTEST: usize = 8;

/// How many digits tell all these ids apart.
fn digits(ids: &BTreeSet<&str>) -> usize {
    let neighbours = ids.iter().zip(ids.iter().skip(1));
    let same = |(a, b): (&&str, &&str)| a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    neighbours.map(same).max().map_or(SHORTEST, |same| (same + 1).max(SHORTEST))
}

/// Whether an abbreviation may stand for an id.
fn begins(id: &str, given: &str) -> bool {
    id.starts_with(&given.to_ascii_lowercase())
}

/// The ids that abbreviations stand for, in their order and each once.
fn expand<'a>(given: &[String], ids: &BTreeSet<&'a str>) -> Result<Vec<&'a str>, Error> {
    let mut found: Vec<&str> = Vec::new();
    for short in given {
        let mut fitting = ids.iter().copied().filter(|id| begins(id, short));
        let refuse = |what: String, help: &str| Err(Error::new(Kind::DeadLetters, what).help(help));
        match (short.is_empty(), fitting.next(), fitting.next()) {
            (false, Some(id), None) => {
                if !found.contains(&id) {
                    found.push(id);
                }
            }
            (false, Some(_), Some(_)) => {
                return refuse(format!("dead letters: several ids begin with {short:?}"), "give more of its digits");
            }
            _ => return refuse(format!("dead letters: no id begins with {short:?}"), "revsync dead-letters list shows the ids"),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_shown_with_as_many_digits_as_tell_them_apart() {
        assert_eq!(digits(&BTreeSet::new()), 8);
        assert_eq!(digits(&BTreeSet::from(["aaaaaaaaaaaa", "baaaaaaaaaaa"])), 8);
        assert_eq!(digits(&BTreeSet::from(["aaaaaaaaaaaa", "aaaaaaaaaaab", "b"])), 12);
    }

    #[test]
    fn an_id_may_be_abbreviated_while_it_is_the_only_one() {
        let ids = BTreeSet::from(["aab1", "aac1", "bbb1"]);
        let expand = |given: &[&str]| expand(&given.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>(), &ids);
        assert_eq!(expand(&["b", "AAC", "bbb1"]), Ok(vec!["bbb1", "aac1"]));
        assert!(expand(&["aa"]).unwrap_err().what.contains("several"));
        assert!(expand(&["c"]).unwrap_err().what.contains("no id"));
        assert!(expand(&[""]).unwrap_err().what.contains("no id"));
        assert!(expand(&["zz"]).unwrap_err().what.contains("no id"));
    }
}
