"""`explain` reports each cause on a running cluster, with nodes and remedy. The cause disappears after the remedy.

Most tests use an embedded cluster with the reference. A slow test creates the same causes with the real API server,
controller manager and proxies of Kubernetes, if their binaries are installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from explain.causes import causes
from explain.text import answer
from harness.api.client import RefusedError
from harness.backends.netns import NetnsBackend
from harness.errors import UnavailableError
from harness.model.release import Release
from harness.settings.implementations import of_settings
from harness.settings.options import resolve
from tests.explain.live_cases import ROWS, LiveCase
from tests.explain.recorded_cases import NOTES
from tests.explain.shop_namespace import EACH_ZONE, ShopNamespace, commands, in_shop

WELL = "connections stay in the zone of the client, from all 5 nodes"
ASSUMED = ", if kube-proxy serves them"
"""Said if the cluster has no pod of a service proxy."""


def expect_told_and_healed(row: LiveCase, shop: ShopNamespace) -> None:
    row.make(shop)
    ill = shop.diagnosis()
    told = [each for each in ill.findings if each.cause.id == row.cause]
    assert told, (answer(ill), ill.findings)
    assert row.note or told[0] == ill.findings[0], answer(ill)
    assert (" ".join(told[0].nodes), row.remedy in (told[0].remedy or told[0].cause.remedy)) == (row.nodes, True), told
    row.heal(shop, told[0])
    well = shop.diagnosis()
    while well.wanting and "touched" in well.findings[0].remedy and well.findings[0] != told[0]:
        told = [well.findings[0]]  # the next step of the remedy: the controller does not sync again by itself
        commands(shop, told[0])
        well = shop.diagnosis()
    assert answer(well) == (f"{WELL}{ASSUMED}" if well.unseen else WELL)
    assert row.cause not in {each.cause.id for each in well.findings}


@pytest.fixture(scope="module")
def backends() -> Iterator[Callable[[str, str], NetnsBackend]]:
    """Clusters by release and enabled gate. Each cluster boots once."""
    booted: dict[tuple[str, str], NetnsBackend] = {}

    def of_release(version: str, gate: str) -> NetnsBackend:
        if (version, gate) not in booted:
            release = Release(version, gates={gate: True} if gate else {}, follows="released")
            booted[version, gate] = NetnsBackend(release=release).start()
        return booted[version, gate]

    yield of_release
    for each in booted.values():
        each.close()


@pytest.mark.parametrize("row", [pytest.param(row, id=name) for name, row in ROWS.items() if not row.embedded])
def test_cause_is_reported_and_disappears_after_its_remedy(
    row: LiveCase, backends: Callable[[str, str], NetnsBackend], tmp_path: Path
) -> None:
    with in_shop(backends(row.release, row.gates), tmp_path) as shop:
        expect_told_and_healed(row, shop)


def test_each_cause_is_reproduced_or_has_a_reason() -> None:
    in_process = {each.cause for each in NOTES.values()} | {"not-kube-proxy"}  # see test_remedies.py
    elsewhere = {
        "slice-unreadable",
        "proxy-does-otherwise",
        "nobody-listens",
        "not-known",
        "emptied-by-the-supposition",
        "zone-without-port",  # see test_remedies.py
        "pod-in-no-slice",  # a controller that runs lists all ready pods
    }
    assert {each.cause for each in ROWS.values()} | in_process | elsewhere == causes().keys()


def _unreadable(shop: ShopNamespace) -> None:
    shop.serve(on=EACH_ZONE)
    labels = {"kubernetes.io/service-name": "web", "endpointslice.kubernetes.io/managed-by": "me.example.com"}
    bad = {
        "metadata": {"name": "bad", "labels": labels},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.300"]}],
        "ports": [],
    }
    shop.api.create("endpointslices", shop.namespace, bad)


def test_api_server_refuses_slices_that_proxies_cannot_read(
    backends: Callable[[str, str], NetnsBackend], tmp_path: Path
) -> None:
    with in_shop(backends("", ""), tmp_path) as shop, pytest.raises(RefusedError, match="422"):
        _unreadable(shop)


@pytest.fixture(scope="module")
def real() -> Iterator[NetnsBackend]:
    """A cluster with the real components of Kubernetes."""
    chosen = {"control-plane": "binaries:1.37", "proxy": "kube-proxy", "mode": "nftables"}
    settings = resolve(chosen, environment={})
    try:
        backend = NetnsBackend(implementation=of_settings(settings), release=settings.release).start()
    except UnavailableError as error:
        pytest.skip(str(error))
    yield backend
    backend.close()


@pytest.mark.slow
@pytest.mark.parametrize("row", [pytest.param(row, id=name) for name, row in ROWS.items() if not row.real])
def test_cause_is_reported_with_real_kubernetes_components(row: LiveCase, real: NetnsBackend, tmp_path: Path) -> None:
    with in_shop(real, tmp_path) as shop:
        expect_told_and_healed(row, shop)
