"""Each mutant of an API server answers only the requests incorrectly that its description names.

Mutants and the reference receive the same requests. Each request has tags, and `SERVER_SAID` names the tags of the
requests that a mutant answers incorrectly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from mutants import MUTANTS, Mutant
from reference.apiserver import ApiServer, writes
from reference.apiserver.registry import ObjectRef, Write
from reference.client import ApiError, Object
from reference.dns import DnsServer
from reference.features import Features
from tests.conformance.api_and_dns_requests import KEYS, REFERENCE, Answers, Where, either, has, judge, wrong_at
from tests.conformance.test_dns_mutants import DNS_OTHERWISE, DNS_SAID
from tests.reference.api_server_calls import patched
from tests.reference.dns.dns_cluster import HOST, ZONE

RELEASES: Mapping[str, tuple[Features, AbstractSet[str]]] = {
    "newest": (Features(gates=KEYS), {"knows the field", "knows new values", "gate of keys"}),
    "newest as released": (Features(follows="released"), {"knows the field", "knows new values", "as released"}),
    "1.33": (Features((1, 33)), {"knows the field", "older"}),
    "1.21": (Features((1, 21)), {"older", "oldest"}),
    "1.30 with node hints": (Features((1, 30), {"NodeLevelTopology": True}), {"older", "gate of node hints"}),
}
NEWEST = "newest"


@dataclass(frozen=True)
class ObjectWrites:
    """An object to create, and optionally an update of it."""

    tags: AbstractSet[str]
    resource: str
    obj: Object
    change: Object | None = None


def _service(
    tags: str, change: Object | None = None, *, annotations: Object | None = None, **spec: Any
) -> ObjectWrites:
    known = {"internalTrafficPolicy": "Cluster", "ports": [{"port": 80}], **spec}
    obj = {"metadata": {"annotations": annotations or {}}, "spec": {k: v for k, v in known.items() if v is not None}}
    return ObjectWrites({*tags.split(", ")}, "services", obj, change)


def _slice(tags: str, *hints: Object, change: Object | None = None, ports: Sequence[Object] = ()) -> ObjectWrites:
    endpoints = [
        {"addresses": [f"10.0.{n >> 8}.{n & 255}"], **({"hints": each} if each else {})} for n, each in enumerate(hints)
    ]
    obj = {"metadata": {}, "addressType": "IPv4", "ports": [*ports], "endpoints": endpoints}
    return ObjectWrites({*tags.split(", ")}, "endpointslices", obj, change)


def _zones(*names: str) -> Object:
    return {"forZones": [{"name": each} for each in names]}


def _nodes(*names: str) -> Object:
    return {"forNodes": [{"name": each} for each in names]}


def _hinted(hints: Object) -> Object:
    return {"endpoints": [{"addresses": ["10.0.0.0"], "hints": hints}]}


LABEL = {"metadata": {"labels": {"a": "b"}}}
NODE_PORT = {"type": "NodePort", "externalTrafficPolicy": "Local"}
MODE, AWARE = "service.kubernetes.io/topology-mode", "service.kubernetes.io/topology-aware-hints"

REQUESTS: Mapping[str, ObjectWrites] = {
    "plain": _service("plain"),
    "plain, changed": _service("plain, update", LABEL),
    "without policy": _service("no policy", internalTrafficPolicy=None),
    "bad internal policy": _service("plain", internalTrafficPolicy="Near"),
    "bad external policy": _service("plain", type="NodePort", externalTrafficPolicy="Near"),
    "external policy": _service("plain", **NODE_PORT),
    "external policy nowhere": _service("external policy nowhere", externalTrafficPolicy="Local"),
    "affinity without a time": _service("no affinity time", sessionAffinity="ClientIP"),
    "affinity for too long": _service(
        "bad affinity time",
        sessionAffinity="ClientIP",
        sessionAffinityConfig={"clientIP": {"timeoutSeconds": 86401}},
    ),
    "one annotation": _service("plain", annotations={MODE: "Auto"}),
    "two annotations": _service("contradicting annotations", annotations={MODE: "Auto", AWARE: "Disabled"}),
    "PreferClose": _service("field, PreferClose", trafficDistribution="PreferClose"),
    **{each: _service("field, new value", trafficDistribution=each) for each in ("PreferSameZone", "PreferSameNode")},
    "bad value": _service("field, bad value", trafficDistribution="Somewhere"),
    "malformed value": _service("field, bad value, slash", trafficDistribution="a//b"),
    "value with a domain": _service("field, domain, slash", trafficDistribution="example.org/Fine"),
    "beside internal Local": _service(
        "field, PreferClose, Local", trafficDistribution="PreferClose", internalTrafficPolicy="Local"
    ),
    "type changes": _service(
        "field, PreferClose, type changes, another type, update",
        {"spec": {"type": "NodePort"}},
        trafficDistribution="PreferClose",
    ),
    "beside external Local": _service(
        "field, PreferClose, Local, another type", trafficDistribution="PreferClose", **NODE_PORT
    ),
    "field comes": _service("field, new value, update", {"spec": {"trafficDistribution": "PreferSameNode"}}),
    "field changes": _service(
        "field, PreferClose, new value, update",
        {"spec": {"trafficDistribution": "PreferSameZone"}},
        trafficDistribution="PreferClose",
    ),
    "field stays": _service("field, PreferClose, update", LABEL, trafficDistribution="PreferClose"),
    "new value stays": _service("field, new value, update", LABEL, trafficDistribution="PreferSameNode"),
    "keys": _service("keys", topologyKeys=[HOST, ZONE, "*"]),
    "keys in another order": _service("keys, unsorted", topologyKeys=[ZONE, HOST, "*"]),
    "keys that repeat": _service("keys, repeated keys", topologyKeys=[HOST, HOST]),
    "keys that are no labels": _service("keys, bad keys", topologyKeys=["a b"]),
    "star first": _service("keys, star first, unsorted", topologyKeys=["*", HOST]),
    "many keys": _service("keys, many keys, unsorted", topologyKeys=[f"k{each}" for each in range(17)]),
    "keys beside external Local": _service("keys, beside external", topologyKeys=[HOST], **NODE_PORT),
    "keys beside internal Local": _service("keys, beside", topologyKeys=[HOST], internalTrafficPolicy="Local"),
    "keys beside the field": _service(
        "keys, beside, field, PreferClose", topologyKeys=[HOST], trafficDistribution="PreferClose"
    ),
    "keys change": _service("keys, keys change, update", {"spec": {"topologyKeys": [ZONE]}}, topologyKeys=[HOST]),
    "keys stay": _service("keys, update", LABEL, topologyKeys=[HOST]),
    "no hints": _slice("plain", {}),
    "zone hints": _slice("hints", _zones("a")),
    "node hints": _slice("node hints", _nodes("a1")),
    "both hints": _slice("hints, node hints", {**_zones("a"), **_nodes("a1")}),
    "nine zones": _slice("hints, many hints", _zones(*"abcdefghi")),
    "nine nodes": _slice("node hints, many hints", _nodes(*"abcdefghi")),
    "bad zone": _slice("hints, bad hints", _zones("a b")),
    "zone twice": _slice("hints, repeated hints", _zones("a", "a")),
    "ports twice": _slice("malformed", {}, ports=[{"name": "a", "port": 1}, {"name": "a", "port": 2}]),
    "type of a slice": _slice("addressType changes, update", {}, change={"addressType": "FQDN"}),
    "many endpoints": _slice("many endpoints", *[{}] * 1001),
    "zone hints change": _slice("hints, hints change, update", _zones("a"), change=_hinted(_zones("b"))),
    "node hints change": _slice("node hints, hints change, update", _nodes("a1"), change=_hinted(_nodes("a2"))),
    "label of a slice": _slice("hints, update", _zones("a"), change=LABEL),
}

STORED = ("PreferClose", "PreferSameNode", "keys", "both hints", "plain")
"""Objects that a server stores before another server replaces it."""

SERVER_SAID: Mapping[str, Where] = {
    "loses-the-field": has("field"),
    "refuses-new-values": has("new value"),
    "distribution-or-policy": has("field"),
    "accepts-every-value": has("field", "refused"),
    "names-no-field": has("refused"),
    "field-is-fixed": has("field", "update"),
    "field-excludes-policies": has("field", "Local"),
    "annotations-may-contradict": has("contradicting annotations"),
    "no-default-policy": has("no policy"),
    "external-policy-anywhere": has("external policy nowhere"),
    "loses-node-hints": has("node hints"),
    "unlimited-hints": either(has("many hints"), has("bad hints")),
    "unlimited-endpoints": has("many endpoints"),
    "slices-of-any-syntax": has("malformed"),
    "slices-change-their-type": has("addressType changes"),
    "hints-may-repeat": has("repeated hints"),
    "hints-do-not-count": has("hints change"),
    "node-hints-add-up": has("node hints", "hints change"),
    "does-not-warn": has("PreferClose"),
    "drops-stored-fields": has("field", "update", "older"),
    "refuses-stored-values": has("new value", "update", "older"),
    "drops-zone-hints-too": has("hints", "older"),
    "refuses-values-with-a-domain": has("slash"),
    "takes-any-value-with-a-slash": has("slash"),
    "newest-api-server-at-any-release": either(has("older"), has("keys")),
    "follows-the-other-reading": either(has("slash"), has("keys"), has("stored", "update", "older")),
    "serves-fields-of-later-releases": lambda tags: "stored" in tags and "plain" not in tags,
    "forgets-fields-of-later-releases": lambda tags: "stored" in tags and "plain" not in tags,
    "stores-no-node-level-hints": has("node hints", "gate of node hints"),
    "topology-keys-beside-local": has("beside external"),
    "unlimited-topology-keys": has("many keys"),
    "topology-keys-may-repeat": has("repeated keys"),
    "topology-keys-of-any-syntax": has("bad keys"),
    "star-anywhere": has("star first"),
    "loses-topology-keys": has("keys"),
    "sorts-topology-keys": has("unsorted"),
    "topology-keys-are-fixed": has("keys change"),
    "topology-keys-exclude-everything": has("beside"),
    "stores-topology-keys-without-the-gate": has("keys"),
    "drops-stored-topology-keys": has("keys", "update"),
    "field-for-cluster-ips-only": has("field", "another type"),
    "type-change-drops-the-field": has("field", "type changes"),
    "drops-stored-policies": has("update", "oldest"),
    "no-default-affinity-time": has("no affinity time"),
    "any-affinity-time": has("bad affinity time"),
}

RIGHT_IN_ALL = {
    "describes-no-services": "only its OpenAPI document is wrong",
    "drops-what-is-no-text": "these requests have well-formed fields",
    "types-keep-what-they-lack": "none of these Services has a field that a new type lacks",
    "external-names-for-ever": "none of these Services is of type ExternalName",
    "fifteen-topology-keys": "none of these Services has sixteen keys",
    "allocates-in-the-band-of-node-ports": "answers are compared without their ports",
    "band-of-sixteen-node-ports": "answers are compared without their ports",
    "closes-the-band-of-node-ports": "answers are compared without their ports",
    "gives-node-ports-twice": "answers are compared without their ports",
    "gives-node-ports-of-any-number": "answers are compared without their ports",
    "one-ingress-point": "these requests have no status",
    "no-ip-mode": "these requests have no status",
    "update-wipes-the-status": "these requests have no status",
    "status-comes-with-the-spec": "these requests have no status",
}
"""Mutants of API servers that answer all of these requests correctly, each with the reason."""


def _server(mutant: Mutant, features: Features, *, predecessor: ApiServer | None = None) -> ApiServer:
    server = mutant.api_server(features, predecessor=predecessor)
    own = {each.resource.plural: each for each in mutant.kinds()}
    server.registry.strategies = {**server.registry.strategies, **own}
    return server


def _asked(server: ApiServer, name: str, request: ObjectWrites) -> list[object]:
    """The response to a request: the objects or the reason for a rejection, and the warnings."""
    call, target = Write(), ObjectRef(request.resource, "default", "")
    obj = {**request.obj, "metadata": {**request.obj["metadata"], "name": _named(name)}}
    try:
        answers = [writes.create(server.registry, target, writes.private(obj), call).object]
        if request.change is not None:
            answers.append(patched(server, request.resource, "default", _named(name), request.change))
    except ApiError as error:
        causes = (error.status.get("details") or {}).get("causes") or ()
        return [error.reason, *sorted((each["field"], each["reason"]) for each in causes), *call.warnings]
    return [*map(_content, answers), *call.warnings]


def _named(name: str) -> str:
    return name.lower().replace(" ", "-").replace(",", "")


def _content(obj: Object) -> Object:
    metadata = obj["metadata"]
    spec = {name: value for name, value in (obj.get("spec") or {}).items() if "IP" not in name and name != "ports"}
    return {"generation": metadata.get("generation"), "spec": spec, "endpoints": obj.get("endpoints")}


def _served(server: ApiServer) -> Iterator[tuple[str, Object]]:
    for name in STORED:
        yield name, _content(server.get(REQUESTS[name].resource, "default", _named(name)))


def _server_answers(mutant: Mutant) -> Answers:
    found: dict[tuple[str, frozenset[str]], object] = {}
    for release, (features, tags) in RELEASES.items():
        server = _server(mutant, features)
        for name, request in REQUESTS.items():
            if name != "many endpoints" or release == NEWEST:
                found[f"{release}: {name}", frozenset(request.tags | tags)] = _asked(server, name, request)
        first = _server(REFERENCE, RELEASES[NEWEST][0])
        for name in STORED:
            _asked(first, name, REQUESTS[name])
        second = _server(mutant, features, predecessor=first)
        about = {name: frozenset(REQUESTS[name].tags | tags | {"stored"}) for name in STORED}
        found |= {(f"{release} serves {name}", about[name]): content for name, content in _served(second)}
        third = _server(mutant, RELEASES[NEWEST][0], predecessor=second)
        found |= {(f"after {release}, {name}", about[name]): content for name, content in _served(third)}
        fourth = _server(mutant, features, predecessor=third)
        for name in STORED:
            try:
                changed: object = _content(patched(fourth, REQUESTS[name].resource, "default", _named(name), LABEL))
            except ApiError as error:
                changed = error.reason
            found[f"{release} changes {name}", about[name] | {"update"}] = changed
    return found


@cache
def _right_of_servers() -> Answers:
    return _server_answers(REFERENCE)


def _with_refusals(right: Answers, answers: Answers) -> tuple[Answers, Answers]:
    """Add a tag to the requests that the reference rejects."""

    def tagged(key: tuple[str, frozenset[str]]) -> tuple[str, frozenset[str]]:
        answer = right[key]
        refused = isinstance(answer, str) or (isinstance(answer, list) and isinstance(answer[0], str))
        return key[0], key[1] | ({"refused"} if refused else set())

    return {tagged(key): right[key] for key in right}, {tagged(key): answers[key] for key in right}


def test_every_api_server_mutant_has_a_case() -> None:
    servers = {
        name
        for name, each in MUTANTS.items()
        if each.api_server is not ApiServer or each.kinds is not tuple or each.dns is not DnsServer
    }
    assert servers - SERVER_SAID.keys() - RIGHT_IN_ALL.keys() - DNS_SAID.keys() - DNS_OTHERWISE.keys() == set()


@pytest.mark.parametrize("name", SERVER_SAID)
def test_api_server_mutant_is_wrong_where_its_case_says(name: str) -> None:
    judge(SERVER_SAID[name], *_with_refusals(_right_of_servers(), _server_answers(MUTANTS[name])))


@pytest.mark.parametrize("name", RIGHT_IN_ALL)
def test_api_server_is_right_in_all_requests(name: str) -> None:
    assert wrong_at(_right_of_servers(), _server_answers(MUTANTS[name])) == []
