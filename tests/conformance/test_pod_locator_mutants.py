"""Each mutant of a PodLocator controller is wrong only at the steps that its description names.

Each mutant processes the same steps without threads. `SAID` lists the steps after which a mutant has written something
else.
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

ZONE = "topology.kubernetes.io/zone"

Step = Callable[[ApiServer], object]


def _node(name: str, **labels: str) -> Object:
    return {"metadata": {"name": name, "labels": {ZONE: name[0], **labels}}}


def _pod(name: str, node: str) -> Object:
    spec = {"containers": [{"name": "c", "image": "i"}], **({"nodeName": node} if node else {})}
    return {"metadata": {"name": name}, "spec": spec}


def _report(name: str, *ips: str) -> Step:
    status = {"podIP": ips[0], "podIPs": [{"ip": each} for each in ips]}
    return lambda api: api.patch("pods", "default", name, {"status": status}, subresource="status")


def _label(**labels: str | None) -> Step:
    return lambda api: api.patch("nodes", "", "a1", {"metadata": {"labels": labels}})


def _names_another_node(api: ApiServer) -> object:
    locators = [each for each in api.list("podlocators", "default") if each["metadata"]["name"] == "web"]
    return [api.update("podlocators", "default", {**each, "nodeName": "b1", "nodeLabels": {}}) for each in locators]


STEPS: Mapping[str, Step] = {
    "a node comes": lambda api: api.create("nodes", "", _node("a1", rack="1")),
    "another node comes": lambda api: api.create("nodes", "", _node("b1")),
    "a pod comes": lambda api: api.create("pods", "default", _pod("web", "a1")),
    "a pod without node comes": lambda api: api.create("pods", "default", _pod("later", "")),
    "it has an address": _report("web", "10.0.0.1"),
    "it has two": _report("web", "10.0.0.1", "fd00::1"),
    "a pod event without news": lambda api: api.patch(
        "pods", "default", "web", {"metadata": {"annotations": {"a": "b"}}}
    ),
    "a label changes": _label(**{ZONE: "c"}),
    "a label comes": _label(row="7"),
    "a label goes": _label(rack=None),
    "a pod without address comes": lambda api: api.create("pods", "default", _pod("other", "b1")),
    "a pod is bound": lambda api: api.patch("pods", "default", "later", {"spec": {"nodeName": "b1"}}),
    "somebody names another node": _names_another_node,
    "the node goes": lambda api: api.delete("nodes", "", "a1"),
    "the node is back": lambda api: api.create("nodes", "", _node("a1")),
    "the pod goes": lambda api: api.delete("pods", "default", "web", grace_seconds=0),
}

OF_WEB = tuple(STEPS)[2:-1]
"""The steps in which pod `web` exists."""

SAID: Mapping[str, tuple[str, ...]] = {
    "locator-has-one-address": OF_WEB[OF_WEB.index("it has two") :],
    "locator-has-known-labels-only": (*OF_WEB[: OF_WEB.index("the node goes")],),
    "locator-is-written-once": tuple(STEPS)[list(STEPS).index("it has an address") :],
    "locator-keeps-the-first-labels": OF_WEB[
        OF_WEB.index("a label changes") : OF_WEB.index("somebody names another node")
    ],
    "locator-loses-no-label": OF_WEB[OF_WEB.index("a label goes") : OF_WEB.index("somebody names another node")],
    "locator-keeps-a-deleted-node": ("the node goes",),
    "locator-is-written-for-every-event": ("a pod event without news",),
    "locator-is-never-deleted": ("the pod goes",),
    "locator-has-another-name": tuple(STEPS)[2:],
    "locator-misses-the-binding": tuple(STEPS)[list(STEPS).index("a pod is bound") :],
    "locator-believes-what-it-says": ("somebody names another node",),
}

OTHERWISE: Mapping[str, str] = {
    "locator-controller-crashes-on-strange-nodes": "it ends in its thread, which is not here",
    "locator-controller-hangs-on-strange-nodes": "it hangs in its thread, which is not here",
    "locator-of-new-pods-alone": "no pod of these steps is there before its controller",
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
                controller._loop._take_in(events.popleft())
            controller._loop._work()
        locators = {each["metadata"]["name"]: says(each) for each in api.list("podlocators", "default")}
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
