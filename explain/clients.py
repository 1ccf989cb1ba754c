"""Probe a Service in any cluster from client pods, with the same precautions as in a run.

Like a run, the probe holds a Lease, and creates its pods in its own namespace, which it deletes at the end. After
SIGKILL, the next run or `trafficdist cleanup` deletes it. The probe connects only to the Service and its pods.
"""

import contextlib
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from explain.cluster import Cluster
from explain.diagnosis import Diagnosis
from explain.probe_evidence import ProbeOutcomes, ProbePlan, named, plan
from harness.api.client import Api, RefusedError
from harness.api.connection import find
from harness.backends.any_cluster.clients import ClientPods
from harness.backends.any_cluster.dialing import Dialer
from harness.backends.any_cluster.pod_runner import TROUBLED_SECONDS, PodRunner
from harness.errors import UnavailableError, UsageError
from harness.guest import errors, liveness
from harness.guest.labels import new_run_id, run_labels
from harness.guest.lease import HeldLease, hold
from harness.guest.permissions import RULES
from harness.guest.preflight import preflight
from harness.judging.statistics import Rates
from harness.model.manifests import takes_pods
from harness.model.outcomes import Observation, Reached
from harness.model.topology import Node, Topology
from harness.model.workloads import pod_client
from harness.probes.loop import Probe
from harness.run.signals import SignalHandler

CONNECTIONS = 10
"""The number of connections per probe if servers do not return their names."""
RATES = Rates(leak=0.2)
"""If servers return names, a probe makes enough connections to detect this share of misrouted connections."""

Say = Callable[[str], None]

_RESOURCES = {"namespaces", "leases", "pods", "nodes", "pods/proxy"}
PERMISSIONS = tuple(each for each in RULES if _RESOURCES & {*each.resources} and "pods/status" not in each.resources)
"""The rules of `deploy/rbac.yaml` that a probe needs, in addition to read access to the Service."""


def ask(
    diagnosis: Diagnosis, cluster: Cluster, *, kubeconfig: str, context: str, registry: str, say: Say
) -> tuple[ProbePlan, list[ProbeOutcomes]]:
    """Probe each predicted route of a Service from a client pod on one of the nodes that use the route.

    Raises `UsageError` if the Service has no cluster IP, `DistrustError` while a run uses the cluster,
    `UnavailableError`, and `InconclusiveError`.
    """
    ready = [str(each["metadata"]["name"]) for each in cluster.objects.nodes if takes_pods(each)]
    wanted = plan(diagnosis, cluster, ready)
    preflight(kubeconfig, context, rules=PERMISSIONS)
    signals = SignalHandler()
    with signals.heard(), contextlib.ExitStack() as begun:
        api = Api(find(kubeconfig, context=context), connections=100)
        begun.callback(api.close)
        run_id = new_run_id()
        held = begun.enter_context(hold(api, run_id, say=say))
        say(f"probe {run_id}: client pods on {', '.join(wanted.nodes)}")
        begun.callback(signals.begin_end)  # a signal does not interrupt the cleanup
        try:
            return wanted, _asked(api, wanted, run_id, registry, held)
        except RefusedError as error:
            raise UnavailableError(errors.of(error, server=api.server)) from error


def _asked(api: Api, wanted: ProbePlan, run_id: str, registry: str, held: HeldLease) -> list[ProbeOutcomes]:
    with contextlib.ExitStack() as begun:
        runner = PodRunner(api, run_labels(run_id), registry, TROUBLED_SECONDS)
        begun.callback(runner.close)
        names = {each: each for each in wanted.nodes}
        dialer = Dialer(api, partial(liveness.begin_watch, api, lambda: names))
        begun.callback(dialer.close)
        topology = Topology("cluster", tuple(Node(each, "") for each in wanted.nodes))
        clients = ClientPods(api, runner, topology, prefix=f"td-{run_id}-main", worker=0, node_addresses=lambda _: {})
        begun.callback(clients.delete)
        clients.make()
        held.check()
        _require_addresses(api, wanted)
        return _outcomes(wanted, clients, dialer)


def _require_addresses(api: Api, wanted: ProbePlan) -> None:
    metadata = wanted.service["metadata"]
    now = api.get("services", metadata["namespace"], metadata["name"])
    addresses = set(now["spec"].get("clusterIPs") or ())
    foreign = sorted({each.address for each in wanted.questions} - addresses)  # another Service may use them now
    if foreign:
        said = f"--probe: {', '.join(foreign)} is not an address of Service {metadata['namespace']}/{metadata['name']}"
        theirs = ", ".join(sorted(addresses)) or "none"
        raise UsageError(f"{said} (addresses: {theirs}); only its own addresses can be probed")


def _outcomes(wanted: ProbePlan, clients: ClientPods, dialer: Dialer) -> list[ProbeOutcomes]:
    asked = [(clients.pod_of(pod_client(each.node)), each) for each in wanted.questions]
    probes = [Probe(client, "TCP", each.address, each.number) for client, each in asked]
    if not wanted.told:
        seen = [[dialer.connect(each) for _ in range(CONNECTIONS)] for each in probes]
    else:
        times = RATES.samples(1)
        outcomes = dialer.probe([each for each in probes for _ in range(times)], read=Reached)
        seen = [outcomes[begin : begin + times] for begin in range(0, len(outcomes), times)]
    counted = [
        ProbeOutcomes(question, Counter(named(each, question.family, wanted) for each in outcomes))
        for question, outcomes in zip(wanted.questions, seen, strict=True)
    ]
    return [replace(each, direct=_directly(each, clients, dialer)) if each.lost else each for each in counted]


def _directly(seen: ProbeOutcomes, clients: ClientPods, dialer: Dialer) -> Counter[Observation]:
    client = clients.pod_of(pod_client(seen.question.node))
    return Counter(dialer.connect(Probe(client, "TCP", address, port)) for address, port in seen.question.targets)
