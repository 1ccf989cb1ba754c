"""Permissions of a run as rules of RBAC, for users of the reference API server."""

from harness.guest.permissions import Rule
from reference.client import Object


def as_rbac(rule: Rule) -> Object:
    if rule.paths:
        return {"nonResourceURLs": list(rule.paths), "verbs": list(rule.verbs)}
    return {"apiGroups": [rule.group], "resources": list(rule.resources), "verbs": list(rule.verbs)}
