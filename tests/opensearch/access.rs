//! Reaching a server, trusting it, and proving who we are by passwords and certificates.

use std::net::TcpListener;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use revsync::error::Kind;
use revsync::plan::outcome::{Failure, Outcome};
use revsync::sink::Sink;
use revsync::sink::opensearch::config::{Access, Password, Secret};
use revsync::sink::opensearch::{Config, OpenSearch};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use crate::operations::{config, connect, put, write};
use crate::scripted_opensearch::Scripted;

fn basic(username: &str, password: Password) -> Access {
    Access::Basic { username: Some(username.to_owned()), password }
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

/// A certificate authority of our own.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: tempfile::TempDir,
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Self { issuer, folder: tempfile::tempdir().unwrap() }
    }

    pub fn file(&self, name: &str, text: &str) -> std::path::PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    pub fn ca_file(&self) -> std::path::PathBuf {
        self.file("ca.pem", &self.issuer.pem())
    }

    pub fn certificate(&self, host: &str) -> (CertificateDer<'static>, KeyPair, String) {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![host.to_owned()]).unwrap().signed_by(&key, &self.issuer).unwrap();
        let pem = format!("{}{}", certificate.pem(), key.serialize_pem());
        (certificate.der().clone(), key, pem)
    }

    pub async fn server(&self, host: &str, wants_certificate: bool) -> Scripted {
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
