//! One HTTP client: how to reach the server, trust it and prove who we are.
//!
//! Sends a request and hands back status and bytes. A request that was refused for its credentials was not carried out, so it is sent a second
//! time where there are newer ones; nothing else is ever sent twice. Never shows credentials, also not those in the URL.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use aws_credential_types::provider::SharedCredentialsProvider;
use aws_credential_types::provider::error::CredentialsError;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use opensearch::auth::{ClientCertificate, Credentials};
use opensearch::cert::{Certificate, CertificateValidation};
use opensearch::http::Method;
use opensearch::http::headers::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use opensearch::http::transport::{SingleNodeConnectionPool, Transport, TransportBuilder};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use url::Url;

use super::config::{Auth, Config, without_credentials};
use super::reply;
use super::sign::{self, Held, Provider};
use crate::error::Error;
use crate::plan::outcome::Failure;

/// A server, and the means to talk to it.
#[derive(Debug)]
pub(super) struct Client {
    transport: Transport,
    /// The URL without credentials.
    pub(super) shown: String,
    /// `HOST:PORT`, for messages about the connection.
    pub(super) place: String,
    url: Url,
    access: Access,
    timeout: Duration,
    /// Whether the server is OpenSearch Serverless, which lacks some calls.
    pub(super) serverless: bool,
}

#[derive(Debug)]
enum Access {
    Open,
    Basic(Basic),
    Signed(Arc<Held>),
}

#[derive(Debug)]
struct Basic {
    user: String,
    file: Option<PathBuf>,
    /// The header (marked sensitive, so that its `Debug` is hidden), and how often it has been read anew.
    header: RwLock<(HeaderValue, u64)>,
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
    /// `Retry-After`, as a wait from now.
    after: Option<Duration>,
    /// `x-amzn-errortype`, by which AWS names an error.
    aws_type: Option<String>,
    /// Which credentials the request was sent with ([`Client::refresh`]).
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
        let (url, user, password) = address(&config.url)?;
        let user = config.username.clone().or(user);
        let host = url.host_str().unwrap_or_default().to_owned();
        let mut builder = TransportBuilder::new(SingleNodeConnectionPool::new(url.clone())).timeout(config.request_timeout);
        if is_loopback(&url) {
            // A proxy has no way to this machine's own addresses.
            builder = builder.disable_proxy();
        }
        if let Some(path) = &config.ca_file {
            let certificates = Certificate::from_pem(&read(path, "ca_file")?).map_err(|error| bad_pem(path, "ca_file", &error))?;
            builder = builder.cert_validation(CertificateValidation::Full(certificates));
        }
        let auth = config.auth.unwrap_or(if user.is_some() { Auth::Basic } else { Auth::None });
        if auth != Auth::Basic && user.is_some() {
            return Err(Error::usage("the sink has a user name, and an auth that uses none")
                .help("set auth = \"basic\", or leave the user name out"));
        }
        let access = match auth {
            Auth::None => Access::Open,
            Auth::Basic => Access::Basic(basic(config, user, password)?),
            Auth::Aws | Auth::Aoss => {
                if config.client_certificate_file.is_some() {
                    return Err(Error::usage("a client certificate and AWS signatures do not go together"));
                }
                let (region, provider) = match (provider, &config.aws.region) {
                    (Some(provider), Some(region)) => (aws_types::region::Region::new(region.clone()), provider),
                    (Some(_), None) => return Err(sign::no_region()),
                    (None, _) => sign::find(&config.aws).await?,
                };
                let held = Arc::new(Held::new(provider));
                builder = builder
                    .auth(Credentials::AwsSigV4(SharedCredentialsProvider::new(Provider(Arc::clone(&held))), region))
                    .service_name(if auth == Auth::Aoss { "aoss" } else { "es" });
                Access::Signed(held)
            }
        };
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
            shown: without_credentials(url.as_str()).trim_end_matches('/').to_owned(),
            place: format!("{host}:{}", url.port_or_known_default().unwrap_or_default()),
            url,
            access,
            timeout: config.request_timeout,
            serverless: auth == Auth::Aoss,
        })
    }

    /// Sends one request and reads the whole answer.
    pub(super) async fn send(&self, method: Method, path: &str, query: &[(&str, &str)], content: Content) -> Result<Answer, Trouble> {
        let answer = self.send_once(method, path, query, content.clone()).await?;
        let refused = matches!(answer.status, 400 | 401 | 403) && matches!(self.judged(&answer), Failure::Unauthorized { .. });
        if refused && self.refresh(answer.generation).await {
            return self.send_once(method, path, query, content).await;
        }
        Ok(answer)
    }

    /// What an answer that is no success comes to.
    pub(super) fn judged(&self, answer: &Answer) -> Failure {
        reply::refused(&self.place, answer.status, &answer.body, answer.aws_type.as_deref(), answer.after)
    }

    async fn send_once(&self, method: Method, path: &str, query: &[(&str, &str)], content: Content) -> Result<Answer, Trouble> {
        let (generation, mut headers) = self.prove().await?;
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
        #[expect(clippy::disallowed_methods, reason = "a server may name the end of its pause as a date")]
        let after = text(RETRY_AFTER.as_str()).and_then(|header| reply::retry_after(&header, SystemTime::now()));
        let aws_type = text("x-amzn-errortype");
        let body = response.bytes().await.map_err(|error| self.trouble(&error))?;
        Ok(Answer { status, body, after, aws_type, generation })
    }

    /// Gets new credentials after the server refused those of `generation`. Whether there are any, so that trying once more makes sense.
    async fn refresh(&self, generation: u64) -> bool {
        match &self.access {
            Access::Open => false,
            Access::Signed(held) => held.refresh(generation).await,
            Access::Basic(basic) => basic.refresh(generation),
        }
    }

    /// Who the requests come from, for messages.
    pub(super) fn user(&self) -> String {
        match &self.access {
            Access::Open => "a client without credentials".to_owned(),
            Access::Basic(basic) => format!("user {:?}", basic.user),
            Access::Signed(_) => "the AWS identity".to_owned(),
        }
    }

    async fn prove(&self) -> Result<(u64, HeaderMap), Trouble> {
        let mut headers = HeaderMap::new();
        let generation = match &self.access {
            Access::Open => 0,
            Access::Basic(basic) => {
                let header = basic.header.read().unwrap_or_else(PoisonError::into_inner);
                headers.insert(AUTHORIZATION, header.0.clone());
                header.1
            }
            // Asked here as well as by the transport, because the transport's error does not tell why there are none.
            Access::Signed(held) => held.get().await.map_err(|error| no_credentials(&error))?.1,
        };
        Ok((generation, headers))
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

impl Basic {
    fn refresh(&self, generation: u64) -> bool {
        let Some(file) = &self.file else { return false };
        let fresh = read_password(file).ok().and_then(|password| basic_header(&self.user, &password).ok());
        let mut header = self.header.write().unwrap_or_else(PoisonError::into_inner);
        if header.1 != generation {
            return true;
        }
        match fresh {
            Some(fresh) if fresh != header.0 => {
                *header = (fresh, generation + 1);
                true
            }
            _ => false,
        }
    }
}

/// A path segment, with everything escaped that has a meaning in a path.
pub(super) fn segment(name: &str) -> String {
    const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    utf8_percent_encode(name, KEPT).to_string()
}

/// A URL without its credentials, and the user name and password that were in it.
fn address(text: &str) -> Result<(Url, Option<String>, Option<String>), Error> {
    let wrong =
        |why: &str| Error::usage(format!("expected the sink's URL as http(s)://HOST:PORT, found {:?}: {why}", without_credentials(text)));
    let mut url = Url::parse(text).map_err(|error| wrong(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong("the scheme is neither http nor https"));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(wrong("it has no host"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("it has a query or a fragment"));
    }
    let decoded = |text: &str| {
        percent_decode_str(text).decode_utf8().map(|text| text.into_owned()).map_err(|_| wrong("its credentials are not UTF-8"))
    };
    let user = (!url.username().is_empty()).then(|| decoded(url.username())).transpose()?;
    let password = url.password().map(decoded).transpose()?;
    // These fail only for URLs without a host.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    Ok((url, user, password))
}

fn basic(config: &Config, user: Option<String>, from_url: Option<String>) -> Result<Basic, Error> {
    let user = user.ok_or_else(|| Error::usage("auth = \"basic\" needs a user name").help("set username of the sink"))?;
    let password = match (&config.password, &config.password_file, from_url) {
        (Some(_), Some(_), _) => return Err(Error::usage("the sink has both a password and a password_file").help("keep one of them")),
        (Some(password), None, _) => password.reveal().to_owned(),
        (None, Some(file), _) => read_password(file)?,
        (None, None, Some(password)) => password,
        (None, None, None) => {
            return Err(Error::usage(format!("user {user:?} has no password")).help("set password_file of the sink, or REVSYNC_PASSWORD"));
        }
    };
    let header = basic_header(&user, &password)?;
    Ok(Basic { user, file: config.password_file.clone(), header: RwLock::new((header, 0)) })
}

fn basic_header(user: &str, password: &str) -> Result<HeaderValue, Error> {
    let text = format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")));
    let mut header = HeaderValue::from_str(&text).map_err(|_| Error::usage("user name and password do not fit into a header"))?;
    header.set_sensitive(true);
    Ok(header)
}

fn read_password(file: &Path) -> Result<String, Error> {
    let bytes = read(file, "password_file")?;
    let text = String::from_utf8(bytes).map_err(|_| Error::usage(format!("password_file {} is not UTF-8", file.display())))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

fn read(path: &Path, option: &str) -> Result<Vec<u8>, Error> {
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

fn no_credentials(error: &CredentialsError) -> Trouble {
    // An answer of the credentials' source that says "not now" is an outage; that there is none, or a wrong setting, is for a person.
    let kind = match error {
        CredentialsError::ProviderTimedOut(_) | CredentialsError::ProviderError(_) => TroubleKind::Broken,
        _ => TroubleKind::NoCredentials,
    };
    Trouble { kind, what: format!("no AWS credentials to sign with: {}", deepest(error)) }
}

/// The innermost cause, which is the only one whose text is not a paraphrase or a URL.
fn deepest(error: &(dyn std::error::Error + 'static)) -> String {
    std::iter::successors(Some(error), |error| error.source()).last().map(ToString::to_string).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::opensearch::config::Secret;

    async fn failure(config: Config) -> String {
        Client::new(&config, None).await.unwrap_err().to_string()
    }

    #[tokio::test]
    async fn credentials_in_the_url_are_taken_and_never_shown() {
        let config = Config { url: "https://admin:p%40ss@search.example.com/prefix/".to_owned(), ..Config::default() };
        let client = Client::new(&config, None).await.unwrap();
        assert_eq!(client.shown, "https://search.example.com/prefix");
        assert_eq!(client.place, "search.example.com:443");
        let (_, headers) = client.prove().await.unwrap();
        assert_eq!(headers[AUTHORIZATION].as_bytes(), b"Basic YWRtaW46cEBzcw==");
        let shown = format!("{client:?}");
        assert!(!shown.contains("p@ss") && !shown.contains("YWRtaW46") && !shown.contains("p%40ss"), "{shown}");
    }

    #[tokio::test]
    async fn a_url_that_cannot_be_used_is_refused_without_its_credentials() {
        for url in ["ftp://u:hunter2@h", "u:hunter2@h", "https://u:hunter2@h/?x=1", "https://u:hunter2@h:99999/", "https://"] {
            let text = failure(Config { url: url.to_owned(), ..Config::default() }).await;
            assert!(text.contains("expected the sink's URL"), "{text}");
            assert!(!text.contains("hunter2"), "{text}");
        }
    }

    #[tokio::test]
    async fn settings_that_contradict_each_other_are_refused() {
        let named = Config { username: Some("admin".to_owned()), ..Config::default() };
        assert!(failure(named.clone()).await.contains("has no password"));
        assert!(failure(Config { auth: Some(Auth::Aws), ..named.clone() }).await.contains("an auth that uses none"));
        assert!(failure(Config { auth: Some(Auth::Basic), ..Config::default() }).await.contains("needs a user name"));
        let both = Config { password: Some(Secret::new("x")), password_file: Some("/nowhere".into()), ..named.clone() };
        assert!(failure(both).await.contains("both a password and a password_file"));
        let gone = Config { password_file: Some("/nowhere".into()), ..named };
        assert!(failure(gone).await.contains("cannot read password_file /nowhere"));
    }

    #[test]
    fn a_rotated_password_file_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        std::fs::write(&file, "one\n").unwrap();
        let config = Config { password_file: Some(file.clone()), ..Config::default() };
        let basic = basic(&config, Some("admin".to_owned()), None).unwrap();
        assert!(!basic.refresh(0), "the same password is no reason to try again");
        std::fs::write(&file, "two\n").unwrap();
        assert!(basic.refresh(0));
        assert!(basic.refresh(0), "another request was refused with the first password");
        assert!(!basic.refresh(1));
        assert_eq!(basic.header.read().unwrap().0.as_bytes(), b"Basic YWRtaW46dHdv");
    }

    #[test]
    fn a_name_is_one_segment_of_a_path() {
        assert_eq!(segment("people-000001"), "people-000001");
        assert_eq!(segment("a/b?c#d%"), "a%2Fb%3Fc%23d%25");
    }
}
