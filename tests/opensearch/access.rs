//! Reaching a server, trusting it, and proving who we are: passwords, certificates, signatures.

use std::fmt::Write as _;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aws_credential_types::Credentials;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider, future};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use revsync::aws::Aws;
use revsync::error::Kind;
use revsync::plan::outcome::{Failure, Outcome};
use revsync::sink::Sink;
use revsync::sink::opensearch::config::{Access, Password, Secret};
use revsync::sink::opensearch::{Config, OpenSearch};
use sha2::{Digest, Sha256};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use crate::operations::{config, connect, put, write};
use crate::scripted_opensearch::{Request, Scripted, Step};

fn basic(username: &str, password: Password) -> Access {
    Access::Basic { username: username.to_owned(), password }
}

async fn probe_error(sink: &OpenSearch) -> String {
    let error = sink.probe().await.unwrap_err();
    assert_eq!(error.kind, Kind::Sink);
    assert!(error.help.is_some(), "{error}");
    error.to_string()
}

#[tokio::test]
async fn a_port_where_nothing_listens_is_said_in_plain_words() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let sink = connect(&format!("http://admin:hunter2@127.0.0.1:{port}")).await;
    let error = probe_error(&sink).await;
    assert!(error.starts_with(&format!("cannot reach 127.0.0.1:{port}: connection refused; is OpenSearch running there?")), "{error}");
    match write(&sink, vec![put("people", "1", 1, "{}")]).await {
        Err(Failure::Retry { what, .. }) => assert_eq!(what, format!("cannot reach 127.0.0.1:{port}: connection refused")),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_host_that_nobody_knows_is_said_in_plain_words() {
    // The name is reserved for exactly this (RFC 6761).
    let sink = connect("http://admin:hunter2@search.invalid:9200").await;
    let error = probe_error(&sink).await;
    assert!(error.starts_with("cannot find the host of search.invalid:9200"), "{error}");
    assert!(!error.contains("hunter2"), "{error}");
}

#[tokio::test]
async fn a_wrong_password_is_said_and_settles_nothing() {
    let server = Scripted::start().await;
    server.require_header("authorization", "Basic cmlnaHQ6cmlnaHQ=");
    let sink = connect(&server.url().replace("://", "://admin:hunter2@")).await;
    let error = probe_error(&sink).await;
    assert!(error.contains("refuses the credentials of user \"admin\" (status 401)"), "{error}");
    assert!(!error.contains("hunter2"), "{error}");
    let result = write(&sink, vec![put("people", "1", 1, "{}")]).await;
    assert!(matches!(result, Err(Failure::Unauthorized { .. })), "{result:?}");
    assert_eq!(sink.name(), server.url());
    let right = Config { access: basic("right", Password::Given(Secret::new("right"))), ..config(&server.url()) };
    OpenSearch::connect(&right).await.unwrap().probe().await.unwrap();
}

#[tokio::test]
async fn a_rotated_password_is_found_without_a_restart() {
    let server = Scripted::start().await;
    server.add_index("people-000001", Some("people"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    std::fs::write(&file, "one\n").unwrap();
    server.require_header("authorization", "Basic YWRtaW46b25l");
    let config = Config { access: basic("admin", Password::File(file.clone())), ..config(&server.url()) };
    let sink = OpenSearch::connect(&config).await.unwrap();
    write(&sink, vec![put("people", "1", 1, "{}")]).await.unwrap();
    std::fs::write(&file, "two\n").unwrap();
    server.require_header("authorization", "Basic YWRtaW46dHdv");
    assert_eq!(write(&sink, vec![put("people", "1", 2, "{}")]).await.unwrap(), [Outcome::Indexed]);
    assert_eq!(server.bulks().len(), 3, "one refusal, one more try");
}

#[tokio::test]
async fn a_user_without_rights_is_told_which() {
    let server = Scripted::start().await;
    server.fix(
        "GET",
        "/",
        403,
        r#"{"error":{"type":"security_exception","reason":"no permissions for [cluster:monitor/main] and User [name=admin]"}}"#,
        &[],
    );
    let error = probe_error(&connect(&server.url()).await).await;
    assert!(error.contains("does not allow") && error.contains("[cluster:monitor/main]"), "{error}");
}

#[tokio::test]
async fn what_is_no_opensearch_is_recognised() {
    for (status, body, expected) in [
        (200, "<html>hello</html>", "is no OpenSearch"),
        (404, "not here", "it answers status 404"),
        (200, r#"{"cluster_name":"c","version":{"number":"8.15.0","build_flavor":"default"}}"#, "it says that it is Elasticsearch 8.15.0"),
    ] {
        let server = Scripted::start().await;
        server.fix("GET", "/", status, body, &[]);
        let error = probe_error(&connect(&server.url()).await).await;
        assert!(error.contains(expected), "{error}");
    }
}

#[tokio::test]
async fn a_server_on_which_versions_do_not_hold_is_refused() {
    let server = Scripted::start().await;
    let sink = connect(&server.url()).await;
    sink.check_rights("people").await.unwrap();
    server.ignore_versions();
    let error = sink.check_rights("people").await.unwrap_err().to_string();
    assert!(error.contains("wrote version 1 over version 2") && error.contains("cannot keep it right"), "{error}");
    let asked: Vec<String> = server.requests().iter().map(|request| request.method.clone()).collect();
    let last = asked.last().map(String::as_str);
    assert_eq!(last, Some("DELETE"), "the scratch index is deleted whatever comes of it: {asked:?}");
}

#[tokio::test]
async fn a_redirect_elsewhere_is_for_a_person_to_follow() {
    let (here, there) = (Scripted::start().await, Scripted::start().await);
    here.fix("GET", "/", 302, "", &[("location", &format!("{}/", there.url()))]);
    let error = probe_error(&connect(&here.url()).await).await;
    assert!(error.contains(&format!("redirects to {}", there.url())), "{error}");
}

// TLS

struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: tempfile::TempDir,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Self { issuer, folder: tempfile::tempdir().unwrap() }
    }

    fn file(&self, name: &str, text: &str) -> std::path::PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn ca_file(&self) -> std::path::PathBuf {
        self.file("ca.pem", &self.issuer.pem())
    }

    fn certificate(&self, host: &str) -> (CertificateDer<'static>, KeyPair, String) {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![host.to_owned()]).unwrap().signed_by(&key, &self.issuer).unwrap();
        let pem = format!("{}{}", certificate.pem(), key.serialize_pem());
        (certificate.der().clone(), key, pem)
    }

    async fn server(&self, host: &str, wants_certificate: bool) -> Scripted {
        let (certificate, key, _) = self.certificate(host);
        let builder = ServerConfig::builder();
        let builder = if wants_certificate {
            let mut roots = RootCertStore::empty();
            roots.add(self.issuer.der().clone()).unwrap();
            builder.with_client_cert_verifier(WebPkiClientVerifier::builder(Arc::new(roots)).build().unwrap())
        } else {
            builder.with_no_client_auth()
        };
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        Scripted::start_tls(builder.with_single_cert(vec![certificate], key).unwrap()).await
    }
}

#[tokio::test]
async fn a_server_with_a_certificate_of_our_own_authority_is_trusted() {
    let authority = Authority::new();
    let server = authority.server("127.0.0.1", false).await;
    let trusting = Config { ca_file: Some(authority.ca_file()), ..config(&server.url()) };
    OpenSearch::connect(&trusting).await.unwrap().probe().await.unwrap();
}

#[tokio::test]
async fn a_server_of_an_unknown_authority_is_not_trusted() {
    let server = Authority::new().server("127.0.0.1", false).await;
    let error = probe_error(&connect(&server.url()).await).await;
    assert!(error.contains("cannot agree on TLS") && error.contains("ca_file"), "{error}");
    assert_eq!(server.requests().len(), 0);
}

#[tokio::test]
async fn a_certificate_for_another_host_is_not_trusted() {
    let authority = Authority::new();
    let server = authority.server("search.example.com", false).await;
    let trusting = Config { ca_file: Some(authority.ca_file()), ..config(&server.url()) };
    let error = probe_error(&OpenSearch::connect(&trusting).await.unwrap()).await;
    assert!(error.contains("cannot agree on TLS"), "{error}");
    assert_eq!(server.requests().len(), 0);
}

#[tokio::test]
async fn a_server_that_wants_a_client_certificate_gets_it_along_with_the_password() {
    let authority = Authority::new();
    let server = authority.server("127.0.0.1", true).await;
    let without = Config { ca_file: Some(authority.ca_file()), ..config(&server.url()) };
    probe_error(&OpenSearch::connect(&without).await.unwrap()).await;
    let (_, _, pem) = authority.certificate("client");
    let with = Config {
        client_certificate_file: Some(authority.file("client.pem", &pem)),
        access: basic("admin", Password::Given(Secret::new("one"))),
        ..without
    };
    server.require_header("authorization", "Basic YWRtaW46b25l");
    OpenSearch::connect(&with).await.unwrap().probe().await.unwrap();
}

#[tokio::test]
async fn a_file_that_is_no_certificate_is_refused_at_the_start() {
    let authority = Authority::new();
    let path = authority.file("bad.pem", "nonsense");
    for config in [
        Config { ca_file: Some(path.clone()), ..config("https://127.0.0.1:1") },
        Config { client_certificate_file: Some(path.clone()), ..config("https://127.0.0.1:1") },
    ] {
        let error = OpenSearch::connect(&config).await.unwrap_err();
        assert_eq!(error.kind, Kind::Usage, "{error}");
    }
}

// Signatures

/// Hands out another set of credentials on each call: access key `KEYn`, secret `SECRETn`, token `TOKENn`.
#[derive(Debug, Default)]
struct Rotating(AtomicUsize);

impl ProvideCredentials for Rotating {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        let n = self.0.fetch_add(1, Ordering::SeqCst) + 1;
        future::ProvideCredentials::ready(Ok(Credentials::new(
            format!("KEY{n}"),
            format!("SECRET{n}"),
            Some(format!("TOKEN{n}")),
            None,
            "test",
        )))
    }
}

async fn signing(server: &Scripted, access: fn(Aws) -> Access, gzip: bool) -> OpenSearch {
    let aws = Aws { region: Some("eu-west-1".to_owned()), ..Aws::default() };
    let config = Config { access: access(aws), gzip, ..config(&server.url()) };
    OpenSearch::connect_with(&config, SharedCredentialsProvider::new(Rotating::default())).await.unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// HMAC-SHA-256 (RFC 2104), so that the signature is checked by other code than the one that made it.
fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut block = [0_u8; 64];
    let key = if key.len() > 64 { Sha256::digest(key).to_vec() } else { key.to_vec() };
    block[..key.len()].copy_from_slice(&key);
    let pad = |with: u8| block.map(|byte| byte ^ with);
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize().to_vec()
}

fn part<'a>(text: &'a str, name: &str) -> &'a str {
    text.split([' ', ',']).find_map(|part| part.strip_prefix(name)?.strip_prefix('=')).unwrap_or_else(|| panic!("no {name} in {text}"))
}

/// Checks a signature as AWS does (Signature Version 4), from what arrived, and gives the access key.
fn verified(request: &Request, service: &str) -> String {
    let authorization = request.header("authorization").unwrap();
    let (credential, signed, signature) =
        (part(authorization, "Credential"), part(authorization, "SignedHeaders"), part(authorization, "Signature"));
    let [key, date, region, named, "aws4_request"] = credential.split('/').collect::<Vec<_>>()[..] else { panic!("{credential}") };
    assert_eq!((region, named), ("eu-west-1", service));
    let hash = sha256(&request.wire);
    assert_eq!(request.header("x-amz-content-sha256"), Some(hash.as_str()), "the hash is that of the bytes that were sent");
    for name in ["host", "x-amz-content-sha256", "x-amz-date", "x-amz-security-token"] {
        assert!(signed.split(';').any(|header| header == name), "{name} is signed: {signed}");
    }
    let headers: String = signed.split(';').map(|name| format!("{name}:{}\n", request.header(name).unwrap().trim())).collect();
    // A star is escaped in the canonical query though not on the wire.
    let mut query: Vec<String> = request.query.split('&').filter(|pair| !pair.is_empty()).map(|pair| pair.replace('*', "%2A")).collect();
    query.sort();
    let canonical = format!("{}\n{}\n{}\n{headers}\n{signed}\n{hash}", request.method, request.path, query.join("&"));
    let scope = format!("{date}/{region}/{service}/aws4_request");
    let to_sign = format!("AWS4-HMAC-SHA256\n{}\n{scope}\n{}", request.header("x-amz-date").unwrap(), sha256(canonical.as_bytes()));
    let secret = format!("AWS4{}", key.replace("KEY", "SECRET"));
    let signing_key = [date, region, service, "aws4_request"].iter().fold(secret.into_bytes(), |key, part| hmac(&key, part.as_bytes()));
    assert_eq!(hex(&hmac(&signing_key, to_sign.as_bytes())), signature, "canonical request:\n{canonical}");
    key.to_owned()
}

#[tokio::test]
async fn every_attempt_is_signed_over_the_bytes_that_are_sent() {
    for (access, service) in [(Access::Aws as fn(Aws) -> Access, "es"), (Access::Aoss, "aoss")] {
        for gzip in [true, false] {
            let server = Scripted::start().await;
            server.add_index("people-000001", Some("people"));
            server.script([Step::status(503, "")]);
            let sink = signing(&server, access, gzip).await;
            write(&sink, vec![put("people", "1", 1, "{}"), put("people", "2", 1, "{}")]).await.unwrap_err();
            write(&sink, vec![put("people", "2", 1, "{}")]).await.unwrap();
            let bulks = server.bulks();
            assert_eq!(bulks.len(), 2);
            assert_eq!(bulks[0].header("content-encoding").is_some(), gzip);
            for request in server.requests() {
                assert_eq!(verified(&request, service), "KEY1", "one set of credentials signs many requests");
            }
            let signature = |request: &Request| part(request.header("authorization").unwrap(), "Signature").to_owned();
            assert_ne!(signature(&bulks[0]), signature(&bulks[1]), "another body, another signature");
        }
    }
}

#[tokio::test]
async fn expired_credentials_are_refreshed_once() {
    let server = Scripted::start().await;
    server.add_index("people-000001", Some("people"));
    let sink = signing(&server, Access::Aws, true).await;
    let expired = || {
        Step::status(403, r#"{"message":"The security token included in the request is expired"}"#)
            .header("x-amzn-errortype", "ExpiredTokenException")
    };
    server.script([expired()]);
    assert_eq!(write(&sink, vec![put("people", "1", 1, "{}")]).await.unwrap(), [Outcome::Indexed]);
    let keys: Vec<String> = server.bulks().iter().map(|request| verified(request, "es")).collect();
    assert_eq!(keys, ["KEY1", "KEY2"]);
    server.script([expired(), expired()]);
    match write(&sink, vec![put("people", "1", 2, "{}")]).await {
        Err(Failure::Unauthorized { what }) => assert!(what.contains("ExpiredTokenException"), "{what}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(server.bulks().len(), 4, "refreshed once, and not again and again");
}

#[tokio::test]
async fn a_write_block_is_no_reason_to_refresh_credentials() {
    let server = Scripted::start().await;
    server.add_index("people-000001", Some("people"));
    let sink = signing(&server, Access::Aws, true).await;
    server.script([Step::status(
        403,
        r#"{"error":{"type":"cluster_block_exception","reason":"index [people] blocked by: [FORBIDDEN/8/index write (api)];"}}"#,
    )]);
    write(&sink, vec![put("people", "1", 1, "{}")]).await.unwrap_err();
    assert_eq!(server.bulks().len(), 1);
}

#[tokio::test]
async fn serverless_is_not_asked_for_what_it_lacks() {
    let server = Scripted::start().await;
    server.fix("GET", "/_cat/indices", 200, "[]", &[]);
    server.fix("GET", "/", 404, "", &[]);
    server.tell_uuids();
    let sink = signing(&server, Access::Aoss, false).await;
    assert_eq!(sink.probe().await.unwrap().distribution, "serverless");
    write(&sink, vec![put("people", "1", 1, "{}")]).await.unwrap();
    sink.finish().await.unwrap();
    let asked: Vec<String> = server.requests().iter().map(|request| format!("{} {}", request.method, request.path)).collect();
    assert_eq!(asked, ["GET /_cat/indices", "GET /people", "PUT /people-000001", "GET /people", "POST /_bulk"]);
    assert!(!String::from_utf8_lossy(&server.requests()[2].body).contains("gc_deletes"));
    assert_eq!(server.bulks()[0].lines().len(), 2, "no guards, which are not documented to work there");
}

#[tokio::test]
async fn a_collection_that_keeps_no_ids_is_said_once_and_clearly() {
    for step in [
        Step::reject(0, 400, "illegal_argument_exception", "Document ID is not supported in create/index operation request"),
        Step::status(
            400,
            r#"{"status":400,"error":{"type":"illegal_argument_exception","reason":"Document ID is not supported in create/index operation request"}}"#,
        ),
    ] {
        let server = Scripted::start().await;
        server.script([step]);
        let sink = signing(&server, Access::Aoss, false).await;
        match write(&sink, vec![put("people", "1", 1, "{}")]).await {
            Err(Failure::Misconfigured { what }) => assert!(what.contains("type SEARCH"), "{what}"),
            other => panic!("{other:?}"),
        }
    }
}
