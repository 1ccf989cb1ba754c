"""Proxies with PodLocators decide like proxies with Nodes (KEP-536, Kube-proxy changes, beta)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.eventually import eventually
from harness.netns.namespace import Namespace
from reference.apiserver import ApiServer
from reference.client import Object
from reference.features import Features
from reference.pod_locator import PodLocatorController
from reference.pod_locator.location import location
from reference.proxy import ServiceProxy
from reference.proxy.decision import Behaviour
from reference.proxy.node_labels import PodLocatorLabels
from reference.proxy.state import State
from tests.reference.api_server_calls import patched

FEATURES = Features(gates={"ServiceTopology": True})
NODES = ("a1", "a2", "b1", "b2")
PODS = ("p1", "p2", "p3", "p4", "p5")
SERVICES = ("one", "two")
LABELS = st.fixed_dictionaries(
    {},
    optional={
        "zone": st.sampled_from("ab"),
        "rack": st.sampled_from(["r1", "r2", ""]),
        "host": st.sampled_from(NODES),
    },
)
KEYS = st.lists(st.sampled_from(["zone", "rack", "host", "row"]), max_size=3, unique=True)
CHANGES = st.one_of(
    st.tuples(st.just("label"), st.sampled_from(NODES), LABELS),
    st.tuples(st.just("delete node"), st.sampled_from(NODES)),
    st.tuples(st.just("run"), st.sampled_from(PODS), st.sampled_from(NODES)),
    st.tuples(st.just("delete pod"), st.sampled_from(PODS)),
    st.tuples(st.just("keys"), st.sampled_from(SERVICES), KEYS, st.booleans()),
    st.tuples(st.just("endpoints"), st.sampled_from(SERVICES), st.sets(st.sampled_from(PODS)), st.booleans()),
)


class SimulatedCluster:
    """A simulated cluster. Each node has two proxy states: one uses PodLocators, and the other one uses Nodes."""

    def __init__(self) -> None:
        self.by_nodes = {name: State(name, Behaviour.of(FEATURES)) for name in NODES}
        self.by_locators = {name: State(name, Behaviour.of(FEATURES), labels=PodLocatorLabels()) for name in NODES}
        self.nodes: dict[str, Object] = {}
        self.pods: dict[str, Object] = {}
        self.located: dict[str, Object] = {}
        for name in NODES:
            self.label(name, {})
        for name in SERVICES:
            self.keys(name, [], False)

    def label(self, name: str, labels: Mapping[str, str]) -> None:
        self.nodes[name] = {"metadata": {"name": name, "labels": dict(labels)}, "spec": {}, "status": {}}
        self._tell("nodes", self.nodes[name], deleted=False)

    def delete_node(self, name: str) -> None:
        if name in self.nodes:
            self._tell("nodes", self.nodes.pop(name), deleted=True)

    def run(self, name: str, node: str) -> None:
        status = {"phase": "Running", "podIPs": [{"ip": ip_of(name)}]}
        self.pods[name] = {"metadata": {"name": name}, "spec": {"nodeName": node}, "status": status}

    def delete_pod(self, name: str) -> None:
        self.pods.pop(name, None)

    def keys(self, name: str, keys: Iterable[str], everywhere: bool) -> None:
        spec: Object = {
            "clusterIPs": [f"10.96.0.{1 + SERVICES.index(name)}"],
            "ipFamilies": ["IPv4"],
            "type": "ClusterIP",
        }
        spec |= {"ports": [{"port": 80, "protocol": "TCP"}], "topologyKeys": [*keys, *("*" * everywhere)]}
        self._tell("services", {"metadata": {"name": name, "namespace": "default"}, "spec": spec}, deleted=False)

    def endpoints(self, service: str, pods: Iterable[str], named: bool) -> None:
        """Write the running `pods` as endpoints, which have a targetRef or only addresses."""
        endpoints = []
        for pod in sorted(each for each in pods if each in self.pods):
            target = {"targetRef": {"kind": "Pod", "namespace": "default", "name": pod}} if named else {}
            node = self.pods[pod]["spec"]["nodeName"]
            endpoints.append({"addresses": [ip_of(pod)], "conditions": {}, "nodeName": node, **target})
        meta = {"name": service, "namespace": "default", "labels": {"kubernetes.io/service-name": service}}
        ports = [{"name": "", "protocol": "TCP", "port": 8080}]
        obj = {"metadata": meta, "addressType": "IPv4", "endpoints": endpoints, "ports": ports}
        self._tell("endpointslices", obj, deleted=False)

    def change(self, what: str, *arguments: Any) -> None:
        if what == "run":  # a pod does not move: a new pod replaces it, and its endpoints change
            for service in SERVICES:
                self.endpoints(service, (), False)
        if what == "delete pod":
            for service in SERVICES:
                self.endpoints(service, (), False)
        getattr(self, what.replace(" ", "_"))(*arguments)
        self._locate()

    def _locate(self) -> None:
        """Write the PodLocators as the controller does."""
        for name, pod in self.pods.items():
            said = location(pod, self.nodes.get(pod["spec"]["nodeName"]))
            if self.located.get(name) != said:
                self._tell("podlocators", {"metadata": {"name": name, "namespace": "default"}, **said}, deleted=False)
                self.located[name] = said
        for name in self.located.keys() - self.pods.keys():
            gone = {"metadata": {"name": name, "namespace": "default"}, **self.located.pop(name)}
            self._tell("podlocators", gone, deleted=True)

    def _tell(self, resource: str, obj: Object, *, deleted: bool) -> None:
        """Send the event to each proxy that watches the resource."""
        if resource != "podlocators":
            for state in self.by_nodes.values():
                state.receive(resource, obj, deleted=deleted)
        for name, state in self.by_locators.items():
            if resource != "nodes" or obj["metadata"]["name"] == name:
                state.receive(resource, obj, deleted=deleted)

    def decisions(self, states: Mapping[str, State]) -> dict[str, object]:
        for each in states.values():
            each.compute()
        return {name: state.decisions() for name, state in states.items()}


def ip_of(pod: str) -> str:
    return f"10.244.0.{1 + PODS.index(pod)}"


PLACES = st.fixed_dictionaries(dict.fromkeys(NODES, LABELS))
RUNNING = st.fixed_dictionaries({name: st.sampled_from(NODES) for name in PODS})


@given(PLACES, RUNNING, st.lists(CHANGES, max_size=15))
@settings(max_examples=60)
def test_decisions_equal_those_of_a_proxy_that_watches_nodes(
    places: dict[str, dict[str, str]], running: dict[str, str], changes: list[tuple[Any, ...]]
) -> None:
    cluster = SimulatedCluster()
    first = [
        *(("label", *each) for each in places.items()),
        *(("run", *each) for each in running.items()),
        *(("endpoints", service, PODS, service == "one") for service in SERVICES),
        ("keys", "one", ["host", "rack"], False),
        ("keys", "two", ["zone"], True),
    ]
    for what, *arguments in (*first, *changes):
        cluster.change(what, *arguments)
        assert cluster.decisions(cluster.by_locators) == cluster.decisions(cluster.by_nodes)
        for name in NODES:
            tables = [by[name].ruleset("IPv4", ()) for by in (cluster.by_locators, cluster.by_nodes)]
            assert tables[0] == tables[1]


def test_proxy_with_locators_watches_only_its_own_node(node: Namespace) -> None:
    api = ApiServer(FEATURES)
    controller = PodLocatorController(api)
    options: dict[str, Any] = {"pod_cidrs": ["10.244.0.0/16"], "features": FEATURES}
    with node.entered(), Namespace.create() as other:
        with_locators = replace(FEATURES, gates={**FEATURES.gates, "PodLocator": True})
        proxies = [ServiceProxy("a1", api, **{**options, "features": with_locators})]
        with other.entered():
            proxies.append(ServiceProxy("a1", api, **options))
        for each in (controller, *proxies):
            each.start()
        for name in ("a1", "b1"):
            api.create("nodes", "", {"metadata": {"name": name, "labels": {"rack": "r1"}}})
        run_service(api, "b1", "10.244.0.1")
        for labels, reached in (({"rack": "r1"}, True), ({"rack": "r2"}, False), ({"rack": "r1"}, True)):
            patched(api, "nodes", "", "b1", {"metadata": {"labels": labels}})
            for each in (controller, *proxies):
                eventually(each.synced, describe=f"{each} to be synced", every=0.001)
            assert proxies[0].decisions() == proxies[1].decisions()
            assert ("10.244.0.1" in proxies[0].explain("default", "web")) is reached
        assert [each._metrics.seen["nodes"] for each in proxies] == [1, 4]
        for each in (*proxies, controller):
            each.stop()


def run_service(api: ApiServer, host: str, ip: str) -> None:
    """Create a Service with a rack key and one endpoint, which is a pod on this node."""
    spec = {"nodeName": host, "containers": [{"name": "c", "image": "i"}]}
    api.create("pods", "default", {"metadata": {"name": "p1"}, "spec": spec})
    patched(api, "pods", "default", "p1", {"status": {"podIPs": [{"ip": ip}]}}, subresource="status")
    keyed = {"ports": [{"port": 80}], "topologyKeys": ["rack"]}
    api.create("services", "default", {"metadata": {"name": "web"}, "spec": keyed})
    target = {"kind": "Pod", "namespace": "default", "name": "p1"}
    obj = {
        "metadata": {"name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4",
        "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
        "endpoints": [{"addresses": [ip], "nodeName": host, "targetRef": target}],
    }
    api.create("endpointslices", "default", obj)
