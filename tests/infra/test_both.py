"""What both templates promise: what holds state is kept, encrypted and private; whoever is woken finds a section; nothing contradicts itself.

Run by `.ci/run infra`, for each set of parameters in template.py.
"""

import functools
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import template
from repository import headings, listed, readme
from template import SETS, Stack, as_text, stack

ALARM = "AWS::CloudWatch::Alarm"
STATEFUL = {"AWS::S3::Bucket", "AWS::SQS::Queue", "AWS::Kinesis::Stream", "AWS::OpenSearchService::Domain", "AWS::Logs::LogGroup"}


def for_each_set(check):
    """Runs a check for each set of parameters of each template, with the parameters and the template rendered for them."""

    @functools.wraps(check)
    def run(self):
        for file, sets in SETS.items():
            for name, parameters in sets.items():
                with self.subTest(file=file.name, set=name):
                    check(self, parameters, stack(file, name))

    return run


def for_each_file(check):
    """Runs a check for each template."""

    @functools.wraps(check)
    def run(self):
        for file in SETS:
            with self.subTest(file=file.name):
                check(self, file)

    return run


class Keeping(unittest.TestCase):
    @for_each_set
    def test_what_holds_state_outlives_the_stack(self, _, rendered):
        for name, resource in rendered.resources.items():
            if resource["Type"] in STATEFUL:
                # What costs money while it is empty does not outlive the deployment that failed to make its stack.
                kept = "RetainExceptOnCreate" if name in ["Stream", "Domain"] else "Retain"
                self.assertEqual((resource["DeletionPolicy"], resource["UpdateReplacePolicy"]), (kept, "Retain"), name)

    @for_each_set
    def test_what_holds_state_is_encrypted_with_the_key_of_the_parameter_where_there_is_one(self, parameters, rendered):
        key = parameters.get("KeyArn")
        for bucket in rendered.of_type("AWS::S3::Bucket").values():
            (rule,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
            wanted = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key} if key else {"SSEAlgorithm": "AES256"}
            self.assertEqual(rule["ServerSideEncryptionByDefault"], wanted)
        queue = rendered.one("AWS::SQS::Queue")
        self.assertEqual((queue.get("SqsManagedSseEnabled"), queue.get("KmsMasterKeyId")), (None, key) if key else (True, None))
        for stream in rendered.of_type("AWS::Kinesis::Stream").values():
            self.assertEqual(stream["StreamEncryption"], {"EncryptionType": "KMS", "KeyId": key or "alias/aws/kinesis"})
        for domain in rendered.of_type("AWS::OpenSearchService::Domain").values():
            at_rest = domain["EncryptionAtRestOptions"]
            self.assertEqual((at_rest["Enabled"], at_rest.get("KmsKeyId")), (True, key))

    @for_each_set
    def test_dead_letters_and_what_lambda_gives_up_are_private_and_travel_encrypted(self, _, rendered):
        for bucket in rendered.of_type("AWS::S3::Bucket").values():
            self.assertEqual(set(bucket["PublicAccessBlockConfiguration"].values()), {True})
            self.assertEqual(bucket["VersioningConfiguration"], {"Status": "Enabled"})
        policies = [*rendered.of_type("AWS::S3::BucketPolicy").values(), *rendered.of_type("AWS::SQS::QueuePolicy").values()]
        covered = {as_text(resource) for policy in policies for resource in listed(policy.get("Bucket") or policy["Queues"])}
        self.assertEqual(covered, {"${%s}" % name for kind in ["AWS::S3::Bucket", "AWS::SQS::Queue"] for name in rendered.of_type(kind)})
        for policy in policies:
            (statement,) = policy["PolicyDocument"]["Statement"]
            self.assertEqual((statement["Effect"], statement["Principal"]), ("Deny", "*"))
            self.assertEqual(statement["Condition"], {"Bool": {"aws:SecureTransport": False}})

    @for_each_set
    def test_records_and_dead_letters_are_kept_for_long(self, parameters, rendered):
        for stream in rendered.of_type("AWS::Kinesis::Stream").values():
            self.assertEqual(stream["RetentionPeriodHours"], parameters.get("RetentionHours", "168"))
        queue = rendered.one("AWS::SQS::Queue")
        self.assertEqual(queue["MessageRetentionPeriod"], 14 * 24 * 3600)
        self.assertNotIn("RedrivePolicy", queue)

    @for_each_set
    def test_no_name_stands_in_the_way_of_a_replacement(self, _, rendered):
        fixed = {"QueueName", "BucketName", "FunctionName", "RoleName", "LogGroupName", "AlarmName", "DashboardName", "ServiceName", "ClusterName"}
        of_another = {"AWS::Lambda::EventSourceMapping", "AWS::Logs::MetricFilter"}
        for name, resource in rendered.resources.items():
            if resource["Type"] not in of_another:
                self.assertFalse((fixed | {"Family"}) & resource.get("Properties", {}).keys(), name)


class Watching(unittest.TestCase):
    @for_each_set
    def test_every_alarm_names_a_section_of_the_runbook(self, _, rendered):
        known = headings()
        for name, alarm in rendered.of_type(ALARM).items():
            section = re.search(r"Runbook: infra/README\.md#([a-z0-9-]+)$", alarm["AlarmDescription"])
            self.assertIsNotNone(section, name)
            self.assertIn(section[1], known)
            self.assertIn("TreatMissingData", alarm)
            self.assertNotIn("Metrics", alarm)

    def test_every_section_that_the_runbook_points_to_is_there(self):
        self.assertLessEqual(set(re.findall(r"\]\(#([^)]+)\)", readme())), headings())

    @for_each_set
    def test_every_alarm_tells_the_topic_where_there_is_one(self, parameters, rendered):
        topic = parameters.get("AlarmTopicArn")
        for alarm in rendered.of_type(ALARM).values():
            self.assertEqual((alarm.get("AlarmActions"), alarm.get("OKActions")), ([topic], [topic]) if topic else (None, None))

    @for_each_file
    def test_the_lag_is_reported_at_a_quarter_and_at_half_of_the_retention(self, file):
        hours = template.written(file)["Parameters"]["RetentionHours"]["AllowedValues"]
        for each in hours:
            alarms = Stack(file, {**SETS[file]["existing"], "RetentionHours": str(each)}).of_type(ALARM)
            self.assertEqual(int(alarms["LagAlarm"]["Threshold"]), each * 3600 * 1000 // 4)
            self.assertEqual(int(alarms["LagCriticalAlarm"]["Threshold"]), each * 3600 * 1000 // 2)
        self.assertEqual({str(each) for each in hours}, template.written(file)["Mappings"]["Lag"].keys())


class Parameters(unittest.TestCase):
    @for_each_file
    def test_each_is_described_used_and_shown_in_a_group(self, file):
        written = template.written(file)
        groups = written["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]
        grouped = [name for group in groups for name in group["Parameters"]]
        self.assertEqual(sorted(grouped), sorted(written["Parameters"]))
        used = json.dumps([written[part] for part in ["Resources", "Conditions"]])
        for name, parameter in written["Parameters"].items():
            with self.subTest(name):
                self.assertTrue(parameter["Description"].endswith("."))
                self.assertTrue(f'"Ref": "{name}"' in used or "${%s}" % name in used)
                if parameter.keys() & {"AllowedValues", "AllowedPattern", "MinValue"}:
                    self.assertTrue(parameter["ConstraintDescription"].startswith("expected "))

    @for_each_file
    def test_every_condition_is_seen_both_ways(self, file):
        for name in template.written(file)["Conditions"]:
            self.assertEqual({stack(file, each).condition(name) for each in SETS[file]}, {True, False}, name)

    @for_each_set
    def test_a_set_that_makes_sense_is_taken(self, _, rendered):
        self.assertEqual(rendered.refused(), [])

    @for_each_file
    def test_the_stack_can_stand_in_every_partition(self, file):
        # A service is named alike in all of them.
        text = json.dumps([template.written(file)[part] for part in ["Resources", "Outputs"]])
        text = re.sub(r"\b(lambda|ecs-tasks)\.amazonaws\.com", "", text)
        for fixed in ["arn:aws", "amazonaws.com", "us-east-1"]:
            self.assertFalse(fixed in text, fixed)


class File(unittest.TestCase):
    @for_each_file
    def test_it_is_what_cloudformation_reads(self, file):
        for number, line in enumerate(file.read_text().splitlines(), 1):
            self.assertNotRegex(line, r"(^|[\s\[{,])[&*][A-Za-z]", f"line {number}: CloudFormation takes no anchors and aliases")

    def test_the_linter_has_nothing_to_say(self):
        with tempfile.TemporaryDirectory() as folder:
            files = []
            for file, sets in SETS.items():
                files.append(str(file))
                for name in sets:
                    files.append(str(pathlib.Path(folder, f"{file.stem}-{name}.json")))
                    pathlib.Path(files[-1]).write_text(json.dumps(template.resolved(file, name), indent=1))
            lint = [pathlib.Path(sys.executable).with_name("cfn-lint"), "--format", "parseable", "--", *files]
            said = subprocess.run(lint, capture_output=True, text=True)
            self.assertEqual((said.returncode, said.stdout), (0, ""), said.stderr)


if __name__ == "__main__":
    unittest.main()
