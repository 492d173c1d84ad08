//! The two commands of the README, as a new user runs them, and what else `infra/emulator` does.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::path::Path;

use serde_json::Value;

use crate::machine::{documented, elsewhere, machine, wait_for};

#[test]
fn the_first_documented_command_deploys_the_stack_and_the_second_shows_a_document_arriving() {
    let Some(machine) = machine() else { return };
    let documented = documented();
    assert_eq!(documented[..2], ["infra/emulator up", "infra/emulator try"]);
    assert!(machine.said.contains("stack revsync: CREATE_COMPLETE"), "{}", machine.said);

    let tried = machine.run(&documented[1]).ended_well();
    assert!(tried.out.contains("found Quillfeather in OpenSearch, after "), "{tried:?}");
    assert!(tried.out.contains("\"LastName\": \"Quillfeather\""), "{tried:?}");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/vehicle-registration/expected.json");
    let expected: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    for index in ["person", "vehicle_registration"] {
        let of = |(id, one): (&String, &Value)| (id.clone(), (one["version"].as_u64().unwrap(), one["source"].clone()));
        let expected: BTreeMap<String, (u64, Value)> = expected[index].as_object().unwrap().iter().map(of).collect();
        wait_for("all documents", || (machine.documents(index) == expected).then_some(()));
    }

    let again = machine.run(&documented[1]).ended_well();
    assert!(again.out.contains("from an earlier try: what is sent again is stale"), "{again:?}");
}

#[test]
fn an_up_that_broke_off_is_ended_by_down_and_leaves_nothing() {
    let Some(machine) = machine() else { return };
    let home = tempfile::tempdir().unwrap();
    let home = home.path().join("emulator");
    let run = |variables: &str, command: &str| elsewhere(&home, &format!("{variables} infra/emulator {command}"));
    let theirs = format!("OPENSEARCH_URL={}", machine.opensearch.url());
    let broken = run(&format!("{theirs} REVSYNC_EMULATOR_BINARIES=/nowhere"), "up");
    assert!(broken.exit == 1 && broken.err.contains("error: expected the function's binary at /nowhere/"), "{broken:?}");
    let address = std::fs::read_to_string(home.join("aws.url")).unwrap().replace("http://", "");
    assert!(TcpStream::connect(&address).is_ok(), "what was started before runs");
    run("", "down").ended_well();
    assert!(TcpStream::connect(&address).is_err() && !home.exists());
    let status = run("", "status").ended_well();
    assert_eq!(status.out, "aws: not running\nopensearch: not running\n");
    run("", "down").ended_well();
}

#[test]
fn what_cannot_be_done_is_said_with_what_to_do() {
    if machine().is_none() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let home = home.path().join("emulator");
    for (line, says) in [
        ("try", "the emulator is not running: infra/emulator up"),
        ("log", "the emulator is not running: infra/emulator up"),
        ("up BatchSizes=10", "the template has no parameter BatchSizes; did you mean BatchSize?"),
        ("up loglevel=DEBUG", "the template has no parameter loglevel; did you mean LogLevel?"),
        ("up Colour=red", "the template has no parameter Colour; infra/README.md has a table of them"),
    ] {
        let done = elsewhere(&home, &format!("infra/emulator {line}"));
        assert_eq!((done.exit, done.err), (1, format!("error: {says}\n")), "{line}");
        assert!(!home.exists(), "{line} has started something");
    }
    for line in ["up LogLevel", "try LogLevel=DEBUG"] {
        let done = elsewhere(&home, &format!("infra/emulator {line}"));
        assert!(done.exit == 2 && done.err.contains("only `up` takes parameters, and each is NAME=VALUE"), "{done:?}");
    }
}

#[test]
fn what_the_template_refuses_is_said_in_its_words() {
    let Some(machine) = machine() else { return };
    let refused = machine.run("infra/emulator up SinkAuth=basic");
    let rule = "rule Password failed: SinkAuth basic needs PasswordSecretArn, and Username where the secret does not have it\n";
    assert!(
        refused.exit == 1 && refused.err.contains("error: aws cloudformation deploy failed: ") && refused.err.ends_with(rule),
        "{refused:?}"
    );
    let nowhere = machine.run("infra/emulator try --stack elsewhere");
    assert!(nowhere.exit == 1 && nowhere.err.ends_with("; infra/emulator up --stack elsewhere deploys it\n"), "{nowhere:?}");
}
