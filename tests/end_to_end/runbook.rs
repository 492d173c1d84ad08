//! Commands of the runbook, as they stand there: on a stack of its own, whose function they end and start.

use serde_json::json;

use crate::machine::{Stack, blocks, machine, wait_for};
use crate::qldb_stream::{binary, put, revision};

const NAME: &str = "runbook";
const INDEX: &str = "runbook";

/// What a shell needs before the commands of the runbook: the emulator, and what the section on deploying defines for this stack.
fn prelude() -> String {
    let defined: Vec<String> =
        blocks("Deploy").into_iter().filter(|block| block.contains("output() {") || block.contains("LETTERS=")).collect();
    assert_eq!(defined.len(), 2);
    let defined = defined.concat().replace("STACK=ledger", &format!("STACK={NAME}")).replace(" --auth aws --aws-region eu-west-1", "");
    format!("set -e\neval \"$(infra/emulator env)\"\n{{\n{defined}}} > /dev/null\n")
}

#[test]
fn an_index_that_was_lost_is_made_anew_and_filled_by_a_restart_and_a_replay() {
    let Some(machine) = machine() else { return };
    let stack = Stack::of(&machine.run(&format!("infra/emulator up --stack {NAME} TimeoutSeconds=15")).ended_well().out);
    let setup = stack.output("Step1CreateIndices").replace("vehicle_registration", INDEX);
    let stream = stack.output("StreamName");
    machine.revsync(&setup).ended_well();
    machine.put(stream, &[binary(&[revision("Runbook", "1", 3, &put("before"))])]);
    wait_for("the document", || machine.documents(INDEX).contains_key("1").then_some(()));

    assert_eq!(machine.ask("DELETE", &format!("/{INDEX}-000001"), &json!(null)).0, 200);
    machine.revsync(&setup).ended_well();
    let run = |commands: &str| machine.run(&format!("{}{commands}", prelude())).ended_well();
    run(&blocks("Restarting the function").concat());
    machine.put(stream, &[binary(&[revision("Runbook", "2", 0, &put("after"))])]);
    wait_for("what came after", || machine.documents(INDEX).contains_key("2").then_some(()));
    assert!(!machine.documents(INDEX).contains_key("1"), "nothing brings back by itself what came before");

    // This emulator knows no time to begin at.
    let at_a_time = "AT_TIMESTAMP --starting-position-timestamp 2026-01-31T00:00:00Z";
    let replay = blocks("Replaying the stream").concat();
    assert!(replay.contains(at_a_time), "{replay}");
    let replay = replay.replace(at_a_time, "TRIM_HORIZON");
    let (begins, ends) = replay.split_once("aws lambda delete-event-source-mapping").unwrap();
    // Lambda refuses a second mapping of a stream to the same function; this emulator does not.
    assert!(begins.contains(r#"create-event-source-mapping --function-name "$FUNCTION:$VERSION""#), "{begins}");
    let said = run(&format!("{begins}echo \"$FUNCTION $VERSION $REPLAY\""));
    wait_for("what came before", || machine.documents(INDEX).contains_key("1").then_some(()));
    let [function, version, mapping] = said.out.split_whitespace().collect::<Vec<_>>()[..] else { panic!("{said:?}") };
    run(&format!("FUNCTION={function} VERSION={version} REPLAY={mapping}\naws lambda delete-event-source-mapping{ends}"));
    let left = |of: &str, list: &str| machine.aws(&format!("lambda {of} --function-name {function}"))[list].as_array().unwrap().len();
    wait_for("the end of the replay", || (left("list-event-source-mappings", "EventSourceMappings") == 1).then_some(()));
    assert_eq!(left("list-versions-by-function", "Versions"), 1);

    run(&blocks("Pausing").concat());
    let state = machine.aws(&format!("lambda get-event-source-mapping --uuid {}", stack.output("MappingId")));
    assert_eq!(state["State"], "Enabled");
    let checked = run("revsync --config infra/revsync.toml check $SINK $LETTERS");
    assert!(checked.out.contains("✓ sink") && !checked.out.contains('✗'), "{checked:?}");
    let listed = run("revsync dead-letters list $LETTERS");
    assert_eq!(listed.out, "no dead letters\n");
}
