"""No requirement for releases judges hints with a zone overloaded by exactly 20 or 30 %.

At a threshold of exactly 20 or 30 %, the KEP and releases differ, and rounding in kube-controller-manager decides (see
`reference.endpointslice.allocation`). Requirements for the KEP's reading alone may be at a threshold, because the KEP
says which side of it has hints. Intermediate states of a scenario may be at a threshold, because pods are added one by
one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Literal

import pytest

from harness.scenario.cluster import Cluster
from harness.scenario.service import HINT_ANNOTATIONS
from mutants import Mutant
from reference.endpointslice.zones import ZoneShares, ZoneTable
from reference.features import Features
from tests.conformance.mutant_trials import SCENARIOS, MutantTrial

Shared = tuple[tuple[int, ...], int]
"""The weights of zones, and the number of endpoints to allocate to the zones."""

BY_CPU = {"TopologyMode", "TopologyModeRouting"}
JUDGING = ("expect_equal", "expect_within", "window")


def _shared_out(cluster: Cluster) -> set[Shared]:
    """Return the current allocation problem for each family of each Service with the annotation."""
    nodes = {each["metadata"]["name"]: each for each in cluster.api.list("nodes")}
    follows: Literal["kep", "released"] = "kep" if cluster.release.follows == "kep" else "released"
    shares = ZoneTable(Features(follows=follows), nodes).shares
    if not isinstance(shares, ZoneShares):
        return set()
    asking = {
        each["metadata"]["name"]
        for each in cluster.api.list("services", cluster.namespace)
        if HINT_ANNOTATIONS & (each["metadata"].get("annotations") or {}).keys()
    }
    ready: dict[tuple[str, str], set[str]] = {}
    for each in cluster.api.list("endpointslices", cluster.namespace):
        service = each["metadata"]["labels"]["kubernetes.io/service-name"]
        if service in asking:
            found = (one["addresses"][0] for one in each["endpoints"] if one["conditions"]["ready"])
            ready.setdefault((service, each["addressType"]), set()).update(found)
    return {(tuple(shares.weights.values()), len(found)) for found in ready.values()}


def _on_an_edge(weights: tuple[int, ...], endpoints: int) -> bool:
    return len(weights) <= endpoints and any(
        100 * weight * endpoints % ((100 + percent) * sum(weights)) == 0 for weight in weights for percent in (20, 30)
    )


def test_edges_are_those_of_the_document() -> None:
    assert [_on_an_edge((20, 16, 14), count) for count in (5, 6, 7)] == [False, True, False]
    assert _on_an_edge((40, 30, 30), 6)
    assert _on_an_edge((13, 7), 2)
    assert not _on_an_edge((8, 8, 8), 4)


@pytest.mark.slow
def test_no_requirement_is_on_an_edge(trial: Callable[[Mutant], MutantTrial], monkeypatch: pytest.MonkeyPatch) -> None:
    judged: dict[str, set[Shared]] = {}

    def noting(method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def noted(cluster: Cluster, *arguments: Any, **options: Any) -> Any:
            judged.setdefault(cluster.record.test, set()).update(_shared_out(cluster))
            return method(cluster, *arguments, **options)

        return noted

    for name in JUDGING:
        monkeypatch.setattr(Cluster, name, noting(getattr(Cluster, name)))
    cluster = trial(Mutant("plain", "The reference."))
    asking = [name for name, each in SCENARIOS.items() if BY_CPU & {one.name for one in each.requirement.features}]
    assert {name: text for name in asking if (text := cluster.failure(name))} == {}
    assert len(set().union(*judged.values())) > 30
    on_an_edge = {name for name, found in judged.items() for each in found if _on_an_edge(*each)}
    assert "KEP-2433/exactly-20-percent-gives-no-hints" in on_an_edge
    assert {name for name in on_an_edge if SCENARIOS[name].requirement.as_ != "kep"} == set()
