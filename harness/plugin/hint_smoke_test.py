"""A smoke test before the first test: does a hint have any effect, also if it is added later?

Most proxies that ignore hints do so silently: a feature gate is off, or packets take another data plane than the judged
one. Others compare endpoints without their hints, and see no change. Then dozens of failures have one cause, which a
person should read first. The result is a note and no verdict.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.api.client import RefusedError
from harness.backends.backend import WantedPod
from harness.backends.protocols import ForgetsConnections, Probing, part_of
from harness.errors import HarnessError
from harness.eventually import NotYetError, eventually
from harness.model import manifests
from harness.model.manifests import Endpoint, Hints
from harness.model.outcomes import Reached
from harness.model.workloads import Pod, pod_client
from harness.probes.loop import Probe
from harness.scenario.service import HINT_ANNOTATIONS

if TYPE_CHECKING:
    from harness.backends.backend import Backend

NAMESPACE = "td-hint-smoke-test"
SOMETHING = "hintsChangeSomething"
FOLLOWED = "changesOfHintsAreFollowed"
WITHIN = 3.0  # seconds, before the time scale, for a change to affect packets
PROBES = 24  # with this number, all reach one of two endpoints by chance once in 16 million


def hint_facts(backend: Backend, namespace: str = NAMESPACE) -> dict[str, bool]:
    """Return facts for the report: whether hints keep traffic from an endpoint in another zone. {} if unknown.

    If added hints change nothing, a slice that has hints from the beginning is tested. `namespace` is created for the
    test, and deleted afterwards. The Services ask for hints by the field, or by annotations on an older API server.
    """
    near = backend.topology.nodes[0]
    far = next((node for node in backend.topology.nodes if node.zone != near.zone), None)
    if far is None:
        return {}
    try:
        backend.create_namespace(namespace)
        pods = backend.run_pods(namespace, [WantedPod(node.name, node.name) for node in (near, far)])
        return _ask(backend, namespace, pods)
    except (HarnessError, RefusedError):
        return {}
    finally:
        backend.delete_namespace(namespace)
        backend.settle()
        if isinstance(backend, ForgetsConnections):
            backend.forget_connections()


def _ask(backend: Backend, namespace: str, pods: list[Pod]) -> dict[str, bool]:
    everybody, near = {f"{namespace}/{pod.name}" for pod in pods}, {f"{namespace}/{pods[0].name}"}
    probe = _publish(backend, namespace, "web", pods, hinted=False)
    if not _comes_to(backend, probe, everybody):
        return {}  # the Service does not work without hints either
    hinted = manifests.endpoint_slice("web", "web", _endpoints(pods, hinted=True), family=backend.families[0])
    backend.api.replace("endpointslices", namespace, hinted)
    if _comes_to(backend, probe, near):
        return {SOMETHING: True, FOLLOWED: True}
    if _comes_to(backend, _publish(backend, namespace, "hinted", pods, hinted=True), near):
        return {SOMETHING: True, FOLLOWED: False}
    return {SOMETHING: False}


def _publish(backend: Backend, namespace: str, name: str, pods: list[Pod], *, hinted: bool) -> Probe:
    made = backend.api.create("services", namespace, manifests.service(name, trafficDistribution="PreferClose"))
    if "trafficDistribution" not in made["spec"]:
        annotations = dict.fromkeys(HINT_ANNOTATIONS, "Auto")
        backend.api.patch("services", namespace, name, {"metadata": {"annotations": annotations}})
    written = manifests.endpoint_slice(name, name, _endpoints(pods, hinted=hinted), family=backend.families[0])
    backend.api.create("endpointslices", namespace, written)
    return Probe(part_of(backend, Probing).source_of(pod_client(pods[0].node)), "TCP", made["spec"]["clusterIP"], 80)


def _endpoints(pods: list[Pod], *, hinted: bool) -> list[Endpoint]:
    return [
        Endpoint(pod.addresses, node=pod.node, zone=pod.zone, hints=Hints(zones=(pod.zone,)) if hinted else None)
        for pod in pods
    ]


def _comes_to(backend: Backend, probe: Probe, wanted: set[str]) -> bool:
    backend.settle()

    def seen() -> bool:
        answers = part_of(backend, Probing).probe([probe] * PROBES)
        return {each.pod if isinstance(each, Reached) else "" for each in answers} == wanted

    try:
        return eventually(seen, within=WITHIN, every=0.05, describe="an answer to the first question")
    except NotYetError:
        return False
