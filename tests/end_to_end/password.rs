//! A password that is wrong, and one that is right: on a stack of its own, before a sink that asks for it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::machine::{Stack, machine, wait_for};
use crate::qldb_stream::{binary, put, revision};
use crate::scripted_opensearch::Scripted;

const NAME: &str = "guarded";

#[tokio::test(flavor = "multi_thread")]
async fn a_password_that_is_wrong_fails_the_function_and_loses_nothing() {
    let Some(machine) = machine() else { return };
    let sink = Scripted::start().await;
    sink.add_index("ledger-000001", Some("ledger"));
    sink.require_header("authorization", &format!("Basic {}", STANDARD.encode("writer:right-password")));
    let secret = machine.aws(&format!("secretsmanager create-secret --name {NAME} --secret-string wrong-password"));
    let secret = secret["ARN"].as_str().unwrap();
    let parameters = format!("SinkUrl={} SinkAuth=basic Username=writer PasswordSecretArn={secret}", sink.url());
    let stack = Stack::of(&machine.run(&format!("infra/emulator up --stack {NAME} {parameters}")).ended_well().out);

    machine.put(stack.output("StreamName"), &[binary(&[revision("Ledger", "1", 7, &put("kept"))])]);
    // Once is the function, twice is the mapping that tries again.
    let said = wait_for("two invocations that failed", || {
        let said = machine.log(&stack);
        (said.iter().filter(|line| line.contains(r#""message":"invocation""#)).count() >= 2).then_some(said)
    });
    assert!(said.iter().any(|line| line.contains("401")), "{said:?}");
    assert!(!said.concat().contains("wrong-password"), "{said:?}");
    let mapping = machine.aws(&format!("lambda get-event-source-mapping --uuid {}", stack.output("MappingId")));
    assert_eq!(mapping["LastProcessingResult"], "FAILED");
    assert_eq!(sink.documents("ledger").len(), 0);

    machine.aws(&format!("secretsmanager put-secret-value --secret-id {NAME} --secret-string right-password"));
    wait_for("the document", || sink.document("ledger", "1"));
    assert_eq!(sink.document("ledger", "1"), Some((7, Some(r#"{"note":"kept"}"#.to_owned()))));
    assert_eq!(machine.emulator.messages(stack.queue()), [] as [&str; 0], "an outage is no dead letter");
    assert_eq!(machine.emulator.keys(stack.output("LargeDeadLettersBucket")), [] as [&str; 0]);

    // What holds data outlives the stack.
    machine.aws(&format!("cloudformation delete-stack --stack-name {NAME}"));
    let described = format!("eval \"$(infra/emulator env)\"; aws cloudformation describe-stacks --stack-name {NAME}");
    wait_for("the end of the stack", || (machine.run(&described).exit != 0).then_some(()));
    let function = format!("/2015-03-31/functions/{}", stack.output("FunctionName"));
    assert_eq!(machine.emulator.request("GET", &function, &[], b"").0, 404);
    for bucket in ["LargeDeadLettersBucket", "OnFailureBucket"] {
        assert_eq!(machine.emulator.request("GET", &format!("/{}?list-type=2", stack.output(bucket)), &[], b"").0, 200, "{bucket}");
    }
    assert_eq!(machine.emulator.messages(stack.queue()).len(), 0, "the queue is there");
    let stream = json!({ "StreamName": stack.output("StreamName") });
    assert_eq!(
        machine.emulator.call("Kinesis_20131202.DescribeStreamSummary", &stream)["StreamDescriptionSummary"]["StreamStatus"],
        "ACTIVE"
    );
}
