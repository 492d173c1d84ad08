"""What the worker's template promises: one task that is replaced and not doubled, or a fleet that is never less than whole; no right is wider than
it has to be; whatever keeps records from the index wakes somebody.

Run by `.ci/run infra`. Each set of parameters in template.py is rendered and looked at.
"""

import functools
import json
import re
import unittest

import repository
import template
from repository import rights, sources
from template import DOMAIN, EXISTING, FLEET, TASK, WORKER, as_text

ALARM = "AWS::CloudWatch::Alarm"
SETS = template.SETS[WORKER]
Stack = functools.partial(template.Stack, WORKER)
stack = functools.partial(template.stack, WORKER)


def role(name, of="Role"):
    return stack(name).of_type("AWS::IAM::Role")[of]


def allowed(name, service, of="Role"):
    return repository.allowed(role(name, of), service)


def container(rendered):
    (only,) = rendered.one("AWS::ECS::TaskDefinition")["ContainerDefinitions"]
    return only


def environment(rendered):
    return {each["Name"]: as_text(each["Value"]) for each in container(rendered)["Environment"]}


def is_fleet(name):
    return SETS[name].get("Mode") == "kcl"


class Running(unittest.TestCase):
    def test_one_task_stops_before_the_next_starts_and_a_fleet_is_never_less_than_whole(self):
        for name in SETS:
            service = stack(name).one("AWS::ECS::Service")
            deployment = service["DeploymentConfiguration"]
            percents = (deployment["MinimumHealthyPercent"], deployment["MaximumPercent"])
            self.assertEqual(percents, (100, 200) if is_fleet(name) else (0, 100))
            # Spreading a single task anew would need a second one for a while.
            self.assertEqual(service["AvailabilityZoneRebalancing"], "ENABLED" if is_fleet(name) else "DISABLED")
            self.assertEqual(deployment["DeploymentCircuitBreaker"], {"Enable": True, "Rollback": True})
        self.assertEqual(stack("existing-domain").one("AWS::ECS::Service")["DesiredCount"], 1)
        self.assertEqual(stack("fleet").one("AWS::ECS::Service")["DesiredCount"], "3")
        self.assertEqual(stack("existing").one("AWS::ECS::Service")["DesiredCount"], 0)

    def test_what_is_under_way_can_be_finished_before_a_task_is_ended(self):
        parameter = template.written(WORKER)["Parameters"]["GraceSeconds"]
        default = re.search(r'grace: Span\(Duration::from_secs\((\d+)\)\)', sources("connector/src/config"))[1]
        self.assertEqual(parameter["Default"], int(default))
        margin = int(re.search(r"const MARGIN: Duration = Duration::from_secs\((\d+)\)", sources("connector/src/run"))[1])
        for name in SETS:
            rendered = stack(name)
            self.assertEqual(environment(rendered)["REVSYNC_GRACE"], f"{parameter['Default']}s")
            daemon = int(environment(rendered).get("KCL_GRACE_MILLIS", "0")) // 1000
            self.assertLess(max(parameter["MaxValue"] + margin, daemon), container(rendered)["StopTimeout"])
            if is_fleet(name):
                self.assertGreater(daemon, parameter["MaxValue"] + margin)

    def test_the_container_is_nobody_and_can_change_nothing(self):
        for name in SETS:
            task = container(stack(name))
            self.assertEqual((task["User"], task["ReadonlyRootFilesystem"]), ("65532:65532", True))
            self.assertEqual(task["LinuxParameters"]["Capabilities"], {"Drop": ["ALL"]})
            network = stack(name).one("AWS::ECS::Service")["NetworkConfiguration"]["AwsvpcConfiguration"]
            self.assertEqual(network["AssignPublicIp"], "DISABLED")
            self.assertIs(stack(name).one("AWS::ECS::Service")["EnableExecuteCommand"], False)

    def test_a_process_that_is_stuck_is_started_anew(self):
        for name in SETS:
            task = container(stack(name))
            check = task.get("HealthCheck")
            if is_fleet(name):
                self.assertIsNone(check)
            else:
                self.assertEqual(check["Command"], ["CMD", "/usr/local/bin/revsync", "health"])
                patience = int(re.search(r"const PATIENCE: Duration = Duration::from_secs\((\d+)\)", sources("connector/src/cli"))[1])
                self.assertGreater(check["Timeout"], patience)

    def test_the_container_is_told_nothing_that_it_does_not_know(self):
        start = (template.ROOT / "infra/kcl/start").read_text()
        for name in SETS:
            rendered, told = stack(name), environment(stack(name))
            for variable in told:
                known = variable in repository.variables() if variable.startswith("REVSYNC_") else "${%s:-" % variable in start or variable in start
                self.assertTrue(known, variable)
            arn = SETS[name].get("StreamArn", "${Stream.Arn}")
            self.assertEqual(told["REVSYNC_SOURCE"], f"kinesis://{arn}")
            self.assertEqual(told["REVSYNC_NAME"], SETS[name].get("PipelineName", "ledger"))
            self.assertEqual(told["REVSYNC_TO"], SETS[name]["SinkUrl"])
            self.assertEqual(told["REVSYNC_AUTH"], SETS[name].get("SinkAuth", "aws"))
            self.assertEqual("REVSYNC_AWS_REGION" in told, SETS[name].get("SinkAuth", "aws") == "aws")
            self.assertEqual(told["REVSYNC_NO_CREATE_INDEX"], "true")
            self.assertNotIn("REVSYNC_PASSWORD", told)
            for variable in ["REVSYNC_PASSWORD_SECRET", "REVSYNC_USERNAME"]:
                self.assertEqual(variable in told, name == "password")
            fleet = {variable: value for variable, value in told.items() if variable.startswith("KCL_")}
            if is_fleet(name):
                wanted = {
                    "KCL_STREAM_ARN": arn,
                    "KCL_APPLICATION": told["REVSYNC_NAME"],
                    "KCL_START": "LATEST" if SETS[name].get("Start") == "latest" else "TRIM_HORIZON",
                    "KCL_MAX_LEASES": "8",
                }
                self.assertEqual({**fleet, **wanted}, fleet)
                self.assertNotIn("REVSYNC_CHECKPOINTS", told)
            else:
                self.assertEqual((fleet, told["REVSYNC_CHECKPOINTS"]), ({}, "sink"))
            self.assertTrue(rendered.one("AWS::ECS::TaskDefinition")["NetworkMode"], "awsvpc")


class Rights(unittest.TestCase):
    def test_nothing_is_allowed_on_everything_but_what_has_no_resource(self):
        for name in SETS:
            for of in ["Role", "ExecutionRole"]:
                for effect, action, resource in rights(role(name, of)):
                    self.assertNotIn("*", action)
                    if resource == "*" and effect == "Allow":
                        self.assertIn(action, ["ecr:GetAuthorizationToken", "cloudwatch:PutMetricData"])
        (metrics,) = [policy for policy in role("fleet")["Policies"] if policy["PolicyName"] == "send-metrics"]
        (statement,) = metrics["PolicyDocument"]["Statement"]
        self.assertEqual(statement["Condition"], {"StringEquals": {"cloudwatch:namespace": "ledger"}})

    def test_only_tasks_of_this_account_have_the_roles(self):
        for name in SETS:
            for of in ["Role", "ExecutionRole"]:
                (statement,) = role(name, of)["AssumeRolePolicyDocument"]["Statement"]
                self.assertEqual(statement["Principal"], {"Service": "ecs-tasks.amazonaws.com"})
                self.assertEqual(statement["Condition"], {"StringEquals": {"aws:SourceAccount": "123456789012"}})

    def test_the_stream_is_read_and_nothing_else(self):
        actions = ["DescribeStreamSummary", "GetRecords", "GetShardIterator", "ListShards"]
        for name in SETS:
            arn = SETS[name].get("StreamArn", "${Stream.Arn}")
            self.assertEqual(allowed(name, "kinesis"), {(f"kinesis:{action}", arn) for action in actions})

    def test_dead_letters_are_written_and_never_read(self):
        probe = re.search(r'fn probe.*?\.key\("([^"]+)"\)', sources("connector/src/store/dead_letters"), re.DOTALL)[1]
        for name in SETS:
            self.assertEqual(allowed(name, "sqs"), {(f"sqs:{action}", "${DeadLetters.Arn}") for action in ["GetQueueAttributes", "SendMessage"]})
            self.assertEqual(allowed(name, "s3"), {("s3:PutObject", "${LargeDeadLetters.Arn}/*"), ("s3:DeleteObject", "${LargeDeadLetters.Arn}/" + probe)})

    def test_a_domain_is_written_without_the_right_to_create_an_index_or_to_read_a_document_but_those_of_checkpoints(self):
        for name, pattern in [("existing-domain", "ledger_*"), ("fleet", "*")]:
            arn = "arn:aws:es:eu-west-1:123456789012:domain/docs"
            wanted = {
                ("es:ESHttpGet", f"{arn}/"),
                ("es:ESHttpGet", f"{arn}/{pattern}"),
                ("es:ESHttpPost", f"{arn}/_bulk"),
                ("es:ESHttpPut", f"{arn}/{pattern}/_mapping"),
            }
            checkpoints = {
                ("es:ESHttpGet", f"{arn}/revsync-checkpoints"),
                ("es:ESHttpPut", f"{arn}/revsync-checkpoints"),
                ("es:ESHttpPost", f"{arn}/revsync-checkpoints/_refresh"),
                ("es:ESHttpPost", f"{arn}/revsync-checkpoints/_search"),
            }
            self.assertEqual(allowed(name, "es"), wanted if is_fleet(name) else wanted | checkpoints)
            denied = {(action, resource) for effect, action, resource in rights(role(name)) if effect == "Deny"}
            self.assertEqual(denied, {("es:ESHttpGet", f"{arn}/*/*"), ("es:ESHttpGet", f"{arn}/_*")})
        self.assertIn('"revsync-checkpoints"', sources("connector/src"))
        for name in ["existing", "password", "fleet-from-now-on"]:
            self.assertEqual(allowed(name, "es"), set())

    def test_a_fleet_keeps_its_leases_in_its_own_tables_and_one_task_needs_none(self):
        table = "arn:aws:dynamodb:eu-west-1:123456789012:table/ledger"
        items = ["CreateTable", "DeleteItem", "DescribeTable", "GetItem", "PutItem", "Scan", "UpdateItem"]
        tables = {(f"dynamodb:{action}", table + kind) for action in items for kind in ["", "-CoordinatorState", "-WorkerMetricStats"]}
        wanted = tables | {("dynamodb:UpdateTable", table), ("dynamodb:Query", f"{table}/index/LeaseOwnerToLeaseKeyIndex")}
        for name in SETS:
            self.assertEqual(allowed(name, "dynamodb"), wanted if is_fleet(name) else set())
            self.assertEqual(bool(allowed(name, "cloudwatch")), is_fleet(name))

    def test_keys_and_the_secret_are_used_where_they_are_named(self):
        kms = {
            "fleet": {("kms:Decrypt", template.KEY), ("kms:GenerateDataKey", template.KEY)},
            "existing-domain": {("kms:Decrypt", template.OTHER_KEY)},
            "password": {("kms:Decrypt", template.OTHER_KEY)},
        }
        for name in SETS:
            self.assertEqual(allowed(name, "kms"), kms.get(name, set()))
            secret = {("secretsmanager:GetSecretValue", template.SECRET)} if name == "password" else set()
            self.assertEqual(allowed(name, "secretsmanager"), secret)

    def test_what_starts_a_task_writes_its_log_and_fetches_its_image(self):
        for name in SETS:
            logs = {("logs:CreateLogStream", "${Log.Arn}"), ("logs:PutLogEvents", "${Log.Arn}")}
            self.assertEqual(allowed(name, "logs", "ExecutionRole"), logs)
            self.assertEqual(allowed(name, "logs"), set())
            fetched = {resource for _, resource in allowed(name, "ecr", "ExecutionRole")}
            repository_arn = SETS[name].get("RepositoryArn")
            self.assertEqual(fetched, {repository_arn, "*"} if repository_arn else set())


class Watching(unittest.TestCase):
    def test_what_can_go_wrong_has_an_alarm(self):
        metrics = {
            "GetRecords.IteratorAgeMilliseconds",
            "GetRecords.Success",
            "CPUUtilization",
            "MemoryUtilization",
            "NotReady",
            "Errors",
            "DataLoss",
            "ApproximateNumberOfMessagesVisible",
            "ApproximateAgeOfOldestMessage",
        }
        for name in SETS.keys() - {"existing"}:
            self.assertEqual({alarm["MetricName"] for alarm in stack(name).of_type(ALARM).values()}, metrics)
        # Nobody is woken by what was paused on purpose.
        self.assertFalse({"TasksAlarm", "NotReadAlarm"} & stack("existing").of_type(ALARM).keys())
        tasks = stack("fleet").of_type(ALARM)["TasksAlarm"]
        self.assertEqual((tasks["Statistic"], tasks["Threshold"], tasks["TreatMissingData"]), ("SampleCount", "3", "breaching"))

    def test_the_log_says_what_the_filters_wait_for(self):
        text = sources("connector/src")
        for name in SETS:
            rendered = stack(name)
            filters = {each["MetricTransformations"][0]["MetricName"]: each for each in rendered.of_type("AWS::Logs::MetricFilter").values()}
            for each in filters.values():
                self.assertEqual((each["LogGroupName"], each["MetricTransformations"][0]["MetricNamespace"]), ({"Ref": "Log"}, "revsync/ledger"))
                said = re.fullmatch(r'\{ \$\.(level|message) = "(.*)" \}', each["FilterPattern"])
                if said[1] == "message":
                    macro = r'tracing::(?:warn|error)!\([^;]*?"%s' % re.escape(said[2].removesuffix("*"))
                    self.assertRegex(text, macro, said[2])
                else:
                    self.assertEqual(said[2], "ERROR")
            ours = {alarm["MetricName"] for alarm in rendered.of_type(ALARM).values() if alarm["Namespace"].startswith("revsync/")}
            shown = as_text(rendered.one("AWS::CloudWatch::Dashboard")["DashboardBody"])
            self.assertLessEqual(ours, filters.keys())
            self.assertGreaterEqual(len(json.loads(shown)["widgets"]), 6)
            for metric in filters:
                self.assertIn(f'"{metric}"', shown)

    def test_the_alarms_look_at_the_service_and_the_stream_of_this_stack(self):
        for name, cluster in [("existing-domain", "${Cluster}"), ("password", "workers")]:
            for alarm in stack(name).of_type(ALARM).values():
                dimensions = {each["Name"]: as_text(each["Value"]) for each in alarm.get("Dimensions", [])}
                wanted = {
                    "AWS/ECS": {"ClusterName": cluster, "ServiceName": "${Service.Name}"},
                    "AWS/Kinesis": {"StreamName": "ledger" if "StreamArn" in SETS[name] else "${Stream}"},
                    "AWS/SQS": {"QueueName": "${DeadLetters.QueueName}"},
                    "revsync/ledger": {},
                }
                self.assertEqual(dimensions, wanted[alarm["Namespace"]])


class Parameters(unittest.TestCase):
    def test_what_contradicts_itself_is_refused_with_what_to_do(self):
        for parameters, says in [
            ({**DOMAIN, "DomainName": ""}, "SinkAuth aws needs DomainName"),
            ({**EXISTING, "DomainName": "docs"}, "DomainName is for SinkAuth aws"),
            ({**EXISTING, "SinkAuth": "basic", "Username": "revsync"}, "SinkAuth basic needs PasswordSecretArn"),
            ({**EXISTING, "PasswordSecretArn": template.SECRET}, "are for SinkAuth basic"),
            ({**EXISTING, "StreamKeyArn": template.KEY}, "StreamKeyArn is for an existing stream"),
            ({**EXISTING, **FLEET, "MemoryMiB": "1024", "Cpu": "512"}, "Mode kcl needs MemoryMiB of 2048 or more"),
        ]:
            with self.subTest(parameters):
                said = Stack({**TASK, **parameters}).refused()
                self.assertEqual(len(said), 1, said)
                self.assertIn(says, said[0])

    def test_only_sizes_that_fargate_has_are_taken(self):
        parameters = template.written(WORKER)["Parameters"]
        sizes = {256: (512, 2048), 512: (1024, 4096), 1024: (2048, 8192), 2048: (4096, 16384)}
        self.assertEqual(sizes.keys(), set(parameters["Cpu"]["AllowedValues"]))
        for cpu, (least, most) in sizes.items():
            for memory in parameters["MemoryMiB"]["AllowedValues"]:
                said = Stack({**TASK, **EXISTING, "Cpu": str(cpu), "MemoryMiB": str(memory)}).refused()
                self.assertEqual(said == [], least <= memory <= most, (cpu, memory, said))

    def test_it_can_be_deployed_from_its_file(self):
        # What is larger has to be put into a bucket first.
        self.assertLessEqual(WORKER.stat().st_size, 51_200)


if __name__ == "__main__":
    unittest.main()
