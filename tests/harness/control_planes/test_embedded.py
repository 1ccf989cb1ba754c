"""Tests that the embedded control plane records which client reads what, both over HTTPS and in this process."""

from __future__ import annotations

import pytest

from harness.api.client import Api, path_of
from harness.control_planes.embedded import EmbeddedControlPlane
from harness.model.release import CONTROLLER, PROXY
from reference.client import ApiError

ALL = (path_of("services"), path_of("nodes"), path_of("nodes", name="a1"))


def test_reads_of_all_clients_are_recorded_alike() -> None:
    plane = EmbeddedControlPlane()
    plane.start()
    api = Api(plane.kubeconfig())
    try:
        with pytest.raises(ApiError):
            plane.client(PROXY).get("nodes", "", "a1")
        plane.client(PROXY).subscribe(["services", "nodes/a1"], print).close()
        for path in ALL:
            api._send("GET", path, headers={**api.authentication(), "User-Agent": "kube-proxy/v1.37.2"})
        api.list("pods")  # a request of the suite itself
        read = [(each.by, each.read) for each in plane.asked()]
    finally:
        api.close()
        plane.stop()
    assert [each for each in read if each[0] == PROXY] == [
        (PROXY, "get nodes"),
        (PROXY, "watch services"),
        (PROXY, "watch nodes by name"),
    ]
    assert [what for who, what in read if "/" in who] == ["list services", "list nodes", "get nodes"]
    assert {what.split()[0] for who, what in read if who == CONTROLLER} == {"watch"}
    assert {who for who, _ in read} == {PROXY, CONTROLLER, "kube-proxy/v1.37.2"}
