"""Sends probes from network namespaces that this process enters."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from harness.backends.backend import SteadyTraffic
from harness.backends.protocols import METRICS_PORT
from harness.errors import InconclusiveError
from harness.model.evidence_text import gathered
from harness.model.outcomes import Observation, Unknown
from harness.model.workloads import Client, Pod, node_client
from harness.netns import conntrack, http, kernel_state
from harness.netns.fabric import NetworkPeer
from harness.netns.http import HttpResponse
from harness.netns.namespace import Namespace
from harness.netns.socket_maker import SocketMaker
from harness.probes.loop import Probe, ProbeLoop, Stream
from harness.probes.probe import SocketSource, from_error
from harness.tracing import probe_tracing
from harness.tracing.path import TracedProbe

DATAGRAMS = 256  # probes per batch; a socket buffers 277 (net.core.rmem_default, 768 bytes each)


class NetnsProbing(ABC):
    """Sends probes from sockets in the netns of clients. List this class before base classes that probe differently."""

    _loop: ProbeLoop

    @abstractmethod
    def host_of(self, client: Client | Pod) -> NetworkPeer:
        """Return the netns and addresses of a client."""

    @abstractmethod
    def probe(self, probes: Sequence[Probe], *, in_flight: int = 32) -> list[Observation]:
        """Send probes, and return their outcomes in the same order."""

    def namespace_of(self, client: Client | Pod) -> Namespace:
        return self.host_of(client).namespace

    def source_of(self, client: Client | Pod, *, fresh: bool = False) -> SocketSource:  # noqa: ARG002  all ports are fresh
        return self.namespace_of(client)

    def glance(self, probes: Sequence[Probe]) -> list[Observation]:
        """Call `probe`, which is fast in a netns, with at most as many probes in flight as a socket can buffer."""
        return self.probe(probes, in_flight=DATAGRAMS)

    def addresses_seen(self, probes: Sequence[Probe]) -> list[Observation]:
        return self.probe(probes)

    def connect(self, probe: Probe) -> Stream:
        return self._loop.connect(probe)

    def record(self, interval: float, probes: Sequence[Probe]) -> SteadyTraffic:
        return self._loop.every(interval, probes)

    def http_get(self, client: Client | Pod, address: str, port: int, path: str) -> HttpResponse:
        """Send a GET request from a client's netns. Raises `OSError`, or `InconclusiveError` if no port is free."""
        place = self.namespace_of(client)
        try:
            return http.get(place, address, port, path)
        except OSError as error:
            outcome = from_error(error, Probe(place, "TCP", address, port))
            if error.errno and isinstance(outcome, Unknown):
                raise InconclusiveError(f"{client} cannot send a request to {address}: {outcome.why}") from error
            raise

    def proxy_metrics(self, node: str) -> str:
        return self.http_get(node_client(node), "127.0.0.1", METRICS_PORT, "/metrics").text

    def follow(
        self, probe: Probe, node: str, is_same: Callable[[Observation], bool], *, servers: Sequence[Pod] = ()
    ) -> TracedProbe:
        host = self.namespace_of(node_client(node))
        client = probe.namespace.namespace if isinstance(probe.namespace, SocketMaker) else probe.namespace
        places = {client: "client", host: f"node {node}"}
        for pod in servers:
            places.setdefault(self.namespace_of(pod), f"server {pod.name}")
        names = {where: each for each, where in places.items() if isinstance(each, Namespace)}
        return probe_tracing.follow(probe, host, names, ask=lambda each: self.probe([each])[0], is_same=is_same)


def kernel_evidence(nodes: Mapping[str, NetworkPeer]) -> dict[str, str]:
    texts = {}
    for name, host in nodes.items():
        texts[f"network-{name}.txt"] = gathered(partial(kernel_state.as_text, host.namespace))
        texts[f"connections-{name}.txt"] = gathered(partial(conntrack.as_text, host.namespace))
    return texts
