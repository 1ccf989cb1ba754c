"""Tests the facts that a run reads from a cluster before it starts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from harness.api.client import Api
from harness.model import manifests
from harness.model.topology import THREE_ZONES
from harness.run.real_cluster import ClusterSession
from harness.settings.options import resolve
from reference.apiserver.api import ApiServer
from reference.apiserver.server import HttpServer
from reference.features import Features


@pytest.fixture
def kubeconfig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Return the kubeconfig of an API server that has nodes."""
    server = HttpServer(ApiServer(request.param))
    server.start()
    api = Api(server.kubeconfig())
    for number, node in enumerate(THREE_ZONES.nodes, start=1):
        api.create("nodes", "", manifests.node(node, [f"10.0.0.{number}"], [f"10.244.{number}.0/24"]))
    api.close()
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(server.kubeconfig()))
    yield str(tmp_path / "kubeconfig")
    server.stop()


def lacking(kubeconfig: str, **options: object) -> dict[str, str]:
    place = {} if "backend" in options else {"backend": "kubeconfig", "kubeconfig": kubeconfig}
    session = ClusterSession(resolve({**place, **options}), lambda _: None)
    session.start().close()
    return session.lacking


@pytest.mark.parametrize("kubeconfig", [Features((1, 33))], indirect=True)
def test_effect_of_disabled_gates_is_known_before_the_run(kubeconfig: str) -> None:
    found = lacking(kubeconfig)
    assert found.keys() == {"PreferSameZone", "PreferSameNode", "NodeHints", "IPv6", "DualStack"}
    off = "feature gates: disabled or missing: PreferSameTrafficDistribution, according to its metrics"
    assert found["NodeHints"] == off


@pytest.mark.parametrize("kubeconfig", [Features()], indirect=True)
def test_effect_of_a_single_ip_family_is_known_before_the_run(kubeconfig: str) -> None:
    found = lacking(kubeconfig)
    assert found == dict.fromkeys(("IPv6", "DualStack"), "IP families: Services get IPv4 and IPv6, pods IPv4")


@pytest.mark.parametrize("kubeconfig", [Features((1, 33))], indirect=True)
def test_scenarios_may_set_gates_of_a_kind_cluster(kubeconfig: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClusterSession, "_make_kind_cluster", lambda *_: kubeconfig)
    assert lacking(kubeconfig, backend="kind").keys() == {"IPv6", "DualStack"}
