"""What the templates and the container files are compared with: the sources, the README and its sections, and what a role may do."""

import re

from template import ROOT, as_text


def listed(value):
    return value if isinstance(value, list) else [value]


def sources(*folders):
    return "\n".join(file.read_text() for folder in folders for file in sorted((ROOT / folder).rglob("*.rs")))


def variables():
    """The variables of the environment that the command or the function knows."""
    return set(re.findall(r'"(REVSYNC_[A-Z_]+)"', sources("connector/src", "lambda/src")))


def rights(role):
    """(effect, action, resource) of a role, each as text."""
    statements = [statement for policy in role["Policies"] for statement in policy["PolicyDocument"]["Statement"]]
    assert not role.get("ManagedPolicyArns")
    return {
        (statement["Effect"], action, as_text(resource))
        for statement in statements
        for action in listed(statement["Action"])
        for resource in listed(statement["Resource"])
    }


def allowed(role, service):
    return {(action, resource) for effect, action, resource in rights(role) if effect == "Allow" and action.startswith(service + ":")}


def readme():
    return (ROOT / "infra/README.md").read_text()


def headings():
    """The anchors of infra/README.md, as GitHub makes them."""
    text = readme()
    titles = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE), re.MULTILINE)
    return {re.sub(r"[^a-z0-9 _-]", "", title.lower()).strip().replace(" ", "-") for title in titles}
