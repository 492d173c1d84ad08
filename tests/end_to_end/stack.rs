//! What CloudFormation has made of the template.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::machine::{Stack, machine, wait_for};
use crate::qldb_stream::{binary, put, revision};

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

#[test]
fn the_log_has_one_line_for_each_invocation_and_its_metrics_and_nothing_of_a_document() {
    let Some(machine) = machine() else { return };
    let stack = Stack::of(&machine.said);
    let setup = stack.output("Step1CreateIndices").replace("vehicle_registration", "logged");
    machine.revsync(&setup).ended_well();
    let broken = Bytes::from_static(b"{note: \"hunter2\", ");
    let put = machine.put(stack.output("StreamName"), &[broken, binary(&[revision("Logged", "1", 3, &put("hunter2"))])]);

    let lines = || -> Vec<Value> {
        let json = |line: &String| serde_json::from_str(line).unwrap_or_else(|error| panic!("no JSON: {error}: {line}"));
        machine.log(&stack).iter().map(json).collect()
    };
    // Both records may be in one event, and records of other tests beside them.
    for (shard, number) in put {
        let is_of_it = |line: &Value| {
            let text = |name: &str| line[name].as_str().unwrap_or_default();
            text("message") == "invocation" && text("shard") == shard && (text("first")..=text("last")).contains(&number.as_str())
        };
        let lines = wait_for("the line of the invocation", || Some(lines()).filter(|lines| lines.iter().any(is_of_it)));
        let of_it: Vec<&Value> = lines.iter().filter(|line| is_of_it(line)).collect();
        assert_eq!((of_it.len(), &of_it[0]["answer"], &of_it[0]["pipeline"]), (1, &json!("done"), &json!("revsync")), "{of_it:?}");
        let metrics = |line: &&Value| line["requestId"] == of_it[0]["requestId"] && !line["revsync_received_total"].is_null();
        let metrics: Vec<&Value> = lines.iter().filter(metrics).collect();
        assert_eq!((metrics.len(), &metrics[0]["_aws"]["CloudWatchMetrics"][0]["Namespace"]), (1, &json!("revsync")), "{metrics:?}");
        assert_eq!((&metrics[0]["pipeline"], &metrics[0]["revsync_received_total"]), (&json!("revsync"), &of_it[0]["received"]));
    }
    let said = machine.log(&stack).concat();
    assert!(said.contains("dead letter: ") && !said.contains("hunter2"), "{said}");
}
