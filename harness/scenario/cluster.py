"""The `Cluster` of a scenario, which creates objects in the scenario's own Kubernetes namespace.

Scenarios for proxies write EndpointSlices themselves (`publish`), so that the controller has no influence. Scenarios
for controllers create pods that exist in the API only (`create_pod`).
"""

import contextlib
import itertools
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from harness.api.client import Object
from harness.backends.backend import Backend, WantedPod
from harness.backends.protocols import (
    VIRTUAL,
    VIRTUAL_ADDRESSES,
    FlushesConntrack,
    PodLifecycle,
    PodReports,
    VirtualAddresses,
    part_of,
)
from harness.backends.releases import Releases
from harness.backends.scenario_backend import ScenarioBackend, Stream
from harness.errors import EndedError
from harness.judging.case_events import SETTLED
from harness.judging.conclusion import raise_for
from harness.judging.history import History
from harness.model import manifests
from harness.model.abilities import Ability
from harness.model.evidence_text import gathered, paragraphs, with_names
from harness.model.generation_settings import GenerationSettings
from harness.model.manifests import Endpoint, Port
from harness.model.release import CONTROLLER, PROXY, Component
from harness.model.requirements import Feature
from harness.model.workloads import Pod
from harness.scenario.components import ComponentOperations
from harness.scenario.nodes import Nodes
from harness.scenario.pod_variation import PodVariation
from harness.scenario.published_slices import PublishedSlices
from harness.scenario.random_events import RandomEvents
from harness.scenario.record import Observations, ScenarioRecord
from harness.scenario.service import HINT_ANNOTATIONS, AddressKind, Service, refuse_unrequested_hints, requested_hints
from harness.scenario.unrelated_objects import SharedServices, UnrelatedControllerInputs, UnrelatedObjects
from harness.variation import axes
from harness.variation import objects as variation
from harness.variation.axes import PLAIN, DrawnValues
from harness.variation.objects import LabelVariation

_FIXES_ADDRESS = {"clusterIP", "topologyKeys", "externalName"}
"""A Service with one of these fields gets no random node port or external IP. No KEP describes such a combination."""

_FEW_PORTS = 8  # number of ports that a server can have on any cluster; each port may need a container


class Cluster(ComponentOperations, Observations):
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
        draw: DrawnValues = PLAIN,
        shared: SharedServices | None = None,
        unanswered: Callable[[Collection[str]], Mapping[str, Collection[str]]] = lambda _: {},
        claims: Callable[[Feature], bool] = lambda _: True,
    ) -> None:
        """Start the test `test` in the Kubernetes namespace `namespace`, and write observations to `history`.

        `converges_within` is the claimed time limit for changes in seconds (times the time scale), or 0 for no limit.
        `ended_before` returns the components that exited or hung in other scenarios of the run, with descriptions.
        `releases` are the component releases that the previous scenario left running. If None, `close` restores the
        initial releases. `draw` varies everything that the scenario does not specify. `shared` are unrelated Services
        that the previous scenario left in place. If None, `close` deletes the unrelated Services. `unanswered` returns
        which of the given basic checks failed, each with the requirements that cover it. `claims` returns whether the
        implementation claims a feature.
        """
        super().__init__(ScenarioBackend(backend, releases), history)
        self.converges_within = converges_within
        self.claims = claims
        self.namespace = namespace
        self.record = ScenarioRecord(test)
        history.write("scenario", test=test, begun=self.record.begun)
        self.nodes = Nodes(self.backend, history, LabelVariation(draw))
        self.draw = draw
        self._unrelated = UnrelatedObjects(self.backend, namespace, draw, shared)
        self._events = RandomEvents(self.backend, history, namespace, draw)
        self._unanswered = unanswered
        self.ended_before = ended_before
        self.generation: GenerationSettings | None = None  # the cases to generate, or None for the cases of the test
        self.expects_running = False  # true if the test itself checks whether a component runs
        self._numbers = itertools.count(1)
        self._draws: dict[str, DrawnValues] = {}  # the draw of each Service by name, since the last `clear`
        self._pods: dict[str, Pod] = {}
        self._terminating: set[str] = set()  # names of terminating pods
        self.pod_variation = PodVariation(self.backend, namespace, draw)
        self.published = PublishedSlices(self.backend, namespace, self._unrelated)
        self.backend.booted.create_namespace(namespace)
        self._controller_inputs = UnrelatedControllerInputs(self.backend, namespace, draw)

    def close(self) -> None:
        """Restore components and nodes, and delete objects. If a component exited, the next scenario reports it."""
        self._forget_connections()  # otherwise the kernel (for each pod) and proxies search all conntrack entries
        self.backend.releases.end()
        with contextlib.suppress(EndedError):
            self.nodes.restore()
        with contextlib.suppress(EndedError):
            self._unrelated.close()
            self._controller_inputs.close()
            self.backend.booted.delete_namespace(self.namespace)
        self._forget_connections()  # connections of packets that were in flight

    def _forget_connections(self) -> None:
        if forgets := self.backend.find(FlushesConntrack):
            forgets.forget_connections()

    @property
    def running(self) -> list[Pod]:
        return list(self._pods.values())

    # Services

    def create_service(
        self,
        name: str = "",
        *,
        ports: Sequence[Port] | None = None,
        selector: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        dual_stack: bool = False,
        traffic_distribution: str | None = None,
        internal_traffic_policy: str | None = None,
        external_traffic_policy: str | None = None,
        type: str | None = None,  # noqa: A002  the name of the API field
        external_ips: bool = False,
        **spec: Any,
    ) -> Service:
        """Create a Service, by default with one port. Without a `selector`, use `publish` to write slices.

        A LoadBalancer gets one address per node, which is routed to that node as in a cloud. `external_ips` adds one
        such address per node to spec.externalIPs. `spec` contains further fields of the spec, by API name. With
        `traffic_distribution=""`, the field is unset even if a proxy's recipe would set it. Raises `RefusedError`.
        """
        if selector and HINT_ANNOTATIONS & (annotations or {}).keys():
            self.backend.need(Ability.EQUAL_NODES)
        number = self.next_number()
        self.record.used.update({"EndpointSlices"} if selector else ())
        name = name or f"web-{number}"
        if ports is None:
            ports = variation.usual_ports(self.draw)
        self._events.before_service()
        self._begin("create service", service=name)
        draw = self._draws.setdefault(name, axes.within_limits(self.draw, len(self._draws) + 1))
        random_kind = None if type or external_ips or _FIXES_ADDRESS & spec.keys() else draw[axes.ADDRESS]
        type = type or ("NodePort" if random_kind == "node-port" else None)  # noqa: A001
        kinds: list[AddressKind] = ["load-balancer"] if type == "LoadBalancer" else []
        kinds += ["external-ip"] if external_ips or random_kind == "external-ip" else []
        all_ports = variation.ports(draw, ports)
        virtual = virtual_addresses(self.backend, kinds, number, needed=not random_kind)
        service = Service({}, all_ports[: len(ports)], virtual, all_ports[len(ports) :], draw)
        chooses_family = type == "ExternalName" or {"ipFamilies", "clusterIP"} & spec.keys()
        if dual_stack:
            spec["ipFamilyPolicy"] = "RequireDualStack"
        elif self.draw[axes.FAMILY] == "second" and not chooses_family:
            spec["ipFamilies"] = [self.backend.booted.families[-1]]
        wanted = manifests.service(
            name,
            ports=all_ports,
            selector=selector,
            annotations=annotations,
            labels=labels,
            type=type,
            trafficDistribution=traffic_distribution,
            internalTrafficPolicy=internal_traffic_policy,
            externalTrafficPolicy=external_traffic_policy,
            externalIPs=service.addresses("external-ip") or None,
            **spec,
        )
        wanted = self.pod_variation.service(variation.service(self.draw, wanted))
        self._unrelated.before_service(draw, wanted, spec.get("ipFamilies") or self.backend.booted.families)
        service.object = self.api.create("services", self.namespace, wanted)
        if ingress := service.addresses("load-balancer"):
            self.set_ingress(service, ingress)
        service.requested_hints = requested_hints(wanted)
        if not selector:
            self._events.without_slices.add(name)
        self._controller_inputs.accompany_service(service.object)
        return service

    def patch_service(self, service: Service, patch: Object) -> None:
        """Change a live Service with a JSON merge patch (`None` removes a field). Raises `RefusedError`."""
        self.published.write_nodes(service, patch)
        if selector := (patch.get("spec") or {}).get("selector"):
            patch = {**patch, "spec": {**patch["spec"], "selector": self.pod_variation.labels.of(selector)}}
        self._begin("patch service", service=service.name, patch=patch)
        with self._changing(PROXY):
            service.object = self.api.patch("services", self.namespace, service.name, patch)
        service.requested_hints = requested_hints(service.object) | requested_hints(patch)

    def delete_service(self, service: Service) -> None:
        """Delete a Service. The slices that `publish` wrote for it remain."""
        self._begin("delete service", service=service.name)
        self._events.without_slices.discard(service.name)
        with self._changing(PROXY):
            self.api.delete("services", self.namespace, service.name)

    def set_ingress(self, service: Service, addresses: Sequence[str]) -> None:
        """Set these addresses in the status of a Service, as a load balancer controller would."""
        self._begin("set ingress", service=service.name, addresses=list(addresses))
        status = {"status": {"loadBalancer": {"ingress": [{"ip": each} for each in addresses]}}}
        service.object = self.api.patch("services", self.namespace, service.name, status, subresource="status")

    def _changing(self, component: Component) -> AbstractContextManager[None]:
        return self._events.change(component, observed=self.record.has_observed)

    def begin_to_count(self, component: Component) -> None:
        """Restart a component now if a random restart is due, because a later restart would reset its counters."""
        self._events.begin_to_count(component)

    def next_number(self) -> int:
        """Return a number that is unique in the scenario, for the name or the addresses of a Service."""
        return next(self._numbers)

    def _begin(self, what: str, *, stream: Stream = "services", **facts: Any) -> None:
        """Wait until components have processed all earlier changes to other resources, then record the next change."""
        self.backend.begin_to_write(stream)
        self.history.change(what, **facts)

    def clear(self) -> None:
        """Delete all Services and slices, and restore the nodes, but keep pods. Names and addresses can be reused."""
        self._begin("delete all Services and slices")
        for resource in ("services", "endpointslices"):
            self.api.delete_all(resource, self.namespace)
        self.published.forget()
        self._draws.clear()
        self.record.answered.clear()
        self.nodes.restore()
        self.backend.settle()
        self._forget_connections()

    # Pods and endpoints

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
        """Run one pod with an echo server on each of these nodes. The first pod on a node gets the node's name.

        With `tells_port`, answers include the port number (see `at_port`). With `host_network`, each server uses the
        node's address.
        """
        if len(container_ports) > _FEW_PORTS or tells_port:
            self.backend.need(Ability.MANY_PORTS)
        if host_network:
            self.backend.need(Ability.HOST_NETWORK)
        names = [self._free_name(node, list(on[:number])) for number, node in enumerate(on)]
        wanted = [
            self.pod_variation.wanted(
                WantedPod(name, node, labels, tuple(container_ports), ready, tells_port, host_network), runs=True
            )
            for name, node in zip(names, on, strict=True)
        ]
        self._unrelated.with_pods(on[0], labels)
        self._begin("run servers", stream="pods" if labels else "services", pods=" ".join(names))
        self.backend.need(nodes=on)
        with self._changing(CONTROLLER) if labels else contextlib.nullcontext():
            pods = self.backend.restored.run_pods(self.namespace, wanted)
            for each in wanted:
                self._after_pod(each)
        self._pods |= {pod.name: pod for pod in pods}
        for pod in pods[:1]:
            self._unrelated.after_pod(pod.name, labels)
        self.record.pod_names |= {address: pod.name for pod in pods for address in pod.addresses.values()}
        return pods

    def _after_pod(self, wanted: WantedPod) -> None:
        self.pod_variation.after(wanted)
        self._controller_inputs.accompany_pod(wanted)

    def _free_name(self, node: str, before: Sequence[str]) -> str:
        names = (name for name in itertools.chain([node], (f"{node}-{i}" for i in itertools.count(2))))
        free = (name for name in names if name not in self._pods)
        return next(itertools.islice(free, before.count(node), None))

    def delete_pod(self, pod: Pod) -> None:
        """Delete a pod without a grace period. Its API object, server and netns are removed immediately."""
        self._begin("delete pod", pod=pod.name)
        del self._pods[pod.name]
        with self._changing(CONTROLLER):
            self.backend.restored.delete_pod(self.namespace, pod.name)

    def create_pod(
        self,
        name: str,
        node: str,
        *,
        labels: Mapping[str, str] | None = None,
        ready: bool = True,
        phase: str = "Running",
        restart_policy: str = "Always",
        container_ports: Sequence[tuple[str, int, str]] = (("http", 8080, "TCP"),),
    ) -> None:
        """Create a pod that gets no traffic. Embedded clusters create only the API object. The node need not exist."""
        self._unrelated.with_pods(node, labels)
        wanted = self.pod_variation.wanted(
            WantedPod(name, node, labels, tuple(container_ports), ready, restart_policy=restart_policy), runs=False
        )
        with self._changing(CONTROLLER):
            self._begin("create pod", stream="pods", pod=name, ready=ready)
            exists = any(each.name == node for each in self.topology.nodes)
            if (phase, restart_policy) == ("Running", "Always") and exists:
                self.backend.part(PodLifecycle, nodes=[node]).create_pod(self.namespace, wanted)
                self._unrelated.after_pod(name, labels)
                self._after_pod(wanted)
            else:
                reports = self.backend.part(PodReports, nodes=[node])
                reports.create_reported_pod(self.namespace, wanted, phase=phase)
                self.pod_variation.after(wanted)

    def set_ready(self, name: str, ready: bool) -> None:
        """Report a pod as ready or not ready, as the pod's kubelet would."""
        self._begin("set readiness", stream="pods", pod=name, ready=ready)
        if name in self._terminating:  # the kubelet does not change the status of such a pod again
            self.backend.need(Ability.REPORT_PODS)
        with self._changing(CONTROLLER):
            self.backend.part(PodLifecycle).set_ready(self.namespace, name, ready)

    def begin_termination(self, name: str) -> None:
        """Delete a pod with its grace period: it gets a deletionTimestamp and keeps running."""
        self._begin("begin termination", stream="pods", pod=name)
        self.backend.part(PodLifecycle).begin_termination(self.namespace, name)
        self._terminating.add(name)

    def drain(self, node: str) -> None:
        """Cordon a node and evict this scenario's pods from it, with graceful termination, as `kubectl drain` does."""
        self.nodes.cordon(node)
        for pod in [each for each in self._pods.values() if each.node == node]:
            self._begin("evict pod", stream="pods", pod=pod.name)
            self.backend.part(PodLifecycle).evict_pod(self.namespace, pod.name)
            self._terminating.add(pod.name)

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
        """Write one slice per IP family with these endpoints. Replace slices from an earlier call with the same `name`.

        Raises `UsageError` for hints that the Service does not request, unless `unasked` is true.
        """
        if not unasked:
            refuse_unrequested_hints(service.name, service.requested_hints, endpoints)
        with self._events.first_slices(service, observed=self.record.has_observed):
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
                self.published.write(service, wanted)

    def publish_slice(self, wanted: Object) -> None:
        """Create this slice, with the same random variation as in `publish`. Its Service need not exist yet."""
        self._begin("write slice", slice=wanted["metadata"]["name"], endpoints=wanted["endpoints"])
        self.published.write_without_service(self.draw, wanted)

    def unpublish(self, service: Service, name: str = "", *, families: Sequence[str] | None = None) -> None:
        """Delete the slices that `publish` wrote with this name, by default for all IP families of the Service."""
        with self._changing(PROXY):
            for family in families or service.object["spec"]["ipFamilies"]:
                slice_name = f"{service.name}-{name or 'slice'}-{family.lower()}"
                self._begin("delete slice", slice=slice_name)
                self.published.withdraw(slice_name)

    def slices(self, service: Service) -> list[Object]:
        """Return all EndpointSlices of a Service, including slices that controllers wrote, sorted by name."""
        found = self.api.list(
            "endpointslices", self.namespace, label_selector=f"kubernetes.io/service-name={service.name}"
        )
        return sorted(self._controller_inputs.without_own(found), key=lambda each: str(each["metadata"]["name"]))

    def disturb(self, service: Service) -> bool:
        """If `draw` requires it, delete a Service's slices, label the Service, and return True. Else return False."""
        if not service.selector or not self._controller_inputs.is_to_disturb(service.name):
            return False
        self._begin("delete slices of service", service=service.name)
        owned = [each["metadata"] for each in self.slices(service) if each["metadata"].get("ownerReferences")]
        self.published.delete(each["name"] for each in owned)
        self.patch_service(service, {"metadata": {"labels": {"drawn": "changed"}}})
        return True

    # Time

    def settle(self) -> float:
        """Wait for components to process all writes. Return how many seconds they took. Raises `InconclusiveError`."""
        begin = time.monotonic()
        busy = self.backend.settle()
        self.took(SETTLED, time.monotonic() - begin)
        return busy

    def keep_time(self) -> None:
        """Declare that the scenario depends on timing. It then runs alone, without other load."""
        self.backend.need(Ability.UNDISTURBED)

    # Evidence

    def needs(self) -> dict[str, list[str]]:
        """Return the abilities and nodes that the scenario has needed so far."""
        return self.backend.needs.to_json()

    def check_instruments(self) -> None:
        """Raise `EndedError` if a component has ended, or `DistrustError` if the suite's own instruments are faulty."""
        try:
            self.backend.booted.check_instruments()
        except EndedError:
            if not self.expects_running:
                raise

    def check_preliminaries(self, text: str) -> None:
        """Raise `InconclusiveJudgementError` if a basic check that the scenario depends on, such as DNS, has failed.

        `text` is the scenario's own failure message. Raises nothing if the scenario itself covers the failed check.
        """
        for question, about in self._unanswered(self.record.used).items():
            if self.record.test in about:
                return
            said = {"expected": "an answer", "observed": f"even a plain Service gets no answer ({question})"}
            judgement = self.history.compare(self.record.test, min(about), relation="preliminary", **said)
            raise_for(judgement, paragraphs(judgement.message, text))

    def environment(self) -> dict[str, Any]:
        return self.backend.booted.environment()

    def explain(self, service: Service, nodes: Sequence[str]) -> str:
        """Return the decisions for a Service that the proxies on these nodes report, with the reasons."""
        text = gathered(partial(self.backend.booted.explain, self.namespace, service.name, nodes))
        return with_names(text, self.record.pod_names)


def virtual_addresses(
    backend: ScenarioBackend, kinds: Collection[AddressKind], number: int, *, needed: bool = True
) -> dict[tuple[AddressKind, str], Mapping[str, str]]:
    """Return addresses of these kinds for all nodes. `number` selects the addresses, which repeat after 254 numbers.

    If `needed`, record that the scenario needs a cluster that can route such addresses.
    """
    last, nodes = (number - 1) % VIRTUAL_ADDRESSES + 1, [node.name for node in backend.booted.topology.nodes]
    found: dict[tuple[AddressKind, str], Mapping[str, str]] = {}
    for kind in kinds:
        own = backend.part(VirtualAddresses, VIRTUAL[kind], nodes=nodes) if needed else None
        part = own or part_of(backend.booted, VirtualAddresses)
        found |= {(kind, node): part.virtual_addresses(kind, node, last) for node in nodes}
    return found


def set_addresses(cluster: Cluster, service: Service, kinds: Collection[AddressKind]) -> None:
    """Give a live Service one address of each of these kinds per node, and remove addresses of other kinds.

    The kinds are "external-ip" and, for a LoadBalancer, "load-balancer". Raises `RefusedError`.
    """
    new = [kind for kind in kinds if not service.addresses(kind)]
    service.virtual = {**service.virtual, **virtual_addresses(cluster.backend, new, cluster.next_number())}
    external = service.addresses("external-ip") if "external-ip" in kinds else None
    requested = service.requested_hints
    cluster.patch_service(service, {"spec": {"externalIPs": external}})
    service.requested_hints = requested
    if service.object["spec"]["type"] == "LoadBalancer":
        cluster.set_ingress(service, service.addresses("load-balancer") if "load-balancer" in kinds else [])
