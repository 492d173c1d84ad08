"""What infra/README.md says of an event source mapping on Kafka: CloudFormation takes it, and it loses no record.

Run by `.ci/run infra`.
"""

import copy
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import cfnlint.decode.cfn_yaml
import template
from repository import listed, readme
from template import FUNCTION

SECTION = re.search(r"^## From Kafka\n(.*?)^# Runbook", readme(), re.DOTALL | re.MULTILINE)[1]


def block(text):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "block.yaml")
        file.write_text(text)
        return template.plain(cfnlint.decode.cfn_yaml.load(str(file)))


BLOCKS = [block(text) for text in re.findall(r"^```yaml\n(.*?)^```", SECTION, re.DOTALL | re.MULTILINE)]
MAPPINGS = [each["Mapping"] for each in BLOCKS if "Mapping" in each]
POLICY = next(each for each in BLOCKS if "PolicyName" in each)


class Kafka(unittest.TestCase):
    def test_the_mapping_of_each_kind_of_cluster_is_told(self):
        managed, own = (each["Properties"] for each in MAPPINGS)
        self.assertIn("AmazonManagedKafkaEventSourceConfig", managed)
        self.assertIn("SelfManagedKafkaEventSourceConfig", own)
        self.assertIn("Mapping", template.written(FUNCTION)["Resources"])

    def test_an_outage_gives_up_no_record_and_a_part_of_a_batch_can_fail(self):
        for each in MAPPINGS:
            mapping = each["Properties"]
            self.assertEqual(mapping["FunctionResponseTypes"], ["ReportBatchItemFailures"])
            self.assertGreaterEqual(mapping["ProvisionedPollerConfig"]["MinimumPollers"], 1)
            self.assertIs(mapping["BisectBatchOnFunctionError"], True)
            self.assertEqual((mapping["MaximumRetryAttempts"], mapping["MaximumRecordAgeInSeconds"]), (-1, -1))
            self.assertEqual(mapping["StartingPosition"], "TRIM_HORIZON")
            # With one, endless retries end after ten.
            self.assertNotIn("DestinationConfig", mapping)
            self.assertNotIn("FilterCriteria", mapping)

    def test_the_rights_are_to_read_and_on_nothing_else(self):
        for statement in POLICY["PolicyDocument"]["Statement"]:
            for action in listed(statement["Action"]):
                self.assertRegex(action, r"^kafka(-cluster)?:(Describe|Get|Read|Connect|AlterGroup$)")
            for resource in listed(statement["Resource"]):
                self.assertNotIn("*", resource)

    def test_the_linter_has_nothing_to_say_of_the_template_with_each_mapping_and_the_policy(self):
        with tempfile.TemporaryDirectory() as folder:
            files = []
            for number, mapping in enumerate(MAPPINGS):
                deployed = copy.deepcopy(template.resolved(FUNCTION, "existing"))
                deployed["Resources"]["Mapping"] = mapping
                role = next(each for each in deployed["Resources"].values() if each["Type"] == "AWS::IAM::Role")
                policies = [each for each in role["Properties"]["Policies"] if each["PolicyName"] != "read-the-stream"]
                self.assertLess(len(policies), len(role["Properties"]["Policies"]))
                role["Properties"]["Policies"] = [*policies, POLICY]
                files.append(str(pathlib.Path(folder, f"{number}.json")))
                pathlib.Path(files[-1]).write_text(json.dumps(deployed, indent=1))
            lint = [pathlib.Path(sys.executable).with_name("cfn-lint"), "--format", "parseable", "--", *files]
            said = subprocess.run(lint, capture_output=True, text=True)
            self.assertEqual((said.returncode, said.stdout), (0, ""), said.stderr)


if __name__ == "__main__":
    unittest.main()
