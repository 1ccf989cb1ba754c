"""The permissions of a run on someone else's cluster. `deploy/rbac.yaml` grants them, and a run checks for them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from harness.api.client import Api
from harness.errors import DistrustError
from harness.guest import errors


@dataclass(frozen=True, slots=True)
class Rule:
    """Verbs on resources of an API group in all namespaces, or on URL `paths`. `why` completes "this rule is needed to
    …". `without` is the effect on a run without the rule, or "" if no run works without the rule.
    """

    verbs: tuple[str, ...]
    group: str = ""
    resources: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    why: str = ""
    without: str = ""

    def reviews(self) -> Iterator[dict[str, Any]]:
        """Yield the spec of a SelfSubjectAccessReview for each permission."""
        for verb in self.verbs:
            for path in self.paths:
                yield {"nonResourceAttributes": {"path": path, "verb": verb}}
            for resource in self.resources:
                plural, _, subresource = resource.partition("/")
                asked = {"group": self.group, "resource": plural, "subresource": subresource, "verb": verb}
                yield {"resourceAttributes": {key: value for key, value in asked.items() if value}}


_WRITE = ("create", "delete", "get", "list", "patch", "update")

RULES: tuple[Rule, ...] = (
    Rule(("create", "delete", "get", "list", "patch"), "", ("namespaces",), why="create and delete its own namespaces"),
    Rule(("create", "delete", "get", "update"), "coordination.k8s.io", ("leases",), why="exclude a second run"),
    Rule((*_WRITE, "deletecollection"), "", ("pods",), why="run servers and clients"),
    Rule(_WRITE, "", ("services",), why="send requests to Services"),
    Rule(("get", "patch", "update"), "", ("pods/status", "services/status"), why="report readiness and addresses"),
    Rule(_WRITE, "discovery.k8s.io", ("endpointslices",), why="read hints, and write its own slices"),
    Rule(("get", "list"), "", ("nodes",), why="read zones and addresses"),
    Rule(("get",), "", ("pods/proxy",), why="let client pods open connections"),
    Rule(("get", "list"), "", ("events",), why="report why a pod does not start"),
    Rule(
        ("get", "list"),
        "apps",
        ("daemonsets",),
        why="report which proxy is installed",
        without="the report does not name the installed proxy",
    ),
    Rule(
        ("get",),
        paths=("/metrics",),
        why="read feature gates and the API server's metrics",
        without="feature gates are unknown, and must be set with --feature-gates",
    ),
)

DISRUPTIVE: tuple[Rule, ...] = (
    Rule(("patch",), "", ("nodes",), why="move, taint and cordon nodes, and restore them"),
    Rule(("create",), "", ("pods/eviction",), why="drain nodes of the run's own pods"),
)
"""The additional rules for a run with --allow-disruptive."""


@dataclass(frozen=True, slots=True)
class DeniedRule:
    rule: Rule
    what: tuple[str, ...]

    def __str__(self) -> str:
        return f"may not {', '.join(self.what)} (needed to {self.rule.why})"


def denied(api: Api, rules: Iterable[Rule] = RULES) -> list[DeniedRule]:
    """Return the rules whose permissions this user lacks. Raises `DistrustError` if a review fails."""
    found = []
    for rule in rules:
        missing = [_named(review) for review in rule.reviews() if not _is_allowed(api, review)]
        if missing:
            found.append(DeniedRule(rule, tuple(missing)))
    return found


def _is_allowed(api: Api, spec: dict[str, Any]) -> bool:
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec}
    answer = api.request("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
    if answer.code == 404:  # the API server has no reviews, so requests without permission fail later
        return True
    if answer.code >= 400:
        raise DistrustError(errors.of_answer(answer, doing="check its permissions"))
    return bool((answer.body.get("status") or {}).get("allowed"))


def _named(review: dict[str, Any]) -> str:
    if path := review.get("nonResourceAttributes"):
        return f"{path['verb']} {path['path']}"
    asked = review["resourceAttributes"]
    resource = "/".join(filter(None, (asked["resource"], asked.get("subresource"))))
    return f"{asked['verb']} {resource}{'.' + asked['group'] if asked.get('group') else ''}"
