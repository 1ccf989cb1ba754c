"""The evidence of a failed scenario: its objects, and the evidence of components."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from harness.model.abilities import Ability
from harness.model.texts import as_yaml, gathered, with_names
from harness.scenario.cluster import Cluster
from harness.scenario.dns_answers import answers_now
from harness.scenario.wrong_packets import asked_for, paths_of

_SERVICES = 10  # that are explained, if proxies do not tell their decisions


def evidence_of(cluster: Cluster, *, since: float, names: Mapping[str, str]) -> Iterator[tuple[str, str | bytes]]:
    """Yield texts and captures with their file names; in some texts addresses get the names in `names`."""
    components = cluster.backend.booted.evidence(cluster.namespace, since=since)
    yield from components.items()
    yield from paths_of(cluster, components, names)
    decisions = cluster.backend.booted.decisions()
    for node, text in decisions.items():
        yield f"decisions-{node}.txt", with_names(text, names)
    if not decisions:
        yield "decisions.txt", with_names(gathered(partial(_explained, cluster)), names)
    for resource in ("services", "endpointslices", "pods", "events"):
        yield f"{resource}.yaml", _objects(cluster, resource, cluster.namespace)
    yield "nodes.yaml", _objects(cluster, "nodes", "")
    if Ability.DNS in cluster.needs().get("abilities", ()):
        yield "podlocators.yaml", _objects(cluster, "podlocators", cluster.namespace)
        yield "dns.txt", with_names(gathered(partial(answers_now, cluster)), names)


def _objects(cluster: Cluster, resource: str, namespace: str) -> str:
    what = f"{resource} in namespace {namespace}"
    return gathered(lambda: as_yaml(cluster.api.list(resource, namespace), what), comment="# ")


def _explained(cluster: Cluster) -> str:
    """Return the decisions that the objects of the first Services ask for: the proxies do not tell theirs."""
    services = [str(each["metadata"]["name"]) for each in cluster.api.list("services", cluster.namespace)]
    said = [asked_for(cluster, each) for each in services[:_SERVICES]]
    head = "The proxies tell nothing of what they decided. By its objects each Service is to be treated like this:"
    return "\n\n".join([head, *(said or ["there is no Service"])]) + "\n"
