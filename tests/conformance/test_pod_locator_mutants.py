"""Each mutant of a PodLocator controller is wrong only at the steps that its description names.

Each mutant processes the same steps without threads. `SAID` lists the steps after which the writes of a mutant differ
from those of the reference.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from functools import cache

import pytest

from mutants import MUTANTS, Mutant
from reference.apiserver import ApiServer
from reference.client import Event, Object
from reference.pod_locator import PodLocatorController
from reference.pod_locator.location import says
from tests.conformance.api_and_dns_requests import REFERENCE
from tests.reference.api_server_calls import listed, patched

ZONE = "topology.kubernetes.io/zone"

Step = Callable[[ApiServer], object]


def _node(name: str, **labels: str) -> Object:
    return {"metadata": {"name": name, "labels": {ZONE: name[0], **labels}}}


def _pod(name: str, node: str) -> Object:
    spec = {"containers": [{"name": "c", "image": "i"}], **({"nodeName": node} if node else {})}
    return {"metadata": {"name": name}, "spec": spec}


def _report(name: str, *ips: str) -> Step:
    status = {"podIP": ips[0], "podIPs": [{"ip": each} for each in ips]}
    return lambda api: patched(api, "pods", "default", name, {"status": status}, subresource="status")


def _label(**labels: str | None) -> Step:
    return lambda api: patched(api, "nodes", "", "a1", {"metadata": {"labels": labels}})


def _names_another_node(api: ApiServer) -> object:
    locators = [each for each in listed(api, "podlocators", "default") if each["metadata"]["name"] == "web"]
    return [api.update("podlocators", "default", {**each, "nodeName": "b1", "nodeLabels": {}}) for each in locators]


STEPS: Mapping[str, Step] = {
    "a node is created": lambda api: api.create("nodes", "", _node("a1", rack="1")),
    "another node is created": lambda api: api.create("nodes", "", _node("b1")),
    "a pod is created": lambda api: api.create("pods", "default", _pod("web", "a1")),
    "a pod without node is created": lambda api: api.create("pods", "default", _pod("later", "")),
    "the pod has an address": _report("web", "10.0.0.1"),
    "the pod has two addresses": _report("web", "10.0.0.1", "fd00::1"),
    "a pod event without relevant changes": lambda api: patched(
        api, "pods", "default", "web", {"metadata": {"annotations": {"a": "b"}}}
    ),
    "a label changes": _label(**{ZONE: "c"}),
    "a label is added": _label(row="7"),
    "a label is removed": _label(rack=None),
    "a pod without address is created": lambda api: api.create("pods", "default", _pod("other", "b1")),
    "a pod is bound": lambda api: patched(api, "pods", "default", "later", {"spec": {"nodeName": "b1"}}),
    "another client names another node": _names_another_node,
    "the node is deleted": lambda api: api.delete("nodes", "", "a1"),
    "the node is created again": lambda api: api.create("nodes", "", _node("a1")),
    "the pod is deleted": lambda api: api.delete("pods", "default", "web", grace_seconds=0),
}

OF_WEB = tuple(STEPS)[2:-1]
"""The steps in which pod `web` exists."""

SAID: Mapping[str, tuple[str, ...]] = {
    "locator-has-one-address": OF_WEB[OF_WEB.index("the pod has two addresses") :],
    "locator-misses-a-second-address": OF_WEB[OF_WEB.index("the pod has two addresses") :],
    "locator-has-known-labels-only": (*OF_WEB[: OF_WEB.index("the node is deleted")],),
    "locator-is-written-once": tuple(STEPS)[list(STEPS).index("the pod has an address") :],
    "locator-keeps-the-first-labels": OF_WEB[
        OF_WEB.index("a label changes") : OF_WEB.index("another client names another node")
    ],
    "locator-loses-no-label": OF_WEB[
        OF_WEB.index("a label is removed") : OF_WEB.index("another client names another node")
    ],
    "locator-keeps-a-deleted-node": ("the node is deleted",),
    "locator-is-written-for-every-event": ("a pod event without relevant changes",),
    "locator-is-never-deleted": ("the pod is deleted",),
    "locator-has-another-name": tuple(STEPS)[2:],
    "locator-misses-the-binding": tuple(STEPS)[list(STEPS).index("a pod is bound") :],
    "locator-believes-what-it-says": ("another client names another node",),
}

OTHERWISE: Mapping[str, str] = {
    "locator-controller-crashes-on-strange-nodes": "it exits in its thread, which these cases do not run",
    "locator-controller-hangs-on-strange-nodes": "it hangs in its thread, which these cases do not run",
    "locator-of-new-pods-alone": "no pod in these steps exists before the controller starts",
}


def _kept(mutant: Mutant) -> Mapping[str, object]:
    """Return the PodLocators after each step, and the number of writes."""
    api, events = ApiServer(), deque[Event]()
    writes: list[str] = []
    api.subscribe(["podlocators"], lambda event: writes.append(event.type))
    controller: PodLocatorController = mutant.pod_locators(api)
    controller._client.subscribe(("pods", "nodes", "podlocators"), events.append)
    found: dict[str, object] = {}
    for name, step in STEPS.items():
        step(api)
        while events or not controller._work.is_idle:
            while events:
                controller._read(events.popleft())
            controller._work_on_next()
        locators = {each["metadata"]["name"]: says(each) for each in listed(api, "podlocators", "default")}
        found[name] = locators, sorted(writes)
        writes.clear()
    return found


@cache
def _right() -> Mapping[str, object]:
    return _kept(REFERENCE)


def test_every_pod_locator_mutant_has_a_case() -> None:
    assert {name for name, each in MUTANTS.items() if each.pod_locators is not PodLocatorController} == (
        SAID.keys() | OTHERWISE.keys()
    )


@pytest.mark.parametrize("name", SAID)
def test_pod_locator_mutant_is_wrong_where_its_case_says(name: str) -> None:
    kept = _kept(MUTANTS[name])
    assert tuple(each for each in STEPS if kept[each] != _right()[each]) == SAID[name]
