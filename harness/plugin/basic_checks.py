"""Check before the first test that plain Services, EndpointSlices and DNS work at all.

If node ports never respond, the requirement with `answers={"TCP node-port"}` fails, and other requirements that use
node ports are inconclusive. Checks without a requirement do not run, because a failed check must fail a requirement.

    PROTOCOL KIND [FAMILY]    a plain Service responds on this kind of address, by default in the test's IP family
    EndpointSlices            a Service with a selector gets an endpoint
    DNS                       the name of a Service with an endpoint has an address
"""

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from harness.api.client import RefusedError
from harness.backends.protocols import VIRTUAL_ADDRESSES, Probing
from harness.errors import HarnessError
from harness.eventually import last_value
from harness.model.manifests import Port
from harness.model.outcomes import Reached
from harness.model.workloads import Pod, external_client, pod_client
from harness.run.plan import Plan
from harness.scenario.cluster import Cluster
from harness.scenario.dns_answers import ask_dns, dns_name_of
from harness.scenario.paths import PacketPath
from harness.scenario.service import AddressKind, Service, placeless
from harness.scenario.service_address import service_address
from harness.variation import axes

WITHIN = 5.0
"""Seconds to wait for all checks, multiplied by the time scale. A check may also succeed later: see `unanswered`."""

SERVICES: Mapping[AddressKind, str | None] = {
    "cluster-ip": None,
    "node-port": "NodePort",
    "load-balancer": "LoadBalancer",
    "external-ip": None,
}

PORTS = {each.protocol: each for each in (Port(name="tcp"), Port(name="udp", protocol="UDP"))}


def required_checks(plan: Plan, families: Sequence[str]) -> dict[str, set[str]]:
    """Return the checks of a run, each with the requirements that have it in `answers`."""
    found: dict[str, set[str]] = {}
    judged = {each.requirement for each in plan.cases if each.reason == ""}
    for each in (plan.requirements[name] for name in sorted(judged)):
        family = families[-1] if plan.draw_of(each.id)[axes.FAMILY] == "second" else families[0]
        for check in each.answers:
            found.setdefault(f"{check} {family}" if check.count(" ") == 1 else check, set()).add(each.id)
    return found


class BasicChecks:
    def __init__(self, cluster: Cluster, about: Mapping[str, Collection[str]]) -> None:
        """Repeat each check until it succeeds, for a limited time. `about`: the requirements that cover each check."""
        self._cluster = cluster
        self._about = about
        self._left: dict[str, Callable[[], bool]] = {}
        self._hopeless: set[str] = set()  # checks that can no longer succeed
        self._closed = False
        with self._aside():
            self._prepare()
            last_value(
                self._run, lambda left: set(left) <= self._hopeless, within=WITHIN, every=0.02, describe="first answers"
            )
        if not self._left:
            self.close()

    def unanswered(self, used: Collection[str]) -> Mapping[str, Collection[str]]:
        """Return the checks among `used` that have never succeeded, with the requirements that cover them."""
        if not self._left.keys() & set(used):
            return {}
        with self._aside():
            self._run()
        return {each: self._about[each] for each in sorted(self._left) if each in used}

    def close(self) -> None:
        with self._aside():
            if not self._closed:
                self._closed = True
                self._cluster.close()

    @contextlib.contextmanager
    def _aside(self) -> Iterator[None]:
        with self._cluster.history.set_aside(), _possible():
            yield

    def _run(self) -> Collection[str]:
        for name, check in list(self._left.items()):
            succeeded = True
            with _possible():
                succeeded = check()
            if succeeded:
                del self._left[name]
        return self._left

    def _prepare(self) -> None:
        for _ in range(VIRTUAL_ADDRESSES - len(SERVICES)):
            self._cluster.next_number()  # scenarios use the first addresses
        node = self._cluster.topology.nodes[0].name
        (pod,) = self._cluster.run_servers(on=[node])
        for kind in SERVICES:
            with _possible():
                self._prepare_service(kind, pod)
        if "EndpointSlices" in self._about:
            with _possible():
                service = self._cluster.create_service(selector={"preliminary": "slices"})
                self._cluster.create_pod("listed", node, labels={"preliminary": "slices"})
                self._left["EndpointSlices"] = partial(self._listed, service)
        if "DNS" in self._about:
            with _possible():
                service = self._published(pod, self._cluster.families[:1])
                self._left["DNS"] = partial(self._resolved, pod, service)

    def _listed(self, service: Service) -> bool:
        return any(each.get("endpoints") for each in self._cluster.slices(service))

    def _prepare_service(self, kind: AddressKind, pod: Pod) -> None:
        mine = [each for each in self._about if f" {kind} " in each]
        if not mine:
            return
        families = sorted({each.split()[2] for each in mine})
        service = self._published(pod, families, external_ips=kind == "external-ip", type=SERVICES[kind])
        client = pod_client(pod.node) if kind == "cluster-ip" else external_client(pod.node)
        for name in mine:
            protocol, _, family = name.split()
            target = service_address(self._cluster, service, to=kind, family=family, port=PORTS[protocol])
            self._left[name] = partial(self._reached, target.path(client, frozenset()))

    def _published(self, pod: Pod, families: Sequence[str], **fields: Any) -> Service:
        one: dict[str, Any] = {} if len(families) == 2 else {"ipFamilies": list(families)}
        ports = list(PORTS.values())
        service = self._cluster.create_service(ports=ports, dual_stack=len(families) == 2, **one, **fields)
        self._cluster.publish(service, [placeless(pod)])
        return service

    def _reached(self, path: PacketPath) -> bool:
        seen = self._cluster.backend.part(Probing).glance(path.probes(1))
        return any(isinstance(each, Reached) for each in seen)

    def _resolved(self, pod: Pod, service: Service) -> bool:
        kind = {"IPv4": "A", "IPv6": "AAAA"}[service.object["spec"]["ipFamilies"][0]]
        answer = ask_dns(self._cluster, pod, dns_name_of(service), kind)
        if answer.malformed:
            self._hopeless.add("DNS")
        return bool(answer.data)


def _possible() -> contextlib.AbstractContextManager[None]:
    """Ignore errors, so that a check that is impossible on this cluster counts as successful."""
    return contextlib.suppress(HarnessError, RefusedError)
