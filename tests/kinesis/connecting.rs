//! Reaching a stream: what is known of it then, and what a person is told who cannot have it.

use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{self, ProvideCredentials, SharedCredentialsProvider};
use revsync::aws::Aws;
use revsync::error::{Error, Kind};
use revsync::source::kinesis::Kinesis;

use crate::aws::{REGION, emulator};
use crate::connect;
use crate::kinesis::{Stream, kinesis};
use crate::script::{ARN, ScriptedStream, Shard, refuses};

async fn refused(url: &str) -> Error {
    connect(url).await.unwrap_err()
}

#[tokio::test]
async fn a_stream_says_its_name_and_how_long_it_keeps_records() {
    let stream = ScriptedStream::start(vec![Shard::new("shard-0")]).await;
    let kinesis = connect(&stream.url()).await.unwrap();
    assert_eq!((kinesis.arn(), kinesis.retention().as_secs()), (ARN, 24 * 60 * 60));
    assert!(kinesis.described().starts_with("the stream scripted in eu-west-1"), "{}", kinesis.described());
    assert!(kinesis.is_there().await.unwrap());
}

#[tokio::test]
async fn more_than_a_thousand_shards_are_listed_to_the_last() {
    let stream = ScriptedStream::start((0..2_345).map(|number| Shard::new(&format!("shard-{number}"))).collect()).await;
    stream.change(|state| state.list_page = Some(1_000));
    let listed = connect(&stream.url()).await.unwrap().shards().await.unwrap();
    assert_eq!((listed.len(), stream.asked("ListShards").len()), (2_345, 3));
    assert_eq!(listed.last().unwrap().id, "shard-2344");
}

#[tokio::test]
async fn a_stream_that_does_not_exist_is_named_with_its_region() {
    let Some((mock, ministack)) = kinesis().zip(emulator()) else { return };
    for emulator in [mock, ministack] {
        let error = refused(&format!("kinesis://no-such-stream?region={REGION}&endpoint={}", emulator.url())).await;
        assert_eq!(error.kind, Kind::Source);
        for part in ["the stream no-such-stream in eu-west-1", "does not exist", "check the stream's name, the region"] {
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}

#[tokio::test]
async fn a_stream_of_another_region_is_not_found() {
    let Some(mock) = kinesis() else { return };
    let stream = Stream::make(mock, "elsewhere", 1);
    let error = refused(&stream.url().replace(REGION, "us-east-1")).await;
    assert!(error.to_string().contains("in us-east-1") && error.to_string().contains("does not exist"), "{error}");
    connect(&stream.url()).await.unwrap();
}

#[tokio::test]
async fn a_stream_that_is_being_deleted_does_not_exist() {
    let stream = ScriptedStream::start(vec![Shard::new("shard-0")]).await;
    stream.instead(|_, _| {
        let body = r#"{"StreamDescriptionSummary":{"StreamName":"scripted","StreamARN":"arn:aws:kinesis:eu-west-1:0:stream/scripted",
            "StreamStatus":"DELETING","RetentionPeriodHours":24,"StreamCreationTimestamp":1.0,"EnhancedMonitoring":[],"OpenShardCount":1}}"#;
        Some((200, body.to_owned()))
    });
    let error = refused(&stream.url()).await;
    assert!(error.to_string().contains("does not exist: it is being deleted"), "{error}");
}

#[tokio::test]
async fn a_missing_right_is_named() {
    let stream = ScriptedStream::start(vec![Shard::new("shard-0")]).await;
    stream.instead(|request, _| {
        let message = format!("User: arn:aws:iam::000000000000:user/test is not authorized to perform: kinesis:{}", request.action);
        Some(refuses("AccessDeniedException", &message))
    });
    let error = refused(&stream.url()).await;
    assert_eq!(error.kind, Kind::Source);
    for part in ["the stream scripted in eu-west-1", "cannot be read", "kinesis:DescribeStreamSummary", "kinesis:GetRecords"] {
        assert!(error.to_string().contains(part), "{error}");
    }
}

/// A machine without any.
#[derive(Debug)]
struct NoCredentials;

impl ProvideCredentials for NoCredentials {
    fn provide_credentials<'a>(&'a self) -> provider::future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        provider::future::ProvideCredentials::ready(Err(CredentialsError::not_loaded("nothing in the environment")))
    }
}

#[tokio::test]
async fn missing_credentials_are_said_and_nothing_is_asked() {
    let stream = ScriptedStream::start(vec![Shard::new("shard-0")]).await;
    let none = SharedCredentialsProvider::new(NoCredentials);
    let error = Kinesis::connect_as(&stream.url().parse().unwrap(), &Aws::default(), Some(&none)).await.unwrap_err();
    assert_eq!(error.kind, Kind::Source);
    for part in ["there are no credentials for AWS", "nothing in the environment", "AWS_PROFILE"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    assert!(stream.service.requests().is_empty());
}

#[tokio::test]
async fn what_answers_and_is_no_kinesis_is_said() {
    let stream = ScriptedStream::start(Vec::new()).await;
    for (status, body) in [(200, "{}"), (200, "<html></html>"), (404, "<html></html>"), (404, r#"{"message":"no"}"#), (200, "[]")] {
        stream.instead(move |_, _| Some((status, body.to_owned())));
        let error = refused(&stream.url()).await;
        assert_eq!(error.kind, Kind::Source, "{status} {body}");
        for part in [&stream.service.url(), "something else than Kinesis may answer"] {
            assert!(error.to_string().contains(part), "{status} {body}: {error}");
        }
    }
}

#[tokio::test]
async fn an_endpoint_where_nobody_listens_cannot_be_reached() {
    let error = refused("kinesis://ledger?region=eu-west-1&endpoint=http://127.0.0.1:1").await;
    assert_eq!(error.kind, Kind::Pending, "it may pass");
    for part in ["cannot be reached", "http://127.0.0.1:1", "Connection refused", "check the network"] {
        assert!(error.to_string().contains(part), "{error}");
    }
}
