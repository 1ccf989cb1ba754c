"""A smoke test before all other tests: do hints have an effect, including hints that are added to an existing slice?

If hints have no effect, dozens of tests fail for this reason. A note in the report states it, but affects no verdict.
"""

from typing import TYPE_CHECKING

from harness.api.client import RefusedError
from harness.backends.backend import WantedPod
from harness.backends.protocols import FlushesConntrack, Probing, part_of
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
WITHIN = 3.0  # the time for a change to affect packets, in seconds, multiplied by the time scale
PROBES = 24  # without hints, all probes reach the near one of two endpoints once in 16 million


def hint_facts(backend: "Backend", namespace: str = NAMESPACE) -> dict[str, bool]:
    """Return two facts (hints keep traffic in a zone; changes to hints take effect), or {} if they are unknown."""
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
        if isinstance(backend, FlushesConntrack):
            backend.forget_connections()


def _ask(backend: "Backend", namespace: str, pods: list[Pod]) -> dict[str, bool]:
    both, near = {f"{namespace}/{pod.name}" for pod in pods}, {f"{namespace}/{pods[0].name}"}
    probe = _publish(backend, namespace, "web", pods, hinted=False)
    if not _reaches(backend, probe, both):
        # The proxy may follow `trafficDistribution` without hints. If a plain Service fails too, nothing is known.
        plain = _publish(backend, namespace, "plain", pods, hinted=False, asking=False)
        return {SOMETHING: False} if _reaches(backend, plain, both) else {}
    hinted = manifests.endpoint_slice("web", "web", _endpoints(pods, hinted=True), family=backend.families[0])
    backend.api.replace("endpointslices", namespace, hinted)
    if _reaches(backend, probe, near):
        return {SOMETHING: True, FOLLOWED: True}
    if _reaches(backend, _publish(backend, namespace, "hinted", pods, hinted=True), near):
        return {SOMETHING: True, FOLLOWED: False}
    return {SOMETHING: False}


def _publish(
    backend: "Backend", namespace: str, name: str, pods: list[Pod], *, hinted: bool, asking: bool = True
) -> Probe:
    asked = "PreferClose" if asking else ""
    made = backend.api.create("services", namespace, manifests.service(name, trafficDistribution=asked))
    if asking and "trafficDistribution" not in made["spec"]:
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


def _reaches(backend: "Backend", probe: Probe, wanted: set[str]) -> bool:
    backend.settle()

    def seen() -> bool:
        answers = part_of(backend, Probing).probe([probe] * PROBES)
        return {each.pod if isinstance(each, Reached) else "" for each in answers} == wanted

    try:
        return eventually(
            seen, within=WITHIN, every=0.05, describe="an answer from the expected endpoints of the smoke test"
        )
    except NotYetError:
        return False
