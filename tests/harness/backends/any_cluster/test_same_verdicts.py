"""Tests that whole profiles have the same verdicts on an embedded cluster and through the API of the same cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from emulator import cluster_state
from emulator.kubelet.images import REGISTRY
from harness.binaries import find
from harness.errors import UnavailableError
from tests.harness.backends.compare_verdicts import trafficdist, unlike, verdicts

NAME = f"same-verdicts-{os.getpid()}"
PROFILES = ["--profile=service-proxy", "--profile=endpointslice-controller", "--profile=api-server"]

MADE_OF = {
    "reference": [],
    "kube-proxy in nftables": ["--proxy=kube-proxy", "--mode=nftables"],
    "kube-proxy in iptables": ["--proxy=kube-proxy", "--mode=iptables"],
    "a real control plane": ["--control-plane=binaries:1.37", "--proxy=kube-proxy", "--mode=nftables"],
}

COMPONENTS = {
    "--proxy=kube-proxy": ["kube-proxy"],
    "--control-plane=binaries:1.37": ["etcd", "kube-apiserver", "kube-controller-manager"],
}


@pytest.fixture(params=MADE_OF)
def made_of(request: pytest.FixtureRequest) -> Iterator[Sequence[str]]:
    """Boot a cluster, and return the options for an embedded run with the same components."""
    options = MADE_OF[request.param]
    for component in [each for option in options for each in COMPONENTS.get(option, ())]:
        try:
            find(component)
        except UnavailableError as error:
            pytest.skip(str(error))
    up = trafficdist("cluster", "up", "--name", NAME, *options)
    assert up.returncode == 0, up.stderr
    yield options
    trafficdist("cluster", "down", "--name", NAME)


@pytest.fixture(autouse=True)
def _registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAFFICDIST_IMAGE_REGISTRY", REGISTRY)


def there() -> list[str]:
    """Return the options of a run that uses the cluster's kubeconfig."""
    return [
        "--backend=kubeconfig",
        f"--kubeconfig={cluster_state.folder_of(NAME) / 'kubeconfig'}",
    ]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_verdicts_are_the_same(made_of: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAFFICDIST_ALL_FEATURES", "yes")
    profiles = PROFILES[:1] if made_of[:1] == ["--proxy=kube-proxy"] else PROFILES
    claims = [f"--follow={'released' if made_of else 'kep'}", *profiles]
    by_api = verdicts(tmp_path / "api", "-n4", *there(), "--allow-disruptive", *claims)
    assert len(by_api) > 50
    here = verdicts(tmp_path / "netns", "-n2", *made_of, *claims, *[f"--run-test={each}" for each in by_api])
    assert unlike(by_api, here) == {}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("made_of", ["reference"], indirect=True)
def test_four_workers_have_the_verdicts_of_one_process(
    made_of: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAFFICDIST_ALL_FEATURES", "yes")
    claims = [*made_of, *there(), "--allow-disruptive", "--follow=kep", PROFILES[0]]
    together, alone = (verdicts(tmp_path / f"n{workers}", f"-n{workers}", *claims) for workers in (4, 0))
    assert len(alone) > 50
    assert unlike(together, alone) == {}
