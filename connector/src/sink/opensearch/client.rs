//! One HTTP client: how to reach the server and trust it.
//!
//! Sends a request and hands back status and bytes. A request that was refused for its time or its credentials was not carried out, so it is
//! sent again, once for each, where the clock could be corrected or there are newer credentials; nothing else is ever sent twice.

use std::path::Path;
use std::time::{Duration, SystemTime};

use aws_credential_types::provider::SharedCredentialsProvider;
use aws_types::sdk_config::SharedTimeSource;
use bytes::Bytes;
use opensearch::auth::{ClientCertificate, Credentials};
use opensearch::cert::{Certificate, CertificateValidation};
use opensearch::http::Method;
use opensearch::http::headers::{CONTENT_ENCODING, CONTENT_TYPE, DATE, HeaderValue, RETRY_AFTER};
use opensearch::http::transport::{SingleNodeConnectionPool, Transport, TransportBuilder};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use url::Url;

use super::clock::Clock;
use super::config::{Access, Config};
use super::proof::{Proof, Signing};
use super::reply;
use crate::error::Error;
use crate::plan::outcome::Failure;

/// A server, and the means to talk to it.
#[derive(Debug)]
pub(super) struct Client {
    transport: Transport,
    /// The URL, for messages.
    pub(super) shown: String,
    /// `HOST:PORT`, for messages about the connection.
    pub(super) place: String,
    url: Url,
    pub(super) proof: Proof,
    /// What signatures are dated by.
    clock: Clock,
    timeout: Duration,
    /// Whether the server is OpenSearch Serverless, which lacks some calls.
    pub(super) serverless: bool,
}

/// The body of a request.
#[derive(Clone)]
pub(super) enum Content {
    Empty,
    Json(Bytes),
    /// Bulk lines, perhaps compressed.
    Lines {
        bytes: Bytes,
        gzip: bool,
    },
}

/// What came back.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Bytes,
    /// Whether the body is larger than was wanted ([`Client::send_for`]); it was not read then.
    pub(super) is_over: bool,
    /// The wait that `Retry-After` asks for.
    after: Option<Duration>,
    /// `x-amzn-errortype`, by which AWS names an error.
    aws_type: Option<String>,
    /// The server's clock, by the header `Date`.
    date: Option<SystemTime>,
    /// By how much our clock was corrected when the request was signed ([`Clock::correct`]).
    correction: i64,
    /// Which credentials the request was sent with ([`Proof::refresh`]).
    generation: u64,
}

impl Answer {
    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The `error.type` of the body.
    pub(super) fn error_type(&self) -> Option<String> {
        reply::error_type(&self.body)
    }
}

/// Why no answer came.
#[derive(Debug)]
pub(super) struct Trouble {
    pub(super) kind: TroubleKind,
    /// What happened, with the place and without credentials.
    pub(super) what: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TroubleKind {
    Refused,
    Name,
    Tls,
    TimedOut,
    /// There are no credentials to sign with.
    NoCredentials,
    /// The server sends us somewhere else.
    Redirected,
    Broken,
}

impl Client {
    /// Builds a client. Reads the files that the configuration names, and finds the source of AWS credentials unless one is given.
    pub(super) async fn new(config: &Config, provider: Option<SharedCredentialsProvider>) -> Result<Self, Error> {
        let url = config.url.clone();
        let host = url.host_str().unwrap_or_default().to_owned();
        if !matches!(url.scheme(), "http" | "https") || !url.username().is_empty() || url.password().is_some() {
            return Err(Error::usage(format!("expected {host} as http(s)://HOST:PORT, without user name and password")));
        }
        let mut builder = TransportBuilder::new(SingleNodeConnectionPool::new(url.clone())).timeout(config.request_timeout);
        if is_loopback(&url) {
            // A proxy has no way to this machine's own addresses.
            builder = builder.disable_proxy();
        }
        if let Some(path) = &config.ca_file {
            let certificates = Certificate::from_pem(&read(path, "ca_file")?).map_err(|error| bad_pem(path, "ca_file", &error))?;
            builder = builder.cert_validation(CertificateValidation::Full(certificates));
        }
        let clock = Clock::default();
        let (proof, signing) = Box::pin(Proof::new(&config.access, provider, &clock)).await?;
        if let Some(Signing { credentials, region, service }) = signing {
            if config.client_certificate_file.is_some() {
                return Err(Error::usage("a client certificate and AWS signatures do not go together"));
            }
            builder = builder.auth(Credentials::AwsSigV4(credentials, region)).service_name(service);
            builder = builder.sigv4_time_source(SharedTimeSource::new(clock.clone()));
        }
        if let Some(path) = &config.client_certificate_file {
            let pem = read(path, "client_certificate_file")?;
            builder = builder.auth(Credentials::Certificate(ClientCertificate::Pem(pem)));
        }
        let transport = builder.build().map_err(|error| {
            Error::usage(format!("cannot set up the connection to {host}: {}", deepest(&error)))
                .help("check ca_file and client_certificate_file: PEM, the latter with the private key")
        })?;
        Ok(Self {
            transport,
            shown: url.as_str().trim_end_matches('/').to_owned(),
            place: format!("{host}:{}", url.port_or_known_default().unwrap_or_default()),
            url,
            proof,
            clock,
            timeout: config.request_timeout,
            serverless: matches!(config.access, Access::Aoss(_)),
        })
    }

    /// Sends one request and reads the whole answer.
    pub(super) async fn send(&self, method: Method, path: &str, query: &[(&str, &str)], content: Content) -> Result<Answer, Trouble> {
        self.send_for(u64::MAX, method, path, query, content).await
    }

    /// As [`send`](Self::send), for an answer of at most so many bytes: the body of one that is announced as longer is not read.
    pub(super) async fn send_for(
        &self,
        most: u64,
        method: Method,
        path: &str,
        query: &[(&str, &str)],
        content: Content,
    ) -> Result<Answer, Trouble> {
        let mut answer = self.send_once(most, method, path, query, content.clone()).await?;
        if self.is_refused(&answer) && self.is_corrected(&answer) {
            answer = self.send_once(most, method, path, query, content.clone()).await?;
        }
        if self.is_refused(&answer) && self.proof.refresh(answer.generation).await {
            answer = self.send_once(most, method, path, query, content).await?;
        }
        Ok(answer)
    }

    /// Whether the request was refused for what it was sent with, and not carried out.
    fn is_refused(&self, answer: &Answer) -> bool {
        matches!(answer.status, 400 | 401 | 403) && matches!(self.judged(answer), Failure::Unauthorized { .. })
    }

    /// Whether a refused request was dated by a clock that the server does not agree with, and that has been corrected.
    fn is_corrected(&self, answer: &Answer) -> bool {
        let Some(date) = answer.date.filter(|_| matches!(self.proof, Proof::Signed(_))) else { return false };
        reply::is_about_time(&answer.body, answer.aws_type.as_deref()) && self.clock.correct(&self.place, answer.correction, date)
    }

    /// What an answer that is no success comes to.
    pub(super) fn judged(&self, answer: &Answer) -> Failure {
        reply::refused(&self.place, answer.status, &answer.body, answer.aws_type.as_deref(), answer.after)
    }

    async fn send_once(&self, most: u64, method: Method, path: &str, query: &[(&str, &str)], content: Content) -> Result<Answer, Trouble> {
        let (generation, mut headers) = self.proof.headers().await?;
        let correction = self.clock.correction();
        let body = match content {
            Content::Empty => None,
            Content::Json(bytes) => Some(bytes),
            Content::Lines { bytes, gzip } => {
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
                if gzip {
                    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
                }
                Some(bytes)
            }
        };
        let query = (!query.is_empty()).then_some(query);
        let response = self.transport.send(method, path, headers, query, body, None).await.map_err(|error| self.trouble(&error))?;
        if response.url().origin() != self.url.origin() {
            let what = format!("{} redirects to {}", self.place, response.url().origin().ascii_serialization());
            return Err(Trouble { kind: TroubleKind::Redirected, what });
        }
        let status = response.status_code().as_u16();
        let text = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let date = text(DATE.as_str()).and_then(|header| reply::date(&header));
        let after = text(RETRY_AFTER.as_str()).and_then(|header| reply::retry_after(&header, date));
        let aws_type = text("x-amzn-errortype");
        let is_over = response.content_length().is_some_and(|length| length > most);
        let body = if is_over { Bytes::new() } else { response.bytes().await.map_err(|error| self.trouble(&error))? };
        Ok(Answer { status, body, is_over, after, aws_type, date, correction, generation })
    }

    fn trouble(&self, error: &opensearch::Error) -> Trouble {
        let Self { place, timeout, .. } = self;
        if error.is_timeout() {
            return Trouble { kind: TroubleKind::TimedOut, what: format!("no answer from {place} within {} s", timeout.as_secs_f32()) };
        }
        let chain: Vec<String> =
            std::iter::successors(std::error::Error::source(error), |error| error.source()).map(|e| e.to_string()).collect();
        let io = std::iter::successors(std::error::Error::source(error), |error| error.source())
            .find_map(|error| error.downcast_ref::<std::io::Error>());
        let says = |words: &[&str]| chain.iter().any(|text| words.iter().any(|word| text.contains(word)));
        let cause = deepest(error);
        let (kind, what) = if says(&["dns error", "failed to lookup address"]) {
            (TroubleKind::Name, format!("cannot find the host of {place}: {cause}"))
        } else if says(&["certificate", "InvalidContentType", "tls", "TLS", "HandshakeFailure", "AlertReceived"]) {
            (TroubleKind::Tls, format!("cannot agree on TLS with {place}: {cause}"))
        } else if io.is_some_and(|io| io.kind() == std::io::ErrorKind::ConnectionRefused) {
            (TroubleKind::Refused, format!("cannot reach {place}: connection refused"))
        } else if io.is_some_and(|io| io.kind() == std::io::ErrorKind::ConnectionReset) {
            (TroubleKind::Broken, format!("the connection to {place} was reset"))
        } else {
            (TroubleKind::Broken, format!("the request to {place} failed: {cause}"))
        };
        Trouble { kind, what }
    }
}

/// A path segment, with everything escaped that has a meaning in a path.
pub(super) fn segment(name: &str) -> String {
    const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    utf8_percent_encode(name, KEPT).to_string()
}

/// A path segment for names and patterns, in which commas and stars have their meaning.
pub(super) fn pattern_segment(pattern: &str) -> String {
    segment(pattern).replace("%2C", ",").replace("%2A", "*")
}

/// The bytes of a file that the configuration names under `option`.
pub(super) fn read(path: &Path, option: &str) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|error| Error::usage(format!("cannot read {option} {}: {error}", path.display())))
}

fn bad_pem(path: &Path, option: &str, error: &opensearch::Error) -> Error {
    Error::usage(format!("expected PEM certificates in {option} {}: {}", path.display(), deepest(error)))
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// The innermost cause, which is the only one whose text is not a paraphrase or a URL.
pub(super) fn deepest(error: &(dyn std::error::Error + 'static)) -> String {
    std::iter::successors(Some(error), |error| error.source()).last().map(ToString::to_string).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_client_shows_where_it_sends_to() {
        let client = Client::new(&Config::new("https://search.example.com/prefix/".parse().unwrap()), None).await.unwrap();
        assert_eq!(client.shown, "https://search.example.com/prefix");
        assert_eq!(client.place, "search.example.com:443");
    }

    #[tokio::test]
    async fn credentials_inside_the_url_are_refused_and_not_shown() {
        for url in ["https://ann:hunter2@h", "https://:hunter2@h", "ftp://h"] {
            let error = Client::new(&Config::new(url.parse().unwrap()), None).await.unwrap_err().to_string();
            assert!(error.contains("without user name and password") && !error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn a_name_is_one_segment_of_a_path() {
        assert_eq!(segment("people-000001"), "people-000001");
        assert_eq!(segment("a/b?c#d%"), "a%2Fb%3Fc%23d%25");
        assert_eq!((segment("a*,b"), pattern_segment("a*,b/")), ("a%2A%2Cb".to_owned(), "a*,b%2F".to_owned()));
    }
}
