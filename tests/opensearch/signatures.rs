//! Proving who we are by AWS signatures: what is signed, credentials that expire, clocks that are off, and what Serverless lacks.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};

use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider, future};
use revsync::aws::Aws;
use revsync::plan::outcome::{Failure, Outcome};
use revsync::sink::Sink;
use revsync::sink::opensearch::config::Access;
use revsync::sink::opensearch::{Config, OpenSearch};
use sha2::{Digest, Sha256};

use crate::log::Log;
use crate::operations::{config, put, write};
use crate::scripted_opensearch::{Request, Scripted, Step};

/// Hands out another set of credentials on each call: access key `KEYn`, secret `SECRETn`, token `TOKENn`. From the call `fails_from` on it
/// fails.
#[derive(Debug)]
struct Rotating {
    calls: AtomicUsize,
    fails_from: usize,
}

impl Default for Rotating {
    fn default() -> Self {
        Self { calls: AtomicUsize::new(0), fails_from: usize::MAX }
    }
}

impl ProvideCredentials for Rotating {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        let n = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        future::ProvideCredentials::ready(if n >= self.fails_from {
            Err(CredentialsError::provider_error("the source of credentials is down"))
        } else {
            Ok(Credentials::new(format!("KEY{n}"), format!("SECRET{n}"), Some(format!("TOKEN{n}")), None, "test"))
        })
    }
}

pub async fn signing(server: &Scripted, access: fn(Aws) -> Access, gzip: bool) -> OpenSearch {
    signing_with(server, access, gzip, Rotating::default()).await
}

async fn signing_with(server: &Scripted, access: fn(Aws) -> Access, gzip: bool, credentials: Rotating) -> OpenSearch {
    let aws = Aws { region: Some("eu-west-1".to_owned()), ..Aws::default() };
    let config = Config { access: access(aws), gzip, ..config(&server.url()) };
    OpenSearch::connect_with(&config, SharedCredentialsProvider::new(credentials)).await.unwrap()
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
async fn expired_credentials_are_refreshed_whatever_status_and_form_the_refusal_has() {
    let text = r#"{"message":"The security token included in the request is expired"}"#;
    for (body, header) in [
        (text, Some("ExpiredTokenException:http://internal.amazon.com/coral/com.amazon.coral.service/")),
        (text, Some("ExpiredToken")),
        (text, None),
        (r#"{"__type":"com.amazon.coral.service#ExpiredTokenException","message":"expired"}"#, None),
    ] {
        for status in [400, 403] {
            let server = Scripted::start().await;
            server.add_index("people-000001", Some("people"));
            let sink = signing(&server, Access::Aws, true).await;
            let step = Step::status(status, body);
            server.script([match header {
                Some(kind) => step.header("x-amzn-errortype", kind),
                None => step,
            }]);
            let outcomes = write(&sink, vec![put("people", "1", 1, "{}")]).await;
            assert_eq!(outcomes, Ok(vec![Outcome::Indexed]), "{status} {body} {header:?}");
            let keys: Vec<String> = server.bulks().iter().map(|request| verified(request, "es")).collect();
            assert_eq!(keys, ["KEY1", "KEY2"], "{status} {body} {header:?}");
        }
    }
}

#[tokio::test]
async fn credentials_that_cannot_be_refreshed_settle_nothing_and_are_not_sent_again() {
    let server = Scripted::start().await;
    server.add_index("people-000001", Some("people"));
    let sink = signing_with(&server, Access::Aws, true, Rotating { fails_from: 2, ..Rotating::default() }).await;
    write(&sink, vec![put("people", "1", 1, "{}")]).await.unwrap();
    let expired = || {
        Step::status(403, r#"{"message":"The security token included in the request is expired"}"#)
            .header("x-amzn-errortype", "ExpiredTokenException")
    };
    server.script([expired()]);
    let result = write(&sink, vec![put("people", "1", 2, "{}")]).await;
    assert!(matches!(&result, Err(Failure::Unauthorized { what }) if what.contains("ExpiredTokenException")), "{result:?}");
    assert_eq!((server.bulks().len(), server.document("people", "1")), (2, Some((1, Some("{}".to_owned())))));
}

// Clocks

#[tokio::test]
async fn a_clock_that_is_off_is_corrected_by_the_servers_and_told_once() {
    for ahead in [20 * 60, -20 * 60] {
        let (log, _listening) = Log::start();
        let server = Scripted::start().await;
        server.add_index("people-000001", Some("people"));
        server.set_clock(ahead);
        let sink = signing(&server, Access::Aws, true).await;
        assert_eq!(write(&sink, vec![put("people", "1", 1, "{}")]).await, Ok(vec![Outcome::Indexed]));
        assert_eq!(write(&sink, vec![put("people", "1", 2, "{}")]).await, Ok(vec![Outcome::Indexed]));
        let asked: Vec<String> = server.requests().iter().map(|request| format!("{} {}", request.method, request.path)).collect();
        assert_eq!(asked, ["GET /people", "GET /people", "POST /_bulk", "POST /_bulk"], "refused once, and then dated by the server");
        for request in server.requests() {
            assert_eq!(verified(&request, "es"), "KEY1", "the credentials were never in doubt");
        }
        let said: Vec<String> = log.lines().into_iter().filter(|line| line.contains("clock")).collect();
        assert_eq!(said.len(), 1, "{said:?}");
        let side = if ahead > 0 { "behind that" } else { "ahead of that" };
        assert!(said[0].contains("WARN") && said[0].contains(side) && said[0].contains(&server.address().to_string()), "{said:?}");
        let minutes = ["19 min 59 s", "20 min", "20 min 1 s"].iter().any(|off| said[0].contains(&format!("is {off} {side}")));
        assert!(minutes, "{said:?}");
    }
}

#[tokio::test]
async fn a_clock_that_is_set_right_meanwhile_is_believed_again() {
    let server = Scripted::start().await;
    server.add_index("people-000001", Some("people"));
    let sink = signing(&server, Access::Aws, true).await;
    for ahead in [20 * 60, 0, -20 * 60] {
        server.set_clock(ahead);
        write(&sink, vec![put("people", "1", 1, "{}")]).await.unwrap();
    }
    assert_eq!(server.bulks().len(), 5, "the clock was wrong twice in the middle of the work");
}

#[tokio::test]
async fn requests_that_are_refused_at_once_for_their_time_all_go_again() {
    let server = Scripted::start().await;
    server.add_index("people-000001", Some("people"));
    let sink = signing(&server, Access::Aws, true).await;
    write(&sink, vec![put("people", "0", 1, "{}")]).await.unwrap();
    server.set_clock(20 * 60);
    let one = |id: &'static str| write(&sink, vec![put("people", id, 1, "{}")]);
    let (a, b, c, d) = tokio::join!(one("1"), one("2"), one("3"), one("4"));
    assert!([a, b, c, d].iter().all(|result| *result == Ok(vec![Outcome::Indexed])));
    assert!(server.bulks().iter().all(|request| verified(request, "es") == "KEY1"));
}

#[tokio::test]
async fn a_signature_that_is_refused_by_a_server_of_the_same_time_is_no_matter_of_the_clock() {
    let server = Scripted::start().await;
    server.add_index("people-000001", Some("people"));
    server.set_clock(30);
    let sink = signing_with(&server, Access::Aws, true, Rotating { fails_from: 2, ..Rotating::default() }).await;
    let text = "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key.";
    server.script([Step::status(403, &format!(r#"{{"message":"{text}"}}"#)).header("x-amzn-errortype", "InvalidSignatureException")]);
    let result = write(&sink, vec![put("people", "1", 1, "{}")]).await;
    assert!(matches!(result, Err(Failure::Unauthorized { .. })), "{result:?}");
    assert_eq!(server.bulks().len(), 1);
}

#[tokio::test]
async fn a_server_that_refuses_the_corrected_time_too_is_not_asked_for_ever() {
    let server = Scripted::start().await;
    server.add_index("people-000001", Some("people"));
    let sink = signing_with(&server, Access::Aws, true, Rotating { fails_from: 2, ..Rotating::default() }).await;
    let skewed =
        |date: &str| Step::status(403, r#"{"message":"x"}"#).header("x-amzn-errortype", "RequestTimeTooSkewed").header("date", date);
    server.script([
        skewed("Fri, 31 Dec 2100 23:59:59 GMT"),
        skewed("Sun, 06 Nov 1994 08:49:37 GMT"),
        skewed("Fri, 31 Dec 2100 23:59:59 GMT"),
    ]);
    let result = write(&sink, vec![put("people", "1", 1, "{}")]).await;
    assert!(matches!(&result, Err(Failure::Unauthorized { what }) if what.contains("RequestTimeTooSkewed")), "{result:?}");
    assert_eq!(server.bulks().len(), 2);
}

// What a signature or a refusal is not about

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
    server.add_index("cars", None);
    assert_eq!(sink.advice("cars").await.unwrap(), [], "nor for a setting that it lacks");
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
