"""Extract tables of literal expected values from the scenarios of the suite, together with the cluster's state.

A scenario runs on a stage. A stage is a fake cluster without packets, in which Services, slices and nodes are
dictionaries. The stage records each expectation and the slices at that time. A scenario stops at the first operation
that the stage does not support, such as a restart. The expectations recorded before that are used.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.model import manifests
from harness.model.manifests import TCP, Endpoint, Port
from harness.model.topology import THREE_ZONES
from harness.model.workloads import Client, Pod
from harness.scenario.concurrent_traffic import ExpectedTraffic
from harness.scenario.service import Service
from harness.scenario.service_address import first_family
from tests.conformance.mutant_trials import Scenario

if TYPE_CHECKING:
    import pytest


@dataclass(frozen=True)
class ExpectedCell:
    """One cell of a table: a client, an address, the endpoints of its port and family, and the expected answers.

    `kept` is True if session affinity must bind the client to one of the expected pods.
    """

    client: Client
    zone: str
    to: str
    spec: Mapping[str, Any]
    endpoints: tuple[tuple[str, Endpoint], ...]
    expected: Any
    kept: bool


_PATCHED = {"internalTrafficPolicy", "externalTrafficPolicy", "trafficDistribution", "sessionAffinity"}
"""The fields of an existing Service whose changes the stage supports."""


class UnsupportedOperationError(Exception):
    """The scenario uses an operation that `FakeCluster` does not support."""


class FakeCluster:
    """A fake `Cluster` with the operations that the tables need."""

    def __init__(self) -> None:
        self.said: list[ExpectedCell] = []
        self.zones = {node.name: node.zone for node in THREE_ZONES.nodes}
        self.nodes = _FakeNodes(self.zones)
        self.topology = THREE_ZONES
        self._numbers = itertools.count(1)
        self._slices: dict[tuple[str, str, str], tuple[list[Endpoint], Sequence[Port]]] = {}
        self._deleted: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        raise UnsupportedOperationError(name)

    def create_service(
        self,
        name: str = "",
        *,
        ports: Sequence[Port] = (TCP,),
        selector: Mapping[str, str] | None = None,
        dual_stack: bool = False,
        internal_traffic_policy: str | None = None,
        external_traffic_policy: str | None = None,
        topologyKeys: Any = None,  # noqa: N803  the field's own name
        **fields: Any,
    ) -> Service:
        if selector or topologyKeys:
            raise UnsupportedOperationError("a Service with a selector or topologyKeys")
        families = fields.pop("ipFamilies", ["IPv4", "IPv6"] if dual_stack else ["IPv4"])
        spec = {
            "ipFamilies": families,
            "internalTrafficPolicy": internal_traffic_policy,
            "externalTrafficPolicy": external_traffic_policy,
            "healthCheckNodePort": 32_000,
        }
        number = next(self._numbers)
        made = manifests.service(name or f"web-{number}", ports=ports, **spec)
        ips = [f"10.96.0.{number}" if family == "IPv4" else f"fd00:10:96::{number}" for family in families]
        made["spec"] |= {"clusterIP": ips[0], "clusterIPs": ips}
        self._deleted.discard(made["metadata"]["name"])
        return Service(made, tuple(ports))

    def patch_service(self, service: Service, patch: Mapping[str, Any]) -> None:
        if patch.keys() - {"spec"} or patch["spec"].keys() - _PATCHED:
            raise UnsupportedOperationError("patch")
        service.object["spec"] |= patch.get("spec", {})

    def delete_service(self, service: Service) -> None:
        self._deleted.add(service.name)

    def run_servers(self, on: Sequence[str], **_: Any) -> list[Pod]:
        names = [f"{node}-{next(self._numbers)}" for node in on]
        pairs = zip(names, on, strict=True)
        return [Pod(name, "", node, self.zones[node], {"IPv4": name, "IPv6": name}) for name, node in pairs]

    def publish(
        self,
        service: Service,
        endpoints: Sequence[Endpoint],
        *,
        name: str = "",
        families: Sequence[str] | None = None,
        ports: Sequence[Port] | None = None,
        **_: Any,
    ) -> None:
        for family in families or service.object["spec"]["ipFamilies"]:
            written = list(endpoints), service.ports if ports is None else ports
            self._slices[service.name, name, family] = written

    def unpublish(self, service: Service, name: str = "") -> None:
        for family in service.object["spec"]["ipFamilies"]:
            del self._slices[service.name, name, family]

    def settle(self) -> None:
        """Return immediately. The stage has nothing to wait for."""

    def say(
        self,
        service: Service,
        expected: Mapping[Any, Any],
        *,
        to: str | None = None,
        family: str | None = None,
        port: Port | None = None,
        via: str | None = None,
        kept: bool = False,
        **_: Any,
    ) -> None:
        family, port = family or first_family(service), port or service.ports[0]
        if service.name in self._deleted:
            return
        endpoints = tuple(
            (each.addresses[family], each)
            for (owner, _name, of), (written, ports) in self._slices.items()
            if owner == service.name and of == family and any(one.name == port.name for one in ports)
            for each in written
        )
        for who, what in expected.items():
            kind = who.kind if isinstance(who, Client) else "pod"
            node = via or (who if isinstance(who, str) else who.node)
            spec = dict(service.object["spec"])
            kind_of_address = to or "cluster-ip"
            self.said.append(
                ExpectedCell(Client(kind, node), self.zones[node], kind_of_address, spec, endpoints, what, kept)
            )


class _FakeNodes:
    def __init__(self, zones: dict[str, str]) -> None:
        self._zones = zones

    def __getattr__(self, name: str) -> Any:
        raise UnsupportedOperationError(name)

    def move(self, node: str, zone: str | None) -> None:
        self._zones[node] = zone or ""


def expect_traffic(stage: FakeCluster, service: Service, expected: Mapping[Any, Any], **address: Any) -> None:
    """Record the expectation of the scenario."""
    stage.say(service, expected, **address)


def _expect_together(stage: FakeCluster, questions: Sequence[ExpectedTraffic], **_: Any) -> None:
    for each in questions:
        stage.say(each.service, each.expected, to=each.to, family=each.family, port=each.port, kept=each.kept)


def _expect_kept(
    stage: FakeCluster, service: Service, allowed: Mapping[Any, AbstractSet[Pod]], **address: Any
) -> dict[Any, Pod]:
    stage.say(service, allowed, kept=True, **address)
    return {who: min(pods, key=lambda each: each.name) for who, pods in allowed.items()}


@contextlib.contextmanager
def _beside(*_: Any, **__: Any) -> Iterator[_NoTraffic]:
    yield _NoTraffic()


class _NoTraffic:
    def wait_for_samples(self) -> None:
        """Do nothing. The stage has no traffic."""


def _nothing(*_: Any, **__: Any) -> None:
    """Do nothing. These expectations contain no table of endpoints."""


def _stop(*_: Any, **__: Any) -> None:
    raise UnsupportedOperationError


ON_STAGE: Mapping[str, Callable[..., Any]] = {
    "expect_traffic": expect_traffic,
    "expect_prompt_change": expect_traffic,
    "expect_affinity": _expect_kept,
    "expect_concurrent_traffic": _expect_together,
    "expect_no_loss": _beside,
    "expect_flow_survives": _beside,
    "expect_flow_moves": _beside,
    "expect_client_address": _nothing,
    "expect_even_shares": _nothing,
}
_OFF_STAGE = {f"harness.scenario.{room}" for room in ("affinity", "becoming", "hints", "load", "shares", "transitions")}


def tables(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> list[ExpectedCell]:
    """Return the expectations that all test cases of a scenario record."""
    for module in [each for name, each in sys.modules.items() if name.startswith("conformance.")]:
        for name, value in list(vars(module).items()):
            if name in ON_STAGE or getattr(value, "__module__", "") in _OFF_STAGE:
                monkeypatch.setattr(module, name, ON_STAGE.get(name, _stop))
    found = []
    for case in scenario.cases:
        stage = FakeCluster()
        with contextlib.suppress(UnsupportedOperationError):
            scenario.test(stage, **case)
        found += stage.said
    return found
