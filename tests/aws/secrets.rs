//! Passwords from Secrets Manager: which are taken, when they are read again, and what is said of those that cannot be.

use std::sync::Arc;

use serde_json::json;

use crate::aws::{CREDENTIALS, REGION, emulator};
use crate::command::{Done, Folder, revision};
use crate::scripted_aws::{Answer, Scripted as Aws};
use crate::scripted_opensearch::Scripted as OpenSearch;

/// `Basic` with this user name and password.
fn basic(credentials: &str) -> String {
    format!("Basic {}", base64::Engine::encode(&base64::engine::general_purpose::STANDARD, credentials))
}

/// Writes one document to a server with a secret of this AWS, as `more` says.
async fn sync(server: &OpenSearch, aws: &str, secret: &str, more: &[(&str, &str)]) -> Done {
    let folder = Arc::new(Folder::new());
    folder.write("s.ion", revision("T", "a", 0, Some("{}")));
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let to = server.url();
    let own = [("AWS_ENDPOINT_URL", aws), ("REVSYNC_PASSWORD_SECRET", secret), ("REVSYNC_TO", to.as_str())];
    let environment: Vec<(String, String)> = CREDENTIALS.iter().chain(&own).chain(more).map(owned).collect();
    let done = tokio::task::spawn_blocking(move || {
        let environment: Vec<(&str, &str)> = environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        folder.revsync_with(&["--json", "sync", "s.ion"], &environment, b"")
    });
    done.await.unwrap()
}

const IN_REGION: (&str, &str) = ("AWS_REGION", REGION);
const ANN: (&str, &str) = ("REVSYNC_USERNAME", "ann");

fn sent(server: &OpenSearch) -> Vec<String> {
    server.bulks().iter().map(|request| request.header("authorization").unwrap_or_default().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_password_of_a_secret_is_sent_with_its_user_or_the_one_that_is_named() {
    let Some(emulator) = emulator() else { return };
    let (plain, rotated) = (emulator.name("search/plain"), emulator.name("search/rotated"));
    emulator.secret(&plain, "p@ss\n");
    let arn = emulator.secret(&rotated, &json!({ "engine": "opensearch", "username": "zo\u{eb}", "password": "p:w\u{e4}" }).to_string());
    for (secret, more, expected) in [
        (&plain, &[IN_REGION, ANN][..], "ann:p@ss"),
        (&rotated, &[IN_REGION], "zo\u{eb}:p:w\u{e4}"),
        (&rotated, &[IN_REGION, ANN], "ann:p:w\u{e4}"),
        // The region is in the ARN.
        (&arn, &[], "zo\u{eb}:p:w\u{e4}"),
    ] {
        let server = OpenSearch::start().await;
        let done = sync(&server, &emulator.url(), secret, more).await;
        assert_eq!((done.exit, sent(&server)), (0, vec![basic(expected)]), "{secret}: {done:?}");
    }
}

/// A Secrets Manager that answers so to one read after another; the last answer stays.
async fn secrets(answers: &'static [(u16, &'static str)]) -> Aws {
    Aws::start(move |_, before| {
        let (status, body) = answers[before.len().min(answers.len() - 1)];
        (status, body.to_owned()) as Answer
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_that_was_rotated_is_read_again_once_for_all_requests_that_were_refused() {
    let aws = secrets(&[(200, r#"{"SecretString":"old"}"#), (200, r#"{"SecretString":"new"}"#)]).await;
    let server = OpenSearch::start().await;
    server.require_header("authorization", &basic("ann:new"));
    let done = sync(&server, &aws.url(), "search", &[IN_REGION, ANN]).await;
    assert_eq!((done.exit, done.count("indexed"), aws.requests().len()), (0, 1, 2), "{done:?}");
    assert!(aws.requests().iter().all(|request| request.action == "GetSecretValue" && request.json()["SecretId"] == "search"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_that_stays_wrong_is_read_again_once_and_ends_the_run() {
    let aws = secrets(&[(200, r#"{"SecretString":"hunter2"}"#)]).await;
    let server = OpenSearch::start().await;
    server.require_header("authorization", &basic("ann:another"));
    let done = sync(&server, &aws.url(), "search", &[IN_REGION, ANN]).await;
    assert!(done.exit == 2 && done.err.contains("refuses the credentials of user \"ann\" (status 401)"), "{done:?}");
    assert_eq!((aws.requests().len(), server.bulks().len()), (2, 0), "{:?}", aws.requests());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_cannot_be_read_is_said_before_anything_is_sent_and_never_shown() {
    let object = |answer: &'static str| vec![(200, answer)];
    for (answers, more, expected) in [
        (
            vec![(400, r#"{"__type":"ResourceNotFoundException","Message":"Secrets Manager can't find the specified secret."}"#)],
            &[IN_REGION][..],
            "password_secret search: cannot be read: ResourceNotFoundException: Secrets Manager can't find the specified secret.",
        ),
        (
            vec![(400, r#"{"__type":"AccessDeniedException","Message":"not authorized"}"#)],
            &[IN_REGION],
            "the right is secretsmanager:GetSecretValue on the secret",
        ),
        (object(r#"{"SecretString":"{\"Password\":\"hunter2\"}"}"#), &[IN_REGION], "found an object without \"password\""),
        (object(r#"{"SecretString":"{\"password\":[\"hunter2\"]}"}"#), &[IN_REGION], "found an object whose \"password\" is no text"),
        (object(r#"{"SecretString":""}"#), &[IN_REGION], "found an empty password"),
        (object(r#"{"SecretBinary":"aHVudGVyMg=="}"#), &[IN_REGION], "found bytes"),
        (object(r#"{"SecretString":"hunter2"}"#), &[IN_REGION], "neither --username nor the secret names a user"),
        (object(r#"{"SecretString":"hunter2"}"#), &[], "name the secret by its ARN, which has the region, or set AWS_REGION"),
    ] {
        let aws = secrets(Box::leak(answers.into_boxed_slice())).await;
        let server = OpenSearch::start().await;
        for level in [&[][..], &[("RUST_LOG", "debug")], &[("RUST_LOG", "trace"), ("LOG_SIGNABLE_BODY", "true")]] {
            let done = sync(&server, &aws.url(), "search", &[more, level].concat()).await;
            assert!(done.exit == 2 && done.err.contains(expected), "{expected}: {done:?}");
            for form in ["hunter2", "aHVudGVyM"] {
                assert!(!done.err.contains(form) && !done.out.contains(form), "{level:?}: {done:?}");
            }
        }
        assert_eq!(server.requests().len(), 0, "nothing is sent");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secrets_manager_that_fails_for_a_moment_is_asked_again() {
    let aws = secrets(&[(503, ""), (500, r#"{"__type":"InternalServiceError"}"#), (200, r#"{"SecretString":"p"}"#)]).await;
    let server = OpenSearch::start().await;
    let done = sync(&server, &aws.url(), "search", &[IN_REGION, ANN]).await;
    assert_eq!((done.exit, sent(&server), aws.requests().len()), (0, vec![basic("ann:p")], 3), "{done:?}");
}
