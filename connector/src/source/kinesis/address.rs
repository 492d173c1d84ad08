//! A stream as it is written: `kinesis://STREAM-OR-ARN[?region=…&endpoint=…]`.
//!
//! Reaches nothing; says of what is no stream what was expected.

use std::fmt;
use std::str::FromStr;

use url::Url;

use crate::aws::Reach;
use crate::error::Error;

const EXPECTED: &str = "source: expected kinesis://STREAM, or kinesis://ARN of a stream, perhaps with ?region=…&endpoint=… behind it";

/// An Amazon Kinesis data stream, and how to reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// The stream's name, or its ARN.
    pub stream: String,
    /// How to reach it; the region of an ARN comes from the ARN where none is named.
    pub reach: Reach,
}

impl Address {
    /// The stream's name, also where it is given by its ARN.
    pub fn name(&self) -> &str {
        self.stream.rsplit('/').next().unwrap_or_default()
    }

    /// Whether the stream is given by its ARN.
    pub fn is_arn(&self) -> bool {
        self.stream.starts_with("arn:")
    }
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let refused = |found: String| Error::usage(format!("{EXPECTED}; found {found}"));
        let rest = text.strip_prefix("kinesis://").ok_or_else(|| refused(format!("{text:?}")))?;
        let (stream, query) = rest.split_once('?').map_or((rest, None), |(stream, query)| (stream, Some(query)));
        let stream = stream.trim_end_matches('/').to_owned();
        // Any host does: only the query is read.
        let url = Url::parse(&format!("kinesis://stream{}", query.map(|query| format!("?{query}")).unwrap_or_default()));
        let mut reach = match url {
            Ok(url) => Reach::of(&url).map_err(|problem| Error::usage(format!("source: {text:?}: expected {problem}")))?,
            Err(_) => return Err(refused(format!("{text:?}"))),
        };
        if let Some(arn) = stream.strip_prefix("arn:") {
            let parts: Vec<&str> = arn.split(':').collect();
            let &[_, "kinesis", region, account, resource] = &parts[..] else {
                return Err(refused(format!("{stream:?}, which is no ARN of a stream")));
            };
            let name = resource.strip_prefix("stream/");
            if region.is_empty() || account.is_empty() || !name.is_some_and(is_name) {
                return Err(refused(format!("{stream:?}, which is no ARN of a stream")));
            }
            reach.region.get_or_insert_with(|| region.to_owned());
        } else if !is_name(&stream) {
            let help = "a stream's name has 1 to 128 letters, digits, _ . and -";
            return Err(refused(format!("{stream:?}")).help(help));
        }
        Ok(Self { stream, reach })
    }
}

/// Kinesis API reference, `StreamName`: `[a-zA-Z0-9_.-]+`, 1 to 128 characters.
fn is_name(text: &str) -> bool {
    (1..=128).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b))
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kinesis://{}{}", self.stream, self.reach)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Address {
        text.parse().unwrap()
    }

    #[test]
    fn a_stream_is_named_or_given_by_its_arn() {
        let named = address("kinesis://ledger?region=eu-west-1&endpoint=http://127.0.0.1:4568");
        assert_eq!((named.name(), named.is_arn(), named.reach.region.as_deref()), ("ledger", false, Some("eu-west-1")));
        assert_eq!(named.to_string(), "kinesis://ledger?region=eu-west-1&endpoint=http://127.0.0.1:4568");
        let given = address("kinesis://arn:aws:kinesis:eu-west-1:000000000000:stream/ledger");
        assert_eq!((given.name(), given.is_arn(), given.reach.region.as_deref()), ("ledger", true, Some("eu-west-1")));
    }

    #[test]
    fn what_is_no_stream_is_refused() {
        for text in [
            "kinesis://",
            "kinesis://led ger",
            "kinesis://a/b",
            "kinesis://ledger?regoin=x",
            "kinesis://arn:aws:sqs:eu-west-1:000000000000:ledger",
            "kinesis://arn:aws:kinesis:eu-west-1:000000000000:stream/",
            "kinesis://u:p@ledger",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
