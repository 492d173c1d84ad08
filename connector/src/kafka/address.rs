//! Topics as they are written: `kafka://HOST:PORT[,HOST:PORT]/TOPIC[,TOPIC]`, or with a pattern that begins with `^` in place of topics.
//!
//! Reaches nothing; says of what is no topic what was expected, and never repeats what may be a password.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;

const EXPECTED: &str = "expected kafka://HOST:PORT[,HOST:PORT]/TOPIC[,TOPIC], or a pattern such as /^shop\\..* in place of the topics";

/// Where topics are, and which.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// The bootstrap servers, each `HOST:PORT`; at least one.
    pub servers: Vec<String>,
    /// The topics.
    pub topics: Topics,
}

/// Topics of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Topics {
    /// By their names; at least one, none twice.
    Named(Vec<String>),
    /// All whose names match this regular expression, which begins with `^`.
    Pattern(String),
}

impl Address {
    /// The bootstrap servers as a client's property has them.
    pub fn bootstrap(&self) -> String {
        self.servers.join(",")
    }

    /// The one topic that is named.
    ///
    /// # Errors
    /// Several are named, or a pattern: in words that go on from "expected".
    pub fn topic(&self) -> Result<&str, String> {
        match &self.topics {
            Topics::Named(names) if names.len() == 1 => Ok(&names[0]),
            topics => Err(format!("one topic, found {topics}")),
        }
    }
}

#[cfg(feature = "kafka")]
impl Topics {
    /// Whether a topic of this name is among them.
    pub fn includes(&self, topic: &str) -> bool {
        match self {
            Self::Named(names) => names.iter().any(|name| name == topic),
            Self::Pattern(pattern) => regex_lite::Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(topic)),
        }
    }
}

impl fmt::Display for Topics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(names) => f.write_str(&names.join(",")),
            Self::Pattern(pattern) => f.write_str(pattern),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kafka://{}/{}", self.bootstrap(), self.topics)
    }
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let refused = |found: &str| Error::usage(format!("{EXPECTED}; found {found}"));
        let Some(rest) = text.strip_prefix("kafka://") else { return Err(refused("another scheme")) };
        let (servers, topics) = rest.split_once('/').map_or((rest, ""), |(servers, topics)| (servers, topics));
        // A password may hold a slash.
        if rest.split('^').next().is_some_and(|rest| rest.contains('@')) {
            let help = "credentials are properties: sasl.username with -X, sasl.password in REVSYNC_PROPERTY or the file of --config";
            return Err(refused("an @, and a kafka:// URL holds no user name and password").help(help));
        }
        let servers = servers.split(',').map(server).collect::<Result<Vec<_>, _>>().map_err(|found| refused(&found))?;
        let topics = topics.strip_suffix('/').unwrap_or(topics);
        if topics.is_empty() {
            return Err(refused("no topic").help(format!("did you mean kafka://{}/TOPIC?", servers.join(","))));
        }
        if topics.starts_with('^') {
            if let Some(found) = perl_s_own(topics) {
                let help =
                    "a group matches topics as POSIX extended regular expressions do: [0-9] in place of \\d, (a|b) in place of (?:a|b)";
                return Err(refused(&format!("{found:?} in the pattern")).help(help));
            }
            return Ok(Self { servers, topics: Topics::Pattern(topics.to_owned()) });
        }
        let mut names: Vec<String> = Vec::new();
        for name in topics.split(',') {
            if !is_name(name) {
                let help = "a topic's name has 1 to 249 letters, digits, . _ and -; options of the client are given with -X KEY=VALUE";
                return Err(refused(&format!("{name:?} as the name of a topic")).help(help));
            }
            if !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
        Ok(Self { servers, topics: Topics::Named(names) })
    }
}

/// A server, `HOST:PORT`; the port is Kafka's own where none is given.
fn server(text: &str) -> Result<String, String> {
    let text = text.trim();
    let (host, port) = match text.rsplit_once(':') {
        // An IPv6 address without a port.
        Some(_) if text.ends_with(']') => (text, "9092"),
        Some((host, port)) => (host, port),
        None => (text, "9092"),
    };
    let is_host = !host.is_empty() && (host.starts_with('[') || !host.contains(':')) && !host.contains([' ', '?', '#']);
    let is_port = port.parse::<u16>().is_ok_and(|port| port > 0);
    if is_host && is_port { Ok(format!("{host}:{port}")) } else { Err(format!("{text:?} as a server")) }
}

/// What of a pattern has a meaning in expressions of Perl's kind, by which a scan matches topics, and another or none in those of POSIX, by which
/// librdkafka does for a group.
fn perl_s_own(pattern: &str) -> Option<String> {
    let mut before = None;
    let mut letters = pattern.chars().peekable();
    while let Some(letter) = letters.next() {
        let next = letters.peek().copied();
        match (letter, next) {
            ('\\', Some(next)) if next.is_alphanumeric() => return Some(format!("\\{next}")),
            ('\\', _) => drop(letters.next()),
            ('?' | '+', _) if before.is_some_and(|before| "*+?}(".contains(before)) => {
                return before.map(|before| format!("{before}{letter}"));
            }
            _ => {}
        }
        before = (letter != '\\').then_some(letter);
    }
    None
}

/// Kafka's own rule for the names of topics (`org.apache.kafka.common.internals.Topic`).
fn is_name(text: &str) -> bool {
    let is_legal = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    (1..=249).contains(&text.len()) && text != "." && text != ".." && text.bytes().all(is_legal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_named_or_matched_at_one_or_several_servers() {
        for (text, shown) in [
            ("kafka://h:9092/orders", "kafka://h:9092/orders"),
            ("kafka://h/orders", "kafka://h:9092/orders"),
            ("kafka://a:1,b:2/orders,items,orders", "kafka://a:1,b:2/orders,items"),
            ("kafka://[::1]:9092/shop.item", "kafka://[::1]:9092/shop.item"),
            ("kafka://[::1]/shop.item/", "kafka://[::1]:9092/shop.item"),
            (r"kafka://h:9092/^shop\.(a|b)@?,.*", r"kafka://h:9092/^shop\.(a|b)@?,.*"),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), shown);
            assert_eq!(address, address.to_string().parse().unwrap());
        }
    }

    #[test]
    fn what_names_no_topic_is_refused_with_what_was_expected() {
        for text in [
            "kafka://",
            "kafka://h:9092",
            "kafka://h:9092/",
            "kafka://h:0/t",
            "kafka://h:99999/t",
            "kafka://:9092/t",
            "kafka://h:9092,/t",
            "kafka://::1/t",
            "kafka://h/or ders",
            "kafka://h/orders?group=x",
            "kafka://h/a/b",
            "kafka://h/..",
        ] {
            let error = text.parse::<Address>().unwrap_err();
            assert!(error.what.starts_with("expected kafka://HOST:PORT"), "{text}: {error}");
        }
    }

    #[test]
    fn a_pattern_that_a_group_would_match_otherwise_than_a_scan_is_refused() {
        for (pattern, found) in
            [(r"^shop\d+", r"\\d"), (r"^[\w.]+", r"\\w"), ("^(?:a|b)", "(?"), ("^(?i)shop", "(?"), ("^shop.*?x", "*?"), ("^a{2}?", "}?")]
        {
            let error = format!("kafka://h/{pattern}").parse::<Address>().unwrap_err().to_string();
            assert!(error.contains(&format!("found \"{found}\" in the pattern")) && error.contains("[0-9]"), "{error}");
        }
        for pattern in [r"^shop\.(item|order)?-[0-9]+$", r"^a\*?b", r"^a\++", "^[[:digit:]]{2,3}"] {
            assert!(format!("kafka://h/{pattern}").parse::<Address>().is_ok(), "{pattern}");
        }
    }

    #[test]
    fn a_password_in_the_address_is_refused_and_not_repeated() {
        for text in ["kafka://ann:hunter2@h:9092/t", "kafka://ann:hun/ter2@h:9092/t", "kafka://h:9092/ann:hunter2@t"] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains("no user name and password") && !error.contains("ter2"), "{error}");
        }
    }

    #[test]
    fn one_topic_is_what_a_place_for_letters_has() {
        assert_eq!("kafka://h/letters".parse::<Address>().unwrap().topic(), Ok("letters"));
        assert!("kafka://h/a,b".parse::<Address>().unwrap().topic().unwrap_err().contains("found a,b"));
        assert!("kafka://h/^a".parse::<Address>().unwrap().topic().is_err());
    }
}
