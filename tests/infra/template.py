"""A template as CloudFormation sees it: read, put through the SAM transform where it asks for that, and rendered for a set of parameters.

What only AWS knows stays as it is written: `Ref` and `Fn::GetAtt` of a resource. Everything else becomes a plain value, so that a test reads
what would be deployed and not how it is written.
"""

import copy
import functools
import logging
import os
import pathlib
import re

import cfnlint.decode.cfn_yaml
from samtranslator.translator.transform import transform

ROOT = pathlib.Path(__file__).resolve().parents[2]
FUNCTION = ROOT / "infra/template.yaml"
WORKER = ROOT / "infra/worker.yaml"
PSEUDO = {
    "AWS::AccountId": "123456789012",
    "AWS::Partition": "aws",
    "AWS::Region": "eu-west-1",
    "AWS::StackId": "arn:aws:cloudformation:eu-west-1:123456789012:stack/ledger/1a2b3c4d-0000-0000-0000-000000000000",
    "AWS::StackName": "ledger",
    "AWS::URLSuffix": "amazonaws.com",
}
NOTHING = object()

ARN = "arn:aws:%s:eu-west-1:123456789012:%s"
ADMINISTRATOR = "arn:aws:iam::123456789012:role/administrator"
KEY = ARN % ("kms", "key/1234abcd-12ab-34cd-56ef-1234567890ab")
OTHER_KEY = ARN % ("kms", "key/00000000-12ab-34cd-56ef-1234567890ab")
STREAM = ARN % ("kinesis", "stream/ledger")
SECRET = ARN % ("secretsmanager", "secret:search-AbCdEf")
EXISTING = {"SinkUrl": "https://search.example.com:9200", "SinkAuth": "none"}
DOMAIN = {"SinkUrl": "https://search-docs-x.eu-west-1.es.amazonaws.com", "SinkAuth": "aws", "DomainName": "docs"}

# Every condition of a template is true in one of its sets and false in another.
FUNCTION_SETS = {
    "existing": {**EXISTING, "SilenceHours": "0"},
    "existing-domain": {**DOMAIN, "IndexPattern": "ledger_*", "StreamArn": STREAM, "StreamKeyArn": OTHER_KEY, "PipelineName": "search"},
    "password": {
        **EXISTING,
        "SinkAuth": "basic",
        "Username": "revsync",
        "PasswordSecretArn": SECRET,
        "PasswordSecretKeyArn": OTHER_KEY,
        "StreamShards": "4",
        "ReservedConcurrency": "4",
        "AlarmTopicArn": ARN % ("sns", "operators"),
    },
    "created-domain": {"AdministratorArn": ADMINISTRATOR, "DomainInstances": "1"},
    "created-domain-in-a-vpc": {
        "AdministratorArn": ADMINISTRATOR,
        "DomainManagers": "3",
        "SubnetIds": "subnet-0123456789abcdef0,subnet-0123456789abcdef1",
        "SecurityGroupIds": "sg-0123456789abcdef0",
        "KeyArn": KEY,
        "Architecture": "arm64",
    },
    "created-domain-of-three-zones": {"AdministratorArn": ADMINISTRATOR, "DomainInstances": "3", "RetentionHours": "24"},
    "collection": {"SinkUrl": "https://abc123.eu-west-1.aoss.amazonaws.com", "SinkAuth": "aoss", "CollectionName": "docs"},
}

TASK = {
    "Image": "123456789012.dkr.ecr.eu-west-1.amazonaws.com/revsync:1.0.0",
    "SubnetIds": "subnet-0123456789abcdef0,subnet-0123456789abcdef1",
    "SecurityGroupIds": "sg-0123456789abcdef0",
}
FLEET = {"Mode": "kcl", "Cpu": "1024", "MemoryMiB": "4096"}
WORKER_SETS = {
    "existing": {**TASK, **EXISTING, "Running": "false"},
    "existing-domain": {**TASK, **DOMAIN, "IndexPattern": "ledger_*", "StreamArn": STREAM, "StreamKeyArn": OTHER_KEY, "PipelineName": "search"},
    "password": {
        **TASK,
        **EXISTING,
        "SinkAuth": "basic",
        "Username": "revsync",
        "PasswordSecretArn": SECRET,
        "PasswordSecretKeyArn": OTHER_KEY,
        "StreamShards": "4",
        "AlarmTopicArn": ARN % ("sns", "operators"),
        "ClusterName": "workers",
    },
    "fleet": {**TASK, **DOMAIN, **FLEET, "Tasks": "3", "KeyArn": KEY, "RepositoryArn": ARN % ("ecr", "repository/revsync")},
    "fleet-from-now-on": {**TASK, **EXISTING, **FLEET, "Start": "latest", "Architecture": "ARM64", "RetentionHours": "24"},
}
SETS = {FUNCTION: FUNCTION_SETS, WORKER: WORKER_SETS}


@functools.cache
def written(file):
    """A template as it is written, with the short forms of functions spelled out."""
    return plain(cfnlint.decode.cfn_yaml.load(str(file)))


def plain(value):
    """The same without the line numbers that the linter's reader keeps."""
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, list):
        return [plain(part) for part in value]
    return str(value) if isinstance(value, str) else value


class NoManagedPolicies:
    def load(self):
        raise AssertionError("the template names a managed policy")


@functools.cache
def transformed(file):
    """A template after the SAM transform, with the package where `aws cloudformation package` puts it."""
    template = copy.deepcopy(written(file))
    if "Transform" not in template:
        return template
    template["Resources"]["Function"]["Properties"]["CodeUri"] = "s3://packages/bootstrap.zip"
    os.environ.setdefault("AWS_DEFAULT_REGION", PSEUDO["AWS::Region"])
    logging.getLogger("samtranslator").setLevel(logging.CRITICAL)
    return transform(template, {}, NoManagedPolicies())


class Stack:
    """A template rendered for a set of parameters."""

    def __init__(self, file, parameters, pseudo=PSEUDO):
        self.template = transformed(file)
        known = self.template["Parameters"]
        assert not parameters.keys() - known.keys(), parameters.keys() - known.keys()
        self.parameters = {}
        for name, parameter in known.items():
            value = str(parameters[name] if name in parameters else parameter["Default"])
            assert re.fullmatch(parameter.get("AllowedPattern", ".*"), value), (name, value)
            assert value in map(str, parameter.get("AllowedValues", [value])), (name, value)
            self.parameters[name] = value.split(",") if "List" in parameter["Type"] else value
        self.pseudo = pseudo
        resources = self.template["Resources"]
        self.resources = {
            name: {key: self.value(part) for key, part in resource.items() if key != "Condition"}
            for name, resource in resources.items()
            if self.holds(resource)
        }
        self.outputs = {name: self.value(output["Value"]) for name, output in self.template["Outputs"].items() if self.holds(output)}

    def holds(self, part):
        return "Condition" not in part or self.condition(part["Condition"])

    def condition(self, name):
        return self.value(self.template["Conditions"][name])

    def refused(self):
        """What the rules say against the parameters."""
        said = []
        for rule in self.template["Rules"].values():
            if "RuleCondition" not in rule or self.value(rule["RuleCondition"]):
                said += [each["AssertDescription"] for each in rule["Assertions"] if not self.value(each["Assert"])]
        return said

    def of_type(self, kind):
        return {name: resource["Properties"] for name, resource in self.resources.items() if resource["Type"] == kind}

    def one(self, kind):
        (properties,) = self.of_type(kind).values()
        return properties

    def value(self, part):
        if isinstance(part, list):
            return [value for value in map(self.value, part) if value is not NOTHING]
        if not isinstance(part, dict):
            return part
        if len(part) == 1:
            ((key, argument),) = part.items()
            if key == "Ref":
                return self.reference(argument)
            if key == "Condition" and isinstance(argument, str):
                return self.condition(argument)
            if key.startswith("Fn::") and key != "Fn::GetAtt":
                return getattr(self, key.removeprefix("Fn::").lower() + "_")(argument)
        values = {key: self.value(value) for key, value in part.items()}
        return {key: value for key, value in values.items() if value is not NOTHING}

    def reference(self, name):
        if name == "AWS::NoValue":
            return NOTHING
        if name in self.parameters:
            return self.parameters[name]
        return self.pseudo.get(name, {"Ref": name})

    def if_(self, argument):
        name, then, otherwise = argument
        return self.value(then if self.condition(name) else otherwise)

    def equals_(self, argument):
        left, right = map(self.value, argument)
        return str(left) == str(right)

    def not_(self, argument):
        return not self.value(argument[0])

    def and_(self, argument):
        return all(map(self.value, argument))

    def or_(self, argument):
        return any(map(self.value, argument))

    def findinmap_(self, argument):
        mapping, first, second = map(self.value, argument)
        return self.template["Mappings"][mapping][str(first)][second]

    def select_(self, argument):
        at, values = map(self.value, argument)
        return values[int(at)]

    def split_(self, argument):
        separator, text = map(self.value, argument)
        return text.split(separator)

    def join_(self, argument):
        separator, values = map(self.value, argument)
        return separator.join(values)

    def sub_(self, argument):
        text, names = argument if isinstance(argument, list) else (argument, {})
        names = {name: self.value(value) for name, value in names.items()}

        def found(match):
            name = match[1]
            value = names[name] if name in names else {"Fn::GetAtt": name.split(".")} if "." in name else self.reference(name)
            return as_text(value)

        text = re.sub(r"\$\{([^!}]+)\}", found, text)
        return {"Fn::Sub": text} if "${" in text else text


def as_text(value):
    """A rendered value inside a text; what only AWS knows is `${…}`."""
    if not isinstance(value, dict):
        return str(value)
    ((key, argument),) = value.items()
    return argument if key == "Fn::Sub" else "${%s}" % (argument if key == "Ref" else ".".join(argument))


@functools.cache
def stack(file, name):
    return Stack(file, SETS[file][name])


def resolved(file, name):
    """A template of one set without parameters and conditions: the linter then judges what would be deployed."""
    return {"AWSTemplateFormatVersion": "2010-09-09", "Resources": stack(file, name).resources}
