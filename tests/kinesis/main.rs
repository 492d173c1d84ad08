//! A Kinesis data stream as a source: against two emulators, and against a scripted service for what a healthy one seldom does.
#![expect(clippy::unwrap_used, unreachable_pub, reason = "a test may stop at the first surprise, and shares its support")]

/// Each test, on each emulator.
macro_rules! on_both {
    ($($test:ident,)*) => {
        mod kinesis_mock {
            $(
                #[test]
                fn $test() {
                    crate::kinesis::kinesis().into_iter().for_each(super::$test);
                }
            )*
        }

        mod ministack {
            $(
                #[test]
                fn $test() {
                    crate::aws::emulator().into_iter().for_each(super::$test);
                }
            )*
        }
    };
}

#[path = "../support/aws.rs"]
mod aws;
mod batches;
#[path = "../support/command.rs"]
mod command;
mod connecting;
mod failures;
mod follower;
mod keeping;
#[path = "../support/kinesis.rs"]
mod kinesis;
#[path = "../support/log.rs"]
mod log;
mod memory;
#[path = "../support/npm.rs"]
mod npm;
mod pages;
mod scans;
mod script;
#[path = "../support/scripted_aws.rs"]
mod scripted_aws;
mod streams;
mod unfinished;

use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use revsync::aws::Aws;
use revsync::error::Error;
use revsync::source::kinesis::Kinesis;

/// Reaches a stream, with credentials that every emulator takes.
async fn connect(url: &str) -> Result<Kinesis, Error> {
    let credentials = SharedCredentialsProvider::new(Credentials::new("test", "test", None, None, "a test"));
    Kinesis::connect_as(&url.parse()?, &Aws::default(), Some(&credentials)).await
}
