"""Tests that an embedded cluster has settled only after each component has processed the writes of earlier ones."""

from __future__ import annotations

from typing import Any

import pytest

from harness.api.requests import ApiRequest
from harness.backends.netns import NetnsBackend
from harness.errors import UnavailableError
from harness.model.release import CONTROLLER, LOCATOR_CONTROLLER, PROXY, Component


class _FakeComponent:
    """A component that records its calls. `synced` returns the next of `answers`."""

    def __init__(self, name: str, answers: list[bool], asked: list[str]) -> None:
        self.name, self._answers, self._asked = name, answers, asked

    def synced(self) -> bool:
        self._asked.append(self.name)
        return self._answers.pop(0)


def test_dns_is_checked_after_the_controller_is_idle() -> None:
    asked: list[str] = []
    backend: Any = NetnsBackend()
    backend.control_plane = _FakeComponent("controller", [False, True], asked)
    backend.proxy = _FakeComponent("proxy", [True], asked)
    backend._dns = (_FakeComponent("dns", [True], asked), None)
    backend.settle()
    assert asked == ["controller", "controller", "proxy", "dns"]


def test_dns_without_locators_has_no_controller_to_stop() -> None:
    backend: Any = NetnsBackend()
    backend._dns = (_FakeComponent("coredns", [], []), None)
    with pytest.raises(UnavailableError, match=r"^DNS server coredns has no PodLocator controller$"):
        backend.stop_component(LOCATOR_CONTROLLER, [])


class _FakeControlPlane:
    """A control plane that reports which client made a request."""

    name = "binaries"

    def __init__(self, *asked: ApiRequest) -> None:
        self.asked = lambda: list(asked) or None


def _got(node: str, by: str, at: float = 2.0) -> ApiRequest:
    return ApiRequest(at, "GET", f"/api/v1/nodes/{node}", 200, by=by)


@pytest.mark.parametrize(("component", "reads"), [(CONTROLLER, 2), (PROXY, 1)])
def test_reads_are_attributed_by_user_agent(component: Component, reads: int) -> None:
    backend: Any = NetnsBackend()
    lease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/a1"
    agents = (CONTROLLER, "kube-controller-manager/v1.37.0 (linux/amd64)", "kube-proxy/v1.37.0", "dns-server")
    others = (ApiRequest(2.0, "GET", lease, 200, by="kube-proxy/v1.37.0"), _got("b1", CONTROLLER, at=0.5))
    backend.control_plane = _FakeControlPlane(*others, *(_got("a1", each) for each in agents))
    assert backend.reads(component, since=1.0) == ["get nodes"] * reads


def test_control_plane_without_read_records_is_reported() -> None:
    backend: Any = NetnsBackend()
    backend.control_plane = _FakeControlPlane()
    with pytest.raises(UnavailableError, match=r"^control plane binaries does not record API reads by client$"):
        backend.reads(PROXY, since=0.0)
