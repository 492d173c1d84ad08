"""What the function's template promises: no record is given up without a trace, no right is wider than it has to be, whoever is woken finds a section.

Run by `.ci/run infra`. Each set of parameters in template.py is rendered and looked at; what is said in the template of an existing thing (a
heading, a metric, a variable of the environment) is looked for where it is.
"""

import functools
import json
import re
import unittest

import repository
import template
from repository import listed, readme, sources
from template import EXISTING, FUNCTION, ROOT, as_text

ALARM = "AWS::CloudWatch::Alarm"
SETS = template.SETS[FUNCTION]
Stack = functools.partial(template.Stack, FUNCTION)
stack = functools.partial(template.stack, FUNCTION)
written = functools.partial(template.written, FUNCTION)


def rights(name):
    return repository.rights(stack(name).one("AWS::IAM::Role"))


def allowed(name, service):
    return repository.allowed(stack(name).one("AWS::IAM::Role"), service)


def rendered_sets():
    return [(name, stack(name)) for name in SETS]


def for_each_set(check):
    """Runs a check for each set of parameters, with its name and the template rendered for it."""

    @functools.wraps(check)
    def run(self):
        for name, rendered in rendered_sets():
            with self.subTest(name):
                check(self, name, rendered)

    return run


class Delivery(unittest.TestCase):
    @for_each_set
    def test_an_outage_gives_up_no_record(self, _, rendered):
        mapping = rendered.one("AWS::Lambda::EventSourceMapping")
        self.assertEqual(mapping["FunctionResponseTypes"], ["ReportBatchItemFailures"])
        self.assertIs(mapping["BisectBatchOnFunctionError"], True)
        self.assertEqual((mapping["MaximumRetryAttempts"], mapping["MaximumRecordAgeInSeconds"]), ("-1", "-1"))
        self.assertEqual(mapping["StartingPosition"], "TRIM_HORIZON")
        self.assertNotIn("FilterCriteria", mapping)
        self.assertNotIn("TumblingWindowInSeconds", mapping)

    @for_each_set
    def test_what_lambda_gives_up_all_the_same_goes_to_a_bucket_that_the_role_may_write(self, name, rendered):
        (destination,) = rendered.one("AWS::Lambda::EventSourceMapping")["DestinationConfig"]["OnFailure"].values()
        self.assertEqual(destination, {"Fn::GetAtt": ["OnFailure", "Arn"]})
        self.assertIn("OnFailure", rendered.of_type("AWS::S3::Bucket"))
        self.assertLessEqual({("s3:PutObject", "${OnFailure.Arn}/*"), ("s3:ListBucket", "${OnFailure.Arn}")}, allowed(name, "s3"))

    @for_each_set
    def test_the_function_has_no_dead_letter_queue_of_its_own(self, _, rendered):
        self.assertFalse({"DeadLetterConfig", "DeadLetterQueue"} & rendered.one("AWS::Lambda::Function").keys())
        self.assertFalse(rendered.of_type("AWS::Lambda::EventInvokeConfig"))

    def test_the_stream_and_the_mapping_are_those_of_the_parameters(self):
        for name, rendered in rendered_sets():
            wanted = SETS[name].get("StreamArn", {"Fn::GetAtt": ["Stream", "Arn"]})
            self.assertEqual(rendered.one("AWS::Lambda::EventSourceMapping")["EventSourceArn"], wanted)
            self.assertEqual(bool(rendered.of_type("AWS::Kinesis::Stream")), "StreamArn" not in SETS[name])
        self.assertEqual(stack("existing").one("AWS::Kinesis::Stream")["StreamModeDetails"], {"StreamMode": "ON_DEMAND"})
        self.assertEqual(stack("password").one("AWS::Kinesis::Stream")["ShardCount"], "4")

    def test_the_function_answers_before_it_is_ended(self):
        margin = int(re.search(r"const MARGIN: Duration = Duration::from_secs\((\d+)\)", sources("lambda/src"))[1])
        request = int(re.search(r"request_timeout: Duration::from_secs\((\d+)\)", sources("connector/src/sink/opensearch"))[1])
        timeout = written()["Parameters"]["TimeoutSeconds"]
        self.assertGreater(timeout["Default"], request + 2 * margin)
        self.assertGreater(timeout["MinValue"], 4 * margin)
        for _, rendered in rendered_sets():
            self.assertEqual(rendered.one("AWS::Lambda::Function")["Timeout"], str(timeout["Default"]))

    def test_the_function_is_told_nothing_that_it_does_not_know(self):
        known = repository.variables()
        for name, rendered in rendered_sets():
            variables = rendered.one("AWS::Lambda::Function")["Environment"]["Variables"]
            self.assertLessEqual(variables.keys(), known)
            self.assertEqual(variables["REVSYNC_NO_CREATE_INDEX"], "true")
            self.assertEqual(variables["REVSYNC_NAME"], SETS[name].get("PipelineName", "ledger"))
            self.assertEqual(variables["REVSYNC_AUTH"], SETS[name].get("SinkAuth", "aws"))
            self.assertEqual(as_text(variables["REVSYNC_TO"]), SETS[name].get("SinkUrl", "https://${Domain.DomainEndpoint}"))
            self.assertEqual("REVSYNC_PASSWORD_SECRET" in variables, name == "password")
            self.assertEqual("REVSYNC_USERNAME" in variables, name == "password")
            self.assertNotIn("REVSYNC_PASSWORD", variables)

    def test_the_package_is_the_one_that_the_readme_builds(self):
        self.assertEqual(written()["Resources"]["Function"]["Properties"]["CodeUri"], "../target/lambda/revsync-lambda/bootstrap.zip")
        self.assertIn("-p revsync-lambda --output-format zip --include revsync.toml", readme())
        for _, rendered in rendered_sets():
            function = rendered.one("AWS::Lambda::Function")
            self.assertEqual((function["Runtime"], function["Handler"]), ("provided.al2023", "bootstrap"))


class Rights(unittest.TestCase):
    @for_each_set
    def test_nothing_is_allowed_on_everything_but_describing_networks(self, name, _):
        for effect, action, resource in rights(name):
            self.assertNotIn("*", action)
            if resource == "*" and effect == "Allow":
                self.assertTrue(action.startswith("ec2:Describe"), action)
                self.assertEqual(name, "created-domain-in-a-vpc")

    def test_networks_are_for_lambda_and_not_for_the_code_of_the_function(self):
        role = stack("created-domain-in-a-vpc").one("AWS::IAM::Role")
        (policy,) = [policy for policy in role["Policies"] if policy["PolicyName"] == "enter-the-vpc"]
        denied = [each for each in policy["PolicyDocument"]["Statement"] if each["Effect"] == "Deny"]
        self.assertEqual({action for action, _ in allowed("created-domain-in-a-vpc", "ec2")}, set(denied[0]["Action"]))
        functions = "arn:aws:lambda:eu-west-1:123456789012:function:*"
        self.assertEqual(denied[0]["Condition"], {"ArnLike": {"lambda:SourceFunctionArn": functions}})

    def test_the_stream_is_read_and_nothing_else(self):
        actions = ["DescribeStream", "DescribeStreamSummary", "GetRecords", "GetShardIterator", "ListShards"]
        for name, _ in rendered_sets():
            arn = SETS[name].get("StreamArn", "${Stream.Arn}")
            self.assertEqual(allowed(name, "kinesis"), {(f"kinesis:{action}", arn) for action in actions})

    @for_each_set
    def test_dead_letters_are_written_and_never_read(self, name, _):
        self.assertEqual(allowed(name, "sqs"), {(f"sqs:{action}", "${DeadLetters.Arn}") for action in ["GetQueueAttributes", "SendMessage"]})
        large = {(action, resource) for action, resource in allowed(name, "s3") if "LargeDeadLetters" in resource}
        probe = re.search(r'fn probe.*?\.key\("([^"]+)"\)', sources("connector/src/store/dead_letters"), re.DOTALL)[1]
        self.assertEqual(large, {("s3:PutObject", "${LargeDeadLetters.Arn}/*"), ("s3:DeleteObject", "${LargeDeadLetters.Arn}/" + probe)})

    def test_a_domain_is_written_without_the_right_to_create_an_index_or_to_read_a_document(self):
        for name, domain, pattern in [("created-domain", "revsync-1a2b3c4d", "*"), ("existing-domain", "docs", "ledger_*")]:
            arn = f"arn:aws:es:eu-west-1:123456789012:domain/{domain}"
            wanted = {
                ("es:ESHttpGet", f"{arn}/"),
                ("es:ESHttpGet", f"{arn}/{pattern}"),
                ("es:ESHttpPost", f"{arn}/_bulk"),
                ("es:ESHttpPut", f"{arn}/{pattern}/_mapping"),
            }
            self.assertEqual(allowed(name, "es"), wanted)
            denied = {(action, resource) for effect, action, resource in rights(name) if effect == "Deny"}
            self.assertEqual(denied, {("es:ESHttpGet", f"{arn}/*/*"), ("es:ESHttpGet", f"{arn}/_*")})
        for name in ["existing", "password", "collection"]:
            self.assertEqual(allowed(name, "es"), set())

    def test_a_collection_lets_the_role_write_to_the_indices_of_the_pattern(self):
        self.assertEqual(allowed("collection", "aoss"), {("aoss:APIAccessAll", "arn:aws:aoss:eu-west-1:123456789012:collection/abc123")})
        (policy,) = json.loads(as_text(stack("collection").one("AWS::OpenSearchServerless::AccessPolicy")["Policy"]))
        self.assertEqual(policy["Principal"], ["${Role.Arn}"])
        (rule,) = policy["Rules"]
        self.assertEqual(rule["Resource"], ["index/docs/*"])
        self.assertNotIn("aoss:CreateIndex", rule["Permission"])
        for name in SETS.keys() - {"collection"}:
            self.assertEqual(allowed(name, "aoss"), set())

    def test_keys_and_the_secret_are_used_where_they_are_named(self):
        kms = {
            "created-domain-in-a-vpc": {("kms:Decrypt", template.KEY), ("kms:GenerateDataKey", template.KEY)},
            "existing-domain": {("kms:Decrypt", template.OTHER_KEY)},
            "password": {("kms:Decrypt", template.OTHER_KEY)},
        }
        for name, _ in rendered_sets():
            self.assertEqual(allowed(name, "kms"), kms.get(name, set()))
            secret = {("secretsmanager:GetSecretValue", template.SECRET)} if name == "password" else set()
            self.assertEqual(allowed(name, "secretsmanager"), secret)

    def test_a_created_domain_lets_in_the_function_and_its_administrator_over_tls(self):
        for name in [name for name in SETS if name.startswith("created-domain")]:
            domain = stack(name).one("AWS::OpenSearchService::Domain")
            administrator, *role = domain["AccessPolicies"]["Statement"]
            self.assertEqual(administrator["Principal"], {"AWS": template.ADMINISTRATOR})
            self.assertEqual(administrator["Resource"], [f"arn:aws:es:eu-west-1:123456789012:domain/{domain['DomainName']}/*"])
            # Either policy is enough for a request: what the role may not by its own, it may not here.
            self.assertEqual({json.dumps(statement["Principal"]) for statement in role}, {json.dumps({"AWS": {"Fn::GetAtt": ["Role", "Arn"]}})})
            here = {(each["Action"], resource) for each in role for resource in listed(each["Resource"])}
            self.assertEqual(here, allowed(name, "es"))
            self.assertTrue(domain["DomainEndpointOptions"]["EnforceHTTPS"])
            self.assertIn("TLS-1-2", domain["DomainEndpointOptions"]["TLSSecurityPolicy"])
            self.assertTrue(domain["NodeToNodeEncryptionOptions"]["Enabled"])
            self.assertTrue(domain["AdvancedSecurityOptions"]["Enabled"])
            self.assertEqual(domain["AdvancedSecurityOptions"]["MasterUserOptions"], {"MasterUserARN": template.ADMINISTRATOR})


class Watching(unittest.TestCase):
    def test_what_can_go_wrong_has_an_alarm(self):
        metrics = {
            "IteratorAge",
            "Errors",
            "Throttles",
            "Invocations",
            "DroppedEventCount",
            "OnFailureDestinationDeliveredEventCount",
            "DestinationDeliveryFailures",
            "ApproximateNumberOfMessagesVisible",
            "ApproximateAgeOfOldestMessage",
            "revsync_dead_letters_total",
            "revsync_pending",
            "revsync_retries_total",
        }
        self.assertEqual({alarm["MetricName"] for alarm in stack("password").of_type(ALARM).values()}, metrics)
        self.assertNotIn("SilenceAlarm", stack("existing").of_type(ALARM))
        self.assertLess(int(stack("password").of_type(ALARM)["DeadLettersOldAlarm"]["Threshold"]), 14 * 24 * 3600)

    def test_metrics_of_the_function_are_those_that_it_writes(self):
        text = (ROOT / "connector/src/metrics/instruments.rs").read_text()
        instrument = r'\(\s*"(revsync_\w+)",\s*Kind::\w+,\s*Unit::\w+,\s*(?:None|Some\("(\w+)"\)),'
        labels = dict(re.findall(instrument, text))
        self.assertEqual(len(labels), sum(map(int, re.findall(r"const [A-Z]+: \[Instrument; (\d+)\]", text))))
        classes = re.search(r"CLASSES: \[&str; \d+\] = \[([^\]]*)\]", text)[1]
        for _, rendered in rendered_sets():
            pipeline = rendered.one("AWS::Lambda::Function")["Environment"]["Variables"]["REVSYNC_NAME"]
            for alarm in rendered.of_type(ALARM).values():
                if alarm["Namespace"] == "revsync":
                    dimensions = {each["Name"]: each["Value"] for each in alarm["Dimensions"]}
                    self.assertEqual(dimensions.pop("pipeline"), pipeline)
                    label = labels[alarm["MetricName"]]
                    self.assertEqual(list(dimensions), [label] if label else [])
                    self.assertLessEqual({f'"{value}"' for value in dimensions.values()}, set(classes.split(", ")))
            shown = as_text(rendered.one("AWS::CloudWatch::Dashboard")["DashboardBody"])
            self.assertLessEqual(set(re.findall(r'"(revsync_\w+)"', shown)), labels.keys())
            self.assertGreaterEqual(len(json.loads(shown)["widgets"]), 8)


class Parameters(unittest.TestCase):
    def test_what_contradicts_itself_is_refused_with_what_to_do(self):
        domain = template.DOMAIN
        for parameters, says in [
            ({}, "No sink: set SinkUrl to an existing OpenSearch, or AdministratorArn to have a domain created"),
            ({"AdministratorArn": template.ADMINISTRATOR, "SinkAuth": "none"}, "A created domain takes SinkAuth aws"),
            ({"AdministratorArn": template.ADMINISTRATOR, "DomainName": "docs"}, "DomainName names an existing domain"),
            ({**domain, "DomainName": ""}, "SinkAuth aws with SinkUrl needs DomainName"),
            ({**domain, "AdministratorArn": template.ADMINISTRATOR}, "AdministratorArn is for a created domain"),
            ({**EXISTING, "SinkAuth": "basic", "Username": "revsync"}, "SinkAuth basic needs PasswordSecretArn"),
            ({**EXISTING, "PasswordSecretArn": template.SECRET}, "are for SinkAuth basic"),
            ({**EXISTING, "SinkAuth": "aoss"}, "SinkAuth aoss needs CollectionName"),
            ({**EXISTING, "CollectionName": "docs"}, "CollectionName is for SinkAuth aoss"),
            ({**EXISTING, "StreamKeyArn": template.KEY}, "StreamKeyArn is for an existing stream"),
        ]:
            with self.subTest(parameters):
                said = Stack(parameters).refused()
                self.assertEqual(len(said), 1, said)
                self.assertIn(says, said[0])


if __name__ == "__main__":
    unittest.main()
