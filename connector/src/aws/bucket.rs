//! A bucket of Amazon S3 as it is written, `s3://BUCKET[/PREFIX][?region=…&endpoint=…]`, and the client that reaches it.
//!
//! For every edge that keeps or reads objects. Sends nothing, and knows nothing of what is in a bucket.

use std::fmt;
use std::time::Duration;

use aws_credential_types::provider::SharedCredentialsProvider;
use aws_sdk_s3::Client;
use aws_sdk_s3::config::Builder;
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use url::Url;

use super::{Aws, Reach, endpoint, retries, timeouts};
use crate::error::Error;

/// What a prefix cannot hold as it is: it would be read as something else.
const ESCAPED: &AsciiSet = &CONTROLS.add(b'%').add(b'?');

/// How long a call is tried in [`Patience::Long`], and no call more often than `ATTEMPTS` times.
const LONG: Duration = Duration::from_secs(5 * 60);
const ATTEMPTS: u32 = 60;
/// The longest wait between two tries.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// How long a call is tried again that fails for a reason that may pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// A few times: somebody waits for an answer.
    Some,
    /// For minutes: a long work is under way.
    Long,
}

/// An Amazon S3 bucket, and the beginning of the keys of the objects in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bucket {
    /// The bucket's name.
    pub name: String,
    /// What the keys begin with, as it was before it was escaped, without the slash that divides it from the name; may be empty.
    pub prefix: String,
    /// How to reach it.
    pub reach: Reach,
}

impl Bucket {
    /// Reads a bucket as it is written; `expected` is what a refusal begins with.
    ///
    /// # Errors
    /// It is written otherwise, with a name that no bucket has, with another query, or with a user name or password, which is not repeated.
    pub(crate) fn read(text: &str, expected: &str) -> Result<Self, Error> {
        let refused = |found: &str| Error::usage(format!("{expected}, found {found}"));
        let as_written = || refused(&format!("{:?}", without_credentials(text)));
        let (path, query) = text.split_once('?').unwrap_or((text, ""));
        let Some(rest) = path.strip_prefix("s3://") else { return Err(as_written()) };
        let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if name.contains('@') {
            return Err(refused("a user name or a password in it").help("credentials come from the AWS environment"));
        }
        if !is_name(name) {
            return Err(as_written().help("a bucket's name has lower-case letters, digits, - and ."));
        }
        let url = Url::parse(&format!("s3://{name}?{query}")).map_err(|error| as_written().help(error.to_string()))?;
        let reach = Reach::of(&url).map_err(|problem| Error::usage(format!("{expected}: {problem}")))?;
        let prefix = percent_decode_str(prefix).decode_utf8().map_err(|_| refused("a prefix that is not UTF-8"))?;
        Ok(Self { name: name.to_owned(), prefix: prefix.into_owned(), reach })
    }

    /// Finds out how the bucket is reached; sends nothing to it. `help` says where a region can be set.
    ///
    /// # Errors
    /// No region or no source of credentials is known.
    pub(crate) async fn client(
        &self,
        aws: &Aws,
        credentials: Option<&SharedCredentialsProvider>,
        patience: Patience,
        help: &str,
    ) -> Result<Client, Error> {
        let region = self.reach.region.clone().or_else(|| aws.region.clone());
        let sdk = Aws { region, ..aws.clone() }.load(credentials, help).await?;
        let (timeouts, retries) = match patience {
            Patience::Some => (timeouts(), retries()),
            Patience::Long => (timeouts().to_builder().operation_timeout(LONG).build(), retries().with_max_attempts(ATTEMPTS)),
        };
        let mut config = Builder::from(&sdk).timeout_config(timeouts).retry_config(retries.with_max_backoff(LONGEST_WAIT));
        if let Some(endpoint) = self.reach.endpoint.clone().or_else(|| endpoint(&sdk, "S3")) {
            // A host of one's own has no name for every bucket.
            config = config.endpoint_url(endpoint).force_path_style(true);
        }
        Ok(Client::from_conf(config.build()))
    }

    /// An object of the bucket, as a person is told it.
    pub(crate) fn object(&self, key: &str) -> String {
        format!("s3://{}/{}", self.name, utf8_percent_encode(key, ESCAPED))
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.prefix.is_empty() { "" } else { "/" };
        write!(f, "s3://{}{slash}{}{}", self.name, utf8_percent_encode(&self.prefix, ESCAPED), self.reach)
    }
}

/// The characters and the length of a bucket's name (Amazon S3 user guide, "General purpose bucket naming rules").
fn is_name(name: &str) -> bool {
    (3..=63).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'.'))
}

/// The text without what may be a user name and a password.
pub(crate) fn without_credentials(text: &str) -> String {
    let start = text.find("://").map_or(0, |at| at + 3);
    text[start..].rfind('@').map_or_else(|| text.to_owned(), |at| format!("{}***{}", &text[..start], &text[start + at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(text: &str) -> Result<Bucket, Error> {
        Bucket::read(text, "expected s3://BUCKET[/PREFIX]")
    }

    #[test]
    fn a_bucket_is_read_and_written_as_it_was() {
        for (text, name, prefix) in [
            ("s3://exports", "exports", ""),
            ("s3://exports/", "exports", ""),
            ("s3://exports/ledger/a b/", "exports", "ledger/a b/"),
            ("s3://exports/a/../b//c#d+e", "exports", "a/../b//c#d+e"),
            ("s3://exports/2020.03/\u{fc}\u{1f697}", "exports", "2020.03/\u{fc}\u{1f697}"),
            ("s3://exports/a%3Fb%25?region=eu-west-1", "exports", "a?b%"),
            ("s3://exports?endpoint=http://127.0.0.1:4566", "exports", ""),
        ] {
            let read = bucket(text).unwrap();
            assert_eq!((read.name.as_str(), read.prefix.as_str()), (name, prefix), "{text}");
            assert_eq!(bucket(&read.to_string()).unwrap(), read, "{text}");
        }
        assert_eq!(bucket("s3://exports/a%20b").unwrap().to_string(), "s3://exports/a b");
        assert_eq!(bucket("s3://exports").unwrap().object("a?b\n"), "s3://exports/a%3Fb%0A");
    }

    #[test]
    fn what_is_no_bucket_is_refused_and_a_password_is_not_repeated() {
        for text in [
            "s3:",
            "s3://",
            "s3://le",
            "s3://Exports",
            "s3://exports:9000/x",
            "s3://ann:hunter2@exports/x",
            "s3://ann:hunter2@exports",
            "s3://exports?regoin=x",
            "s3://exports?endpoint=http://ann:hunter2@h",
            "s3://exports/%FF",
            "https://ann:hunter2@exports",
        ] {
            let refused = bucket(text).unwrap_err().to_string();
            assert!(refused.starts_with("expected s3://BUCKET[/PREFIX]") && !refused.contains("hunter2"), "{text}: {refused}");
        }
    }
}
