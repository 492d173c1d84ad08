//! Where dead letters go, as it is written: `file:PATH`, `sqs://HOST/ACCOUNT/QUEUE`, `s3://BUCKET[/PREFIX]`, `kafka://HOST:PORT/TOPIC`.
//!
//! Reaches nothing; says of what is no place what was likely meant.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use url::Url;

use crate::aws::bucket::{Bucket, without_credentials};
use crate::aws::{Aws, Reach};
use crate::error::Error;
use crate::kafka::{Address, Properties};

const EXPECTED: &str = "dead letters: expected file:PATH, sqs://HOST/ACCOUNT/QUEUE, s3://BUCKET[/PREFIX] or kafka://HOST:PORT/TOPIC";

/// Everything that is configured about dead letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Where they go.
    pub place: Place,
    /// Where those go that are larger than a message of the queue or topic may be.
    pub large: Option<Bucket>,
    /// Properties of the Kafka client, where the place is a topic.
    pub properties: Properties,
    /// How to reach AWS, where the place is there.
    pub aws: Aws,
}

impl From<Place> for Config {
    fn from(place: Place) -> Self {
        Self { place, large: None, properties: Properties::default(), aws: Aws::default() }
    }
}

/// Where dead letters go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A file of JSON lines.
    File(PathBuf),
    /// An Amazon SQS queue, one message per letter.
    Queue(Queue),
    /// An Amazon S3 bucket, one object per letter.
    Bucket(Bucket),
    /// A topic of Kafka, one message per letter.
    Topic(Topic),
}

/// A topic of Kafka.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    /// The bootstrap servers, `HOST:PORT[,HOST:PORT]`.
    pub servers: String,
    /// Its name.
    pub name: String,
}

/// An Amazon SQS queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    /// `HOST[:PORT]` of the queue's URL.
    pub host: String,
    /// The account that the queue belongs to.
    pub account: String,
    /// Its name; that of a FIFO queue ends in `.fifo`.
    pub name: String,
    /// How to reach it.
    pub reach: Reach,
}

impl Queue {
    /// The queue's URL, by which SQS knows it.
    pub(super) fn url(&self) -> String {
        let Self { host, account, name, reach } = self;
        let scheme = if reach.endpoint.as_deref().is_some_and(|endpoint| endpoint.starts_with("http:")) { "http" } else { "https" };
        format!("{scheme}://{host}/{account}/{name}")
    }

    /// Where requests go, if not where the AWS SDK finds SQS by itself.
    pub(super) fn endpoint(&self) -> Option<String> {
        let own = self.reach.endpoint.clone();
        own.or_else(|| self.region_in_host().is_none().then(|| format!("https://{}", self.host)))
    }

    /// The region that the place names: in its query, or as part of its host.
    pub(super) fn region(&self) -> Option<String> {
        self.reach.region.clone().or_else(|| self.region_in_host().map(str::to_owned))
    }

    /// The region of `sqs.REGION.amazonaws.com`.
    fn region_in_host(&self) -> Option<&str> {
        let (region, domain) = self.host.strip_prefix("sqs.")?.split_once('.')?;
        matches!(domain, "amazonaws.com" | "amazonaws.com.cn").then_some(region)
    }
}

impl FromStr for Place {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let found = || Error::usage(format!("{EXPECTED}, found {:?}", without_credentials(text)));
        match text.split_once(':') {
            Some(("file", "")) => Err(Error::usage(format!("{EXPECTED}, found no path after file:"))),
            Some(("file", path)) => match path.strip_prefix("//") {
                Some(path) => Err(found().help(format!("did you mean file:{path}?"))),
                None => Ok(Self::File(PathBuf::from(path))),
            },
            Some(("sqs", _)) => queue(text).map(Self::Queue),
            Some(("s3", _)) => bucket(text, EXPECTED).map(Self::Bucket),
            Some(("kafka", _)) => topic(text).map(Self::Topic),
            _ if text.is_empty() => Err(Error::usage(format!("{EXPECTED}, found nothing"))),
            _ => Err(found().help(format!("did you mean {}?", likely(&without_credentials(text))))),
        }
    }
}

/// A bucket for what is larger than a message may be.
///
/// # Errors
/// It is no `s3://BUCKET[/PREFIX]`.
pub fn large_bucket(text: &str) -> Result<Bucket, Error> {
    bucket(text, "large dead letters: expected s3://BUCKET[/PREFIX]")
}

fn queue(text: &str) -> Result<Queue, Error> {
    const EXPECTED: &str = "dead letters: expected sqs://HOST/ACCOUNT/QUEUE, the queue's URL with sqs in place of https";
    let url = parsed(text, EXPECTED)?;
    let (Some(host), [account, name]) = (url.host_str(), &segments(&url)[..]) else {
        return Err(Error::usage(format!("{EXPECTED}, found {:?}", without_credentials(text))));
    };
    let host = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
    Ok(Queue { host, account: account.clone(), name: name.clone(), reach: reach(&url, EXPECTED)? })
}

fn topic(text: &str) -> Result<Topic, Error> {
    let address: Address = text.parse().map_err(|error: Error| Error { what: format!("dead letters: {}", error.what), ..error })?;
    let name = address.topic().map_err(|found| Error::usage(format!("dead letters: expected {found}")))?.to_owned();
    Ok(Topic { servers: address.bootstrap(), name })
}

fn bucket(text: &str, expected: &str) -> Result<Bucket, Error> {
    let bucket = Bucket::read(text, expected)?;
    let parts: Vec<&str> = bucket.prefix.split('/').filter(|part| !part.is_empty()).collect();
    Ok(Bucket { prefix: parts.join("/"), ..bucket })
}

fn parsed(text: &str, expected: &str) -> Result<Url, Error> {
    let url = Url::parse(text)
        .map_err(|error| Error::usage(format!("{expected}, found {:?}", without_credentials(text))).help(error.to_string()))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(
            Error::usage(format!("{expected}, found a user name or a password in it")).help("credentials come from the AWS environment")
        );
    }
    Ok(url)
}

/// The parts of a path as they were before they were escaped.
fn segments(url: &Url) -> Vec<String> {
    let decode = |part: &str| percent_encoding::percent_decode_str(part).decode_utf8_lossy().into_owned();
    url.path().split('/').filter(|part| !part.is_empty()).map(decode).collect()
}

fn reach(url: &Url, expected: &str) -> Result<Reach, Error> {
    Reach::of(url).map_err(|problem| Error::usage(format!("{expected}: {problem}")))
}

/// What a person who wrote this most likely meant.
fn likely(text: &str) -> String {
    let arn: Vec<&str> = text.splitn(6, ':').collect();
    match &arn[..] {
        ["arn", _, "sqs", region, account, name] => format!("sqs://sqs.{region}.amazonaws.com/{account}/{name}"),
        ["arn", _, "s3", _, _, name] => format!("s3://{}", name.trim_end_matches(['/', '*'])),
        _ => match text.split_once("://") {
            Some((_, rest)) if rest.starts_with("sqs.") => format!("sqs://{rest}"),
            _ => format!("file:{text}"),
        },
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Queue(queue) => queue.fmt(f),
            Self::Bucket(bucket) => bucket.fmt(f),
            Self::Topic(topic) => topic.fmt(f),
        }
    }
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sqs://{}/{}/{}{}", self.host, self.account, self.name, self.reach)
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kafka://{}/{}", self.servers, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str) -> Place {
        text.parse().unwrap()
    }

    fn queue(text: &str) -> Queue {
        let Place::Queue(queue) = place(text) else { panic!("{text}") };
        queue
    }

    #[test]
    fn every_kind_of_place_is_read_and_written_as_it_was() {
        assert_eq!(place("file:x.jsonl"), Place::File("x.jsonl".into()));
        for text in [
            "file:x.jsonl",
            "sqs://sqs.eu-west-1.amazonaws.com/123456789012/letters",
            "sqs://127.0.0.1:4566/000000000000/letters.fifo?region=eu-west-1&endpoint=http://127.0.0.1:4566",
            "s3://letters",
            "kafka://a:9092,b:9093/dead-letters",
            "s3://letters/ledger/of cars?region=eu-west-1",
        ] {
            assert_eq!(place(text).to_string(), text);
        }
        let Place::Bucket(bucket) = place("s3://letters/ledger//a%20b/") else { panic!() };
        assert_eq!(bucket.prefix, "ledger/a b");
    }

    #[test]
    fn a_queue_is_reached_where_its_url_says() {
        let aws = queue("sqs://sqs.eu-west-1.amazonaws.com/123456789012/letters");
        assert_eq!((aws.url().as_str(), aws.endpoint()), ("https://sqs.eu-west-1.amazonaws.com/123456789012/letters", None));
        assert_eq!(aws.region().as_deref(), Some("eu-west-1"));
        assert_eq!(queue("sqs://sqs.eu-west-1.amazonaws.com/1/l?region=eu-west-2").region().as_deref(), Some("eu-west-2"));
        let own = queue("sqs://vpce-1.sqs.eu-west-1.vpce.amazonaws.com/1/l");
        assert_eq!((own.endpoint().as_deref(), own.region()), (Some("https://vpce-1.sqs.eu-west-1.vpce.amazonaws.com"), None));
        let emulator = queue("sqs://h:4566/1/l?endpoint=http://h:4566");
        assert_eq!((emulator.url().as_str(), emulator.endpoint().as_deref()), ("http://h:4566/1/l", Some("http://h:4566")));
    }

    #[test]
    fn a_place_that_is_none_is_refused_with_what_was_likely_meant() {
        for (text, meant) in [
            ("x.jsonl", "file:x.jsonl"),
            ("file:///tmp/x.jsonl", "file:/tmp/x.jsonl"),
            ("https://sqs.eu-west-1.amazonaws.com/1/letters", "sqs://sqs.eu-west-1.amazonaws.com/1/letters"),
            ("arn:aws:sqs:eu-west-1:123456789012:letters", "sqs://sqs.eu-west-1.amazonaws.com/123456789012/letters"),
            ("arn:aws:s3:::letters/ledger/*", "s3://letters/ledger"),
        ] {
            assert_eq!(text.parse::<Place>().unwrap_err().help, Some(format!("did you mean {meant}?")), "{text}");
        }
        for text in [
            "",
            "file:",
            "sqs:",
            "sqs://letters",
            "sqs://sqs.eu-west-1.amazonaws.com/letters",
            "sqs://h/1/letters/more",
            "sqs://h/1/letters?reigon=x",
            "s3:letters",
            "s3://",
            "s3://Letters",
            "s3://le",
            "s3://letters:9000/x",
        ] {
            assert!(text.parse::<Place>().is_err(), "{text}");
        }
        assert!("kafka://h/a,b".parse::<Place>().unwrap_err().what.contains("dead letters: expected one topic, found a,b"));
        let error = "kafka://h".parse::<Place>().unwrap_err().to_string();
        assert!(
            error.starts_with("dead letters: expected kafka://HOST:PORT") && error.ends_with("did you mean kafka://h:9092/TOPIC?"),
            "{error}"
        );
        assert!(large_bucket("file:x").is_err());
    }

    #[test]
    fn a_password_in_a_place_is_refused_and_not_repeated() {
        for text in ["sqs://ann:hunter2@h/1/letters", "s3://ann:hunter2@letters", "sqs://ann:hunter2@h:99999/1/l", "https://ann:hunter2@h/"]
        {
            let error = text.parse::<Place>().unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
