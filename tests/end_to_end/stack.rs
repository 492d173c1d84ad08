//! What CloudFormation has made of the template.

use serde_json::json;

use crate::machine::{Stack, machine};

#[test]
fn the_mapping_is_deployed_as_the_template_says() {
    let Some(machine) = machine() else { return };
    let stack = Stack::of(&machine.said);
    let mapping = machine.aws(&format!("lambda get-event-source-mapping --uuid {}", stack.output("MappingId")));
    for (setting, expected) in [
        // Without it an answer that names what is not settled would count as success.
        ("FunctionResponseTypes", json!(["ReportBatchItemFailures"])),
        ("BisectBatchOnFunctionError", json!(true)),
        ("MaximumRetryAttempts", json!(-1)),
        ("MaximumRecordAgeInSeconds", json!(-1)),
        ("StartingPosition", json!("TRIM_HORIZON")),
        ("BatchSize", json!(500)),
        ("DestinationConfig", json!({ "OnFailure": { "Destination": format!("arn:aws:s3:::{}", stack.output("OnFailureBucket")) } })),
    ] {
        assert_eq!(mapping[setting], expected, "{setting}");
    }
    let described = machine.aws(&format!("lambda get-function-configuration --function-name {}", stack.output("FunctionName")));
    assert_eq!(described["Runtime"], "provided.al2023");
    assert!(described.get("DeadLetterConfig").is_none_or(|config| config["TargetArn"].is_null()), "{described}");
}
