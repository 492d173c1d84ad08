"""What the container files promise: images that run as nobody, that can be asked whether they live, and that are told only what they know; a
compose file in the worker's likeness; an example configuration that can be used.

Run by `.ci/run infra`. No container engine is needed; infra/README.md says what was tried with one.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib
import unittest

import jsonschema
import yaml
from repository import sources, variables
from template import ROOT

INFRA = ROOT / "infra"


def instructions(stage):
    """The instructions of a stage of the Containerfile: (keyword, rest)."""
    text = re.sub(r"^\s*#.*\n", "", (INFRA / "Containerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    stages = dict(re.findall(r"^(FROM \S+ AS (?:\w+)\n)(.*?)(?=^FROM |\Z)", text, flags=re.DOTALL | re.MULTILINE))
    (lines,) = [body for head, body in stages.items() if head.endswith(f" AS {stage}\n")]
    return [tuple(line.split(maxsplit=1)) for line in lines.splitlines() if line.strip()]


def of(stage, keyword):
    return [re.sub(r"\s+", " ", rest) for word, rest in instructions(stage) if word == keyword]


def told(stage):
    return dict(re.findall(r"(\w+)=(\S+)", " ".join(of(stage, "ENV"))))


class Images(unittest.TestCase):
    def test_the_linter_has_nothing_to_say(self):
        lint = [pathlib.Path(sys.executable).with_name("hadolint"), "--failure-threshold", "style", INFRA / "Containerfile"]
        said = subprocess.run(lint, capture_output=True, text=True)
        self.assertEqual((said.returncode, said.stdout), (0, ""), said.stderr)

    def test_they_are_made_from_images_that_never_change(self):
        text = (INFRA / "Containerfile").read_text()
        bases = dict(re.findall(r"^ARG (\w+)=(\S+)$", text, re.MULTILINE))
        self.assertEqual(re.findall(r"^FROM \$\{(\w+)\} AS \w+$", text, re.MULTILINE), ["RUST", "MAVEN", "JRE", "RUNTIME"])
        for name, base in bases.items():
            self.assertRegex(base, r"^[a-z0-9.]+/[a-z0-9/-]+:[a-z0-9.-]+@sha256:[0-9a-f]{64}$", name)
        # Not older than what the sources ask for.
        asked = re.search(r'^rust-version = "(\d+)\.(\d+)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)
        made = re.search(r"rust:(\d+)\.(\d+)\.", bases["RUST"])
        self.assertGreaterEqual(tuple(map(int, made.groups())), tuple(map(int, asked.groups())))

    def test_they_run_as_nobody_and_end_by_the_signal_that_is_listened_to(self):
        for stage in ["worker", "kcl"]:
            self.assertEqual((of(stage, "USER"), of(stage, "STOPSIGNAL")), (["65532:65532"], ["SIGTERM"]))
        self.assertEqual(instructions("worker")[-1], ("CMD", '["run"]'))
        self.assertEqual(of("worker", "ENTRYPOINT"), ['["/usr/local/bin/revsync"]'])

    def test_the_worker_is_asked_at_its_own_address_by_the_only_program_that_it_has(self):
        (check,) = of("worker", "HEALTHCHECK")
        command = json.loads(check.partition("CMD ")[2])
        self.assertEqual(command, ["/usr/local/bin/revsync", "health"])
        self.assertEqual(told("worker")["REVSYNC_HTTP"], f"0.0.0.0:{of('worker', 'EXPOSE')[0]}")
        patience = int(re.search(r"const PATIENCE: Duration = Duration::from_secs\((\d+)\)", sources("connector/src/cli"))[1])
        self.assertGreater(int(re.search(r"--timeout=(\d+)s", check)[1]), patience)
        self.assertEqual(of("kcl", "HEALTHCHECK"), ["NONE"])

    def test_they_are_told_nothing_that_the_command_does_not_know(self):
        for stage in ["worker", "kcl"]:
            self.assertLessEqual(told(stage).keys(), variables())
            self.assertEqual(told(stage)["REVSYNC_CONFIG"], "/etc/revsync/revsync.toml")
            self.assertIn("infra/revsync.toml /etc/revsync/revsync.toml", of(stage, "COPY"))

    def test_all_that_is_copied_is_there_and_let_into_the_build(self):
        let_in = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
        for stage in ["build", "jars", "kcl", "worker"]:
            for copied in of(stage, "COPY"):
                if not copied.startswith("--from"):
                    for name in copied.split()[:-1]:
                        self.assertTrue((ROOT / name).exists(), name)
                        self.assertTrue(any(name == each or name.startswith(each + "/") for each in let_in), name)


class Daemon(unittest.TestCase):
    def start(self, **environment):
        """Runs the start script with a java that prints what it is given; gives (exit code, arguments, properties, errors)."""
        with tempfile.TemporaryDirectory() as folder:
            java = pathlib.Path(folder, "java")
            java.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\necho --\ncat "/dev/stdin"\n')
            java.chmod(0o755)
            done = subprocess.run(
                [INFRA / "kcl/start"], env={"PATH": f"{folder}:/usr/bin:/bin", **environment}, capture_output=True, text=True, stdin=subprocess.DEVNULL
            )
        arguments, _, properties = done.stdout.partition("--\n")
        lines = [line.partition(" = ")[::2] for line in properties.splitlines() if line]
        return done.returncode, arguments.splitlines(), dict(lines), done.stderr

    def test_its_properties_are_made_from_the_environment(self):
        stream = "arn:aws:kinesis:eu-west-1:123456789012:stream/ledger"
        exit_code, arguments, properties, _ = self.start(KCL_STREAM_ARN=stream, KCL_APPLICATION="fleet", KCL_PROPERTIES="maxRecords = 5\nidle = 6")
        self.assertEqual(exit_code, 0)
        self.assertEqual(arguments[-3:], ["software.amazon.kinesis.multilang.MultiLangDaemon", "--properties-file", "/dev/stdin"])
        self.assertIn("-Xmx256m", arguments)
        wanted = {
            "executableName": "revsync kcl",
            "streamArn": stream,
            "streamName": "ledger",
            "applicationName": "fleet",
            "regionName": "eu-west-1",
            "initialPositionInStream": "TRIM_HORIZON",
            "maxLeasesForWorker": "4",
            "maxRecords": "5",
            "idle": "6",
        }
        self.assertEqual({**properties, **wanted}, properties)

    def test_what_it_is_told_comes_before_what_it_takes_by_itself(self):
        told = {"KCL_STREAM_ARN": "arn:aws:kinesis:eu-west-1:123456789012:stream/ledger", "KCL_APPLICATION": "fleet"}
        said = {"KCL_START": "LATEST", "KCL_MAX_LEASES": "9", "KCL_GRACE_MILLIS": "7", "KCL_METRICS": "NONE", "KCL_JAVA": "-Xmx1g -Da=b"}
        _, arguments, properties, _ = self.start(**told, **said)
        taken = [properties[name] for name in ["initialPositionInStream", "maxLeasesForWorker", "shutdownGraceMillis", "metricsLevel"]]
        self.assertEqual(taken, ["LATEST", "9", "7", "NONE"])
        self.assertTrue({"-Xmx1g", "-Da=b"} <= set(arguments) and "-Xmx256m" not in arguments)

    def test_what_is_missing_is_named(self):
        for given, missing in [({}, "KCL_STREAM_ARN"), ({"KCL_STREAM_ARN": "arn:aws:kinesis:eu-west-1:123456789012:stream/ledger"}, "KCL_APPLICATION")]:
            exit_code, _, _, errors = self.start(**given)
            self.assertEqual(exit_code, 2)
            self.assertIn(f"expected the variable {missing}, found none", errors)


class Compose(unittest.TestCase):
    def setUp(self):
        self.services = yaml.safe_load((INFRA / "compose.yaml").read_text())["services"]

    def test_the_worker_is_the_one_that_runs_on_aws(self):
        worker = self.services["revsync"]
        self.assertEqual((worker["build"]["dockerfile"], worker["build"]["target"]), ("infra/Containerfile", "worker"))
        self.assertTrue(worker["read_only"])
        self.assertEqual((worker["user"], worker["cap_drop"]), ("65532:65532", ["ALL"]))
        self.assertEqual({name for name in worker["environment"] if name.startswith("REVSYNC_")} - variables(), set())
        grace = int(re.search(r'grace: Span\(Duration::from_secs\((\d+)\)\)', sources("connector/src/config"))[1])
        self.assertGreater(int(worker["stop_grace_period"].removesuffix("s")), grace)

    def test_everything_waits_for_what_it_needs(self):
        for name, service in self.services.items():
            for needed, how in service.get("depends_on", {}).items():
                wanted = "service_healthy" if "healthcheck" in self.services[needed] else "service_completed_successfully"
                self.assertEqual(how, {"condition": wanted}, name)
        self.assertEqual(self.services["revsync"]["depends_on"].keys(), {"opensearch", "records"})

    def test_nothing_is_reachable_from_other_machines(self):
        for name, service in self.services.items():
            for port in service.get("ports", []):
                self.assertTrue(port.startswith("127.0.0.1:"), name)

    def test_the_emulator_is_the_one_of_the_tests_and_the_records_are_there(self):
        version = re.search(r"^ministack==(\S+)$", (ROOT / "tests/services/aws/requirements.txt").read_text(), re.MULTILINE)[1]
        self.assertTrue(self.services["aws"]["image"].endswith(f":{version}"))
        release = re.search(r'^RELEASE = "(\S+)"$', (INFRA / "emulator").read_text(), re.MULTILINE)[1]
        self.assertTrue(self.services["opensearch"]["image"].endswith(f":{release}"))
        script = self.services["records"]["command"][0]
        for record in re.search(r"for record in ([a-z ]+);", script)[1].split():
            self.assertTrue((ROOT / f"tests/fixtures/qldb/{record}.10n").exists(), record)


class Example(unittest.TestCase):
    def test_it_has_only_keys_that_there_are_and_what_a_pipeline_that_lives_on_needs(self):
        example = tomllib.loads((INFRA / "worker.toml").read_text())
        schema = json.loads((ROOT / "tests/fixtures/config/schema.json").read_text())
        jsonschema.validate(example, schema)
        self.assertEqual(example["source"]["url"].partition("://")[0], "kinesis")
        self.assertEqual([rule["deletes"] for rule in example["table"]], ["tombstone"])
        self.assertTrue({"checkpoints", "dead_letters", "http", "sink"} <= example.keys())


if __name__ == "__main__":
    unittest.main()
