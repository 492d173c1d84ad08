//! The two ends as a person writes them: `SOURCE` and `SINK`, parsed into what they mean, with the likely meaning of what is wrong.
//!
//! Opens and reaches nothing; never repeats a password that stood in a URL.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use url::Url;

use super::load::nearest;
use crate::aws::bucket::Bucket;
use crate::error::Error;
#[cfg(feature = "kafka")]
use crate::kafka;
use crate::sink::opensearch::config::Secret;
#[cfg(feature = "kinesis")]
use crate::source::kinesis;

/// Where records come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceUrl {
    /// A captured stream: a file or a directory.
    Path(PathBuf),
    /// A captured stream on standard input.
    Stdin,
    /// A captured stream in a bucket: an object or a folder.
    S3(Bucket),
    /// An Amazon Kinesis data stream.
    #[cfg(feature = "kinesis")]
    Kinesis(kinesis::Address),
    /// Topics of Kafka.
    #[cfg(feature = "kafka")]
    Kafka(kafka::Address),
}

/// Where operations go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SinkUrl {
    /// The local index in a SQLite file.
    Local(PathBuf),
    /// OpenSearch.
    OpenSearch {
        /// The address, without user name and password.
        url: Url,
        /// The user name and password that stood in the address.
        credentials: Option<(String, Secret)>,
    },
    /// The bulk lines, into a file.
    BulkFile(PathBuf),
    /// The bulk lines, to standard output.
    BulkStdout,
}

const SINK_EXPECTED: &str = "expected local:FILE, http(s)://HOST:PORT, bulk:FILE or bulk:-";
const SOURCE_EXPECTED: &str =
    "expected a file, a directory, - for standard input, s3://BUCKET[/PREFIX], kafka://HOST:PORT/TOPIC or kinesis://STREAM";

impl FromStr for SourceUrl {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if text == "-" {
            return Ok(Self::Stdin);
        }
        if text.is_empty() {
            return Err(Error::usage(format!("source: {SOURCE_EXPECTED}, found nothing")));
        }
        let Some((scheme, rest)) = text.split_once("://") else { return Ok(Self::Path(PathBuf::from(text))) };
        let found = format!("source: {SOURCE_EXPECTED}, found {:?}", without_credentials(text));
        if scheme == "s3" {
            return Bucket::read(text, "source: expected s3://BUCKET[/PREFIX]").map(Self::S3);
        }
        #[cfg(feature = "kinesis")]
        if scheme == "kinesis" {
            return text.parse().map(Self::Kinesis);
        }
        #[cfg(feature = "kafka")]
        if scheme == "kafka" {
            let refused = |error: Error| Error { what: format!("source: {}", error.what), ..error };
            return text.parse().map(Self::Kafka).map_err(refused);
        }
        Err(match scheme {
            "kinesis" | "kafka" => Error::usage(format!("source: this build cannot follow {scheme}://"))
                .help("save the stream's records to a file and name that, or - for standard input"),
            "file" => Error::usage(found).help(format!("did you mean {rest}?")),
            _ => Error::usage(found),
        })
    }
}

impl fmt::Display for SourceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.display().fmt(f),
            Self::Stdin => f.write_str("standard input"),
            Self::S3(bucket) => bucket.fmt(f),
            #[cfg(feature = "kinesis")]
            Self::Kinesis(address) => address.fmt(f),
            #[cfg(feature = "kafka")]
            Self::Kafka(address) => address.fmt(f),
        }
    }
}

impl SourceUrl {
    /// The name that a pipeline takes from its source: the stream's name, the topics' names or pattern, or a file's name without its extensions.
    pub fn pipeline_name(&self) -> String {
        let name = match self {
            #[cfg(feature = "kinesis")]
            Self::Kinesis(address) => return address.name().to_owned(),
            #[cfg(feature = "kafka")]
            Self::Kafka(address) => return address.topics.to_string(),
            Self::Path(path) => path.file_name().map(|name| name.to_string_lossy().into_owned()),
            Self::Stdin => Some("stdin".to_owned()),
            Self::S3(Bucket { name, prefix, .. }) => prefix.split('/').rfind(|part| !part.is_empty()).or(Some(name)).map(str::to_owned),
        };
        let name = name.unwrap_or_default();
        let stem = name.trim_start_matches('.').split('.').next().unwrap_or_default();
        if stem.is_empty() { "capture".to_owned() } else { stem.to_owned() }
    }
}

impl FromStr for SinkUrl {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text.split_once(':') {
            Some(("local", file)) => path_of("local", file).map(Self::Local),
            Some(("bulk", "-")) => Ok(Self::BulkStdout),
            Some(("bulk", file)) => path_of("bulk", file).map(Self::BulkFile),
            Some(("http" | "https", rest)) if rest.starts_with("//") => address(text),
            _ => Err(refuse(text, likely_sink(text))),
        }
    }
}

impl fmt::Display for SinkUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(path) => write!(f, "local:{}", path.display()),
            Self::OpenSearch { url, .. } => f.write_str(url.as_str().trim_end_matches('/')),
            Self::BulkFile(path) => write!(f, "bulk:{}", path.display()),
            Self::BulkStdout => f.write_str("bulk:-"),
        }
    }
}

fn path_of(scheme: &str, file: &str) -> Result<PathBuf, Error> {
    if file.is_empty() {
        return Err(Error::usage(format!("sink: expected a file after {scheme}:, found nothing")));
    }
    // A habit from URLs: `//name` would be a file at the root of the file system.
    match file.strip_prefix("//") {
        Some(name) => {
            Err(Error::usage(format!("sink: expected {scheme}:FILE, found \"{scheme}:{file}\""))
                .help(format!("did you mean {scheme}:{name}?")))
        }
        None => Ok(PathBuf::from(file)),
    }
}

fn address(text: &str) -> Result<SinkUrl, Error> {
    let mut url = Url::parse(text).map_err(|error| refuse(text, None).help(error.to_string()))?;
    if url.host_str().is_none_or(str::is_empty) {
        return Err(refuse(text, None));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(Error::usage(format!("sink: expected an address without ? and #, found {:?}", without_credentials(text))));
    }
    let user = decoded(url.username());
    let password = decoded(url.password().unwrap_or_default());
    let credentials = (!user.is_empty()).then_some((user, Secret::new(password)));
    // Both fail only for addresses that cannot hold credentials, and those hold none.
    let _ = url.set_password(None);
    let _ = url.set_username("");
    Ok(SinkUrl::OpenSearch { url, credentials })
}

/// Undoes the percent encoding of a user name or password in a URL.
fn decoded(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}

fn refuse(text: &str, likely: Option<String>) -> Error {
    let error = Error::usage(format!("sink: {SINK_EXPECTED}, found {:?}", without_credentials(text)));
    match likely {
        Some(likely) => error.help(format!("did you mean {likely}?")),
        None => error,
    }
}

/// What a person who wrote this most likely meant.
fn likely_sink(text: &str) -> Option<String> {
    if text.is_empty() {
        return None;
    }
    if let Some((scheme, rest)) = text.split_once("://") {
        return Some(match scheme {
            "opensearch" | "elasticsearch" | "es" | "os" => format!("https://{}", without_credentials(rest)),
            "file" | "sqlite" => format!("local:{rest}"),
            _ => format!("{}://{}", nearest(scheme, ["http", "https"].into_iter())?, without_credentials(rest)),
        });
    }
    let Some((head, tail)) = text.split_once(':') else {
        return Some(match text {
            "-" => "bulk:-".to_owned(),
            "localhost" => "http://localhost:9200".to_owned(),
            _ if text.ends_with("json") || text.ends_with(".bulk") => format!("bulk:{text}"),
            _ if text.ends_with(".amazonaws.com") => format!("https://{text}"),
            _ => format!("local:{text}"),
        });
    };
    let port = tail.split('/').next().unwrap_or_default();
    if !head.is_empty() && !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) {
        let scheme = if port == "443" || head.ends_with(".amazonaws.com") { "https" } else { "http" };
        return Some(format!("{scheme}://{text}"));
    }
    match head {
        "file" | "sqlite" => Some(format!("local:{tail}")),
        "http" | "https" => Some(format!("{head}://{}", tail.trim_start_matches('/'))),
        _ => nearest(head, ["local", "bulk"].into_iter()).map(|scheme| format!("{scheme}:{tail}")),
    }
}

/// The text without what stands before the last `@`; that ends the credentials even where a password holds a `/` that should have been
/// escaped.
fn without_credentials(text: &str) -> String {
    let start = text.find("://").map_or(0, |at| at + 3);
    match text[start..].rfind('@') {
        Some(at) => format!("{}***{}", &text[..start], &text[start + at..]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sink(text: &str) -> SinkUrl {
        text.parse().unwrap()
    }

    fn help(text: &str) -> Option<String> {
        text.parse::<SinkUrl>().unwrap_err().help
    }

    #[test]
    fn every_kind_of_sink_is_read() {
        assert_eq!(sink("local:revsync.db"), SinkUrl::Local("revsync.db".into()));
        assert_eq!(sink("local:/var/lib/x:y.db"), SinkUrl::Local("/var/lib/x:y.db".into()));
        assert_eq!(sink("bulk:-"), SinkUrl::BulkStdout);
        assert_eq!(sink("bulk:out/lines.ndjson"), SinkUrl::BulkFile("out/lines.ndjson".into()));
        assert!(matches!(sink("http://localhost:9200"), SinkUrl::OpenSearch { credentials: None, .. }));
    }

    #[test]
    fn a_path_prefix_is_kept_and_credentials_are_taken_out_of_the_address() {
        let SinkUrl::OpenSearch { url, credentials } = sink("https://ann:p%40ss+%3D%26x@search.example.com/prefix") else { panic!() };
        assert_eq!(url.as_str(), "https://search.example.com/prefix");
        let (user, password) = credentials.unwrap();
        assert_eq!((user.as_str(), password.reveal()), ("ann", "p@ss+=&x"));
        assert!(!format!("{:?}", sink("https://ann:hunter2@h")).contains("hunter2"));
    }

    #[test]
    fn what_is_no_sink_is_refused_with_what_was_likely_meant() {
        for (text, meant) in [
            ("localhost:9200", "http://localhost:9200"),
            ("127.0.0.1:9200/prefix", "http://127.0.0.1:9200/prefix"),
            ("search.example.com:443", "https://search.example.com:443"),
            ("vpc-x.eu-west-1.es.amazonaws.com", "https://vpc-x.eu-west-1.es.amazonaws.com"),
            ("opensearch://h:9200", "https://h:9200"),
            ("htpp://h:9200", "http://h:9200"),
            ("http:localhost:9200", "http://localhost:9200"),
            ("revsync.db", "local:revsync.db"),
            ("./out.ndjson", "bulk:./out.ndjson"),
            ("locl:revsync.db", "local:revsync.db"),
            ("local://revsync.db", "local:revsync.db"),
            ("-", "bulk:-"),
        ] {
            assert_eq!(help(text).as_deref(), Some(format!("did you mean {meant}?").as_str()), "{text}");
        }
        for text in ["", "local:", "bulk:", "https://", "ftp://h/x", "http://h:99999", "http://h?x=1"] {
            assert!(text.parse::<SinkUrl>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_mistyped_address_does_not_repeat_its_password() {
        for text in
            ["htps://ann:hunter2@h:9200", "https://ann:x/hunter2@h:9", "ann:hunter2@h", "es://ann:hunter2@h", "https://ann:hunter2@h?x"]
        {
            let error = text.parse::<SinkUrl>().unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn credentials_leave_an_address_even_where_it_is_malformed() {
        for (text, shown) in [
            ("https://u:p@h:9200/x", "https://***@h:9200/x"),
            ("https://u:p/a@s@h/x", "https://***@h/x"),
            ("u:p@h", "***@h"),
            ("http://h", "http://h"),
        ] {
            assert_eq!(without_credentials(text), shown);
        }
    }

    #[test]
    fn a_stream_that_this_build_cannot_follow_is_refused_in_so_many_words() {
        #[cfg(not(feature = "kafka"))]
        assert!("kafka://h:9092/topic".parse::<SourceUrl>().unwrap_err().what.contains("cannot follow"));
        assert_eq!("file:///tmp/x.ion".parse::<SourceUrl>().unwrap_err().help.as_deref(), Some("did you mean /tmp/x.ion?"));
    }

    #[test]
    #[cfg(feature = "kinesis")]
    fn a_stream_of_kinesis_gives_its_name_to_its_pipeline() {
        for text in ["kinesis://ledger?region=eu-west-1", "kinesis://arn:aws:kinesis:eu-west-1:000000000000:stream/ledger"] {
            assert_eq!(text.parse::<SourceUrl>().unwrap().pipeline_name(), "ledger", "{text}");
        }
    }

    #[test]
    #[cfg(feature = "kafka")]
    fn topics_give_their_names_to_their_pipeline() {
        for (text, name) in
            [("kafka://h:9092/orders", "orders"), ("kafka://a,b/orders,items", "orders,items"), ("kafka://h/^shop", "^shop")]
        {
            assert_eq!(text.parse::<SourceUrl>().unwrap().pipeline_name(), name, "{text}");
        }
        let refused = "kafka://ann:hunter2@h/t".parse::<SourceUrl>().unwrap_err().to_string();
        assert!(refused.starts_with("source: expected kafka://") && !refused.contains("hunter2"), "{refused}");
    }

    #[test]
    fn a_pipeline_is_named_after_its_source() {
        for (text, name) in
            [("capture/ledger.ion.gz", "ledger"), ("-", "stdin"), ("capture/", "capture"), (".", "capture"), (".hidden.ion", "hidden")]
        {
            assert_eq!(text.parse::<SourceUrl>().unwrap().pipeline_name(), name, "{text}");
        }
    }
}
