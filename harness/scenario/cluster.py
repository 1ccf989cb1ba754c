"""A cluster as a scenario sees it: a Kubernetes namespace of its own on a booted backend, and verbs to fill it.

The backend outlives scenarios, a `Cluster` does not: `close` deletes every object that it made, and restores the nodes.
For the service-proxy profile scenarios write EndpointSlices by hand (`publish`), so that a proxy is judged whatever
controller there is; for the controller profile they make pods that exist in the API only (`create_pod`).
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from harness.api.client import Object, RefusedError
from harness.backends.backend import Backend, WantedPod
from harness.backends.protocols import ForgetsConnections, PodLifecycle, PodReports
from harness.backends.releases import Releases
from harness.backends.scenario_backend import ScenarioBackend, Stream
from harness.errors import EndedError, InconclusiveError
from harness.judging import timeline
from harness.judging.conclusion import raise_for
from harness.judging.history import History, Window
from harness.judging.statistics import DEFAULT_RATES, Rates
from harness.judging.story import SETTLED
from harness.judging.timeline import Seen
from harness.judging.verdict import Judgement, Verdict
from harness.model import manifests
from harness.model.abilities import Ability
from harness.model.generation import Generation
from harness.model.manifests import TCP, Endpoint, Port
from harness.model.texts import gathered, paragraphs, with_names
from harness.model.workloads import Pod
from harness.scenario.addresses import virtual_addresses
from harness.scenario.asking import AUTOMATIC, asked_of, refuse_unasked
from harness.scenario.components import Components
from harness.scenario.findings import Findings
from harness.scenario.holding import Sights
from harness.scenario.nodes import Nodes
from harness.scenario.service import AddressKind, Service
from harness.scenario.steps import step

if TYPE_CHECKING:  # which know what a cluster is
    from harness.scenario.paths import Path

_FEW_PORTS = 8  # that a server has in any cluster: each is a container of its own there
_SAID = 300  # letters of a value in a timeline; the message has all of it


class Cluster(Components):
    """One scenario's share of a cluster."""

    def __init__(
        self,
        backend: Backend,
        namespace: str,
        *,
        history: History,
        test: str,
        converges_within: float = 0.0,
        ended_before: Callable[[], Mapping[str, str]] = dict,
        releases: Releases | None = None,
    ) -> None:
        """Begin test `test` in Kubernetes namespace `namespace`; all observations go to the history.

        `converges_within` is the declared bound for changes in seconds, before the time scale; 0 for none.
        `ended_before` gives the components that have ended in other scenarios of the run, and how. `releases` are those
        of components as the scenario before left them; without it this one leaves them as they were at boot.
        """
        super().__init__(ScenarioBackend(backend, releases), history)
        self.converges_within = converges_within
        self.test = test
        self.namespace = namespace
        self.answered: set[str] = set()  # services that have answered a probe: silence counts only after speech
        self.nodes = Nodes(self.backend, history)
        self.sights = Sights(self)  # of written objects: they are looked at again at the end
        self.findings = Findings()
        self.ended_before = ended_before
        self.generation: Generation | None = None  # which cases a test is to make; None for those that it has
        self.expects_running = False  # of a component: its end says what is to be said, and casts no doubt
        self._numbers = itertools.count(1)
        self._pods: dict[str, Pod] = {}
        self._terminating: set[str] = set()  # names of pods
        self._published: set[str] = set()  # names of slices
        self._names: dict[str, str] = {}  # of all pods that ran, by address, deleted ones too
        self._begun = time.monotonic()
        self.backend.booted.create_namespace(namespace)

    def close(self) -> None:
        """Restore components (see `ComponentReleases.end`), then delete all objects of the scenario.

        That a component has ended, or works no longer, does not keep it from that: the next scenario will say so.
        """
        self._forget_connections()  # else proxies, and the kernel for each pod, look through all of them
        self.backend.releases.end()
        with contextlib.suppress(EndedError):
            self.nodes.restore()
        with contextlib.suppress(EndedError):
            self.backend.booted.delete_namespace(self.namespace)
        self._forget_connections()  # those of packets that were on their way

    def _forget_connections(self) -> None:
        if forgets := self.backend.find(ForgetsConnections):
            forgets.forget_connections()

    @property
    def running(self) -> list[Pod]:
        """The running pods of the scenario."""
        return list(self._pods.values())

    # Services

    @step("create a Service")
    def create_service(
        self,
        name: str = "",
        *,
        ports: Sequence[Port] = (TCP,),
        selector: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        dual_stack: bool = False,
        traffic_distribution: str | None = None,
        internal_traffic_policy: str | None = None,
        external_traffic_policy: str | None = None,
        type: str | None = None,  # noqa: A002  the field's own word
        external_ips: bool = False,
        **spec: Any,
    ) -> Service:
        """Create a Service; without `selector` its slices are written by hand.

        A LoadBalancer gets one address a node, routed to that node, as a cloud would give it; `external_ips` adds the
        same as spec.externalIPs. Further fields of the spec are given by their Kubernetes names. Raises `RefusedError`.
        """
        if selector and AUTOMATIC & (annotations or {}).keys():
            self.backend.need(Ability.EQUAL_NODES)
        number = self.next_number()
        name = name or f"web-{number}"
        self._begin("create service", service=name)
        kinds: list[AddressKind] = ["load-balancer"] if type == "LoadBalancer" else []
        kinds += ["external-ip"] if external_ips else []
        service = Service({}, tuple(ports), virtual_addresses(self.backend, kinds, number))
        wanted = manifests.service(
            name,
            ports=ports,
            selector=selector,
            annotations=annotations,
            labels=labels,
            type=type,
            trafficDistribution=traffic_distribution,
            internalTrafficPolicy=internal_traffic_policy,
            externalTrafficPolicy=external_traffic_policy,
            ipFamilyPolicy="RequireDualStack" if dual_stack else None,
            externalIPs=service.addresses("external-ip") or None,
            **spec,
        )
        service.object = self.api.create("services", self.namespace, wanted)
        if ingress := service.addresses("load-balancer"):
            self.set_ingress(service, ingress)
        service.asked = asked_of(wanted)
        return service

    @step("patch Service {service.name}")
    def patch_service(self, service: Service, patch: Object) -> None:
        """Change a live Service with a JSON merge patch (`None` removes a field). Raises `RefusedError`."""
        self._begin("patch service", service=service.name, patch=patch)
        service.object = self.api.patch("services", self.namespace, service.name, patch)
        service.asked = asked_of(service.object) | asked_of(patch)

    @step("delete Service {service.name}")
    def delete_service(self, service: Service) -> None:
        """Delete a Service; slices written by hand stay."""
        self._begin("delete service", service=service.name)
        self.api.delete("services", self.namespace, service.name)

    def set_ingress(self, service: Service, addresses: Sequence[str]) -> None:
        """Report these addresses in the status of a Service, as its load balancer would."""
        self._begin("set ingress", service=service.name, addresses=list(addresses))
        status = {"status": {"loadBalancer": {"ingress": [{"ip": each} for each in addresses]}}}
        service.object = self.api.patch("services", self.namespace, service.name, status, subresource="status")

    def next_number(self) -> int:
        """Return a number that no other Service of the scenario has, for its name or addresses."""
        return next(self._numbers)

    def _begin(self, what: str, *, stream: Stream = "services", **facts: Any) -> None:
        """Record the next change, after components have seen those of other streams."""
        self.backend.begin_to_write(stream)
        self.history.change(what, **facts)

    def clear(self) -> None:
        """Delete all Services and slices, and restore the nodes; pods stay.

        Names and addresses may then be used again.
        """
        self._begin("delete all Services and slices")
        for resource in ("services", "endpointslices"):
            self.api.delete_all(resource, self.namespace)
        self._published.clear()
        self.answered.clear()
        self.nodes.restore()
        self.backend.settle()
        self._forget_connections()

    # Pods and endpoints

    @step("run servers on {on}")
    def run_servers(
        self,
        on: Sequence[str],
        *,
        labels: Mapping[str, str] | None = None,
        container_ports: Sequence[tuple[str, int, str]] = (),
        ready: bool = True,
        tells_port: bool = False,
        host_network: bool = False,
    ) -> list[Pod]:
        """Run one pod with an echo server on each of these nodes; the first on a node has the node's name.

        With `tells_port` each port answers by a name of its own (`at_port`); with `host_network` the servers are at the
        addresses of their nodes, one a node.
        """
        if len(container_ports) > _FEW_PORTS or tells_port:
            self.backend.need(Ability.MANY_PORTS)
        if host_network:
            self.backend.need(Ability.HOST_NETWORK)
        names = [self._free_name(node, list(on[:number])) for number, node in enumerate(on)]
        wanted = [
            WantedPod(name, node, labels, tuple(container_ports), ready, tells_port, host_network)
            for name, node in zip(names, on, strict=True)
        ]
        self._begin("run servers", stream="pods" if labels else "services", pods=" ".join(names))
        self.backend.need(nodes=on)
        pods = self.backend.restored.run_pods(self.namespace, wanted)
        self._pods |= {pod.name: pod for pod in pods}
        self._names |= {address: pod.name for pod in pods for address in pod.addresses.values()}
        return pods

    def _free_name(self, node: str, before: Sequence[str]) -> str:
        """Return the first free name for a pod on a node; pods for the nodes `before` it take names too."""
        names = (name for name in itertools.chain([node], (f"{node}-{i}" for i in itertools.count(2))))
        free = (name for name in names if name not in self._pods)
        return next(itertools.islice(free, before.count(node), None))

    @step("delete pod {pod.name}")
    def delete_pod(self, pod: Pod) -> None:
        """End a pod at once: its API object, its server and its netns."""
        self._begin("delete pod", pod=pod.name)
        del self._pods[pod.name]
        self.backend.restored.delete_pod(self.namespace, pod.name)

    @step("create pod {name} on {node}")
    def create_pod(
        self,
        name: str,
        node: str,
        *,
        labels: Mapping[str, str] | None = None,
        ready: bool = True,
        phase: str = "Running",
        container_ports: Sequence[tuple[str, int, str]] = (("http", 8080, "TCP"),),
    ) -> None:
        """Create a pod that exists in the API only, with addresses of its node: for scenarios without traffic.

        Its node need not exist either: so looks a pod whose Node has been deleted.
        """
        self._begin("create pod", stream="pods", pod=name, ready=ready)
        wanted = WantedPod(name, node, labels, tuple(container_ports), ready)
        if phase == "Running" and any(each.name == node for each in self.topology.nodes):
            self.backend.part(PodLifecycle, nodes=[node]).create_pod(self.namespace, wanted)
        else:
            reports = self.backend.part(PodReports, nodes=[node])
            reports.create_reported_pod(self.namespace, wanted, phase=phase)

    @step("report pod {name} as ready: {ready}")
    def set_ready(self, name: str, ready: bool) -> None:
        """Report a pod as ready or not ready, as its kubelet would."""
        self._begin("set readiness", stream="pods", pod=name, ready=ready)
        if name in self._terminating:  # a kubelet does not report such a pod again
            self.backend.need(Ability.REPORT_PODS)
        self.backend.part(PodLifecycle).set_ready(self.namespace, name, ready)

    @step("begin to terminate pod {name}")
    def begin_termination(self, name: str) -> None:
        """Delete a pod gracefully: it gets a deletion time, and still runs."""
        self._begin("begin termination", stream="pods", pod=name)
        self.backend.part(PodLifecycle).begin_termination(self.namespace, name)
        self._terminating.add(name)

    @step("drain node {node}")
    def drain(self, node: str) -> None:
        """Cordon a node, and evict this scenario's pods from it, as `kubectl drain` does; they terminate gracefully."""
        self.nodes.cordon(node)
        for pod in [each for each in self._pods.values() if each.node == node]:
            self._begin("evict pod", stream="pods", pod=pod.name)
            self.backend.part(PodLifecycle).evict_pod(self.namespace, pod.name)
            self._terminating.add(pod.name)

    @step("write slices of Service {service.name}")
    def publish(
        self,
        service: Service,
        endpoints: Sequence[Endpoint],
        *,
        name: str = "",
        families: Sequence[str] | None = None,
        ports: Sequence[Port] | None = None,
        labels: Mapping[str, str] | None = None,
        unasked: bool = False,
    ) -> None:
        """Write these endpoints as the one slice of each family; again for the same `name` to replace them.

        Raises `UsageError` for hints that the Service does not ask for, unless what becomes of `unasked` ones is the
        question.
        """
        if not unasked:
            refuse_unasked(service.name, service.asked, endpoints)
        for family in families or service.object["spec"]["ipFamilies"]:
            slice_name = f"{service.name}-{name or 'slice'}-{family.lower()}"
            wanted = manifests.endpoint_slice(
                slice_name,
                service.name,
                endpoints,
                family=family,
                ports=service.ports if ports is None else ports,
                labels=labels,
            )
            self._begin("write slice", slice=slice_name, endpoints=wanted["endpoints"])
            if slice_name in self._published:
                self.api.replace("endpointslices", self.namespace, wanted)
            else:
                self.api.create("endpointslices", self.namespace, wanted)
                self._published.add(slice_name)

    @step("delete slices of Service {service.name}")
    def unpublish(self, service: Service, name: str = "", *, families: Sequence[str] | None = None) -> None:
        """Delete the slices that `publish` wrote under this name, by default of the families that the Service has."""
        for family in families or service.object["spec"]["ipFamilies"]:
            slice_name = f"{service.name}-{name or 'slice'}-{family.lower()}"
            self._begin("delete slice", slice=slice_name)
            self.api.delete("endpointslices", self.namespace, slice_name)
            self._published.discard(slice_name)

    def slices(self, service: Service) -> list[Object]:
        """All EndpointSlices of a Service, whoever wrote them, by name."""
        found = self.api.list(
            "endpointslices", self.namespace, label_selector=f"kubernetes.io/service-name={service.name}"
        )
        return sorted(found, key=lambda each: str(each["metadata"]["name"]))

    # Time

    def settle(self) -> float:
        """Wait until all components have worked on what was written. Raises `InconclusiveError` when they do not.

        Returns what `Backend.settle` does.
        """
        begin = time.monotonic()
        busy = self.backend.settle()
        self.took(SETTLED, time.monotonic() - begin)
        return busy

    def took(self, what: str, seconds: float) -> None:
        """Something came to be as expected after so long: for the history, and the slowest of all for the report."""
        self.history.write("convergence", test=self.test, what=what, seconds=round(seconds, 3))
        self.findings.took(seconds)

    def keep_time(self) -> None:
        """Declare that the scenario depends on time, which other load would disturb: it runs alone."""
        self.backend.need(Ability.UNDISTURBED)

    # Observations and judgements

    def window(self, title: str, paths: Sequence[Path], rates: Rates = DEFAULT_RATES) -> Window:
        """Open a measuring window along these paths, all to one address of a Service.

        From here on each observation counts, and is written to the history.
        """
        expectation = {path.label: path.expected for path in paths}
        window = self.history.window(self.test, expectation, rates, of=paths[0].of if paths else ("", ""))
        self.findings.opened(title, window, paths)
        return window

    def measured(self, title: str, values: Mapping[str, float]) -> None:
        """Record numbers for the report, beside the verdict on them."""
        self.history.change("measured", title=title, values=dict(values))
        self.findings.measured(title, values)

    @step("compare {what}")
    def expect_equal(
        self, what: str, *, expected: Any, observed: Any, explanation: str = "", unknown: str = ""
    ) -> None:
        """Compare two values that JSON can hold, and record both. `unknown` says why nothing was observed, if so.

        Raises `AssertionError`, and `InconclusiveError` if the observed value is unknown.
        """
        judgement = self.history.compare(self.test, what, expected=expected, observed=observed, unknown=unknown)
        self._raise_unless_passed(judgement, what, observed, explanation)

    @step("compare {what}")
    def expect_within(
        self,
        what: str,
        fewest: float,
        most: float | None,
        *,
        observed: float | Mapping[str, float],
        explanation: str = "",
    ) -> None:
        """Expect a number, or each of a mapping, to lie between these two (`None`: no upper limit).

        Records them in the history. Raises `AssertionError`.
        """
        judgement = self.history.compare(self.test, what, expected=[fewest, most], observed=observed, relation="within")
        self._raise_unless_passed(judgement, what, observed, explanation)

    def _raise_unless_passed(self, judgement: Judgement, what: str, observed: Any, explanation: str) -> None:
        if judgement.verdict is not Verdict.PASSED:
            seen = [Seen(time.monotonic(), f"{what}: {observed!r}"[:_SAID])]
            raise_for(judgement, paragraphs(judgement.message, explanation, self.timeline(seen)))

    def judgement(self) -> dict[str, Any]:
        """Return the plan of the scenario's probes, the counts of each measuring window, and recorded numbers."""
        return self.findings.as_json()

    def needs(self) -> dict[str, list[str]]:
        """Return the needs of the scenario so far."""
        return self.backend.needs.to_json()

    def check_instruments(self) -> None:
        """Raise `EndedError` or `DistrustError` if a component has ended by itself: observations mean nothing then."""
        try:
            self.backend.booted.check_instruments()
        except EndedError:
            if not self.expects_running:
                raise

    def environment(self) -> dict[str, Any]:
        """Return the facts about the cluster for the report."""
        return self.backend.booted.environment()

    def explain(self, service: Service, nodes: Sequence[str]) -> str:
        """Return the decisions of these nodes for a Service and their reasons, as far as known."""
        explain = partial(self.backend.booted.explain, self.namespace, service.name, nodes)
        return with_names(gathered(explain), self._names)

    def timeline(self, seen: Sequence[Seen]) -> str:
        """Return the changes and these observations with their times; "" if the scenario has changed nothing."""
        return with_names(timeline.as_text(self.history.changes, seen, zero=self._begun), self._names)

    def evidence(self) -> Iterator[tuple[str, str | bytes]]:
        """Return the objects of the scenario and the evidence of components, with their file names."""
        from harness.scenario.evidence import evidence_of  # noqa: PLC0415  it knows what a cluster is

        return evidence_of(self, since=self._begun, names=self._pod_names())

    def _pod_names(self) -> dict[str, str]:
        """Return the names of all pods that ran or exist in the API, by address."""
        with contextlib.suppress(RefusedError, InconclusiveError):
            for pod in self.api.list("pods", self.namespace):
                ips = (pod.get("status") or {}).get("podIPs") or ()
                self._names |= {str(each["ip"]): str(pod["metadata"]["name"]) for each in ips}
        return self._names
